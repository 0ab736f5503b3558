"""The slow, obvious twin of UJFB: the oracle of the fast policy, written from its rules.

It keeps what cannot be observed (the queues, suspended jobs, processors being swapped out, the places promised
to regular jobs) and derives everything else again at every message. Processors are counted instant by instant in plain
lists of bookings.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from pybatsched.core.cluster import Cluster
from pybatsched.core.decisions import CallMeLater, Decision, ExecuteJob, RejectJob, Release, Requeue, StartAt
from pybatsched.core.events import Notify
from pybatsched.core.intervals import EMPTY, IntervalSet
from pybatsched.core.jobs import Job, JobState
from pybatsched.core.policy import BatsimFeature, Policy
from pybatsched_schedulers.ujfb.options import UjfbOptions

TICK = 1e-6
LATE = 1e-3  # less than that is the network's

RANKS: dict[str, Callable[[Job], float]] = {
    "fcfs": lambda _job: 0.0,
    "sjf": lambda job: 0.0 + span(job),
    "ljf": lambda job: -span(job),
    "narrowest": lambda job: job.n_procs,
    "widest": lambda job: -job.n_procs,
    "smallest_area": lambda job: job.n_procs * span(job),
    "largest_area": lambda job: -job.n_procs * span(job),
    "urgent_first": lambda _job: 0.0,  # regular jobs only are in this queue
}


def after(start: float, seconds: float) -> float:
    return round(start + seconds, 6)


def span(job: Job) -> float:
    assert job.estimate is not None, "jobs without a time to plan with are refused"
    return job.estimate


class Booking(NamedTuple):
    """So many processors are used from start to end."""

    n: int
    start: float
    end: float


def used(bookings: list[Booking], at: float) -> int:
    return sum(n for n, start, end in bookings if start <= at < end)


def fits(n: int, start: float, end: float, capacity: int, bookings: list[Booking]) -> bool:
    instants = [start, *(booking.start for booking in bookings if start < booking.start < end)]
    return all(used(bookings, at) + n <= capacity for at in instants)


def earliest(n: int, seconds: float, not_before: float, capacity: int, bookings: list[Booking]) -> float:
    """Try all instants at which something ends; infinity for none."""
    for start in sorted({not_before, *(booking.end for booking in bookings if booking.end > not_before)}):
        if start < math.inf and fits(n, start, after(start, seconds), capacity, bookings):
            return start
    return math.inf


@dataclass
class Suspended:
    """A job that was stopped, what its swap-in takes, and the processors it had."""

    job: Job
    in_s: float
    procs: IntervalSet


@dataclass
class Victim(Suspended):
    out_s: float
    was_held: bool
    stopped: bool = False


@dataclass
class Preemption:
    urgent: Job
    victims: list[Victim] = field(default_factory=list)


class SlowUjfb(Policy):
    """Urgent jobs first, by its rules."""

    Options = UjfbOptions
    needs = frozenset({BatsimFeature.DYNAMIC_JOBS})

    def on_begin(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.partition = cluster.add_partition("all", cluster.procs)
        self.draws = random.Random(self.options.seed)
        self.rejects: list[Job] = []
        self.urgents: list[Job] = []  # waiting, in order of arrival
        self.suspended: list[Suspended] = []  # the first to resume first
        self.queue: list[tuple[float, int, Job]] = []  # waiting regular jobs: (rank, arrival, job)
        self.n_arrivals = 0
        self.places: dict[str, float] = {}  # of waiting regular jobs
        self.begun: list[Job] = []  # regular jobs in the order of their starts or swap-ins, latest last
        self.swap_outs: list[tuple[IntervalSet, float]] = []  # processors, and until when they are idle
        self.swap_ins: dict[str, Suspended] = {}  # by job: those resumed
        self.preemption: Preemption | None = None
        self.reservations: dict[str, Booking] = {}  # of waiting urgent jobs
        self.resumes: list[tuple[Suspended, float]] = []  # suspended jobs, and their planned resume
        self.must_compress = False
        self.must_place_again = self.machines_changed = False
        self.ahead_before: dict[str, Booking] = {}
        self.soonest_end = 0.0  # of a job that runs and is past its estimate
        self.wakes = not self.options.compression  # whether a place may come when nothing ends
        self.called: set[float] = set()

    # --- what happened ---

    def on_job_submitted(self, job: Job, now: float) -> None:
        if job.estimate is None:
            job.estimate = self.options.assume_walltime
        if job.estimate is None or job.n_procs > self.partition.n_possible:
            self.rejects.append(job)
        elif job.is_urgent():
            self.urgents.append(job)
        else:
            self.queue_up(job)

    def queue_up(self, job: Job, *, front: bool = False) -> None:
        if job.estimate is None:
            job.estimate = self.options.assume_walltime
        self.n_arrivals += 1
        if front:
            self.queue.append((-math.inf, -self.n_arrivals, job))
        else:
            self.queue.append((RANKS[self.options.order](job), self.n_arrivals, job))
        self.queue.sort(key=lambda entry: entry[:2])

    def on_job_ended(self, job: Job, now: float) -> None:
        self.must_compress = True

    def on_job_killed(self, job: Job, now: float) -> None:
        self.must_compress = True
        assert self.preemption is not None
        for victim in self.preemption.victims:
            if victim.job is job:
                victim.stopped = True

    def on_job_released(self, job: Job, procs: IntervalSet, now: float) -> None:
        if job.is_urgent():
            self.urgents.append(job)
            self.urgents.sort(key=lambda urgent: urgent.seq)
        else:
            self.suspended.insert(0, self.swap_ins.pop(job.id))

    def on_machines_changed(self, procs: IntervalSet, now: float) -> None:
        self.machines_changed = True

    def on_notify(self, event: Notify, now: float) -> None:
        """If no machine comes back any more, jobs that need more than there are do not wait."""
        waiting = [*self.urgents, *(one.job for one in self.suspended), *(job for _, _, job in self.queue)]
        for job in waiting:
            if job.n_procs > self.partition.n_possible:
                self.refuse(job)

    def refuse(self, job: Job) -> None:
        self.rejects.append(job)
        self.urgents = [other for other in self.urgents if other is not job]
        self.suspended = [one for one in self.suspended if one.job is not job]
        self.queue = [entry for entry in self.queue if entry[2] is not job]
        if self.places.pop(job.id, None) is not None:
            self.must_compress = True

    # --- what is decided ---

    def decide(self, now: float) -> Iterator[Decision]:
        while self.rejects:
            yield RejectJob(self.rejects.pop(0).id)
        if self.partition.n_kills_pending:
            return
        self.swap_outs = [(procs, until) for procs, until in self.swap_outs if until > now]
        self.soonest_end = after(now, TICK)
        if self.preemption is not None:
            yield from self.preempt_now(now)
        yield from self.serve_urgents(now)
        if self.preemption is not None:
            return
        yield from self.resume(now)
        yield from self.serve_regulars(now)
        yield from self.calls(now)

    # --- the machine as it is ---

    @property
    def here(self) -> int:
        return len(self.partition.procs - self.partition.away)

    def running(self) -> list[Job]:
        """Running and held jobs."""
        return list(self.partition.running_jobs)

    def booking_of(self, job: Job, now: float) -> Booking:
        assert job.procs is not None
        end = job.expected_end_at
        return Booking(len(job.procs - self.partition.away), now, max(end, self.soonest_end))

    def in_swap_out(self) -> IntervalSet:
        found = EMPTY
        for procs, _ in self.swap_outs:
            found = found | procs
        return found & self.partition.free

    def swap_out_bookings(self, now: float) -> list[Booking]:
        return [Booking(len(procs & self.partition.free), now, until) for procs, until in self.swap_outs]

    def usable(self) -> IntervalSet:
        return self.partition.free - self.in_swap_out()

    def can_be_stopped(self, job: Job) -> bool:
        if job.n_procs > self.partition.n_possible:
            return False  # it could never resume
        if self.options.mode == "kill_restart":
            return self.cluster.can_restart(job)
        return self.cluster.can_suspend(job)

    def waited_for(self, suspended: Suspended) -> IntervalSet:
        """The processors that a suspended job needs to resume; None for any."""
        if not self.options.resume_same_resources:
            return EMPTY
        if self.partition.machines_settled and suspended.procs & self.partition.away:
            return EMPTY
        return suspended.procs

    # --- urgent jobs ---

    def serve_urgents(self, now: float) -> Iterator[Decision]:
        self.reservations = {}
        order = list(self.urgents)
        if self.options.urgent_order == "shortest":
            order.sort(key=span)  # stable: by arrival among equals
        for job in order:
            place = earliest(job.n_procs, span(job), now, self.here, self.bookings_that_stay(now))
            if place == now:
                if job.n_procs <= len(self.usable()):
                    yield self.start_urgent(job, EMPTY, now, 0.0)
                    continue
                victims = self.victims_for(job)
                if victims:
                    self.preemption = Preemption(job, victims)
                    yield from self.stop(self.preemption)
                    if any(not victim.was_held for victim in victims):
                        return
                    yield from self.preempt_now(now)
                    continue
            if place < math.inf:
                self.reservations[job.id] = Booking(job.n_procs, place, after(place, span(job)))

    def bookings_that_stay(self, now: float) -> list[Booking]:
        """What an urgent job cannot preempt: urgent jobs, jobs that cannot be stopped, swaps, earlier urgent jobs."""
        stay = [job for job in self.running() if job.is_urgent() or not self.can_be_stopped(job)]
        return [*(self.booking_of(job, now) for job in stay), *self.swap_out_bookings(now), *self.reservations.values()]

    def victims_for(self, urgent: Job) -> list[Victim]:
        """The shortest prefix in order that frees enough; empty if all together do not."""
        missing = urgent.n_procs - len(self.usable())
        running = self.running()
        candidates = [job for job in self.begun if job in running]
        if self.options.victim_order == "longest_remaining":
            candidates.sort(key=lambda job: -job.expected_end_at)
        elif self.options.victim_order == "fewest":
            candidates.sort(key=lambda job: -len(job.procs or ()))
        chosen: list[Job] = []
        for job in candidates:
            n_freed = len((job.procs or EMPTY) - self.partition.away)
            if missing > 0 and n_freed and self.can_be_stopped(job) and self.hosts_can_hold([*chosen, job]):
                chosen.append(job)
                missing -= n_freed
        if missing > 0:
            return []
        victims = []
        for job in chosen:
            assert job.procs is not None
            out_s, in_s = self.swap_times(job, job.procs)
            victims.append(Victim(job, in_s, job.procs, out_s, job.state is JobState.HELD))
        return victims

    def stop(self, preemption: Preemption) -> Iterator[Decision]:
        for victim in preemption.victims:
            if victim.was_held:
                del self.swap_ins[victim.job.id]
                victim.stopped = True
                yield Release(victim.job.id)
            else:
                work = "all" if self.options.mode == "kill_restart" else "rest"
                yield Requeue(victim.job.id, work=work, by=preemption.urgent.id)  # type: ignore[arg-type]

    def preempt_now(self, now: float) -> Iterator[Decision]:
        """All victims are stopped or have ended: the urgent job gets their processors."""
        assert self.preemption is not None
        urgent = self.preemption.urgent
        stopped = [victim for victim in self.preemption.victims if victim.stopped]
        self.preemption = None
        delay_s = 0.0
        from_victims = EMPTY
        for victim in stopped:
            from_victims = from_victims | victim.procs
        if self.options.mode == "suspend" and stopped:
            outs = [victim.out_s for victim in stopped]
            delay_s = max(outs) if self.options.pd == "max" else sum(outs) + outs[-1]
        n_there = len(self.usable() | (from_victims & self.partition.free))
        if urgent in self.urgents and urgent.n_procs <= n_there:  # else a machine went away in this instant
            yield self.start_urgent(urgent, from_victims, now, delay_s)
        if delay_s > 0:
            self.swap_outs.append((from_victims, after(now, delay_s)))
        for victim in stopped:
            if victim.job.n_procs > self.partition.n_possible:
                yield RejectJob(victim.job.id)
            elif self.options.mode == "suspend":
                self.suspended.insert(0, Suspended(victim.job, victim.in_s, victim.procs))
            else:
                self.queue_up(victim.job, front=True)

    def start_urgent(self, job: Job, from_victims: IntervalSet, now: float, delay_s: float) -> Decision:
        waited_for = EMPTY
        for suspended in self.suspended:
            waited_for = waited_for | self.waited_for(suspended)
        usable = self.usable() - from_victims
        best_first = [*(usable - waited_for), *(usable & waited_for), *(from_victims & self.partition.free)]
        self.urgents.remove(job)
        return StartAt(job.id, IntervalSet(best_first[: job.n_procs]), after(now, delay_s))

    # --- swaps ---

    def swap_times(self, job: Job, procs: IntervalSet) -> tuple[float, float]:
        options = self.options
        if options.swap == "fixed":
            return (1.0 if options.swap_out is None else options.swap_out), (
                1.0 if options.swap_in is None else options.swap_in
            )
        if options.swap == "uniform":
            least, most = (0.2, 2.0) if options.swap_out is None else options.swap_out
            out_s = self.draws.uniform(least, most) if least < most else least
            least, most = (0.1, 2.0) if options.swap_in is None else options.swap_in
            in_s = self.draws.uniform(least, most) if least < most else least
            return round(out_s, 6), round(in_s, 6)
        seconds = max(self.memory_gb(job, proc) / self.gbps(proc) for proc in procs)
        return round(seconds, 6), round(seconds, 6)

    def gbps(self, proc: int) -> float:
        return float(self.cluster.property_of(proc, "swap_bw_gbps") or 6.0)

    def memory_gb(self, job: Job, proc: int) -> float:
        return float(job.fields.get("memory_gb", self.cluster.property_of(proc, "memory_gb") or 0.0))

    def hosts_can_hold(self, more: list[Job]) -> bool:
        """Return whether the memory of these jobs fits into the vector hosts beside that of the suspended ones."""
        limit_gb = self.options.vh_memory_gb
        if limit_gb is None or self.options.mode == "kill_restart":
            return True
        held = [(suspended.job, suspended.procs) for suspended in self.suspended]
        held += [(job, job.procs or EMPTY) for job in more]
        on_host: dict[str | None, float] = {}
        for job, procs in held:
            for proc in procs:
                host = self.cluster.property_of(proc, "vh")
                on_host[host] = on_host.get(host, 0.0) + self.memory_gb(job, proc)
        return all(gb <= limit_gb + 1e-9 for gb in on_host.values())

    # --- suspended jobs ---

    def resume(self, now: float) -> Iterator[Decision]:
        self.resumes = []
        for suspended in self.suspended:
            self.resumes.append((suspended, self.place_of(suspended, now)))
        for suspended, place in list(self.resumes):
            mine = self.waited_for(suspended)
            if place > now or not mine.issubset(self.usable()):
                continue
            if not mine:
                allowed = self.allowed(after(suspended.in_s, span(suspended.job)), now)
                if len(allowed) < suspended.job.n_procs:
                    continue
                mine = allowed.first(suspended.job.n_procs)
            self.suspended.remove(suspended)
            self.resumes.remove((suspended, place))
            self.swap_ins[suspended.job.id] = suspended
            self.begin(suspended.job)
            yield StartAt(suspended.job.id, mine, after(now, suspended.in_s))

    def place_of(self, suspended: Suspended, now: float) -> float:
        """Try all instants at which something ends: the first at which its processors are free for all its time."""
        procs, n = self.waited_for(suspended), suspended.job.n_procs
        seconds = after(suspended.in_s, span(suspended.job))
        not_before = max([now, *self.ends_on(procs, now)])
        bookings = self.bookings_ahead(now)
        claims = [claim for claim, claimed in self.claims() if not claimed.isdisjoint(procs)]
        for start in sorted({not_before, *(booking.end for booking in bookings if booking.end > not_before)}):
            end = after(start, seconds)
            is_claimed = any(claim.start < end and start < claim.end for claim in claims)
            if start < math.inf and not is_claimed and fits(n, start, end, self.here, bookings):
                return start
        return math.inf

    def claims(self) -> Iterator[tuple[Booking, IntervalSet]]:
        """The processors of jobs that resume before others, and for how long."""
        for other, place in self.resumes:
            end = after(place, after(other.in_s, span(other.job)))
            yield Booking(other.job.n_procs, place, end), self.waited_for(other)

    def ends_on(self, procs: IntervalSet, now: float) -> Iterable[float]:
        """The expected ends of the jobs on these processors."""
        for job in self.running():
            if job.procs is not None and not job.procs.isdisjoint(procs):
                yield self.booking_of(job, now).end
        for swapped, until in self.swap_outs:
            if not swapped.isdisjoint(procs):
                yield until

    def bookings_ahead(self, now: float) -> list[Booking]:
        """All that precedes regular jobs: running and held jobs, swaps, urgent and suspended jobs."""
        return [*(self.booking_of(job, now) for job in self.running()), *self.named_bookings(now).values()]

    def named_bookings(self, now: float) -> dict[str, Booking]:
        swap_outs = zip(self.swap_outs, self.swap_out_bookings(now), strict=True)
        return {
            **{f"{procs} until {until}": booking for (procs, until), booking in swap_outs},
            **self.reservations,
            **{
                one.job.id: Booking(one.job.n_procs, place, after(place, after(one.in_s, span(one.job))))
                for one, place in self.resumes
                if place < math.inf
            },
        }

    # --- regular jobs ---

    def begin(self, job: Job) -> None:
        self.begun = [other for other in self.begun if other is not job] + [job]

    def planned(self, but: Job | None = None) -> list[Booking]:
        """The places of waiting regular jobs."""
        return [
            Booking(job.n_procs, self.places[job.id], after(self.places[job.id], span(job)))
            for _, _, job in self.queue
            if job is not but and self.places.get(job.id, math.inf) < math.inf
        ]

    def serve_regulars(self, now: float) -> Iterator[Decision]:
        self.soonest_end = now  # a job that ends in this instant may not have been announced yet: the plan stands
        reasons = [self.must_place_again, self.machines_changed, self.put_in_front(), self.is_late(now)]
        if self.is_impossible(now) or any(reasons):
            self.soonest_end = after(now, TICK)
            self.place_again(now)
            # A job that waits for one past its estimate has no real place.
            self.must_place_again = any(job.expected_end_at <= now for job in self.running())
            self.must_compress = True
            self.machines_changed = False
        if self.has_changed_ahead(now):
            self.must_compress = True
        if self.must_compress:
            self.compress(now)
        self.must_compress = False
        for _, _, job in self.queue:
            if job.id not in self.places:
                others = self.bookings_ahead(now) + self.planned()
                self.places[job.id] = earliest(job.n_procs, span(job), now, self.here, others)
        were_put_off: list[Job] = []
        n_before = -1
        while n_before < len(were_put_off):
            if were_put_off:
                self.compress(now, but=were_put_off)
            n_before = len(were_put_off)
            yield from self.start_regulars(were_put_off, now)

    def start_regulars(self, were_put_off: list[Job], now: float) -> Iterator[Decision]:
        """Start the jobs whose place has come, unless their processors are too few."""
        due = [(self.places[job.id], arrival, job) for _, arrival, job in self.queue if self.places[job.id] <= now]
        for _, _, job in sorted(due, key=lambda entry: entry[:2]):
            if job.n_procs > len(self.usable()):
                continue  # a job is about to end at this instant
            allowed = self.allowed(span(job), now)
            if job.n_procs <= len(allowed):
                self.queue = [entry for entry in self.queue if entry[2] is not job]
                del self.places[job.id]
                self.begin(job)
                yield ExecuteJob(job.id, allowed.first(job.n_procs))
            else:
                self.put_off(job, now)
                were_put_off.append(job)

    def compress(self, now: float, but: Iterable[Job] = ()) -> None:
        """Let each waiting job in order look for a better place around all others."""
        if self.options.compression:
            for _, _, job in self.queue:
                if job.id in self.places and job not in but:
                    others = self.bookings_ahead(now) + self.planned(but=job)
                    self.places[job.id] = earliest(job.n_procs, span(job), now, self.here, others)

    def is_late(self, now: float) -> bool:
        """Return whether a place has passed, or a job runs past its estimate."""
        instants = [*self.places.values(), *(job.expected_end_at for job in self.running())]
        return any(at < now - LATE for at in instants)

    def put_in_front(self) -> bool:
        """Let jobs that were put in front have the first places. Return whether there are any."""
        found = [job for rank, _, job in self.queue if rank == -math.inf and job.id not in self.places]
        for job in found:
            self.places[job.id] = math.inf
            self.wakes = True
        return bool(found)

    def is_impossible(self, now: float) -> bool:
        """Return whether the places do not fit beside what precedes them."""
        places = self.planned()
        together = self.bookings_ahead(now) + places
        found = not all(
            fits(0, start, max(end, start), self.here, together)
            for start, end in ((max(booking.start, now), booking.end) for booking in places)
        )
        self.wakes |= found and not self.machines_changed
        return found

    def place_again(self, now: float) -> None:
        before = self.bookings_ahead(now)
        for _, _, job in self.queue:
            place = self.places.get(job.id)
            if place is None:
                continue  # a new job, which is placed later
            keeps = now + 1.5 * TICK < place < math.inf and fits(
                job.n_procs, place, after(place, span(job)), self.here, before
            )
            if not keeps:
                place = earliest(job.n_procs, span(job), now, self.here, before)
            self.places[job.id] = place
            if place < math.inf:
                before.append(Booking(job.n_procs, place, after(place, span(job))))

    def has_changed_ahead(self, now: float) -> bool:
        """Return whether a booking of an urgent or suspended job, or a swap-out, has changed."""
        bookings = self.named_bookings(now)
        before, self.ahead_before = self.ahead_before, bookings
        return any(
            bookings.get(name) != Booking(n, max(start, now), end)
            for name, (n, start, end) in before.items()
            if name not in self.swap_ins
        )

    def allowed(self, seconds: float, now: float) -> IntervalSet:
        """Usable processors without those that a suspended job waits for."""
        found = self.usable()
        for suspended, place in self.resumes:
            if after(now, seconds) > place:
                found = found - self.waited_for(suspended)
        return found

    def put_off(self, job: Job, now: float) -> None:
        others = self.bookings_ahead(now) + self.planned(but=job)
        instants = sorted({at for _, start, end in others for at in (start, end) if now < at < math.inf})
        level = used(others, now)
        later = math.inf
        for at in instants:
            if used(others, at) != level:
                later = at
                break
        self.places[job.id] = earliest(job.n_procs, span(job), later, self.here, others)
        self.wakes = True

    # --- calls ---

    def calls(self, now: float) -> Iterator[Decision]:
        """Request calls for instants at which a job may start although none ends."""
        due = {until for _, until in self.swap_outs}
        if self.wakes:
            due.add(min((at for at in self.places.values() if at > now + 1.5 * TICK), default=math.inf))
        for at in sorted(due - self.called - {math.inf}):
            self.called.add(at)
            yield CallMeLater(at)
