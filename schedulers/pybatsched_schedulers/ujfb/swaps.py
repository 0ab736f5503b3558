"""The time to swap a job's memory out and in, and the memory of hosts for swapped-out jobs.

On SX-Aurora the memory of a suspended process is copied from its vector engine (VE) to the vector host (VH), and later
back to the same engine. A copy takes size over bandwidth, with all engines in parallel.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Final, NamedTuple

from pybatsched import Cluster, InputError, IntervalSet, Job
from pybatsched_schedulers.ujfb.options import Seconds, SwapClass, SwapOptions

#: The bandwidth of hosts without the property.
DEFAULT_GBPS: Final = 6.0


class Measurement(NamedTuple):
    """One row of the published table. Outliers are left out of the fits."""

    input_size: SwapClass
    application: str
    size_mb: float
    swap_s: float
    is_outlier: bool = False


MEASUREMENTS: Final[tuple[Measurement, ...]] = (
    Measurement("A", "BT", 118.531, 0.022),
    Measurement("A", "CG", 123.727, 0.023),
    Measurement("A", "EP", 76.020, 0.014),
    Measurement("A", "FT", 396.707, 0.073),
    Measurement("A", "IS", 133.559, 0.024),
    Measurement("A", "LU", 110.238, 0.073, is_outlier=True),  # three and a half times as long as its neighbours
    Measurement("A", "MG", 506.758, 0.093),
    Measurement("A", "SP", 120.523, 0.022),
    Measurement("B", "BT", 248.621, 0.040),
    Measurement("B", "CG", 512.705, 0.082),
    Measurement("B", "EP", 76.020, 0.012),
    Measurement("B", "FT", 1630.167, 0.259),
    Measurement("B", "IS", 331.559, 0.053),
    Measurement("B", "LU", 215.742, 0.034),
    Measurement("B", "MG", 608.109, 0.097),
    Measurement("B", "SP", 256.770, 0.041),
    Measurement("C", "BT", 573.680, 0.106),
    Measurement("C", "CG", 741.656, 0.138),
    Measurement("C", "EP", 76.023, 0.014),
    Measurement("C", "FT", 2602.986, 0.676, is_outlier=True),  # 3.9 GB/s where the others have 5.4
    Measurement("C", "IS", 842.672, 0.156),
    Measurement("C", "LU", 633.914, 0.118),
    Measurement("C", "MG", 1741.941, 0.323),
    Measurement("C", "SP", 797.586, 0.148),
    Measurement("D", "BT", 1223.390, 0.201),
    Measurement("D", "CG", 1071.495, 0.176),
    Measurement("D", "EP", 76.023, 0.013),
    Measurement("D", "FT", 5127.443, 0.844),
    Measurement("D", "IS", 2116.223, 0.348),
    Measurement("D", "LU", 1116.267, 0.184),
    Measurement("D", "MG", 2469.829, 0.406),
    Measurement("D", "SP", 1441.358, 0.237),
)


def bandwidth_gbps(input_size: SwapClass | None = None) -> float:
    """Return the bandwidth by least squares through zero, over one input size or all, without the outliers.

    >>> round(bandwidth_gbps("A"), 3), round(bandwidth_gbps(), 1)
    (5.445, 6.0)
    """
    rows = [row for row in MEASUREMENTS if not row.is_outlier and input_size in {None, row.input_size}]
    mb_s = sum(row.size_mb * row.swap_s for row in rows)
    return sum(row.size_mb**2 for row in rows) / mb_s / 1000


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
