"""The grid of a meta-scheduler: sites with a local scheduler each, and jobs that may run on any of them.

A *moldable* job can get another size than the submitted one; its times follow Amdahl's law. On a faster site its times
are shorter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pybatsched import Cluster, InputError, IntervalSet, Job, LocalScheduler, Partition, instant

#: The name of the only site of a platform without the property `cluster`.
ONLY_SITE: Final = "all"


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """A cluster of the grid: its index, its local scheduler and its speed relative to the slowest one."""

    index: int
    local: LocalScheduler
    speed: float

    @property
    def name(self) -> str:
        """The value of the property `cluster` of its hosts."""
        return self.local.partition.name

    @property
    def partition(self) -> Partition:
        """Its processors."""
        return self.local.partition


def amdahl(fraction: float, n: int) -> float:
    """Return the speedup on n processors of work with a parallel fraction.

    >>> amdahl(0.9, 1), round(amdahl(0.9, 96), 6)
    (1.0, 9.142857)
    """
    return 1.0 / ((1.0 - fraction) + fraction / n)


class MoldableJob(NamedTuple):
    """A moldable job: the parallel fraction of its work, and the most processors it can use."""

    fraction: float
    limit: int


@dataclass(slots=True, eq=False)
class GridJob:
    """A job of the meta-scheduler, and its moves so far."""

    job: Job
    moldable: MoldableJob | None
    can_scale: bool  # whether its submitted times can be changed
    site: Site | None = None  # where it waits
    n_moves: int = 0  # from one site to another
    n_resubmitted: int = 0  # how often it was withdrawn from a queue

    def sizes_on(self, site: Site) -> range:
        """Return the possible sizes on a site; an empty range if it cannot run there."""
        n_possible = site.partition.n_possible
        if self.moldable is not None:
            return range(1, min(self.moldable.limit, n_possible) + 1)
        n = self.job.n_procs_requested
        return range(n, n + (n <= n_possible and (self.can_scale or site.speed == 1.0)))

    def scale(self, site: Site, n: int) -> float:
        """Return the factor of its submitted times on n processors of a site."""
        if self.moldable is None:
            return 1.0 / site.speed
        fraction = self.moldable.fraction
        return amdahl(fraction, self.job.n_procs_requested) / amdahl(fraction, n) / site.speed

    def span_s(self, site: Site, n: int) -> float:
        """Return the planned duration on n processors of a site; infinity if it is unknown."""
        span_s = self.job.estimate_at(self.scale(site, n))
        if span_s is None:
            span_s = site.local.assume_walltime
        return math.inf if span_s is None else span_s

    def planned_start(self, now: float) -> float:
        """Return its start by the current plan of its site; infinity for never."""
        assert self.site is not None
        start_at = self.site.local.planned_start(self.job, now)
        return math.inf if start_at is None else start_at

    def planned_end(self, now: float) -> float:
        """Return its end by the current plan of its site; infinity for never."""
        assert self.site is not None
        return instant(self.planned_start(now), self.site.local.span_s(self.job))


def read_sites(cluster: Cluster, make_local: Callable[[Partition], LocalScheduler]) -> list[Site]:
    """Create a partition for each `cluster`, in the order of their first hosts. Raises InputError with the host."""
    groups = cluster.groups("cluster")
    if groups:
        without = cluster.procs
        for procs in groups.values():
            without = without - procs
        if without:
            raise InputError(
                f"host {cluster.host_of(without.lowest)} has no property cluster; others have one: expected it on all "
                "hosts or on none"
            )
    else:
        groups = {ONLY_SITE: cluster.procs}
    speeds = _read_speeds(cluster, groups)
    return [
        Site(index, make_local(cluster.add_partition(name, procs)), speeds[name] / min(speeds.values()))
        for index, (name, procs) in enumerate(groups.items())
    ]


def _read_speeds(cluster: Cluster, groups: Mapping[str, IntervalSet]) -> dict[str, float]:
    found: dict[str, float | None] = {}
    for name, procs in groups.items():
        for proc in procs:
            speed = cluster.number_of(proc, "speed")
            if speed == 0:
                raise InputError(f"host {cluster.host_of(proc)}, property speed: expected a number above 0, found 0")
            if found.setdefault(name, speed) != speed:
                text = f"host {cluster.host_of(proc)}, property speed: {_speed_text(speed)}"
                whole = f"cluster {name}" if cluster.groups("cluster") else "its cluster (all hosts: none names one)"
                raise InputError(f"{text}, but {_speed_text(found[name])} in the rest of {whole}; expected one speed")
    known = {name: speed for name, speed in found.items() if speed is not None}
    if known and len(known) < len(found):
        name = next(name for name in found if name not in known)
        text = f"host {cluster.host_of(groups[name].lowest)}, of cluster {name}, has no property speed"
        raise InputError(f"{text}; cluster {next(iter(known))} has one: expected it on all hosts or on none")
    return known or dict.fromkeys(groups, 1.0)


def _speed_text(speed: float | None) -> str:
    return "none" if speed is None else f"{speed:.12g}"


def read_moldable(fields: Mapping[str, Any]) -> MoldableJob | None:
    """Read the field `moldable` of a job, {"fraction": 0.9, "limit": 96}."""
    given = fields.get("moldable")
    return None if given is None else MoldableJob(float(given["fraction"]), given["limit"])


def read_home(fields: Mapping[str, Any]) -> str | None:
    """Read the cluster that an external job goes to; None for a grid job."""
    return fields["cluster"] if fields.get("external", False) else None
