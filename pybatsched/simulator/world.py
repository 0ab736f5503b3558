"""The state of a simulation: what its parts share, and the notices that any of them may post.

The clock and the mailbox are the loop's; who runs, what is written and what has been said so far is kept here, so that
no part needs to know the others.
"""

from __future__ import annotations

from typing import Any

from pybatsched.core import events as e
from pybatsched.core.finished_jobs import IdSet
from pybatsched.core.instants import on_tick
from pybatsched.errors import InputError, NotSimulatedError, RemoteProtocolError
from pybatsched.simulator import jobs as j
from pybatsched.simulator.jobs import SimJob
from pybatsched.simulator.loop import Loop
from pybatsched.simulator.machine.hosts import Book, CountingBook, HostBook
from pybatsched.simulator.options import Scenario
from pybatsched.simulator.outputs.files import Outputs
from pybatsched.simulator.work.profiles import USAGE, WorkTable, resolve
from pybatsched.simulator.work.usage_traces import check_places, read_ranks
from pybatsched.workload.formats.conversion import gc_paused
from pybatsched.workload.jobs import name_in


class Refusal(RemoteProtocolError):  # noqa: N818  its name says whose fault it is not
    """The scheduler asked for something that Batsim does not survive."""


class World:
    """Jobs, machines, counts of what is under way, and the next message in the making.

    `jobs` are those that Batsim would still know, `over_now` those that are over and forgotten when the next message
    leaves. `hosts` is the book by host, where one is needed.
    """

    def __init__(self, scenario: Scenario, loop: Loop, outputs: Outputs) -> None:
        self.scenario = scenario
        self.options = scenario.options
        self.loop = loop
        self.outputs = outputs
        self.jobs: dict[str, SimJob] = {}
        self._forgotten = IdSet()
        self.works: dict[str, WorkTable] = {}
        self.over_now: list[SimJob] = []
        self.outbox: list[e.Event] = []
        self.n_submitted = 0
        self.n_over = 0
        self.n_running = 0
        self.n_calls = 0
        self.n_kills = 0
        self.n_switching = 0
        self.registration_finished = False
        self.replays_usage = False
        self._by_workload: dict[str, list[SimJob]] = {}  # until their submitters take them
        self._stamp = self._stamped_at = 0.0
        platform = scenario.platform
        by_host = self.options.compute_sharing or self.options.energy or bool(scenario.event_lists or platform.storage)
        self.hosts = (
            HostBook(
                platform.n_procs,
                shared=self.options.compute_sharing,
                n_storage=len(platform.storage),
                storage_shared=self.options.storage_sharing,
            )
            if by_host
            else None
        )
        self.book: Book = self.hosts or CountingBook(platform.n_procs)
        self._load()

    @property
    def now(self) -> float:
        """The clock."""
        return self.loop.now

    def stamp(self) -> float:
        """Give the clock as it is written on the wire. Rounding is dear, and an instant has several stamps."""
        now = self.loop.now
        if now != self._stamped_at:
            self._stamped_at = now
            self._stamp = on_tick(now)
        return self._stamp

    # --- jobs ---

    def _load(self) -> None:
        for name, workload in self.scenario.workloads.items():
            used = dict.fromkeys(job["profile"] for job in workload.jobs)
            self.works[name] = table = resolve(name, workload.profiles, used)
            for work in table.known():
                if work.kind == USAGE:
                    work.ranks = read_ranks(work.name, work.described, workload.source)
                    work.rank_counts = frozenset({len(work.ranks)})
                    self.replays_usage = True
                elif work.parts:  # which come before it
                    work.rank_counts = frozenset().union(*(part.rank_counts for part in work.parts))
            refused = {work.name: work.refusal for work in table.known() if work.refusal is not None}
            jobs = self._by_workload[name] = []
            with gc_paused():
                for fields in workload.jobs:
                    profile = fields["profile"]
                    if profile in refused:
                        raise NotSimulatedError(
                            f"{workload.source or name}: job {fields['id']}: {refused[profile]}; run it with Batsim"
                        )
                    jobs.append(self.make_job(name, fields))

    def make_job(self, workload: str, fields: Any) -> SimJob:
        """Take in a job; its profile is known."""
        work = self.works[workload].get(fields["profile"])
        assert work is not None
        name = name_in(workload, fields["id"])
        job = SimJob(workload, name, fields, work)
        if job.id in self.jobs or (self.n_over and self._forgotten.has(job.id)):
            raise InputError(f"there are two jobs {job.id}: {fields['id']!r} is another way to write the same id")
        if not work.sizes <= {job.res}:
            written_for = ", ".join(map(str, sorted(work.sizes)))
            raise InputError(
                f"job {job.id} asks for {job.res} processors; its profile {work.name} is written for {written_for}"
            )
        if work.rank_counts:
            check_places(work.rank_counts, fields, f"job {job.id}")
        self.jobs[job.id] = job
        return job

    def has_met(self, job_id: str) -> bool:
        """Tell whether there is a job of this id, or ever was."""
        return job_id in self.jobs or self._forgotten.has(job_id)

    def register(self, job: SimJob) -> None:
        """Note a job made at run time with its workload, if that has a submitter that has not taken its jobs yet."""
        if job.workload in self._by_workload:
            self._by_workload[job.workload].append(job)

    def take_jobs(self, workload: str) -> list[SimJob]:
        """Hand the jobs of a workload over to its submitter."""
        return self._by_workload.pop(workload)

    def over(self, job: SimJob) -> None:
        """Write a job down as over; it is forgotten when the next message leaves."""
        self.n_over += 1
        self.outputs.job(job)
        self.over_now.append(job)

    def forget_jobs(self) -> None:
        """Forget the jobs that are over, and the profiles that go with them."""
        for job in self.over_now:
            del self.jobs[job.id]
            self._forgotten.add(job.id)
            if not self.options.profile_reuse:
                self.works[job.workload].forget(job.work.name)
        self.over_now.clear()

    @property
    def is_at_rest(self) -> bool:
        """Whether all jobs are over, nothing is under way and nothing can be registered any more."""
        return (
            self.n_over == self.n_submitted
            and not (self.n_running or self.n_calls or self.n_kills or self.n_switching)
            and (self.registration_finished or not self.options.dynamic_jobs)
        )

    # --- what is said ---

    def say(self, event: e.Event) -> None:
        """Put an event into the next message."""
        self.outbox.append(event)

    def tell_submitted(self, job: SimJob) -> None:
        """Say JOB_SUBMITTED."""
        profile = j.rounded(job.work.described) if self.options.forward_profiles else None
        told = j.as_told(job.fields, job.id)
        self.outbox.append(e.JobSubmitted(job.id, told, profile, timestamp=self.stamp()))

    def tell_completed(self, job: SimJob) -> None:
        """Say JOB_COMPLETED."""
        ended = e.JobCompleted(job.id, job.state, job.return_code, str(job.alloc), timestamp=self.stamp())
        self.outbox.append(ended)
