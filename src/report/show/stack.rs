//! Devices on top of others, as a tree from each device with an address down to the ports.

use crate::model::snapshot::Snapshot;
use crate::model::stack::{Layer, Side};
use crate::report::document::{Block, Table};

/// The trees; nothing, unless in detail, where they say no more than the list of devices.
pub(super) fn stack(snapshot: &Snapshot, detail: bool) -> Vec<Block> {
    let plain = snapshot.stack.iter().all(|tree| tree.role.is_none() && tree.below.is_empty());
    if plain && !detail {
        return Vec::new();
    }
    if snapshot.stack.is_empty() {
        return vec![Block::note("no device bears an address")];
    }
    let mut table = Table::new(&["side", "stack", "what", ""]);
    for tree in &snapshot.stack {
        let side = match tree.role.as_ref().map(|r| r.side) {
            Some(Side::Wan) => "wan",
            Some(Side::Lan) => "lan",
            None => "-",
        };
        let reason = tree.role.as_ref().map_or("", |r| &r.reason);
        table.row([side.into(), tree.device.clone(), tree.kind.clone(), reason.into()]);
        below(&mut table, tree, "");
    }
    vec![Block::Table(table)]
}

fn below(table: &mut Table, layer: &Layer, indent: &str) {
    let last = layer.below.len().saturating_sub(1);
    for (at, next) in layer.below.iter().enumerate() {
        let (branch, trunk) = if at == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let device = format!("{indent}{branch}{}", next.device);
        table.row([String::new(), device, next.kind.clone(), String::new()]);
        below(table, next, &format!("{indent}{trunk}"));
    }
}
