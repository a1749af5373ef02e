//! The known table: comma-separated values (RFC 4180), carried in the program.

use super::Entry;
use crate::model::units::BitRate;

const TABLE: &str = include_str!("../../../data/wireguard-boards.csv");

/// Known results, in the table's order. Its source is in data/README.md.
#[must_use]
pub fn known() -> Vec<Entry> {
    parse(TABLE)
}

/// Reads a table with the columns device, CPU, system, 10^6 bit/s, note. A line that is none of
/// that (the heading, too few columns, no rate) is passed over.
fn parse(text: &str) -> Vec<Entry> {
    records(text)
        .into_iter()
        .filter_map(|fields| {
            let mut fields = fields.into_iter().map(|f| f.trim().to_owned());
            let (device, cpu, os) = (fields.next()?, fields.next()?, fields.next()?);
            let mbps: f64 = fields.next()?.parse().ok()?;
            let note = fields.next().unwrap_or_default();
            (mbps.is_finite() && mbps > 0.0).then_some(Entry {
                device,
                cpu,
                os,
                rate: BitRate(mbps * 1e6),
                note,
                own: false,
            })
        })
        .collect()
}

/// Fields may be quoted; a quote in them is doubled; line ends within quotes belong to the field.
fn records(text: &str) -> Vec<Vec<String>> {
    let mut records = Vec::new();
    let mut record = Vec::new();
    let mut field = String::new();
    let mut quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(std::mem::take(&mut field)),
            '\n' if !quoted => {
                record.push(std::mem::take(&mut field));
                records.push(std::mem::take(&mut record));
            }
            '\r' if !quoted => {}
            c => field.push(c),
        }
    }
    if !field.is_empty() || !record.is_empty() {
        record.push(field);
        records.push(record);
    }
    records
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn all_known_results_are_read() {
        let known = known();
        assert_eq!(known.len(), 180);
        assert_eq!(known[0].device, "Toshiba Satellite 480CDT");
        assert!((known[0].rate.mbps() - 3.2).abs() < 1e-9);
        let boards = known.iter().filter(|e| e.device == "Radxa E52C");
        assert_eq!(boards.map(|e| e.rate.mbps() as u64).collect::<Vec<_>>(), [912, 3110]);
        let note = "All cores run on \"performance\" cpufreq governor";
        assert!(known.iter().any(|e| e.device == "Dell Wyse 3040" && e.note == note));
    }

    #[test]
    fn broken_lines_are_passed_over() {
        let text = "device,cpu,os,mbps,note\r\nA,,x,5,\"a, \"\"b\"\"\nc\"\nB,c\nC,c,o,fast,\nD,c,o,-1,\nE,c,o,7";
        let read = parse(text);
        assert_eq!(read.len(), 2, "{read:?}");
        assert_eq!(read[0].note, "a, \"b\"\nc");
        assert_eq!((read[1].device.as_str(), read[1].note.as_str()), ("E", ""));
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text: String) {
            prop_assert!(parse(&text).len() <= text.len());
        }
    }
}
