//! Report on the place of WireGuard figures among known boards.

use super::document::{
    Axis, Block, Chart, Document, Figure, Mark, MarkKind, Section, Strip, Strips, Table, Tone,
};
use crate::decide::rank::{Entry, Placed, Standing};

/// Source of the known results.
pub const SOURCE: &str = "Known results: the table of wg-bench (github.com/cyyself/wg-bench) and \
                          its contributors, measured with iperf3.";

/// Height of the lane that holds the known results, in pixels, and how many levels keep equal rates
/// apart.
const LANE: f64 = 44.0;
const LEVELS: usize = 9;

/// The report on own results among the known ones.
#[must_use]
pub fn document(standings: &[Standing], known: &[Entry]) -> Document {
    let mut document = Document::new("linerate: WireGuard figures among known boards");
    document.origin = vec![SOURCE.to_owned()];
    document.closing = "made from the result files alone".to_owned();
    document.section(
        Section::detail("All known results").with([Block::Figure(overview(standings, known))]),
    );
    for standing in standings {
        let name = standing.placed.entry.name();
        let mut section = Section::new(&name).with([
            Block::Prose(Tone::Lead, in_words(standing)),
            Block::Heading("Its neighbours".to_owned()),
            Block::Table(table(&standing.nearest)),
            Block::Heading("The same board or CPU".to_owned()),
        ]);
        section.blocks.push(match standing.same.is_empty() {
            true => Block::prose("none is known"),
            false => Block::Table(table(&standing.same)),
        });
        document.section(section);
    }
    document
}

/// One sentence on a figure's place among the known results.
#[must_use]
pub fn in_words(standing: &Standing) -> String {
    let Standing { placed, of, faster_than, .. } = standing;
    format!(
        "{}: {} is place {} of {of}, faster than {:.0} % of the known results",
        placed.entry.name(),
        rate(placed.entry.rate.mbps()),
        placed.rank,
        faster_than * 100.0
    )
}

fn table(places: &[Placed]) -> Table {
    let mut table =
        Table::new(&["place", "rate", "device / CPU", "system", "note"]).figures([0, 1]);
    for Placed { rank, entry } in places {
        table.mark(
            entry.own,
            [
                rank.to_string(),
                rate(entry.rate.mbps()),
                entry.name(),
                entry.os.clone(),
                entry.note.clone(),
            ],
        );
    }
    table
}

/// All results on one line, ours below.
fn overview(standings: &[Standing], known: &[Entry]) -> Figure {
    let dot = |(entry, index): (&Entry, usize)| Mark {
        // Equal rates stay apart.
        height: (index % LEVELS) as f64 / (LEVELS - 1) as f64,
        words: format!("{}: {}", entry.name(), rate(entry.rate.mbps())),
        ..Mark::new(MarkKind::Single, entry.rate.mbps())
    };
    let all = Strip {
        name: format!("{} known results, Mbit/s", known.len()),
        lane: LANE,
        marks: known.iter().filter(|e| e.rate.0 > 0.0).zip(0..).map(dot).collect(),
        ..Strip::default()
    };
    let own = standings.iter().map(|standing| {
        let entry = &standing.placed.entry;
        let mean = Mark::new(MarkKind::Mean, entry.rate.mbps());
        Strip {
            name: entry.name(),
            words: format!(
                "{}, place {} of {}",
                rate(entry.rate.mbps()),
                standing.placed.rank,
                standing.of
            ),
            marks: (entry.rate.mbps() > 0.0).then_some(mean).into_iter().collect(),
            ..Strip::default()
        }
    });
    Figure {
        heading: String::new(),
        title: "WireGuard rates of known boards and of this one, Mbit/s".to_owned(),
        chart: Chart::Strips(Strips {
            axis: Axis::Decades,
            name: "board".to_owned(),
            value: "rate, place".to_owned(),
            rows: std::iter::once(all).chain(own).collect(),
        }),
        caption: "one dot is one known result; the scale is logarithmic".to_owned(),
        in_table: true,
    }
}

/// A rate as the public table writes it: three digits, Mbit/s or Gbit/s.
#[must_use]
pub fn rate(mbps: f64) -> String {
    match mbps {
        m if m >= 9_995.0 => format!("{:.1} Gbit/s", m / 1e3),
        m if m >= 999.5 => format!("{:.2} Gbit/s", m / 1e3),
        m if m >= 99.95 => format!("{m:.0} Mbit/s"),
        m => format!("{m:.1} Mbit/s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_written_as_in_the_public_table() {
        for (mbps, text) in [
            (3.2, "3.2 Mbit/s"),
            (93.04, "93.0 Mbit/s"),
            (99.96, "100 Mbit/s"),
            (912.0, "912 Mbit/s"),
            (999.6, "1.00 Gbit/s"),
            (1020.0, "1.02 Gbit/s"),
            (10_500.0, "10.5 Gbit/s"),
        ] {
            assert_eq!(rate(mbps), text);
        }
    }
}
