//! The connection table.

use crate::decide::diagnose::{Found, Load, Looked, Rule, Subject};
use crate::model::condition::Condition;
use crate::model::finding::{Evidence, Severity};
use crate::model::snapshot::Snapshot;

pub(super) const RULES: &[Rule] = &[Rule {
    id: "conntrack-full",
    what: "the table of connections is nearly full, or was full",
    costs: "when it is full new connections are dropped (`nf_conntrack: table full, dropping packet`); \
            it limits flows, not rate",
    source: "Documentation/networking/nf_conntrack-sysctl.rst",
    reads: "net.netfilter.nf_conntrack_count and nf_conntrack_max, /proc/net/stat/nf_conntrack (early_drop)",
    load: Load::Better,
    look,
}];

fn look(subject: &Subject<'_>) -> Looked {
    let path = &subject.snapshot.path;
    let (Some(count), Some(most)) = (path.conntrack_count, path.conntrack_max) else {
        return Err("nf_conntrack_count and nf_conntrack_max can't be read".into());
    };
    let share = count as f64 / most.max(1) as f64;
    // Thrown out for want of room: there was a time when it was full.
    let early = |_: &Snapshot, c: &Condition| c.conntrack.get("early_drop").copied().unwrap_or(0);
    let thrown = subject.rose(early).unwrap_or_else(|| early(subject.snapshot, subject.condition));
    // What was once, long ago, is over.
    let hours = subject.condition.uptime.filter(|_| subject.window.is_none());
    let often = hours.is_none_or(|seconds| thrown as f64 * 3600.0 >= 10.0 * seconds);
    if share < 0.8 && !(thrown >= 100 && often) {
        return Ok(Vec::new());
    }
    let severity = if share >= 0.95 { Severity::Critical } else { Severity::Warning };
    let title = match share < 0.8 {
        true => {
            format!("the connection table was full: {thrown} connections were thrown out of it")
        }
        false => format!("the connection table is {:.0} % full", share * 100.0),
    };
    let mut found = Found::new(severity, title)
        .all_seen((thrown > 0).then(|| Evidence {
            place: "/proc/net/stat/nf_conntrack: early_drop".into(),
            value: thrown.to_string(),
        }))
        .seen("/proc/sys/net/netfilter/nf_conntrack_count", count)
        .seen("/proc/sys/net/netfilter/nf_conntrack_max", most)
        .rank(if share >= 0.95 { 0.5 } else { 0.1 })
        .remedy(format!(
            "sysctl -w net.netfilter.nf_conntrack_max={}  # some 300 bytes of memory each",
            most.saturating_mul(2)
        ))
        .remedy("look who opens them: conntrack -L | awk '{print $5}' | sort | uniq -c | sort -n");
    if share < 0.8 && subject.window.is_none() {
        found = found.remedy(
            "early_drop counts since boot: linerate check --load 60s tells whether it still grows",
        );
    }
    Ok(vec![found])
}
