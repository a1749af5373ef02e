#!/bin/sh
# ansible.sh test [PYTEST ARGUMENTS]: the tests of the collection linerate.router, in namespaces of their own;
# what is missing here (ansible, pytest, sshd, a root) is said and left out.
# ansible.sh build DIR: the collection as a file for `ansible-galaxy collection install`.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

case ${1:-} in
build) exec ansible-galaxy collection build --force --output-path "${2:?a directory}" ansible ;;
test) shift ;;
*) say 'usage: scripts/ansible.sh test [PYTEST ARGUMENTS], or scripts/ansible.sh build DIR'; exit 2 ;;
esac
command -v ansible-playbook >/dev/null || { say 'SKIPPED (optional) fleet: no ansible-playbook here'; exit 0; }
# The Python that ansible has is the one that the tests import it by.
python=$(sed -n '1s/^#! *\([^ ]*\).*/\1/p' "$(command -v ansible-playbook)")
"$python" -c 'import pytest' 2>/dev/null || { say 'SKIPPED (optional) fleet: no pytest beside ansible'; exit 0; }
LINERATE_PROGRAM=$(readlink -f "${LINERATE_PROGRAM:-target/debug/linerate}")
export LINERATE_PROGRAM PYTHONDONTWRITEBYTECODE=1
set -- "$python" -m pytest -p no:cacheprovider -q --tb=short ansible/tests "$@"
[ "$(id -u)" = 0 ] || exec "$@"
LINERATE_FLEET_INSIDE=1
export LINERATE_FLEET_INSIDE
exec unshare -n -m -p --fork --kill-child --mount-proc sh -c 'mount --make-rprivate / && mount -t sysfs sysfs /sys && mount -t tmpfs tmpfs /run && exec "$@"' sh "$@"
