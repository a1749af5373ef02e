//! Limits of frequency or heat that held the machine back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::machine::host::HostRead;
use crate::machine::parse::net_counters::number;

const CPUS: &str = "/sys/devices/system/cpu";
const THERMAL: &str = "/sys/class/thermal";

/// Frequency limits and throttle counters, at one moment. Values that the machine does not have
/// are left out: a lab machine often reports none of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Health {
    /// Times that a CPU was throttled for heat (x86: `thermal_throttle/`).
    throttled: BTreeMap<String, u64>,
    /// Highest frequency allowed at the moment, kHz; thermal drivers lower it.
    limits: BTreeMap<String, u64>,
    /// Steps that a cooling device of a CPU holds it back by; 0 is not at all.
    cooling: BTreeMap<String, u64>,
    /// Temperatures, thousandths of a degree Celsius.
    zones: BTreeMap<String, i64>,
}

impl Health {
    /// Reads what there is. Absent and unreadable files are left out.
    #[must_use]
    pub fn read(host: &dyn HostRead) -> Self {
        let mut health = Self::default();
        let value = |path: PathBuf| host.read(&path).ok().and_then(|bytes| number(&bytes));
        for cpu in host.list(Path::new(CPUS)).unwrap_or_default() {
            if cpu.strip_prefix("cpu").is_none_or(|n| n.parse::<u32>().is_err()) {
                continue;
            }
            let dir = Path::new(CPUS).join(&cpu);
            for what in ["core", "package"] {
                let file = format!("thermal_throttle/{what}_throttle_count");
                if let Some(count) = value(dir.join(file)) {
                    health.throttled.insert(format!("{cpu} {what}"), count);
                }
            }
            if let Some(limit) = value(dir.join("cpufreq/scaling_max_freq")) {
                health.limits.insert(cpu, limit);
            }
        }
        for name in host.list(Path::new(THERMAL)).unwrap_or_default() {
            let dir = Path::new(THERMAL).join(&name);
            let kind = host.text(&dir.join("type")).unwrap_or_default();
            if name.starts_with("thermal_zone") {
                if let Ok(Ok(temperature)) = host.text(&dir.join("temp")).map(|t| t.parse()) {
                    health.zones.insert(format!("{name} {kind}"), temperature);
                }
            } else if is_cpu_cooler(&kind)
                && let Some(state) = value(dir.join("cur_state"))
            {
                health.cooling.insert(format!("{name} {kind}"), state);
            }
        }
        health
    }

    /// Limits that held the machine back between `before` and this; empty if none is known.
    #[must_use]
    pub fn throttled_since(&self, before: &Self) -> Vec<String> {
        let mut found = Vec::new();
        for (cpu, &count) in &self.throttled {
            let then = before.throttled.get(cpu).copied().unwrap_or(count);
            if count > then {
                found.push(format!("{cpu}: throttled for heat {} times", count - then));
            }
        }
        for (cpu, &limit) in &self.limits {
            let then = before.limits.get(cpu).copied().unwrap_or(limit);
            if limit < then {
                found.push(format!("{cpu}: frequency limit fell from {then} to {limit} kHz"));
            }
        }
        for (cooler, &state) in &self.cooling {
            if state > 0 {
                let heat = self.hottest().map(|t| format!(" at {t}")).unwrap_or_default();
                found.push(format!("{cooler}: holds the CPU back by {state} steps{heat}"));
            }
        }
        found
    }

    /// Temperature of the hottest zone, degrees Celsius.
    #[must_use]
    pub fn celsius(&self) -> Option<f64> {
        self.zones.values().max().map(|t| *t as f64 / 1000.0)
    }

    /// The hottest zone, in words.
    #[must_use]
    pub fn hottest(&self) -> Option<String> {
        let (zone, temperature) = self.zones.iter().max_by_key(|(_, t)| **t)?;
        Some(format!("{:.1} C ({zone})", *temperature as f64 / 1000.0))
    }
}

/// `Processor` (ACPI), `thermal-cpufreq-0`, `cpufreq-cpu0`, `cpu-...` (device tree). Fans and
/// displays hold nobody back; `intel_powerclamp` idles CPUs by force.
fn is_cpu_cooler(kind: &str) -> bool {
    kind == "Processor" || kind == "intel_powerclamp" || kind.contains("cpu")
}
