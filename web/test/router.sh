#!/bin/sh
# router.sh COMMAND...: runs it in a machine of its own, as far as linerate can tell: a network namespace
# with two ports and forwarding, its own /sys and an empty /run. Nothing outside can be reached, and all
# of it ends with the command.
set -eu
[ "${1:-}" != inside ] || {
    shift
    mount -t sysfs sysfs /sys
    mount -t tmpfs tmpfs /run
    ip link set lo up
    for port in lan wan; do
        ip link add "${port}0" type veth peer name "${port}far"
        ip link set "${port}0" up
        ip link set "${port}far" up
    done
    ip address add 198.18.0.1/24 dev lan0
    ip address add 198.19.0.1/24 dev wan0
    echo 1 >/proc/sys/net/ipv4/ip_forward
    exec "$@"
}
exec unshare --net --mount --pid --fork --kill-child --mount-proc "$0" inside "$@"
