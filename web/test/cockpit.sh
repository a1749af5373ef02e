#!/bin/sh
# cockpit.sh build DIR: a root file system with the distribution's own Cockpit, kept between runs.
# cockpit.sh serve DIR PAGE PROGRAM: its cockpit-ws on 127.0.0.1:9090, over a copy of DIR in memory with the
# page (as `scripts/web.sh cockpit` lays it out) and the program in it. The password of the user `keeper`,
# who may use sudo, is read from stdin. Run it in a namespace of its own (router.sh).
set -eu

# Raised when the recipe changes.
RECIPE=1
PACKAGES=cockpit-ws,cockpit-bridge,cockpit-system,sudo,dbus

case ${1:-} in
build)
    root=$2
    [ "$(cat "$root/recipe" 2>/dev/null)" != "$RECIPE" ] || exit 0
    command -v mmdebstrap >/dev/null || { echo 'cockpit.sh: mmdebstrap is missing' >&2; exit 5; }
    # shellcheck source=/dev/null
    release=$(. /etc/os-release && echo "$VERSION_CODENAME")
    rm -rf "$root"
    mkdir -p "$root"
    # shellcheck disable=SC2016 # mmdebstrap gives its hook the root as $1
    mmdebstrap --quiet --variant=minbase --include="$PACKAGES" \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' \
        --customize-hook='chroot "$1" useradd --create-home --shell /bin/bash --groups sudo keeper' \
        "$release" "$root"
    rm -rf "$root"/var/lib/apt/lists/* "$root"/var/cache/apt/*
    echo "$RECIPE" >"$root/recipe"
    ;;
serve)
    base=$2 page=$3 program=$4
    work=/run/cockpit-test
    mkdir -p "$work/memory"
    mount -t tmpfs tmpfs "$work/memory"
    mkdir "$work/memory/upper" "$work/memory/work" "$work/root"
    mount -t overlay overlay -o "lowerdir=$base,upperdir=$work/memory/upper,workdir=$work/memory/work" "$work/root"
    root=$work/root
    mkdir -p "$root/usr/share/cockpit"
    cp -R "$page/usr/share/cockpit/linerate" "$root/usr/share/cockpit/"
    cp "$program" "$root/usr/bin/linerate"
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    # The machine's own state: plans, journals and locks are in here.
    mount -t tmpfs tmpfs "$root/run"
    mkdir -p "$root/run/dbus"
    chroot "$root" chpasswd
    # The kernel lets nobody set a login's number in a namespace that has none of its own.
    sed -i 's/required\( *pam_loginuid.so\)/optional\1/' "$root/etc/pam.d/cockpit"
    chroot "$root" dbus-daemon --system --fork --nopidfile
    exec chroot "$root" /usr/lib/cockpit/cockpit-ws --no-tls --address=127.0.0.1 --port=9090
    ;;
*) echo 'usage: cockpit.sh build DIR | serve DIR PAGE PROGRAM' >&2; exit 2 ;;
esac
