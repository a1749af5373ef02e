//! Round trips beside the load: how long a small packet takes to the other side and back.
//!
//! ```text
//!   lan: probe thread ──▶ router ──▶ wan: echo thread
//!                     ◀── router ◀──
//! ```
//!
//! A probe is sent at fixed times whether or not the last one came back, so a long wait does not
//! hide the waits that it caused. The time is taken in the program: what the threads themselves
//! wait for a CPU is in it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Ends, Moment};
use crate::error::{Error, Result};
use crate::host::clock;
use crate::model::histogram::Histogram;

/// Time between two probes.
pub const GAP: Duration = Duration::from_millis(5);
/// A probe that takes longer is lost.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// How long a receive may block: as late may the thread be for its next probe at most.
const SLICE: Duration = Duration::from_millis(1);
const STACK: usize = 128 << 10;

/// Probes on their way until [`Probe::finish`].
pub struct Probe {
    stop: Arc<AtomicBool>,
    window: Arc<AtomicU32>,
    client: JoinHandle<io::Result<Histogram>>,
    echo: JoinHandle<()>,
}

/// Values of the window's flag.
const OUTSIDE: u32 = 0;
const INSIDE: u32 = 1;

impl Probe {
    /// Starts probing. Only what is sent between [`Moment::WindowOpens`] and
    /// [`Moment::WindowCloses`] counts.
    ///
    /// # Errors
    /// Not supported or not permitted when sockets or threads can't be had.
    pub fn start(ends: &Ends) -> Result<Self> {
        let failed = |e: io::Error| Error::not_supported("start the latency probe", e);
        let gone = || failed(io::ErrorKind::NotConnected.into());
        let there = ends.wan_address;
        let server = ends.wan.run(move || UdpSocket::bind((there, 0)));
        let server = server.map_err(|_| gone())?.map_err(failed)?;
        let to = SocketAddr::new(there, server.local_addr().map_err(failed)?.port());
        let any: IpAddr = match there {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let client = ends.lan.run(move || {
            let socket = UdpSocket::bind((any, 0))?;
            socket.connect(to).map(|()| socket)
        });
        let client = client.map_err(|_| gone())?.map_err(failed)?;
        for socket in [&server, &client] {
            socket.set_read_timeout(Some(SLICE)).map_err(failed)?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let window = Arc::new(AtomicU32::new(OUTSIDE));
        let thread = |name: &str| std::thread::Builder::new().name(name.into()).stack_size(STACK);
        let echo = {
            let stop = stop.clone();
            thread("lr-echo").spawn(move || echo(&server, &stop)).map_err(failed)?
        };
        let spawned = {
            let (stop, window) = (stop.clone(), window.clone());
            thread("lr-probe").spawn(move || probe(&client, &stop, &window))
        };
        match spawned {
            Ok(client) => Ok(Self { stop, window, client, echo }),
            Err(e) => {
                stop.store(true, Ordering::Relaxed);
                Err(failed(e))
            }
        }
    }

    /// To be called at each moment of a run.
    pub fn at(&self, moment: Moment) {
        let inside = if moment == Moment::WindowCloses { OUTSIDE } else { INSIDE };
        self.window.store(inside, Ordering::Relaxed);
    }

    /// Waits for what is under way, at most [`PATIENCE`], and says what was seen.
    ///
    /// # Errors
    /// Not supported when the socket failed on the way.
    pub fn finish(self) -> Result<Histogram> {
        self.stop.store(true, Ordering::Relaxed);
        let seen = self.client.join();
        drop(self.echo.join());
        let seen = seen.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
        seen.map_err(|e| Error::not_supported("probe the latency", e))
    }
}

/// Round trips in nanoseconds of `seconds` without any load of ours.
///
/// # Errors
/// As [`Probe::start`] and [`Probe::finish`].
pub fn idle(ends: &Ends, seconds: f64, stop: &AtomicBool) -> Result<Histogram> {
    let probe = Probe::start(ends)?;
    // The first round trips resolve addresses and make the connection known.
    wait(Duration::from_millis(100), stop);
    probe.at(Moment::WindowOpens);
    wait(Duration::from_secs_f64(seconds), stop);
    probe.at(Moment::WindowCloses);
    probe.finish()
}

fn wait(time: Duration, stop: &AtomicBool) {
    // Cut short, the probe has seen less.
    let _whole = clock::wait_until(clock::monotonic() + time, Duration::from_millis(10), stop);
}

fn echo(socket: &UdpSocket, stop: &AtomicBool) {
    let mut buffer = [0; 64];
    // The prober says when it is over: it needs the echo for what is under way.
    let mut silent_since = clock::monotonic();
    loop {
        match socket.recv_from(&mut buffer) {
            Ok((length, from)) => {
                silent_since = clock::monotonic();
                // An answer that can't be sent is a lost probe, which the prober counts.
                drop(buffer.get(..length).map(|probe| socket.send_to(probe, from)));
            }
            Err(_) if stop.load(Ordering::Relaxed) => {
                if clock::monotonic().saturating_sub(silent_since) > PATIENCE {
                    return;
                }
            }
            Err(_) => {}
        }
    }
}

/// A probe: when it was sent, by the clock of the run, and whether it counts.
fn probe(socket: &UdpSocket, stop: &AtomicBool, window: &AtomicU32) -> io::Result<Histogram> {
    let mut seen = Histogram::default();
    let (mut sent, mut back) = (0_u64, 0_u64);
    let mut next = clock::monotonic();
    let mut buffer = [0; 64];
    let mut over = None;
    loop {
        let now = clock::monotonic();
        if over.is_none() && stop.load(Ordering::Relaxed) {
            over = Some(now);
        }
        match over {
            Some(since) if back == sent || now.saturating_sub(since) > PATIENCE => break,
            None if now >= next => {
                let counts = window.load(Ordering::Relaxed);
                let mut packet = [0; 16];
                packet[..8].copy_from_slice(&nanoseconds(now).to_be_bytes());
                packet[8..12].copy_from_slice(&counts.to_be_bytes());
                match socket.send(&packet) {
                    Ok(_) => sent += u64::from(counts == INSIDE),
                    // A full queue drops what it is given; so it was.
                    Err(e) if is_passing(&e) => {
                        seen.lost += u64::from(counts == INSIDE);
                    }
                    Err(e) => return Err(e),
                }
                next += GAP;
                // Late by more than a gap (no CPU for us): what was due is not made up for.
                if next < now {
                    next = now + GAP;
                }
            }
            _ => {}
        }
        match socket.recv(&mut buffer) {
            Ok(_) => {
                let at = nanoseconds(clock::monotonic());
                let [a, b, c, d, e, f, g, h, rest @ ..] = &buffer;
                let then = u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
                let counts = rest.get(..4) == Some(&INSIDE.to_be_bytes()[..]);
                let took = at.saturating_sub(then);
                if counts && u128::from(took) <= PATIENCE.as_nanos() {
                    back += 1;
                    seen.add(took);
                }
            }
            Err(e) if is_passing(&e) => {}
            Err(e) => return Err(e),
        }
    }
    seen.lost += sent.saturating_sub(back);
    Ok(seen)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// No packet in time, a full queue, or an ICMP answer to an earlier probe.
fn is_passing(e: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionRefused, HostUnreachable, Interrupted, NetworkUnreachable, TimedOut, WouldBlock,
    };
    matches!(
        e.kind(),
        WouldBlock
            | TimedOut
            | Interrupted
            | ConnectionRefused
            | HostUnreachable
            | NetworkUnreachable
    ) || e.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error())
}
