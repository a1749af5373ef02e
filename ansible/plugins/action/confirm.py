# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""`linerate confirm`, by a connection made anew."""

from __future__ import annotations

from ansible_collections.linerate.router.plugins.plugin_utils.change import ChangeAction


class ActionModule(ChangeAction):
    """confirm"""

    def act(self):
        if self._task.check_mode:
            return {"changed": bool(self.status().get("waiting"))}
        self.log_in_anew(self.whence())
        self.waits()
        return {"changed": True, "seconds_left": self.confirm()}
