//! The ledger of lost packets: each counter with its stage, its meaning and its rate, and a balance
//! of what IP received against what became of it.
//!
//! In come two readings of the counters, or one since boot; out goes a [`Ledger`].
//!
//! ```text
//!  wire ─▶ ring ─▶ XDP ─▶ driver ─▶ backlog ─▶ IP ─▶ rules ─▶ route ─▶ neighbour ─▶ qdisc ─▶ wire
//!                                              │                └─▶ sockets here
//!                                              └── the balance: received = forwarded + delivered
//!                                                  + merged + lost + what nobody counted
//! ```

mod table;

use std::collections::BTreeMap;

use serde::Serialize;

pub use table::{Kind, Stage};

use crate::model::evidence::counted;
use crate::model::loss::{Counter, Reading, Source};
use crate::model::order::InOrder;
use crate::model::snapshot::Gap;
use table::{CLASSES, Part, of_driver};

/// A counter that is not zero.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// Stage of the packet's way.
    pub stage: Stage,
    /// Device, CPU, rule, queue or table; empty for the whole namespace.
    pub place: String,
    /// The kernel's or the driver's name of the counter.
    pub counter: String,
    /// Whether it counts lost packets.
    pub kind: Kind,
    /// True if it covers all network namespaces of the machine.
    pub machine_wide: bool,
    /// Value since boot, or since the device or the rule was made.
    pub since_boot: u64,
    /// Rise in the time that was watched.
    pub watched: Option<u64>,
    /// The same for each second.
    pub per_second: Option<f64>,
    /// Meaning in words.
    pub means: &'static str,
    /// Remedy in words.
    pub remedy: &'static str,
    #[serde(skip)]
    part: Part,
}

impl Entry {
    /// Packets in the time that the ledger is about.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.watched.unwrap_or(self.since_boot)
    }

    /// True if each of its packets is a lost one that no other entry counts.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        matches!(self.kind, Kind::Lost | Kind::ByRule)
    }
}

/// What became of the packets that IP received: IPv4 and IPv6 together, after GRO.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Balance {
    /// Frames that the devices took; those that are bridged, are not IP, take a flowtable's way or
    /// are merged by GRO never count as received by IP.
    pub frames_in: u64,
    /// Packets received by IP.
    pub received: u64,
    /// Packets passed on.
    pub forwarded: u64,
    /// Packets for this machine.
    pub delivered: u64,
    /// Fragments that went into others' datagrams.
    pub merged: u64,
    /// Packets lost between being received and the routing decision, or at the forward hook.
    pub lost: u64,
    /// Packets that nobody counted; below zero when more was counted than received.
    pub unexplained: i64,
    /// Reasons that packets may go uncounted here.
    pub may_be: Vec<String>,
    /// Packets that this machine sent by itself.
    pub own: u64,
    /// Packets lost behind the routing decision.
    pub lost_behind: u64,
    /// Frames that the devices sent.
    pub frames_out: u64,
}

/// Packets that the kernel freed as dropped, for one reason of its own.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reason {
    /// Name of `enum skb_drop_reason`, in the kernel's words; a number where it has none.
    pub reason: String,
    /// Packets in the time that was watched.
    pub watched: u64,
    /// The same for each second.
    pub per_second: f64,
}

/// The ledger.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ledger {
    /// Seconds that it was watched for; `None` for the counters since boot.
    pub seconds: Option<f64>,
    /// Counters that are not zero, in the order that a packet meets their stages.
    pub entries: Vec<Entry>,
    /// The balance.
    pub balance: Balance,
    /// Reasons that the kernel itself gives, the most frequent first, of the whole machine and of
    /// packets of any kind; empty where it gives none.
    pub reasons: Vec<Reason>,
    /// Facts that could not be read.
    pub gaps: Vec<Gap>,
}

impl Ledger {
    /// Packets lost in the time that it is about, by rules on purpose and otherwise.
    #[must_use]
    pub fn lost(&self) -> (u64, u64) {
        let of = |kind| {
            let all = self.entries.iter().filter(|e| e.kind == kind);
            all.fold(0_u64, |sum, e| sum.saturating_add(e.count()))
        };
        (of(Kind::ByRule), of(Kind::Lost))
    }
}

/// The ledger of `now`: since boot, or since a reading so many seconds before.
#[must_use]
pub fn ledger(now: &Reading, before: Option<(&Reading, f64)>) -> Ledger {
    let seconds = before.map(|(_, seconds)| seconds);
    let rise = |counter: &Counter, value: u64| {
        let (then, _) = before?;
        // A driver's counter that was zero is not in the reading before; nor is a rule that is new.
        let then = then.counts.get(counter).copied().unwrap_or(0);
        Some(counted(value, then).0)
    };
    let specific = parts(&now.counts);
    let before_specific = before.map(|(then, _)| parts(&then.counts));
    let mut entries = Vec::new();
    for (counter, value) in &now.counts {
        let Some((stage, kind, part, [means, remedy])) = meaning(counter, &now.counts) else {
            continue;
        };
        let (mut since_boot, mut watched) = (*value, rise(counter, *value));
        // A sum counts with what its parts leave.
        if let Some(parts) = specific.get(&(counter.place.as_str(), counter.name.as_str())) {
            let then = before_specific
                .as_ref()
                .and_then(|all| all.get(&(counter.place.as_str(), counter.name.as_str())))
                .copied()
                .unwrap_or(0);
            since_boot = since_boot.saturating_sub(*parts);
            watched = watched.map(|rose| rose.saturating_sub(parts.saturating_sub(then)));
        }
        if since_boot == 0 && watched.unwrap_or(0) == 0 {
            continue;
        }
        entries.push(Entry {
            stage,
            place: counter.place.clone(),
            counter: counter.name.clone(),
            kind,
            machine_wide: counter.source.is_machine_wide(),
            since_boot,
            watched,
            per_second: watched
                .zip(seconds)
                .map(|(count, seconds)| count as f64 / seconds.max(1e-3)),
            means,
            remedy,
            part,
        });
    }
    entries.order_by(|a, b| (a.stage, &a.place, &a.counter).cmp(&(b.stage, &b.place, &b.counter)));
    let value = |counter: &Counter, value: u64| rise(counter, value).unwrap_or(value);
    let balance = balance(now, before.is_some(), &entries, value);
    Ledger { seconds, entries, balance, reasons: Vec::new(), gaps: now.gaps.clone() }
}

impl Ledger {
    /// Adds the kernel's own reasons, counted over the time that was watched.
    pub fn explain(&mut self, counts: BTreeMap<String, u64>) {
        let seconds = self.seconds.unwrap_or(1.0).max(1e-3);
        self.reasons = counts
            .into_iter()
            .map(|(reason, watched)| Reason {
                reason,
                watched,
                per_second: watched as f64 / seconds,
            })
            .collect();
        self.reasons.order_by(|a, b| (b.watched, &a.reason).cmp(&(a.watched, &b.reason)));
    }
}

type Meaning = (Stage, Kind, Part, [&'static str; 2]);

fn meaning(counter: &Counter, all: &BTreeMap<Counter, u64>) -> Option<Meaning> {
    if counter.source == Source::Driver {
        let own = |name: &str| {
            let place = counter.place.clone();
            let own = Counter { source: Source::Device, place, name: name.to_owned() };
            all.get(&own).copied().unwrap_or(0)
        };
        let (stage, kind, words) = of_driver(&counter.name, own);
        let part = if stage == Stage::Transmit { Part::Behind } else { Part::Before };
        return Some((stage, kind, part, words));
    }
    let class = CLASSES.iter().find(|c| c.source == counter.source && c.name == counter.name)?;
    let (mut stage, mut kind) = (class.stage, class.kind);
    if counter.source == Source::Softnet {
        let handed = Counter { name: "received_rps".into(), ..counter.clone() };
        if all.get(&handed).is_some_and(|count| *count > 0) {
            stage = Stage::RpsBacklog;
        }
    }
    // Filters at ingress drop what a rule of theirs says, before IP.
    if counter.source == Source::Qdisc && counter.place.contains(" ingress ") {
        let words = [
            "a filter at ingress drops it (a policer, or a rule)",
            "tc -s filter show dev <device> ingress",
        ];
        let kind = if kind == Kind::Lost { Kind::ByRule } else { kind };
        return Some((Stage::Ingress, kind, Part::Before, words));
    }
    // What stands in another is counted by it too; a shaper's loss counts where it stands.
    if counter.source == Source::Qdisc
        && counter.place.ends_with(" inner")
        && kind == Kind::Lost
        && above(counter, all).is_none()
    {
        kind = Kind::Detail;
    }
    Some((stage, kind, class.part, [class.means, class.remedy]))
}

/// The root that counts the drops of a token bucket in one of its classes too.
fn above<'a>(counter: &Counter, all: &'a BTreeMap<Counter, u64>) -> Option<&'a Counter> {
    let place = counter.place.strip_suffix(" inner").filter(|_| counter.name == "drops")?;
    let device = place.split_once(" class ").filter(|(_, rest)| rest.contains(" tbf "))?.0;
    let root = format!("{device} root ");
    let is_root = |c: &&Counter| {
        c.source == Source::Qdisc
            && c.name == "drops"
            && c.place.starts_with(&root)
            && !c.place.ends_with(" inner")
    };
    all.keys().find(is_root)
}

/// Counts that a sum holds beside others, by the sum's place and name: the errors in `rx_errors` and
/// `tx_errors` (net/core/dev.c, `rtnl_link_stats64` in linux/if_link.h), and what a token bucket in a
/// class dropped in its root.
fn parts(counts: &BTreeMap<Counter, u64>) -> BTreeMap<(&str, &'static str), u64> {
    const RX: [&str; 5] = [
        "rx_crc_errors",
        "rx_frame_errors",
        "rx_length_errors",
        "rx_fifo_errors",
        "rx_over_errors",
    ];
    const TX: [&str; 3] = ["tx_aborted_errors", "tx_carrier_errors", "tx_fifo_errors"];
    let mut sums: BTreeMap<(&str, &'static str), u64> = BTreeMap::new();
    for (counter, value) in counts.iter().filter(|(c, _)| c.source == Source::Device) {
        let whole = match counter.name.as_str() {
            name if RX.contains(&name) => "rx_errors",
            name if TX.contains(&name) => "tx_errors",
            _ => continue,
        };
        let sum = sums.entry((&counter.place, whole)).or_default();
        *sum = sum.saturating_add(*value);
    }
    for (counter, value) in counts.iter().filter(|(c, _)| c.source == Source::Qdisc) {
        if let Some(root) = above(counter, counts) {
            let sum = sums.entry((&root.place, "drops")).or_default();
            *sum = sum.saturating_add(*value);
        }
    }
    sums
}

fn balance(
    now: &Reading,
    watched: bool,
    entries: &[Entry],
    value: impl Fn(&Counter, u64) -> u64,
) -> Balance {
    let sum = |wanted: &[(Source, &str)]| {
        let is_wanted = |c: &Counter| wanted.iter().any(|(s, n)| c.source == *s && c.name == *n);
        let all = now.counts.iter().filter(|(counter, _)| is_wanted(counter));
        all.fold(0_u64, |sum, (counter, n)| sum.saturating_add(value(counter, *n)))
    };
    use Source::{Device, Ip, Ip6, Netstat, RouteCache};
    let lost = |part: Part| {
        let all = entries.iter().filter(|e| e.is_loss() && e.part == part && !e.machine_wide);
        all.fold(0_u64, |sum, e| sum.saturating_add(e.count()))
    };
    let received = sum(&[(Ip, "InReceives"), (Ip6, "Ip6InReceives")]);
    let delivered = sum(&[(Ip, "InDelivers"), (Ip6, "Ip6InDelivers")]);
    let merged = sum(&[(Ip, "ReasmReqds"), (Ip6, "Ip6ReasmReqds")])
        .saturating_sub(sum(&[(Ip, "ReasmOKs"), (Ip6, "Ip6ReasmOKs")]));
    // Since 6.7 a packet counts as forwarded before the forward hook (ip_forward in
    // net/ipv4/ip_forward.c, ip6_forward in net/ipv6/ip6_output.c); those kernels have OutTransmits.
    // Before, it does so behind it (ip_forward_finish; ip6_forward_finish since 4.17, commit
    // 71a1c915238c).
    let routed = sum(&[(Ip, "ForwDatagrams"), (Ip6, "Ip6OutForwDatagrams")]);
    let at_forward = lost(Part::Forward);
    let is_early = now.counts.keys().any(|c| c.source == Ip && c.name == "OutTransmits");
    let passed = if is_early { routed.saturating_sub(at_forward) } else { routed };
    let own = sum(&[(Ip, "OutRequests"), (Ip6, "Ip6OutRequests")]);
    // What counts as forwarded and is not handed to a device was dropped by somebody who counts
    // nothing.
    let handed = sum(&[
        (Ip, "OutTransmits"),
        (Ip6, "Ip6OutTransmits"),
        (Source::Rule, "out"),
        (Source::Rule, "out6"),
    ]);
    let missing = if is_early { passed.saturating_add(own).saturating_sub(handed) } else { 0 };
    let forwarded = passed.saturating_sub(missing);
    let lost_ip = lost(Part::Ip).saturating_add(at_forward);
    let explained =
        [forwarded, delivered, merged, lost_ip].into_iter().fold(0_u64, u64::saturating_add);
    let unexplained = received.cast_signed().wrapping_sub(explained.cast_signed());
    let mut may_be = Vec::new();
    let mut say = |count: u64, words: &str| {
        if count > 0 {
            may_be.push(format!("{words} ({count})"));
        }
    };
    if unexplained != 0 {
        let multicast =
            [(Netstat, "InMcastPkts"), (Ip6, "Ip6InMcastPkts"), (Netstat, "InBcastPkts")];
        say(sum(&multicast), "multicast and broadcasts that nobody here wants, at most");
        say(
            sum(&[
                (RouteCache, "in_no_route"),
                (RouteCache, "in_martian_src"),
                (RouteCache, "in_martian_dst"),
            ]),
            "routes of the types unreachable, prohibit and blackhole, and martians, by the whole \
             machine's counters",
        );
        say(now.uncounted.len() as u64, "rules and policies that drop and count nothing");
        may_be.extend(now.uncounted.iter().take(8).cloned());
        if !watched {
            may_be.push("rules that were loaded later than the machine was started".to_owned());
        }
        if now.gaps.iter().any(|gap| gap.what == "rules that drop") {
            may_be.push("rules, which could not be read".to_owned());
        }
    }
    Balance {
        frames_in: sum(&[(Device, "rx_packets")]),
        received,
        forwarded,
        delivered,
        merged,
        lost: lost_ip,
        unexplained,
        may_be,
        own,
        lost_behind: lost(Part::Behind),
        frames_out: sum(&[(Device, "tx_packets")]),
    }
}

#[cfg(test)]
mod tests;
