"""Shared processors: durations checked by hand."""

from __future__ import annotations

import json
from pathlib import Path

from support.process import run_cli
from support.simulated import rows


def test_a_mixed_job_beside_others(tmp_path: Path) -> None:
    """A delay after a shared part takes its full time: alarms of the part that is over are not heard any more.

    The mixed job computes alone from 2 to 2.75, in thirds until 4.75, in halves until 5.416667 and alone until
    5.666667; then it sleeps 2 s and computes 2 s alone.
    """
    profiles = {
        "d2": {"type": "delay", "delay": 2},
        "p2": {"type": "parallel_homogeneous", "cpu": 2e9, "com": 0},
        "p1": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0},
        "mix": {"type": "composed", "repeat": 2, "seq": ["d2", "p2"]},
    }
    jobs = [
        {"id": "mixed", "subtime": 0, "res": 2, "profile": "mix"},
        {"id": "long", "subtime": 2.75, "res": 1, "profile": "p2", "walltime": 2},
        {"id": "short", "subtime": 2.75, "res": 1, "profile": "p1"},
    ]
    (tmp_path / "w.json").write_text(json.dumps({"nb_res": 2, "jobs": jobs, "profiles": profiles}))
    (tmp_path / "all.py").write_text(
        "from pybatsched import Policy\n"
        "from pybatsched.core.decisions import ExecuteJob\n"
        "class AtOnce(Policy):\n"
        "    def on_begin(self, cluster):\n"
        "        self.procs = cluster.procs\n"
        "        self.jobs = []\n"
        "    def on_job_submitted(self, job, now):\n"
        "        self.jobs.append(job)\n"
        "    def decide(self, now):\n"
        "        while self.jobs:\n"
        "            job = self.jobs.pop(0)\n"
        "            yield ExecuteJob(job.id, self.procs.first(job.n_procs))\n"
    )
    args = ["--procs", "2", "-w", "w.json", "--policy", "all.py:AtOnce", "--enable-compute-sharing"]
    done = run_cli("simulate", *args, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    ends = {row["job_id"]: row["finish_time"] for row in rows(tmp_path / "out_jobs.csv")}
    assert ends == {"long": "4.750000", "short": "5.416667", "mixed": "9.666667"}
