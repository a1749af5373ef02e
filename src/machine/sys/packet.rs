//! Whole Ethernet frames in and out (packet(7)), past the IP stack of this machine.

use std::io;
use std::num::NonZero;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, socket_with};

/// `ETH_P_IP` (include/uapi/linux/if_ether.h).
const ETH_P_IP: u16 = 0x0800;
/// `ARPHRD_ETHER` (include/uapi/linux/if_arp.h).
const ARPHRD_ETHER: u16 = 1;
const SOL_PACKET: i32 = 263;
/// `PACKET_QDISC_BYPASS` (include/uapi/linux/if_packet.h), kernel 3.14.
const PACKET_QDISC_BYPASS: i32 = 20;
/// Bytes of `struct sockaddr_ll`.
const ADDRESS: usize = 20;

#[expect(unsafe_code, reason = "the C library's calls, to which std is linked anyway")]
unsafe extern "C" {
    fn bind(fd: i32, address: *const u8, length: u32) -> i32;
    fn recvfrom(
        fd: i32,
        buffer: *mut u8,
        length: usize,
        flags: i32,
        address: *mut u8,
        address_length: *mut u32,
    ) -> isize;
    fn setsockopt(fd: i32, level: i32, name: i32, value: *const u8, length: u32) -> i32;
}

/// A socket of the packet family, in the network namespace of the thread that opened it.
#[derive(Debug)]
pub struct PacketSocket(OwnedFd);

/// A frame as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Number of the device it came in by.
    pub ifindex: u32,
    /// Ethernet header and all that follows, cut to the buffer.
    pub bytes: Vec<u8>,
}

impl PacketSocket {
    /// Sees IPv4 frames of all devices from now on.
    ///
    /// # Errors
    /// EPERM without CAP_NET_RAW; EAFNOSUPPORT without CONFIG_PACKET.
    pub fn open() -> io::Result<Self> {
        let protocol = NonZero::new(u32::from(ETH_P_IP.to_be())).map(Protocol::from_raw);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, protocol)?;
        Ok(Self(socket))
    }

    /// The next frame that came in by an Ethernet device; `None` when there is none yet.
    ///
    /// # Errors
    /// ENETDOWN and the like.
    pub fn next(&self) -> io::Result<Option<Frame>> {
        let mut buffer = [0_u8; 256];
        let got = self.next_into(&mut buffer)?;
        Ok(got.map(|(ifindex, length)| Frame {
            ifindex,
            bytes: buffer.get(..length).unwrap_or_default().to_vec(),
        }))
    }

    /// As [`PacketSocket::next`], into a buffer of the caller's: the device's number, and the bytes
    /// of the frame that the buffer had room for.
    ///
    /// # Errors
    /// As [`PacketSocket::next`].
    pub fn next_into(&self, buffer: &mut [u8]) -> io::Result<Option<(u32, usize)>> {
        loop {
            let mut address = [0_u8; ADDRESS];
            let mut length = ADDRESS as u32;
            #[expect(unsafe_code, reason = "recvfrom(2) with a link-layer address")]
            // SAFETY: the descriptor is open, both buffers are as long as said, and the kernel
            // writes no more than that.
            let got = unsafe {
                recvfrom(
                    self.0.as_raw_fd(),
                    buffer.as_mut_ptr(),
                    buffer.len(),
                    0,
                    address.as_mut_ptr(),
                    &raw mut length,
                )
            };
            let Ok(got) = usize::try_from(got) else {
                let error = io::Error::last_os_error();
                let none = error.kind() == io::ErrorKind::WouldBlock;
                return if none { Ok(None) } else { Err(error) };
            };
            // struct sockaddr_ll: family, protocol (2 each), ifindex (4), hatype (2), pkttype (1).
            let [_, _, _, _, a, b, c, d, e, f, kind, ..] = address;
            let outgoing = kind == 4; // PACKET_OUTGOING: our own
            if u16::from_ne_bytes([e, f]) == ARPHRD_ETHER && !outgoing {
                return Ok(Some((u32::from_ne_bytes([a, b, c, d]), got)));
            }
        }
    }

    /// A socket that only sends, by the device of that number, and without its queueing discipline
    /// where the kernel can.
    ///
    /// # Errors
    /// As [`PacketSocket::open`]; ENODEV for a device that is gone.
    pub fn sender(ifindex: u32) -> io::Result<Self> {
        // Protocol 0: nothing is delivered to this socket.
        let socket =
            socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        let mut address = [0_u8; ADDRESS];
        let family = AddressFamily::PACKET.as_raw().to_ne_bytes();
        for (place, byte) in address.iter_mut().zip(family) {
            *place = byte;
        }
        for (place, byte) in address.iter_mut().skip(4).zip(ifindex.to_ne_bytes()) {
            *place = byte;
        }
        let on = 1_i32.to_ne_bytes();
        #[expect(unsafe_code, reason = "bind(2) to a device, and an option")]
        // SAFETY: the descriptor is open, and both buffers are as long as said.
        let (bound, bypass) = unsafe {
            let fd = socket.as_raw_fd();
            (
                bind(fd, address.as_ptr(), ADDRESS as u32),
                setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, on.as_ptr(), 4),
            )
        };
        if bound != 0 {
            return Err(io::Error::last_os_error());
        }
        if bypass != 0 {
            log::debug!(
                "packets go through the queueing discipline: {}",
                io::Error::last_os_error()
            );
        }
        Ok(Self(socket))
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
