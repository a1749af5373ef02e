//! Every setting with what it is, what it may be, and whether it can be changed.

use crate::change::apply::inventory::{Item, State};
use crate::cli::context::Context;
use crate::model::knob::Knob;
use crate::model::order::InOrder;
use crate::model::snapshot::Snapshot;
use crate::report::document::Table;

/// A line of the table: settings of one kind, of queues next to each other, that are alike.
#[derive(PartialEq)]
struct Line {
    what: String,
    numbers: Vec<u32>,
    now: String,
    allowed: String,
    state: &'static str,
    why: String,
}

pub(super) fn knobs(context: &Context, snapshot: &Snapshot, items: &[Item]) -> Vec<String> {
    // A virtual device that is down carries nothing: a name for all of its settings.
    let idle = |name: &str| {
        snapshot.netdev(name).is_some_and(|d| !d.is_hardware() && d.operstate == "down")
    };
    let mut groups: Vec<(&str, Vec<&Item>)> = Vec::new();
    let mut down: Vec<&str> = Vec::new();
    for item in items {
        let of = group(&item.knob);
        if idle(of) {
            if !down.contains(&of) {
                down.push(of);
            }
            continue;
        }
        match groups.last_mut() {
            Some((name, list)) if *name == of => list.push(item),
            _ => groups.push((of, vec![item])),
        }
    }
    let mut table = Table::new(&["setting", "is", "may be", "", "why"]);
    let mut like: Vec<(String, Vec<Line>, Vec<Listed>)> = Vec::new();
    for (name, list) in groups {
        let (lines, listed) = fold(&list);
        // Ports of one card are mostly alike.
        match like.iter_mut().find(|(_, l, m)| *l == lines && *m == listed) {
            Some((names, ..)) => names.push_str(&format!(", {name}")),
            None => like.push((name.to_owned(), lines, listed)),
        }
    }
    let mut told: Vec<(String, usize, Vec<Listed>)> = Vec::new();
    for (name, lines, listed) in like {
        told.push((name, lines.len(), listed));
        for line in lines {
            let named = format!("  {}", named(&line));
            table.row([named, line.now, line.allowed, line.state.into(), line.why]);
        }
    }
    let (mut lines, rows) = context.out.text().rows(&table);
    let mut rows = rows.into_iter();
    for (name, count, listed) in told {
        lines.push(context.out.bold(name));
        lines.extend(rows.by_ref().take(count).flatten());
        // What is not there takes a line for each reason, not one for each setting.
        for Listed { what, promising, names } in listed {
            let line = format!("  {what}: {}", names.join(", "));
            // What can be changed is what one came for.
            lines.push(if promising { line } else { context.out.dim(line) });
        }
    }
    if !down.is_empty() {
        let down = down.join(", ");
        lines.push(context.out.dim(format!("down, and left out here (--json has them): {down}")));
    }
    lines
}

/// The heading that a setting stands under: its device, its policy, or that of its row.
fn group(knob: &Knob) -> &str {
    let parts = knob.parts();
    let heading = || knob.spec().map_or("other", |spec| spec.heading);
    parts.device.or(parts.policy).unwrap_or_else(heading)
}

/// Settings that have something in common.
#[derive(PartialEq)]
struct Listed {
    /// Their common state, in words.
    what: String,
    /// They can be changed, or that is unknown.
    promising: bool,
    /// The settings by name.
    names: Vec<String>,
}

/// Alike ones next to each other as one line; offloads by what they are, and those that can't be
/// changed by reason.
fn fold(items: &[&Item]) -> (Vec<Line>, Vec<Listed>) {
    let mut lines: Vec<Line> = Vec::new();
    let mut listed: Vec<Listed> = Vec::new();
    let mut list = |what: String, promising: bool, name: String| match listed
        .iter_mut()
        .find(|one| one.what == what)
    {
        Some(one) if one.names.contains(&name) => {}
        Some(one) => one.names.push(name),
        None => listed.push(Listed { what, promising, names: vec![name] }),
    };
    for item in items {
        let (what, number) = item.knob.title();
        let now = item.now.as_ref().map_or_else(|| "?".to_owned(), ToString::to_string);
        let offload = item.knob.spec().is_some_and(|spec| spec.listed);
        let (state, why) = match &item.state {
            State::Changeable if offload => {
                list(format!("offloads that are {now}, and changeable"), true, what);
                continue;
            }
            State::Changeable => ("changeable", String::new()),
            State::Fixed(why) if offload => {
                list(format!("fixed ({why})"), false, format!("{what} {now}"));
                continue;
            }
            State::Fixed(why) => ("fixed", why.clone()),
            State::Unknown(why) if item.now.is_none() => {
                list(format!("unknown ({why})"), true, what);
                continue;
            }
            State::Unknown(why) => ("unknown", why.clone()),
            State::Absent(why) => {
                list(format!("absent ({why})"), false, what);
                continue;
            }
        };
        let alike = |line: &&mut Line| {
            number.is_some()
                && line.what == what
                && (line.now.as_str(), line.state, &line.why) == (now.as_str(), state, &why)
        };
        match lines.iter_mut().rev().find(alike) {
            Some(line) => line.numbers.extend(number),
            None => lines.push(Line {
                what,
                numbers: number.into_iter().collect(),
                now,
                allowed: item.allowed.clone(),
                state,
                why,
            }),
        }
    }
    (lines, listed)
}

/// `RPS rx-0..3`.
fn named(line: &Line) -> String {
    let mut numbers = line.numbers.clone();
    numbers.order_by(Ord::cmp);
    match (numbers.first(), numbers.last()) {
        (Some(first), Some(last)) if first == last => format!("{}-{first}", line.what),
        (Some(first), Some(last)) if usize::try_from(last - first) == Ok(numbers.len() - 1) => {
            format!("{}-{first}..{last}", line.what)
        }
        (Some(_), Some(_)) => {
            let list: Vec<String> = numbers.iter().map(ToString::to_string).collect();
            format!("{}-{}", line.what, list.join(","))
        }
        _ => line.what.clone(),
    }
}
