# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Filters for playbooks."""

from __future__ import annotations

from ansible_collections.linerate.router.plugins.plugin_utils.fleet import fleet

DOCUMENTATION = r"""
name: fleet
short_description: What a page about all routers has
version_added: 0.1.0
author: The authors of linerate (@linerate)
description:
  - Classes, findings by frequency, drift, and what a rollout brought. The role
    C(linerate.router.report) draws it.
options:
  _input:
    description:
      - A router each. C(name); C(facts) as M(linerate.router.facts) has them, or C(error); C(verdict) as
        P(linerate.router.judge#filter) has it, where a rollout came to it.
    type: list
    elements: dict
    required: true
"""

EXAMPLES = r"""
- name: Count the classes
  ansible.builtin.debug:
    msg: "{{ ([{'name': 'r1', 'facts': linerate}] | linerate.router.fleet).classes | length }}"
"""

RETURN = r"""
_value:
  description: The page's contents.
  type: dict
"""


class FilterModule:
    """The filters of this file."""

    def filters(self):
        """By name."""
        return {"fleet": fleet}
