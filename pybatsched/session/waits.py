"""The waits of a job from a journal: which jobs used the processors while it waited.

The running jobs are known from the recorded decisions and events. In which partition a job waited, and which processors
were held for it, is known only from the replayed policy, as in `pybatsched.session.explain`; without the policy the
whole machine is assumed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

from pybatsched.core import decisions as d, events as e
from pybatsched.core.derive import parent_in_note
from pybatsched.core.intervals import EMPTY, IntervalSet
from pybatsched.core.jobs import JobState
from pybatsched.errors import InputError, RemoteProtocolError
from pybatsched.session.diagnosis import obstacle_of
from pybatsched.session.explain import PolicyReplay, check_named, no_such_job
from pybatsched.session.journal import JournalReader
from pybatsched.session.replay import session_for
from pybatsched.session.session import Session
from pybatsched.session.transcript import Transcript

_Value = TypeVar("_Value", int, str)


@dataclass(slots=True)
class Holder:
    """A job that used processors during a wait: why it started (`how`), and its end, infinite if there is none."""

    job_id: str
    procs: IntervalSet
    started_at: float
    how: str
    submitted_at: float
    ended_at: float = math.inf

    @property
    def n_procs(self) -> int:
        """The number of its processors."""
        return len(self.procs)


@dataclass(slots=True)
class Wait:
    """A wait of a job: from its submission, or from a kill after which it was requeued, to its next start.

    If it did not start, the wait lasts to its rejection or to the end of the journal. `how` and `why` describe its end,
    `note` the end of the journal, `came_at` is the job's submission. `free` are the free processors during the wait as
    steps (from, number); empty for a job that started at once. `kept` are the processors held for it, in the same form.
    `obstacles` say from when on the job could not start whatever the queue: it was not eligible, or did not fit on
    nodes; an empty text is no obstacle. `holders` are in the order of their starts.

    `partitions` are the partitions in whose queues it waited, if there are several; `free`, `n_machine` and `holders`
    then refer to these. `is_asked` is false if the policy could not be replayed: they then refer to the whole machine.
    """

    job_id: str
    n_procs: int
    n_machine: int
    submitted_at: float
    ended_at: float
    how: str
    why: str
    note: str
    holders: list[Holder]
    free: list[tuple[float, int]]
    kept: list[tuple[float, int]] = field(default_factory=list)
    partitions: tuple[str, ...] = ()
    is_asked: bool = True
    is_requeued: bool = False
    came_at: float = 0.0
    obstacles: list[tuple[float, str]] = field(default_factory=list)
    eligible_at: float = 0.0

    @property
    def since(self) -> float:
        """The time from which on the job waited for processors."""
        return max(self.submitted_at, self.eligible_at)

    def held_s(self, holder: Holder) -> float:
        """Return how long a holder used its processors while the job waited for processors."""
        return min(holder.ended_at, self.ended_at) - max(holder.started_at, self.since)

    def spans_with(self, n_procs: int) -> list[tuple[float, float]]:
        """Return the intervals in which at least so many processors were free, without an obstacle. O(changes)."""
        return self._spans(self.usable(), n_procs)

    def usable(self) -> list[tuple[float, int]]:
        """Return the steps of `free`; -1 while there is an obstacle. O(changes)."""
        free, obstacles = dict(self.free), dict(self.obstacles)
        found: list[tuple[float, int]] = []
        n, obstacle = 0, ""
        for at in sorted({*free, *obstacles}):
            n, obstacle = free.get(at, n), obstacles.get(at, obstacle)
            found.append((at, -1 if obstacle else n))
        return found

    def spans_of_obstacles(self) -> dict[str, list[tuple[float, float]]]:
        """Return the intervals of each obstacle, in the order of their first ones. O(changes)."""
        texts = dict.fromkeys(text for _, text in self.obstacles if text)
        return {text: self._spans([(at, int(one == text)) for at, one in self.obstacles], 1) for text in texts}

    def spans_kept(self) -> list[tuple[float, float]]:
        """Return the intervals in which processors were held for the job. O(changes)."""
        return self._spans(self.kept, 1)

    def _spans(self, steps: list[tuple[float, int]], least: int) -> list[tuple[float, float]]:
        found: list[tuple[float, float]] = []
        ends = [*(at for at, _ in steps[1:]), self.ended_at][: len(steps)]
        for (begin, n), end in zip(steps, ends, strict=True):
            if n >= least and end > begin:
                if found and found[-1][1] == begin:
                    found[-1] = (found[-1][0], end)
                else:
                    found.append((begin, end))
        return found


class _QueueState(NamedTuple):
    """The state of the engine after an exchange: the partition in which a job waits, and the processors held for it."""

    partition: str
    procs: IntervalSet
    n_free: int
    n_kept: int
    obstacle: str
    is_eligible: bool


def _queue_state(session: Session | None, job_id: str) -> _QueueState | None:
    """Return where a job waits in a replayed session; None if it is unknown. O(partitions)."""
    job = None if session is None else session.engine.jobs.alive.get(job_id)
    if session is None or job is None:
        return None
    partition = job.partition if job.state is JobState.HELD else job.queued_in
    known = list(session.engine.cluster.partitions.values())
    chosen = [one for one in known if one is partition] or known
    procs = EMPTY
    for one in chosen:
        procs |= one.procs
    name = chosen[0].name if len(chosen) == 1 < len(known) else ""
    n_kept = len(job.procs) if job.state is JobState.HELD and job.procs is not None else 0
    n_free, engine = sum(one.n_free for one in chosen), session.engine
    return _QueueState(name, procs, n_free, n_kept, obstacle_of(engine, job), job.id not in engine.held_back)


@dataclass(slots=True)
class _CurrentWait:
    """The data of the current wait."""

    since: float
    is_requeued: bool = False
    ended: list[Holder] = field(default_factory=list)
    free: list[tuple[float, int]] = field(default_factory=list)
    kept: list[tuple[float, int]] = field(default_factory=list)
    procs: IntervalSet = EMPTY
    partitions: dict[str, None] = field(default_factory=dict)
    is_asked: bool = True
    obstacles: list[tuple[float, str]] = field(default_factory=list)
    eligible_at: float = -math.inf

    def see(self, at: float, seen: _QueueState | None, n_free: int) -> None:
        """Record the free and held processors from now on. `n_free` counts the processors without a job."""
        if seen is None:
            self.is_asked = False
        else:
            self.procs |= seen.procs
            self.partitions |= {seen.partition: None} if seen.partition else {}
            if seen.n_kept or self.kept:
                _step(self.kept, at, seen.n_kept)
            if not seen.is_eligible:
                self.eligible_at = math.inf
            elif self.eligible_at == math.inf:
                self.eligible_at = at
            if seen.obstacle or self.obstacles:
                _step(self.obstacles, at, seen.obstacle)
        _step(self.free, at, n_free if seen is None else seen.n_free)


def _step(steps: list[tuple[float, _Value]], at: float, n: _Value) -> None:
    if steps and steps[-1][0] == at:
        steps[-1] = (at, n)
    elif not steps or steps[-1][1] != n:
        steps.append((at, n))


@dataclass(slots=True)
class _Machine:
    """The running jobs by the journal, and the waits of one job."""

    job_id: str
    n_procs: int = 0
    away: IntervalSet = EMPTY
    busy: IntervalSet = EMPTY
    is_shared: bool = False
    submitted: dict[str, float] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    own_ids: dict[str, str] = field(default_factory=dict)
    running: dict[str, Holder] = field(default_factory=dict)
    namesakes: dict[str, None] = field(default_factory=dict)
    current: _CurrentWait | None = None
    runs_as: str = ""
    began: set[str] = field(default_factory=set)
    waits: list[Wait] = field(default_factory=list)

    def event(self, event: e.Event) -> None:
        """Apply an event. O(1), or O(running) if jobs share processors."""
        match event:
            case e.SimulationBegins(n_compute=n, n_resources=n_all):
                self.n_procs = n if n is not None else n_all or 0
            case e.JobSubmitted(job_id=job_id, job=job, timestamp=at):
                self._submitted(job_id, job, at)
            case e.JobCompleted(job_id=job_id, timestamp=at, final_state=state):
                self._ended(job_id, at, state)
            case e.Notify(kind=e.MACHINES_UNAVAILABLE, procs=procs) if procs is not None:
                self.away |= procs
            case e.Notify(kind=e.MACHINES_AVAILABLE, procs=procs) if procs is not None:
                self.away -= procs
            case _:
                pass

    def _submitted(self, job_id: str, job: Mapping[str, Any] | None, at: float) -> None:
        if job_id.rpartition("!")[2] == self.job_id.rpartition("!")[2]:
            self.namesakes[job_id] = None
        if job_id in self.own_ids or job_id in self.submitted:
            return
        self.submitted[job_id] = at
        self.sizes[job_id] = _size(job)
        if job_id == self.job_id:
            self.current = _CurrentWait(at)

    def _ended(self, wire_id: str, at: float, state: str) -> None:
        if wire_id == self.runs_as:
            self.runs_as = ""
            self.current = _CurrentWait(at, is_requeued=True) if state == e.COMPLETED_KILLED else None
        holder = self.running.pop(wire_id, None)
        if holder is None:
            return
        holder.ended_at = at
        self.busy -= holder.procs
        for other in self.running.values() if self.is_shared else ():
            self.busy |= other.procs
        if self.current is not None and at > self.current.since:
            self.current.ended.append(holder)

    def note(self, decision: d.Decision) -> None:
        """Record which job a new one is a segment of, from its metadata."""
        if isinstance(decision, d.SetJobMetadata) and (parent := parent_in_note(decision.metadata)):
            self.own_ids[decision.job_id] = parent

    def decision(self, decision: d.Decision, at: float, why: str) -> None:
        """Apply a decision."""
        match decision:
            case d.RegisterJob(job_id=wire_id, job=job):
                self._submitted(wire_id, job, at)
            case d.ExecuteJob(job_id=wire_id, procs=procs):
                self.began.add(wire_id)
                own = self.own_ids.get(wire_id, wire_id)
                if own == self.job_id:
                    self._finish_wait(at, f"started on {procs}", why)
                    self.runs_as = wire_id
                    return
                self.running[wire_id] = Holder(own, procs, at, why, self.submitted.get(own, 0.0))
                self.is_shared = self.is_shared or not self.busy.isdisjoint(procs)
                self.busy |= procs
            case d.RejectJob(job_id=wire_id) if wire_id == self.job_id and wire_id not in self.own_ids.values():
                self._finish_wait(at, "rejected", why)
            case _:
                pass

    def see(self, at: float, session: Session | None) -> None:
        """Record how many processors are free from now on; a job may run on an absent one. O(intervals)."""
        if self.current is not None:
            self.current.see(at, _queue_state(session, self.job_id), self.n_procs - len(self.away | self.busy))

    def finish(self, now: float) -> None:
        """Add a wait that has not ended. A job that was killed and not requeued does not wait."""
        to_begin = {wire_id for wire_id, own in self.own_ids.items() if own == self.job_id} - self.began
        if self.current is not None and (to_begin or not self.current.is_requeued):
            self._finish_wait(now, "not yet started", "")

    def _finish_wait(self, ended_at: float, how: str, why: str) -> None:
        current, self.current = self.current, None
        if current is None or self.job_id not in self.submitted:  # the message may be missing in the journal
            return
        is_part = current.is_asked and bool(current.partitions)
        holders = [
            replace(holder, procs=holder.procs & current.procs) if is_part else replace(holder)
            for holder in (*current.ended, *self.running.values())
            if max(holder.started_at, current.since, current.eligible_at) < min(holder.ended_at, ended_at)
        ]
        holders = [holder for holder in holders if holder.procs]
        holders.sort(key=lambda holder: (holder.started_at, holder.job_id))
        self.waits.append(
            Wait(
                self.job_id,
                self.sizes[self.job_id],
                len(current.procs) if is_part else self.n_procs,
                current.since,
                ended_at,
                how,
                why,
                "",
                holders,
                current.free,
                current.kept,
                tuple(current.partitions) if is_part else (),
                current.is_asked,
                current.is_requeued,
                self.submitted[self.job_id],
                current.obstacles,
                current.eligible_at,
            )
        )


def waits_of(
    reader: JournalReader, job_id: str, policy: str | None = None, given: Mapping[str, Any] | None = None
) -> list[Wait]:
    """Return all waits of a job or segment. `policy` and `given` are as in `replay`. O(journal). Raises InputError."""
    check_named(reader.path, job_id)
    machine = _Machine(job_id)
    replayed = PolicyReplay(None)
    try:
        replayed.session = session_for(reader, policy, given)
    except InputError:
        if policy is not None or given:
            raise
    transcript = Transcript()
    now = 0.0
    for exchange in reader.exchanges():
        if exchange.reply is not None:
            replayed.play(exchange)
        try:
            message, reply = transcript.events(exchange), transcript.decisions(exchange)
        except RemoteProtocolError:
            continue  # `explain` reports it
        now = message.now
        for event in message.items:
            machine.event(event)
        decisions = () if reply is None else reply.items
        for decision in decisions:
            machine.note(decision)
        for index, decision in enumerate(decisions):
            why = exchange.reasons[index] if index < len(exchange.reasons) else ""
            machine.decision(decision, decision.timestamp or now, why)
        machine.see(now, replayed.session)
    machine.finish(now)
    if job_id in machine.own_ids:  # a segment: return the waits of its job
        again = JournalReader(reader.path, is_trusted=reader.is_trusted)
        return waits_of(again, machine.own_ids[job_id], policy, given)
    if not machine.waits:
        raise no_such_job(reader, job_id, machine.namesakes)
    note, session = reader.note, replayed.session
    if session is not None and (option := session.engine.policy.machine_option):
        note += f"; the partitions and limits of {option} are not considered here; its history has the policy's reasons"
    return [replace(wait, note=note) for wait in machine.waits]


def _size(job: Mapping[str, Any] | None) -> int:
    n = (job or {}).get("res")
    return n if isinstance(n, int) else 0
