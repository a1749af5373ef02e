#!/bin/sh
# capture.sh [-o FILE] [-n SAMPLES] [-i SECONDS]: records this machine in one file, as `linerate
# capture` does, where linerate is not installed. Needs nothing but the tools of OpenWrt's busybox.
# What only netlink tells (offloads, queueing disciplines, ...) is missing and shown as such.
# The format: docs/capture.md. Look at the file with: linerate show --host FILE
# shellcheck disable=SC2046,SC2012 # see below, at the lists of paths
set -eu
LC_ALL=C
export LC_ALL

out=linerate-capture.tar.gz samples=3 interval=1 root=
usage() { echo "usage: capture.sh [-o FILE] [-n SAMPLES] [-i SECONDS] [-r ROOT]" >&2; exit 2; }
while getopts o:n:i:r: option; do
    case $option in
        o) out=$OPTARG ;;
        n) samples=$OPTARG ;;
        i) interval=$OPTARG ;;
        r) root=$OPTARG ;; # another machine's files, for tests
        *) usage ;;
    esac
done
case $samples$interval in *[!0-9]*) usage ;; esac

work=$(mktemp -d /tmp/linerate-capture.XXXXXX)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
tree=$work/tree
mkdir -p "$tree/linerate" "$tree/proc" "$tree/sys"
: >"$tree/linerate/errors"

# grab PATH...: copies regular files; a failure is recorded under the kernel's name for it.
grab() {
    for path in "$@"; do
        [ -f "$root$path" ] || continue
        mkdir -p "$tree${path%/*}"
        if why=$(cat "$root$path" 2>&1 >"$tree$path"); then continue; fi
        case $why in
            *"ermission denied"*) name=EACCES ;;
            *"not permitted"*) name=EPERM ;;
            *"nvalid argument"*) name=EINVAL ;;
            *"not supported"*) name=EOPNOTSUPP ;;
            *"No such device"*) name=ENODEV ;;
            *"No such file"*) name=ENOENT ;;
            *) name=EIO ;;
        esac
        echo "read $name $path" >>"$tree/linerate/errors"
    done
}

# link PATH...: copies symbolic links, and makes the directories that they lead to.
link() {
    for path in "$@"; do
        [ -L "$root$path" ] || continue
        mkdir -p "$tree${path%/*}"
        [ -L "$tree$path" ] || ln -s "$(ls -ld "$root$path" | sed 's/.* -> //')" "$tree$path"
        if [ -d "$root$path" ]; then mkdir -p "$tree$(real "$path")"; fi
    done
}

# real PATH: where a directory really lies.
real() { (cd -P "$root$1" && where=$(pwd -P) && echo "${where#"$root"}"); }

# names PATH: makes empty files of the names in a directory, where only the names matter.
names() {
    [ -d "$root$1" ] || return 0
    mkdir -p "$tree$1"
    for path in "$root$1"/*; do
        [ ! -e "$path" ] || : >"$tree$1/${path##*/}"
    done
}

# within PATTERN...: expands patterns below the root, without it.
within() {
    for pattern in "$@"; do
        for path in $root$pattern; do
            if [ -e "$path" ] || [ -L "$path" ]; then echo "${path#"$root"}"; fi
        done
    done
}

# Lists of paths are split at white space on purpose: the paths asked for in /proc and /sys hold none.
# Links are read with ls because OpenWrt can be built without readlink.
grab /proc/version /proc/cmdline /proc/cpuinfo /proc/config.gz /proc/crypto /proc/meminfo \
    /proc/modules /proc/interrupts /proc/stat /proc/softirqs /proc/net/softnet_stat /proc/net/dev \
    /proc/net/route /proc/sys/kernel/osrelease /proc/sys/kernel/hostname \
    /proc/sys/net/core/netdev_budget /proc/sys/net/core/netdev_budget_usecs \
    /proc/sys/net/core/netdev_max_backlog /proc/sys/net/core/rps_sock_flow_entries \
    /proc/sys/net/core/default_qdisc /proc/sys/net/ipv4/ip_forward \
    /proc/sys/net/ipv6/conf/all/forwarding /proc/sys/net/netfilter/nf_conntrack_count \
    /proc/sys/net/netfilter/nf_conntrack_max /proc/device-tree/model /proc/device-tree/compatible \
    /sys/class/dmi/id/sys_vendor /sys/class/dmi/id/product_name /sys/class/dmi/id/board_name \
    /sys/hypervisor/type /etc/os-release /usr/lib/os-release /etc/openwrt_release /etc/board.json \
    /etc/config/network /etc/config/firewall /etc/config/irqbalance
grab $(within '/proc/irq/[0-9]*/smp_affinity' '/proc/irq/[0-9]*/smp_affinity_list' \
    '/proc/irq/[0-9]*/effective_affinity' '/proc/irq/[0-9]*/effective_affinity_list' \
    '/proc/irq/[0-9]*/affinity_hint')

# Lines whose affinity the kernel gives nobody the right to write (6.12 and later).
if [ -z "$root" ] && ls -l /proc/irq/[0-9]*/smp_affinity >"$work/modes" 2>/dev/null; then
    awk '/^-r--r--r--/ { n = split($NF, p, "/"); list = list sep p[n - 1]; sep = "," } END { print "[" list "]" }' \
        "$work/modes" >"$tree/linerate/fixed_irqs.json"
fi
grab $(within '/etc/linerate/boards.d/*.toml' '/sys/module/mt7915e/parameters/wed_enable' \
    '/sys/module/mt7996e/parameters/wed_enable')
grab /proc/net/ip_tables_names /proc/net/ip6_tables_names /sys/fs/cgroup/cgroup.controllers \
    /sys/fs/cgroup/cpuset.cpus.isolated
grab $(within '/sys/fs/cgroup/*/cpuset.cpus.partition' '/sys/fs/cgroup/*/cpuset.cpus.effective' \
    '/sys/fs/cgroup/cpuset/cpuset.sched_load_balance' '/sys/fs/cgroup/cpuset/*/cpuset.sched_load_balance' \
    '/sys/fs/cgroup/cpuset/*/cpuset.cpus')

grab $(within '/proc/net/stat/*')
grab /proc/net/netstat /proc/net/snmp6
grab /proc/uptime /proc/net/snmp /sys/kernel/tracing/current_tracer /sys/kernel/tracing/tracing_on \
    /sys/kernel/tracing/events/enable /proc/sys/net/ipv4/tcp_congestion_control \
    /proc/sys/net/ipv4/tcp_fastopen /proc/sys/net/ipv4/tcp_tw_reuse /proc/sys/net/ipv4/tcp_fin_timeout \
    /proc/sys/net/ipv4/ip_local_port_range /proc/sys/net/bridge/bridge-nf-call-iptables
for device in $(within '/sys/class/thermal/*' '/sys/class/hwmon/hwmon*'); do
    link "$device"
    [ -d "$root$device" ] || continue
    at=$(real "$device")
    grab "$at/type" "$at/temp" "$at/cur_state" "$at/name" "$at/in0_lcrit_alarm"
done

cpu=/sys/devices/system/cpu
grab $(within "$cpu/online" "$cpu/present" "$cpu/possible" "$cpu/offline" "$cpu/isolated" \
    "$cpu/nohz_full" "$cpu/cpu[0-9]*/online" "$cpu/cpu[0-9]*/cpu_capacity" \
    "$cpu/cpu[0-9]*/topology/*" "$cpu/cpu[0-9]*/thermal_throttle/core_throttle_count" "$cpu/cpu[0-9]*/cache/index*/*" "$cpu/cpufreq/policy*/*" \
    '/sys/devices/system/node/online' '/sys/devices/system/node/node[0-9]*/cpulist')
for path in $(within "$cpu/cpu[0-9]*/cpufreq"); do
    link "$path"
    # Before kernel 4.3 each CPU had a directory of its own.
    [ -L "$root$path" ] || grab $(within "$path/*")
done

for device in $(within '/sys/class/net/*'); do
    link "$device"
    [ -d "$root$device" ] || continue
    at=$(real "$device")
    grab $(within "$at/*" "$at/queues/*/*" "$at/statistics/*" "$at/bridge/*" "$at/brport/*")
    link $(within "$at/device" "$at/subsystem" "$at/master" "$at/phydev" "$at/lower_*" "$at/upper_*")
    [ -d "$root$at/device" ] || continue
    # Its place on the bus, and what that hangs on: a USB adapter's interrupts are those of the
    # host controller.
    place=$(real "$at/device")
    while [ "$place" != /sys/devices ] && [ -n "$place" ]; do
        grab "$place/irq" "$place/numa_node" "$place/vendor" "$place/device" "$place/uevent" \
            "$place/bInterfaceNumber" "$place/idVendor" "$place/idProduct" "$place/speed" "$place/version" "$place/current_link_speed" \
            "$place/current_link_width" "$place/max_link_speed" "$place/max_link_width"
        link "$place/driver" "$place/subsystem"
        names "$place/msi_irqs"
        place=${place%/*}
    done
done

machine=$(uname -m)
[ -z "$root" ] || machine=$(cat "$root/linerate/arch" 2>/dev/null || true)
echo "$machine" >"$tree/linerate/arch"

sample=0
while [ "$sample" -lt "$samples" ]; do
    [ "$sample" = 0 ] || sleep "$interval"
    dir=$tree/linerate/samples/$sample
    mkdir -p "$dir/proc/net"
    sed 's/ .*//' "$root/proc/uptime" >"$dir/at" 2>/dev/null || echo 0 >"$dir/at"
    for counter in stat softirqs interrupts net/softnet_stat net/dev; do
        [ ! -r "$root/proc/$counter" ] || cat "$root/proc/$counter" >"$dir/proc/$counter"
    done
    sample=$((sample + 1))
done

# Addresses, names and secrets out: equal stays equal, addresses of one network stay in one.
# Not looked at: what is not text, and versions that look like addresses.
hostname=$(cat "$root/proc/sys/kernel/hostname" 2>/dev/null || true)
case $hostname in localhost | OpenWrt | FriendlyWrt | ImmortalWrt | debian | linux | '(none)' | router) hostname= ;; esac
find "$tree" -type f | grep -v -e '/config\.gz$' -e '/device-tree/' -e '/os-release$' \
    -e '/osrelease$' -e '/openwrt_release$' -e '/proc/version$' -e '/linerate/' >"$work/files" || true
find "$tree/linerate/samples" -name dev >>"$work/files" 2>/dev/null || true
cat >"$work/redact.awk" <<'AWK'
function number(kind, key) {
    if (!((kind, key) in known)) known[kind, key] = ++count[kind]
    return known[kind, key]
}
function is_hex(text) { return text ~ /^[0-9a-fA-F]+$/ }
function mac(word,    n, p, i, v) {
    if (length(word) != 17) return ""
    n = split(tolower(word), p, ":")
    if (n != 6) return ""
    for (i = 1; i <= 6; i++) if (length(p[i]) != 2 || !is_hex(p[i])) return ""
    word = tolower(word)
    # Zero, broadcast and multicast ones name nobody.
    if (word == "00:00:00:00:00:00" || substr(p[1], 2) ~ /[13579bdf]/) return word
    v = number("mac", word)
    return sprintf("02:00:00:%02x:%02x:%02x", int(v / 65536) % 256, int(v / 256) % 256, v % 256)
}
function v4(word,    p, i, net, base, v, host) {
    if (word !~ /^[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+$/) return ""
    split(word, p, ".")
    for (i = 1; i <= 4; i++) if (length(p[i]) > 3 || p[i] + 0 > 255) return ""
    net = p[1] "." p[2] "." p[3]
    if (p[1] == 0 || p[1] == 127 || (p[1] >= 224 && p[1] < 240) || p[1] == 255) return word
    if (p[1] == 198 && (p[2] == 18 || p[2] == 19)) return word
    if (net == "192.0.2" || net == "198.51.100" || net == "203.0.113") return word
    if (p[1] == 10) base = "10.0.0.0"
    else if (p[1] == 172 && p[2] >= 16 && p[2] < 32) base = "172.16.0.0"
    else if (p[1] == 192 && p[2] == 168) base = "192.168.0.0"
    else if (p[1] == 100 && p[2] >= 64 && p[2] < 128) base = "100.64.0.0"
    else if (p[1] == 169 && p[2] == 254) base = "169.254.0.0"
    else base = "240.0.0.0"
    if (word == base) return word
    v = number("net " base, net)
    host = (p[4] == 0 || p[4] == 255) ? p[4] : number("host " net, p[4])
    split(base, p, ".")
    return p[1] "." (p[2] + int(v / 256)) "." (v % 256) "." host
}
function v6(word,    low, n, p, i) {
    if (word !~ /^[0-9a-fA-F:]*:[0-9a-fA-F:]*:[0-9a-fA-F:]*$/ || word ~ /:::/) return ""
    n = split(word, p, ":")
    if (n > 8 || (n != 8 && word !~ /::/)) return ""
    for (i = 1; i <= n; i++) if (length(p[i]) > 4) return ""
    low = tolower(word)
    if (low == "::" || low == "::1" || low ~ /^ff/ || low ~ /^2001:db8:/ || low ~ /^2001:0db8:/) return word
    if (low ~ /^fe[89ab]/) return sprintf("fe80::%x", number("v6", low))
    if (low ~ /^f[cd]/) return sprintf("fd00::%x", number("v6", low))
    return sprintf("3fff::%x", number("v6", low))
}
function uuid(word,    p) {
    if (length(word) != 36 || split(word, p, "-") != 5) return ""
    if (length(p[1]) != 8 || length(p[2]) != 4 || length(p[3]) != 4 || length(p[4]) != 4) return ""
    if (!is_hex(p[1] p[2] p[3] p[4] p[5])) return ""
    return sprintf("00000000-0000-4000-8000-%012x", number("id", tolower(word)))
}
function address(word,    clean) {
    if ((clean = mac(word)) != "") return clean
    if ((clean = v4(word)) != "") return clean
    if ((clean = v6(word)) != "") return clean
    return uuid(word)
}
function word_of(word,    clean, p, n, i, all) {
    if ((clean = address(word)) != "") return clean
    n = split(word, p, "-")
    for (i = 1; i <= n; i++) {
        clean = address(p[i])
        # 192.168.1.1:53
        if (clean == "" && match(p[i], /^[0-9.]+:/)) {
            clean = v4(substr(p[i], 1, RLENGTH - 1))
            if (clean != "") clean = clean substr(p[i], RLENGTH)
        }
        all = all (i > 1 ? "-" : "") (clean != "" ? clean : p[i])
    }
    return all
}
function words(text, named,    clean, word) {
    clean = ""
    while (match(text, /[0-9A-Za-z.:_-]+/)) {
        word = substr(text, RSTART, RLENGTH)
        clean = clean substr(text, 1, RSTART - 1)
        # Before word_of: RSTART and RLENGTH are those of the last match anywhere.
        text = substr(text, RSTART + RLENGTH)
        clean = clean ((named && name != "" && word == name) ? "router" : word_of(word))
    }
    return clean text
}
function is_secret(key) {
    key = tolower(key)
    if (key ~ /^(key[1-4]?|sae|host|fqdn|apikey|api_key|pin)$/) return 1
    return key ~ /psk|passw|passphrase|secret|private|public_key|preshared|token|username|serial|ssid|endpoint_host|hostname|domain|credential/
}
function hide(value) { return "redacted-" number("id", value) }
# option KEY 'VALUE', KEY=VALUE, "KEY": "VALUE", KEY : VALUE
function settings(line,    clean, key, rest, value, quote) {
    clean = ""
    while (match(line, /[0-9A-Za-z._-]+/)) {
        key = substr(line, RSTART, RLENGTH)
        clean = clean substr(line, 1, RSTART + RLENGTH - 1)
        rest = substr(line, RSTART + RLENGTH)
        if (is_secret(key) && match(rest, /^[ \t'"=:]+/)) {
            quote = substr(rest, RLENGTH, 1)
            clean = clean substr(rest, 1, RLENGTH)
            rest = substr(rest, RLENGTH + 1)
            if (quote == "'" || quote == "\"") value = index(rest, quote) ? substr(rest, 1, index(rest, quote) - 1) : rest
            else { value = rest; sub(/[ \t,}'"].*$/, "", value) }
            if (length(value) >= 2 && value !~ /^[{[]/) {
                clean = clean hide(value)
                rest = substr(rest, length(value) + 1)
            }
        }
        line = rest
    }
    return clean line
}
function route(line,    p, n, i) {
    n = split(line, p, "\t")
    for (i = 2; i <= 3; i++)
        if (length(p[i]) == 8 && is_hex(p[i]) && p[i] != "00000000") p[i] = sprintf("F0%06X", number("route", p[i]))
    line = p[1]
    for (i = 2; i <= n; i++) line = line "\t" p[i]
    return line
}
{
    file = $0
    n = 0
    while ((getline line < file) > 0) lines[++n] = line
    close(file)
    has_settings = file ~ /\/etc\// || file ~ /\/proc\/(cmdline|cpuinfo)$/
    for (i = 1; i <= n; i++) {
        line = lines[i]
        if (file ~ /\/sys\/kernel\/hostname$/ && name != "") line = "router"
        else if (file ~ /\/(ifalias|phys_switch_id|phys_port_id)$/ && line != "") line = hide(line)
        else if (file ~ /\/proc\/net\/route$/) line = route(line)
        else if (has_settings) line = words(settings(line), 1)
        else line = words(line, 0)
        print line > file
    }
    if (n) close(file)
}
AWK
awk -v name="$hostname" -f "$work/redact.awk" "$work/files"
kept=
for name in "$tree"/sys/class/net/enx* "$tree"/sys/class/net/wlx* "$tree"/sys/class/net/wwx*; do
    [ ! -L "$name" ] || kept="$kept ${name##*/}"
done
[ -z "$kept" ] || echo "capture.sh: these names hold a hardware address, and stay:$kept" >&2

cat >"$tree/manifest.json" <<EOF2
{"format": "linerate-capture", "version": 1, "kernel": "$(cat "$root/proc/sys/kernel/osrelease" 2>/dev/null || uname -r)", "created": "$(date -u +%Y-%m-%dT%H:%M:%SZ)", "samples": $samples, "made_by": "capture.sh"}
EOF2

tar -cf - -C "$tree" . | gzip -c >"$work/packed"
cat "$work/packed" >"$out"
files=$(find "$tree" -type f | wc -l)
echo "$out: $(($(wc -c <"$out") / 1024)) KiB: $((files)) files, $samples samples of counters"
echo "not read: $(($(wc -l <"$tree/linerate/errors"))) (recorded as such); netlink was not asked"
echo "look at it: linerate show --host $out"
