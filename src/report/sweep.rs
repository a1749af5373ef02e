//! A sweep in words: its tables, its knee, what to doubt. The terminal, Markdown and the page only lay
//! them out.

use super::markdown::plain;
use crate::experiment::CONFIDENCE;
use crate::experiment::stats::{mean, t_interval};
use crate::model::measurement::{Protocol, RefusalCode};
use crate::model::order::InOrder;
use crate::model::sweep::{
    GoalOutcome, GoalResult, Knee, KneeVerdict, Limit, RateSearch, Sweep, SweepEnd, SweepKind,
    SweepPoint,
};
use crate::model::units::BitRate;
use crate::model::wire::{Encapsulation, Frame, PacketRate, tcp_ceiling};

/// The link that rates are set beside.
const GIGABIT: BitRate = BitRate(1e9);

/// Rows under a heading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    /// What it shows.
    pub title: &'static str,
    /// Heading of each column.
    pub heading: Vec<&'static str>,
    /// As many cells in each as there are columns.
    pub rows: Vec<Vec<String>>,
}

impl Grid {
    fn new(title: &'static str, heading: &[&'static str]) -> Self {
        Self { title, heading: heading.to_vec(), rows: Vec::new() }
    }

    fn row(&mut self, cells: impl Into<Vec<String>>) {
        self.rows.push(cells.into());
    }
}

/// Everything that is said of a sweep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// What was measured.
    pub title: String,
    /// Its tables, none of them empty.
    pub grids: Vec<Grid>,
    /// Where the knee is.
    pub knee: Option<String>,
    /// What to doubt.
    pub doubts: Vec<String>,
    /// What else one must know.
    pub notes: Vec<String>,
    /// What kind of evidence it is.
    pub evidence: String,
}

/// Says it.
#[must_use]
pub fn told(sweep: &Sweep) -> Told {
    let s = &sweep.scenario;
    let series = match s.protocol {
        Protocol::Udp => rates(sweep),
        Protocol::Tcp => sizes(sweep),
    };
    let frame = sweep.points.first().map_or(Frame(0), |p| p.frame);
    let mut notes = sweep.notes.clone();
    if sweep.quick && !sweep.searches.is_empty() {
        notes.push("quick is exploratory; --preset rfc2544 is the full search".into());
    }
    let hosts = super::words::hosts(&sweep.agents).into_iter();
    notes.extend(hosts.map(|(label, host)| format!("{label}: {host}")));
    Told {
        title: clean(&format!(
            "sweep of {}: {} {}, {} streams, {} rules, router {}",
            sweep.kind, s.name, sweep.direction, s.streams, s.rules, sweep.candidate
        )),
        grids: [series, searches(&sweep.searches)]
            .into_iter()
            .filter(|grid| !grid.rows.is_empty())
            .collect(),
        knee: sweep.knee.as_ref().map(|found| knee(found, frame)),
        doubts: doubts(sweep).iter().map(|why| clean(why)).collect(),
        notes: notes.iter().map(|note| clean(note)).collect(),
        evidence: format!("evidence: {}", sweep.class.meaning()),
    }
}

/// Without control characters: a record from elsewhere must not steer the terminal.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// As GitHub-flavoured Markdown.
#[must_use]
pub fn markdown(sweep: &Sweep) -> String {
    let told = told(sweep);
    let mut out =
        format!("# linerate: {} on {}\n\n", plain(&told.title), plain(&sweep.machine.hostname));
    for grid in &told.grids {
        out += &format!("## {}\n\n| {} |\n", grid.title, grid.heading.join(" | "));
        out += &format!("|{}\n", "---|".repeat(grid.heading.len()));
        for row in &grid.rows {
            let cells: Vec<String> = row.iter().map(|cell| plain(cell)).collect();
            out += &format!("| {} |\n", cells.join(" | "));
        }
        out.push('\n');
    }
    let knee = told.knee.map(|knee| format!("**knee**: {}", plain(&knee)));
    let doubts = told.doubts.iter().map(|why| format!("**{}**", plain(why)));
    let notes = told.notes.iter().chain([&told.evidence]).map(|note| plain(note));
    for line in knee.into_iter().chain(doubts).chain(notes) {
        out += &format!("- {line}\n");
    }
    out += &format!("\nMade with:\n\n    {}\n", super::words::shell(&sweep.command));
    out
}

fn mbit(rate: PacketRate, frame: Frame) -> String {
    format!("{:.1}", rate.bits(frame.udp_payload()).mbps())
}

/// The rates of a series, repeats together.
fn rates(sweep: &Sweep) -> Grid {
    let mut table = Grid::new(
        "The series, repeats together",
        &[
            "asked Mbit/s",
            "packets/s",
            "sent packets/s",
            "arrived packets/s",
            "lost",
            "wire Mbit/s",
            "busiest CPU",
            "limit",
        ],
    );
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

/// What a segment or packet size brings.
fn sizes(sweep: &Sweep) -> Grid {
    let heading = if sweep.kind == SweepKind::Mss { "MSS" } else { "MTU" };
    let mut table = Grid::new(
        "What each size brings",
        &[
            heading,
            "frame",
            "on the wire",
            "Mbit/s",
            "packets/s",
            "of them in 1 Gbit/s",
            "1 Gbit/s carries Mbit/s",
            "busiest CPU",
            "runs",
        ],
    );
    for group in groups(&sweep.points, |p| f64::from(p.size)) {
        let Some(first) = group.first() else { continue };
        let valid: Vec<&SweepPoint> = group.iter().copied().filter(|p| p.is_valid()).collect();
        let of = |value: fn(&SweepPoint) -> f64| valid.iter().map(|p| value(p)).collect::<Vec<_>>();
        // Where nobody counted the router's packets there is nothing to tell.
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

fn searches(searches: &[RateSearch]) -> Grid {
    let mut table = Grid::new(
        "Highest rates that meet a goal",
        &[
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
        ],
    );
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

/// What to doubt.
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
    // Rates that could not be sent are told by the maximum.
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
