"""What SIGINT and SIGTERM do to a command: raise, wait, or nothing any more."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

from pybatsched.errors import Interrupted


def raise_interrupted() -> None:
    """Let SIGINT and SIGTERM raise `Interrupted`, so that files are closed and peers are told."""

    def stop(signum: int, _frame: FrameType | None) -> NoReturn:
        raise Interrupted(signum)

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)


def overlook_one() -> None:
    """Let the next SIGINT or SIGTERM do nothing, and the one after it raise `Interrupted`.

    For a last wait: who stops everything because somebody else is through must not disturb it, who wants to end it can.
    """

    def overlook(_signum: int, _frame: FrameType | None) -> None:
        raise_interrupted()

    signal.signal(signal.SIGINT, overlook)
    signal.signal(signal.SIGTERM, overlook)


def ignore() -> None:
    """Let SIGTERM and SIGINT do nothing any more: all is done, and how it went must not change on the way out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Let SIGTERM and SIGINT do nothing while something takes a moment that must not be left half done."""
    before = [(signum, signal.getsignal(signum)) for signum in (signal.SIGINT, signal.SIGTERM)]
    ignore()
    try:
        yield
    finally:
        for signum, handler in before:
            signal.signal(signum, handler)
