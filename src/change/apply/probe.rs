//! Watches whether the machine still reaches what it reached before a change: if not, that is a
//! reason to undo it early.
//!
//! ```text
//!   gateways, or --probe ─▶ answering (before) ─▶ Watcher (in the guard, once a second)
//!                              │                     └ MISSES in a row: lost
//!                              └ what never answered does not count
//! ```
//!
//! It can only shorten the wait for `confirm`, never lengthen it. Requests go out of the calling
//! thread's network namespace. A gateway that answers no ping is asked as a neighbour (ARP,
//! neighbour discovery), which it can't refuse.
//!
//! Silence with a reason is borne longer: while a port that was up has no carrier yet, or its bridge
//! does not forward yet (STP), the way back may take longer than [`MISSES`] by itself. Undoing then
//! would make the port begin anew, and cut off an owner who would have been back in a moment; one
//! who is cut off for good waits some seconds more, and never beyond the deadline.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use crate::machine::host::{HostRead, clock};
use crate::machine::parse::route;
use crate::machine::store::deadman::Target;
use crate::machine::sys::echo::Echo;
use crate::machine::sys::neighbour::{self, Neighbour};

const DEVICES: &str = "/sys/class/net";

/// Interval at which a target is asked.
pub const EVERY: Duration = Duration::from_secs(1);

/// So many requests in a row without an answer mean that it is lost. A gigabit port that
/// negotiates anew, as new ring sizes or channels make it do, is back after two to five seconds.
pub const MISSES: u32 = 8;

/// So many seconds without a carrier are borne beside that: autonegotiation of copper at 2.5 Gbit/s
/// and above, and of modules, takes ten and more.
const CARRIER: u32 = 12;

/// Seconds that are borne in all while a bridge port listens and learns: twice the forward delay of
/// 15 s (net/bridge/br_if.c, `br_add_bridge`), and what comes before.
const FORWARDING: u32 = 40;

/// Longest time that an answer may take before the change.
const PATIENCE: Duration = Duration::from_secs(1);

/// The routers that the default routes lead to, each once: IPv4, then IPv6.
#[must_use]
pub fn gateways(host: &dyn HostRead) -> Vec<Target> {
    let read = |path: &str| host.read(Path::new(path)).unwrap_or_default();
    let v4 = route::defaults(&read("/proc/net/route"));
    let v6 = route::defaults_v6(&read("/proc/net/ipv6_route"));
    let mut found: Vec<Target> = Vec::new();
    for route in v4.into_iter().chain(v6) {
        let Some(address) = route.gateway else { continue };
        let local = matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
        let device = local.then_some(route.device);
        let target = Target { address, device, as_neighbour: false };
        if !found.contains(&target) {
            found.push(target);
        }
    }
    found
}

/// Behaviour of a target before the change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Before {
    /// The target answers.
    Answers,
    /// The target answers no ping, but ARP or neighbour discovery.
    AsNeighbour,
    /// The target does not answer within a second.
    Silent,
    /// The target can't be asked, for this reason.
    Unasked(String),
}

/// Asks every target, all at the same time.
#[must_use]
pub fn ask(targets: Vec<Target>) -> Vec<(Target, Before)> {
    let mut asked: Vec<(Target, Option<Echo>, Before)> = targets
        .into_iter()
        .map(|target| match open(&target) {
            Ok(echo) => (target, Some(echo), Before::Silent),
            Err(e) => (target, None, Before::Unasked(e.to_string())),
        })
        .collect();
    let end = clock::monotonic() + PATIENCE;
    let mut next = Duration::ZERO;
    while clock::monotonic() < end && asked.iter().any(|(_, _, b)| *b == Before::Silent) {
        // The first may be lost while the neighbour is being looked up.
        let again = clock::monotonic() >= next;
        if again {
            next = clock::monotonic() + PATIENCE / 4;
        }
        for (_, echo, before) in asked.iter_mut().filter(|(_, _, b)| *b == Before::Silent) {
            let Some(echo) = echo else { continue };
            if again && let Err(e) = echo.send() {
                log::debug!("{e}");
            }
            if echo.answered() {
                *before = Before::Answers;
            }
        }
        clock::sleep(Duration::from_millis(5));
    }
    let mut asked: Vec<(Target, Before)> =
        asked.into_iter().map(|(target, _, before)| (target, before)).collect();
    // The pings made the kernel look for their hardware addresses already.
    let silent = || asked.iter().filter(|(_, b)| *b == Before::Silent);
    silent().for_each(|(target, _)| ask_neighbour(target));
    let end = clock::monotonic() + PATIENCE;
    while clock::monotonic() < end && asked.iter().any(|(_, b)| *b == Before::Silent) {
        for (target, before) in asked.iter_mut().filter(|(_, b)| *b == Before::Silent) {
            if neighbour_answers(target) {
                *before = Before::AsNeighbour;
            }
        }
        clock::sleep(Duration::from_millis(20));
    }
    asked
}

fn neighbour(target: &Target) -> Option<Neighbour> {
    neighbour::find(target.address, target.device.as_deref()).ok().flatten()
}

fn neighbour_answers(target: &Target) -> bool {
    neighbour(target).is_some_and(|found| found.answers())
}

/// Has the kernel ask it. Where it knows no hardware address the next ping makes it ask everybody.
fn ask_neighbour(target: &Target) {
    if let Some(Err(e)) = neighbour(target).map(|found| found.ask()) {
        log::debug!("{target}: {e}");
    }
}

fn open(target: &Target) -> std::io::Result<Echo> {
    Echo::open(target.address, target.device.as_deref())
}

/// Keeps asking, after the change.
#[derive(Debug)]
pub struct Watcher {
    watched: Vec<Watched>,
    ports: Ports,
    next: Duration,
}

/// Devices that were up before the change, and how long some of them have not been again.
#[derive(Debug, Default)]
struct Ports {
    up: Vec<String>,
    borne: u32,
}

impl Ports {
    fn of(host: &dyn HostRead) -> Self {
        let mut up = host.list(Path::new(DEVICES)).unwrap_or_default();
        up.retain(|device| waits(host, device).is_none());
        Self { up, borne: 0 }
    }

    /// True if this second's silence has a reason that passes by itself. Call it once a second.
    fn bear(&mut self, host: &dyn HostRead) -> bool {
        let longest = self.up.iter().filter_map(|device| waits(host, device)).max();
        let bears = longest.is_some_and(|limit| self.borne < limit);
        self.borne += u32::from(bears);
        bears
    }
}

/// Seconds for which a device that carries no packets yet may be waited for; `None` if it carries
/// them.
fn waits(host: &dyn HostRead, device: &str) -> Option<u32> {
    let read = |file: &str| host.text(&Path::new(DEVICES).join(device).join(file)).ok();
    // Of one that is down, reading it is an error.
    if read("carrier").as_deref() != Some("1") {
        return Some(CARRIER);
    }
    // BR_STATE_LISTENING and BR_STATE_LEARNING of linux/if_bridge.h.
    matches!(read("brport/state").as_deref(), Some("1" | "2")).then_some(FORWARDING)
}

#[derive(Debug)]
struct Watched {
    target: Target,
    echo: Option<Echo>,
    missed: Missed,
}

impl Watched {
    /// True if the target has answered since it was asked last.
    fn answered(&mut self) -> bool {
        if self.echo.is_none() {
            // A device that is gone, too, is a request without an answer.
            self.echo = open(&self.target).ok();
        }
        self.echo.as_ref().is_some_and(Echo::answered)
            || (self.target.as_neighbour && neighbour_answers(&self.target))
    }
}

/// Counts requests without an answer.
#[derive(Debug, Default, Clone, Copy)]
struct Missed {
    waits: bool,
    row: u32,
    /// Requests without an answer in all, with those that were borne.
    silent: u32,
}

impl Missed {
    /// Takes what became of the last request, before the next is sent; whether it is lost now.
    /// `bears` says that silence has a reason that passes.
    fn take(&mut self, answered: bool, bears: bool) -> bool {
        if answered {
            (self.row, self.silent) = (0, 0);
        } else if self.waits {
            self.row += u32::from(!bears);
            self.silent += 1;
        }
        self.waits = true;
        self.row >= MISSES
    }
}

impl Watcher {
    /// Watches targets that answered before, on the machine as it is before the change.
    #[must_use]
    pub fn new(host: &dyn HostRead, targets: &[Target]) -> Self {
        let watched = |target: &Target| Watched {
            target: target.clone(),
            echo: None,
            missed: Missed::default(),
        };
        let ports = if targets.is_empty() { Ports::default() } else { Ports::of(host) };
        Self { watched: targets.iter().map(watched).collect(), ports, next: Duration::ZERO }
    }

    /// Names a target that is lost, if one is. Call it every now and then; it never waits.
    #[must_use]
    pub fn lost(&mut self, host: &dyn HostRead) -> Option<String> {
        let now = clock::boottime();
        if now < self.next {
            return None;
        }
        self.next = now + EVERY;
        let answered: Vec<bool> = self.watched.iter_mut().map(Watched::answered).collect();
        let bears = answered.contains(&false) && self.ports.bear(host);
        let mut lost = None;
        for (one, answered) in self.watched.iter_mut().zip(answered) {
            if one.missed.take(answered, bears) {
                lost = Some(format!(
                    "{} answered before the change and has not for {} s",
                    one.target,
                    EVERY.as_secs() * u64::from(one.missed.silent)
                ));
            }
            if let Some(Err(e)) = one.echo.as_mut().map(Echo::send) {
                log::debug!("{}: {e}", one.target);
                // Its device may have been made anew, with another number.
                one.echo = None;
            }
            if one.target.as_neighbour {
                ask_neighbour(&one.target);
            }
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_answer_in_time_is_enough_and_a_row_of_silence_is_not() {
        let mut missed = Missed::default();
        assert!(!missed.take(false, false), "nothing was asked yet");
        for _ in 1..MISSES {
            assert!(!missed.take(false, false));
        }
        assert!(!missed.take(true, false), "an answer, however late, starts the count anew");
        for _ in 1..MISSES {
            assert!(!missed.take(false, false));
        }
        assert!(!missed.take(false, true), "a port is on its way back");
        assert!(missed.take(false, false));
        assert_eq!(missed.silent, MISSES + 1);
    }

    #[test]
    fn a_port_on_its_way_back_is_waited_for_and_one_that_stays_away_is_not_for_ever() {
        let dir = crate::machine::testing::scratch("ports");
        let write = |file: &str, text: &str| {
            let path = dir.join("sys/class/net").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let seconds = |ports: &mut Ports| {
            let host = crate::machine::host::Tree::open(&dir).unwrap();
            (0..100).take_while(|_| ports.bear(&host)).count()
        };
        let ports = || Ports::of(&crate::machine::host::Tree::open(&dir).unwrap());
        write("eth0/carrier", "1");
        write("eth1/carrier", "0");
        write("lan1/carrier", "1");
        write("lan1/brport/state", "3");
        let mut all = ports();
        assert_eq!(seconds(&mut all), 0, "one that was down before explains nothing");
        write("eth0/carrier", "0");
        assert_eq!(seconds(&mut all), 12, "no longer than negotiation may take");
        write("eth0/carrier", "1");
        write("lan1/brport/state", "1");
        // The port came back, and its bridge learns: that passes, and is not taken for silence.
        assert_eq!(seconds(&mut all), 28, "with what went before");
        assert_eq!(seconds(&mut all), 0);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn the_gateways_are_those_of_the_default_routes() {
        let dir = crate::machine::testing::scratch("gateways");
        std::fs::create_dir_all(dir.join("proc/net")).unwrap();
        let gateway = u32::from_ne_bytes([198, 18, 0, 1]);
        let v4 = format!(
            "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n\
             eth0\t00000000\t{gateway:08X}\t0003\t0\t0\t5\t00000000\n\
             eth1\t00000000\t{gateway:08X}\t0003\t0\t0\t9\t00000000\n\
             ppp0\t00000000\t00000000\t0001\t0\t0\t7\t00000000\n"
        );
        let zero = "0".repeat(32);
        let v6 = format!(
            "{zero} 00 {zero} 00 fe800000000000000000000000000001 00000400 1 0 00000003 eth0\n\
             {zero} 00 {zero} 00 20010db8000000000000000000000001 00000400 1 0 00000003 eth0\n"
        );
        std::fs::write(dir.join("proc/net/route"), v4).unwrap();
        std::fs::write(dir.join("proc/net/ipv6_route"), v6).unwrap();
        let host = crate::machine::host::Tree::open(&dir).unwrap();
        let found: Vec<String> = gateways(&host).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["198.18.0.1", "fe80::1%eth0", "2001:db8::1"]);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
