//! The subject of the rules, with the questions that several of them ask.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use super::outlook::{self, Outlook};
use crate::decide::plan::Intake;
use crate::model::condition::{Condition, DeviceCondition};
use crate::model::finding::Severity;
use crate::model::nic::Numbers;
use crate::model::snapshot::{Cpu, NetDev, Snapshot};
use crate::model::telemetry::{CpuRates, Interval};
use crate::model::units::CpuId;

/// Counters and rates of the time in which the router was watched.
#[derive(Debug, Clone)]
pub struct Window {
    /// Length in seconds.
    pub seconds: f64,
    /// Rates over it.
    pub rates: Interval,
    /// The router at its beginning.
    pub before: Snapshot,
    /// Condition of the router at that time.
    pub before_condition: Condition,
}

/// A router and all that is known of it.
pub struct Subject<'a> {
    /// The router as it is; at the end of the window where there is one.
    pub snapshot: &'a Snapshot,
    /// In which condition.
    pub condition: &'a Condition,
    /// The window that was watched, with `--load`.
    pub window: Option<&'a Window>,
    /// Where packets enter.
    pub intake: Intake<'a>,
    /// Asked for by few rules, and dear: the planner searches.
    outlook: OnceCell<Option<Outlook>>,
}

impl<'a> Subject<'a> {
    /// Looks at a router.
    #[must_use]
    pub fn new(
        snapshot: &'a Snapshot,
        condition: &'a Condition,
        window: Option<&'a Window>,
    ) -> Self {
        let intake = Intake::of(snapshot);
        Self { snapshot, condition, window, intake, outlook: OnceCell::new() }
    }

    /// Verdict of the cost model; `None` where it has none.
    #[must_use]
    pub fn outlook(&self) -> Option<&Outlook> {
        self.outlook.get_or_init(|| outlook::outlook(self.snapshot)).as_ref()
    }

    /// True if it forwards; `None` where it is not known.
    pub(super) fn forwards(&self) -> Option<bool> {
        match (self.snapshot.path.ipv4, self.snapshot.path.ipv6) {
            (None, None | Some(false)) => None,
            (v4, v6) => Some(v4 == Some(true) || v6 == Some(true)),
        }
    }

    /// A warning on a router; a notice on a machine that is known to forward nothing.
    pub(super) fn on_router(&self, severity: Severity) -> Severity {
        if self.forwards() == Some(false) { severity.min(Severity::Notice) } else { severity }
    }

    /// Further facts about a device.
    pub(super) fn device(&self, name: &str) -> Option<&'a DeviceCondition> {
        self.condition.devices.get(name)
    }

    /// Ports with hardware behind them that are in use, Wi-Fi left out.
    pub(super) fn ports(&self) -> impl Iterator<Item = &'a NetDev> + '_ {
        let wireless = |d: &&NetDev| matches!(d.kind.as_deref(), Some("wlan" | "wwan"));
        let snapshot = self.snapshot;
        let ports = snapshot.netdevs.iter().filter(|d| d.is_hardware() && d.operstate != "down");
        ports.filter(move |d| !wireless(d))
    }

    /// The rates of a CPU in the window.
    pub(super) fn rates(&self) -> impl Iterator<Item = &'a CpuRates> + '_ {
        self.window.into_iter().flat_map(|w| &w.rates.cpus)
    }

    /// Share of a CPU's time in interrupts of both kinds, in the window.
    pub(super) fn interrupted(&self, cpu: CpuId) -> Option<f64> {
        let rates = self.rates().find(|r| r.cpu == cpu)?;
        Some(rates.softirq? + rates.irq.unwrap_or(0.0))
    }

    /// Increase of a counter in the window.
    pub(super) fn rose(&self, of: impl Fn(&Snapshot, &Condition) -> u64) -> Option<u64> {
        let window = self.window?;
        let before = of(&window.before, &window.before_condition);
        Some(of(self.snapshot, self.condition).saturating_sub(before))
    }

    /// The CPU of that number.
    pub(super) fn cpu(&self, id: CpuId) -> Option<&'a Cpu> {
        self.snapshot.cpus.iter().find(|c| c.id == id)
    }

    /// True if a flowtable or an engine forwards established flows, or is asked to.
    pub(super) fn offloads(&self) -> bool {
        self.snapshot.path.offloads()
    }

    /// A PPPoE device that is there, with the device under it.
    pub(super) fn pppoe(&self) -> impl Iterator<Item = (&'a NetDev, &'a str)> + '_ {
        let snapshot = self.snapshot;
        snapshot.netdevs.iter().filter_map(|d| Some((d, d.pppoe_over.as_deref()?)))
    }
}

/// A counter of a device: its own, the driver's, 0 where it is not there (absent means zero).
pub(super) fn count(numbers: &Numbers, wanted: impl Fn(&str) -> bool) -> u64 {
    numbers.iter().filter(|(name, _)| wanted(name)).map(|(_, n)| *n).sum()
}

/// A list of names for a sentence.
pub(super) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut seen: Vec<&str> = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen.join(", ")
}

/// Packets that each CPU took in since boot, and all.
pub(super) fn softnet_shares(snapshot: &Snapshot) -> (BTreeMap<CpuId, u64>, u64) {
    let mut by_cpu = BTreeMap::new();
    let mut all = 0;
    for row in &snapshot.path.softnet {
        by_cpu.insert(row.cpu, u64::from(row.packets));
        all += u64::from(row.packets);
    }
    (by_cpu, all)
}
