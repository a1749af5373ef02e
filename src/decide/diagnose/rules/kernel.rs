//! How the kernel was built and started.

use crate::decide::diagnose::{Found, Load, Looked, Rule, Subject};
use crate::decide::kernel::check::{of_machine, on_machine};
use crate::decide::kernel::preemption::PreemptionChoices;
use crate::model::finding::{Confidence, Severity};
use crate::model::kconfig::release;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "preemption",
        what: "a kernel that is preempted everywhere",
        costs: "on a Raspberry Pi 4 CONFIG_PREEMPT instead of CONFIG_PREEMPT_NONE made WireGuard 394 \
                instead of 669 Mbit/s; plain forwarding in softirq feels less of it",
        source: "field report WG; data/kernel-options.txt (PREEMPT, PREEMPT_RT)",
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
    let option = if model == "rt" { "PREEMPT_RT" } else { "PREEMPT" };
    // Without a tunnel the kernel works in softirq, which is not preempted as much.
    let line = on_machine(option, &subject.snapshot.machine.arch, &kernel.costly);
    let (severity, cost) = line
        .as_ref()
        .filter(|_| tunnel)
        .map_or((Severity::Info, 0.0), |l| (l.severity, l.cost.share()));
    let by = kernel.preemption_source.as_deref().unwrap_or("the kernel");
    let machine = &subject.snapshot.machine;
    let choices = PreemptionChoices::of(release(&machine.kernel), Some(of_machine(&machine.arch)));
    let (by, value) = match (&kernel.config, by) {
        (Some(file), "kernel configuration") => (file.as_str(), format!("CONFIG_{option}=y")),
        _ => (by, model.to_owned()),
    };
    let mut found = Found::new(severity, format!("the kernel's preemption is `{model}`"))
        .seen(by, value)
        .cost(cost)
        .sure(if cost > 0.0 { Confidence::Likely } else { Confidence::Possible });
    if let Some(line) = line.as_ref().filter(|_| model == "rt") {
        found = found.consequence(line.consequence());
    }
    found = match kernel.preempt_dynamic {
        Some(true) if model == "full" => found.remedy(choices.boot()),
        _ if model == "full" => found.remedy(choices.build()),
        _ => found.remedy(line.as_ref().map_or("a kernel without it", |line| &line.remedy)),
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
