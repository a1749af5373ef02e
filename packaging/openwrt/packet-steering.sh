#!/bin/sh
# shellcheck disable=SC3023 # file 1000 is busybox ash's
# /usr/libexec/platform/packet-steering.sh: OpenWrt's packet_steering service (24.10 and later) runs
# this instead of its own script, 1 s after every interface event. Its own would write RPS masks, and
# zeros where packet_steering is 0.

[ -x /usr/bin/linerate ] || exit 0
# Without the lock of the service that calls this, which is file 1000 (procd.sh, procd_lock).
/usr/bin/linerate event --all </dev/null >/dev/null 2>&1 1000>&- &
