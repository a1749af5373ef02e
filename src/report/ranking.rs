//! Where WireGuard figures stand among known boards, in words and as text.

use crate::rank::{Placed, Standing};

/// Where the known results are from.
pub const SOURCE: &str = "Known results: the table of wg-bench (github.com/cyyself/wg-bench) and \
                          its contributors, measured with iperf3.";

/// One sentence.
#[must_use]
pub fn in_words(standing: &Standing) -> String {
    let Standing { placed, of, percentile, .. } = standing;
    format!(
        "{}: {} is place {} of {of}, faster than {percentile:.0} % of the known results",
        placed.entry.name(),
        rate(placed.entry.mbps),
        placed.rank
    )
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

/// As plain text.
#[must_use]
pub fn text(standings: &[Standing]) -> String {
    let mut lines = Vec::new();
    for standing in standings {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.push(in_words(standing));
        lines.push("  its neighbours:".into());
        lines.extend(standing.nearest.iter().map(line));
        if standing.same.is_empty() {
            lines.push("  of the same board or CPU none is known".into());
        } else {
            lines.push("  the same board or CPU:".into());
            lines.extend(standing.same.iter().map(line));
        }
    }
    lines.push(SOURCE.into());
    lines.join("\n")
}

fn line(place: &Placed) -> String {
    let entry = &place.entry;
    let mark = if entry.own { '*' } else { ' ' };
    let note = if entry.note.is_empty() { String::new() } else { format!(" ({})", entry.note) };
    format!(
        "  {mark} {:>4}  {:>11}  {}, {}{note}",
        place.rank,
        rate(entry.mbps),
        entry.name(),
        entry.os
    )
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
