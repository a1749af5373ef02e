#!/bin/sh
# shellcheck disable=SC3023 # file 1000 is busybox ash's
# /usr/libexec/platform/packet-steering.sh: OpenWrt's packet_steering service (24.10 and later) runs
# this instead of its own script, 1 s after every interface event. Its own would write RPS masks, and
# zeros where packet_steering is 0.

# The value of packet_steering before linerate took it over; nothing where it was not set.
former=''

if [ -x /usr/bin/linerate ] && ! grep -q '"skip":true' /etc/linerate/guard.json 2>/dev/null; then
	# Without the lock of the service that calls this, which is file 1000 (procd.sh, procd_lock).
	/usr/bin/linerate event --all </dev/null >/dev/null 2>&1 1000>&- &
	exit 0
fi

# The program was removed, or the machine did not stay up with its settings: OpenWrt steers as before,
# by the target's own script where the image has one.
target=/rom/usr/libexec/platform/packet-steering.sh
[ ! -x "$target" ] || exec "$target" "$former"
flows="$(uci -q get 'network.@globals[0].steering_flows')"
if [ "${flows:-0}" -gt 0 ] 2>/dev/null; then
	exec /usr/libexec/network/packet-steering.uc -l "$flows" "$former"
fi
exec /usr/libexec/network/packet-steering.uc "$former"
