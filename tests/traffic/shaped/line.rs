//! A line of known rate, delay and faults between the router of a lab and its WAN host: a thread that
//! takes each frame off one device and puts it on the other when it is due. It counts what it lets
//! through, which is the truth that a figure is held against.

use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linerate::machine::sys::netns::NetnsThread;
use linerate::machine::sys::packet::PacketSocket;
use linerate::measure::lab::{ENDPOINT, Lab};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{SendFlags, sockopt};

/// One direction of a line.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    /// Megabits of Ethernet frames in a second, without FCS.
    pub mbit: f64,
    /// Time of the way itself, milliseconds.
    pub delay: u32,
    /// Shares of the frames that are lost, that come twice, and that come later than others.
    pub loss: f64,
    pub twice: f64,
    pub late: f64,
    /// Milliseconds that the queue before the line holds, beside what is under way.
    pub queue: u32,
}

impl Way {
    /// A line without faults, whose queue does for one stream.
    pub(crate) fn of(mbit: f64, delay: u32) -> Self {
        Self { mbit, delay, loss: 0.0, twice: 0.0, late: 0.0, queue: 100 + 2 * delay }
    }

    /// Bytes that may wait: ten packets at least.
    fn room(&self) -> usize {
        ((self.mbit * 125.0 * f64::from(self.queue)) as usize).max(15_140)
    }
}

/// Counts of one direction: of TCP the payload that came for the first time, of UDP the datagrams of
/// a load (of more than 200 bytes).
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts {
    pub payload: u64,
    pub frames: u64,
    pub offered: u64,
    pub passed: u64,
    pub lost: u64,
    pub dropped: u64,
    pub twice: u64,
    /// Frames that the device after the line did not take.
    pub failed: u64,
    /// The largest frame that came.
    pub largest: usize,
    /// Payload by the time at which it left, in steps of 10 ms, since the run's first payload.
    pub began: Option<Instant>,
    pub steps: Vec<(Duration, u64)>,
}

impl Counts {
    /// Payload in bytes by that time of the run.
    fn by(&self, time: Duration) -> u64 {
        self.steps.iter().take_while(|(at, _)| *at <= time).last().map_or(0, |(_, bytes)| *bytes)
    }

    /// Mbit/s of payload in the window of a run.
    pub(crate) fn rate(&self, omit: f64, seconds: f64) -> f64 {
        let at = |time: f64| self.by(Duration::from_secs_f64(time)) as f64;
        (at(omit + seconds) - at(omit)) * 8.0 / seconds / 1e6
    }
}

/// A line in place, until it is dropped.
pub(crate) struct Line {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<[Counts; 2]>>,
}

impl Line {
    /// Puts the line between `wan0` of the lab's router and the WAN host; false where this machine
    /// lacks the tools for it.
    pub(crate) fn between(lab: &Lab, up: Way, down: Way, mtu: u32) -> Option<Self> {
        let middle = NetnsThread::create().ok()?;
        let [inner, outer] = wire(lab, &middle, mtu)?;
        let stop = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&stop);
        let (ready, waits) = sync_channel(1);
        let thread = std::thread::spawn(move || {
            // Before the load, which is before everything else.
            let me = rustix::thread::gettid().as_raw_nonzero().to_string();
            drop(std::process::Command::new("chrt").args(["-r", "-p", "2", &me]).output());
            let open = move || -> std::io::Result<_> {
                let seen = PacketSocket::open()?;
                sockopt::set_socket_recv_buffer_size_force(&seen, 32 << 20)?;
                Ok((seen, PacketSocket::sender(inner)?, PacketSocket::sender(outer)?))
            };
            let (seen, inside, outside) = middle.run(open).unwrap().unwrap();
            let mut ways =
                [Direction::new(inner, up, outside), Direction::new(outer, down, inside)];
            ready.send(()).unwrap();
            while !over.load(Ordering::Relaxed) {
                turn(&seen, &mut ways);
            }
            drop(middle);
            ways.map(|way| way.counts)
        });
        waits.recv().ok()?;
        Some(Self { stop, thread: Some(thread) })
    }

    /// Takes the line away: what passed it, up and down.
    pub(crate) fn counts(mut self) -> [Counts; 2] {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn sh(netns: &NetnsThread, line: String) -> Option<String> {
    let run = move || std::process::Command::new("sh").args(["-ec", &line]).output();
    let done = netns.run(run).ok()?.ok()?;
    if !done.status.success() {
        eprintln!("{}", String::from_utf8_lossy(&done.stderr));
        return None;
    }
    Some(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Takes the WAN's device into the middle and gives the WAN another. Frames carry their checksums from
/// now on, and neighbours are known: the line carries IPv4 alone. Numbers of the devices in the middle.
fn wire(lab: &Lab, middle: &NetnsThread, mtu: u32) -> Option<[u32; 2]> {
    let thread =
        |netns: &NetnsThread| netns.run(|| rustix::thread::gettid().as_raw_nonzero().get()).ok();
    let (wan, mid) = (thread(&lab.wan)?, thread(middle)?);
    let routes = sh(&lab.wan, "ip -4 route show | grep via || true".into())?;
    let _taken = sh(&lab.wan, format!("ip link set {ENDPOINT} netns {mid}"))?;
    let _made = sh(
        middle,
        format!(
            "ip link set {ENDPOINT} name in0; ip link add out0 type veth peer name {ENDPOINT} netns {wan}; \
             ip link set in0 up; ip link set out0 up; \
             for d in in0 out0; do ethtool -K $d tso off gso off gro off >/dev/null; done"
        ),
    )?;
    let mac = |netns: &NetnsThread, name: &str| {
        Some(sh(netns, format!("cat /sys/class/net/{name}/address"))?.trim().to_owned())
    };
    let (near, far) = (mac(&lab.router, "wan0")?, mac(&lab.wan, ENDPOINT)?);
    let offloads = "tso off gso off gro off tx off";
    let _wan = sh(
        &lab.wan,
        format!(
            "ip addr add 198.18.2.2/24 dev {ENDPOINT}; ip link set {ENDPOINT} up; \
             ethtool -K {ENDPOINT} {offloads} >/dev/null; \
             ip route change 198.18.2.0/24 dev {ENDPOINT} mtu {mtu} advmss 1460; \
             ip neigh replace 198.18.2.1 lladdr {near} dev {ENDPOINT} nud permanent; \
             {}",
            routes.lines().map(|route| format!("ip route replace {route}; ")).collect::<String>()
        ),
    )?;
    let _router = sh(
        &lab.router,
        format!(
            "ethtool -K wan0 {offloads} >/dev/null; ip link set wan0 mtu {mtu}; \
             ip neigh replace 198.18.2.2 lladdr {far} dev wan0 nud permanent"
        ),
    )?;
    let numbers = sh(middle, "cat /sys/class/net/in0/ifindex /sys/class/net/out0/ifindex".into())?;
    let numbers: Vec<u32> = numbers.lines().filter_map(|n| n.parse().ok()).collect();
    numbers.try_into().ok()
}

/// A frame on its way, the one that is due first on top of a heap.
#[derive(PartialEq, Eq)]
struct Due(std::cmp::Reverse<(Instant, u64)>, Vec<u8>);

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

struct Direction {
    from: u32,
    way: Way,
    to: PacketSocket,
    heap: BinaryHeap<Due>,
    /// Time at which the line itself is free again.
    free: Instant,
    number: u64,
    counts: Counts,
    streams: HashMap<[u8; 12], Arrived>,
    random: fastrand::Rng,
}

impl Direction {
    fn new(from: u32, way: Way, to: PacketSocket) -> Self {
        Self {
            from,
            way,
            to,
            heap: BinaryHeap::new(),
            free: Instant::now(),
            number: 0,
            counts: Counts::default(),
            streams: HashMap::new(),
            random: fastrand::Rng::with_seed(from.into()),
        }
    }

    fn take(&mut self, now: Instant, frame: &[u8]) {
        let load = frame.len() > 200;
        self.counts.largest = self.counts.largest.max(frame.len());
        self.counts.offered += u64::from(load);
        // Lost on the line: it has taken its time there all the same.
        let bytes_per_second = self.way.mbit * 125_000.0;
        let time = |bytes: usize| Duration::from_secs_f64(bytes as f64 / bytes_per_second);
        let waiting = self.free.saturating_duration_since(now);
        if waiting > time(self.way.room()) {
            self.counts.dropped += u64::from(load);
            return;
        }
        self.free = self.free.max(now) + time(frame.len());
        if self.random.f64() < self.way.loss {
            self.counts.lost += u64::from(load);
            return;
        }
        let mut due = self.free + Duration::from_millis(self.way.delay.into());
        if self.random.f64() < self.way.late {
            due += 4 * time(1514);
        }
        self.put(due, frame);
        if self.random.f64() < self.way.twice {
            self.counts.twice += u64::from(load);
            self.put(due, frame);
        }
    }

    fn put(&mut self, due: Instant, frame: &[u8]) {
        self.number += 1;
        self.heap.push(Due(std::cmp::Reverse((due, self.number)), frame.to_vec()));
    }

    /// Sends what is due; when the next will be.
    fn send(&mut self) -> Option<Instant> {
        while let Some(next) = self.heap.peek() {
            let due = next.0.0.0;
            if due > Instant::now() {
                return Some(due);
            }
            let Due(_, frame) = self.heap.pop().unwrap();
            let sent = rustix::net::send(&self.to, &frame, SendFlags::empty());
            self.counts.failed += u64::from(sent.is_err());
            self.count(due, &frame);
        }
        None
    }

    fn count(&mut self, due: Instant, frame: &[u8]) {
        self.counts.frames += 1;
        self.counts.passed += u64::from(frame.len() > 200);
        let Some((ip, rest)) = frame.get(14..).and_then(|ip| ip.split_at_checked(20)) else {
            return;
        };
        if ip[9] != 6 || rest.len() < 20 {
            return;
        }
        let header = usize::from(rest[12] >> 4) * 4;
        let length = usize::from(u16::from_be_bytes([ip[2], ip[3]])).saturating_sub(20 + header);
        let mut key = [0; 12];
        key[..8].copy_from_slice(&ip[12..20]);
        key[8..].copy_from_slice(&rest[..4]);
        let sequence = u32::from_be_bytes([rest[4], rest[5], rest[6], rest[7]]);
        // A SYN begins a run; all streams of one open before any of them carries payload.
        if rest[13] & 2 != 0 {
            if self.counts.payload > 10_000 || self.counts.began.is_some() {
                self.streams.clear();
                (self.counts.payload, self.counts.began) = (0, None);
                self.counts.steps.clear();
            }
            self.streams.insert(
                key,
                Arrived { next: (1 << 32) + u64::from(sequence) + 1, later: BTreeMap::new() },
            );
            return;
        }
        let fresh = self.streams.get_mut(&key).map_or(0, |stream| stream.take(sequence, length));
        self.counts.payload += fresh;
        if fresh < 500 {
            return;
        }
        let began = *self.counts.began.get_or_insert(due);
        let at = due.saturating_duration_since(began);
        match self.counts.steps.last_mut() {
            Some((last, bytes)) if last.as_millis() / 10 == at.as_millis() / 10 => {
                (*last, *bytes) = (at, self.counts.payload);
            }
            _ => self.counts.steps.push((at, self.counts.payload)),
        }
    }
}

/// Payload of a stream that has come, whatever its order: all before `next`, and the ranges behind it.
struct Arrived {
    next: u64,
    later: BTreeMap<u64, u64>,
}

impl Arrived {
    /// Bytes of it that have not come before.
    fn take(&mut self, sequence: u32, length: usize) -> u64 {
        let ahead = sequence.wrapping_sub(self.next as u32) as i32;
        let Some(from) = self.next.checked_add_signed(ahead.into()) else { return 0 };
        let to = from + length as u64;
        let from = from.max(self.next);
        if from >= to {
            return 0;
        }
        let (mut first, mut last, mut known) = (from, to, 0);
        self.later.retain(|&begin, &mut end| {
            known += end.min(to).saturating_sub(begin.max(from));
            let apart = end < first || begin > last;
            if !apart {
                (first, last) = (first.min(begin), last.max(end));
            }
            apart
        });
        if first <= self.next {
            self.next = last;
        } else {
            self.later.insert(first, last);
        }
        to - from - known
    }
}

fn turn(seen: &PacketSocket, ways: &mut [Direction; 2]) {
    let mut buffer = [0; 2048];
    // A hundred at most, so that what is due is not late.
    for _ in 0..100 {
        let Ok(Some((device, length))) = seen.next_into(&mut buffer) else { break };
        let now = Instant::now();
        if let Some(way) = ways.iter_mut().find(|way| way.from == device) {
            way.take(now, &buffer[..length]);
        }
    }
    let next = ways.iter_mut().filter_map(Direction::send).min();
    let wait = next.map_or(Duration::from_millis(20), |due| {
        due.saturating_duration_since(Instant::now()).min(Duration::from_millis(20))
    });
    let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(wait.subsec_nanos()) };
    // A signal ends the wait as well as a frame does.
    let _ended = poll(&mut [PollFd::new(seen, PollFlags::IN)], Some(&wait));
}
