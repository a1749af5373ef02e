//! The report as one page for a browser: no script, no network, light and dark, printable.
//!
//! Every text goes through maud, which escapes it: a device name or a note may hold anything.

mod chart;
pub mod comparison;
mod cpu;
mod drift;
mod effect;
pub mod flame;
mod predicted;
pub mod ranking;
mod rate;
pub mod sweep;

use maud::{DOCTYPE, Markup, PreEscaped, html as markup};

use super::words;
use crate::experiment::{Analysis, Verdict};
use crate::model::measurement::Experiment;

const STYLE: &str = include_str!("style.css");

/// The head of a page that loads nothing and runs nothing, whatever a result file holds.
fn head(title: &str) -> Markup {
    markup! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta http-equiv="Content-Security-Policy"
                content="default-src 'none'; style-src 'unsafe-inline'";
            title { (title) }
            style { (PreEscaped(STYLE)) }
        }
    }
}

/// The report as a self-contained HTML page.
#[must_use]
pub fn html(experiment: &Experiment, analysis: &Analysis) -> String {
    let title =
        format!("linerate: {} on {}", experiment.scenario.name, experiment.machine.hostname);
    markup! {
        (DOCTYPE)
        html lang="en" {
            (head(&title))
            body {
                main {
                    header {
                        h1 { (title) }
                        p { (words::machine_in_short(experiment)) }
                        p { (experiment.started) ", linerate " (experiment.program) }
                    }
                    (verdict(experiment, analysis))
                    (results(experiment, analysis))
                    (effect::section(experiment, analysis))
                    (effect::of_factors(analysis))
                    (rate::section(experiment, analysis))
                    (cpu::section(experiment))
                    (predicted::section(experiment, analysis))
                    (trust(experiment, analysis))
                    (settings(experiment))
                    (candidates(experiment))
                    (setting_of_the_run(experiment))
                    (repeat(experiment, analysis))
                    footer { "Made from the result file alone. Nothing on this page comes from the network." }
                }
            }
        }
    }
    .into_string()
}

fn verdict(experiment: &Experiment, analysis: &Analysis) -> Markup {
    let class = if analysis.refused.is_some() { "verdict refused" } else { "verdict" };
    let (restored, settings) = words::settings(experiment);
    markup! {
        section class=(class) {
            h2 class="soft" { "Verdict" }
            p.sentence { (words::headline(experiment, analysis)) }
            ul {
                @for step in words::next_steps(experiment, analysis) { li { (step) } }
                @if !restored { li.alarm { (settings) } }
            }
            p {
                span.chip { "evidence: " (experiment.class) }
                @if !analysis.exploratory.is_empty() { " " span.chip { "exploratory" } }
                @if restored && !experiment.settings.is_empty() {
                    " " span.chip.good { "router as before" }
                }
            }
            p.soft { (sentence(experiment.class.meaning())) }
        }
    }
}

fn results(experiment: &Experiment, analysis: &Analysis) -> Markup {
    let times = format!("times {} (95 % CI)", experiment.baseline);
    let labels: Vec<String> = experiment.directions.iter().map(|d| format!("{d} Mbit/s")).collect();
    markup! {
        section {
            h2 { "Results" }
            table.results {
                thead { tr {
                    th scope="col" { "candidate" }
                    @for label in &labels { th.num scope="col" { (label) } }
                    th scope="col" { (times) }
                    th scope="col" { "median of blocks" }
                    th scope="col" { "verdict" }
                } }
                tbody {
                    @for row in words::rows(experiment, analysis) {
                        tr class=[row.best.then_some("best")] {
                            th scope="row" { (row.result.name) }
                            @for (rate, label) in row.rates.iter().zip(&labels) {
                                td.num data-label=(label) { (rate) }
                            }
                            td.ratio data-label=(times) { (row.ratio) }
                            td.ratio data-label="median of blocks" {
                                @match &row.result.overall {
                                    Some(effect) => (format!("{:.2}", effect.median)),
                                    None => "-",
                                }
                            }
                            td data-label="verdict" {
                                span class=(chip(row.result.verdict)) { (row.verdict) }
                            }
                        }
                    }
                }
            }
            p.soft {
                @if let Some(rule) = words::best_rule(analysis) { "\u{2605} " (rule) ". " }
                "Rates are medians over the blocks. Ratios are paired: each block compares what \
                 ran in it, so what the machine did to the whole block cancels out. p is by \
                 sign-flip permutation over the blocks, adjusted for the number of candidates."
            }
        }
    }
}

fn chip(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "chip good",
        Verdict::Worse => "chip bad",
        _ => "chip",
    }
}

fn trust(experiment: &Experiment, analysis: &Analysis) -> Markup {
    markup! {
        section {
            h2 { "How far to trust it" }
            ul {
                @for line in words::noise(analysis) { li { (line) } }
                @for why in &analysis.exploratory { li { "exploratory: " (why) } }
                @for note in experiment.notes.iter().chain(&analysis.notes) { li { (note) } }
                @for line in words::by_direction(analysis) { li { (line) } }
            }
            (drift::figure(experiment))
            h3 { "Refused measurements" }
            @if analysis.refused_cells == 0 {
                p { "None of " (words::count(analysis.cells, "cell")) "." }
            } @else {
                p {
                    (analysis.refused_cells) " of " (words::count(analysis.cells, "cell"))
                    " were refused and left out. Nothing else was: no outlier is dropped."
                }
                @if !analysis.refusals.is_empty() {
                    div.scroll { table {
                        thead { tr {
                            th scope="col" { "reason" }
                            th.num scope="col" { "cells" }
                            th scope="col" { "first" }
                        } }
                        tbody { @for r in &analysis.refusals { tr {
                            td { (words::refusal(r.code)) }
                            td.num { (r.cells) }
                            td { (r.example) }
                        } } }
                    } }
                }
            }
        }
    }
}

fn settings(experiment: &Experiment) -> Markup {
    let (restored, summary) = words::settings(experiment);
    markup! {
        section {
            h2 { "The router's settings before and after" }
            p class=[(!restored).then_some("alarm")] { (sentence(&summary)) }
            @if !experiment.settings.is_empty() {
                div.scroll { table {
                    thead { tr {
                        th scope="col" { "setting" }
                        th scope="col" { "before" }
                        th scope="col" { "after" }
                        th scope="col" { "" }
                    } }
                    tbody { @for s in &experiment.settings { tr {
                        td { (s.name) br; code.soft { (s.path) } }
                        td { code { (s.before) } }
                        td { code { (s.after) } }
                        td {
                            @if s.before == s.after { span.chip.good { "identical" } }
                            @else { span.chip.bad { "DIFFERENT" } }
                        }
                    } } }
                } }
            }
        }
    }
}

fn candidates(experiment: &Experiment) -> Markup {
    markup! {
        section {
            h2 { "What was compared" }
            @for candidate in &experiment.candidates {
                h3 { (candidate.name) ": " span.soft { (candidate.title) } }
                p { (sentence(&candidate.reason)) }
                @let changes: Vec<_> = candidate.changes().collect();
                @if changes.is_empty() {
                    p.soft { "It changes nothing." }
                } @else {
                    ul { @for change in changes {
                        li {
                            (change.knob) ": " (change.before) " \u{2192} "
                            strong { (change.after) }
                            @if change.reason != candidate.reason {
                                " " span.soft { "(" (change.reason) ")" }
                            }
                        }
                    } }
                }
            }
        }
    }
}

fn setting_of_the_run(experiment: &Experiment) -> Markup {
    let list = |facts: Vec<(&'static str, String)>| {
        markup! { dl { @for (label, value) in facts { dt { (label) } dd { (value) } } } }
    };
    markup! {
        section {
            div.cols {
                div { h2 { "Machine" } (list(words::machine(experiment))) }
                div { h2 { "Load" } (list(words::scenario(experiment))) }
            }
        }
    }
}

fn repeat(experiment: &Experiment, analysis: &Analysis) -> Markup {
    // What is worth applying: the leader, unless what was found is as good.
    let worth = analysis
        .best
        .as_ref()
        .filter(|b| !b.includes(&experiment.baseline))
        .map(|b| b.leader.as_str());
    markup! {
        section {
            h2 { "Repeat it" }
            pre { (words::command(experiment)) }
            p.soft {
                "The seed " (experiment.seed) " gives the same random order of the cells."
            }
            @if let Some(name) = worth {
                h2 { "Put " (name) " on a router, and take it off again" }
                @for (command, does) in words::apply_and_undo(experiment, name) {
                    pre { (command) }
                    p.soft { (sentence(does)) }
                }
            }
        }
    }
}

/// A fragment as a sentence of its own.
fn sentence(fragment: &str) -> String {
    let mut chars = fragment.chars();
    let mut out: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
    out.push_str(chars.as_str());
    if !out.ends_with(['.', '!', '?']) {
        out.push('.');
    }
    out
}
