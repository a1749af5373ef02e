#!/bin/sh
# lateness.sh [RUNS [PROGRAM]]: how long after its deadline a change that nobody confirms is undone, by
# the machine's own clock (/proc/uptime), when what could keep it from that happens. Everything is in a
# network and mount namespace of its own; run it as root, on a machine or in a guest that has nothing
# else to do. Prints a Markdown table; exits 1 when any run was later than a second, or never undone.
set -eu
runs=${1:-200}
program=$(command -v "${2:-linerate}")
all=${LATENESS_WHAT:-nothing terminal gateway parent run guard} # some of these
if [ -z "${LATENESS_INSIDE:-}" ]; then
    LATENESS_INSIDE=1 exec unshare --net --mount sh "$0" "$runs" "$program"
fi
mount --make-rprivate /
mount -t sysfs sysfs /sys
mount -t tmpfs -o size=256k tmpfs /run
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# The router's port, and the gateway at the other end of its cable.
unshare --net sleep 100000 &
peer=$!
trap 'kill $peer; rm -rf "$work"' EXIT
while [ "$(readlink /proc/$peer/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.1; done
ip link add lan0 type veth peer name far0 netns $peer
ip addr add 198.18.0.1/24 dev lan0
ip link set lan0 up
nsenter --target $peer --net ip addr add 198.18.0.2/24 dev far0
nsenter --target $peer --net ip link set far0 up
ip route add default via 198.18.0.2
cat >plan.toml <<O
format = "linerate-plan"
version = 1
name = "lateness"
title = "a mask"
reason = "what is to be undone"
hostname = "router"
cpus = "0"
settings = 1

[[device]]
name = "lan0"
sysfs = "/sys/devices/virtual/net/lan0"
driver = ""
rx_queues = 1

[[setting]]
knob = "rps-cpus"
device = "lan0"
queue = 0
before = "none"
after = "0"
reason = "what is to be undone"
O
file=/sys/class/net/lan0/queues/rx-0/rps_cpus
state=/run/linerate
is_set() { read -r mask <$file; case $mask in *1) ;; *) return 1 ;; esac; }
# Seconds to confirm: more where something is to be done meanwhile.
wait=1
apply() { "$program" apply --confirm $wait "$@" plan.toml; }

# What happens to a change that is in force; each leaves nothing behind that the next would meet.
nothing() { apply --no-probe; }
terminal() { # nobody reads what it prints, and the pipe is full
    mkfifo pipe
    sh -c 'exec sleep 5' <pipe &
    reader=$!
    (head -c 65536 /dev/zero; apply --no-probe) >pipe 2>&1 &
    until is_set; do :; done
}
gateway() {
    wait=4
    apply
    nsenter --target $peer --net ip link set far0 down
}
parent() {
    apply --no-probe &
    applying=$!
    until is_set; do :; done
    kill -KILL $applying 2>/dev/null || :
}
run() {
    apply --no-probe
    dd if=/dev/zero of=/run/full bs=4k 2>/dev/null || :
}
guard() { # the first one; the second is left
    wait=4
    apply --no-probe
    token=$(sed 's/.*"token":\([0-9]*\).*/\1/' $state/deadman.json)
    for entry in /proc/[0-9]*; do
        name=
        read -r name <"$entry/comm" || :
        [ "$name" = linerate ] || continue
        words=$(tr '\0' ' ' <"$entry/cmdline") || continue
        case $words in
        *"dead-man $token --second"*) ;;
        *"dead-man $token "*) kill -KILL "${entry#/proc/}" ;;
        esac
    done
}
tidy() {
    [ -z "${reader:-}" ] || kill "$reader" 2>/dev/null || :
    reader=
    rm -f pipe /run/full
    nsenter --target $peer --net ip link set far0 up
    "$program" rollback -q 2>/dev/null || :
    until [ ! -e $state/lock ]; do sleep 0.05; done
    rm -rf $state
}

late=no
echo '| what happens | runs | median | latest |'
echo '|---|---|---|---|'
for what in $all; do
    : >"$work/$what"
    wait=1
    for try in $(seq "$runs"); do
        $what >/dev/null 2>&1
        deadline=$(sed 's/.*"deadline_ms":\([0-9]*\).*/\1/' $state/deadman.json)
        read -r up _ </proc/uptime
        # Most of the time, without keeping a CPU busy.
        left=$((deadline / 1000 - ${up%.*} - 1))
        [ $left -lt 1 ] || sleep $left
        while is_set; do
            read -r up _ </proc/uptime
            [ $((${up%.*} * 1000)) -lt $((deadline + 30000)) ] || { echo "$what: not undone in run $try" >&2; exit 1; }
        done
        read -r up _ </proc/uptime
        hundredths=${up#*.}
        echo $((${up%.*} * 1000 + ${hundredths#0} * 10 - deadline)) >>"$work/$what"
        tidy
    done
    sort -n "$work/$what" >sorted
    median=$(sed -n "$(((runs + 1) / 2))p" sorted)
    latest=$(tail -n 1 sorted)
    [ "$latest" -lt 1000 ] || late=yes
    case $what in
    nothing) words='nothing' ;;
    terminal) words="nobody reads what it prints" ;;
    gateway) words='the gateway is cut off' ;;
    parent) words='its process is killed' ;;
    run) words='/run is full' ;;
    guard) words='the guard is killed' ;;
    esac
    echo "| $words | $runs | $median ms | $latest ms |"
done
[ $late = no ]
