# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The way to one router: linerate's own commands over the raw connection.

Nothing but a POSIX shell and linerate is needed there, so OpenWrt works as well as Debian. One task is
one round trip: files travel on the shell's standard input, and come back behind its output.
"""

from __future__ import annotations

import json
import re
import shlex
import uuid

from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.text.converters import to_bytes, to_text
from ansible.plugins.action import ActionBase

# Exit codes, as `linerate --help` has them.
DONE, FINDINGS, USAGE, DRIFT, FORBIDDEN, UNSUPPORTED, REFUSED, ROLLED_BACK, INCOMPLETE = range(9)
NOT_FOUND = 127

# The version of each answer that this collection can read.
FORMATS = {
    "linerate-capture-summary": 1,
    "linerate-check": 1,
    "linerate-confirm": 1,
    "linerate-persist": 1,
    "linerate-persist-files": 1,
    "linerate-plans": 1,
    "linerate-recording": 1,
    "linerate-result": 1,
    "linerate-rollback": 1,
    "linerate-show": 1,
    "linerate-status": 1,
    "linerate-unpersist": 1,
    "linerate-verify": 1,
    "linerate-writes": 1,
}

# The oldest linerate whose answers have what is read here.
OLDEST = "0.1.0"

# A directory of root's on the router that is gone with the boot, as everything is that linerate sets.
HOME = "/run/linerate-fleet"
PLAN = HOME + "/plan.toml"

# A connection that answers nothing for so long is given up; a cut one would be waited for without end.
ALIVE = "-o ServerAliveInterval=5 -o ServerAliveCountMax=3"

PROGRAM = {"type": "str", "default": "linerate"}


def version_of(text):
    """The version that `linerate --version` prints, or None."""
    found = re.match(r"linerate (\d+(?:\.\d+)*)", text)
    return found.group(1) if found else None


def is_older(version, than):
    """True if a version such as 0.1.0 is older than another."""
    return [int(part) for part in version.split(".")] < [int(part) for part in than.split(".")]


class Answer:
    """What a shell on the router answered."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def why(self):
        """The error in the program's own words, or the last that was said."""
        lines = [line for line in self.err.splitlines() if line.startswith(("linerate: ", "hint: "))]
        if lines:
            return "; ".join(line.removeprefix("linerate: ") for line in lines)
        said = (self.err.strip() or self.out.strip()).splitlines()
        return said[-1] if said else "it said nothing"

    def json(self, name):
        """The answer as an object of the named format."""
        return as_format(self.out, name)


def as_format(text, name):
    """Reads an object of the named format, in a version that is known here."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise AnsibleActionFail("the answer of linerate is no JSON (%s): %r" % (error, text[:200])) from error
    told = value.get("format") if isinstance(value, dict) else None
    if told != name:
        raise AnsibleActionFail("linerate answered with %r instead of %s" % (told, name))
    if value.get("version") != FORMATS[name]:
        raise AnsibleActionFail(
            "linerate answered with version %r of %s, and this collection reads version %d: "
            "one of the two is to be upgraded" % (value.get("version"), name, FORMATS[name])
        )
    return value


class RouterAction(ActionBase):
    """An action that runs linerate on a router."""

    SPEC = {}
    EXCLUSIVE = []

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        spec = dict(self.SPEC, program=PROGRAM)
        unused, self.args = self.validate_argument_spec(argument_spec=spec, mutually_exclusive=self.EXCLUSIVE)
        self.program = shlex.quote(self.args["program"])
        self.task_vars = task_vars or {}
        if self._connection.transport.split(".")[-1] == "ssh":
            given = self._connection.get_option("ssh_extra_args") or ""
            if ALIVE not in given:
                self._connection.set_option("ssh_extra_args", (given + " " + ALIVE).strip())
        result["changed"] = False
        result.update(self.act())
        return result

    def act(self):
        """What the action does; gives its result."""
        raise NotImplementedError

    # -- the shell over there

    def shell(self, script, stdin=None):
        """Runs a script in the router's shell."""
        # Something on standard input keeps ssh from asking for a terminal, which would mix the two
        # outputs, and hang up on what runs when the connection is lost.
        told = self._low_level_execute_command(
            # Ansible puts words of its own behind the last line.
            "(\n%s\n)" % script,
            in_data=to_bytes(stdin if stdin else "\n"),
            encoding_errors="surrogateescape",
        )
        return Answer(told["rc"], told["stdout"], told["stderr"])

    def linerate(self, *words, good=(DONE,)):
        """Runs linerate; an exit code that is not among the good ones fails the task."""
        return self.must(self.shell(self.command(*words)), words, good)

    def command(self, *words):
        """A command line of linerate for the shell."""
        return " ".join([self.program, *(shlex.quote(str(word)) for word in words)])

    def must(self, answer, words, good=(DONE,)):
        """Fails the task where the exit code is not among the good ones."""
        if answer.code in good:
            return answer
        raise AnsibleActionFail(self.trouble(answer, words), result={"rc": answer.code, "stderr": answer.err})

    def trouble(self, answer, words):
        """What went wrong, in one sentence."""
        if answer.code == NOT_FOUND:
            return (
                "%s is not there or not in the PATH of this login: the role linerate.router.install "
                "installs it, and the option program (linerate_program in the playbooks) says where "
                "it is" % self.args["program"]
            )
        return "linerate %s: %s (exit code %d)" % (words[0], answer.why(), answer.code)

    def in_scratch(self, script, stdin=None, back=()):
        """Runs a script in a directory of its own that is removed afterwards, what is given on
        standard input being in the file `given` there. Gives the answer, and the contents of the
        files `back`."""
        mark = uuid.uuid4().hex
        parts = [
            "umask 077; d=$(mktemp -d /tmp/linerate-XXXXXX) || exit 71",
            'trap \'rm -rf "$d"\' EXIT; cd "$d" || exit 71',
            "cat >given || exit 71",
            "{ %s; }; c=$?" % script,
        ]
        parts += ["printf '\\n%s\\n'; cat %s 2>/dev/null" % (mark, shlex.quote(name)) for name in back]
        # The program's exit code is the shell's, whatever the rest was.
        parts += ["exit $c"]
        answer = self.shell("\n".join(parts), stdin)
        answer.out, *files = answer.out.split("\n%s\n" % mark)
        return answer, files

    def is_older_than_known(self):
        """Fails where linerate is too old for this collection."""
        self.check_version(self.linerate("--version").out)

    def check_version(self, text):
        """The version; fails where it is too old."""
        version = version_of(text)
        if version is None:
            raise AnsibleActionFail("%s --version says %r" % (self.args["program"], text[:200]))
        if is_older(version, OLDEST):
            raise AnsibleActionFail(
                "linerate %s is older than %s, which this collection needs: upgrade it with the role "
                "linerate.router.install" % (version, OLDEST)
            )
        return version

    # -- plans

    def given_plan(self):
        """The text of the plan that the task names: on the controller, or here."""
        if self.args.get("content") is not None:
            return self.args["content"]
        if self.args.get("src") is None:
            return None
        path = self._find_needle("files", self.args["src"])
        with open(path, "rb") as file:
            return to_text(file.read())


def lines_of(writes, which):
    """Settings as lines of text, for a diff."""
    return "".join("%s = %s\n" % (write["path"], write[which]) for write in writes)


def diff_of(writes):
    """What ansible shows with --diff."""
    return {
        "before_header": "settings as they are",
        "after_header": "settings of the plan",
        "before": lines_of(writes, "before"),
        "after": lines_of(writes, "after"),
    }
