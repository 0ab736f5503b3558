"""Predicted run times under policies: worked examples, all policies, other ways to run, and errors."""

from __future__ import annotations

import gzip
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support import logs
from support.examples import examples
from support.logs import real
from support.predicted_twin import TwinJob, as_workload, jobs_of_log, mean_slowdown, twin_starts
from support.process import run_cli

import pybatsched as pb
from pybatsched.core.jobs import Job
from pybatsched.core.predictions import Predictor
from pybatsched.errors import InputError, PolicyError, UntrustedFileError
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Workload, plan_for, run_policy


def starts(run: FakeBatsim) -> dict[str, float | None]:
    assert not run.deadlocked
    return {job.id.removeprefix("w0!"): job.started_at for job in run.jobs.values()}


def learnt() -> Workload:
    """Two jobs of ann that run for 10 s of 100 requested, and then others on 4 processors."""
    return (
        Workload()
        .job("a", n=2, s=10, walltime=100, user="ann")
        .job("b", n=2, s=10, walltime=100, user="ann")
        .job("long", n=3, s=50, walltime=100, at=20, user="ann")
        .job("wide", n=4, s=10, walltime=20, at=21, user="bob")
        .job("thin", n=1, s=15, walltime=15, at=22, user="bob")
    )


def test_a_prediction_is_the_planned_time_and_a_correction_the_next() -> None:
    """The job long is predicted to end at 30, and really ends at 70. So thin, of 15 s, may not start at 22.

    At 30 long gets its requested time, 100 s, and thin ends before that. Or its prediction is doubled, at 30 until 40,
    and at 40 until 60.
    """
    assert starts(run_policy("easy", learnt(), 4))["thin"] == 22
    assert starts(run_policy("easy", learnt(), 4, predict="last2"))["thin"] == 30
    found = starts(run_policy("easy", learnt(), 4, predict="last2", correct="doubling"))
    assert found == {"a": 0, "b": 0, "long": 20, "wide": 70, "thin": 40}


class Ten(Predictor):
    """Every job takes ten seconds; those of the user slow take hours."""

    def predict(self, job: Job, now: float, running: Collection[Job]) -> float | None:
        assert all(other.started_at is not None and other.started_at <= now for other in running)
        return 9000 if job.fields.get("user") == "slow" else 10


class Seen(pb.LocalPolicy):
    """EASY that records new estimates."""

    from pybatsched_schedulers.easy import EasyScheduler as scheduler  # noqa: N813

    seen: list[tuple[float, str, float | None, float]]

    def on_estimate_changed(self, job: Job, now: float) -> None:
        super().on_estimate_changed(job, now)
        self.seen.append((now, job.id, job.estimate, job.expected_end_at))


def recorded(workload: Workload, **options: Any) -> list[tuple[float, str, float | None, float]]:
    seen: list[tuple[float, str, float | None, float]] = []
    policy = type("SeenNow", (Seen,), {"seen": seen})
    pb.policy("fcfs", predict=Ten)  # makes the class known
    run_policy(policy, workload, 4, predict="Ten", **options)
    return seen


def behind(s: float, walltime: float = 2000.0) -> Workload:
    """A job, one that waits for its end, and one that fits beside it but would delay the second one."""
    jobs = Workload().job("x", n=1, s=s, walltime=walltime).job("wide", n=4, s=1, walltime=5, at=1)
    return jobs.job("thin", n=1, s=1, walltime=9000, at=2, user="slow")


def test_corrections_come_when_they_are_due() -> None:
    assert recorded(behind(100), correct="doubling") == [
        (10.0, "w0!x", 20.0, 20.0),
        (20.0, "w0!x", 40.0, 40.0),
        (40.0, "w0!x", 80.0, 80.0),
        (80.0, "w0!x", 160.0, 160.0),
    ]
    assert recorded(behind(1000), correct="incremental") == [
        (10.0, "w0!x", 70.0, 70.0),
        (70.0, "w0!x", 310.0, 310.0),
        (310.0, "w0!x", 910.0, 910.0),
        (910.0, "w0!x", 1810.0, 1810.0),
    ]
    assert recorded(behind(1000), correct="requested") == [(10.0, "w0!x", 2000.0, 2000.0)]


def test_corrections_that_no_job_waits_for_cause_no_messages() -> None:
    jobs = Workload().job("x", n=1, s=100, walltime=2000)
    assert recorded(jobs, correct="doubling") == []
    assert recorded(jobs.job("later", n=1, s=1, walltime=2, at=50), correct="doubling") == [(50.0, "w0!x", 80.0, 80.0)]


@pytest.mark.parametrize("n_waiting", [1, 100])
def test_corrections_that_cannot_start_a_job_cause_no_messages(n_waiting: int) -> None:
    """Only the job thin fits beside x. It comes at 200, and starts at 320, when x is expected to end at 640."""
    jobs = Workload().job("x", n=3, s=1000, walltime=2000, estimate=10)
    for number in range(n_waiting):
        jobs.job(f"wide{number}", n=4, s=1, walltime=5, at=1)
    jobs.job("thin", n=1, s=250, walltime=250, at=200)
    seen: list[tuple[float, str, float | None, float]] = []
    run = run_policy(type("SeenNow", (Seen,), {"seen": seen}), jobs, 4, correct="doubling")
    assert run.jobs["w0!thin"].started_at == 320
    assert [(now, estimate) for now, _, estimate, _ in seen] == [(200.0, 320.0), (320.0, 640.0)]


def test_a_job_that_ends_as_predicted_is_not_corrected() -> None:
    assert not recorded(behind(10), correct="doubling")
    assert not recorded(behind(10, walltime=10), correct="doubling")


def test_corrections_need_no_predictor() -> None:
    """The job field `estimate` of x, 10 s, is doubled at 10, 20, 40 and 80. Then thin ends before 160."""
    jobs = Workload().job("x", n=3, s=100, estimate=10, walltime=200).job("wide", n=4, s=5, walltime=5, at=1)
    jobs.job("thin", n=1, s=80, walltime=80, at=2)
    assert starts(run_policy("easy", jobs, 4))["thin"] == 105
    assert starts(run_policy("easy", jobs, 4, correct="doubling"))["thin"] == 80
    assert starts(run_policy("easy", jobs, 4, correct="requested")) == starts(run_policy("easy", jobs, 4))


@st.composite
def twin_jobs(draw: st.DrawFn) -> list[TwinJob]:
    n = draw(st.integers(1, 25))
    found, at = [], 0
    for i in range(n):
        at += draw(st.sampled_from([0, 0, 1, 5, 30]))
        run = draw(st.sampled_from([1, 2, 7, 20, 61, 400]))
        requested = run * draw(st.sampled_from([1, 1, 3, 10]))
        found.append(TwinJob(100 + i, at, run, draw(st.integers(1, 8)), requested, draw(st.integers(1, 3))))
    return found


def run_as_twin(jobs: list[TwinJob], n_procs: int, *, predict: str, correction: str, sjbf: bool) -> dict[int, float]:
    log = pb.Log(as_workload(jobs, n_procs), "log")
    options: dict[str, Any] = {"backfill_order": "sjf"} if sjbf else {}
    run = pb.simulate(log, "easy", progress=False, predict=predict, correct=correction, **options)
    table = run.jobs
    return {int(str(job).rpartition("!")[2]): at for job, at in zip(table["id"], table["started_at"], strict=True)}


PREDICTORS = ["last2", "mean2", "user_mean", "exact", "requested", "double"]
CORRECTORS = ["requested", "doubling", "incremental"]


@examples(60)
@given(twin_jobs(), st.sampled_from(PREDICTORS), st.sampled_from(CORRECTORS), st.booleans())
def test_starts_equal_those_of_the_slow_twin(jobs: list[TwinJob], predict: str, correction: str, sjbf: bool) -> None:
    found = run_as_twin(jobs, 8, predict=predict, correction=correction, sjbf=sjbf)
    assert found == twin_starts(jobs, 8, predict=predict, correction=correction, sjbf=sjbf)


def kth() -> list[TwinJob]:
    with gzip.open(real("KTH-SP2-1996-2.swf.gz"), "rt") as file:
        return jobs_of_log(file.read().splitlines(), 100)


@pytest.mark.parametrize("correction", CORRECTORS)
@pytest.mark.parametrize("sjbf", [False, True])
def test_the_first_jobs_of_a_real_log_start_as_those_of_the_twin(sjbf: bool, correction: str) -> None:
    found = run_as_twin(kth()[:2000], 100, predict="last2", correction=correction, sjbf=sjbf)
    assert found == twin_starts(kth()[:2000], 100, predict="last2", correction=correction, sjbf=sjbf)


@pytest.mark.long
@pytest.mark.parametrize(
    ("sjbf", "predict", "correction", "expected"),
    [
        (False, "requested", "requested", 92.6877),
        (False, "exact", "requested", 71.7224),
        (False, "double", "requested", 79.6745),
        (True, "requested", "requested", 69.3936),
        (True, "exact", "requested", 49.8472),
        (True, "double", "requested", 59.4433),
        (False, "last2", "incremental", 82.5815),
        (False, "last2", "requested", 72.4143),
        (False, "last2", "doubling", 70.7944),
        (True, "last2", "incremental", 68.5231),
        (True, "last2", "requested", 63.0902),
        (True, "last2", "doubling", 67.3340),
    ],
)
def test_the_mean_slowdowns_of_a_whole_log(sjbf: bool, predict: str, correction: str, expected: float) -> None:
    """The predictors, correctors and log of Gaussier et al. (2015), with one pass of the scheduler per instant."""
    jobs = kth()
    found = run_as_twin(jobs, 100, predict=predict, correction=correction, sjbf=sjbf)
    assert round(mean_slowdown(jobs, found), 4) == expected


# --- all policies, and other ways to run --------------------------------------------------------------------------

POLICIES: list[tuple[str, dict[str, Any]]] = [
    ("fcfs", {}),
    ("easy", {"backfill_order": "sjf"}),
    ("easy", {"order": "wfp3"}),
    ("conservative", {}),
    ("conservative", {"compression": False}),
    ("dbf", {}),
    ("ujf", {}),
    ("ujfb", {}),
    ("redirection", {}),
    ("reallocation", {}),
]


def crowd(jobs: list[TwinJob]) -> Workload:
    """The same jobs, some with deadlines, some urgent."""
    workload = Workload()
    for job in jobs:
        more: dict[str, Any] = {"max_stay": 5 * job.requested} if job.number % 4 == 1 else {}
        more |= {"urgent": True} if job.number % 4 == 2 else {}
        workload.job(
            job.number, n=min(job.size, 4), s=job.run, at=job.submit, walltime=job.requested, user=job.user, **more
        )
    return workload


@examples(25)
@given(twin_jobs(), st.sampled_from(["last2", "user_mean", "double"]), st.sampled_from(CORRECTORS))
@pytest.mark.parametrize(("policy", "options"), POLICIES, ids=str)
def test_all_jobs_run_under_every_policy(
    policy: str, options: dict[str, Any], jobs: list[TwinJob], predict: str, correction: str
) -> None:
    workload = crowd(jobs)
    run = run_policy(
        policy, workload, 8, config={"dynamic-jobs-enabled": True}, predict=predict, correct=correction, **options
    )
    assert not run.deadlocked
    assert {job.id.rpartition("!")[2].partition(".")[0] for job in run.jobs.values()} >= {
        str(job.number) for job in jobs
    }


@examples(25)
@given(twin_jobs(), st.sampled_from(["requested", "incremental"]))
@pytest.mark.parametrize(("policy", "options"), POLICIES, ids=str)
def test_requested_times_as_predictions_change_nothing(
    policy: str, options: dict[str, Any], jobs: list[TwinJob], correction: str
) -> None:
    """Some jobs run longer than requested, as those of logs do."""
    workload = crowd(jobs)
    for number, job in enumerate(workload.jobs):
        if number % 3 == 0:
            job["estimate"], job["walltime"] = max(job["walltime"] / 2, 1), job["walltime"] + 1
    given = {"config": {"dynamic-jobs-enabled": True}, **options}
    plain = run_policy(policy, workload, 8, **given)
    assert starts(run_policy(policy, workload, 8, predict="requested", correct=correction, **given)) == starts(plain)


@pytest.mark.parametrize(("policy", "options"), [POLICIES[1], POLICIES[3]])
def test_both_protocols_give_the_same_starts(policy: str, options: dict[str, Any]) -> None:
    jobs = [TwinJob(i, 3 * i, 1 + 37 * i % 50, 1 + i % 5, 60 + i, i % 3) for i in range(60)]
    four = starts(run_policy(policy, crowd(jobs), 8, predict="last2", correct="doubling", **options))
    five = starts(run_policy(policy, crowd(jobs), 8, predict="last2", correct="doubling", batsim=5, **options))
    assert four == five


def test_a_missed_deadline_breaks_no_promise_with_predictions() -> None:
    """The job late is accepted because long is predicted to end soon."""
    jobs = learnt().job("late", n=4, s=5, walltime=5, at=23, user="eve", max_stay=60)

    def broken(**options: Any) -> tuple[str, ...]:
        session = Session(plan_for("dbf", **options), checked=True)
        FakeBatsim(jobs, 4).run(session.handle)
        return session.engine.broken_promises

    assert broken(predict="last2") == ()
    missed = FakeBatsim(jobs, 4).run(Session(plan_for("dbf", predict="last2"), checked=True).handle)
    assert missed.jobs["w0!late"].ended_at is not None
    assert missed.jobs["w0!late"].ended_at > 83


def test_a_requeued_job_keeps_the_rest_of_its_prediction_and_a_restarted_one_all() -> None:
    """Urgent jobs suspend regular ones: the work of a regular job goes on, with the rest of its estimate."""
    jobs = learnt()
    jobs.job("last", n=4, s=30, walltime=100, at=100, user="ann")
    jobs.job("now", n=4, s=5, walltime=6, at=104, user="eve", urgent=True)

    def seen(mode: str) -> list[tuple[str, float | None]]:
        found: list[tuple[str, float | None]] = []
        session = Session(plan_for("ujfb", predict="mean2", correct="requested", mode=mode), checked=True)
        engine = session.engine

        def handle(message: bytes) -> bytes:
            reply = session.handle(message)
            job = engine.jobs.alive.get("w0!last")
            if job is not None and (not found or found[-1] != (job.state.value, job.estimate)):
                found.append((job.state.value, job.estimate))
            return reply

        assert not FakeBatsim(jobs, 4, {"dynamic-jobs-enabled": True}).run(handle).deadlocked
        return found

    predicted = (10 + 50) / 2
    assert seen("suspend")[0] == ("running", predicted)
    assert ("waiting", predicted - 4) in seen("suspend")
    assert ("waiting", predicted) in seen("kill_restart")


def test_a_reshaped_job_has_a_scaled_prediction() -> None:
    """Half as fast on half of the processors: 10 s become 20 s, in the plan and in the errors."""

    class Halves(Seen):
        needs = frozenset({pb.BatsimFeature.DYNAMIC_JOBS})

        def on_job_submitted(self, job: Job, now: float) -> None:
            self.new = job
            super().on_job_submitted(job, now)

        def decide(self, now: float) -> Any:
            if self.local.queue and not self.new.is_reshaped:
                self.local.withdraw(self.new, now)
                yield pb.Reshape(self.new.id, self.new.n_procs // 2, 2.0)
                self.local.submit(self.new, now)
                assert self.new.estimate == 20.0
            yield from super().decide(now)

    pb.policy("fcfs", predict=Ten)
    session = Session(plan_for(type("HalvesNow", (Halves,), {"seen": []}), predict="Ten"), checked=True)
    run = FakeBatsim(Workload().job("x", n=2, s=15, walltime=100), 4, {"dynamic-jobs-enabled": True}).run(
        session.handle
    )
    assert not run.deadlocked
    assert session.engine.figures == {
        "mean_prediction_error_s": 10.0,
        "share_underestimated": 1.0,
        "n_corrections": 0,  # no other job waits for its end
    }


def a_log() -> pb.Log:
    return pb.Log(
        as_workload([TwinJob(i, 3 * i, 1 + 37 * i % 50, 1 + i % 5, 60 + i, i % 3) for i in range(40)], 8), "log"
    )


def test_prediction_errors_are_reported_by_user(tmp_path: Path) -> None:
    """Ann's third job is predicted 10 s and takes 50; the others have their requested times."""
    session = Session(plan_for("easy", predict="last2"), checked=True)
    FakeBatsim(learnt(), 4).run(session.handle)
    assert session.engine.figures == {
        "mean_prediction_error_s": (90 + 90 + 40 + 10 + 0) / 5,
        "share_underestimated": 0.2,
        "n_corrections": 1,
    }
    ann, bob = (90 + 90 + 40) / 3, 5.0
    assert session.engine.predictions_by_user == {
        "ann": {"n_jobs": 3, "mean_prediction_error_s": ann, "share_underestimated": pytest.approx(1 / 3)},
        "bob": {"n_jobs": 2, "mean_prediction_error_s": bob, "share_underestimated": 0.0},
    }
    run = pb.simulate(a_log(), "easy", predict="last2", progress=False)
    assert sum(one["n_jobs"] for one in run.about["predictions_by_user"].values()) == 40
    run.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<h2>Predicted run times</h2>" in page
    assert "user 2" in page
    plain = pb.simulate(a_log(), "easy", progress=False)
    plain.report(tmp_path / "plain.html")
    assert "Predicted run times" not in (tmp_path / "plain.html").read_text(encoding="utf-8")
    assert not {"predictions_by_user", "policy_figures"} & plain.about.keys()
    assert "predict" not in plain.about["policy"]["options"]


@pytest.mark.parametrize("policy", ["easy", "published_predictsim"])
def test_metrics_show_the_quality(policy: str, tmp_path: Path) -> None:
    """The third job of user 1 is predicted 10 s and takes 50; the others have their requested times."""
    jobs = [(0, 10, 2, 100, 1), (0, 10, 2, 100, 1), (20, 50, 3, 100, 1), (21, 10, 4, 20, 2), (22, 15, 1, 20, 2)]
    lines = [
        logs.line(number, at, run=run_s, allocated=n, requested_s=requested_s, user=user)
        for number, (at, run_s, n, requested_s, user) in enumerate(jobs, 1)
    ]
    log = logs.log(tmp_path, *lines)
    args = ("-w", str(log), "--policy", policy, "-o", "predict=last2", "-e", "run")
    assert run_cli("simulate", *args, cwd=tmp_path).returncode == 0
    found = json.loads(run_cli("metrics", "run", "--json", cwd=tmp_path).stdout)["run"]
    assert found["mean_prediction_error_s"] == {"mean": (90 + 90 + 40 + 10 + 5) / 5}
    assert found["share_underestimated"] == {"mean": 0.2}
    users = json.loads(run_cli("metrics", "run", "--by", "user", "--json", cwd=tmp_path).stdout)["run"]
    assert users["1"]["mean_prediction_error_s"] == pytest.approx((90 + 90 + 40) / 3)
    assert (users["2"]["mean_prediction_error_s"], users["2"]["share_underestimated"]) == (7.5, 0.0)
    sizes = json.loads(run_cli("metrics", "run", "--by", "size", "--json", cwd=tmp_path).stdout)["run"]
    assert not any("mean_prediction_error_s" in row for row in sizes.values())


def test_the_gymnasium_environment_uses_predictions() -> None:
    pytest.importorskip("gymnasium", reason="gymnasium is not installed (extra rl)")
    from pybatsched.gym import SchedulingEnv

    jobs = [TwinJob(i, 3 * i, 1 + 37 * i % 50, 1 + i % 5, 60 + i, i % 3) for i in range(40)]
    ends = []
    for predict in ("last2", Ten, None):
        env = SchedulingEnv(as_workload(jobs, 8), predict=predict, correct="doubling" if predict else None, order="sjf")
        _, info = env.reset(seed=1)
        is_over = False
        while not is_over:
            _, _, is_over, _, info = env.step(info["action_mask"].argmax())
        ends.append(info["figures"]["mean_wait_s"])
    assert len(set(ends)) > 1
    with pytest.raises(InputError, match="unknown predictor 'odd'"):
        SchedulingEnv(as_workload(jobs, 8), predict="odd")


def test_a_predictor_class_of_a_notebook_is_used() -> None:
    class Fifty(Predictor):
        def predict(self, job: Job, now: float, running: Collection[Job]) -> float | None:
            return 50

    run = pb.simulate(a_log(), "easy", predict=Fifty, progress=False)
    runs = [1 + 37 * i % 50 for i in range(40)]
    assert run.figures["mean_prediction_error_s"] == pytest.approx(sum(50 - run_s for run_s in runs) / 40)
    assert run.policy == "easy(predict=Fifty)"
    two = pb.simulate(
        a_log(), [pb.policy("easy", predict=Fifty), pb.policy("fcfs", predict=Fifty)], workers=2, progress=False
    )
    assert two[0].figures == run.figures


def test_a_copy_and_a_replaced_policy_keep_what_was_learnt() -> None:
    sim = pb.Simulation(a_log(), "easy", predict="last2", correct="doubling")
    sim.run(until=60)
    copy = sim.copy()
    sim.replace_policy("easy", predict="last2", correct="doubling")
    plain = sim.copy()
    plain.replace_policy("easy")
    assert [job.estimate for job in plain.waiting] == [job.walltime for job in plain.waiting]
    again = plain.copy()
    again.replace_policy("easy", predict="double")
    assert [job.estimate for job in again.waiting] == [2 * (job.walltime or 0) for job in again.waiting]
    for one in (copy, sim, plain, again):
        one.run()
    assert copy.result().figures == sim.result().figures
    assert copy.result().policy_figures == sim.result().policy_figures
    assert plain.result().policy_figures == {}


class Wrong(Predictor):
    answer: Any = -1.0

    def predict(self, job: Job, now: float, running: Collection[Job]) -> float | None:
        found: float | None = self.answer
        return found


@pytest.mark.parametrize("answer", [-1.0, float("nan"), float("inf"), "soon"])
def test_a_wrong_prediction_is_an_error_of_the_policy(answer: Any) -> None:
    wrong = type("WrongNow", (Wrong,), {"answer": answer})
    with pytest.raises(
        PolicyError, match=r"predict raised ValueError: returned .* for job w0!0; expected a number of se"
    ):
        pb.simulate(a_log(), "easy", predict=wrong, progress=False)


def test_bad_options_are_rejected() -> None:
    with pytest.raises(InputError, match=r"policy easy: option predict \(from Python\): unknown predictor 'lst2'"):
        pb.policy("easy", predict="lst2")
    with pytest.raises(InputError, match=r"policy easy: option correct \(from Python\): .*one of requested, doubling"):
        pb.policy("easy", predict="last2", correct="twice")
    with pytest.raises(InputError, match=r"expected a subclass of pybatsched.Predictor"):
        pb.policy("easy", predict=int)
    with pytest.raises(
        InputError, match=r"option predict .*cannot have its own; set it as an option of the policy that uses"
    ):
        run_policy("reallocation", learnt(), 4, local_options={"predict": "last2"})


MINE = """
from pybatsched import Predictor

class Mine(Predictor):
    def predict(self, job, now, running):
        return 5.0 + len(running)
"""


def test_a_predictor_of_a_file_is_run_only_if_the_user_names_it(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MINE, encoding="utf-8")
    run = pb.simulate(a_log(), "easy", predict=f"{file}:Mine", progress=False)
    assert run.figures["n_corrections"]
    named = {"sched-config": f'{{"predict": "{file}:Mine"}}'}
    with pytest.raises(
        UntrustedFileError, match=r"option predict \(from Batsim's --sched-cfg\).*not accepted from there"
    ):
        run_policy("easy", learnt(), 4, config=named)
    with pytest.raises(InputError, match=r"does not define Other"):
        pb.simulate(a_log(), "easy", predict=f"{file}:Other", progress=False)
