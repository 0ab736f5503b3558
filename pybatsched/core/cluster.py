"""The cluster: its processors, and the partitions. Only the engine updates the free sets."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pybatsched.core.finished_jobs import IdSet
from pybatsched.core.instants import HALF_TICK, instant
from pybatsched.core.intervals import EMPTY, IntervalSet
from pybatsched.core.usage import UserUsage
from pybatsched.deprecations import deprecated_attribute
from pybatsched.errors import InputError, RemoteProtocolError

if TYPE_CHECKING:
    from pybatsched.core.events import Resource, SimulationBegins
    from pybatsched.core.jobs import Job
    from pybatsched.core.nodes import Nodes


class Window(NamedTuple):
    """A reservation of processors: nothing that would overlap it starts on them."""

    start_at: float
    end_at: float
    procs: IntervalSet
    name: str


class Partition:
    """A set of processors with its free set and its running jobs.

    `running_jobs` are the jobs that hold processors, by expected end and then by order of submission. `away` are
    processors that are unavailable, asleep, drained or reserved, or held by a job of an earlier policy that is in no
    partition. A running job may still hold some of them. `n_kills_pending` counts kills that Batsim has not answered;
    local schedulers start no job here while there are any. `n_changes` counts all changes of `free`, `away` and
    `running_jobs`.
    """

    def __init__(self, name: str, procs: IntervalSet) -> None:
        #: The name of the partition.
        self.name = name
        #: All its processors, absent ones included.
        self.procs = procs
        #: The number of its processors, absent ones included.
        self.n_procs = len(procs)
        #: The processors that a job can get now.
        self.free = procs
        #: The number of free processors.
        self.n_free = len(procs)
        #: Processors that are unavailable, asleep, drained, reserved, or of a job in no partition. Jobs may hold some.
        self.away = EMPTY
        #: The number of processors that are away.
        self.n_away = 0
        self.lost = EMPTY  # of these, those that no reservation or job gives back
        #: The jobs that hold processors, by expected end and then by order of submission.
        self.running_jobs: list[Job] = []
        self._ends: list[tuple[float, int]] = []  # expected end and submission number of each running job
        #: A counter of all changes of `free`, `away` and `running_jobs`.
        self.n_changes = 0
        #: The number of kills that Batsim has not answered. Local schedulers start no job here while there are any.
        self.n_kills_pending = 0
        self.machines_settled = False
        #: The known reservations of hosts that begin later, by start.
        self.upcoming: list[Window] = []
        #: Processors that are away and return at a known time, with that time.
        self.returning: list[tuple[float, IntervalSet]] = []
        self.usages: dict[float, UserUsage] = {}  # by half-life; those of the cluster, if it is in one

    running: list[tuple[float, int, Job]] = deprecated_attribute(
        "partition.running",
        "partition.running_jobs, a list of jobs",
        "1.0",
        lambda partition: [(job.expected_end_at, job.seq, job) for job in partition.running_jobs],
    )

    def usage(self, half_life_s: float = math.inf) -> UserUsage:
        """Return what users have used in the whole cluster, by the jobs that start after the first call. O(1)."""
        return self.usages.setdefault(half_life_s, UserUsage(half_life_s))

    def free_for(self, now: float, span_s: float) -> IntervalSet:
        """Return the free processors that are not reserved during a span from now on. O(windows)."""
        end_at, found = instant(now, span_s) - HALF_TICK, self.free
        for window in self.upcoming:
            if window.start_at >= end_at:
                break
            found = found - window.procs
        return found

    def first_for(self, n: int, now: float, span_s: float) -> IntervalSet | None:
        """Return n free processors that are not reserved during a span; None if there are too few. O(windows)."""
        usable = self.free_for(now, span_s)
        if n > len(usable):
            return None
        later = EMPTY
        for window in self.upcoming:
            later = later | window.procs
        later = later & usable
        n_later = min(n, len(later))
        return later.first(n_later) | (usable - later).first(n - n_later)

    def obstacle(self, n: int, now: float, span_s: float) -> Window | None:
        """Return the first reservation because of which n free processors are too few for a span; None for none."""
        if not self.upcoming or n > self.n_free or n <= len(self.free_for(now, span_s)):
            return None
        return self.upcoming[0]

    @property
    def n_possible(self) -> int:
        """How many processors a job can get at most. Absent ones count until it is known that none comes back."""
        return self.n_procs - len(self.lost) if self.machines_settled else self.n_procs

    def n_returned_by(self, job: Job) -> int:
        """Return how many processors become free when this running job ends."""
        if self.n_away and job.procs is not None:
            return len(job.procs - self.away)
        return job.n_procs if job.procs is None else job.n_held

    def add_running(self, job: Job) -> None:
        """Add a job that holds processors now (for the engine). O(log running) to find its position."""
        end = (job.segment.expected_end_at, job.seq)
        i = bisect_left(self._ends, end)
        self._ends.insert(i, end)
        self.running_jobs.insert(i, job)

    def remove_running(self, job: Job) -> None:
        """Remove a job that no longer holds processors (for the engine). O(log running) to find it."""
        i = bisect_left(self._ends, (job.segment.expected_end_at, job.seq))
        assert self.running_jobs[i] is job, f"{job} does not run in {self}"
        del self._ends[i]
        del self.running_jobs[i]

    def change_estimate(self, job: Job, estimate: float) -> None:
        """Change the estimate and the expected end of a running job (for the engine). O(log running) to find it."""
        segment = job.segment
        assert segment.started_at is not None
        self.remove_running(job)
        segment.estimate = estimate
        segment.expected_end_at = instant(segment.started_at, estimate)
        self.add_running(job)
        self.n_changes += 1

    def __repr__(self) -> str:
        return f"<Partition {self.name}: {self.n_free} of {self.n_procs} free, {len(self.running_jobs)} jobs running>"


class Cluster:
    """All processors, and what SIMULATION_BEGINS says about them.

    `procs` are the `n_procs` compute hosts; `storage` hosts belong to no partition. `resources[i]` describes host i.
    """

    def __init__(
        self,
        procs: IntervalSet,
        storage: IntervalSet = EMPTY,
        *,
        resources: Iterable[Resource] = (),
        allow_sharing: bool = False,
        config: Mapping[str, Any] | None = None,
        profiles: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        #: The processors of all compute hosts.
        self.procs = procs
        #: The number of processors.
        self.n_procs = len(procs)
        #: The storage hosts, which belong to no partition.
        self.storage = storage
        #: The description of each host by its number.
        self.resources: Mapping[int, Resource] = {resource.id: resource for resource in resources}
        #: Whether several jobs may compute on one processor.
        self.allow_sharing = allow_sharing
        #: Batsim's options at the start.
        self.config: Mapping[str, Any] = config or {}
        #: The profiles of each workload by name, if Batsim sends them.
        self.profiles: dict[str, dict[str, Mapping[str, Any]]] = {
            name: dict(content) for name, content in (profiles or {}).items()
        }
        #: All waiting and running jobs, by their users' ids.
        self.jobs: Mapping[str, Job] = {}
        #: Returns whether Batsim can run a job again from scratch; set by the engine.
        self.can_restart: Callable[[Job], bool] = lambda _job: True
        #: Returns whether a job can be killed and continue later with its remaining work; set by the engine.
        self.can_suspend: Callable[[Job], bool] = lambda _job: True
        #: Returns whether extra seconds can be put before a job's work (`Replace.extra_s`); set by the engine.
        self.can_load: Callable[[Job], bool] = lambda _job: True
        #: Returns whether a job can get another size and duration (`Reshape`); set by the engine.
        self.can_reshape: Callable[[Job], bool] = lambda _job: True
        self._retired_profiles: dict[str, IdSet] = {}  # by workload: profiles that no new job can use
        #: The partitions by name.
        self.partitions: dict[str, Partition] = {}
        self.usages: dict[float, UserUsage] = {}  # by half-life
        #: Running jobs of an earlier policy that are in no partition. Their processors are away until they end.
        self.inherited: dict[str, Job] = {}
        #: Processors that an external event has made unavailable.
        self.unavailable = EMPTY
        #: Processors that are switched off, or change their pstate.
        self.asleep = EMPTY
        #: Processors of present reservations of hosts.
        self.reserved = EMPTY
        #: Processors that are drained: no job starts there, and running jobs continue.
        self.drained = EMPTY
        self.window_ends: list[tuple[float, IntervalSet]] = []  # ends of present reservations
        self.repairs: list[tuple[float, IntervalSet]] = []  # expected returns of failed processors
        #: Processors that are unavailable, asleep, reserved, drained, or held by an inherited job.
        self.away = EMPTY
        #: The nodes, from the first job on that requests memory, GPUs or whole nodes, or always with partitions.
        self.nodes: Nodes | None = None

    @classmethod
    def from_begins(cls, event: SimulationBegins) -> Cluster:
        """Read the cluster from SIMULATION_BEGINS. Older and other peers may leave members out."""
        for name, content in (event.profiles or {}).items():
            if not isinstance(content, dict):
                raise RemoteProtocolError(f"the profiles of {name}: expected an object", field="profiles")
        for resource in (*(event.compute_resources or ()), *(event.storage_resources or ())):
            if resource.id < 0:
                raise RemoteProtocolError(
                    f"a resource has the id {resource.id}; expected at least 0", field="compute_resources"
                )
        compute = event.compute_resources
        n_compute = event.n_compute if event.n_compute is not None else event.n_resources
        if compute is not None:
            procs = IntervalSet(resource.id for resource in compute)
        elif n_compute is not None:
            procs = IntervalSet.span(0, n_compute)
        else:
            raise RemoteProtocolError(
                "the number of processors is missing; expected nb_resources", field="nb_resources"
            )
        if not procs:
            raise RemoteProtocolError(
                "the platform has no compute processors; expected at least 1", field="nb_compute_resources"
            )
        if n_compute is not None and event.n_compute is not None and len(procs) != n_compute:
            raise RemoteProtocolError(
                f"{len(procs)} resources are described; expected {n_compute}", field="compute_resources"
            )
        storage = event.storage_resources or ()
        return cls(
            procs,
            IntervalSet(resource.id for resource in storage),
            resources=tuple(compute or ()) + tuple(storage),
            allow_sharing=bool(event.allow_compute_sharing),
            config=event.config,
            profiles=event.profiles,
        )

    def host_of(self, proc: int) -> str:
        """Return the name of a processor's host for messages; its number if Batsim sent no name. O(1)."""
        resource = self.resources.get(proc)
        return str(proc) if resource is None or not resource.name else resource.name

    def property_of(self, proc: int, name: str) -> str | None:
        """Return a property of a host, its own or that of its zones; None if it has none. O(1)."""
        resource = self.resources.get(proc)
        if resource is None:
            return None
        own = (resource.properties or {}).get(name)
        return own if own is not None else (resource.zone_properties or {}).get(name)

    def number_of(self, proc: int, name: str) -> float | None:
        """Return a numeric property of a host; None if it has none. Raises InputError unless it is at least 0."""
        text = self.property_of(proc, name)
        if text is None:
            return None
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 <= value < math.inf:
            raise InputError(
                f"host {self.host_of(proc)}, property {name}: expected a number from 0, found {text[:60]!r}"
            )
        return value

    def groups(self, name: str) -> dict[str, IntervalSet]:
        """Return the processors that have a property of host or zone, in the order of their first hosts. O(n)."""
        found: dict[str, list[int]] = {}
        for proc in self.procs:
            value = self.property_of(proc, name)
            if value is not None:
                found.setdefault(value, []).append(proc)
        return {value: IntervalSet(procs) for value, procs in found.items()}

    def sleep_pstates(self, proc: int) -> frozenset[str]:
        """Return the pstates in which a processor sleeps; none if Batsim did not describe its host."""
        resource = self.resources.get(proc)
        return frozenset() if resource is None else resource.sleep_pstates

    @property
    def sched_config(self) -> str:
        """The text of Batsim's ``--sched-cfg``; empty if there is none."""
        text = self.config.get("sched-config")
        return text if isinstance(text, str) else ""

    def add_partition(self, name: str, procs: IntervalSet) -> Partition:
        """Create a partition of processors that are in no other one, in `on_begin`. The default is ``all``."""
        if name in self.partitions:
            raise ValueError(f"partition {name!r} exists already")
        if not procs.issubset(self.procs):
            raise ValueError(f"partition {name!r}: {procs - self.procs} are not compute processors of this platform")
        for other in self.partitions.values():
            if not procs.isdisjoint(other.procs):
                raise ValueError(f"partition {name!r} shares {procs & other.procs} with {other.name!r}")
        partition = self.partitions[name] = Partition(name, procs)
        partition.usages = self.usages
        return partition

    def partition_of(self, procs: IntervalSet) -> Partition | None:
        """Return the partition that contains all these processors; None if there is none. O(partitions)."""
        for partition in self.partitions.values():
            if procs.issubset(partition.procs):
                return partition
        return None

    def partition_at(self, procs: IntervalSet) -> Partition | None:
        """Return the partition of the lowest of these processors. O(partitions * log k)."""
        lowest = procs.lowest
        for partition in self.partitions.values():
            if lowest in partition.procs:
                return partition
        return None

    # --- for the engine ---

    def retire_profile(self, workload: str, name: str) -> None:
        """Record that no new job can use a profile and that its name stays taken. O(1) on average."""
        self._retired_profiles.setdefault(workload, IdSet()).add(name)

    def is_retired(self, workload: str, name: str) -> bool:
        """Return whether no new job can use a profile. O(1)."""
        names = self._retired_profiles.get(workload)
        return names is not None and names.has(name)

    def usage(self, half_life_s: float = math.inf) -> UserUsage:
        """Return what users have used, as `Partition.usage` does. O(1)."""
        return self.usages.setdefault(half_life_s, UserUsage(half_life_s))

    def occupy(self, job: Job, now: float) -> None:
        """Allocate the processors of a job that has just started. O(k + log running)."""
        if self.usages:
            for usage in self.usages.values():
                usage.started(job, now)
        segment = job.segment
        assert segment.partition is not None
        partition = self.partitions[segment.partition.name]
        assert segment.procs is not None
        partition.free = partition.free - segment.procs
        if self.allow_sharing:  # some may not have been free
            partition.n_free = len(partition.free)
        else:
            partition.n_free -= segment.n_held
        partition.add_running(job)
        partition.n_changes += 1
        if self.nodes is not None:
            self.nodes.occupy(job)

    def vacate(self, job: Job, now: float) -> None:
        """Free a job's processors, except absent ones and those that other jobs share. O(k + log running)."""
        if self.usages:
            for usage in self.usages.values():
                usage.ended(job, now)
        segment = job.segment
        if segment.partition is None:
            del self.inherited[job.id]
            if self.nodes is not None:
                self.nodes.vacate(job, EMPTY)
            self.change_machines()
            return
        partition = self.partitions[segment.partition.name]
        assert segment.procs is not None
        partition.remove_running(job)
        back = segment.procs
        n_back = segment.n_held
        if partition.n_away:
            back = back - partition.away
            n_back = len(back)
        if self.allow_sharing:
            for other in partition.running_jobs:
                assert other.procs is not None
                back = back - other.procs
            n_back = len(back)
        partition.free = partition.free | back
        partition.n_free += n_back
        partition.n_changes += 1
        if self.nodes is not None:
            self.nodes.vacate(job, back)

    def use_nodes(self, nodes: Nodes) -> None:
        """Count from now on what is free on nodes. O(running + nodes)."""
        self.nodes = nodes
        for partition in self.partitions.values():
            for job in partition.running_jobs:
                nodes.occupy(job)
        for job in self.inherited.values():
            nodes.occupy(job)
        nodes.count_cores(self._free())

    def _free(self) -> IntervalSet:
        """Return the free processors of all partitions. O(k)."""
        found = EMPTY
        for partition in self.partitions.values():
            found = found | partition.free
        return found

    def inherit(self, job: Job) -> None:
        """Keep a running job in no partition, until it ends. `change_machines` must follow. O(1)."""
        self.inherited[job.id] = job
        if self.nodes is not None:
            self.nodes.occupy(job)

    def hand_over(self, running: Iterable[Job], takes: Callable[[Job], bool]) -> None:
        """Put running jobs into new partitions, in which no job runs yet, or inherit them. O(running * k)."""
        self.inherited.clear()
        for job in running:
            assert job.procs is not None
            job.segment.partition = self.partition_of(job.procs)
            if job.segment.partition is not None and takes(job):
                assert job.started_at is not None
                self.occupy(job, job.started_at)
            else:
                job.segment.partition = None
                self.inherit(job)
        self.away = EMPTY
        self.change_machines()

    def change_machines(
        self,
        *,
        gone: IntervalSet = EMPTY,
        back: IntervalSet = EMPTY,
        asleep: IntervalSet = EMPTY,
        awake: IntervalSet = EMPTY,
    ) -> None:
        """Change which machines are available and awake. Their jobs keep running. O(running * k) for returning ones."""
        self.unavailable = (self.unavailable | gone) - back
        self.asleep = (self.asleep | asleep) - awake
        away = self.unavailable | self.asleep | self.reserved | self.drained
        for job in self.inherited.values():
            assert job.procs is not None
            away = away | job.procs
        lost, won = away - self.away, self.away - away
        self.away = away
        changed = lost | won
        not_back = self.unavailable | self.asleep | self.drained
        for partition in self.partitions.values():
            partition.lost = not_back & partition.procs
            if changed.isdisjoint(partition.procs):
                continue
            partition.n_changes += 1
            partition.away = away & partition.procs
            partition.n_away = len(partition.away)
            free = partition.free - lost
            returned = won & partition.procs
            if returned:
                for job in partition.running_jobs:
                    assert job.procs is not None
                    returned = returned - job.procs
            partition.free = free | returned
            partition.n_free = len(partition.free)
        if self.nodes is not None and changed:
            self.nodes.count_cores(self._free())
        if self.window_ends or self.repairs:
            self.show_returning()

    def show_returning(self) -> None:
        """Show the partitions which absent processors return at known times. O(known times * partitions)."""
        known = EMPTY
        for _, procs in self.repairs:
            known = known | procs
        later = self.drained | self.asleep | (self.unavailable - known)
        found: list[tuple[float, IntervalSet]] = []
        for at, procs in sorted((*self.window_ends, *self.repairs), key=_time, reverse=True):
            found.append((at, procs - later))
            later = later | procs
        for partition in self.partitions.values():
            partition.returning = [
                (at, procs & partition.procs) for at, procs in found if not procs.isdisjoint(partition.procs)
            ]
            partition.n_changes += 1

    def check(self) -> None:
        """Assert that free, allocated and absent processors are consistent (for tests). O(running * k)."""
        for partition in self.partitions.values():
            held = EMPTY
            for job in partition.running_jobs:
                assert job.procs is not None
                assert job.procs.issubset(partition.procs), f"{job} runs outside of {partition}"
                assert self.allow_sharing or held.isdisjoint(job.procs), f"{job} shares processors"
                held = held | job.procs
            assert partition.free == partition.procs - held - self.away, f"free set of {partition} is wrong"
            assert partition.n_free == len(partition.free)
        if self.nodes is not None:
            self.nodes.check(self._free())


def _time(known: tuple[float, IntervalSet]) -> float:
    return known[0]
