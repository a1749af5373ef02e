# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""A change that its router undoes by itself, unless the controller could log in anew."""

from __future__ import annotations

import os
import time

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible_collections.linerate.router.plugins.plugin_utils.router import DONE, DRIFT, RouterAction


class Unsure(AnsibleActionFail):
    """It is not known how it ended, or it is known that it was undone."""


class ChangeAction(RouterAction):
    """An action that has to come back to the router after it has changed something there."""

    def run(self, tmp=None, task_vars=None):
        self.controller = os.getppid()
        return super().run(tmp, task_vars)

    def must_be_heard(self):
        """Fails where the controller was killed: this process outlives it, and nobody would hear of what it
        does."""
        if os.getppid() != self.controller:
            raise Unsure("the controller was ended: nothing more is done")

    def reconnect(self):
        """Gives the connection up, so that the next command makes a new one."""
        try:
            self._connection.reset()
        except AnsibleConnectionFailure:
            pass

    def whence(self):
        """The two ends of this connection as the router's sshd knows them; empty where it does not tell,
        and for a connection that is none of ssh."""
        # As who logs in: becoming somebody else takes the variable away.
        told = self._low_level_execute_command('echo "$SSH_CONNECTION"', sudoable=False, in_data=b"\n")
        return told["stdout"].strip()

    def log_in_anew(self, former):
        """Logs in by a new connection, and makes sure that it is one."""
        self.reconnect()
        now = self.whence()
        if now and now == former:
            raise Unsure(
                "the connection to the router could not be made anew (%s again), so that nobody knows "
                "whether a login still works: not confirmed" % now
            )
        return now

    def status(self):
        """What `linerate status` says."""
        return self.linerate("status", "--json", good=(DONE, DRIFT)).json("linerate-status")

    def await_return(self, until, why):
        """After the deadline of a change that was not confirmed: finds out how the router is."""
        while time.monotonic() < until:
            time.sleep(2)
            try:
                self.reconnect()
                status = self.status()
            except AnsibleConnectionFailure as error:
                why = "%s" % error
                continue
            if status.get("waiting"):
                continue
            undone = status.get("undone")
            raise Unsure(
                "not confirmed, for no new login worked in time; the router is back, and %s"
                % (
                    "undid it: %s" % undone["why"]
                    if undone
                    else "knows of no change that waited (did it start anew?)"
                ),
                result={"outcome": "undone"},
            )
        raise Unsure(
            "not confirmed, for no new login worked in time; the router undoes it by itself, and has not "
            "come back: %s" % why,
            result={"outcome": "lost"},
        )

    def confirm(self):
        """Keeps the change that waits; the connection is one that was made after it."""
        self.must_be_heard()
        try:
            answer = self.shell(self.command("confirm", "--json"))
        except AnsibleConnectionFailure:
            # It may have heard it all the same.
            self.reconnect()
            status = self.status()
            if status.get("waiting") or status.get("undone"):
                raise
            return None
        return self.must(answer, ("confirm",)).json("linerate-confirm")["seconds_left"]

    def waits(self):
        """The change that waits; fails with what happened to it where none does."""
        status = self.status()
        if status.get("waiting"):
            return status
        undone = status.get("undone")
        raise Unsure(
            "the router undid the change before it was confirmed: %s"
            % (undone["why"] if undone else "nothing waits there to be confirmed"),
            result={"outcome": "undone"},
        )
