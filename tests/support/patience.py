"""How long a test waits for an event: one limit for all, so long that only a missing event reaches it.

A test waits for the event itself, never for a time in which it should come. What must take too long in a test (a
cell beyond its `timeout_s`, a silent peer) never ends without being stopped, so any machine is fast enough.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Final, NoReturn, Protocol, Self

PATIENCE_S: Final = float(os.environ.get("PYBATSCHED_PATIENCE", "60"))
PATIENCE_MS: Final = round(1000 * PATIENCE_S)
#: For a whole command, which is not one event but a lot of work.
PATIENCE_OF_WORK_S: Final = 10 * PATIENCE_S
_LOOK_S: Final = 0.01


class Process(Protocol):
    """A process that may have ended."""

    returncode: int | None

    def poll(self) -> int | None:
        """Return its exit code, None while it runs."""


def wait_until(happened: Callable[[], object], *, by: Process | None = None, limit_s: float = PATIENCE_S) -> None:
    """Wait until something has happened. Fails after the limit, or when the process that is to do it has ended."""
    # patience: this module defines the limits
    give_up_at = time.monotonic() + limit_s
    problem = f"it has not happened within {limit_s:g} s (see PYBATSCHED_PATIENCE)"
    while not happened():
        # A process that has ended may have done it just before.
        assert by is None or by.poll() is None or happened(), f"its process ended with {by.returncode} before"
        # patience: this module defines the limits
        assert time.monotonic() < give_up_at, problem
        # patience: the pause between two polls
        time.sleep(_LOOK_S)


@contextlib.contextmanager
def no_longer_than(limit_s: float) -> Iterator[None]:
    """Do something in this process, for so long at most; then TimeoutError is raised in the midst of it."""

    def too_long(*_: object) -> NoReturn:
        raise TimeoutError(f"it has not ended within {limit_s:g} s (see PYBATSCHED_PATIENCE)")

    before = signal.signal(signal.SIGALRM, too_long)
    # patience: this module defines the limits
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        # patience: this module defines the limits
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class TooMuchWorkError(BaseException):
    """What takes too long is stopped by this; no BaseException is caught on its way."""


class WorkLimit:
    """Lets this process do things one after the other, each with so many seconds of its own work at most.

    However busy the machine is. `again` begins the next one; in the midst of what takes longer, TooMuchWorkError is
    raised.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGVTALRM, self._too_much)
        return self

    def again(self) -> None:
        """Restart. O(1)."""
        # patience: this module defines the limits
        signal.setitimer(signal.ITIMER_VIRTUAL, self._limit_s)

    def __exit__(self, *_: object) -> None:
        # patience: this module defines the limits
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, self._before)

    def _too_much(self, *_: object) -> NoReturn:
        raise TooMuchWorkError(f"it has not ended within {self._limit_s:g} s of work (see PYBATSCHED_PATIENCE)")
