"""Execution of jobs with fixed speeds; `pybatsched.simulator.work.tasks` runs tasks whose rates change."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from pybatsched.core import events as e
from pybatsched.core.intervals import IntervalSet
from pybatsched.simulator import jobs as j
from pybatsched.simulator.loop import SAME_INSTANT_S, SOON, Process
from pybatsched.simulator.machine.power import Power
from pybatsched.simulator.work import profiles as w
from pybatsched.simulator.work.profiles import Frame, Work
from pybatsched.simulator.work.tasks import Capacity, Executors, Tasks, fair_rates
from pybatsched.simulator.work.usage_replay import Replay
from pybatsched.simulator.work.usage_traces import check_ranks
from pybatsched.simulator.world import Refusal

if TYPE_CHECKING:
    from fractions import Fraction

    from pybatsched.simulator.jobs import SimJob
    from pybatsched.simulator.world import World

#: A part of a process that ends with a return code.
Steps: TypeAlias = Generator[Any, None, int]


class Execution:
    """Runs the work of jobs on the processors of a simulation and counts the energy."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._loop = world.loop
        self._book = world.book
        self._observers = world.observers
        hosts = world.scenario.platform.hosts
        self._speeds = [host.speed for host in hosts]
        self._n_cores = [host.n_cores for host in hosts]
        self._is_uniform = len(set(self._speeds[: world.scenario.platform.n_procs])) == 1
        options = world.options
        self.power: Power | None = None
        self.tasks: Tasks | None = None
        if options.energy or options.compute_sharing or world.replays_usage:
            self.tasks = Tasks(self._loop, self._capacity_of, self._loads_changed, self._read_meters)
        if options.energy and self.tasks is not None:
            self.power = Power(hosts, self.tasks.load_of)
        self._delays: dict[str, tuple[int, float]] = {}  # with energy: the first host of a job in a delay, and its end
        self._first_j: float | Fraction | None = None
        self._last_j: float | Fraction = -1.0

    # --- the machine ---

    def _capacity_of(self, host: int) -> Capacity:
        speed = self._speeds[host] if self.power is None else self.power.speed(host)
        return Capacity(speed, self._n_cores[host])

    def _loads_changed(self, hosts: Iterable[int], now: float) -> None:
        if self.power is not None:
            self.power.loads_changed(hosts, now)

    def _read_meters(self, hosts: Iterable[int], now: float) -> None:
        if self.power is not None:
            self.power.read(hosts, now)

    def started(self, job: SimJob) -> None:
        """Allocate the processors of a job."""
        now = self._loop.now
        if self.power is not None:
            job.energy_j = self.power.joules_of(job.alloc, now)
            self.power.read_all(now)
            self.note_energy("s")
        self._book.start(job.id, job.alloc, now)
        for started in self._observers.started:
            started(job, now)
        for machines_changed in self._observers.machines_changed:
            machines_changed(now)

    def ended(self, job: SimJob) -> bool:
        """Release the processors, record the run time and energy. Return whether energy meters must be read first."""
        self.release(job)
        return self.power is not None and self.count_energy(job, self.power)

    def release(self, job: SimJob) -> None:
        """Release the processors of a job and record its run time."""
        now = self._loop.now
        self._book.end(job.id, job.alloc, now)
        for released in self._observers.released:
            released(job, now)
        for machines_changed in self._observers.machines_changed:
            machines_changed(now)
        job.runtime_s = (now - job.started_at) or j.NO_TIME_S

    def count_energy(self, job: SimJob, power: Power) -> bool:
        """Record the energy of a job that ends. Return whether energy meters must be read first."""
        now = self._loop.now
        job.energy_j = power.joules_of(job.alloc, now) - job.energy_j
        self._last_j = self.note_energy("e")
        stale = self.meters_are_stale()
        power.note_reading(now)
        return stale

    def meters_are_stale(self) -> bool:
        """Return whether energy meters must be updated before they are read."""
        if self.power is None or self.tasks is None:
            return False
        now = self._loop.now
        delays = {host for host, end_at in self._delays.values() if end_at <= now + SAME_INSTANT_S}
        return self.power.is_stale(now, delays | self.tasks.ending_hosts())

    def meters_read(self) -> None:
        """Note that all energy meters are up to date."""
        if self.power is not None:
            self.power.read_all(self._loop.now)

    # --- work ---

    def start_delay(self, job: SimJob) -> tuple[float, int]:
        """Start a job that is a single delay; return its end and its return code. `execute` has the same effect."""
        work = job.work
        frame = Frame(work, self._loop.now)
        frame.span_s = work.delay_s
        job.trail.append(frame)
        end_at, code = self._sleep_end(work.delay_s, job.walltime)
        return end_at, code or work.ret

    def _sleep_end(self, span_s: float, limit_s: float) -> tuple[float, int]:
        """Return the end of a sleep and its return code. A sleep as long as the remaining walltime reaches it."""
        if limit_s < 0 or span_s < limit_s:
            return self._loop.now + span_s, 0
        return self._loop.now + limit_s, j.WALLTIME_REACHED

    def execute(self, job: SimJob, work: Work, left: list[float]) -> Steps:
        """Run a profile until it ends or the remaining walltime, `left[0]`, is used up. `left` is updated."""
        kind = work.kind
        frame = Frame(work, self._loop.now)
        job.trail.append(frame)
        if kind == w.DELAY:
            frame.span_s = work.delay_s
            if self.power is None:
                code = yield from self._sleep(work.delay_s, left)
            else:
                code = yield from self._sleep_metered(job, work.delay_s, left, self.power)
        elif work.is_parallel:
            code = yield from self._compute(job, work, frame, left)
        elif kind == w.COMPOSED:
            code = yield from self._sequence(job, work, frame, left)
        elif kind == w.SEND:
            yield self._on_message, (job, work.described["msg"])
            code = yield from self._sleep(float(work.described.get("sleeptime", 1e-7)), left)
        elif kind == w.USAGE:
            assert self.tasks is not None
            code = yield from Replay(job, work, self._loop, self.tasks, self._capacity_of).run(left)
        else:
            code = yield from self._receive(job, work, frame, left)
        job.trail.pop()
        return code or work.ret

    def _sleep(self, span_s: float, left: list[float]) -> Steps:
        """Sleep until the end or the walltime, whichever comes first."""
        limit = left[0]
        end_at, code = self._sleep_end(span_s, limit)
        yield end_at
        if limit > 0:
            left[0] = 0.0 if code else limit - span_s
        return code

    def one_flop(self, host: int) -> Process:
        """Compute one flop on a host that has no other work."""
        assert self.power is not None
        yield self._loop.now + 1.0 / self.power.speed(host)

    def _sleep_metered(self, job: SimJob, span_s: float, left: list[float], power: Power) -> Steps:
        """Sleep on the first host of the job. The end of the sleep updates the meter of that host."""
        host, limit = job.alloc.lowest, left[0]
        self._delays[job.id] = (host, self._loop.now + (span_s if limit < 0 else min(span_s, limit)))
        try:
            return (yield from self._sleep(span_s, left))
        finally:  # also after a kill
            power.read((host,), self._loop.now)
            del self._delays[job.id]

    def _sequence(self, job: SimJob, work: Work, frame: Frame, left: list[float]) -> Steps:
        """Run the parts one after the other; stop at the first that fails."""
        index = 0
        for _ in range(work.repeat):
            for part in work.parts:
                frame.index = index
                index += 1
                code = yield from self.execute(job, part, left)
                if code:
                    return code
        return 0

    def _compute(self, job: SimJob, work: Work, frame: Frame, left: list[float]) -> Steps:
        """Run a parallel task. A task that takes exactly the remaining walltime succeeds."""
        if self._is_later_part(job):
            yield SOON
        if self.tasks is not None:
            return (yield from self._share(job, work, frame, left, self.tasks))
        frame.span_s = span_s = self._span_s(job, work)
        limit = left[0]
        if limit < 0 or span_s <= limit:
            yield self._loop.now + span_s
            if limit >= 0:
                left[0] = limit - span_s
            return 0
        if self._is_later_part(job):
            yield SOON
        yield self._loop.now + limit
        left[0] = 0.0
        return j.WALLTIME_REACHED

    def _is_later_part(self, job: SimJob) -> bool:
        """Return whether a parallel task that starts now is not the first part of its job.

        In Batsim, a later part starts one scheduling round after its job has resumed, and waits for its walltime one
        round later still. Other processes that start to wait at the same instant, such as delays, therefore come
        before it. At the start of a job there are none, because each job starts in a separate round.
        """
        return self._loop.now > job.started_at

    def _span_s(self, job: SimJob, work: Work) -> float:
        """Return the length of a parallel task on processors that are not shared. O(1) on equal hosts, else O(n)."""
        if self._is_uniform and not job.mapping and work.kind != w.PARALLEL:
            cpu = float(work.described["cpu"])
            return (cpu / len(job.alloc) if work.kind == w.TOTAL else cpu) / self._speeds[0]
        (rate,) = fair_rates([self._executors(job, work)], self._capacity_of)
        return 1.0 / rate

    def _executors(self, job: SimJob, work: Work) -> Executors:
        """Return the executors of a parallel task: one per processor, or the mapping of the scheduler."""
        hosts = list(job.alloc)
        places = [hosts[place] for place in job.mapping] if job.mapping else hosts
        return list(zip(places, work.flops(len(places)), strict=True))

    def _share(self, job: SimJob, work: Work, frame: Frame, left: list[float], tasks: Tasks) -> Steps:
        """Run a parallel task whose rate depends on other tasks."""
        assert job.process is not None
        executors = self._executors(job, work)
        if not any(amount for _, amount in executors):
            return 0  # no work: the rate is undefined
        limit, begun = left[0], self._loop.now
        task = tasks.begin(executors, job.process)
        frame.share = task
        try:
            if limit >= 0:
                task.deadline_at = begun + limit
                if self._is_later_part(job):
                    yield SOON
                    task.arm(task.deadline_at, self._loop, self._loop.next_wait())
                else:
                    task.arm(task.deadline_at, self._loop, task.seq)
            while not task.is_over(self._loop.now):
                if task.is_late(self._loop.now):
                    left[0] = 0.0
                    return j.WALLTIME_REACHED
                yield None
        finally:  # also after a kill
            tasks.end(task)
        if limit >= 0:
            left[0] = limit - (self._loop.now - begun)
        return 0

    def _receive(self, job: SimJob, work: Work, frame: Frame, left: list[float]) -> Steps:
        """Wait for a message from the scheduler and continue with the profile that it selects."""
        described = work.described
        inbox = job.inbox = job.inbox if job.inbox is not None else deque()
        chosen = described.get("timeout", "")
        while not inbox and not chosen:
            if (yield from self._sleep(float(described.get("polltime", 0.005)), left)):
                return j.WALLTIME_REACHED
        if inbox:
            matches = re.fullmatch(described.get("regex", ".*"), inbox.popleft()) is not None
            chosen = described.get("success" if matches else "failure", "")
        if not chosen:
            return 0
        part = self._world.works[job.workload].get(chosen)
        if part is None:
            raise Refusal(
                f"job {job.id}: profile {work.name} continues with profile {chosen!r}; it does not exist or was removed"
            )
        refusal = self._world.why_refused(part)
        if refusal is not None or not part.sizes <= {job.res}:
            why = refusal or f"profile {part.name} is defined for another number of processors"
            raise Refusal(f"job {job.id}: {why}; run it with Batsim")
        check_ranks(part.rank_counts, job.fields, f"job {job.id}")
        frame.index = 0
        return (yield from self.execute(job, part, left))

    def _on_message(self, what: tuple[SimJob, Any]) -> None:
        job, message = what
        self._world.add_event(e.FromJobMsg(job.id, j.rounded(message), timestamp=self._world.stamp()))

    # --- energy ---

    @property
    def consumed_j(self) -> float:
        """The energy from the first submission to the last end, for ``_schedule.csv``."""
        if self.power is None:
            return 0.0
        return float(self._last_j - (-1.0 if self._first_j is None else self._first_j))

    @property
    def n_switches(self) -> tuple[int, int]:
        """The number of pstate requests, and the number of hosts in them."""
        return (0, 0) if self.power is None else (self.power.n_grouped, self.power.n_machines)

    @property
    def awaits_first_submission(self) -> bool:
        """Whether the energy consumed before the first submission has not been read yet."""
        return self.power is not None and self._first_j is None

    def note_first_submission(self) -> None:
        """Remember the energy consumed when the first job of a run is submitted."""
        if self.power is not None:
            self._first_j = self.power.total_j(self._loop.now)

    def begin_run(self) -> None:
        """Show the initial pstates of the hosts."""
        if self.power is not None:
            by_pstate: dict[int, list[int]] = {}
            for host in range(len(self._speeds)):
                by_pstate.setdefault(self.power.pstate(host), []).append(host)
            for pstate, hosts in sorted(by_pstate.items()):
                for pstate_changed in self._observers.pstate_changed:
                    pstate_changed(self._loop.now, IntervalSet(hosts), pstate)

    def note_energy(self, kind: str) -> float:
        """Show and return the energy consumed so far, at a start (s), an end (e) or a change of pstate (p)."""
        assert self.power is not None
        now = self._loop.now
        joules = self.power.total_j(now)
        for energy_read in self._observers.energy_read:
            energy_read(now, joules, kind, self.power.watts_min)
        return joules

    # --- the end ---

    def end_run(self, now: float) -> None:
        """Show the end of the run."""
        for run_ended in self._observers.run_ended:
            run_ended(now, self.consumed_j, self.n_switches)
