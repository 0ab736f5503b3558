"""A study in a package of its own: found by its entry points, with a workload change and a policy of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.patience import PATIENCE_OF_WORK_S

FILES = {
    "their_studies-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: their-studies\nVersion: 1.0\n",
    "their_studies-1.0.dist-info/entry_points.txt": """
[pybatsched.studies]
reversed = their_studies.reversed
broken = their_studies.nowhere

[pybatsched.policies]
published_reversed = their_studies.reversed.published:LastFirst
""",
    "their_studies/__init__.py": "",
    "their_studies/reversed/__init__.py": "",
    "their_studies/reversed/published.py": '''
"""Last come, first served."""
from pybatsched import LocalPolicy, LocalScheduler


class LastScheduler(LocalScheduler):
    """The last submitted job that fits starts first."""

    def plan(self, now):
        for entry in list(reversed(self.queue)):
            if entry.job.n_procs <= self.partition.n_free:
                yield self.start(entry, "last")


class LastFirst(LocalPolicy):
    """Last come, first served."""

    scheduler = LastScheduler
''',
    "their_studies/reversed/jobs.py": """
from dataclasses import replace
from pybatsched.workload import Workload


def read(path):
    rows = [line.split() for line in path.read_text().splitlines()]
    jobs = [{"id": k, "subtime": float(at), "res": 1, "profile": "d"} for k, (at,) in enumerate(rows)]
    return Workload(jobs, {"d": {"type": "delay", "delay": 10}}, 1, str(path), {})


def halves(workload, seed, jobs):
    all_jobs = list(workload.jobs)
    return [replace(workload, jobs=all_jobs[at : at + jobs]) for at in range(0, len(all_jobs), jobs)]
""",
    "their_studies/reversed/study.toml": """
title = "Last come, first served"
about = "A study of somebody else."

[[claim]]
id = "wait"
says = "mean wait of the last of three jobs first"
source = "by hand"
measured = "mean(max_wait_s, family = 'few', policy = 'published_reversed')"
published = 19
status = "exact"

[[quick]]
id = "wait"
says = "longest wait over that of fcfs"
source = "by hand"
measured = "mean_ratio(max_wait_s, 'fcfs', policy = 'published_reversed')"
above = 1
status = "trend only"
""",
    "their_studies/reversed/campaign.toml": """
name = "reversed"

[[workload]]
name = "few"
file = "few.txt"
reader = "their_studies.reversed.jobs:read"
change = { by = "their_studies.reversed.jobs:halves", jobs = 3 }

[[platform]]
name = "own"
of_workload = true

[[policy]]
name = "published_reversed"
""",
    "their_studies/reversed/quick.toml": """
name = "reversed-quick"

[[workload]]
name = "drawn"
generate = { model = "poisson", procs = 4, jobs = 60, load = 1.2, sizes = "uniform:1:1" }

[[platform]]
name = "own"
of_workload = true

[[policy]]
name = "published_reversed"

[[policy]]
name = "fcfs"
""",
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def pybatsched(place: Path, *args: str) -> subprocess.CompletedProcess[str]:
    paths = [str(place / "site"), *sys.path]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}
    command = [sys.executable, "-m", "pybatsched", *args]
    return subprocess.run(
        command, cwd=place, env=env, capture_output=True, text=True, check=False, timeout=PATIENCE_OF_WORK_S
    )


def test_a_study_of_another_package(place: Path) -> None:
    (place / "few.txt").write_text("0\n1\n2\n1000\n1001\n1002\n")
    listed = pybatsched(place, "reproduce")
    assert "broken           (cannot be read: study broken (their_studies.nowhere): expected a package" in listed.stdout
    assert "reversed         Last come, first served\n" in listed.stdout
    assert "easy             " in listed.stdout
    done = pybatsched(place, "reproduce", "reversed", "--traces", ".", "--workers", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    # Of the jobs at 0, 1 and 2 s the first starts at 0, the last at 10 s and the second at 20 s: it waits 19 s.
    assert [line.split()[-3:] for line in done.stdout.splitlines()[2:3]] == [["19", "19", "holds"]]


def test_its_quick_version(place: Path) -> None:
    done = pybatsched(place, "reproduce", "reversed", "--quick", "--workers", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Confirmed: the claim holds.\n" in done.stdout
    text = (place / "out" / "reproduce-reversed-quick" / "report.html").read_text()
    assert "<h1>Last come, first served</h1>" in text
