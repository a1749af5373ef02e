#!/bin/sh
# demo.sh: builds linerate, shows this machine, tunes a router in a box on its kernel, and checks
# that the machine is as it was. The flags of the demo are here and nowhere else.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh
REPORT=linerate-report.html
RESULT=.cache/demo/result.json
TUNE="tune nat --rules 300 --seconds 1 --budget 150 --output $RESULT --report $REPORT"

# What the demo must leave alone: interrupt masks, network sysctls, devices, namespaces and our own
# processes. Counters that move by themselves are left out.
state_of_machine() {
    grep -H '' /proc/irq/*/smp_affinity 2>/dev/null || true
    grep -r '' /proc/sys/net 2>/dev/null | grep -v -e nf_conntrack_count -e '/random/' | sort
    for device in /sys/class/net/*; do
        echo "device ${device##*/}"
        grep -H '' "$device"/queues/*/rps_cpus 2>/dev/null || true
    done
    for name in /run/netns/*; do [ ! -e "$name" ] || echo "namespace ${name##*/}"; done
    for process in /proc/[0-9]*; do
        [ "$(readlink "$process/exe" 2>/dev/null)" != "$binary" ] || echo "process ${process##*/}"
    done
}

scripts/setup.sh demo
use_rust
say 'demo: building (the first time takes a few minutes)'
binary=$(scripts/build.sh -q)
if ! find_root; then
    say 'demo: a router in a box needs root, for network namespaces.'
    say 'hint: sudo make demo'
    exit 4
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p .cache/demo
state_of_machine >"$work/before"

cat >&2 <<'EOF'

This machine, as linerate sees it, and then a router in a box on its kernel: three network
namespaces, lan - router - wan, real TCP through NAT and 300 filter rules. `one-cpu` is what a
router does whose only network interrupt lands on one CPU; the others are ways out of that. Each
is measured in both directions in random order, block by block, and everything is put back.

EOF

code=0
# shellcheck disable=SC2086 # AS_ROOT and TUNE are words
{
    $AS_ROOT "$binary" show || code=$?
    echo
    [ "$code" != 0 ] || $AS_ROOT "$binary" $TUNE || code=$?
}

state_of_machine >"$work/after"
# Modules that the lab loaded (connection tracking, say) bring sysctls of their own: a file that was
# not there before is not a change of what was.
grep '^/proc/sys/' "$work/after" | cut -d: -f1 | sort -u >"$work/after.names"
grep '^/proc/sys/' "$work/before" | cut -d: -f1 | sort -u >"$work/before.names"
comm -13 "$work/before.names" "$work/after.names" >"$work/new"
grep -v -F -f "$work/new" "$work/after" >"$work/after.known" || true
[ -s "$work/new" ] || cp "$work/after" "$work/after.known"

echo
if cmp -s "$work/before" "$work/after.known"; then
    echo "the machine is as it was ($(grep -c /proc/irq/ "$work/before" || true) interrupt masks, $(wc -l <"$work/before.names") network sysctls, namespaces, devices, processes)"
else
    echo 'the machine is NOT as it was (or something else changed it meanwhile):'
    diff "$work/before" "$work/after.known" || true
    [ "$code" != 0 ] || code=1
fi
[ "$code" = 0 ] || { say "demo: failed with exit code $code"; exit "$code"; }
echo "the report: $(pwd)/$REPORT"
