//! `linerate sweep`: a series over the rate, the frame size, the MSS or the MTU, with NDR, PDR and
//! the knee.

mod args;

pub use args::{SweepArgs, What};

use std::cell::RefCell;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::context::Context;
use super::interrupt;
use super::output::Output;
use super::shared::hosts::within_link;
use super::shared::loads::refuse_nat66;
use super::shared::waiting;
use crate::decide::plan;
use crate::error::{Error, ExitCode, Result};
use crate::machine::host::clock;
use crate::machine::store::measured::{SweepDocument, write_sweep};
use crate::measure::bench::Bed;
use crate::measure::bench::hosts::Hosts;
use crate::measure::bench::sweep::{Sweeper, ladder};
use crate::measure::search::{Point, TOLERANCE, knee};
use crate::measure::tune::Workbench;
use crate::model::ethernet::{Frame, PacketRate};
use crate::model::measurement::{EvidenceClass, Refusal, RefusalCode};
use crate::model::snapshot::Machine;
use crate::model::sweep::{Knee, Limit, RateSearch, Sweep, SweepEnd, SweepPoint};
use crate::model::units::BitRate;
use crate::report::sweep as report;

/// Share of the time allowed that the series of rates may take before the search begins.
const SERIES_SHARE: f64 = 0.5;

/// Runs the command.
pub(super) fn run(context: &Context, args: &SweepArgs) -> Result<ExitCode> {
    context.live("sweep")?;
    let out = &context.out;
    // Over real wires sizes depend on the MTU that the way turns out to have.
    let mut args = args.clone();
    if args.wire.hosts().is_none() || args.what == What::Mtu {
        args.check()?;
    }
    refuse_nat66(args.scenario)?;
    let output = args.output.clone().unwrap_or_else(|| args.force.usual("linerate-sweep.json"));
    args.force.check(&output)?;
    let stop = interrupt::stop_flag()?;
    let wire = over_wire(&mut args, context, &stop)?;
    let args = &args;
    let started = clock::wall();
    out.say(args.announcement());
    let mut tour = Tour::new(args, context, wire.as_ref(), &stop);
    let ran = tour.run();
    out.progress_done();
    // What was measured before something failed is kept.
    let sweep = tour.record(started);
    if let Some(sweep) = &sweep {
        // A full disk, or a reader that went away, must not take the other of the two too.
        let written = write_sweep(&output, sweep);
        let shown = if out.json {
            out.json(&SweepDocument::of(sweep))
        } else {
            out.document(&report::document(sweep))
        };
        written.and(shown)?;
        out.say(format_args!("record: {}", output.display()));
    }
    if ran? == SweepEnd::Interrupted {
        out.say("interrupted: what was measured is kept, and everything was put back");
        return Ok(ExitCode::Interrupted);
    }
    let stands = sweep.is_some_and(|s| s.runs().any(SweepPoint::is_valid));
    Ok(if stands { ExitCode::Done } else { ExitCode::Refused })
}

/// The agents, where it is they that measure.
fn over_wire(args: &mut SweepArgs, context: &Context, stop: &AtomicBool) -> Result<Option<Hosts>> {
    if args.wire.hosts().is_none() {
        return Ok(None);
    }
    let wire = args.wire.connect(context, "sweep", stop)?;
    args.mtu = wire.facts().mtu;
    args.check()?;
    if wire.address.is_ipv6() {
        return Err(Error::not_supported("sweep", "frame sizes are worked out for IPv4 alone")
            .hint("name an IPv4 address of the WAN host: --wan-address"));
    }
    within_link(&wire, args.to.map(|mbit| BitRate(mbit * 1e6)))?;
    Ok(Some(wire))
}

/// A sweep under way.
struct Tour<'a> {
    args: &'a SweepArgs,
    context: &'a Context,
    out: &'a Output,
    /// In place of labs.
    wire: Option<&'a Hosts>,
    stop: &'a AtomicBool,
    deadline: Option<Duration>,
    /// Known when the first lab stands.
    place: Option<Setting>,
    points: Vec<SweepPoint>,
    searches: Vec<RateSearch>,
    knee: Option<Knee>,
    ended: SweepEnd,
    notes: Vec<String>,
    sent_by: RefCell<Option<String>>,
}

struct Setting {
    machine: Machine,
    candidate: String,
}

impl<'a> Tour<'a> {
    fn new(
        args: &'a SweepArgs,
        context: &'a Context,
        wire: Option<&'a Hosts>,
        stop: &'a AtomicBool,
    ) -> Self {
        let budget = args.budget().and_then(|s| Duration::try_from_secs_f64(s).ok());
        Self {
            args,
            context,
            out: &context.out,
            wire,
            stop,
            deadline: budget.map(|b| clock::monotonic() + b),
            place: None,
            points: Vec::new(),
            searches: Vec::new(),
            knee: None,
            ended: SweepEnd::Complete,
            notes: Vec::new(),
            sent_by: RefCell::default(),
        }
    }

    fn run(&mut self) -> Result<SweepEnd> {
        let sizes = self.args.sizes();
        match self.args.what {
            What::Rate => self.in_lab(self.args.mtu, Self::rate)?,
            What::Frame => self.in_lab(self.args.mtu, Self::frames)?,
            What::Mss => self.in_lab(self.args.mtu, |tour, bench| {
                let sizes: Vec<_> = sizes.iter().map(|mss| (*mss, Some(*mss))).collect();
                tour.tcp(bench, &sizes)
            })?,
            What::Mtu => {
                for mtu in sizes {
                    self.in_lab(mtu, |tour, bench| tour.tcp(bench, &[(mtu, None)]))?;
                    if self.ended != SweepEnd::Complete {
                        break;
                    }
                }
            }
        }
        Ok(self.ended)
    }

    /// Builds a lab, sets its router up, and does the job in it; or does it over the wire.
    fn in_lab(
        &mut self,
        mtu: u32,
        job: impl FnOnce(&mut Self, &dyn Bed) -> Result<SweepEnd>,
    ) -> Result<()> {
        if let Some(wire) = self.wire {
            if wire.parties.router.is_none() {
                self.notes.push(
                    "without an agent on the router (--router HOST) what is lost on the way is \
                     taken for its loss, and nothing is known of its CPUs"
                        .into(),
                );
            }
            self.place.get_or_insert_with(|| Setting {
                machine: wire.machine(),
                candidate: plan::name::AS_FOUND.to_owned(),
            });
            self.ended = job(self, wire)?;
            return Ok(());
        }
        let lock = waiting::lock(self.context, "sweep")?;
        let workbench = Workbench::build(&self.args.lab(mtu), lock, self.stop)?;
        workbench.router().notes.iter().for_each(|note| self.out.say(note));
        let candidates = plan::candidates(workbench.router().snapshot());
        let candidate = plan::find(&candidates, &self.args.candidate)?.clone();
        if self.place.is_none() && workbench.bench().shared_cpus {
            self.notes.push(
                "the load generator shares the router's CPUs: what it takes, the router lacks"
                    .into(),
            );
        }
        self.place.get_or_insert_with(|| Setting {
            machine: workbench.router().snapshot().machine.clone(),
            candidate: candidate.name.clone(),
        });
        self.ended = workbench.with(&candidate, |bench| job(self, bench))?;
        Ok(())
    }

    /// Offers a series of rates, and searches for the goals.
    fn rate(&mut self, bench: &dyn Bed) -> Result<SweepEnd> {
        let args = self.args;
        let frame = args.frame();
        let series_deadline = self.share(SERIES_SHARE);
        let (out, stop) = (self.out, self.stop);
        let mut on = |point: &SweepPoint| progress(out, point);
        let mut sweeper = Sweeper {
            bed: bench,
            direction: args.direction,
            streams: args.streams,
            sender: args.sender,
            sent_by: Some(&self.sent_by),
            deadline: series_deadline,
            stop,
            on: &mut on,
        };
        let payload = frame.udp_payload();
        let packets = |mbit: f64| PacketRate(mbit * 1e6 / 8.0 / f64::from(payload));
        let most = match args.to {
            Some(mbit) => packets(mbit),
            None => {
                // How much that is, is not known before it was tried.
                match sweeper.most(frame, args.run, &mut Vec::new())? {
                    Some(most) => most,
                    None => return Ok(sweeper.ending()),
                }
            }
        };
        let from = args.from.map_or(PacketRate(most.0 * 0.1), packets);
        let rates = ladder(from, most, args.steps);
        let ended = sweeper.series(frame, &rates, args.repeats, args.run, &mut self.points)?;
        self.knee = knee(&rates_of(&self.points), TOLERANCE);
        if ended == SweepEnd::Interrupted {
            return Ok(ended);
        }
        if ended == SweepEnd::Budget {
            self.notes
                .push("the series of rates was cut short to leave time for the search".into());
        }
        sweeper.deadline = self.deadline;
        let search = sweeper.search(frame, &args.goals(), args.to.map(packets))?;
        let ended = search.ended;
        self.searches.push(search);
        Ok(ended)
    }

    /// Searches for the goals at each frame size.
    fn frames(&mut self, bench: &dyn Bed) -> Result<SweepEnd> {
        let args = self.args;
        let sizes = args.sizes();
        let (out, stop) = (self.out, self.stop);
        let mut on = |point: &SweepPoint| progress(out, point);
        for (done, size) in sizes.iter().enumerate() {
            let frame = Frame(*size);
            let mut sweeper = Sweeper {
                bed: bench,
                direction: args.direction,
                streams: args.streams,
                sender: args.sender,
                sent_by: Some(&self.sent_by),
                // What one size does not need is the others'.
                deadline: self.share(1.0 / (sizes.len() - done) as f64),
                stop,
                on: &mut on,
            };
            let bits = f64::from(frame.udp_payload()) * 8.0;
            let maximum = args.to.map(|mbit| PacketRate(mbit * 1e6 / bits));
            match sweeper.search(frame, &args.goals(), maximum) {
                Ok(search) => {
                    let ended = search.ended;
                    self.searches.push(search);
                    if ended == SweepEnd::Interrupted {
                        return Ok(ended);
                    }
                    if ended != SweepEnd::Complete {
                        self.ended = ended;
                    }
                }
                // One size that can't be measured takes nothing from the others.
                Err(error) if error.code() == ExitCode::Refused => {
                    self.notes.push(format!("frames of {size} bytes: {error}"));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(self.ended)
    }

    fn tcp(&mut self, bench: &dyn Bed, sizes: &[(u32, Option<u32>)]) -> Result<SweepEnd> {
        let args = self.args;
        let out = self.out;
        let mut on = |point: &SweepPoint| progress(out, point);
        let mut sweeper = Sweeper {
            bed: bench,
            direction: args.direction,
            streams: args.streams,
            sender: args.sender,
            sent_by: Some(&self.sent_by),
            deadline: self.deadline,
            stop: self.stop,
            on: &mut on,
        };
        sweeper.tcp_series(sizes, args.repeats, args.run, &mut self.points)
    }

    /// The end of a share of the time that is left.
    fn share(&self, share: f64) -> Option<Duration> {
        let now = clock::monotonic();
        self.deadline.map(|deadline| now + deadline.saturating_sub(now).mul_f64(share))
    }

    fn record(mut self, started: String) -> Option<Sweep> {
        let place = self.place?;
        self.notes.extend(self.sent_by.take());
        Some(Sweep {
            program: env!("CARGO_PKG_VERSION").into(),
            command: std::env::args().collect(),
            started,
            class: self.wire.map_or(EvidenceClass::Lab, |wire| wire.facts().class),
            machine: place.machine,
            scenario: self.args.scenario(),
            candidate: place.candidate,
            kind: self.args.kind(),
            direction: self.args.direction,
            quick: self.args.is_quick(),
            points: self.points,
            searches: self.searches,
            knee: self.knee,
            ended: self.ended,
            agents: self.wire.map(Hosts::for_record).unwrap_or_default(),
            notes: self.notes,
        })
    }
}

/// The points of a series that show the knee: a rate that the sender could not send was not offered, and
/// what its own receiver lost the router forwarded.
fn rates_of(points: &[SweepPoint]) -> Vec<Point> {
    let stands = |p: &&SweepPoint| {
        let passes = |r: &Refusal| {
            matches!(
                r.code,
                RefusalCode::GeneratorBound | RefusalCode::NoTraffic | RefusalCode::UnderSent
            )
        };
        p.refusals.iter().all(passes) && !matches!(p.limit, Some(Limit::Sender | Limit::Receiver))
    };
    let point = |p: &SweepPoint| {
        // By the whole run's counts: what was under way when the window closed still arrived.
        let offered = p.offered?.0;
        Some(Point { offered, achieved: offered * (1.0 - p.loss_ratio()?), level: p.asked?.0 })
    };
    points.iter().filter(stands).filter_map(point).collect()
}

/// One line while it runs.
fn progress(out: &Output, point: &SweepPoint) {
    let asked = point.asked.map_or_else(String::new, |rate| format!(" of {rate} asked"));
    let refused = if point.is_valid() { "" } else { " (refused)" };
    out.progress(format_args!(
        "{} bytes: {:.0} Mbit/s, {}{asked}{refused}",
        point.size,
        point.goodput.mbps(),
        point.achieved
    ));
}
