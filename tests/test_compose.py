"""docker-compose.yml, .env and the Dockerfile: their commands as local processes, the simulator in Batsim's place."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.compose import defaults, has_compose
from support.patience import PATIENCE_S
from support.places import ROOT
from support.process import Server, run_cli
from support.simulated import rows

from pybatsched.core.policy import BatsimFeature
from pybatsched.policies import registry

_VARIABLE = re.compile(r"\$\{(\w+)(?:(:?-)([^}]*))?\}")


def services(env: dict[str, str]) -> Any:
    """Read docker-compose.yml with its variables replaced as Compose does."""

    def value(match: re.Match[str]) -> str:
        name, operator, default = match.groups()
        given = env.get(name)
        return default or "" if given is None or (operator == ":-" and not given) else given

    return yaml.safe_load(_VARIABLE.sub(value, (ROOT / "docker-compose.yml").read_text()))["services"]


def run(tmp_path: Path, **changes: str) -> tuple[int, int, str]:
    """Start both services' commands here. Return the exit codes of scheduler and Batsim, and the scheduler's errors."""
    configuration = services(defaults() | changes)
    args = shlex.split(configuration["scheduler"]["command"])
    at = args.index("--endpoint")
    assert args[at + 1] == "tcp://*:28000"
    del args[at : at + 2]
    with Server(*args, cwd=ROOT) as server:
        endpoint = server.wait_ready()
        text = configuration["batsim"]["command"].replace("/data/", f"{ROOT}/").replace("/out/", f"{tmp_path}/")
        command = shlex.split(text.replace("tcp://scheduler:28000", endpoint))
        batsim = run_cli("batsim", *command)
        return server.finish(), batsim.returncode, server.errors


def test_the_defaults_work(tmp_path: Path) -> None:
    assert run(tmp_path)[:2] == (0, 0)
    states = {row["final_state"] for row in rows(tmp_path / "out_jobs.csv")}
    assert states == {"COMPLETED_SUCCESSFULLY"}


def test_the_simulator_aborts_as_batsim_does_if_the_policy_fails(tmp_path: Path) -> None:
    policy = tmp_path / "failing.py"
    policy.write_text(
        "from pybatsched import Policy\n\n\n"
        "class Failing(Policy):\n    def decide(self, now):\n        raise ValueError\n"
    )
    scheduler, batsim, errors = run(tmp_path, POLICY=f"{policy}:Failing")
    assert (scheduler, batsim, "ValueError" in errors) == (6, 134, True)


def test_the_defaults_in_the_file_and_in_env_are_the_same() -> None:
    assert services({}) == services(defaults())


@pytest.mark.parametrize("policy", registry.available())
def test_every_policy_runs_with_the_batsim_options_of_all(policy: str, tmp_path: Path) -> None:
    platform = (
        "platforms/rackham-128gb-core.xml"
        if policy in {"locality", "published_locality"}
        else "platforms/cluster32.xml"
    )  # nodes
    required = {"rl": "agent=pybatsched.gym:in_queue_order", "slurm": "slurm_conf=examples/slurm.conf"}
    options = ["-o", required[policy]] if policy in required else []
    more = {"POLICY_OPTIONS": " ".join(options)} if options else {}
    assert run(tmp_path, POLICY=policy, PREFIX=policy, PLATFORM=platform, **more)[:2] == (0, 0)
    alone = (
        "-p", platform, "-w", "examples/workload.json", "--policy", policy, "-e", f"{tmp_path}/alone", *options,
    )  # fmt: skip
    assert run_cli("simulate", *alone, cwd=ROOT).returncode == 0
    assert rows(tmp_path / f"{policy}_jobs.csv") == rows(tmp_path / "alone_jobs.csv")


def test_a_policy_of_ones_own_with_options(tmp_path: Path) -> None:
    own = {"POLICY": "tests/support/pushy.py:Ruthless", "POLICY_OPTIONS": f"-o order=sjf --timeout {PATIENCE_S:g}"}
    assert run(tmp_path, **own)[:2] == (0, 0)
    assert any(row["workload_name"] == "dyn" for row in rows(tmp_path / "out_jobs.csv"))  # it registers jobs
    conservative = {"POLICY": "conservative", "POLICY_OPTIONS": "-o compression=false -o 'order=sjf'"}
    assert run(tmp_path, **conservative)[:2] == (0, 0)


def test_batsim_args_for_a_policy_that_needs_something() -> None:
    policy = f"{ROOT / 'tests' / 'support' / 'pushy.py'}:Ruthless"
    printed = run_cli("policies", policy, "--batsim-args").stdout
    needs = registry.find(policy, trusted=True).cls.needs
    assert needs
    assert printed.split() == sorted(need.batsim_option for need in BatsimFeature if need in needs)
    assert run_cli("policies", "easy", "--batsim-args").stdout == "\n"
    assert run_cli("policies", "--batsim-args").returncode == 2


def test_batsim_gets_all_that_any_policy_can_need() -> None:
    assert defaults()["BATSIM_ARGS"].split() == sorted(need.batsim_option for need in BatsimFeature)


def test_the_image_is_a_published_4_and_nothing_is_published_to_the_host() -> None:
    configuration = services({})
    assert configuration["batsim"]["image"] == "oarteam/batsim:4.0.0"
    assert all("ports" not in service and "network_mode" not in service for service in configuration.values())
    assert "./out:/out" in configuration["batsim"]["volumes"]


def test_the_stand_in_is_started_as_batsim_is_and_only_when_asked_for() -> None:
    configuration = services({})
    theirs = {name: value for name, value in configuration["batsim"].items() if name not in {"image", "profiles"}}
    assert theirs.items() <= configuration["stand-in"].items()
    assert {name: configuration[name].get("profiles") for name in configuration} == {
        "scheduler": None,
        "batsim": ["batsim"],
        "batsim5": ["batsim5"],
        "stand-in": ["stand-in"],
    }
    assert defaults()["COMPOSE_PROFILES"] == "batsim"
    targets = re.findall(r"^FROM .* AS (\S+)$", (ROOT / "docker" / "Dockerfile").read_text(), re.MULTILINE)
    assert {configuration[name]["build"]["target"] for name in ("scheduler", "stand-in")} <= set(targets)
    assert targets[-1] == "scheduler", "what is built where no target is named"


def test_the_server_ends_if_no_batsim_connects() -> None:
    # patience: the event that ends the wait never comes, so any time will do
    with Server("--policy", "easy", "--first-timeout", "0.5") as server:
        server.wait_ready()
        assert server.finish() == 4
    assert "no message from Batsim within" in server.errors


def test_the_image_runs_without_privileges_and_is_built_of_local_files() -> None:
    lines = (ROOT / "docker" / "Dockerfile").read_text().splitlines()
    assert "USER scheduler" in lines
    [used] = [found[1] for line in lines if (found := re.fullmatch(r"ARG BASE=(python:\d+\.\d+\.\d+-slim-\w+)", line))]
    assert f"ARG BUILD_BASE={used.replace('-slim', '')}" in lines, "what is built must fit where it runs"
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert all((ROOT / path).exists() for path in kept - {"build/docker-wheels"})


@pytest.mark.docker
def test_compose_accepts_the_file() -> None:
    if not has_compose():
        pytest.skip("no docker with its compose plug-in on the PATH")
    subprocess.run(["docker", "compose", "config", "--quiet"], cwd=ROOT, check=True, timeout=PATIENCE_S)


def test_the_service_for_batsim_5_uses_its_options(tmp_path: Path) -> None:
    """Its stand-in accepts them, and the scheduler is the same."""
    configuration = services(defaults() | {"BATSIM5_SCHED": '{"order": "sjf"}'})
    assert configuration["batsim5"]["profiles"] == ["batsim5"]
    with Server("--policy", "easy", cwd=ROOT) as server:
        text = configuration["batsim5"]["command"].replace("/data/", f"{ROOT}/").replace("/out/", f"{tmp_path}/")
        args = shlex.split(text.replace("tcp://scheduler:28000", server.wait_ready()))
        assert args[-1] == '{"order": "sjf"}'
        done = subprocess.run(
            [sys.executable, str(ROOT / "tests" / "support" / "stand_in5.py"), *args],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert (server.finish(), done.returncode) == (0, 0), (server.errors, done.stderr)
    assert len(rows(tmp_path / "out_jobs.csv")) == 30


def test_the_example_for_batsim_5_is_the_example(tmp_path: Path) -> None:
    path = tmp_path / "w.json"
    done = run_cli("workload", "convert", "examples/workload.json", str(path), "--for", "batsim5", cwd=ROOT)
    assert done.returncode == 0
    made, kept = (json.loads(one.read_text()) for one in (path, ROOT / "examples" / "workload.batsim5.json"))
    assert (made["jobs"], made["profiles"]) == (kept["jobs"], kept["profiles"])
