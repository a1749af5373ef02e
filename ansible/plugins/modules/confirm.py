#!/usr/bin/python
# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Documentation of the action plugin of the same name; nothing of it runs on a router."""

from __future__ import annotations

DOCUMENTATION = r"""
module: confirm
short_description: Keep a change that waits, by a login made anew
version_added: 0.1.0
description:
  - Logs in by a new connection and runs C(linerate confirm) there.
extends_documentation_fragment:
  - linerate.router.router
  - linerate.router.router.changes
"""

EXAMPLES = r"""
- name: Keep what linerate.router.apply left waiting
  linerate.router.confirm:
"""

RETURN = r"""
seconds_left:
  description: Seconds that were left.
  returned: success
  type: float
"""
