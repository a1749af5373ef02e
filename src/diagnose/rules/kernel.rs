//! How the kernel was built and started.

use crate::diagnose::{Found, Load, Looked, Rule, Subject};
use crate::model::finding::{Confidence, Severity};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "preemption",
        what: "a kernel that is preempted everywhere",
        costs: "on a Raspberry Pi 4 CONFIG_PREEMPT instead of CONFIG_PREEMPT_NONE made WireGuard 394 \
                instead of 669 Mbit/s; plain forwarding in softirq feels less of it",
        source: "field report WG",
        reads: "the preemption model in force",
        load: Load::Apart,
        look: preemption,
    },
    Rule {
        id: "blind-softirq-time",
        what: "softirq time is not accounted exactly",
        costs: "CPU figures only sample what runs when the tick comes: a CPU full of packets can look \
                idle. The rate does not suffer",
        source: "kernel/sched/cputime.c; CONFIG_IRQ_TIME_ACCOUNTING",
        reads: "the kernel's configuration",
        load: Load::Apart,
        look: accounting,
    },
];

fn preemption(subject: &Subject<'_>) -> Looked {
    let kernel = &subject.snapshot.kernel;
    let Some(model) = kernel.preemption.as_deref() else {
        return Err("the preemption model is not known".into());
    };
    if !matches!(model, "full" | "rt") {
        return Ok(Vec::new());
    }
    let tunnel = subject.snapshot.netdevs.iter().any(|d| d.kind.as_deref() == Some("wireguard"));
    // x86 with its larger caches was not measured.
    let measured = subject.snapshot.machine.arch != "x86_64";
    let severity = if tunnel && measured { Severity::Warning } else { Severity::Info };
    let by = kernel.preemption_source.as_deref().unwrap_or("the kernel");
    let option = if model == "rt" { "CONFIG_PREEMPT_RT=y" } else { "CONFIG_PREEMPT=y" };
    let (by, value) = match (&kernel.config, by) {
        (Some(file), "kernel configuration") => (file.as_str(), option),
        _ => (by, model),
    };
    let mut found = Found::new(severity, format!("the kernel's preemption is `{model}`"))
        .seen(by, value)
        .cost(if tunnel { 0.41 } else { 0.0 })
        .sure(if tunnel { Confidence::Likely } else { Confidence::Possible });
    found = match kernel.preempt_dynamic {
        Some(true) if model == "full" => {
            found.remedy("boot with preempt=none; nothing has to be built")
        }
        _ => found.remedy("a kernel with CONFIG_PREEMPT_NONE"),
    };
    Ok(vec![found.remedy("linerate bench wireguard (or nat) before and after")])
}

fn accounting(subject: &Subject<'_>) -> Looked {
    match subject.snapshot.machine.irq_time_accounting {
        None => Err("the kernel's configuration can't be read".into()),
        Some(true) => Ok(Vec::new()),
        Some(false) => {
            let config = subject.snapshot.kernel.config.as_deref().unwrap_or("the configuration");
            Ok(vec![
                Found::new(Severity::Info, "softirq time is sampled by the tick only")
                    .seen(config, "CONFIG_IRQ_TIME_ACCOUNTING is not set")
                    .remedy(
                        "judge by packets and rates, or a kernel with CONFIG_IRQ_TIME_ACCOUNTING=y",
                    ),
            ])
        }
    }
}
