#!/bin/sh
# packages.sh [KIND]... [--arch OPENWRT_ARCHITECTURE] [--program FILE] [--to DIRECTORY]: packages, in
# target/packages, and prints their paths. Kinds (all of them where none is named): deb, rpm; cockpit (a
# .deb of the page); ipk (OpenWrt's, of the router's program), full (an .ipk of the whole program), luci (an
# .ipk of the page); source. Name, version and licence are those of Cargo.toml. With --program FILE takes a
# program that is built already. Two runs on one commit give the same bytes: dates are those of the commit.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh
use_rust || { say "packages: no Rust 1.$RUST_WANTED_MINOR or later; run: make build"; exit 5; }

target=$(mkdir -p "${CARGO_TARGET_DIR:-target}" && readlink -f "${CARGO_TARGET_DIR:-target}")
out=$target/packages
arch=x86_64
program=
kinds=
while [ $# -gt 0 ]; do
    case $1 in
    deb | rpm | cockpit | ipk | full | luci | source) kinds="$kinds $1" ;;
    --arch | --program | --to)
        [ -n "${2:-}" ] || { say "packages: $1 needs a value"; exit 2; }
        case $1 in
        --arch) arch=$2 ;;
        --program) program=$(readlink -f "$2") ;;
        --to) out=$(readlink -f "$2") ;;
        esac
        shift
        ;;
    *) say 'usage: scripts/packages.sh [deb|rpm|cockpit|ipk|full|luci|source]... [--arch OPENWRT_ARCHITECTURE] [--program FILE] [--to DIRECTORY]'; exit 2 ;;
    esac
    shift
done
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Cargo.toml)}
export SOURCE_DATE_EPOCH
LC_ALL=C # names are sorted
export LC_ALL
umask 022
work=$(mktemp -d)
export MANUAL="$work/manual"
trap 'rm -rf "$work"' EXIT

about() { sed -n "s/^$1 = \"\(.*\)\"/\1/p" Cargo.toml | head -n 1; }
version=$(about version)
release=${LINERATE_RELEASE:-1} # counts the packages of one version
# The maintainer of a package is whoever publishes it.
MAINTAINER=${LINERATE_MAINTAINER:-The linerate authors <linerate@example.org>}
TEXT='It shows where packets are handled and what holds them back, plans which CPU
should take which interrupt and queue, applies it with a dead-man that undoes
what cuts you off, keeps it over reboots, measures the gain by experiment, and
puts everything back exactly.'
PAGE='It shows what the router is and what holds it back, makes a plan, and applies
it with a countdown: the change is undone unless it is kept in time.'

# Files of ours in archives are of the commit's date, root's, and in one order.
pack() { tar --create --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --format=gnu --directory "$1" . | gzip -9n; }
dated() { find "$1" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +; }

# has TOOL PACKAGE: is it there? Else says what to install, and this kind of package is not made.
has() {
    command -v "$1" >/dev/null && return 0
    say "packages: no $1 here; hint: apt-get install $2"
    exit 5
}

example() { cargo run --quiet --locked --example "$@" >&2; }

# tree DIRECTORY: all that a package of a distribution has.
tree() {
    example manual "$MANUAL"
    example bill "$MANUAL"
    DESTDIR=$1 PREFIX=/usr scripts/install.sh "${program:-$(scripts/build.sh -q)}"
    find "$1/usr/share/man" -name '*.1' -exec gzip -9n {} +
    install -D -m 644 packaging/boards.d.README "$1/etc/linerate/boards.d/README"
}

# debian NAME ARCHITECTURE SUMMARY DESCRIPTION LINE...: the .deb of $work/NAME; the lines are more of its
# control.
debian() {
    root=$work/$1 doc=$work/$1/usr/share/doc/$1
    cat >"$work/changelog" <<CHANGES
$1 ($version-$release) unstable; urgency=medium

  * What is new for users is in changelog.gz of linerate.

 -- $MAINTAINER  $(date --utc --rfc-email --date="@$SOURCE_DATE_EPOCH")
CHANGES
    mkdir -p "$root/DEBIAN" "$doc"
    install -m 644 packaging/debian/copyright "$doc/copyright"
    gzip -9n <"$work/changelog" >"$doc/changelog.Debian.gz"
    sed -n "s/^$1: /&/p" packaging/debian/lintian-overrides >"$work/overrides"
    install -D -m 644 "$work/overrides" "$root/usr/share/lintian/overrides/$1"
    name=$1 architecture=$2 summary=$3 text=$4
    shift 4
    {
        cat <<CONTROL
Package: $name
Version: $version-$release
Architecture: $architecture
Maintainer: $MAINTAINER
Installed-Size: $(du -k --apparent-size -s "$root/usr" | cut -f1)
Section: net
Priority: optional
CONTROL
        for line; do echo "$line"; done
        echo "Description: $summary"
        echo "$text" | sed 's/^/ /'
    } >"$root/DEBIAN/control"
    (cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
    dated "$root"
    file=$out/${name}_$version-${release}_$architecture.deb
    dpkg-deb --root-owner-group --build "$root" "$file" >&2
    echo "$file"
}

deb() {
    has dpkg-deb dpkg
    root=$work/linerate doc=$work/linerate/usr/share/doc/linerate
    ZSH_COMPLETIONS=share/zsh/vendor-completions tree "$root"
    mkdir "$root/DEBIAN"
    install -m 755 packaging/debian/postrm "$root/DEBIAN/postrm"
    install -m 755 packaging/remove.sh "$root/DEBIAN/prerm"
    echo /etc/linerate/boards.d/README >"$root/DEBIAN/conffiles"
    # Debian has the text of one licence for all packages, and wants its own form of the changes.
    rm "$doc/LICENSE-MIT" "$doc/LICENSE-APACHE"
    gzip -9n "$doc/CHANGELOG.md"
    mv "$doc/CHANGELOG.md.gz" "$doc/changelog.gz"
    debian linerate "$(dpkg --print-architecture)" 'forward at line rate, safely, and prove it' "$TEXT"
}

cockpit() {
    has dpkg-deb dpkg
    scripts/web.sh cockpit "$work/cockpit-linerate"
    debian cockpit-linerate all 'Cockpit page for linerate' "$PAGE" 'Depends: cockpit-bridge (>= 239), linerate' 'Enhances: cockpit'
}

rpm() {
    has rpmbuild rpm
    tree "$work/rpm"
    dated "$work/rpm"
    rpmbuild -bb --quiet --define "_topdir $work/top" --define "_rpmdir $out" --define "_rpmfilename linerate-%{VERSION}-%{RELEASE}.%{ARCH}.rpm" \
        --define "tree $work/rpm" --define "upstream $version" --define "number $release" --define "remove $PWD/packaging/remove.sh" \
        --define "packager $MAINTAINER" --define "day $(date --utc '+%a %b %d %Y' --date="@$SOURCE_DATE_EPOCH")" packaging/rpm/linerate.spec >&2
    echo "$out/linerate-$version-$release.$(uname -m).rpm"
}

# The architecture of an OpenWrt package is the instruction set and the core it is tuned for; the program
# is the same for all cores of one instruction set.
triple() {
    case $1 in
    x86_64) echo x86_64-unknown-linux-musl ;;
    i386_pentium*) echo i686-unknown-linux-musl ;;
    aarch64_*) echo aarch64-unknown-linux-musl ;;
    arm_cortex-a*_vfp* | arm_cortex-a*_neon*) echo armv7-unknown-linux-musleabihf ;;
    arm_arm1176*) echo arm-unknown-linux-musleabi ;;
    arm_*) echo armv5te-unknown-linux-musleabi ;;
    mips_*) echo mips-unknown-linux-musl ;;
    mipsel_*) echo mipsel-unknown-linux-musl ;;
    riscv64*) echo riscv64gc-unknown-linux-musl ;;
    powerpc_*) echo powerpc-unknown-linux-musl ;;
    *) say "packages: no program for OpenWrt's architecture $1"; exit 2 ;;
    esac
}

# opkg NAME ARCHITECTURE DESCRIPTION LINE...: the .ipk of what is in $work/NAME: data, and the scripts and
# conffiles in control; the lines are more of its control.
opkg() {
    root=$work/$1
    mkdir -p "$root/control" "$root/whole"
    name=$1 architecture=$2 text=$3
    shift 3
    {
        cat <<CONTROL
Package: $name
Version: $version-$release
Source: feeds/packages/net/linerate
SourceName: $name
License: $(about license)
Section: net
SourceDateEpoch: $SOURCE_DATE_EPOCH
Maintainer: $MAINTAINER
Architecture: $architecture
Installed-Size: $(find "$root/data" -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum }')
CONTROL
        for line; do echo "$line"; done
        echo "Description:  $text"
    } >"$root/control/control"
    pack "$root/data" >"$root/whole/data.tar.gz"
    pack "$root/control" >"$root/whole/control.tar.gz"
    echo 2.0 >"$root/whole/debian-binary"
    file=$out/${name}_$version-${release}_$architecture.ipk
    pack "$root/whole" >"$file"
    echo "$file"
}

# openwrt NAME ROUTER LINE...: the program for OpenWrt; ROUTER is --router or nothing.
openwrt() {
    name=$1 router=$2
    shift 2
    # shellcheck disable=SC2046 # options are words
    example bill "$work/bill" $([ -z "$router" ] || echo --no-default-features --features router)
    triple=$(triple "$arch")
    # shellcheck disable=SC2086 # --router is a word or none
    if [ -n "$program" ]; then
        binary=$program
    elif [ "$triple" = "$(static_target)" ]; then
        binary=$(scripts/build.sh -q $router)
    else
        binary=$(scripts/build.sh -q $router --target "$triple")
    fi
    root=$work/$name
    install -D -m 755 "$binary" "$root/data/usr/bin/linerate"
    install -D -m 644 packaging/boards.d.README "$root/data/etc/linerate/boards.d/README"
    install -D -m 755 packaging/openwrt/linerate-watch.init "$root/data/etc/init.d/linerate-watch"
    install -D -m 755 -t "$root/data/usr/share/linerate/events.d" packaging/events.d/*
    # An upgrade of OpenWrt keeps plan, records and board files; of what `persist` wrote elsewhere that has a
    # list of its own, beside this one.
    install -d "$root/data/lib/upgrade/keep.d"
    echo /etc/linerate >"$root/data/lib/upgrade/keep.d/linerate-conf"
    # Compressed, for a router's flash is small.
    for text in third-party-licences.txt linerate.cdx.json; do
        install -d "$root/data/usr/share/doc/linerate"
        gzip -9n <"$work/bill/$text" >"$root/data/usr/share/doc/linerate/$text.gz"
    done
    install -D -m 755 packaging/remove.sh "$root/control/prerm"
    echo /etc/linerate/boards.d/README >"$root/control/conffiles"
    opkg "$name" "$arch" "$(about description)" "$@"
}

ipk() { openwrt linerate --router; }
full() { openwrt linerate-full '' 'Provides: linerate' 'Conflicts: linerate'; }

luci() {
    root=$work/luci-app-linerate
    scripts/web.sh luci "$root/data"
    install -D -m 755 packaging/openwrt/luci.postinst "$root/control/postinst"
    opkg luci-app-linerate all "LuCI page for linerate" 'Depends: luci-base, rpcd-mod-file, linerate'
}

# All that a build without a network needs: our source, the crates, and where cargo finds them.
source() {
    name=linerate-$version
    mkdir -p "$work/source/$name"
    git archive HEAD | tar -x -C "$work/source/$name"
    commit >"$work/source/$name/COMMIT"
    (cd "$work/source/$name" && mkdir -p .cargo && cargo vendor --quiet --locked --versioned-dirs vendor >.cargo/config.toml)
    file=$out/$name.tar.gz
    pack "$work/source" >"$file"
    echo "$file"
}

mkdir -p "$out"
for kind in ${kinds:-deb rpm cockpit ipk full luci source}; do "$kind"; done
