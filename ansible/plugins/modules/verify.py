#!/usr/bin/python
# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Documentation of the action plugin of the same name; nothing of it runs on a router."""

from __future__ import annotations

DOCUMENTATION = r"""
module: verify
short_description: Is a plan in force, setting by setting
version_added: 0.1.0
description:
  - Runs C(linerate verify) with a plan of the controller, or with what is persisted where none is named.
options:
  pending:
    description: Call the settings of any device that is not there pending, not drifted.
    type: bool
    default: false
  fail_on_drift:
    description: Fail where the plan is not in force.
    type: bool
    default: true
extends_documentation_fragment:
  - linerate.router.router
  - linerate.router.router.looks
  - linerate.router.router.plan
"""

EXAMPLES = r"""
- name: Is what is persisted still in force
  linerate.router.verify:
"""

RETURN = r"""
in_force:
  description: True if it is.
  returned: always
  type: bool
checks:
  description: How many settings were looked at.
  returned: always
  type: int
pending:
  description: Settings that wait for their device.
  returned: always
  type: list
  elements: str
drifted:
  description: Settings that are not as wanted, and who may have changed them.
  returned: always
  type: list
  elements: dict
"""
