# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Installs a package of linerate, with the router's own package manager."""

from __future__ import annotations

import hashlib
import re

from ansible.errors import AnsibleActionFail
from ansible_collections.linerate.router.plugins.plugin_utils.router import (
    NOT_FOUND,
    RouterAction,
    version_of,
)

MANAGERS = {
    "deb": "dpkg -i",
    "rpm": "rpm -U --replacepkgs --oldpackage",
    "ipk": "opkg install --force-reinstall --force-downgrade",
    "apk": "apk add --allow-untrusted",
}


class ActionModule(RouterAction):
    """package"""

    SPEC = {
        "src": {"type": "path", "required": True},
        "version": {"type": "str"},
        "force": {"type": "bool", "default": False},
    }

    def act(self):
        path = self._find_needle("files", self.args["src"])
        kind = path.rsplit(".", 1)[-1]
        if kind not in MANAGERS:
            raise AnsibleActionFail("%s is none of .%s" % (path, ", .".join(MANAGERS)))
        version = self.args["version"]
        if version is None:
            named = re.search(r"linerate[_-](\d+(?:\.\d+)*)", path.rsplit("/", 1)[-1])
            if not named:
                raise AnsibleActionFail("the name of %s has no version: give it as version" % path)
            version = named.group(1)
        before = self.installed()
        result = {"before": before, "after": version, "changed": before != version or self.args["force"]}
        if self._task.check_mode or not result["changed"]:
            return result
        with open(path, "rb") as file:
            data = file.read()
        manager = MANAGERS[kind]
        script = "\n".join(
            [
                "command -v %s >/dev/null || { echo 'no %s here: it takes no .%s' >&2; exit 5; }"
                % (manager.split(" ")[0], manager.split(" ")[0], kind),
                # A line that breaks in the middle leaves a part of it.
                '[ "$(wc -c <given)" -eq %d ] || { echo "the package did not come whole" >&2; exit 71; }'
                % len(data),
                "! command -v sha256sum >/dev/null || echo '%s  given' | sha256sum -c >/dev/null || exit 71"
                % hashlib.sha256(data).hexdigest(),
                "mv given linerate.%s && %s ./linerate.%s >&2" % (kind, manager, kind),
            ]
        )
        answer = self.in_scratch(script, stdin=data)[0]
        if answer.code != 0:
            raise AnsibleActionFail(
                "%s: %s (exit code %d)" % (manager, answer.err.strip() or answer.out.strip(), answer.code)
            )
        now = self.installed()
        if now != version:
            raise AnsibleActionFail(
                "%s ended well, and %s --version tells of %s instead of %s"
                % (manager, self.args["program"], now, version)
            )
        return result

    def installed(self):
        """The version that is there, or None."""
        answer = self.shell(self.command("--version"))
        if answer.code == NOT_FOUND:
            return None
        return version_of(self.must(answer, ("--version",)).out)
