# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""`linerate show` and `status`, and what kind of machine it is."""

from __future__ import annotations

from ansible_collections.linerate.router.plugins.plugin_utils.machine import (
    devices,
    machine_class,
)
from ansible_collections.linerate.router.plugins.plugin_utils.router import (
    DONE,
    DRIFT,
    Answer,
    RouterAction,
)


class ActionModule(RouterAction):
    """facts"""

    SPEC = {"full": {"type": "bool", "default": False}}

    def act(self):
        script = "%s >version || exit; %s >show || exit; %s >status" % (
            self.command("--version"),
            self.command("show", "--json"),
            self.command("status", "--json"),
        )
        answer, files = self.in_scratch(script, back=("version", "show", "status"))
        self.must(answer, ("show",), (DONE, DRIFT))
        version, show, status = files
        facts = {"version": self.check_version(version)}
        show = Answer(0, show, "").json("linerate-show")
        facts["status"] = Answer(0, status, "").json("linerate-status")
        facts["machine"] = show["machine"]
        facts["class"] = machine_class(show)
        facts["devices"] = devices(show)
        if self.args["full"]:
            facts["show"] = show
        return {"ansible_facts": {"linerate": facts}}
