#!/bin/sh
# lateness.sh [RUNS [PROGRAM]]: how long after its deadline a change that nobody confirms is undone, by
# the machine's own clock (/proc/uptime), when what could keep it from that happens. Run it as root, on a
# machine or in a guest that has nothing else to do. Several are at work at once (LATENESS_AT_ONCE), each
# with a network, a /run and a gateway of its own, and each at another row. Prints a Markdown table; exits
# 1 when any run was later than a second, or never undone.
set -eu
runs=${1:-200}
program=$(command -v "${2:-linerate}")
all=${LATENESS_WHAT:-nothing terminal paused gateway parent run guard} # some of these
at_once=${LATENESS_AT_ONCE:-14}

words() {
    case $1 in
    nothing) echo 'nothing' ;;
    terminal) echo 'its terminal hangs up' ;;
    paused) echo 'nobody reads what it prints' ;;
    gateway) echo 'the gateway is cut off' ;;
    parent) echo 'its process is killed' ;;
    run) echo '/run is full' ;;
    guard) echo 'the guard is killed' ;;
    esac
}

if [ -z "${LATENESS_INSIDE:-}" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    rows=$(echo "$all" | wc -w)
    [ "$at_once" -le $((runs * rows)) ] || at_once=$((runs * rows))
    workers=
    for n in $(seq 0 $((at_once - 1))); do
        mkdir "$work/$n"
        # Each begins with another row, so that different things happen at once.
        first='' rest='' i=0
        for what in $all; do
            row=$what:$(((runs + (n + i) % at_once) / at_once))
            if [ $i -lt $((n % rows)) ]; then rest="$rest $row"; else first="$first $row"; fi
            i=$((i + 1))
        done
        LATENESS_INSIDE=$work/$n unshare -n -m sh "$0" "$first$rest" "$program" &
        workers="$workers $!"
    done
    late=no
    for worker in $workers; do wait "$worker" || late=yes; done
    [ $late = no ] || exit 1
    echo '| what happens | runs | median | latest |'
    echo '|---|---|---|---|'
    for what in $all; do
        cat "$work"/*/"$what" | sort -n >"$work/sorted"
        done=$(wc -l <"$work/sorted")
        median=$(sed -n "$(((done + 1) / 2))p" "$work/sorted")
        latest=$(tail -n 1 "$work/sorted")
        [ "$latest" -lt 1000 ] || late=yes
        echo "| $(words "$what") | $done | $median ms | $latest ms |"
    done
    [ $late = no ]
    exit
fi

cd "$LATENESS_INSIDE"
mount --make-rprivate /
mount -t sysfs sysfs /sys
mount -t tmpfs -o size=256k tmpfs /run

# The router's port, and the gateway at the other end of its cable.
unshare -n sleep 100000 &
peer=$!
trap 'kill $peer' EXIT
while [ "$(readlink /proc/$peer/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.1; done
# By its path: busybox's shell would take its own, which knows no pair.
"$(which ip)" link add lan0 type veth peer name far0 netns $peer
ip addr add 198.18.0.1/24 dev lan0
ip link set lan0 up
nsenter -t $peer -n ip addr add 198.18.0.2/24 dev far0
nsenter -t $peer -n ip link set far0 up
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
armed() { sed 's/.*"'"$1"'":\([0-9]*\).*/\1/' $state/deadman.json; }
now() { # milliseconds
    read -r up _ </proc/uptime
    hundredths=${up#*.}
    echo $((${up%.*} * 1000 + ${hundredths#0} * 10))
}
wrong() {
    echo "$what: $1 in run $try" >&3
    exit 1
}
# It is in force, and its deadline and the number of its guards are known, whatever happens next.
until_set() {
    tries=0
    until is_set; do
        tries=$((tries + 1))
        [ $tries -lt 200 ] || return 1
        sleep 0.05
    done
    deadline=$(armed deadline_ms) && token=$(armed token) && [ -n "$deadline" ] && [ -n "$token" ]
}
# Seconds to confirm: time to do something to it meanwhile; more where that is not enough.
wait=${LATENESS_WAIT:-2}
apply() { "$program" apply --confirm "$@" plan.toml; }
# The processes that watch this change: all of them, or without the second line.
guards() {
    # grep itself, which is over, is among them.
    # shellcheck disable=SC2013 # paths without blanks
    for file in $(grep -l "$token" /proc/[0-9]*/cmdline 2>/dev/null); do
        if [ "$1" = first ] && grep -q -e --second "$file" 2>/dev/null; then continue; fi
        file=${file%/cmdline}
        echo "${file#/proc/}"
    done
}

# What happens to a change that is in force; each leaves nothing behind that the next would meet.
nothing() { apply "$wait" --no-probe && until_set; }
terminal() { # who read it is gone, and its processes hear of that
    apply "$wait" --no-probe 2>&1 | : &
    # shellcheck disable=SC2046 # several
    until_set && { kill -HUP $(guards all) || :; }
}
paused() { # nobody reads what it prints, and the pipe is full
    mkfifo pipe
    sh -c 'exec sleep 99' <pipe &
    reader=$!
    (head -c 65536 /dev/zero; apply "$wait" --no-probe) >pipe 2>&1 &
    until_set
}
gateway() { # which is not asked in the last two seconds
    apply $((wait + 2)) && until_set && nsenter -t $peer -n ip link set far0 down
}
parent() { # where that was before all was in force, it is undone at once
    apply "$wait" --no-probe &
    applying=$!
    until_set && { kill -KILL $applying || :; }
}
run() {
    apply "$wait" --no-probe && until_set && { dd if=/dev/zero of=/run/full bs=4k || :; }
}
guard() { # the first one; the second is left
    # shellcheck disable=SC2046 # several
    apply "$wait" --no-probe && until_set && { kill -KILL $(guards first) || :; }
}
tidy() {
    [ -z "${reader:-}" ] || kill "$reader" 2>/dev/null || :
    reader=
    rm -f pipe /run/full
    nsenter -t $peer -n ip link set far0 up
    "$program" rollback -q 2>/dev/null || :
    until [ ! -e $state/lock ]; do sleep 0.05; done
    rm -rf $state
}

exec 3>&2
for row in $1; do
    what=${row%:*}
    : >"$what"
    for try in $(seq "${row#*:}"); do
        until $what >/dev/null 2>&1 && [ "$(now)" -lt "$deadline" ]; do
            tidy
            wait=$((wait + 1))
            [ $wait -lt 60 ] || wrong 'no time to do something to it'
        done
        # To look all the time would keep the CPUs from others that are at work.
        left=$((deadline - $(now) - 300))
        [ "$left" -le 0 ] || sleep "$((left / 1000)).$(printf %03d $((left % 1000)))"
        while is_set; do
            [ "$(now)" -lt $((deadline + 30000)) ] || wrong 'not undone'
            sleep 0.02 # which a run may be said to be later than it was
        done
        echo $(($(now) - deadline)) >>"$what"
        tidy
    done
done
