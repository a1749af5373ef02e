//! Metrics of a router that is watched, in Prometheus' text format 0.0.4, which node_exporter's textfile
//! collector reads as well (docs/watch.md names them).
//!
//! The sampler gives rates; here they become counters since the watch began, so that any scrape interval
//! is right, and a missed one loses nothing. Names from outside are bounded in number.

use std::collections::BTreeMap;

use crate::model::telemetry::{Interval, Standing};
use crate::model::watch::Running;

/// Most devices, zones, troubles and queues that have metrics of their own.
const MOST_DEVICES: usize = 64;
const MOST_ZONES: usize = 16;
const MOST_TROUBLES: usize = 50;
const MOST_QUEUES: usize = 256;
const MOST_CPUS: usize = 1024;

/// A family of counters: name and help.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Family(&'static str, &'static str);

const CPU_SECONDS: Family =
    Family("linerate_cpu_seconds_total", "Seconds that each CPU spent in each mode.");
const CPU_PACKETS: Family = Family(
    "linerate_cpu_packets_total",
    "Packets through the receive path of each CPU (softnet_stat).",
);
const CPU_HANDED: Family =
    Family("linerate_cpu_steered_packets_total", "Packets that each CPU got from others by RPS.");
const CPU_DROPPED: Family = Family(
    "linerate_cpu_backlog_dropped_packets_total",
    "Packets dropped from the full backlog of each CPU.",
);
const CPU_SQUEEZED: Family =
    Family("linerate_cpu_squeezed_polls_total", "Polls of each CPU that ended with work left.");
const BYTES_IN: Family =
    Family("linerate_device_receive_bytes_total", "Bytes received by each device.");
const BYTES_OUT: Family =
    Family("linerate_device_transmit_bytes_total", "Bytes sent by each device.");
const PACKETS_IN: Family =
    Family("linerate_device_receive_packets_total", "Packets received by each device.");
const PACKETS_OUT: Family =
    Family("linerate_device_transmit_packets_total", "Packets sent by each device.");
const DROPPED: Family =
    Family("linerate_device_dropped_packets_total", "Packets each device dropped, both ways.");
const QUEUE_IN: Family =
    Family("linerate_queue_receive_packets_total", "Packets received by each queue.");
const QUEUE_OUT: Family =
    Family("linerate_queue_transmit_packets_total", "Packets sent by each queue.");
const LOST: Family = Family(
    "linerate_lost_packets_total",
    "Packets lost by stage of their way, those that rules drop on purpose left out.",
);

/// Labels of one series, as they are printed.
type Labels = String;

/// Counters since the watch began, and the state of the last look.
#[derive(Default)]
pub struct Metrics {
    counters: BTreeMap<(Family, Labels), f64>,
    gauges: String,
}

impl Metrics {
    /// Takes one interval of rates, what stands beside it, and the state of the watch.
    pub fn take(&mut self, interval: &Interval, standing: &Standing, running: &Running) {
        self.count(interval);
        for loss in &standing.losses {
            let labels = label("stage", &loss.stage);
            self.add(&LOST, labels, Some(loss.per_second), interval.seconds);
        }
        self.gauges.clear();
        self.gauges(interval, standing, running);
    }

    fn count(&mut self, interval: &Interval) {
        let seconds = interval.seconds;
        for cpu in interval.cpus.iter().take(MOST_CPUS) {
            let labels = label("cpu", &cpu.cpu.0.to_string());
            let modes = [
                ("user", cpu.user),
                ("system", cpu.system),
                ("irq", cpu.irq),
                ("softirq", cpu.softirq),
                ("idle", cpu.idle),
            ];
            for (mode, share) in modes {
                self.add(&CPU_SECONDS, format!("{labels},{}", label("mode", mode)), share, seconds);
            }
            self.add(&CPU_PACKETS, labels.clone(), cpu.packets, seconds);
            self.add(&CPU_HANDED, labels.clone(), cpu.received_rps, seconds);
            self.add(&CPU_DROPPED, labels.clone(), cpu.dropped, seconds);
            self.add(&CPU_SQUEEZED, labels, cpu.squeezed, seconds);
        }
        for device in interval.devices.iter().take(MOST_DEVICES) {
            let labels = label("device", &device.device);
            let bytes = |bits: Option<f64>| bits.map(|bits| bits / 8.0);
            self.add(&BYTES_IN, labels.clone(), bytes(device.rx_bits), seconds);
            self.add(&BYTES_OUT, labels.clone(), bytes(device.tx_bits), seconds);
            self.add(&PACKETS_IN, labels.clone(), device.rx_packets, seconds);
            self.add(&PACKETS_OUT, labels.clone(), device.tx_packets, seconds);
            self.add(&DROPPED, labels, device.dropped, seconds);
        }
        for queue in interval.queues.iter().take(MOST_QUEUES) {
            let device = label("device", &queue.device);
            let labels = format!("{device},{}", label("queue", &queue.queue.to_string()));
            self.add(&QUEUE_IN, labels.clone(), queue.rx_packets, seconds);
            self.add(&QUEUE_OUT, labels, queue.tx_packets, seconds);
        }
    }

    /// A rate over some seconds; one that is not known leaves its series as it was, or not there.
    fn add(&mut self, family: &Family, labels: Labels, rate: Option<f64>, seconds: f64) {
        let key = (*family, labels);
        // A device that is renamed all the time makes no end of series.
        let has_room = self.counters.len() < MOST_CPUS * 8 || self.counters.contains_key(&key);
        if let Some(rate) = rate.filter(|rate| rate.is_finite())
            && has_room
        {
            *self.counters.entry(key).or_default() += rate.max(0.0) * seconds;
        }
    }

    fn gauges(&mut self, interval: &Interval, standing: &Standing, running: &Running) {
        self.gauge(
            "linerate_build_info",
            "Version of linerate.",
            [(label("version", env!("CARGO_PKG_VERSION")), 1.0)],
        );
        self.gauge(
            "linerate_watch_events",
            "Events since the watch began.",
            [(String::new(), running.events as f64)],
        );
        let troubles = running.troubles.iter().take(MOST_TROUBLES).map(|one| {
            (format!("{},{}", label("event", &one.event), label("place", &one.place)), 1.0)
        });
        self.gauge("linerate_trouble", "Troubles that last.", troubles);
        self.gauge(
            "linerate_drifted_settings",
            "Settings that are not as linerate left them.",
            [(String::new(), standing.drift.len() as f64)],
        );
        let plan = standing.persisted.iter().map(|plan| (label("plan", plan), 1.0));
        self.gauge("linerate_plan_info", "Name of the plan that is persisted.", plan);
        self.gauge(
            "linerate_changes_in_force",
            "Changes that linerate has in force.",
            [(String::new(), standing.applied.len() as f64)],
        );
        let links = || standing.links.iter().take(MOST_DEVICES);
        let up = links().map(|one| (label("device", &one.device), f64::from(one.state == "up")));
        self.gauge("linerate_link_up", "Links that are up.", up);
        let speeds =
            links().filter_map(|one| Some((label("device", &one.device), one.speed? / 8.0)));
        self.gauge("linerate_link_speed_bytes_per_second", "Speed of each link.", speeds);
        let zones = interval.sensors.iter().filter(|s| s.name.starts_with("thermal_zone"));
        let zones = zones.take(MOST_ZONES).filter_map(|s| Some((label("zone", &s.name), s.value?)));
        self.gauge("linerate_temperature_celsius", "Temperature of each zone.", zones);
        let held = f64::from(!interval.throttled.is_empty());
        self.gauge(
            "linerate_throttled",
            "1 while heat holds the CPUs back.",
            [(String::new(), held)],
        );
    }

    fn gauge(&mut self, name: &str, help: &str, series: impl IntoIterator<Item = (Labels, f64)>) {
        let series: Vec<(Labels, f64)> = series.into_iter().collect();
        if !series.is_empty() {
            head(&mut self.gauges, name, "gauge", help);
            series
                .iter()
                .for_each(|(labels, value)| sample(&mut self.gauges, name, labels, *value));
        }
    }

    /// All of it as text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = self.gauges.clone();
        let mut last = "";
        for ((Family(name, help), labels), value) in &self.counters {
            if *name != last {
                head(&mut text, name, "counter", help);
                last = name;
            }
            // Parts of a packet or a byte are the rounding of rates.
            let whole = !name.ends_with("_seconds_total");
            sample(&mut text, name, labels, if whole { value.round() } else { *value });
        }
        text
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
}

fn sample(text: &mut String, name: &str, labels: &str, value: f64) {
    let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
    text.push_str(&format!("{name}{labels} {value}\n"));
}

/// A label with its value escaped, of at most 100 characters.
fn label(name: &str, value: &str) -> Labels {
    let mut text = format!("{name}=\"");
    for c in value.chars().take(100) {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c if c.is_control() => text.push('?'),
            c => text.push(c),
        }
    }
    text.push('"');
    text
}
