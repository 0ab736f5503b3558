"""Progress bars on a terminal, and the messages of --verbose. Files and pipes get no progress bars."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Self

from pybatsched.core import decisions as d, events as e
from pybatsched.core.engine import Reply
from pybatsched.core.instants import seconds_text
from pybatsched.core.intervals import IntervalSet
from pybatsched.protocol import Message

#: Messages between two updates of the bar of a run.
_EVERY: Final = 256
_STARTED: Final = 2  # the first message after a reply
#: Seconds between two drawings of a bar.
_EVERY_S: Final = 0.2
_SHARE: Final = "{desc} |{bar:30}| {percentage:.0f} %, {remaining} left"
_RUN: Final = "|{bar:30}| {desc}, {remaining} left"


class _Line:
    """Standard error as the file of a bar: each text replaces the last one, in the form that terminals may get."""

    def write(self, text: str) -> int:
        """Write the next text of the line; an empty one removes it."""
        if text:
            sys.stderr.write(f"\r{text.strip()}\x1b[K")
        return len(text)

    def flush(self) -> None:
        """Flush standard error."""
        sys.stderr.flush()


def _bar(text: str, bar_format: str, *, quiet: bool) -> Any:
    """Return a bar of shares from 0 to 1 on standard error; None if that is no terminal, or `quiet` is set."""
    if quiet or not sys.stderr.isatty():
        return None
    from tqdm import tqdm  # noqa: PLC0415  only for terminals

    tqdm.monitor_interval = 0  # no thread
    how = {"bar_format": bar_format, "leave": False, "ascii": " #", "file": _Line()}
    return tqdm(desc=text, total=1.0, mininterval=_EVERY_S, miniters=0, **how)


class ProgressBar:
    """A progress bar with the remaining time, if standard error is a terminal. `update` sets the completed share."""

    def __init__(self, what: str, *, quiet: bool = False) -> None:
        self._bar = _bar(what, _SHARE, quiet=quiet)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    @property
    def is_shown(self) -> bool:
        """Whether the bar is visible. If it is not, it needs no updates."""
        return self._bar is not None

    def update(self, share: float) -> None:
        """Set the completed share, from 0 to 1. O(1); the bar is drawn five times per second at most."""
        if self._bar is not None:
            self._bar.update(min(share, 1.0) - self._bar.n)


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Show on a terminal what is being done, until it is done."""
    bar = _bar(f"{what} ...", "{desc}", quiet=False)
    try:
        yield
    finally:
        if bar is not None:
            bar.close()


@contextmanager
def loading(what: str, *, quiet: bool = False) -> Iterator[None]:
    """Show a progress bar while a workload is read."""
    with ProgressBar(what, quiet=quiet) as bar:
        if not bar.is_shown:
            yield
            return
        from pybatsched.workload.progress import part, report_to  # noqa: PLC0415  `serve` does not need it

        with report_to(bar.update), part(0, 1):
            yield


class ProgressLine(ProgressBar):
    """A progress bar with finished jobs, simulated time and remaining time from the first reply on."""

    def __init__(self, n_jobs: int, *, ends_at: float = math.inf, quiet: bool = False) -> None:
        self._n_jobs = n_jobs
        self._ends_at = ends_at
        self._n_messages = 0
        # Shown at once: with hundreds of thousands of jobs, the first message takes a while.
        self._bar = _bar(self.text(0.0, 0), _RUN, quiet=quiet)

    def update_run(self, now: float, n_over: int) -> None:
        """Count a message and set the time and the number of finished jobs. O(1); it rarely updates the bar."""
        self._n_messages += 1
        if self._bar is None or (self._n_messages % _EVERY and self._n_messages != _STARTED):
            return
        if self._n_messages == _STARTED:
            self._bar.reset()
        self._bar.set_description_str(self.text(now, n_over), refresh=False)
        self.update(self.share(now, n_over))

    def share(self, now: float, n_over: int) -> float:
        """Return the completed share of the run: of its jobs, or of its time."""
        share = min(n_over / self._n_jobs, 1.0) if self._n_jobs else 1.0
        if self._ends_at == math.inf:
            return share
        return max(share, min(now / self._ends_at, 1.0) if self._ends_at else 1.0)

    def text(self, now: float, n_over: int) -> str:
        """Return the text beside the bar."""
        return f"{n_over:,} of {self._n_jobs:,} jobs, simulated {span(now)}"


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
