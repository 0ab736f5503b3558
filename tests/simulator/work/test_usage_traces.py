"""Usage traces: duration, energy and early ends; compared with the real Batsim."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from support.free_links import equal_nodes
from support.process import run_cli
from support.simulated import beside_batsim, rows, same_jobs

from pybatsched.errors import InputError
from pybatsched.simulator.work.usage_traces import read_ranks

#: Four hosts of four cores of 1 Gflop/s that draw 100 W idle, 120 W with a little work and 200 W in full use.
PLATFORM = equal_nodes(4, n_cores=4, properties={"wattage_per_state": "100:120:200"})
TRACES = {
    "full": ["0 m_usage 1.0 8e9"],
    "halves": ["0 m_usage 0.5 4e9", "1 m_usage 0.25 6e9"],
    "phases": ["0 m_usage 1.0 2e9\n0 m_usage 0 0\n0 m_usage 0.25 4e9", "# idle\n"],
    "crowd": ["0 m_usage 1.0 4e9", "1 m_usage 1.0 4e9", "2 m_usage 0.5 1e9"],
}


def write(directory: Path, *jobs: dict[str, Any]) -> list[str]:
    """Write traces, a platform and a workload of these jobs. Gives Batsim's arguments."""
    for name, ranks in TRACES.items():
        folder = directory / "traces" / name
        folder.mkdir(parents=True, exist_ok=True)
        for rank, text in enumerate(ranks):
            (folder / f"rank{rank}.txt").write_text(text + "\n")
        (folder / "all.txt").write_text("".join(f"rank{rank}.txt\n" for rank in range(len(ranks))))
    profiles: dict[str, Any] = {name: {"type": "usage_trace", "trace": f"traces/{name}/all.txt"} for name in TRACES}
    profiles["twice"] = {"type": "composed", "repeat": 2, "seq": ["full", "nap"]}
    profiles["nap"] = {"type": "delay", "delay": 1}
    profiles["both"] = {"type": "parallel_homogeneous", "cpu": 4e9, "com": 0}
    profiles["late"] = {"type": "composed", "repeat": 1, "seq": ["nap", "halves"]}
    profiles["later"] = {"type": "composed", "repeat": 1, "seq": ["nap", "phases", "both"]}
    profiles["more"] = {"type": "composed", "repeat": 1, "seq": ["halves", "crowd"]}
    all_jobs = [{"id": str(i), "subtime": 0, "walltime": 100} | job for i, job in enumerate(jobs)]
    (directory / "w.json").write_text(json.dumps({"nb_res": 4, "jobs": all_jobs, "profiles": profiles}))
    (directory / "p.xml").write_text(PLATFORM)
    return ["-p", str(directory / "p.xml"), "-w", str(directory / "w.json")]


JOBS = (
    {"res": 1, "profile": "full"},
    {"res": 2, "profile": "halves"},
    {"res": 2, "profile": "phases", "subtime": 2},
    {"res": 1, "profile": "twice", "subtime": 3},
    {"res": 2, "profile": "crowd", "subtime": 40},
    {"res": 1, "profile": "full", "walltime": 5, "subtime": 60},
    {"res": 1, "profile": "twice", "walltime": 13, "subtime": 80},
    {"res": 2, "profile": "halves", "smpi_ranks_to_hosts_mapping": [1, 1], "subtime": 120},
)


def test_durations_and_ends(tmp_path: Path) -> None:
    """Ranks that share a host (crowd: 0 and 2) share its cores; a walltime ends all ranks."""
    args = write(tmp_path, *JOBS)
    done = run_cli("simulate", *args, "--policy", "fcfs", "-e", str(tmp_path / "out"), "-q")
    assert done.returncode == 0, done.stderr
    found = {
        row["job_id"]: (float(row["execution_time"]), row["final_state"]) for row in rows(tmp_path / "out_jobs.csv")
    }
    well, late = "COMPLETED_SUCCESSFULLY", "COMPLETED_WALLTIME_REACHED"
    assert found == {
        "0": (8, well),
        "1": (6, well),
        "2": (6, well),
        "3": (18, well),
        "4": (4.5, well),  # 4 + 2 executors on 4 cores at two thirds until 1.5, then 3 Gflop on a core each
        "5": (5, late),
        "6": (13, late),
        "7": (6, well),
    }


@pytest.mark.parametrize(
    ("profile", "joules"),
    [
        # Two of four cores at work draw 160 W, one 140 W; from 4 on the first host idles at 100 W.
        ("halves", 160 * 4 + 100 * 2 + 140 * 6),
        # Host 0 sleeps a second, computes 4 and idles 2. A phase on one core reads the meter of host 1 when it begins.
        ("late", (100 + 160 * 4 + 100 * 2) + (100 + 140 * 6)),
        # Host 1 has nothing to replay. This is known at 1, which reads its meter; the 4 seconds of computing after the
        # 6 of the trace are billed from there on.
        ("later", (100 + 200 * 2 + 140 * 4 + 140 * 4) + (100 + 140 * (6 + 4))),
    ],
)
def test_energy_of_traces(profile: str, joules: float, tmp_path: Path) -> None:
    args = write(tmp_path, {"res": 2, "profile": profile})
    done = run_cli("simulate", *args, "-E", "--policy", "fcfs", "-e", str(tmp_path / "out"), "-q")
    assert done.returncode == 0, done.stderr
    (row,) = rows(tmp_path / "out_jobs.csv")
    assert float(row["consumed_energy"]) == joules


@pytest.mark.parametrize(
    ("described", "files", "message"),
    [
        ({}, {}, "profile u, field trace: expected the name of a file, found None"),
        ({"trace": "all.txt"}, {}, "profile u: usage trace .*: cannot be read"),
        ({"trace": "all.txt"}, {"all.txt": ""}, "expected the name of a file for each rank, found none"),
        ({"trace": "all.txt"}, {"all.txt": "r0\n"}, "rank 0: usage trace .*: cannot be read"),
        ({"trace": "."}, {}, "profile u: usage trace .*: cannot be read: it is not a regular file"),
        ({"trace": "pipe"}, {}, "profile u: usage trace .*pipe: cannot be read: it is not a regular file"),
        ({"trace": "/dev/zero"}, {}, "profile u: usage trace .+/dev/zero: cannot be read: .*No such file"),
        (
            {"trace": "all.txt"},
            {"all.txt": "pipe\n"},
            "rank 0: usage trace .*pipe: cannot be read: it is not a regular file",
        ),
        ({"trace": "all.txt"}, {"all.txt": "r0\n", "r0": "1 m_usage 1 1\n"}, "r0: line 1: expected '0 m_usage USAGE"),
        ({"trace": "all.txt"}, {"all.txt": "r0\n", "r0": "\n0 compute 1\n"}, "r0: line 2: expected '0 m_usage USAGE"),
        ({"trace": "all.txt"}, {"all.txt": "r0\n", "r0": "0 m_usage x 1\n"}, "expected numbers"),
        ({"trace": "all.txt"}, {"all.txt": "r0\n", "r0": "0 m_usage 1.5 1\n"}, "expected a usage from 0 to 1"),
        ({"trace": "all.txt"}, {"all.txt": "r0\n", "r0": "0 m_usage 1 nan\n"}, "expected a usage from 0 to 1"),
    ],
)
def test_invalid_traces_are_rejected(
    described: dict[str, Any], files: dict[str, str], message: str, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")  # it is never written to
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        read_ranks("u", described, str(tmp_path / "w.json"))


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (
            {"profile": "halves", "smpi_ranks_to_hosts_mapping": [0]},
            "job w0!0: smpi_ranks_to_hosts_mapping: expected 2 ranks, as in the trace, found 1",
        ),
        ({"profile": "more"}, "job w0!0: expected usage traces with the same number of ranks, found 2, 3 ranks"),
    ],
)
def test_ranks_without_a_host_are_reported_before_the_run(job: dict[str, Any], message: str, tmp_path: Path) -> None:
    args = write(tmp_path, {"res": 2} | job)
    done = run_cli("simulate", *args, "--policy", "fcfs", "-e", str(tmp_path / "out"), "-q")
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "out_jobs.csv").exists()


KILLER = """
from pybatsched import CallMeLater, ExecuteJob, KillJob, Policy


class Killer(Policy):
    def on_begin(self, cluster):
        self.part = cluster.add_partition("all", cluster.procs)
        self.waiting, self.running = [], []

    def on_job_submitted(self, job, now):
        self.waiting.append(job)

    def decide(self, now):
        if now >= 3 and self.running:
            yield KillJob(tuple(self.running))
            self.running = []
        while self.waiting:
            job = self.waiting.pop(0)
            self.running.append(job.id)
            yield ExecuteJob(job.id, self.part.free.first(job.n_procs))
            yield CallMeLater(3.0)
"""


def test_a_kill_ends_all_ranks(tmp_path: Path) -> None:
    (tmp_path / "killer.py").write_text(KILLER)
    args = write(tmp_path, {"res": 1, "profile": "twice"}, {"res": 2, "profile": "halves"})
    policy = f"{tmp_path / 'killer.py'}:Killer"
    done = run_cli("simulate", *args, "-E", "--policy", policy, "-e", str(tmp_path / "out"), "-q")
    assert done.returncode == 8, done.stderr  # no job completed
    found = [(row["final_state"], float(row["finish_time"])) for row in rows(tmp_path / "out_jobs.csv")]
    assert found == [("COMPLETED_KILLED", 3), ("COMPLETED_KILLED", 3)]
    energies = [float(row["consumed_energy"]) for row in rows(tmp_path / "out_jobs.csv")]
    assert energies == [200 * 3, (160 + 140) * 3]


@pytest.mark.batsim
@pytest.mark.parametrize("policy", ["fcfs", "easy"])
@pytest.mark.parametrize("energy", [[], ["-E"]])
def test_jobs_with_traces_equal_batsims(policy: str, energy: list[str], tmp_path: Path) -> None:
    late = ({"res": 2, "profile": "late", "subtime": 140}, {"res": 2, "profile": "later", "subtime": 160})
    mine, theirs = beside_batsim([*write(tmp_path, *JOBS, *late), *energy], policy, [], tmp_path)
    same_jobs(mine, theirs)
