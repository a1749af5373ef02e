//! `linerate check --losses`: where packets are lost, from the wire to the wire.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::{Context, ExitCode, Result, interrupt};
use crate::decide::losses::{Balance, Entry, Ledger, Reason, ledger};
use crate::error::words;
use crate::machine::discover;
use crate::machine::host::{HostRead, clock};
use crate::machine::parse::perf;
use crate::machine::parse::tracepoint::Event;
use crate::machine::sys::perf::{Sampler, Source};
use crate::model::snapshot::{Gap, Snapshot};
use crate::report::losses as report;

/// Runs `check --losses`: the counters since boot and, with seconds, what rises in that time.
pub(super) fn run(context: &Context, seconds: Option<f64>) -> Result<ExitCode> {
    let out = &context.out;
    let host = context.seen()?;
    let snapshot = discover::snapshot(host);
    let first = discover::losses(host, &snapshot);
    let found = match seconds {
        None => ledger(&first, None),
        Some(seconds) => {
            // The counters of a capture stand still.
            let host = context.live("check --losses S")?;
            let stop = interrupt::stop_flag()?;
            let mut reasons = Reasons::open(host, &snapshot);
            let begun = clock::monotonic();
            let until = begun + Duration::from_secs_f64(seconds);
            out.say(format_args!("watching for {seconds} s; traffic should flow meanwhile"));
            while clock::monotonic() < until {
                let next = (clock::monotonic() + PACE).min(until);
                if !clock::wait_until(next, PACE, &stop) {
                    out.say("interrupted: nothing was changed");
                    return Ok(ExitCode::Interrupted);
                }
                reasons.take();
            }
            let now = discover::losses(host, &snapshot);
            let passed = clock::monotonic().saturating_sub(begun).as_secs_f64();
            let mut found = ledger(&now, Some((&first, passed)));
            found.gaps.extend(reasons.gap.take());
            found.explain(reasons.finish());
            found
        }
    };
    if out.json {
        out.json(&LossesDocument::of(&snapshot, &found))?;
    } else {
        out.document(&report::document(&snapshot, &found))?;
    }
    Ok(ExitCode::Done)
}

/// Pause between two readings of the rings, each of which holds some 2,000 dropped packets.
const PACE: Duration = Duration::from_millis(20);

/// Reasons that the kernel gives for packets that it drops (the tracepoint `skb:kfree_skb`, kernel
/// 5.17 and later), by CPU.
struct Reasons {
    event: Option<Event>,
    rings: Vec<Sampler>,
    counts: BTreeMap<String, u64>,
    lost: u64,
    gap: Option<Gap>,
}

impl Reasons {
    /// Begins to count; where that can't be had, the gap says why.
    fn open(host: &dyn HostRead, snapshot: &Snapshot) -> Self {
        let places = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
        let formats = places.map(|at| Path::new(at).join("events/skb/kfree_skb/format"));
        let format = formats.iter().find_map(|path| host.read(path).ok());
        let event = format.as_deref().and_then(|bytes| Event::read(bytes, "reason"));
        let cpus = snapshot.cpus.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id.0);
        let rings = event.as_ref().map_or(Ok(Vec::new()), |event| {
            cpus.map(|cpu| Sampler::open(cpu, Source::Tracepoint(event.id), 1)).collect()
        });
        let why = match (&format, &event, &rings) {
            (None, ..) => Some(
                "no tracefs is mounted at /sys/kernel/tracing, or the kernel has none \
                 (mount -t tracefs tracefs /sys/kernel/tracing)"
                    .to_owned(),
            ),
            (_, None, _) => Some("the kernel gives none (5.17 and later do)".to_owned()),
            (.., Err(e)) => Some(format!("perf_event_open: {}", words(e))),
            _ => None,
        };
        let gap = why.map(|why| Gap { what: "the kernel's reasons for drops".into(), why });
        let rings: Vec<Sampler> = rings.unwrap_or_default();
        Self { event, rings, counts: BTreeMap::new(), lost: 0, gap }
    }

    /// Takes what came since.
    fn take(&mut self) {
        let Some(event) = &self.event else { return };
        let mut records = Vec::new();
        for ring in &mut self.rings {
            records.clear();
            ring.drain(&mut records);
            self.lost += perf::raw(&records, |data| {
                if let Some(name) = event.name(data) {
                    *self.counts.entry(name).or_default() += 1;
                }
            });
        }
    }

    /// Counts by reason; those that the rings had no room for have one of their own.
    fn finish(mut self) -> BTreeMap<String, u64> {
        self.take();
        if self.lost > 0 {
            self.counts.insert("(too many at once to be told)".to_owned(), self.lost);
        }
        self.counts
    }
}

/// `check --losses --json`: docs/schema/losses.json.
#[derive(serde::Serialize)]
struct LossesDocument<'a> {
    format: &'static str,
    version: u32,
    hostname: &'a str,
    kernel: &'a str,
    #[serde(flatten)]
    losses: Losses<'a>,
}

/// The ledger in `check --load --json` as well.
#[derive(serde::Serialize)]
pub(super) struct Losses<'a> {
    /// Seconds that it was watched for; null for the counters since boot.
    seconds: Option<f64>,
    /// Packets lost, those that rules drop on purpose left out.
    lost: u64,
    dropped_by_rules: u64,
    entries: &'a [Entry],
    balance: &'a Balance,
    /// Reasons that the kernel itself gives.
    reasons: &'a [Reason],
    gaps: &'a [Gap],
}

impl<'a> From<&'a Ledger> for Losses<'a> {
    fn from(ledger: &'a Ledger) -> Self {
        let (dropped_by_rules, lost) = ledger.lost();
        Self {
            seconds: ledger.seconds,
            lost,
            dropped_by_rules,
            entries: &ledger.entries,
            balance: &ledger.balance,
            reasons: &ledger.reasons,
            gaps: &ledger.gaps,
        }
    }
}

impl<'a> LossesDocument<'a> {
    fn of(snapshot: &'a Snapshot, ledger: &'a Ledger) -> Self {
        Self {
            format: "linerate-losses",
            version: 1,
            hostname: &snapshot.machine.hostname,
            kernel: &snapshot.machine.kernel,
            losses: ledger.into(),
        }
    }
}
