//! Settings that people make for the rate of forwarded packets, and that can't change it.

use crate::decide::diagnose::{Found, Load, Looked, Rule, Subject};
use crate::model::cpuset::CpuSet;
use crate::model::finding::Severity;

pub(super) const RULES: &[Rule] = &[Rule {
    id: "no-effect",
    what: "settings that can't matter to forwarded packets (RFS, XPS with one queue, TCP)",
    costs: "nothing; but they are no reason for a rate either. They help only traffic that ends on the \
            router: a proxy, a VPN in user space, a speed test on it",
    source: "Documentation/networking/scaling.rst (RFS, XPS); Documentation/networking/ip-sysctl.rst",
    reads: "rps_flow_cnt, rps_sock_flow_entries, xps_cpus, TCP's sysctls",
    load: Load::Apart,
    look,
}];

/// TCP's sysctls with the kernel's own values (net/ipv4/tcp_ipv4.c, tcp_sk_init; Kconfig).
const USUAL: &[(&str, &[&str])] = &[
    ("net.ipv4.tcp_congestion_control", &["cubic", "reno"]),
    ("net.ipv4.tcp_fastopen", &["0", "1"]),
    ("net.ipv4.tcp_tw_reuse", &["0", "2"]),
    // 30 is what OpenWrt sets.
    ("net.ipv4.tcp_fin_timeout", &["60", "30"]),
    ("net.ipv4.ip_local_port_range", &["32768\t60999", "32768 60999"]),
];

fn look(subject: &Subject<'_>) -> Looked {
    if subject.forwards() == Some(false) {
        return Ok(Vec::new());
    }
    let path = &subject.snapshot.path;
    let table = path.sysctls.get("net.core.rps_sock_flow_entries").copied();
    if table.is_none() && subject.condition.sockets.is_empty() {
        return Err("neither RFS nor TCP's settings can be read".into());
    }
    let mut all = Found::new(Severity::Info, "");
    let mut words = Vec::new();
    if let Some(entries) = table.filter(|n| *n > 0) {
        words.push("RFS");
        all = all.seen("/proc/sys/net/core/rps_sock_flow_entries", entries);
        let queue = subject.intake.sources.iter().find(|s| s.queue.flow_cnt.is_some_and(|n| n > 0));
        if let Some(s) = queue {
            let place = format!(
                "/sys/class/net/{}/queues/rx-{}/rps_flow_cnt",
                s.device.name, s.queue.index
            );
            all = all.seen(place, s.queue.flow_cnt.unwrap_or(0));
        }
    }
    for device in subject.intake.devices.iter().filter(|d| d.tx_queues.len() == 1) {
        let queue = device.tx_queues.first();
        if let Some(mask) = queue.and_then(|q| q.xps.as_ref()).filter(|m| !m.is_empty()) {
            words.push("XPS with one queue");
            let place = format!("/sys/class/net/{}/queues/tx-0/xps_cpus", device.name);
            all = all.seen(place, CpuSet::to_mask(mask));
        }
    }
    let sockets = &subject.condition.sockets;
    let changed = USUAL.iter().filter_map(|(name, usual)| {
        let value = sockets.get(*name)?;
        (!usual.contains(&value.as_str())).then_some((*name, value))
    });
    let mut tcp = false;
    for (name, value) in changed {
        tcp = true;
        all = all.seen(format!("/proc/sys/{}", name.replace('.', "/")), value);
    }
    if tcp {
        words.push("TCP's settings");
    }
    words.dedup();
    if words.is_empty() {
        return Ok(Vec::new());
    }
    all.title = format!("{} can't matter to forwarded packets", words.join(", "));
    Ok(vec![all.remedy(
        "leave them if traffic ends here; else they can go: linerate plan --explain rps-flow-cnt",
    )])
}
