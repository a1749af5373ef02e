# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""`linerate rollback`."""

from __future__ import annotations

from ansible_collections.linerate.router.plugins.plugin_utils.change import ChangeAction
from ansible_collections.linerate.router.plugins.plugin_utils.router import DONE


class ActionModule(ChangeAction):
    """rollback"""

    SPEC = {"force": {"type": "bool", "default": False}}

    def act(self):
        if self._task.check_mode:
            entries = [e["path"] for journal in self.status()["journals"] for e in journal["entries"]]
            return {"changed": bool(entries), "restored": entries}
        self.reconnect()
        force = ["--force"] if self.args["force"] else []
        answer = self.linerate("rollback", "--json", *force, good=(DONE,))
        restored = answer.json("linerate-rollback")["restored"]
        return {"changed": bool(restored), "restored": restored}
