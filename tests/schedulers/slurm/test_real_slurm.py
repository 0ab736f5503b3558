"""A real Slurm that runs here, and what is read from the logs of one."""

from __future__ import annotations

import csv
import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from support.places import GOLDEN, ROOT, module_of
from support.real_slurm import SHARED_NODES, WHOLE_NODES, Cluster, events_of, plans_of

RECORDED = sorted((GOLDEN / "slurm").glob("s[12]*/run_*"))


def rows(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt") as file:
        return list(csv.DictReader(file))


@pytest.mark.skipif(not RECORDED, reason="no recordings of Slurm in PYBATSCHED_GOLDEN")
@pytest.mark.parametrize("folder", RECORDED, ids=lambda one: f"{one.parent.name}/{one.name}")
def test_the_logs_of_a_recording_give_its_events_and_plans(folder: Path) -> None:
    t0 = json.loads((folder / "meta.json").read_text())["t0_epoch"]
    recorded = [row for row in rows(folder / "events.csv.gz") if row["event"] not in {"decay", "event"}]
    names = {row["jobid"]: row["job"] for row in recorded if row["event"] == "submit"}
    log = gzip.decompress((folder / "slurmctld.log.gz").read_bytes()).decode(errors="replace").splitlines()
    schedule = gzip.decompress((folder / "sched.log.gz").read_bytes()).decode(errors="replace").splitlines()
    found = [(one.event, one.job, one.jobid, one.info) for one in events_of([log, schedule], t0, names)]
    assert sorted(found) == sorted((row["event"], row["job"], row["jobid"], row["info"]) for row in recorded)
    times = sorted((one.event, one.jobid, one.t) for one in events_of([log, schedule], t0, names))
    expected = sorted((row["event"], row["jobid"], float(row["t"])) for row in recorded)
    assert [one[2] for one in times] == pytest.approx([one[2] for one in expected], abs=0.0011)
    plans = list(plans_of(log, t0))
    for mine, row in zip(plans, rows(folder / "plans.csv.gz"), strict=True):
        assert (str(mine[1]), *mine[2:4], mine[5]) == (row["rank"], row["jobid"], row["prio"], row["nodes"])
        assert mine[4] == row["start"] or float(mine[4]) == pytest.approx(float(row["start"]), abs=0.0011)


@pytest.mark.slurm
@pytest.mark.parametrize(
    ("nodes", "options"),
    [
        (WHOLE_NODES, ["-N 1", "-N 1", "-N 2", "-N 3", "-N 4"]),
        (SHARED_NODES, ["-n 1", "-n 3", "-n 6", "-N 2 --ntasks-per-node=2", "-n 2 --mem-per-cpu=400",
                        "-n 1 --gres=gpu:1", "-N 1 -n 2 --gres=gpu:2", "-n 2 --exclusive", "-n 2 --nice=200"]),
    ],
    ids=["whole nodes", "cores, memory and GPUs"],
)  # fmt: skip
def test_decisions_of_a_slurm_that_runs_here(tmp_path: Path, nodes: str, options: list[str]) -> None:
    dice = random.Random(1)
    jobs = [(dice.choice([0, 0, 2]), dice.choice(options), dice.choice([2, 5, 9])) for _ in range(20)]
    with Cluster(tmp_path, nodes) as cluster:
        cluster.record(jobs)
    decisions: Any = module_of("slurm_decisions", ROOT / "benchmarks" / "slurm_decisions.py")
    score = decisions.Replay(decisions.Recording(tmp_path), with_logged_priorities=False).run()
    assert score.differences == []
    assert score.n_starts == score.n_same_nodes == len(jobs)
    assert score.n_plans == score.n_same_plans > 0
