"""Jobs that run when the simulation begins."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from pybatsched import ExecuteJob, Policy
from pybatsched.core.events import MACHINES_UNAVAILABLE
from pybatsched.core.intervals import IntervalSet
from pybatsched.errors import InputError
from pybatsched.policies import registry
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Workload, plan_for, run_policy


def crowd() -> Workload:
    """Two jobs that run at 0 on 5 of 8 processors until 50 and 20, and three others."""
    jobs = Workload().job("z1", n=3, s=50, walltime=70, running_at_start=True)
    jobs.job("z2", n=2, s=20, walltime=30, running_at_start="6-7").job("a", n=4, s=10, walltime=20)
    return jobs.job("b", n=2, s=15, walltime=16).job("c", n=3, s=5, at=1, walltime=9)


def starts(
    jobs: Workload, policy: Any = "fcfs", n_procs: int = 8, **options: Any
) -> dict[str, tuple[float | None, str]]:
    done = run_policy(policy, jobs, n_procs=n_procs, **options)
    return {job_id.removeprefix("w0!"): (job.started_at, str(job.procs)) for job_id, job in done.jobs.items()}


@pytest.mark.parametrize(
    ("policy", "others"),
    [
        # a needs 4 processors and waits for the end of z2; fcfs lets b wait behind it.
        ("fcfs", {"a": (20, "3-6"), "b": (30, "3-4"), "c": (30, "5-7")}),
        # The shadow time of a is 30, when z2 should end: b fits before it, and c after the end of b.
        ("easy", {"a": (20, "3-6"), "b": (0, "3-4"), "c": (15, "3-5")}),
        ("conservative", {"a": (20, "3-6"), "b": (0, "3-4"), "c": (15, "3-5")}),
    ],
)
def test_they_start_first_and_policies_plan_with_them(policy: str, others: dict[str, Any]) -> None:
    assert starts(crowd(), policy) == {"z1": (0, "0-2"), "z2": (0, "6-7"), **others}


@pytest.mark.parametrize(
    "policy", [one for one in registry.available() if one not in {"rl", "slurm"} and "locality" not in one]
)
def test_every_policy_starts_the_others_beside_them(policy: str) -> None:
    found = starts(crowd(), policy)
    assert (found["z1"], found["z2"]) == ((0, "0-2"), (0, "6-7"))
    assert all(at is not None for at, _ in found.values())


class Simple(Policy):
    """Starts what fits, in order of arrival, and does not know running jobs."""

    def on_begin(self, cluster: Any) -> None:
        """Create the partition."""
        self.partition, self.queue = cluster.add_partition("all", cluster.procs), list[Any]()

    def on_job_submitted(self, job: Any, now: float) -> None:
        """Queue the job."""
        assert job.id[3:] not in {"z1", "z2"}
        self.queue.append(job)

    def on_job_ended(self, job: Any, now: float) -> None:
        """Check that it is no job of before."""
        assert job.id[3:] not in {"z1", "z2"}

    def decide(self, now: float) -> Any:
        """Start what fits."""
        while self.queue and self.queue[0].n_procs <= self.partition.n_free:
            job = self.queue.pop(0)
            yield ExecuteJob(job.id, self.partition.free.first(job.n_procs))


def test_a_policy_that_cannot_take_them_over_does_not_see_them() -> None:
    assert starts(crowd(), Simple)["a"] == (20, "3-6")


def test_the_machine_may_have_changed() -> None:
    """Processors that another job has are replaced by the lowest free ones; a job that does not fit is rejected."""
    jobs = Workload().job("1", n=4, s=9, running_at_start="2-5").job("2", n=2, s=9, running_at_start="5-6")
    jobs.job("3", n=3, s=9, running_at_start=True).job("4", n=2, s=9, running_at_start="0-6").job("5", n=1, s=1)
    assert starts(jobs) == {"1": (0, "2-5"), "2": (0, "0-1"), "3": (None, ""), "4": (0, "6-7"), "5": (9, "0")}
    session = Session(plan_for("fcfs"))
    FakeBatsim(jobs, 8).run(session.handle)
    assert session.engine.figures == {"n_running_at_start": 4}
    assert session.engine.remarks == ("2 jobs that ran at the start were put on other processors than in the log",)


def test_partitions_are_kept_where_possible() -> None:
    jobs = Workload().job("1", n=5, s=9, walltime=10, running_at_start=True)
    jobs.job("2", n=7, s=9, walltime=10, running_at_start=True).job("3", n=1, s=5, walltime=6)
    found = starts(jobs, "redirection", 12, group_size=4)
    assert (found["1"], found["2"]) == ((0, "0-4"), (0, "5-11"))  # the second one is in both groups


def test_a_failure_requeues_them() -> None:
    jobs = Workload().job("1", n=2, s=30, walltime=40, running_at_start=True).job("2", n=6, s=10, walltime=20)
    events = [(5.0, MACHINES_UNAVAILABLE, "0")]
    done = run_policy("easy", jobs, n_procs=8, machine_events=events, on_failure="requeue_last").jobs
    assert (done["dyn!w0.1.1"].started_at, done["dyn!w0.1.1"].ended_at) == (10, 40)


@pytest.mark.parametrize("value", [1, "x", "3-1", [], None])
def test_invalid_fields(value: Any) -> None:
    with pytest.raises(InputError, match="job w0!1, field running_at_start: expected true, false, or processors"):
        run_policy("fcfs", Workload().job(1, n=1, s=1, running_at_start=value), n_procs=2)


def test_false_is_an_ordinary_job() -> None:
    jobs = Workload().job(1, n=2, s=5).job(2, n=2, s=5, running_at_start=False)
    assert starts(jobs, n_procs=2) == {"1": (0, "0-1"), "2": (5, "0-1")}


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
def test_random_crowds(policy: str) -> None:
    """They all run from 0 on, and no processor has two jobs at a time."""
    for seed in range(30):
        dice = random.Random(seed)
        jobs, n_left = Workload(), 16
        for number in range(dice.randint(1, 20)):
            n, run_s = dice.randint(1, 6), dice.randint(1, 60)
            fields: dict[str, Any] = {"walltime": run_s + dice.randint(1, 9)}
            if n <= n_left and dice.random() < 0.5:
                n_left -= n
                first = dice.randint(0, 16 - n)
                fields["running_at_start"] = dice.choice([True, f"{first}-{first + n - 1}" if n > 1 else str(first)])
            jobs.job(
                f"{dice.randint(0, 99):02}-{number}",
                n=n,
                s=run_s,
                at=dice.choice([0, 0, 7]) * ("running_at_start" not in fields),
                **fields,
            )
        done = run_policy(policy, jobs, n_procs=16).jobs
        for job in done.values():
            assert "running_at_start" not in job.fields or job.started_at == 0, seed
        for one, other in itertools.combinations(done.values(), 2):
            assert one.started_at is not None
            assert other.started_at is not None
            beside = one.started_at < (other.ended_at or 0) and other.started_at < (one.ended_at or 0)
            assert not beside or IntervalSet.isdisjoint(one.procs, other.procs), seed
