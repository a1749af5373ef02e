# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Filters for playbooks."""

from __future__ import annotations

from ansible_collections.linerate.router.plugins.plugin_utils.judge import judge

DOCUMENTATION = r"""
name: judge
short_description: Is a router worse off after a change
version_added: 0.1.0
author: The authors of linerate (@linerate)
description:
  - Compares two results of M(linerate.router.measure), by what is lost and by what a packet costs in CPU
    time, with its 95 % interval.
positional: _input, after
options:
  _input:
    description: The measurement before.
    type: dict
    required: true
  after:
    description: The measurement after.
    type: dict
    required: true
  tolerance:
    description: A packet may cost this much more, as a share.
    type: float
    default: 0.1
  loss_tolerance:
    description: So many packets of all may be lost beyond what was lost before.
    type: float
    default: 0.000001
"""

EXAMPLES = r"""
- name: Go on only if it is not worse
  ansible.builtin.assert:
    that: (before | linerate.router.judge(after)).go
"""

RETURN = r"""
_value:
  description:
    - C(go) and C(verdict), one of V(better), V(not-worse), V(idle), V(unclear), V(worse), V(loss).
    - C(why) in words; C(cost) with C(ratio), C(low) and C(high); C(packets) and C(lost), before and after.
  type: dict
"""


class FilterModule:
    """The filters of this file."""

    def filters(self):
        """By name."""
        return {"judge": judge}
