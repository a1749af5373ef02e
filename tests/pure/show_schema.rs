//! `show --json` is what docs/schema/show.json says: of every machine among the fixtures, of this
//! machine, and with every field described. (The schema lets later versions add fields; this test
//! does not let this version have one that is not described.)

use std::path::Path;
use std::process::Command;

use crate::program;
use crate::schema::{Schema, assert_fits};
use linerate::model::evidence::{
    CpuTime, Evidence, Moved, Poller, PollerOwner, PollerRole, QueueMoved, Window,
};
use linerate::model::path::SoftnetCpu;
use linerate::model::snapshot::IrqRole;
use linerate::model::units::{CpuId, IrqLine};
use serde_json::{Value, json};

fn shown(host: Option<&Path>) -> Value {
    let mut command = Command::new(program::path());
    command.args(["show", "--json"]);
    if let Some(host) = host {
        command.arg("--host").arg(host);
    }
    let out = command.output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

#[test]
fn what_is_shown_of_any_machine_fits_the_schema() {
    assert_fits("this machine", &shown(None));
    let hosts = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/hosts");
    for entry in std::fs::read_dir(hosts).unwrap() {
        let path = entry.unwrap().path();
        let capture = path.join("capture.tar.gz");
        let path = if capture.exists() { capture } else { path };
        assert_fits(&path.display().to_string(), &shown(Some(&path)));
    }
}

/// A snapshot in which every field holds something: what no fixture has must be described too.
#[test]
fn every_field_that_there_can_be_is_described() {
    use linerate::model::feature::Qdisc;
    use linerate::model::path::{BoundFlows, Engine, IptablesTable, Nftables, Service, Sort};
    use linerate::model::snapshot::{BoardFacts, Cpu, Gap, Irq, NetDev, Snapshot};
    let mut full = Snapshot::default();
    full.machine.compatible = vec!["a,b".into()];
    full.machine.board_facts = Some(BoardFacts::default());
    full.cpus = vec![Cpu { isolated_by: vec!["x".into()], ..Cpu::default() }];
    let mut device = NetDev { napis: vec![Default::default()], ..NetDev::default() };
    device.napi_thread_cpus.insert(71, "2-3".parse().unwrap());
    let (handle, options) = (Some(0x8001), Some("0c00".to_owned()));
    device.qdiscs =
        vec![Qdisc { device: "x".into(), kind: "fq".into(), queue: None, handle, options }];
    device.settings.rss = Some(Default::default());
    (device.receiving, device.tag) = (Some(Default::default()), Some(Default::default()));
    (device.radio, device.ingress_to) = (Some("phy0".into()), Some("ifb0".into()));
    (device.settings.ntuple, device.settings.eee) =
        (Some(Default::default()), Some(Default::default()));
    full.netdevs = vec![device];
    full.irqs = vec![Irq { rx: vec![0, 1], tx: vec![2], ..Irq::default() }];
    full.radios = vec![Default::default()];
    full.evidence = Some(evidence());
    full.path.nftables =
        Some(Nftables { flowtables: vec![Default::default()], ..Default::default() });
    full.path.iptables_rules =
        vec![IptablesTable { established_rules: Some(1), ..IptablesTable::default() }];
    full.path.bound = Some(BoundFlows { by: "ctnetlink".into(), ..BoundFlows::default() });
    full.path.engines = vec![Engine::default()];
    (full.path.can_offload, full.path.firewall) = (true, true);
    full.gaps = vec![Gap { what: "x".into(), why: "y".into() }];
    full.services = vec![Service {
        name: "x".into(),
        sets: vec![Sort::Rps],
        spares: vec!["irq 9".into()],
        ..Service::default()
    }];
    let mut value = serde_json::to_value(&full).unwrap();
    value["format"] = json!("linerate-show");
    value["version"] = json!(1);
    assert_fits("a full snapshot", &value);
    // And the other way: the schema describes nothing that there is not.
    let schema = Schema::new("show");
    for (name, of) in [
        ("machine", &value["machine"]),
        ("cpu", &value["cpus"][0]),
        ("netdev", &value["netdevs"][0]),
        ("settings", &value["netdevs"][0]["settings"]),
        ("irq", &value["irqs"][0]),
        ("path", &value["path"]),
        ("kernel", &value["kernel"]),
    ] {
        for field in schema.root()["$defs"][name]["properties"].as_object().unwrap().keys() {
            assert!(of.get(field).is_some(), "{name} has no {field}");
        }
    }
}

/// Evidence of every kind.
fn evidence() -> Evidence {
    let poller = Poller {
        owner: PollerOwner::Cpu(CpuId(0)),
        role: PollerRole::Ksoftirqd,
        index: 0,
        pid: 14,
        name: "ksoftirqd/0".into(),
        polls: Some(IrqRole::Rx),
        rx: vec![0],
        tx: vec![0],
        devices: vec!["eth0".into()],
        cpus: Some("0".parse().unwrap()),
        last_cpu: Some(CpuId(0)),
        cpu_seconds: Some(0.5),
        movable: Some(false),
    };
    let (rx, tx) = (1, 2);
    Evidence {
        window: Window::Sampled { seconds: 3.0 },
        devices: [("eth0".into(), Moved { rx, tx })].into(),
        queues: [("eth0".into(), vec![QueueMoved { index: 0, rx: Some(rx), tx: Some(tx) }])].into(),
        lines: [(IrqLine(30), [(CpuId(0), 9)].into())].into(),
        softnet: vec![SoftnetCpu {
            cpu: CpuId(0),
            packets: 1,
            dropped: 0,
            squeezed: 0,
            received_rps: 0,
        }],
        cpus: [(CpuId(0), CpuTime::default())].into(),
        pollers: vec![poller],
        changed: vec!["device eth1 went".into()],
    }
}

#[test]
fn a_value_that_does_not_fit_is_found() {
    let mut value = shown(None);
    value["cpus"][0]["online"] = json!("yes");
    value["possible"] = json!("0-");
    value["path"].as_object_mut().unwrap().remove("ipv4");
    value["kernel"]["new"] = json!(1);
    value["cpus"][0]["capacity"]["source"] = json!("guess");
    let wrong = Schema::new("show").check(&value);
    assert_eq!(wrong.len(), 5, "{wrong:#?}");
}
