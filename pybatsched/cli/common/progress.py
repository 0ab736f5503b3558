"""Progress lines on a terminal, and the messages of --verbose. Files and pipes get no progress lines."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Self

from pybatsched.core import decisions as d, events as e
from pybatsched.core.engine import Reply
from pybatsched.core.instants import seconds_text
from pybatsched.core.intervals import IntervalSet
from pybatsched.protocol import Message
from pybatsched.workload.progress import part, report_to

_EVERY: Final = 256  # messages between two readings of the wall clock
_EVERY_S: Final = 0.2
_STARTED: Final = 2  # the first message after a reply
_WIDTH: Final = 30
#: Removes the line.
CLEARED: Final = "\r\x1b[K"


class _Line:
    """A line on standard error during an operation, if that is a terminal and `quiet` is not set."""

    def __init__(self, first: str, *, quiet: bool = False) -> None:
        self._first = first
        self._shown = not quiet and sys.stderr.isatty()
        self._started_at = self._shown_at = time.monotonic()

    def __enter__(self) -> Self:
        self._write(self._first)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write(CLEARED)

    @property
    def is_shown(self) -> bool:
        """Whether the line is visible. If it is not, it needs no updates."""
        return self._shown

    def _show(self, text: str) -> None:
        self._write(f"\r{text}\x1b[K")

    def _write(self, text: str) -> None:
        if self._shown:
            print(text, end="", file=sys.stderr, flush=True)

    def _is_due(self, at: float) -> bool:
        """Return whether it is time for the next text, and if so, note the time `at` of it."""
        if at - self._shown_at < _EVERY_S:
            return False
        self._shown_at = at
        return True


@contextmanager
def doing(what: str, *, quiet: bool = False) -> Iterator[None]:
    """Show on a terminal what is being done, until it is done."""
    with _Line(f"{what} ...", quiet=quiet):
        yield


class Bar(_Line):
    """A progress bar with the remaining time. `update` sets the completed share."""

    def __init__(self, what: str, *, quiet: bool = False) -> None:
        super().__init__(f"{what} ...", quiet=quiet)
        self._what = what

    def update(self, share: float) -> None:
        """Set the completed share, from 0 to 1. O(1); the text is updated five times per second at most."""
        at = time.monotonic()
        if self._shown and self._is_due(at):
            self._show(self.line(share, at - self._started_at))

    def line(self, share: float, wall_s: float) -> str:
        """Return the text of the bar."""
        return f"{self._what} {bar_of(share)} {share:.0%}{time_left(share, wall_s)}"


@contextmanager
def loading(what: str, *, quiet: bool = False) -> Iterator[None]:
    """Show a progress bar while a workload is read."""
    with Bar(what, quiet=quiet) as bar:
        if not bar.is_shown:
            yield
            return
        with report_to(bar.update), part(0, 1):
            yield


def bar_of(share: float) -> str:
    """Return a bar of characters for a completed share."""
    return f"[{'#' * int(min(share, 1.0) * _WIDTH):<{_WIDTH}}]"


def time_left(share: float, wall_s: float) -> str:
    """Return the remaining time, estimated from the completed share; an empty text if it is unknown.

    >>> time_left(0.25, 20.0), time_left(0.0, 20.0)
    (', 00:01:00 left', '')
    """
    return f", {span(wall_s * (1 - share) / share)} left" if 0 < share <= 1 and wall_s > 0 else ""


class ProgressLine(_Line):
    """A progress bar with simulated time, finished jobs, rate and remaining time.

    Its clock starts with the reply to the first message: the preparation of jobs, machine and policy does not count.
    A run ends with its jobs or at `ends_at`, whichever is earlier.
    """

    def __init__(self, n_jobs: int, *, ends_at: float = math.inf, quiet: bool = False) -> None:
        self._n_jobs = n_jobs
        self._ends_at = ends_at
        # Shown at once: with hundreds of thousands of jobs, the first message takes a while.
        super().__init__(self.line(0.0, 0, 0.0), quiet=quiet)
        self._n_messages = 0

    def update(self, now: float, n_over: int) -> None:
        """Count a message and set the time and the number of finished jobs. O(1); it rarely updates the text."""
        self._n_messages += 1
        if not self._shown or (self._n_messages % _EVERY and self._n_messages != _STARTED):
            return
        at = time.monotonic()
        if self._n_messages == _STARTED:
            self._started_at = at
        if self._is_due(at):
            self._show(self.line(now, n_over, at - self._started_at))

    def line(self, now: float, n_over: int, wall_s: float) -> str:
        """Return the text of the bar."""
        share = min(n_over / self._n_jobs, 1.0) if self._n_jobs else 1.0
        if self._ends_at < math.inf:
            share = max(share, min(now / self._ends_at, 1.0) if self._ends_at else 1.0)
        rate = f", {n_over / wall_s:,.0f} jobs/s{time_left(share, wall_s)}" if n_over and wall_s > 0 else ""
        return f"{bar_of(share)} {n_over:,} of {self._n_jobs:,} jobs, simulated {span(now)}{rate}"


def span(seconds: float) -> str:
    """Write a duration as days, hours, minutes and seconds.

    >>> span(90061), span(12.5)
    ('1 d 01:01:01', '00:00:12')
    """
    whole = int(seconds)
    days, rest = divmod(whole, 86400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days} d {clock}" if days else clock


def print_exchange(message: Message[e.Event], reply: Reply) -> None:
    """Print a message and its reply on standard error, one line per event and decision."""
    lines = [f"t={seconds_text(message.now)}"]
    lines += [f"  <- {_describe(event)}" for event in message.items]
    for decision in reply.decisions:
        why = d.reason_text(decision.reason)
        lines.append(f"  -> {_describe(decision)}" + (f"   # {why}" if why else ""))
    print("\n".join(lines), file=sys.stderr, flush=True)


def _describe(item: e.Event | d.Decision) -> str:
    """Write an event or a decision in one line: its name and its short fields."""
    hidden = {"timestamp", "reason", "extra", "beside"}
    values = [getattr(item, name) for name in item.__struct_fields__ if name not in hidden]
    shown = [str(value) for value in values if isinstance(value, str | int | float | IntervalSet | tuple)]
    return " ".join([type(item).__name__, *(text if len(text) <= 100 else text[:97] + "..." for text in shown)])
