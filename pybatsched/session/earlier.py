"""Why a job did not start earlier, from a journal: who held the processors while it waited.

Nothing is asked of the policy here. What ran is known from the recorded decisions and events, whatever the policy says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pybatsched.core import decisions as d
from pybatsched.core import events as e
from pybatsched.core.derive import parent_in_note
from pybatsched.core.intervals import EMPTY, IntervalSet
from pybatsched.errors import RemoteProtocolError
from pybatsched.protocol import v4
from pybatsched.session.explain import no_such_job
from pybatsched.session.journal import JournalReader


@dataclass(slots=True)
class Holder:
    """A job that held processors while another one waited; `ended_at` is infinite if it still does in the end.

    `how` is the reason it was started by, `submitted_at` when it came.
    """

    job_id: str
    procs: IntervalSet
    started_at: float
    how: str
    submitted_at: float
    ended_at: float = math.inf

    @property
    def n_procs(self) -> int:
        """How many processors it held."""
        return len(self.procs)


@dataclass(slots=True)
class Wait:
    """The wait of a job, from its submission to its first start, its rejection or the end of the journal.

    `how` and `why` tell which of these it was, `note` whether the journal is whole.
    `free` are the processors that were free meanwhile: (from, how many), each until the next one; nothing of a job that
    started at once. `holders` are in the order of their starts.
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

    def held_s(self, holder: Holder) -> float:
        """Give how long a holder was there while the job waited."""
        return min(holder.ended_at, self.ended_at) - max(holder.started_at, self.submitted_at)

    def spans_with(self, n_procs: int) -> list[tuple[float, float]]:
        """Give when so many processors were free, or more. O(changes)."""
        found: list[tuple[float, float]] = []
        ends = [*(at for at, _ in self.free[1:]), self.ended_at][: len(self.free)]
        for (begin, n_free), end in zip(self.free, ends, strict=True):
            if n_free >= n_procs and end > begin:
                if found and found[-1][1] == begin:
                    found[-1] = (found[-1][0], end)
                else:
                    found.append((begin, end))
        return found


@dataclass(slots=True)
class _Machine:
    """Who runs, as a journal tells it, and since the job in question waits, how many processors are free."""

    job_id: str
    n_procs: int = 0
    away: IntervalSet = EMPTY
    busy: IntervalSet = EMPTY
    is_shared: bool = False
    submitted: dict[str, float] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    own_ids: dict[str, str] = field(default_factory=dict)
    running: dict[str, Holder] = field(default_factory=dict)
    over: list[Holder] = field(default_factory=list)
    free: list[tuple[float, int]] = field(default_factory=list)
    namesakes: dict[str, None] = field(default_factory=dict)

    @property
    def is_waiting(self) -> bool:
        return self.job_id in self.submitted

    def event(self, event: e.Event) -> None:
        """Take in an event. O(1), or O(running) where jobs have shared a processor."""
        match event:
            case e.SimulationBegins(n_compute=n, n_resources=n_all):
                self.n_procs = n if n is not None else n_all or 0
            case e.JobSubmitted(job_id=job_id, job=job, timestamp=at) if job_id not in self.own_ids:
                self.submitted.setdefault(job_id, at)
                self.sizes[job_id] = _size(job)
                if job_id.rpartition("!")[2] == self.job_id.rpartition("!")[2]:
                    self.namesakes[job_id] = None
            case e.JobCompleted(job_id=job_id, timestamp=at):
                holder = self.running.pop(job_id, None)
                if holder is not None:
                    holder.ended_at = at
                    self.busy -= holder.procs
                    for other in self.running.values() if self.is_shared else ():
                        self.busy |= other.procs
                    if self.is_waiting and at > self.submitted[self.job_id]:
                        self.over.append(holder)
            case e.Notify(kind=e.MACHINES_UNAVAILABLE, procs=procs) if procs is not None:
                self.away |= procs
            case e.Notify(kind=e.MACHINES_AVAILABLE, procs=procs) if procs is not None:
                self.away -= procs
            case _:
                pass

    def note(self, decision: d.Decision) -> None:
        """Take from a note which job a new one is a part of."""
        if isinstance(decision, d.SetJobMetadata) and (parent := parent_in_note(decision.metadata)):
            self.own_ids[decision.job_id] = parent

    def decision(self, decision: d.Decision, at: float, why: str) -> tuple[float, str, str] | None:
        """Take in a decision. Tells when, how and why the wait ended, if it did so by this one."""
        match decision:
            case d.ExecuteJob(job_id=wire_id, procs=procs):
                own = self.own_ids.get(wire_id, wire_id)
                if own == self.job_id:
                    return at, f"started on {procs}", why
                self.running[wire_id] = Holder(own, procs, at, why, self.submitted.get(own, 0.0))
                self.is_shared = self.is_shared or not self.busy.isdisjoint(procs)
                self.busy |= procs
            case d.RejectJob(job_id=wire_id) if wire_id == self.job_id and wire_id not in self.own_ids.values():
                return at, "rejected", why
            case _:
                pass
        return None

    def count(self, at: float) -> None:
        """Note how many processors are free from now on: a job may run on one that is away. O(intervals)."""
        n_free = self.n_procs - len(self.away | self.busy)
        if self.free and self.free[-1][0] == at:
            self.free[-1] = (at, n_free)
        elif not self.free or self.free[-1][1] != n_free:
            self.free.append((at, n_free))


def why_not_earlier(reader: JournalReader, job_id: str) -> Wait:
    """Tell who held the processors from a job's submission to its first start. Raises InputError for an unknown job.

    O(journal), and O(intervals of processors) for each message in between.
    """
    machine = _Machine(job_id)
    now, ending = 0.0, None
    exchanges = reader.exchanges()
    for exchange in exchanges:
        try:
            message = v4.decode_events(exchange.request)
            reply = None if exchange.reply is None else v4.decode_decisions(exchange.reply)
        except RemoteProtocolError:
            continue  # explain tells of it
        now = message.now
        for event in message.items:
            machine.event(event)
        decisions = () if reply is None else reply.items
        for decision in decisions:
            machine.note(decision)
        for index, decision in enumerate(decisions):
            why = exchange.reasons[index] if index < len(exchange.reasons) else ""
            ending = ending or machine.decision(decision, decision.timestamp or now, why)
        if ending is not None:
            break
        if machine.is_waiting:
            machine.count(now)
    for _ in exchanges:  # whether it is cut is known at its end
        pass
    if not machine.is_waiting:
        raise no_such_job(reader, job_id, machine.namesakes)
    ended_at, how, why = ending or (now, "not yet started", "")
    submitted_at = machine.submitted[job_id]
    holders = [
        holder
        for holder in (*machine.over, *machine.running.values())
        if max(holder.started_at, submitted_at) < min(holder.ended_at, ended_at)
    ]
    holders.sort(key=lambda holder: (holder.started_at, holder.job_id))
    return Wait(
        job_id,
        machine.sizes[job_id],
        machine.n_procs,
        submitted_at,
        ended_at,
        how,
        why,
        reader.note,
        holders,
        machine.free,
    )


def _size(job: Mapping[str, Any] | None) -> int:
    n = (job or {}).get("res")
    return n if isinstance(n, int) else 0
