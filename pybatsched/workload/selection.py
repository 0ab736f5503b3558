"""Which jobs of a workload to keep: by submission time, size, partition and number."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from pybatsched.core.instants import A_SPAN, seconds_text, span_of
from pybatsched.errors import InputError, quantity
from pybatsched.workload.walltimes import tidy

OUTSIDE: Final = "submitted outside of the window: dropped"
TOO_SMALL: Final = "smaller than the least size: dropped"
TOO_LARGE: Final = "larger than the greatest size: dropped"
OTHER_PARTITION: Final = "of another partition: dropped"
MOVED: Final = "submitted before the job on the line above: put in order of submission"
TOO_MANY: Final = "not among the first {}: dropped"
NOT_COUNTED: Final = "of the warm-up or cool-down: simulated, not counted in figures of jobs"


def seconds_of(text: str, what: str) -> float:
    """Read a time such as 86400, 90m, 12h, 3d or 2w. Raises InputError; its text starts with `what`."""
    seconds = span_of(text)
    if seconds is None:
        raise InputError(f"{what}: expected {A_SPAN}, found {text}")
    return seconds


def check_partitions(source: str, wanted: Iterable[str], n_jobs: Mapping[str, int]) -> None:
    """Raise InputError, with the number of jobs of each partition of a log, if a wanted partition has none."""
    for name in wanted:
        if name not in n_jobs:
            known = ", ".join(f"{one} ({quantity(n, 'job')})" for one, n in sorted(n_jobs.items())) or "none"
            raise InputError(f"{source}: partition {name!r:.40}: expected a partition of the log: {known}")


class NoJobsLeftError(InputError):
    """A selection keeps no job of a workload that has jobs."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which jobs to keep. A window includes its start, not its end. `partitions` are those of a log, by name.

    `clock` is the origin of the times: time 0 of the workload (`log`), or the first submission of a job that can run
    (`first`), in one of the `partitions` if some are given. `shift` moves all times so that the first kept job is
    submitted at 0; None means: if there is a window. With the clock `first`, the start of the window becomes time 0
    instead, so that several logs stay synchronous. If no job is left, that is an InputError, unless it `may_be_empty`.

    Jobs of the `warm_up_s` before the window and of the `cool_down_s` after it are kept, but not counted (`counted`).
    Where the window has no start or end, they are taken from the start or the end of the workload.
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
    warm_up_s: float = 0
    cool_down_s: float = 0

    def __post_init__(self) -> None:
        for name, seconds in (("warm-up", self.warm_up_s), ("cool-down", self.cool_down_s)):
            if not 0 <= seconds < math.inf:
                raise InputError(f"{name}: expected 0 seconds or more, found {seconds:g}")
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
        """Return the time of the workload that the window counts from, given all submission times. O(n)."""
        return min(submissions, default=0) if self.clock == "first" else 0

    def moved_by(self, origin_at: float, first_kept_at: float) -> float:
        """Return what is subtracted from all times, so that the first kept job, or the window, starts at 0."""
        if self.clock == "first" and self.shift is None:
            return origin_at + max((self.from_at or 0) - self.warm_up_s, 0)
        shifts = (self.from_at is not None or self.to_at is not None) if self.shift is None else self.shift
        return first_kept_at if shifts else 0

    def as_json(self) -> dict[str, Any]:
        """Return the limits that are set, for the workload file."""
        names = {"from_at": "from", "to_at": "to"}
        made: dict[str, Any] = {
            names.get(name, name): tidy(value)
            for name in ("from_at", "to_at", "min_size", "max_size", "max_jobs")
            if (value := getattr(self, name)) is not None
        }
        made |= {"warm_up": tidy(self.warm_up_s)} if self.warm_up_s else {}
        made |= {"cool_down": tidy(self.cool_down_s)} if self.cool_down_s else {}
        made |= {"partitions": list(self.partitions)} if self.partitions else {}
        return made if self.clock == "log" else made | {"clock": self.clock}

    @staticmethod
    def shift_of(n_workloads: int, clock: str) -> bool | None:
        """Return `shift` for each workload of a run: several on the clocks of their logs stay synchronous."""
        return None if n_workloads == 1 or clock == "first" else False

    @classmethod
    def from_json(cls, content: Any, n_workloads: int) -> Selection:
        """Return the selection that `as_json` has written, for a run with `n_workloads`. Raises InputError."""
        names = {"from": "from_at", "to": "to_at", "max_jobs": "max_jobs"}
        names |= {"warm_up": "warm_up_s", "cool_down": "cool_down_s"}
        numbers = dict(content) if isinstance(content, dict) else {"": content}
        partitions, clock = numbers.pop("partitions", []), numbers.pop("clock", "log")
        are_numbers = all(key in names and isinstance(value, int | float) for key, value in numbers.items())
        are_names = isinstance(partitions, list) and all(isinstance(name, str) for name in partitions)
        if not (are_numbers and are_names and clock in ("log", "first")):
            expected = f"numbers named {', '.join(names)}, names of partitions, and the clock log or first"
            raise InputError(f"selection: expected {expected}, found {content!r:.80}")
        chosen = {names[key]: value for key, value in numbers.items()}
        shift = cls.shift_of(n_workloads, clock)
        return cls(**chosen, partitions=tuple(partitions), clock=clock, shift=shift, may_be_empty=True)

    def limits(self, at: Any, size: Any) -> Iterator[tuple[str, Any]]:
        """Yield each rule that can drop a job, and whether it does, for a time and a size, or for columns of them."""
        if self.from_at is not None:
            yield OUTSIDE, at < self.from_at - self.warm_up_s
        if self.to_at is not None:
            yield OUTSIDE, at >= self.to_at + self.cool_down_s
        if self.min_size is not None:
            yield TOO_SMALL, size < self.min_size
        if self.max_size is not None:
            yield TOO_LARGE, size > self.max_size

    def drop_reason(self, submitted_at: float, size: int, origin_at: float = 0) -> str | None:
        """Return the rule that drops a job, None to keep it. `max_jobs` is applied by the caller."""
        at = tidy(submitted_at - origin_at) if origin_at else submitted_at
        return next((rule for rule, applies in self.limits(at, size) if applies), None)

    def counted(self, source: str, times: Any, origin_at: float = 0) -> list[bool] | None:
        """Return which of the jobs kept, by times in order, are in the window; None if all. O(n). Raises InputError."""
        if not (self.warm_up_s or self.cool_down_s) or not len(times):
            return None
        begin_at = times[0] + self.warm_up_s if self.from_at is None else origin_at + self.from_at
        end_at = math.inf if self.to_at is None else origin_at + self.to_at
        last_at = times[-1] - self.cool_down_s if self.to_at is None else math.inf
        found = [begin_at <= at < end_at and at <= last_at for at in times]
        if not any(found) and not self.may_be_empty:
            until = seconds_text(last_at if self.to_at is None else end_at)
            raise NoJobsLeftError(
                f"{source}: no job is left in the window from {seconds_text(begin_at)} s to {until} s: "
                f"{quantity(len(times), 'job')} of the warm-up and cool-down, and none to count"
            )
        return found

    def no_jobs_error(self, source: str, times: Sequence[float]) -> InputError:
        """Return the error for a selection that keeps none of the jobs submitted at these times."""
        limits = {name: value for name, value in self.as_json().items() if name != "clock"}
        chosen = ", ".join(f"{name.replace('_', ' ')} {_text_of(value)}" for name, value in limits.items())
        return NoJobsLeftError(
            f"{source}: no job is left: {quantity(len(times), 'job')} submitted from {seconds_text(min(times))} s to "
            f"{seconds_text(max(times))} s, and the selection is: {chosen}"
        )


def _text_of(value: Any) -> str:
    """Return a limit of a selection as text."""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
