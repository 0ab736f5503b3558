"""Jobs that may not start yet: eligible times, dependencies, array limits and holds."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from pybatsched import ExecuteJob, Log, Policy, Simulation
from pybatsched.core.decisions import reason_text
from pybatsched.core.dependencies import dependency_of, with_ids
from pybatsched.core.engine import Engine
from pybatsched.core.events import MACHINES_UNAVAILABLE
from pybatsched.errors import InputError, PolicyError
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Workload, plan_for, run_policy
from pybatsched.workload import model

OK = "COMPLETED_SUCCESSFULLY"


def starts(workload: Workload, n_procs: int = 64, policy: str = "fcfs") -> dict[str, float | None]:
    """Return the start of each job, None for rejected ones."""
    return {
        job_id.partition("!")[2]: job.started_at
        for job_id, job in run_policy(policy, workload, n_procs=n_procs).jobs.items()
    }


def test_a_job_starts_after_the_end_of_the_job_that_it_depends_on() -> None:
    """Three jobs, as in a log of Slurm: one that depends on 101 is submitted 10 s later."""
    jobs = Workload().job("101", n=2, s=100, walltime=120)
    jobs.job("102", n=2, s=10, at=10, walltime=20, depends_on="afterok:101").job("103", n=2, s=5, at=20, walltime=9)
    for policy in ("fcfs", "easy", "conservative"):
        assert starts(jobs, 8, policy) == {"101": 0, "102": 100, "103": 20}


@pytest.mark.parametrize(
    ("depends_on", "start"),
    [
        ("afterok:good", 10),
        ("afterok:bad", None),  # its walltime is reached at 5
        ("afternotok:bad", 5),
        ("afternotok:good", None),
        ("afterany:good:bad", 10),
        ("afterok:good,afternotok:bad", 10),
        ("afterok:bad?afterok:good", 10),
        ("afterok:bad?afternotok:good", None),
        ("after:late", 30),
        ("after:late+1", 90),
        ("after:late+1?afterany:good", 10),
        ("after:lost", 0),
        ("afterany:lost", 0),
        ("afterok:lost", None),
        (["good", "afternotok:bad"], 10),
        (["w0!late"], 37),
        ("logged", 3),
        ("afterok:logged", None),
        ("afternotok:logged", 3),
        ("afterany:none", 30),  # is not in the workload: known when all jobs are submitted
        ([], 0),
    ],
)
def test_conditions(depends_on: Any, start: float | None) -> None:
    jobs = Workload().job("good", n=1, s=10).job("bad", n=1, s=10, walltime=5).job("late", n=1, s=7, at=30)
    jobs.job("lost", n=100, s=1).job("logged", n=1, s=3, status=0)
    jobs.job("x", n=1, s=1, depends_on=depends_on)
    found = starts(jobs)["x"]
    assert found == (None if start is None else pytest.approx(start, abs=1e-4))


def test_parents_that_ended_before_the_submission() -> None:
    jobs = Workload().job("good", n=1, s=10).job("bad", n=1, s=10, walltime=5).job("a_1", n=1, s=4, array="a")
    jobs.job("1", n=1, s=1, at=50, depends_on="afterok:good,afternotok:bad,afterok:a")
    jobs.job("2", n=1, s=1, at=50, depends_on="afterok:bad")
    jobs.job("3", n=1, s=1, at=50, depends_on="after:good+1")
    found = starts(jobs)
    assert (found["1"], found["2"], found["3"]) == (50, None, 60)


def test_the_preceding_job_of_a_log_is_no_condition() -> None:
    jobs = Workload().job(1, n=1, s=10).job(2, n=1, s=1, depends_on=1).job(3, n=1, s=1, depends_on=["1"], think_time=5)
    assert starts(jobs) == {"1": 0, "2": 0, "3": 0}
    assert simulated_figures(jobs) == {}


def test_an_array_with_a_limit_and_jobs_that_depend_on_it() -> None:
    """Two tasks at a time: 7_2 follows 7_0 at 10, 7_3 follows 7_1 at 11, then the next ones at 22 and 24."""
    jobs = Workload()
    for task in range(6):
        jobs.job(f"7_{task}", n=1, s=10 + task, array=7, array_limit=2)
    jobs.job("8", n=1, s=1, at=1, depends_on="afterok:7").job("9", n=1, s=1, at=1, depends_on="after:7+1")
    jobs.job("a", n=1, s=1, at=1, depends_on="afterok:7_2")
    assert starts(jobs) == {
        "7_0": 0, "7_1": 0, "7_2": 10, "7_3": 11, "7_4": 22, "7_5": 24, "8": 39, "9": 84, "a": 22
    }  # fmt: skip


def test_singletons() -> None:
    """One job of a user and name at a time; jobs of others do not count."""
    own: Any = {"user": "ann", "job_name": "x"}
    jobs = Workload().job("0", n=1, s=10, **own)
    for number in (1, 2, 3):
        jobs.job(number, n=1, s=10, at=number, depends_on="singleton", **own)
    jobs.job("4", n=1, s=50, at=2.5, **own)
    jobs.job("5", n=1, s=9, at=4, depends_on="singleton", user="bob", job_name="x")
    assert starts(jobs) == {"0": 0, "1": 10, "2": 20, "4": 2.5, "3": 52.5, "5": 4}


def test_begin_times_and_holds() -> None:
    jobs = Workload().job(1, n=1, s=5, eligible_at=30).job(2, n=1, s=5, at=10, eligible_at=3)
    jobs.job(3, n=1, s=5, hold=True).job(4, n=1, s=5, hold=True, eligible_at=40).job(5, n=1, s=5, hold=False)
    done = run_policy("fcfs", jobs, n_procs=8)
    assert {job_id: job.started_at for job_id, job in done.jobs.items()} == {
        "w0!1": 30, "w0!2": 10, "w0!3": None, "w0!4": 40, "w0!5": 0
    }  # fmt: skip
    assert done.jobs["w0!1"].metadata == "eligible_after_s=30"


def test_a_job_in_no_queue_does_not_delay_others() -> None:
    """Under fcfs the large job would keep the small ones waiting behind it."""
    jobs = Workload().job(1, n=1, s=20).job(2, n=8, s=5, depends_on="afterok:1").job(3, n=7, s=10, at=1)
    assert starts(jobs, 8) == {"1": 0, "2": 20, "3": 1}


def test_jobs_that_wait_for_each_other_are_rejected() -> None:
    jobs = Workload().job(1, n=1, s=5, depends_on="afterok:2").job(2, n=1, s=5, depends_on="afterok:1")
    jobs.job(3, n=1, s=5, depends_on="afterok:3").job(4, n=1, s=5, depends_on="afternotok:1").job(5, n=1, s=1)
    found = starts(jobs)
    assert found == {"1": None, "2": None, "3": None, "4": pytest.approx(1, abs=1e-3), "5": 0}


def test_a_chain_of_rejected_jobs() -> None:
    jobs = Workload().job(0, n=1, s=10, walltime=5)
    for number in range(1, 3000):
        jobs.job(number, n=1, s=1, depends_on=f"afterok:{number - 1}")
    assert [job_id for job_id, at in starts(jobs).items() if at is not None] == ["0"]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"eligible_at": -1}, None),
        ({"eligible_at": "2"}, "job w0!1, field eligible_at: expected seconds, found 2"),
        ({"hold": 1}, "job w0!1, field hold: expected true or false, found 1"),
        ({"array_limit": 2}, "job w0!1, field array_limit: expected the number of tasks of an array"),
        ({"array": "7", "array_limit": 0}, "found 0"),
        ({"depends_on": "aftr:1,expand:2,afterok"}, None),  # ids with odd names
        ({"depends_on": "afterwards:1"}, "job w0!1, field depends_on: expected conditions such as afterok:12:13"),
        ({"depends_on": "afterok:1?afterok:2,3"}, "not both , and ?"),
        ({"depends_on": "afterok:"}, "found afterok:"),
        ({"depends_on": {}}, "field depends_on"),
        ({"depends_on": [1.5]}, "field depends_on"),
    ],
)
def test_invalid_fields(fields: dict[str, Any], text: str | None) -> None:
    jobs = Workload().job(1, n=1, s=1, **fields)
    if text is None:
        assert starts(jobs) == {"1": 0}
        return
    with pytest.raises(InputError) as caught:
        run_policy("fcfs", jobs, n_procs=2)
    assert text in str(caught.value)


def test_the_figures_say_what_was_obeyed() -> None:
    jobs = (
        Workload()
        .job(1, n=1, s=10, walltime=5)
        .job(2, n=1, s=1, depends_on="afterok:1")
        .job(3, n=1, s=1, eligible_at=3)
    )
    jobs.job(4, n=1, s=1, depends_on="afterany:1").job(5, n=1, s=1, hold=True, eligible_at=9)
    for task in range(3):
        jobs.job(f"7_{task}", n=1, s=2, array="7", array_limit=1)
    jobs.job(8, n=1, s=2, depends_on="afterok:99")
    assert simulated_figures(jobs) == {
        "n_began_later": 1,
        "n_waited_for_jobs": 3,
        "n_waited_for_array_limit": 2,
        "n_released": 1,
        "n_never_eligible": 1,
        "n_dependencies_on_unknown_jobs": 1,
    }


def simulated_figures(jobs: Workload) -> Mapping[str, float]:
    """Return the figures of the services of a run with fcfs."""
    session = Session(plan_for("fcfs"))
    FakeBatsim(jobs, 8).run(session.handle)
    return session.engine.figures


class Asking(Policy):
    """Starts jobs in order of arrival, and keeps why other jobs wait."""

    why: ClassVar[dict[str, str]] = {}
    engine: ClassVar[Engine]

    def on_begin(self, cluster: Any) -> None:
        """Keep the partition."""
        self.cluster = cluster
        self.queue: list[Any] = []

    def on_job_submitted(self, job: Any, now: float) -> None:
        """Queue the job."""
        self.queue.append(job)
        assert job.eligible_at == now

    def decide(self, now: float) -> Any:
        """Start what fits."""
        for job in self.cluster.jobs.values():
            self.why.setdefault(job.id, reason_text(self.engine.why_waiting(job, now)))
        free = self.cluster.partitions["all"].free
        while self.queue and self.queue[0].n_procs <= len(free):
            job = self.queue.pop(0)
            procs = free.first(job.n_procs)
            free = free - procs
            yield ExecuteJob(job.id, procs)


TABLE: tuple[tuple[str, str], ...] = (
    ("w0!2", "may not start yet: waits for job w0!1 (afterok)"),
    ("w0!3", "may not start yet: not before 50.0"),
    ("w0!4", "may not start yet: it is held"),
    ("w0!6", "may not start yet: 1 task of its array run or wait already"),
    ("w0!8", "may not start yet: waits for an earlier job of its user and name (singleton)"),
)


def test_why_a_job_may_not_start() -> None:
    jobs = Workload().job(1, n=1, s=10).job(2, n=1, s=1, depends_on="afterok:1").job(3, n=1, s=1, eligible_at=50)
    jobs.job(4, n=1, s=1, hold=True).job(5, n=1, s=9, array="a", array_limit=1)
    jobs.job(6, n=1, s=9, array="a", array_limit=1)
    jobs.job(7, n=1, s=9, user="u").job(8, n=1, s=1, user="u", depends_on="singleton")
    session = Session(plan_for(Asking))
    Asking.why, Asking.engine = {}, session.engine
    FakeBatsim(jobs, 8).run(session.handle)
    assert {job_id: Asking.why[job_id] for job_id, _ in TABLE} == dict(TABLE)


def test_a_parent_that_is_requeued_has_not_ended() -> None:
    """Processor 0 fails at 4: job 1 starts again at once on processor 1, and ends at 14."""
    jobs = Workload().job(1, n=1, s=10).job(2, n=1, s=1, depends_on="afterok:1").job(3, n=1, s=1, depends_on="after:1")
    for task in (0, 1):
        jobs.job(f"5_{task}", n=1, s=20, at=1, array="5", array_limit=1)
    events = [(4.0, MACHINES_UNAVAILABLE, "0")]
    done = run_policy("fcfs", jobs, n_procs=4, machine_events=events, on_failure="requeue_first").jobs
    ends = {job_id: job.ended_at for job_id, job in done.items()}
    assert (ends["dyn!w0.1.1"], ends["w0!2"], ends["w0!5_0"], ends["w0!5_1"]) == (14, 15, 21, 41)
    assert ends["w0!3"] == pytest.approx(1, abs=1e-3)


def test_a_requeued_task_keeps_its_place() -> None:
    """The task that fails at 4 is one of the two that may run: the third one starts when the second has ended."""
    jobs = Workload()
    for task in range(3):
        jobs.job(f"5_{task}", n=1, s=10 + task, array="5", array_limit=2)
    events = [(4.0, MACHINES_UNAVAILABLE, "0")]
    done = run_policy("fcfs", jobs, n_procs=4, machine_events=events, on_failure="requeue_last").jobs
    assert (done["dyn!w0.5_0.1"].started_at, done["w0!5_2"].started_at) == (4, 11)


def test_the_policy_can_be_replaced_while_jobs_may_not_start() -> None:
    jobs = Workload().job(1, n=1, s=10, walltime=20).job(2, n=1, s=1, walltime=9, depends_on="afterok:1")
    jobs.job(3, n=1, s=1, walltime=2, eligible_at=7).job(4, n=1, s=3, walltime=4, at=5)
    for task in range(3):
        jobs.job(f"5_{task}", n=1, s=6, walltime=9, array="5", array_limit=1)
    workload = model.Workload(jobs.jobs, jobs.profiles, 8)
    simulation = Simulation(Log(workload, "jobs"), "fcfs")
    simulation.run_until(lambda sim: sim.now >= 5)
    assert ([job.id for job in simulation.waiting], simulation.n_waiting) == ([], 0)
    simulation.replace_policy("easy")
    simulation.run()
    result = simulation.result()
    assert (result.finished, result.figures.makespan_s) == (True, 18)
    assert result.policy_figures["n_waited_for_array_limit"] == 2


class Hasty(Asking):
    """Starts all unfinished jobs, also those that it did not get."""

    def decide(self, now: float) -> Any:
        """Start what waits."""
        for job in list(self.cluster.jobs.values()):
            if job.started_at is None:
                yield ExecuteJob(job.id, self.cluster.partitions["all"].free.first(job.n_procs))


def test_a_policy_cannot_start_a_job_before_it_may() -> None:
    jobs = Workload().job(1, n=1, s=10).job(2, n=1, s=1, depends_on="afterok:1")
    with pytest.raises(PolicyError, match="rule 'is eligible': may not start yet: waits for job w0!1 .afterok"):
        run_policy(Hasty, jobs, n_procs=8)


# --- other ids ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "made", "dropped"),
    [
        ("afterok:1:2", "afterok:n1,afterok:n2", False),
        ("afterok:1:9", "afterok:n1", True),
        ("afterok:1?afterany:9", None, True),
        ("afterok:9", None, True),
        ("singleton,afterany:9", "singleton", True),
        ("after:1+5", "after:n1+5", False),
        ("2", "afterany:n2", False),
        (["1", "afterok:2", 9], ["n1", "afterok:n2"], True),
        (1, "n1", False),
        (9, None, True),
    ],
)
def test_dependencies_with_other_ids(given: Any, made: Any, dropped: bool) -> None:
    ids = {"1": "n1", "2": "n2"}
    job, is_dropped = with_ids({"id": 3, "depends_on": given}, ids.get)
    assert (job.get("depends_on"), is_dropped) == (made, dropped)


# --- against a slow twin -----------------------------------------------------------------------------------------


def random_jobs(seed: int) -> Workload:
    """Return random jobs with whole seconds, many of which may not start yet."""
    dice = random.Random(seed)
    jobs = Workload()
    n = dice.randint(3, 25)
    for number in range(n):
        fields: dict[str, Any] = {"user": dice.choice("ab"), "job_name": dice.choice("xy")}
        others = [f"{one:02}" for one in range(n) if one < number or dice.random() < 0.1] or ["00"]
        if dice.random() < 0.3:
            fields["array"] = dice.choice("pq")
            fields["array_limit"] = {"p": 1, "q": 2}[fields["array"]]
        if dice.random() < 0.5:
            kinds = [dice.choice(("after", "afterany", "afterok", "afternotok")) for _ in range(dice.randint(1, 3))]
            parts = [
                f"{kind}:{dice.choice(others)}" + ("+1" if kind == "after" and dice.random() < 0.5 else "")
                for kind in kinds
            ]
            if dice.random() < 0.3:
                parts[-1] = "singleton"
            fields["depends_on"] = dice.choice(",?").join(parts) if dice.random() < 0.8 else parts
        if dice.random() < 0.2:
            fields["eligible_at"] = dice.randint(0, 90)
        if dice.random() < 0.1:
            fields["hold"] = True
        run_s = dice.randint(1, 40)
        walltime = dice.choice([None, run_s + 5, max(run_s - 3, 1)])
        jobs.job(f"{number:02}", n=1, s=run_s, at=dice.randint(0, 5) * 7, walltime=walltime, **fields)
    return jobs


class Slow:
    """The rules from their definitions, on a machine on which each job starts when it may."""

    def __init__(self, jobs: Workload) -> None:
        self.jobs = sorted(jobs.jobs, key=lambda job: (job["subtime"], job["id"]))
        self.by_id = {job["id"]: job for job in self.jobs}
        self.profiles = jobs.profiles
        self.start: dict[str, float] = {}
        self.end: dict[str, float] = {}
        self.rejected: dict[str, float] = {}

    def run_s(self, job: dict[str, Any]) -> float:
        return min(float(self.profiles[job["profile"]]["delay"]), float(job.get("walltime", 1e9)))

    def is_ok(self, job_id: str) -> bool:
        job = self.by_id[job_id]
        return job_id not in self.rejected and self.profiles[job["profile"]]["delay"] < job.get("walltime", 1e9)

    def over_at(self, job_id: str) -> float:
        return self.rejected.get(job_id, self.end.get(job_id, 1e9))

    def condition(self, job: dict[str, Any], one: Any, now: float) -> bool | None:
        """Return whether a condition is met; None if it cannot be met any more."""
        if one.kind == "singleton":
            mine = self.jobs.index(job)
            same = [
                other for other in self.jobs[:mine] if all(other[name] == job[name] for name in ("user", "job_name"))
            ]
            return all(self.over_at(other["id"]) <= now for other in same)
        if one.kind == "after":
            started_at = self.start.get(one.job, self.rejected.get(one.job, 1e9))
            return bool(started_at + one.delay_s <= now)
        if self.over_at(one.job) > now:
            return False
        if one.kind == "afterany" or self.is_ok(one.job) is (one.kind == "afterok"):
            return True
        return None

    def state(self, job: dict[str, Any], now: float) -> bool | None:
        """Return whether a job may start, its array aside; None if it never may."""
        dependency = dependency_of(job)
        found = [] if dependency is None else [self.condition(job, one, now) for one in dependency.conditions]
        if dependency is not None and dependency.is_any:
            is_met = True if True in found else None if all(one is None for one in found) else False
        else:
            is_met = None if None in found else all(found)
        if is_met is None:
            return None if not (job.get("hold") and "eligible_at" not in job) else False
        is_held = job.get("hold", False) and "eligible_at" not in job
        return is_met and not is_held and now >= job.get("eligible_at", 0)

    def step(self, now: float) -> bool:
        """Start or reject jobs at one time; return whether any was."""
        before = len(self.start) + len(self.rejected)
        submitted = [
            job
            for job in self.jobs
            if job["subtime"] <= now and not {job["id"]} & (self.start.keys() | self.rejected.keys())
        ]
        for job in submitted:
            state = self.state(job, now)
            if state is None:
                self.rejected[job["id"]] = now
            elif state:
                others = [one for one in self.jobs if one.get("array") == job.get("array") and one["id"] in self.start]
                n_running = sum(self.end[one["id"]] > now for one in others)
                if "array" not in job or n_running < job["array_limit"]:
                    self.start[job["id"]] = now
                    self.end[job["id"]] = now + self.run_s(job)
        return len(self.start) + len(self.rejected) > before

    def later(self, now: float) -> list[float]:
        """Return the times after `now` at which something may change, in order."""
        at = {job["subtime"] for job in self.jobs} | {job.get("eligible_at", 0) for job in self.jobs}
        at |= {start + 60 for start in (*self.start.values(), *self.rejected.values())} | {*self.end.values()}
        return sorted(one for one in at if one > now)

    def run(self) -> dict[str, float | None]:
        """Return the starts, None for rejected jobs."""
        now = 0.0
        while True:
            while self.step(now):
                pass
            left = [job for job in self.jobs if not {job["id"]} & (self.start.keys() | self.rejected.keys())]
            if not left:
                return {job["id"]: self.start.get(job["id"]) for job in self.jobs}
            times = self.later(now)
            is_over = max([*self.end.values(), *(job["subtime"] for job in self.jobs)]) <= now
            if is_over and all(self.state(job, at) is False for job in left for at in times):
                held = [job for job in left if job.get("hold") and "eligible_at" not in job]
                self.rejected[(held or left)[0]["id"]] = now
            else:
                now = times[0]


@pytest.mark.parametrize("seeds", range(0, 120, 20))
def test_starts_are_those_of_a_slow_twin(seeds: int) -> None:
    for seed in range(seeds, seeds + 20):
        jobs = random_jobs(seed)
        found, wanted = starts(jobs), Slow(jobs).run()
        assert found == {name: at if at is None else pytest.approx(at, abs=1e-2) for name, at in wanted.items()}, seed


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
def test_no_job_starts_before_it_may(policy: str) -> None:
    """On a small machine, jobs wait for processors, too. Then the rules hold for the times of that schedule."""
    for seed in range(40):
        jobs = random_jobs(seed)
        done = run_policy(policy, jobs, n_procs=2).jobs
        slow = Slow(jobs)
        for job_id, job in done.items():
            name = job_id.partition("!")[2]
            if job.started_at is None or job.ended_at is None:
                slow.rejected[name] = 0.0  # before all others
            else:
                slow.start[name], slow.end[name] = job.started_at, job.ended_at
        for name, at in slow.start.items():
            assert slow.state(slow.by_id[name], at + 1e-3), (seed, name)
        for limit, array in ((1, "p"), (2, "q")):
            tasks = [job["id"] for job in jobs.jobs if job.get("array") == array and job["id"] in slow.start]
            for at in (slow.start[name] + 1e-3 for name in tasks):
                assert sum(slow.start[name] < at < slow.end[name] for name in tasks) <= limit, (seed, array)
