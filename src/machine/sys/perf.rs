//! Samples of what each CPU runs: perf_event_open(2), one event and one ring for each CPU.

use std::ffi::{c_int, c_long};
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::sync::atomic::{Ordering, fence};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

// include/uapi/linux/perf_event.h
const TYPE_HARDWARE: u32 = 0;
const TYPE_SOFTWARE: u32 = 1;
const TYPE_TRACEPOINT: u32 = 2;
const HW_CPU_CYCLES: u64 = 0;
const SW_CPU_CLOCK: u64 = 0;
const SAMPLE_IP: u64 = 1;
const SAMPLE_CALLCHAIN: u64 = 1 << 5;
const SAMPLE_RAW: u64 = 1 << 10;
const FLAG_FD_CLOEXEC: c_long = 8;
/// Bits of the flags: `freq`, `exclude_hv`, `exclude_callchain_user`.
const FREQUENCY: u32 = 10;
const NO_HYPERVISOR: u32 = 6;
const NO_USER_CHAIN: u32 = 22;
/// Where `data_head` and `data_tail` lie in the first page.
const HEAD: usize = 1024;
const TAIL: usize = 1032;
/// Pages of a ring; a power of two. A thousand samples a second of 250 bytes fill it in a second:
/// on a CPU that is all softirq the reader may wait that long.
const PAGES: usize = 64;

/// `struct perf_event_attr` as of its first version.
#[repr(C)]
#[derive(Debug)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    frequency: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    config1: u64,
}

/// The event that triggers a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The processor's own counter of cycles; not while it idles.
    Cycles,
    /// A timer: where there is no such counter (many virtual machines). Idle time is sampled too, and
    /// a stretch with interrupts off is seen only at its end.
    Clock,
    /// Every time that the kernel comes by a tracepoint, by its number: its data and nothing else.
    Tracepoint(u32),
}

/// The bit of a flag: the compiler lays bit fields from the other end on big-endian machines.
fn bit(number: u32) -> u64 {
    1 << if cfg!(target_endian = "big") { 63 - number } else { number }
}

/// The samples of one CPU.
#[derive(Debug)]
pub struct Sampler {
    _event: OwnedFd,
    ring: *mut u8,
    /// Bytes of the data behind the first page; a power of two.
    length: usize,
    page: usize,
    /// How far the ring was read.
    tail: u64,
}

impl Sampler {
    /// Begins to sample a CPU, so many times a second; a tracepoint whenever it is passed.
    ///
    /// # Errors
    /// EACCES or EPERM without the right (`kernel.perf_event_paranoid`, CAP_PERFMON); ENOENT or
    /// EOPNOTSUPP where the source is not there; ENOSYS where the kernel has no perf events; ENODEV
    /// for a CPU that is offline.
    pub fn open(cpu: u32, source: Source, frequency: u32) -> io::Result<Self> {
        let (kind, config) = match source {
            Source::Cycles => (TYPE_HARDWARE, HW_CPU_CYCLES),
            Source::Clock => (TYPE_SOFTWARE, SW_CPU_CLOCK),
            Source::Tracepoint(id) => (TYPE_TRACEPOINT, u64::from(id)),
        };
        let chains = (
            u64::from(frequency),
            SAMPLE_IP | SAMPLE_CALLCHAIN,
            bit(FREQUENCY) | bit(NO_HYPERVISOR) | bit(NO_USER_CHAIN),
        );
        // A period of 1: each time.
        let (frequency, sample_type, flags) =
            if kind == TYPE_TRACEPOINT { (1, SAMPLE_RAW, 0) } else { chains };
        let attributes = Attributes {
            kind,
            size: u32::try_from(size_of::<Attributes>()).unwrap_or(64),
            config,
            frequency,
            sample_type,
            read_format: 0,
            flags,
            wakeup: 0,
            breakpoint: 0,
            config1: 0,
        };
        let cpu = c_long::from(i32::try_from(cpu).unwrap_or(i32::MAX));
        let (all, no_group): (c_long, c_long) = (-1, -1);
        #[expect(unsafe_code, reason = "perf_event_open(2) has no wrapper")]
        // SAFETY: the attributes outlive the call and say their own size; the others are numbers.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                all,
                cpu,
                no_group,
                FLAG_FD_CLOEXEC,
            )
        };
        let number = c_int::try_from(answer).ok().filter(|n| *n >= 0);
        let Some(number) = number else { return Err(io::Error::last_os_error()) };
        #[expect(unsafe_code, reason = "the descriptor was just opened")]
        // SAFETY: the kernel gave this descriptor to us alone.
        let event = unsafe { OwnedFd::from_raw_fd(number) };
        let page = rustix::param::page_size();
        let length = PAGES * page;
        #[expect(unsafe_code, reason = "the ring is memory shared with the kernel")]
        // SAFETY: a new mapping at a place of the kernel's choice aliases nothing of ours.
        let ring = unsafe {
            mmap(
                std::ptr::null_mut(),
                page + length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                event.as_fd(),
                0,
            )
        }?;
        Ok(Self { _event: event, ring: ring.cast(), length, page, tail: 0 })
    }

    /// Takes the records that came since, as the kernel wrote them (`struct perf_event_header` and
    /// what follows).
    pub fn drain(&mut self, records: &mut Vec<u8>) {
        #[expect(unsafe_code, reason = "the head is in memory shared with the kernel")]
        // SAFETY: the first page is mapped for as long as self lives, and the place is aligned.
        let head = unsafe { self.ring.add(HEAD).cast::<u64>().read_volatile() };
        fence(Ordering::Acquire);
        // The kernel does not write over what was not read; more than the ring can't be there.
        let fresh = usize::try_from(head.wrapping_sub(self.tail)).unwrap_or(0).min(self.length);
        let mask = self.length - 1;
        let start = usize::try_from(self.tail).unwrap_or(0) & mask;
        let first = fresh.min(self.length - start);
        for (from, count) in [(start, first), (0, fresh - first)] {
            #[expect(unsafe_code, reason = "the records are in memory shared with the kernel")]
            // SAFETY: from + count is at most the length of the ring, all of it mapped; the kernel
            // writes only behind the head until the tail is moved.
            let bytes =
                unsafe { std::slice::from_raw_parts(self.ring.add(self.page + from), count) };
            records.extend_from_slice(bytes);
        }
        self.tail = head;
        fence(Ordering::Release);
        #[expect(unsafe_code, reason = "the tail is in memory shared with the kernel")]
        // SAFETY: as for the head; only we write the tail.
        unsafe {
            self.ring.add(TAIL).cast::<u64>().write_volatile(head);
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "the mapping is ours")]
        // SAFETY: mapped with this length by open, and nothing refers to it any more.
        let done = unsafe { munmap(self.ring.cast(), self.page + self.length) };
        if let Err(e) = done {
            log::warn!("the ring of samples stays mapped: {e}");
        }
    }
}
