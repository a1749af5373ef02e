#!/usr/bin/python
# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Documentation of the action plugin of the same name; nothing of it runs on a router."""

from __future__ import annotations

DOCUMENTATION = r"""
module: note
short_description: Write or remove a file of the controller
version_added: 0.1.0
description:
  - For what a playbook remembers; needs no connection and no process of its own, so that it is cheap for many
    routers.
options:
  dest:
    description: The file of the controller.
    type: path
    required: true
  content:
    description: A text, or anything else, which becomes JSON.
    type: raw
  state:
    description: V(absent) removes it.
    type: str
    choices: [present, absent]
    default: present
extends_documentation_fragment:
  - linerate.router.router.changes
author:
  - The authors of linerate (@linerate)
"""

EXAMPLES = r"""
- name: Remember something
  linerate.router.note:
    dest: fleet/note.json
    content: {some: thing}
"""

RETURN = r"""
dest:
  description: The file.
  returned: success
  type: str
"""
