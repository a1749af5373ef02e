//! `persist` on a real systemd with a real udev: over reboots, for a card that is plugged in, for a
//! card that gets its interrupt lines when it is brought up, for a device that is renamed into place.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

mod common;

use std::time::Duration;

use common::codes;
use linerate_vm::{Error, System};

const SCRIPT: &str = r#"
step() {
    name=$1; shift
    "$@" >/out/$name.out 2>/out/$name.err
    code=$?
    echo "$name $code" >>/out/steps
    echo "step $name: $code, $(cut -d' ' -f1 /proc/uptime) s"; cat /out/$name.err
}
# The name that udev gave to the card of that driver; nothing without one.
card() {
    for entry in /sys/class/net/*; do
        [ "$(basename "$(readlink -f $entry/device/driver 2>/dev/null)")" != "$1" ] || basename $entry
    done
}
until_is() { # until_is SECONDS COMMAND...: does it come true?
    tries=$(($1 * 10)); shift
    until "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || { echo "never: $*"; return 1; }
        sleep 0.1
    done
}
has_card() { [ -n "$(card $1)" ] && [ -e /run/udev/data/n$(cat /sys/class/net/$(card $1)/ifindex) ]; }
no_card() { [ -z "$(card $1)" ]; }
in_force() { linerate verify >/tmp/v && grep -q "^$1 .*in force" /tmp/v && ! grep "$2" /tmp/v | grep -q pending; }
plug_in() {
    request '{"execute":"device_add","arguments":{"driver":"virtio-net-pci","id":"hot'$boot'","netdev":"n1","bus":"rp0","romfile":""}}'
    until_is 30 has_card virtio_net || finish 90
    udevadm settle
}
etc() {
    find /etc /usr/lib/udev/rules.d -printf '%p %y %m %l\n' | sort
    find /etc -type f -exec md5sum {} + | sort
}
case $boot in
1)
    plug_in
    fixed=$(card e1000e) hot=$(card virtio_net)
    echo "$fixed $hot" >/var/test/cards
    ip link set $fixed up
    ip link set $hot up
    step plan linerate plan --candidate irq-spread-rps -o /root/plan.toml
    # The planner may or may not have taken it.
    ! grep -q "\"$fixed\"" /root/plan.toml || finish 92
    n=$(sed -n 's/^settings = //p' /root/plan.toml)
    # Whatever the planner thought of it: a card whose line comes and goes with `up` and `down`.
    sed -i "s/^settings = $n/settings = $((n + 3))/" /root/plan.toml
    cat >>/root/plan.toml <<O

[[device]]
name = "$fixed"
sysfs = "$(readlink -f /sys/class/net/$fixed)"
driver = "e1000e"
rx_queues = 1

[[setting]]
knob = "irq-affinity"
device = "$fixed"
queue = 0
role = "rx"
before = "0-1"
after = "1"
reason = "a line that comes when the card is brought up"

[[setting]]
knob = "rps-cpus"
device = "$fixed"
queue = 0
before = "none"
after = "0"
reason = "a queue that is there from the start"

[[device]]
name = "late0"
sysfs = "/sys/devices/virtual/net/late0"
driver = ""
rx_queues = 1

[[setting]]
knob = "rps-cpus"
device = "late0"
queue = 0
before = "none"
after = "1"
reason = "a link that is dialled later"
O
    cp /root/plan.toml /out/
    ip link set $fixed down
    for slot in /sys/bus/pci/slots/*/power; do echo 0 >$slot; done
    until_is 30 no_card virtio_net || finish 91
    etc >/out/etc-before
    step strict linerate verify /root/plan.toml
    step print linerate persist --print /root/plan.toml
    etc >/out/etc-printed
    step persist linerate persist /root/plan.toml
    step again linerate apply --persist --pending /root/plan.toml
    step status-1 linerate status
    sync
    systemctl reboot
    ;;
2)
    read -r fixed hot </var/test/cards
    # Nothing of the boot waits for it, so it may be at work still.
    until_is 10 linerate verify
    step verify-booted linerate verify
    cat /sys/class/net/$fixed/queues/rx-0/rps_cpus >/out/rps-booted
    ip link set $fixed up
    cut -d' ' -f1 /proc/uptime
    until_is 10 in_force "IRQ affinity of $fixed" "$fixed"
    cut -d' ' -f1 /proc/uptime
    step verify-up linerate verify
    plug_in
    ip link set $hot up
    cut -d' ' -f1 /proc/uptime
    until_is 20 in_force "IRQ affinity of $hot" "$hot"
    cut -d' ' -f1 /proc/uptime
    step verify-plugged linerate verify
    ip link add tmp0 type veth peer name tmp1
    ip link set tmp0 name late0
    until_is 10 in_force "RPS of late0" late0
    step verify-renamed linerate verify
    cat /sys/class/net/late0/queues/rx-0/rps_cpus >/out/rps-late
    step status-2 linerate status
    systemctl --failed --no-legend --plain >/out/failed
    dmesg | grep linerate: >/out/log
    cat /etc/linerate/guard.json >/out/guard
    step unpersist linerate unpersist
    etc >/out/etc-after
    sync
    systemctl reboot
    ;;
3)
    read -r fixed hot </var/test/cards
    sleep 1
    etc >/out/etc-last
    cat /sys/class/net/$fixed/queues/rx-0/rps_cpus >/out/rps-last
    { ls -d /etc/linerate /run/linerate; systemctl list-unit-files --no-legend | grep linerate; } >/out/left 2>/dev/null
    finish 0
    ;;
esac
"#;

#[test]
fn a_persisted_plan_outlasts_reboots_reaches_what_comes_later_and_goes_without_a_trace() {
    let binary = common::program();
    let words = [
        "-netdev hubport,id=n0,hubid=0 -device e1000e,netdev=n0,romfile=",
        "-netdev hubport,id=n1,hubid=0",
        "-device pcie-root-port,id=rp0,chassis=1,slot=1",
    ];
    let system = System {
        files: vec![("usr/bin/linerate".into(), 0o755, binary)],
        script: SCRIPT.into(),
        devices: words.join(" ").split(' ').map(str::to_owned).collect(),
        boots: 3,
        timeout: Duration::from_secs(600),
    };
    let outcome = match system.run() {
        Ok(outcome) => outcome,
        Err(Error::Unavailable(why)) => return common::skip(&why),
        Err(Error::Failed(why)) => panic!("{why}"),
    };
    common::told(&outcome);
    let codes = codes(&outcome);
    for step in ["plan", "print", "persist", "again", "status-1", "verify-booted", "verify-up"] {
        assert_eq!(codes.get(step), Some(&0), "{step}: {}", outcome.output);
    }
    for step in ["verify-plugged", "verify-renamed", "status-2", "unpersist"] {
        assert_eq!(codes.get(step), Some(&0), "{step}: {}", outcome.output);
    }
    // A card that is soldered on, to all that is known, must be here for a plan that is not persisted.
    assert_eq!(codes["strict"], 3, "{}", outcome.text("strict.out"));

    let (booted, up) = (outcome.text("verify-booted.out"), outcome.text("verify-up.out"));
    let fixed_card = outcome.text("plan.toml");
    assert!(fixed_card.contains("driver = \"e1000e\""), "{fixed_card}");
    assert!(booted.contains("pending"), "the card that is out is not called pending: {booted}");
    assert!(
        up.lines().filter(|l| l.contains("pending")).count()
            < booted.lines().filter(|l| l.contains("pending")).count()
    );
    let all = outcome.text("verify-renamed.out");
    assert!(!all.contains("pending") && !all.contains("drifted"), "{all}");
    assert!(all.contains("IRQ affinity of") && all.contains("RPS of late0"), "{all}");
    assert_ne!(outcome.text("rps-booted").trim().trim_matches('0'), "", "nothing was set at boot");
    assert!(outcome.text("rps-late").trim().ends_with('2'), "CPU 1: {}", outcome.text("rps-late"));
    assert!(outcome.text("log").contains("linerate: event late0"), "{}", outcome.text("log"));
    assert!(outcome.text("guard").contains("\"short_boots\":0"), "{}", outcome.text("guard"));
    assert_eq!(outcome.text("failed"), "", "units failed");

    let before = outcome.text("etc-before");
    assert!(before.lines().count() > 100, "{before}");
    assert_eq!(before, outcome.text("etc-printed"), "--print wrote something");
    assert_eq!(before, outcome.text("etc-after"), "unpersist left something");
    assert_eq!(before, outcome.text("etc-last"));
    assert_eq!(outcome.text("left"), "");
    assert_eq!(
        outcome.text("rps-last").trim().trim_matches('0'),
        "",
        "set without being persisted"
    );
}

/// A router that dials in over a VLAN, its provider at the other end of the cable (a namespace with
/// the second card). Then two boots that are cut short.
const DIALLED: &str = r#"
rps() { tr -d 0, </sys/class/net/$1/queues/rx-0/rps_cpus 2>/dev/null; }
steered() { for device in "$@"; do [ "$(rps $device)" = 2 ] || return 1; done; }
all_in_force() { linerate verify >/tmp/v && ! grep -q pending /tmp/v; }
pending() { linerate verify >/tmp/v && grep -q pending /tmp/v; }
here() { [ -e /sys/class/net/$1 ]; }
gone() { [ ! -e /sys/class/net/$1 ]; }
log_has() { dmesg | grep -q "$1"; }
counted() { grep -q "\"short_boots\":$1" /etc/linerate/guard.json; }
lines() { # the names that udev gave to the two cards
    for boot_try in $(seq 300); do
        set -- $(card e1000e)
        [ $# -lt 2 ] || break
        sleep 0.1
    done
    udevadm settle
    set -- $(card e1000e)
    wan=$1 isp=$2
}
ports() {
    lines
    modprobe -a 8021q pppoe ppp_async veth nf_flow_table nf_flow_table_inet nft_flow_offload || finish 94
    ip link add lan0 type veth peer name host0
    ip link set lan0 up
    ip link set $wan up
    ip link add link $wan name $wan.7 type vlan id 7
    ip link set $wan.7 up
}
provider() {
    ip netns add isp
    ip link set $isp netns isp
    ip -n isp link set $isp up
    ip -n isp link add link $isp name isp.7 type vlan id 7
    ip -n isp link set isp.7 up
    printf 'noauth\nnovj\nnoccp\n' >/root/server-options
    ip netns exec isp pppoe-server -F -I isp.7 -L 198.18.0.1 -R 198.18.0.2 -N 4 -O /root/server-options >/tmp/server 2>&1 &
}
dial() { # dial NAME: what it takes until all is as planned goes to times
    pppd plugin $(cd /usr/lib/pppd/* && ls pppoe.so rp-pppoe.so 2>/dev/null | head -n 1) nic-$wan.7 \
        ifname pppoe-wan nodetach noauth user test password test mtu 1492 mru 1492 \
        noipdefault nodefaultroute novj noccp logfd 2 >/tmp/pppd-$1 2>&1 &
    dialled=$!
    until_is 60 here pppoe-wan || { cat /tmp/pppd-$1 /tmp/server; finish 95; }
    began=$(cut -d' ' -f1 /proc/uptime)
    until_is 60 steered pppoe-wan $wan || { cat /tmp/pppd-$1; linerate verify; dmesg | tail -n 20; finish 96; }
    echo "$1: $began to $(cut -d' ' -f1 /proc/uptime)" | tee -a /out/times
    until_is 60 all_in_force
    step $1 linerate verify
}
case $boot in
1)
    ports
    cat >/root/plan.toml <<O
format = "linerate-plan"
version = 1
name = "test"
title = "a dialled line"
reason = "a test"
hostname = "guest"
cpus = "0-1"
settings = 3

[[device]]
name = "$wan"
sysfs = "$(readlink -f /sys/class/net/$wan)"
driver = "e1000e"
rx_queues = 1

[[device]]
name = "lan0"
sysfs = "/sys/devices/virtual/net/lan0"
driver = ""
rx_queues = 1

[[device]]
name = "pppoe-wan"
sysfs = "/sys/devices/virtual/net/pppoe-wan"
driver = ""
rx_queues = 1

[[setting]]
knob = "rps-cpus"
device = "$wan"
queue = 0
before = "none"
after = "1"
reason = "the port under the line"

[[setting]]
knob = "rps-cpus"
device = "pppoe-wan"
queue = 0
before = "none"
after = "1"
reason = "the line"

[[setting]]
knob = "flow-offload"
before = "off"
after = "software lan0 pppoe-wan"
reason = "names a line that is down"
O
    cp /root/plan.toml /out/
    step persist linerate persist /root/plan.toml
    sync
    systemctl reboot
    ;;
2)
    ports
    provider
    until_is 60 steered $wan
    until_is 60 pending
    step waiting linerate verify
    # What a driver forgets when its port goes down and up.
    echo 0 >/sys/class/net/$wan/queues/rx-0/rps_cpus
    dial first
    kill $dialled
    until_is 60 gone pppoe-wan
    until_is 60 pending
    step hung-up linerate verify
    echo 0 >/sys/class/net/$wan/queues/rx-0/rps_cpus
    dial again
    step status linerate status
    cat /etc/linerate/guard.json
    sync
    systemctl reboot
    ;;
3)
    ports
    until_is 60 steered $wan
    until_is 60 counted 1
    cat /etc/linerate/guard.json
    sync
    systemctl reboot
    ;;
4)
    ports
    until_is 60 log_has 'persisted settings are skipped'
    dmesg | grep linerate: >/out/log
    linerate event -- $wan
    rps $wan >/out/rps-skipped
    step skipped linerate status
    step persist-again linerate persist /etc/linerate/plan.toml
    linerate event -- $wan
    rps $wan >/out/rps-again
    step unpersist linerate unpersist
    step rollback linerate rollback
    rps $wan >/out/rps-last
    { ls -d /etc/linerate /run/linerate; ls /etc/systemd/system /etc/udev/rules.d | grep linerate; } >/out/left 2>/dev/null
    finish 0
    ;;
esac
"#;

#[test]
fn a_dialled_line_is_served_each_time_it_comes_up_and_two_short_boots_are_enough() {
    let functions = SCRIPT.split("case $boot in").next().unwrap();
    let words = [
        "-netdev hubport,id=n0,hubid=0 -device e1000e,netdev=n0,romfile=",
        "-netdev hubport,id=n1,hubid=0 -device e1000e,netdev=n1,romfile=",
    ];
    let system = System {
        files: vec![("usr/bin/linerate".into(), 0o755, common::program())],
        script: format!("{functions}{DIALLED}"),
        devices: words.join(" ").split(' ').map(str::to_owned).collect(),
        boots: 4,
        timeout: Duration::from_secs(600),
    };
    let outcome = match system.run() {
        Ok(outcome) => outcome,
        Err(Error::Unavailable(why)) => return common::skip(&why),
        Err(Error::Failed(why)) => panic!("{why}"),
    };
    common::told(&outcome);
    let codes = codes(&outcome);
    let all = ["persist", "waiting", "first", "hung-up", "again", "status", "skipped"];
    for step in all.iter().chain(&["persist-again", "unpersist", "rollback"]) {
        assert_eq!(codes.get(*step), Some(&0), "{step}: {}", outcome.output);
    }
    // The line is down: it waits, and the flowtable has the others.
    for waits in ["waiting.out", "hung-up.out"] {
        let waits = outcome.text(waits);
        assert!(waits.contains("pending: pppoe-wan is not here"), "{waits}");
        assert!(waits.contains("software lan0 "), "{waits}");
    }
    for up in ["first.out", "again.out"] {
        let up = outcome.text(up);
        assert!(up.contains("all 3 settings are in force") && !up.contains("pending"), "{up}");
        assert!(up.contains("pppoe-wan"), "{up}");
    }
    assert_eq!(outcome.text("times").lines().count(), 2, "{}", outcome.text("times"));

    let skipped = "persisted settings are skipped: twice in a row the machine did not stay up";
    assert!(outcome.text("log").contains(skipped), "{}", outcome.text("log"));
    assert!(outcome.text("skipped.out").contains(skipped), "{}", outcome.text("skipped.out"));
    assert_eq!(outcome.text("rps-skipped").trim(), "", "set although it is skipped");
    assert_eq!(outcome.text("rps-again").trim(), "2", "persisted again, and still skipped");
    assert_eq!((outcome.text("rps-last").trim(), outcome.text("left").trim()), ("", ""));
}
