"""Child processes that end with this process."""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Callable
from typing import Final

_SET_DEATH_SIGNAL: Final = 1  # PR_SET_PDEATHSIG
_LIBC: Final = ctypes.CDLL(None) if sys.platform == "linux" else None


def _die_with_parent() -> None:
    """Make Linux kill the calling child when its parent dies. A single C call, which needs no lock."""
    if _LIBC is not None:
        _LIBC.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)


#: For `subprocess.Popen(preexec_fn=…)`: on Linux the child is killed with its parent, even after a SIGKILL; else None.
DIE_WITH_PARENT: Final[Callable[[], None] | None] = _die_with_parent if sys.platform == "linux" else None
