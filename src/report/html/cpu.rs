//! What each CPU did under each candidate.

use maud::{Markup, html as markup};

use super::chart::{drawing, per_cent};
use crate::model::measurement::Experiment;
use crate::model::units::CpuId;
use crate::report::usage::{self, CpuMean};
use crate::report::words;

const ROW: f64 = 24.0;

/// A row of the heat map: its name, its boxes.
const HEAT: f64 = 46.0;

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
            (heat(experiment))
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

/// Share of soft interrupts of each CPU in each cell of the design: a row for each candidate and
/// direction, a box for each CPU.
fn heat(experiment: &Experiment) -> Markup {
    let mut rows: Vec<(String, Vec<(CpuId, CpuMean)>)> = Vec::new();
    for candidate in &experiment.candidates {
        for &direction in &experiment.directions {
            let cpus = usage::means_of(experiment, &candidate.name, Some(direction));
            if !cpus.is_empty() {
                rows.push((format!("{} {direction}", candidate.name), cpus));
            }
        }
    }
    let most = rows.iter().map(|(_, cpus)| cpus.len()).max().unwrap_or(0);
    if most == 0 {
        return markup! {};
    }
    let width = 100.0 / most as f64;
    // On a phone a box of a sixteenth is as wide as two digits.
    let figures = most <= 12;
    let content = markup! {
        @for ((name, cpus), index) in rows.iter().zip(0_u32..) {
            @let top = f64::from(index) * HEAT;
            text x="0" y=(top + 13.0) { (name) }
            @for ((cpu, mean), at) in cpus.iter().zip(0_u32..) {
                @let x = f64::from(at) * width;
                @let percent = format!("{:.0}", mean.softirq * 100.0);
                rect.idle x=(per_cent(x)) y=(top + 18.0) width=(per_cent(width * 0.97)) height="22" {}
                rect.softirq x=(per_cent(x)) y=(top + 18.0) width=(per_cent(width * 0.97)) height="22"
                    opacity=(format!("{:.3}", mean.softirq)) {
                    title { (name) ", " (cpu) ": " (percent) " %" }
                }
                @if figures {
                    text.boxed x=(per_cent(x + width * 0.485)) y=(top + 33.0) text-anchor="middle" {
                        (percent)
                    }
                }
            }
        }
        @let below = rows.len() as f64 * HEAT;
        @if let Some((_, cpus)) = rows.first() {
            @for ((cpu, _), at) in cpus.iter().zip(0_u32..) {
                @if figures || at % 8 == 0 {
                    text.axis x=(per_cent(f64::from(at) * width + width * 0.485)) y=(below + 10.0)
                        text-anchor="middle" { (cpu.0) }
                }
            }
        }
    };
    let description: Vec<String> = rows
        .iter()
        .map(|(name, cpus)| {
            let each: Vec<String> = cpus
                .iter()
                .map(|(cpu, c)| format!("{cpu} {}", words::percent(c.softirq)))
                .collect();
            format!("{name}: {}", each.join(", "))
        })
        .collect();
    markup! {
        h3 { "Soft interrupts by CPU, % of its time" }
        figure {
            (drawing(
                rows.len() as f64 * HEAT + 16.0,
                "Share of each CPU's time in soft interrupts, by candidate and direction",
                &description.join("; "),
                &content,
            ))
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
            @if total > 0.0 {
                text.value x="100%" y=(top + 15.0) text-anchor="end" {
                    (short(mean.packets)) "/s, " (format!("{:.0} %", share(mean)))
                }
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
