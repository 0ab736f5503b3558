"""The images and docker-compose.yml in real containers: `make docker`, which builds the images first.

With the stand-in for Batsim, and with the image that BATSIM_IMAGE names where there is one on this machine.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.compose import Project, docker, has_image
from support.patience import wait_until
from support.places import PUSHY, ROOT, WAITING
from support.process import run_cli
from support.simulated import rows

pytestmark = pytest.mark.docker

INPUTS = ("-p", "platforms/cluster32.xml", "-w", "examples/workload.json")
WAITS = {"POLICY": "waiting.py:Waits", "POLICY_OPTIONS": "-o mark=/out/mark"}
RAISES = """
from pybatsched import Policy

class Raises(Policy):
    def decide(self, now):
        raise ZeroDivisionError("of my own making")
"""


@pytest.fixture(scope="module", autouse=True)
def images() -> None:
    if shutil.which("docker") is None or docker("info", check=False).returncode:
        pytest.skip("no Docker engine answers")
    if not (has_image("pybatsched") and has_image("pybatsched-batsim")):
        pytest.skip("the images are not there: make docker builds them")


@pytest.fixture(params=["stand-in", "batsim"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Project]:
    with Project(tmp_path / "project", request.param) as project:
        if request.param == "batsim" and not has_image(project.batsim_image):
            pytest.skip(f"no image {project.batsim_image} on this machine")
        yield project


def simulated(project: Project, policy: str) -> list[dict[str, str]]:
    """Run the same here, in this process. Return the rows of its jobs."""
    prefix = str(project.place.parent / "here")
    assert run_cli("simulate", *INPUTS, "--policy", policy, "-e", prefix, cwd=project.place).returncode == 0
    return rows(Path(f"{prefix}_jobs.csv"))


def schedule(jobs: list[dict[str, str]]) -> list[tuple[str, str, str, object]]:
    """Return when and where each job ran. Batsim 4.0 is some microseconds late at each message."""
    found = sorted(jobs, key=lambda job: job["job_id"])
    return [
        (
            job["job_id"],
            job["allocated_resources"],
            job["final_state"],
            pytest.approx(float(job["starting_time"] or -1), abs=0.01),
        )
        for job in found
    ]


@pytest.mark.parametrize("policy", ["easy", "redirection"])
def test_the_jobs_are_those_of_a_run_without_containers(policy: str, project: Project) -> None:
    assert project.up(POLICY=policy) == 0, project.output
    assert project.codes() == {"scheduler": 0, project.profile: 0}
    found, expected = rows(project.out / "out_jobs.csv"), simulated(project, policy)
    if project.profile == "stand-in":
        assert found == expected
    assert schedule(found) == schedule(expected)
    assert "simulation ended at" in project.output
    roots = {name: docker("inspect", "-f", "{{.HostConfig.ReadonlyRootfs}}", id_).stdout for name, id_ in project.ids()}
    assert roots == {"scheduler": "true\n", project.profile: "true\n" if project.profile == "stand-in" else "false\n"}


def test_policy_files_of_the_user_and_owners_of_written_files(project: Project) -> None:
    shutil.copy(PUSHY, project.place / "mine.py")
    options = {"POLICY_OPTIONS": "--journal /out/run.pbj", "BATSIM_USER": "1234:4321", "PREFIX": "mine"}
    assert project.up(POLICY="mine.py:Ruthless", **options) == 0, project.output
    assert schedule(rows(project.out / "mine_jobs.csv")) == schedule(simulated(project, "mine.py:Ruthless"))
    owners = {path.name: (path.stat().st_uid, path.stat().st_gid) for path in project.out.iterdir()}
    assert owners.pop("run.pbj") == (1000, 1000)
    assert len(owners) >= 3
    assert set(owners.values()) == {(1234, 4321)}


def test_a_policy_that_raises(project: Project) -> None:
    (project.place / "mine.py").write_text(RAISES)
    assert project.up(POLICY="mine.py:Raises") == 6, project.output
    assert "of my own making" in project.output
    codes = project.codes()
    assert codes["scheduler"] == 6
    assert codes[project.profile] not in {0, 137}  # it got an error reply, and was not killed


def test_a_policy_that_is_not_there(project: Project) -> None:
    assert project.up(POLICY="nosuch") == 2, project.output
    assert "nosuch" in project.output


def test_a_batsim_that_fails_to_start(project: Project) -> None:
    assert project.up(WORKLOAD="nosuch.json") == 143, project.output
    assert project.codes() == {"scheduler": 143, project.profile: 2}


def test_a_batsim_that_crashes(project: Project) -> None:
    shutil.copy(WAITING, project.place)
    with project.started(**WAITS) as running:
        wait_until((project.out / "mark").exists, by=running)
        docker("kill", dict(project.ids())[project.profile])
        assert project.wait(running) == 4, project.output
    assert project.codes() == {"scheduler": 4, project.profile: 137}
    assert "without SIMULATION_ENDS" in docker("logs", dict(project.ids())["scheduler"]).stderr


def test_an_interrupt_ends_both_soon(project: Project) -> None:
    shutil.copy(WAITING, project.place)
    with project.started(**WAITS) as running:
        wait_until((project.out / "mark").exists, by=running)
        os.killpg(running.pid, signal.SIGINT)  # as a terminal does it
        # 130, unless Compose (2.26 does) fails because both services end at once.
        assert project.wait(running) != 0, project.output
    wait_until(project.has_ended)
    codes = project.codes()
    if "Killing" in project.output:
        pytest.skip("Compose counted one ^C twice and killed both services")
    # The stand-in handles SIGTERM too. If it ends first, the scheduler reports that its peer has gone.
    has_left = project.profile == "stand-in" and "the peer closed its connection" in project.output
    assert codes["scheduler"] == (4 if has_left else 143), project.output
    assert codes[project.profile] not in {0, 137}


def test_any_user_may_run_the_image_and_nothing_is_written_into_it(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    mounts = ("--volume", f"{ROOT}:/data:ro", "--volume", f"{tmp_path}:/out")
    for number, user in enumerate(((), ("--user", "4321:1234"))):
        limits = ("--rm", "--read-only", "--network", "none", "--cap-drop", "ALL", *user, *mounts)
        docker("run", *limits, "pybatsched", "simulate", *INPUTS, "--policy", "easy", "-e", f"/out/{number}")
    owners = {path.name: (path.stat().st_uid, path.stat().st_gid) for path in tmp_path.glob("*_jobs.csv")}
    assert owners == {"0_jobs.csv": (1000, 1000), "1_jobs.csv": (4321, 1234)}


def test_the_image_is_the_compiled_build_without_a_compiler() -> None:
    assert docker("run", "--rm", "pybatsched", "--version").stdout.endswith("(compiled)\n")
    assert docker("run", "--rm", "pybatsched-batsim", "--version").stdout == "4.2.1\n"
    looks = docker("run", "--rm", "--entrypoint", "sh", "pybatsched", "-c", "command -v gcc cc", check=False)
    assert (looks.returncode != 0, looks.stdout) == (True, "")


def test_one_command_with_the_image_in_batsims_place(tmp_path: Path) -> None:
    shown = run_cli(
        "run", *INPUTS, "--policy", "easy", "-e", f"{tmp_path}/out", "--image", "pybatsched-batsim", cwd=ROOT
    )
    assert shown.returncode == 0, shown.stderr
    assert (tmp_path / "out_jobs.csv").stat().st_uid == os.getuid()
    assert {row["final_state"] for row in rows(tmp_path / "out_jobs.csv")} == {"COMPLETED_SUCCESSFULLY"}
