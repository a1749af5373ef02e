//! Tracing and debugging that every packet pays for.

use crate::decide::diagnose::subject::listed;
use crate::decide::diagnose::{Found, Load, Looked, Rule, Subject};
use crate::decide::kernel::check;
use crate::decide::kernel::table::matters;
use crate::model::finding::{Confidence, Finding, Severity};

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
        source: "field report WG; data/kernel-options.txt, each option with its own",
        reads: "the kernel's configuration and command line",
        load: Load::Apart,
        look: debug,
    },
    Rule {
        id: "packet-taps",
        what: "a program that takes every packet of a device (softflowd, a forgotten tcpdump)",
        costs: "each packet is run through the program's filter, and copied where it passes, before it is \
                forwarded; how much that costs here was not measured",
        source: "net/core/dev.c (ptype_all: __netif_receive_skb_core, dev_queue_xmit_nit); \
                 net/packet/af_packet.c",
        reads: "/proc/net/packet",
        load: Load::Apart,
        look: taps,
    },
];

fn taps(subject: &Subject<'_>) -> Looked {
    let Some(taps) = &subject.condition.taps else {
        return Err("/proc/net/packet can't be read".into());
    };
    // Only what forwarded packets pass; a socket that is bound to none takes those of all.
    let passed = |index: &&u32| {
        let device = subject.snapshot.netdevs.iter().find(|d| d.ifindex == **index);
        **index == 0 || device.is_some_and(|d| d.kind.as_deref() != Some("wlan"))
    };
    let on: Vec<&u32> = taps.iter().filter(passed).collect();
    if on.is_empty() {
        return Ok(Vec::new());
    }
    let name = |index: &u32| {
        let device = subject.snapshot.netdevs.iter().find(|d| d.ifindex == *index);
        device.map_or_else(|| "all devices".to_owned(), |d| d.name.clone())
    };
    let names: Vec<String> = on.iter().map(|index| name(index)).collect();
    let names = listed(names.iter().map(String::as_str));
    let sockets = if on.len() == 1 { "a socket takes" } else { "sockets take" };
    Ok(vec![
        Found::new(Severity::Notice, format!("{sockets} every packet of {names}"))
            .seen("/proc/net/packet: sockets for all protocols (0003)", on.len())
            .sure(Confidence::Possible)
            .remedy("ss -0 -p  # whose it is; a DHCP client's filter lets next to nothing through")
            .remedy(
                "end it, or let it see a sample (softflowd -s), or only what it needs (a filter)",
            ),
    ])
}

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
                .rank(0.39)
                .remedy(format!("echo nop > {}", place("current_tracer"))),
        ]);
    }
    if tracing.events && tracing.on {
        return Ok(vec![
            Found::new(Severity::Notice, "trace events are enabled")
                .seen(place("events/enable"), "some")
                .seen(place("tracing_on"), 1)
                .rank(0.05)
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

fn debug(subject: &Subject<'_>) -> Looked {
    let kernel = &subject.snapshot.kernel;
    let (Some(config), Some(place)) = (&subject.condition.kernel, &kernel.config) else {
        return Err(
            "the kernel's configuration can't be read (/proc/config.gz, /boot/config-*)".into()
        );
    };
    let mut told = check::debugging(check::check(config, place, Some(kernel)));
    let Some(dearest) = told.first().cloned() else { return Ok(Vec::new()) };
    // One kernel is one finding: options come in packs, as they select each other.
    told.retain(|f| f.severity == dearest.severity);
    let option = |f: &Finding| f.rule.trim_start_matches("kernel-").to_owned();
    let names: Vec<String> = told.iter().map(|f| format!("CONFIG_{}", option(f))).collect();
    let mut found =
        Found::new(dearest.severity, format!("the kernel was built with {}", names.join(", ")))
            .all_seen(told.iter().flat_map(|f| f.evidence.clone()))
            .cost(dearest.cost)
            .sure(dearest.confidence)
            .consequence(format!("{}: {}", option(&dearest), dearest.consequence));
    let mut build = false;
    for finding in &told {
        let option = option(finding);
        if matters(&option).is_some_and(|rule| rule.is_boot_choice()) {
            for step in &finding.remedy {
                found = found.remedy(format!("{option}: {step}"));
            }
        } else {
            build |= !finding.remedy.is_empty();
        }
    }
    if build {
        found = found.remedy("a kernel without them; the distribution's usual one has none");
    }
    Ok(vec![
        found
            .remedy("linerate kernel check  # each of them, and where its figure is from")
            .remedy("linerate bench wireguard (or nat) before and after"),
    ])
}
