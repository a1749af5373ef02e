# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""`linerate confirm`, by a connection made anew."""

from __future__ import annotations

from ansible.errors import AnsibleConnectionFailure
from ansible_collections.linerate.router.plugins.plugin_utils.change import ChangeAction, Unsure


class ActionModule(ChangeAction):
    """confirm"""

    def act(self):
        if self._task.check_mode:
            return {"changed": bool(self.status().get("waiting"))}
        try:
            self.log_in_anew(self.whence())
            self.waits()
            return {"changed": True, "seconds_left": self.confirm()}
        except AnsibleConnectionFailure as error:
            # A failure, and no router that is only not there: something is in force that undoes itself.
            raise Unsure(
                "no new login worked: not confirmed, and undone by the router: %s" % error
            ) from error
