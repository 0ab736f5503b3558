"""What jobs do: profiles made ready to run, and the refusal of those that need a network model.

A profile is resolved once, when its workload is loaded or when it is registered, so that running it looks nothing up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pybatsched.simulator.work.usage_traces import Phases

if TYPE_CHECKING:
    from pybatsched.simulator.work.tasks import Task

DELAY: Final = "delay"
PARALLEL: Final = "parallel"
HOMOGENEOUS: Final = "parallel_homogeneous"
TOTAL: Final = "parallel_homogeneous_total"
COMPOSED: Final = "composed"
SEND: Final = "send"
RECV: Final = "recv"
USAGE: Final = "usage_trace"

#: Where a `recv` profile names another one to go on with; looked up when the message has come.
RECV_BRANCHES: Final = ("success", "failure", "timeout")

#: Composed profiles are run by processes inside processes.
MAX_DEPTH: Final = 100

_PARALLEL_TASKS: Final = frozenset({PARALLEL, HOMOGENEOUS, TOTAL})
_NETWORK: Final[Mapping[str, str]] = {
    "parallel_homogeneous_pfs": "moves data to a storage host",
    "data_staging": "moves data between storage hosts",
    "smpi": "replays messages of MPI processes",
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
    sizes: frozenset[int] = frozenset()  # numbers of processors that `parallel` profiles in it are written for
    refusal: str | None = None  # what it does that this simulator does not
    depth: int = 1  # of nesting
    computes: bool = False  # whether it has flops for its hosts
    ranks: tuple[Phases, ...] = ()  # of a usage trace, once it is read
    rank_counts: frozenset[int] = frozenset()  # how many ranks the usage traces in it have

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

    def add(self, name: str, described: Mapping[str, Any]) -> Work:
        """Take in a profile made at run time. It has no parts: Batsim could not run them either."""
        work = _made(name, described, {})
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

    O(profiles), without recursion: a chain of profiles may be as long as its file. Parts exist and form no circle.
    """
    done: dict[str, Work] = {}
    waiting = list(dict.fromkeys((*used, *_named_by_others(profiles))))
    while waiting:
        name = waiting[-1]
        described = profiles[name]
        missing = [part for part in described["seq"] if part not in done] if described["type"] == COMPOSED else []
        if missing and name not in done:
            waiting += missing
            continue
        waiting.pop()
        if name not in done:
            done[name] = _made(name, described, done)
    return WorkTable(workload, dict(done))


def _named_by_others(profiles: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for described in profiles.values():
        if described["type"] == COMPOSED:
            yield from described["seq"]
        elif described["type"] == RECV:
            yield from (described[key] for key in RECV_BRANCHES if described.get(key) in profiles)


def _made(name: str, described: Mapping[str, Any], others: Mapping[str, Work]) -> Work:
    kind = described["type"]
    work = Work(name, kind, described, ret=described.get("ret", 0))
    if kind == DELAY:
        work.delay_s = float(described["delay"])
    elif kind == PARALLEL:
        work.sizes = frozenset({len(described["cpu"])})
    elif kind == COMPOSED:
        work.parts = tuple(others[part] for part in described["seq"])
        work.repeat = described.get("repeat", 1)
        work.sizes = frozenset().union(*(part.sizes for part in work.parts))
        work.depth = 1 + max(part.depth for part in work.parts)
    work.computes = (work.is_parallel and _positive(described["cpu"])) or any(part.computes for part in work.parts)
    work.refusal = _why_not(work) or next((part.refusal for part in work.parts if part.refusal), None)
    return work


def _why_not(work: Work) -> str | None:
    """Say what a profile does that this simulator does not, else None."""
    if work.kind in _NETWORK:
        return f"profile {work.name} is of type {work.kind}, which {_NETWORK[work.kind]}"
    if work.is_parallel and _positive(work.described.get("com", 0)):
        return f"profile {work.name} ({work.kind}) has communication amounts (com), which need a network model"
    if work.depth > MAX_DEPTH:
        return f"profile {work.name} is nested more than {MAX_DEPTH} deep"
    return None


def _positive(amounts: Any) -> bool:
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
    share: Task | None = None  # of a parallel profile whose rate changes over time

    def done(self, now: float) -> float:
        """Give the share of a parallel task that is done."""
        if self.share is not None:
            return self.share.done_at(now)
        return (now - self.started_at) / self.span_s if self.span_s else 1.0
