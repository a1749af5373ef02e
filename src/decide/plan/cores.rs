//! Facts of a machine's CPUs beyond their capacity: the time that the unit of work takes, and the
//! worth of SMT siblings.

use super::intake::Intake;
use super::problem::Smt;
use super::traffic::above;
use crate::model::snapshot::{Bus, NetDev, Snapshot};

/// Cycles of a NATed stack stage on a CPU of one kind, at most.
///
/// From published figures with one CPU full. The same core takes very different times: where GRO
/// merges segments a tenth of what PPPoE, USB or a kernel full of checks takes. Cortex-A72 at 1.5
/// GHz routed 33,000 packets a second from a USB adapter (forum.openwrt.org 53996) and forwarded
/// 85,000 through NAT, PPPoE and VLAN (field report CM4); Cortex-A53 at 1.4 GHz 280,000 (field report
/// R4S); Cortex-A7 at 1.3 GHz 52,000 (forum.banana-pi.org 10883).
const CYCLES: &[(&[&str], f64)] = &[
    (
        &[
            "Cortex-A72",
            "Cortex-A73",
            "Cortex-A75",
            "Cortex-A76",
            "Cortex-A77",
            "Cortex-A78",
            "Cortex-A710",
            "Cortex-A715",
            "Cortex-A720",
            "Neoverse-N1",
        ],
        33_000.0,
    ),
    (&["Cortex-A53", "Cortex-A55", "Cortex-A35"], 45_000.0),
    (&["Cortex-A7", "Cortex-A9", "Cortex-A15", "Cortex-A17"], 60_000.0),
    (&["P-core", "E-core"], 12_000.0),
];

/// Cycles of an x86 CPU whose type is not known.
const X86_CYCLES: f64 = 12_000.0;

/// A usual router takes this part of what is taken at most.
pub(super) const USUAL: f64 = 0.25;

/// Nanoseconds that 1.0 takes on a CPU of capacity 1024.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Unit {
    /// Nanoseconds at most.
    pub(crate) most: f64,
    /// Nanoseconds as a rule.
    pub(crate) usual: f64,
}

/// Time that the unit of work takes; `None` where nobody knows.
pub(super) fn unit(snapshot: &Snapshot, intake: &Intake<'_>) -> Option<Unit> {
    let measured = snapshot.machine.board_facts.as_ref().and_then(|board| board.unit_ns);
    // CAKE splits what GRO merged (sch_cake.c, CAKE_FLAG_SPLIT_GSO): figures of a board without it
    // say nothing then.
    let splits = snapshot.netdevs.iter().any(|d| d.qdiscs.iter().any(|q| q.kind == "cake"));
    if let Some(unit) = measured.filter(|_| !splits) {
        return Some(Unit { most: unit, usual: unit });
    }
    let usable = snapshot.usable_cpus();
    let cpu = snapshot.cpus.iter().find(|c| usable.contains(c.id) && c.capacity.value >= 1024)?;
    let by_type = cpu.core_type.as_deref().and_then(|own| {
        CYCLES.iter().find(|(types, _)| types.contains(&own)).map(|(_, cycles)| *cycles)
    });
    let x86 = snapshot.machine.arch == "x86_64";
    let cycles = by_type.or(x86.then_some(X86_CYCLES))?;
    let most = 1e6 * cycles / cpu.max_khz? as f64;
    // GRO merges neither PPPoE's segments nor, mostly, those of USB adapters.
    let alone =
        |d: &&NetDev| matches!(d.bus, Bus::Usb(_)) || above(snapshot, &d.name).pppoe.is_some();
    let merges = !intake.devices.iter().any(alone);
    Some(Unit { most, usual: if merges { USUAL * most } else { most } })
}

/// Worth of SMT siblings. Two threads of an x86 core do 1.24 times what one does (1.0 to 1.6 in
/// published figures); of a MIPS 1004Kc, whose one pipeline waits for memory most of the time, all
/// four of an MT7621 did 1.6 to 2.4 times what one steering target did (openwrt#19369).
pub(super) fn smt(snapshot: &Snapshot) -> Smt {
    if snapshot.machine.arch.starts_with("mips") {
        Smt { low: 0.65, mid: 0.85, high: 1.0 }
    } else {
        Smt { low: 0.5, mid: 0.62, high: 0.8 }
    }
}
