"""The state of slurmctld: jobs, nodes, limits and reservations, and what a pass may do with them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from pybatsched import IntervalSet, Node, Nodes, set_of, slurm_conf as sc
from pybatsched_schedulers.slurm.jobs import Placement, Record, Request
from pybatsched_schedulers.slurm.limits import RunningUse
from pybatsched_schedulers.slurm.priority import PriorityEngine
from pybatsched_schedulers.slurm.queue import JobList, QueueEntry, in_order
from pybatsched_schedulers.slurm.selection import (
    MB,
    ConsTresSelection,
    CountedNodes,
    Held,
    LinearSelection,
    NodeSelection,
    Releases,
)
from pybatsched_schedulers.slurm.usage import billing

if TYPE_CHECKING:
    from pybatsched_schedulers.slurm.accounts import Accounts

#: How long a preempted job waits before it may start again: the lifetime of a credential, and one second.
REQUEUE_DELAY_S = 121
#: How often the order of victims is improved, at most.
_MOST_ROUNDS = 3


class StartedJob(NamedTuple):
    """A job that a pass starts."""

    record: Record
    by: str


class PreemptedJob(NamedTuple):
    """A running job that a pass preempts for another one."""

    victim: Record
    by: Record


class ExpectedStart(NamedTuple):
    """When and where backfill expects a job to start."""

    record: Record
    start_at: float
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes that only the jobs of a reservation may use for some time. Times are seconds of the epoch."""

    name: str
    start_at: float
    end_at: float
    nodes: int


def machine_of(conf: sc.SlurmConf, procs: Sequence[IntervalSet] = ()) -> Nodes:
    """Return the nodes of a configuration, with their processors; else numbered from 0."""
    types = list(dict.fromkeys(kind for node in conf.nodes for kind in node.gpus))
    nodes, first = [], 0
    for number, node in enumerate(conf.nodes):
        own = procs[number] if procs else IntervalSet.span(first, first + node.n_cpus)
        first += node.n_cpus
        gpus = tuple(node.gpus.get(kind, 0) for kind in types)
        memory = node.memory_mb * MB
        nodes.append(Node(number, node.name, own, node.n_cpus, memory, gpus, node.features, node.weight))
    return Nodes(nodes, types)


class Controller:
    """What slurmctld knows. It changes when jobs are submitted, start and end; passes only ask."""

    def __init__(self, conf: sc.SlurmConf, accounts: Accounts | None, machine: Nodes | None = None) -> None:
        self.conf = conf
        self.machine = machine_of(conf) if machine is None else machine
        kind: type[NodeSelection] = LinearSelection if conf.select == "linear" else ConsTresSelection
        self.selection = kind(self.machine, counts_memory=conf.counts_memory)
        self.free = CountedNodes(self.machine)
        self.jobs = JobList()
        self.priorities = PriorityEngine(conf, accounts)
        self.use = RunningUse(accounts, is_enforced="limits" in conf.enforce, is_safe="safe" in conf.enforce)
        self.reservations: dict[str, Reservation] = {}
        up = set_of(number for number, node in enumerate(conf.nodes) if node.is_up)
        self.partition_nodes = {name: set_of(one.nodes) & up for name, one in conf.partitions.items()}
        #: Nodes that are not available.
        self.down = 0
        #: Nodes that have not yet answered after the end of a job, by the record of this job.
        self.completing: dict[Record, int] = {}
        self._held: dict[Record, Held] = {}
        self._when_idle: dict[tuple[Request, str], Placement | None] = {}
        self._queue: list[QueueEntry] = []  # that of the last pass
        self._delayed: set[Record] = set()  # jobs that wait for a time
        # Until a job starts or ends. The last two are by what tells jobs with other victims apart:
        self._fits: dict[tuple[Request, int], Placement | None] = {}
        self._victims: dict[object, list[Held]] = {}
        self._releases: dict[object, Releases] = {}

    # --- what happens ---

    def refused_by(self, record: Record) -> str:
        """Return Slurm's reason why a job is rejected at submission; empty if it is accepted. O(limits)."""
        reason, choices = "", record.choices or ((record.partition, record.request),)
        for partition, request in choices:
            record.partition, record.request = partition, request
            placement = self.when_idle(record)
            reason = (
                "BadConstraints"
                if placement is None
                else self.use.refused_by(record, self._least_tres(record, placement))
            )
            if not reason:  # one of its partitions is enough
                break
        return reason

    def submit(self, record: Record) -> None:
        """Add a waiting job. O(1)."""
        if record.choices:
            record.partition, record.request = record.choices[0]
        record.n_cpus_counted = record.request.n_cpus
        self.priorities.submitted(record, record.submit_at)
        placement = self.when_idle(record) if self.conf.select == "linear" else None
        if placement is not None:
            record.n_cpus_counted = placement.n_cpus
        if record.eligible_at <= record.submit_at:
            is_alone = not record.dependencies and not record.tasks
            if self._waits_for(record, record.submit_at):
                record.eligible_at = math.inf
            elif is_alone:  # Slurm tests whether other jobs come before it
                for rest in self.jobs.arrays.values():
                    self.test_array(rest, record.submit_at)
        elif record.eligible_at < math.inf:
            self._delayed.add(record)
        self.use.submitted(record, max(len(record.tasks), 1))
        self.jobs.add(record)
        self.selection.reset_weights(record.request, self.partition_nodes[record.partition.name])

    def add_task(self, rest: Record, task: int) -> None:
        """Add a task to the waiting rest of an array. O(1)."""
        self.use.submitted(rest, 1)
        self.jobs.add_task(rest, task)

    def drop(self, record: Record) -> None:
        """Remove a waiting job that will not run. O(1)."""
        self.use.left(record, max(len(record.tasks), 1))
        self.jobs.drop(record)
        self._queue = []

    def drop_task(self, rest: Record, task: int) -> None:
        """Remove a waiting task of an array that will not run. O(tasks)."""
        self.use.left(rest, 1)
        self.jobs.drop_task(rest, task)

    def when_idle(self, record: Record) -> Placement | None:
        """Return where a job would run if all nodes of its partition were idle; None if it can never run.

        O(nodes), and O(1) for a request that was seen before.
        """
        key = record.request, record.partition.name
        if key not in self._when_idle:
            nodes = self.partition_nodes[record.partition.name]
            self._when_idle[key] = self.selection.choose(record.request, nodes, self.selection.idle)
        return self._when_idle[key]

    def next_eligible(self, now: float) -> float:
        """Return when the next job may start that waits for a time; infinite for none. O(jobs that wait for a time)."""
        waiting = self.jobs.waiting
        self._delayed = {one for one in self._delayed if one.eligible_at > now and waiting.get(one.place) is one}
        return min((one.eligible_at for one in self._delayed), default=math.inf)

    def test_array(self, rest: Record, now: int) -> None:
        """Test whether the rest of an array could start, as Slurm does at several occasions."""
        if self.jobs.is_over_array_limit(rest):
            rest.could_start_at = 0
        elif not rest.could_start_at:
            rest.could_start_at = now

    def see_array(self, rest: Record, now: int) -> None:
        """Let the age of the rest of an array count from when it could start, once and for all; then test it."""
        if rest.could_start_at and not rest.was_seen:
            rest.was_seen, rest.eligible_at = True, rest.could_start_at
        self.test_array(rest, now)

    def update_priorities(self, now: int) -> None:
        """Decay usage, and set the priorities of waiting jobs: once in each calculation period."""
        self.priorities.update(list(self.jobs.waiting.values()), list(self.jobs.running), now)
        self.use.updated(self.jobs.running, now)

    def start(self, record: Record, placement: Placement, now: int) -> Record:
        """Start a waiting job, or the first task of an array. Return what runs now. O(its nodes)."""
        started = self.jobs.start(record)
        started.placement, started.started_at = placement, now
        started.tres = self.tres(record, placement)
        shares = self.selection.shares(started.request, placement, self.free)
        self.free.take(shares, exclusive=started.request.exclusive)
        self.use.started(started)
        self._held[started] = Held(now + started.limit_s, started.place, started, shares, set_of(placement.nodes))
        self._fits, self._victims, self._releases = {}, {}, {}
        return started

    def end(self, record: Record, now: int) -> None:
        """Take back what an ended job held. Its nodes complete until `nodes_answered`. O(its nodes)."""
        self._give_back(record, now)
        self.use.left(record, 1)
        self.jobs.end(record)

    def preempt(self, record: Record, now: int) -> None:
        """Kill a running job for another one: it waits again, unless preempted jobs are cancelled. O(its nodes).

        Its nodes complete until `nodes_answered`.
        """
        self._give_back(record, now)
        if self.cancels(record):
            self.use.left(record, 1)
            self.jobs.end(record)
        else:
            self.jobs.requeue(record)
            self._queue = []
            record.submit_at, record.eligible_at, record.was_seen = now, now + REQUEUE_DELAY_S, False
            self._delayed.add(record)

    def cancels(self, record: Record) -> bool:
        """Return whether a job that is preempted does not run again."""
        return not self.conf.requeues or self._preempt_mode(record) == "cancel"

    def _preempt_mode(self, record: Record) -> str:
        """Return how a job is preempted: off, cancel or requeue, of its QOS, its partition or the cluster."""
        own = record.qos.preempt_mode if record.qos is not None and self.conf.preempt_type == "qos" else ""
        return own or record.partition.preempt_mode or ("cancel" if "cancel" in self.conf.preempt_mode else "requeue")

    def _give_back(self, record: Record, now: int) -> None:
        self.priorities.ended(record, now)
        held = self._held.pop(record)
        self.free.give(held.shares, exclusive=record.request.exclusive)
        self.use.ended(record)
        self.completing[record] = held.nodes
        self._fits, self._victims, self._releases = {}, {}, {}

    def nodes_answered(self, record: Record) -> None:
        """Let the nodes of an ended or preempted job be used again. O(1)."""
        if self.completing.pop(record, 0) and record.placement is None:
            self.jobs.free_slot(record)

    # --- what passes ask ---

    def fits_now(self, request: Request, nodes: int) -> Placement | None:
        """Return where a job fits now. O(1) if it was asked before, unless it depends on tests."""
        key = request, nodes
        if self.selection.depends_on_tests(request, nodes):
            return self.selection.choose(request, nodes, self.free)
        if key not in self._fits:
            self._fits[key] = self.selection.choose(request, nodes, self.free)
        return self._fits[key]

    def releases(self, record: Record) -> Releases:
        """Return what becomes free as running jobs end that a job may not preempt.

        Jobs end by their limits, then by their place in the list of jobs. O(1), O(running log running) after a change.
        """
        kind = self._kind_of_preemptor(record)
        found = self._releases.get(kind)
        if found is None:
            victims = {held.place for held in self.victims_of(record)}
            running = sorted(held for held in self._held.values() if held.place not in victims)
            found = self._releases[kind] = Releases(self.free, running)
        return found

    def held(self, record: Record) -> Held:
        """Return what a running job holds. O(1)."""
        return self._held[record]

    @property
    def completing_nodes(self) -> int:
        """The nodes that have not yet answered after the end of a job."""
        found = 0
        for nodes in self.completing.values():
            found |= nodes
        return found

    def usable(self, record: Record) -> int:
        """Return the nodes of a job's partition, and of its reservation if it has one, that are available. O(1)."""
        found = self.partition_nodes[record.partition.name] & ~self.down
        own = self.reservations.get(record.reservation)
        return found if own is None else found & own.nodes

    def reserved_against(self, record: Record, begin: float, end: float) -> int:
        """Return the nodes that reservations of others keep from a job for a time. O(reservations)."""
        found = 0
        for one in self.reservations.values():
            if one.name != record.reservation and one.start_at < end and begin < one.end_at:
                found |= one.nodes
        return found

    def is_ready(self, record: Record, now: int) -> bool:
        """Return whether a waiting job may be tried, as the queue of a pass is built; else set its reason.

        O(conditions).
        """
        if now < record.eligible_at < math.inf:
            record.reason = "BeginTime"
        else:
            reason = self._waits_for(record, now)
            if reason:
                record.reason = reason
                return False
            record.eligible_at = min(record.eligible_at, now)
            if record.tasks:
                self.see_array(record, now)
            else:
                record.was_seen = True
            return True
        return False

    def _waits_for(self, record: Record, now: int) -> str:
        """Return Slurm's reason if a job waits for others or its reservation; else "". O(conditions)."""
        if record.held:
            return record.held
        if record.dependencies:
            if self.jobs.depends(record):
                return "Dependency"
            record.dependencies = ()
        if record.reservation:
            own = self.reservations.get(record.reservation)
            if own is None or not own.start_at <= now < own.end_at:
                return "Reservation"
        return ""

    def tres(self, record: Record, placement: Placement) -> Mapping[str, float]:
        """Return what a job would use in a placement, by the names of TRES. O(its nodes)."""
        request, n_cpus, n_nodes = record.request, placement.n_cpus, len(placement.nodes)
        found: dict[str, float] = {"cpu": n_cpus, "node": n_nodes}
        memory = request.cpu_memory * n_cpus + request.node_memory * n_nodes
        if memory:
            found["mem"] = memory
        n_gpus = request.gpus_per_node * n_nodes
        if n_gpus:
            found["gres/gpu"] = n_gpus
            if request.gpu_type:
                found[f"gres/gpu:{request.gpu_type}"] = n_gpus
        found["billing"] = self._billing(record, found)
        return found

    def asked_tres(self, record: Record) -> dict[str, float]:
        """Return what a job asks for, by the names of TRES. O(1)."""
        found = self.priorities.requested(record)
        found["billing"] = self._billing(record, found)
        return found

    def _least_tres(self, record: Record, idle: Placement) -> Mapping[str, float]:
        """Return what a job gets at least, in a placement on idle nodes."""
        found = self.asked_tres(record)
        if record.request.exclusive:
            least = min(self.machine.nodes[node].n_cores for node in record.partition.nodes)
            found["cpu"] = max(found["cpu"], least * len(idle.nodes))
        return found

    def _billing(self, record: Record, tres: Mapping[str, float]) -> int:
        flags = self.conf.priorities.flags
        return int(billing(tres, record.partition, takes_maximum=bool(flags & {"MAX_TRES", "MAX_TRES_GRES"})))

    def _kind_of_preemptor(self, record: Record) -> object:
        """Return what decides which running jobs a job may preempt."""
        kind = self.conf.preempt_type
        return record.qos if kind == "qos" else record.partition.tier if kind else None

    def victims_of(self, record: Record) -> list[Held]:
        """Return the running jobs that a job may preempt, the first victim first.

        O(1), O(running log running) after a change.
        """
        if not self.conf.preempt_type:
            return []
        kind = self._kind_of_preemptor(record)
        if kind not in self._victims:
            self._victims[kind] = self._found_victims(record)
        return self._victims[kind]

    def _found_victims(self, record: Record) -> list[Held]:
        if self.conf.preempt_type == "qos":
            if record.qos is None or not record.qos.preempts:
                return []
            found = [
                held
                for held in self._held.values()
                if held.record.qos is not None and held.record.qos.name in record.qos.preempts
            ]
            return sorted(found, key=_qos_then_size)
        found = [
            held
            for held in self._held.values()
            if held.record.partition.tier < record.partition.tier and held.record.partition.preempt_mode != "off"
        ]
        return sorted(found, key=_tier_then_size)

    def with_preemption(self, record: Record, allowed: int) -> tuple[Placement, list[Record]] | None:
        """Return where a job fits if running jobs are preempted, and which; None if it does not fit then.

        Victims are removed in order until the job fits. Then this is repeated with the last one first, and those on
        the chosen nodes next. O(rounds * (running + nodes)).
        """
        order, found = self.victims_of(record), None
        for n_rounds in range(1, _MOST_ROUNDS + 1):
            free, removed = self.free.copy(), list[Held]()
            placement = None
            for held in order:
                free.give(held.shares, exclusive=held.record.request.exclusive)
                removed.append(held)
                if held.nodes & allowed:
                    placement = self.selection.choose(record.request, allowed, free)
                if placement is not None:
                    break
            if placement is None:
                return None
            chosen, last = set_of(placement.nodes), removed[-1]
            found = placement, [held.record for held in removed if held.nodes & chosen]
            if len(order) <= n_rounds:
                break
            order = [last, *(held for held in order if held is not last)]
            order[1:] = sorted(order[1:], key=lambda held: -(held.nodes & chosen).bit_count())
        return found

    @property
    def waits_for_decay(self) -> bool:
        """Return whether a job waits until less usage is left. O(1) without such limits, else O(waiting)."""
        if not self.use.limits_usage or self.conf.priorities.half_life_s == math.inf:
            return False
        return any(
            one.reason.endswith(("Minutes", "MinutesLimit", "GrpWallLimit"))
            for one in self.jobs.waiting.values()
            if one.qos is None or "nodecay" not in one.qos.flags
        )

    def queue(self, now: int) -> list[QueueEntry]:
        """Return the waiting jobs that may be tried, in the order of a pass. O(waiting log waiting).

        Entries of the last pass are kept. With preemption by QOS, which is no order, all jobs are sorted again.
        """
        by_qos, kept = self.conf.preempt_type == "qos", [entry for entry in self._queue if entry.is_current()]
        known = {entry.record for entry in kept}
        ready = [one for one in self.jobs.waiting.values() if one not in known and self.is_ready(one, now)]
        found = in_order(ready, preempts_by_qos=by_qos, partition_weight=self.priorities.partition_weight)
        if by_qos:
            return found
        self._queue = sorted([*kept, *found], key=itemgetter(0)) if found else kept
        return self._queue


def _qos_then_size(held: Held) -> tuple[float, int, int]:
    return held.record.qos.priority if held.record.qos else 0, held.nodes.bit_count(), held.place


def _tier_then_size(held: Held) -> tuple[float, int, int]:
    return held.record.partition.tier, held.nodes.bit_count(), held.place


def whole_second(now: float) -> int:
    """Return the second of an instant, as slurmctld's clock shows it."""
    return math.floor(now)
