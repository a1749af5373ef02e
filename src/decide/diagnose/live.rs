//! The live view's own questions: which CPU serves which queue, and what is full at the moment.
//!
//! In come a snapshot, or the rates of one interval with what stands beside them; out go the queues that
//! each CPU serves, and the bottleneck in one sentence.

use serde::Serialize;

use crate::decide::plan::Intake;
use crate::model::order::InOrder;
use crate::model::snapshot::Snapshot;
use crate::model::telemetry::{CpuRates, DeviceRates, Interval, Link, Serves, Standing, Way};
use crate::model::units::CpuId;

/// Share of a CPU's time from which on it is full: with less than that left, its queues grow.
const FULL_CPU: f64 = 0.95;
/// Share of a link's rate, headers and gaps of the wire included, from which on it is full.
const FULL_LINK: f64 = 0.95;
/// Bits of each frame that devices do not count: check sequence, preamble and gap (IEEE 802.3).
const UNCOUNTED_BITS: f64 = 24.0 * 8.0;
/// Share of a CPU's busy time from which on packets, and not programs, are what fills it.
const MOSTLY: f64 = 0.5;

/// The queues that each CPU serves, by interrupt, thread and RPS.
#[must_use]
pub fn serves(snapshot: &Snapshot) -> Vec<Serves> {
    let mut all = Vec::new();
    for source in Intake::of(snapshot).sources {
        let mut add = |cpu: CpuId, by: Way, irq: Option<String>| {
            let (device, queue) = (source.device.name.clone(), source.queue.index);
            all.push(Serves { cpu, device, queue, by, irq });
        };
        if let Some(cpu) = source.arrives_on() {
            add(cpu, Way::Irq, source.irq.map(|irq| irq.action.clone()));
        }
        let polls = |pid: &u32| {
            let known = source.device.napis.iter().find(|napi| napi.pid == Some(*pid));
            known.is_none_or(|napi| napi.rx.contains(&source.queue.index))
        };
        if source.device.threaded == Some(true) {
            let threads = source.device.napi_thread_cpus.iter().filter(|(pid, _)| polls(pid));
            threads.flat_map(|(_, cpus)| cpus.iter()).for_each(|cpu| add(cpu, Way::Thread, None));
        }
        for cpu in source.queue.rps.iter().flat_map(|set| set.iter()) {
            add(cpu, Way::Rps, None);
        }
    }
    all.order_by(Ord::cmp);
    all.dedup();
    all
}

/// The links of the devices.
#[must_use]
pub fn links(snapshot: &Snapshot) -> Vec<Link> {
    let link = |device: &crate::model::snapshot::NetDev| Link {
        device: device.name.clone(),
        speed: device.speed.filter(|mbps| *mbps > 0).map(|mbps| f64::from(mbps) * 1e6),
        state: device.operstate.clone(),
    };
    snapshot.netdevs.iter().map(link).collect()
}

/// Kind of what holds the router back at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Full {
    /// A CPU, with packets.
    Cpu,
    /// A CPU, with programs.
    Programs,
    /// A link.
    Link,
    /// Nothing is full, and packets are lost.
    Loss,
    /// Nothing is full, and the CPUs are held back.
    Throttled,
    /// Nothing.
    Nothing,
}

/// The present bottleneck.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bottleneck {
    /// Kind.
    pub kind: Full,
    /// CPU, device or stage; the one that is nearest to full where nothing is.
    pub place: String,
    /// Share that is used, 0 to 1; absent where that has no share.
    pub share: Option<f64>,
    /// One sentence for people.
    pub words: String,
}

/// Time that a CPU was not idle, 0 to 1.
#[must_use]
pub fn busy(cpu: &CpuRates) -> Option<f64> {
    Some((cpu.user? + cpu.system? + cpu.irq? + cpu.softirq?).clamp(0.0, 1.0))
}

/// Share of the link's rate that a device uses in the busier direction, and the words of that direction.
#[must_use]
pub fn link_share(device: &DeviceRates, link: Option<&Link>) -> Option<(f64, &'static str)> {
    let speed = link?.speed?;
    let share = |bits: Option<f64>, packets: Option<f64>| {
        Some((bits? + packets.unwrap_or(0.0) * UNCOUNTED_BITS) / speed)
    };
    let receives = share(device.rx_bits, device.rx_packets).map(|s| (s, "receives"));
    let sends = share(device.tx_bits, device.tx_packets).map(|s| (s, "sends"));
    [receives, sends].into_iter().flatten().max_by(|a, b| a.0.total_cmp(&b.0))
}

/// Names of what a CPU serves, the first few.
#[must_use]
pub fn served_by(standing: &Standing, cpu: CpuId, most: usize) -> String {
    let mut names: Vec<String> = Vec::new();
    for one in standing.serves.iter().filter(|one| one.cpu == cpu) {
        let by = if one.by == Way::Rps { " (RPS)" } else { "" };
        names.push(format!("{} rx-{}{by}", one.device, one.queue));
    }
    let more = names.len().saturating_sub(most);
    names.truncate(most);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    names.join(", ")
}

/// Finds what is full at the moment, or what is nearest to it.
#[must_use]
pub fn bottleneck(interval: &Interval, standing: &Standing) -> Bottleneck {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let busiest = interval.cpus.iter().filter_map(|cpu| Some((cpu, busy(cpu)?)));
    let busiest = busiest.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cpu.cmp(&a.0.cpu)));
    let link_of = |device: &DeviceRates| standing.links.iter().find(|l| l.device == device.device);
    let links = interval.devices.iter();
    let links = links.filter_map(|d| Some((d, link_share(d, link_of(d))?)));
    let fullest = links.max_by(|a, b| a.1.0.total_cmp(&b.1.0));
    let worst = standing.losses.first();
    let lost = worst.map(|loss| {
        let place = if loss.place.is_empty() { "" } else { " of " };
        format!(
            "{:.0} packets a second are lost: {}{place}{} ({})",
            loss.per_second.max(1.0),
            loss.stage,
            loss.place,
            loss.counter
        )
    });
    let told = |kind, place: &str, share, words: String| Bottleneck {
        kind,
        place: place.to_owned(),
        share,
        words,
    };
    if let Some((device, (share, does))) = fullest.filter(|(_, (share, _))| *share >= FULL_LINK) {
        let words = format!("{}: the link is full, it {does} all that it can carry", device.device);
        return told(Full::Link, &device.device, Some(share.min(1.0)), words);
    }
    if let Some((cpu, share)) = busiest.filter(|(_, share)| *share >= FULL_CPU) {
        let name = cpu.cpu.to_string();
        let packets = cpu.softirq.unwrap_or(0.0) + cpu.irq.unwrap_or(0.0);
        if packets < MOSTLY * share {
            let words = format!(
                "{name} is full with programs: {} of its time, {} for interrupts",
                percent(share),
                percent(packets)
            );
            return told(Full::Programs, &name, Some(share), words);
        }
        let serves = match served_by(standing, cpu.cpu, 3) {
            names if names.is_empty() => String::new(),
            names => format!("; it serves {names}"),
        };
        let words = format!(
            "{name} is full: {} busy, {} in softirq{serves}",
            percent(share),
            percent(cpu.softirq.unwrap_or(0.0))
        );
        return told(Full::Cpu, &name, Some(share), words);
    }
    if let (Some(words), Some(loss)) = (lost, worst) {
        return told(Full::Loss, &loss.place, None, format!("nothing is full, but {words}"));
    }
    if let Some(words) = interval.throttled.first() {
        let place = words.split(':').next().unwrap_or_default();
        return told(Full::Throttled, place, None, format!("no CPU is full; {words}"));
    }
    let mut near = Vec::new();
    if let Some((cpu, share)) = busiest {
        near.push(format!("the busiest CPU is {} at {}", cpu.cpu, percent(share)));
    }
    if let Some((device, (share, _))) = fullest {
        near.push(format!("the fullest link {} at {}", device.device, percent(share)));
    }
    let words = match near.is_empty() {
        true => "nothing is known to be full".to_owned(),
        false => format!("nothing is full: {}", near.join(", ")),
    };
    let place = busiest.map(|(cpu, _)| cpu.cpu.to_string()).unwrap_or_default();
    told(Full::Nothing, &place, busiest.map(|(_, share)| share), words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::telemetry::Loss;

    fn cpu(n: u32, softirq: f64, user: f64) -> CpuRates {
        CpuRates {
            cpu: CpuId(n),
            user: Some(user),
            system: Some(0.0),
            irq: Some(0.0),
            softirq: Some(softirq),
            idle: Some(1.0 - softirq - user),
            net_rx: None,
            net_tx: None,
            packets: None,
            dropped: None,
            squeezed: None,
            received_rps: None,
        }
    }

    fn device(rx_bits: f64, rx_packets: f64) -> DeviceRates {
        DeviceRates {
            device: "eth0".into(),
            rx_bits: Some(rx_bits),
            rx_packets: Some(rx_packets),
            tx_bits: Some(0.0),
            tx_packets: Some(0.0),
            dropped: None,
        }
    }

    fn standing() -> Standing {
        let serve =
            |cpu, by| Serves { cpu: CpuId(cpu), device: "eth0".into(), queue: 0, by, irq: None };
        Standing {
            links: vec![Link { device: "eth0".into(), speed: Some(1e9), state: "up".into() }],
            serves: vec![serve(0, Way::Irq), serve(1, Way::Rps)],
            ..Standing::default()
        }
    }

    #[test]
    fn what_is_full_is_named_with_what_it_serves() {
        let of = |cpus: Vec<CpuRates>, devices: Vec<DeviceRates>| {
            bottleneck(&Interval { cpus, devices, ..Interval::default() }, &standing())
        };
        let told = of(vec![cpu(0, 0.97, 0.01), cpu(1, 0.2, 0.0)], vec![device(5e8, 4e4)]);
        assert_eq!((told.kind, told.place.as_str()), (Full::Cpu, "CPU0"));
        assert_eq!(told.words, "CPU0 is full: 98 % busy, 97 % in softirq; it serves eth0 rx-0");
        let told = of(vec![cpu(0, 0.01, 0.99)], vec![]);
        assert_eq!(told.kind, Full::Programs, "{}", told.words);
        // 64-byte frames: 60 of 84 bytes of the wire are counted.
        let told = of(vec![cpu(0, 0.5, 0.0)], vec![device(60.0 * 8.0 * 1.488e6, 1.488e6)]);
        assert_eq!((told.kind, told.place.as_str()), (Full::Link, "eth0"), "{}", told.words);
        let told = of(vec![cpu(0, 0.5, 0.0)], vec![device(4e8, 4e4)]);
        assert_eq!(told.kind, Full::Nothing);
        assert!(told.words.contains("CPU0 at 50 %") && told.words.contains("eth0 at 41 %"));
        let told = of(vec![], vec![]);
        assert_eq!(told.words, "nothing is known to be full");
    }

    #[test]
    fn losses_and_heat_are_told_where_nothing_is_full() {
        let mut standing = standing();
        let mut interval = Interval { cpus: vec![cpu(0, 0.5, 0.0)], ..Interval::default() };
        interval.throttled = vec!["cpu0: throttled for heat 3 times".into()];
        assert_eq!(bottleneck(&interval, &standing).kind, Full::Throttled);
        let stage = "receive ring".into();
        let counter = "rx_missed_errors".into();
        standing.losses = vec![Loss { stage, place: "eth0".into(), counter, per_second: 512.4 }];
        let told = bottleneck(&interval, &standing);
        assert_eq!(told.kind, Full::Loss);
        let words = "512 packets a second are lost: receive ring of eth0 (rx_missed_errors)";
        assert!(told.words.ends_with(words), "{}", told.words);
    }
}
