# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""`linerate show` and `status`, and what kind of machine it is."""

from __future__ import annotations

from ansible_collections.linerate.router.plugins.plugin_utils.machine import (
    devices,
    machine_class,
)
from ansible_collections.linerate.router.plugins.plugin_utils.router import (
    DRIFT,
    FINDINGS,
    Answer,
    RouterAction,
)


class ActionModule(RouterAction):
    """facts"""

    SPEC = {
        "full": {"type": "bool", "default": False},
        "check": {"type": "bool", "default": False},
    }

    def act(self):
        words = {"version": ["--version"], "show": ["show", "--json"], "status": ["status", "--json"]}
        if self.args["check"]:
            words["check"] = ["check", "--json"]
        # Findings and drift have exit codes of their own.
        script = "; ".join(
            "%s >%s; c=$?; [ $c = 0 ] || [ $c = %d ] || [ $c = %d ] || exit $c"
            % (self.command(*words[name]), name, FINDINGS, DRIFT)
            for name in words
        )
        answer, files = self.in_scratch(script + "; true", back=tuple(words))
        self.must(answer, ("show",))
        version, show, status, *check = files
        facts = {"version": self.check_version(version)}
        show = Answer(0, show, "").json("linerate-show")
        facts["status"] = Answer(0, status, "").json("linerate-status")
        facts["machine"] = show["machine"]
        facts["class"] = machine_class(show)
        facts["devices"] = devices(show)
        if check:
            facts["findings"] = Answer(0, check[0], "").json("linerate-check")["findings"]
        if self.args["full"]:
            facts["show"] = show
        return {"ansible_facts": {"linerate": facts}}
