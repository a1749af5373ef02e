//! Round trips beside the load: how long a small packet takes to the other side and back.
//!
//! ```text
//!   lan: probe thread ──▶ router ──▶ wan: echo thread
//!                     ◀── router ◀──
//! ```
//!
//! A probe is sent at fixed times whether or not the last one came back, so a long wait does not
//! hide the waits that it caused. Between them the thread waits by a timer of high resolution: a
//! socket's own timeout is rounded up to the scheduler's tick, and at 100 ticks a second it would send
//! half of the probes. The time is taken in the program: what the threads themselves wait for a CPU is
//! in it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::io::Errno;

use super::Ends;
use super::half::SocketPlace;
use super::partner::{Door, Key, Reply, Secret};
use super::tcp::local;
use super::workers::CONNECT_DEADLINE;
use crate::error::{Error, Result};
use crate::machine::host::clock;
use crate::machine::sys::poll::{Wanted, is_ready};
use crate::model::histogram::Histogram;

/// Time between two probes.
pub const GAP: Duration = Duration::from_millis(5);
/// A probe that takes longer than so many times the longest round trip so far, and than the least of
/// these, is not waited for at the end, and lost; one that takes longer than the most always is.
const TRIPS: u32 = 4;
const PATIENCE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// Longest time for which a receive may block: the interval at which a flag is looked at.
const SLICE: Duration = Duration::from_millis(1);
const STACK: usize = 128 << 10;

/// Values of the window's flag.
const OUTSIDE: u32 = 0;
const INSIDE: u32 = 1;
/// Size of a probe: its time of sending, the flag that it counts, and the number of its run.
const PACKET: usize = 8 + 8 + 8;
/// Bytes of UDP payload in a second, each way, of probes and answers.
pub const TALK: f64 = PACKET as f64 * 1e9 / GAP.as_nanos() as f64;
const WHAT: &str = "start the latency probe";

/// Answers probes of one run until it is dropped.
pub struct Echo {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    port: u16,
}

impl Echo {
    /// Answers at `address` whoever has proven to be of the run of that key, and nobody else.
    ///
    /// # Errors
    /// Not supported or not permitted if the socket or the thread can't be had.
    pub fn start(place: &SocketPlace, address: IpAddr, key: &Key) -> Result<Self> {
        let address = SocketAddr::new(address, 0);
        let socket = place.inside(WHAT, move || {
            let socket = UdpSocket::bind(local(address)?)?;
            socket.set_read_timeout(Some(SLICE)).map(|()| socket)
        })?;
        let port = socket.local_addr().map_err(failed)?.port();
        let door = Door::new(key.clone()).map_err(failed)?;
        let (run, stop) = (key.name(), Arc::new(AtomicBool::new(false)));
        let seen = stop.clone();
        let thread = spawn("lr-echo", move || echo(&socket, &door, run, &seen))?;
        Ok(Self { stop, thread: Some(thread), port })
    }

    /// Port on which the echo answers.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// Probes on their way, until [`Prober::finish`] or until it is dropped.
pub struct Prober {
    stop: Arc<AtomicBool>,
    window: Arc<AtomicU32>,
    thread: Option<JoinHandle<io::Result<Histogram>>>,
}

impl Prober {
    /// Sends to an [`Echo`] of the same key, once that has proven itself.
    ///
    /// # Errors
    /// Not supported or not permitted if the socket or the thread can't be had.
    pub fn start(place: &SocketPlace, to: SocketAddr, key: &Key) -> Result<Self> {
        let any: IpAddr = match to {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = place.inside(WHAT, move || {
            let socket = UdpSocket::bind((any, 0))?;
            socket.set_read_timeout(Some(SLICE))?;
            socket.connect(to).map(|()| socket)
        })?;
        let (stop, window) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(OUTSIDE)));
        let seen = (stop.clone(), window.clone());
        let key = key.clone();
        let thread = spawn("lr-probe", move || {
            let begun = clock::monotonic();
            let deadline = begun + CONNECT_DEADLINE;
            let met = key.greet(&socket, || match clock::monotonic() < deadline {
                _ if seen.0.load(Ordering::Relaxed) => Err(io::ErrorKind::Interrupted.into()),
                true => Ok(()),
                false => Err(io::Error::other("nobody there proves to be of this run")),
            });
            match met {
                Ok(()) => {
                    let trip = clock::monotonic().saturating_sub(begun);
                    probe(&socket, key.name(), &seen.0, &seen.1, trip)
                }
                // Ended before anybody answered.
                Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(Histogram::default()),
                Err(e) => Err(e),
            }
        })?;
        Ok(Self { stop, window, thread: Some(thread) })
    }

    /// Opens or closes the window: probes that are sent from now on count only if it is open.
    pub fn window(&self, open: bool) {
        self.window.store(if open { INSIDE } else { OUTSIDE }, Ordering::Relaxed);
    }

    /// Waits for what is under way, longer where round trips take long, and says what was seen.
    ///
    /// # Errors
    /// Not supported if the socket failed on the way.
    pub fn finish(mut self) -> Result<Histogram> {
        self.stop.store(true, Ordering::Relaxed);
        let seen = self.thread.take().map(JoinHandle::join);
        let seen = seen.and_then(std::thread::Result::ok);
        let seen = seen.unwrap_or_else(|| Err(io::ErrorKind::Other.into()));
        seen.map_err(|e| Error::not_supported("probe the latency", e))
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// Round trips between two sides, wherever they are.
pub trait Probing {
    /// Opens or closes the window: probes that are sent from now on count only if it is open.
    fn window(&self, open: bool);
    /// Waits for what is under way, and says what was seen.
    ///
    /// # Errors
    /// Fails if a side is gone.
    fn finish(self: Box<Self>) -> Result<Histogram>;
}

/// Both sides served by this process.
struct Here {
    prober: Prober,
    echo: Echo,
}

impl Probing for Here {
    fn window(&self, open: bool) {
        self.prober.window(open);
    }

    fn finish(self: Box<Self>) -> Result<Histogram> {
        let seen = self.prober.finish();
        drop(self.echo);
        seen
    }
}

/// Starts probing between `ends`.
///
/// # Errors
/// As [`Echo::start`] and [`Prober::start`].
pub fn start(ends: &Ends) -> Result<Box<dyn Probing>> {
    let key = Key::of(&Secret::default(), fastrand::u64(..));
    let echo = Echo::start(&SocketPlace(Some(Arc::clone(&ends.wan))), ends.wan_address, &key)?;
    let to = SocketAddr::new(ends.wan_address, echo.port());
    let prober = Prober::start(&SocketPlace(Some(Arc::clone(&ends.lan))), to, &key)?;
    Ok(Box::new(Here { prober, echo }))
}

/// Round trips in nanoseconds of `seconds` without any load of ours.
///
/// # Errors
/// As [`Probing::finish`].
pub fn idle(probing: Box<dyn Probing>, seconds: f64, stop: &AtomicBool) -> Result<Histogram> {
    // The first round trips resolve addresses and make the connection known.
    wait(Duration::from_millis(100), stop);
    probing.window(true);
    wait(Duration::from_secs_f64(seconds), stop);
    probing.window(false);
    probing.finish()
}

fn failed(error: io::Error) -> Error {
    Error::not_supported(WHAT, error)
}

fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    let thread = std::thread::Builder::new().name(name.into()).stack_size(STACK);
    thread.spawn(work).map_err(failed)
}

fn wait(time: Duration, stop: &AtomicBool) {
    // Cut short, the probe has seen less.
    let _whole = clock::wait_until(clock::monotonic() + time, Duration::from_millis(10), stop);
}

/// Probes that are answered within a second: twice as many as are sent.
const MOST: u32 = 400;

fn echo(socket: &UdpSocket, door: &Door, run: u64, stop: &AtomicBool) {
    let mut buffer = [0; 128];
    let mut partner = None;
    let (mut second, mut answered) = (clock::monotonic(), 0);
    while !stop.load(Ordering::Relaxed) {
        let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
        let packet = buffer.get(..length).unwrap_or_default();
        let now = clock::monotonic();
        if now.saturating_sub(second) >= Duration::from_secs(1) {
            (second, answered) = (now, 0);
        }
        answered += 1;
        if answered > MOST {
            continue;
        }
        // An answer that can't be sent is a lost probe, which the prober counts.
        if partner == Some(from) && length == PACKET {
            let ours = Some(packet).filter(|p| p.ends_with(&run.to_be_bytes()));
            drop(ours.map(|probe| socket.send_to(probe, from)));
            continue;
        }
        match door.reply(packet, from) {
            Reply::Ignore => {}
            Reply::Challenge(packet) => drop(socket.send_to(&packet, from)),
            Reply::Accepted(packet) => {
                partner = Some(from);
                drop(socket.send_to(&packet, from));
            }
        }
    }
}

/// Probes until it is stopped. A probe holds when it was sent, by the clock of the run, and whether
/// it counts. `longest` is what a round trip took so far.
fn probe(
    socket: &UdpSocket,
    run: u64,
    stop: &AtomicBool,
    window: &AtomicU32,
    mut longest: Duration,
) -> io::Result<Histogram> {
    let mut seen = Histogram::default();
    let (mut sent, mut back) = (0_u64, 0_u64);
    let mut next = clock::monotonic();
    let mut buffer = [0; 64];
    let mut over = None;
    socket.set_nonblocking(true)?;
    loop {
        let now = clock::monotonic();
        if over.is_none() && stop.load(Ordering::Relaxed) {
            over = Some(now);
        }
        let patience = (longest * TRIPS).clamp(PATIENCE.0, PATIENCE.1);
        match over {
            Some(since) if back == sent || now.saturating_sub(since) > patience => break,
            None if now >= next => {
                let counts = window.load(Ordering::Relaxed);
                let mut packet = [0; PACKET];
                packet[..8].copy_from_slice(&nanoseconds(now).to_be_bytes());
                packet[8..12].copy_from_slice(&counts.to_be_bytes());
                packet[16..].copy_from_slice(&run.to_be_bytes());
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
        answered(socket, if over.is_some() { now + SLICE } else { next })?;
        match socket.recv(&mut buffer) {
            Ok(_) => {
                let at = nanoseconds(clock::monotonic());
                let [a, b, c, d, e, f, g, h, rest @ ..] = &buffer;
                let then = u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
                let counts = rest.get(..4) == Some(&INSIDE.to_be_bytes()[..]);
                let took = at.saturating_sub(then);
                let trip = Duration::from_nanos(took);
                if trip <= PATIENCE.1 {
                    longest = longest.max(trip);
                    if counts {
                        back += 1;
                        seen.add(took);
                    }
                }
            }
            Err(e) if is_passing(&e) => {}
            Err(e) => return Err(e),
        }
    }
    seen.lost += sent.saturating_sub(back);
    Ok(seen)
}

/// Waits until something came, or until then.
fn answered(socket: &UdpSocket, until: Duration) -> io::Result<()> {
    let left = until.saturating_sub(clock::monotonic());
    is_ready(socket, Wanted::Read, left).map(drop)
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
    ) || e.raw_os_error() == Some(Errno::NOBUFS.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With ticks of 4 ms and a timeout of the socket it came to 125 a second.
    #[test]
    fn as_many_probes_are_sent_as_are_asked_for() {
        let key = Key::of(&Secret::default(), 7);
        let here = SocketPlace(None);
        let address = IpAddr::from(Ipv4Addr::LOCALHOST);
        let echo = Echo::start(&here, address, &key).unwrap();
        let asked = 1.0 / GAP.as_secs_f64();
        let deadline = clock::monotonic() + Duration::from_secs(60);
        // Others may need the CPU, but not all the time.
        loop {
            let to = SocketAddr::new(address, echo.port());
            let prober = Prober::start(&here, to, &key).unwrap();
            clock::sleep(Duration::from_millis(200));
            let begin = clock::monotonic();
            prober.window(true);
            clock::sleep(Duration::from_secs(1));
            prober.window(false);
            let seconds = (clock::monotonic() - begin).as_secs_f64();
            let rate = prober.finish().unwrap().total() as f64 / seconds;
            assert!(rate < asked * 1.03, "{rate} probes a second");
            if rate > asked * 0.97 {
                break;
            }
            assert!(clock::monotonic() < deadline, "{rate} probes a second");
        }
    }
}
