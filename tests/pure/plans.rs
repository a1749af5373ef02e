//! What must hold of the default plan of every machine that is here: captured ones, made ones, and
//! those of published outcomes.

use std::path::Path;
use std::sync::{LazyLock, OnceLock};

use linerate::decide::plan::{self, Candidates, Request, cost, in_force};
use linerate::machine::discover;
use linerate::machine::host::{Archive, Tree};
use linerate::model::cpuset::CpuSet;
use linerate::model::evidence::{Evidence, Moved, Window};
use linerate::model::feature::FeatureState;
use linerate::model::knob::{Knob, Value};
use linerate::model::measurement::Direction;
use linerate::model::path::Flowtable;
use linerate::model::plan::{Candidate, Change};
use linerate::model::snapshot::{IrqId, IrqRole, Movable, Snapshot, moves_next};
use linerate::model::units::CpuId;
use linerate::report;

use crate::outcomes::{self, Lazy, Planned};
use crate::{program, scene};

/// Every machine.
fn planned() -> impl Iterator<Item = &'static Planned> {
    machines().iter().chain(outcomes::planned()).map(|(_, machine)| &**machine)
}

/// Captured machines and made ones, by name.
fn machines() -> &'static [(String, Lazy)] {
    static ALL: OnceLock<Vec<(String, Lazy)>> = OnceLock::new();
    ALL.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
        let sorted = |folder: &str| {
            let mut all: Vec<_> =
                root.join(folder).read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
            all.sort();
            all
        };
        let lazy = |name: String, look: Box<dyn FnOnce() -> Snapshot + Send>| {
            let own = name.clone();
            let plan = move || Planned::of(own, look(), Request::default());
            let plan: Box<dyn FnOnce() -> Planned + Send> = Box::new(plan);
            (name, LazyLock::new(plan))
        };
        let captured = sorted("hosts").into_iter().map(|dir| {
            let archive = dir.join("capture.tar.gz");
            let look = move || match archive.exists() {
                true => discover::snapshot(&Archive::open(&archive).unwrap()),
                false => discover::snapshot(&Tree::open(archive.parent().unwrap()).unwrap()),
            };
            lazy(named(&dir), Box::new(look))
        });
        let into = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plans");
        let _gone = std::fs::remove_dir_all(&into);
        let made = sorted("scenes").into_iter().map(|file| {
            let dir = into.join(file.file_stem().unwrap());
            let name = named(&dir);
            let look = move || {
                let nodes = scene::read(&std::fs::read_to_string(&file).unwrap()).unwrap();
                scene::unpack(&nodes, &dir).unwrap();
                discover::snapshot(&Tree::open(&dir).unwrap())
            };
            lazy(name, Box::new(look))
        });
        captured.chain(made).collect()
    })
}

fn named(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
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
    let (mut wrong, mut stale) = (Vec::new(), 0);
    for Planned { name, snapshot, request, found, .. } in planned() {
        let then = in_force(snapshot, chosen(found));
        // Idle lines go where they went until their next interrupt.
        let mut idle = then.clone();
        for line in &mut idle.irqs {
            let before = snapshot.irqs.iter().find(|i| i.id == line.id);
            if let Some(effective) = before.and_then(|i| i.effective.as_ref())
                && line.affinity.as_ref().is_some_and(|mask| moves_next(mask, effective))
            {
                line.effective = Some(effective.clone());
            }
        }
        stale += usize::from(idle.irqs != then.irqs);
        let machines = if idle.irqs == then.irqs { vec![then] } else { vec![then, idle] };
        for machine in machines {
            let again = plan::candidates_for(&machine, request);
            let more = proposals(chosen(&again));
            if !more.is_empty() {
                wrong.push(format!("{name}: {more:#?} after {:#?}", proposals(chosen(found))));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(stale > 10, "lines that have not moved yet on {stale} machines");
}

/// Counted, not timed: one search for the router, one for it as planned, and hardly ever more.
#[test]
#[ignore = "slow: make test runs it"]
fn a_plan_settles_within_few_searches() {
    let (mut all, mut many) = (Vec::new(), Vec::new());
    for Planned { name, found, .. } in planned() {
        let Some(made) = &found.planned else { continue };
        all.push(made.searches);
        if made.searches > 2 {
            many.push(format!("{name}: {}", made.searches));
        }
    }
    assert!(all.len() > 80 && many.len() * 20 <= all.len(), "{many:#?}");
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

/// A machine by the name of its fixture.
fn one(name: &str) -> &'static Planned {
    let found = machines().iter().chain(outcomes::planned()).find(|(own, _)| own == name);
    &found.unwrap_or_else(|| panic!("no {name}")).1
}

/// A machine planned for anew.
fn again(name: &str, snapshot: Snapshot) -> Planned {
    Planned::of(name.into(), snapshot, Request::default())
}

/// CPUs of a setting of a plan.
fn cpus(planned: &Planned, knob: &Knob) -> CpuSet {
    let found = planned.chosen().settings.iter().find(|c| c.knob == *knob);
    match found.map(|c| &c.after) {
        Some(Value::Cpus(set)) => set.clone(),
        other => panic!("{knob}: {other:?}"),
    }
}

fn rps(device: &str) -> Knob {
    Knob::RpsCpus { device: device.into(), queue: 0 }
}

fn line(device: &str, queue: u32, role: IrqRole) -> Knob {
    Knob::IrqAffinity { irq: IrqId { device: device.into(), queue, role } }
}

const CM4: &str = "bcm2711-4-bcmgenet+r8169-5.10";
const R76S: &str = "rk3576-8-r8169x2-6.1";
const R4S: &str = "rk3399-6-dwmac+r8169-5.4";
const R2S: &str = "rk3328-4-dwmac+r8152-6.6";

#[test]
fn what_an_expert_expects_of_the_machines_of_the_field_reports() {
    // R4S: line rate was reached as found.
    assert!(one(R4S).headline().starts_with("expected gain: none: the links are full"));
    // CM4: the stack stage of the line that can't leave CPU0 goes elsewhere, and the port's receive
    // and transmit lines to two others, or to one with a reason.
    let cm4 = one(CM4);
    let stack = cpus(cm4, &rps("eth1"));
    assert!(!stack.is_empty() && !stack.contains(CpuId(0)), "{stack}");
    let (rx, tx) =
        (cpus(cm4, &line("eth0", 0, IrqRole::Rx)), cpus(cm4, &line("eth0", 0, IrqRole::Tx)));
    assert!(!rx.contains(CpuId(0)) && rx.len() == 1, "{rx}");
    let why = cm4.chosen().settings.iter().find(|c| c.knob == line("eth0", 0, IrqRole::Tx));
    assert!(rx != tx || why.unwrap().reason.contains("has room beside"), "{why:?}");
    // R76S: no little CPU while big ones have room, steered once, and nothing better is possible.
    let r76s = one(R76S);
    let big: CpuSet = "4-7".parse().unwrap();
    for device in ["eth0", "eth1"] {
        let mask = cpus(r76s, &rps(device));
        assert!(!mask.is_empty() && mask.is_subset(&big), "{device} {mask}");
    }
    let gap = r76s.found.planned.as_ref().map(|p| p.model.largest / p.model.bound - 1.0).unwrap();
    assert!(gap < 0.1, "{gap}");
    // R2S: the port's line and the USB controller's on different CPUs, neither CPU0; they are so.
    let r2s = one(R2S);
    let moved = |c: &&Change| matches!(c.knob, Knob::IrqAffinity { .. });
    assert_eq!(r2s.chosen().changes().find(moved), None);
    // Raspberry Pi 5: each port's line on a CPU of its own.
    let rpi5 = one("owner-rpi5-4-usb");
    let (a, b) = (
        cpus(rpi5, &line("eth0", 0, IrqRole::Combined)),
        cpus(rpi5, &line("eth1", 0, IrqRole::Controller)),
    );
    assert!(a != b && !a.contains(CpuId(0)) && !b.contains(CpuId(0)), "{a} {b}");
    // A server: a CPU of the card's memory node for each queue, and no RPS.
    let server = one("owner-server-16-ixgbe");
    for queue in 0..8 {
        let near = cpus(server, &line("enp129s0", queue, IrqRole::Combined));
        assert!(near.is_subset(&"8-15".parse().unwrap()), "{queue} {near}");
    }
    assert!(server.chosen().changes().all(|c| matches!(c.knob, Knob::IrqAffinity { .. })));
    // Flows in hardware: nothing to steer.
    assert_eq!(proposals(one("owner-mt7986-4-wed").chosen()), Vec::<String>::new());
}

#[test]
fn what_an_expert_expects_of_routers_whose_tuning_was_published() {
    // FG50E: flow offload first, and no steering.
    let fg50e = one("seed-fg50e-up/default");
    assert_eq!(proposals(fg50e.chosen()), Vec::<String>::new());
    assert!(fg50e.headline().contains("flow offload is the larger step"), "{}", fg50e.headline());
    // ipq40xx: a ring on each CPU, its transmit line beside it, no RPS.
    let r619ac = one("r619ac-script/all-on-one-cpu");
    let mut taken = CpuSet::empty();
    for queue in 0..4 {
        let (rx, tx) = (line("eth0", queue, IrqRole::Rx), line("eth0", queue, IrqRole::Tx));
        assert_eq!(cpus(r619ac, &rx), cpus(r619ac, &tx));
        cpus(r619ac, &rx).iter().for_each(|cpu| taken.insert(cpu));
    }
    assert_eq!(taken.len(), 4);
    let steers = |c: &Change| matches!(c.knob, Knob::RpsCpus { .. });
    assert!(!r619ac.chosen().changes().any(steers));
    // FRITZ!Box 7530: the modem's packets away from CPU0, where its line is; the switch's four
    // queues stay with their threads.
    let fritz = one("fb7530-dsl-f/rps-1");
    assert_eq!(cpus(fritz, &rps("dsl0")), "1-3".parse().unwrap());
    assert_eq!(cpus(fritz, &rps("eth0")), CpuSet::empty());
    // PPPoE on a card of twelve queues: RPS on the one that it uses.
    let pppoe = one("accel-pppoe/pppoe");
    let steered: Vec<_> = pppoe.chosen().changes().filter(|c| steers(c)).collect();
    assert_eq!(steered.len(), 1, "{steered:?}");
    assert_eq!(steered[0].knob, rps("eth1"));
}

/// Machines that people posted (`fixtures/scenes`), and what must not come back.
#[test]
fn what_an_expert_expects_of_routers_that_people_posted() {
    let places = |of: &str, lines: &[Knob]| -> Vec<CpuSet> {
        lines.iter().map(|line| cpus(one(of), line)).collect()
    };
    let apart = |sets: &[CpuSet]| {
        let all: CpuSet = sets.iter().flat_map(CpuSet::iter).collect();
        sets.iter().all(|set| set.len() == 1) && all.len() == sets.len()
    };
    // MT7621: no mask around a thread that roams; the threads are placed, and the stack elsewhere.
    let name = "mt7621-4-pppoe";
    let thread = |index| Knob::PollerCpus { name: format!("dummy:mtk_eth/napi/{index}") };
    let poll = places(name, &[thread(0), thread(1)]);
    assert!(poll.iter().all(|set| set.len() == 1), "{poll:?}");
    let mask = cpus(one(name), &rps("dsa"));
    assert!(!mask.is_empty() && mask.intersection(&poll[1]).is_empty(), "{mask} {poll:?}");
    let all = &one(name).chosen().settings;
    assert!(!all.iter().any(|c| c.reason.contains("no interrupt here")), "{all:?}");
    let left = format!("{:?}", one(name).found.planned.as_ref().unwrap().not_made);
    assert!(!left.contains("is not known here"), "{left}");
    // Four queues and four CPUs: a line on each, also where links of 1 Gbit/s hide the difference.
    let of = |card: &str, queue| line(card, queue, IrqRole::Combined);
    let lines = [of("eth0", 0), of("eth0", 1), of("eth1", 0), of("eth1", 1)];
    let lines = places("j4125-4-igb", &lines);
    assert!(apart(&lines), "{lines:?}");
    // And `show` says of both what the plan says.
    for (name, begins) in [
        ("mt7621-4-pppoe", "packets are handled on CPUs 0-3; `linerate plan` should give about "),
        ("j4125-4-igb", "all packets are handled on CPU0; expected gain of `linerate plan`: none"),
    ] {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plans").join(name);
        let mut show = std::process::Command::new(program::path());
        let output = show.args(["show", "--host"]).arg(dir).env("COLUMNS", "200").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.starts_with(begins), "{name}: {text}");
    }
    // No line leaves the memory node of its card.
    let node: CpuSet = "8-15".parse().unwrap();
    for change in one("server-16-mlx5-node1").chosen().changes() {
        let Value::Cpus(then) = &change.after else { continue };
        assert!(then.is_subset(&node), "{change:?}");
    }
    // A shaper on little cores: the board's figures without one say nothing of it.
    let (sqm, big) = (one("rk3399-6-sqm"), "4-5".parse().unwrap());
    assert!(sqm.headline().starts_with("expected gain: about "), "{}", sqm.headline());
    for device in ["eth0", "eth1"] {
        assert!(cpus(sqm, &rps(device)).is_subset(&big), "{device}");
    }
    // Busy lines on big cores, each on its own.
    let lines = places("rk3588-8-r8125", &[of("eth1", 0), of("eth2", 0)]);
    assert!(apart(&lines) && lines.iter().all(|set| set.is_subset(&"4-7".parse().unwrap())));
    // Four lines by which a radio inside the SoC receives: on all CPUs but that of the wired ports.
    let ring = |queue| line("phy0-ap0", queue, IrqRole::Rx);
    let name = "ipq8072-4-ath11k";
    let rings: CpuSet =
        places(name, &[ring(0), ring(1), ring(2), ring(3)]).iter().flat_map(CpuSet::iter).collect();
    let wired = cpus(one(name), &line("lan1", 0, IrqRole::Rx));
    assert!(rings.len() == 3 && rings.intersection(&wired).is_empty(), "{rings} {wired}");
}

#[test]
fn a_few_settings_that_bring_nearly_all_of_it_are_the_plan() {
    // PPPoE on a card of twelve queues uses one of them: its mask matters, not 24 lines.
    let pppoe = proposals(one("accel-pppoe/pppoe").chosen());
    assert!(pppoe.len() <= 6, "{pppoe:#?}");
}

#[test]
fn what_comes_in_on_one_cpu_goes_to_the_same_others() {
    let r4 = one("bpi-r4-mt76-tx/mt76-tx-cpu3");
    let all = proposals(r4.chosen());
    assert_eq!(cpus(r4, &rps("eth0")), cpus(r4, &rps("eth1")), "{all:#?}");
}

#[test]
fn an_idle_port_and_one_for_management_get_nothing() {
    for packets in [0, 900_000] {
        let mut snapshot = one(CM4).snapshot.clone();
        let mut third = snapshot.netdev("eth1").unwrap().clone();
        third.name = "eth2".into();
        snapshot.netdevs.push(third);
        let mut own = snapshot.irqs.iter().find(|i| i.id.device == "eth1").unwrap().clone();
        own.id.device = "eth2".into();
        own.line.0 += 100;
        own.movable = Movable::Presumed;
        snapshot.irqs.push(own);
        let told = [("eth0", 9_000_000_000), ("eth1", 9_000_000_000), ("eth2", packets)];
        snapshot.evidence = Some(look(&told));
        let made = again("three ports", snapshot);
        let of = |c: &&Change| c.knob.device() == Some("eth2");
        assert_eq!(made.chosen().changes().find(of), None, "{packets}");
        assert!(made.chosen().changes().count() > 2);
    }
}

#[test]
fn one_cpu_has_nothing_to_spread_and_is_told_what_else_helps() {
    let mut snapshot = one(CM4).snapshot.clone();
    snapshot.cpus.iter_mut().skip(1).for_each(|cpu| cpu.online = false);
    let alone = again("one CPU", snapshot.clone());
    let told = alone.headline();
    assert!(told.starts_with("expected gain: none; one CPU: nothing to spread"), "{told}");
    assert_eq!(proposals(alone.chosen()), Vec::<String>::new());
    snapshot.path.can_offload = true;
    snapshot.path.ipv4 = Some(true);
    let told = again("one CPU", snapshot.clone()).headline();
    assert!(told.contains("flow offload is the larger step"), "{told}");
    // Without flow offload, lists of packets.
    snapshot.path.can_offload = false;
    let able = FeatureState { active: false, changeable: true };
    for device in &mut snapshot.netdevs {
        device.features.get_or_insert_default().insert("rx-gro-list".into(), able);
    }
    let with = again("one CPU", snapshot);
    let told = with.headline();
    assert!(told.contains("linerate plan --candidate gro-list"), "{told}");
    let lists = with.found.get(plan::name::GRO_LIST).unwrap();
    let on: Vec<_> = lists.changes().map(|c| c.knob.to_string()).collect();
    assert_eq!(on.len(), 2, "{on:?}: every card that is up");
    // Its gain is not made up.
    let rated = plan::rated(&with.snapshot, &with.request, &with.found).unwrap();
    let rated = rated.iter().find(|r| r.candidate.name == plan::name::GRO_LIST).unwrap();
    assert!(rated.rate.is_none() && rated.capped.is_none());
}

#[test]
#[ignore = "slow: make test runs it"]
fn a_machine_without_any_counter_is_planned_for_by_its_structure() {
    let mut wrong = Vec::new();
    for planned in planned().filter(|p| p.snapshot.evidence.is_some()) {
        let mut blind = planned.snapshot.clone();
        blind.irqs.iter_mut().for_each(|irq| irq.counts.clear());
        let evidence = blind.evidence.as_mut().unwrap();
        *evidence =
            Evidence { pollers: std::mem::take(&mut evidence.pollers), ..Evidence::default() };
        let again = Planned::of(planned.name.clone(), blind, Request::default());
        let reason = &again.chosen().reason;
        if again.found.planned.is_some() && !reason.contains("was not counted") {
            wrong.push(format!("{}: {reason}", planned.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Packets of each device in a look.
fn look(packets: &[(&str, u64)]) -> Evidence {
    let moved = |n: u64| Moved { rx: n, tx: n };
    Evidence {
        window: Window::SinceBoot { seconds: Some(1e6) },
        devices: packets.iter().map(|(name, n)| ((*name).to_owned(), moved(*n))).collect(),
        ..Evidence::default()
    }
}

#[test]
fn counters_that_wrap_or_go_away_while_sampling_give_no_port_more_than_its_due() {
    let planned = one(R2S);
    let plan = |earlier: &[(&str, u64)], later: &[(&str, u64)]| {
        let mut snapshot = planned.snapshot.clone();
        snapshot.evidence = Some(Evidence::difference(&look(earlier), &look(later), 3.0));
        let made = again("sampled", snapshot);
        let mut all = proposals(made.chosen());
        all.sort();
        (all, made.chosen().reason.contains("was counted"))
    };
    let steady = plan(&[("eth0", 0), ("eth1", 0)], &[("eth0", 300_000), ("eth1", 300_000)]);
    // A 32-bit counter that wraps has counted as much.
    let top = (1 << 32) - 100_000;
    let wrapped = plan(&[("eth0", top), ("eth1", 0)], &[("eth0", 200_000), ("eth1", 300_000)]);
    assert_eq!(steady, wrapped);
    assert!(steady.1);
    // A device that comes has no weight that could be told, so nobody has.
    let came = plan(&[("eth0", 0)], &[("eth0", 300_000), ("eth1", 4_000_000_000)]);
    assert!(!came.1, "{came:?}");
    let went = plan(&[("eth0", 0), ("eth1", 0)], &[("eth0", 300_000)]);
    assert!(!went.1, "{went:?}");
}

#[test]
fn names_of_fifteen_bytes_in_any_script_are_planned_for_as_any_other() {
    let planned = one(CM4);
    for name in
        ["größe-αβ-0", "eth0\u{1b}[31mred", "名前名前名", "a.b;c@d%e$f&g", "--output=x-yz01"]
    {
        assert!(name.len() <= 15, "{name}");
        let text = serde_json::to_string(&planned.snapshot).unwrap();
        let other = serde_json::to_string(name).unwrap();
        let renamed: Snapshot = serde_json::from_str(&text.replace("\"eth1\"", &other)).unwrap();
        let made = again(name, renamed);
        let told = |planned: &Planned, name: &str| -> Vec<_> {
            let own = planned.chosen().changes();
            let own = own.filter(|c| c.knob.device() == Some(name));
            own.map(|c| c.after.to_string()).collect()
        };
        assert_eq!(told(&made, name), told(planned, "eth1"), "{name}");
        let plan = plan::plan_for(&made.snapshot, made.chosen().clone());
        let (request, found) = (&made.request, &made.found);
        report::plan::document(&made.snapshot, request, found, &plan, "plan.toml", true).unwrap();
    }
}

#[test]
#[ignore = "slow: make test runs it"]
fn no_sentence_of_a_plan_contradicts_its_table() {
    let mut wrong = Vec::new();
    for planned in planned() {
        let Planned { name, snapshot, request, found } = planned;
        let model = cost::Model::new(snapshot, &request.traffic, request.profile);
        let of = |candidate: &Candidate| model.predict(candidate).unwrap();
        let (Some(now), Some(then)) = (of(&found.list[0]), of(planned.chosen())) else { continue };
        let mut say = |what: &str| wrong.push(format!("{name}: {what}: {}", planned.headline()));
        let all = [Direction::Down, Direction::Up, Direction::Both];
        let most =
            all.iter().filter_map(|d| then.times(&now, *d)).map(|t| t.mid).fold(0.0, f64::max);
        let headline = planned.headline();
        if headline.contains("expected gain: about") != (most >= 1.05 && !now.carried) {
            say(&format!("the table says {most:.2} times"));
        }
        if now.carried != headline.contains("the links are full before any CPU") {
            say("the links");
        }
        // "No placement does better" and "can be more than N % better" hold of those in the table.
        let Some(made) = &found.planned else { continue };
        for peer in plan::peers(snapshot) {
            let Some(theirs) = of(&peer) else { continue };
            if !now.carried && theirs.largest < made.model.bound * 0.994 - 0.001 {
                say(&format!("{} does better than the bound", peer.name));
            }
        }
        // A gain that is small is not called anything else.
        let steps = [plan::name::FLOWTABLE, plan::name::HARDWARE];
        let any = steps.iter().any(|step| found.get(step).is_some());
        if headline.contains("larger step") && !any {
            say("no such step");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_shaper_has_a_ceiling_and_flows_in_hardware_never_meet_it() {
    let planned = one("r6s-sqm-irq/a55-lines");
    let told = planned.headline();
    assert!(told.contains("; cake on eth2 lets through "), "{told}");
    assert!(told.contains("Gbit/s of full frames"), "{told}");
    let rated = plan::rated(&planned.snapshot, &planned.request, &planned.found).unwrap();
    let shapers =
        |name: &str| rated.iter().find(|r| r.candidate.name == name).unwrap().shapers.clone();
    let found = shapers(plan::name::AS_FOUND);
    let devices: Vec<&str> = found.iter().map(|c| c.device.as_str()).collect();
    assert_eq!(devices, ["ifb4eth2", "eth2"]);
    // One CPU at a time is under its lock: it lets through no more than the biggest CPU does.
    let most = 1024.0 / 1024.0 / (1.25 * 0.8);
    assert!(found[0].rate > 0.0 && found[0].rate <= most + 1e-9, "{found:?}");
    for r in rated.iter().filter(|r| !r.shapers.is_empty()) {
        let rate = r.rate.as_ref().unwrap()[&Direction::Down];
        let ceiling = r.shapers.iter().map(|c| c.rate).fold(0.0, f64::max);
        assert!(rate.high <= ceiling + 1e-9, "{}: {} {ceiling}", r.candidate.name, rate.high);
    }
    let mut hardware = planned.snapshot.clone();
    let rules = hardware.path.nftables.get_or_insert_default();
    let devices = hardware.netdevs.iter().map(|d| d.name.clone()).collect();
    rules.flowtables = vec![Flowtable { name: "t".into(), devices, hardware: true }];
    let with = again("hardware", hardware);
    assert!(!with.headline().contains("lets through"), "{}", with.headline());
    let left = &with.found.planned.as_ref().unwrap().not_made;
    let said = left.iter().find(|n| n.setting == "flow-offload").unwrap();
    assert!(said.reason.contains("exclude each other"), "{}", said.reason);
}

#[test]
fn candidates_have_rates_that_compare_across_states_of_a_machine() {
    let json = |name: &str| -> serde_json::Value {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/hosts").join(name);
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("rates-{name}.toml"));
        let output = std::process::Command::new(program::path())
            .args(["--json", "plan", "--force", "--host"])
            .arg(&dir)
            .arg("-o")
            .arg(&file)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    for (name, speeds_are_known) in [(CM4, true), (R4S, true), (R76S, true)] {
        let told = json(name);
        let candidates = told["candidates"].as_array().unwrap();
        let names: Vec<&str> = candidates.iter().map(|c| c["name"].as_str().unwrap()).collect();
        assert_eq!(names[0], "as-found");
        let found = &one(name).found;
        assert_eq!(names, found.all().map(|c| c.name.as_str()).collect::<Vec<_>>());
        for candidate in candidates {
            for direction in ["down", "up", "both"] {
                let at = format!("{name} {} {direction}", candidate["name"]);
                let rate = |of: &str, end: &str| candidate[of][direction][end].as_f64();
                let (low, mid) = (rate("rate", "low").unwrap(), rate("rate", "mid").unwrap());
                let high = rate("rate", "high").unwrap();
                assert!(0.0 < low && low <= mid && mid <= high, "{at}: {low} {mid} {high}");
                let capped = rate("capped", "mid");
                assert_eq!(capped.is_some(), speeds_are_known, "{at}");
                assert!(capped.is_none_or(|c| c <= mid * 1.000_001), "{at}: {capped:?} {mid}");
            }
        }
        // What the plan promises is what the machine as planned has.
        let then = again(name, in_force(&one(name).snapshot, one(name).chosen()));
        let rated = plan::rated(&then.snapshot, &then.request, &then.found).unwrap();
        let now = rated[0].rate.as_ref().unwrap()[&Direction::Both].mid;
        let chosen = one(name).chosen().name.clone();
        let promised = candidates.iter().find(|c| c["name"] == chosen.as_str()).unwrap();
        let promised = promised["rate"]["both"]["mid"].as_f64().unwrap();
        assert!((now / promised - 1.0).abs() < 1e-8, "{name}: {now} {promised}");
    }
}

#[test]
fn transmit_queues_of_a_machine_that_sends_get_cpus_of_their_own() {
    let planned = one("xps-bnx2x/no-xps");
    let masks: Vec<CpuSet> = planned
        .chosen()
        .changes()
        .filter_map(|c| match (&c.knob, &c.after) {
            (Knob::XpsCpus { .. }, Value::Cpus(set)) => Some(set.clone()),
            _ => None,
        })
        .collect();
    let mut all = CpuSet::empty();
    for mask in &masks {
        assert_eq!(mask.len(), 1, "{masks:?}");
        mask.iter().for_each(|cpu| all.insert(cpu));
    }
    assert_eq!((masks.len(), all.len()), (16, 16));
}
