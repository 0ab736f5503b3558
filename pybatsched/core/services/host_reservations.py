"""Reservations of hosts for a time window: a service of the engine, for every policy.

During its window a reservation has its hosts for itself: they are away for the policy. Jobs with the field
`reservation` run only there; the engine starts them, in order of submission. Before the window, no job starts on the
hosts that would not end by its estimate (`wait`). Local schedulers plan around reservations (`Partition.upcoming`). If
a policy starts a job that would overlap, the engine gives it other processors, or starts it later.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from pybatsched.core import decisions as d
from pybatsched.core.cluster import Window
from pybatsched.core.instants import HALF_TICK, instant
from pybatsched.core.intervals import EMPTY, IntervalSet
from pybatsched.core.jobs import Job, JobState
from pybatsched.core.node_requests import PLAIN
from pybatsched.core.services.service import Service
from pybatsched.errors import InputError

if TYPE_CHECKING:
    from pybatsched.core.actions import Actions
    from pybatsched.core.cluster import Cluster
    from pybatsched.core.reservation_specs import ReservationSpec
    from pybatsched.core.services.failures import Failures


#: The job field with the name of the reservation that a job runs in.
FIELD = "reservation"


@dataclass(slots=True)
class _Reserved:
    """A window with its rules, and the jobs that wait for it."""

    window: Window
    spec: ReservationSpec
    announced_at: float
    waiting: list[Job]
    is_announced: bool = False
    is_active: bool = False


def specs_of(options: Any) -> tuple[ReservationSpec, ...]:
    """Return the option `host_reservations` of a policy's options; empty if it is not set."""
    return getattr(options, "host_reservations", None) or ()


def numbers_of(cluster: Cluster) -> dict[str, int]:
    """Return the number of each processor by its host name. O(n)."""
    return {resource.name: proc for proc, resource in cluster.resources.items() if resource.name}


def windows_of(specs: Iterable[ReservationSpec], all_procs: IntervalSet, numbers: Mapping[str, int]) -> list[_Reserved]:
    """Return the windows of reservations in order of time. O(windows² at worst). Raises InputError.

    `all_procs` are the processors of the machine, and `numbers` their numbers by name. A number of hosts means the last
    ones that are not reserved in the same time.
    """
    found: list[_Reserved] = []
    names: set[str] = set()
    for spec in specs:
        if spec.name in names:
            raise InputError(f"{spec.title}: name: another reservation has it too; expected unique names")
        names.add(spec.name)
        if spec.every is not None and spec.every < spec.duration:
            raise InputError(
                f"{spec.title}: every: expected at least its duration, {spec.duration:g} s, found {spec.every:g} s"
            )
        for nth in range(spec.count if spec.every is not None else 1):
            shift_s = nth * (spec.every or 0.0)
            start_at, end_at = instant(spec.start, shift_s), instant(spec.start + spec.duration, shift_s)
            beside = [one for one in found if one.window.start_at < end_at and start_at < one.window.end_at]
            procs = _procs(spec, all_procs, numbers, beside)
            for one in beside:
                if not one.window.procs.isdisjoint(procs):
                    raise InputError(
                        f"{spec.title}: processors {one.window.procs & procs} are reserved by {one.spec.title} in the "
                        "same time; expected other hosts or times"
                    )
            announced_at = 0.0 if spec.notice is None else max(start_at - spec.notice, 0.0)
            found.append(_Reserved(Window(start_at, end_at, procs, spec.name), spec, announced_at, []))
    found.sort(key=lambda one: (one.window.start_at, one.window.end_at, one.window.procs.lowest))
    return found


def _procs(
    spec: ReservationSpec, all_procs: IntervalSet, numbers: Mapping[str, int], beside: Iterable[_Reserved]
) -> IntervalSet:
    hosts = spec.hosts
    where = f"{spec.title}: hosts"
    if isinstance(hosts, int):
        free = all_procs
        for one in beside:
            free = free - one.window.procs
        if hosts > len(free):
            raise InputError(f"{where}: expected at most {len(free)}, found {hosts}")
        return free - free.first(len(free) - hosts)
    if isinstance(hosts, tuple):
        for name in hosts:
            if name not in numbers or numbers[name] not in all_procs:
                raise InputError(f"{where}: unknown host {name!r:.60}; expected names of compute hosts")
        return IntervalSet(numbers[name] for name in hosts)
    try:
        procs = IntervalSet.parse(hosts)
    except ValueError:
        raise InputError(f"{where}: expected processors such as '0-3 5', found {hosts!r:.60}") from None
    if not procs or not procs.issubset(all_procs):
        raise InputError(f"{where}: processors {procs - all_procs} do not exist; expected some of {all_procs}")
    return procs


class HostReservations(Service):
    """The reservations of one run. An instant with a change costs O(windows + running)."""

    def __init__(
        self, specs: Sequence[ReservationSpec], actions: Actions, failures: Failures, *, takes_any_procs: bool
    ) -> None:
        self._cluster = cluster = actions.cluster
        self._actions = actions
        self._failures = failures
        self.takes_any_procs = takes_any_procs
        self._all = windows_of(specs, cluster.procs, numbers_of(cluster))
        self._windows = tuple(one.window for one in self._all)  # of the run; others are removed when they end
        self._deferred: dict[str, tuple[Job, d.ExecuteJob]] = {}  # delayed starts by job
        self._n_deferred = 0
        # Processors that the policy believes free though a moved job has them, and those it believes used.
        self._taken = self._left = EMPTY
        self._called_at = -math.inf
        self._names = {one.spec.name for one in self._all}

    def follow(self, earlier: HostReservations) -> None:
        """Begin without the windows of an earlier policy."""
        earlier.leave()

    def leave(self) -> None:
        """Return the processors of present windows."""
        self._hold_shares(())
        self._cluster.reserved = EMPTY
        self._cluster.window_ends = []

    def after_events(self) -> None:
        """Announce, begin and end the reservations that are due, and notify the policy."""
        actions, now = self._actions, self._actions.now
        changed = self._advance(now)
        if changed:
            actions.release_held(changed & self._cluster.reserved)
            actions.caller.call("on_machines_changed", changed, now)

    def _advance(self, now: float) -> IntervalSet:
        """Announce, begin and end the reservations that are due. Return the processors concerned."""
        changed = EMPTY
        soon = now + HALF_TICK
        active = EMPTY
        for one in list(self._all):
            window = one.window
            if window.end_at <= soon:
                changed = changed | window.procs
                self._all.remove(one)
                self._put_off_waiting(one, now)
            elif window.start_at <= soon:
                active = active | window.procs
                if not one.is_active:
                    one.is_active = True
                    changed = changed | window.procs
                    self._clear(one)
            elif one.announced_at <= soon and not one.is_announced:
                changed = changed | window.procs
                one.is_announced = True
        if changed:
            self._cluster.reserved = active
            self._cluster.change_machines()
            self._show(now)
        return changed

    def _show(self, now: float) -> None:
        """Show the known reservations to the partitions: those to come that jobs wait for, and ends of present ones."""
        soon = now + HALF_TICK
        known = [one for one in self._all if one.announced_at <= soon]
        for partition in self._cluster.partitions.values():
            own = [one for one in known if not one.window.procs.isdisjoint(partition.procs)]
            partition.upcoming = [
                one.window for one in own if one.window.start_at > soon and one.spec.conflict == "wait"
            ]
        self._cluster.window_ends = [
            (one.window.end_at, one.window.procs) for one in known if one.window.start_at <= soon
        ]
        self._cluster.show_returning()

    def _clear(self, one: _Reserved) -> None:
        """Kill the jobs that run in a reservation that begins, by its rule."""
        if one.spec.conflict == "wait":
            return
        reason = ("reservation {} begins", one.spec.name)
        self._failures.clear(one.window.procs, reason, is_lost=one.spec.conflict == "kill")

    def _next_change(self, now: float) -> float:
        """Return the next time at which a reservation is announced, begins or ends; infinity for none. O(windows)."""
        soon = now + HALF_TICK
        times = (at for one in self._all for at in (one.announced_at, one.window.start_at, one.window.end_at))
        return min((at for at in times if at > soon), default=math.inf)

    def is_waiting(self) -> bool:
        """Return whether a reservation is to come or to end, or a start is delayed."""
        return bool(self._deferred) or self._next_change(self._actions.now) < math.inf

    def after_decide(self) -> None:
        """Request a call for the next change while there are jobs, unless one is pending."""
        if not self._actions.jobs.alive:
            return
        now = self._actions.now
        at = self._next_change(now)
        if at < math.inf and (at < self._called_at or self._called_at <= now + HALF_TICK):
            self._called_at = at
            self._actions.carry_out(d.CallMeLater(at, reason="a reservation changes then"))

    def takes(self, job: Job) -> bool:
        """Queue a job that runs in a reservation, or reject it. Return whether it does."""
        field = job.fields.get(FIELD)
        if field is None:
            return False
        now = self._actions.now
        name = str(field)
        soon = now + HALF_TICK
        own = [one for one in self._all if one.spec.name == name and one.window.end_at > soon]
        if not own:
            known = "is over" if name in self._names else "does not exist"
            self._reject(job, ("asks for reservation {}, which {}", name, known))
            return True
        spec = own[0].spec
        user, account = str(job.fields.get("user", "")), str(job.fields.get("account", job.fields.get("group", "")))
        if user not in spec.users and account not in spec.accounts:
            self._reject(job, ("user {} may not use reservation {}", user or "without a name", name))
            return True
        if job.estimate is None:
            self._reject(job, ("has no walltime and no estimate; reservation {} needs one", name))
        elif not self._put_into(own, job, now):
            self._reject(job, ("does not fit into reservation {}: {} processors", name, job.n_procs))
        return True

    def _put_into(self, windows: Iterable[_Reserved], job: Job, now: float) -> bool:
        """Let a job wait for the first of some windows that it fits into. Return whether there is one."""
        for one in windows:
            left_s = one.window.end_at - max(now, one.window.start_at)
            is_short = job.estimate is not None and job.estimate <= left_s + HALF_TICK
            if is_short and job.n_procs <= len(one.window.procs):
                insort(one.waiting, job, key=lambda waiting: waiting.seq)
                return True
        return False

    def _put_off(self, one: _Reserved, job: Job, now: float, reason: d.Reason) -> None:
        """Let a job wait for a later window of the same reservation, or reject it."""
        later = [
            other
            for other in self._all
            if other.spec.name == one.spec.name and other.window.start_at > one.window.start_at
        ]
        if not self._put_into(later, job, now):
            self._reject(job, reason)

    def _reject(self, job: Job, reason: d.Reason) -> None:
        self._actions.carry_out(d.RejectJob(job.id, reason=reason))

    def _put_off_waiting(self, one: _Reserved, now: float) -> None:
        for job in one.waiting:
            self._put_off(one, job, now, ("reservation {} ended before it could start", one.spec.name))
        one.waiting.clear()

    def before_decide(self) -> None:
        """Start the jobs of present reservations that fit, in order, and the jobs whose start was delayed."""
        now = self._actions.now
        self._taken = self._left = EMPTY
        present = [one for one in self._all if one.window.start_at <= now + HALF_TICK]
        self._hold_shares(())
        for one in present:
            if one.waiting:
                self._start_own(one, now)
        self._hold_shares(one.window for one in present)
        deferred, self._deferred = self._deferred, {}
        for job, decision in deferred.values():
            if job.state is JobState.WAITING and job.id in self._cluster.jobs:
                self._retry(job, decision, now)

    def _hold_shares(self, windows: Iterable[Window]) -> None:
        """Hold the memory and GPUs of present windows, if nodes are counted. Their own jobs use what is held."""
        nodes = self._cluster.nodes
        if nodes is not None:
            own = [job for job in self._cluster.inherited.values() if job.procs is not None]
            nodes.reserve(
                (one.end_at, one.procs, [job.id for job in own if job.procs and job.procs.issubset(one.procs)])
                for one in windows
            )

    def _start_own(self, one: _Reserved, now: float) -> None:
        window = one.window
        free = window.procs - self._cluster.unavailable - self._cluster.asleep - self._cluster.drained
        for job in self._failures.running():
            if job.procs is not None:
                free = free - job.procs
        while one.waiting:
            job = one.waiting[0]
            procs = self._place(job, job.n_procs, free)
            if not procs:
                return
            one.waiting.pop(0)
            if job.estimate is None or instant(now, job.estimate) > window.end_at + HALF_TICK:
                self._put_off(one, job, now, ("would not end by the end of reservation {}", one.spec.name))
                continue
            free = free - procs
            self._actions.start_beside(job, procs, ("reservation {}", one.spec.name))

    def _place(self, job: Job, n: int, free: IntervalSet) -> IntervalSet:
        """Return n of these free processors for a job; none if it does not fit. Nodes have what it requests."""
        nodes = self._cluster.nodes
        if n > len(free):
            return EMPTY
        if nodes is None:
            return free.first(n)
        now_free = nodes.free.copy()
        now_free.count_cores(nodes.parts_of(free))
        parts = now_free.fit(nodes.requests.get(job.id, PLAIN), n, "order")
        return EMPTY if parts is None else nodes.procs_of(parts, free)

    def admit(self, job: Job, decision: d.ExecuteJob) -> d.ExecuteJob | None:
        """Return the decision, with other processors if it would break a reservation; None if it is delayed. O(k)."""
        now = self._actions.now
        partition = self._cluster.partition_at(decision.procs)
        if partition is None or not partition.upcoming:
            return decision
        usable = partition.free_for(now, math.inf if job.estimate is None else job.estimate)
        if decision.procs.issubset(usable):
            return decision
        kept = decision.procs & usable
        more, n = usable - kept, len(decision.procs) - len(kept)
        if self.takes_any_procs and decision.mapping is None and n <= len(more) and self._cluster.nodes is None:
            procs = kept | more.first(n)
            self._taken = self._taken | (procs - decision.procs - self._left)
            self._left = (self._left | (decision.procs - procs)) - procs
            return replace(decision, procs=procs)
        self._n_deferred += job.id not in self._deferred
        self._deferred[job.id] = job, decision
        return None

    def adjust(self, decision: d.Decision) -> d.Decision:
        """Return a decision with processors that earlier jobs of the reply left, for those they were given."""
        if not self._taken or not isinstance(decision, d.ExecuteJob | d.Replace | d.StartAt):
            return decision
        procs: Any = getattr(decision, "procs", None)  # not checked yet
        if not isinstance(procs, IntervalSet) or procs.isdisjoint(self._taken):
            return decision
        partition = self._cluster.partition_at(procs)
        if partition is None:
            return decision
        lost, left = procs & self._taken, (self._left & partition.free) - procs
        if len(lost) > len(left):
            return decision
        other = left.first(len(lost))
        self._taken, self._left = self._taken - lost, self._left - other
        return replace(decision, procs=(procs - lost) | other)

    def _retry(self, job: Job, decision: d.ExecuteJob, now: float) -> None:
        """Start a job whose start was delayed, if it can start now."""
        partition = self._cluster.partition_at(decision.procs)
        if partition is not None and len(decision.procs) > partition.n_possible:
            self._reject(job, ("can never fit: partition {} has {} processors", partition.name, partition.n_possible))
            return
        if partition is not None and partition.machines_settled and not self.takes_any_procs:
            lost = decision.procs & partition.lost
            if lost:
                self._reject(job, ("its processors {} do not come back", lost))
                return
        if partition is not None:
            usable = partition.free_for(now, math.inf if job.estimate is None else job.estimate)
            n = len(decision.procs)
            procs = decision.procs & usable
            nodes = self._cluster.nodes
            if len(procs) < n or (nodes is not None and nodes.problem(nodes.requests.get(job.id, PLAIN), procs)):
                may_move = self.takes_any_procs and decision.mapping is None
                procs = self._place(job, n, usable) if may_move else EMPTY
            if procs:
                self._actions.carry_out(replace(decision, procs=procs, timestamp=None))
                return
        self._deferred[job.id] = job, decision

    def why_waiting(self, job: Job) -> d.Reason | None:
        """Return why a job waits for a reservation, or because of one; None if it does not."""
        for one in self._all:
            if job in one.waiting:
                return "waits for reservation {}, from {} on {}", one.spec.name, one.window.start_at, one.window.procs
        if job.id in self._deferred:
            return "its start is delayed: it would overlap a reservation"
        return None

    def figures(self) -> dict[str, float]:
        """Return how many starts were delayed, and how many jobs were killed."""
        return {"n_delayed_starts": self._n_deferred, "n_reservation_kills": self._failures.n_reservation_kills}

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """Return name, start, end and processors of all windows."""
        windows = self._windows
        return {
            "reservations": [
                {"name": w.name, "start": w.start_at, "end": w.end_at, "procs": str(w.procs)} for w in windows
            ]
        }
