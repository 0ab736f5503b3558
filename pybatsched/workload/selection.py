"""Which jobs of a workload to keep: a time window, sizes, the first so many."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from pybatsched.core.instants import seconds_text
from pybatsched.errors import InputError, quantity
from pybatsched.workload.walltimes import tidy

OUTSIDE: Final = "submitted outside of the window: dropped"
TOO_SMALL: Final = "smaller than the least size: dropped"
TOO_LARGE: Final = "larger than the greatest size: dropped"
TOO_MANY: Final = "after the first so many jobs: dropped"


_UNITS_S: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def seconds_of(text: str, what: str) -> float:
    """Read a time as people write it: 86400, 90m, 12h, 3d, 2w. Raises InputError that begins with `what`."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?(?:e[0-9]+)?)([smhdw]?)", text.strip())
    seconds = float(match[1]) * _UNITS_S[match[2]] if match else math.inf
    if not math.isfinite(seconds):
        raise InputError(f"{what}: expected seconds, or a number with m, h, d or w as in 12h, found {text}")
    return seconds


class NothingLeftError(InputError):
    """A selection has left out all jobs of a workload that has some."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which jobs to keep. A window includes its begin, not its end; `partitions` are those of a log, by name.

    `clock` says what its times count from: the 0 of the workload's own clock (`log`), or the first submission of a job
    that can run (`first`). `shift` moves all times so that the first job kept is submitted at 0; None means: if there
    is a window. Counted from the first submission, a window begins at 0 instead, so that several logs stay in step.
    That no job is left is an InputError, unless it `may_be_empty`.
    """

    from_at: float | None = None
    to_at: float | None = None
    min_size: int | None = None
    max_size: int | None = None
    max_jobs: int | None = None
    partitions: tuple[str, ...] = ()
    shift: bool | None = None
    clock: Literal["log", "first"] = "log"
    may_be_empty: bool = False

    def __post_init__(self) -> None:
        if self.from_at is not None and self.to_at is not None and self.from_at >= self.to_at:
            raise InputError(
                f"window: expected an end after {seconds_text(self.from_at)} s, found {seconds_text(self.to_at)} s"
            )
        for name in ("min_size", "max_size", "max_jobs"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name.replace('_', ' ')}: expected 1 or more, found {value}")
        if self.min_size is not None and self.max_size is not None and self.min_size > self.max_size:
            raise InputError(f"sizes: expected a greatest size of {self.min_size} or more, found {self.max_size}")

    def origin(self, submissions: Iterable[float]) -> float:
        """Give the instant of the workload's own clock that the window counts from; these are all submissions. O(n)."""
        return min(submissions, default=0) if self.clock == "first" else 0

    def moved_by(self, origin_at: float, first_kept_at: float) -> float:
        """Give what all times are less in the end, so that the first job kept, or the window, begins at 0."""
        if self.clock == "first" and self.shift is None:
            return origin_at + (self.from_at or 0)
        shifts = (self.from_at is not None or self.to_at is not None) if self.shift is None else self.shift
        return first_kept_at if shifts else 0

    def as_json(self) -> dict[str, Any]:
        """Give the limits that are set, for the file that is made with them."""
        names = {"from_at": "from", "to_at": "to"}
        made: dict[str, Any] = {
            names.get(name, name): tidy(value)
            for name in ("from_at", "to_at", "min_size", "max_size", "max_jobs")
            if (value := getattr(self, name)) is not None
        }
        made |= {"partitions": list(self.partitions)} if self.partitions else {}
        return made if self.clock == "log" else made | {"clock": self.clock}

    @classmethod
    def from_json(cls, content: Any, n_workloads: int) -> Selection:
        """Give the selection that `as_json` has told, of one of so many workloads of a run. Raises InputError.

        One is moved as `shift` says. Several keep their times, so that they stay in step.
        """
        names = {"from": "from_at", "to": "to_at", "max_jobs": "max_jobs"}
        numbers = dict(content) if isinstance(content, dict) else {"": content}
        partitions = numbers.pop("partitions", [])
        are_numbers = all(key in names and isinstance(value, int | float) for key, value in numbers.items())
        are_names = isinstance(partitions, list) and all(isinstance(name, str) for name in partitions)
        if not (are_numbers and are_names):
            expected = f"numbers called {', '.join(names)}, and names of partitions"
            raise InputError(f"selection: expected {expected}, found {content!r:.80}")
        chosen = {names[key]: value for key, value in numbers.items()}
        shift = None if n_workloads == 1 else False
        return cls(**chosen, partitions=tuple(partitions), shift=shift, may_be_empty=True)

    @property
    def looks_at_jobs(self) -> bool:
        """Whether `refusal` may ever leave a job out."""
        limits = (self.from_at, self.to_at, self.min_size, self.max_size)
        return any(limit is not None for limit in limits)

    def refusal(self, submitted_at: float, size: int, origin_at: float = 0) -> str | None:
        """Give the one rule by which a job is left out for itself, if any; `max_jobs` is for who counts the others."""
        at = tidy(submitted_at - origin_at) if origin_at else submitted_at
        if self.from_at is not None and at < self.from_at:
            return OUTSIDE
        if self.to_at is not None and at >= self.to_at:
            return OUTSIDE
        if self.min_size is not None and size < self.min_size:
            return TOO_SMALL
        return TOO_LARGE if self.max_size is not None and size > self.max_size else None

    def nothing_left(self, source: str, times: Sequence[float]) -> InputError:
        """Make the error to raise when jobs submitted at these times were all left out."""
        chosen = ", ".join(f"{name.replace('_', ' ')} {_told(value)}" for name, value in self.as_json().items())
        return NothingLeftError(
            f"{source}: no job is left: {quantity(len(times), 'job')} submitted from {seconds_text(min(times))} s to "
            f"{seconds_text(max(times))} s, and the selection is: {chosen}"
        )


def _told(value: Any) -> str:
    """Write a limit of a selection for people."""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
