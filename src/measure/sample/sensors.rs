//! Frequencies, temperatures and power, as far as the platform reports them.

use std::path::{Path, PathBuf};

use crate::machine::host::HostRead;
use crate::model::telemetry::Sensor;

/// The sensors of a machine: found once, read often.
#[derive(Debug, Clone, Default)]
pub(super) struct Sensors {
    all: Vec<SensorFile>,
}

#[derive(Debug, Clone)]
struct SensorFile {
    name: String,
    path: PathBuf,
    /// Value of one unit of the file in the unit of the name.
    unit: f64,
}

impl Sensors {
    /// Looks for cpufreq policies, thermal zones, and the power inputs of hwmon and power_supply
    /// (Documentation/ABI: sysfs-devices-system-cpu, sysfs-class-thermal, sysfs-class-hwmon,
    /// sysfs-class-power).
    pub(super) fn find(host: &dyn HostRead) -> Self {
        let mut all = Vec::new();
        let mut take = |name: String, path: PathBuf, unit: f64| {
            if number(host, &path).is_some() {
                all.push(SensorFile { name, path, unit });
            }
        };
        let below = |dir: &str, prefix: &str| -> Vec<(String, PathBuf)> {
            let mut names = host.list(Path::new(dir)).unwrap_or_default();
            names.retain(|name| name.starts_with(prefix));
            names.into_iter().map(|name| (name.clone(), Path::new(dir).join(name))).collect()
        };
        for (name, dir) in below("/sys/devices/system/cpu/cpufreq", "policy") {
            take(format!("{name} MHz"), dir.join("scaling_cur_freq"), 1e-3);
        }
        for (name, dir) in below("/sys/class/thermal", "thermal_zone") {
            let kind = host.text(&dir.join("type")).unwrap_or_default();
            take(format!("{name} {kind} C"), dir.join("temp"), 1e-3);
        }
        for (name, dir) in below("/sys/class/hwmon", "hwmon") {
            let chip = host.text(&dir.join("name")).unwrap_or_default();
            for file in host.list(&dir).unwrap_or_default() {
                if let Some(input) = file.strip_suffix("_input")
                    && input.starts_with("power")
                {
                    take(format!("{name} {chip} {input} W"), dir.join(&file), 1e-6);
                }
            }
        }
        for (name, dir) in below("/sys/class/power_supply", "") {
            take(format!("{name} W"), dir.join("power_now"), 1e-6);
        }
        Self { all }
    }

    /// All of them now, in the order they were found.
    pub(super) fn read(&self, host: &dyn HostRead) -> Vec<Sensor> {
        let one = |file: &SensorFile| Sensor {
            name: file.name.clone(),
            value: number(host, &file.path).map(|value| value * file.unit),
        };
        self.all.iter().map(one).collect()
    }
}

/// A file's number, which may be negative (a cold router).
fn number(host: &dyn HostRead, path: &Path) -> Option<f64> {
    let value: i64 = host.text(path).ok()?.parse().ok()?;
    Some(value as f64)
}
