//! The verdict in words, and what to do next.

use crate::decide::experiment::{
    Analysis, BAND, Best, CandidateResult, Decision, Effect, Leaning, Settle, Verdict, compare,
    decide, yardstick,
};
use crate::model::goal::Objective;
use crate::model::measurement::{Ended, Experiment};
use crate::report::words::{and, count, figures, mbps, with_unit};

/// The verdict in one sentence.
#[must_use]
pub fn headline(experiment: &Experiment, analysis: &Analysis) -> String {
    let mut sentence = verdict(experiment, analysis);
    if experiment.ended.is_cut_short() {
        let how = match experiment.ended {
            Ended::Interrupted => "interrupted",
            other => other.words(),
        };
        sentence
            .push_str(&format!("; {how} in block {} of {}", analysis.blocks, experiment.blocks));
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
            .filter_map(|r| Some(format!("{} {}", r.direction, with_unit(r.mean?))))
            .collect();
        return format!("{name} alone was measured ({}): nothing to compare", rates.join(", "));
    };
    match decide(experiment, analysis) {
        Decision::Apply { candidate } => faster(experiment, analysis, best, &candidate),
        Decision::Leave { why } => as_it_is(experiment, analysis, &why),
    }
}

/// `name: 2100 instead of 1400 Mbit/s (1.5 times as-found, ...)`.
fn faster(experiment: &Experiment, analysis: &Analysis, best: &Best, name: &str) -> String {
    let base = yardstick(experiment);
    let effect = match base == experiment.baseline {
        true => analysis.candidate(name).and_then(|c| c.overall),
        false => compare(experiment, name, base),
    };
    let times = effect.map(|effect| times(&effect, base)).unwrap_or_default();
    let mut sentence = match instead(experiment, analysis, name, base) {
        Some(rates) => format!("{name}: {rates} ({times})"),
        None => format!("{name}: {times}"),
    };
    if best.leader == name {
        if !best.tied.is_empty() {
            sentence += &format!("; as fast: {}", and(&best.tied));
        }
        if !best.undecided.is_empty() {
            sentence += &format!("; not shown to be slower: {}", and(&best.undecided));
        }
    }
    sentence
}

/// `1.5 times as-found, 95 % CI 1.2 to 1.8, 10 blocks`.
fn times(effect: &Effect, base: &str) -> String {
    let (ratio, low, high) = figures(effect);
    let blocks = count(effect.blocks, "block");
    format!("{ratio} times {base}, 95 % CI {low} to {high}, {blocks}")
}

/// Rates of a candidate and of what it is compared with, by direction; `None` where something else
/// than the rate was compared.
fn instead(experiment: &Experiment, analysis: &Analysis, name: &str, base: &str) -> Option<String> {
    let of_rates = experiment.goal.objective == Objective::default();
    if !of_rates || analysis.at_line.iter().any(|at| at.by_cpu) {
        return None;
    }
    let (ours, theirs) = (analysis.candidate(name)?, analysis.candidate(base)?);
    let alone = ours.rates.len() == 1;
    let each = ours.rates.iter().zip(&theirs.rates).map(|(now, then)| {
        let rates = format!("{} instead of {}", mbps(now.mean?), mbps(then.mean?));
        Some(if alone { rates } else { format!("{} {rates}", now.direction) })
    });
    Some(format!("{} Mbit/s", and(&each.collect::<Option<Vec<_>>>()?)))
}

/// The others against what there is: with their verdicts, or where that is not the baseline by their
/// intervals alone.
fn others<'a>(
    experiment: &Experiment,
    analysis: &'a Analysis,
    base: &str,
) -> Vec<(&'a CandidateResult, Verdict, Effect)> {
    let each = analysis.candidates.iter().filter(|c| c.name != base);
    each.filter_map(|c| {
        if base == experiment.baseline {
            return Some((c, c.verdict, c.overall?));
        }
        let effect = compare(experiment, &c.name, base)?;
        let verdict = match effect.side() {
            Some(Leaning::Better) => Verdict::Better,
            Some(Leaning::Worse) => Verdict::Worse,
            None if effect.is_within_band() => Verdict::NoPracticalDifference,
            None => Verdict::Undecided(None),
        };
        Some((c, verdict, effect))
    })
    .collect()
}

/// Why nothing is to be changed.
fn as_it_is(experiment: &Experiment, analysis: &Analysis, why: &str) -> String {
    let base = yardstick(experiment);
    let others = others(experiment, analysis, base);
    if others.iter().any(|(_, verdict, _)| *verdict == Verdict::Better) {
        return format!("{base} stays: {why}");
    }
    // The fastest of the others is the one that a reader would like to have.
    let fastest = |open: bool| {
        let own = others.iter().filter(|(_, v, _)| !open || matches!(v, Verdict::Undecided(_)));
        own.max_by(|a, b| a.2.ratio.total_cmp(&b.2.ratio))
    };
    if let Some((first, verdict, effect)) = fastest(true) {
        let looks = match verdict {
            Verdict::Undecided(Some(Leaning::Better)) => "looks faster, which is not shown",
            _ => "is not shown to differ",
        };
        let settled = analysis.settle.map(|settle| format!("; {} would settle it", long(&settle)));
        return format!(
            "nothing was shown to be faster than {base}: {} {looks} ({}){}",
            first.name,
            times(effect, "as fast"),
            settled.unwrap_or_default()
        );
    }
    let Some((next, _, effect)) = fastest(false) else { return format!("{base} stays: {why}") };
    if others.iter().all(|(_, verdict, _)| *verdict == Verdict::NoPracticalDifference) {
        let names: Vec<String> = experiment.candidates.iter().map(|c| c.name.clone()).collect();
        return format!(
            "no practical difference between {} ({} is {})",
            and(&names),
            next.name,
            times(effect, base)
        );
    }
    let rates = instead(experiment, analysis, &next.name, base);
    let rates = rates.map(|rates| format!("{rates}, ")).unwrap_or_default();
    format!("{base} is the fastest: next is {} ({rates}{})", next.name, times(effect, base))
}

/// `about 12 minutes (40 blocks)`.
fn long(settle: &Settle) -> String {
    let blocks = count(settle.blocks as usize, "block");
    match settle.minutes {
        minutes if minutes < 1.5 => format!("about a minute ({blocks})"),
        minutes if minutes < 120.0 => format!("about {minutes:.0} minutes ({blocks})"),
        minutes if minutes < 48.0 * 60.0 => {
            format!("about {:.0} hours ({blocks})", minutes / 60.0)
        }
        _ => "not even two days".to_owned(),
    }
}

/// The candidates that a table marks: what is advised and what was shown to be as fast, or what is
/// there where nothing is.
pub(super) fn marked(experiment: &Experiment, analysis: &Analysis) -> Vec<String> {
    let Some(best) = analysis.best.as_ref().filter(|_| analysis.refused.is_none()) else {
        return Vec::new();
    };
    match decide(experiment, analysis) {
        Decision::Apply { candidate } => {
            let shown = |name: &&String| {
                analysis.candidate(name).is_some_and(|c| c.verdict == Verdict::Better)
            };
            let tied = best.tied.iter().filter(|_| best.leader == candidate).filter(shown);
            tied.cloned().chain([candidate.clone()]).collect()
        }
        Decision::Leave { .. } => vec![yardstick(experiment).to_owned()],
    }
}

fn changes_nothing(experiment: &Experiment, name: &str) -> bool {
    let named = experiment.candidates.iter().find(|candidate| candidate.name == name);
    named.is_some_and(|candidate| candidate.changes().next().is_none())
}

/// Next steps for the reader.
pub(super) fn next_steps(experiment: &Experiment, analysis: &Analysis) -> Vec<String> {
    let mut steps = Vec::new();
    if analysis.refused.is_some() {
        steps.push("nothing should be changed on this evidence; run it again".to_owned());
        return steps;
    }
    if analysis.best.is_some() {
        steps.push(match decide(experiment, analysis) {
            Decision::Apply { candidate } if changes_nothing(experiment, &candidate) => {
                format!("leave it as it is: {candidate}, the best, changes nothing")
            }
            Decision::Apply { candidate } => format!("try {candidate} on the router itself"),
            Decision::Leave { .. } => format!(
                "change nothing: nothing was shown to be faster than {} by more than {:.0} %",
                yardstick(experiment),
                (BAND - 1.0) * 100.0
            ),
        });
    }
    if !analysis.exploratory.is_empty() {
        steps.push(format!("for a proof, run more blocks ({})", analysis.exploratory.join("; ")));
    } else if let Some(settle) = analysis.settle.filter(|s| s.minutes < 48.0 * 60.0) {
        steps.push(format!("to tell the others apart: --blocks {}", settle.blocks));
    }
    steps
}

/// The rule behind the marks.
pub(super) fn rule(experiment: &Experiment, analysis: &Analysis) -> Option<String> {
    analysis.best.as_ref()?;
    Some(format!(
        "shown to be faster than {} by more than {:.0} %, also by ranks, and what was shown to be as \
         fast as that; where nothing is, what is there",
        yardstick(experiment),
        (BAND - 1.0) * 100.0
    ))
}
