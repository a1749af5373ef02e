#!/usr/bin/python
# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Documentation of the action plugin of the same name; nothing of it runs on a router."""

from __future__ import annotations

DOCUMENTATION = r"""
module: plan
short_description: What could be changed on a router, and why
version_added: 0.1.0
description:
  - Runs C(linerate plan) on the router, and brings the plan to the controller. Nothing stays there.
  - A plan is for one machine. What several have in common is the name of a candidate.
options:
  candidate:
    description:
      - This candidate instead of the one that the model prefers.
      - Mutually exclusive with O(recipe).
    type: str
  recipe:
    description: A configuration from the field, as it was reported.
    type: str
  role:
    description: The use that the router is planned for.
    type: str
    choices: [router, vpn, endpoint, low-latency]
  flows:
    description: Number of flows to plan for; V(0) for so many that every share is even.
    type: int
  sample:
    description: Look at the traffic for this long; V(0) goes by the counters since boot. Three seconds
      where nothing is said.
    type: str
  dest:
    description: Keep the plan in this file of the controller.
    type: path
extends_documentation_fragment:
  - linerate.router.router
  - linerate.router.router.changes
"""

EXAMPLES = r"""
- name: Plan for the router
  linerate.router.plan:
    dest: "fleet/{{ inventory_hostname }}/plan.toml"
"""

RETURN = r"""
plan:
  description: The text of the plan.
  returned: success
  type: str
name:
  description: The candidate that it is.
  returned: success
  type: str
settings:
  description: How many settings it has.
  returned: success
  type: int
expects:
  description: What it is expected to bring, in words.
  returned: success
  type: str
candidates:
  description: All candidates, rated by the model.
  returned: success
  type: list
  elements: dict
dest:
  description: The file on the controller.
  returned: with O(dest)
  type: str
"""
