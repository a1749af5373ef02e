#!/usr/bin/python
# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Documentation of the action plugin of the same name; nothing of it runs on a router."""

from __future__ import annotations

DOCUMENTATION = r"""
module: tune
short_description: Tune by experiment on a router, and collect the record
version_added: 0.1.0
description:
  - Runs C(linerate tune) in a lab on the router, in the background, and waits for its end. It goes on where
    the connection or the controller is lost; the same task later finds it, waits for it and collects the
    record.
  - An experiment that was cut short on the router goes on from its own record.
  - Needs a linerate with everything, not the router's build.
options:
  scenario:
    description: The lab to build.
    type: str
    default: nat
  arguments:
    description: Further words of the command line, but for C(--apply) and C(--output).
    type: list
    elements: str
    default: []
  dest:
    description: The file of the controller for the record.
    type: path
    required: true
  poll:
    description: Seconds between two looks.
    type: int
    default: 15
  timeout:
    description: Seconds that it is waited for. It is not ended then.
    type: int
    default: 7200
extends_documentation_fragment:
  - linerate.router.router
  - linerate.router.router.changes
"""

EXAMPLES = r"""
- name: An experiment of an hour
  linerate.router.tune:
    scenario: nat
    arguments: [--budget, 1h]
    dest: "fleet/{{ inventory_hostname }}/tune.json"
"""

RETURN = r"""
dest:
  description: The file on the controller.
  returned: where there is a record
  type: str
cells:
  description: How many cells were measured.
  returned: where there is a record
  type: int
rc:
  description: The exit code of the program.
  returned: success
  type: int
"""
