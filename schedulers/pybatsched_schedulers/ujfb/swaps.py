"""The time to swap a job's memory out and in, and the memory of hosts for swapped-out jobs.

On SX-Aurora the memory of a suspended process is copied from its vector engine (VE) to the vector host (VH), and later
back to the same engine. A copy takes size over bandwidth, with all engines in parallel.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from pybatsched import InputError, IntervalSet
from pybatsched_schedulers.ujfb.options import bandwidth_gbps

if TYPE_CHECKING:
    from pybatsched import Cluster, Job
    from pybatsched_schedulers.ujfb.options import Seconds, SwapOptions

#: The bandwidth of hosts without the property.
DEFAULT_GBPS: Final = 6.0


class SwapTimes(NamedTuple):
    """The swap-out and swap-in times of one suspension."""

    out_s: float
    in_s: float


class _HostGroup(NamedTuple):
    """Hosts with equal swap properties."""

    procs: IntervalSet
    memory_gb: float | None
    gbps: float


def memory_gb_of(job: Job) -> float | None:
    """Return a job's memory per processor from its field; None if it has none."""
    value = job.fields.get("memory_gb")
    return None if value is None else float(value)


class Swaps:
    """Computes swap times of jobs. O(groups of hosts) for each."""

    def __init__(self, cluster: Cluster, options: SwapOptions) -> None:
        self._draws = random.Random(options.seed)  # noqa: S311  a model, not a secret
        self._bounds: tuple[tuple[float, float], tuple[float, float]] | None = None
        rate = None if options.swap_class is None else bandwidth_gbps(options.swap_class)
        self._host_groups = _host_groups(cluster, rate)
        if options.swap != "bandwidth":
            defaults: tuple[Seconds, Seconds] = ((0.2, 2.0), (0.1, 2.0)) if options.swap == "uniform" else (1.0, 1.0)
            out, in_ = options.swap_out, options.swap_in
            self._bounds = _pair(defaults[0] if out is None else out), _pair(defaults[1] if in_ is None else in_)
        self.knows_no_memory = False  # whether a swap took no time because no memory size is known

    def times(self, job: Job, procs: IntervalSet) -> SwapTimes:
        """Return the times of one suspension of a job on its processors; with bounds, two random numbers."""
        if self._bounds is not None:
            out, in_ = (self._draws.uniform(*bounds) if bounds[0] < bounds[1] else bounds[0] for bounds in self._bounds)
            return SwapTimes(round(out, 6), round(in_, 6))
        seconds = round(max((s for s in self._copies_s(job, procs)), default=0.0), 6)
        return SwapTimes(seconds, seconds)

    def _copies_s(self, job: Job, procs: IntervalSet) -> Iterable[float]:
        own_gb = memory_gb_of(job)
        for kind in self._host_groups:
            if not procs.isdisjoint(kind.procs):
                gb = own_gb if own_gb is not None else kind.memory_gb
                self.knows_no_memory |= gb is None
                yield (gb or 0.0) / kind.gbps

    def memory_gb(self, job: Job, proc: int) -> float:
        """Return the memory that a job uses on one processor, in GB; 0 if it is unknown."""
        own_gb = memory_gb_of(job)
        if own_gb is not None:
            return own_gb
        return next((kind.memory_gb or 0.0 for kind in self._host_groups if proc in kind.procs), 0.0)


def _pair(seconds: Seconds) -> tuple[float, float]:
    return seconds if isinstance(seconds, tuple) else (seconds, seconds)


def _host_groups(cluster: Cluster, gbps: float | None) -> list[_HostGroup]:
    found: dict[tuple[float | None, float], list[int]] = {}
    for proc in cluster.procs:
        own_gbps = cluster.number_of(proc, "swap_bw_gbps")
        if own_gbps == 0:
            host = cluster.resources[proc].name or proc
            raise InputError(f"host {host}, property swap_bw_gbps: expected a bandwidth above 0")
        key = cluster.number_of(proc, "memory_gb"), gbps or own_gbps or DEFAULT_GBPS
        found.setdefault(key, []).append(proc)
    return [_HostGroup(IntervalSet(procs), memory_gb, rate) for (memory_gb, rate), procs in found.items()]


class HostMemory:
    """The memory of suspended jobs on the vector hosts. Without a limit every job fits."""

    def __init__(self, cluster: Cluster, swaps: Swaps, limit_gb: float | None) -> None:
        self._swaps = swaps
        self._limit_gb = limit_gb
        self._groups: dict[str, IntervalSet] = {}
        self._held_gb: dict[str, float] = {}
        if limit_gb is not None:
            self._groups = cluster.groups("vh")
            without_vh = next((proc for proc in cluster.procs if cluster.property_of(proc, "vh") is None), None)
            if without_vh is not None:
                host = cluster.host_of(without_vh)
                raise InputError(f"policy ujfb: vh_memory_gb needs hosts with a property vh; host {host} has none")

    def fits(self, jobs: Iterable[tuple[Job, IntervalSet]]) -> bool:
        """Return whether these jobs fit in addition to those on the hosts. O(vector hosts)."""
        if self._limit_gb is None:
            return True
        wanted: dict[str, float] = {}
        for job, procs in jobs:
            for vh, gb in self._shares(job, procs):
                wanted[vh] = wanted.get(vh, 0.0) + gb
        return all(self._held_gb.get(vh, 0.0) + gb <= self._limit_gb + 1e-9 for vh, gb in wanted.items())

    def hold(self, job: Job, procs: IntervalSet) -> None:
        """Add a job that is swapped out."""
        for vh, gb in self._shares(job, procs):
            self._held_gb[vh] = self._held_gb.get(vh, 0.0) + gb

    def give_back(self, job: Job, procs: IntervalSet) -> None:
        """Remove a job that is swapped in."""
        for vh, gb in self._shares(job, procs):
            self._held_gb[vh] -= gb

    def _shares(self, job: Job, procs: IntervalSet) -> Iterable[tuple[str, float]]:
        for vh, engines in self._groups.items():
            on_it = procs & engines
            if on_it:
                yield vh, sum(self._swaps.memory_gb(job, proc) for proc in on_it)
