"""Locality over a socket, with the real Batsim, explained and replayed."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from support.free_links import written
from support.located import DYNAMIC, FileNode, Machine, crowd, fates
from support.process import Peer, Server, run_cli
from support.simulated import beside_batsim, rows, same_jobs

from pybatsched.core import decisions as d, events as e
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Workload, plan_for, run_policy

MACHINE = Machine((FileNode(), FileNode(), FileNode(memory_gb=32), FileNode(8, 16, 0.25)))
AREAS = '{"16": 100, "32": 60}'
#: Marks a variant of the published program.
PUBLISHED = "published"
VARIANTS = [
    (),
    ("score=fcfs", "interval_s=0"),
    ("score=eft", "backfill=true"),
    ("score=leo", "persistence=true"),
    ("score=lem", "backfill=true", "persistence=true", "interval_s=5"),
    ("x1=2", "x2=0.5", "x3=1", "bigger_nodes=idle"),
    ("score=lea", "bigger_nodes=area", f"areas={AREAS}", "backfill=true"),
    ("score=lea", PUBLISHED, "interval_s=5"),
]


def given(options: tuple[str, ...]) -> list[str]:
    return [text for option in options for text in ("-o", option)]


def values(options: tuple[str, ...]) -> dict[str, Any]:
    """Read options as the command line does."""
    found: dict[str, Any] = {}
    for option in options:
        name, text = option.split("=", 1)
        found[name] = text if name in {"score", "bigger_nodes"} else json.loads(text)
    return found


def named(options: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the policy of a variant, and its options."""
    rest = tuple(option for option in options if option != PUBLISHED)
    return "published_locality" if PUBLISHED in options else "locality", rest


def varied(seed: int, options: tuple[str, ...], n_jobs: int = 40) -> Workload:
    """Draw a crowd; the sizes of some files take as long as 6.4 GB at 0.1 GB/s, or no whole number of seconds."""
    workload = crowd(MACHINE, seed, n_jobs, whole=PUBLISHED in options)
    if PUBLISHED not in options:
        dice = random.Random(seed)
        sizes = {name: dice.choice([None, None, 3.2, 0.7]) for name in "abcdefgh"}
        for job in workload.jobs:
            size_gb = sizes.get(job.get("input_file", ""))
            if size_gb is not None:
                job["input_size_gb"] = size_gb
    return workload


@pytest.mark.parametrize("options", VARIANTS, ids=" ".join)
def test_a_run_over_a_socket_equals_the_embedded_run(options: tuple[str, ...]) -> None:
    workload = varied(5, options)
    policy, own = named(options)
    with Server("--policy", policy, *given(own)) as server, Peer(server.wait_ready()) as peer:
        served = FakeBatsim(workload, MACHINE.n_procs, config=DYNAMIC, hosts=MACHINE.hosts).run(peer.ask)
        assert server.finish() == 0
    alone = run_policy(policy, workload, MACHINE.n_procs, hosts=MACHINE.hosts, config=DYNAMIC, **values(own))
    assert fates(served, MACHINE) == fates(alone, MACHINE)
    assert any(fate.load_s for fate in fates(alone, MACHINE).values())


@pytest.mark.batsim
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("options", VARIANTS, ids=" ".join)
def test_jobs_equal_those_with_the_real_batsim(options: tuple[str, ...], seed: int, tmp_path: Path) -> None:
    args = written(varied(seed, options, 60), MACHINE.hosts, tmp_path)
    policy, own = named(options)
    mine, theirs = beside_batsim(args, policy, given(own), tmp_path)
    same_jobs(mine, theirs)
    assert any("kind=replace;extra_s=" in row["metadata"] for row in rows(theirs))


def test_a_run_is_explained_and_replayed(tmp_path: Path) -> None:
    jobs = Workload().job("a", n=4, s=50, walltime=100, input_file="f", input_size_gb=4)
    jobs.job("b", n=8, s=50, walltime=100).job("c", n=4, s=5, at=3, walltime=20, input_file="f", input_size_gb=4)
    args = [*written(jobs, MACHINE.hosts, tmp_path), "--policy", "locality", "-e", str(tmp_path / "run")]
    done = run_cli("simulate", *args, "--journal", str(tmp_path / "run.pbj"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "node n0 has the best score; 8 s until its file is there" in explained(tmp_path, "a")
    assert "node n3 has the best score; 0 s until its file is there" in explained(tmp_path, "b")
    assert run_cli("replay", str(tmp_path / "run.pbj")).returncode == 0
    (row,) = (row for row in rows(tmp_path / "run_jobs.csv") if "parent=w0!a" in row["metadata"])
    assert row["metadata"].endswith("extra_s=8;load_s=8;load_wait_s=0;reused=0;input=file f on node n0")


@pytest.mark.parametrize("policy", ["locality", "published_locality"])
def test_explain_distinguishes_history_from_scores(policy: str, tmp_path: Path) -> None:
    """b waits for the node on which it ran; with c comes a pass that takes it for any other, but not in the program."""
    jobs = Workload().job("a", n=4, s=40, walltime=50, history_node=0, history_start=-9)
    jobs.job("b", n=4, s=5, walltime=20, history_node=0).job("c", n=4, s=5, at=30, walltime=20)
    args = [*written(jobs, MACHINE.hosts, tmp_path), "--policy", policy]
    done = run_cli("simulate", *args, "-e", str(tmp_path / "run"), "--journal", str(tmp_path / "run.pbj"))
    assert (done.returncode, done.stderr) == (0, "")
    goes_on = "node n0 is where it ran when the simulation began; 0 s until its file is there"
    assert goes_on in explained(tmp_path, "a")
    assert (goes_on if policy == "published_locality" else "node n1 has the best score") in explained(tmp_path, "b")


def explained(folder: Path, name: str) -> str:
    return run_cli("explain", str(folder / "run.pbj"), f"w0!{name}").stdout


def test_options_by_the_command_line_of_the_simulation(tmp_path: Path) -> None:
    jobs = Workload().job("a", n=4, s=50, walltime=100, input_file="f", input_size_gb=4)
    jobs.job("b", n=4, s=5, walltime=20, input_file="f", input_size_gb=4)
    args = [*written(jobs, MACHINE.hosts, tmp_path), "--policy", "locality", "-e", str(tmp_path / "run")]
    for score, start in (("eft", 0.0), ("lea", 58.0)):
        assert run_cli("simulate", *args, "--sched-cfg", json.dumps({"score": score})).returncode == 0
        (found,) = (
            row
            for row in rows(tmp_path / "run_jobs.csv")
            if "w0!b" in (row["metadata"] + f"w0!{row['job_id']}") and row["final_state"] != "REJECTED"
        )
        assert float(found["starting_time"]) == start


@pytest.mark.parametrize(
    ("policy", "options"),
    [("locality", {"score": "fcfs"}), ("locality", {"interval_s": 0}), ("published_locality", {"interval_s": 1})],
)
def test_a_job_that_reaches_its_walltime_now_ends_before_anything_is_planned(
    policy: str, options: dict[str, Any]
) -> None:
    """Batsim may send the call for the next start first, and the end of the job before at the same instant."""
    engine = Session(plan_for(policy, **options), checked=True).engine
    hosts = tuple(e.Resource(i, f"c{i}", "idle", {"node": "n"}) for i in range(4))
    profiles = {"w0": {"d": {"type": "delay", "delay": 20}}}
    engine.step(0.0, [e.SimulationBegins(4, config=DYNAMIC, compute_resources=hosts, profiles=profiles, timestamp=0.0)])
    coming = []
    for name, n in (("a", 3), ("b", 4)):
        job = {"id": f"w0!{name}", "subtime": 1.0, "res": n, "profile": "d", "walltime": 9}
        coming.append(e.JobSubmitted(f"w0!{name}", job, timestamp=1.0))
    engine.step(1.0, coming)
    engine.step(2.0, [e.Notify(e.NO_MORE_STATIC_JOBS, timestamp=2.0)])
    (running,) = (job for job in engine.jobs.alive.values() if job.procs is not None)
    assert running.id == "w0!a"
    over_at = running.expected_end_at
    assert not engine.step(over_at, [e.RequestedCall(timestamp=over_at)]).decisions
    ended = e.JobCompleted("w0!a", e.COMPLETED_WALLTIME_REACHED, -1, "0-2", timestamp=over_at)
    (start,) = engine.step(over_at, [ended]).decisions
    assert isinstance(start, d.ExecuteJob)
