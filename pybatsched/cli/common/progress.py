"""One line that tells what goes on, and how far a simulation is, on a terminal; nothing anywhere else."""

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
from pybatsched.workload.progress import heard_by, part

_EVERY: Final = 256  # messages between two looks at the wall clock
_EVERY_S: Final = 0.2
_BEGUN: Final = 2  # the message before which the first one was answered
_WIDTH: Final = 30
#: What takes the line away again.
CLEARED: Final = "\r\x1b[K"


class _Line:
    """A line on standard error while something lasts, if that is a terminal and nobody wants quiet."""

    def __init__(self, first: str, *, quiet: bool = False) -> None:
        self._first = first
        self._shown = not quiet and sys.stderr.isatty()
        self._began_at = self._shown_at = time.monotonic()

    def __enter__(self) -> Self:
        self._write(self._first)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write(CLEARED)

    @property
    def is_shown(self) -> bool:
        """Whether anybody sees it; else nobody need be told anything."""
        return self._shown

    def _show(self, text: str) -> None:
        self._write(f"\r{text}\x1b[K")

    def _write(self, text: str) -> None:
        if self._shown:
            print(text, end="", file=sys.stderr, flush=True)

    def _is_due(self, at: float) -> bool:
        """Tell whether the last text was shown long enough; then `at` is when the next one is."""
        if at - self._shown_at < _EVERY_S:
            return False
        self._shown_at = at
        return True


@contextmanager
def doing(what: str, *, quiet: bool = False) -> Iterator[None]:
    """Say on a terminal what may take a while, as long as it does."""
    with _Line(f"{what} ...", quiet=quiet):
        yield


class Bar(_Line):
    """A bar of something whose share that is done is told to `heard`, with the time that is left."""

    def __init__(self, what: str, *, quiet: bool = False) -> None:
        super().__init__(f"{what} ...", quiet=quiet)
        self._what = what

    def heard(self, share: float) -> None:
        """Take note of the share that is done, from 0 to 1. O(1), and mostly nothing."""
        at = time.monotonic()
        if self._shown and self._is_due(at):
            self._show(self.line(share, at - self._began_at))

    def line(self, share: float, wall_s: float) -> str:
        """Give the text of the bar."""
        return f"{self._what} {bar_of(share)} {share:.0%}{time_left(share, wall_s)}"


@contextmanager
def loading(what: str, *, quiet: bool = False) -> Iterator[None]:
    """Show a bar of what is read and made meanwhile."""
    with Bar(what, quiet=quiet) as bar:
        if not bar.is_shown:
            yield
            return
        with heard_by(bar.heard), part(0, 1):
            yield


def bar_of(share: float) -> str:
    """Draw a share that is done."""
    return f"[{'#' * int(min(share, 1.0) * _WIDTH):<{_WIDTH}}]"


def time_left(share: float, wall_s: float) -> str:
    """Say how long the rest takes if the first share took so long; nothing while that cannot be known.

    >>> time_left(0.25, 20.0), time_left(0.0, 20.0)
    (', 00:01:00 left', '')
    """
    return f", {span(wall_s * (1 - share) / share)} left" if 0 < share <= 1 and wall_s > 0 else ""


class ProgressLine(_Line):
    """A bar with simulated time, jobs done, rate and the time that is left.

    Its clock begins when the first message has been answered: making jobs, machines and a policy ready counts for
    nothing. A run ends with its jobs or at `ends_at`, whichever is nearer.
    """

    def __init__(self, n_jobs: int, *, ends_at: float = math.inf, quiet: bool = False) -> None:
        self._n_jobs = n_jobs
        self._ends_at = ends_at
        # Shown at once: hundreds of thousands of jobs take their time until the first message.
        super().__init__(self.line(0.0, 0, 0.0), quiet=quiet)
        self._n_heard = 0

    def heard(self, now: float, n_over: int) -> None:
        """Take note of a message. O(1), and mostly nothing."""
        self._n_heard += 1
        if not self._shown or (self._n_heard % _EVERY and self._n_heard != _BEGUN):
            return
        at = time.monotonic()
        if self._n_heard == _BEGUN:
            self._began_at = at
        if self._is_due(at):
            self._show(self.line(now, n_over, at - self._began_at))

    def line(self, now: float, n_over: int, wall_s: float) -> str:
        """Give the text of the bar."""
        share = min(n_over / self._n_jobs, 1.0) if self._n_jobs else 1.0
        if self._ends_at < math.inf:
            share = max(share, min(now / self._ends_at, 1.0) if self._ends_at else 1.0)
        rate = f", {n_over / wall_s:,.0f} jobs/s{time_left(share, wall_s)}" if n_over and wall_s > 0 else ""
        return f"{bar_of(share)} {n_over:,} of {self._n_jobs:,} jobs, simulated {span(now)}{rate}"


def span(seconds: float) -> str:
    """Write a span of time for people.

    >>> span(90061), span(12.5)
    ('1 d 01:01:01', '00:00:12')
    """
    whole = int(seconds)
    days, rest = divmod(whole, 86400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days} d {clock}" if days else clock


def narrate(message: Message[e.Event], reply: Reply) -> None:
    """Tell one exchange to people, a line per event and decision."""
    lines = [f"t={seconds_text(message.now)}"]
    lines += [f"  <- {_told(event)}" for event in message.items]
    for decision in reply.decisions:
        why = d.reason_text(decision.reason)
        lines.append(f"  -> {_told(decision)}" + (f"   # {why}" if why else ""))
    print("\n".join(lines), file=sys.stderr, flush=True)


def _told(item: e.Event | d.Decision) -> str:
    """Write an event or a decision in one line: its name and its short members."""
    hidden = {"timestamp", "reason", "extra", "beside"}
    values = [getattr(item, name) for name in item.__struct_fields__ if name not in hidden]
    shown = [str(value) for value in values if isinstance(value, str | int | float | IntervalSet | tuple)]
    return " ".join([type(item).__name__, *(text if len(text) <= 100 else text[:97] + "..." for text in shown)])
