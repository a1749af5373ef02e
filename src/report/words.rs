//! Everything that a report says, in words, once for all forms.

use crate::experiment::{Analysis, BAND, CandidateResult, Effect, Leaning, Verdict, compare};
use crate::model::measurement::{
    Direction, Ended, EvidenceClass, Experiment, Protocol, RefusalCode,
};
use crate::model::order::InOrder;
use crate::model::party::Party;
use crate::model::plan::ONE_CPU;
use crate::model::units::BitRate;

/// The verdict in one sentence.
#[must_use]
pub fn headline(experiment: &Experiment, analysis: &Analysis) -> String {
    let mut sentence = verdict(experiment, analysis);
    if experiment.ended == Ended::Interrupted {
        sentence.push_str(&format!(
            "; interrupted in block {} of {}",
            analysis.blocks, experiment.blocks
        ));
    }
    if analysis.refused.is_none() && analysis.at_line.iter().any(|at| at.by_cpu) {
        sentence.push_str("; by CPU time per packet where all fill the line");
    }
    if analysis.refused.is_none() && !analysis.exploratory.is_empty() {
        sentence.push_str("; exploratory, not a proof");
    }
    sentence
}

fn verdict(experiment: &Experiment, analysis: &Analysis) -> String {
    if let Some(why) = &analysis.refused {
        return format!("refused: {why}");
    }
    let Some(best) = &analysis.best else {
        // Not refused, and nothing to compare: there was one candidate only.
        let name = &experiment.baseline;
        let rates: Vec<String> = analysis
            .candidate(name)
            .into_iter()
            .flat_map(|c| &c.rates)
            .filter_map(|r| Some(format!("{} {}", r.direction, with_unit(r.median?))))
            .collect();
        return format!("{name} alone was measured ({}): nothing to compare", rates.join(", "));
    };
    let leader = &best.leader;
    if best.behind.is_empty() {
        return all_tied(experiment, analysis, leader, &best.tied);
    }

    let tied = if best.tied.is_empty() {
        String::new()
    } else {
        format!(", tied with {}", and(&best.tied))
    };
    // The lone CPU is what people ask about; else what was there before; else the slowest.
    let behind = |name: &str| best.behind.iter().find(|t| t.name == name);
    let reference = behind(ONE_CPU).or_else(|| behind(&experiment.baseline)).or_else(|| {
        best.behind.iter().max_by(|a, b| a.behind_by.ratio.total_cmp(&b.behind_by.ratio))
    });
    let against = reference
        .and_then(|r| Some((r, compare(experiment, leader, &r.name)?)))
        .map(|(r, effect)| {
            let (ratio, low, high) = figures(&effect);
            format!(
                ": {ratio} times {} (95 % CI {low} to {high}, {})",
                r.name,
                count(effect.blocks, "block")
            )
        })
        .unwrap_or_default();
    format!("best: {leader}{tied}{against}")
}

fn all_tied(experiment: &Experiment, analysis: &Analysis, leader: &str, tied: &[String]) -> String {
    let others: Vec<&CandidateResult> =
        analysis.candidates.iter().filter(|c| c.overall.is_some()).collect();
    let same = others.iter().all(|c| c.verdict == Verdict::NoPracticalDifference);
    let mut names = vec![leader.to_owned()];
    names.extend(tied.iter().cloned());
    names.order_by_key(|n| experiment.candidates.iter().position(|c| c.name == *n));
    let detail = match others.as_slice() {
        [one] => one.overall.as_ref().map(|e| {
            let (ratio, low, high) = figures(e);
            format!(
                " ({} is {ratio} times {}, 95 % CI {low} to {high}, {})",
                one.name,
                experiment.baseline,
                count(e.blocks, "block")
            )
        }),
        _ => Some(format!(" ({})", count(analysis.usable_blocks, "block"))),
    }
    .unwrap_or_default();
    if same {
        format!("no practical difference between {}{detail}", and(&names))
    } else {
        format!("tied: no difference shown between {}{detail}", and(&names))
    }
}

/// One candidate's line of the results table.
pub(super) struct Row<'a> {
    pub(super) result: &'a CandidateResult,
    /// Not shown to be slower than the leader.
    pub(super) best: bool,
    /// Median per direction in Mbit/s, or why there is none.
    pub(super) rates: Vec<String>,
    /// `0.53 (0.52 to 0.54)`.
    pub(super) ratio: String,
    pub(super) verdict: String,
}

pub(super) fn rows<'a>(experiment: &Experiment, analysis: &'a Analysis) -> Vec<Row<'a>> {
    analysis
        .candidates
        .iter()
        .map(|result| Row {
            result,
            best: analysis.best.as_ref().is_some_and(|b| b.includes(&result.name)),
            rates: result
                .rates
                .iter()
                .map(|r| match r.median {
                    Some(median) => mbps(median),
                    None if r.refused > 0 => "refused".to_owned(),
                    None => "-".to_owned(),
                })
                .collect(),
            ratio: match (&result.overall, result.observed.overall) {
                (Some(effect), _) => ratio(effect),
                (None, _) if result.name == experiment.baseline => "1".to_owned(),
                (None, Some(observed)) => bare(observed),
                (None, None) => "-".to_owned(),
            },
            verdict: verdict_of(result),
        })
        .collect()
}

pub(super) fn verdict_of(result: &CandidateResult) -> String {
    let p = result.overall.as_ref().and_then(|e| e.p).map(|p| format!(", p {}", p_value(p)));
    let p = p.unwrap_or_default();
    match result.verdict {
        Verdict::Baseline => "baseline".to_owned(),
        Verdict::Better => format!("better{p}"),
        Verdict::Worse => format!("worse{p}"),
        Verdict::NoPracticalDifference => "no practical difference".to_owned(),
        Verdict::Undecided(None) => "tied: no difference shown".to_owned(),
        Verdict::Undecided(Some(Leaning::Better)) => format!("exploratory: looks better{p}"),
        Verdict::Undecided(Some(Leaning::Worse)) => format!("exploratory: looks worse{p}"),
        Verdict::NotMeasured if result.observed.overall.is_some() => "no claim".to_owned(),
        Verdict::NotMeasured => "not measured".to_owned(),
    }
}

/// A ratio that too few blocks stand behind.
pub(super) fn bare(ratio: f64) -> String {
    format!("{ratio:.2} (no interval)")
}

/// Ratios of each direction by itself, where they are all there is: the directions of a candidate
/// that has no ratio over all of them.
pub(super) fn by_direction(analysis: &Analysis) -> Vec<String> {
    let mut lines = Vec::new();
    for result in &analysis.candidates {
        if result.overall.is_some() || result.observed.overall.is_some() {
            continue;
        }
        let each = result.observed.directions.iter();
        let known: Vec<String> = each
            .filter_map(|(direction, observed)| {
                let effect = result.directions.iter().find(|(d, _)| d == direction);
                let shown = match effect.and_then(|(_, e)| e.as_ref()) {
                    Some(effect) => ratio(effect),
                    None => bare((*observed)?),
                };
                let at = analysis.at_line.iter().find(|at| at.direction == *direction);
                let by = if at.is_some_and(|at| at.by_cpu) { " by CPU time" } else { "" };
                Some(format!("{direction}{by} {shown}"))
            })
            .collect();
        if !known.is_empty() {
            lines.push(format!("{} by direction: {}", result.name, known.join(", ")));
        }
    }
    lines
}

/// `0.53 (0.52 to 0.54)`.
pub(super) fn ratio(effect: &Effect) -> String {
    let (ratio, low, high) = figures(effect);
    format!("{ratio} ({low} to {high})")
}

/// Ratio and interval with as many decimals as the interval's width makes sense of.
pub(super) fn figures(effect: &Effect) -> (String, String, String) {
    let width = effect.high - effect.low;
    let decimals = match width {
        w if w >= 0.3 => 1,
        w if w >= 0.02 => 2,
        _ => 3,
    };
    let show = |v: f64| format!("{v:.decimals$}");
    (show(effect.ratio), show(effect.low), show(effect.high))
}

/// Four decimals, so that the 1/16 of five blocks reads 0.0625.
pub(super) fn p_value(p: f64) -> String {
    if p < 0.001 {
        return "< 0.001".to_owned();
    }
    format!("{p:.4}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Noise floor and drift.
pub(super) fn noise(analysis: &Analysis) -> Vec<String> {
    let noise = &analysis.noise;
    let mut lines = Vec::new();
    match noise.cv {
        Some(cv) => lines.push(format!(
            "noise floor: a cell varies by {} (cv; the baseline against itself within a block, {})",
            percent(cv),
            count(noise.pairs, "pair")
        )),
        None => lines
            .push("noise floor: not known (no block has a valid baseline at both ends)".to_owned()),
    }
    if let Some(drift) = noise.drift {
        let range = format!("95 % CI {} to {}", signed(drift.low), signed(drift.high));
        lines.push(if drift.is_shown() {
            format!(
                "drift: the baseline changed by {} per block ({range}); comparisons are made \
                 within blocks, so the ratios stand",
                signed(drift.per_block)
            )
        } else {
            format!("drift: none shown ({} per block, {range})", signed(drift.per_block))
        });
    }
    lines
}

pub(super) fn refused_summary(analysis: &Analysis) -> String {
    if analysis.refused_cells == 0 {
        return format!("refused: none of {}", count(analysis.cells, "cell"));
    }
    let reasons: Vec<String> = analysis
        .refusals
        .iter()
        .map(|r| format!("{} {} (first: {})", refusal(r.code), r.cells, r.example))
        .collect();
    format!(
        "refused and left out: {} of {}: {}",
        analysis.refused_cells,
        count(analysis.cells, "cell"),
        reasons.join("; ")
    )
}

/// A refusal rule in words.
pub(super) fn refusal(code: RefusalCode) -> &'static str {
    match code {
        RefusalCode::NoAcknowledgement => "no acknowledgement by the receiver",
        RefusalCode::UnderSent => "sent less than asked",
        RefusalCode::GeneratorBound => "load generator was the bottleneck",
        RefusalCode::Throttled => "throttled",
        RefusalCode::LinkChanged => "link changed",
        RefusalCode::CountersDisagree => "counters disagree",
        RefusalCode::NotMtuSized => "packets not of MTU size",
        RefusalCode::SettingsDiffer => "settings differ from what was asked",
        RefusalCode::DirectionStarved => "one direction starved",
        RefusalCode::NoTraffic => "no traffic",
        RefusalCode::Interrupted => "interrupted",
    }
}

/// Whether all was put back, in words, and whether that is so.
pub(super) fn settings(experiment: &Experiment) -> (bool, String) {
    let changed: Vec<_> = experiment.settings.iter().filter(|s| s.before != s.after).collect();
    if experiment.settings.is_empty() {
        (true, "settings: none were recorded".to_owned())
    } else if changed.is_empty() {
        (true, format!("settings: all {} as before the run", experiment.settings.len()))
    } else {
        let list: Vec<String> = changed
            .iter()
            .map(|s| format!("{} was {} and is {} ({})", s.name, s.before, s.after, s.path))
            .collect();
        (false, format!("settings NOT as before the run: {}", list.join("; ")))
    }
}

/// What was measured on, for a person: label and value.
pub(super) fn machine(experiment: &Experiment) -> Vec<(&'static str, String)> {
    let machine = &experiment.machine;
    let mut facts = vec![("host", machine.hostname.clone())];
    let optional = [
        ("board", &machine.board),
        ("processor", &machine.cpu_model),
        ("system", &machine.os),
        ("hypervisor", &machine.virtualisation),
    ];
    facts.extend(optional.into_iter().filter_map(|(k, v)| Some((k, v.clone()?))));
    facts.push(("kernel", format!("{} ({})", machine.kernel, machine.arch)));
    facts.push(("CPUs", experiment.cpus.len().to_string()));
    facts.extend(experiment.link.map(|link| ("link", format!("{:.0} Mbit/s", link.mbps()))));
    facts.extend(hosts(&experiment.agents));
    facts
}

/// The hosts that sent and took the load over real wires.
pub(super) fn hosts(agents: &[Party]) -> Vec<(&'static str, String)> {
    let of = |role, label| agents.iter().find(|p| p.role == role).map(|p| (label, host(p)));
    [of("lan", "LAN host"), of("wan", "WAN host")].into_iter().flatten().collect()
}

/// A host that sent or took the load: `pc1, 8 CPUs, load on 2-3, by eth0 (1000 Mbit/s, MTU 1500)`.
fn host(party: &Party) -> String {
    let facts = &party.facts;
    let mut text = format!("{}, {}", facts.hostname, count(facts.cpus as usize, "CPU"));
    text.extend(facts.load_cpus.as_ref().map(|cpus| format!(", load on {cpus}")));
    text.extend(facts.ways.iter().map(|way| {
        let speed = way.speed.map(|mbit| format!("{mbit} Mbit/s, ")).unwrap_or_default();
        format!(", by {} ({speed}MTU {})", way.device, way.mtu)
    }));
    text
}

/// What was measured on, in one line.
pub(super) fn machine_in_short(experiment: &Experiment) -> String {
    let machine = &experiment.machine;
    let parts = [machine.board.clone(), machine.cpu_model.clone(), machine.os.clone()];
    let mut parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.push(count(experiment.cpus.len(), "CPU"));
    parts.push(format!("kernel {}", machine.kernel));
    parts.join(", ")
}

/// What was run.
pub(super) fn scenario(experiment: &Experiment) -> Vec<(&'static str, String)> {
    let s = &experiment.scenario;
    let protocol = match s.protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
    };
    let ended = match experiment.ended {
        Ended::Complete => "all blocks were run",
        Ended::Precise => "the intervals were narrow enough",
        Ended::Budget => "the time allowed was used up",
        Ended::Interrupted => "interrupted by the user",
    };
    vec![
        ("scenario", s.name.clone()),
        ("filter rules", format!("{} that never match", s.rules)),
        (
            "load",
            format!(
                "{} {}",
                count(s.streams as usize, &format!("{protocol} stream")),
                ways(experiment)
            ),
        ),
        ("MTU", format!("{} bytes", s.mtu)),
        ("each cell", format!("{} s measured, the first {} s left out", s.seconds, s.omit)),
        ("blocks", format!("{} asked for; {ended}", experiment.blocks)),
        ("begun", experiment.started.clone()),
    ]
}

fn ways(experiment: &Experiment) -> String {
    let ways: Vec<String> = experiment
        .directions
        .iter()
        .map(|d| match d {
            Direction::Down => "down (WAN to LAN)".to_owned(),
            Direction::Up => "up (LAN to WAN)".to_owned(),
            Direction::Both => "both ways at once".to_owned(),
        })
        .collect();
    and(&ways)
}

/// Why softirq time can't be taken to the letter, where that is so.
pub(super) fn softirq_note(experiment: &Experiment) -> Option<&'static str> {
    (experiment.machine.irq_time_accounting == Some(false)).then_some(
        "this kernel does not time soft interrupts (CONFIG_IRQ_TIME_ACCOUNTING is off): the \
         shares are samples taken by the timer tick, and what runs between two ticks is missed",
    )
}

fn changes_nothing(experiment: &Experiment, name: &str) -> bool {
    let named = experiment.candidates.iter().find(|candidate| candidate.name == name);
    named.is_some_and(|candidate| candidate.changes().next().is_none())
}

/// What to do next.
pub(super) fn next_steps(experiment: &Experiment, analysis: &Analysis) -> Vec<String> {
    let mut steps = Vec::new();
    if analysis.refused.is_some() {
        steps.push("nothing should be changed on this evidence; run it again".to_owned());
        return steps;
    }
    if let Some(best) = &analysis.best {
        if best.includes(&experiment.baseline) {
            steps
                .push(format!("keep {}: nothing else was shown to be faster", experiment.baseline));
        } else if changes_nothing(experiment, &best.leader) {
            steps.push(format!("leave it as it is: {}, the best, changes nothing", best.leader));
        } else {
            let which = if best.tied.is_empty() { "" } else { " (or one that is tied with it)" };
            steps.push(format!("try {}{which} on the router itself", best.leader));
        }
    }
    if !analysis.exploratory.is_empty() {
        steps.push(format!("for a proof, run more blocks ({})", analysis.exploratory.join("; ")));
    } else if analysis.candidates.iter().any(|c| matches!(c.verdict, Verdict::Undecided(_))) {
        steps.push(
            "to tell the tied apart, run more blocks: twice as narrow an interval takes four \
             times as many"
                .to_owned(),
        );
    }
    steps
}

/// How a candidate gets onto a router and off it again: command and what it does.
pub(super) fn apply_and_undo(experiment: &Experiment, name: &str) -> Vec<(String, &'static str)> {
    // Factors of a search among placements are devices and queues: `rps:wan0/0`.
    let by_device = |word: &str| word.starts_with("irq:") || word.starts_with("rps:");
    let of_lab = experiment.class != EvidenceClass::Wire && name.split(' ').any(by_device);
    let plan = if of_lab {
        (
            "linerate plan -o plan.toml".to_owned(),
            "makes a placement for the router's own devices: the one found here names the lab's, \
             which it does not have",
        )
    } else {
        (
            format!("linerate plan --candidate {} -o plan.toml", quoted(name)),
            "what it would change there, and why",
        )
    };
    vec![
        plan,
        (
            "linerate apply plan.toml".to_owned(),
            "sets it: journal first, read back, all or nothing",
        ),
        (
            "linerate apply --confirm 60 plan.toml".to_owned(),
            "the same, undone after 60 s unless linerate confirm comes first: for a router that you \
             reach through itself",
        ),
        ("linerate verify plan.toml".to_owned(), "tells whether it is still in force"),
        (
            "linerate persist plan.toml".to_owned(),
            "keeps it over reboots; linerate unpersist ends that",
        ),
        ("linerate rollback".to_owned(), "puts back exactly what was there before"),
    ]
}

/// The command that repeats the run in the same random order.
pub(super) fn command(experiment: &Experiment) -> String {
    let words = &experiment.command;
    let mut line = shell(words);
    if !words.iter().any(|w| w == "--seed" || w.starts_with("--seed=")) {
        line += &format!(" --seed {}", experiment.seed);
    }
    line
}

/// A command line as a shell takes it.
pub(super) fn shell(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The rule behind "best" and "tied".
pub(super) fn best_rule(analysis: &Analysis) -> Option<String> {
    let best = analysis.best.as_ref()?;
    Some(format!(
        "not shown to be slower than {}, which has the highest mean; a difference counts when its \
         interval lies beyond {:.0} %",
        best.leader,
        (BAND - 1.0) * 100.0
    ))
}

/// In Mbit/s with about three significant digits.
pub(super) fn mbps(rate: BitRate) -> String {
    let value = rate.mbps();
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

fn with_unit(rate: BitRate) -> String {
    format!("{} Mbit/s", mbps(rate))
}

/// `3.1 %`.
pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

pub(super) fn signed(share: f64) -> String {
    // Adding zero turns a rounded "-0.0" into "+0.0".
    let value = (share * 1000.0).round() / 10.0 + 0.0;
    format!("{value:+.1} %")
}

/// `1 block`, `2 blocks`.
pub(super) fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// `a, b and c`.
pub(super) fn and(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
