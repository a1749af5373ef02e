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
pub struct Interrupts {
    /// The CPU of each column.
    pub cpus: Vec<CpuId>,
    /// Numbered lines in the file's order; architecture lines (`NMI:`, `IPI0:`) are left out.
    pub rows: Vec<Row>,
    /// Lines that could not be understood.
    pub skipped: usize,
}

/// One interrupt line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its number.
    pub line: IrqLine,
    /// Count per column of [`Interrupts::cpus`]; a missing column counts as 0.
    pub counts: Vec<u64>,
    /// Interrupt controller as printed.
    pub chip: String,
    /// `edge` or `level`, where it is told.
    pub trigger: Option<&'static str>,
    /// Names of those who asked for it, in order; empty when nobody does at the moment.
    pub actions: Vec<String>,
}

/// Reads the table. Unknown content is skipped and counted.
#[must_use]
pub fn interrupts(bytes: &[u8]) -> Interrupts {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines();
    let mut table = Interrupts::default();
    let Some(header) = lines.next() else { return table };
    for column in header.split_whitespace() {
        match column.strip_prefix("CPU").and_then(|n| n.parse().ok()) {
            Some(cpu) => table.cpus.push(CpuId(cpu)),
            None => table.skipped += 1,
        }
    }
    for text in lines.filter(|l| !l.trim().is_empty()) {
        let Some((label, rest)) = text.split_once(':') else {
            table.skipped += 1;
            continue;
        };
        let label = label.trim();
        if label.starts_with(|c: char| c.is_ascii_uppercase()) {
            continue; // an architecture line: IPIs, timers, errors
        }
        match label.parse() {
            Ok(line) => table.rows.push(row(IrqLine(line), rest, table.cpus.len())),
            Err(_) => table.skipped += 1,
        }
    }
    table
}

fn row(line: IrqLine, text: &str, columns: usize) -> Row {
    let mut counts = Vec::with_capacity(columns);
    let mut rest = text;
    while counts.len() < columns {
        // By bytes: this loop is nearly all the work on a machine with hundreds of CPUs.
        let trimmed = rest.trim_ascii_start();
        let end = trimmed.bytes().position(|b| b.is_ascii_whitespace()).unwrap_or(trimmed.len());
        let (word, after) = trimmed.split_at(end);
        // A count that does not fit 64 bits is not one the kernel wrote; take the largest.
        if word.is_empty() || !word.bytes().all(|b| b.is_ascii_digit()) {
            break;
        }
        counts.push(word.parse().unwrap_or(u64::MAX));
        rest = after;
    }
    counts.resize(columns, 0);
    let description = rest.trim();
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
    // The chip is all before the hardware number; without one (old kernels) it is all there is.
    let number = words.iter().rposition(|w| w.starts_with(|c: char| c.is_ascii_digit()));
    let chip = words.get(..number.unwrap_or(words.len())).unwrap_or_default().join(" ");
    let actions = actions.split(", ").filter(|a| !a.is_empty()).map(str::to_owned).collect();
    let trigger = words.last().and_then(|word| {
        let word = word.to_ascii_lowercase();
        ["edge", "level"].into_iter().find(|t| word == *t || word.ends_with(&format!("-{t}")))
    });
    Row { line, counts, chip, trigger, actions }
}

/// `44 Level`, `3-edge`, `524288-edge`: hardware number and trigger, no action.
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
    const R4S: &[u8] = include_bytes!("../../fixtures/proc/interrupts-r4s");
    /// A firecracker guest, kernel 6.18, x86-64.
    const X86: &[u8] = include_bytes!("../../fixtures/proc/interrupts-x86-virtio");

    fn find(table: &Interrupts, line: u32) -> &Row {
        table.rows.iter().find(|r| r.line == IrqLine(line)).unwrap()
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
        assert_eq!(eth0.counts, [10_628_015, 0, 0, 0, 0, 0]);
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
        assert_eq!(input.counts, [0, 2301]);
        assert_eq!(input.trigger, Some("edge"));
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
        assert_eq!(find(&table, 7).counts, [5, 0]);
        assert_eq!(find(&table, 8).counts, [1, u64::MAX]);
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
            prop_assert!(table.rows.iter().all(|r| r.counts.len() == table.cpus.len()));
        }
    }
}
