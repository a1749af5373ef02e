//! The ledger of lost packets.

use super::document::{Block, Cell, Document, Section, Table, Tone};
use crate::decide::losses::{Balance, Entry, Kind, Ledger};
use crate::model::snapshot::Snapshot;

/// The ledger of a machine.
#[must_use]
pub fn document(snapshot: &Snapshot, ledger: &Ledger) -> Document {
    let name = match snapshot.machine.hostname.as_str() {
        "" => "this machine",
        name => name,
    };
    let mut document = Document::new(format!("{name}: {}", headline(ledger)));
    sections(&mut document, ledger);
    document
}

/// The losses of the time that was watched, behind findings; nothing where nothing was lost.
pub fn beside(document: &mut Document, ledger: &Ledger) {
    let is_told = |entry: &Entry| entry.is_loss() && entry.count() > 0;
    if ledger.entries.iter().any(is_told) {
        let note = "linerate check --losses 10s tells what each means, and sums them up";
        document.section(
            Section::new(headline(ledger))
                .with([Block::Table(table(ledger, is_told)), Block::note(note)]),
        );
    }
}

fn headline(ledger: &Ledger) -> String {
    let (by_rules, lost) = ledger.lost();
    let when = match ledger.seconds {
        Some(seconds) => format!("in {seconds:.0} s"),
        None => "since boot".to_owned(),
    };
    format!("{lost} packets lost {when}, and {by_rules} dropped by rules on purpose")
}

fn table(ledger: &Ledger, is_told: impl Fn(&Entry) -> bool) -> Table {
    let mut headings = vec!["stage", "place", "counter"];
    if ledger.seconds.is_some() {
        headings.extend(["watched", "per second"]);
    }
    headings.push("since boot");
    let mut table = Table::new(&headings).figures(3..headings.len());
    for entry in ledger.entries.iter().filter(|e| is_told(e)) {
        let mut cells: Vec<Cell> =
            vec![entry.stage.words().into(), place(entry).into(), counter(entry).into()];
        if let (Some(count), Some(rate)) = (entry.watched, entry.per_second) {
            let tone = if entry.is_loss() && count > 0 { Tone::Bad } else { Tone::Plain };
            cells.push(Cell::toned(tone, count.to_string()));
            cells.push(format!("{rate:.1}").into());
        }
        cells.push(entry.since_boot.to_string().into());
        table.row(cells);
    }
    table
}

fn sections(document: &mut Document, ledger: &Ledger) {
    let mut section = Section::new("from the wire to the wire");
    if !ledger.entries.is_empty() {
        section = section.with([Block::Table(table(ledger, |_| true))]);
    }
    if ledger.entries.iter().any(|e| e.kind == Kind::Detail) {
        section = section.with([Block::note(
            "(=) counts packets that another line counts too, in other words; (!) is pressure or an event",
        )]);
    }
    document.section(section);
    document.section(meanings(ledger));
    document.section(balance(&ledger.balance));
    if !ledger.reasons.is_empty() {
        let mut table = Table::new(&["reason", "watched", "per second"]).figures(1..3);
        for one in &ledger.reasons {
            let rate = format!("{:.1}", one.per_second);
            table.row([one.reason.clone(), one.watched.to_string(), rate]);
        }
        document.section(Section::new("the kernel's own reasons, of the whole machine").with([
            Block::Table(table),
            Block::note(
                "include/net/dropreason-core.h in the kernel's source explains each; packets of sockets \
                 and of bridges are among them",
            ),
        ]));
    }
    let gaps = ledger.gaps.iter().map(|gap| (gap.what.clone(), gap.why.clone())).collect();
    let gaps = (!ledger.gaps.is_empty()).then_some(Block::Facts(gaps));
    document.section(Section::new("could not be read").with(gaps));
}

fn place(entry: &Entry) -> String {
    match (entry.place.as_str(), entry.machine_wide) {
        ("", true) => "whole machine".to_owned(),
        ("", false) => "-".to_owned(),
        (place, true) => format!("{place}, whole machine"),
        (place, false) => place.to_owned(),
    }
}

fn counter(entry: &Entry) -> String {
    match entry.kind {
        Kind::Detail => format!("{} (=)", entry.counter),
        Kind::Sign => format!("{} (!)", entry.counter),
        _ => entry.counter.clone(),
    }
}

/// Each meaning once, with what to do: of what rose, and since boot of everything.
fn meanings(ledger: &Ledger) -> Section {
    let mut section = Section::new("what it means, and what to do");
    let mut told: Vec<&str> = Vec::new();
    for entry in ledger.entries.iter().filter(|e| e.count() > 0) {
        if told.contains(&entry.means) {
            continue;
        }
        told.push(entry.means);
        let same = ledger.entries.iter().filter(|e| e.means == entry.means && e.count() > 0);
        let mut names: Vec<&str> = Vec::new();
        for name in same.map(|e| e.counter.as_str()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        section = section.with([
            Block::Heading(format!("{}: {}", entry.stage.words(), names.join(", "))),
            Block::prose(format!("{}.", entry.means)),
            Block::List(vec![entry.remedy.to_owned()]),
        ]);
    }
    section
}

fn balance(balance: &Balance) -> Section {
    let row = |name: &str, count: String| (name.to_owned(), count);
    let mut facts = vec![
        row("frames that devices took", balance.frames_in.to_string()),
        row("packets that IP received", balance.received.to_string()),
        row("forwarded", balance.forwarded.to_string()),
        row("delivered here", balance.delivered.to_string()),
    ];
    if balance.merged > 0 {
        facts.push(row("fragments merged", balance.merged.to_string()));
    }
    facts.push(row("lost in IP", balance.lost.to_string()));
    facts.push(row("not explained", balance.unexplained.to_string()));
    facts.push(row("sent by this machine itself", balance.own.to_string()));
    facts.push(row("lost behind IP", balance.lost_behind.to_string()));
    facts.push(row("frames that devices sent", balance.frames_out.to_string()));
    let mut section = Section::new("the sum").with([
        Block::Facts(facts),
        Block::note(
            "received = forwarded + delivered + merged + lost + not explained, IPv4 and IPv6 together; \
             frames also count ARP, what is bridged and what a flowtable forwards, and each segment \
             that GRO merges or TSO cuts",
        ),
    ]);
    if !balance.may_be.is_empty() {
        section = section.with([
            Block::prose("What is not explained may be:"),
            Block::List(balance.may_be.clone()),
        ]);
    }
    section
}
