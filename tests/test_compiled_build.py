"""The build with parts in C equals the plain one, message by message."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.examples import examples
from support.patience import PATIENCE_OF_WORK_S
from support.places import ROOT

N_WORKLOADS = examples(200).max_examples  # for each policy


@pytest.fixture(scope="module")
def build() -> Path:
    """Return the compiled build that is tested now."""
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
        timeout=PATIENCE_OF_WORK_S,
    )
    return done.stdout.splitlines()


def test_the_tests_of_this_run_are_of_the_compiled_build(build: Path) -> None:
    from pybatsched.policies import availability

    assert Path(availability.__file__).parent == build / "pybatsched" / "policies"
    assert availability.AvailabilityProfile is not availability.PlainProfile


def test_every_policy_gives_the_same_messages_and_schedules(build: Path) -> None:
    said_plain, *plain = fingerprints(ROOT)
    said_compiled, *compiled = fingerprints(build)
    assert (said_plain, said_compiled) == ("# plain", "# compiled")
    assert len(plain) == 10 * N_WORKLOADS
    assert compiled == plain
