#!/bin/sh
# web.sh cockpit|luci DIR: lays the page out under DIR as the package of that host has it.
# web.sh test: its tests. What is missing here (node, Chromium, a root) is said and left out.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

# put MODE DIR FILES...
put() {
    mode=$1 into=$2
    shift 2
    mkdir -p "$into"
    cp "$@" "$into/"
    for file in "$@"; do chmod "$mode" "$into/$(basename "$file")"; done
}

layout() { # layout HOST DIR
    case $1 in
    cockpit)
        put 644 "$2/usr/share/cockpit/linerate" web/cockpit/manifest.json web/cockpit/index.html web/cockpit/host.js
        put 644 "$2/usr/share/cockpit/linerate/page" web/page/*
        ;;
    luci)
        put 644 "$2/www/luci-static/resources/linerate" web/page/*
        put 644 "$2/www/luci-static/resources/view/linerate" web/luci/htdocs/luci-static/resources/view/linerate/*
        put 644 "$2/usr/share/luci/menu.d" web/luci/root/usr/share/luci/menu.d/*
        put 644 "$2/usr/share/rpcd/acl.d" web/luci/root/usr/share/rpcd/acl.d/*
        ;;
    *) say 'usage: scripts/web.sh cockpit|luci DIR, or scripts/web.sh test'; exit 2 ;;
    esac
}

# What the tests run: files, and the namespace they run in where there is a root.
tests() {
    # A test runner that ends in time: 20.14.
    node --test-force-exit --version >/dev/null 2>&1 || { say 'SKIPPED (optional) page: no node here, or one older than 20.14'; return 0; }
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    layout cockpit "$work/cockpit"
    layout luci "$work/luci"
    export LINERATE_WEB="$work"
    LINERATE_PROGRAM=$(readlink -f "${LINERATE_PROGRAM:-target/debug/linerate}")
    export LINERATE_PROGRAM
    # Only Chromium's tests use it: the checks for accessibility.
    cache=${LINERATE_VM_CACHE:-.cache/vm}/web
    if [ ! -e "$cache/node_modules/axe-core/axe.min.js" ] && command -v npm >/dev/null; then
        mkdir -p "$cache"
        cp web/test/package.json web/test/package-lock.json "$cache/"
        npm ci --silent --prefix "$cache" >/dev/null 2>&1 || say 'web: axe-core could not be fetched; its test is skipped'
    fi
    LINERATE_AXE=$(readlink -f "$cache")/node_modules/axe-core/axe.min.js
    export LINERATE_AXE
    LINERATE_COCKPIT_ROOT=$(readlink -f "$cache")/cockpit
    export LINERATE_COCKPIT_ROOT
    inside=
    if [ "$(id -u)" = 0 ]; then
        inside=web/test/router.sh
        web/test/cockpit.sh build "$LINERATE_COCKPIT_ROOT" >&2 || say 'web: no root file system with Cockpit; its test is skipped'
    fi
    # shellcheck disable=SC2086 # the pattern is for the shell
    $inside node --test --test-concurrency=1 --test-force-exit --test-reporter="${LINERATE_WEB_REPORTER:-tap}" ${2:-web/test/*.test.mjs}
}

case ${1:-} in
test) tests "$@" ;;
*) layout "${1:-}" "${2:-}" ;;
esac
