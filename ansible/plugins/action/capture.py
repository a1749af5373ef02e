# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""`linerate capture`, brought to the controller."""

from __future__ import annotations

import os

from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.text.converters import to_bytes
from ansible_collections.linerate.router.plugins.plugin_utils.files import write
from ansible_collections.linerate.router.plugins.plugin_utils.router import RouterAction


class ActionModule(RouterAction):
    """capture"""

    SPEC = {
        "dest": {"type": "path", "required": True},
        "samples": {"type": "int", "default": 3},
        "interval": {"type": "str", "default": "1"},
        "force": {"type": "bool", "default": True},
    }

    def act(self):
        dest = self.args["dest"]
        if not self.args["force"] and os.path.exists(dest):
            return {"dest": dest}
        if self._task.check_mode:
            return {"dest": dest, "changed": True}
        words = ["capture", "--json", "-o", "capture.tar.gz", "--samples", self.args["samples"]]
        words += ["--interval", self.args["interval"]]
        answer, files = self.in_scratch(self.command(*words), back=("capture.tar.gz",))
        told = self.must(answer, words).json("linerate-capture-summary")
        data = to_bytes(files[0], errors="surrogateescape")
        if len(data) != told["bytes"]:
            raise AnsibleActionFail("%d bytes of the capture came instead of %d" % (len(data), told["bytes"]))
        try:
            write(dest, data)
        except OSError as error:
            raise AnsibleActionFail("write %s: %s" % (dest, error.strerror)) from error
        return {"changed": True, "dest": dest, "bytes": told["bytes"], "redacted": told["redacted"]}
