//! Whether the machine still reaches what it reached before a change: a reason to undo it early.
//!
//! ```text
//!   gateways, or --probe ─▶ answering (before) ─▶ Watcher (in the guard, once a second)
//!                              │                     └ MISSES in a row: lost
//!                              └ what never answered does not count
//! ```
//!
//! It can only shorten the wait for `confirm`, never lengthen it. Requests go out of the calling
//! thread's network namespace.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use crate::host::{HostRead, clock};
use crate::parse::route;
use crate::store::deadman::Target;
use crate::sys::echo::Echo;

/// How often a target is asked.
pub const EVERY: Duration = Duration::from_secs(1);

/// So many requests in a row without an answer mean that it is lost. A gigabit port that
/// negotiates anew, as new ring sizes or channels make it do, is back after two to five seconds.
pub const MISSES: u32 = 8;

/// How long an answer may take before the change.
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
        let target = Target { address, device: local.then_some(route.device) };
        if !found.contains(&target) {
            found.push(target);
        }
    }
    found
}

/// What was learnt about a target before the change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Before {
    /// It answers.
    Answers,
    /// It does not, within a second.
    Silent,
    /// It can't be asked, and why.
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
    asked.into_iter().map(|(target, _, before)| (target, before)).collect()
}

fn open(target: &Target) -> std::io::Result<Echo> {
    Echo::open(target.address, target.device.as_deref())
}

/// Keeps asking, after the change.
#[derive(Debug)]
pub struct Watcher {
    watched: Vec<Watched>,
    next: Duration,
}

#[derive(Debug)]
struct Watched {
    target: Target,
    echo: Option<Echo>,
    missed: Missed,
}

/// Counts requests without an answer.
#[derive(Debug, Default, Clone, Copy)]
struct Missed {
    waits: bool,
    row: u32,
}

impl Missed {
    /// Takes what became of the last request, before the next is sent; whether it is lost now.
    fn take(&mut self, answered: bool) -> bool {
        if answered {
            self.row = 0;
        } else if self.waits {
            self.row += 1;
        }
        self.waits = true;
        self.row >= MISSES
    }
}

impl Watcher {
    /// Of targets that answered before.
    #[must_use]
    pub fn new(targets: &[Target]) -> Self {
        let watched = |target: &Target| Watched {
            target: target.clone(),
            echo: None,
            missed: Missed::default(),
        };
        Self { watched: targets.iter().map(watched).collect(), next: Duration::ZERO }
    }

    /// To be called every now and then; never waits. What is lost, once something is.
    #[must_use]
    pub fn lost(&mut self) -> Option<String> {
        let now = clock::boottime();
        if now < self.next {
            return None;
        }
        self.next = now + EVERY;
        let mut lost = None;
        for one in &mut self.watched {
            if one.echo.is_none() {
                // A device that is gone, too, is a request without an answer.
                one.echo = open(&one.target).ok();
            }
            let answered = one.echo.as_ref().is_some_and(Echo::answered);
            if one.missed.take(answered) {
                lost = Some(format!(
                    "{} answered before the change and has not for {} s",
                    one.target,
                    EVERY.as_secs() * u64::from(MISSES)
                ));
            }
            if let Some(Err(e)) = one.echo.as_mut().map(Echo::send) {
                log::debug!("{}: {e}", one.target);
                // Its device may have been made anew, with another number.
                one.echo = None;
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
        assert!(!missed.take(false), "nothing was asked yet");
        for _ in 1..MISSES {
            assert!(!missed.take(false));
        }
        assert!(!missed.take(true), "an answer, however late, starts the count anew");
        for _ in 1..MISSES {
            assert!(!missed.take(false));
        }
        assert!(missed.take(false));
    }

    #[test]
    fn the_gateways_are_those_of_the_default_routes() {
        let dir = crate::testing::scratch("gateways");
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
        let host = crate::host::Tree::open(&dir).unwrap();
        let found: Vec<String> = gateways(&host).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["198.18.0.1", "fe80::1%eth0", "2001:db8::1"]);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
