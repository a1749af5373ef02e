# Copyright: The authors of linerate
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files of the controller."""

from __future__ import annotations

import os
import tempfile

from ansible.errors import AnsibleActionFail
from ansible.module_utils.common.text.converters import to_text


def write(path, data):
    """Writes a file whole or not at all, for its owner alone."""
    directory = os.path.dirname(os.path.abspath(path))
    os.makedirs(directory, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=directory)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(name, path)
    except BaseException:
        os.unlink(name)
        raise


def keep(action, path, data):
    """Keeps what came from a router; gives the part of the result that tells of it."""
    try:
        with open(path, "rb") as file:
            before = file.read()
    except FileNotFoundError:
        before = None
    except OSError as error:
        raise AnsibleActionFail("read %s: %s" % (path, error.strerror)) from error
    result = {"dest": path, "changed": before != data}
    if action._task.diff:  # pylint: disable=protected-access
        result["diff"] = {
            "before_header": path,
            "after_header": path,
            "before": to_text(before or b""),
            "after": to_text(data),
        }
    if result["changed"] and not action._task.check_mode:  # pylint: disable=protected-access
        try:
            write(path, data)
        except OSError as error:
            raise AnsibleActionFail("write %s: %s" % (path, error.strerror)) from error
    return result
