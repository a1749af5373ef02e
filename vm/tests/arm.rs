//! arm64 with two clusters: what a board of that kind is taken for, and that the work goes to its
//! big CPUs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

mod common;

use common::{assert_same, codes, interrupts, mask};
use linerate_vm::{Board, Cluster, Machine, Nic, Outcome};
use serde_json::{Value, json};

/// Of the clusters below: 0-1 are small, 2-3 big.
const BIG: u64 = 0b1100;

/// Every line starts on CPU 0, as boards come out of the box. Virtio names its lines after the
/// virtio device.
const SCRIPT: &str = r#"
peer
virtio=$(basename $(readlink -f /sys/class/net/eth0/device))
lines=$(awk -v d="^$virtio-(input|output)" '$NF ~ d { sub(":", "", $1); print $1 }' /proc/interrupts)
for n in $lines; do echo 1 >/proc/irq/$n/smp_affinity; done
echo $lines >/out/lines
echo $virtio >/out/virtio
pings
state before
step show linerate show --json
step plan linerate plan -o /tmp/plan.toml
cp /tmp/plan.toml /out/plan.toml
step apply linerate apply /tmp/plan.toml
state applied
pings
cat /proc/interrupts >/out/interrupts-1
cat /proc/net/softnet_stat >/out/softnet-1
pings
cat /proc/interrupts >/out/interrupts-2
cat /proc/net/softnet_stat >/out/softnet-2
step verify linerate verify /tmp/plan.toml
step rollback linerate rollback
state after
step undone linerate verify /tmp/plan.toml
(pings; pings; pings; pings) >/dev/null 2>&1 &
step profile linerate profile 2 --json
echo 2 >/proc/sys/kernel/kptr_restrict
step hidden linerate profile 60
"#;

/// Speeds and highest frequencies in the kernel's terms: 446 * 1200 / (1024 * 1800) of 1024 is 297.
fn board() -> Board {
    let small = Cluster { cpus: 2, speed: 446, frequencies: [600_000_000, 1_200_000_000] };
    let big = Cluster { cpus: 2, speed: 1024, frequencies: [800_000_000, 1_800_000_000] };
    Board { model: "Two Clusters", compatible: "example,two-clusters", clusters: vec![small, big] }
}

#[test]
fn the_heavy_stages_go_to_the_big_cpus_and_packets_follow() {
    common::optional();
    let Some(linerate) = common::linerate_for("aarch64-unknown-linux-musl") else { return };
    let machine = Machine::posing_as(board(), &[Nic::VirtioNet, Nic::VirtioNet]);
    let modules = ["cpufreq_dt", "virtio_pci", "virtio_net"];
    let contents = common::contents_with(&linerate, &modules, SCRIPT);
    let Some(outcome) = common::run(&machine, &contents) else { return };
    let codes = codes(&outcome);
    for step in ["show", "plan", "apply", "verify", "rollback"] {
        assert_eq!(codes.get(step), Some(&0), "{step}: {}", outcome.output);
    }
    assert_eq!(codes["undone"], 3, "after the rollback the plan is not in force");
    assert_shown(&outcome);
    assert_profiled(&outcome);
    assert_planned(&outcome);
    assert_followed(&outcome);
    assert_ne!(outcome.text("before"), outcome.text("applied"), "apply changed nothing");
    assert_same(&outcome, "before", "after");
}

/// QEMU's processor counts its cycles (PMUv3), as boards' do; and who hides the kernel's addresses is
/// told so at once, not after the minute that was asked for.
fn assert_profiled(outcome: &Outcome) {
    let codes = codes(outcome);
    assert_eq!(codes.get("profile"), Some(&0), "{}", outcome.text("profile.err"));
    let said = outcome.text("profile.err");
    assert!(said.contains("by the processors' cycles"), "{said}");
    let profile: Value = serde_json::from_str(&outcome.text("profile.out")).unwrap();
    assert_eq!(profile["source"], "cycles", "{profile}");
    let cpus = profile["cpus"].as_array().unwrap();
    let samples: u64 = cpus.iter().filter_map(|cpu| cpu["samples"].as_u64()).sum();
    assert!(samples > 0, "nothing was counted: {profile}");
    let said = outcome.text("hidden.err");
    assert_eq!(codes.get("hidden"), Some(&4), "{said}");
    assert!(said.contains("kernel.kptr_restrict is 2 here") && !said.contains("looking"), "{said}");
}

fn assert_shown(outcome: &Outcome) {
    let shown: Value = serde_json::from_str(&outcome.text("show.out")).unwrap();
    assert_eq!(shown["machine"]["arch"], "aarch64");
    assert_eq!(shown["machine"]["board"], "Two Clusters");
    let cpus = shown["cpus"].as_array().unwrap();
    let of = |key: &str| cpus.iter().map(|c| c[key].clone()).collect::<Vec<_>>();
    let capacity = |value: u32| json!({ "value": value, "source": "kernel" });
    let (small, big) = (capacity(297), capacity(1024));
    assert_eq!(of("capacity"), [small.clone(), small, big.clone(), big]);
    assert_eq!(of("cluster"), ["0-1", "0-1", "2-3", "2-3"]);
    let policies: Vec<&Value> = cpus.iter().map(|c| &c["governor"]["policy"]).collect();
    assert_eq!(policies, ["policy0", "policy0", "policy2", "policy2"]);
    let receive = format!("{}-input.0", outcome.text("virtio").trim());
    let irqs = shown["irqs"].as_array().unwrap();
    let line = irqs.iter().find(|i| i["action"] == *receive).unwrap();
    assert_eq!(line["id"], json!({ "device": "eth0", "queue": 0, "role": "rx" }), "{line}");
    assert_eq!((&line["chip"], &line["affinity"]), (&json!("ITS-MSI"), &json!("0")), "{line}");
}

/// Interrupt and stack each have a big CPU, and it says why.
fn assert_planned(outcome: &Outcome) {
    let plan = outcome.text("plan.toml");
    for knob in ["irq-affinity", "rps-cpus"] {
        let start = format!("[[setting]]\nknob = \"{knob}\"");
        assert!(plan.contains(&start), "no {knob}: {plan}");
        let setting = plan.split_once(&start).unwrap().1;
        let setting = setting.split("[[setting]]").next().unwrap();
        let after = setting.lines().find_map(|l| l.strip_prefix("after = ")).unwrap();
        assert!(["\"2\"", "\"3\"", "\"2-3\""].contains(&after), "{knob} goes to {after}: {plan}");
        let reason = setting.lines().find_map(|l| l.strip_prefix("reason = ")).unwrap();
        assert!(reason.contains("the router would let through"), "{knob}: {reason}");
        if knob == "irq-affinity" {
            assert!(reason.contains("capacity 1024 of 1024"), "{reason}");
        }
    }
}

/// All interrupts of the card came where its lines were told to be (the controller moves a line at
/// once), and the packets were handed to the CPU that was to have the stack's work.
fn assert_followed(outcome: &Outcome) {
    let applied = outcome.text("applied");
    let reading = |file: &str| interrupts(&outcome.text(file));
    let (one, two) = (reading("interrupts-1"), reading("interrupts-2"));
    let lines = outcome.text("lines");
    let mut received = 0;
    for number in lines.split_whitespace().map(|n| n.parse::<u32>().unwrap()) {
        let allowed = mask(&applied, number);
        let counts = |all: &[common::Line]| {
            all.iter().find(|l| l.number == number).map(|l| (l.name.clone(), l.counts.clone()))
        };
        let ((name, before), (_, after)) = (counts(&one).unwrap(), counts(&two).unwrap());
        // Transmit completion is light: a small CPU that is idle may have it.
        let heavy = name.contains("input");
        assert!(allowed != 0 && (!heavy || allowed & !BIG == 0), "{name} may be on {allowed:b}");
        for (cpu, (before, after)) in before.iter().zip(&after).enumerate() {
            if allowed & (1 << cpu) == 0 {
                assert_eq!(before, after, "{name} counted on CPU {cpu}, told {allowed:b}");
            } else if heavy {
                received += after - before;
            }
        }
    }
    assert!(received >= 20, "80 answers came by {received} interrupts on the big CPUs");
    let path = "/sys/class/net/eth0/queues/rx-0/rps_cpus:";
    let steered = applied.lines().find_map(|l| l.strip_prefix(path)).unwrap();
    let steered = u64::from_str_radix(steered, 16).unwrap();
    assert!(steered != 0 && steered & !BIG == 0, "steered to {steered:b}");
    let handed: u64 = (0..4)
        .filter(|cpu| steered & (1 << cpu) != 0)
        .map(|cpu| handed_over(outcome, "softnet-2", cpu) - handed_over(outcome, "softnet-1", cpu))
        .sum();
    assert!(handed >= 20, "{handed} packets were handed to {steered:b}");
}

/// How often a CPU was woken for packets that others received: the tenth column
/// (net/core/net-procfs.c, `softnet_seq_show`, `received_rps`).
fn handed_over(outcome: &Outcome, file: &str, cpu: usize) -> u64 {
    let text = outcome.text(file);
    let word = text.lines().nth(cpu).unwrap().split_whitespace().nth(9).unwrap();
    u64::from_str_radix(word, 16).unwrap()
}
