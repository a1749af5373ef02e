//! The packages of distributions, made of the program under test: installed, upgraded, refused to go,
//! removed and purged in a root file system of their own, by the real dpkg and rpm.
//!
//! What runs in there is busybox and the program, in a network namespace of its own. systemd, udev and
//! opkg are stand-ins: an empty directory and programs that do nothing; tar and the order in which opkg
//! calls a package's scripts. `persist.rs` has the real systemd.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "tests set their own scene")]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

/// What is the same for all kinds: $kind is the kind, $root the root file system, $first and $second are
/// packages of two releases.
const SCRIPT: &str = r#"
fail() { echo "failed: $*"; exit 1; }
inside() { chroot $root /bin/env -i PATH=/usr/bin:/bin COLUMNS=200 "$@"; }
value() { cat /proc/sys/net/ipv4/ip_forward; }
mkdir -p $root/bin $root/usr/bin $root/proc $root/sys $root/dev $root/tmp $root/etc $root/run
echo router >$root/etc/hostname
cp $busybox $root/bin/busybox
inside /bin/busybox --install -s /bin 2>/dev/null || chroot $root /bin/busybox --install -s /bin
mount -t proc proc $root/proc
mount -t proc proc /proc
mount -t sysfs sysfs $root/sys
ln -s /bin/true $root/usr/bin/systemctl
ln -s /bin/true $root/usr/bin/udevadm
ln -s /bin/true $root/usr/bin/systemd-run
cat >$root/plan.toml <<O
format = "linerate-plan"
version = 1
name = "test"
title = "a test"
reason = "a test"
hostname = "router"
cpus = "0"
settings = 1

[[setting]]
knob = "sysctl"
name = "net.ipv4.ip_forward"
before = false
after = true
reason = "a test"
O
case $kind in
deb)
    mkdir -p $root/var/lib/dpkg/info $root/var/lib/dpkg/updates $root/run/systemd/system
    : >$root/var/lib/dpkg/status
    put() { dpkg --root=$root --install $1; }
    go() { dpkg --root=$root --remove linerate; }
    purge() { dpkg --root=$root --purge linerate; }
    edited=$root/etc/udev/rules.d/90-linerate.rules
    ;;
rpm)
    mkdir -p $root/run/systemd/system
    put() { rpm --root=$root --upgrade --nosignature --nodeps $1; }
    go() { rpm --root=$root --erase --nodeps linerate; }
    purge() { :; } # rpm has no such thing
    edited=$root/etc/udev/rules.d/90-linerate.rules
    ;;
ipk)
    mkdir -p $root/etc/config $root/etc/init.d $root/etc/rc.d
    : >$root/etc/openwrt_release
    : >$root/etc/rc.common
    part() { tar -xzOf $1 ./$2.tar.gz | tar -xz -C $3; }
    put() {
        if [ -e $root/prerm ]; then inside PKG_UPGRADE=1 /prerm upgrade || return; fi
        part $1 data $root
        part $1 control $root
    }
    files() { tar -xzOf $1 ./data.tar.gz | tar -tz | grep -v '/$'; }
    go() { inside /prerm remove && (cd $root && files $second | xargs rm -f prerm); }
    purge() { :; }
    kept=$root/lib/upgrade/keep.d
    edited=$root/etc/hotplug.d/net/60-linerate
    ;;
esac
put $first || fail "the package can not be installed"
inside linerate --version
[ $kind = ipk ] || [ -s $root/usr/share/man/man1/linerate-apply.1.gz ] || fail 'no manual'
ls $root/usr/share/doc/linerate/*licences* $root/usr/share/doc/linerate/*cdx* >/dev/null || fail 'no bill'
[ -e $root/etc/linerate/boards.d/README ] || fail 'no /etc/linerate'
case $kind in
deb) # the page for Cockpit, which is not here
    dpkg --root=$root --force-depends --install $page || fail "the page can not be installed"
    [ -e $root/usr/share/cockpit/linerate/manifest.json ] || fail "no page"
    if dpkg --root=$root --force-depends-version --remove linerate; then fail "the page was left without the program"; fi
    dpkg --root=$root --force-depends --purge cockpit-linerate || fail "the page stays"
    [ ! -e $root/usr/share/cockpit ] || fail "left of the page: $(find $root/usr/share/cockpit)"
    ;;
ipk) # and the one for LuCI, whose menu and permissions are read anew
    [ "$(cat $kept/linerate-conf)" = /etc/linerate ] || fail "an upgrade of OpenWrt would lose plan and records"
    printf '#!/bin/sh\necho $1 >/run/rpcd\n' >$root/etc/init.d/rpcd
    chmod +x $root/etc/init.d/rpcd
    : >$root/tmp/luci-indexcache.1.json
    part $page data $root
    part $page control $root
    inside /postinst configure || fail "the page's postinst"
    [ "$(cat $root/run/rpcd)" = reload ] || fail "rpcd would not know the page's permissions"
    [ ! -e $root/tmp/luci-indexcache.1.json ] || fail "LuCI would not show the page"
    [ -e $root/usr/share/rpcd/acl.d/luci-app-linerate.json ] || fail "no permissions for the page"
    (cd $root && files $page | xargs rm -f postinst control etc/init.d/rpcd)
    ;;
esac
cp -a $root/etc $root/before
echo 0 >/proc/sys/net/ipv4/ip_forward
inside linerate persist /plan.toml || fail "persist"
inside linerate apply --no-confirm /plan.toml || fail "apply"
[ $(value) = 1 ] || fail "applied, and it is $(value)"

put $second || fail "the upgrade"
[ $(value) = 1 ] || fail "the upgrade undid what is applied"
[ -e $root/etc/linerate/persist.json ] || fail "the upgrade undid what is persisted"

# Somebody's own work is not thrown away: the package stays, and says why.
cp $edited $root/kept
echo '# mine' >>$edited
if go >$root/said 2>&1; then cat $root/said; fail "removed over a file that somebody edited"; fi
cat $root/said
grep -q 'could not unpersist, so the package stays' $root/said || fail "it does not say why it stays"
inside linerate --version >/dev/null || fail "refused, and the program is gone"
# What could be undone is; that file is put right, and it may go.
cp $root/kept $edited
go || fail "the removal"
[ $(value) = 0 ] || fail "removed, and the setting is $(value)"
[ ! -e $root/usr/bin/linerate ] || fail "the program stays"
[ ! -e $root/etc/linerate/persist.json ] || fail "the record stays"
[ $kind != ipk ] || [ -z "$(ls -A $kept)" ] || fail "left: $(ls $kept)"
purge || fail "the purge"
case $kind in
deb) [ ! -e $root/etc/linerate ] || fail "purged, and there is $(find $root/etc/linerate)" ;;
esac
rm -rf $root/before/linerate $root/etc/linerate
cd $root/etc || fail "no /etc"
for file in $(find . -type f -o -type l); do [ -e $root/before/$file ] || fail "left in /etc: $file"; done
echo "all of $kind"
"#;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// A package of a release, made by the script that makes them for everybody, in a folder of its own; the first
/// also by somebody else, in another zone and with other permissions of new files, to the same bytes.
fn package(kind: &str, release: &str, place: &Path) -> PathBuf {
    let make = |zone: &str, permissions: &str, into: &Path| -> PathBuf {
        std::fs::create_dir_all(into).unwrap();
        let out = Command::new("sh")
            .args(["-c", r#"umask "$1"; shift; exec "$@""#, "sh", permissions])
            .arg(repository().join("scripts/packages.sh"))
            .args([kind, "--to"])
            .arg(into)
            .arg("--program")
            .arg(common::linerate())
            .env("LINERATE_RELEASE", release)
            .env("TZ", zone)
            .output()
            .unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).trim().into()
    };
    let package = make("UTC", "022", place);
    if release != "1" {
        return package;
    }
    let again = make("Asia/Kathmandu", "077", &place.join("again"));
    assert_eq!(package.file_name(), again.file_name());
    let [one, other] = [&package, &again].map(|path| std::fs::read(path).unwrap());
    assert!(
        one == other,
        "two of one program differ: {} and {}",
        package.display(),
        again.display()
    );
    package
}

fn life_of(kind: &str, tools: &[&str]) {
    for tool in tools.iter().chain(&["unshare", "busybox"]) {
        let there = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .any(|directory| directory.join(tool).exists());
        if !there {
            return common::skip(&format!("no {tool} here"));
        }
    }
    if !rustix::process::geteuid().is_root() {
        return common::skip("needs root");
    }
    let place =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{kind}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    let (first, second) = (package(kind, "1", &place), package(kind, "2", &place));
    let page = match kind {
        "deb" => package("cockpit", "1", &place),
        "ipk" => package("luci", "1", &place),
        _ => PathBuf::new(),
    };
    std::fs::write(place.join("script"), SCRIPT).unwrap();
    let out = Command::new("unshare")
        .args(["--mount", "--net", "--pid", "--fork", "sh", "-u"])
        .arg(place.join("script"))
        .env("kind", kind)
        .env("root", place.join("root"))
        .env("first", &first)
        .env("second", &second)
        .env("page", &page)
        .env("busybox", "/bin/busybox")
        .output()
        .unwrap();
    let said = [out.stdout, out.stderr].map(|s| String::from_utf8_lossy(&s).into_owned()).concat();
    assert!(out.status.success() && said.contains(&format!("all of {kind}")), "{said}");
    std::fs::remove_dir_all(&place).unwrap();
}

#[test]
#[ignore = "slow: make test runs it"]
fn a_debian_package_goes_without_a_trace_or_says_why_it_stays() {
    life_of("deb", &["dpkg", "dpkg-deb"]);
}

#[test]
#[ignore = "slow: make test runs it"]
fn an_rpm_goes_without_a_trace_or_says_why_it_stays() {
    common::optional();
    life_of("rpm", &["rpm", "rpmbuild"]);
}

#[test]
#[ignore = "slow: make test runs it"]
fn an_openwrt_package_goes_without_a_trace_or_says_why_it_stays() {
    life_of("ipk", &["tar"]);
}
