#!/usr/bin/python
# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Documentation of the action plugin of the same name; nothing of it runs on a router."""

from __future__ import annotations

DOCUMENTATION = r"""
module: capture
short_description: A router in one file, brought to the controller
version_added: 0.1.0
description:
  - Runs C(linerate capture). Addresses, names and secrets are replaced on the router.
options:
  dest:
    description: The file of the controller.
    type: path
    required: true
  samples:
    description: Number of readings of the counters.
    type: int
    default: 3
  interval:
    description: Time between two readings.
    type: str
    default: '1'
  force:
    description: Make it anew where there is one.
    type: bool
    default: true
extends_documentation_fragment:
  - linerate.router.router
  - linerate.router.router.changes
"""

EXAMPLES = r"""
- name: Capture the router
  linerate.router.capture:
    dest: "fleet/{{ inventory_hostname }}/capture.tar.gz"
"""

RETURN = r"""
dest:
  description: The file on the controller.
  returned: success
  type: str
bytes:
  description: How large it is.
  returned: where it was made
  type: int
redacted:
  description: Different addresses, names and secrets that were replaced.
  returned: where it was made
  type: int
"""
