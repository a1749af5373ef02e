//! What must hold of the default plan of every machine that is here: captured ones, made ones, and
//! those of published outcomes.

use std::path::Path;
use std::sync::OnceLock;

use linerate::decide::plan::{self, Candidates, Request, cost};
use linerate::machine::discover;
use linerate::machine::host::{Archive, Tree};
use linerate::model::knob::{Knob, Value};
use linerate::model::measurement::Direction;
use linerate::model::plan::Candidate;
use linerate::model::snapshot::Snapshot;

use crate::outcomes::{self, Planned};
use crate::scene;

/// Every machine, planned for once.
fn planned() -> Vec<&'static Planned> {
    static ALL: OnceLock<Vec<Planned>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let plan = |(name, snapshot)| Planned::of(name, snapshot, Request::default());
        machines().into_iter().map(plan).collect()
    });
    all.iter().chain(outcomes::planned()).collect()
}

/// Captured machines and made ones, by name.
fn machines() -> Vec<(String, Snapshot)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let sorted = |folder: &str| {
        let mut all: Vec<_> =
            root.join(folder).read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        all.sort();
        all
    };
    let mut all = Vec::new();
    for dir in sorted("hosts") {
        let archive = dir.join("capture.tar.gz");
        let snapshot = if archive.exists() {
            discover::snapshot(&Archive::open(&archive).unwrap())
        } else {
            discover::snapshot(&Tree::open(&dir).unwrap())
        };
        all.push((named(&dir), snapshot));
    }
    let into = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plans");
    let _gone = std::fs::remove_dir_all(&into);
    for file in sorted("scenes") {
        let nodes = scene::read(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let dir = into.join(file.file_stem().unwrap());
        scene::unpack(&nodes, &dir).unwrap();
        all.push((named(&dir), discover::snapshot(&Tree::open(&dir).unwrap())));
    }
    all
}

fn named(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// The machine as it is with a candidate in force.
pub(crate) fn in_force(snapshot: &Snapshot, candidate: &Candidate) -> Snapshot {
    let mut other = snapshot.clone();
    for change in &candidate.settings {
        set(&mut other, &change.knob, &change.after);
    }
    other
}

fn set(machine: &mut Snapshot, knob: &Knob, value: &Value) {
    match (knob, value) {
        (Knob::IrqAffinity { irq }, Value::Cpus(cpus)) => {
            for line in machine.irqs.iter_mut().filter(|i| i.id == *irq) {
                line.affinity = Some(cpus.clone());
                if line.effective.as_ref().is_none_or(|at| at.intersection(cpus).is_empty()) {
                    line.effective = cpus.first().map(|cpu| [cpu].into_iter().collect());
                }
            }
        }
        (Knob::RpsCpus { device, queue }, Value::Cpus(cpus)) => {
            let device = machine.netdevs.iter_mut().filter(|d| d.name == *device);
            for rx in device.flat_map(|d| &mut d.rx_queues).filter(|q| q.index == *queue) {
                rx.rps = Some(cpus.clone());
            }
        }
        (Knob::XpsCpus { device, queue }, Value::Cpus(cpus)) => {
            let device = machine.netdevs.iter_mut().filter(|d| d.name == *device);
            for tx in device.flat_map(|d| &mut d.tx_queues).filter(|q| q.index == *queue) {
                tx.xps = Some(cpus.clone());
            }
        }
        (Knob::RpsFlowCnt { device, queue }, Value::Count(count)) => {
            let device = machine.netdevs.iter_mut().filter(|d| d.name == *device);
            for rx in device.flat_map(|d| &mut d.rx_queues).filter(|q| q.index == *queue) {
                rx.flow_cnt = Some(*count);
            }
        }
        (Knob::NapiThread { device, thread }, Value::Cpus(cpus)) => {
            let device = machine.netdevs.iter_mut().find(|d| d.name == *device).unwrap();
            let mut told: Vec<_> =
                device.napis.iter().filter_map(|n| Some((n.id, n.pid?))).collect();
            told.sort_unstable();
            let pids: Vec<u32> = match told.is_empty() {
                true => device.napi_threads.clone(),
                false => told.into_iter().map(|(_, pid)| pid).collect(),
            };
            device.napi_thread_cpus.insert(pids[*thread as usize], cpus.clone());
        }
        (Knob::PollerCpus { .. }, Value::Cpus(cpus)) => {
            let pollers = &mut machine.evidence.as_mut().unwrap().pollers;
            for poller in pollers.iter_mut().filter(|p| p.knob().as_ref() == Some(knob)) {
                poller.cpus = Some(cpus.clone());
            }
        }
        (Knob::Sysctl { name }, Value::Count(count)) => {
            machine.path.sysctls.insert(name.clone(), *count);
        }
        (Knob::Service { name }, Value::Switch(false)) => {
            machine.services.retain(|s| s.name != *name);
        }
        (Knob::PacketSteering, Value::Word(word)) => {
            machine.path.openwrt.insert("packet_steering".into(), word.clone());
            machine.services.retain(|s| word != "0" || s.name != knob.to_string());
        }
        (Knob::FlowOffload, Value::Word(words)) => {
            let hardware = words.starts_with("hardware");
            let on = |on: bool| if on { "1" } else { "0" }.to_owned();
            machine.path.openwrt.insert("flow_offloading".into(), on(words != "off"));
            machine.path.openwrt.insert("flow_offloading_hw".into(), on(hardware));
            let tables = machine.path.nftables.iter_mut().flat_map(|n| &mut n.flowtables);
            tables.for_each(|table| table.hardware = hardware);
        }
        other => panic!("a plan sets {other:?}"),
    }
}

fn chosen(found: &Candidates) -> &Candidate {
    found.get(&found.preferred).unwrap()
}

fn proposals(candidate: &Candidate) -> Vec<String> {
    candidate.changes().map(|c| format!("{} {} -> {}", c.knob, c.before, c.after)).collect()
}

#[test]
#[ignore = "slow: make test runs it"]
fn planning_on_the_planned_machine_proposes_nothing() {
    let mut wrong = Vec::new();
    for Planned { name, snapshot, request, found, .. } in planned() {
        let then = in_force(snapshot, chosen(found));
        let again = plan::candidates_for(&then, request);
        let more = proposals(chosen(&again));
        if !more.is_empty() {
            wrong.push(format!("{name}: {more:#?} after {:#?}", proposals(chosen(found))));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
#[ignore = "slow: make test runs it"]
fn the_order_in_which_devices_and_lines_are_found_changes_no_plan() {
    let mut wrong = Vec::new();
    for Planned { name, snapshot, request, found: first } in planned() {
        let mut other = snapshot.clone();
        other.netdevs.reverse();
        other.irqs.reverse();
        other.radios.reverse();
        let again = plan::candidates_for(&other, request);
        let sorted = |found: &Candidates| {
            let mut all = proposals(chosen(found));
            all.sort();
            all
        };
        if sorted(first) != sorted(&again) {
            wrong.push(format!("{name}: {:#?}\n{:#?}", sorted(first), sorted(&again)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
#[ignore = "slow: make test runs it"]
fn no_peer_is_much_better_on_any_machine_without_being_named() {
    let mut wrong = Vec::new();
    for Planned { name, snapshot, request, found, .. } in planned() {
        let model = cost::Model::new(snapshot, &request.traffic, request.profile);
        let Some(own) = model.predict(chosen(found)).unwrap() else { continue };
        if own.carried || model.predict(&found.list[0]).unwrap().is_some_and(|p| p.carried) {
            continue;
        }
        for peer in plan::peers(snapshot) {
            let Some(theirs) = model.predict(&peer).unwrap() else { continue };
            let named = chosen(found).reason.contains(&peer.name);
            for direction in [Direction::Down, Direction::Up, Direction::Both] {
                let within = own.capped.get(&direction).zip(theirs.capped.get(&direction));
                let (middle, any) = match (within, own.ratio(&theirs, direction)) {
                    (Some((own, theirs)), _) => (own.mid / theirs.mid, 1.0),
                    (None, Some(ratio)) => (ratio.mid, ratio.low),
                    (None, None) => continue,
                };
                if (middle < 0.979 || any < 0.899) && !named {
                    wrong.push(format!("{name}: {} {direction:?} {middle:.3} {any:.3}", peer.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
