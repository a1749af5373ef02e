# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""`linerate verify`."""

from __future__ import annotations

from ansible_collections.linerate.router.plugins.plugin_utils.router import (
    DONE,
    DRIFT,
    RouterAction,
)


class ActionModule(RouterAction):
    """verify"""

    SPEC = {
        "src": {"type": "path"},
        "content": {"type": "str"},
        "pending": {"type": "bool", "default": False},
        "fail_on_drift": {"type": "bool", "default": True},
    }
    EXCLUSIVE = [("src", "content")]

    def act(self):
        plan = self.given_plan()
        words = ["verify", "--json"]
        if self.args["pending"]:
            words += ["--pending"]
        if plan is not None:
            words += ["given"]
        answer = self.in_scratch(self.command(*words), stdin=plan)[0]
        checks = self.must(answer, words, (DONE, DRIFT)).json("linerate-verify")["checks"]
        drifted = [c for c in checks if c["state"] not in ("in-force", "pending")]
        result = {
            "in_force": answer.code == DONE,
            "checks": len(checks),
            "pending": [c["path"] for c in checks if c["state"] == "pending"],
            "drifted": drifted,
        }
        if answer.code == DRIFT and self.args["fail_on_drift"]:
            result["failed"] = True
            result["msg"] = "%d of %d settings are not in force: %s" % (
                len(drifted),
                len(checks),
                ", ".join(str(check["path"]) for check in drifted),
            )
        return result
