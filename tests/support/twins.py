"""Slow, obvious twins of the shipped policies: the oracles of the fast ones.

They keep no state between messages but the queue and, for conservative backfilling, the promised places. They look at
every waiting job every time and count free processors instant by instant.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from pybatsched.core.cluster import Cluster
from pybatsched.core.decisions import CallMeLater, Decision, ExecuteJob, RejectJob, Requeue
from pybatsched.core.jobs import Job
from pybatsched.core.options import Options
from pybatsched.core.policy import BatsimFeature, Policy
from pybatsched.metrics.series import Steps
from pybatsched.policies.reservations import Reservations


class Twin(Policy):
    """What all twins share: a list of waiting jobs in order of arrival."""

    def on_begin(self, cluster: Cluster) -> None:
        self.partition = cluster.add_partition("all", cluster.procs)
        self.queue: list[Job] = []
        self.rejects: list[Job] = []

    def on_job_submitted(self, job: Job, now: float) -> None:
        if job.n_procs > self.partition.n_procs or (job.estimate is None and isinstance(self, SlowConservative)):
            self.rejects.append(job)
        else:
            self.queue.append(job)

    def decide(self, now: float) -> Iterable[Decision]:
        while self.rejects:
            yield RejectJob(self.rejects.pop().id)
        yield from self.starts(now)

    def starts(self, now: float) -> Iterator[Decision]:
        raise NotImplementedError

    def start(self, job: Job) -> ExecuteJob:
        self.queue.remove(job)
        return ExecuteJob(job.id, self.partition.free.first(job.n_procs))


class SlowFcfs(Twin):
    """First come, first served."""

    def starts(self, now: float) -> Iterator[Decision]:
        while self.queue and self.queue[0].n_procs <= self.partition.n_free:
            yield self.start(self.queue[0])


class SlowEasy(Twin):
    """EASY by its definition, computed again at every message."""

    def starts(self, now: float) -> Iterator[Decision]:
        while self.queue and self.queue[0].n_procs <= self.partition.n_free:
            yield self.start(self.queue[0])
        if not self.queue:
            return
        head = self.queue[0]
        ends = sorted((max(job.expected_end_at, now), len(job.procs or ())) for job in self.partition.running_jobs)
        shadow, n_free = math.inf, self.partition.n_free
        for at, n in ends:
            n_free += n
            if n_free >= head.n_procs:
                shadow = at
                break
        extra = self.partition.n_free + sum(n for end, n in ends if end <= shadow) - head.n_procs
        if shadow == math.inf:
            extra = 0
        for job in self.queue[1:]:
            if job.n_procs > self.partition.n_free:
                continue
            if job.estimate is not None and round(now + job.estimate, 6) <= shadow:
                yield self.start(job)
            elif job.n_procs <= extra:
                extra -= job.n_procs
                yield self.start(job)


class SlowConservativeOptions(Options):
    compression: bool = True


class SlowConservative(Twin):
    """Conservative backfilling on counts: every place is found by trying all instants at which something ends.

    For jobs that end no later than their estimate.
    """

    Options = SlowConservativeOptions

    def on_begin(self, cluster: Cluster) -> None:
        super().on_begin(cluster)
        self.places: dict[str, float] = {}
        self.ended = False

    def on_job_ended(self, job: Job, now: float) -> None:
        self.ended = True

    def starts(self, now: float) -> Iterator[Decision]:
        if self.ended and self.options.compression:
            for job in self.queue:
                if job.id in self.places:
                    self.places[job.id] = self.earliest(job, now)
        self.ended = False
        for job in self.queue:
            if job.id not in self.places:
                self.places[job.id] = self.earliest(job, now)
        for job in list(self.queue):
            if self.places[job.id] <= now and job.n_procs <= self.partition.n_free:
                del self.places[job.id]
                yield self.start(job)
        if not self.options.compression and self.places and min(self.places.values()) > now:
            yield CallMeLater(min(self.places.values()))

    def earliest(self, job: Job, now: float) -> float:
        booked = self.booked(job, now)
        for start in sorted({now, *(end for _, end, _ in booked if end > now)}):
            end = round(start + (job.estimate or 0.0), 6)
            instants = [start, *(at for at, _, _ in booked if start < at < end)]
            if all(self.used(booked, at) + job.n_procs <= self.partition.n_procs for at in instants):
                return start
        raise AssertionError("every job fits on the empty machine")

    def booked(self, but: Job, now: float) -> list[tuple[float, float, int]]:
        running = [(now, job.expected_end_at, job.n_procs) for job in self.partition.running_jobs]
        waiting = [
            (self.places[job.id], round(self.places[job.id] + (job.estimate or 0.0), 6), job.n_procs)
            for job in self.queue
            if job is not but and job.id in self.places
        ]
        return running + waiting

    @staticmethod
    def used(booked: list[tuple[float, float, int]], at: float) -> int:
        return sum(n for start, end, n in booked if start <= at < end)


RANKS: dict[str, Callable[[Job], float]] = {
    "fcfs": lambda _job: 0.0,
    "sjf": lambda job: job.estimate or 0.0,
    "ljf": lambda job: -(job.estimate or 0.0),
    "narrowest": lambda job: job.n_procs,
    "widest": lambda job: -job.n_procs,
}


class SlowDbfOptions(SlowConservativeOptions):
    order: str = "fcfs"
    fixpoint: bool = True
    promote: str = "max"
    infeasible: str = "regular"


class SlowDbf(SlowConservative):
    """Deadline-based backfilling: `places` are final, and `provisional` ones come after them, in order."""

    Options = SlowDbfOptions

    def on_begin(self, cluster: Cluster) -> None:
        super().on_begin(cluster)
        self.provisional: dict[str, float] = {}
        self.deadlines: dict[str, float] = {}
        self.accepted: dict[str, float] = {}  # ever
        self.promised: dict[str, float] = {}  # the first final place of each job
        self.n_fallbacks = 0

    def on_job_submitted(self, job: Job, now: float) -> None:
        super().on_job_submitted(job, now)
        self.queue.sort(key=RANKS[self.options.order])

    def starts(self, now: float) -> Iterator[Decision]:
        if self.ended and self.options.compression:
            self.compress(now)
        self.ended = False
        for job in list(self.queue):
            if job.id not in self.places and job.id not in self.provisional:
                yield from self.welcome(job, now)
        for job in sorted(self.queue, key=lambda job: ({**self.places, **self.provisional}[job.id], job.seq)):
            if {**self.places, **self.provisional}[job.id] <= now and job.n_procs <= self.partition.n_free:
                self.places.pop(job.id, None)
                self.provisional.pop(job.id, None)
                yield self.start(job)
        planned = [*self.places.values(), *self.provisional.values()]
        if planned and min(planned) > now:
            yield CallMeLater(min(planned))

    def welcome(self, job: Job, now: float) -> Iterator[Decision]:
        deadline_at = job.deadline_at()
        if deadline_at is not None:
            self.deadlines[job.id] = deadline_at
            place = self.place(job, now, {**self.places, **self.provisional})
            if self.meets(job, place):
                self.provisional[job.id] = place
                self.accepted[job.id] = deadline_at
                return
            if self.options.infeasible == "reject":
                self.queue.remove(job)
                yield RejectJob(job.id)
                return
        found = self.planned(job, now) if self.options.fixpoint else self.planned_once(job, now)
        if found is None:
            self.n_fallbacks += 1
            final = {**self.places, **self.provisional}
            final[job.id] = self.place(job, now, final)
            found = final, {}
        self.places, self.provisional = found
        for job_id, place in self.places.items():
            self.promised.setdefault(job_id, place)

    def planned(self, newcomer: Job, now: float) -> tuple[dict[str, float], dict[str, float]] | None:
        promoted: set[str] = set()
        lost = self.lost()
        while True:
            final, provisional = self.tried(promoted, newcomer, now)
            late_promoted = [job for job in self.in_order(promoted - lost) if not self.meets(job, final[job.id])]
            late = [job for job in self.in_order(provisional.keys() - lost) if not self.meets(job, provisional[job.id])]
            if not late and not late_promoted:
                return final, provisional
            grown = promoted | {job.id for job in late}
            if late_promoted:
                grown = self.grown(promoted, late_promoted)
            if grown == promoted:
                return None
            promoted = grown

    def planned_once(self, newcomer: Job, now: float) -> tuple[dict[str, float], dict[str, float]]:
        provisional = self.tried(set(), newcomer, now)[1]
        promoted = {job.id for job in self.in_order(provisional) if not self.meets(job, provisional[job.id])}
        again = True
        while again:
            final = self.tried(promoted, newcomer, now)[0]
            late = [job for job in self.in_order(promoted) if not self.meets(job, final[job.id])]
            grown = self.grown(promoted, late) if late else promoted
            again = grown != promoted and self.options.promote == "each"
            promoted = grown
        return self.tried(promoted, newcomer, now)

    def grown(self, promoted: set[str], late: list[Job]) -> set[str]:
        for last in late[-1:] if self.options.promote == "max" else late:
            before = {job.id for job in self.queue[: self.queue.index(last)] if job.id in self.provisional}
            if not before <= promoted:
                return promoted | before
        return promoted

    def tried(self, promoted: set[str], newcomer: Job, now: float) -> tuple[dict[str, float], dict[str, float]]:
        final = dict(self.places)
        for job in self.in_order(promoted):
            final[job.id] = self.place(job, now, final)
        final[newcomer.id] = self.place(newcomer, now, final)
        provisional: dict[str, float] = {}
        for job in self.in_order(self.provisional):
            if job.id not in promoted:
                provisional[job.id] = self.place(job, now, {**final, **provisional})
        return final, provisional

    def compress(self, now: float) -> None:
        final = dict(self.places)
        for job in self.in_order(final):
            others = {job_id: place for job_id, place in final.items() if job_id != job.id}
            final[job.id] = self.place(job, now, others)
        provisional: dict[str, float] = {}
        for job in self.in_order(self.provisional):
            provisional[job.id] = self.place(job, now, {**final, **provisional})
        if all(self.meets(job, provisional[job.id]) for job in self.in_order(provisional.keys() - self.lost())):
            self.places, self.provisional = final, provisional

    def lost(self) -> set[str]:
        """Return the accepted jobs that are late by the present plan: one pass may lose some."""
        return {job.id for job in self.in_order(self.provisional) if not self.meets(job, self.provisional[job.id])}

    def place(self, job: Job, now: float, others: dict[str, float]) -> float:
        kept, self.places = self.places, others
        try:
            return self.earliest(job, now)
        finally:
            self.places = kept

    def in_order(self, wanted: Iterable[str]) -> list[Job]:
        ids = set(wanted)
        return [job for job in self.queue if job.id in ids]

    def meets(self, job: Job, place: float) -> bool:
        return round(place + (job.estimate or 0.0), 6) <= self.deadlines[job.id]


class SlowRedirectionOptions(Options):
    group_size: int = 0
    theta: float = 10
    filter: str = "q"
    decision: str = "per_job"
    count_backfilled: bool = True
    conflict: str = "greatest_walltime"


class SlowRedirection(Policy):
    """EASY with redirection by its definition. `redirections` are (instant, job, count), in order."""

    Options = SlowRedirectionOptions
    needs = frozenset({BatsimFeature.DYNAMIC_JOBS})

    def on_begin(self, cluster: Cluster) -> None:
        procs = cluster.procs.first(cluster.n_procs - self.options.group_size)
        self.principal = SlowEasy(None)
        self.principal.partition = cluster.add_partition("principal", procs)
        self.group = SlowEasy(None)
        if self.options.group_size:
            self.group.partition = cluster.add_partition("group", cluster.procs - procs)
        self.principal.queue, self.group.queue = [], []
        self.newcomers: list[Job] = []
        self.counts: dict[str, int] = {}
        self.killed: set[str] = set()
        self.redirections: list[tuple[float, str, int]] = []

    def on_job_submitted(self, job: Job, now: float) -> None:
        self.newcomers.append(job)

    def on_job_killed(self, job: Job, now: float) -> None:
        self.group.queue.append(job)

    def decide(self, now: float) -> Iterator[Decision]:
        waited = False
        while self.newcomers and (self.options.count_backfilled or not self.principal.partition.n_kills_pending):
            job = self.newcomers.pop(0)
            if job.n_procs > self.principal.partition.n_procs:
                yield RejectJob(job.id)
                continue
            at_once = not self.principal.queue and job.n_procs <= self.principal.partition.n_free
            self.principal.queue.append(job)
            if at_once or not self.options.count_backfilled:
                yield from self.easy(self.principal, now)
            if job not in self.principal.queue:
                continue
            for running in self.running():
                if self.counts_against(job, running):
                    self.counts[running.id] = self.counts.get(running.id, 0) + 1
            waited = True
            if self.options.decision == "per_job":
                yield from self.redirect(now)
        if waited and self.options.decision == "per_round":
            yield from self.redirect(now)
        yield from self.easy(self.principal, now)
        if self.options.group_size:
            yield from self.easy(self.group, now)

    def easy(self, local: SlowEasy, now: float) -> Iterator[Decision]:
        if not local.partition.n_kills_pending:
            yield from local.starts(now)

    def running(self) -> list[Job]:
        return [job for job in self.principal.partition.running_jobs if job.id not in self.killed]

    def counts_against(self, job: Job, running: Job) -> bool:
        mine, his = job.estimate or math.inf, running.estimate or math.inf
        return {"q": running.n_procs >= job.n_procs, "w": his >= mine, "none": True, "w_paper": mine >= his}[
            self.options.filter
        ]

    def redirect(self, now: float) -> Iterator[Decision]:
        found = [
            job
            for job in sorted(self.running(), key=lambda job: job.seq)
            if self.counts.get(job.id, 0) > self.options.theta and job.n_procs <= self.options.group_size
        ]
        if not found:
            return
        victim = found[0]
        for job in found:
            if self.worth(job) > self.worth(victim):
                victim = job
        self.redirections.append((now, victim.id, self.counts[victim.id]))
        self.killed.add(victim.id)
        self.counts.clear()
        yield Requeue(victim.id)

    def worth(self, job: Job) -> float:
        return {
            "greatest_walltime": job.estimate or math.inf,
            "greatest_count": self.counts[job.id],
            "latest_start": job.started_at or 0.0,
            "widest": job.n_procs,
        }[self.options.conflict]


def steps_of(changes: Iterable[tuple[float, float]]) -> Steps:
    """Create steps from changes (time, amount) in any order. Changes at one instant are added up. O(n log n)."""
    sums: defaultdict[float, float] = defaultdict(float)
    for time, change in changes:
        sums[time] += change
    times, values = [], []
    value = 0.0
    for time in sorted(sums):
        if change := sums[time]:
            value += change
            times.append(time)
            values.append(value)
    return Steps(tuple(times), tuple(values))


def reserved_starts(reservations: Reservations) -> dict[str, float]:
    """Return all reserved starts by job id."""
    return {entry[2].id: place for entry, place in zip(reservations.entries, reservations.places, strict=True)}
