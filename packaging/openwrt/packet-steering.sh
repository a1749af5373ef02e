#!/bin/sh
# /usr/libexec/platform/packet-steering.sh: OpenWrt's packet_steering service (24.10 and later) runs
# this instead of its own script, 1 s after every interface event. Its own would write RPS masks, and
# zeros where packet_steering is 0.

[ -x /usr/bin/linerate ] || exit 0
/usr/bin/linerate event --all </dev/null >/dev/null 2>&1 &
