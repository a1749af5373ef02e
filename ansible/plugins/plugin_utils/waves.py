# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The order of a rollout: for each class of machine one router, then a tenth, then the rest."""

from __future__ import annotations


def waves(classes, done=()):
    """The wave of each router: `canary`, `tenth`, `rest` or `done`.

    `classes` is the class of each router, in the order in which they come; `done` are those that have their
    plan in force already, after a rollout that was cut short.
    """
    done = set(done)
    order = {}
    for host, kind in classes.items():
        order.setdefault(kind, []).append(host)
    told = {}
    for hosts in order.values():
        left = [host for host in hosts if host not in done]
        told.update((host, "done") for host in hosts if host in done)
        if len(left) == len(hosts):
            told[left.pop(0)] = "canary"
        # The canary is one of the tenth, and so is what was done before.
        more = max(0, len(hosts) // 10 - (len(hosts) - len(left)))
        told.update((host, "tenth") for host in left[:more])
        told.update((host, "rest") for host in left[more:])
    return told
