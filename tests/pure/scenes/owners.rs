//! Routers that people own, and what the planner must tell their owners: what somebody who knows the
//! board would set.

use linerate::decide::plan::{self, Candidates, name};
use linerate::model::knob::{Knob, Value};
use linerate::model::plan::Candidate;
use linerate::model::snapshot::{IrqRole, Snapshot};
use linerate::model::stack::Layer;

use super::{look, set};

fn lines<'a>(candidate: &'a Candidate, device: &'a str) -> impl Iterator<Item = (IrqRole, u32)> {
    candidate.settings.iter().filter_map(move |c| match (&c.knob, &c.after) {
        (Knob::IrqAffinity { irq }, Value::Cpus(cpus)) if irq.device == device => {
            assert_eq!(cpus.len(), 1, "{irq} on {cpus}");
            Some((irq.role, cpus.first().unwrap().0))
        }
        _ => None,
    })
}

fn steered(candidate: &Candidate) -> Vec<(&str, String)> {
    let masks = candidate.settings.iter().filter_map(|c| match (&c.knob, &c.after) {
        (Knob::RpsCpus { device, .. }, Value::Cpus(cpus)) if !cpus.is_empty() => {
            Some((device.as_str(), cpus.to_string()))
        }
        _ => None,
    });
    masks.collect()
}

fn preferred(snapshot: &Snapshot) -> (Candidates, Candidate) {
    let found = plan::candidates(snapshot);
    let chosen = found.get(&found.preferred).unwrap().clone();
    (found, chosen)
}

#[test]
fn a_server_of_two_nodes_has_each_cards_queues_on_its_own_node() {
    let (_, chosen) = preferred(&look("owner-server-16-ixgbe"));
    for (card, node) in [("enp1s0", 0..8), ("enp129s0", 8..16)] {
        let mut on: Vec<u32> = lines(&chosen, card).map(|l| l.1).collect();
        on.sort_unstable();
        assert_eq!(on, node.collect::<Vec<_>>(), "{card}");
    }
    assert_eq!(steered(&chosen), []);
}

/// The same with half of a card's queues, as somebody once told it (`ethtool -L enp1s0 combined 4`).
#[test]
fn a_card_with_fewer_queues_than_cpus_could_have_more_and_a_line_for_each() {
    let mut snapshot = look("owner-server-16-ixgbe");
    assert!(plan::candidates(&snapshot).get(name::CHANNELS).is_none(), "eight for eight CPUs");
    let card = snapshot.netdevs.iter_mut().find(|d| d.name == "enp1s0").unwrap();
    card.rx_queues.truncate(4);
    card.tx_queues.truncate(4);
    card.settings.channels.as_mut().unwrap().insert("combined".into(), 4);
    card.settings.rss.as_mut().unwrap().table = vec![0, 1, 2, 3];
    snapshot.irqs.retain(|i| i.id.device != "enp1s0" || i.id.queue < 4);
    let found = plan::candidates(&snapshot);
    let more = found.get(name::CHANNELS).unwrap();
    let channels: Vec<_> = more
        .changes()
        .filter(|c| matches!(c.knob, Knob::Channels { .. }))
        .map(|c| (c.knob.to_string(), c.after.clone()))
        .collect();
    assert_eq!(channels, [("combined channels of enp1s0".to_owned(), Value::Count(8))]);
    let mut on: Vec<u32> = lines(more, "enp1s0").map(|l| l.1).collect();
    on.sort_unstable();
    assert_eq!(on, [0, 1, 2, 3, 4, 5, 6, 7], "also the four that are not there yet");
    // It is by name only, with its reason, and the model has it better than what there is.
    assert_ne!(found.preferred, name::CHANNELS);
    let said = &found.planned.as_ref().unwrap().not_made;
    let said = said.iter().find(|n| n.setting == "channels").unwrap();
    assert!(said.reason.contains("enp1s0 has 4 of at most 63 for 8 CPUs"), "{}", said.reason);
    let load = |c: &Candidate| plan::cost::predict(&snapshot, c).unwrap().unwrap().largest;
    let planned = found.get(name::PLANNED).unwrap();
    assert!(load(more) < 0.9 * load(planned), "{} {}", load(more), load(planned));
    // Where the card's hash fails, more queues bring nothing.
    let layer = |device: &str, kind: &str, below| Layer {
        device: device.into(),
        kind: kind.into(),
        role: None,
        by: String::new(),
        below,
    };
    let port = layer("enp1s0", "nic ixgbe", vec![]);
    snapshot.stack.push(layer("ppp0", "pppoe", vec![port]));
    let found = plan::candidates(&snapshot);
    let why = found.left_out.iter().find(|(what, _)| *what == name::CHANNELS).unwrap();
    assert!(why.1.contains("ppp0 is PPPoE"), "{}", why.1);
}

#[test]
fn four_ports_whose_queues_lie_well_are_left_alone() {
    let (found, _) = preferred(&look("owner-n100-4-igc"));
    assert_eq!(found.preferred, name::AS_FOUND, "{:?}", found.planned);
}

/// With its line unknown, nothing was planned for the adapter, nor for the port beside it.
#[test]
fn an_adapter_on_a_controllers_second_bus_has_a_cpu_of_its_own() {
    let snapshot = look("owner-rpi5-4-usb");
    let (_, chosen) = preferred(&snapshot);
    let of = |device| lines(&chosen, device).collect::<Vec<_>>();
    let (port, adapter) = (of("eth0"), of("eth1"));
    assert_eq!((port.len(), adapter.len()), (1, 1), "{chosen:?}");
    assert_eq!(adapter[0].0, IrqRole::Controller);
    assert!(port[0].1 != adapter[0].1 && port[0].1 != 0 && adapter[0].1 != 0, "{chosen:?}");
}

#[test]
fn flows_in_hardware_leave_nothing_to_steer() {
    let (found, chosen) = preferred(&look("owner-mt7986-4-wed"));
    assert_eq!(steered(&chosen), []);
    let planned = found.planned.unwrap();
    let said = planned.not_made.iter().find(|n| n.setting == "flow-offload").unwrap();
    assert!(said.reason.contains("hardware offload is on"), "{}", said.reason);
}

/// Hand-offs were counted for packets that no CPU sees: taking the masks away was to give 7.7 times.
#[test]
fn masks_hand_over_nothing_that_hardware_forwards() {
    let mut snapshot = look("owner-mt7986-4-wed");
    for queue in snapshot.netdevs.iter_mut().flat_map(|d| &mut d.rx_queues) {
        queue.rps = Some(set("1-3"));
    }
    let (gain, _) = super::agreement::gain(&snapshot);
    assert!(!gain.as_ref().is_some_and(|gain| gain.is_any()), "{gain:?}");
}

#[test]
fn one_line_of_a_switch_has_its_stack_on_all_other_cpus() {
    let snapshot = look("owner-erx-4-dsa");
    let (found, chosen) = preferred(&snapshot);
    let line = lines(&chosen, "dsa").next().unwrap().1;
    let masks = steered(&chosen);
    let [("dsa", mask)] = masks.as_slice() else { panic!("{masks:?}") };
    assert!(!set(mask).contains(linerate::model::units::CpuId(line)), "{line} {mask}");
    assert_eq!(set(mask).len(), 3, "{mask}");
    assert!(found.get(name::FLOWTABLE).is_some(), "worth more than any placement");
}

#[test]
fn ports_that_share_a_line_have_their_stacks_apart() {
    let (_, chosen) = preferred(&look("ipq8074-4-nss-dp"));
    let masks: Vec<String> = steered(&chosen).into_iter().map(|m| m.1).collect();
    assert!(!masks.is_empty(), "{chosen:?}");
    let receive = chosen.settings.iter().find_map(|c| match (&c.knob, &c.after) {
        (Knob::IrqAffinity { irq }, Value::Cpus(cpus)) if irq.role == IrqRole::Rx => Some(cpus),
        _ => None,
    });
    assert!(masks.iter().all(|m| set(m).intersection(receive.unwrap()).is_empty()), "{chosen:?}");
}
