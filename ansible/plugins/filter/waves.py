# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Filters for playbooks."""

from __future__ import annotations

from ansible_collections.linerate.router.plugins.plugin_utils.waves import waves

DOCUMENTATION = r"""
name: waves
short_description: The order of a rollout
version_added: 0.1.0
author: The authors of linerate (@linerate)
description:
  - For each class of machine one router, then a tenth, then the rest.
positional: _input, done
options:
  _input:
    description: The class of each router, in the order in which they are to come.
    type: dict
    required: true
  done:
    description: Routers that have their plan in force already.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: The order of three routers
  ansible.builtin.debug:
    msg: "{{ {'a': 'one', 'b': 'one', 'c': 'other'} | linerate.router.waves }}"
"""

RETURN = r"""
_value:
  description: V(canary), V(tenth), V(rest) or V(done) for each router.
  type: dict
"""


class FilterModule:
    """The filters of this file."""

    def filters(self):
        """By name."""
        return {"waves": waves}
