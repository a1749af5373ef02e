//! Tracing and debugging that every packet pays for.

use crate::diagnose::{Found, Load, Looked, Rule, Subject};
use crate::model::finding::{Confidence, Severity};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "tracer-on",
        what: "a tracer runs, or events are enabled",
        costs: "a function tracer makes every call dearer, a latency tracer every time interrupts are \
                switched off and on, which is several times for each packet",
        source: "Documentation/trace/ftrace.rst; field report WG (669 -> 1100 Mbit/s without IRQSOFF_TRACER)",
        reads: "current_tracer, tracing_on, events/enable of tracefs",
        load: Load::Apart,
        look: tracer,
    },
    Rule {
        id: "debug-kernel",
        what: "a kernel built with debugging or tracing that costs every packet",
        costs: "on a Raspberry Pi 4 CONFIG_IRQSOFF_TRACER alone took WireGuard from 1100 down to 669 Mbit/s; \
                lock debugging and sanitizers cost more",
        source: "field report WG",
        reads: "the kernel's configuration",
        load: Load::Apart,
        look: debug,
    },
];

fn tracer(subject: &Subject<'_>) -> Looked {
    let Some(tracing) = &subject.condition.tracing else {
        return Err("tracefs can't be read (/sys/kernel/tracing)".into());
    };
    let place = |name: &str| format!("{}/{name}", tracing.place);
    if tracing.tracer != "nop" {
        let title = format!("the tracer {} is set", tracing.tracer);
        // Function hooks stay in place while the ring buffer is off.
        return Ok(vec![
            Found::new(Severity::Warning, title)
                .seen(place("current_tracer"), &tracing.tracer)
                .seen(place("tracing_on"), u8::from(tracing.on))
                .cost(0.39)
                .remedy(format!("echo nop > {}", place("current_tracer"))),
        ]);
    }
    if tracing.events && tracing.on {
        return Ok(vec![
            Found::new(Severity::Notice, "trace events are enabled")
                .seen(place("events/enable"), "some")
                .seen(place("tracing_on"), 1)
                .cost(0.05)
                .sure(Confidence::Possible)
                .consequence(
                    "events in the network's path (irq, napi, skb, sched) cost each packet; \
                              others cost nothing here",
                )
                .remedy(format!("cat {}  # which; then echo > the same file", place("set_event"))),
        ]);
    }
    Ok(Vec::new())
}

/// Those that cost while nobody uses them. The others of the list want a parameter or a debugger to
/// do anything (DEBUG_PAGEALLOC, DEBUG_OBJECTS), or are in distributions' kernels for good (UBSAN).
const ALWAYS: &[&str] = &[
    "IRQSOFF_TRACER",
    "PREEMPT_TRACER",
    "PROVE_LOCKING",
    "DEBUG_LOCK_ALLOC",
    "LOCK_STAT",
    "DEBUG_SPINLOCK",
    "DEBUG_PREEMPT",
    "DEBUG_ATOMIC_SLEEP",
    "SLUB_DEBUG_ON",
    "KASAN",
    "KCSAN",
    "KMSAN",
];

fn debug(subject: &Subject<'_>) -> Looked {
    let kernel = &subject.snapshot.kernel;
    let Some(config) = &kernel.config else {
        return Err(
            "the kernel's configuration can't be read (/proc/config.gz, /boot/config-*)".into()
        );
    };
    let grave: Vec<&str> =
        kernel.costly.iter().map(String::as_str).filter(|option| ALWAYS.contains(option)).collect();
    if grave.is_empty() {
        return Ok(Vec::new());
    }
    let list: Vec<String> = grave.iter().map(|option| format!("CONFIG_{option}")).collect();
    let severity = match grave.as_slice() {
        // Arm64 kernels of distributions have it for single events; it costs little.
        ["DEBUG_PREEMPT" | "DEBUG_ATOMIC_SLEEP"] => Severity::Notice,
        _ => Severity::Warning,
    };
    Ok(vec![
        Found::new(severity, format!("the kernel was built with {}", list.join(", ")))
            .seen(config, format!("{}=y", list.join("=y, ")))
            .cost(0.39)
            .remedy("a kernel without them; the distribution's usual one has none")
            .remedy("linerate bench wireguard (or nat) before and after"),
    ])
}
