#!/usr/bin/python
# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Documentation of the action plugin of the same name; nothing of it runs on a router."""

from __future__ import annotations

DOCUMENTATION = r"""
module: apply
short_description: Make the changes of a plan, undone by the router unless the controller can log in anew
version_added: 0.1.0
description:
  - Runs C(linerate apply --confirm), and has it confirmed only by a connection that was made after the
    change, while what the router itself watches (its gateways, or O(probe)) still answers.
  - Whatever ends the controller or cuts it off, the router undoes the change by itself.
  - Where the plan is in force already, nothing is done. Where another change still waits, whose controller
    is gone, its end is waited for first.
options:
  seconds:
    description: The router undoes the change after so many seconds, unless it is confirmed.
    type: int
    default: 90
  settle:
    description:
      - Seconds between the new login and the confirmation, in which the router's probes look.
      - It takes them 8 to give an address up.
    type: int
    default: 10
  confirm:
    description: V(later) leaves the change waiting, for M(linerate.router.confirm) after a measurement.
    type: str
    choices: [now, later]
    default: now
  probe:
    description:
      - Addresses that the router asks for an answer meanwhile; its default gateways where none is given.
      - Mutually exclusive with O(no_probe).
    type: list
    elements: str
    default: []
  no_probe:
    description: The router asks nobody.
    type: bool
    default: false
  pending:
    description: Let the settings of any device that is not there wait for it, instead of refusing the plan.
    type: bool
    default: false
  return_timeout:
    description: Seconds that a router which can't be reached any more is waited for after its deadline.
    type: int
    default: 120
extends_documentation_fragment:
  - linerate.router.router
  - linerate.router.router.changes
  - linerate.router.router.plan
"""

EXAMPLES = r"""
- name: Make the changes of the plan
  linerate.router.apply:
    src: "fleet/{{ inventory_hostname }}/plan.toml"
"""

RETURN = r"""
writes:
  description: Settings that were written, with the text before and after.
  returned: success
  type: list
  elements: dict
outcome:
  description:
    - V(confirmed); V(waiting) with O(confirm=later); V(in-force) where nothing was to be done; V(not-made) in
      check mode.
    - On failure V(undone) where the router is back as it was, V(lost) where it did not come back.
  returned: always
  type: str
seconds_left:
  description: Seconds that were left to confirm it.
  returned: where something was changed
  type: float
"""
