//! `persist` on a real systemd with a real udev and irqbalance: over reboots, for a card that is plugged in, for a
//! card that gets its interrupt lines when it is brought up, for a device that is renamed into place.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests"
)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use common::{changed, codes};
use linerate_vm::{Error, Outcome, System};
use serde_json::Value;

const SCRIPT: &str = r#"
export COLUMNS=200
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
# The real daemon, which looks every so many seconds. It places lines when it starts, too, but for
# those that a script of policy bans.
balanced() { # balanced SECONDS [OPTION]
    echo "IRQBALANCE_ARGS=--interval=$1${2:+ $2}" >/etc/default/irqbalance
    systemctl restart irqbalance || finish 97
}
balancer() { echo "$(systemctl is-enabled irqbalance) $(systemctl is-active irqbalance)"; }
masks() { grep -H '' /proc/irq/*/smp_affinity /sys/class/net/*/queues/*/rps_cpus; }
masks_differ() { masks >/tmp/masks; ! cmp -s /tmp/masks $1; }
as_booted() { while IFS=: read -r file mask; do echo $mask >$file; done 2>/dev/null </tmp/booted; }
listens() { ip netns exec far ss -ltn | grep -q :5201; }
drifted() { ! linerate verify -q /root/spread.toml; }
unchanged() { linerate status | grep -q 'nothing'; }
stopped() { [ "$(systemctl is-active irqbalance)" = inactive ]; }
CALLS=open,openat,creat,write,pwrite64,writev,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,symlink,symlinkat,link,linkat,chmod,fchmod,fchmodat,truncate,ftruncate
watched() { # watched NAME COMMAND...: what it writes to, its children too
    name=$1; shift
    step $name strace -f -y -s 8 -e trace=$CALLS -o /out/strace-$name "$@"
}
# From the kernel's event to the settings, for whoever looks at the output.
timeline() {
    { cat /tmp/uevents; journalctl -b -o short-monotonic --no-pager; } |
        grep -e '^KERNEL' -e linerate -e run-r -e irqbalance >/out/timeline
}
# Every kind of setting inside the sandbox of what the units and the rule start, and back.
kinds() {
    printf '#!/bin/sh\necho ban=true\n' >/root/bans
    chmod +x /root/bans
    balanced 600 --policyscript=/root/bans
    words=$(sed -n 's,.*--quiet --collect \(.*\) -- /usr/.*,\1,p' /tmp/rules)
    echo "$words" >/out/sandbox
    linerate plan --sample 0 --candidate irq-spread-rps -o /root/kinds.toml
    grep -q "^name = \"$fixed\"" /root/kinds.toml ||
        printf '\n[[device]]\nname = "%s"\nsysfs = "%s"\ndriver = "e1000e"\nrx_queues = 1\n' $fixed $(readlink -f /sys/class/net/$fixed) >>/root/kinds.toml
    more coalesce 'name = "rx-usecs"' 3 30
    more ring 'name = "rx"' 256 512
    more offload 'name = "rx-gro"' true false
    more gro-flush-timeout '' 0 20000
    more napi-defer-hard-irqs '' 0 2
    more threaded-napi '' false true
    more napi-thread 'queue = 0' '"0-1"' '"1"'
    more qdisc '' '"default"' '"fq"'
    more sysctl 'name = "net.core.netdev_budget"' 300 600
    more sysctl 'name = "net.ipv4.ip_forward"' false true
    cat /proc/sys/net/core/netdev_budget >/tmp/first
    n=$(grep -c '^\[\[setting\]\]' /root/kinds.toml)
    sed -i "s/^settings = .*/settings = $n/" /root/kinds.toml
    cp /root/kinds.toml /out/
    linerate show knobs --json >/out/knobs-before
    step kinds sandboxed linerate apply /root/kinds.toml
    linerate show knobs --json >/out/knobs-during
    step kinds-back sandboxed linerate rollback
    linerate show knobs --json >/out/knobs-after
}
sandboxed() { eval "systemd-run --wait --quiet --collect --pipe $words -- $*"; }
more() {
    device="device = \"$fixed\""
    [ $1 != sysctl ] || device=
    printf '\n[[setting]]\nknob = "%s"\n%s\n%s\nbefore = %s\nafter = %s\nreason = "a test"\n' "$1" "$device" "$2" "$3" "$4" >>/root/kinds.toml
}
as_first() { [ "$(cat $1)" = "$(cat /tmp/first)" ]; }
is_gone() { [ ! -e $1 ]; }
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
    # What `systemctl enable` does, without its minutes of Perl.
    ln -s /lib/systemd/system/irqbalance.service /etc/systemd/system/multi-user.target.wants/
    masks >/tmp/booted
    balanced 1
    until_is 60 masks_differ /tmp/booted
    step check linerate check --json irqbalance
    balanced 600
    as_booted
    step spread linerate plan --candidate irq-spread -o /root/spread.toml
    masks >/out/masks-before
    balancer >/out/balancer-before
    linerate apply --dry-run --json /root/spread.toml >/out/dry
    watched apply linerate apply /root/spread.toml
    masks >/out/masks-applied
    balancer >/out/balancer-applied
    watched apply-again linerate apply /root/spread.toml
    step verify-applied linerate verify /root/spread.toml
    watched rollback linerate rollback
    masks >/out/masks-after
    balancer >/out/balancer-after
    # Somebody starts it behind our back, and it does what it does.
    linerate apply -q /root/spread.toml
    balanced 1
    # It might find the very same placement.
    until_is 30 drifted || as_booted
    step verify-fought linerate verify /root/spread.toml
    step check-fought linerate check --json irqbalance
    balanced 600
    step rollback-fought linerate rollback --force
    # As a level of an experiment on this router itself; killed while it is stopped, too.
    ip netns add far
    ip link add near0 type veth peer name far0 netns far
    ip addr add 198.18.0.1/24 dev near0
    ip link set near0 up
    ip -n far addr add 198.18.0.2/24 dev far0
    ip -n far link set lo up
    ip -n far link set far0 up
    ip netns exec far iperf3 -s >/tmp/iperf3 2>&1 &
    server=$!
    until_is 60 listens
    tune="linerate tune --server 198.18.0.2 --factor irqbalance=off,on --directions down --seconds 0.4 --omit 0.1 -P 1 --seed 1"
    step tune $tune --blocks 1 -o /out/tuned.json
    balancer >/out/balancer-tuned
    setsid $tune --blocks 1000 -o /tmp/tuned.json >/dev/null 2>&1 &
    tune=$!
    until_is 60 stopped
    kill -KILL -$tune
    until_is 60 systemctl is-active irqbalance
    until_is 60 unchanged
    balancer >/out/balancer-killed
    kill $server
    ip netns del far
    as_booted
    step plan linerate plan --candidate irq-spread-rps -o /root/plan.toml
    balanced 1
    # The planner may or may not have taken it: a card whose line comes and goes with `up` and `down`.
    awk -v RS= -v ORS='\n\n' -v name="\"$fixed\"" '!index($0, name)' /root/plan.toml >/root/others.toml
    n=$(grep -c '^\[\[setting\]\]' /root/others.toml)
    sed "s/^settings = .*/settings = $((n + 3))/" /root/others.toml >/root/plan.toml
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
    watched persist linerate persist /root/plan.toml
    step again linerate apply --persist --pending /root/plan.toml
    step status-1 linerate status
    sync
    systemctl reboot
    ;;
2)
    read -r fixed hot </var/test/cards
    udevadm monitor --kernel --subsystem-match=net >/tmp/uevents 2>&1 &
    # Nothing of the boot waits for it, so it may be at work still.
    until_is 60 stopped
    balancer >/out/balancer-booted
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
    journalctl -b -o cat --no-pager _COMM=linerate >/out/log
    timeline
    cat /etc/linerate/guard.json >/out/guard
    cp /etc/udev/rules.d/90-linerate.rules /tmp/rules
    step unpersist linerate unpersist
    etc >/out/etc-after
    step undo linerate rollback --force
    balancer >/out/balancer-undone
    kinds
    # As whoever sits at the console: the guard is killed, and systemd's timer undoes.
    step guarded linerate apply --confirm 20 --no-probe /root/kinds.toml
    systemctl list-timers --no-legend 'linerate-undo-*' >/out/timers
    kill -KILL $(pgrep -x linerate)
    cat /proc/sys/net/core/netdev_budget >/out/budget-waiting
    until_is 90 as_first /proc/sys/net/core/netdev_budget
    until_is 60 is_gone /run/linerate/lock
    step undone linerate status
    step too-late linerate confirm
    linerate show knobs --json >/out/knobs-undone
    balanced 1
    systemctl list-timers --no-legend 'linerate-undo-*' >/out/timers-after
    sync
    systemctl reboot
    ;;
3)
    read -r fixed hot </var/test/cards
    until_is 60 systemctl is-active irqbalance
    balancer >/out/balancer-last
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
        timeout: Duration::from_secs(1200),
    };
    let outcome = match system.run() {
        Ok(outcome) => outcome,
        Err(Error::Unavailable(why)) => return common::skip(&why),
        Err(Error::Failed(why)) => panic!("{why}"),
    };
    common::told(&outcome);
    println!("{}", outcome.text("timeline"));
    let codes = codes(&outcome);
    for step in ["plan", "print", "persist", "again", "status-1", "verify-booted", "verify-up"] {
        assert_eq!(codes.get(step), Some(&0), "{step}: {}", outcome.output);
    }
    for step in ["verify-plugged", "verify-renamed", "status-2", "unpersist"] {
        assert_eq!(codes.get(step), Some(&0), "{step}: {}", outcome.output);
    }
    taken_over_and_given_back(&outcome);
    written_inside_the_sandbox(&outcome);
    nothing_else_is_written(&outcome);
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
    assert!(outcome.text("log").contains("event late0"), "{}", outcome.text("log"));
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

/// Settings by the knob's JSON: its kind, and its value.
type Knobs = BTreeMap<String, (String, Value)>;

/// Settings by `show knobs --json`, threads of NAPI apart: each with its value.
fn knobs(outcome: &Outcome, file: &str) -> Knobs {
    let told: Value = serde_json::from_str(&outcome.text(file)).unwrap();
    let items = told["knobs"].as_array().unwrap().iter();
    let one = |item: &Value| {
        let kind = item["knob"]["kind"].as_str().unwrap().to_owned();
        (item["knob"].to_string(), (kind, item["now"].clone()))
    };
    // A thread stays when its device is polled in none any more.
    items.map(one).filter(|(_, (kind, _))| kind != "napi-thread").collect()
}

/// Settings that are in one look and not the same in the other.
fn differing<'a>(one: &'a Knobs, other: &'a Knobs) -> BTreeSet<&'a str> {
    let knobs = one.keys().chain(other.keys());
    knobs.filter(|knob| one.get(*knob) != other.get(*knob)).map(String::as_str).collect()
}

/// That the settings of a later look are those of before, or which are not, each with both values.
fn as_before(before: &Knobs, outcome: &Outcome, file: &str) {
    let later = knobs(outcome, file);
    let told = differing(before, &later).into_iter().map(|knob| {
        format!("{knob}: {:?} before, {:?} in {file}", before.get(knob), later.get(knob))
    });
    let told: Vec<String> = told.collect();
    assert!(told.is_empty(), "{}", told.join("\n"));
}

/// What the units and udev's rule start can set whatever a plan can, and undo it; and a change whose
/// guard was killed is undone by systemd's timer.
fn written_inside_the_sandbox(outcome: &Outcome) {
    let codes = codes(outcome);
    assert!(
        outcome.text("sandbox").contains("ProtectSystem=strict"),
        "{}",
        outcome.text("sandbox")
    );
    for (step, code) in
        [("kinds", 0), ("kinds-back", 0), ("guarded", 0), ("undone", 0), ("too-late", 7)]
    {
        let said = outcome.text(&format!("{step}.err"));
        assert_eq!(codes.get(step), Some(&code), "{step}: {said}\n{}", outcome.text("kinds.toml"));
    }
    let [before, during] = ["knobs-before", "knobs-during"].map(|file| knobs(outcome, file));
    let moved = differing(&before, &during);
    let changed: BTreeSet<&str> =
        moved.iter().filter_map(|knob| Some(during.get(*knob)?.0.as_str())).collect();
    for kind in [
        "irq-affinity",
        "rps-cpus",
        "coalesce",
        "ring",
        "offload",
        "gro-flush-timeout",
        "napi-defer-hard-irqs",
        "threaded-napi",
        "qdisc",
        "sysctl",
        "service",
    ] {
        assert!(changed.contains(kind), "{kind} was not set: {changed:?}");
    }
    as_before(&before, outcome, "knobs-after");
    assert_eq!(outcome.text("timers").lines().count(), 1, "{}", outcome.text("timers"));
    assert_eq!(outcome.text("budget-waiting").trim(), "600");
    let said = outcome.text("undone.out");
    assert!(said.contains("not confirmed in time:"), "{said}");
    as_before(&before, outcome, "knobs-undone");
    assert_eq!(outcome.text("timers-after"), "");
}

/// The real irqbalance: stopped by a plan that moves interrupts, named when somebody starts it again,
/// as it was (enabled, and running) by rolling back; stopped after a reboot too, though systemd
/// starts it.
fn taken_over_and_given_back(outcome: &Outcome) {
    let codes = codes(outcome);
    let of = |name: &str| outcome.text(name).trim().to_owned();
    for step in ["check", "spread", "apply", "verify-applied", "check-fought", "rollback", "undo"] {
        assert_eq!(codes.get(step), Some(&0), "{step}: {}", outcome.output);
    }
    for step in ["check", "check-fought"] {
        let told = of(&format!("{step}.out"));
        assert!(told.contains("irqbalance moves interrupts"), "{step}: {told}");
    }
    for time in ["before", "after", "tuned", "killed", "undone", "last"] {
        assert_eq!(of(&format!("balancer-{time}")), "enabled active", "{time}");
    }
    for time in ["applied", "booted"] {
        assert_eq!(of(&format!("balancer-{time}")), "enabled inactive", "{time}");
    }
    assert_ne!(of("masks-before"), of("masks-applied"), "apply moved nothing");
    assert_eq!(of("masks-before"), of("masks-after"));
    assert_eq!((codes["verify-fought"], codes["rollback-fought"]), (3, 0), "{}", outcome.output);
    assert!(of("verify-fought.out").contains("irqbalance"), "{}", of("verify-fought.out"));
    // One block shows nothing, which is said (exit 6).
    assert!([0, 6].contains(&codes["tune"]), "{}", outcome.output);
    let tuned: Value = serde_json::from_str(&of("tuned.json")).unwrap();
    for (level, runs) in [("irqbalance=off", "0"), ("irqbalance=on", "1")] {
        let cells = tuned["cells"].as_array().unwrap().iter();
        let mut cells = cells.filter(|cell| cell["candidate"] == level).peekable();
        assert!(cells.peek().is_some(), "{level} was not measured: {}", outcome.output);
        for cell in cells {
            let settings = cell["measurement"]["settings"].as_array().unwrap();
            let service = settings.iter().find(|s| s["name"] == "service irqbalance").unwrap();
            assert_eq!(service["text"], runs, "{level}");
        }
    }
}

/// As `strace` saw it: apply writes what its dry run said and its own state, persist what `--print`
/// said, and a second apply nothing.
fn nothing_else_is_written(outcome: &Outcome) {
    let of = |name: &str| changed(&outcome.text(&format!("strace-{name}")));
    // Its own state, and the line in the system's log.
    let ours = |path: &&String| {
        ["/run/linerate", "/etc/linerate", "/dev/kmsg"].iter().any(|own| path.starts_with(own))
    };
    let dry: Value = serde_json::from_str(&outcome.text("dry")).unwrap();
    let told: BTreeSet<String> = dry["writes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|w| w["path"].as_str().unwrap().to_owned())
        .collect();
    assert!(told.len() > 2, "{told:?}");
    let service = String::from("service/irqbalance");
    assert!(told.contains(&service), "{told:?}");
    let done: BTreeSet<String> = of("apply").into_iter().filter(|p| !ours(&p)).collect();
    assert_eq!(done, told.iter().filter(|p| **p != service).cloned().collect());
    let again: BTreeSet<String> = of("apply-again").into_iter().filter(|p| !ours(&p)).collect();
    assert_eq!(again, BTreeSet::new(), "a second apply wrote something");
    let back: BTreeSet<String> = of("rollback").into_iter().filter(|p| !ours(&p)).collect();
    assert_eq!(back, done, "rollback writes what apply wrote");

    let printed = outcome.text("print.out");
    let headings: BTreeSet<&str> =
        printed.lines().filter_map(|l| l.strip_prefix("==> ")?.split(' ').next()).collect();
    let named: BTreeSet<String> = of("persist").into_iter().filter(|p| !ours(&p)).collect();
    let strange: Vec<_> = named
        .iter()
        .filter(|path| {
            // Beside each file, until it takes its name.
            let (directory, name) = path.rsplit_once('/').unwrap();
            let name = name.strip_prefix('.').map_or(name, |n| {
                n.trim_end_matches(".linerate-new").trim_end_matches(".linerate-old")
            });
            let file = format!("{directory}/{name}");
            !headings.contains(file.as_str())
                && !headings.iter().any(|h| h.starts_with(&format!("{file}/")))
        })
        .collect();
    assert!(strange.is_empty(), "persist wrote {strange:?} too");
    assert!(named.contains("/etc/udev/rules.d/90-linerate.rules"), "{named:?}");
}

/// A router that dials in over a VLAN, its provider at the other end of the cable (a namespace with
/// the second card). Then two boots that are cut short. Then a flash without room, and power cuts in
/// the middle of what writes to it: LINERATE_VM_CUTS says how many.
const DIALLED: &str = r#"
export COLUMNS=200
rps() { tr -d 0, </sys/class/net/$1/queues/rx-0/rps_cpus 2>/dev/null; }
steered() { for device in "$@"; do [ "$(rps $device)" = 2 ] || return 1; done; }
all_in_force() { linerate verify >/tmp/v && ! grep -q pending /tmp/v; }
pending() { linerate verify >/tmp/v && grep -q pending /tmp/v; }
here() { [ -e /sys/class/net/$1 ]; }
gone() { [ ! -e /sys/class/net/$1 ]; }
log_has() { journalctl -b -o cat --no-pager | grep -q "$1"; }
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
    udevadm monitor --kernel --subsystem-match=net >/tmp/uevents 2>&1 &
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
    timeline
    # What one costs, by the kernel's accounts.
    (for try in 1 2 3 4 5; do echo 0 >/sys/class/net/$wan/queues/rx-0/rps_cpus; linerate event -- $wan; done; times) >/out/cost
    cat /etc/linerate/guard.json
    # Counted is what lies on the flash, not what is about to be written.
    sync /out/*
    cut_power 0
    sleep 60
    ;;
3)
    ports
    until_is 60 steered $wan
    until_is 60 counted 1
    cat /etc/linerate/guard.json
    cut_power 0
    sleep 60
    ;;
4)
    ports
    until_is 60 log_has 'persisted settings are skipped'
    journalctl -b -o cat --no-pager _COMM=linerate >/out/log
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
    no_room
    sed 's/^name = "test"/name = "other"/' /root/plan.toml >/root/other.toml
    for kind in plan other; do
        from=$(date +%s%3N)
        linerate persist /root/$kind.toml || finish 98
        echo $(($(date +%s%3N) - from)) >/var/test/took
        kept >/var/test/$kind
    done
    linerate unpersist || finish 98
    kept >/var/test/none
    echo none >/var/test/state
    echo "persist took $(cat /var/test/took) ms"
    sync
    cut_short
    ;;
*)
    whole
    cut_short
    ;;
esac
"#;

/// A flash without room, and then power cuts in the middle of what writes to it.
const FLASH: &str = r#"
full() { # full DIRECTORY: not a block is left there
    n=0
    for size in 64M 8M 1M 64K 4K; do
        while fallocate -l $size $1/fill.$n 2>/dev/null; do n=$((n + 1)); done
    done
}
no_room() {
    etc >/dev/shm/before
    full /
    linerate persist /root/plan.toml >/dev/shm/full-flash.out 2>&1
    echo "full-flash $?" >/dev/shm/steps
    etc >/dev/shm/after
    rm /fill.*
    full /run
    linerate apply --pending /root/plan.toml >/dev/shm/full-run.out 2>&1
    echo "full-run $?" >>/dev/shm/steps
    rm /run/fill.*
    rps $wan >/out/full-run.rps
    cat /dev/shm/steps >>/out/steps
    cp /dev/shm/full-*.out /out/
    diff /dev/shm/before /dev/shm/after >/out/full-flash.diff
}
# What persist made, without the boot guard.
kept() {
    find /etc/linerate /etc/systemd /etc/udev -name '*linerate*' ! -type d -o -path '/etc/linerate/*' ! -name 'guard.json' 2>/dev/null |
        sort | while read -r path; do
            if [ -L $path ]; then echo "$path -> $(readlink $path)"; else md5sum $path; fi
        done
}
wrong() { echo "WRONG in boot $boot: $*" | tee -a /var/test/wrong; }
# After a cut: each file is one of those that it may be; then all are those of one plan, or none is.
whole() {
    last=$(cat /var/test/verb) was=$(cat /var/test/state)
    until_is 60 quiet
    # Nobody else calls it where the units had not come to lie there yet.
    linerate boot || wrong "boot said $?"
    kept >/tmp/kept
    state=
    for one in none plan other; do
        if cmp -s /tmp/kept /var/test/$one; then state=$one; fi
    done
    [ -n "$state" ] || wrong "after '$last' of $was: $(cat /tmp/kept)"
    linerate status || wrong "status said $?"
    guard=$(cat /etc/linerate/guard.json 2>/dev/null) before=$(cat /var/test/count) skip=false
    count=${guard#*short_boots\":} count=${count%%,*}
    case $guard in *'"skip":true'*) skip=true ;; esac
    case $state,$guard in
    none,) count=0 ;;
    none,*) wrong "a guard and no plan: $guard" ;;
    *"$(cat /proc/sys/kernel/random/boot_id)"*) ;;
    *) $skip || wrong "this boot was not counted: $guard" ;;
    esac
    # One more short boot, if it still counts; a plan that is persisted anew begins at none.
    case $state,$count,$skip,$last in
    none,* | *,$((before + 1)),* | *,$before,true,* | *,0,*,*persist\ *) ;;
    *) wrong "'$last': $count short boots after $before: $guard" ;;
    esac
    echo "$last, after $(cat /var/test/wait) ms: from $was to $state" | tee -a /var/test/cuts
    echo $state >/var/test/state
    echo $count >/var/test/count
    if [ $boot -ge BOOTS ]; then
        cp /var/test/cuts /out/
        [ ! -e /var/test/wrong ] || cp /var/test/wrong /out/
        finish 0
    fi
}
quiet() { [ -z "$(systemctl list-jobs --no-legend linerate.service)" ] && ! systemctl -q is-active linerate.service; }
cut_short() {
    case $((boot % 5)) in
    4) verb="persist /root/plan.toml" ;;
    0) verb="persist /root/other.toml" ;;
    1) verb="unpersist" ;;
    2) verb="apply --persist --pending /root/plan.toml" ;;
    3) verb="rollback" ;;
    esac
    random=$(od -An -N2 -tu2 /dev/urandom)
    echo $verb >/var/test/verb
    [ -e /var/test/count ] || echo 0 >/var/test/count
    here lan0 || ports
    [ "$verb" != rollback ] || until_is 60 linerate apply --pending /root/plan.toml
    if [ $((random % 3)) = 0 ]; then
        # Anywhere.
        echo $((random % $(cat /var/test/took))) >/var/test/wait
        sync
        cut_power $(cat /var/test/wait)
    else
        # While files change, which is a short part of it.
        echo $((random % 200)) >/var/test/wait
        sync
        {
            until [ -e /etc/linerate/.changing.json ] || [ -e /etc/linerate/changing.json ]; do
                [ ! -e /tmp/over ] || break
            done
            cut_power $(cat /var/test/wait)
        } &
    fi
    until_is 60 linerate $verb
    : >/tmp/over
    sleep 600
}
"#;

#[test]
fn a_dialled_line_is_served_each_time_it_comes_up_and_two_short_boots_are_enough() {
    let functions = SCRIPT.split("case $boot in").next().unwrap();
    let cuts = std::env::var("LINERATE_VM_CUTS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let boots = 4 + cuts;
    let words = [
        "-netdev hubport,id=n0,hubid=0 -device e1000e,netdev=n0,romfile=",
        "-netdev hubport,id=n1,hubid=0 -device e1000e,netdev=n1,romfile=",
    ];
    let system = System {
        files: vec![("usr/bin/linerate".into(), 0o755, common::program())],
        script: format!("{functions}{}{DIALLED}", FLASH.replace("BOOTS", &boots.to_string())),
        devices: words.join(" ").split(' ').map(str::to_owned).collect(),
        boots,
        timeout: Duration::from_secs(1200 + 90 * u64::from(cuts)),
    };
    let outcome = match system.run() {
        Ok(outcome) => outcome,
        Err(Error::Unavailable(why)) => return common::skip(&why),
        Err(Error::Failed(why)) => panic!("{why}"),
    };
    common::told(&outcome);
    println!("{}{}", outcome.text("timeline"), outcome.text("cost"));
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

    // Room for nothing: said so with a remedy, and nothing is half there.
    for (step, place) in [("full-flash", "/etc"), ("full-run", "/run")] {
        let said = outcome.text(&format!("{step}.out"));
        assert_eq!(codes.get(step), Some(&5), "{said}");
        assert!(said.contains("no space left") && said.contains(place), "{said}");
        assert!(said.contains("hint: "), "{said}");
    }
    assert_eq!(outcome.text("full-flash.diff"), "");
    assert_eq!(outcome.text("full-run.rps").trim(), "", "set without a journal");
    println!("{}", outcome.text("cuts"));
    assert_eq!(outcome.text("wrong"), "", "{}", outcome.output);
    assert_eq!(outcome.text("cuts").lines().count(), cuts as usize, "{}", outcome.output);
}
