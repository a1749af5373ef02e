//! The built-in traffic generator, and readers for the reports of others.
//!
//! In come a load and the places of its two ends; out go the bytes and datagrams sent and received,
//! and the generator's own CPU time. It opens sockets and starts threads and programs at those two
//! places, and changes no setting.
//!
//! ```text
//!   namespace `lan`                 router                    namespace `wan`
//!   sender thread ──▶ stream 0 ────────▶ NAT ────────▶ receiver thread      up
//!   receiver thread ◀── stream 1 ◀────── NAT ◀──────── sender thread        down
//! ```
//!
//! A stream is one connection with one thread at each end. It is always opened from the LAN, as
//! NAT demands; the direction only says who sends. The figure is *goodput*: payload bytes that the
//! receiving program got within the measured window, by the receiver's clock. Where segments were
//! lost, payload counts when it came, and not when the lost ones before it had come as well.
//!
//! Everything is bounded: sockets have short timeouts, the drain has a deadline, every thread is
//! joined, and a raised stop flag ends a run within a fraction of a second.

pub mod address;
mod frames;
pub mod half;
pub mod iperf2;
pub mod iperf3;
pub mod latency;
mod pace;
pub mod partner;
pub mod speedtest;
pub mod spinner;
mod tcp;
mod udp;
mod workers;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::error::{Error, ExitCode, Result};
use crate::machine::host::clock;
use crate::machine::sys::netns::NetnsThread;
use crate::model::cpuset::CpuSet;
use crate::model::measurement::{Direction, Protocol};
use crate::model::units::BitRate;
use half::{Local, Run, SocketPlace};
use partner::Secret;

/// The most streams per direction; `iperf3` stops at the same number. Each takes two threads.
pub const MAX_STREAMS: u32 = 128;
/// The longest run, one day, in seconds.
pub const MAX_SECONDS: f64 = 86_400.0;
/// The smallest UDP payload: room for the sequence number.
pub const MIN_DATAGRAM: usize = udp::HEADER;
/// The largest UDP payload over IPv4.
pub const MAX_DATAGRAM: usize = 65_507;
/// Segment sizes that TCP accepts (`TCP_MIN_MSS` 88 to `MAX_TCP_WINDOW` 32767).
pub const MSS: std::ops::RangeInclusive<u32> = 88..=32_767;

/// Load of a run: kind, direction, rate and duration.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadSpec {
    /// TCP or UDP.
    pub protocol: Protocol,
    /// Direction of the payload. With [`Direction::Both`] each direction has all the streams.
    pub direction: Direction,
    /// Parallel streams per direction, 1 to [`MAX_STREAMS`].
    pub streams: u32,
    /// Length of the measured window, seconds.
    pub seconds: f64,
    /// Seconds before the window that do not count.
    pub omit: f64,
    /// True if a measurement may be made again with more of both where the line needs it.
    pub stretch: bool,
    /// Payload rate per direction, all streams together; `None` is as fast as it goes.
    pub rate: Option<BitRate>,
    /// UDP payload bytes per datagram.
    pub datagram: usize,
    /// Method by which datagrams leave.
    pub sender: Sender,
    /// True if datagrams that a stall of the sender held back stay unsent, so that they never come
    /// faster than asked for but by a few milliseconds' worth. If false, a stall is made up for, at
    /// up to 1.1 times the rate.
    pub steady: bool,
    /// TCP payload bytes per segment, in both directions; `None` is what the path allows.
    pub mss: Option<u32>,
}

/// Method by which UDP datagrams leave the sending side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sender {
    /// By UDP sockets: the sender's IP stack does its part.
    #[default]
    Socket,
    /// As ready-made frames, past the sender's IP stack: for small packets. IPv4 over Ethernet. By
    /// what is cheapest of what can be had.
    Frames,
    /// As frames by packet(7) sockets.
    Packet,
    /// As frames by xdp sockets, of any size that fits; by AF_PACKET where they can't be had.
    Xdp,
}

impl Sender {
    /// All of them, in a fixed order.
    pub const ALL: [Self; 4] = [Self::Socket, Self::Frames, Self::Packet, Self::Xdp];

    /// Name of the method on the command line and between agents.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Socket => "socket",
            Self::Frames => "frames",
            Self::Packet => "packet",
            Self::Xdp => "xdp",
        }
    }
}

impl LoadSpec {
    /// Bulk TCP without a rate limit.
    #[must_use]
    pub fn tcp(direction: Direction, streams: u32, seconds: f64, omit: f64) -> Self {
        Self {
            protocol: Protocol::Tcp,
            direction,
            streams,
            seconds,
            omit,
            stretch: false,
            rate: None,
            datagram: 1472,
            sender: Sender::Socket,
            steady: false,
            mss: None,
        }
    }

    /// UDP at `rate` in datagrams that fill a packet of 1500 bytes.
    #[must_use]
    pub fn udp(direction: Direction, streams: u32, seconds: f64, rate: Option<BitRate>) -> Self {
        Self { protocol: Protocol::Udp, rate, ..Self::tcp(direction, streams, seconds, 0.0) }
    }

    /// Checks that the load can be run at all.
    ///
    /// # Errors
    /// A usage error that names the field, the value and what is allowed.
    pub fn check(&self) -> Result<()> {
        let bad = |what: &str, why: String| Err(Error::usage(what, why));
        if !(1..=MAX_STREAMS).contains(&self.streams) {
            return bad("streams", format!("{}: from 1 to {MAX_STREAMS}", self.streams));
        }
        // Not `<= 0.0`: that would let NaN pass.
        if !(self.seconds > 0.0 && self.seconds <= MAX_SECONDS) {
            return bad("seconds", format!("{}: above 0, up to {MAX_SECONDS}", self.seconds));
        }
        if !(self.omit >= 0.0 && self.omit <= MAX_SECONDS) {
            return bad("omit", format!("{}: from 0 to {MAX_SECONDS} seconds", self.omit));
        }
        if let Some(BitRate(rate)) = self.rate
            && !(1e3..=1e13).contains(&rate)
        {
            return bad("rate", format!("{rate} bit/s: from 1000 to 10^13"));
        }
        if self.protocol == Protocol::Udp && !(MIN_DATAGRAM..=MAX_DATAGRAM).contains(&self.datagram)
        {
            let why = format!("{} bytes: from {MIN_DATAGRAM} to {MAX_DATAGRAM}", self.datagram);
            return bad("datagram", why);
        }
        if self.protocol == Protocol::Tcp && self.sender != Sender::Socket {
            return bad("sender", "frames are for UDP".into());
        }
        if let Some(mss) = self.mss
            && !MSS.contains(&mss)
        {
            return bad("mss", format!("{mss} bytes: from {} to {}", MSS.start(), MSS.end()));
        }
        Ok(())
    }

    /// The single directions that it consists of.
    #[must_use]
    pub fn directions(&self) -> &'static [Direction] {
        match self.direction {
            Direction::Down => &[Direction::Down],
            Direction::Up => &[Direction::Up],
            Direction::Both => &[Direction::Down, Direction::Up],
        }
    }
}

/// Between whom. Sockets are opened on the namespaces' own threads and stay in them.
#[derive(Clone)]
pub struct Ends {
    /// The side that opens connections.
    pub lan: Arc<NetnsThread>,
    /// The side that answers.
    pub wan: Arc<NetnsThread>,
    /// An address of `wan`.
    pub wan_address: IpAddr,
    /// CPUs on which the generator's threads must run; `None` leaves it to the scheduler.
    pub cpus: Option<CpuSet>,
}

/// A moment of a run, reported to whoever samples beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The measured window begins.
    WindowOpens,
    /// A piece of the window has ended and the next begins.
    Within,
    /// The measured window has ended; traffic may still be draining.
    WindowCloses,
}

/// Result of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadResult {
    /// Length of the measured window as it came out.
    pub seconds: f64,
    /// Length of the whole run, drain included.
    pub total_seconds: f64,
    /// One per direction, in the order of [`LoadSpec::directions`].
    pub flows: Vec<FlowResult>,
    /// The window in pieces: one ends at each [`Moment::Within`], the last at its close.
    pub pieces: Vec<LoadPiece>,
    /// True if the stop flag cut the run short.
    pub interrupted: bool,
}

/// A piece of the window.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadPiece {
    /// Seconds from the opening of the window to the end of the piece.
    pub at: f64,
    /// Length of the piece, seconds.
    pub seconds: f64,
    /// Payload bytes that the receivers got, one per direction.
    pub bytes: Vec<u64>,
}

/// Result of one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowResult {
    /// Direction of the payload; never [`Direction::Both`].
    pub direction: Direction,
    /// Payload bytes that the receivers got within the window; of TCP that lost some, those that
    /// came to the receiving machine, for the program gets what is behind a lost one late.
    pub window_bytes: u64,
    /// Payload bytes that the senders handed to the kernel within the window.
    pub window_sent: u64,
    /// Payload bytes that the receivers got, whole run.
    pub bytes: u64,
    /// Payload bytes that the senders handed to the kernel, whole run.
    pub sent: u64,
    /// Bytes of link, network and transport header per packet.
    pub header_bytes: u64,
    /// TCP segments sent again; `None` for UDP.
    pub retransmits: Option<u64>,
    /// Payload bytes in them; `None` where the kernel does not report them (before 4.19) and for
    /// UDP.
    pub retransmitted_bytes: Option<u64>,
    /// Round trips by the senders' TCP; `None` for UDP.
    pub round_trips: Option<RoundTrips>,
    /// Counts of datagrams by the receivers' reports; `None` for TCP, and if a report is missing.
    pub datagrams: Option<Datagrams>,
    /// Streams that ended without the receiver's acknowledgement: for TCP the end of the stream
    /// with every byte sent before it, or payload of its direction after the window was over; for
    /// UDP the receiver's report.
    pub unacknowledged: u32,
    /// Interface by which ready-made frames left, in words.
    pub sent_by: Option<String>,
    /// The first thing that went wrong on a stream.
    pub error: Option<String>,
    /// CPU seconds of all generator threads within the window, user and kernel.
    pub cpu_seconds: f64,
    /// The largest share of one CPU that a generator thread used in the window, 0 to 1.
    pub busiest_thread: f64,
}

/// Round trips of the streams of a side, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundTrips {
    /// The shortest of the run.
    pub shortest: f64,
    /// The longest of a stream at the end of the load, queues on the way included.
    pub loaded: f64,
}

/// Datagrams by the receivers' reports, whole run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Datagrams {
    /// Sent, by the senders' count.
    pub sent: u64,
    /// Arrived, each counted once.
    pub received: u64,
    /// Sent but not arrived.
    pub lost: u64,
    /// Arrived more than once.
    pub duplicates: u64,
    /// Arrived after one with a higher number.
    pub reordered: u64,
}

/// Sends as asked between two sides that threads of this process serve, and waits for all of it to
/// end. `on` is called from the calling thread at each [`Moment`].
///
/// # Errors
/// A usage error from [`LoadSpec::check`]; not supported or not permitted when sockets or threads
/// can't be had; interrupted when `stop` was raised before traffic began. Trouble during the run
/// is no error: the result reports it.
pub fn run(
    ends: &Ends,
    spec: &LoadSpec,
    stop: &AtomicBool,
    on: &mut dyn FnMut(Moment),
) -> Result<LoadResult> {
    let side = |netns: &Arc<NetnsThread>| {
        Local::new(SocketPlace(Some(Arc::clone(netns))), ends.cpus.clone())
    };
    let (spec, secret) = (spec.clone(), Secret::default());
    let run = Run { spec, id: fastrand::u64(..), address: ends.wan_address, secret };
    half::drive(&mut side(&ends.lan), &mut side(&ends.wan), &run, stop, on)
}

/// Checks that the wait for the other side, before traffic begins, may go on.
///
/// # Errors
/// Interrupted if `stop` was raised; refused (exit 6) if `deadline` (monotonic) is over.
fn still_waiting(deadline: Duration, stop: &AtomicBool, what: &str) -> Result<()> {
    if stop.load(Ordering::Relaxed) {
        return Err(Error::interrupted("load"));
    }
    if clock::monotonic() >= deadline {
        return Err(Error::new(ExitCode::Refused, what, "no answer in time")
            .hint("is the router forwarding, and are its links up?"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_not_be_run_is_a_usage_error_that_names_it() {
        let good = LoadSpec::tcp(Direction::Up, 16, 1.0, 0.5);
        assert_eq!(good.check(), Ok(()));
        let udp = LoadSpec::udp(Direction::Up, 1, 1.0, None);
        let cases = [
            ("streams", LoadSpec { streams: 10_000, ..good.clone() }),
            ("streams", LoadSpec { streams: 0, ..good.clone() }),
            ("seconds", LoadSpec { seconds: 0.0, ..good.clone() }),
            ("seconds", LoadSpec { seconds: f64::NAN, ..good.clone() }),
            ("seconds", LoadSpec { seconds: f64::INFINITY, ..good.clone() }),
            ("omit", LoadSpec { omit: -1.0, ..good.clone() }),
            ("rate", LoadSpec { rate: Some(BitRate(0.0)), ..good.clone() }),
            ("rate", LoadSpec { rate: Some(BitRate(f64::NAN)), ..good.clone() }),
            ("mss", LoadSpec { mss: Some(87), ..good }),
            ("datagram", LoadSpec { datagram: 10, ..udp.clone() }),
            ("datagram", LoadSpec { datagram: 65_508, ..udp }),
        ];
        for (what, spec) in cases {
            let error = spec.check().unwrap_err();
            assert_eq!(error.code(), ExitCode::Usage);
            assert!(error.to_string().starts_with(what), "{error}");
        }
    }
}
