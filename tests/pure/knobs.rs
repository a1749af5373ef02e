//! docs/knobs.md says what the table of knobs says.

use std::fmt::Write as _;

use linerate::model::knob::spec::{Fixed, Range, Rule};
use linerate::model::knob::{KNOBS, KnobSpec, topics};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Valid values, for a reader of the document.
fn values(row: &KnobSpec) -> String {
    match row.range {
        Range::Any => row.shape.words().to_owned(),
        Range::Unit(unit) => unit.to_owned(),
        Range::SomeCpu => "a list of CPUs, at least one".to_owned(),
        Range::Words(words) => words.join(", "),
        Range::Mode(modes) => format!("{}; with devices behind it", modes.join(", ")),
        Range::Channels => "1 to the number of queues that the driver tells".to_owned(),
        Range::Rings => "1 to the number of descriptors that the driver tells".to_owned(),
        Range::Spread => "a number of queues, or the queue of each bucket".to_owned(),
        Range::Governors => "a word of scaling_available_governors".to_owned(),
        Range::Frequencies => "kHz, from cpuinfo_min_freq to cpuinfo_max_freq".to_owned(),
        Range::File(path) => format!("a word of {path}"),
    }
}

/// How `tune --factor` varies it.
fn factor(row: &KnobSpec) -> String {
    let name = if row.open { format!("{}.NAME", row.kind) } else { row.factor() };
    let levels: Vec<&str> = row
        .vary
        .levels
        .iter()
        .copied()
        .chain((!row.vary.further.is_empty()).then_some(row.vary.further))
        .collect();
    match row.vary.rule {
        Rule::Never => "-".to_owned(),
        _ if levels.is_empty() => format!("`{name}`"),
        _ => format!("`{name}`={}", levels.join(", ")),
    }
}

/// Why it may be missing or fixed.
fn missing(row: &KnobSpec) -> String {
    match row.fixed {
        Fixed::Unknown => row.absent.words().to_owned(),
        fixed => format!("{}; fixed: {}", row.absent.words(), fixed.words()),
    }
}

fn document() -> String {
    let mut text = String::new();
    for topic in topics() {
        writeln!(text, "\n## {}\n\n{}\n", topic.name, topic.text).unwrap();
        if !topic.also.is_empty() {
            writeln!(text, "Further names for `--explain`: {}.\n", topic.also.join(", ")).unwrap();
        }
        let columns = [
            "knob",
            "what it is",
            "of",
            "path or address",
            "value",
            "the same as",
            "`tune --factor`",
            "drags along",
            "missing because",
            "kept on systemd",
            "kept on OpenWrt",
        ];
        writeln!(text, "| {} |\n|{}", columns.join(" | "), "---|".repeat(columns.len())).unwrap();
        for row in KNOBS.iter().filter(|row| row.topic == topic) {
            let name = row.name.or(row.open.then_some("NAME"));
            let (systemd, openwrt) = row.keep.words(row.scope);
            let cells = [
                name.map_or_else(|| format!("`{}`", row.kind), |n| format!("`{}` `{n}`", row.kind)),
                format!("{}{}", row.what, if row.only_dragged { " (no plan sets it)" } else { "" }),
                format!("{}{}", row.scope.words(), if row.global { "" } else { ", by namespace" }),
                format!("`{}`", row.path),
                values(row),
                row.same.words().to_owned(),
                factor(row),
                if row.drags.is_empty() { "-".to_owned() } else { row.drags.join(", ") },
                missing(row),
                systemd.to_owned(),
                openwrt.to_owned(),
            ];
            writeln!(text, "| {} |", cells.join(" | ")).unwrap();
        }
    }
    text
}

#[test]
fn the_table_of_knobs_in_the_documents_is_the_programs() {
    let file = format!("{ROOT}/docs/knobs.md");
    let written = std::fs::read_to_string(&file).unwrap();
    let (head, _) = written.split_once("# The knobs\n").unwrap();
    let wanted = format!("{head}# The knobs\n{}", document());
    if std::env::var_os("LINERATE_WRITE_KNOBS").is_some() {
        std::fs::write(&file, &wanted).unwrap();
        return;
    }
    assert_eq!(written, wanted, "LINERATE_WRITE_KNOBS=1 writes docs/knobs.md anew");
}

#[test]
fn every_list_of_knobs_has_each_row_once() {
    let told = document();
    for row in KNOBS {
        let cell = format!("| `{}` |", row.path);
        assert!(told.contains(&cell), "{cell}");
    }
    assert_eq!(told.matches("\n| `").count(), KNOBS.len());
}
