//! Nothing is lost: not by kills at random moments, not when the clock is set back, CPUs go away or
//! devices come and go in between; and a card on USB is steered by its controller's line.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

mod common;

use common::{assert_same, codes, interrupts, mask};
use linerate_vm::{Machine, Nic};

/// The card's packets arrive at the line of its host controller: that is what is moved.
#[test]
fn a_card_on_usb_is_steered_by_its_controllers_line() {
    const SCRIPT: &str = r#"
i=0
until [ -e /sys/class/net/usb0 ]; do
    i=$((i + 1)); [ $i -lt 100 ] || { echo "no usb0"; ls /sys/class/net; exit 92; }
    usleep 100000
done
ip link set eth0 name eth1
ip link set usb0 name eth0
peer
line=$(awk '/xhci/ { sub(":", "", $1); print $1; exit }' /proc/interrupts)
# No candidate moves a lone line for its own sake: this one names it, and we say where.
echo 2 >/proc/irq/$line/smp_affinity
echo $line >/out/line
state before
step plan linerate plan --candidate one-cpu -o /tmp/plan.toml
sed -i '/"irq-affinity"/,/^reason/s/^after = .*/after = "0"/' /tmp/plan.toml
cp /tmp/plan.toml /out/plan.toml
step apply linerate apply /tmp/plan.toml
state applied
pings
cat /proc/interrupts >/out/interrupts-1
pings
cat /proc/interrupts >/out/interrupts-2
step verify linerate verify /tmp/plan.toml
step rollback linerate rollback
state after
"#;
    let machine = Machine::new(2, &[Nic::E1000e, Nic::UsbNet]);
    let modules = ["xhci_pci", "usbnet", "cdc_ether", "e1000e"];
    let Some(outcome) = common::run(&machine, &common::contents(&modules, SCRIPT)) else { return };
    let codes = codes(&outcome);
    for step in ["plan", "apply", "verify", "rollback"] {
        assert_eq!(codes[step], 0, "{step}: {}", outcome.output);
    }
    let number: u32 = outcome.text("line").trim().parse().unwrap();
    let (before, applied) =
        (mask(&outcome.text("before"), number), mask(&outcome.text("applied"), number));
    assert_ne!(
        before,
        applied,
        "the controller's line was not moved: {}",
        outcome.text("plan.toml")
    );
    assert_eq!((before, applied), (2, 1), "{}", outcome.text("plan.toml"));
    assert_same(&outcome, "before", "after");
    let count = |file: &str| {
        let line = interrupts(&outcome.text(file)).into_iter().find(|l| l.number == number);
        line.unwrap().counts
    };
    let (one, two) = (count("interrupts-1"), count("interrupts-2"));
    assert!(two[0] > one[0] + 10, "the packets did not follow: {one:?} {two:?}");
}

/// Whatever changes the router is ended at random moments: `kill -9` of its whole process group,
/// SIGINT, SIGHUP, SIGTERM. What the next call leaves is compared with the state before, all of it.
/// LINERATE_VM_KILLS says how often.
#[test]
fn killed_at_random_moments_everything_is_as_before() {
    const SCRIPT: &str = r#"
full() {
    state now
    {
        cat /out/now
        grep -H '' /proc/irq/*/smp_affinity_list /sys/class/net/*/queues/*/* /sys/class/net/*/threaded \
            /sys/class/net/*/gro_flush_timeout /sys/class/net/*/napi_defer_hard_irqs
        for device in eth0 eth2; do ethtool -c $device; ethtool -g $device; ethtool -k $device; done
        ip link | sed 's,<.*>,,'
    } 2>/dev/null | grep -v -e /byte_queue_limits -e tx_timeout >$1
    rm /out/now
}
quick() { cat /proc/irq/*/smp_affinity /sys/class/net/*/queues/rx-*/rps_cpus /proc/sys/net/core/netdev_budget; }
peer
nsenter -t $peer -n iperf3 -s >/dev/null 2>&1 &
ip link set eth2 up
ip addr add 198.18.1.1/24 dev eth2
for n in $(lines_of eth0) $(lines_of eth2); do echo 1 >/proc/irq/$n/smp_affinity; done
linerate plan --candidate irq-spread -o /tmp/plan.toml >/out/planned 2>&1 || exit 96
grep -q 'name = "eth2"' /tmp/plan.toml ||
    printf '\n[[device]]\nname = "eth2"\nsysfs = "%s"\ndriver = "e1000e"\nrx_queues = 1\n' $(readlink -f /sys/class/net/eth2) >>/tmp/plan.toml
n=$(sed -n 's/^settings = //p' /tmp/plan.toml)
sed -i "s/^settings = $n/settings = $((n + 8))/" /tmp/plan.toml
more() { printf '\n[[setting]]\nknob = "%s"\n%s\nbefore = %s\nafter = %s\nreason = "a test"\n' "$1" "$2" "$3" "$4" >>/tmp/plan.toml; }
named='device = "eth2"
name = '
more coalesce "$named\"rx-usecs\"" 3 30
more ring "$named\"rx\"" 256 512
more offload "$named\"rx-gro\"" true false
more threaded-napi 'device = "eth2"' false true
more gro-flush-timeout 'device = "eth0"' 0 20000
more qdisc 'device = "eth2"' '"default"' '"fq"'
more sysctl 'name = "net.core.netdev_budget"' 300 600
# The kernel takes LRO from every card that has it (net/ipv4/devinet.c, inet_forward_change).
more sysctl 'name = "net.ipv4.ip_forward"' false true
lro() { ethtool -k eth0 | grep large-receive-offload >/out/lro-$1; }
cp /tmp/plan.toml /out/plan.toml
# What comes with the first use (modules, and their sysctls) is there before the first look.
modprobe -a veth nf_tables nft_masq nft_ct nft_chain_nat sch_fq || exit 92
nat="tune nat --rules 20 --blocks 3 --seconds 0.4 --omit 0.1 -P 2 --candidates one-cpu,rps-all --force -o /tmp/result.json"
here="tune --server 198.18.0.2 --apply --seconds 0.4 --omit 0.1 -P 2 --force -o /tmp/result.json --plan /tmp/best.toml"
linerate bench nat --seconds 0.1 --omit 0 -P 1 --direction up >/dev/null 2>&1
full /tmp/before
lro before
now() { read -r up _ </proc/uptime; echo ${up%.*}${up#*.}; }
for warm in 1 2; do
    from=$(now); linerate apply /tmp/plan.toml >/tmp/said 2>&1 || { cat /tmp/said; exit 95; }
    took=$(($(now) - from)); quick >/tmp/applied; lro applied; linerate rollback -q >/dev/null
    lro after
done
full /tmp/after; cmp /tmp/before /tmp/after || { diff /tmp/before /tmp/after; exit 93; }
quick >/tmp/quick
cp /tmp/before /out/before
i=0 wrong=0 cut=0 midway=0
bad() { wrong=$((wrong + 1)); echo "WRONG: $i, $signal to $verb: $*"; }
# is SECONDS COMMAND...: does it come true?
is() {
    tries=$(($1 * 10)); shift
    until "$@"; do tries=$((tries - 1)); [ $tries -gt 0 ] || return 1; usleep 100000; done
}
catches_int() {
    mask=$(sed -n 's/^SigCgt:[^0-9a-f]*//p' /proc/$victim/status 2>/dev/null)
    [ $((0x0${mask} & 2)) != 0 ]
}
ended() { ! kill -0 $victim 2>/dev/null; }
settled() { linerate rollback >/tmp/said 2>&1; }
alone() { ! pidof linerate >/dev/null; }
while [ $i -lt KILLS ]; do
    i=$((i + 1))
    verb="apply /tmp/plan.toml" most=$took
    case $((i % 7)) in
    1) linerate apply -q /tmp/plan.toml >/dev/null; verb=rollback ;;
    2) verb="apply --confirm 20 --no-probe /tmp/plan.toml" ;;
    3) verb=$nat most=500 ;;
    4) linerate apply -q --confirm 20 --no-probe /tmp/plan.toml >/dev/null; verb=confirm ;;
    5) verb=$here most=900 ;;
    6) linerate apply -q --confirm 20 --no-probe /tmp/plan.toml >/dev/null; verb=rollback ;;
    esac
    case $((RANDOM % 5)) in 0) signal=INT ;; 1) signal=HUP ;; 2) signal=TERM ;; *) signal=KILL ;; esac
    setsid linerate $verb >/tmp/verb 2>&1 &
    victim=$!
    if [ $((RANDOM % 2)) = 0 ]; then
        # Anywhere in its run, in hundredths of a second.
        usleep $(((RANDOM * 32768 + RANDOM) % (most * 10000 + 1)))
    else
        # Where it writes: that is short.
        n=0
        until [ -e /run/linerate/lock ] || [ $n -gt 200000 ]; do n=$((n + 1)); done
        usleep $((RANDOM % 40000))
    fi
    # What a shell starts in the background ignores SIGINT until it asks for it.
    if [ $signal = INT ] && ! catches_int; then signal=KILL; fi
    kill -$signal -$victim 2>/dev/null && cut=$((cut + 1))
    is 60 ended || { bad "it did not end: $(tail -n 3 /tmp/verb; cat /proc/$victim/task/*/wchan; ps)"; kill -9 -$victim; }
    wait $victim 2>/dev/null
    quick >/tmp/midway
    cmp -s /tmp/quick /tmp/midway || midway=$((midway + 1))
    # Either way of going on must do.
    case $((RANDOM % 3)) in 0) linerate lab down >/dev/null 2>&1 ;; 1) linerate status >/dev/null 2>&1 ;; esac
    is 30 settled || bad "rollback: $(cat /tmp/said)"
    is 30 alone || bad "it runs: $(ps | grep linerate)"
    full /tmp/after
    cmp -s /tmp/before /tmp/after || bad "$(diff /tmp/before /tmp/after)"
    [ ! -e /run/linerate ] || bad "left: $(ls -la /run/linerate)"
    if [ $wrong -gt 3 ]; then break; fi
done
cp /tmp/after /out/after
echo "$i $cut $midway $wrong" >/out/kills
"#;
    let kills = std::env::var("LINERATE_VM_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(14);
    let script = SCRIPT.replace("KILLS", &kills.to_string());
    let mut machine = Machine::new(4, &[Nic::Vmxnet3, Nic::Vmxnet3, Nic::E1000e]);
    machine.timeout += std::time::Duration::from_secs(20 * kills);
    let mut contents = common::contents(&["vmxnet3", "e1000e"], &script);
    contents.offer.push("sch_fq");
    for (name, program) in [("ethtool", "/usr/sbin/ethtool"), ("iperf3", "/usr/bin/iperf3")] {
        if !common::copy_program(&mut contents, name, program) {
            return common::skip(&format!("{program} is not here"));
        }
    }
    let Some(outcome) = common::run(&machine, &contents) else { return };
    assert_eq!(outcome.code, 0, "{}", outcome.output);
    let told: Vec<u64> =
        outcome.text("kills").split_whitespace().map(|n| n.parse().unwrap()).collect();
    let [done, cut, midway, wrong] = told[..] else { panic!("{}", outcome.output) };
    println!("{done} kills, {cut} in time, {midway} with settings changed, {wrong} wrong");
    assert_eq!((done, wrong), (kills, 0), "{}", outcome.output);
    assert!(cut >= kills / 5 && midway > 0, "the kills came too late: {cut}, {midway} of {kills}");
    assert_same(&outcome, "before", "after");
    let lro = |when: &str| outcome.text(&format!("lro-{when}")).trim().to_owned();
    assert_eq!(lro("before"), "large-receive-offload: on");
    assert_eq!(lro("applied"), "large-receive-offload: off", "ip_forward=1 turns it off");
    assert_eq!(lro("after"), lro("before"), "undone with what turned it off");
}

/// The wall clock goes back an hour and memory runs out while a change waits; CPUs go offline and a device is renamed
/// between plan, apply and rollback. And whatever becomes of the terminal, the gateway, the process or
/// /run, a change that waits is undone: LINERATE_VM_LATENESS says how often each is tried, and that the
/// machine is quiet enough for the times to mean something (docs/confirm.md).
#[test]
fn the_clock_cpus_and_names_may_change_in_between() {
    const SCRIPT: &str = r#"
peer
for n in $(lines_of eth0); do echo 1 >/proc/irq/$n/smp_affinity; done
linerate plan --candidate irq-spread -o /tmp/plan.toml
cp /tmp/plan.toml /out/plan.toml
state before

# The deadline does not move with the clock.
step waiting linerate apply --confirm 4 --no-probe /tmp/plan.toml
for guard in $(pidof linerate); do cat /proc/$guard/oom_score_adj; done >/out/oom
date -s @$(($(date +%s) - 3600)) >/dev/null
read -r from _ </proc/uptime
now=$from
# Memory runs out meanwhile: whoever takes it is ended, and no guard is.
tail /dev/zero >/dev/null 2>&1
echo "memory $?" >>/out/steps
while [ -e /run/linerate/deadman.json ]; do
    usleep 50000
    read -r now _ </proc/uptime
    [ $((${now%.*} - ${from%.*})) -lt 20 ] || break
done
while pidof linerate >/dev/null; do usleep 10000; done # the guard comes to its end
state after-clock
echo "${from%.*} ${now%.*}" >/out/clock
step too-late linerate confirm

# A CPU that the plan names goes away before it is applied: refused or made, never half.
echo 0 >/sys/devices/system/cpu/cpu3/online
state without-cpu
step apply-without-cpu linerate apply /tmp/plan.toml
step rollback-without-cpu linerate rollback
state after-without-cpu
echo 1 >/sys/devices/system/cpu/cpu3/online

# And after it was applied: the kernel had to move what was there, which is nobody's decision.
for n in $(lines_of eth0); do echo 1 >/proc/irq/$n/smp_affinity; done
state before-again
step apply linerate apply /tmp/plan.toml
echo 0 >/sys/devices/system/cpu/cpu3/online
step rollback linerate rollback
echo 1 >/sys/devices/system/cpu/cpu3/online
state after-again

# Renamed while the plan is in force; a second time it is up again, with handlers of the new name.
for again in 1 2; do
    step apply-$again linerate apply /tmp/plan.toml
    ip link set eth0 down
    ip link set eth0 name uplink0
    [ $again = 1 ] || ip link set uplink0 up
    step renamed-$again linerate rollback
    if [ $again = 1 ]; then
        # A line that is shut down takes no mask: listed, kept, and undone once it can be.
        ip link set uplink0 up
        step up-again linerate rollback
    fi
    step verify-renamed linerate verify /tmp/plan.toml
    ip link set uplink0 down
    ip link set uplink0 name eth0
    ip link set eth0 up
    state after-rename-$again
done

# An emulated CPU is slow: more at once would keep it busy, and that would be measured.
LATENESS_AT_ONCE=6 lateness.sh RUNS linerate >/out/lateness
echo "lateness $?" >>/out/steps
cat /out/lateness
"#;
    let asked = std::env::var("LINERATE_VM_LATENESS").ok().and_then(|n| n.parse::<u64>().ok());
    let runs = asked.unwrap_or(1);
    let mut machine = Machine::new(4, &[Nic::Vmxnet3, Nic::Vmxnet3]);
    machine.timeout += std::time::Duration::from_secs(60 + 10 * runs);
    let script = SCRIPT.replace("RUNS", &runs.to_string());
    let mut contents = common::contents(&["vmxnet3", "veth"], &script);
    let tool = linerate_vm::kernel::repository().join("scripts/lateness.sh");
    contents.copy(&tool, "bin/lateness.sh", 0o755).unwrap();
    // Busybox makes no pair of devices.
    if !common::copy_program(&mut contents, "ip", "/sbin/ip") {
        return common::skip("/sbin/ip is not here");
    }
    let Some(outcome) = common::run(&machine, &contents) else { return };
    let codes = codes(&outcome);
    let code = |step: &str| codes[step];
    assert_eq!((code("waiting"), code("too-late")), (0, 7), "{}", outcome.output);
    assert_eq!(outcome.text("oom"), "-1000\n-1000\n", "both guards are the last to be ended");
    assert_eq!(code("memory"), 137, "memory did not run out");
    let times: Vec<u64> =
        outcome.text("clock").split_whitespace().map(|n| n.parse().unwrap()).collect();
    assert!(times[1] - times[0] < 20, "{times:?}: it waited for the wall clock");
    assert_same(&outcome, "before", "after-clock");

    assert!([0, 2, 5, 7].contains(&code("apply-without-cpu")), "{}", outcome.output);
    assert_eq!(code("rollback-without-cpu"), 0, "{}", outcome.output);
    assert_same(&outcome, "without-cpu", "after-without-cpu");

    assert_eq!(code("apply"), 0, "{}", outcome.output);
    assert_eq!(code("rollback"), 0, "{}", outcome.output);
    assert_same(&outcome, "before-again", "after-again");

    assert_ne!(code("verify-renamed"), 0, "{}", outcome.output);
    let said = outcome.text("verify-renamed.out") + &outcome.text("verify-renamed.err");
    assert!(said.contains("eth0"), "{said}");
    let masks = |state: &str| -> Vec<String> {
        let text = outcome.text(state);
        text.lines().filter(|l| l.starts_with("/proc/irq/")).map(str::to_owned).collect()
    };
    assert_eq!([code("up-again"), code("renamed-2")], [0, 0], "{}", outcome.output);
    assert!([0, 8].contains(&code("renamed-1")), "{}", outcome.output);
    for again in ["1", "2"] {
        assert_eq!(masks("before-again"), masks(&format!("after-rename-{again}")), "{again}");
    }

    let table = outcome.text("lateness");
    let runs = format!("| {runs} |");
    assert_eq!(table.matches(&runs).count(), 7, "undone each time: {table}");
    if asked.is_some() {
        assert_eq!(code("lateness"), 0, "later than a second after the deadline: {table}");
    }
}
