//! Ready-made frames out by AF_XDP (Documentation/networking/af_xdp.rst).
//!
//! ```text
//!   frames in memory of ours that the kernel reads ◀── addresses ── TX ring ◀── we fill it
//!                                                  ── addresses ──▶ completion ring ──▶ free again
//! ```
//!
//! Always in copy mode: no XDP program is loaded, no driver is set up anew, and what the device
//! receives goes where it went before. A copied frame takes the same way out as one of a packet
//! socket without queueing discipline (net/core/dev.c `__dev_direct_xmit`), for less work before it.

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use rustix::net::sockopt;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING, XdpDesc,
    XdpDescOptions, XdpRingOffset, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, bind, send, socket_with};

/// Places of either ring, and frames in memory; a power of two. More than a burst, so that those
/// still under way are not waited for.
const FRAMES: u32 = 256;
/// The least that a chunk of the memory may be (net/xdp/xdp_umem.c `XDP_UMEM_MIN_CHUNK_SIZE`). A
/// frame may lie anywhere in one, but in one alone.
const CHUNK: u32 = 2048;
/// How often the kernel is told of a burst: it takes 16 or 32 frames each time (net/xdp/xsk.c
/// `TX_BATCH_SIZE`) and then says EAGAIN.
const KICKS: u32 = 8;

/// Pages mapped for as long as this lives.
#[derive(Debug)]
struct Mapped {
    start: NonNull<u8>,
    length: usize,
}

/// A ring shared with the kernel: one side writes entries and then how many, the other reads them
/// and then says how far. Both count on and wrap.
#[derive(Debug)]
struct Ring {
    pages: Mapped,
    offset: XdpRingOffset,
}

/// A socket by which frames leave that differ in their first bytes only.
#[derive(Debug)]
pub struct XdpSender {
    // Closed first; then nobody looks at the pages any more.
    socket: OwnedFd,
    frames: Mapped,
    queue: Ring,
    done: Ring,
    /// Addresses of frames that the kernel does not hold.
    free: Vec<u64>,
    length: u32,
    /// Bytes of a frame in which it differs from the others.
    head: usize,
}

impl Mapped {
    fn of(made: rustix::io::Result<*mut std::ffi::c_void>, length: usize) -> io::Result<Self> {
        let start = NonNull::new(made?.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, length })
    }

    fn at<T>(&self, offset: usize) -> io::Result<NonNull<T>> {
        if offset.saturating_add(size_of::<T>()) > self.length {
            return Err(Errno::INVAL.into());
        }
        #[expect(unsafe_code, reason = "an address within the pages")]
        // SAFETY: the place lies within the mapping, as was just seen.
        Ok(unsafe { self.start.add(offset) }.cast())
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "the mapping is ours")]
        // SAFETY: mapped with this length, and nothing of ours refers to it any more.
        let done = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
        if let Err(e) = done {
            log::warn!("pages of an XDP socket stay mapped: {e}");
        }
    }
}

impl Ring {
    fn map(socket: &OwnedFd, offset: XdpRingOffset, entry: usize, at: u64) -> io::Result<Self> {
        let length = offset.desc as usize + FRAMES as usize * entry;
        #[expect(unsafe_code, reason = "the ring is memory shared with the kernel")]
        // SAFETY: a new mapping at a place of the kernel's choice aliases nothing of ours.
        let made = unsafe {
            let both = ProtFlags::READ | ProtFlags::WRITE;
            mmap(
                std::ptr::null_mut(),
                length,
                both,
                MapFlags::SHARED | MapFlags::POPULATE,
                socket,
                at,
            )
        };
        let ring = Self { pages: Mapped::of(made, length)?, offset };
        // So that what follows need not look again.
        ring.pages.at::<u32>(offset.producer as usize)?;
        ring.pages.at::<u32>(offset.consumer as usize)?;
        Ok(ring)
    }

    fn counter(&self, at: u64) -> &AtomicU32 {
        #[expect(unsafe_code, reason = "counters that the kernel writes")]
        // SAFETY: within the pages (see `map`), which live as long as self; the kernel aligns them
        // (struct xdp_ring, net/xdp/xsk_queue.h), and both sides only use them atomically.
        unsafe {
            AtomicU32::from_ptr(self.pages.start.as_ptr().add(at as usize).cast())
        }
    }

    fn producer(&self) -> &AtomicU32 {
        self.counter(self.offset.producer)
    }

    fn consumer(&self) -> &AtomicU32 {
        self.counter(self.offset.consumer)
    }

    /// The place of an entry, which is ours until the counter says otherwise.
    fn entry<T>(&self, number: u32) -> *mut T {
        let at = self.offset.desc as usize + (number % FRAMES) as usize * size_of::<T>();
        #[expect(unsafe_code, reason = "an entry of the ring")]
        // SAFETY: the pages hold FRAMES entries of this type behind `desc` (see `map`).
        unsafe {
            self.pages.start.as_ptr().add(at).cast()
        }
    }
}

#[expect(unsafe_code, reason = "addresses of pages, which any thread may use")]
// SAFETY: the pages belong to this value alone, and the kernel does not ask which thread it is.
unsafe impl Send for XdpSender {}

impl XdpSender {
    /// A socket that sends copies of `frame` by a transmit queue of the device with this number, in
    /// the calling thread's network namespace; they differ in the first `head` bytes.
    ///
    /// # Errors
    /// EAFNOSUPPORT without CONFIG_XDP_SOCKETS; EPERM without CAP_NET_RAW; EBUSY for a queue that
    /// another such socket has; EINVAL for a queue that is not there and before kernel 5.4; EMSGSIZE
    /// for a frame of more than 2048 bytes; ENOBUFS for more pages than may be locked.
    pub fn open(ifindex: u32, queue: u32, frame: &[u8], head: usize) -> io::Result<Self> {
        // Small frames close to each other: a chunk for each would put them all into a few sets of
        // the cache.
        let slot = frame.len().next_power_of_two().max(64);
        if slot > CHUNK as usize || head > frame.len() {
            return Err(Errno::MSGSIZE.into());
        }
        let socket = socket_with(AddressFamily::XDP, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        let length = FRAMES as usize * slot;
        #[expect(unsafe_code, reason = "pages that the kernel will read")]
        // SAFETY: a new mapping at a place of the kernel's choice aliases nothing of ours.
        let made = unsafe {
            let both = ProtFlags::READ | ProtFlags::WRITE;
            mmap_anonymous(std::ptr::null_mut(), length, both, MapFlags::PRIVATE)
        };
        let frames = Mapped::of(made, length)?;
        let free: Vec<u64> = (0..u64::from(FRAMES)).map(|n| n * slot as u64).collect();
        for &address in &free {
            let to = frames.at::<u8>(address as usize)?;
            #[expect(unsafe_code, reason = "the pages are filled once")]
            // SAFETY: a slot is as long as the frame or longer, and ends within the pages.
            unsafe {
                to.copy_from_nonoverlapping(NonNull::from(frame).cast(), frame.len());
            }
        }
        sockopt::set_xdp_umem_reg(
            &socket,
            XdpUmemReg {
                addr: frames.start.as_ptr() as u64,
                len: length as u64,
                chunk_size: CHUNK,
                headroom: 0,
                flags: XdpUmemRegFlags::empty(),
                tx_metadata_len: 0,
            },
        )?;
        // A socket that receives nothing must have a fill ring all the same (`xsk_validate_queues`).
        sockopt::set_xdp_umem_fill_ring_size(&socket, FRAMES)?;
        sockopt::set_xdp_umem_completion_ring_size(&socket, FRAMES)?;
        sockopt::set_xdp_tx_ring_size(&socket, FRAMES)?;
        let offsets = sockopt::xdp_mmap_offsets(&socket)?;
        let entry = size_of::<XdpDesc>();
        let tx = Ring::map(&socket, offsets.tx, entry, XDP_PGOFF_TX_RING)?;
        let done = Ring::map(&socket, offsets.cr, 8, XDP_UMEM_PGOFF_COMPLETION_RING)?;
        // In copy mode the kernel always waits to be told, and says so in the ring's flags.
        let flags = SocketAddrXdpFlags::XDP_COPY | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
        bind(&socket, &SocketAddrXdp::new(flags, ifindex, queue))?;
        let length = u32::try_from(frame.len()).unwrap_or(CHUNK);
        Ok(Self { socket, frames, queue: tx, done, free, length, head })
    }

    /// Hands up to `count` frames with numbers from `first` on to the kernel; returns how many. Those
    /// of the last calls that it has not taken yet are told by [`Self::left`]. `stamp` writes the head
    /// of the frame with a number.
    ///
    /// # Errors
    /// ENETDOWN and the like; what passes (no buffer for a moment) is none.
    pub fn send(
        &mut self,
        first: u64,
        count: usize,
        stamp: impl Fn(u64, &mut [u8]),
    ) -> Result<usize, Errno> {
        self.reclaim();
        let tail = self.queue.producer().load(Ordering::Relaxed);
        // A frame that is free has been taken out of the ring: there is room for as many.
        let mut filled = 0_u32;
        for number in (first..).take(count) {
            let Some(address) = self.free.pop() else { break };
            let entry =
                XdpDesc { addr: address, len: self.length, options: XdpDescOptions::empty() };
            #[expect(unsafe_code, reason = "a frame and a descriptor, both ours")]
            // SAFETY: the kernel holds neither: the address is a free slot's, which is longer than the
            // head (see `open`), and the entry is behind the producer's counter.
            unsafe {
                let place = self.frames.start.as_ptr().add(address as usize);
                stamp(number, std::slice::from_raw_parts_mut(place, self.head));
                self.queue.entry::<XdpDesc>(tail.wrapping_add(filled)).write(entry);
            }
            filled += 1;
        }
        self.queue.producer().store(tail.wrapping_add(filled), Ordering::Release);
        self.kick()?;
        Ok(filled as usize)
    }

    /// Frames that [`Self::send`] took and the kernel did not, after telling it once more.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn left(&mut self) -> Result<u32, Errno> {
        self.kick()?;
        Ok(self.waiting())
    }

    fn waiting(&self) -> u32 {
        let tail = self.queue.producer().load(Ordering::Relaxed);
        tail.wrapping_sub(self.queue.consumer().load(Ordering::Acquire))
    }

    fn kick(&self) -> Result<(), Errno> {
        for _ in 0..KICKS {
            match send(&self.socket, &[], SendFlags::DONTWAIT) {
                Ok(_) => return Ok(()),
                // More to take, no buffer for a moment, or a frame that the device did not want.
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::BUSY | Errno::INTR) => {}
                Err(error) => return Err(error),
            }
            if self.waiting() == 0 {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Takes back the frames that have left.
    fn reclaim(&mut self) {
        let head = self.done.consumer().load(Ordering::Relaxed);
        let fresh = self.done.producer().load(Ordering::Acquire).wrapping_sub(head).min(FRAMES);
        for number in 0..fresh {
            #[expect(unsafe_code, reason = "an entry that the kernel has written")]
            // SAFETY: the entry lies before the producer's counter and behind ours.
            let address = unsafe { self.done.entry::<u64>(head.wrapping_add(number)).read() };
            if address + u64::from(self.length) <= self.frames.length as u64 {
                self.free.push(address);
            }
        }
        self.done.consumer().store(head.wrapping_add(fresh), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::sys::netns::NetnsThread;

    #[test]
    fn what_can_not_be_sent_by_is_an_error_and_leaves_nothing() {
        let Ok(netns) = NetnsThread::create() else { crate::skip!("network namespaces need root") };
        let tried = netns.run(|| {
            let open = |device, queue, size| {
                XdpSender::open(device, queue, &vec![0; size], 50)
                    .map(drop)
                    .map_err(|e| e.raw_os_error())
            };
            (open(1, 0, 64), open(99, 0, 64), open(1, 77, 64), open(1, 0, 3000), open(1, 0, 49))
        });
        let (loopback, nowhere, no_queue, large, short) = tried.unwrap();
        let code = |errno: Errno| Err(Some(errno.raw_os_error()));
        assert_eq!((large, short), (code(Errno::MSGSIZE), code(Errno::MSGSIZE)));
        if loopback == code(Errno::AFNOSUPPORT) {
            crate::skip!("this kernel has no AF_XDP (CONFIG_XDP_SOCKETS)");
        }
        assert_eq!(nowhere, code(Errno::NODEV));
        assert_eq!(no_queue, code(Errno::INVAL));
    }
}
