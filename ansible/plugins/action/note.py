# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""A file of the controller, written without a connection or a process of its own."""

from __future__ import annotations

import json
import os

from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.text.converters import to_bytes
from ansible.plugins.action import ActionBase
from ansible_collections.linerate.router.plugins.plugin_utils.files import keep


class ActionModule(ActionBase):
    """note"""

    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        spec = {
            "dest": {"type": "path", "required": True},
            "content": {"type": "raw"},
            "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
        }
        unused, args = self.validate_argument_spec(argument_spec=spec)
        dest = args["dest"]
        if args["state"] == "present":
            content = args["content"]
            text = content if isinstance(content, str) else json.dumps(content, indent=1)
            result.update(keep(self, dest, to_bytes(text)))
            return result
        result.update(dest=dest, changed=os.path.lexists(dest))
        if result["changed"] and not self._task.check_mode:
            try:
                os.unlink(dest)
            except OSError as error:
                raise AnsibleActionFail("remove %s: %s" % (dest, error.strerror)) from error
        return result
