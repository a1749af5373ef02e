//! The baseline from block to block: what the machine did by itself.

use maud::{Markup, html as markup};

use super::chart::{Scale, axis, drawing, per_cent};
use crate::experiment::usable_rate;
use crate::model::measurement::Experiment;
use crate::report::words;

const HEIGHT: f64 = 90.0;

/// Rate of the baseline in each block against its mean, geometric over cells and directions.
fn levels(experiment: &Experiment) -> Vec<(u32, f64)> {
    let mut logs: Vec<(u32, f64)> = Vec::new();
    for &direction in &experiment.directions {
        let own: Vec<(u32, f64)> = experiment
            .cells
            .iter()
            .filter(|c| c.candidate == experiment.baseline && c.measurement.direction == direction)
            .filter_map(|c| Some((c.block, usable_rate(c)?.ln())))
            .collect();
        let mean = own.iter().map(|(_, l)| l).sum::<f64>() / own.len().max(1) as f64;
        logs.extend(own.into_iter().map(|(block, log)| (block, log - mean)));
    }
    let last = logs.iter().map(|(b, _)| *b).max();
    (0..=last.unwrap_or(0))
        .filter_map(|block| {
            let own: Vec<f64> = logs.iter().filter(|(b, _)| *b == block).map(|(_, l)| *l).collect();
            (!own.is_empty()).then(|| (block, own.iter().sum::<f64>() / own.len() as f64))
        })
        .collect()
}

pub(super) fn figure(experiment: &Experiment) -> Markup {
    let levels = levels(experiment);
    let Some(across) = Scale::around(levels.iter().map(|(b, _)| f64::from(*b))) else {
        return markup! {};
    };
    if levels.len() < 2 {
        return markup! {};
    }
    let far = levels.iter().map(|(_, l)| l.abs()).fold(0.01, f64::max);
    let y = |level: f64| HEIGHT / 2.0 * (1.0 - 0.9 * level / far);
    let x = |block: u32| per_cent(across.at(f64::from(block)));
    let step = (levels.len() / 10).max(1);
    let ticks: Vec<(f64, String)> = levels
        .iter()
        .step_by(step)
        .map(|(b, _)| (across.at(f64::from(*b)), (b + 1).to_string()))
        .collect();
    let content = markup! {
        (axis(&ticks, 0.0, HEIGHT))
        line.one x1="0" x2="100%" y1=(y(0.0)) y2=(y(0.0)) {}
        @for pair in levels.windows(2) {
            @if let [(b, from), (c, to)] = pair {
                line.thread x1=(x(*b)) y1=(y(*from)) x2=(x(*c)) y2=(y(*to)) {}
            }
        }
        @for (block, level) in &levels {
            circle.mean cx=(x(*block)) cy=(y(*level)) r="4" {}
        }
        text.value x="0" y="11" { (format!("+{}", words::percent(far.exp_m1()))) }
        text.value x="0" y=(HEIGHT - 3.0) { (format!("\u{2212}{}", words::percent(-(-far).exp_m1()))) }
    };
    let each: Vec<String> = levels
        .iter()
        .map(|(b, l)| format!("block {}: {}", b + 1, words::signed(l.exp_m1())))
        .collect();
    markup! {
        h3 { "Drift: " (experiment.baseline) " from block to block, against its mean" }
        figure {
            (drawing(HEIGHT + 22.0, "Rate of the baseline by block", &each.join("; "), &content))
        }
    }
}
