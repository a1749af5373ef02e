#!/usr/bin/python
# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Documentation of the action plugin of the same name; nothing of it runs on a router."""

from __future__ import annotations

DOCUMENTATION = r"""
module: check
short_description: What holds a router back, on what evidence, and what to do
version_added: 0.1.0
description:
  - Runs C(linerate check).
options:
  rules:
    description: Only these rules.
    type: list
    elements: str
    default: []
  load:
    description: Watch the traffic for this long first, such as V(10s).
    type: str
  fail_on:
    description: Fail where a finding is at least this grave.
    type: str
    choices: [never, info, notice, warning, critical]
    default: never
extends_documentation_fragment:
  - linerate.router.router
  - linerate.router.router.looks
"""

EXAMPLES = r"""
- name: Look for what holds the router back, under its traffic
  linerate.router.check:
    load: 10s
  register: checked
"""

RETURN = r"""
findings:
  description: Findings as C(linerate check --json) has them, with rule, severity, evidence and remedy.
  returned: always
  type: list
  elements: dict
unseen:
  description: Rules that could not look, and why.
  returned: always
  type: list
  elements: dict
model:
  description: Largest load over capacity, as it is and as it could be.
  returned: always
  type: dict
losses:
  description: Packets lost meanwhile, stage by stage.
  returned: with O(load)
  type: dict
"""
