"""Other programs that kill and register jobs beside the scheduler, and a ledger of all messages by its own rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from pybatsched.core import decisions as d, events as e
from pybatsched.core.intervals import IntervalSet
from pybatsched.simulator.execution import SHORTEST_CALL_S, Answer
from pybatsched.simulator.simulation import Scheduler
from reliability.soak.scenes import Job, Scene

_GONE: Final = frozenset((e.MACHINES_UNAVAILABLE, e.DRAIN))
_BACK: Final = frozenset((e.MACHINES_AVAILABLE, e.UNDRAIN))


class Ledger:
    """All messages in order, and their problems by the rules of Batsim."""

    def __init__(self, n_procs: int) -> None:
        self.problems: list[str] = []
        self.n_messages = self.n_events = 0
        self.counts: Counter[str] = Counter()
        self.notes: dict[str, str] = {}
        self.waiting: dict[str, int] = {}
        self.running: dict[str, frozenset[int]] = {}
        self.over: set[str] = set()
        self.killing: set[str] = set()
        self.killed_by_others: set[str] = set()
        self.busy: dict[int, str] = {}
        self.away: set[int] = set()
        self.drained: set[int] = set()
        self._n_procs = n_procs
        self._registered: set[str] = set()

    def observe(self, events: Sequence[e.Event]) -> None:
        """Record the events sent to the scheduler."""
        self.n_messages += 1
        for event in events:
            self.n_events += type(event) is not e.RequestedCall
            if isinstance(event, e.JobSubmitted):
                if event.job_id not in self._registered:
                    assert event.job is not None
                    self.waiting[event.job_id] = event.job["res"]
            elif isinstance(event, e.JobCompleted):
                self._end(event.job_id)
            elif isinstance(event, e.Notify) and event.kind in _GONE | _BACK:
                procs = set(event.procs or IntervalSet.parse(str(event.extra.get("resources"))))
                which = self.drained if event.kind in {e.DRAIN, e.UNDRAIN} else self.away
                which.update(procs) if event.kind in _GONE else which.difference_update(procs)

    def _end(self, job_id: str) -> None:
        procs = self.running.pop(job_id, None)
        if procs is None:
            self.problems.append(f"{job_id} has ended and did not run")
            return
        self._close(job_id)
        for proc in procs:
            del self.busy[proc]

    def _close(self, job_id: str) -> None:
        if job_id in self.over:
            self.problems.append(f"{job_id} is over twice")
        self.over.add(job_id)
        self.killing.discard(job_id)

    def obey(self, decisions: Sequence[d.Decision]) -> None:
        """Record the decisions of the scheduler."""
        for decision in decisions:
            if isinstance(decision, d.ExecuteJob):
                self._start(decision.job_id, frozenset(decision.procs))
            elif isinstance(decision, d.RejectJob):
                if self.waiting.pop(decision.job_id, None) is None:
                    self.problems.append(f"{decision.job_id} is rejected and does not wait")
                self._close(decision.job_id)
            elif isinstance(decision, d.KillJob):
                self.killing.update(decision.job_ids)
                for job_id in decision.job_ids:
                    if job_id not in self.running:
                        self.problems.append(f"{job_id} is killed and does not run")
            elif isinstance(decision, d.RegisterJob):
                self.counts["segments"] += 1
                if decision.job_id in self.waiting.keys() | self.running.keys() | self.over:
                    self.problems.append(f"{decision.job_id} is registered and was there before")
                self._registered.add(decision.job_id)
                self.waiting[decision.job_id] = decision.job["res"]
            elif isinstance(decision, d.SetJobMetadata):
                self.notes[decision.job_id] = decision.metadata

    def _start(self, job_id: str, procs: frozenset[int]) -> None:
        n = self.waiting.pop(job_id, None)
        if n is None:
            self.problems.append(f"{job_id} is started and does not wait")
            return
        if n != len(procs):
            self.problems.append(f"{job_id} asks for {n} processors and is started on {len(procs)}")
        if taken := {self.busy[proc] for proc in procs if proc in self.busy}:
            self.problems.append(f"{job_id} is started on processors of {', '.join(sorted(taken))}")
        if self.away & procs:
            self.problems.append(f"{job_id} is started on processors that are away")
        if self.drained & procs:
            self.problems.append(f"{job_id} is started on drained processors")
        if not all(0 <= proc < self._n_procs for proc in procs):
            self.problems.append(f"{job_id} is started on processors that do not exist")
        self.running[job_id] = procs
        self.busy.update(dict.fromkeys(procs, job_id))


class Others:
    """Between the simulator and a scheduler: another program that kills and registers jobs, and delays."""

    def __init__(self, scene: Scene, scheduler: Scheduler, ledger: Ledger, *, acknowledged: bool) -> None:
        self._scene = scene
        self._scheduler = scheduler
        self._ledger = ledger
        self._acknowledged = acknowledged
        self._to_register = list(scene.others)
        self._to_kill = sorted(scene.kills, key=lambda kill: kill.at)
        self._calls: list[float] = []
        self._is_finished_held = False

    def __call__(self, now: float, events: Sequence[e.Event]) -> Answer:
        """Pass a message on, if it is one for the scheduler, and add to the reply what the others want."""
        ledger = self._ledger
        known = self._without_own_calls(events)
        before: list[d.Decision] = []
        has_begun = type(events[0]) is not e.SimulationBegins
        while has_begun and self._to_register and self._to_register[0].at <= now:
            job = self._to_register.pop(0)
            before += self._registration(job, now)
            if not self._acknowledged:
                described = {**job.described(), "id": job.id}
                profile = job.profiles[job.profile] if self._scene.forward else None
                known.append(e.JobSubmitted(job.id, described, profile, timestamp=now))
        if not known:
            reply_now, reply = now, list[d.Decision]()
        else:
            ledger.observe(known)
            reply_now, decisions = self._scheduler(now, known)
            reply = self._with_registration_open(decisions)
            ledger.obey(reply)
            if self._scene.late and type(known[-1]) is not e.SimulationEnds:
                late = self._scene.late
                reply_now = max(reply_now, round(now + late[ledger.n_messages % len(late)], 6))
        reply = before + reply + self._kills(now)
        if not self._to_register and self._is_finished_held:
            self._is_finished_held = False
            reply.append(d.Notify(d.REGISTRATION_FINISHED, timestamp=now))
        if not has_begun:  # request calls for its own actions; the scheduler never gets these calls
            wanted = [job.at for job in self._to_register] + [kill.at for kill in self._to_kill]
            self._calls = sorted({max(at, now + SHORTEST_CALL_S) for at in wanted})
            reply += [d.CallMeLater(at, timestamp=now) for at in self._calls]
        return reply_now, reply

    def _without_own_calls(self, events: Sequence[e.Event]) -> list[e.Event]:
        kept = []
        for event in events:
            if type(event) is e.RequestedCall and self._calls and self._calls[0] <= event.timestamp + 1e-9:
                self._calls.pop(0)
            else:
                kept.append(event)
        return kept

    def _registration(self, job: Job, now: float) -> list[d.Decision]:
        self._ledger.counts["registered"] += 1
        profiles = [
            d.RegisterProfile(job.workload, name, profile, timestamp=now) for name, profile in job.profiles.items()
        ]
        return [*profiles, d.RegisterJob(job.id, job.described(), timestamp=now)]

    def _with_registration_open(self, decisions: Sequence[d.Decision]) -> list[d.Decision]:
        """Leave out decisions that would finish the registration while another program still registers."""
        reply = []
        for decision in decisions:
            if isinstance(decision, d.Notify) and (self._to_register or self._is_finished_held):
                self._is_finished_held = decision.kind == d.REGISTRATION_FINISHED
            else:
                reply.append(decision)
        return reply

    def _kills(self, now: float) -> list[d.Decision]:
        ledger, found = self._ledger, list[d.Decision]()
        while self._to_kill and self._to_kill[0].at <= now:
            kill = self._to_kill.pop(0)
            running = sorted(ledger.running.keys() - ledger.killing)
            if running:
                victim = running[kill.nth % len(running)]
                ledger.killing.add(victim)
                ledger.killed_by_others.add(victim)
                ledger.counts["kills"] += 1
                found.append(d.KillJob((victim,), timestamp=now))
        return found
