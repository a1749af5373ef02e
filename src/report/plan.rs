//! Report on a plan: its changes and their reasons, beside the other candidates.

use super::document::{Block, Document, Section, Table, Tone};
use crate::decide::plan::{Bug, Candidates, Request, cost, headline, name, recipes};
use crate::model::measurement::Direction;
use crate::model::order::InOrder;
use crate::model::plan::{Candidate, Change, NotMade, Plan};
use crate::model::snapshot::Snapshot;

/// Advice on how to read the rates and hand-offs of candidates.
const COST: &str = "times as found: both ways at once, and each way alone, by the middle of the costs \
    tried; hand-offs: packets that change CPU, where 100 % is those of one direction (a model, not a \
    measurement)";

/// Document on a plan: the gain that is expected of the chosen candidate, the others beside it, the
/// changes, and the settings that it leaves alone. Without `all`, settings of many queues that are
/// alike take one line, and what is not set or not compared is named without its reason.
///
/// # Errors
/// Fails with a bug of the planner.
pub fn document(
    snapshot: &Snapshot,
    request: &Request,
    candidates: &Candidates,
    plan: &Plan,
    file: &str,
    all: bool,
) -> Result<Document, Bug> {
    let chosen = &plan.candidate;
    let model = cost::Model::new(snapshot, &request.traffic, request.profile);
    let mut document = Document::default();
    document.blocks([Block::prose(headline(snapshot, request, candidates, chosen)?)]);
    document.section(compared(candidates, chosen, &model, all)?);
    let mut reason = vec![Block::prose(format!("{}: {}", chosen.name, chosen.reason))];
    let evidence = snapshot.evidence.as_ref();
    reason.extend(evidence.map(|e| Block::prose(format!("where the work is: by {}", e.words()))));
    document.blocks(reason);
    document.blocks([match chosen.changes().next() {
        None if candidates.planned.is_none() => Block::prose("nothing to propose"),
        None if chosen.name == name::AS_FOUND => {
            Block::prose("nothing to change: leave it as it is")
        }
        None => Block::prose("nothing to change: the router is set up this way already"),
        Some(_) if all => Block::Table(changes(chosen.changes())),
        Some(_) => Block::Table(folded(chosen.changes())),
    }]);
    document.blocks(left_alone(&plan.not_made, all));
    document.blocks([Block::prose(match chosen.changes().next() {
        None => format!("written to {file}, which changes nothing"),
        Some(_) => format!(
            "written to {file}; next: linerate apply --confirm 60 {file} (undone after 60 s unless \
             `linerate confirm` follows; undone later by linerate rollback)"
        ),
    })]);
    Ok(document)
}

fn compared(
    candidates: &Candidates,
    chosen: &Candidate,
    model: &cost::Model<'_>,
    all: bool,
) -> Result<Section, Bug> {
    let headings = [
        "candidate",
        "times as found",
        "down",
        "up",
        "full first",
        "each way",
        "hand-offs",
        "writes",
        "what",
    ];
    let mut table = Table::new(&headings).figures([1, 2, 3, 5, 6, 7]).gives_way(&[8, 7, 6]);
    if !all {
        table = table.detail(8);
    }
    let found = candidates.get(name::AS_FOUND).map(|c| model.predict(c)).transpose()?.flatten();
    let recipe = candidates.get(&chosen.name).is_none().then_some(chosen);
    for candidate in candidates.all().chain(recipe) {
        let predicted = model.predict(candidate)?;
        let known = |f: &dyn Fn(&cost::Prediction) -> String| {
            predicted.as_ref().map_or_else(|| "?".into(), f)
        };
        let times = |direction: Direction| {
            let both = predicted.as_ref().zip(found.as_ref());
            let times = both.and_then(|(then, now)| then.times(now, direction));
            times.map_or_else(|| "-".into(), |range| format!("{:.2}", range.mid))
        };
        let packets = predicted.as_ref().and_then(|p| p.packets(Direction::Both));
        let within = predicted.as_ref().and_then(|p| p.packets_within(Direction::Both));
        let each_way = match (packets, within) {
            (_, Some(r)) => format!("{:.0} packets/s ({:.0} to {:.0})", r.mid, r.low, r.high),
            (Some(packets), None) => format!("{packets:.0} packets/s"),
            (None, _) => "-".to_owned(),
        };
        table.mark(
            candidate.name == chosen.name,
            [
                candidate.name.clone(),
                times(Direction::Both),
                times(Direction::Down),
                times(Direction::Up),
                known(&|p| p.full_first()),
                each_way,
                known(&|p| format!("{:.0} %", p.handovers * 100.0)),
                candidate.changes().count().to_string(),
                candidate.title.clone(),
            ],
        );
    }
    table.drop_empty();
    let mut section = Section::default().with([Block::Table(table)]);
    let same =
        candidates.folded.iter().map(|(name, other)| format!("{name} is the same as {other}"));
    section.blocks.extend(same.map(Block::note));
    let left = &candidates.left_out;
    if all {
        let left = left.iter().map(|(name, why)| format!("{name} left out: {why}"));
        section.blocks.extend(left.map(Block::note));
    } else if !left.is_empty() {
        let names = names(left.iter().map(|(name, _)| *name));
        section.blocks.push(Block::note(format!("left out: {names} (-v says why)")));
    }
    section.blocks.push(Block::note(COST));
    Ok(section)
}

/// The settings that the plan leaves as they are.
fn left_alone(not_made: &[NotMade], all: bool) -> Option<Block> {
    if not_made.is_empty() {
        return None;
    }
    if all {
        let mut table = Table::new(&["not set", "why"]);
        not_made.iter().for_each(|not| table.row([not.setting.clone(), not.reason.clone()]));
        return Some(Block::Table(table));
    }
    let names = names(not_made.iter().map(|not| not.setting.as_str()));
    Some(Block::prose(format!(
        "left as they are: {names} (why: linerate plan -v, or linerate plan --explain NAME)"
    )))
}

/// Each name once, in order.
fn names<'a>(all: impl Iterator<Item = &'a str>) -> String {
    let mut once: Vec<&str> = Vec::new();
    all.for_each(|name| {
        if !once.contains(&name) {
            once.push(name);
        }
    });
    once.join(", ")
}

/// More settings of one kind and device than this take one line.
const FEW: usize = 4;

/// The changes, those of the queues of one device in one line where they are alike or many.
fn folded<'a>(changes: impl Iterator<Item = &'a Change>) -> Table {
    let mut groups: Vec<(String, Vec<u32>, Vec<&Change>)> = Vec::new();
    for change in changes {
        let (name, number) = numbered(&change.knob.to_string());
        match groups.iter_mut().find(|(known, numbers, _)| *known == name && !numbers.is_empty()) {
            Some((_, numbers, group)) => {
                numbers.extend(number);
                group.push(change);
            }
            None => groups.push((name, number.into_iter().collect(), vec![change])),
        }
    }
    let mut rows: Vec<(String, [String; 3])> = Vec::new();
    let mut put = |name: String, cells: [String; 3]| match rows.iter_mut().find(|r| r.1 == cells) {
        Some((names, _)) => names.push_str(&format!(", {name}")),
        None => rows.push((name, cells)),
    };
    for (name, numbers, group) in groups {
        let cells = |some: &[&Change]| {
            [
                distinct(some.iter().map(|change| change.before.to_string())),
                distinct(some.iter().map(|change| change.after.to_string())),
                reasons(some),
            ]
        };
        let alike = |change: &&Change| group.first().is_some_and(|first| same(first, change));
        if group.len() > 1 && (group.len() > FEW || group.iter().all(alike)) {
            put(name.replace(NUMBER, &span(numbers)), cells(&group));
        } else {
            group.iter().for_each(|change| put(change.knob.to_string(), cells(&[*change])));
        }
    }
    let mut table = Table::new(&["setting", "now", "then", "why"]);
    for (name, [now, then, why]) in rows {
        table.row([name, now, then, why]);
    }
    table
}

/// Stands for the number of a queue in a name.
const NUMBER: &str = "\u{0}";

/// The name of a setting with its last number, if it has one, apart: `RPS of eth0 rx-3`.
fn numbered(name: &str) -> (String, Option<u32>) {
    let mut pieces: Vec<&str> = name.split_inclusive([' ', '-']).collect();
    let number_in = |piece: &str| piece.trim_end_matches([' ', '-']).parse::<u32>().ok();
    let found = pieces.iter().enumerate().rev().find_map(|(at, p)| Some((at, number_in(p)?)));
    let Some((at, number)) = found else { return (name.to_owned(), None) };
    let apart = pieces.get(at).map(|piece| piece.replace(&number.to_string(), NUMBER));
    if let (Some(piece), Some(apart)) = (pieces.get_mut(at), &apart) {
        *piece = apart;
    }
    (pieces.concat(), Some(number))
}

fn same(a: &Change, b: &Change) -> bool {
    (&a.before, &a.after, &a.reason) == (&b.before, &b.after, &b.reason)
}

/// `0..63`, or the numbers one by one.
fn span(mut numbers: Vec<u32>) -> String {
    numbers.order_by(Ord::cmp);
    match (numbers.first(), numbers.last()) {
        (Some(first), Some(last)) if numbers.len() > FEW => {
            let count = numbers.len();
            let whole = usize::try_from(last - first).is_ok_and(|span| span + 1 == count);
            let all = if whole { String::new() } else { format!(" ({count} of them)") };
            format!("{first}..{last}{all}")
        }
        _ => numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
    }
}

/// The values, or of many the first and the last.
fn distinct(values: impl Iterator<Item = String>) -> String {
    let mut once: Vec<String> = Vec::new();
    values.for_each(|value| {
        if !once.contains(&value) {
            once.push(value);
        }
    });
    match once.as_slice() {
        [first, .., last] if once.len() > FEW => {
            format!("{first} to {last} ({} values)", once.len())
        }
        few => few.join(", "),
    }
}

/// The reason, or the first of several.
fn reasons(changes: &[&Change]) -> String {
    let first = changes.first().map_or("", |change| change.reason.as_str());
    match changes.iter().all(|change| change.reason == first) {
        true => first.to_owned(),
        false => format!("{first}; and so on (-v has each)"),
    }
}

fn changes<'a>(changes: impl Iterator<Item = &'a Change>) -> Table {
    let mut table = Table::new(&["setting", "now", "then", "why"]);
    for change in changes {
        table.row([
            change.knob.to_string(),
            change.before.to_string(),
            change.after.to_string(),
            change.reason.clone(),
        ]);
    }
    table
}

/// Explains one setting: what it is for, what the plan does with it, and which candidates change
/// it.
#[must_use]
pub fn explained(
    name: &str,
    text: &str,
    candidate: &str,
    made: &[&Change],
    not_made: &[&NotMade],
    others: &[&str],
) -> Document {
    let mut document = Document::default();
    document.blocks([Block::prose(format!("{name}: {text}"))]);
    let mut blocks = match made {
        [] => vec![Block::prose(format!("{candidate} does not set it."))],
        made => vec![
            Block::Heading(format!("in {candidate}:")),
            Block::Table(changes(made.iter().copied())),
        ],
    };
    blocks.extend(not_made.iter().map(|n| Block::prose(format!("not set: {}", n.reason))));
    if !others.is_empty() {
        blocks.push(Block::prose(format!("candidates that change it: {}", others.join(", "))));
    }
    document.blocks(blocks);
    document
}

/// The recipes that there are.
#[must_use]
pub fn recipe_list() -> Document {
    let mut table = Table::new(&["recipe", "what", "source"]).gives_way(&[2]);
    for recipe in recipes() {
        table.row([recipe.name.to_owned(), recipe.title, recipe.source]);
    }
    let mut document = Document::default();
    let how = Block::Prose(Tone::Plain, "as one: linerate plan --recipe NAME".to_owned());
    document.blocks([Block::Table(table), how]);
    document
}
