//! Kernel and board.

use crate::model::snapshot::Snapshot;
use crate::report::document::Block;

pub(super) fn kernel(snapshot: &Snapshot) -> Vec<Block> {
    let (k, m) = (&snapshot.kernel, &snapshot.machine);
    let mut facts: Vec<(String, String)> = Vec::new();
    let mut add = |what: &str, value: Option<String>| {
        if let Some(value) = value.filter(|v| !v.is_empty()) {
            facts.push((what.to_owned(), value));
        }
    };
    add("release", Some(format!("{} {}", m.kernel, m.arch)));
    add("version", k.version.clone());
    let source = k.preemption_source.as_deref().unwrap_or_default();
    let dynamic = if k.preempt_dynamic == Some(true) { "; can be chosen at boot" } else { "" };
    add("preemption", k.preemption.as_ref().map(|p| format!("{p} (by {source}){dynamic}")));
    add("HZ", k.hz.map(|hz| hz.to_string()));
    let exact = |on| if on { "exact" } else { "sampled by the tick" }.to_owned();
    add("softirq time", m.irq_time_accounting.map(exact));
    add("costs every packet", Some(k.costly.join(", ")));
    add("parameters", Some(k.parameters.join(" ")));
    let unread = || "neither /proc/config.gz nor /boot/config-* can be read".to_owned();
    add("configuration", Some(k.config.clone().unwrap_or_else(unread)));
    add("rcu_nocbs", k.rcu_nocbs.as_ref().map(ToString::to_string));
    for (algorithm, driver) in &k.crypto {
        add(algorithm, Some(driver.clone()));
    }
    add("crypto modules", Some(k.crypto_modules.join(", ")));
    add("board", m.board.clone());
    add("compatible", Some(m.compatible.join(", ")));
    add("virtualisation", m.virtualisation.clone());
    if let Some(facts) = &m.board_facts {
        add("known as", Some(format!("{} ({})", facts.title, facts.file)));
        for note in &facts.notes {
            add("note", Some(note.clone()));
        }
        add("source", Some(facts.source.clone()));
    }
    vec![Block::Heading("kernel".to_owned()), Block::Facts(facts)]
}
