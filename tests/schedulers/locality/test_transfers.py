"""Loads as simulated transfers: two loads share the link of the file system, by hand and beside the real Batsim."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.process import run_cli
from support.simulated import beside_batsim, rows, same_jobs

from pybatsched.metrics.outcomes import Outcome, join_segments
from pybatsched.testing import Workload

#: Two nodes of two cores with links of 1 GB/s to a file system of 0.1 GB/s. Messages of Batsim are free.
PLATFORM = """<?xml version="1.0"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="z" routing="Full">
{hosts}
<host id="boss" speed="1Gf"><prop id="role" value="master"/></host>
{disk}
<link id="free" bandwidth="1e300Bps" latency="0"/>
<link id="fs" bandwidth="100MBps" latency="0"/>
<link id="up0" bandwidth="1GBps" latency="0"/><link id="up1" bandwidth="1GBps" latency="0"/>
{routes}
</zone></platform>
"""
HOST = '<host id="c{}" speed="1Gf"><prop id="node" value="{}"/><prop id="fs_bw_gbps" value="0.1"/></host>'
DISK = '<host id="disk" speed="1Gf"><prop id="role" value="storage"/></host>'
GOOD, LATE = "COMPLETED_SUCCESSFULLY", "COMPLETED_WALLTIME_REACHED"


def platform(disk: str = DISK) -> str:
    hosts = "\n".join(HOST.format(i, i // 2) for i in range(4))
    routes = [f'<route src="{h}" dst="boss"><link_ctn id="free"/></route>' for h in ("c0", "c1", "c2", "c3", "boss")]
    if disk:
        routes += [
            f'<route src="c{i}" dst="disk"><link_ctn id="up{i // 2}"/><link_ctn id="fs"/></route>' for i in range(4)
        ]
    return PLATFORM.format(hosts=hosts, disk=disk, routes="\n".join(routes))


def written(folder: Path, jobs: Workload, **more: str) -> list[str]:
    (folder / "p.xml").write_text(platform(**more))
    content = {"nb_res": 4, "jobs": jobs.jobs, "profiles": jobs.profiles}
    (folder / "w.json").write_text(json.dumps(content))
    return ["-p", str(folder / "p.xml"), "-w", str(folder / "w.json")]


def run(folder: Path, jobs: Workload, *more: str, clock: str = "simgrid") -> dict[str, dict[str, str]]:
    """Simulate with transfers. Return the rows by the job they belong to, those of loads as `load of NAME`."""
    options = ["-o", "loads=transfers", "-o", "interval_s=0", "--clock", clock, "-e", str(folder / "out")]
    done = run_cli("simulate", *written(folder, jobs), "--policy", "locality", *options, *more)
    assert done.returncode == 0, done.stderr
    found = {}
    for row in rows(folder / "out_jobs.csv"):
        parent = row["metadata"].partition("parent=w0!")[2].partition(";")[0]
        is_load = "kind=load" in row["metadata"]
        if row["final_state"] != "REJECTED":
            found[f"load of {parent}" if is_load else parent or row["job_id"]] = row
    return found


def spans(found: dict[str, dict[str, str]]) -> dict[str, tuple[float, float]]:
    return {name: (float(row["starting_time"]), float(row["finish_time"])) for name, row in found.items()}


def job(
    jobs: Workload, name: str, file: str, *, n: int = 1, at: float = 0, walltime: float = 100, gb: float = 1
) -> Any:
    return jobs.job(name, n=n, s=5, at=at, walltime=walltime, input_file=file, input_size_gb=gb)


def close(expected: dict[str, tuple[float, float]]) -> Any:
    return {name: pytest.approx(span, abs=2e-6) for name, span in expected.items()}


@pytest.mark.parametrize("rule", ["requeue_first", "requeue_last", "resubmit", "kill"])
def test_a_load_on_a_node_that_fails_is_not_requeued_as_a_job(rule: str, tmp_path: Path) -> None:
    """Node 0 fails at 4, during the load. The job loads its file anew, on node 1, and no other load runs."""
    events = [("machine_unavailable", 4), ("machine_available", 6)]
    lines = [json.dumps({"timestamp": at, "type": kind, "resources": "0-1"}) for kind, at in events]
    (tmp_path / "events.txt").write_text("\n".join(lines) + "\n")
    more = ("--events", str(tmp_path / "events.txt"), "-o", f"on_failure={rule}")
    found = run(tmp_path, job(Workload(), "a", "f", n=2), *more)
    assert spans(found)["a"] == pytest.approx((14, 19), abs=2e-6)
    names = [row["job_id"] for row in rows(tmp_path / "out_jobs.csv") if row["job_id"].startswith("load")]
    assert names == ["load.1", "load.2"]
    figures = json.loads((tmp_path / "out_summary.json").read_text())["figures"]
    assert figures["n_jobs"] == 1


def test_a_load_alone_takes_size_by_bandwidth(tmp_path: Path) -> None:
    """1 GB at 0.1 GB/s, then 5 s of work, within the walltime of 100 s. The load counts as wait."""
    found = run(tmp_path, job(Workload(), "a", "f", n=2))
    assert spans(found) == close({"load of a": (0, 10), "a": (10, 15)})
    assert float(found["a"]["requested_time"]) == 90
    assert "load_s=10;load_wait_s=0;reused=0;input=file f on node 0" in found["a"]["metadata"]
    outcomes = [
        Outcome(row["job_id"], row["final_state"], 0.0, float(row["starting_time"]), float(row["execution_time"]), 2,
                row["metadata"])
        for row in found.values()
    ]  # fmt: skip
    joined = join_segments(Outcome("w0!a", "REJECTED", 0.0, 0.0, 0.0, 2), outcomes)
    assert (joined.state, joined.started_at) == (GOOD, 0.0)
    assert (joined.runtime_s, joined.ended_at) == pytest.approx((5.0, 15.0))


def test_loads_of_two_nodes_share_the_file_system(tmp_path: Path) -> None:
    """Each gets 0.05 GB/s. With fixed seconds, both take 10 s."""
    jobs = job(job(Workload(), "a", "f", n=2), "b", "g", n=2)
    assert spans(run(tmp_path, jobs)) == close({
        "load of a": (0, 20), "load of b": (0, 20), "a": (20, 25), "b": (20, 25),
    })  # fmt: skip
    assert spans(run(tmp_path, jobs, "-o", "loads=seconds")) == close({"a": (0, 15), "b": (0, 15)})


def test_a_job_waits_for_the_load_of_another(tmp_path: Path) -> None:
    """B comes at 4 s to the node that loads its file. Its core is kept until 10 s."""
    found = run(tmp_path, job(job(Workload(), "a", "f"), "b", "f", at=4))
    assert spans(found) == close({"load of a": (0, 10), "a": (10, 15), "b": (10, 15)})
    assert (found["b"]["allocated_resources"], float(found["b"]["requested_time"])) == ("1", 94)
    assert "load_s=0;load_wait_s=6;reused=1" in found["b"]["metadata"]


def test_nothing_else_starts_on_a_kept_core(tmp_path: Path) -> None:
    """C finds one idle core, which is kept for b, and cores on the other node."""
    jobs = job(job(Workload(), "a", "f"), "b", "f", at=4).job("c", n=1, s=1, at=5, walltime=2)
    assert run(tmp_path, jobs)["c"]["allocated_resources"] == "2"


def test_a_file_that_is_there_is_not_loaded(tmp_path: Path) -> None:
    found = run(tmp_path, job(job(Workload(), "a", "f"), "b", "f", at=12))
    assert spans(found) == close({"load of a": (0, 10), "a": (10, 15), "b": (12, 17)})
    assert "load_s=0;load_wait_s=0;reused=1" in found["b"]["metadata"]


def test_a_walltime_ends_a_load_and_the_other_is_faster_then(tmp_path: Path) -> None:
    """Until 15 s each has read 0.75 GB. Then b reads the rest with 0.1 GB/s."""
    found = run(tmp_path, job(job(Workload(), "a", "f", n=2, walltime=15), "b", "g", n=2))
    assert spans(found) == close({"load of a": (0, 15), "a": (15, 15), "load of b": (0, 17.5), "b": (17.5, 22.5)})
    assert (found["load of a"]["final_state"], found["a"]["final_state"]) == (LATE, LATE)


def test_the_next_job_loads_what_was_not_loaded(tmp_path: Path) -> None:
    """A is killed at 5 s. B has waited for 4 s and now loads the file itself; c waits for b."""
    jobs = job(job(job(Workload(), "a", "f", walltime=5), "b", "f", at=1), "c", "f", at=6)
    found = run(tmp_path, jobs, "-o", "score=lea")
    assert spans(found) == close({
        "load of a": (0, 5), "a": (5, 5), "load of b": (5, 15), "b": (15, 20), "c": (15, 20),
    })  # fmt: skip
    assert "load_s=10;load_wait_s=4;reused=0" in found["b"]["metadata"]
    assert "load_s=0;load_wait_s=9;reused=1" in found["c"]["metadata"]


def test_a_job_whose_kept_core_is_lost_queues_again(tmp_path: Path) -> None:
    """All cores but core 0 are gone from 6 s to 30 s. A has core 0 until 15 s, and b finds its file there."""
    events = [("machine_unavailable", 6, "1-3"), ("machine_available", 30, "1-3")]
    lines = [json.dumps({"type": kind, "timestamp": at, "resources": procs}) for kind, at, procs in events]
    (tmp_path / "events.txt").write_text("\n".join(lines))
    jobs = job(job(Workload(), "a", "f"), "b", "f", at=4)
    found = run(tmp_path, jobs, "--events", str(tmp_path / "events.txt"))
    assert spans(found)["a"] == pytest.approx((10, 15), abs=2e-6)
    assert spans(found)["b"] == pytest.approx((15, 20), abs=2e-6)
    assert found["b"]["allocated_resources"] == "0"


@pytest.mark.parametrize(
    ("disk", "clock", "said"),
    [
        ("", "simgrid", "option loads=transfers: the platform has no storage host; expected a host with the property"),
        (DISK, "exact", "policy locality: option loads=transfers needs the network; expected --clock simgrid, found"),
    ],
)
def test_what_transfers_need(disk: str, clock: str, said: str, tmp_path: Path) -> None:
    args = written(tmp_path, job(Workload(), "a", "f"), disk=disk)
    options = ["-o", "loads=transfers", "--clock", clock, "-e", str(tmp_path / "out")]
    done = run_cli("simulate", *args, "--policy", "locality", *options)
    assert done.returncode == 2
    assert said in done.stderr
    if clock == "exact":  # rejected before the run
        assert not (tmp_path / "out_state.json").exists()


def test_transfers_have_the_clock_of_simgrid_by_default(tmp_path: Path) -> None:
    jobs = job(job(Workload(), "a", "f"), "b", "g")
    found = [run(tmp_path, jobs, clock=clock) for clock in ("auto", "simgrid")]
    assert found[0] == found[1]


def test_the_published_program_has_no_transfers(tmp_path: Path) -> None:
    args = written(tmp_path, job(Workload(), "a", "f"))
    done = run_cli("simulate", *args, "--policy", "published_locality", "-o", "loads=transfers")
    assert (done.returncode, "cannot be used with loads=transfers" in done.stderr) == (2, True)


@pytest.mark.batsim
@pytest.mark.parametrize("score", ["fcfs", "eft", "lea"])
def test_the_same_jobs_beside_the_real_batsim(score: str, tmp_path: Path) -> None:
    jobs = Workload()
    for i in range(30):
        walltime, gb = (12, 60, 100)[i % 3], (0.25, 1, 0.5)[i % 3]
        job(jobs, f"j{i}", f"f{i % 3}", n=1 + i % 2, at=i * 2.5, walltime=walltime, gb=gb)
    options = ["-o", "loads=transfers", "-o", f"score={score}"]
    mine, theirs = beside_batsim(
        [*written(tmp_path, jobs), "--enable-dynamic-jobs"], "locality", options, tmp_path, "simgrid"
    )
    same_jobs(mine, theirs)
    assert any("kind=load" in row["metadata"] for row in rows(theirs))
