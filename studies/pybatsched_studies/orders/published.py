"""The rules of the program RLScheduler (Zhang, Dai, He, Bao and Xie, SC 2020), with which its Table V was made.

They differ from FCFS and EASY in an order of the queue:

* The first job of the queue is *committed*: other jobs are scored again only after it has started.
* The shadow time of the committed job is computed once. Extra processors do not count. Jobs are tried in the order of
  submission, and must end before the shadow time.
* The program handles one event at a time: submissions of an instant before its ends.
* A waiting job has the start time -1 there, so its wait is -1 minus its submission time.
* A job without an estimate has a requested time of -1 s.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final, Literal, NamedTuple

from pydantic import BaseModel, Field

from pybatsched import Decision, ExecuteJob, Job, LocalPolicy, LocalScheduler, Options, Partition, Reason, parse_order

#: The scores of the program.
_SCORES: Final = {
    "fcfs": "0",
    "wfp3": "-(WAIT / estimate) ** 3 * procs",
    "unicep": "-(WAIT + 1e-15) / (log2(procs + 1e-15) * estimate)",
    "sjf": "estimate",
    "f1": "log10(estimate) * procs + 870 * log10(submitted)",
}
_WAITS: Final = {"program": "(-1 - submitted)", "real": "wait"}


class PublishedOptions(Options):
    """Options of the policy."""

    order: Literal["fcfs", "wfp3", "unicep", "sjf", "f1"] = Field("fcfs", description="score of waiting jobs")
    backfilling: bool = Field(False, description="whether other jobs may start while the committed job waits")
    waits: Literal["program", "real"] = Field(
        "program",
        description="wait of a job in wfp3 and unicep: -1 minus its submission time (program), or the real one",
    )


class _Running(NamedTuple):
    """A running job with its expected end and its number of processors."""

    expected_end_at: float
    job: Job
    n: int


def requested_s(job: Job) -> float:
    """Return the requested time of a job; -1 if it has none, as in the program."""
    return -1.0 if job.estimate is None else job.estimate


class PublishedScheduler(LocalScheduler):
    """The rules on one partition.

    The program sorts one list in place, by scores to commit a job and by submission to backfill. Jobs with equal keys
    therefore keep their earlier order. O(queue log queue) for each started job, and for each event if jobs may be
    backfilled.
    """

    def __init__(self, partition: Partition, options: PublishedOptions) -> None:
        super().__init__(partition)
        self._score = parse_order(_SCORES[options.order].replace("WAIT", _WAITS[options.waits]))
        self._backfilling = options.backfilling
        self._sorted: list[Job] = []  # the queue in the order of the program
        self._running: list[_Running] = []  # in the order in which the program releases jobs that end together
        self._head: Job | None = None  # the committed job
        self._shadow_at = 0.0
        # The events of this instant that are not handled yet.
        self._submitted: list[Job] = []
        self._ended: set[str] = set()
        self._n_ended = 0  # the processors of these ended jobs

    def submit(self, job: Job, now: float, *, front: bool = False) -> None:
        """Put a job into the queue, always at its end. O(log queue)."""
        super().submit(job, now, front=front)
        self._submitted.append(job)

    def withdraw(self, job: Job, now: float) -> None:
        """Remove a job from the queue; if it is the committed one, another is committed next. O(queue)."""
        super().withdraw(job, now)
        for jobs in (self._submitted, self._sorted):
            if job in jobs:
                jobs.remove(job)
        if job is self._head:
            self._head = None

    def ended(self, job: Job, now: float) -> None:  # noqa: ARG002
        """Keep the end for the next pass."""
        self._ended.add(job.id)
        self._n_ended += job.n_procs

    def decide(self, now: float) -> Iterable[Decision]:
        """Return the decisions of `plan`, also for an empty queue: it handles ends."""
        return () if self.partition.n_kills_pending else self.plan(now)

    def plan(self, now: float) -> Iterator[Decision]:
        """Handle the events of this instant one at a time, submissions first, and start jobs after each."""
        yield from self._pass(now)  # for machines that became available
        while self._submitted:
            self._sorted.append(self._submitted.pop(0))
            yield from self._pass(now)
        for running in [one for one in self._running if one.job.id in self._ended]:
            self._running.remove(running)
            self._n_ended -= running.n
            yield from self._pass(now)
        self._ended = set()
        self._n_ended = 0

    def _pass(self, now: float) -> Iterator[ExecuteJob]:
        """Start committed jobs while they fit, then backfill."""
        while self._head is not None or self._sorted:
            if self._head is None:
                self._sorted.sort(key=lambda job: self._score.rank_at(job, requested_s(job), now))
                self._head = self._sorted[0]
                if self._head.n_procs > self._n_free() and self._backfilling:
                    self._shadow_at = self._shadow(self._head.n_procs, now)
            head = self._head
            if head.n_procs > self._n_free():
                if self._backfilling:
                    yield from self._backfill(now)
                return
            self._head = None
            yield self._start(head, now, "committed: first in the queue when it was scored")

    def _backfill(self, now: float) -> Iterator[ExecuteJob]:
        self._sorted.sort(key=lambda job: job.submitted_at)
        for job in list(self._sorted):
            if now + requested_s(job) < self._shadow_at and job.n_procs <= self._n_free():
                yield self._start(job, now, ("backfilled: ends before {}", self._shadow_at))

    def _n_free(self) -> int:
        """Return the free processors, without those of ends that are not handled yet."""
        return self.partition.n_free - self._n_ended

    def _shadow(self, n: int, now: float) -> float:
        """Return the expected end that gives a job n processors. O(running log running)."""
        self._running.sort(key=lambda one: one.expected_end_at)
        n_then, shadow_at = self._n_free(), now
        for running in self._running:
            n_then += running.n
            shadow_at = running.expected_end_at
            if n_then >= n:
                break
        return shadow_at

    def _start(self, job: Job, now: float, reason: Reason) -> ExecuteJob:
        self._sorted.remove(job)
        self._running.append(_Running(now + requested_s(job), job, job.n_procs))
        return self.start(self._entries[job.id], reason)

    def why_waiting(self, job: Job, now: float) -> Reason:
        """Return why a job of this queue was not started now."""
        head = self._head
        if head is None or not self.holds(job) or self.partition.n_kills_pending:
            return super().why_waiting(job, now)
        n_free = self.partition.n_free
        if job is head:
            return "committed: needs {} processors, {} are free", job.n_procs, n_free
        if not self._backfilling or job.n_procs > n_free:
            return "{} is committed; needs {} processors, {} are free", head.id, job.n_procs, n_free
        return "not backfilled: would not end before {}, when {} should start", self._shadow_at, head.id


class PublishedRlscheduler(LocalPolicy):
    """The rules of the program RLScheduler (SC 2020): a committed job, and its way of backfilling."""

    references = (
        """\
@inproceedings{zhang2020rlscheduler,
  author = {Zhang, Di and Dai, Dong and He, Youbiao and Bao, Forrest Sheng and Xie, Bing},
  title = {{RLScheduler}: An Automated {HPC} Batch Job Scheduler Using Reinforcement Learning},
  booktitle = {International Conference for High Performance Computing, Networking, Storage and Analysis ({SC20})},
  year = {2020},
  eprint = {1910.08925},
  archiveprefix = {arXiv},
}""",
    )
    Options: ClassVar[type[BaseModel]] = PublishedOptions
    scheduler: ClassVar[type[Any]] = PublishedScheduler

    def take_over(self, job: Job, now: float) -> bool:  # noqa: ARG002
        """Return false: the program plans only with jobs that it has started."""
        return False
