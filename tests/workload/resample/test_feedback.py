"""Submissions that depend on the ends of jobs: in the workload, in the simulator, in commands and campaigns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from support import logs
from support.process import run_cli

import pybatsched as pb
from pybatsched.campaign.prepare import Preparer
from pybatsched.campaign.workloads import WorkloadSpec
from pybatsched.errors import InputError
from pybatsched.workload.model import Workload
from pybatsched.workload.resample.feedback import SESSION_S, with_feedback


def workload(*jobs: tuple[str | None, float, float, float], n_procs: int = 1) -> Workload:
    """Return jobs of one processor given by user, submission, logged wait (below 0: unknown) and run time."""
    rows: list[dict[str, Any]] = []
    for k, (user, at, wait, run) in enumerate(sorted(jobs, key=lambda job: job[1]), start=1):
        row = {"id": k, "subtime": at, "res": 1, "walltime": run + 1, "profile": f"{run}"}
        row |= {} if user is None else {"user": user}
        rows.append(row | ({} if wait < 0 else {"logged_wait_s": wait}))
    return Workload(rows, {f"{run}": {"type": "delay", "delay": run} for *_, run in jobs}, n_procs, "w.json")


def followed(made: Workload) -> dict[int, tuple[int, float]]:
    return {job["id"]: (job["depends_on"], job["think_time"]) for job in made.jobs if "depends_on" in job}


def test_a_job_follows_the_job_of_its_user_that_ended_last() -> None:
    made = with_feedback(
        workload(
            ("ann", 0, 0, 100),  # 1: ends at 100
            ("ann", 10, 5, 20),  # 2: ends at 35
            ("ann", 50, 0, 5),  # 3: 15 s after the end of 2, while 1 runs
            ("bob", 60, 0, 5),  # 4: the first one of bob
            ("ann", 130, 0, 5),  # 5: 30 s after the end of 1
            ("ann", 135 + SESSION_S, 0, 5),  # 6: at the end of the session of 5
            ("ann", 10_000, 0, 5),  # 7: another session
            (None, 10_010, 0, 5),  # 8: nobody's
            ("cid", 20_000, -1, 5),  # 9: its end is not known
            ("cid", 20_010, 0, 5),  # 10
        )
    )
    assert followed(made) == {3: (2, 15), 5: (1, 30), 6: (5, SESSION_S)}
    assert made.about["feedback"] is True


def test_preceding_jobs_of_the_log_are_kept() -> None:
    log = workload(("ann", 0, 0, 10), ("ann", 15, 0, 10), ("ann", 30, 0, 10))
    log.jobs[2] |= {"depends_on": 1, "think_time": 20}
    assert followed(with_feedback(log)) == {2: (1, 5), 3: (1, 20)}
    bare = workload((None, 0, -1, 10), (None, 15, -1, 10))
    bare.jobs[1] |= {"depends_on": 1, "think_time": 5}
    assert followed(with_feedback(bare)) == {2: (1, 5)}


def test_a_log_without_users_or_waits_is_an_error() -> None:
    for log in (workload((None, 0, 0, 10), (None, 15, 0, 10)), workload(("ann", 0, -1, 10), ("ann", 15, -1, 10))):
        with pytest.raises(InputError, match=r"^w\.json: feedback: expected a log with users and waits, or with prec"):
            with_feedback(log)
    with pytest.raises(InputError, match="feedback: expected 0 seconds or more for a session"):
        with_feedback(log, -1)


# ------------------------------------------------------------------------------------------------------------ simulator


def run_of(made: Workload, policy: str = "fcfs") -> dict[str, list[float]]:
    run = pb.simulate(pb.Log(made, "w"), policy, progress=False)
    assert run.is_finished
    return {job_id: times for job_id, *times in run.jobs.select("id", "submitted_at", "started_at", "ended_at").rows()}


def test_followers_are_submitted_a_think_time_after_the_simulated_end() -> None:
    """One processor: bob's job of 1000 s comes first, so ann's first job ends 1000 s later than in the log."""
    made = with_feedback(workload(("bob", 0, 0, 1000), ("ann", 1, 0, 10), ("ann", 16, 0, 10), ("ann", 31, 0, 10)))
    assert followed(made) == {3: (2, 5), 4: (3, 5)}
    times = run_of(made)
    assert times["w0!2"] == [1, 1000, 1010]
    assert times["w0!3"] == [1015, 1015, 1025]
    assert times["w0!4"] == [1030, 1030, 1040]


def test_on_a_machine_without_limits_the_log_is_repeated() -> None:
    log = workload(*[("ann", 100.0 * k, 0, 30 + k) for k in range(20)], ("bob", 7, 0, 3), n_procs=64)
    times = run_of(with_feedback(log))
    assert {name: row[0] for name, row in times.items()} == {f"w0!{job['id']}": job["subtime"] for job in log.jobs}


def test_a_job_may_wait_for_several_and_a_later_job_is_no_predecessor() -> None:
    log = workload(("a", 0, 0, 50), ("a", 1, 0, 200), ("a", 2, 0, 5), ("a", 3, 0, 5), n_procs=8)
    log.jobs[2] |= {"depends_on": [1, 2], "think_time": 7}
    log.jobs[3] |= {"depends_on": 4}  # itself
    log.about["feedback"] = True
    times = run_of(log)
    assert times["w0!3"][0] == 208  # 201 + 7
    assert times["w0!4"][0] == 3


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 5000), st.integers(0, 500), st.integers(1, 900)),
        min_size=2,
        max_size=25,
    )
)
def test_every_job_ends_and_follows_its_predecessor(jobs: list[tuple[str, int, int, int]]) -> None:
    log = workload(*jobs, ("z", 0, 0, 5), ("z", 10, 0, 5), n_procs=2)
    made = with_feedback(log)
    times = run_of(made, "easy")
    assert len(times) == len(log.jobs)
    for job in made.jobs:
        submitted_at = times[f"w0!{job['id']}"][0]
        if "depends_on" in job:
            assert submitted_at == pytest.approx(times[f"w0!{job['depends_on']}"][2] + job["think_time"])
        else:
            assert submitted_at == job["subtime"]


def test_a_policy_that_registers_jobs_is_refused() -> None:
    made = with_feedback(workload(("ann", 0, 0, 10), ("ann", 15, 0, 10), n_procs=10))
    with pytest.raises(InputError, match=r"w\.json: feedback: expected a policy that registers no jobs"):
        pb.simulate(pb.Log(made, "w"), "redirection", progress=False)


@pytest.mark.parametrize("think_time", ["abc", None, True, float("nan")])
def test_a_think_time_that_is_no_number_is_an_error(think_time: Any) -> None:
    log = workload(("a", 0, 0, 50), ("a", 1, 0, 5))
    log.jobs[1] |= {"depends_on": 1, "think_time": think_time}
    log.about["feedback"] = True
    with pytest.raises(InputError, match=r"w\.json: job 2, field think_time: expected seconds, found"):
        run_of(log)


# --------------------------------------------------------------------------------------------- commands and campaigns


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A log of one processor: two jobs of user 2, the second 5 s after the end of the first, and a long one of 1."""
    lines = [
        logs.line(1, 0, wait=0, run=1000, allocated=1, user=1, requested_s=2000),
        logs.line(2, 1, wait=0, run=10, allocated=1, user=2, requested_s=20),
        logs.line(3, 16, wait=0, run=10, allocated=1, user=2, requested_s=20),
    ]
    (tmp_path / "log.swf").write_text("; MaxProcs: 1\n" + "\n".join(lines) + "\n")
    return tmp_path


def test_simulate_with_feedback(place: Path) -> None:
    waits = {}
    for name, words in (("plain", ()), ("feedback", ("--feedback",))):
        args = ("simulate", "-w", str(place / "log.swf"), "--policy", "fcfs", "-e", name, *words)
        done = run_cli(*args, cwd=place)
        assert done.returncode == 0, done.stderr
        waits[name] = pb.read_run(place / name).jobs["wait_s"].to_list()
    assert waits == {"plain": [0, 999, 994], "feedback": [0, 999, 0]}
    assert "--feedback" in json.loads((place / "feedback_summary.json").read_text())["command"]


def test_two_workloads_with_feedback_finish(place: Path) -> None:
    """One processor: job 3 of each workload follows its job 2, 5 s after its end at 2010 and 2020."""
    assert run_cli("workload", "convert", "log.swf", "w.json", "--feedback", cwd=place).returncode == 0
    args = ("--procs", "1", "--policy", "fcfs", "-e", "two", "-q")
    done = run_cli("simulate", "-w", "w.json", "-w", "w.json", *args, cwd=place)
    assert done.returncode == 0, done.stderr
    run = pb.read_run(place / "two")
    assert run.is_finished
    rows = run.jobs.select("id", "submitted_at", "started_at").sort("id").rows()
    assert [row for row in rows if row[0].endswith("!3")] == [("w0!3", 2015, 2020), ("w1!3", 2025, 2030)]


def test_convert_resample_and_campaigns_with_feedback(place: Path) -> None:
    done = run_cli("workload", "convert", "log.swf", "w.json", "--feedback", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "1 jobs follow the end of another (feedback)" in done.stdout
    content = json.loads((place / "w.json").read_text())
    assert content["feedback"] is True
    assert (content["jobs"][2]["depends_on"], content["jobs"][2]["think_time"]) == (2, 5)
    spec = WorkloadSpec.model_validate({"name": "log", "file": "log.swf", "feedback": True})
    (one,) = Preparer(place, [place]).prepare(spec, 0)
    assert json.loads(Path(one.path).read_text())["jobs"] == content["jobs"]
    done = run_cli("simulate", "-w", "w.json", "--policy", "fcfs", "-e", "again", "-q", cwd=place)
    assert done.returncode == 0, done.stderr
    weeks = [
        logs.line(k + 1, at, wait=0, run=10, allocated=1, user=5, requested_s=20)
        for k, at in enumerate((0, 15, 604_800, 604_815))
    ]
    (place / "weeks.swf").write_text("; MaxProcs: 1\n" + "\n".join(weeks) + "\n")
    done = run_cli("workload", "resample", "weeks.swf", "--feedback", "--weeks", "4", "--output", "r.json", cwd=place)
    assert done.returncode == 0, done.stderr
    made = json.loads((place / "r.json").read_text())
    assert made["feedback"] is True
    assert sum("depends_on" in job for job in made["jobs"]) == len(made["jobs"]) / 2


def test_a_real_batsim_and_logs_without_waits_are_refused(place: Path) -> None:
    args = ("-p", "rackham-core", "--policy", "fcfs", "--batsim", "./none", "-e", "out")
    done = run_cli("run", "-w", "log.swf", "--feedback", *args, cwd=place)
    assert done.returncode == 2
    assert "feedback: expected `pybatsched simulate`" in done.stderr
    (place / "bare.swf").write_text(logs.HEADER + logs.line(1, 0, wait=-1) + "\n" + logs.line(2, 60, wait=-1) + "\n")
    for command in (("workload", "convert", "bare.swf", "x.json"), ("simulate", "-w", "bare.swf", "--policy", "fcfs")):
        done = run_cli(*command, "--feedback", cwd=place)
        assert done.returncode == 2
        assert "feedback: expected a log with users and waits" in done.stderr
    assert not (place / "x.json").exists()
