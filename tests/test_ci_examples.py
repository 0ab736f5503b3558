"""The ready CI jobs: their commands are run on a repository made as docs/ci.md says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.patience import PATIENCE_OF_WORK_S
from support.places import ROOT

from pybatsched import __version__

CI = ROOT / "examples" / "ci"


def github() -> tuple[dict[str, str], list[str]]:
    job = yaml.safe_load((CI / "github-actions.yml").read_text())["jobs"]["simulate"]
    return job["env"], [step["run"] for step in job["steps"] if "run" in step]


def gitlab() -> tuple[dict[str, str], list[str]]:
    job = yaml.safe_load((CI / "gitlab-ci.yml").read_text())["policy"]
    return job["variables"], [*job["before_script"], *job["script"]]


def shell(place: Path, command: str, **env: Any) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-e", "-c", command],
        cwd=place,
        env=os.environ | {"PATH": path} | env,
        capture_output=True,
        text=True,
        timeout=PATIENCE_OF_WORK_S,
        check=False,
    )


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository described in docs/ci.md, with the baseline made by its command."""
    place = tmp_path_factory.mktemp("origin")
    shutil.copy(ROOT / "platforms" / "cluster32.xml", place / "platform.xml")
    shutil.copy(ROOT / "examples" / "workload.json", place / "workload.json")
    (setup,) = re.findall(r"```sh\n\s*(pybatsched simulate .*-e ci/baseline)\n", (ROOT / "docs" / "ci.md").read_text())
    assert shell(place, setup).returncode == 0
    return place


@pytest.fixture
def repository(origin: Path, tmp_path: Path) -> Path:
    """A clone of it."""
    return Path(shutil.copytree(origin, tmp_path / "clone"))


@pytest.mark.parametrize("read", [github, gitlab])
def test_the_commands_pass_without_changes(read: Any, repository: Path) -> None:
    variables, commands = read()
    install, *others = commands
    assert install == 'pip install "$PYBATSCHED"'
    assert variables["PYBATSCHED"] == f"pybatsched=={__version__}"  # pinned: figures are promised for a version
    for command in others:
        done = shell(repository, command, **variables)
        assert done.returncode == 0, done.stderr
    assert (repository / "out" / "candidate_jobs.csv").exists()


@pytest.mark.parametrize("read", [github, pytest.param(gitlab, marks=pytest.mark.long)])  # they run the same
def test_a_worse_policy_fails_the_job(read: Any, repository: Path) -> None:
    variables, commands = read()
    done = [shell(repository, command, **variables | {"POLICY": "fcfs"}) for command in commands[1:]]
    assert [one.returncode for one in done] == [0] * (len(done) - 1) + [7]
    assert "mean_bounded_slowdown > +5%: mean_bounded_slowdown was" in done[-1].stderr


@pytest.mark.parametrize("read", [github, gitlab])
def test_a_policy_that_rejects_jobs_fails_the_job(read: Any, repository: Path) -> None:
    variables, commands = read()
    *_, simulate, compare = [
        shell(repository, command, **variables | {"POLICY": f"{ROOT}/tests/support/picky.py:Picky"})
        for command in commands[1:]
    ]
    assert (simulate.returncode, compare.returncode) == (0, 7)
    assert ["jobs", "rejected", "19"] in [line.split() for line in simulate.stdout.splitlines()]
    assert (
        "mean_bounded_slowdown > +5%: the two runs have figures of different jobs: 30 of 30 ran before"
        in compare.stderr
    )
    assert "n_rejected > +0: n_rejected was 0, is 19" in compare.stderr


def test_the_commands_of_the_page_run(repository: Path) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "ci.md").read_text(), flags=re.DOTALL)
    (daily,) = [block for block in blocks if "out/candidate" in block and "compare" in block]
    done = shell(repository, daily)
    assert done.returncode == 0, done.stderr


def test_each_condition_of_the_page_is_valid(repository: Path) -> None:
    conditions = re.findall(r"^\| `([^`]+)` \|", (ROOT / "docs" / "ci.md").read_text(), flags=re.MULTILINE)
    assert len(conditions) == 6
    flags = " ".join(f"--fail-if '{condition}'" for condition in conditions)
    done = shell(repository, f"pybatsched compare ci/baseline_summary.json ci/baseline_summary.json {flags}")
    assert done.returncode == 0, done.stderr
