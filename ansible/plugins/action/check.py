# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""`linerate check`."""

from __future__ import annotations

from ansible_collections.linerate.router.plugins.plugin_utils.router import (
    DONE,
    FINDINGS,
    RouterAction,
)

LEVELS = ["info", "notice", "warning", "critical"]


class ActionModule(RouterAction):
    """check"""

    SPEC = {
        "rules": {"type": "list", "elements": "str", "default": []},
        "load": {"type": "str"},
        "fail_on": {"type": "str", "default": "never", "choices": ["never", *LEVELS]},
    }

    def act(self):
        words = ["check", "--json", *self.args["rules"]]
        if self.args["load"]:
            words += ["--load", self.args["load"]]
        told = self.linerate(*words, good=(DONE, FINDINGS)).json("linerate-check")
        result = {key: told.get(key) for key in ("findings", "unseen", "model", "losses")}
        limit = self.args["fail_on"]
        if limit != "never":
            grave = [f for f in told["findings"] if LEVELS.index(f["severity"]) >= LEVELS.index(limit)]
            if grave:
                result["failed"] = True
                result["msg"] = "%d findings of %s or graver: %s" % (
                    len(grave),
                    limit,
                    "; ".join(finding["title"] for finding in grave),
                )
        return result
