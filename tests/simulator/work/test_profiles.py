"""Profiles and jobs that must be rejected, or run, without a traceback or a hang."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.places import RECORDED
from support.process import run_cli
from support.simulated import rows

DELAY = {"type": "delay", "delay": 1}


def simulate(directory: Path, profiles: dict[str, Any], *jobs: dict[str, Any], args: tuple[str, ...] = ()) -> Any:
    listed = [{"subtime": 0, "res": 1, "profile": "p", **job} for job in jobs or ({"id": "a"},)]
    (directory / "w.json").write_text(json.dumps({"nb_res": 4, "jobs": listed, "profiles": profiles}))
    return run_cli("simulate", "--procs", "4", "-w", "w.json", "--policy", "fcfs", *args, cwd=directory)


def test_shared_parts_of_profiles_load_quickly(tmp_path: Path) -> None:
    """Thirty doublings are a billion parts, which must not be expanded before the job runs."""
    profiles: dict[str, Any] = {"x0": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0}}
    for i in range(1, 31):
        profiles[f"x{i}"] = {"type": "composed", "seq": [f"x{i - 1}", f"x{i - 1}"]}
    profiles["p"] = profiles.pop("x30")
    done = simulate(tmp_path, profiles, {"id": "a", "walltime": 10})
    assert done.returncode == 0, done.stderr
    assert rows(tmp_path / "out_jobs.csv")[0]["final_state"] == "COMPLETED_WALLTIME_REACHED"
    profiles["x0"] = DELAY
    (tmp_path / "w.json").write_text(
        json.dumps({"nb_res": 4, "jobs": [{"id": 1, "subtime": 0, "res": 1, "profile": "p"}], "profiles": profiles})
    )
    assert run_cli("workload", "stats", "w.json", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(("depth", "code"), [(99, 0), (3000, 2)])
def test_long_chains_of_profiles_run_or_are_rejected(depth: int, code: int, tmp_path: Path) -> None:
    profiles: dict[str, Any] = {"c0": DELAY}
    for i in range(1, depth):
        profiles[f"c{i}"] = {"type": "composed", "seq": [f"c{i - 1}"]}
    profiles["p"] = {"type": "composed", "seq": [f"c{depth - 1}"]}
    done = simulate(tmp_path, profiles)
    assert done.returncode == code, done.stderr
    if code:
        assert "has more than 100 levels of nesting; run it with Batsim" in done.stderr


def test_a_profile_part_for_another_number_of_processors_is_rejected(tmp_path: Path) -> None:
    profiles = {
        "two": {"type": "parallel", "cpu": [1e9, 1e9], "com": [0, 0, 0, 0]},
        "p": {"type": "composed", "seq": ["two"]},
    }
    done = simulate(tmp_path, profiles)
    assert done.returncode == 2
    assert "job w0!a requests 1 processors; expected 2, the size of its profile p" in done.stderr
    assert simulate(tmp_path, profiles, {"id": "a", "res": 2}).returncode == 0


def test_two_spellings_of_one_id_are_rejected(tmp_path: Path) -> None:
    done = simulate(tmp_path, {"p": DELAY}, {"id": "1"}, {"id": "w0!1"})
    assert done.returncode == 2
    assert 'w.json: job "w0!1", field id: it means the same as "1" in the workload w0' in done.stderr


def test_a_member_named_report_is_ignored(tmp_path: Path) -> None:
    simulate(tmp_path, {"p": DELAY})
    content = json.loads((tmp_path / "w.json").read_text()) | {"report": 3}
    (tmp_path / "w.json").write_text(json.dumps(content))
    done = run_cli("simulate", "--procs", "4", "-w", "w.json", "--policy", "fcfs", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_recv_profile_with_an_unknown_branch_is_reported(tmp_path: Path) -> None:
    """Batsim looks the branch up when the message has come, and aborts."""
    profiles = {"p": {"type": "recv", "timeout": "nowhere"}}
    done = simulate(tmp_path, profiles)
    assert done.returncode == 6
    assert "continues with profile 'nowhere'; it does not exist" in done.stderr


@pytest.mark.parametrize("target", ["out_schedule.csv", "out_jobs.csv"])
def test_outputs_that_cannot_be_written_are_reported(target: str, tmp_path: Path) -> None:
    (tmp_path / target).mkdir()
    done = simulate(tmp_path, {"p": DELAY})
    assert done.returncode == 2
    assert f"cannot write {target}" in done.stderr


def test_the_summary_has_the_options_that_were_used(tmp_path: Path) -> None:
    args = ("--sched-cfg", '{"order": "sjf"}')
    assert simulate(tmp_path, {"p": DELAY}, args=args).returncode == 0
    assert json.loads((tmp_path / "out_summary.json").read_text())["policy"]["options"]["order"] == "sjf"
    before = (tmp_path / "out_jobs.csv").read_text()
    done = simulate(tmp_path, {"p": DELAY}, {"id": "b"}, args=("--sched-cfg", '{"ordre": "sjf"}'))
    assert done.returncode == 2
    assert (tmp_path / "out_jobs.csv").read_text() == before
    assert (tmp_path / "out_summary.json").exists()


def test_a_decision_that_the_engine_cannot_check_is_reported_by_the_simulator(tmp_path: Path) -> None:
    (tmp_path / "nosy.py").write_text(
        "from pybatsched import Policy\n"
        "from pybatsched.core.decisions import SetResourceState\n"
        "from pybatsched.core.intervals import IntervalSet\n"
        "class Nosy(Policy):\n"
        "    def decide(self, now):\n"
        "        return [SetResourceState(IntervalSet([0]), '1')]\n"
    )
    simulate(tmp_path, {"p": DELAY})
    done = run_cli("simulate", "--procs", "4", "-w", "w.json", "--policy", "nosy.py:Nosy", cwd=tmp_path)
    assert done.returncode == 6
    assert "what Batsim refuses" in done.stderr
    assert "needs energy (-E), which is off" in done.stderr


@pytest.mark.parametrize("job", [{"id": "a", "subtime": 1e308}, {"id": "a"}])
def test_times_above_the_maximum_simulated_time_are_rejected(job: dict[str, Any], tmp_path: Path) -> None:
    delay = 1.0 if "subtime" in job else 1e308
    done = simulate(tmp_path, {"p": {"type": "delay", "delay": delay}}, job)
    assert done.returncode == 2
    assert "exceeds the maximum simulated time 1e+30 s" in done.stderr


@pytest.mark.parametrize("name", ["a,b", 'a"b', "a!b", "a\nb"])
def test_ids_that_batsim_rejects_are_rejected(name: str, tmp_path: Path) -> None:
    done = simulate(tmp_path, {"p": DELAY}, {"id": name})
    assert done.returncode == 2
    expected = (
        "expected an id without '!', commas, quotes, backslashes, line ends or NUL characters, which Batsim rejects"
    )
    assert expected in done.stderr


@pytest.mark.parametrize(("job", "profiles"), [({"id": "\ud800"}, {}), ({"id": "a"}, {"\ud800": DELAY})])
def test_lone_surrogates_in_names_are_input_errors(
    job: dict[str, Any], profiles: dict[str, Any], tmp_path: Path
) -> None:
    done = simulate(tmp_path, {"p": DELAY, **profiles}, job)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_inputs_are_not_overwritten(tmp_path: Path) -> None:
    simulate(tmp_path, {"p": DELAY})
    before = (tmp_path / "w.json").read_text()
    assert simulate(tmp_path, {"p": DELAY}, args=("--journal", "./w.json")).returncode == 2
    assert run_cli("workload", "convert", "w.json", "./w.json", cwd=tmp_path).returncode == 2
    assert (tmp_path / "w.json").read_text() == before


def test_delays_on_one_host_with_energy(tmp_path: Path) -> None:
    """Shared processors and energy together: two delays have the same first host."""
    platform = RECORDED / "energy" / "platform.xml"
    (tmp_path / "platform.xml").write_text(platform.read_text())
    (tmp_path / "all.py").write_text(
        "from pybatsched import Policy\n"
        "from pybatsched.core.decisions import ExecuteJob\n"
        "class AtOnce(Policy):\n"
        "    def on_begin(self, cluster):\n"
        "        self.procs, self.jobs = cluster.procs, []\n"
        "    def on_job_submitted(self, job, now):\n"
        "        self.jobs.append(job)\n"
        "    def decide(self, now):\n"
        "        while self.jobs:\n"
        "            job = self.jobs.pop(0)\n"
        "            yield ExecuteJob(job.id, self.procs.first(job.n_procs))\n"
    )
    simulate(tmp_path, {"p": DELAY}, {"id": "a"}, {"id": "b"}, {"id": "c", "subtime": 0.5})
    args = ["-p", "platform.xml", "-w", "w.json", "--policy", "all.py:AtOnce", "-E", "--enable-compute-sharing"]
    done = run_cli("simulate", *args, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert {row["execution_time"] for row in rows(tmp_path / "out_jobs.csv")} == {"1.000000"}
