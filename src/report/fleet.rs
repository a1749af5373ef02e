//! Many machines: what each kind of them gains, what newer kernels did, and what is found on them.

use super::document::{
    Axis, Block, Chart, Document, Figure, Mark, MarkKind, Section, Strip, Strips, Table, Tone,
};
use super::words::{count, percent, within};
use crate::decide::experiment::BAND;
use crate::decide::fleet::{Fleet, Kind, Row, Spread};

/// The report on a fleet.
#[must_use]
pub fn document(fleet: &Fleet) -> Document {
    let kinds = count(fleet.kinds.len(), "processor");
    let machines = count(fleet.machines, "machine");
    let mut document = Document::new(format!("linerate: {machines} with {kinds}"));
    document.origin = vec![format!(
        "{} with figures, {}",
        count(fleet.records, "file"),
        count(fleet.captures, "capture")
    )];
    document.closing = "made from the files alone".to_owned();
    for kind in &fleet.kinds {
        let title = format!("{} ({})", kind.processor, count(kind.machines, "machine"));
        document.section(Section::new(title).with(blocks(kind)));
    }
    let mut notes = vec![
        "a machine counts once; the interval is that of the mean over machines at 95 % for all \
         candidates together, and \"one more\" is where one further machine of the kind lies"
            .to_owned(),
        "below three machines there is no interval, and nothing is claimed".to_owned(),
    ];
    notes.extend(fleet.notes.iter().cloned());
    document.section(Section::new("How far to trust it").with([Block::List(notes)]));
    document
}

fn blocks(kind: &Kind) -> Vec<Block> {
    let mut blocks = vec![Block::Prose(Tone::Lead, verdict(kind))];
    if !kind.boards.is_empty() {
        blocks.push(Block::note(format!("boards: {}", kind.boards.join(", "))));
    }
    if !kind.gains.is_empty() {
        blocks.push(Block::Heading("What settings gave".to_owned()));
        blocks.extend(rows(&kind.gains, "candidate", "against"));
    }
    if !kind.kernels.is_empty() {
        blocks.push(Block::Heading("What newer kernels gave".to_owned()));
        blocks.extend(rows(&kind.kernels, "figure", "kernels"));
    }
    if !kind.findings.is_empty() {
        blocks.push(Block::Heading("What check finds".to_owned()));
        let mut table = Table::new(&["machines", "severity", "rule", "what it is"]).figures([0]);
        for found in &kind.findings {
            table.row([
                format!("{} of {}", found.machines, kind.captures),
                found.severity.to_string(),
                found.rule.clone(),
                found.what.to_owned(),
            ]);
        }
        blocks.push(Block::Table(table));
    }
    blocks
}

/// The figures of a kind of machines that matter, in a sentence or two.
fn verdict(kind: &Kind) -> String {
    let mut words: Vec<String> = Vec::new();
    let best = kind.gains.iter().filter(|row| row.spread.is_shown_faster());
    if let Some(row) = best.max_by(|a, b| low(&a.spread).total_cmp(&low(&b.spread))) {
        let Row { what, against, spread, .. } = row;
        words.push(format!(
            "{what} gives {} times {against} on {}.",
            ratio(spread),
            count(spread.machines, "machine")
        ));
    } else if kind.gains.iter().any(|row| row.spread.interval.is_some()) {
        words.push("No candidate is shown to be faster than the baseline.".to_owned());
    } else if !kind.gains.is_empty() {
        words.push("Too few machines were measured to claim a gain for this kind.".to_owned());
    }
    let slower = kind.kernels.iter().filter(|row| row.spread.is_shown_slower());
    if let Some(row) = slower.min_by(|a, b| a.spread.ratio.total_cmp(&b.spread.ratio)) {
        let Row { what, against, spread, .. } = row;
        let (newer, lost) = (against.rsplit(' ').next().unwrap_or(against), 1.0 - spread.ratio);
        words.push(format!(
            "Kernel {newer} is {} slower than the one before ({what}), on {} of {}.",
            percent(lost),
            spread.slower,
            count(spread.machines, "machine")
        ));
    }
    let captures = count(kind.captures, "capture");
    match kind.predicted {
        Some([low, middle, high]) => words.push(format!(
            "The plan predicts a gain on {} of {captures}: {} times; predicted, not measured.",
            kind.could_gain,
            match kind.could_gain {
                1 => format!("{middle:.1}"),
                _ => format!("{low:.1} to {high:.1}, {middle:.1} in the middle,"),
            }
        )),
        None if kind.captures > 0 => words.push(format!("No gain is predicted on {captures}.")),
        None => {}
    }
    if words.is_empty() {
        words.push("Nothing here can be compared: there is one state of each machine.".to_owned());
    }
    words.join(" ")
}

fn low(spread: &Spread) -> f64 {
    spread.interval.map_or(0.0, |(low, _)| low)
}

/// Ratios as a table and a drawing, for each of the conditions.
fn rows(all: &[Row], name: &str, against: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    for same in all.chunk_by(|a, b| a.conditions == b.conditions) {
        let Some(first) = same.first() else { continue };
        blocks.push(Block::note(first.conditions.clone()));
        let headings = [name, against, "machines", "ratio", "one more", "faster", "slower"];
        let mut table =
            Table::new(&headings).figures([2, 5, 6]).whole(3).whole(4).gives_way(&[4, 1]);
        for Row { what, against, spread, .. } in same {
            table.mark(
                spread.is_shown_faster(),
                [
                    what.clone(),
                    against.clone(),
                    spread.machines.to_string(),
                    ratio(spread),
                    match spread.next {
                        Some((low, high)) => format!("{low:.2} to {high:.2}"),
                        None => "-".to_owned(),
                    },
                    spread.faster.to_string(),
                    spread.slower.to_string(),
                ],
            );
        }
        blocks.push(Block::Table(table));
        blocks.push(Block::Figure(Figure {
            heading: String::new(),
            title: format!("Ratios over machines: {}", first.conditions),
            chart: Chart::Strips(Strips {
                axis: Axis::Ratio { band: BAND },
                name: name.to_owned(),
                value: "ratio".to_owned(),
                rows: same.iter().map(strip).collect(),
            }),
            caption: "Thick bars are the interval of the mean, thin lines go from the lowest machine \
                      to the highest; rings have no interval, for there are fewer than three machines"
                .to_owned(),
            in_table: true,
        }));
    }
    blocks
}

/// `1.42 (1.35 to 1.50)`.
fn ratio(spread: &Spread) -> String {
    match spread.interval {
        Some(interval) => within(spread.ratio, interval),
        None => format!("{:.2}", spread.ratio),
    }
}

fn strip(row: &Row) -> Strip {
    let Row { what, against, spread, .. } = row;
    let kind = if spread.interval.is_some() { MarkKind::Mean } else { MarkKind::Ring };
    Strip {
        name: format!("{what} ({against})"),
        words: ratio(spread),
        interval: spread.interval,
        between: Some((spread.lowest, spread.highest)),
        marks: vec![Mark::new(kind, spread.ratio)],
        ..Strip::default()
    }
}
