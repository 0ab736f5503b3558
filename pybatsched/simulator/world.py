"""The state of a simulation that its parts share, so that they do not depend on each other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from pybatsched.core import events as e
from pybatsched.core.finished_jobs import IdSet
from pybatsched.core.instants import on_tick
from pybatsched.errors import InputError, NotSimulatedError, RemoteProtocolError
from pybatsched.simulator import jobs as j
from pybatsched.simulator.given_jobs import GivenJobs, check_fits, spelled_twice
from pybatsched.simulator.hosts import Book, CountingBook, HostBook
from pybatsched.simulator.jobs import SimJob
from pybatsched.simulator.loop import Loop
from pybatsched.simulator.observers import Observer, Observers
from pybatsched.simulator.options import Scenario
from pybatsched.simulator.work.profiles import USAGE, Work, WorkTable, resolve, storage_fault
from pybatsched.simulator.work.usage_traces import read_ranks
from pybatsched.workload.jobs import name_in
from pybatsched.workload.resample.feedback import held_back


class Refusal(RemoteProtocolError):  # noqa: N818  the simulator refuses; the error is the scheduler's
    """The scheduler made a decision on which Batsim would abort."""


class World:
    """Jobs, machines, counts of active processes, and the events of the next message.

    `jobs` are those that Batsim still has in memory, without those of the workloads that are not made yet
    (`given_jobs`). `finished_jobs` are finished jobs, which are removed when the next
    message is sent. `hosts` is the `HostBook`, or None in runs that need only counts.
    """

    loop: Loop  # set by `kernels.kernel_of`

    def __init__(self, scenario: Scenario, observers: Sequence[Observer]) -> None:
        self.scenario = scenario
        self.options = scenario.options
        self.observers = Observers(observers)
        self.jobs: dict[str, SimJob] = {}
        self._forgotten = IdSet()  # with dynamic jobs: the ids of finished jobs, which cannot be used again
        self.works: dict[str, WorkTable] = {}
        self.finished_jobs: list[SimJob] = []
        self.outbox: list[e.Event] = []
        self.n_submitted = 0
        self.n_finished = 0
        self.n_running = 0
        self.n_calls = 0
        self.n_kills = 0
        self.n_switching = 0
        self.jobs_j: float | None = None  # the energy of the finished jobs, as in the file of jobs
        self.registration_finished = False
        self.held_back: set[str] = set()  # with feedback: the ids of jobs that the scheduler registers
        self.varies = False  # whether a profile has no fixed speed
        self._given: dict[str, GivenJobs] = {}
        self._registered: dict[str, list[SimJob]] = {}  # until `take_jobs`
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
        """Return the clock as in messages, with six decimals. Cached, because rounding is slow."""
        now = self.loop.now
        if now != self._stamped_at:
            self._stamped_at = now
            self._stamp = on_tick(now)
        return self._stamp

    # --- jobs ---

    def _load(self) -> None:
        for name, given in self.scenario.workloads.items():
            workload, held = held_back(name, given)
            self.held_back.update(job.id for job in held)
            works = resolve(given.profiles, dict.fromkeys(given.values("profile"))).known()
            self.works[name] = WorkTable({work.name: work for work in works if work.name in workload.profiles})
            for work in works:
                if work.kind == USAGE:
                    work.ranks = read_ranks(work.name, work.described, workload.source)
                    work.rank_counts = frozenset({len(work.ranks)})
                elif work.parts:  # parts come first in the table
                    work.rank_counts = frozenset().union(*(part.rank_counts for part in work.parts))
                if work.uses_storage and (fault := self._storage_fault(work)):
                    raise InputError(f"{workload.source or name}: profile {work.name}: {fault}")
            self._given[name] = GivenJobs(name, workload, {work.name: work for work in works}, self.jobs)
            self._registered[name] = []
            self.varies = self.varies or any(map(self.what_varies, works))

    def _storage_fault(self, work: Work) -> str:
        """Return what is wrong with a profile that uses storage; empty if nothing is."""
        platform = self.scenario.platform
        if platform.network is not None and not platform.storage:
            return f"uses storage; expected a host with the property role = storage in {platform.source}"
        return storage_fault(work.described)

    def what_varies(self, work: Work) -> str:
        """Return what in a profile has no fixed speed, so that only SimGrid's clock has it; empty if nothing does."""
        if work.communicates:
            return "communicates"
        if work.rank_counts:
            return "replays a usage trace"
        return "shares processors" if work.computes and self.options.compute_sharing else ""

    def check_works(self, why_refused: Callable[[Work], str | None]) -> None:
        """Raise NotSimulatedError for a job whose profile cannot be executed. O(profiles), O(jobs) if there is one."""
        for name, given in self.scenario.workloads.items():
            works = self._given[name].works.values()
            refused = {work.name: why for work in works if (why := why_refused(work)) is not None}
            for fields in given.jobs if refused else ():
                if (profile := fields["profile"]) in refused:
                    raise NotSimulatedError(
                        f"{given.source or name}: job {fields['id']}: {refused[profile]}; run it with Batsim"
                    )

    def make_job(self, workload: str, fields: Any) -> SimJob:
        """Create a registered job, whose profile exists. Its submitter gets it, unless it has taken its jobs."""
        work = self.works[workload].get(fields["profile"])
        assert work is not None
        job = SimJob(workload, name_in(workload, fields["id"]), fields, work)
        if job.id in self.jobs or (self.n_finished and self._forgotten.has(job.id)):
            raise spelled_twice(job.id, fields["id"])
        check_fits(job.id, fields, work)
        self.jobs[job.id] = job
        if workload in self._registered:
            self._registered[workload].append(job)
        return job

    @property
    def n_unmade(self) -> int:
        """The number of jobs of the workloads that are not in `jobs` yet."""
        return sum(given.n_unmade for given in self._given.values())

    def all_jobs(self) -> Collection[SimJob]:
        """Return the jobs that Batsim has in memory, after making those that are not made yet. O(jobs)."""
        for given in self._given.values():
            given.make_all()
        return self.jobs.values()

    def find(self, job_id: str) -> SimJob | None:
        """Return a job that Batsim has in memory; None if there is none. O(1) for submitted jobs, else O(jobs)."""
        job = self.jobs.get(job_id)
        if job is None and (given := self._given_with(job_id)) is not None:
            given.make_all()
            job = self.jobs.get(job_id)
        return job

    def has_seen(self, job_id: str) -> bool:
        """Return whether a job with this id exists or existed. O(log jobs)."""
        return job_id in self.jobs or self._forgotten.has(job_id) or self._given_with(job_id) is not None

    def _given_with(self, job_id: str) -> GivenJobs | None:
        """Return the jobs of the workload that had this job from the start."""
        given = self._given.get(job_id.partition("!")[0])
        return given if given is not None and job_id in given.ids else None

    def take_jobs(self, workload: str) -> Iterator[SimJob]:
        """Return the jobs of a workload in order of submission, for its submitter. Each is made when it is next."""
        registered = self._registered.pop(workload)
        arrivals = self._given[workload].arrivals()
        return iter(sorted([*registered, *arrivals], key=lambda job: (job.subtime, job.id))) if registered else arrivals

    def record_finished(self, job: SimJob) -> None:
        """Record a finished job; `forget_jobs` removes it when the next message is sent."""
        self.n_finished += 1
        if job.energy_j >= 0:
            self.jobs_j = (self.jobs_j or 0.0) + round(job.energy_j, 6)
        if self.observers.finished:
            outcome = job.outcome()
            for finished in self.observers.finished:
                finished(job, outcome)
        self.finished_jobs.append(job)

    def forget_jobs(self) -> None:
        """Remove the finished jobs, and their profiles unless profiles are reused."""
        for job in self.finished_jobs:
            del self.jobs[job.id]
            if self.options.dynamic_jobs:
                self._forgotten.add(job.id)
            if not self.options.profile_reuse:
                self.works[job.workload].forget(job.work.name)
        self.finished_jobs.clear()

    @property
    def is_idle(self) -> bool:
        """Whether all jobs have ended, nothing is in progress and no job can be registered."""
        return (
            self.n_finished == self.n_submitted
            and not (self.n_running or self.n_calls or self.n_kills or self.n_switching)
            and (self.registration_finished or not self.options.dynamic_jobs)
        )

    # --- events of the next message ---

    def add_submitted(self, job: SimJob) -> None:
        """Add JOB_SUBMITTED to the next message."""
        profile = j.rounded(job.work.described) if self.options.forward_profiles else None
        fields = j.sent_fields(job.fields, job.id)
        self.outbox.append(e.JobSubmitted(job.id, fields, profile, timestamp=self.stamp()))
