//! Packets that a CPU could not take in time.

use crate::decide::diagnose::{Found, Load, Looked, Rule, Subject};
use crate::model::finding::{Confidence, Severity};
use crate::model::path::SoftnetCpu;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "backlog-drops",
        what: "packets dropped for a full backlog (softnet_stat, column 2)",
        costs: "each is a packet lost, which TCP takes as a reason to slow down; the backlog is where \
                RPS and virtual devices put packets",
        source: "Documentation/networking/scaling.rst; net/core/dev.c, enqueue_to_backlog",
        reads: "softnet_stat, net.core.netdev_max_backlog",
        load: Load::Better,
        look: drops,
    },
    Rule {
        id: "budget-squeezes",
        what: "polls that ended with work left (softnet_stat, column 3)",
        costs: "packets wait for the next softirq, behind whatever else runs; the card's ring fills \
                meanwhile",
        source: "Documentation/admin-guide/sysctl/net.rst (netdev_budget); net/core/dev.c, net_rx_action",
        reads: "softnet_stat, net.core.netdev_budget",
        load: Load::Better,
        look: squeezes,
    },
];

fn sum(rows: &[SoftnetCpu], of: fn(&SoftnetCpu) -> u32) -> u64 {
    rows.iter().map(|row| u64::from(of(row))).sum()
}

/// Counts of the rows: in the window where there is one, else since boot; packets, and of `of`.
fn counted(subject: &Subject<'_>, of: fn(&SoftnetCpu) -> u32) -> Option<(u64, u64, &'static str)> {
    let rows = &subject.snapshot.path.softnet;
    if rows.is_empty() {
        return None;
    }
    if let Some(window) = subject.window {
        let before = &window.before.path.softnet;
        // 32 bits that wrap, CPU by CPU.
        let rose = |of: fn(&SoftnetCpu) -> u32| -> u64 {
            let pairs = rows
                .iter()
                .filter_map(|row| Some((row, before.iter().find(|then| then.cpu == row.cpu)?)));
            pairs.map(|(now, then)| u64::from(of(now).wrapping_sub(of(then)))).sum()
        };
        return Some((rose(|r| r.packets), rose(of), "in the window"));
    }
    Some((sum(rows, |r| r.packets), sum(rows, of), "since boot"))
}

fn drops(subject: &Subject<'_>) -> Looked {
    let Some((packets, dropped, when)) = counted(subject, |r| r.dropped) else {
        return Err("/proc/net/softnet_stat can't be read".into());
    };
    // The counters are the machine's: what is a namespace's own can't be told.
    if subject.intake.devices.iter().all(|d| d.is_veth()) {
        return Err(
            "softnet_stat counts for the whole machine, of which this is one namespace".into()
        );
    }
    if dropped == 0 {
        return Ok(Vec::new());
    }
    let share = dropped as f64 / (packets.max(1)) as f64;
    // One in ten thousand lost is what a TCP flow at 20 ms feels at 100 Mbit/s (Mathis).
    // What was lost once, days ago, is nothing to mend today: 36 an hour are.
    let rate = subject.condition.uptime.map(|seconds| dropped as f64 / seconds.max(60.0));
    let goes_on = subject.window.is_some() || rate.is_none_or(|rate| rate >= 0.01);
    let grave = share >= 1e-4 && goes_on;
    let severity = if grave { Severity::Warning } else { Severity::Notice };
    let severity = if subject.window.is_some() { severity } else { subject.on_router(severity) };
    let backlog = subject.snapshot.path.sysctls.get("net.core.netdev_max_backlog").copied();
    let title = format!("{dropped} of {packets} packets were dropped for a full backlog {when}");
    let mut found = Found::new(severity, title)
        .seen("/proc/net/softnet_stat, column 2", dropped)
        .rank(if grave { 0.15 } else { 0.01 });
    if let Some(seconds) = subject.condition.uptime.filter(|_| subject.window.is_none()) {
        found = found.seen("/proc/uptime", format!("{:.1} days", seconds / 86_400.0));
    }
    if let Some(backlog) = backlog {
        let wanted = backlog.saturating_mul(4).clamp(4000, 100_000);
        found = found
            .seen("/proc/sys/net/core/netdev_max_backlog", backlog)
            .remedy(format!("sysctl -w net.core.netdev_max_backlog={wanted}"));
    }
    Ok(vec![found.remedy(
        "and spread the work: the CPU that drops is full (linerate plan; linerate check --load 10s)",
    )])
}

fn squeezes(subject: &Subject<'_>) -> Looked {
    let Some((packets, squeezed, when)) = counted(subject, |r| r.squeezed) else {
        return Err("/proc/net/softnet_stat can't be read".into());
    };
    let share = squeezed as f64 / (packets.max(1)) as f64;
    // Since boot every busy router has some, one in a few thousand packets; that is no fault.
    let grave = match subject.window {
        Some(window) => squeezed as f64 / window.seconds.max(0.1) >= 100.0,
        None => false,
    };
    if !grave && (squeezed < 1000 || share < 2e-3) {
        return Ok(Vec::new());
    }
    let severity = if grave { Severity::Warning } else { Severity::Notice };
    let title = format!("{squeezed} polls ended with work left, for {packets} packets {when}");
    let mut found = Found::new(severity, title)
        .seen("/proc/net/softnet_stat, column 3", squeezed)
        .rank(0.05)
        .sure(Confidence::Likely);
    if let Some(budget) = subject.snapshot.path.sysctls.get("net.core.netdev_budget") {
        found = found
            .seen("/proc/sys/net/core/netdev_budget", budget)
            .remedy(format!("sysctl -w net.core.netdev_budget={}", budget.saturating_mul(2)));
    }
    Ok(vec![
        found
            .remedy("and net.core.netdev_budget_usecs likewise, where the kernel has it (4.12 and later)")
            .remedy("if one CPU alone has them, spread the work first: linerate plan"),
    ])
}
