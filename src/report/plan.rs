//! Report on a plan: its changes and their reasons, beside the other candidates.

use super::document::{Block, Document, Section, Table, Tone};
use crate::decide::plan::{Bug, Candidates, Request, cost, headline, name, recipes};
use crate::model::measurement::Direction;
use crate::model::plan::{Candidate, Change, NotMade, Plan};
use crate::model::snapshot::Snapshot;

/// Advice on how to read the rates and hand-offs of candidates.
const COST: &str = "times as found: both ways at once, and each way alone, in the middle world; \
    hand-offs: packets that change CPU, where 100 % is those of one direction (a model, not a \
    measurement)";

/// Document on a plan: the gain that is expected of the chosen candidate, the others beside it, the
/// changes, and the settings that it leaves alone.
///
/// # Errors
/// Fails with a bug of the planner.
pub fn document(
    snapshot: &Snapshot,
    request: &Request,
    candidates: &Candidates,
    plan: &Plan,
    file: &str,
) -> Result<Document, Bug> {
    let chosen = &plan.candidate;
    let model = cost::Model::new(snapshot, &request.traffic, request.profile);
    let mut document = Document::default();
    document.blocks([Block::prose(headline(snapshot, request, candidates, chosen)?)]);
    document.section(compared(candidates, chosen, &model)?);
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
        Some(_) => Block::Table(changes(chosen.changes())),
    }]);
    let mut left = Table::new(&["not set", "why"]);
    plan.not_made.iter().for_each(|not| left.row([not.setting.clone(), not.reason.clone()]));
    document.blocks((!left.rows.is_empty()).then_some(Block::Table(left)));
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
    let left = candidates.left_out.iter().map(|(name, why)| format!("{name} left out: {why}"));
    section.blocks.extend(same.chain(left).map(Block::note));
    section.blocks.push(Block::note(COST));
    Ok(section)
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
