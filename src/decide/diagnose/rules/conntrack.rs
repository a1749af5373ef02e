//! The connection table.

use crate::decide::diagnose::{Found, Load, Looked, Rule, Subject};
use crate::model::finding::Severity;

pub(super) const RULES: &[Rule] = &[Rule {
    id: "conntrack-full",
    what: "the table of connections is nearly full",
    costs: "when it is full new connections are dropped (`nf_conntrack: table full, dropping packet`); \
            it limits flows, not rate",
    source: "Documentation/networking/nf_conntrack-sysctl.rst",
    reads: "net.netfilter.nf_conntrack_count and nf_conntrack_max",
    load: Load::Better,
    look,
}];

fn look(subject: &Subject<'_>) -> Looked {
    let path = &subject.snapshot.path;
    let (Some(count), Some(most)) = (path.conntrack_count, path.conntrack_max) else {
        return Err("nf_conntrack_count and nf_conntrack_max can't be read".into());
    };
    let share = count as f64 / most.max(1) as f64;
    if share < 0.8 {
        return Ok(Vec::new());
    }
    let severity = if share >= 0.95 { Severity::Critical } else { Severity::Warning };
    let title = format!("the connection table is {:.0} % full", share * 100.0);
    Ok(vec![
        Found::new(severity, title)
            .seen("/proc/sys/net/netfilter/nf_conntrack_count", count)
            .seen("/proc/sys/net/netfilter/nf_conntrack_max", most)
            .rank(if share >= 0.95 { 0.5 } else { 0.1 })
            .remedy(format!(
                "sysctl -w net.netfilter.nf_conntrack_max={}  # some 300 bytes of memory each",
                most.saturating_mul(2)
            ))
            .remedy(
                "look who opens them: conntrack -L | awk '{print $5}' | sort | uniq -c | sort -n",
            ),
    ])
}
