"""One line that tells what goes on, and how far a simulation is, on a terminal; nothing anywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

_EVERY: Final = 256  # messages between two looks at the wall clock
_EVERY_S: Final = 0.2
_WIDTH: Final = 30
#: What takes the line away again.
CLEARED: Final = "\r\x1b[K"


@contextmanager
def doing(what: str, *, quiet: bool = False) -> Iterator[None]:
    """Say on a terminal what may take a while, as long as it does."""
    shown = not quiet and sys.stderr.isatty()
    if shown:
        print(f"{what} ...", end="", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        if shown:
            print(CLEARED, end="", file=sys.stderr, flush=True)


class ProgressLine:
    """A bar with simulated time, jobs done and rate, on standard error."""

    def __init__(self, n_jobs: int, *, quiet: bool = False) -> None:
        self._n_jobs = n_jobs
        self._shown = not quiet and sys.stderr.isatty()
        self._n_heard = 0
        self._began_at = self._shown_at = time.monotonic()

    def __enter__(self) -> Self:
        if self._shown:  # hundreds of thousands of jobs take their time until the first message
            print(self.line(0.0, 0, 0.0), end="", file=sys.stderr, flush=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            print(CLEARED, end="", file=sys.stderr, flush=True)

    def heard(self, now: float, n_over: int) -> None:
        """Take note of a message. O(1), and mostly nothing."""
        self._n_heard += 1
        if not self._shown or self._n_heard % _EVERY:
            return
        at = time.monotonic()
        if at - self._shown_at >= _EVERY_S:
            self._shown_at = at
            print("\r" + self.line(now, n_over, at - self._began_at) + "\x1b[K", end="", file=sys.stderr, flush=True)

    def line(self, now: float, n_over: int, wall_s: float) -> str:
        """Give the text of the bar."""
        share = min(n_over / self._n_jobs, 1.0) if self._n_jobs else 1.0
        bar = "#" * int(share * _WIDTH)
        rate = n_over / wall_s if wall_s > 0 else 0.0
        return f"[{bar:<{_WIDTH}}] {n_over:,} of {self._n_jobs:,} jobs, simulated {span(now)}, {rate:,.0f} jobs/s"


def span(seconds: float) -> str:
    """Write a span of time for people.

    >>> span(90061), span(12.5)
    ('1 d 01:01:01', '00:00:12')
    """
    whole = int(seconds)
    days, rest = divmod(whole, 86400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days} d {clock}" if days else clock
