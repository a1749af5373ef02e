# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Filters for playbooks."""

from __future__ import annotations

from ansible_collections.linerate.router.plugins.plugin_utils.fleet import row

DOCUMENTATION = r"""
name: row
short_description: The row of a router for the page about all
version_added: 0.1.0
author: The authors of linerate (@linerate)
description:
  - Takes what P(linerate.router.fleet#filter) needs out of a router's variables in a playbook.
options:
  _input:
    description: The variables of the router.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: The row of this router
  ansible.builtin.debug:
    msg: "{{ hostvars[inventory_hostname] | linerate.router.row }}"
"""

RETURN = r"""
_value:
  description: C(name), C(facts), C(error) and C(verdict).
  type: dict
"""


class FilterModule:
    """The filters of this file."""

    def filters(self):
        """By name."""
        return {"row": row}
