"""The list of jobs of slurmctld, and the order in which both passes try waiting ones."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from pybatsched import slurm_conf as sc
    from pybatsched_schedulers.slurm.jobs import Record, Request

Item = TypeVar("Item")


def _take(counts: Counter[int], key: int, n: int = 1) -> None:
    """Reduce a count, and forget it at 0: jobs come and go for ever."""
    counts[key] -= n
    if not counts[key]:
        del counts[key]


class JobList:
    """All waiting and running jobs. An array is one record until its tasks start."""

    def __init__(self) -> None:
        #: The waiting jobs by their places, in this order.
        self.waiting: dict[int, Record] = {}
        self.running: dict[Record, None] = {}
        #: The waiting rests of arrays by their ids.
        self.arrays: dict[int, Record] = {}
        #: The running tasks of each array, and those that were preempted and still hold nodes.
        self.n_running_tasks: Counter[int] = Counter()
        self._n_unstarted: Counter[int] = Counter()  # by job or array: jobs and tasks that wait
        self._n_unended: Counter[int] = Counter()  # by job or array: jobs and tasks that have not ended
        self._last_place = 0

    def add(self, record: Record) -> None:
        """Put a new job at the end of the list. O(1)."""
        self._move_to_end(record)
        if record.tasks:
            self.arrays[record.array_id] = record
        n, key = max(len(record.tasks), 1), record.array_id or record.id
        self._n_unstarted[key] += n
        self._n_unended[key] += n

    def add_task(self, rest: Record, task: int) -> None:
        """Add a task to the waiting rest of an array. O(1)."""
        rest.tasks.append(task)
        self._n_unstarted[rest.array_id] += 1
        self._n_unended[rest.array_id] += 1

    def _move_to_end(self, record: Record) -> None:
        self._last_place += 1
        record.place = self._last_place
        self.waiting[record.place] = record

    def start(self, record: Record) -> Record:
        """Take a waiting job, or the first waiting task of an array, and return the record of what starts. O(1).

        The task that starts takes the place of the array's rest, and the rest goes to the end of the list.
        """
        del self.waiting[record.place]
        started = record
        if len(record.tasks) > 1:
            started = replace(record, task=record.tasks[0], tasks=[], factors=dict(record.factors))
            record.tasks = record.tasks[1:]
            self._move_to_end(record)
        elif record.tasks:
            record.task, record.tasks = record.tasks[0], []
            del self.arrays[record.array_id]
        _take(self._n_unstarted, started.array_id or started.id)
        if started.array_id:
            self.n_running_tasks[started.slots_of or started.array_id] += 1
        self.running[started] = None
        return started

    def requeue(self, record: Record) -> None:
        """Let a preempted job wait again, at its place. Its slot in the array's limit stays taken. O(waiting)."""
        del self.running[record]
        record.placement = None
        self.waiting[record.place] = record
        self.waiting = dict(sorted(self.waiting.items()))
        self._n_unstarted[record.array_id or record.id] += 1

    def end(self, record: Record) -> None:
        """Remove a running job that has ended. O(1)."""
        del self.running[record]
        self.free_slot(record)
        _take(self._n_unended, record.array_id or record.id)

    def drop(self, record: Record) -> None:
        """Remove a waiting job that will not run. O(1)."""
        del self.waiting[record.place]
        if record.tasks:
            del self.arrays[record.array_id]
        n, key = max(len(record.tasks), 1), record.array_id or record.id
        _take(self._n_unstarted, key, n)
        _take(self._n_unended, key, n)

    def drop_task(self, rest: Record, task: int) -> None:
        """Remove a waiting task of an array that will not run. O(tasks)."""
        if len(rest.tasks) == 1:
            self.drop(rest)
            return
        rest.tasks.remove(task)
        _take(self._n_unstarted, rest.array_id)
        _take(self._n_unended, rest.array_id)

    def free_slot(self, record: Record) -> None:
        """Give back the slot of a task in the limit of its array. O(1)."""
        if record.array_id:
            _take(self.n_running_tasks, record.slots_of or record.array_id)

    def is_over_array_limit(self, record: Record) -> bool:
        """Return whether no more tasks of its array may start now. O(1)."""
        if not record.array_limit:
            return False
        return self.n_running_tasks[record.slots_of or record.array_id] >= record.array_limit

    def depends(self, record: Record) -> bool:
        """Return whether a job still waits for others. O(conditions)."""
        return any(
            self._n_unstarted[job_id] > 0 if kind == "after" else self._n_unended[job_id] > 0
            for kind, job_id in record.dependencies
        )


class QueueEntry(NamedTuple):
    """A waiting job in the queue of a pass: one entry for each of its partitions, with its priority there."""

    rank: tuple[float, ...]
    priority: float
    record: Record
    partition: sc.Partition
    request: Request

    def is_current(self) -> bool:
        """Return whether the job still waits, for nothing but nodes, with the same priority."""
        record = self.record
        return (
            record.placement is None and record.priority == self.priority and not (record.tasks or record.reservation)
        )

    def is_tried(self) -> bool:
        """Return whether the job still waits, and let it be one of this partition."""
        record = self.record
        if record.placement is not None:
            return False
        record.partition, record.request = self.partition, self.request
        return True


def in_order(records: Iterable[Record], *, preempts_by_qos: bool, partition_weight: float = 0) -> list[QueueEntry]:
    """Return waiting jobs in the order in which Slurm tries them. O(n log n).

    `partition_weight` is what the job factor of a partition counts in priorities.
    """
    found = list[QueueEntry]()
    for record in records:
        for partition, request in record.choices or ((record.partition, record.request),):
            priority = record.priority + partition_weight * (partition.job_factor - record.home.job_factor)
            rank = _rank(record, partition.tier, priority)
            found.append(QueueEntry(rank, record.priority, record, partition, request))
    if preempts_by_qos and any(one.record.qos is not None and one.record.qos.preempts for one in found):
        return _merge_sorted(found, _comes_first)
    return sorted(found, key=itemgetter(0))


def _rank(record: Record, tier: int, priority: float) -> tuple[float, ...]:
    task = record.task if record.task is not None else record.tasks[0] if record.tasks else -1
    return (
        not record.reservation,
        -tier,
        -math.floor(priority),
        record.submit_at,
        record.array_id or record.id,
        task,
    )


def _comes_first(one: QueueEntry, other: QueueEntry) -> bool:
    """Return whether a job is tried before another; for equal ones, too.

    A job of a QOS that preempts the other's comes first. So this is not an order: with high > low by preemption, a
    circle of three jobs is possible.
    """
    qos, of_other = one.record.qos, other.record.qos
    if qos is not None and of_other is not None:
        if of_other.name in qos.preempts:
            return True
        if qos.name in of_other.preempts:
            return False
    return one.rank <= other.rank


def _merge_sorted(items: list[Item], comes_first: Callable[[Item, Item], bool]) -> list[Item]:
    """Sort as glibc's merge sort does, so that the result for a relation that is no order is the same."""
    if len(items) < 2:
        return items
    half = len(items) // 2
    left, right = _merge_sorted(items[:half], comes_first), _merge_sorted(items[half:], comes_first)
    return list(_merged(left, right, comes_first))


def _merged(left: list[Item], right: list[Item], comes_first: Callable[[Item, Item], bool]) -> Iterator[Item]:
    i = j = 0
    while i < len(left) and j < len(right):
        if comes_first(left[i], right[j]):
            yield left[i]
            i += 1
        else:
            yield right[j]
            j += 1
    yield from left[i:]
    yield from right[j:]
