"""Profiles of jobs, resolved once for execution, and the check for profiles that communicate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from pybatsched.simulator.work.usage_traces import Phases

DELAY: Final = "delay"
PARALLEL: Final = "parallel"
HOMOGENEOUS: Final = "parallel_homogeneous"
TOTAL: Final = "parallel_homogeneous_total"
COMPOSED: Final = "composed"
SEND: Final = "send"
RECV: Final = "recv"
USAGE: Final = "usage_trace"
PFS: Final = "parallel_homogeneous_pfs"
STAGING: Final = "data_staging"

#: Members of a `recv` profile that name the profile to continue with; looked up when the message arrives.
RECV_BRANCHES: Final = ("success", "failure", "timeout")

#: The maximum nesting of composed profiles, which run as nested generators.
MAX_DEPTH: Final = 100

_PARALLEL_TASKS: Final = frozenset({PARALLEL, HOMOGENEOUS, TOTAL, PFS, STAGING})
_WITH_STORAGE: Final = frozenset({PFS, STAGING})


class Work(msgspec.Struct, eq=False):
    """One resolved profile. `parts` are the parts of a composed one; `described` is the JSON object of the file."""

    name: str
    kind: str
    described: Mapping[str, Any]
    ret: int = 0
    delay_s: float = 0.0
    parts: tuple[Work, ...] = ()
    repeat: int = 1
    sizes: frozenset[int] = frozenset()  # the numbers of processors of the `parallel` profiles in it
    refusal: str | None = None  # why this simulator cannot run it
    depth: int = 1  # of nesting
    computes: bool = False  # whether it has flops to compute
    communicates: bool = False  # whether it, or a part of it, moves data over the network
    ranks: tuple[Phases, ...] = ()  # of a usage trace, after it was read
    rank_counts: frozenset[int] = frozenset()  # the numbers of ranks of the usage traces in it

    @property
    def is_parallel(self) -> bool:
        """Whether it is a parallel task, whose length depends on the speed of processors."""
        return self.kind in _PARALLEL_TASKS

    @property
    def uses_storage(self) -> bool:
        """Whether it moves data to or from a storage host."""
        return self.kind in _WITH_STORAGE

    @property
    def is_any_size(self) -> bool:
        """Whether Batsim runs it on any number of processors."""
        if self.kind == COMPOSED:
            return all(part.kind == TOTAL for part in self.parts)
        return self.kind == TOTAL

    def flops(self, n_executors: int, read: Callable[[float], float] = float) -> Sequence[float]:
        """Return the flops of each executor of a parallel task; `read` converts the numbers of the profile. O(n)."""
        if self.kind in _WITH_STORAGE:
            return [0.0] * n_executors
        cpu = self.described["cpu"]
        if self.kind == PARALLEL:
            return [read(float(amount)) for amount in cpu]
        amount = read(float(cpu)) / n_executors if self.kind == TOTAL else read(float(cpu))
        return [amount] * n_executors

    def transfers(self, places: Sequence[int], read: Callable[[float], float] = float) -> Transfers:
        """Return (from, to, bytes) between the executors of a parallel task. O(n²) if they differ."""
        com = self.described.get("com", 0)
        n = len(places)
        if self.kind == PARALLEL:
            amounts = [read(float(amount)) for amount in com] if isinstance(com, list) else []
            return [(places[k // n], places[k % n], amount) for k, amount in enumerate(amounts) if amount > 0]
        amount = read(float(com)) / n if self.kind == TOTAL else read(float(com))
        return AllPairs(places, amount) if amount > 0 and n > 1 else []


class AllPairs:
    """The same number of bytes from each executor to each other one."""

    def __init__(self, places: Sequence[int], amount: float) -> None:
        self.places = places
        self.amount = amount

    def __iter__(self) -> Iterator[tuple[int, int, float]]:
        """Yield (from, to, bytes), in the order of the executors. O(n²)."""
        for src, dst in permutations(self.places, 2):
            yield src, dst, self.amount


#: Bytes from a host to a host.
Transfers: TypeAlias = Sequence[tuple[int, int, float]] | AllPairs


@dataclass(slots=True)
class WorkTable:
    """The profiles of one workload. Without profile reuse, a profile is removed when the first job with it ends."""

    works: dict[str, Work | None] = field(default_factory=dict)

    def knows(self, name: str) -> bool:
        """Return whether a profile of this name exists or existed."""
        return name in self.works

    def get(self, name: str) -> Work | None:
        """Return a profile; None if it does not exist or was removed."""
        return self.works.get(name)

    def known(self) -> list[Work]:
        """Return the profiles that have not been removed. O(profiles)."""
        return [work for work in self.works.values() if work is not None]

    def add(self, name: str, described: Mapping[str, Any]) -> Work:
        """Add a profile that was registered at run time. It has no parts, because Batsim cannot run them."""
        work = _resolved(name, described, {})
        self.works[name] = work
        return work

    def forget(self, name: str) -> None:
        """Remove a profile and its parts."""
        work = self.works.get(name)
        if work is not None:
            self.works[name] = None
            for part in work.parts:
                self.forget(part.name)


def resolve(profiles: Mapping[str, Mapping[str, Any]], used: Iterable[str]) -> WorkTable:
    """Resolve the profiles that a job or another profile uses, as in Batsim. O(profiles), without recursion."""
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
            done[name] = _resolved(name, described, done)
    return WorkTable(dict(done))


def _named_by_others(profiles: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for described in profiles.values():
        if described["type"] == COMPOSED:
            yield from described["seq"]
        elif described["type"] == RECV:
            yield from (described[key] for key in RECV_BRANCHES if described.get(key) in profiles)


def _resolved(name: str, described: Mapping[str, Any], others: Mapping[str, Work]) -> Work:
    kind = described["type"]
    work = Work(name, kind, described, ret=described.get("ret", 0))
    if kind == DELAY:
        work.delay_s = float(described["delay"])
        return work
    if kind == PARALLEL:
        work.sizes = frozenset({len(described["cpu"])})
    elif kind == COMPOSED:
        work.parts = tuple(others[part] for part in described["seq"])
        work.repeat = described.get("repeat", 1)
        work.sizes = frozenset().union(*(part.sizes for part in work.parts))
        work.depth = 1 + max(part.depth for part in work.parts)
    work.computes = (work.is_parallel and _positive(described.get("cpu", 0))) or any(
        part.computes for part in work.parts
    )
    work.communicates = (
        kind in _WITH_STORAGE
        or (work.is_parallel and _positive(described.get("com", 0)))
        or any(part.communicates for part in work.parts)
    )
    work.refusal = _why_unsupported(work) or next((part.refusal for part in work.parts if part.refusal), None)
    return work


def _why_unsupported(work: Work) -> str | None:
    """Return why this simulator cannot run a profile; None if it can."""
    if work.kind == "smpi":
        return f"profile {work.name} is of type smpi, which replays messages of MPI processes"
    if work.depth > MAX_DEPTH:
        return f"profile {work.name} has more than {MAX_DEPTH} levels of nesting"
    return None


def storage_fault(described: Mapping[str, Any]) -> str:
    """Return what is wrong with the fields of a profile that uses storage; empty if nothing is."""
    is_pfs = described["type"] == PFS
    amounts = ("bytes_to_read", "bytes_to_write") if is_pfs else ("nb_bytes",)
    texts = ("storage", "host") if is_pfs else ("from", "to")
    if not any(name in described for name in amounts):
        return f"field {' or '.join(amounts)}: expected a number of bytes, 0 or more, found nothing"
    for name in amounts:
        value = described.get(name, 0)
        if type(value) not in {int, float} or not 0 <= value < math.inf:
            return f"field {name}: expected a number of bytes, 0 or more, found {value!r:.60}"
    for name in texts:
        if name not in described and is_pfs:
            continue
        if type(described.get(name)) is not str:
            return f"field {name}: expected the label of a storage (a text), found {described.get(name)!r:.60}"
    return ""


def _positive(amounts: Any) -> bool:
    if isinstance(amounts, (int, float)):
        return amounts > 0
    return any(amount > 0 for amount in amounts)


def progress_node(trail: Sequence[Frame], now: float, depth: int = 0) -> dict[str, Any]:
    """Return the progress of a job in the format of JOB_KILLED."""
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


class Advancing(Protocol):
    """A running task that knows how much of it is done."""

    def done_at(self, now: float) -> float:
        """Return the completed share, from 0 to 1."""


@dataclass(slots=True)
class Frame:
    """The position of a job: the profile, the index of its part (counted over repeats), and the start of it."""

    work: Work
    started_at: float
    span_s: float = math.inf
    index: int = -1
    share: Advancing | None = None  # of a parallel task whose rate changes over time

    def done(self, now: float) -> float:
        """Return the completed share of a parallel task, from 0 to 1."""
        if self.share is not None:
            return self.share.done_at(now)
        return (now - self.started_at) / self.span_s if self.span_s else 1.0
