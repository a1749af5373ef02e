# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""`linerate apply --confirm`, confirmed by the controller once it could log in anew."""

from __future__ import annotations

import time

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible_collections.linerate.router.plugins.plugin_utils.change import ChangeAction
from ansible_collections.linerate.router.plugins.plugin_utils.router import (
    DONE,
    DRIFT,
    HOME,
    PLAN,
    as_format,
    diff_of,
)

# A router's guard gives a gateway up after 8 seconds without an answer.
SETTLE = 10


class ActionModule(ChangeAction):
    """apply"""

    SPEC = {
        "src": {"type": "path"},
        "content": {"type": "str"},
        "seconds": {"type": "int", "default": 90},
        "settle": {"type": "int", "default": SETTLE},
        "confirm": {"type": "str", "default": "now", "choices": ["now", "later"]},
        "probe": {"type": "list", "elements": "str", "default": []},
        "no_probe": {"type": "bool", "default": False},
        "pending": {"type": "bool", "default": False},
        "return_timeout": {"type": "int", "default": 120},
    }
    EXCLUSIVE = [("src", "content"), ("probe", "no_probe")]

    def act(self):
        plan = self.given_plan()
        if plan is None:
            raise AnsibleActionFail("one of src and content is needed: the plan")
        if self.args["seconds"] < self.args["settle"] + 15:
            raise AnsibleActionFail(
                "seconds (%d) leave no time to log in after settle (%d): 15 more are the least"
                % (self.args["seconds"], self.args["settle"])
            )
        if self._task.check_mode:
            return self.would_do(plan)
        if self.is_in_force(plan):
            return {"writes": [], "outcome": "in-force"}
        former = self.whence()
        deadline = self.begin()
        writes = self.ended(former, deadline)
        if not writes:
            return {"writes": [], "outcome": "in-force"}
        result = {"changed": True, "writes": writes}
        if self._task.diff:
            result["diff"] = diff_of(writes)
        # The probes look, and so does who comes by the connection that is made after the change.
        time.sleep(self.args["settle"])
        left = self.seconds_left(deadline)
        if self.args["confirm"] == "later":
            return dict(result, outcome="waiting", seconds_left=left)
        return dict(result, outcome="confirmed", seconds_left=self.confirm())

    def words(self, *more):
        """The command, but for the plan."""
        pending = ["--pending"] if self.args["pending"] else []
        return ["apply", "--json", *pending, *more]

    def would_do(self, plan):
        """Check mode."""
        words = self.words("--dry-run", "given")
        answer = self.in_scratch(self.command(*words), stdin=plan)[0]
        writes = self.must(answer, words).json("linerate-writes")["writes"]
        result = {"changed": bool(writes), "writes": writes, "outcome": "not-made"}
        if self._task.diff:
            result["diff"] = diff_of(writes)
        return result

    def is_in_force(self, plan):
        """Uploads the plan; true where it is in force and nothing waits to be confirmed. What still
        waits is somebody's whose controller is gone, and undoes itself."""
        until = None
        while True:
            pending = ["--pending"] if self.args["pending"] else []
            script = "\n".join(
                [
                    "umask 077; mkdir -p %s && cat >%s.new || exit 71" % (HOME, PLAN),
                    "%s || [ $? = 3 ] || exit" % self.command("status", "--json"),
                    "echo; echo ====",
                    self.command("verify", "--json", *pending, PLAN + ".new"),
                ]
            )
            answer = self.must(self.shell(script, stdin=plan), ("verify",), (DONE, DRIFT))
            status = as_format(answer.out.split("\n====\n")[0], "linerate-status")
            waiting = status.get("waiting")
            if not waiting:
                return answer.code == DONE
            until = until or time.monotonic() + waiting["seconds_left"] + 30
            if time.monotonic() > until:
                raise AnsibleActionFail("another change still waits to be confirmed there")
            time.sleep(min(max(waiting["seconds_left"], 1), 5))

    def begin(self):
        """Has the router begin by itself, in a moment: the connection that says so may not live to hear
        of the end. Gives the time at which it is undone, at the latest."""
        words = self.words("--confirm", self.args["seconds"])
        for address in self.args["probe"]:
            words += ["--probe", address]
        if self.args["no_probe"]:
            words += ["--no-probe"]
        script = "\n".join(
            [
                "cd %s && rm -f code writes said && mv %s.new %s || exit 71" % (HOME, PLAN, PLAN),
                "(trap '' HUP; sleep 1; %s >writes 2>said; echo $? >code.new; mv code.new code) "
                "</dev/null >/dev/null 2>&1 &" % self.command(*words, PLAN),
            ]
        )
        self.must(self.shell(script), ("apply",))
        return time.monotonic() + 2 + self.args["seconds"]

    def ended(self, former, deadline):
        """Logs in anew until the router has made the change; what it wrote. The login that sees the end
        was made after it."""
        script = "cd %s && [ -e code ] || exit 99; cat writes; cat said >&2; exit $(cat code)" % HOME
        why = ""
        pause = 2
        while time.monotonic() < deadline - 5:
            time.sleep(pause)
            pause = 1
            try:
                former = self.log_in_anew(former)
                answer = self.shell(script)
            except AnsibleConnectionFailure as error:
                why = "%s" % error
                continue
            if answer.code == 99:
                continue
            self.must(answer, ("apply",))
            return as_format(answer.out, "linerate-writes")["writes"]
        return self.await_return(deadline + self.args["return_timeout"], why)

    def seconds_left(self, deadline):
        """Seconds in which it can be confirmed; fails where the router has undone it."""
        try:
            return self.waits()["waiting"]["seconds_left"]
        except AnsibleConnectionFailure as error:
            return self.await_return(deadline + self.args["return_timeout"], "%s" % error)
