//! `/proc/interrupts` (kernel/irq/proc.c `show_interrupts`).
//!
//! ```text
//!            CPU0       CPU1                                          <- online CPUs only
//!  27:        152   22505343     GICv3  44 Level     eth0
//!  31:          0         23 PCI-MSIX-0000:00:01.0   3-edge      virtio0-stats
//! label    counts               chip  hardware number, trigger   actions, by ", "
//! ```

use crate::model::units::{CpuId, IrqLine};

/// The table: one column per online CPU, one row per line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Interrupts<'a> {
    /// The CPU of each column.
    pub cpus: Vec<CpuId>,
    /// Numbered lines in the file's order; architecture lines (`NMI:`, `IPI0:`) are left out.
    pub rows: Vec<Row<'a>>,
    /// Lines that could not be understood.
    pub skipped: usize,
}

/// One interrupt line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row<'a> {
    /// Number of the line.
    pub line: IrqLine,
    /// Counts as they stand in the file: those of most lines are never needed.
    counts: &'a [u8],
    /// Interrupt controller as printed.
    pub chip: String,
    /// `edge` or `level`, where it is stated.
    pub trigger: Option<&'static str>,
    /// Names of those who asked for it, in order; empty when nobody does at the moment.
    pub actions: Vec<String>,
}

impl Row<'_> {
    /// Count per column of [`Interrupts::cpus`], in its order; a missing column counts as 0.
    pub fn counts(&self, columns: usize) -> impl Iterator<Item = u64> + '_ {
        let words = self.counts.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        // A count that does not fit 64 bits is not one the kernel wrote; take the largest.
        let counts = words.map(|word| {
            std::str::from_utf8(word).ok().and_then(|w| w.parse().ok()).unwrap_or(u64::MAX)
        });
        counts.chain(std::iter::repeat(0)).take(columns)
    }
}

/// Reads the table. Unknown content is skipped and counted.
#[must_use]
pub fn interrupts(bytes: &[u8]) -> Interrupts<'_> {
    let mut table = Interrupts::default();
    let (header, mut rest) = until(bytes, b'\n');
    let header = String::from_utf8_lossy(header);
    for column in header.split_whitespace() {
        match column.strip_prefix("CPU").and_then(|n| n.parse().ok()) {
            Some(cpu) => table.cpus.push(CpuId(cpu)),
            None => table.skipped += 1,
        }
    }
    let columns = table.cpus.len();
    while !rest.is_empty() {
        // The counts are nearly all of a line on a machine with hundreds of CPUs: they are stepped
        // over where they stand as the kernel writes them.
        let label = rest.iter().take(LABEL).position(|b| matches!(b, b':' | b'\n'));
        let label = label.map_or(0, |end| end + 1);
        let counts = match even_columns(rest.get(label..).unwrap_or_default(), columns) {
            0 => 0,
            length => label + length,
        };
        let (head, tail) = rest.split_at(counts);
        let (tail, after) = until(tail, b'\n');
        let whole = rest.get(..head.len() + tail.len()).unwrap_or_default();
        rest = after;
        let text = whole.trim_ascii();
        if text.is_empty() {
            continue;
        }
        let Some(colon) = text.iter().position(|b| *b == b':') else {
            table.skipped += 1;
            continue;
        };
        let (label, rest) = text.split_at(colon);
        let label = String::from_utf8_lossy(label.trim_ascii());
        if label.starts_with(|c: char| c.is_ascii_uppercase()) {
            continue; // an architecture line: IPIs, timers, errors
        }
        match label.parse() {
            Ok(line) => {
                let rest = rest.get(1..).unwrap_or_default();
                table.rows.push(row(IrqLine(line), rest, columns));
            }
            Err(_) => table.skipped += 1,
        }
    }
    table
}

/// Labels are shorter than this.
const LABEL: usize = 16;

/// Bytes before the first `end`, and bytes after it.
fn until(bytes: &[u8], end: u8) -> (&[u8], &[u8]) {
    let at = bytes.iter().position(|b| *b == end).unwrap_or(bytes.len());
    let (before, after) = bytes.split_at(at);
    (before, after.get(1..).unwrap_or_default())
}

/// Number of bytes that the counts take where each stands in a column as wide as kernel/irq/proc.c
/// makes it (a space and ten digits), 0 where they do not; then they are read one by one.
fn even_columns(text: &[u8], columns: usize) -> usize {
    const WIDTH: usize = 11;
    // Few columns are soon read, and a damaged table might look even by chance.
    const MANY: usize = 16;
    let length = columns.saturating_mul(WIDTH);
    let Some(counts) = text.get(..length).filter(|_| columns >= MANY) else { return 0 };
    let even = |column: &[u8]| match column {
        [b' ', .., last] => last.is_ascii_digit(),
        _ => false,
    };
    let ends = text.get(length).is_none_or(u8::is_ascii_whitespace);
    if ends && counts.chunks_exact(WIDTH).all(even) { length } else { 0 }
}

fn row(line: IrqLine, text: &[u8], columns: usize) -> Row<'_> {
    let even = even_columns(text, columns);
    let mut found = if even > 0 { columns } else { 0 };
    let mut rest = text.get(even..).unwrap_or_default();
    while found < columns {
        let trimmed = rest.trim_ascii_start();
        let digits = trimmed.iter().take_while(|b| b.is_ascii_digit()).count();
        let (_, after) = trimmed.split_at(digits);
        let whole = after.first().is_none_or(u8::is_ascii_whitespace);
        if digits == 0 || !whole {
            break;
        }
        found += 1;
        rest = after;
    }
    let (counts, rest) = text.split_at(text.len() - rest.len());
    let description = String::from_utf8_lossy(rest);
    let description = description.trim();
    // Actions follow two spaces or more and hold none themselves ("  %s", then ", %s").
    let (head, actions) = match description.rfind("  ") {
        Some(at) => {
            let (head, tail) = description.split_at(at);
            let tail = tail.trim();
            if is_hardware_part(tail) { (description, "") } else { (head.trim_end(), tail) }
        }
        None if is_hardware_part(description) => (description, ""),
        None => ("", description),
    };
    let words: Vec<&str> = head.split_whitespace().collect();
    // The chip is all before the hardware number; without one (old kernels) it is the whole text.
    let number = words.iter().rposition(|w| w.starts_with(|c: char| c.is_ascii_digit()));
    let chip = words.get(..number.unwrap_or(words.len())).unwrap_or_default().join(" ");
    let actions = actions.split(", ").filter(|a| !a.is_empty()).map(str::to_owned).collect();
    let trigger = words.last().and_then(|word| {
        let word = word.to_ascii_lowercase();
        ["edge", "level"].into_iter().find(|t| word == *t || word.ends_with(&format!("-{t}")))
    });
    Row { line, counts, chip, trigger, actions }
}

/// True of `44 Level`, `3-edge`, `524288-edge`: hardware number and trigger, no action.
fn is_hardware_part(text: &str) -> bool {
    let trigger = |w: &str| {
        let w = w.to_ascii_lowercase();
        ["edge", "level", "fasteoi", "simple"]
            .iter()
            .any(|t| w == *t || w.ends_with(&format!("-{t}")))
    };
    let mut words = text.split_whitespace();
    match (words.next(), words.next(), words.next()) {
        (Some(one), None, _) => trigger(one) || one.bytes().all(|b| b.is_ascii_digit()),
        (Some(number), Some(kind), None) => {
            number.bytes().all(|b| b.is_ascii_digit()) && trigger(kind)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A NanoPi R4S (RK3399, FriendlyWrt, kernel 5.4), from the field report.
    const R4S: &[u8] = include_bytes!("../../../fixtures/proc/interrupts-r4s");
    /// A firecracker guest, kernel 6.18, x86-64.
    const X86: &[u8] = include_bytes!("../../../fixtures/proc/interrupts-x86-virtio");

    fn find<'a>(table: &'a Interrupts<'a>, line: u32) -> &'a Row<'a> {
        table.rows.iter().find(|r| r.line == IrqLine(line)).unwrap()
    }

    fn counts(table: &Interrupts<'_>, line: u32) -> Vec<u64> {
        find(table, line).counts(table.cpus.len()).collect()
    }

    #[test]
    fn arm_lines_have_level_between_number_and_action() {
        let table = interrupts(R4S);
        assert_eq!(table.cpus.len(), 6);
        assert_eq!(table.skipped, 0);
        let eth0 = find(&table, 27);
        assert_eq!(eth0.actions, ["eth0"]);
        assert_eq!(eth0.chip, "GICv3");
        assert_eq!(eth0.trigger, Some("level"));
        assert_eq!(counts(&table, 27), [10_628_015, 0, 0, 0, 0, 0]);
        assert_eq!(find(&table, 234).chip, "ITS-MSI");
        assert_eq!(find(&table, 222).actions, ["PCIe PME", "aerdrv"]);
        assert_eq!(find(&table, 65).actions, ["GPIO Key Power"]);
        assert!(table.rows.iter().all(|r| r.line != IrqLine(0)), "IPI lines are not interrupts");
    }

    #[test]
    fn x86_lines_glue_number_and_trigger() {
        let table = interrupts(X86);
        let input = find(&table, 38);
        assert_eq!(input.actions, ["virtio2-input.0"]);
        assert_eq!(input.chip, "PCI-MSIX-0000:00:03.0");
        assert_eq!(counts(&table, 38), [0, 2301]);
        assert_eq!(input.trigger, Some("edge"));
    }

    #[test]
    fn many_columns_are_read_alike_however_wide_they_are() {
        let header: String = (0..20).map(|cpu| format!("CPU{cpu} ")).collect();
        let row = |width: usize, skip: usize| -> String {
            (skip..20).map(|n| format!(" {:>width$}", n * 1_000_003)).collect()
        };
        // The third has lost its first counts, the fourth its end.
        let text = format!(
            "{header}\n 41:{}  PCI-MSIX 1-edge      eth0-TxRx-0\n 42:{}  PCI-MSIX 2-edge      eth1\n\
             NMI:{}   Non-maskable interrupts\n 43:{}  PCI-MSIX 3-edge      eth2\n 44: 1 2",
            row(10, 0),
            row(3, 0),
            row(10, 0),
            row(10, 4)
        );
        let table = interrupts(text.as_bytes());
        assert_eq!((table.rows.len(), table.skipped), (4, 0));
        let wanted: Vec<u64> = (0..20).map(|n| n * 1_000_003).collect();
        assert_eq!(counts(&table, 41), wanted);
        assert_eq!(counts(&table, 42), wanted);
        assert_eq!(find(&table, 41).actions, ["eth0-TxRx-0"]);
        assert_eq!(find(&table, 42).chip, "PCI-MSIX");
        assert_eq!(counts(&table, 43)[..16], wanted[4..]);
        assert_eq!(find(&table, 43).actions, ["eth2"]);
        assert_eq!(counts(&table, 44)[..3], [1, 2, 0]);
    }

    #[test]
    fn odd_lines_are_read_or_skipped_but_never_fatal() {
        let text = b"           CPU0       CPU3\n\
            7:   5\n\
            8: 1 99999999999999999999999 GIC-0  12 Level     net4, net5\n\
            9: 1 2 GIC-0  12 Level   \n\
            10: 1 2 MIPS GIC  10  1e100000.ethernet\r\n\
            garbage\n\
            -1: 3 4 x\n";
        let table = interrupts(text);
        assert_eq!(table.cpus, [CpuId(0), CpuId(3)]);
        assert_eq!(counts(&table, 7), [5, 0]);
        assert_eq!(counts(&table, 8), [1, u64::MAX]);
        assert_eq!(find(&table, 8).actions, ["net4", "net5"]);
        assert_eq!(find(&table, 9).actions, [""; 0]);
        assert_eq!(find(&table, 10).actions, ["1e100000.ethernet"]);
        assert_eq!(find(&table, 10).chip, "MIPS GIC");
        assert_eq!(table.skipped, 2);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            let _table = interrupts(&bytes);
        }

        #[test]
        fn damaged_tables_are_survived(cut in 0..R4S.len(), at in 0..R4S.len(), byte: u8) {
            let mut bytes = R4S[..cut].to_vec();
            if let Some(b) = bytes.get_mut(at) { *b = byte; }
            let table = interrupts(&bytes);
            let columns = table.cpus.len();
            prop_assert!(table.rows.iter().all(|r| r.counts(columns).count() == columns));
        }
    }
}
