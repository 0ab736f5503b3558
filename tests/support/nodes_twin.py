"""Slow twins of the placement on nodes, and of FCFS and EASY there: plain lists, and every rule written out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Gpus = dict[str, int]


@dataclass(frozen=True)
class SlowPartition:
    """A partition: the places of its nodes, and its limits."""

    name: str
    nodes: frozenset[int]
    max_time: float = math.inf
    max_nodes: int = 10**9
    priority: int = 0


@dataclass
class SlowNode:
    """A node with what its jobs hold."""

    procs: list[int]
    memory_gb: float
    gpus: Gpus
    features: frozenset[str] = frozenset()
    weight: float = 1.0
    jobs: list[dict[str, Any]] = field(default_factory=list)

    def free_procs(self) -> list[int]:
        held = {proc for job in self.jobs for proc in job["procs"]}
        return [proc for proc in self.procs if proc not in held]

    def free_memory(self) -> float:
        return self.memory_gb - sum(float(job["memory"]) for job in self.jobs)

    def free_gpus(self, kind: str) -> int:
        return sum(
            n - sum(job["gpus"].get(name, 0) for job in self.jobs)
            for name, n in self.gpus.items()
            if kind in {"", name}
        )

    def offer(self, request: Mapping[str, Any]) -> int:
        """Return how many cores the node gives a job with this request."""
        free = len(self.free_procs())
        if any(job["exclusive"] for job in self.jobs) or (request.get("exclusive") and self.jobs):
            return 0
        if not set(filter(None, request.get("features", "").split("&"))) <= self.features:
            return 0
        kind, n_gpus = gpus_of(request)
        if self.free_gpus(kind) < n_gpus or self.free_memory() < request.get("node_memory_gb", 0):
            return 0
        if request.get("memory_gb"):
            free = min(free, math.floor(self.free_memory() / request["memory_gb"]))
        unit = request.get("cores_per_node")
        return free if unit is None else unit if free >= unit else 0


def gpus_of(request: Mapping[str, Any]) -> tuple[str, int]:
    """Return type and number of the GPUs on each node."""
    kind, _, n = str(request.get("gpus_per_node", 0)).rpartition(":")
    return kind, int(n)


def slow_fit(
    nodes: Sequence[SlowNode], request: Mapping[str, Any], n: int, placement: str
) -> list[tuple[int, int]] | None:
    """Return the nodes of a job with the cores on each, by the rules of the documentation."""
    fewest, _, most = str(request.get("n_nodes", "1-" + str(n))).partition("-")
    at_least, at_most, unit = int(fewest), int(most or fewest), request.get("cores_per_node")
    offers = {index: node.offer(request) for index, node in enumerate(nodes)}
    free = {index: len(node.free_procs()) for index, node in enumerate(nodes)}
    if unit is not None and (n % unit or not at_least <= n // unit <= at_most):
        return None
    if at_least == 1 and unit in {None, n}:
        alone = [index for index, offered in offers.items() if offered >= n]
        if alone:
            return [(min(alone, key=lambda index: _alone_key(placement, nodes[index], free[index], index)), n)]
    if at_most == 1 or unit == n:
        return None
    order = sorted(
        (index for index, offered in offers.items() if offered),
        key=lambda index: _key(placement, nodes[index], free[index], index, unit),
    )
    found = _taken(order, offers, free, n, (at_least, at_most), best=placement == "best" and unit is None)
    if found is None and "n_nodes" in request:
        order.sort(key=lambda index: (-offers[index], index))
        found = _taken(order, offers, free, n, (at_least, at_most), best=False)
    if found is not None and placement == "spread":
        given = {index: 0 for index, _ in found}
        for _ in range(n):
            open_ones = [index for index in given if given[index] < offers[index]]
            given[min(open_ones, key=lambda index: given[index])] += 1
        return list(given.items())
    return found


def _alone_key(placement: str, node: SlowNode, n_free: int, index: int) -> tuple[float, ...]:
    keys: dict[str, tuple[float, ...]] = {
        "best": (n_free, index),
        "weight": (node.weight, n_free, index),
        "spread": (-n_free, index),
    }
    return keys.get(placement, (index,))


def _key(placement: str, node: SlowNode, n_free: int, index: int, unit: int | None) -> tuple[float, ...]:
    if placement == "order":
        return (index,)
    if placement == "weight":
        return (node.weight, -n_free, index)
    if placement == "best" and unit is not None:
        return (n_free, index)
    return (-n_free, index)


def _taken(
    order: Sequence[int],
    offers: Mapping[int, int],
    free: Mapping[int, int],
    n: int,
    bounds: tuple[int, int],
    *,
    best: bool,
) -> list[tuple[int, int]] | None:
    left, found = n, list[tuple[int, int]]()
    for index in order:
        n_later = max(bounds[0] - len(found) - 1, 0)  # nodes that must still come after this one
        taken = min(offers[index], left - n_later)
        if taken <= 0 or len(found) == bounds[1]:
            return None
        last = index
        if best and taken == left:
            used = {one for one, _ in found}
            last = min((one for one in order if one not in used and offers[one] >= left), key=lambda i: (free[i], i))
        found.append((last, taken))
        left -= taken
        if not left:
            return found if len(found) >= bounds[0] else None
    return None


def put(nodes: Sequence[SlowNode], parts: Sequence[tuple[int, int]], request: Mapping[str, Any], job: Any) -> list[int]:
    """Let a job hold its share of nodes; return its processors."""
    kind, n_gpus = gpus_of(request)
    taken = []
    for index, n in parts:
        node = nodes[index]
        procs, left, gpus = node.free_procs()[:n], n_gpus, Gpus()
        for name in node.gpus:
            if kind in {"", name} and left:
                gpus[name] = min(left, node.free_gpus(name))
                left -= gpus[name]
        assert len(procs) == n
        assert not left
        memory = request.get("node_memory_gb", 0) or request.get("memory_gb", 0) * n
        node.jobs.append(
            {"id": job, "procs": procs, "memory": memory, "gpus": gpus, "exclusive": request.get("exclusive", False)}
        )
        assert node.free_memory() >= 0
        taken += procs
    return sorted(taken)


def leave(nodes: Sequence[SlowNode], job: Any) -> None:
    """Let a job give back all that it holds."""
    for node in nodes:
        node.jobs = [one for one in node.jobs if one["id"] != job]


def fit_within(
    nodes: Sequence[SlowNode], job: Mapping[str, Any], placement: str, partition: SlowPartition
) -> list[tuple[int, int]] | None:
    """Return the nodes of a job in one partition: the other nodes give it nothing."""
    away = [{"id": "", "procs": node.procs, "memory": 0, "gpus": {}, "exclusive": True} for node in nodes]
    there = [
        node if index in partition.nodes else replace(node, jobs=[away[index]]) for index, node in enumerate(nodes)
    ]
    request = dict(job["request"])
    if partition.max_nodes < 10**9:
        fewest, _, most = str(request.get("n_nodes", f"1-{partition.max_nodes}")).partition("-")
        request["n_nodes"] = f"{fewest}-{min(int(most or fewest), partition.max_nodes)}"
        if int(fewest) > partition.max_nodes:
            return None
    return slow_fit(there, request, job["n"], placement if job["request"] else "order")


def accepting(nodes: Sequence[SlowNode], job: Mapping[str, Any]) -> list[SlowPartition]:
    """Return the partitions of a job that accept it, by falling priority; the machine has no running jobs."""
    found = [
        one
        for one in job.get("partitions", [SlowPartition("all", frozenset(range(len(nodes))))])
        if job["walltime"] <= one.max_time and fit_within(nodes, job, "fewest", one) is not None
    ]
    return sorted(found, key=lambda one: -one.priority)


def slow_easy(  # noqa: C901  every rule in one place
    nodes: Sequence[SlowNode],
    jobs: Sequence[Mapping[str, Any]],
    *,
    backfills: bool = True,
    partitions: Sequence[SlowPartition] = (),
) -> dict[str, tuple[float, list[int]]]:
    """Simulate EASY (or FCFS) on nodes; return start and processors of each job that is not rejected.

    `jobs` have ``id``, ``at``, ``n``, ``s``, ``walltime``, a ``request`` and perhaps ``partitions``, in order of
    submission.
    """
    within = {job["id"]: accepting(nodes, job) for job in jobs}
    groups = [set(range(len(nodes)))] if not partitions else list[set[int]]()
    waiting, running = list[Mapping[str, Any]](), list[tuple[float, float, Mapping[str, Any]]]()
    starts: dict[str, tuple[float, list[int]]] = {}

    def start(job: Mapping[str, Any], parts: Sequence[tuple[int, int]], now: float) -> None:
        starts[job["id"]] = now, put(nodes, parts, job["request"], job["id"])
        running.append((now + job["s"], now + job["walltime"], job))
        waiting.remove(job)

    def fit(job: Mapping[str, Any], placement: str = "best") -> list[tuple[int, int]] | None:
        found = (fit_within(nodes, job, placement, one) for one in within[job["id"]])
        return next((parts for parts in found if parts is not None), None)

    def join(joined: set[int]) -> None:
        for group in [group for group in groups if group & joined]:
            joined |= group
            groups.remove(group)
        groups.append(joined)

    def group_of(job: Mapping[str, Any]) -> int:
        return next(place for place, group in enumerate(groups) if group & within[job["id"]][0].nodes)

    def shadow_of(head: Mapping[str, Any], without: set[Any], now: float) -> float:
        """Return when the head fits if jobs end by their walltimes, and those of `without` never do."""
        kept = [list(node.jobs) for node in nodes]
        found = math.inf
        for end in sorted({end for _, end, job in running if job["id"] not in without}):
            for _, its_end, job in running:
                if its_end == end and job["id"] not in without:
                    leave(nodes, job["id"])
            if fit(head, "fewest") is not None:
                found = max(end, now)
                break
        for node, jobs_there in zip(nodes, kept, strict=True):
            node.jobs = jobs_there
        return found

    for partition in partitions:
        join(set(partition.nodes))
    arrivals = [job for job in jobs if within[job["id"]]]
    while arrivals or running:
        now = min([job["at"] for job in arrivals[:1]] + [end for end, _, _ in running])
        for one in [one for one in running if one[0] <= now]:
            running.remove(one)
            leave(nodes, one[2]["id"])
        while arrivals and arrivals[0]["at"] <= now:
            waiting.append(arrivals.pop(0))
            join({node for one in within[waiting[-1]["id"]] for node in one.nodes})
        waiting.sort(key=lambda job: -within[job["id"]][0].priority)
        heads: dict[int, tuple[Mapping[str, Any], float]] = {}
        for job in list(waiting):
            if group_of(job) not in heads:
                if (parts := fit(job)) is not None:
                    start(job, parts, now)
                else:
                    heads[group_of(job)] = job, shadow_of(job, set(), now)
        beside: set[Any] = set()  # jobs that were started now and run at the shadow time
        for job in list(waiting) if backfills else ():
            head, at = heads[group_of(job)]
            found = fit(job)
            if found is None or job is head:
                continue
            if now + job["walltime"] <= at:
                start(job, found, now)
                continue
            put(nodes, found, job["request"], job["id"])
            running.append((math.inf, math.inf, job))
            is_delayed = shadow_of(head, {*beside, job["id"]}, now) > at
            running.pop()
            leave(nodes, job["id"])
            if not is_delayed:
                start(job, found, now)
                beside.add(job["id"])
    return starts
