"""With the real Batsim: every policy on every recorded input, and failures on both sides."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.patience import PATIENCE_S
from support.places import GOLDEN, PUSHY
from support.process import Server
from support.recordings import Recording, recordings
from support.simulated import embed, rows, same_jobs

from pybatsched.session.journal import JournalReader
from pybatsched.session.replay import replay
from pybatsched.simulator.work.profiles import PFS, STAGING

pytestmark = pytest.mark.batsim

SCHEDULES = sorted(path.parent for path in (GOLDEN / "schedules").glob("*/workload.json"))

NOT_RUN = {
    "job-messages": "a recv profile waits for a message that these policies never send",
    "sched-config": "its --sched-cfg holds an option that no policy has (tested below)",
}


def uses_storage(recording: Recording) -> bool:
    """Return whether decisions need a storage mapping, which these policies do not have. Batsim aborts without it."""
    files = [recording.args[i + 1] for i, arg in enumerate(recording.args) if arg == "-w"]
    profiles = [json.loads((recording.directory / name).read_text())["profiles"] for name in files]
    return any(profile["type"] in {PFS, STAGING} for one in profiles for profile in one.values())


INPUTS = [r for r in recordings() if r.name not in NOT_RUN and not uses_storage(r)]

#: Refused by the embedded simulator, or known to show the clock noise of SimGrid (docs/conformance.md).
NOT_EMBEDDED = {"clock-noise", "very-short", "storage", "com-free-network"} | {
    r.name for r in INPUTS if r.name.startswith("com-wired")
}


def batsim(directory: Path, args: list[str], endpoint: str, prefix: Path) -> subprocess.Popen[str]:
    command = ["batsim", *args, "-s", endpoint, "-e", str(prefix), "-v", "quiet"]
    return subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def simulate(policy: str, directory: Path, args: list[str], out: Path, *options: str) -> tuple[int, int, str]:
    """Run a policy with Batsim. Return both exit codes and the errors of the scheduler."""
    journal = str(out / "run.pbj")
    with Server("--policy", policy, *options, "--journal", journal) as server:
        simulator = batsim(directory, args, server.wait_ready(), out / "out")
        simulator.communicate(timeout=PATIENCE_S)
        code = server.finish()
    assert replay(JournalReader(journal), policy).difference is None
    return simulator.returncode, code, server.errors


def static_jobs(recording: Recording) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Return each job of the input with its profile."""
    args = recording.args
    files = [args[i + 1] for i, arg in enumerate(args) if arg == "-w"]
    jobs = {}
    for index, name in enumerate(files):
        content = json.loads((recording.directory / name).read_text())
        for job in content["jobs"]:
            jobs[f"w{index}!{job['id']}"] = (job, content["profiles"][job["profile"]])
    return jobs


def expected_states(job: dict[str, Any], profile: dict[str, Any]) -> set[str]:
    if profile["type"] == "delay":
        walltime = job.get("walltime", -1)
        if walltime > 0 and profile["delay"] >= walltime:
            return {"COMPLETED_WALLTIME_REACHED"}
        return {"COMPLETED_FAILED"} if profile.get("ret") else {"COMPLETED_SUCCESSFULLY"}
    return {"COMPLETED_SUCCESSFULLY", "COMPLETED_FAILED", "COMPLETED_WALLTIME_REACHED"}


@pytest.mark.parametrize("recording", INPUTS, ids=lambda r: r.name)
@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative", "dbf"])
def test_all_jobs_end_as_they_should(policy: str, recording: Recording, tmp_path: Path) -> None:
    simulator, scheduler, output = simulate(policy, recording.directory, recording.args, tmp_path)
    assert (simulator, scheduler) == (0, 0), output
    ended = {f"{row['workload_name']}!{row['job_id']}": row for row in rows(tmp_path / "out_jobs.csv")}
    jobs = static_jobs(recording)
    assert set(ended) == set(jobs)
    n_procs = int(rows(tmp_path / "out_schedule.csv")[0]["nb_computing_machines"])
    for job_id, (job, profile) in jobs.items():
        state = ended[job_id]["final_state"]
        if state == "REJECTED":
            no_plan = policy in {"conservative", "dbf"} and job.get("walltime", -1) <= 0 and "estimate" not in job
            assert job["res"] > n_procs or no_plan or job["res"] == 0
        else:
            assert state in expected_states(job, profile)
            assert float(ended[job_id]["starting_time"]) >= float(ended[job_id]["submission_time"])
    if recording.name not in NOT_EMBEDDED:
        mine = embed(recording.directory, recording.args, policy, tmp_path / "mine")
        same_jobs(mine, tmp_path / "out_jobs.csv")


@pytest.mark.parametrize("directory", SCHEDULES, ids=lambda d: d.name)
@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
def test_schedules_are_those_of_the_counting_rules(policy: str, directory: Path, tmp_path: Path) -> None:
    args = ["-p", "platform.xml", "-w", "workload.json"]
    assert simulate(policy, directory, args, tmp_path)[:2] == (0, 0)
    mine = {row["job_id"]: row["starting_time"] for row in rows(tmp_path / "out_jobs.csv")}
    if policy == "fcfs":
        expected = {row["job_id"]: row["starting_time"] for row in rows(directory / "fcfs_fast_jobs.csv")}
    else:
        expected = {row["job_id"]: row["start"] for row in rows(directory / f"counted_{policy}_starts.csv")}
    assert mine == expected
    same_jobs(embed(directory, args, policy, tmp_path / "mine"), tmp_path / "out_jobs.csv")


def write_input(directory: Path) -> list[str]:
    """Make an input with delays, parallel tasks and mixtures of them."""
    platform = (INPUTS[0].directory.parent / "plain" / "platform.xml").read_text()
    (directory / "platform.xml").write_text(platform)
    profiles = {
        "d": {"type": "delay", "delay": 20},
        "dd": {"type": "composed", "repeat": 2, "seq": ["d", "d"]},
        "p": {"type": "parallel_homogeneous", "cpu": 20e9, "com": 0},
        "mix": {"type": "composed", "repeat": 2, "seq": ["d", "p"]},
    }
    jobs = [
        {"id": f"{name}{i}", "subtime": 7 * i + k, "res": 1 + (i + k) % 4, "profile": name, "walltime": 400}
        for i in range(6)
        for k, name in enumerate(profiles)
    ]
    (directory / "workload.json").write_text(json.dumps({"nb_res": 4, "jobs": jobs, "profiles": profiles}))
    return ["-p", "platform.xml", "-w", "workload.json", "--enable-dynamic-jobs"]


@pytest.mark.parametrize("acknowledge", [[], ["--acknowledge-dynamic-jobs"]])
def test_jobs_requeued_from_scratch_all_end(acknowledge: list[str], tmp_path: Path) -> None:
    args = write_input(tmp_path)
    content = json.loads((tmp_path / "workload.json").read_text())
    policy = f"{PUSHY}:Restarter"
    simulator, scheduler, output = simulate(policy, tmp_path, [*args, "--enable-profile-reuse", *acknowledge], tmp_path)
    assert (simulator, scheduler) == (0, 0), output
    table = rows(tmp_path / "out_jobs.csv")
    last_words: dict[str, list[str]] = {f"w0!{job['id']}": [] for job in content["jobs"]}
    n_requeued = 0
    for row in table:
        note = dict(part.split("=", 1) for part in row["metadata"].split(";") if part)
        parent = note.get("parent", f"{row['workload_name']}!{row['job_id']}")
        n_requeued += "parent" in note
        last_words[parent].append(row["final_state"])
    assert n_requeued > 5
    for arguments in last_words.values():
        assert arguments.count("COMPLETED_SUCCESSFULLY") == 1
        assert set(arguments) <= {"COMPLETED_SUCCESSFULLY", "COMPLETED_KILLED"}


def test_using_a_deleted_profile_is_an_error_before_batsim_aborts(tmp_path: Path) -> None:
    simulator, scheduler, output = simulate(f"{PUSHY}:Restarter", tmp_path, write_input(tmp_path), tmp_path)
    assert (scheduler, simulator != 0) == (6, True)
    assert "start Batsim with --enable-profile-reuse" in output


@pytest.mark.parametrize("policy", ["Gentle", "Stretcher"])
def test_jobs_requeued_with_their_rest_or_another_size_complete(policy: str, tmp_path: Path) -> None:
    args = write_input(tmp_path)
    content = json.loads((tmp_path / "workload.json").read_text())
    content["jobs"] = [job for job in content["jobs"] if job["profile"] != "mix"]
    (tmp_path / "workload.json").write_text(json.dumps(content))
    simulator, scheduler, output = simulate(f"{PUSHY}:{policy}", tmp_path, args, tmp_path)
    assert (simulator, scheduler) == (0, 0), output
    table = rows(tmp_path / "out_jobs.csv")
    assert sum(row["final_state"] == "COMPLETED_SUCCESSFULLY" for row in table) == len(content["jobs"])
    if policy == "Gentle":
        work: dict[str, float] = {}
        for row in table:
            note = dict(part.split("=", 1) for part in row["metadata"].split(";") if part)
            job = note.get("parent", f"{row['workload_name']}!{row['job_id']}").partition("!")[2]
            work[job] = work.get(job, 0.0) + float(row["execution_time"])
            work[job] -= 0.5 if row["final_state"] == "COMPLETED_KILLED" else 0.0
        durations = {"d": 20.0, "dd": 80.0, "p": 20.0}
        for job in content["jobs"]:
            assert work[job["id"]] == pytest.approx(durations[job["profile"]], abs=1e-3)
    else:
        durations_seen = {float(row["execution_time"]) for row in table if row["workload_name"] == "dyn"}
        assert durations_seen == {7.25}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("requeued", ["", "all", "rest"])
def test_reshaped_jobs_complete(requeued: str, seed: int, tmp_path: Path) -> None:
    args = write_input(tmp_path)
    content = json.loads((tmp_path / "workload.json").read_text())
    content["jobs"] = [job for job in content["jobs"] if job["profile"] in {"d", "dd"}]
    (tmp_path / "workload.json").write_text(json.dumps(content))
    policy, options = f"{PUSHY}:Molder", ["-o", f"seed={seed}", "-o", f"requeued={requeued}", "-o", "load_s=1.25"]
    simulator, scheduler, output = simulate(policy, tmp_path, args, tmp_path, *options)
    assert (simulator, scheduler) == (0, 0), output
    table = rows(tmp_path / "out_jobs.csv")
    assert sum(row["final_state"] == "COMPLETED_SUCCESSFULLY" for row in table) == len(content["jobs"])
    assert sum("replaced_by=" in row["metadata"] for row in table) > 5
    assert any("kind=requeue" in row["metadata"] for row in table) == bool(requeued)
    same_jobs(embed(tmp_path, [*args, *options], policy, tmp_path / "mine"), tmp_path / "out_jobs.csv")


def test_a_deadlock_is_diagnosed(tmp_path: Path) -> None:
    simulator, scheduler, output = simulate(f"{PUSHY}:Lazy", tmp_path, write_input(tmp_path)[:4], tmp_path)
    assert (simulator, scheduler) == (0, 4)
    assert "24 waiting" in output
    assert "deadlock" in output


def test_batsim_does_not_hang_when_a_policy_fails(tmp_path: Path) -> None:
    simulator, scheduler, output = simulate(f"{PUSHY}:Greedy", tmp_path, write_input(tmp_path)[:4], tmp_path)
    assert scheduler == 6
    assert "right number" in output or "processors free" in output
    assert simulator != 0


def test_a_missing_batsim_option_is_named(tmp_path: Path) -> None:
    simulator, scheduler, output = simulate(f"{PUSHY}:Gentle", tmp_path, write_input(tmp_path)[:4], tmp_path)
    assert (scheduler, simulator != 0) == (2, True)
    assert "--enable-dynamic-jobs" in output


def test_sched_config_reaches_the_policy(tmp_path: Path) -> None:
    args = write_input(tmp_path)[:4]
    good = [*args, "--sched-cfg", '{"policy": "easy", "order": "sjf"}']
    assert simulate("easy", tmp_path, good, tmp_path)[:2] == (0, 0)
    bad = [*args, "--sched-cfg", '{"ordre": "sjf"}']
    simulator, scheduler, output = simulate("easy", tmp_path, bad, tmp_path)
    assert (scheduler, simulator != 0) == (2, True)
    assert "unknown option 'ordre' (from Batsim's --sched-cfg)" in output
