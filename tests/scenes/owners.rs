//! Routers that people own, and what the planner must tell their owners: what somebody who knows the
//! board would set.

use linerate::model::knob::{Knob, Value};
use linerate::model::plan::Candidate;
use linerate::model::snapshot::{IrqRole, Snapshot};
use linerate::plan::{self, Candidates, name};

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
    // A Cortex-A76 at 2.4 GHz carries a gigabit each way.
    assert_eq!(steered(&chosen), []);
}

#[test]
fn flows_in_hardware_leave_nothing_to_steer() {
    let (found, chosen) = preferred(&look("owner-mt7986-4-wed"));
    assert_eq!(steered(&chosen), []);
    let on: Vec<_> = lines(&chosen, "eth0").collect();
    assert_eq!(on.len(), 2, "both ports are on its lines: {chosen:?}");
    let planned = found.planned.unwrap();
    let said = planned.not_made.iter().find(|n| n.setting == "flow-offload").unwrap();
    assert!(said.reason.contains("hardware offload is on"), "{}", said.reason);
}

#[test]
fn one_line_of_a_switch_has_its_stack_on_the_other_core() {
    let snapshot = look("owner-erx-4-dsa");
    let (found, chosen) = preferred(&snapshot);
    let line = lines(&chosen, "dsa").next().unwrap().1;
    let masks = steered(&chosen);
    let [("dsa", mask)] = masks.as_slice() else { panic!("{masks:?}") };
    let core = set(if line < 2 { "0-1" } else { "2-3" });
    assert!(set(mask).intersection(&core).is_empty(), "{line} {mask}");
    assert!(found.get(name::FLOWTABLE).is_some(), "worth more than any placement");
}

#[test]
fn ports_that_share_a_line_have_their_stacks_apart() {
    let (_, chosen) = preferred(&look("ipq8074-4-nss-dp"));
    let mut masks: Vec<String> = steered(&chosen).into_iter().map(|m| m.1).collect();
    assert_eq!(masks.len(), 3, "{chosen:?}");
    let receive = chosen.settings.iter().find_map(|c| match (&c.knob, &c.after) {
        (Knob::IrqAffinity { irq }, Value::Cpus(cpus)) if irq.role == IrqRole::Rx => Some(cpus),
        _ => None,
    });
    assert!(masks.iter().all(|m| set(m).intersection(receive.unwrap()).is_empty()), "{chosen:?}");
    masks.dedup();
    assert_eq!(masks.len(), 3, "each its own");
}
