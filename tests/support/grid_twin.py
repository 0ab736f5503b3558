"""A slow, obvious twin of reallocation: the oracle of the policy.

Every cluster keeps its queue and the place of each job in it. All places, ends and sizes are found by trying: free
processors are counted instant by instant, nothing is remembered from one question to the next, and no search is cut
short. For jobs that end no later than their estimates, on machines that stay.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pybatsched.core.cluster import Cluster, Partition
from pybatsched.core.decisions import CallMeLater, Decision, ExecuteJob, RejectJob, Reshape, SetJobMetadata
from pybatsched.core.jobs import Job
from pybatsched.core.options import Options
from pybatsched.core.policy import BatsimFeature, Policy

TICK = 1e-6


class GridTwinOptions(Options):
    algorithm: str = "regular"
    heuristic: str = "mct"
    period: float = 3600
    threshold: float = 60
    window: int = 20
    sizing: str = "binary"
    local: str = "conservative"
    local_options: dict[str, Any] = {}  # noqa: RUF012  a field of the model


@dataclass(eq=False)
class TwinJob:
    """A job, and where it waits in which size."""

    job: Job
    external: bool
    fraction: float = 0.0
    limit: int | None = None  # of a moldable one
    can_scale: bool = True
    site: TwinSite | None = None
    n: int = 0
    span_s: float = 0.0
    n_moves: int = 0
    n_resubmitted: int = 0


@dataclass(eq=False)
class TwinSite:
    """A cluster: its waiting jobs, and their planned starts."""

    name: str
    partition: Partition
    speed: float
    is_fcfs: bool
    compression: bool
    queue: list[TwinJob] = field(default_factory=list)
    places: dict[TwinJob, float] = field(default_factory=dict)
    somebody_left: bool = False

    def booked(self, now: float, but: TwinJob | None = None) -> list[tuple[float, float, int]]:
        """Return all that is taken, as (start, end, processors)."""
        # By strict order a job that is due is only counted as over when it is; conservative plans trust that it is.
        soonest = round(now + TICK, 6) if self.is_fcfs else now
        running = [
            (now, max(job.expected_end_at, soonest), len(job.procs or ())) for job in self.partition.running_jobs
        ]
        waiting = [(place, round(place + one.span_s, 6), one.n) for one, place in self.places.items() if one is not but]
        return running + waiting

    def earliest(self, n: int, span_s: float, now: float, but: TwinJob | None = None) -> float:
        """Find the first instant from which on there are enough processors, by trying all at which something ends."""
        not_before = max([now, *self.places.values()]) if self.is_fcfs else now
        booked = self.booked(now, but)
        for start in sorted({not_before, *(end for _, end, _ in booked if end > not_before)}):
            end = round(start + span_s, 6)
            instants = [start, *(at for at, _, _ in booked if start < at < end)]
            if all(used(booked, at) + n <= self.partition.n_procs for at in instants):
                return start
        return math.inf

    def settle(self, now: float) -> None:
        """Find the places of all waiting jobs by the rule of the cluster, after a job has left."""
        if self.is_fcfs:
            self.places.clear()
            for one in self.queue:
                self.places[one] = self.earliest(one.n, one.span_s, now)
        elif self.somebody_left and self.compression:
            for one in self.queue:
                self.places[one] = self.earliest(one.n, one.span_s, now, but=one)
        self.somebody_left = False

    def submit(self, one: TwinJob, now: float) -> None:
        self.queue.append(one)
        self.places[one] = self.earliest(one.n, one.span_s, now)
        one.site = self

    def withdraw(self, one: TwinJob) -> None:
        self.queue.remove(one)
        del self.places[one]
        one.n_resubmitted += 1
        self.somebody_left = True

    def end_of(self, one: TwinJob) -> float:
        return round(self.places[one] + one.span_s, 6)


def used(booked: list[tuple[float, float, int]], at: float) -> int:
    """Count the processors that are taken at an instant."""
    return sum(n for start, end, n in booked if start <= at < end)


def speedup(fraction: float, n: int) -> float:
    """Amdahl's law."""
    return 1 / ((1 - fraction) + fraction / n)


class Offer(NamedTuple):
    """An end, with the index of the cluster and the number of processors."""

    end_at: float
    nth: int
    n: int


NOTHING = Offer(math.inf, -1, 0)


def by_halves(end_of: Callable[[int], float], n_most: int) -> tuple[float, int]:
    """Search as the study does, and record all sizes that were tried."""
    low, high = 1, n_most
    seen = {low: end_of(low), high: end_of(high)}
    while high - low > 1:
        middle = (low + high) // 2
        seen[middle] = end_of(middle)
        if seen[low] <= seen[high]:
            high = middle
        else:
            low = middle
    return min((end_at, n) for n, end_at in seen.items())


def by_all(end_of: Callable[[int], float], n_most: int) -> tuple[float, int]:
    """Try every size."""
    return min((end_of(n), n) for n in range(1, n_most + 1))


class GridTwin(Policy):
    """Reallocation by the book."""

    Options = GridTwinOptions
    needs = frozenset({BatsimFeature.DYNAMIC_JOBS})
    handles_oversized = True

    def on_begin(self, cluster: Cluster) -> None:
        self.cluster = cluster
        by_name: dict[str, list[int]] = {}
        for proc in cluster.procs:
            by_name.setdefault(cluster.property_of(proc, "cluster") or "all", []).append(proc)
        speeds = {name: float(cluster.property_of(procs[0], "speed") or 1) for name, procs in by_name.items()}
        is_fcfs = self.options.local == "fcfs"
        compression = self.options.local_options.get("compression", True)
        self.sites = []
        for name, procs in by_name.items():
            partition = cluster.add_partition(name, type(cluster.procs)(procs))
            speed = speeds[name] / min(speeds.values())
            self.sites.append(TwinSite(name, partition, speed, is_fcfs, compression))
        self.newcomers: list[TwinJob] = []
        self.waiting: list[TwinJob] = []  # grid jobs, in the order of their submission
        self.event_at: float | None = None
        self.can_outlive = False
        self.figure = dict.fromkeys(("n_moves", "n_moved_jobs", "n_events", "max_moves", "max_resubmitted"), 0)

    def on_job_submitted(self, job: Job, now: float) -> None:
        moldable = job.fields.get("moldable") or {}
        external = job.fields.get("external", False)
        can_scale = self.cluster.can_reshape(job)
        self.newcomers.append(TwinJob(job, external, moldable.get("fraction", 0.0), moldable.get("limit"), can_scale))
        self.can_outlive |= job.walltime is None or job.walltime > (job.estimate or 0.0)

    def on_job_ended(self, job: Job, now: float) -> None:
        (site,) = (site for site in self.sites if site.partition is job.partition)
        site.somebody_left = True

    def figures(self) -> dict[str, float]:
        return dict(self.figure)

    # --- sizes ---

    def scale(self, one: TwinJob, site: TwinSite, n: int) -> float:
        if one.external:
            return 1.0
        if one.limit is None:
            return 1.0 / site.speed
        return speedup(one.fraction, one.job.n_procs_requested) / speedup(one.fraction, n) / site.speed

    def span_s(self, one: TwinJob, site: TwinSite, n: int) -> float:
        estimate = one.job.fields.get("estimate", one.job.fields.get("walltime"))  # as submitted
        if estimate is None:
            return float(self.options.local_options.get("assume_walltime", math.inf))
        scale = self.scale(one, site, n)
        return float(estimate if scale == 1 else max(round(estimate * scale, 6), TICK))

    def offer(self, one: TwinJob, nth: int, now: float) -> Offer | None:
        site = self.sites[nth]

        def end_of(n: int) -> float:
            span_s = self.span_s(one, site, n)
            return round(site.earliest(n, span_s, now) + span_s, 6)

        if one.limit is not None:
            search = by_halves if self.options.sizing == "binary" else by_all
            end_at, n = search(end_of, min(one.limit, site.partition.n_procs))
            return Offer(end_at, nth, n)
        n = one.job.n_procs_requested
        if n > site.partition.n_procs or (site.speed != 1 and not one.can_scale):
            return None
        return Offer(end_of(n), nth, n)

    def best(self, one: TwinJob, now: float, but: TwinSite | None = None) -> Offer | None:
        offers = [self.offer(one, nth, now) for nth, site in enumerate(self.sites) if site is not but]
        return min((offer for offer in offers if offer is not None), default=None)

    # --- decisions ---

    def decide(self, now: float) -> Iterator[Decision]:
        for site in self.sites:
            site.settle(now)
        newcomers, self.newcomers = self.newcomers, []
        for one in newcomers:
            yield from self.welcome(one, now)
        if self.event_at is not None and now >= self.event_at:
            self.event_at = None
            if self.waiting:
                self.figure["n_events"] += 1
                yield from self.reallocate(now)
        for site in self.sites:
            yield from self.starts(site, now)
        yield from self.calls(now)

    def welcome(self, one: TwinJob, now: float) -> Iterator[Decision]:
        if one.external:
            (site,) = (site for site in self.sites if site.name == one.job.fields["cluster"])
            if one.job.n_procs > site.partition.n_procs:
                yield RejectJob(one.job.id)
            else:
                yield from self.submit(one, site, one.job.n_procs, now)
            return
        offer = self.best(one, now)
        if offer is None:
            yield RejectJob(one.job.id)
        else:
            self.waiting.append(one)
            yield from self.submit(one, self.sites[offer.nth], offer.n, now)

    def submit(self, one: TwinJob, site: TwinSite, n: int, now: float) -> Iterator[Decision]:
        if not one.external:
            yield Reshape(one.job.id, n, self.scale(one, site, n))
        one.n, one.span_s = n, self.span_s(one, site, n)
        site.submit(one, now)

    def starts(self, site: TwinSite, now: float) -> Iterator[Decision]:
        for one in list(site.queue):
            if one.n > site.partition.n_free:
                if site.is_fcfs:
                    return
                continue
            if site.is_fcfs or site.places[one] <= now:
                site.queue.remove(one)
                del site.places[one]
                facts = [f"cluster={site.name}"]
                if not one.external:
                    self.waiting.remove(one)
                    facts = [f"moves={one.n_moves}", f"resubmitted={one.n_resubmitted}", *facts]
                yield SetJobMetadata(one.job.id, ";".join(facts))
                if one.job.estimate is None:
                    one.job.estimate = one.span_s
                yield ExecuteJob(one.job.id, site.partition.free.first(one.n))

    def calls(self, now: float) -> Iterator[Decision]:
        for site in self.sites:
            places = [place for place in site.places.values() if now < place < math.inf]
            if places and not site.compression:
                yield CallMeLater(min(places))
        alone = self.options.algorithm == "regular" and len(self.sites) == 1  # no job can move
        if self.options.algorithm == "none" or alone or self.event_at is not None:
            return
        nth = 0
        while round(nth * self.options.period, 6) <= now:
            nth += 1
        event_at = round(nth * self.options.period, 6)
        for site in self.sites:
            site.settle(now)
        if any(self.can_outlive or one.site.places[one] >= event_at for one in self.waiting if one.site is not None):
            self.event_at = event_at
            yield CallMeLater(event_at)

    # --- events ---

    def reallocate(self, now: float) -> Iterator[Decision]:
        if self.options.algorithm == "regular":
            yield from self.regular(now)
        else:
            yield from self.all_cancellation(now)
        for one in self.waiting:
            self.figure["max_moves"] = max(self.figure["max_moves"], one.n_moves)
            self.figure["max_resubmitted"] = max(self.figure["max_resubmitted"], one.n_resubmitted)

    def regular(self, now: float) -> Iterator[Decision]:
        if self.options.heuristic == "mct":
            for one in list(self.waiting):
                yield from self.perhaps_move(one, now)
            return
        left = self.waiting[: self.options.window]
        while left:
            one = min(left, key=lambda one: min(end_of(one), (self.best(one, now, but=one.site) or NOTHING).end_at))
            left.remove(one)
            yield from self.perhaps_move(one, now)

    def perhaps_move(self, one: TwinJob, now: float) -> Iterator[Decision]:
        before = one.site
        assert before is not None
        offer = self.best(one, now, but=before)
        if offer is None or not round(end_of(one) - offer.end_at, 6) >= self.options.threshold:
            return
        before.withdraw(one)
        before.settle(now)
        self.count_move(one)
        yield from self.submit(one, self.sites[offer.nth], offer.n, now)

    def all_cancellation(self, now: float) -> Iterator[Decision]:
        for one in self.waiting:
            assert one.site is not None
            one.site.withdraw(one)
        for site in self.sites:
            site.settle(now)
        left = list(self.waiting)
        oldest = left[: self.options.window] if self.options.heuristic == "minmin" else []
        while left:
            one = left[0]
            if oldest:
                one = min(oldest, key=lambda one: (self.best(one, now) or NOTHING).end_at)
                oldest.remove(one)
            left.remove(one)
            offer = self.best(one, now)
            assert offer is not None
            after = self.sites[offer.nth]
            if after is not one.site:
                self.count_move(one)
            yield from self.submit(one, after, offer.n, now)

    def count_move(self, one: TwinJob) -> None:
        one.n_moves += 1
        self.figure["n_moves"] += 1
        self.figure["n_moved_jobs"] += one.n_moves == 1


def end_of(one: TwinJob) -> float:
    """Return the end to expect where a job waits."""
    assert one.site is not None
    return one.site.end_of(one)
