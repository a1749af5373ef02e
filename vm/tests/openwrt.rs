//! The whole story on an official OpenWrt, whose root file system the user names:
//! `LINERATE_OPENWRT_ROOTFS=openwrt-24.10.0-x86-64-rootfs.tar.gz make test`.
//!
//! It is unpacked in a guest, and its own init (procd) runs as the first process of a PID namespace, as it
//! does in a container. From there on everything is OpenWrt's: opkg installs the package, netifd owns the
//! cards, and uci, procd, hotplug and sysupgrade answer. The kernel is the distribution's.
//!
//! Tried on a tree of busybox that is laid out alike (with stand-ins for opkg, uci and init), and not yet on an
//! official one.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "tests set their own scene")]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::codes;
use linerate_vm::{Machine, Nic};

/// The guest's first half: the root file system, and OpenWrt's init in it.
const BOOT: &str = r#"
# As on a router: what the image has below, what is written above. It may not look like a root in memory,
# for in that nothing can be persisted.
mkdir /memory /new
mount -t tmpfs -o size=900m tmpfs /memory
mkdir /memory/rom /memory/upper /memory/work
zcat -f /root/rootfs | tar -x -C /memory/rom || exit 80
# Some archives have a folder around it all.
rom=$(dirname "$(dirname "$(ls -d /memory/rom/sbin/init /memory/rom/*/sbin/init 2>/dev/null | head -n 1)")")
[ -e "$rom/sbin/init" ] || { echo "no /sbin/init in it"; exit 81; }
new=/new
mount -t overlay overlay -o "lowerdir=$rom,upperdir=/memory/upper,workdir=/memory/work" $new || exit 83
mkdir -p $new/out $new/lib/modules
cp -R /lib/modules/* $new/lib/modules/
cp /root/linerate.ipk /root/functions /root/story $new/root/
# Last of all services. In the background: what procd starts in this order waits for each.
printf '#!/bin/sh /etc/rc.common\nSTART=99\nboot() { sh /root/story </dev/null >/out/said 2>&1 & }\n' >$new/etc/init.d/story
chmod +x $new/etc/init.d/story
ln -s ../init.d/story $new/etc/rc.d/S99story
unshare -m -p -f sh -c "mount -t proc proc $new/proc; exec chroot $new /sbin/init" </dev/null >/tmp/init 2>&1 &
for second in $(seq 400); do
    [ ! -e $new/out/done ] || break
    sleep 1
done
cat /tmp/init $new/out/said
cp $new/out/* /out/
[ -e $new/out/done ] || { ps; exit 82; }
"#;

/// The second half, on OpenWrt. The two lines of the card start on CPU 0, and RPS is off.
const STORY: &str = r#"
. /root/functions
export COLUMNS=200
trap 'echo >/out/done' EXIT
until_is() { # until_is SECONDS COMMAND...: whether it came true in time
    tries=$1; shift
    until "$@"; do [ $tries -gt 0 ] || return 1; tries=$((tries - 1)); sleep 1; done
}
masks() { grep -H . /sys/class/net/eth*/queues/rx-*/rps_cpus /sys/class/net/eth*/queues/tx-*/xps_cpus 2>/dev/null; grep -H . /proc/irq/*/smp_affinity; }
there() { find /etc /lib/upgrade /usr/libexec -type f -o -type l 2>/dev/null | grep -v -e /boards.d -e linerate-conf | xargs ls -l 2>/dev/null | sed 's/.* \(\/[^ ]*\)/\1/' | grep -i -e linerate -e platform/packet-steering | sort; }
until_is 60 [ -e /sys/class/net/eth0 ]
sleep 5 # netifd brings up what it owns, and OpenWrt steers for the last time
. /etc/openwrt_release
echo "$DISTRIB_ID $DISTRIB_RELEASE" >/out/release
there >/out/files-before
step install opkg install /root/linerate.ipk
masks >/out/masks-before
uci changes >/out/changes-before
step show linerate show --json
step plan linerate plan --candidate rps-all -o /root/plan.toml
step apply linerate apply --no-confirm /root/plan.toml
step verify linerate verify /root/plan.toml
masks >/out/masks-applied
step rollback linerate rollback
masks >/out/masks-rolled-back
uci changes >/out/changes-rolled-back

step persist linerate persist /root/plan.toml
step apply-again linerate apply --no-confirm /root/plan.toml
sysupgrade -l >/out/kept
# netifd makes devices anew, and OpenWrt's own steering acts a second after.
/etc/init.d/network restart
sleep 8
until_is 60 linerate verify >/dev/null 2>&1
step verify-restarted linerate verify
# Somebody commits what is staged.
uci commit network
step remove opkg remove linerate
uci changes >/out/changes-removed
there >/out/files-removed
[ -e /usr/bin/linerate ] && echo "the program stays" >>/out/files-removed
sleep 3
masks >/out/masks-removed
uci -q get network.@globals[0].packet_steering >/out/steering-removed
uci export network >/out/network-removed
"#;

fn rootfs() -> Option<PathBuf> {
    common::optional();
    let named = std::env::var_os("LINERATE_OPENWRT_ROOTFS").map(PathBuf::from);
    if named.is_none() {
        common::skip("LINERATE_OPENWRT_ROOTFS names no root file system (x86-64, .tar.gz)");
    }
    named
}

fn package() -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openwrt");
    std::fs::create_dir_all(&place).unwrap();
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("scripts/packages.sh");
    let mut make = Command::new(script);
    make.args(["ipk", "--to"]).arg(place).arg("--program").arg(common::linerate());
    let out = make.output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).trim().into()
}

#[test]
fn the_whole_story_on_an_official_openwrt() {
    let Some(rootfs) = rootfs() else { return };
    let mut contents = common::contents(&["e1000e", "overlay"], BOOT);
    contents.copy(&rootfs, "root/rootfs", 0o644).unwrap();
    contents.copy(&package(), "root/linerate.ipk", 0o644).unwrap();
    for (name, text) in [("functions", common::FUNCTIONS), ("story", STORY)] {
        contents.files.push((format!("root/{name}"), 0o644, text.into()));
    }
    let mut machine = Machine::new(2, &[Nic::E1000e, Nic::E1000e]);
    machine.memory = 1536;
    machine.timeout = Duration::from_secs(900);
    let Some(outcome) = common::run(&machine, &contents) else { return };
    assert_eq!(outcome.code, 0, "{}\n{}", outcome.output, outcome.console);
    let codes = codes(&outcome);
    for step in [
        "install",
        "show",
        "plan",
        "apply",
        "verify",
        "rollback",
        "persist",
        "apply-again",
        "verify-restarted",
        "remove",
    ] {
        assert_eq!(codes.get(step), Some(&0), "{step}: {}", outcome.output);
    }
    let of = |name: &str| outcome.text(name);
    assert!(of("masks-before").lines().count() > 4, "{}", of("masks-before"));
    assert_ne!(of("masks-before"), of("masks-applied"), "apply changed nothing");
    assert_eq!(of("masks-before"), of("masks-rolled-back"));
    assert_eq!(of("changes-before"), of("changes-rolled-back"), "something of ours stays staged");
    // An upgrade of OpenWrt keeps the plan, the records and the program.
    for path in ["/etc/linerate/plan.toml", "/etc/linerate/persist.json", "/usr/bin/linerate"] {
        assert!(of("kept").lines().any(|line| line == path), "{path} is not kept: {}", of("kept"));
    }
    assert_eq!(of("changes-removed"), "", "removed, and something of ours stays staged");
    assert_eq!(of("files-removed"), of("files-before"), "left behind");
    assert_eq!(of("masks-before"), of("masks-removed"));
}
