# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""`linerate persist` and `unpersist`."""

from __future__ import annotations

from ansible.errors import AnsibleActionFail
from ansible_collections.linerate.router.plugins.plugin_utils.router import RouterAction

KEPT = "/etc/linerate/plan.toml"


class ActionModule(RouterAction):
    """persist"""

    SPEC = {
        "src": {"type": "path"},
        "content": {"type": "str"},
        "state": {"type": "str", "default": "present", "choices": ["present", "absent"]},
        "force": {"type": "bool", "default": False},
    }
    EXCLUSIVE = [("src", "content")]

    def act(self):
        if self.args["state"] == "absent":
            return self.unpersist()
        plan = self.given_plan()
        if plan is None:
            raise AnsibleActionFail("one of src and content is needed: the plan")
        if self._task.check_mode:
            words = ["persist", "--json", "--print", "given"]
            script = "%s && { cat %s >kept 2>/dev/null || :; }" % (self.command(*words), KEPT)
            answer, files = self.in_scratch(script, stdin=plan, back=("kept",))
            told = self.must(answer, words).json("linerate-persist-files")
            return {"changed": files[0] != plan, "files": told["files"]}
        words = ["persist", "--json", "given"]
        answer = self.in_scratch(self.command(*words), stdin=plan)[0]
        files = self.must(answer, words).json("linerate-persist")["files"]
        return {"changed": bool(files), "files": files}

    def unpersist(self):
        """Takes it back."""
        answer = self.shell("[ -e %s ]" % KEPT)
        if answer.code != 0:
            return {"files": []}
        if self._task.check_mode:
            return {"changed": True, "files": [KEPT]}
        force = ["--force"] if self.args["force"] else []
        told = self.linerate("unpersist", "--json", *force).json("linerate-unpersist")
        return {"changed": bool(told["files"]), "files": told["files"]}
