"""Child processes that do not outlive us."""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Callable
from typing import Final

_SET_DEATH_SIGNAL: Final = 1  # PR_SET_PDEATHSIG
_LIBC: Final = ctypes.CDLL(None) if sys.platform == "linux" else None


def _die_with_parent() -> None:
    """Ask Linux, in the child, to kill it when its parent dies. One call of C: nothing another thread could hold."""
    if _LIBC is not None:
        _LIBC.prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)


#: For `subprocess.Popen(preexec_fn=…)`: on Linux the child is killed when we die, even by SIGKILL; elsewhere nothing.
DIE_WITH_PARENT: Final[Callable[[], None] | None] = _die_with_parent if sys.platform == "linux" else None
