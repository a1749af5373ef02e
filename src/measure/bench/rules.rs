//! Rules by which a measurement is refused, as functions of plain numbers.

use crate::measure::sample::Others;
use crate::model::cpuset::CpuSet;
use crate::model::measurement::{CpuUse, Direction, Measurement, Refusal, RefusalCode};
use crate::model::units::BitRate;

/// At least this share of an asked rate must have been sent.
const SENT_SHARE: f64 = 0.98;
/// A generator thread above this share of a CPU was the bottleneck.
const GENERATOR_SHARE: f64 = 0.90;
/// Largest relative difference between device counters and the load's own count.
const COUNTER_TOLERANCE: f64 = 0.01;
/// Bytes that may pass besides the load without being suspicious: ARP, neighbour discovery, the
/// options of a few SYN segments.
const COUNTER_SLACK: f64 = 16_384.0;

/// The CPUs that forward may be without the hypervisor's others for less than this share of the time.
const STOLEN_SHARE: f64 = 0.10;
/// A smaller share of the forwarding CPUs that others take is not worth a note.
const NOTED_SHARE: f64 = 0.05;
/// A CPU that takes a smaller share of the packets does not forward.
const FORWARDS: f64 = 0.01;
/// Largest number of acknowledgements for each packet of data that one load causes, and bytes of TCP
/// options that they may have beyond those of the data where something was sent again.
const ACKS: f64 = 1.1;
const SACK: u64 = 28;
/// Packets a second of all that is said beside a load: probes of round trips, answers, neighbours.
const TALK: f64 = 500.0;

/// Facts about one direction of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowFacts {
    /// Direction of the payload.
    pub direction: Direction,
    /// Rate that was asked for; `None` for as fast as it goes.
    pub asked: Option<BitRate>,
    /// Rate at which the senders sent within the window.
    pub sent_rate: BitRate,
    /// Payload bytes received within the window.
    pub window_bytes: u64,
    /// Payload bytes received, whole run.
    pub bytes: u64,
    /// Payload bytes that may have been sent at most, whole run: for TCP what was received and what
    /// was sent again, for UDP what was sent. `None` where the kernel does not report it.
    pub sent_at_most: Option<u64>,
    /// Streams without the receiver's acknowledgement.
    pub unacknowledged: u32,
    /// Error on a stream.
    pub error: Option<String>,
    /// Largest share of a CPU that a generator thread used.
    pub busiest_thread: f64,
    /// Header bytes per packet, link layer included.
    pub header_bytes: u64,
    /// Packets and bytes that the router's device on the sending side received, whole run.
    pub device: Option<DeviceFacts>,
    /// The same of the device on the receiving side, where nothing is sent that way.
    pub against: Option<DeviceFacts>,
    /// True if the receiver acknowledges what arrives.
    pub acknowledged: bool,
}

/// Packets and bytes that a device of the router received.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceFacts {
    /// Name of the device.
    pub name: String,
    /// Bytes of link layer and encapsulation that it counts in each packet.
    pub header: u32,
    /// Packets.
    pub packets: u64,
    /// Bytes with link-layer header.
    pub bytes: u64,
}

/// Facts about a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// Per direction.
    pub flows: Vec<FlowFacts>,
    /// True if the run was cut short.
    pub interrupted: bool,
    /// True if the generator ran on the router's CPUs.
    pub shared_cpus: bool,
    /// Largest IP packet on the path, bytes.
    pub mtu: u32,
    /// Limits that held the machine back, if any.
    pub throttled: Vec<String>,
    /// Largest share of the time of a CPU that forwards that the hypervisor gave to others.
    pub stolen: f64,
    /// Length of the whole run.
    pub seconds: f64,
    /// Bytes beside the load that may have passed the devices.
    pub beside: u64,
    /// Devices whose link changed.
    pub changed: Vec<String>,
    /// Settings that were others at the end than at the start.
    pub differing: Vec<String>,
}

/// Every reason for which the run can't be trusted.
#[must_use]
pub fn refusals(facts: &Facts) -> Vec<Refusal> {
    let mut found = Vec::new();
    let mut refuse = |code, why: String| found.push(Refusal { code, why });
    if facts.interrupted {
        refuse(RefusalCode::Interrupted, "the run was stopped before its end".into());
    }
    for flow in &facts.flows {
        let way = flow.direction;
        if flow.window_bytes == 0 {
            refuse(RefusalCode::NoTraffic, format!("{way}: nothing arrived{}", because(flow)));
        }
        if flow.unacknowledged > 0 && !facts.interrupted {
            let (count, s) = (flow.unacknowledged, if flow.unacknowledged == 1 { "" } else { "s" });
            let why = format!(
                "{way}: {count} stream{s} ended without the receiver's acknowledgement{}",
                because(flow)
            );
            refuse(RefusalCode::NoAcknowledgement, why);
        }
        if let Some(why) = under_sent(flow) {
            refuse(RefusalCode::UnderSent, why);
        }
        if !facts.shared_cpus && flow.busiest_thread > GENERATOR_SHARE {
            let why = format!(
                "{way}: a generator thread used {:.0} % of a CPU, above {:.0} %",
                flow.busiest_thread * 100.0,
                GENERATOR_SHARE * 100.0
            );
            refuse(RefusalCode::GeneratorBound, why);
        }
        if let Some(why) = not_mtu_sized(flow, facts.mtu) {
            refuse(RefusalCode::NotMtuSized, why);
        }
        // What never was acknowledged can't be compared with anything.
        if flow.unacknowledged == 0
            && !facts.interrupted
            && facts.changed.is_empty()
            && let Some(why) = counters_disagree(flow, facts.beside)
        {
            refuse(RefusalCode::CountersDisagree, why);
        }
        if !facts.interrupted
            && facts.changed.is_empty()
            && let Some(why) = other_traffic(flow, facts)
        {
            refuse(RefusalCode::OtherTraffic, why);
        }
    }
    if facts.stolen > STOLEN_SHARE {
        let why = format!(
            "the hypervisor gave a CPU that forwards to others for {:.0} % of the time, above {:.0} %",
            facts.stolen * 100.0,
            STOLEN_SHARE * 100.0
        );
        refuse(RefusalCode::Stolen, why);
    }
    if !facts.throttled.is_empty() {
        refuse(RefusalCode::Throttled, facts.throttled.join("; "));
    }
    if !facts.changed.is_empty() {
        refuse(RefusalCode::LinkChanged, facts.changed.join("; "));
    }
    if !facts.differing.is_empty() {
        refuse(RefusalCode::SettingsDiffer, facts.differing.join("; "));
    }
    found
}

fn because(flow: &FlowFacts) -> String {
    flow.error.as_ref().map(|e| format!(" ({e})")).unwrap_or_default()
}

fn under_sent(flow: &FlowFacts) -> Option<String> {
    let asked = flow.asked?;
    let share = flow.sent_rate.0 / asked.0;
    (share < SENT_SHARE).then(|| {
        format!(
            "{}: {:.1} Mbit/s sent of {:.1} asked, {:.1} % (at least {:.0} %)",
            flow.direction,
            flow.sent_rate.mbps(),
            asked.mbps(),
            share * 100.0,
            SENT_SHARE * 100.0
        )
    })
}

fn not_mtu_sized(flow: &FlowFacts, mtu: u32) -> Option<String> {
    let device = flow.device.as_ref().filter(|d| d.packets > 0)?;
    let mean = device.bytes as f64 / device.packets as f64;
    (mean > f64::from(mtu) + f64::from(device.header)).then(|| {
        format!(
            "{}: packets into {} had {mean:.0} bytes on average, more than the MTU of {mtu} and \
             {} of header: segmentation offload was at work",
            flow.direction, device.name, device.header
        )
    })
}

/// A packet dropped on the way was sent again: whether its first copy passed the device, nobody
/// knows. So what the device counted must lie between what was received and what was sent.
fn counters_disagree(flow: &FlowFacts, beside: u64) -> Option<String> {
    let device = flow.device.as_ref()?;
    let payload = device.bytes as f64 - device.packets as f64 * flow.header_bytes as f64;
    let least = flow.bytes as f64;
    let most = flow.sent_at_most.map_or(f64::INFINITY, |most| most as f64).max(least);
    let low = least * (1.0 - COUNTER_TOLERANCE) - COUNTER_SLACK;
    let high = most * (1.0 + COUNTER_TOLERANCE) + COUNTER_SLACK + beside as f64;
    (!(low..=high).contains(&payload)).then(|| {
        format!(
            "{}: {} counted {:.2} MB of payload, the load {:.2} MB received and at most {:.2} MB \
             sent",
            flow.direction,
            device.name,
            payload / 1e6,
            least / 1e6,
            most / 1e6
        )
    })
}

/// Against a single direction come acknowledgements, which are headers, and little else.
fn other_traffic(flow: &FlowFacts, facts: &Facts) -> Option<String> {
    let (device, back) = (flow.device.as_ref()?, flow.against.as_ref()?);
    let again = flow.sent_at_most.is_none_or(|most| most > flow.bytes);
    let headers = back.packets * (flow.header_bytes + if again { SACK } else { 0 });
    let payload = back.bytes.saturating_sub(headers) as f64;
    let most = flow.bytes as f64 * COUNTER_TOLERANCE + COUNTER_SLACK + facts.beside as f64;
    let own = match flow.acknowledged {
        // A device may count many segments as one packet.
        true => ACKS * (device.packets as f64).max(flow.bytes as f64 / f64::from(facts.mtu)),
        false => COUNTER_TOLERANCE * device.packets as f64,
    };
    let talk = TALK * (1.0 + facts.seconds) + facts.beside as f64 / 64.0;
    (payload > most || back.packets as f64 > own + talk).then(|| {
        format!(
            "{}: against it {} counted {} packets with {:.2} MB of payload, more than answers to {} \
             packets of the load: somebody else used the router",
            flow.direction,
            back.name,
            back.packets,
            payload / 1e6,
            device.packets
        )
    })
}

/// The CPUs that took a share of the packets.
pub(super) fn forwarding(cpus: &[CpuUse]) -> CpuSet {
    let all: u64 = cpus.iter().map(|cpu| cpu.packets).sum();
    let least = all as f64 * FORWARDS;
    cpus.iter().filter(|cpu| cpu.packets as f64 > least).map(|cpu| cpu.cpu).collect()
}

/// Largest share of a forwarding CPU's time that the hypervisor gave to others.
pub(super) fn stolen(cpus: &[CpuUse]) -> f64 {
    let forwarding = forwarding(cpus);
    let own = cpus.iter().filter(|cpu| forwarding.contains(cpu.cpu));
    own.map(|cpu| cpu.steal).fold(0.0, f64::max)
}

/// Notes on what disturbed a run without spoiling it for certain. Programs give way to forwarding:
/// packets are the work of soft interrupts.
pub(super) fn disturbances(
    run: &Measurement,
    forwarding: &CpuSet,
    others: Option<&Others>,
) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(shift) = run.shift {
        notes.push(format!(
            "{}: the rate was {:.0} Mbit/s at first and {:.0} from {:.1} s on: something changed within \
             the window",
            run.direction,
            shift.before.mbps(),
            shift.after.mbps(),
            shift.at
        ));
    }
    let stolen = stolen(&run.cpus);
    if stolen > NOTED_SHARE && stolen <= STOLEN_SHARE {
        notes.push(format!(
            "the hypervisor gave a CPU that forwards to others for {:.0} % of the time",
            stolen * 100.0
        ));
    }
    if let Some(others) = others {
        let share = others.seconds / run.seconds / forwarding.len().max(1) as f64;
        if share > NOTED_SHARE && share.is_finite() {
            let most = others.most.as_ref().map(|(name, seconds)| {
                format!(", {name} {:.0} % of a CPU", seconds / run.seconds * 100.0)
            });
            notes.push(format!(
                "other programs used the CPUs that forward for {:.0} % of the time{}",
                share.min(1.0) * 100.0,
                most.unwrap_or_default()
            ));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use RefusalCode::*;

    /// 1000 full packets of 1448 bytes payload and nothing wrong.
    fn good() -> Facts {
        let flow = FlowFacts {
            direction: Direction::Up,
            asked: None,
            sent_rate: BitRate(100e6),
            window_bytes: 144_800_000,
            bytes: 144_800_000,
            sent_at_most: Some(144_800_000),
            unacknowledged: 0,
            error: None,
            busiest_thread: 0.5,
            header_bytes: 66,
            device: Some(DeviceFacts {
                name: "wan0".into(),
                header: 14,
                packets: 100_000,
                bytes: 151_400_000,
            }),
            against: Some(DeviceFacts {
                name: "lan0".into(),
                header: 14,
                packets: 50_000,
                bytes: 50_000 * 66,
            }),
            acknowledged: true,
        };
        Facts {
            flows: vec![flow],
            interrupted: false,
            shared_cpus: false,
            mtu: 1500,
            throttled: vec![],
            stolen: 0.0,
            seconds: 2.0,
            beside: 0,
            changed: vec![],
            differing: vec![],
        }
    }

    fn codes(change: impl FnOnce(&mut Facts)) -> Vec<RefusalCode> {
        let mut facts = good();
        change(&mut facts);
        refusals(&facts).iter().map(|r| r.code).collect()
    }

    fn device(facts: &mut Facts) -> &mut DeviceFacts {
        facts.flows[0].device.as_mut().unwrap()
    }

    #[test]
    fn a_good_run_stands() {
        assert_eq!(codes(|_| {}), []);
    }

    #[test]
    fn a_missing_acknowledgement_is_refused_and_never_zero_loss() {
        assert_eq!(codes(|f| f.flows[0].unacknowledged = 1), [NoAcknowledgement]);
        // Counters of such a run may be anything: only the cause is reported.
        assert_eq!(
            codes(|f| {
                f.flows[0].unacknowledged = 1;
                device(f).bytes /= 2;
            }),
            [NoAcknowledgement]
        );
        let mut facts = good();
        facts.flows[0].unacknowledged = 2;
        facts.flows[0].error = Some("no report from the receiver".into());
        assert_eq!(
            refusals(&facts)[0].why,
            "up: 2 streams ended without the receiver's acknowledgement \
             (no report from the receiver)"
        );
    }

    /// The field report of the NanoPi R4S: 120 s of iperf2 at 1000 Mbit/s in datagrams that fill an
    /// MTU of 512, default 556, tuned 854; the client of the second said
    /// `WARNING: did not receive ack of last datagram after 10 tries.` What it prints then is its own
    /// count: nothing is known of what arrived.
    fn udp512(acknowledged: bool) -> Facts {
        let mut facts = good();
        let rate = if acknowledged { 556e6 } else { 854e6 };
        let bytes = (rate * 120.0 / 8.0) as u64;
        let flow = &mut facts.flows[0];
        flow.asked = Some(BitRate(rate));
        flow.sent_rate = BitRate(rate);
        (flow.window_bytes, flow.bytes, flow.sent_at_most) = (bytes, bytes, Some(bytes));
        (flow.header_bytes, flow.device) = (42, None);
        facts.mtu = 512;
        if !acknowledged {
            flow.unacknowledged = 1;
            flow.error = Some("did not receive ack of last datagram after 10 tries".into());
        }
        facts
    }

    #[test]
    fn the_854_of_the_field_report_is_refused_and_its_556_is_not() {
        let refused = refusals(&udp512(false));
        assert_eq!(refused.iter().map(|r| r.code).collect::<Vec<_>>(), [NoAcknowledgement]);
        assert_eq!(
            refused[0].why,
            "up: 1 stream ended without the receiver's acknowledgement \
             (did not receive ack of last datagram after 10 tries)"
        );
        assert_eq!(refusals(&udp512(true)), []);
    }

    #[test]
    fn sending_less_than_98_percent_of_what_was_asked_is_refused() {
        assert_eq!(codes(|f| f.flows[0].asked = Some(BitRate(102e6))), []);
        assert_eq!(codes(|f| f.flows[0].asked = Some(BitRate(102.1e6))), [UnderSent]);
    }

    #[test]
    fn a_busy_generator_is_refused_only_on_cpus_of_its_own() {
        assert_eq!(codes(|f| f.flows[0].busiest_thread = 0.91), [GeneratorBound]);
        assert_eq!(codes(|f| f.flows[0].busiest_thread = 0.90), []);
        assert_eq!(
            codes(|f| {
                f.flows[0].busiest_thread = 0.99;
                f.shared_cpus = true;
            }),
            []
        );
    }

    #[test]
    fn super_packets_are_refused_up_to_the_byte() {
        // 1514 bytes are exactly a full packet.
        assert_eq!(codes(|f| f.mtu = 1499), [NotMtuSized]);
        // With offload the device counts few large packets; the payload still agrees.
        let offloaded = |f: &mut Facts| {
            device(f).packets = 2_262;
            device(f).bytes = 144_800_000 + 2_262 * 66;
        };
        assert_eq!(codes(offloaded), [NotMtuSized]);
    }

    #[test]
    fn counters_may_be_one_percent_apart_and_no_more() {
        // As smaller packets, or the mean size would be refused first.
        let slightly = |f: &mut Facts| {
            device(f).bytes += 1_400_000 + 1_000 * 66;
            device(f).packets += 1_000;
        };
        assert_eq!(codes(slightly), []);
        assert_eq!(codes(|f| device(f).bytes -= 1_400_000), []);
        let more = |f: &mut Facts| {
            device(f).bytes += 20_000_000;
            device(f).packets += 100_000;
        };
        assert_eq!(codes(more), [CountersDisagree]);
        assert_eq!(codes(|f| device(f).bytes -= 2_000_000), [CountersDisagree]);
        assert_eq!(codes(|f| f.flows[0].device = None), []);
    }

    #[test]
    fn what_controllers_and_agents_say_to_each_other_may_or_may_not_pass_the_device() {
        // As full packets: 1000 of 1448 bytes of payload beside 100,000 of the load.
        let more = |said: u64, passed: u64| {
            codes(|f| {
                f.beside = said;
                device(f).bytes += passed / 1448 * 1514;
                device(f).packets += passed / 1448;
            })
        };
        assert_eq!(more(4_000_000, 0), []);
        assert_eq!(more(4_000_000, 4_000_000), []);
        assert_eq!(more(0, 4_000_000), [CountersDisagree]);
        assert_eq!(more(4_000_000, 6_000_000), [CountersDisagree]);
    }

    #[test]
    fn what_was_sent_again_may_or_may_not_have_passed_the_device() {
        let resent = 7_240_000; // 5 %
        for passed in [0, resent / 2, resent] {
            let change = |f: &mut Facts| {
                f.flows[0].sent_at_most = Some(144_800_000 + resent);
                device(f).packets += passed / 1448;
                device(f).bytes += passed / 1448 * 1514;
            };
            assert_eq!(codes(change), [], "{passed} passed");
        }
        // Pure acknowledgements of the other direction are headers and nothing else.
        let acks = |f: &mut Facts| {
            device(f).packets += 50_000;
            device(f).bytes += 50_000 * 66;
        };
        assert_eq!(codes(acks), []);
    }

    #[test]
    fn a_tiny_run_may_have_neighbour_discovery_beside_it() {
        let tiny = |f: &mut Facts| {
            f.flows[0].bytes = 14_480;
            f.flows[0].sent_at_most = Some(14_480);
            *device(f) = DeviceFacts { name: "x".into(), header: 14, packets: 30, bytes: 18_000 };
            f.flows[0].against =
                Some(DeviceFacts { name: "y".into(), header: 14, packets: 25, bytes: 2_000 });
        };
        assert_eq!(codes(tiny), []);
    }

    #[test]
    fn traffic_against_the_direction_that_is_measured_is_refused_and_acknowledgements_are_not() {
        let back = |packets: u64, bytes: u64, acknowledged: bool| {
            codes(|f| {
                f.flows[0].acknowledged = acknowledged;
                let against = f.flows[0].against.as_mut().unwrap();
                (against.packets, against.bytes) = (packets, bytes);
            })
        };
        // One for each packet.
        assert_eq!(back(100_000, 100_000 * 66, true), []);
        assert_eq!(back(100_000, 100_000 * 94, true), [OtherTraffic]);
        let selective = |f: &mut Facts| {
            f.flows[0].sent_at_most = Some(150_000_000);
            let against = f.flows[0].against.as_mut().unwrap();
            (against.packets, against.bytes) = (100_000, 100_000 * 94);
        };
        assert_eq!(codes(selective), [], "after losses they have options");
        assert_eq!(back(52_000, 50_000 * 66 + 2_000 * 1514, true), [OtherTraffic]);
        assert_eq!(back(150_000, 150_000 * 60, true), [OtherTraffic]);
        // Nobody acknowledges datagrams; a few probes of round trips go along.
        assert_eq!(back(1_500, 1_500 * 66, false), []);
        assert_eq!(back(50_000, 50_000 * 60, false), [OtherTraffic]);
        assert_eq!(codes(|f| f.flows[0].against = None), []);
    }

    #[test]
    fn time_that_the_hypervisor_took_counts_where_packets_are() {
        let cpu = |id, packets, steal| CpuUse {
            cpu: crate::model::units::CpuId(id),
            user: 0.0,
            system: 0.0,
            irq: 0.0,
            softirq: 0.5,
            idle: 0.5 - steal,
            steal,
            packets,
            dropped: 0,
            squeezed: 0,
        };
        let cpus = [cpu(0, 100_000, 0.04), cpu(1, 10, 0.4)];
        assert_eq!(stolen(&cpus), 0.04);
        assert_eq!(codes(|f| f.stolen = 0.04), []);
        assert_eq!(codes(|f| f.stolen = stolen(&[cpu(0, 1000, 0.11)])), [Stolen]);
        let mut run = Measurement { cpus: cpus.to_vec(), ..Measurement::blank(Direction::Up) };
        run.seconds = 2.0;
        let others = |seconds| Others { seconds, most: Some(("cc1".into(), seconds)) };
        let told = |run: &Measurement, seconds| {
            disturbances(run, &forwarding(&run.cpus), Some(&others(seconds)))
        };
        assert_eq!(told(&run, 0.02), Vec::<String>::new());
        assert!(told(&run, 1.0)[0].contains("for 50 % of the time, cc1 50 % of a CPU"));
        run.cpus[0].steal = 0.07;
        assert!(told(&run, 0.0)[0].contains("7 % of the time"));
    }

    #[test]
    fn nothing_interrupted_throttled_and_changed_each_have_their_name() {
        assert_eq!(codes(|f| f.interrupted = true), [Interrupted]);
        assert_eq!(codes(|f| f.throttled = vec!["cpu0".into()]), [Throttled]);
        assert_eq!(codes(|f| f.changed = vec!["wan0".into()]), [LinkChanged]);
        assert_eq!(codes(|f| f.differing = vec!["rps_cpus".into()]), [SettingsDiffer]);
        let nothing = |f: &mut Facts| {
            f.flows[0].window_bytes = 0;
            f.flows[0].bytes = 0;
            f.flows[0].sent_at_most = Some(0);
            f.flows[0].device =
                Some(DeviceFacts { name: "x".into(), header: 14, packets: 0, bytes: 0 });
            f.flows[0].against = None;
        };
        assert_eq!(codes(nothing), [NoTraffic]);
    }
}
