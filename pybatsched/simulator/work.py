"""What jobs do: profiles made ready to run, and the refusal of those that need a network model.

A profile is resolved once, when its workload is loaded or when it is registered, so that running it looks nothing up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pybatsched.errors import InputError

DELAY: Final = "delay"
PARALLEL: Final = "parallel"
HOMOGENEOUS: Final = "parallel_homogeneous"
TOTAL: Final = "parallel_homogeneous_total"
COMPOSED: Final = "composed"
SEND: Final = "send"
RECV: Final = "recv"

_PARALLEL_TASKS: Final = frozenset({PARALLEL, HOMOGENEOUS, TOTAL})
_NETWORK: Final[Mapping[str, str]] = {
    "parallel_homogeneous_pfs": "moves data to a storage host",
    "data_staging": "moves data between storage hosts",
    "smpi": "replays messages of MPI processes",
    "usage_trace": "replays a trace of core usage",
}


@dataclass(slots=True, eq=False)
class Work:
    """One profile, ready to run. `parts` are those of a composed one; `described` is what the file says."""

    name: str
    kind: str
    described: Mapping[str, Any]
    ret: int = 0
    delay_s: float = 0.0
    parts: tuple[Work, ...] = ()
    repeat: int = 1
    n_fixed: int | None = None  # processors a `parallel` profile is written for

    @property
    def is_parallel(self) -> bool:
        """Whether it computes, and takes the processors' speed into account."""
        return self.kind in _PARALLEL_TASKS

    @property
    def is_any_size(self) -> bool:
        """Whether Batsim lets it run on any number of processors."""
        if self.kind == COMPOSED:
            return all(part.kind == TOTAL for part in self.parts)
        return self.kind == TOTAL

    def flops(self, n_executors: int) -> Sequence[float]:
        """Give the work of each executor of a parallel task. O(n)."""
        cpu = self.described["cpu"]
        if self.kind == PARALLEL:
            return [float(amount) for amount in cpu]
        amount = float(cpu) / n_executors if self.kind == TOTAL else float(cpu)
        return [amount] * n_executors


@dataclass(slots=True)
class WorkTable:
    """The profiles of one workload. Without profile reuse a profile is forgotten with the first job that ends on it."""

    workload: str
    works: dict[str, Work | None] = field(default_factory=dict)

    def knows(self, name: str) -> bool:
        """Tell whether there is, or ever was, a profile of this name."""
        return name in self.works

    def get(self, name: str) -> Work | None:
        """Give a profile; None if there is none, or none any more."""
        return self.works.get(name)

    def known(self) -> list[Work]:
        """Give the profiles that are not forgotten. O(profiles)."""
        return [work for work in self.works.values() if work is not None]

    def described(self) -> dict[str, Mapping[str, Any]]:
        """Give the profiles that are still known, as they were written. O(profiles)."""
        return {work.name: work.described for work in self.known()}

    def add(self, name: str, described: Mapping[str, Any]) -> Work:
        """Take in a profile made at run time. Its parts are not resolved: Batsim does not do it either."""
        work = _leaf(name, described)
        self.works[name] = work
        return work

    def forget(self, name: str) -> None:
        """Forget a profile and its parts."""
        work = self.works.get(name)
        if work is not None:
            self.works[name] = None
            for part in work.parts:
                self.forget(part.name)


def resolve(workload: str, profiles: Mapping[str, Mapping[str, Any]], used: Iterable[str]) -> WorkTable:
    """Make profiles ready to run. Those that neither a job nor another profile names are left out, as Batsim does.

    O(profiles). A composed profile that contains itself is an InputError.
    """
    done: dict[str, Work] = {}

    def visit(name: str, trail: tuple[str, ...]) -> Work:
        if name in done:
            return done[name]
        if name in trail:
            raise InputError(f"workload {workload}: profile {name} contains itself: {' > '.join((*trail, name))}")
        described = profiles[name]
        work = _leaf(name, described)
        if work.kind == COMPOSED:
            work.parts = tuple(visit(part, (*trail, name)) for part in described["seq"])
            work.repeat = described.get("repeat", 1)
        elif work.kind == RECV:
            for key in ("success", "failure", "timeout"):
                if described.get(key):
                    visit(described[key], (*trail, name))
        done[name] = work
        return work

    parts = (part for profile in profiles.values() if profile["type"] == COMPOSED for part in profile["seq"])
    for name in dict.fromkeys((*used, *parts)):
        visit(name, ())
    return WorkTable(workload, dict(done))


def _leaf(name: str, described: Mapping[str, Any]) -> Work:
    kind = described["type"]
    work = Work(name, kind, described, ret=described.get("ret", 0))
    if kind == DELAY:
        work.delay_s = float(described["delay"])
    elif kind == PARALLEL:
        work.n_fixed = len(described["cpu"])
    return work


def why_not(work: Work) -> str | None:
    """Say what a profile does that this simulator does not, else None. O(size of the profile)."""
    if work.kind in _NETWORK:
        return f"profile {work.name} is of type {work.kind}, which {_NETWORK[work.kind]}"
    if work.is_parallel and _communicates(work.described.get("com", 0)):
        return f"profile {work.name} ({work.kind}) has communication amounts (com), which need a network model"
    for part in work.parts:
        found = why_not(part)
        if found is not None:
            return found
    return None


def _communicates(amounts: Any) -> bool:
    if isinstance(amounts, (int, float)):
        return amounts > 0
    return any(amount > 0 for amount in amounts)


def progress_node(trail: Sequence[Frame], now: float, depth: int = 0) -> dict[str, Any]:
    """Tell how far a job has come, as JOB_KILLED does."""
    frame = trail[depth]
    if frame.index >= 0:
        node = {"profile_name": frame.work.name, "current_task_index": frame.index}
        node["current_task"] = progress_node(trail, now, depth + 1)
        return node
    if frame.work.kind == DELAY:
        done = (now - frame.started_at) / frame.span_s
    elif frame.work.is_parallel:
        done = frame.done(now)
    else:
        return {"profile_name": frame.work.name, "current_task_index": -1}
    return {"profile_name": frame.work.name, "progress": round(done, 6)}


@dataclass(slots=True)
class Frame:
    """Where a job is: in which profile, in which of its parts (`index`, counted over repeats), since when."""

    work: Work
    started_at: float
    span_s: float = math.inf
    index: int = -1
    share: Any = None  # the task of a parallel profile whose rate changes over time

    def done(self, now: float) -> float:
        """Give the share of a parallel task that is done."""
        if self.share is not None:
            return float(self.share.done_at(now))
        return (now - self.started_at) / self.span_s if self.span_s else 1.0
