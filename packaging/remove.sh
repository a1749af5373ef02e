#!/bin/sh
# Before a package of any kind is removed: nothing of linerate's stays in force or comes back at the next
# boot. What can't be undone (a file that somebody else has edited since) stops the removal, and says so.
# An upgrade keeps everything: dpkg says so in words, rpm by the number of versions that stay, opkg in
# PKG_UPGRADE. A package that is removed from an image that does not run has nothing to undo.
set -e

case ${1:-remove} in upgrade | failed-upgrade | 1) exit 0 ;; esac
[ "${PKG_UPGRADE:-}" != 1 ] && [ -z "${IPKG_INSTROOT:-}" ] || exit 0

undo() {
    linerate -q "$1" && return 0
    echo "linerate: could not $1, so the package stays; see: linerate status" >&2
    echo "linerate: to remove it all the same: linerate $1 --force, then again" >&2
    exit 1
}
[ ! -d /run/systemd/system ] || systemctl --quiet disable --now linerate-watch || :
[ ! -x /etc/init.d/linerate-watch ] || { /etc/init.d/linerate-watch disable; /etc/init.d/linerate-watch stop; } || :
[ ! -e /etc/linerate/persist.json ] || undo unpersist
[ ! -d /run/linerate ] || undo rollback
exit 0
