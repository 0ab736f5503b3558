"""Held jobs: processors are kept for a waiting job, and it starts on them at an instant to come.

For Batsim nothing happens until then; the engine asks for a call at that instant. For everybody who plans, a held job
runs already and ends an estimate after its start.
"""

from __future__ import annotations

from pybatsched.core import decisions as d
from pybatsched.core.cluster import Cluster
from pybatsched.core.desk import Desk
from pybatsched.core.instants import HALF_TICK
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import Job
from pybatsched.core.notes import Notes


class Holds:
    """The held jobs of one run."""

    def __init__(self, cluster: Cluster, notes: Notes, desk: Desk) -> None:
        self._cluster = cluster
        self._notes = notes
        self._desk = desk
        self.jobs: dict[str, Job] = {}
        self._called_at: set[float] = set()

    def hold(self, job: Job, decision: d.StartAt) -> None:
        """Keep processors for a waiting job and ask for the call; one that is to start now starts. O(k)."""
        now = self._desk.now
        at = round(decision.at, 6)
        if at <= now:
            reason = decision.reason
            self._desk.carry_out(d.ExecuteJob(job.id, decision.procs, timestamp=decision.timestamp, reason=reason))
            return
        job.held(now, at, decision.procs, self._cluster.partition_at(decision.procs), decision.reason)
        self._cluster.occupy(job)
        self.jobs[job.id] = job
        self._called_at = {due_at for due_at in self._called_at if due_at > now}
        if at not in self._called_at:
            self._called_at.add(at)
            self._desk.carry_out(d.CallMeLater(at, reason=("{} is held on {} and starts then", job.id, decision.procs)))

    def release(self, job: Job) -> None:
        """Let the job wait again and give its processors back. O(k)."""
        del self.jobs[job.id]
        self._cluster.vacate(job)
        job.wait_again(job.present_terms)

    def start_due(self, now: float) -> None:
        """Start whose instant has come, in the order of these instants. O(held)."""
        due = [job for job in self.jobs.values() if job.start_at is not None and job.start_at <= now + HALF_TICK]
        for job in sorted(due, key=lambda job: (job.start_at, job.seq)):
            procs, reason, held_from = job.procs, job.start_reason, job.held_from
            assert procs is not None
            assert held_from is not None
            self.release(job)
            self._desk.take_shape(job, reason)  # first: what is noted is noted of what runs
            note = self._notes.add_fact(job.wire_id, f"held_s={now - held_from:.12g}")
            self._desk.send(d.SetJobMetadata(job.wire_id, note, reason="how long its processors were kept for it"))
            self._desk.carry_out(d.ExecuteJob(job.id, procs, reason=reason))

    def lose(self, gone: IntervalSet) -> list[tuple[Job, IntervalSet]]:
        """Release the jobs that were held on processors that have gone. Gives them, and what they were held on."""
        lost = [(job, job.procs) for job in self.jobs.values() if job.procs and not job.procs.isdisjoint(gone)]
        for job, _ in lost:
            self.release(job)
        return lost
