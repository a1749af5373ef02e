//! `tune` in the guest's own lab, on a kernel that has what this machine's kernel may lack.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout, reason = "tests")]

mod common;

use common::{assert_same, codes};
use linerate_vm::{Machine, Nic};

/// The first `lab` loads modules, which bring sysctls: it is up and down once before the comparison.
const SCRIPT: &str = r#"
modprobe nf_flow_table && modprobe wireguard && modprobe nft_flow_offload || exit 92
ip link set eth0 up
step warm linerate lab up --rules 10
step list linerate lab list
step down linerate lab down
state before
step tune linerate tune nat --rules 50 --blocks 3 --seconds 0.4 --omit 0.2 -P 8 \
    --candidates one-cpu,rps-all --seed 1 -o /out/result.json --report /out/report.html
step flowtable linerate bench nat --flowtable --direction down --seconds 0.5 --omit 0.2 -P 4
state after
"#;

#[test]
fn tune_measures_and_leaves_the_machine_as_it_was() {
    let machine = Machine::new(2, &[Nic::Vmxnet3]);
    let contents = common::contents(&["vmxnet3"], SCRIPT);
    let Some(outcome) = common::run(&machine, &contents) else { return };
    assert_eq!(outcome.code, 0, "{}", outcome.output);
    let codes = codes(&outcome);
    for step in ["warm", "list", "down"] {
        assert_eq!(codes[step], 0, "{step}: {}", outcome.output);
    }
    // Emulated, a run may be refused (the generator shares the router's two CPUs); then it says so.
    assert!([0, 6].contains(&codes["tune"]), "{}", outcome.output);
    let result: serde_json::Value = serde_json::from_str(&outcome.text("result.json")).unwrap();
    let cells = result["cells"].as_array().unwrap();
    for wanted in ["one-cpu", "rps-all"] {
        for direction in ["down", "up"] {
            let of: Vec<_> = cells
                .iter()
                .filter(|c| c["candidate"] == wanted && c["measurement"]["direction"] == direction)
                .collect();
            assert!(of.len() >= 3, "{wanted} {direction} was measured in {} of 3 blocks", of.len());
            for cell in of {
                let rate: f64 = cell["measurement"]["flows"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|f| f["goodput"].as_f64().unwrap())
                    .sum();
                assert!(rate > 1e6, "{wanted} {direction}: {rate} bit/s");
                println!(
                    "{wanted} {direction} {rate:.3e} refused: {}",
                    cell["measurement"]["refusals"]
                );
            }
        }
    }
    // This kernel has flowtables; the machine that builds this may not.
    assert!([0, 6].contains(&codes["flowtable"]), "{}", outcome.output);
    let report = outcome.text("report.html");
    assert!(report.contains("<svg") && report.trim_end().ends_with("</html>"), "{report}");
    assert_same(&outcome, "before", "after");
}
