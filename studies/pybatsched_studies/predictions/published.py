"""EASY with predicted run times, in the scheduling passes of a published program.

The program is predictsim (Gaussier, Glesser, Reis, Trystram: Improving backfilling by using machine learning to predict
running times, SC 2015). This policy repeats the order of its passes within one instant, for the study `predictions`;
`easy` has one pass per instant. The rules are:

1. Events of one instant: first corrections of predictions, then submissions in the order of the log, then ends in the
   order of their starts. A pass follows every single submission and every single end; a correction causes no pass. A
   run time is learnt at its end, so predictions at the same instant do not know it.
2. What is free now is counted by planned ends. A job whose planned end has come counts as gone, although its end comes
   later in the same instant. A job that ends early counts as running until its own end is handled.
3. Unless jobs are backfilled by length, a submission causes a pass only if the new job itself fits into what is free.

All events of an instant come in one message, so `decide` repeats them in this order. The processors of all jobs that
end now are free in Batsim before the first pass. So every job that the program starts can start. If Batsim sends a
second message at the same time, its events follow those of the first one.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from pybatsched import (
    HALF_TICK,
    TICK,
    AvailabilityProfile,
    Decision,
    Entry,
    JobState,
    LocalScheduler,
    Options,
    QueuePolicy,
    Reason,
    instant,
    take_out,
)
from pybatsched.policies.predictions import MEAN2_PAPER

if TYPE_CHECKING:
    from pybatsched import Cluster, Job, Partition, Predictions


class PredictsimOptions(Options):
    """Options of `published_predictsim`."""

    model_config = ConfigDict(defer_build=True)

    backfill_order: Literal["fcfs", "sjf"] = Field(
        "fcfs", description="order in which waiting jobs are tried for backfilling: fcfs, or shortest prediction first"
    )


class PlannedRun:
    """A running job and its planned end. `number` is its place in the order of starts."""

    def __init__(self, job: Job, number: int, started_at: float) -> None:
        self.job = job
        self.number = number
        self.started_at = started_at
        self.first_s = self.last_s = math.inf if job.estimate is None else job.estimate
        self.n_corrections = 0
        self.end_at = instant(started_at, self.last_s)
        self.has_ended = False

    def correct(self, predictions: Predictions) -> bool:
        """Replace a prediction that was too short. Return False if the new one is not longer. O(1)."""
        seconds = predictions.corrector(self.first_s, self.last_s, self.n_corrections, self.job.requested)
        if seconds <= self.last_s:
            return False
        self.n_corrections += 1
        predictions.n_corrections += 1
        self.last_s = seconds
        self.end_at = instant(self.started_at, seconds)
        return True


class PublishedPasses(LocalScheduler):
    """The queue and the passes of the published program.

    `queue` has all waiting jobs, also those whose submission is not handled yet. A pass after a submission tries only
    the new job if nothing else has changed, O(1); any other pass is O(queue + running).
    """

    def __init__(self, partition: Partition, predictions: Predictions | None, *, by_length: bool) -> None:
        super().__init__(partition)
        self._predictions = predictions
        self._by_length = by_length
        self._arrived: list[Job] = []  # submissions that are not handled yet
        self._ended: list[PlannedRun] = []  # ends that are not handled yet
        self._runs: dict[str, PlannedRun] = {}
        self._planned: list[tuple[float, int, PlannedRun]] = []  # by planned end, then by start
        self._n_starts = 0
        self._last_arrival = 0  # jobs that came later are not handled yet
        self._n_early = 0  # processors of jobs that end early now and are not handled yet
        self._head: Job | None = None  # the job with the shadow time; None: the next pass tries all jobs
        self._shadow_at = math.inf
        self._n_extra = 0
        self._are_machines_changed = False
        self.n_passes = 0

    # --- events ---

    def submit(self, job: Job, now: float, *, front: bool = False) -> None:
        """Put a job into the queue; `decide` handles its submission. O(log queue)."""
        super().submit(job, now, front=front)
        self._arrived.append(job)

    def withdraw(self, job: Job, now: float) -> None:
        """Remove a job from the queue. O(log queue)."""
        super().withdraw(job, now)
        self._head = None

    def ended(self, job: Job, now: float) -> None:  # noqa: ARG002
        """Keep the end of a job until `decide` handles it. O(1)."""
        run = self._runs.pop(job.id)
        run.has_ended = True
        self._ended.append(run)

    def machines_changed(self, now: float) -> None:  # noqa: ARG002
        """Make a pass over all jobs after the events of this instant: the available machines changed."""
        self._are_machines_changed = True

    def adopt(self, job: Job) -> None:
        """Plan with a running job of an earlier policy. O(log running)."""
        assert job.started_at is not None
        self._add_run(job, job.started_at)

    # --- passes ---

    def decide(self, now: float) -> Iterator[Decision]:
        """Handle the events of this instant in the order of the program, with a pass after each."""
        if self.partition.n_kills_pending:
            return
        arrived, self._arrived = self._arrived, []
        ended, self._ended = self._ended, []
        ended.sort(key=lambda run: run.number)
        if self._correct(now) or ended:
            self._head = None
        self._n_early = sum(self.partition.n_returned_by(run.job) for run in ended if run.end_at > now)
        for job in arrived:
            entry = self._entries.get(job.id)
            if entry is not None:  # else it was withdrawn
                self._predict(entry, now)
                if self._by_length or job.n_procs <= self._n_free():
                    yield from self._pass(now, entry)
        for run in ended:
            take_out(self._planned, (run.end_at, run.number, run))
            if run.end_at > now:
                self._n_early -= self.partition.n_returned_by(run.job)
            if self._predictions is not None and run.job.state is not JobState.WAITING:  # else its machine failed
                self._predictions.learn(run.job, now if run.job.ended_at is None else run.job.ended_at)
            self._head = None
            yield from self._pass(now)
        if self._are_machines_changed:
            self._are_machines_changed = False
            self._head = None
            yield from self._pass(now)

    def plan(self, now: float) -> Iterator[Decision]:
        """Start the jobs of one pass."""
        return self._pass(now)

    def _predict(self, entry: Entry, now: float) -> None:
        """Predict the run time of a job when its submission is handled."""
        if self._predictions is not None:
            self._predictions.predict(entry.job, now, self.partition.running_jobs)
        self._last_arrival = max(self._last_arrival, entry.arrival)

    def _correct(self, now: float) -> bool:
        """Correct the predictions of jobs that have reached their planned ends. Return whether there were any.

        O(corrections * log running). Corrections that were due earlier are made now, because nothing reads planned ends
        in between. A job whose prediction cannot be corrected is expected to end now.
        """
        planned, i, is_any = self._planned, 0, False
        while self._predictions is not None and i < len(planned) and planned[i][0] <= now:
            run = planned[i][2]
            if (run.has_ended and run.end_at == now) or not run.correct(self._predictions):
                i += 1
                continue
            del planned[i]
            insort(planned, (run.end_at, run.number, run))
            is_any = True
        return is_any

    def _pass(self, now: float, newcomer: Entry | None = None) -> Iterator[Decision]:
        """Start the head of the queue while it fits, then backfill."""
        self.n_passes += 1
        queue, last = self.queue, self._last_arrival
        candidates: list[Entry] = []
        if newcomer is not None and self._head is queue[0].job and now <= self._shadow_at:
            candidates.append(newcomer)  # nothing else has changed
        else:
            self._head = None
            while queue and queue[0].arrival <= last and queue[0].job.n_procs <= self._n_free():
                yield self._start(queue[0], now, "head of the queue")
            if not queue or queue[0].arrival > last:
                return
            self._head = queue[0].job
            self._shadow_at, self._n_extra = self.shadow(self._head, now)
            n_free = self._n_free()
            if n_free:
                candidates += [entry for entry in queue[1:] if entry.job.n_procs <= n_free and entry.arrival <= last]
                if self._by_length:
                    candidates.sort(key=lambda entry: (self.span_s(entry.job), entry.arrival))
        for entry in candidates:
            if entry.job.n_procs <= self._n_free():
                reason = self._backfill(entry.job, now)
                if reason is not None:
                    yield self._start(entry, now, reason)

    def _n_free(self) -> int:
        """Return how many processors are free now by planned ends."""
        return self.partition.n_free - self._n_early

    def _backfill(self, job: Job, now: float) -> Reason | None:
        """Return the rule by which a job that fits may start before the head; None if it may not."""
        assert self._head is not None
        span_s = self.span_s(job)
        if span_s != math.inf and now + span_s <= self._shadow_at + HALF_TICK:
            return "backfilled: predicted to end by the shadow time {} of {}", self._shadow_at, self._head.id
        if job.n_procs <= self._n_extra:
            self._n_extra -= job.n_procs
            return "backfilled on {} extra processors beside {}", job.n_procs, self._head.id
        return None

    def _start(self, entry: Entry, now: float, reason: Reason) -> Decision:
        self._add_run(entry.job, now)
        return self.start(entry, reason)

    def _add_run(self, job: Job, started_at: float) -> None:
        self._n_starts += 1
        run = self._runs[job.id] = PlannedRun(job, self._n_starts, started_at)
        insort(self._planned, (run.end_at, run.number, run))

    def _expected_ends(self, now: float) -> Iterator[tuple[float, int]]:
        """Yield the planned ends of jobs that count as running, in order, and the processors they return."""
        for end_at, _, run in self._planned:
            if end_at > now or not run.has_ended:
                yield max(end_at, now), self.partition.n_returned_by(run.job)

    def shadow(self, head: Job, now: float) -> tuple[float, int]:
        """Return a job's shadow time and the number of extra processors at that time, by planned ends. O(running)."""
        n_then, shadow_at = self._n_free(), -math.inf
        for end_at, n in self._expected_ends(now):
            if n_then >= head.n_procs and end_at > shadow_at:
                break
            n_then += n
            if n_then >= head.n_procs:
                shadow_at = end_at
        if n_then < head.n_procs or shadow_at == math.inf:
            return math.inf, 0
        return shadow_at, n_then - head.n_procs

    def expected_profile(self, now: float) -> AvailabilityProfile:
        """Return the free processors over time by planned ends. O(running)."""
        profile, soon = AvailabilityProfile(now, self.partition.n_free), round(now + TICK, 6)
        for end_at, n in self._expected_ends(now):
            profile.give(n, max(end_at, soon), math.inf)
        return profile


class PublishedPredictsim(QueuePolicy):
    """EASY with predicted run times, in the scheduling passes of predictsim (SC 2015)."""

    references = (MEAN2_PAPER,)
    Options: ClassVar[type[Any]] = PredictsimOptions
    drives_predictions: ClassVar[bool] = True
    local: PublishedPasses

    def on_begin(self, cluster: Cluster) -> None:
        """Create one partition of all processors."""
        if self.predictions is not None:
            self.predictions.predictor.begin(cluster)
        partition = cluster.add_partition("all", cluster.procs)
        self.local = PublishedPasses(partition, self.predictions, by_length=self.options.backfill_order == "sjf")
        self.locals = [self.local]

    def on_job_submitted(self, job: Job, now: float) -> None:
        """Queue the job, or reject it if it can never start."""
        self.submit_to(self.local, job, now)

    def take_over(self, job: Job, now: float) -> bool:  # noqa: ARG002
        """Plan with a running job of an earlier policy."""
        self.local.adopt(job)
        return True

    def figures(self) -> Mapping[str, float]:
        """Return the number of passes, and the quality of predictions."""
        own = {"n_passes": self.local.n_passes}
        return own if self.predictions is None else {**own, **self.predictions.figures()}
