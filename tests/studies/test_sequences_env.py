"""The environment with the episodes of RLScheduler: its sequences, and its reading of logs."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from support.places import ROOT
from support.rlscheduler_twin import draw_starts

from pybatsched.errors import InputError
from pybatsched.workload.formats import batsim4
from pybatsched.workload.generate.models import Recipe, generate
from pybatsched_studies.orders.env import SequencesEnv

EXAMPLE = ROOT / "examples" / "workload.json"


def drawn(n_jobs: int = 200) -> Any:
    return generate(Recipe("lublin", 64, seed=3, n_jobs=n_jobs, load=1.1))


def first_jobs(env: SequencesEnv, seed: int, n: int) -> list[Any]:
    found = []
    for number in range(n):
        env.reset(seed=seed if number == 0 else None)
        assert env.workload is not None
        found.append(env.workload.jobs[0]["id"])
    return found


def test_episodes_are_its_sequences() -> None:
    """After a reset with a seed, each reset gives the next sequence. The starts are those of numpy's generator."""
    whole = drawn(300)
    ids = [job["id"] for job in whole.jobs]
    env = SequencesEnv(whole, n_jobs=32)
    for seed in (1, 5):
        assert first_jobs(env, seed, 10) == [ids[start] for start in draw_starts(300, 32, 10, seed)]
    copied = copy.deepcopy(env)
    assert first_jobs(copied, 1, 3) == first_jobs(env, 1, 3)
    env.reset(options={"start": 7})
    assert env.workload is not None
    assert env.workload.jobs[0]["id"] == ids[7]
    assert len(env.workload.jobs) == 32


def test_episodes_without_a_seed_differ() -> None:
    assert len({tuple(first_jobs(SequencesEnv(drawn(300), n_jobs=32), seed, 3)) for seed in range(5)}) > 1
    env = SequencesEnv(drawn(300), n_jobs=32)
    env.reset()
    assert env.workload is not None


def test_episodes_have_1024_of_the_first_10000_jobs(tmp_path: Path) -> None:
    batsim4.write(drawn(10_100), tmp_path / "w.json")
    env = SequencesEnv(tmp_path / "w.json")
    assert env.n_starts == 10_000 - 1024 + 1
    env.reset(seed=1)
    assert env.workload is not None
    assert env.workload.jobs[0]["id"] == drawn(10_100).jobs[1981]["id"]
    assert len(env.workload.jobs) == 1024


def test_logs_are_read_as_by_rlscheduler(tmp_path: Path) -> None:
    """Sizes are the larger number, an unknown run time is 10 s, and a job of 0 s is dropped."""
    log = tmp_path / "log.swf"
    rows = ["; MaxProcs: 64"]
    for number in range(1, 9):
        run_s, allocated = {3: (-1, -1), 4: (0, 2)}.get(number, (20, 2))
        rows.append(f"{number} {number} -1 {run_s} {allocated} -1 -1 3 -1 -1 1 1 -1 -1 -1 -1 -1 -1")
    log.write_text("\n".join([*rows, ""]))
    env = SequencesEnv(log, n_jobs=2)
    env.reset(options={"start": 1})
    assert env.workload is not None
    one, unknown = env.workload.jobs
    assert (one["id"], one["res"], one["profile"], one["estimate"]) == (2, 3, "20", 20)
    assert (unknown["id"], unknown["res"], unknown["profile"]) == (3, 3, "10")
    assert not {"estimate", "walltime"} & unknown.keys()


def test_a_batsim_file_is_read_as_it_is() -> None:
    env = SequencesEnv(EXAMPLE, 32, n_jobs=2)
    env.reset(options={"start": 0})
    assert env.workload is not None
    assert len(env.workload.jobs) == 2


def test_too_few_jobs_for_a_sequence() -> None:
    env = SequencesEnv(drawn(200), n_jobs=100)
    with pytest.raises(InputError, match="expected at least 202 jobs to draw them from, found 200"):
        env.reset(seed=1)
