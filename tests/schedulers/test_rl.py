"""Agents as policies: the same choices as in training in all ways to run, and who may name an agent."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.agents import by_numbers
from support.episodes import N_PROCS, Played, as_workload, crowds, played
from support.examples import examples
from support.packages import needed_for, without
from support.patience import PATIENCE_OF_WORK_S
from support.places import ROOT
from support.process import Peer, Server, run_cli
from support.simulated import beside_batsim, same_jobs

from pybatsched.errors import InputError, PolicyError, UntrustedFileError
from pybatsched.gym import SchedulingEnv
from pybatsched.policies.registry import PolicyPlan, find
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Workload, plan_for, run_policy
from pybatsched.workload.formats import batsim4
from pybatsched.workload.generate.models import Recipe, generate

AGENTS = ROOT / "tests" / "support" / "agents.py"
BY_NUMBERS = f"{AGENTS}:by_numbers"
IN_ORDER = "pybatsched.gym:in_queue_order"


def starts_of(run: FakeBatsim) -> dict[str, float | None]:
    return {name: job.started_at for name, job in run.jobs.items()}


@examples(60)
@given(crowds(), st.integers(1, 6), st.booleans(), st.sampled_from(["fcfs", "sjf", "wfp3", "-wait * procs"]))
def test_choices_and_starts_are_those_of_training(jobs: Workload, window: int, reservations: bool, order: str) -> None:
    options: dict[str, Any] = {"window": window, "running": 3, "reservations": reservations, "order": order}
    episode = played(SchedulingEnv(as_workload(jobs), **options), by_numbers)
    run = run_policy("rl", jobs, N_PROCS, agent=f"{AGENTS}:Noted", **options)  # bytes, rules and all
    assert starts_of(run) == episode.starts
    assert sys.modules["pybatsched_agent_file_agents"].Noted.chosen == episode.actions


@pytest.fixture
def week(tmp_path: Path) -> tuple[Path, Played]:
    """An episode, written down where all can read it."""
    log = generate(Recipe("poisson", 32, seed=3, n_jobs=200, load=1.5))
    env = SchedulingEnv(log, 32, n_jobs=120, window=6, reward="wait")
    episode = played(env, by_numbers, seed=9)
    assert env.workload is not None
    assert set(episode.actions) == set(range(7))  # every choice there is
    batsim4.write(env.workload, tmp_path / "w.json")
    return tmp_path / "w.json", episode


def rows(path: Path) -> dict[str, float]:
    lines = [line.split(",") for line in path.read_text().splitlines()]
    job, start = lines[0].index("job_id"), lines[0].index("starting_time")
    return {f"w0!{line[job]}": float(line[start]) for line in lines[1:]}


OPTIONS = ("--policy", "rl", "-o", f"agent={BY_NUMBERS}", "-o", "window=6")


def test_on_the_embedded_simulator(week: tuple[Path, Played], tmp_path: Path) -> None:
    arguments = ("--procs", "32", "-w", "w.json", "-e", "out", "--journal", "run.pbj")
    done = run_cli("simulate", *arguments, *OPTIONS, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert rows(tmp_path / "out_jobs.csv") == pytest.approx(week[1].starts)
    summary = json.loads((tmp_path / "out_summary.json").read_text())
    assert summary["policy_figures"] == {"n_choices": len(week[1].actions)}
    assert -summary["figures"]["mean_wait_s"] == pytest.approx(sum(week[1].rewards))
    refused = run_cli("replay", "run.pbj", cwd=tmp_path)  # a journal runs no code
    assert refused.returncode == 2
    assert f"option agent (from the journal): {BY_NUMBERS!r} is Python code" in refused.stderr
    assert run_cli("replay", "run.pbj", "-o", f"agent={BY_NUMBERS}", cwd=tmp_path).returncode == 0
    output = run_cli("explain", "run.pbj", next(iter(week[1].starts)), "-o", f"agent={BY_NUMBERS}", cwd=tmp_path).stdout
    assert ": chosen" in output


def test_over_a_socket(week: tuple[Path, Played]) -> None:
    content = Workload.from_json(json.loads(week[0].read_text()))
    with Server(*OPTIONS) as server, Peer(server.wait_ready()) as peer:
        run = FakeBatsim(content, 32).run(peer.ask)
        assert server.finish() == 0, server.errors
    assert starts_of(run) == week[1].starts


def test_in_a_campaign(week: tuple[Path, Played], tmp_path: Path) -> None:
    agent = AGENTS.read_text()
    (tmp_path / "mine.py").write_text(agent)
    (tmp_path / "study.toml").write_text(
        'name = "study"\nworkload = [{name = "w", file = "w.json"}]\nplatform = [{name = "p", procs = 32}]\n'
        '[[policy]]\nname = "rl"\noptions = {agent = "mine.py:by_numbers", window = 6}\n'
    )

    (tmp_path / "elsewhere").mkdir()

    def waits() -> list[float]:
        # The agent is in the same directory.
        arguments = ("../study.toml", "--output", "../study", "--workers", "1", "--resume")
        done = run_cli("campaign", "run", *arguments, cwd=tmp_path / "elsewhere")
        assert done.returncode == 0, done.stderr
        cells = (tmp_path / "study" / "cells").glob("*.json")
        return [json.loads(cell.read_text())["figures"]["mean_wait_s"] for cell in cells]

    assert waits() == [pytest.approx(-sum(week[1].rewards))]
    assert len(waits()) == 1  # the same agent is the same cell
    (tmp_path / "mine.py").write_text(agent.replace("zlib.crc32(seen) % len(choices)", "0"))
    found = waits()  # another one is another
    assert len(found) == 2
    assert found[0] != found[1]
    (tmp_path / "trained.zip").write_bytes(b"what a library has written down")
    assert len(waits()) == 3  # and so is one that may have learnt something else


@pytest.mark.batsim
def test_on_the_real_batsim(week: tuple[Path, Played], tmp_path: Path) -> None:
    args = ["-p", str(ROOT / "platforms" / "cluster32.xml"), "-w", str(week[0])]
    mine, theirs = beside_batsim(args, "rl", list(OPTIONS[2:]), tmp_path)
    same_jobs(mine, theirs)


# --- agents -------------------------------------------------------------------------------------------------------

JOBS = Workload().job("a", n=2, s=5, walltime=9).job("b", n=3, s=5, at=1, walltime=9)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("best = 5", "agent '{}' is a int; expected a function of an observation and its mask"),
        ("other = len", "agent '{}': the file or module has no object best"),
        ("import no_such_module", "agent '{}' cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'"),
        ("class best:\n    def __init__(self): 1 / 0", "agent '{}' cannot be loaded: ZeroDivisionError"),
    ],
)
def test_objects_that_are_not_agents_are_rejected(code: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(code + "\n")
    name = f"{tmp_path}/mine.py:best"
    with pytest.raises(InputError, match=re.escape(message.format(name))):
        run_policy("rl", JOBS, 4, agent=name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gone.py:best", "agent 'gone.py:best': file gone.py not found"),
        ("no_such_module:best", "agent 'no_such_module:best' cannot be loaded: ModuleNotFoundError"),
        ("pybatsched.gym:gone", "agent 'pybatsched.gym:gone': the file or module has no object gone"),
        ("pybatsched.gym", "agent 'pybatsched.gym': expected module:object or path/to/file.py:object"),
        ("mine.py", "agent 'mine.py': expected module:object or path/to/file.py:object"),
        ("../x:y", "agent '../x:y': expected module:object or path/to/file.py:object"),
    ],
)
def test_unknown_agent_names_are_rejected(name: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        run_policy("rl", JOBS, 4, agent=name)


def test_a_module_name_that_is_a_local_file_has_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_agent.py").write_text("import no_such_module\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"^agent 'my_agent:best': unknown module my_agent; for the file use my_ag"):
        run_policy("rl", JOBS, 4, agent="my_agent:best")


@pytest.mark.parametrize("choice", ["99", "-1", "None", "0.5", "'a'"])
def test_an_agent_with_an_invalid_choice_is_a_policy_error(choice: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(f"def best(observation, mask):\n    return {choice}\n")
    with pytest.raises(PolicyError, match="decide raised ValueError: the choice .*: expected a whole number from 0 to"):
        run_policy("rl", JOBS, 4, agent=f"{tmp_path}/mine.py:best")


def test_an_agent_without_masks_is_reported(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def best(observation, mask):\n    return 3\n")
    batsim4.write(as_workload(JOBS, 4), tmp_path / "w.json")
    arguments = ("--procs", "4", "-w", "w.json", "--policy", "rl", "-o", "agent=mine.py:best")
    done = run_cli("simulate", *arguments, cwd=tmp_path)
    assert done.returncode == 0
    assert "the agent made 2 of 2 choices that were masked; see docs/learning.md" in done.stdout + done.stderr


def test_a_missing_agent_option_is_an_error() -> None:
    done = run_cli("simulate", "--procs", "32", "-w", str(ROOT / "examples" / "workload.json"), "--policy", "rl")
    assert done.returncode == 2
    assert done.stderr == "pybatsched: policy rl needs the option agent: give it with -o agent=…\n"


@pytest.mark.parametrize("name", [IN_ORDER, "os:abort", BY_NUMBERS])
def test_only_the_owner_may_name_an_agent(name: str) -> None:
    def play(plan: PolicyPlan, **message: str) -> FakeBatsim:
        config = {"sched-config": json.dumps(message) if message else ""}
        return FakeBatsim(JOBS, 4, config=config).run(Session(plan).handle)

    source = find("rl")
    with pytest.raises(UntrustedFileError) as caught:
        play(PolicyPlan(source, trusted=True), agent=name)
    assert str(caught.value) == (
        f"policy rl: option agent (from Batsim's --sched-cfg): {name!r} is Python code, which is not accepted from "
        "there; give it with -o"
    )
    with pytest.raises(UntrustedFileError):
        play(PolicyPlan(source, {"agent": name}))  # the owner did not trust the file
    if name != "os:abort":
        assert not play(plan_for("rl", agent=name), agent="os:abort").deadlocked  # the option of the owner counts


def test_without_numpy_the_error_says_what_to_install(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from pybatsched.errors import InputError\nfrom pybatsched.testing import Workload, run_policy\n"
        "jobs = Workload().job('a', n=1, s=1)\nprint(run_policy('easy', jobs, 4).deadlocked)\n"
        "try:\n    run_policy('rl', jobs, 4, agent='a:b')\nexcept InputError as error:\n    print(error)\n"
    )
    assert "numpy" in needed_for("rl")
    command = without({"numpy"}, program)  # type: ignore[arg-type]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=PATIENCE_OF_WORK_S
    )
    assert done.stdout == "False\npolicy rl needs numpy; run pip install '.[rl]' in a clone of pybatsched\n", (
        done.stderr
    )
