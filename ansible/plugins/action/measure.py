# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a router does with its own traffic for a while: `linerate record` beside `check --load`."""

from __future__ import annotations

import json

from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.text.converters import to_bytes
from ansible_collections.linerate.router.plugins.plugin_utils.files import keep
from ansible_collections.linerate.router.plugins.plugin_utils.judge import window
from ansible_collections.linerate.router.plugins.plugin_utils.router import (
    DONE,
    FINDINGS,
    Answer,
    RouterAction,
)


class ActionModule(RouterAction):
    """measure"""

    SPEC = {
        "seconds": {"type": "int", "default": 20},
        "interval": {"type": "str", "default": "1"},
        "dest": {"type": "path"},
    }

    def act(self):
        seconds = self.args["seconds"]
        record = self.command("record", "--json", "--seconds", seconds, "--interval", self.args["interval"])
        check = self.command("check", "--json", "--load", seconds)
        script = "%s >record & %s >check; c=$?; wait $! || exit; (exit $c)" % (record, check)
        answer, files = self.in_scratch(script, back=("record", "check"))
        self.must(answer, ("record",), (DONE, FINDINGS))
        told = Answer(0, files[1], "").json("linerate-check")
        lines = files[0].splitlines()
        try:
            intervals = [json.loads(line) for line in lines[1:]]
        except ValueError as error:
            raise AnsibleActionFail("the record is no JSON: %s" % error) from error
        losses = told["losses"]
        measured = {
            "windows": [window(one) for one in intervals],
            "lost": losses["lost"],
            "frames": losses["balance"]["frames_in"],
            "places": [
                {key: entry[key] for key in ("stage", "place", "counter", "watched", "means")}
                for entry in losses["entries"]
                if entry["kind"] == "lost" and entry["watched"]
            ],
            "findings": told["findings"],
        }
        if self.args["dest"]:
            kept = keep(self, self.args["dest"], to_bytes(json.dumps(measured, indent=1)))
            # A measurement changes nothing, though its file differs each time.
            measured["dest"] = kept["dest"]
        return measured
