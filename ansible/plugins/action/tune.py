# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""`linerate tune`, which goes on by itself on the router; its record is collected."""

from __future__ import annotations

import json
import shlex
import time

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.module_utils.common.text.converters import to_bytes
from ansible_collections.linerate.router.plugins.plugin_utils.change import ChangeAction
from ansible_collections.linerate.router.plugins.plugin_utils.files import keep
from ansible_collections.linerate.router.plugins.plugin_utils.router import HOME, Answer

PLACE = HOME + "/tune"
RUNS, LOST = 98, 97


class ActionModule(ChangeAction):
    """tune"""

    SPEC = {
        "scenario": {"type": "str", "default": "nat"},
        "arguments": {"type": "list", "elements": "str", "default": []},
        "dest": {"type": "path", "required": True},
        "poll": {"type": "int", "default": 15},
        "timeout": {"type": "int", "default": 7200},
    }

    def act(self):
        refused = [a for a in self.args["arguments"] if a.split("=")[0] in ("--apply", "-o", "--output")]
        if refused:
            raise AnsibleActionFail(
                "%s is not for tune here: what was found best is applied as a plan, by plan and apply, and "
                "the record goes to dest" % refused[0]
            )
        if self._task.check_mode:
            return {"skipped": True, "msg": "an experiment is not run in check mode"}
        words = ["tune", "--json", self.args["scenario"], *self.args["arguments"], "-o", "result.json"]
        until = time.monotonic() + self.args["timeout"]
        answer = self.look(words)
        while answer.code == RUNS:
            if time.monotonic() > until:
                raise AnsibleActionFail(
                    "the experiment still runs after %d s; the same task later goes on waiting for it"
                    % self.args["timeout"]
                )
            time.sleep(self.args["poll"])
            self.must_be_heard()
            try:
                answer = self.look(words)
            except AnsibleConnectionFailure as error:
                # It goes on without us.
                self._display.vv("%s; asking again" % error)
                self.reconnect()
        result = {"rc": answer.code}
        record, said = answer.out.rsplit("\n====\n", 1)
        if record.strip():
            Answer(0, record, "").json("linerate-result")
            result.update(keep(self, self.args["dest"], to_bytes(record)))
            result["cells"] = len(json.loads(record).get("cells", []))
        answer.err = said
        if answer.code != 0:
            result["failed"] = True
            result["msg"] = self.trouble(answer, words)
        self.shell("rm -rf %s" % PLACE)
        return result

    def look(self, words):
        """Begins the experiment, or looks how far it is. One that was cut short goes on from its record."""
        line = self.command(*words)
        script = """
umask 077; mkdir -p {place} && cd {place} || exit 71
if [ -e code ] && [ "$(cat line)" = {line} ]; then
    cat result.json 2>/dev/null; printf '\\n====\\n'; cat said; exit "$(cat code)"
fi
if [ -e pid ] && [ ! -e code ] && kill -0 "$(cat pid)" 2>/dev/null; then
    [ "$(cat line)" = {line} ] && exit {runs}
    echo "hint: $(cat line) still runs there" >&2; exit {lost}
fi
resume=
if [ "$(cat line 2>/dev/null)" != {line} ]; then rm -f result.json*; fi
[ ! -e result.json.unfinished ] || resume='--resume result.json.unfinished'
rm -f code; printf '%s' {line} >line
(trap '' HUP; {command} $resume >told 2>said; echo $? >code.new; mv code.new code) \\
    </dev/null >/dev/null 2>&1 &
echo $! >pid
exit {runs}
""".format(place=PLACE, line=shlex.quote(line), command=line, runs=RUNS, lost=LOST)
        answer = self.shell(script)
        if answer.code in (71, LOST) or (answer.code != RUNS and "\n====\n" not in answer.out):
            raise AnsibleActionFail(self.trouble(answer, words))
        return answer
