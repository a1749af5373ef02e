//! Flow offload of our own on a kernel that has flowtables: flows bind while it is in force, and
//! the ruleset is the same byte for byte when it is not.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

mod common;

use common::codes;
use linerate_vm::{Machine, Nic};
use serde_json::Value;

/// nft is only a witness here: linerate itself runs no program.
const SCRIPT: &str = r#"
modprobe nf_flow_table && modprobe nf_flow_table_inet && modprobe nft_flow_offload || exit 92
modprobe nft_ct; modprobe nf_conntrack_netlink
router="linerate lab shell router --"
flow() {
    linerate lab shell wan -- nc -l -p $1 -e cat >/dev/null 2>&1 &
    sleep 1
    (for i in 1 2 3 4 5 6; do echo $i; sleep 1; done) |
        linerate lab shell lan -- nc 198.18.2.2 $1 >/out/echoed-$1 &
    flow=$!
    sleep 3
    $router cat /proc/net/nf_conntrack >/out/table-$1
}
step up linerate lab up --rules 20
step ruleset-before $router nft list ruleset
step knobs-before $router linerate show knobs
step plan $router linerate plan --candidate flowtable -o /tmp/plan.toml
cp /tmp/plan.toml /out/plan.toml
step dry $router linerate apply --dry-run /tmp/plan.toml
step apply $router linerate apply /tmp/plan.toml
step ruleset-applied $router nft list ruleset
flow 5001
step show $router linerate show --json
step path $router linerate show path
step knobs $router linerate show knobs
wait $flow
step verify $router linerate verify /tmp/plan.toml
step again $router linerate apply /tmp/plan.toml
step rollback $router linerate rollback
step ruleset-after $router nft list ruleset
step drift $router linerate verify /tmp/plan.toml
flow 5002
wait $flow

# A table of our name that somebody else made, and a flowtable of somebody else's.
$router nft 'add table inet linerate; add chain inet linerate theirs'
step ruleset-theirs $router nft list ruleset
step taken $router linerate apply /tmp/plan.toml
step ruleset-left $router nft list ruleset
step down linerate lab down
step up-flowtable linerate lab up --flowtable
step other $router linerate apply /tmp/plan.toml
step down-flowtable linerate lab down
"#;

#[test]
fn flows_bind_while_our_flowtable_is_in_force_and_nothing_of_it_is_left() {
    let machine = Machine::new(2, &[Nic::Vmxnet3]);
    let mut contents = common::contents(&["vmxnet3"], SCRIPT);
    contents.offer.extend(["nf_conntrack_netlink"]);
    if !common::copy_program(&mut contents, "nft", "/usr/sbin/nft") {
        common::skip("nft is not installed here, to be the witness");
        return;
    }
    let Some(outcome) = common::run(&machine, &contents) else { return };
    let codes = codes(&outcome);
    for (step, code) in [
        ("up", 0),
        ("ruleset-before", 0),
        ("knobs-before", 0),
        ("plan", 0),
        ("dry", 0),
        ("apply", 0),
        ("show", 0),
        ("path", 0),
        ("verify", 0),
        ("again", 0),
        ("rollback", 0),
        ("drift", 3),
        ("taken", 7),
        ("down", 0),
        ("up-flowtable", 0),
        ("other", 5),
        ("down-flowtable", 0),
    ] {
        assert_eq!(codes[step], code, "{step}: {}", outcome.output);
    }
    let text = |step: &str| outcome.text(&format!("{step}.out"));

    // Ours is a table beside the others, whose text has not moved.
    let (before, applied) = (text("ruleset-before"), text("ruleset-applied"));
    assert!(before.contains("masquerade") && !before.contains("inet linerate"), "{before}");
    assert!(applied.starts_with(&before), "{applied}");
    let ours = &applied[before.len()..];
    assert!(ours.contains("table inet linerate"), "{ours}");
    assert!(ours.contains("ct state established flow add @ft"), "{ours}");
    assert!(ours.contains("wan0") && ours.contains("lan0"), "{ours}");
    assert_eq!(text("ruleset-after"), before);

    // A flow binds with it and not without.
    let state = |port: &str| {
        let table = outcome.text(&format!("table-{port}"));
        let line = table.lines().find(|l| l.contains(&format!("dport={port}")));
        line.expect("our flow is tracked").to_owned()
    };
    for port in ["5001", "5002"] {
        assert!(!outcome.text(&format!("echoed-{port}")).is_empty(), "no flow: {}", outcome.output);
    }
    assert!(state("5001").contains("[OFFLOAD]"), "{}", state("5001"));
    assert!(!state("5002").contains("[OFFLOAD]"), "{}", state("5002"));
    let shown: Value = serde_json::from_str(&text("show")).unwrap();
    assert!(shown["path"]["bound"]["bound"].as_u64().unwrap() >= 1, "{}", shown["path"]["bound"]);
    assert!(text("path").contains("flows bound"), "{}", text("path"));
    assert!(
        text("knobs").contains("software lan0 wan0")
            || text("knobs").contains("software wan0 lan0")
    );

    assert_eq!(text("ruleset-theirs"), text("ruleset-left"), "somebody else's table was touched");
    for (step, words) in [("taken", "that linerate did not make"), ("other", "lab has a flowtable")]
    {
        let said = outcome.text(&format!("{step}.err"));
        assert!(said.contains(words), "{step}: {said}");
    }
}
