"""One source, two builds: the compiled modules do what the plain ones do, message by message."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.examples import examples
from support.patience import PATIENCE_S
from support.places import ROOT

N_WORKLOADS = examples(200).max_examples  # for each policy


@pytest.fixture(scope="module")
def build() -> Path:
    """Give the compiled build that is tested now."""
    place = os.environ.get("PYBATSCHED_COMPILED")
    if place is None:
        pytest.skip("no compiled build is being tested: make test-compiled makes one")
    return ROOT / place


def fingerprints(*path: Path) -> list[str]:
    """Let the policies run in a process that finds modules on this path first."""
    places = os.pathsep.join(map(str, (*path, ROOT / "tests")))
    done = subprocess.run(
        [sys.executable, "-m", "support.fingerprints", str(N_WORKLOADS)],
        cwd=ROOT / "tests",
        env=os.environ | {"PYTHONPATH": places},
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    return done.stdout.splitlines()


def test_the_tests_of_this_run_are_of_the_compiled_build(build: Path) -> None:
    from pybatsched.core import engine

    assert Path(engine.__file__).parent == build / "pybatsched" / "core"
    assert not engine.__file__.endswith(".py")


def test_every_policy_says_the_same_and_starts_the_same_jobs_on_the_same_processors(build: Path) -> None:
    said_plain, *plain = fingerprints(ROOT)
    said_compiled, *compiled = fingerprints(build)
    assert (said_plain, said_compiled) == ("# plain", "# compiled")
    assert len(plain) == 9 * N_WORKLOADS
    assert compiled == plain


def test_an_author_may_subclass_what_is_compiled(build: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from pybatsched_schedulers.easy import Easy, EasyScheduler\n"
        "class Highest(EasyScheduler):\n"
        "    def __init__(self, partition, options=None):\n"
        "        super().__init__(partition, options)\n"
        "        self.n_asked = 0\n"
        "    def pick(self, job, now):\n"
        "        self.n_asked += 1\n"
        "        return self.partition.free - self.partition.free.first(self.partition.n_free - job.n_procs)\n"
        "class Mine(Easy):\n"
        "    scheduler = Highest\n"
        "    def figures(self):\n"
        "        return {'n_asked': self.local.n_asked}\n"
    )
    (tmp_path / "jobs.json").write_text(
        '{"nb_res": 4, "jobs": [{"id": "a", "subtime": 0, "res": 1, "profile": "p", "walltime": 9}],'
        ' "profiles": {"p": {"type": "delay", "delay": 5}}}'
    )
    command = [sys.executable, "-m", "pybatsched", "simulate", "--workload", "jobs.json", "--procs", "4"]
    done = subprocess.run(
        [*command, "--policy", "mine.py:Mine", "-e", "run"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(build)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert ",3,-1.000000," in (tmp_path / "run_jobs.csv").read_text()
