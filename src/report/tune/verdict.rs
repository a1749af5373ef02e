//! The verdict in words, and what to do next.

use crate::decide::experiment::{Analysis, BAND, CandidateResult, Verdict, compare};
use crate::model::measurement::{Ended, Experiment};
use crate::model::order::InOrder;
use crate::model::plan::ONE_CPU;
use crate::report::words::{and, count, figures, with_unit};

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
