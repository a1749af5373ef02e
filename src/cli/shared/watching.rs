//! The router interval after interval, for `record`, `top` and `watch`: rates, and beside them who serves what,
//! what is in force and what is lost.
//!
//! Rates are read every time. The rest takes longer to read, so each part of it has a pace: it is looked
//! at again after some seconds, and later where looking took long, which keeps its share of a CPU small.

use std::time::Duration;

use super::persisted;
use crate::change::apply::{Drifted, Whereabouts};
use crate::cli::context::Context;
use crate::decide::diagnose::live;
use crate::decide::losses::{Kind, ledger};
use crate::error::{Error, Result};
use crate::machine::discover;
use crate::machine::host::{HostError, HostRead, clock};
use crate::machine::store;
use crate::measure::sample::{Telemetry, Watch};
use crate::model::loss::Reading;
use crate::model::order::InOrder;
use crate::model::snapshot::Snapshot;
use crate::model::telemetry::{Drift, Interval, Loss, Standing};

/// Each part that is looked at on the side may take this part of a CPU's time: 0.2 %, and 0.02 % where it
/// goes on for months.
const SHARE: u32 = 500;
const SPARING: u32 = 5000;
/// And then it is looked at again after so long at the latest, on the slowest machine too.
const LATEST: Duration = Duration::from_secs(120);
/// A part is looked at again no sooner than after so long, whatever happens.
const SOONEST: Duration = Duration::from_secs(2);
/// Most counters of loss that are told of.
const LOSSES: usize = 20;

/// Pace of a part that is not read every time.
struct Pace {
    least: Duration,
    share: u32,
    due: Duration,
    last: Duration,
}

impl Pace {
    fn new(extent: Extent, least: u64) -> Self {
        let share = if extent == Extent::Sparing { SPARING } else { SHARE };
        let least = Duration::from_secs(least);
        Self { least, share, due: Duration::ZERO, last: Duration::ZERO }
    }

    /// True if it is time to look again; the next time is told by [`Pace::took`].
    fn is_due(&self) -> bool {
        clock::monotonic() >= self.due
    }

    fn took(&mut self, cpu: Duration) {
        self.last = clock::monotonic();
        let pause = cpu.saturating_mul(self.share);
        let pause = if self.share == SPARING { pause.min(LATEST) } else { pause };
        self.due = self.last + self.least.max(pause);
    }

    /// Something happened: the next look comes as soon as it may.
    fn hurry(&mut self) {
        self.due = self.due.min(self.last + SOONEST);
    }
}

/// Extent of what is watched.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Extent {
    /// Rates alone, of the devices that were there at the start.
    Rates,
    /// Rates, and what stands beside them.
    Standing,
    /// And devices that come later.
    #[cfg(feature = "top")]
    Following,
    /// The same without interrupts, at a tenth of the cost: for a watch that goes on for months.
    Sparing,
}

impl Extent {
    fn follows(self) -> bool {
        match self {
            Self::Rates | Self::Standing => false,
            #[cfg(feature = "top")]
            Self::Following => true,
            Self::Sparing => true,
        }
    }

    /// CPUs, devices and interrupt lines to read.
    fn watch(self, snapshot: &Snapshot, wanted: &[String]) -> Watch {
        let mut watch = Watch::of(snapshot, wanted);
        if self == Self::Sparing {
            watch.irqs.clear();
        }
        watch
    }
}

/// A router that is watched.
pub(in crate::cli) struct Watcher<'a> {
    host: &'a dyn HostRead,
    wanted: &'a [String],
    extent: Extent,
    snapshot: Snapshot,
    telemetry: Telemetry<'a>,
    standing: Standing,
    /// The first interval has not been told of yet, or something changed.
    is_news: bool,
    outline: Pace,
    in_force: Pace,
    losses: Pace,
    counters: Option<(Reading, Duration)>,
    /// Drift as it was read since it was last taken.
    drifted: Option<Vec<Drifted>>,
    is_outlined: bool,
}

impl<'a> Watcher<'a> {
    /// Takes the first reading of this machine, or of those of its devices that are `wanted`.
    pub(in crate::cli) fn start(
        context: &'a Context,
        verb: &str,
        wanted: &'a [String],
        extent: Extent,
    ) -> Result<Self> {
        let host = context.live(verb)?;
        context.seen()?;
        let begun = clock::own_cpu();
        let snapshot = discover::snapshot(host);
        if let Some(missing) = wanted.iter().find(|name| snapshot.netdev(name).is_none()) {
            let there: Vec<&str> = snapshot.netdevs.iter().map(|d| d.name.as_str()).collect();
            return Err(Error::usage(format!("{verb} device {missing}"), "no such device")
                .hint(format!("devices here: {}", there.join(", "))));
        }
        let mut outline = Pace::new(extent, 10);
        outline.took(clock::own_cpu().saturating_sub(begun));
        let watch = extent.watch(&snapshot, wanted);
        let mut watcher = Self {
            host,
            wanted,
            extent,
            telemetry: Telemetry::start(host, watch).map_err(unreadable)?,
            standing: Standing::default(),
            is_news: true,
            outline,
            in_force: Pace::new(extent, 5),
            losses: Pace::new(extent, 5),
            counters: None,
            drifted: None,
            is_outlined: false,
            snapshot,
        };
        watcher.outlined();
        watcher.look_around();
        Ok(watcher)
    }

    /// Interval since the last call, or since the start, with what stands beside it where that changed.
    pub(in crate::cli) fn advance(&mut self) -> Result<Interval> {
        let mut interval = self.telemetry.advance().map_err(unreadable)?;
        self.look_around();
        if std::mem::take(&mut self.is_news) && self.extent != Extent::Rates {
            interval.standing = Some(Box::new(self.standing.clone()));
        }
        Ok(interval)
    }

    /// All that stands beside the rates.
    pub(in crate::cli) fn standing(&self) -> &Standing {
        &self.standing
    }

    /// Asks the drivers for the packets of each queue, or no longer.
    pub(in crate::cli) fn ask_queues(&mut self, on: bool) {
        self.telemetry.ask_queues(on);
    }

    /// The router as it was last looked at as a whole.
    pub(in crate::cli) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// True if the router was looked at as a whole since this was last asked.
    pub(in crate::cli) fn take_outlined(&mut self) -> bool {
        std::mem::take(&mut self.is_outlined)
    }

    /// Settings that differ, if they were read since this was last asked.
    pub(in crate::cli) fn take_drifted(&mut self) -> Option<Vec<Drifted>> {
        self.drifted.take()
    }

    /// Looks at settings again soon; with `whole`, at the router as a whole too.
    pub(in crate::cli) fn hurry(&mut self, whole: bool) {
        self.in_force.hurry();
        if whole {
            self.outline.hurry();
        }
    }

    fn look_around(&mut self) {
        if self.extent == Extent::Rates {
            return;
        }
        let before = self.standing.clone();
        let begun = clock::own_cpu();
        if self.outline.is_due() {
            self.snapshot = discover::snapshot(self.host);
            self.outlined();
            if self.extent.follows() {
                self.telemetry.follow(self.extent.watch(&self.snapshot, self.wanted));
            }
            self.outline.took(clock::own_cpu().saturating_sub(begun));
        }
        let begun = clock::own_cpu();
        if self.in_force.is_due() {
            self.settings();
            self.in_force.took(clock::own_cpu().saturating_sub(begun));
        }
        let begun = clock::own_cpu();
        if self.losses.is_due() {
            self.ledger();
            self.losses.took(clock::own_cpu().saturating_sub(begun));
        }
        self.is_news |= self.standing != before;
    }

    fn outlined(&mut self) {
        self.is_outlined = true;
        let (snapshot, standing) = (&self.snapshot, &mut self.standing);
        standing.hostname.clone_from(&snapshot.machine.hostname);
        standing.kernel.clone_from(&snapshot.machine.kernel);
        standing.links = live::links(snapshot);
        standing.serves = live::serves(snapshot);
        if !self.wanted.is_empty() {
            standing.links.retain(|link| self.wanted.contains(&link.device));
            standing.serves.retain(|one| self.wanted.contains(&one.device));
        }
    }

    /// Reads what is in force; where that fails, it stays as it was.
    fn settings(&mut self) {
        let Ok(kept) = persisted::kept(self.host, &store::state_dir()) else { return };
        let here = kept.in_force.iter().filter(|one| one.place == Whereabouts::Here);
        self.standing.applied = here.map(|one| one.journal.header.what.clone()).collect();
        self.standing.persisted = kept.persisted.map(|state| state.plan);
        let drift = kept.drift.iter().map(|one| Drift {
            setting: one.knob.to_string(),
            wanted: one.wanted.clone(),
            is: one.is.clone(),
        });
        self.standing.drift = drift.collect();
        self.drifted = Some(kept.drift);
    }

    fn ledger(&mut self) {
        let now = (discover::losses(self.host, &self.snapshot), clock::monotonic());
        if let Some((before, at)) = &self.counters {
            let seconds = now.1.saturating_sub(*at).as_secs_f64();
            let found = ledger(&now.0, Some((before, seconds))).entries;
            let lost = found.into_iter().filter(|e| e.kind == Kind::Lost && e.count() > 0);
            let mut losses: Vec<Loss> = lost
                .map(|entry| Loss {
                    stage: entry.stage.words().to_owned(),
                    per_second: entry.per_second.unwrap_or(0.0),
                    place: entry.place,
                    counter: entry.counter,
                })
                .collect();
            losses.order_by(|a, b| b.per_second.total_cmp(&a.per_second));
            losses.truncate(LOSSES);
            self.standing.losses = losses;
        }
        self.counters = Some(now);
    }
}

fn unreadable(e: HostError) -> Error {
    Error::not_supported(format!("read {}", e.path.display()), e.reason())
}
