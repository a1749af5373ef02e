//! What each CPU did under each candidate.

use maud::{Markup, html as markup};

use super::chart::{drawing, per_cent};
use crate::model::measurement::Experiment;
use crate::model::units::CpuId;
use crate::report::usage::{self, CpuMean};
use crate::report::words;

const ROW: f64 = 24.0;

/// Where bars begin, per cent of the width; CPU names stand left of them.
const START: f64 = 15.0;

/// How wide a full bar is, per cent; packets stand right of it and need 80 pixels on a phone.
const FULL: f64 = 58.0;

pub(super) fn section(experiment: &Experiment) -> Markup {
    let each: Vec<(&str, Vec<(CpuId, CpuMean)>)> = experiment
        .candidates
        .iter()
        .map(|c| (c.name.as_str(), usage::means(experiment, &c.name)))
        .filter(|(_, cpus)| !cpus.is_empty())
        .collect();
    if each.is_empty() {
        return markup! {};
    }
    markup! {
        section {
            h2 { "What each CPU did" }
            p.soft {
                span.key.softirq {} "soft interrupts (forwarding)"
                span.key.other {} "other work (load generator, programs)"
                span.key.idle {} "idle"
            }
            @for (name, cpus) in &each {
                h3 { (name) }
                figure { (bars(name, cpus)) }
            }
            p.soft {
                "Mean over the candidate's valid cells. Figures on the right: packets per second \
                 that entered the CPU's queue, and its share of all. The rate ends where the \
                 busiest CPU has no idle time left."
            }
            @if let Some(note) = words::softirq_note(experiment) {
                p { strong { "Note: " } (note) "." }
            }
        }
    }
}

fn bars(name: &str, cpus: &[(CpuId, CpuMean)]) -> Markup {
    let total: f64 = cpus.iter().map(|(_, c)| c.packets).sum();
    let share = |c: &CpuMean| if total > 0.0 { c.packets / total * 100.0 } else { 0.0 };
    let content = markup! {
        @for ((cpu, mean), index) in cpus.iter().zip(0_u32..) {
            @let top = f64::from(index) * ROW;
            @let softirq = mean.softirq * FULL;
            @let other = mean.other * FULL;
            text x="0" y=(top + 15.0) { (cpu) }
            rect.idle x=(per_cent(START)) y=(top + 2.0) width=(per_cent(FULL)) height="17" {}
            rect.softirq x=(per_cent(START)) y=(top + 2.0) width=(per_cent(softirq)) height="17" {}
            rect.other x=(per_cent(START + softirq)) y=(top + 2.0) width=(per_cent(other)) height="17" {}
            text.value x="100%" y=(top + 15.0) text-anchor="end" {
                (short(mean.packets)) "/s, " (format!("{:.0} %", share(mean)))
            }
        }
    };
    let description: Vec<String> = cpus
        .iter()
        .map(|(cpu, c)| {
            format!(
                "{cpu}: {} soft interrupts, {} other, {} packets per second",
                words::percent(c.softirq),
                words::percent(c.other),
                short(c.packets)
            )
        })
        .collect();
    drawing(
        cpus.len() as f64 * ROW,
        &format!("Use of each CPU under {name}"),
        &description.join("; "),
        &content,
    )
}

/// `812`, `81k`, `1.2M`.
fn short(value: f64) -> String {
    match value {
        v if v >= 999_500.0 => format!("{:.1}M", v / 1e6),
        v if v >= 10_000.0 => format!("{:.0}k", v / 1e3),
        v if v >= 1000.0 => format!("{:.1}k", v / 1e3),
        v => format!("{v:.0}"),
    }
}
