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
grab /proc/net/netstat /proc/net/rt6_stats /proc/sys/net/ipv6/route/max_size /proc/net/snmp6 \
    /proc/net/packet /proc/sys/net/ipv4/neigh/default/gc_thresh3 \
    /proc/sys/net/netfilter/nf_conntrack_buckets /proc/sys/net/core/dev_weight \
    /proc/sys/net/core/netdev_tstamp_prequeue /proc/sys/net/ipv4/conf/all/rp_filter \
    /proc/sys/net/bridge/bridge-nf-call-ip6tables
grab $(within '/sys/devices/system/clocksource/clocksource0/*_clocksource')
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
    grab $(within "$at/*" "$at/queues/*/*" "$at/statistics/*" "$at/bridge/*" "$at/bonding/*" "$at/brport/*")
    link $(within "$at/device" "$at/subsystem" "$at/master" "$at/phydev" "$at/lower_*" "$at/upper_*")
    [ -d "$root$at/device" ] || continue
    # Its place on the bus, and what that hangs on: a USB adapter's interrupts are those of the
    # host controller.
    place=$(real "$at/device")
    while [ "$place" != /sys/devices ] && [ -n "$place" ]; do
        grab "$place/irq" "$place/numa_node" "$place/vendor" "$place/device" "$place/uevent" \
            "$place/bInterfaceNumber" "$place/idVendor" "$place/idProduct" "$place/speed" "$place/version" "$place/current_link_speed" \
            "$place/current_link_width" "$place/max_link_speed" "$place/max_link_width" \
            "$place/link/l1_aspm" "$place/iommu_group/type"
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

# Addresses, names and secrets out: equal stays equal, addresses of one network stay in one. Of files
# that people write only what is known to be harmless stays (src/machine/capture/redact/kept.rs).
# Not looked at: what is not text, and versions that look like addresses.
hostname=$(cat "$root/proc/sys/kernel/hostname" 2>/dev/null || true)
find "$tree" -type f | grep -v -e '/config\.gz$' -e '/device-tree/' -e '/osrelease$' -e "^$tree/linerate/" >"$work/found" || true
find "$tree/linerate/samples" -name dev >>"$work/found" 2>/dev/null || true
# An address of digits alone is told from a count by being known.
{ grep '/address$' "$work/found" || true; grep -v '/address$' "$work/found" || true; } >"$work/files"
cat >"$work/lists" <<'LISTS'
options auto autoneg banirq banmodule bridge_empty broadcast conduit deepestcache defaultroute
options delegate dest device disabled drop_invalid duplex enable_vlan enabled family
options flow_offloading flow_offloading_hw forward fullcone gateway ifname igmp_snooping input
options interval ip6addr ip6assign ip6gw ip6hint ip6prefix ipaddr ipv6 macaddr masq masq6 metric
options mtu mtu6 mtu_fix name netmask network output packet_steering peerdns ports powerthresh
options proto reset rxpause speed src steering_flows stp syn_flood synflood_protect txpause
options txqueuelen type ula_prefix vid vlan vlan_filtering
named bridge-vlan defaults device globals interface irqbalance switch switch_vlan zone
zones * dmz docker guest iot lan modem vpn wan wan6 wwan
boot preempt isolcpus nohz_full nohz rcu_nocbs irqaffinity threadirqs mitigations maxcpus nr_cpus
boot nosmt tsc idle cpuidle.off intel_idle.max_cstate processor.max_cstate pci pcie_aspm kasan
boot kmemleak slab_debug slub_debug debug_pagealloc no_debug_objects dma_debug init_on_alloc
boot init_on_free coherent_pool console debug earlycon net.ifnames noinitrd panic quiet ro
boot rootfstype rootwait rw splash
board device id ifname index macaddr name need_tag num ports protocol role want_untag
release BUILD_ID DISTRIB_ARCH DISTRIB_DESCRIPTION DISTRIB_ID DISTRIB_RELEASE DISTRIB_REVISION
release DISTRIB_TARGET ID ID_LIKE NAME PRETTY_NAME VERSION VERSION_CODENAME VERSION_ID
LISTS
cat >"$work/redact.awk" <<'AWK'
function number(kind, key) {
    if (!((kind, key) in known)) known[kind, key] = ++count[kind]
    return known[kind, key]
}
function is_hex(text) { return text ~ /^[0-9a-fA-F]+$/ }
# 02:00:5e:10:00:01, also with dashes or underscores, without leading zeros, with dots, and bare.
function mac(word,    low, sep, n, p, i, digits, v, width) {
    low = tolower(word)
    if (low ~ /^[0-9a-f]+$/) {
        if (length(low) != 12 || (low !~ /[a-f]/ && !(("mac", low) in known))) return ""
        digits = low
        sep = ""
    } else {
        match(low, /[^0-9a-f]/)
        sep = substr(low, RSTART, 1)
        if (!index(":-_.", sep)) return ""
        width = (sep == ".") ? 4 : 2
        n = split(low, p, (sep == ".") ? "[.]" : sep)
        if (n != 12 / width) return ""
        for (i = 1; i <= n; i++) {
            if (sep == ":" && length(p[i]) == 1) p[i] = "0" p[i]
            if (length(p[i]) != width || !is_hex(p[i])) return ""
            digits = digits p[i]
        }
    }
    # Zero, broadcast and multicast ones name nobody.
    if (digits == "000000000000" || substr(digits, 2, 1) ~ /[13579bdf]/) return low
    v = number("mac", digits)
    digits = sprintf("020000%02x%02x%02x", int(v / 65536) % 256, int(v / 256) % 256, v % 256)
    if (sep == "") return digits
    width = (sep == ".") ? 4 : 2
    low = substr(digits, 1, width)
    for (i = width + 1; i <= 12; i += width) low = low sep substr(digits, i, width)
    return low
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
function word_of(word,    clean, p, q, n, m, i, j, all, at) {
    if ((clean = address(word)) != "") return clean
    # A hardware address in a longer name.
    if ((at = match(word, within)) && (at == 1 || substr(word, at - 1, 1) !~ /[0-9A-Za-z]/) &&
        substr(word, at + 17, 1) !~ /[0-9A-Za-z]/)
        return word_of(substr(word, 1, at - 1)) mac(substr(word, at, 17)) word_of(substr(word, at + 17))
    all = ""
    while (word != "") {
        at = match(word, /[-_]/)
        n = at ? substr(word, 1, at - 1) : word
        sep = at ? substr(word, at, 1) : ""
        word = at ? substr(word, at + 1) : ""
        clean = address(n)
        # 192.168.1.1:53, and the rows of them that the kernel takes.
        if (clean == "" && n ~ /^[0-9.]+:/) {
            m = split(n, q, ":")
            for (j = 1; j <= m; j++) {
                i = v4(q[j])
                clean = clean (j > 1 ? ":" : "") (i != "" ? i : q[j])
            }
        }
        all = all (clean != "" ? clean : n) sep
    }
    return all
}
function words(text,    clean, word) {
    clean = ""
    while (match(text, /[0-9A-Za-z.:_-]+/)) {
        word = substr(text, RSTART, RLENGTH)
        clean = clean substr(text, 1, RSTART - 1)
        # Before word_of: RSTART and RLENGTH are those of the last match anywhere.
        text = substr(text, RSTART + RLENGTH)
        clean = clean word_of(word)
    }
    return clean text
}
# The host's name goes in any case, also as part of a longer one; a short one must stand by itself.
function nameless(text,    i, low, key, at, out, before, after) {
    for (i = 1; i <= names; i++) {
        key = tolower(name[i])
        out = ""
        low = tolower(text)
        while ((at = index(low, key)) > 0) {
            before = (at > 1) ? substr(low, at - 1, 1) : substr(out, length(out), 1)
            after = substr(low, at + length(key), 1)
            out = out substr(text, 1, at - 1)
            if (length(key) > 4 || (before !~ /[0-9A-Za-z]/ && after !~ /[0-9A-Za-z]/)) out = out "router"
            else out = out substr(text, at, length(key))
            text = substr(text, at + length(key))
            low = tolower(text)
        }
        text = out text
    }
    return text
}
function harmless(text) { return words(nameless(text)) }
function hide(value) { return (value == "") ? "" : "redacted-" number("id", value) }
function put(line) { out[++lines_out] = line }
function setting(kind, option, value,    keep) {
    if (option == "src" || option == "dest" || (option == "name" && kind == "zone")) keep = ("zones", value) in kept
    else if (option == "name") keep = (kind == "device" || kind == "switch")
    else keep = ("options", option) in kept
    if (keep && length(value) <= 256 && value ~ /^@?[0-9A-Za-z._:\/ *+!,-]*$/ && value !~ /\/\//) return harmless(value)
    return hide(value)
}
# A statement of OpenWrt's configuration.
function statement(    key, line) {
    key = substr(word[1], 1, 1)
    if (count_words >= 2 && word[1] ~ /^(c|config)$/) {
        section = word[2]
        line = "config " ((section ~ /^[0-9A-Za-z_.-]+$/ && length(section) <= 32) ? harmless(section) : hide(section))
        if (count_words > 2 && word[3] != "")
            line = line " '" ((("named", section) in kept) ? harmless(word[3]) : hide(word[3])) "'"
        put("")
        put(line)
    } else if (count_words >= 2 && word[1] ~ /^(o|option|l|list)$/) {
        line = (word[2] ~ /^[0-9A-Za-z_]+$/ && length(word[2]) <= 32) ? word[2] : hide(word[2])
        put("\t" (key == "o" ? "option" : "list") " " line " '" setting(section, word[2], word[3]) "'")
    }
    count_words = 0
    split("", word)
}
function end_word() {
    if (have) word[++count_words] = part
    part = ""
    have = 0
}
# The words of a line as libuci splits them; a quoted one may go on in the next.
function uci(line,    i, c, n, goes_on) {
    n = length(line)
    for (i = 1; i <= n; i++) {
        c = substr(line, i, 1)
        if (c == quote) quote = ""
        else if (c == "\\" && quote != "'") {
            if (i == n) goes_on = 1
            else { part = part substr(line, ++i, 1); have = 1 }
        } else if (quote != "") part = part c
        else if (c == "'" || c == "\"") { quote = c; have = 1 }
        else if (c == "#" && !have) break
        else if (c == ";") { end_word(); statement() }
        else if (c ~ /[ \t\r]/) end_word()
        else { part = part c; have = 1 }
    }
    if (goes_on) return
    if (quote != "") part = part "\n"
    else { end_word(); statement() }
}
# board.json: values of known keys stay.
function board(text,    i, c, n, key, depth, above, from, rest) {
    n = length(text)
    for (i = 1; i <= n; i++) {
        c = substr(text, i, 1)
        if (c == "\"") {
            from = i
            for (i++; i <= n && (c = substr(text, i, 1)) != "\""; i++) if (c == "\\") i++
            c = substr(text, from + 1, i - from - 1)
            rest = substr(text, i + 1)
            if (rest ~ /^[ \t\n]*:/) { key = c; put_part("\"" harmless(c) "\"") }
            else put_part("\"" ((("board", key) in kept) ? harmless(c) : hide(c)) "\"")
        } else if (c ~ /[-0-9]/) {
            match(substr(text, i), /^[-+0-9.eE]+/)
            put_part((("board", key) in kept) ? substr(text, i, RLENGTH) : "0")
            i += RLENGTH - 1
        } else if (c ~ /[a-z]/) {
            match(substr(text, i), /^[a-z]+/)
            rest = substr(text, i, RLENGTH)
            if (rest ~ /^(true|false|null)$/) put_part(rest)
            i += RLENGTH - 1
        } else {
            if (c ~ /[[{]/) above[++depth] = key
            if (c ~ /[]}]/) key = above[depth--]
            if (c ~ /[][{}:,]/) put_part(c)
        }
    }
}
function put_part(text) { out[1] = out[1] text; lines_out = 1 }
# A parameter of the kernel.
function parameter(word,    at, key, value) {
    at = index(word, "=")
    key = at ? substr(word, 1, at - 1) : word
    value = at ? substr(word, at + 1) : ""
    if (("boot", key) in kept) return harmless(word)
    if (key ~ /(^|\.)macaddr$/) return key "=" harmless(value)
    return at ? harmless(key) "=" hide(value) : hide(word)
}
function boot(line,    i, c, part, quoted, all) {
    all = ""
    for (i = 1; i <= length(line) + 1; i++) {
        c = substr(line, i, 1)
        if (c == "\"") quoted = !quoted
        else if (c == "" || (c ~ /[ \t]/ && !quoted)) {
            if (part == "--") break
            if (part != "") all = all (all == "" ? "" : " ") parameter(part)
            part = ""
        } else part = part c
    }
    return all
}
function route(line,    p, n, i) {
    n = split(line, p, "\t")
    for (i = 2; i <= 3; i++)
        if (length(p[i]) == 8 && is_hex(p[i]) && p[i] != "00000000") p[i] = sprintf("F0%06X", number("route", p[i]))
    line = p[1]
    for (i = 2; i <= n; i++) line = line "\t" p[i]
    return line
}
BEGIN {
    while ((getline line < lists) > 0) {
        n = split(line, p, " ")
        for (i = 2; i <= n; i++) kept[p[1], p[i]] = 1
    }
    h = "[0-9a-fA-F][0-9a-fA-F]"
    within = h "[-_]" h "[-_]" h "[-_]" h "[-_]" h "[-_]" h
    names = split(host ((at = index(host, ".")) ? " " substr(host, 1, at - 1) " " substr(host, at + 1) : ""), p, " ")
    n = 0
    for (i = 1; i <= names; i++)
        if (length(p[i]) > 1 && tolower(p[i]) !~ /^(localhost|openwrt|friendlywrt|immortalwrt|debian|linux|\(none\)|router)$/)
            name[++n] = p[i]
    names = n
}
{
    file = $0
    path = substr(file, length(tree) + 1)
    n = lines_out = count_words = have = 0
    quote = part = section = ""
    split("", out)
    split("", word)
    while ((getline line < file) > 0) lines[++n] = line
    close(file)
    whole = ""
    for (i = 1; i <= n; i++) {
        line = lines[i]
        if (path ~ /\/sys\/kernel\/hostname$/) put(names ? "router" : line)
        else if (path ~ /\/(ifalias|phys_switch_id|phys_port_id)$/) put(hide(line))
        else if (path ~ /\/proc\/net\/route$/) put(route(line))
        else if (path ~ /^\/etc\/config\//) uci(line)
        else if (path == "/etc/board.json") whole = whole line "\n"
        else if (path == "/proc/cmdline") put(boot(line))
        else if (path == "/proc/version") {
            if (match(line, /\([^)]*@[^)]*\)/)) line = substr(line, 1, RSTART) "builder@host" substr(line, RSTART + RLENGTH - 1)
            put(nameless(line))
        } else if (path ~ /\/(os-release|openwrt_release)$/) {
            split(line, p, "=")
            if (("release", p[1]) in kept) put(nameless(line))
        } else if (path ~ /^\/etc\//) {
            if (line !~ /^[ \t]*#/) put(nameless(line))
        } else if (path == "/proc/cpuinfo" && line ~ /^[Ss]erial[^:]*:/) put(substr(line, 1, index(line, ":")) " " hide(substr(line, index(line, ":") + 1)))
        else put(words(line))
    }
    if (whole != "") board(whole)
    printf "" > file
    for (i = 1; i <= lines_out; i++) print out[i] > file
    if (n) close(file)
}
AWK
awk -v host="$hostname" -v tree="$tree" -v lists="$work/lists" -f "$work/redact.awk" "$work/files"
case $hostname in localhost | OpenWrt | FriendlyWrt | ImmortalWrt | debian | linux | '(none)' | router) hostname= ;; esac
kept=
for name in "$tree"/sys/class/net/*; do
    case ${name##*/} in
        enx* | wlx* | wwx*) kept="$kept ${name##*/}" ;;
        *"${hostname:-/}"*) kept="$kept ${name##*/}" ;;
    esac
done
[ -z "$kept" ] || echo "capture.sh: these names hold a hardware address or the host's name, and stay:$kept" >&2

cat >"$tree/manifest.json" <<EOF2
{"format": "linerate-capture", "version": 1, "kernel": "$(cat "$root/proc/sys/kernel/osrelease" 2>/dev/null || uname -r)", "created": "$(date -u +%Y-%m-%dT%H:%M:%SZ)", "samples": $samples, "made_by": "capture.sh"}
EOF2

tar -cf - -C "$tree" . | gzip -c >"$work/packed"
cat "$work/packed" >"$out"
files=$(find "$tree" -type f | wc -l)
echo "$out: $(($(wc -c <"$out") / 1024)) KiB: $((files)) files, $samples samples of counters"
echo "not read: $(($(wc -l <"$tree/linerate/errors"))) (recorded as such); netlink was not asked"
echo "look at it: linerate show --host $out"
