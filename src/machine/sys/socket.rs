//! Socket options that rustix does not have: what TCP itself has counted, its segment size, and
//! which network namespace it is.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// `SOL_TCP`, the same on every architecture (include/linux/socket.h).
const SOL_TCP: i32 = 6;
/// `TCP_MAXSEG` (include/uapi/linux/tcp.h).
const TCP_MAXSEG: i32 = 2;
/// `TCP_INFO` (include/uapi/linux/tcp.h).
const TCP_INFO: i32 = 11;
/// `TCP_NOTSENT_LOWAT` (include/uapi/linux/tcp.h), kernel 3.12.
const TCP_NOTSENT_LOWAT: i32 = 25;

/// `SOL_NETLINK` (include/linux/socket.h).
const SOL_NETLINK: i32 = 270;
/// `NETLINK_ADD_MEMBERSHIP` (the same file as the next).
const NETLINK_ADD_MEMBERSHIP: i32 = 1;
/// `NETLINK_EXT_ACK` (include/uapi/linux/netlink.h).
const NETLINK_EXT_ACK: i32 = 11;

#[expect(unsafe_code, reason = "the C library's calls, to which std is linked anyway")]
unsafe extern "C" {
    fn getsockopt(fd: i32, level: i32, name: i32, value: *mut u8, length: *mut u32) -> i32;
    fn setsockopt(fd: i32, level: i32, name: i32, value: *const u8, length: u32) -> i32;
}

/// State and counters of a TCP connection. `None` where the kernel is older than the counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpInfo {
    /// True if the other end has acknowledged every byte and the end of the stream, or if the
    /// connection is no more.
    pub over: bool,
    /// Round trip as TCP smooths it, queues on the way included.
    pub round_trip: Duration,
    /// The shortest round trip of the last minutes (kernel 4.6).
    pub shortest_round_trip: Option<Duration>,
    /// Bytes that the other end has acknowledged (kernel 4.1).
    pub acknowledged: Option<u64>,
    /// Bytes that wait for their first transmission (kernel 4.6).
    pub unsent: Option<u64>,
    /// True if segments carry the timestamp option (12 more bytes of header).
    pub timestamps: bool,
    /// Segments sent again.
    pub retransmits: u64,
    /// Payload bytes in them (kernel 4.19).
    pub retransmitted_bytes: Option<u64>,
    /// Segments with payload that have come, whatever their order (kernel 4.6).
    pub arrived: Option<u64>,
    /// Segments sent in all, acknowledgements included (kernel 4.2).
    pub segments: Option<u64>,
}

/// Limits the payload of a segment in both directions; to be set before connecting or listening.
///
/// # Errors
/// EINVAL below 88 or above 32767 bytes (net/ipv4/tcp.c `do_tcp_setsockopt`).
pub fn set_tcp_maxseg(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    set(socket, SOL_TCP, TCP_MAXSEG, bytes)
}

/// Limits the bytes of a connection that wait for their first transmission: what is written beyond
/// blocks.
///
/// # Errors
/// ENOPROTOOPT before kernel 3.12.
pub fn set_tcp_notsent_lowat(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    set(socket, SOL_TCP, TCP_NOTSENT_LOWAT, bytes)
}

fn set(socket: impl AsFd, level: i32, name: i32, value: u32) -> io::Result<()> {
    let value = i32::try_from(value).unwrap_or(i32::MAX).to_ne_bytes();
    #[expect(unsafe_code, reason = "setsockopt(2)")]
    // SAFETY: the descriptor is open while it is borrowed, and `value` is as long as said.
    let answer = unsafe { setsockopt(socket.as_fd().as_raw_fd(), level, name, value.as_ptr(), 4) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the kernel say in words why it refused a netlink message.
///
/// # Errors
/// ENOPROTOOPT before kernel 4.12.
pub(super) fn ask_for_extended_acks(socket: impl AsFd) -> io::Result<()> {
    set(socket, SOL_NETLINK, NETLINK_EXT_ACK, 1)
}

/// Makes the kernel send a netlink socket the messages to a group.
///
/// # Errors
/// ENOENT where there is no such group.
pub(super) fn join_group(socket: impl AsFd, group: u32) -> io::Result<()> {
    set(socket, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, group)
}

/// `SOL_SOCKET`: 1 (include/uapi/asm-generic/socket.h), but for the ports that took over the
/// numbers of another Unix, of which MIPS is the one that routers have.
const SOL_SOCKET: i32 =
    if cfg!(any(target_arch = "mips", target_arch = "mips64")) { 0xffff } else { 1 };
/// `SO_NETNS_COOKIE` (the same file, and arch/mips/include/uapi/asm/socket.h).
const SO_NETNS_COOKIE: i32 = 71;

/// The number of the calling thread's network namespace: never given again in this boot
/// (net/core/net_namespace.c `net_gen_cookie`).
///
/// # Errors
/// ENOPROTOOPT before kernel 5.14.
pub fn netns_cookie() -> io::Result<u64> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let (mut value, mut length) = ([0; 8], 8);
    #[expect(unsafe_code, reason = "getsockopt(2)")]
    // SAFETY: the descriptor is open while it is borrowed; the kernel writes no more than `length`
    // bytes.
    let answer = unsafe {
        getsockopt(
            socket.as_raw_fd(),
            SOL_SOCKET,
            SO_NETNS_COOKIE,
            value.as_mut_ptr(),
            &raw mut length,
        )
    };
    if answer == 0 { Ok(u64::from_ne_bytes(value)) } else { Err(io::Error::last_os_error()) }
}

/// Counters of the connection so far.
///
/// # Errors
/// What getsockopt(2) answered.
pub fn tcp_info(socket: impl AsFd) -> io::Result<TcpInfo> {
    let mut buffer = [0u8; 256];
    let mut length = 256u32;
    #[expect(unsafe_code, reason = "getsockopt(2)")]
    // SAFETY: the descriptor is open while it is borrowed; the kernel writes no more than `length`
    // bytes and tells how many.
    let answer = unsafe {
        getsockopt(
            socket.as_fd().as_raw_fd(),
            SOL_TCP,
            TCP_INFO,
            buffer.as_mut_ptr(),
            &raw mut length,
        )
    };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(parse(buffer.get(..usize::try_from(length).unwrap_or(0)).unwrap_or(&buffer)))
}

/// `struct tcp_info` (include/uapi/linux/tcp.h) only ever grew at its end, and all its members lie
/// at their natural alignment: the offsets hold for every kernel and architecture.
fn parse(bytes: &[u8]) -> TcpInfo {
    const TIMESTAMPS: u8 = 1;
    /// FIN_WAIT2, TIME_WAIT and CLOSE (include/net/tcp_states.h).
    const OVER: std::ops::RangeInclusive<u8> = 5..=7;
    let u32_at =
        |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes).map(u64::from);
    let u64_at = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes);
    let time = |at: usize| u32_at(at).map(Duration::from_micros);
    TcpInfo {
        over: bytes.first().is_some_and(|state| OVER.contains(state)),
        round_trip: time(68).unwrap_or_default(),
        // All bits are set as long as there was none.
        shortest_round_trip: time(148).filter(|least| least.as_micros() < u128::from(u32::MAX)),
        acknowledged: u64_at(120),
        unsent: u32_at(144),
        arrived: u32_at(152),
        timestamps: bytes.get(5).is_some_and(|options| options & TIMESTAMPS != 0),
        retransmits: u32_at(100).unwrap_or(0),
        retransmitted_bytes: u64_at(208),
        segments: u32_at(136),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_kernel_counts_what_was_sent_on_loopback() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let before = tcp_info(&client).unwrap();
        client.write_all(b"hello").unwrap();
        server.read_exact(&mut [0; 5]).unwrap();
        assert_eq!(tcp_info(&server).unwrap().arrived, Some(1));
        let after = tcp_info(&client).unwrap();
        assert_eq!(after.segments.unwrap() - before.segments.unwrap(), 1);
        assert_eq!((after.retransmits, after.retransmitted_bytes), (0, Some(0)));
        let on = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_timestamps").unwrap();
        assert_eq!(after.timestamps, on.trim() != "0");
        assert!(after.round_trip > Duration::ZERO && after.round_trip < Duration::from_secs(60));
        assert!(after.shortest_round_trip.unwrap() <= after.round_trip, "{after:?}");
        assert!(!after.over);
        client.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(server.read(&mut [0; 5]).unwrap(), 0, "the end has come");
        let until = std::time::Instant::now() + Duration::from_secs(30);
        while !tcp_info(&client).unwrap().over {
            assert!(std::time::Instant::now() < until, "{:?}", tcp_info(&client));
        }
        // The first and the last segment have a number each.
        assert_eq!(tcp_info(&client).unwrap().acknowledged, Some(7));
    }

    #[test]
    fn no_more_is_taken_than_may_wait_for_its_first_transmission() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_server, _) = listener.accept().unwrap();
        client.set_nonblocking(true).unwrap();
        rustix::net::sockopt::set_socket_send_buffer_size(&client, 1 << 20).unwrap();
        // The receiver takes nothing: once its window is full, what more is taken is not sent. The
        // last segment that is begun, of 64 KiB at most on loopback, may still be filled.
        let unsent = || {
            while (&client).write(&[0; 4096]).is_ok() {}
            tcp_info(&client).unwrap().unsent.unwrap()
        };
        set_tcp_notsent_lowat(&client, 16 << 10).unwrap();
        let few = unsent();
        assert!((16 << 10..=80 << 10).contains(&few), "{few}");
        set_tcp_notsent_lowat(&client, u32::MAX).unwrap();
        assert!(unsent() > 100 << 10, "without the limit no more is taken: {}", unsent());
    }

    #[test]
    fn an_older_kernels_shorter_answer_lacks_counters_but_is_no_zero() {
        // Kernel 3.10 ended after tcpi_total_retrans, at 104 bytes.
        let info = parse(&[1; 104]);
        assert_eq!((info.segments, info.retransmitted_bytes), (None, None));
        assert_eq!(info.retransmits, 0x0101_0101);
        assert_eq!(parse(&[]), TcpInfo::default());
    }

    #[test]
    fn each_namespace_has_a_number_of_its_own_that_is_never_given_again() {
        let Ok(here) = netns_cookie() else { crate::skip!("SO_NETNS_COOKIE came with Linux 5.14") };
        assert_eq!(netns_cookie().unwrap(), here);
        let mut seen = vec![here];
        for _ in 0..3 {
            let Ok(netns) = crate::machine::sys::netns::NetnsThread::create() else {
                crate::skip!("network namespaces need root");
            };
            let cookie = netns.run(netns_cookie).unwrap().unwrap();
            assert!(!seen.contains(&cookie), "{cookie} again: {seen:?}");
            seen.push(cookie);
        }
    }

    #[test]
    fn a_segment_size_that_tcp_refuses_is_an_error() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert!(set_tcp_maxseg(&listener, 536).is_ok());
        assert!(set_tcp_maxseg(&listener, 1).is_err());
        assert!(set_tcp_maxseg(&listener, u32::MAX).is_err());
    }
}
