# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Documentation that all modules share."""

from __future__ import annotations


class ModuleDocFragment:
    """Options and attributes of every module."""

    DOCUMENTATION = r"""
options:
  program:
    description: The program on the router, by name or path.
    type: str
    default: linerate
attributes:
  action:
    description: Runs on the controller, over the raw connection; the router needs no Python.
    support: full
  async:
    description: Supports the keyword C(async).
    support: none
  platform:
    description: Linux with a POSIX shell and linerate.
    support: full
    platforms: linux
author:
  - The authors of linerate (@linerate)
"""
    # The two kinds of modules.
    LOOKS = r"""
attributes:
  check_mode:
    description: Can run in check mode, and then does the same, for it changes nothing.
    support: full
  diff_mode:
    description: Shows what changes.
    support: none
"""
    CHANGES = r"""
attributes:
  check_mode:
    description: Can run in check mode, and then changes nothing.
    support: full
  diff_mode:
    description: Shows what changes.
    support: full
"""
    PLAN = r"""
options:
  src:
    description:
      - A plan file on the controller.
      - Mutually exclusive with O(content).
    type: path
  content:
    description: The text of a plan.
    type: str
"""
