#!/usr/bin/python
# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Documentation of the action plugin of the same name; nothing of it runs on a router."""

from __future__ import annotations

DOCUMENTATION = r"""
module: measure
short_description: What a router does with its own traffic for a while
version_added: 0.1.0
description:
  - Runs C(linerate record) beside C(linerate check --load). It makes no traffic.
  - The filter P(linerate.router.judge#filter) compares two of them.
options:
  seconds:
    description: How long.
    type: int
    default: 20
  interval:
    description: Time between two readings.
    type: str
    default: '1'
  dest:
    description: Keep it in this file of the controller, as JSON.
    type: path
extends_documentation_fragment:
  - linerate.router.router
  - linerate.router.router.looks
"""

EXAMPLES = r"""
- name: Measure for a minute
  linerate.router.measure:
    seconds: 60
  register: before
"""

RETURN = r"""
windows:
  description: Rates interval by interval, all devices together; C(busy) is CPUs, programs left out.
  returned: success
  type: list
  elements: dict
lost:
  description: Packets lost, those that rules drop left out.
  returned: success
  type: int
frames:
  description: Frames that came in.
  returned: success
  type: int
places:
  description: Where packets were lost.
  returned: success
  type: list
  elements: dict
findings:
  description: As M(linerate.router.check) has them.
  returned: success
  type: list
  elements: dict
"""
