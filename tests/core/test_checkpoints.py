"""Jobs with checkpoints, worked out by hand: where they go on after a kill, and what it cost them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, strategies as st
from support.examples import examples
from support.process import run_cli
from support.pushy import Gentle, Loader, Ruthless

import pybatsched as pb
from pybatsched.cli import main
from pybatsched.core import events as e
from pybatsched.core.checkpoints import Checkpoints, checkpoints_of
from pybatsched.core.jobs import Job
from pybatsched.core.policy import Policy
from pybatsched.errors import InputError
from pybatsched.metrics.outcomes import Outcome, joined
from pybatsched.platform import model
from pybatsched.session.session import Session
from pybatsched.simulator.failure_events import FailureModel, checkpointed
from pybatsched.testing import FakeBatsim, Workload, plan_for
from pybatsched.workload import model as workloads
from pybatsched.workload.inject.checkpoints import Checkpointing, daly_interval_s, progress_remark, with_checkpoints
from pybatsched_schedulers.fcfs import Fcfs

Events = list[tuple[float, str, str]]


def prepared(jobs: Workload, settings: Checkpointing | None = None, speed: float = 1e9) -> Workload:
    """Return the jobs, lengthened by their dumps."""
    whole = workloads.Workload(jobs.jobs, jobs.profiles, 8, "w.json")
    made = with_checkpoints(whole, settings, node_mtbf_s=None, speed=speed)
    return Workload.from_json({"jobs": made.jobs, "profiles": made.profiles})


def failing(
    jobs: Workload, events: Events, n_procs: int = 1, policy: str | type[Policy] = "fcfs", **options: Any
) -> tuple[FakeBatsim, dict[str, float]]:
    session = Session(plan_for(policy, on_failure="requeue_first", **options), checked=True)
    run = FakeBatsim(jobs, n_procs, {"dynamic-jobs-enabled": True}, events).run(session.handle)
    assert not run.deadlocked
    return run, session.engine.figures


def outages(*times: tuple[float, float], procs: str = "0") -> Events:
    return [
        event
        for at, until in times
        for event in ((at, e.MACHINES_UNAVAILABLE, procs), (until, e.MACHINES_AVAILABLE, procs))
    ]


def times(run: FakeBatsim) -> dict[str, tuple[float | None, float | None]]:
    return {job.id.removeprefix("w0!"): (job.started_at, job.ended_at) for job in run.jobs.values()}


def runtime_s(run: FakeBatsim) -> dict[str, float]:
    """Return the run times that count, as metrics join them."""
    rows = [
        Outcome(
            job.id, job.final_state, 0.0, job.started_at or 0.0, (job.ended_at or 0.0) - (job.started_at or 0.0), 1,
            job.metadata,
        )
        for job in run.jobs.values()
    ]  # fmt: skip
    return {record.id: round(record.runtime_s, 6) for record in joined(rows)}


def one(**fields: Any) -> Workload:
    """Return a job of 200 s that writes a checkpoint of 5 s every 50 s, and reads one in 2 s."""
    own = {"checkpoint_interval_s": 50, "checkpoint_dump_s": 5, "checkpoint_read_s": 2, **fields}
    return Workload().job("a", n=1, s=200, walltime=300, estimate=240, **own)


def test_dumps_lengthen_a_job() -> None:
    """Checkpoints after 50, 100 and 150 s of work, none at the end: 215 s. 300 s of walltime have five: 325 s."""
    jobs = prepared(one())
    assert jobs.jobs[0] | {"profile": ""} == {
        "id": "a", "subtime": 0.0, "res": 1, "profile": "", "walltime": 325, "estimate": 260,
        "checkpoint_interval_s": 50, "checkpoint_dump_s": 5, "checkpoint_read_s": 2, "checkpoint_work_s": 200,
    }  # fmt: skip
    assert jobs.profiles[jobs.jobs[0]["profile"]] == {"type": "delay", "delay": 215}
    run, figures = failing(jobs, [])
    assert times(run) == {"a": (0, 215)}
    assert (figures["checkpoint_s"], figures["lost_work_s"]) == (15, 0)
    assert figures["application_efficiency"] == 200 / 215


def test_a_job_goes_on_from_its_last_complete_checkpoint() -> None:
    """At 120 two checkpoints are complete (at 55 and 110). From 130: 2 s to read, 50 s, a dump of 5 s, 50 s."""
    run, figures = failing(prepared(one()), outages((120, 130)))
    assert times(run) == {"a": (0, 120), "dyn!w0.a.1": (130, 237)}
    assert runtime_s(run) == {"w0!a": 215}
    # 10 s were lost; three dumps and one read are overhead.
    assert (figures["lost_work_s"], figures["checkpoint_s"]) == (10, 17)
    assert figures["application_efficiency"] == 200 / 227
    assert "kept_s=110" in run.jobs["dyn!w0.a.1"].metadata
    assert "failures=1;lost_s=10" in run.jobs["dyn!w0.a.1"].metadata


def test_a_load_before_the_work_is_not_useful() -> None:
    """A job of 100 s with a load of 25 s before it: 125 s, of which 100 s are work."""
    jobs = Workload().job("a", n=1, s=100, walltime=300)
    _, figures = failing(jobs, [], policy=Loader, load_s=25)
    assert figures["application_efficiency"] == 100 / 125
    # Stopped at 60, after 35 s of work; at 70 it begins again, with another load: 35 s are lost, 50 s are loads.
    run, figures = failing(jobs, outages((60, 70)), policy=Loader, load_s=25)
    assert max(job.ended_at or 0 for job in run.jobs.values()) == 195
    assert (figures["lost_work_s"], figures["application_efficiency"]) == (35, 100 / 185)


@pytest.mark.parametrize(("policy", "lost_s"), [(Gentle, 0), (Ruthless, 40)])
def test_extra_seconds_of_a_requeue_are_not_useful(policy: type[Policy], lost_s: float) -> None:
    """At 40 the job is stopped. It goes on, or begins again, after 0.5 s that the policy adds."""
    jobs = Workload().job("a", n=1, s=100, walltime=300).job("b", n=1, s=5, walltime=9, at=40)
    _, figures = failing(jobs, [], policy=policy)
    assert (figures["lost_work_s"], figures["application_efficiency"]) == (lost_s, 105 / (105.5 + lost_s))


def test_a_dump_that_is_not_complete_is_lost() -> None:
    """At 109.5 the second dump is not complete; at 110 it is."""
    run, figures = failing(prepared(one()), outages((109.5, 120)))
    assert times(run)["dyn!w0.a.1"] == (120, 120 + 2 + 160)
    assert figures["lost_work_s"] == 54.5
    run, figures = failing(prepared(one()), outages((110, 120)))
    assert times(run)["dyn!w0.a.1"] == (120, 120 + 2 + 105)
    assert figures["lost_work_s"] == 0


def test_a_job_without_a_complete_checkpoint_starts_anew() -> None:
    run, figures = failing(prepared(one()), outages((54, 60)))
    assert times(run) == {"a": (0, 54), "dyn!w0.a.1": (60, 275)}
    assert runtime_s(run) == {"w0!a": 215}
    assert figures["lost_work_s"] == 54


def test_several_failures() -> None:
    """At 60 one checkpoint is complete; at 71 it is being read; at 140 there are two; at 160 no more."""
    run, figures = failing(prepared(one()), outages((60, 70), (71, 80), (140, 150), (160, 161)))
    # 0-60: K = 1, 5 s lost. 70-71: 1 s to read. 80-140: 2 + 55 = 57 s: K = 2, 3 s lost.
    # 150-160: 2 s to read, 8 s lost. 161: 2 + 50 + 5 + 50 = 107 s.
    assert times(run) == {
        "a": (0, 60),
        "dyn!w0.a.1": (70, 71),
        "dyn!w0.a.2": (80, 140),
        "dyn!w0.a.3": (150, 160),
        "dyn!w0.a.4": (161, 268),
    }
    assert runtime_s(run) == {"w0!a": 215}
    assert figures["lost_work_s"] == 5 + 3 + 8
    assert figures["checkpoint_s"] == 3 * 5 + (1 + 2 + 2 + 2)
    assert "failures=4;lost_s=16" in run.jobs["dyn!w0.a.4"].metadata


def test_the_walltime_shrinks_with_the_job() -> None:
    """A job of 200 s with a walltime of 120 s, 130 s with dumps, is ended there: at 130 s of its own run time."""
    run, _ = failing(prepared(_short()), outages((60, 70)))
    # K = 1: 130 - 55 + 2 = 77 s are left.
    assert times(run) == {"a": (0, 60), "dyn!w0.a.1": (70, 147)}
    assert run.jobs["dyn!w0.a.1"].final_state == e.COMPLETED_WALLTIME_REACHED


class SeesEstimates(Fcfs):
    """Notes the estimate and the walltime of each job that was killed."""

    seen: ClassVar[list[tuple[float | None, float | None]]] = []

    def on_failure(self, job: Job, now: float) -> None:
        self.seen.append((job.estimate, job.walltime))
        super().on_failure(job, now)


def test_a_job_past_its_estimate_is_planned_with_the_rest_of_its_walltime() -> None:
    """The estimate of 105 s, with a dump, is over at the kill after 120 s: the job continues from 110 s."""
    jobs = Workload().job(
        "a", n=1, s=200, walltime=600, estimate=100,
        checkpoint_interval_s=50, checkpoint_dump_s=5, checkpoint_read_s=2,
    )  # fmt: skip
    SeesEstimates.seen.clear()
    run, _ = failing(prepared(jobs), outages((120, 130)), policy=SeesEstimates)
    left_s = 600 + 11 * 5 - (110 - 2)
    assert SeesEstimates.seen == [(left_s, left_s)]
    assert times(run) == {"a": (0, 120), "dyn!w0.a.1": (130, 237)}


def _short() -> Workload:
    jobs = one()
    jobs.jobs[0]["walltime"] = 120
    return jobs


@pytest.mark.parametrize(
    ("profile", "amount"),
    [
        ({"type": "parallel_homogeneous", "cpu": 200e9, "com": 0}, 215e9),
        ({"type": "parallel_homogeneous_total", "cpu": 400e9, "com": 0}, 430e9),
        ({"type": "parallel", "cpu": [200e9, 200e9], "com": [0] * 4}, [215e9, 215e9]),
    ],
)
def test_computations(profile: dict[str, Any], amount: Any) -> None:
    """The same times as for delays, on two hosts of 1 Gflop/s."""
    jobs = one()
    jobs.jobs[0] |= {"profile": "work", "res": 2}
    jobs.profiles["work"] = profile
    jobs = prepared(jobs)
    cpu = jobs.profiles[jobs.jobs[0]["profile"]]["cpu"]
    assert cpu == pytest.approx(amount)
    run, figures = failing(jobs, outages((120, 130)), n_procs=2)
    assert times(run)["a"] == (0, 120)
    assert times(run)["dyn!w0.a.1"] == pytest.approx((130, 237))
    assert (figures["lost_work_s"], figures["checkpoint_s"]) == pytest.approx((20, 34))


@pytest.mark.parametrize("mode", ["suspend", "kill_restart"])
def test_a_suspended_job_keeps_its_place_and_its_checkpoints(mode: str) -> None:
    """ujfb suspends a at 60 for an urgent job of 10 s. Suspended, a keeps 60 s, and killed it keeps 55 s of 215 s."""
    jobs = prepared(one())
    jobs.job("u", n=1, s=10, at=60, walltime=11, urgent=True)
    session = Session(plan_for("ujfb", on_failure="requeue_first", mode=mode, swap="fixed", swap_in=0, swap_out=0))
    run = FakeBatsim(jobs, 1, {"dynamic-jobs-enabled": True}, outages((120, 130))).run(session.handle)
    if mode == "suspend":
        # 70-120: 110 s of its own time, so two checkpoints are complete.
        assert times(run)["dyn!w0.a.1"] == (70, 120)
        assert times(run)["dyn!w0.a.2"] == (130, 130 + 2 + 105)
    else:
        # From 70: 2 s to read, 48 s lost at 120.
        assert times(run)["dyn!w0.a.1"] == (70, 120)
        assert times(run)["dyn!w0.a.2"] == (130, 130 + 2 + 160)
    assert runtime_s(run)["w0!a"] == 215


def simulated(checkpoints: Checkpoints, kills: list[float]) -> tuple[list[float], float]:
    """Run a job second by second: return how long each segment runs, and the lost seconds. All times are whole."""
    segments, saved, lost = [], 0, 0
    kills = [*kills, math.inf]
    for kill in kills:
        ran = done = 0
        position, unsaved = saved, 0
        phases = ["read"] * int(checkpoints.read_s) if saved else []
        while position < checkpoints.work_s or phases:
            if ran == kill:
                break
            if phases:
                phase = phases.pop(0)
                if phase == "last dump":
                    saved, unsaved = position, 0
                elif phase == "dump":
                    unsaved += 1
            else:
                position += 1
                unsaved += 1
                if position % checkpoints.interval_s == 0 and position < checkpoints.work_s:
                    phases = ["dump"] * (int(checkpoints.dump_s) - 1) + ["last dump"]
            ran += 1
            done = position
        segments.append(ran)
        if done >= checkpoints.work_s and not phases:
            return [float(s) for s in segments], float(lost)
        lost += unsaved
    raise AssertionError


@examples(150)
@given(
    st.integers(1, 40),
    st.integers(1, 6),
    st.integers(0, 6),
    st.integers(1, 150),
    st.lists(st.integers(1, 90), max_size=5),
)
def test_the_times_are_those_of_a_run_second_by_second(
    interval: int, dump: int, read: int, work: int, lengths: list[int]
) -> None:
    fields = {"checkpoint_interval_s": interval, "checkpoint_dump_s": dump, "checkpoint_read_s": read}
    jobs = prepared(Workload().job("a", n=1, s=work, walltime=work + 1, **fields))
    expected, lost = simulated(Checkpoints(interval, dump, read, work), [float(length) for length in lengths])
    events, at = [], 0.0
    for length in lengths:
        events += outages((at + length, at + length + 1))
        at += length + 1
    run, figures = failing(jobs, events)
    found = sorted(
        (job.started_at or 0.0, (job.ended_at or 0.0) - (job.started_at or 0.0)) for job in run.jobs.values()
    )
    assert [ran for _, ran in found] == expected
    assert figures["lost_work_s"] == lost
    assert runtime_s(run)["w0!a"] == Checkpoints(interval, dump, read, work).total_s


def test_daly() -> None:
    """On 4 hosts with an MTBF of 40,000 s, a job on 2 hosts has one of 20,000 s."""
    job = {"id": "a", "subtime": 0, "res": 2, "profile": "d", "walltime": 9000}
    whole = workloads.Workload([job], {"d": {"type": "delay", "delay": 8000}}, 4, "w.json")
    failures = FailureModel(10_000.0, of="system")
    made = checkpointed({"w0": whole}, Checkpointing(dump="60"), model.uniform(4), failures)["w0"].jobs[0]
    ratio = 60 / (2 * 20_000)
    expected_s = math.sqrt(2 * 60 * 20_000) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - 60
    assert made["checkpoint_interval_s"] == pytest.approx(expected_s, abs=1e-6)
    assert made["checkpoint_read_s"] == 60
    # C / 2M = 0.01: 1000 * (1 + 0.1 / 3 + 0.01 / 9) - 100, and 300 * (1 + 0.9 / 3 + 0.81 / 9) - 270 near C = 2M.
    assert daly_interval_s(100, 5000) == pytest.approx(1000 + 100 / 3 + 10 / 9 - 100)
    assert daly_interval_s(270, 270 / 1.62) == pytest.approx(300 * 1.39 - 270)
    assert daly_interval_s(270, 135) == 135


@pytest.mark.parametrize(("n_hosts", "attempts"), [(1, ""), (3, ""), (4, "162,755")])
@pytest.mark.parametrize("rule", ["kill", "requeue_last"])
def test_checkpoints_that_are_hardly_ever_complete(
    n_hosts: int, attempts: str, rule: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """20 s of work and a dump of 280 s, with failures every 100 s: e^9 attempts are few enough, e^12 are not.

    The run starts, also without requeued jobs. It ends before the first failure.
    """
    job = {"id": "a", "subtime": 0, "res": n_hosts, "profile": "d", "checkpoint_interval_s": 20}
    short = {**job, "id": "b", "res": 4, "profile": "s"}
    profiles = {"d": {"type": "delay", "delay": 8000}, "s": {"type": "delay", "delay": 20}}
    (tmp_path / "w.json").write_text(json.dumps({"nb_res": 4, "jobs": [short, job], "profiles": profiles}))
    args = ["-w", str(tmp_path / "w.json"), "--procs", "4", "--policy", "fcfs", "-o", f"on_failure={rule}"]
    args += ["--mtbf", "100", "--repair", "1", "--checkpoint", "daly", "--checkpoint-dump", "280", "--stop-at", "1"]
    main(["simulate", *args, "-e", str(tmp_path / "x")])
    said = capsys.readouterr().err
    expected = (
        f"w.json: job a: its hosts fail every 25 s on average, so that it needs about {attempts} attempts for one"
    )
    assert (expected in said) == bool(attempts)
    assert ("attempts" in said) == bool(attempts)
    assert (tmp_path / "x_jobs.csv").exists()


def test_the_remark_on_checkpoints_names_the_worst_job() -> None:
    """(20 + 280) s on 4 hosts that fail every 100 s each: e^12 attempts; on 5 hosts e^15, and on 2,000 e^6000."""
    jobs = Workload().job("a", n=4, s=900).job("b", n=5, s=900).job("c", n=1, s=900)
    made = with_checkpoints(
        workloads.Workload(jobs.jobs, jobs.profiles, 8, "w.json"),
        Checkpointing("20", "280"),
        node_mtbf_s=100.0,
        speed=None,
    )
    said = progress_remark(made, 100.0)
    assert "job b: its hosts fail every 20 s on average, so that it needs about 3,269,017 attempts (more than" in said
    assert "than 20,000 also for 1 other job) for one checkpoint after 20 s of work" in said
    made.jobs[0]["res"] = 2000
    assert "about e^6000 attempts" in progress_remark(made, 100.0)


def test_short_jobs_and_prepared_jobs_stay() -> None:
    jobs = Workload().job("a", n=1, s=40, walltime=50).job("b", n=1, s=90, walltime=99)
    once = prepared(jobs, Checkpointing("50", "5", "1"))
    assert once.jobs[0] == jobs.jobs[0]
    assert once.jobs[1]["checkpoint_work_s"] == 90
    assert prepared(once, Checkpointing("50", "5", "1")).jobs == once.jobs


def test_jobs_of_other_sizes_share_no_profile_of_a_total() -> None:
    """800 Gflop at 1 Gflop/s: 200 s on four hosts and 160 s on five, with three dumps of 5 s each."""
    sizes = {"a": 4, "b": 4, "c": 5}
    jobs = [{"id": name, "subtime": 0, "res": n, "profile": "t", "walltime": 900} for name, n in sizes.items()]
    whole = workloads.Workload(jobs, {"t": {"type": "parallel_homogeneous_total", "cpu": 8e11, "com": 0}}, 8, "w.json")
    made = with_checkpoints(whole, Checkpointing("50", "5"), node_mtbf_s=None, speed=1e9)
    run_s = [made.profiles[job["profile"]]["cpu"] / job["res"] / 1e9 for job in made.jobs]
    assert run_s == pytest.approx([215, 215, 175])
    assert len(made.profiles) == 3


def test_a_profile_of_the_user_is_not_replaced() -> None:
    """The profile of a job with three dumps would have the name of one of the user's."""
    jobs = one()
    base = jobs.jobs[0]["profile"]
    jobs.profiles[f"{base}+3x5"] = {"type": "delay", "delay": 1}
    made = prepared(jobs)
    assert made.profiles[f"{base}+3x5"] == {"type": "delay", "delay": 1}
    assert made.profiles[made.jobs[0]["profile"]] == {"type": "delay", "delay": 215}


def test_daly_needs_a_dump() -> None:
    jobs = one(checkpoint_interval_s="daly", checkpoint_dump_s=0)
    whole = workloads.Workload(jobs.jobs, jobs.profiles, 8, "w.json")
    with pytest.raises(InputError, match=r"w\.json: job a, field checkpoint_dump_s: expected more than 0 seconds"):
        with_checkpoints(whole, None, node_mtbf_s=1000.0, speed=1e9)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"checkpoint_interval_s": 0}, "field checkpoint_interval_s: expected more than 0 seconds"),
        ({"checkpoint_interval_s": 1e-9}, "field checkpoint_interval_s: expected more than 0 seconds"),
        ({"checkpoint_interval_s": -5}, "field checkpoint_interval_s: expected 0 seconds or more, found -5"),
        ({"checkpoint_dump_s": "x"}, "field checkpoint_dump_s: expected 0 seconds or more, found 'x'"),
        ({"checkpoint_interval_s": "daly"}, "needs the MTBF"),
    ],
)
def test_wrong_fields(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=f"w.json: job a.*{text}"):
        prepared(one(**fields))


def test_communication_has_no_checkpoints() -> None:
    jobs = one()
    jobs.jobs[0]["profile"] = "talk"
    jobs.profiles["talk"] = {"type": "parallel_homogeneous", "cpu": 1e9, "com": 1e6}
    with pytest.raises(InputError, match="w.json: job a: profile talk: checkpoints need delays"):
        prepared(jobs)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ("0", "interval"),
        ("0.0000001", "interval"),
        ({"dump": "0"}, "dump"),
        ({"every": "1h"}, "unknown setting"),
        ({"read": []}, "read"),
    ],
)
def test_wrong_settings(settings: Any, text: str) -> None:
    with pytest.raises(InputError, match=f"checkpoint: .*{text}"):
        Checkpointing.of_settings(settings)


def test_a_job_that_was_not_lengthened_is_an_error() -> None:
    with pytest.raises(InputError, match="workload inject FILE checkpoints"):
        checkpoints_of("w0!a", one().jobs[0])


def test_commands_and_python(tmp_path: Path) -> None:
    log = pb.generate_workload("lublin", n_jobs=80, n_procs=16, seed=4)
    log.write(tmp_path / "w.json")
    failures = {"mtbf": "3d", "repair": "1h", "seed": 1}
    run = pb.simulate(log, "easy", n_procs=16, failures=failures, checkpoint={"dump": "1m"}, progress=False)
    plain = pb.simulate(log, "easy", n_procs=16, failures=failures, progress=False)
    with_dumps: dict[str, Any] = dict(run.figures)
    without: dict[str, Any] = dict(plain.figures)
    assert with_dumps["lost_work_s"] < without["lost_work_s"]
    assert with_dumps["checkpoint_s"] > 0
    assert without["application_efficiency"] < with_dumps["application_efficiency"] < 1
    args = ("--procs", "16", "--policy", "easy", "--mtbf", "3d", "--repair", "1h", "--failure-seed", "1")
    inline = ("-w", "w.json", "--checkpoint", "daly", "--checkpoint-dump", "1m")
    result = run_cli("simulate", *args, *inline, "-e", "out/a", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    inject = ("workload", "inject", "w.json", "checkpoints", "--mtbf", "3d", "--dump", "1m", "--output", "c.json")
    assert run_cli(*inject, cwd=tmp_path).returncode == 0
    assert run_cli("simulate", *args, "-w", "c.json", "-e", "out/b", cwd=tmp_path).returncode == 0
    rows = [(tmp_path / f"out/{name}_jobs.csv").read_text() for name in "ab"]
    assert rows[0] == rows[1]
    summary = json.loads((tmp_path / "out/a_summary.json").read_text())
    assert summary["checkpoint"] == {"interval": "daly", "dump": "1m", "read": None}
    assert summary["policy_figures"]["lost_work_s"] == run.figures["lost_work_s"]
    result = run_cli("simulate", *args[:4], "-w", "w.json", "--checkpoint", "daly", "-e", "out/c", cwd=tmp_path)
    assert result.returncode == 2
    assert "needs the MTBF" in result.stderr


def test_facts_of_failures_are_figures() -> None:
    log = pb.generate_workload("lublin", n_jobs=80, n_procs=16, seed=4)
    run = pb.simulate(log, "easy", n_procs=16, failures={"mtbf": "3d", "seed": 1}, progress=False)
    failures = run.jobs["failures"].drop_nulls()
    assert failures.sum() == run.figures["n_failure_kills"]
    assert failures.sum() > 0
