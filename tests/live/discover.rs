//! Discovery on a real kernel: a lab's router is seen like any other router.

use linerate::decide::plan::{candidates, name};
use linerate::machine::discover::snapshot;
use linerate::machine::host::Live;
use linerate::measure::lab::{Lab, LabSpec};

#[test]
fn a_labs_router_is_seen_like_a_real_one() {
    let lab = match Lab::build(&LabSpec { rules: 7, ..LabSpec::default() }) {
        Ok(lab) => lab,
        Err(e) => {
            eprintln!("SKIPPED a_labs_router_is_seen_like_a_real_one: {e}");
            return;
        }
    };
    let found = snapshot(&lab.router_host());
    let names: Vec<_> = found.netdevs.iter().map(|d| d.name.as_str()).collect();
    assert_eq!(names, ["lan0", "wan0"]);
    for device in &found.netdevs {
        assert!(device.is_veth(), "{device:?}");
        assert_eq!(device.operstate, "up");
        assert!(device.rx_queues[0].rps.as_ref().unwrap().is_empty());
        let features = device.features.as_ref().expect("offloads by netlink");
        assert!(!features["tx-tcp-segmentation"].active && !features["rx-gro"].active);
        assert_eq!(device.qdiscs[0].kind, "noqueue", "veth has no queue by default");
    }
    assert_eq!(found.irqs, [], "the machine's interrupts are not the lab's");
    let here = snapshot(&Live::here());
    assert_eq!(found.cpus, here.cpus);
    assert!(here.netdev("lan0").is_none());
    assert!(candidates(&found).get(name::ONE_CPU).is_some());
    // As the lab's own rules are: masquerade towards wan0, and the filter rules it was asked for.
    let rules = found.path.nftables.as_ref().expect("rules by netlink");
    assert!(rules.nat, "{rules:?}");
    assert_eq!(rules.masquerade_devices, ["wan0"]);
    assert_eq!((rules.rules, rules.forward_rules), (8, 8), "seven filter rules and the masquerade");
    assert_eq!(found.path.ipv4, Some(true));
    let bottoms: Vec<_> = found.stack.iter().flat_map(|tree| tree.ground()).collect();
    assert!(bottoms.contains(&"lan0") && bottoms.contains(&"wan0"), "{:?}", found.stack);
    assert!(found.netdevs.iter().all(|d| d.link.ipv4 == 1), "one address each");
    assert_eq!(found.gaps, []);
}
