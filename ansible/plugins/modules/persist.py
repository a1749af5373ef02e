#!/usr/bin/python
# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Documentation of the action plugin of the same name; nothing of it runs on a router."""

from __future__ import annotations

DOCUMENTATION = r"""
module: persist
short_description: Keep a plan in force over reboots
version_added: 0.1.0
description:
  - Runs C(linerate persist) or C(linerate unpersist). Needs systemd with udev, or OpenWrt.
options:
  state:
    description: V(absent) takes back what is persisted, whatever plan it is.
    type: str
    choices: [present, absent]
    default: present
  force:
    description: With O(state=absent), also undo files that somebody else has changed since.
    type: bool
    default: false
extends_documentation_fragment:
  - linerate.router.router
  - linerate.router.router.changes
  - linerate.router.router.plan
"""

EXAMPLES = r"""
- name: Keep the plan
  linerate.router.persist:
    src: "fleet/{{ inventory_hostname }}/plan.toml"
"""

RETURN = r"""
files:
  description: Files that were written or taken back; in check mode their texts.
  returned: success
  type: list
  elements: str
"""
