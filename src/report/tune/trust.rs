//! Trust in the figures: noise, drift, what was refused, whether all was put back.

use crate::decide::experiment::{Analysis, usable_rate};
use crate::model::measurement::{Experiment, RefusalCode};
use crate::report::document::{Block, Chart, Curve, Figure, MarkKind, Section, Table, Tone};
use crate::report::words::{count, percent, signed};

/// Noise, drift, refused cells, settings and notes.
pub(super) fn section(experiment: &Experiment, analysis: &Analysis) -> Section {
    let mut lines = noise(analysis);
    let (restored, settings) = settings(experiment);
    lines.extend(analysis.exploratory.iter().map(|why| format!("exploratory: {why}")));
    lines.extend(shifted(experiment));
    let notes = experiment.notes.iter().chain(&analysis.notes);
    lines.extend(notes.map(|note| format!("note: {note}")));
    let mut section = Section::new("How far to trust it").with([Block::List(lines)]);
    if restored {
        section.blocks.push(Block::Prose(Tone::Good, settings));
    }
    section.blocks.extend(drift(experiment).map(Block::Figure));
    section.blocks.extend(refused(analysis));
    section
}

fn refused(analysis: &Analysis) -> Vec<Block> {
    let cells = count(analysis.cells, "cell");
    if analysis.refused_cells == 0 {
        return vec![Block::prose(format!("refused: none of {cells}"))];
    }
    let summary = format!(
        "refused and left out: {} of {cells}. Nothing else was: no outlier is dropped",
        analysis.refused_cells
    );
    let mut table = Table::new(&["reason", "cells", "first"]).figures([1]);
    for refusal in &analysis.refusals {
        table.row([
            self::refusal(refusal.code).to_owned(),
            refusal.cells.to_string(),
            refusal.example.clone(),
        ]);
    }
    let heading = Block::Heading("Refused measurements".to_owned());
    vec![heading, Block::prose(summary), Block::Table(table)]
}

/// Noise floor and drift.
fn noise(analysis: &Analysis) -> Vec<String> {
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

/// Cells within which something changed, where there are any.
fn shifted(experiment: &Experiment) -> Option<String> {
    let valid = experiment.cells.iter().filter(|cell| usable_rate(cell).is_some());
    let shifted = valid.clone().filter(|cell| cell.measurement.shift.is_some()).count();
    (shifted > 0).then(|| {
        format!(
            "note: within {shifted} of {} the rate changed its level by a tenth or more",
            count(valid.count(), "cell")
        )
    })
}

/// A refusal rule in words.
fn refusal(code: RefusalCode) -> &'static str {
    match code {
        RefusalCode::NoAcknowledgement => "no acknowledgement by the receiver",
        RefusalCode::UnderSent => "sent less than asked",
        RefusalCode::GeneratorBound => "load generator was the bottleneck",
        RefusalCode::Throttled => "throttled",
        RefusalCode::LinkChanged => "link changed",
        RefusalCode::CountersDisagree => "counters disagree",
        RefusalCode::NotMtuSized => "packets not of MTU size",
        RefusalCode::OtherTraffic => "other traffic",
        RefusalCode::Stolen => "CPU time taken by the hypervisor",
        RefusalCode::SettingsDiffer => "settings differ from what was asked",
        RefusalCode::DirectionStarved => "one direction starved",
        RefusalCode::NoTraffic => "no traffic",
        RefusalCode::Interrupted => "interrupted",
    }
}

/// True if every setting is as it was before the run, and the same in words.
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

/// Reason why softirq time is inexact on this kernel, if it is.
pub(super) fn softirq_note(experiment: &Experiment) -> Option<&'static str> {
    (experiment.machine.irq_time_accounting == Some(false)).then_some(
        "this kernel does not time soft interrupts (CONFIG_IRQ_TIME_ACCOUNTING is off): the \
         shares are samples taken by the timer tick, and what runs between two ticks is missed",
    )
}

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

/// The baseline from block to block: what the machine did by itself.
fn drift(experiment: &Experiment) -> Option<Figure> {
    let levels = levels(experiment);
    if levels.len() < 2 {
        return None;
    }
    let line: Vec<(f64, f64)> =
        levels.into_iter().map(|(block, level)| (f64::from(block) + 1.0, level)).collect();
    let far = line.iter().map(|(_, level)| level.abs()).fold(0.01, f64::max);
    Some(Figure {
        heading: format!("Drift: {} from block to block, against its mean", experiment.baseline),
        title: "Rate of the baseline by block".to_owned(),
        chart: Chart::Curve(Curve {
            across: "block".to_owned(),
            up: format!("{} against its mean", experiment.baseline),
            counts: true,
            range: (-1.1 * far, 1.1 * far),
            height: 90.0,
            by_root: false,
            levels: [far, -far].map(|level| (level, signed(level.exp_m1()))).to_vec(),
            zero: Some(0.0),
            diagonal: false,
            shaded: None,
            found: Vec::new(),
            points: line.iter().map(|(block, level)| (*block, *level, MarkKind::Mean)).collect(),
            line,
            words: |level| signed(level.exp_m1()),
        }),
        caption: String::new(),
        in_table: false,
    })
}
