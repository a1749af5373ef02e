#!/usr/bin/python
# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Documentation of the action plugin of the same name; nothing of it runs on a router."""

from __future__ import annotations

DOCUMENTATION = r"""
module: facts
short_description: What a router is, what linerate has set there, and which class of machine it is
version_added: 0.1.0
description:
  - Runs C(linerate show) and C(linerate status) in one round trip.
  - Routers of one class have the same board, kernel, ports and kinds of devices over them, so that what
    one of them does under a change says something of the others.
options:
  full:
    description: Also return all that C(linerate show --json) says.
    type: bool
    default: false
  check:
    description: Also look for what holds the router back, as M(linerate.router.check) does.
    type: bool
    default: false
extends_documentation_fragment:
  - linerate.router.router
  - linerate.router.router.looks
"""

EXAMPLES = r"""
- name: Look at the router
  linerate.router.facts:

- name: Say what it is
  ansible.builtin.debug:
    msg: "{{ linerate.class.label }}"
"""

RETURN = r"""
ansible_facts:
  description: Facts of the router.
  returned: success
  type: dict
  contains:
    linerate:
      description:
        - C(version), C(machine) and C(status) as linerate tells them.
        - C(class) with C(id), C(label) and C(traits), and C(devices), its physical ports.
        - C(findings) with O(check).
      type: dict
      returned: success
"""
