//! The report on a sweep: the knee and the rates that met a goal, the series, what to doubt.
//!
//! In comes the record of a sweep; out goes a document. Nothing is read, written or measured.

mod figures;

use super::document::{Block, Document, Section, Table, Tone, Weight};
use super::words::{hosts, shell};
use crate::decide::experiment::CONFIDENCE;
use crate::decide::experiment::stats::{mean, t_interval};
use crate::model::ethernet::{Encapsulation, Frame, PacketRate, tcp_ceiling};
use crate::model::measurement::{Protocol, RefusalCode};
use crate::model::order::InOrder;
use crate::model::sweep::{
    GoalOutcome, GoalResult, Knee, KneeVerdict, Limit, RateSearch, Sweep, SweepEnd, SweepKind,
    SweepPoint,
};
use crate::model::units::BitRate;

/// The link that rates are set beside.
const GIGABIT: BitRate = BitRate(1e9);

/// The report on a sweep.
#[must_use]
pub fn document(sweep: &Sweep) -> Document {
    let s = &sweep.scenario;
    let mut document = Document::new(format!(
        "linerate: sweep of {}: {} {}, {} streams, {} rules, router {} on {}",
        sweep.kind,
        s.name,
        sweep.direction,
        s.streams,
        s.rules,
        sweep.candidate,
        sweep.machine.hostname
    ));
    document.origin = vec![format!("{}, linerate {}", sweep.started, sweep.program)];
    document.closing = "made from the record alone".to_owned();
    document.section(found(sweep));
    document.section(figures::section(sweep));
    let (title, series) = match s.protocol {
        Protocol::Udp => ("The series, repeats together", rates(sweep)),
        Protocol::Tcp => ("What each size brings", sizes(sweep)),
    };
    let searches = ("Highest rates that meet a goal", searches(&sweep.searches));
    for (title, table) in [(title, series), searches] {
        let table = (!table.rows.is_empty()).then_some(Block::Table(table));
        document.section(Section::new(title).with(table));
    }
    let mut notes = sweep.notes.clone();
    if sweep.quick && !sweep.searches.is_empty() {
        notes.push("quick is exploratory; --preset rfc2544 is the full search".into());
    }
    let hosts = hosts(&sweep.agents).into_iter();
    notes.extend(hosts.map(|(label, host)| format!("{label}: {host}")));
    if !notes.is_empty() {
        let notes = notes.iter().map(|note| format!("note: {note}")).collect();
        document.section(Section::new("How far to trust it").with([Block::List(notes)]));
    }
    let command = Block::Command(shell(&sweep.command));
    document.section(Section::detail("Repeat it").with([command]));
    document
}

/// The knee, the rates that met the goals, and what to doubt.
fn found(sweep: &Sweep) -> Section {
    let frame = sweep.points.first().map_or(Frame(0), |p| p.frame);
    let doubts = doubts(sweep);
    let mut blocks = Vec::new();
    if let Some(found) = &sweep.knee {
        blocks.push(Block::Prose(Tone::Lead, format!("knee: {}", knee(found, frame))));
    }
    let results = sweep.searches.iter().flat_map(|search| {
        search.results.iter().map(move |result| {
            let rate = result.lower.map(PacketRate);
            let holds = rate.map_or_else(
                || "-".to_owned(),
                |rate| {
                    let mbit = rate.bits(search.frame.udp_payload()).mbps();
                    format!("{rate}, {mbit:.0} Mbit/s")
                },
            );
            let (goal, outcome) = (&result.goal.name, words(result.outcome, search));
            format!("{goal} of {} bytes: {holds} ({outcome})", search.frame.0)
        })
    });
    let results: Vec<String> = results.collect();
    match (results.is_empty(), blocks.is_empty()) {
        (false, _) => blocks.push(Block::List(results)),
        (true, true) => blocks.push(Block::note("nothing was searched for: see the table")),
        (true, false) => {}
    }
    let weight = Weight::Verdict { refused: !doubts.is_empty() };
    blocks.extend(doubts.into_iter().map(Block::alarm));
    blocks.push(Block::note(format!("evidence: {}", sweep.class.meaning())));
    Section { weight, blocks, ..Section::default() }
}

fn mbit(rate: PacketRate, frame: Frame) -> String {
    format!("{:.1}", rate.bits(frame.udp_payload()).mbps())
}

/// The rates of a series, repeats together.
fn rates(sweep: &Sweep) -> Table {
    let mut table = Table::new(&[
        "asked Mbit/s",
        "packets/s",
        "sent packets/s",
        "arrived packets/s",
        "lost",
        "wire Mbit/s",
        "busiest CPU",
        "limit",
    ])
    .figures(0..=6);
    for group in groups(&sweep.points, |p| p.asked.map_or(0.0, |r| r.0)) {
        let Some(first) = group.first() else { continue };
        let valid: Vec<&SweepPoint> =
            group.iter().copied().filter(|p| p.loss_ratio().is_some()).collect();
        let sum =
            |of: fn(&SweepPoint) -> Option<u64>| valid.iter().filter_map(|p| of(p)).sum::<u64>();
        let (sent, lost) = (sum(|p| p.sent), sum(|p| p.lost));
        let offered: Vec<f64> = valid.iter().filter_map(|p| Some(p.offered?.0)).collect();
        let arrived: Vec<f64> =
            valid.iter().filter_map(|p| Some(p.offered?.0 * (1.0 - p.loss_ratio()?))).collect();
        let asked = first.asked.unwrap_or(PacketRate(0.0));
        let wire = mean(&arrived).map(|a| PacketRate(a).bits(first.frame.wire_bytes()).mbps());
        table.row([
            mbit(asked, first.frame),
            format!("{:.0}", asked.0),
            with_interval(&offered),
            with_interval(&arrived),
            if sent > 0 { share(lost as f64 / sent as f64) } else { "?".into() },
            wire.map_or_else(|| "?".into(), |w| format!("{w:.1}")),
            busiest(&group),
            limits(&group),
        ]);
    }
    table
}

/// Table of the rates that each segment or packet size brings.
fn sizes(sweep: &Sweep) -> Table {
    let heading = if sweep.kind == SweepKind::Mss { "MSS" } else { "MTU" };
    let mut table = Table::new(&[
        heading,
        "frame",
        "on the wire",
        "Mbit/s",
        "packets/s",
        "of them in 1 Gbit/s",
        "1 Gbit/s carries Mbit/s",
        "busiest CPU",
        "runs",
    ])
    .figures(0..=7)
    .gives_way(&[5, 6, 2]);
    for group in groups(&sweep.points, |p| f64::from(p.size)) {
        let Some(first) = group.first() else { continue };
        let valid: Vec<&SweepPoint> = group.iter().copied().filter(|p| p.is_valid()).collect();
        let of = |value: fn(&SweepPoint) -> f64| valid.iter().map(|p| value(p)).collect::<Vec<_>>();
        // Where nobody counted the router's packets there is nothing to report.
        let mut counted = of(|p| p.achieved.0);
        counted.retain(|rate| *rate > 0.0);
        let ceiling = match sweep.kind {
            // The options that every segment has are in the MSS.
            SweepKind::Mss => {
                first.frame.most_per_second(GIGABIT).bits(first.size.saturating_sub(12))
            }
            _ => tcp_ceiling(GIGABIT, Encapsulation::Plain, first.size),
        };
        table.row([
            first.size.to_string(),
            first.frame.0.to_string(),
            first.frame.wire_bytes().to_string(),
            with_interval(&of(|p| p.goodput.mbps())),
            with_interval(&counted),
            format!("{:.0}", first.frame.most_per_second(GIGABIT).0),
            format!("{:.1}", ceiling.mbps()),
            busiest(&group),
            match group.len() - valid.len() {
                0 => group.len().to_string(),
                refused => format!("{} and {refused} refused", valid.len()),
            },
        ]);
    }
    table
}

fn knee(knee: &Knee, frame: Frame) -> String {
    let at = |rate: Option<f64>| {
        rate.map_or_else(String::new, |r| {
            format!("{} Mbit/s ({})", mbit(PacketRate(r), frame), PacketRate(r))
        })
    };
    let single = if knee.has_intervals { "" } else { "; single runs, no interval possible" };
    let text = match knee.verdict {
        KneeVerdict::Found => format!(
            "between {} and {}, about {} by the best fit",
            at(knee.holds_up_to),
            at(knee.fails_at),
            at(knee.estimate)
        ),
        KneeVerdict::NoneUpToMaximum => {
            format!("none up to the maximum offered, {}", at(Some(knee.maximum)))
        }
        KneeVerdict::BelowLowest => {
            format!("below the lowest rate; {} was not followed either", at(knee.fails_at))
        }
        KneeVerdict::Undecided => format!(
            "not clear: some rates up to {} are neither followed nor not; more --repeats or a \
             longer --run tell",
            at(Some(knee.maximum))
        ),
    };
    let missing = knee.tolerance * 100.0;
    format!("{text} (followed: at most {missing:.0} % missing{single})")
}

fn searches(searches: &[RateSearch]) -> Table {
    let mut table = Table::new(&[
        "frame",
        "goal",
        "holds, packets/s",
        "fails, packets/s",
        "Mbit/s",
        "wire Mbit/s",
        "of 1 Gbit/s",
        "forwarded, packets/s",
        "trials",
        "",
    ])
    .figures([0].into_iter().chain(2..=8))
    .gives_way(&[8, 6, 7, 5]);
    for search in searches {
        for result in &search.results {
            let number = |rate: Option<f64>| rate.map_or_else(|| "-".into(), |r| format!("{r:.0}"));
            let lower = result.lower.map(PacketRate);
            let told = |of: &dyn Fn(PacketRate) -> String| lower.map_or_else(|| "-".into(), of);
            let frame = search.frame;
            let line = frame.most_per_second(GIGABIT).0;
            table.row([
                frame.0.to_string(),
                format!("{} ({} lost)", result.goal.name, share(result.goal.loss_ratio)),
                number(result.lower),
                number(result.upper),
                told(&|r| mbit(r, frame)),
                told(&|r| format!("{:.1}", r.bits(frame.wire_bytes()).mbps())),
                told(&|r| percent(r.0 / line)),
                number(result.throughput),
                search.trials.len().to_string(),
                words(result.outcome, search),
            ]);
        }
    }
    table
}

fn words(outcome: GoalOutcome, search: &RateSearch) -> String {
    match (outcome, &search.capped) {
        (GoalOutcome::AtOrAboveMaximum, Some(_)) => "at or above what could be offered".into(),
        (outcome, _) => outcome.to_string(),
    }
}

/// Reasons to doubt the figures.
fn doubts(sweep: &Sweep) -> Vec<String> {
    let mut lines = Vec::new();
    for search in &sweep.searches {
        let held = |r: &GoalResult| r.outcome == GoalOutcome::AtOrAboveMaximum;
        if let Some(why) = &search.capped
            && search.results.iter().any(held)
        {
            lines.push(format!(
                "frames of {} bytes: offered at most {}: {why}; above that, nothing is known of the \
                 router",
                search.frame.0, search.maximum
            ));
        }
    }
    for search in &sweep.searches {
        if let Some(why) = &search.gave_up {
            lines.push(format!("frames of {} bytes: {why}", search.frame.0));
        }
    }
    // The maximum already reports rates that could not be sent.
    let capped = sweep.searches.iter().any(|s| s.capped.is_some());
    let told = |code| capped && code == RefusalCode::UnderSent;
    let mut refused: Vec<(&str, usize)> = Vec::new();
    for refusal in sweep.runs().flat_map(|p| &p.refusals).filter(|r| !told(r.code)) {
        match refused.iter_mut().find(|(why, _)| *why == refusal.why) {
            Some((_, times)) => *times += 1,
            None => refused.push((&refusal.why, 1)),
        }
    }
    const SHOWN: usize = 5;
    for (why, times) in refused.iter().take(SHOWN) {
        let times = if *times > 1 { format!(" ({times} times)") } else { String::new() };
        lines.push(format!("refused: {why}{times}"));
    }
    if refused.len() > SHOWN {
        lines.push(format!("and {} more, all in the record", refused.len() - SHOWN));
    }
    let ended = match sweep.ended {
        SweepEnd::Complete => None,
        SweepEnd::Budget => {
            Some("the time allowed was over before it was finished; more with --seconds")
        }
        SweepEnd::Refused => Some("given up before it was finished: too many runs were refused"),
        SweepEnd::Interrupted => Some("stopped before it was finished"),
    };
    lines.extend(ended.map(|why| why.to_owned()));
    lines
}

/// Points with the same key, by the key.
fn groups(points: &[SweepPoint], key: impl Fn(&SweepPoint) -> f64) -> Vec<Vec<&SweepPoint>> {
    let mut sorted: Vec<&SweepPoint> = points.iter().collect();
    sorted.order_by(|a, b| key(a).total_cmp(&key(b)));
    sorted.chunk_by(|a, b| key(a) == key(b)).map(<[_]>::to_vec).collect()
}

/// The mean with its 95 % interval, where there are repeats.
fn with_interval(values: &[f64]) -> String {
    match (mean(values), t_interval(values, CONFIDENCE)) {
        (Some(_), Some(i)) => format!("{:.0} ± {:.0}", i.mean, i.half),
        (Some(mean), None) => format!("{mean:.0}"),
        _ => "-".into(),
    }
}

fn share(ratio: f64) -> String {
    let percent = ratio * 100.0;
    if percent > 0.0 && percent < 0.01 {
        format!("{percent:.4} %")
    } else {
        format!("{percent:.2} %")
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn busiest(group: &[&SweepPoint]) -> String {
    let most = group.iter().filter_map(|p| p.busiest_cpu).reduce(f64::max);
    most.map_or_else(|| "?".into(), percent)
}

fn limits(group: &[&SweepPoint]) -> String {
    let has = |limit| group.iter().any(|p| p.limit == Some(limit));
    let all = [Limit::Sender, Limit::Receiver, Limit::Router];
    let found: Vec<String> = all.into_iter().filter(|l| has(*l)).map(|l| l.to_string()).collect();
    found.join(", ")
}
