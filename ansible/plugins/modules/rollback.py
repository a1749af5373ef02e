#!/usr/bin/python
# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Documentation of the action plugin of the same name; nothing of it runs on a router."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rollback
short_description: Put everything back as it was before linerate came
version_added: 0.1.0
description:
  - Runs C(linerate rollback). What is persisted is not touched, see M(linerate.router.persist).
options:
  force:
    description: Overwrite values that something else has set since.
    type: bool
    default: false
extends_documentation_fragment:
  - linerate.router.router
  - linerate.router.router.changes
"""

EXAMPLES = r"""
- name: Put everything back
  linerate.router.rollback:
"""

RETURN = r"""
restored:
  description: The kernel's files whose value was put back.
  returned: success
  type: list
  elements: str
"""
