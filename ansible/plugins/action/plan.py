# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""`linerate plan`: made on the router, kept on the controller."""

from __future__ import annotations

from ansible.module_utils.common.text.converters import to_bytes
from ansible_collections.linerate.router.plugins.plugin_utils.files import keep
from ansible_collections.linerate.router.plugins.plugin_utils.router import RouterAction


class ActionModule(RouterAction):
    """plan"""

    SPEC = {
        "candidate": {"type": "str"},
        "recipe": {"type": "str"},
        "role": {"type": "str", "choices": ["router", "vpn", "endpoint", "low-latency"]},
        "flows": {"type": "int"},
        "sample": {"type": "str"},
        "dest": {"type": "path"},
    }
    EXCLUSIVE = [("candidate", "recipe")]

    def act(self):
        words = ["plan", "--json", "-o", "plan.toml"]
        for name in ("candidate", "recipe", "role", "flows", "sample"):
            if self.args[name] is not None:
                words += ["--" + name, self.args[name]]
        answer, files = self.in_scratch(self.command(*words), back=("plan.toml",))
        told = self.must(answer, words).json("linerate-plans")
        result = {
            "plan": files[0],
            "name": told["plan"]["candidate"]["name"],
            "settings": len(told["plan"]["candidate"]["settings"]),
            "expects": told["expects"],
            "candidates": told["candidates"],
        }
        if self.args["dest"]:
            result.update(keep(self, self.args["dest"], to_bytes(files[0])))
        return result
