"""A pseudo-terminal for tests of what is printed on one."""

from __future__ import annotations

import os

import pytest


def open_terminal() -> tuple[int, int]:
    """Return the file descriptors of both ends: ours, and that of the program. Skips if the machine has none."""
    try:
        return os.openpty()
    except OSError as error:
        pytest.skip(f"no pseudo-terminal: {error}")
