//! `apply`, `verify` and `rollback` on network cards with real interrupts, checked by the kernel's
//! own files and counters.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

mod common;

use std::collections::BTreeSet;

use common::{assert_same, codes, mask, moved};
use linerate_vm::{Machine, Nic, Outcome};

/// The whole life of a plan. Every line starts on CPU 0, as boards come out of the box.
const LIFE_OF_A_PLAN: &str = r#"
peer
for n in $(lines_of eth0); do echo 1 >/proc/irq/$n/smp_affinity; done
pings
state before
step show linerate show --json
step plan linerate plan --candidate CANDIDATE -o /tmp/plan.toml
state planned
step dry-run linerate apply --dry-run /tmp/plan.toml
state dry
step apply linerate apply /tmp/plan.toml
state applied
pings # an interrupt moves when the next one arrives
cat /proc/interrupts >/out/interrupts-1
pings
cat /proc/interrupts >/out/interrupts-2
step verify linerate verify /tmp/plan.toml

# Something else moves one of them behind our back, to a CPU it is not on now.
for first in $(lines_of eth0); do break; done
told=$(cat /proc/irq/$first/smp_affinity)
case $(cat /proc/irq/$first/smp_affinity_list) in 1) other=4 ;; *) other=2 ;; esac
echo $other >/proc/irq/$first/smp_affinity
step drift linerate verify /tmp/plan.toml
echo $told >/proc/irq/$first/smp_affinity
step mended linerate verify /tmp/plan.toml

step rollback linerate rollback
state after
step undone linerate verify /tmp/plan.toml

# Once more; this time the drift is still there when it is undone: left alone, then overwritten as asked.
step again linerate apply /tmp/plan.toml
echo $other >/proc/irq/$first/smp_affinity
step left-alone linerate rollback
cat /proc/irq/$first/smp_affinity >/out/left-alone
echo $other >/out/other
step forced linerate rollback --force
state after-force
step nothing-left linerate status
"#;

fn life_of_a_plan(nic: Nic, module: &'static str, candidate: &str) -> Option<Outcome> {
    let script = LIFE_OF_A_PLAN.replace("CANDIDATE", candidate);
    let outcome =
        common::run(&Machine::new(4, &[nic, nic]), &common::contents(&[module], &script))?;
    let codes = codes(&outcome);
    let expected = [
        ("show", 0),
        ("plan", 0),
        ("dry-run", 0),
        ("apply", 0),
        ("verify", 0),
        ("drift", 3),
        ("mended", 0),
        ("rollback", 0),
        ("undone", 3),
        ("again", 0),
        ("left-alone", 8),
        ("forced", 0),
        ("nothing-left", 0),
    ];
    for (step, code) in expected {
        assert_eq!(codes.get(step), Some(&code), "exit code of {step}: {}", outcome.output);
    }
    assert_same(&outcome, "before", "planned");
    assert_same(&outcome, "before", "dry");
    assert_same(&outcome, "before", "after");
    assert_same(&outcome, "before", "after-force");
    assert_ne!(outcome.text("before"), outcome.text("applied"), "apply changed nothing");
    assert_eq!(
        outcome.text("left-alone"),
        outcome.text("other"),
        "what somebody else set is theirs"
    );
    // Only eth0 was asked for: the other card, in its namespace, and all other lines stay.
    let eth0: BTreeSet<u32> = movement(&outcome).iter().map(|l| l.number).collect();
    for line in common::interrupts(&outcome.text("interrupts-1")) {
        if !eth0.contains(&line.number) {
            let of = |state| mask(&outcome.text(state), line.number);
            assert_eq!(of("before"), of("applied"), "{} is not eth0's", line.name);
        }
    }
    let shown: serde_json::Value = serde_json::from_str(&outcome.text("show.out")).unwrap();
    let shown = shown.to_string();
    for line in movement(&outcome) {
        assert!(shown.contains(&line.name), "show --json does not name {}: {shown}", line.name);
    }
    Some(outcome)
}

fn movement(outcome: &Outcome) -> Vec<common::Line> {
    moved(&outcome.text("interrupts-1"), &outcome.text("interrupts-2"), "eth0")
}

/// Each line that counted did so on the CPUs of its new mask; one interrupt may still land where the
/// line was, for on x86 it is that interrupt which moves it (kernel/irq/migration.c, `irq_move_irq`).
/// Returns how many lines counted where told.
fn assert_counted_where_told(outcome: &Outcome) -> usize {
    let applied = outcome.text("applied");
    let mut counting = 0;
    for line in movement(outcome) {
        let allowed = mask(&applied, line.number);
        let (told, elsewhere) =
            line.counts.iter().enumerate().fold((0, 0), |sums, (cpu, count)| {
                if allowed & (1 << cpu) != 0 {
                    (sums.0 + count, sums.1)
                } else {
                    (sums.0, sums.1 + count)
                }
            });
        assert!(
            elsewhere <= 1,
            "{} counted {elsewhere} outside its mask {allowed:x}: {line:?}",
            line.name
        );
        counting += usize::from(told > 0);
    }
    counting
}

#[test]
fn queues_of_a_card_are_spread_and_packets_follow() {
    let Some(outcome) = life_of_a_plan(Nic::Vmxnet3, "vmxnet3", "irq-spread") else { return };
    let applied = outcome.text("applied");
    let queues: Vec<_> =
        movement(&outcome).into_iter().filter(|l| l.name.starts_with("eth0-rxtx-")).collect();
    assert_eq!(queues.len(), 4, "{queues:?}");
    let masks: BTreeSet<u64> = queues.iter().map(|l| mask(&applied, l.number)).collect();
    assert_eq!(masks, [1, 2, 4, 8].into(), "one CPU for each queue");
    assert!(assert_counted_where_told(&outcome) >= 2, "several queues saw packets: {queues:?}");
}

#[test]
fn separate_receive_and_transmit_lines_are_spread_and_packets_follow() {
    let Some(outcome) = life_of_a_plan(Nic::E1000e, "e1000e", "irq-spread") else { return };
    let applied = outcome.text("applied");
    let lines = movement(&outcome);
    let of = |name: &str| mask(&applied, lines.iter().find(|l| l.name == name).unwrap().number);
    let (rx, tx) = (of("eth0-rx-0"), of("eth0-tx-0"));
    assert!(rx.is_power_of_two() && tx.is_power_of_two() && rx != tx, "rx {rx:x} tx {tx:x}");
    assert!(assert_counted_where_told(&outcome) >= 2, "{lines:?}");
}

/// A card is taken out between plan and apply, and a plan is cut in half: refused, nothing changed.
#[test]
fn a_plan_that_no_longer_fits_changes_nothing() {
    const SCRIPT: &str = r#"
peer
for n in $(lines_of eth0); do echo 1 >/proc/irq/$n/smp_affinity; done
step plan linerate plan --candidate irq-spread -o /tmp/plan.toml
head -c $(($(stat -c %s /tmp/plan.toml) / 2)) /tmp/plan.toml >/tmp/half.toml
state before
step half linerate apply /tmp/half.toml
state after-half
slot=$(basename $(readlink -f /sys/class/net/eth0/device))
echo $slot >/sys/bus/pci/drivers/vmxnet3/unbind
state without
step vanished linerate apply /tmp/plan.toml
step vanished-verify linerate verify /tmp/plan.toml
state after-vanished
"#;
    let machine = Machine::new(2, &[Nic::Vmxnet3, Nic::Vmxnet3]);
    let Some(outcome) = common::run(&machine, &common::contents(&["vmxnet3"], SCRIPT)) else {
        return;
    };
    let codes = codes(&outcome);
    assert_eq!(codes["plan"], 0, "{}", outcome.output);
    assert_eq!(codes["half"], 2, "{}", outcome.output);
    for step in ["vanished", "vanished-verify"] {
        assert!(![0, 101, 134].contains(&codes[step]), "{step}: {}", outcome.output);
        let said = outcome.text(&format!("{step}.err")) + &outcome.text(&format!("{step}.out"));
        assert!(said.contains("eth0"), "{step} does not name the device: {said}");
    }
    assert_same(&outcome, "before", "after-half");
    assert_same(&outcome, "without", "after-vanished");
}
