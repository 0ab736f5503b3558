"""Workloads and events in Batsim 5's format with a real Batsim 5: jobs run as in Batsim 4."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.batsim5 import BatsimRun, run_batsim5
from support.platforms import HEAD
from support.process import run_cli
from support.simulated import rows

from pybatsched.simulator import external_events
from pybatsched.workload.formats import batsim4, batsim5
from pybatsched.workload.model import Workload

pytestmark = pytest.mark.batsim5

#: A network on which every amount takes its time, with a storage by the name of the label in profiles.
_ROUTE = (
    '<zoneRoute src="{0}" dst="{1}" gw_src="{2}{0}_router" gw_dst="{3}{1}_router"><link_ctn id="trunk"/></zoneRoute>'
)
PLATFORM = f"""{HEAD}<zone id="site" routing="Full">
<cluster id="nodes" prefix="node" suffix="" radical="100-107" speed="1Gf" bw="125MBps" lat="50us" bb_bw="1GBps"/>
<cluster id="disk" prefix="nfs" suffix="" radical="0-0" speed="1Gf" bw="100MBps" lat="0">
<prop id="role" value="storage"/></cluster>
<cluster id="front" prefix="boss" suffix="" radical="0-0" speed="1Gf" bw="1e300Bps" lat="0">
<prop id="role" value="master"/></cluster>
<link id="trunk" bandwidth="1e300Bps" latency="0"/>
{_ROUTE.format("nodes", "front", "node", "boss")}
{_ROUTE.format("nodes", "disk", "node", "nfs")}
{_ROUTE.format("front", "disk", "boss", "nfs")}
</zone></platform>
"""
PARTS = {"d": {"type": "delay", "delay": 1}, "t": {"type": "parallel_homogeneous_total", "cpu": 3e9, "com": 4e8}}
PFS = {"type": "parallel_homogeneous_pfs", "storage": "nfs0"}
PROFILES: dict[str, tuple[dict[str, Any], int]] = {
    "delay": ({"type": "delay", "delay": 7.5}, 3),
    "return code": ({"type": "delay", "delay": 7.5, "ret": 3}, 3),
    "parallel": ({"type": "parallel", "cpu": [1e9, 2e9, 0], "com": [0, 5e8, 0, 1e8, 0, 0, 0, 3e8, 0]}, 3),
    "homogeneous": ({"type": "parallel_homogeneous", "cpu": 1e9, "com": 3e8}, 4),
    "nothing": ({"type": "parallel_homogeneous", "cpu": 0, "com": 0}, 4),
    "total without messages": ({"type": "parallel_homogeneous_total", "cpu": 8e9, "com": 0}, 5),
    "total on one": ({"type": "parallel_homogeneous_total", "cpu": 8e9, "com": 5e9}, 1),
    "total on two": ({"type": "parallel_homogeneous_total", "cpu": 1e9, "com": 5e9}, 2),
    "total on five": ({"type": "parallel_homogeneous_total", "cpu": 1e9, "com": 5e9}, 5),
    "read as much as written": ({**PFS, "bytes_to_read": 3e8, "bytes_to_write": 3e8}, 3),
    "read": ({**PFS, "bytes_to_read": 3e8}, 3),
    "written": ({**PFS, "bytes_to_write": 4e8}, 3),
    "read less than written": ({**PFS, "bytes_to_read": 1e8, "bytes_to_write": 4e8}, 3),
    "composed": ({"type": "composed", "seq": ["d", "t"], "repeat": 2}, 3),
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "p.xml").write_text(PLATFORM)
    (tmp_path / "t.txt").write_text("r0.txt\nr1.txt\n")
    (tmp_path / "r0.txt").write_text("0 m_usage 1.0 2e9\n")
    (tmp_path / "r1.txt").write_text("1 m_usage 1.0 3e9\n")
    return tmp_path


def workload(profile: dict[str, Any], n_procs: int, **fields: Any) -> Workload:
    job = {"id": "a", "subtime": 0, "res": n_procs, "profile": "p", **fields}
    return Workload([job], {"p": profile, **PARTS}, 8, "w.json")


def run5(place: Path, content: Workload, *args: str) -> BatsimRun:
    batsim4.write(content, place / "w5.json")
    return run_batsim5(place, "-p", "p.xml", "-w", "w5.json", *args)


@pytest.mark.batsim
@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_takes_as_long_as_in_batsim_4(name: str, place: Path) -> None:
    profile, n_procs = PROFILES[name]
    content = workload(profile, n_procs, walltime=1000)
    if profile["type"] != "composed":
        content.profiles.pop("d")
        content.profiles.pop("t")
    batsim4.write(content, place / "w4.json")
    done = run_cli("run", "-p", "p.xml", "-w", "w4.json", "--policy", "fcfs", "-e", "four", cwd=place)
    assert done.returncode == 0, done.stderr
    five = run5(place, batsim5.to_batsim5(content))
    assert five.exit_code == 0, five.errors
    (row,) = rows(place / "four_jobs.csv")
    same = ("execution_time", "final_state", "success", "requested_time")
    assert {column: five.jobs["a"][column] for column in same} == {column: row[column] for column in same}


def test_a_usage_trace_is_found_and_replayed(place: Path) -> None:
    """Batsim 4 takes the time of a message more for it."""
    content = workload({"type": "usage_trace", "trace": "t.txt"}, 2)
    assert run5(place, batsim5.to_batsim5(content)).jobs["a"]["execution_time"] == "3.000000"


def test_fields_arrive_as_they_were_written(place: Path) -> None:
    fields = {"walltime": -1, "user": 'é\0"\\', "deadline": 5.25, "moldable": {"limit": 2}}
    content = batsim5.to_batsim5(workload(PARTS["d"], 1, **fields))
    job = run5(place, content).of("JobSubmittedEvent")[0]["job"]
    assert job["extra_data"] == content.jobs[0]["extra_data"]
    assert json.loads(job["extra_data"]) == fields
    assert job.get("walltime") is None


def test_a_transfer_between_storages_ends_batsim_5(place: Path) -> None:
    """So it is refused; without bytes it is taken."""
    for n_bytes, exit_codes in ((5, {-6, 134}), (0, {0})):
        kind = "ParallelTaskDataStagingBetweenStoragesProfile"
        content = workload({"type": "delay", "delay": 1}, 1)
        content.profiles = {"p": {"type": kind, "nb_bytes": n_bytes, "from": "nfs0", "to": "nfs0"}}
        done = run5(place, content)
        assert done.exit_code in exit_codes, done.errors


def test_batsim_5_writes_the_same_amount_as_it_reads(place: Path) -> None:
    """So different amounts are spread: without that this one would write nothing."""
    content = workload({"type": "delay", "delay": 1}, 1)
    kind = "ParallelTaskOnStorageHomogeneousProfile"
    content.profiles = {"p": {"type": kind, "bytes_to_write": 4e8, "storage": "nfs0"}}
    assert float(run5(place, content).jobs["a"]["execution_time"]) < 0.001


def test_events_arrive_in_order_with_all_fields(place: Path) -> None:
    events: list[dict[str, Any]] = [
        {"timestamp": 2.5, "type": "alarm", "é": [1]},
        {"timestamp": 5, "type": "machine_unavailable", "resources": "0-3"},
        {"timestamp": 6, "type": "machine_available", "resources": "0-3"},
    ]
    made = [external_events.to_batsim5(event) for event in events]
    (place / "e.txt").write_text("".join(f"{json.dumps(event)}\n" for event in made))
    content = batsim5.to_batsim5(workload({"type": "delay", "delay": 9}, 1))
    received = run5(place, content, "--ee", "e.txt").of("ExternalEventOccurredEvent")
    assert [json.loads(one["external_event"]["data"]) for one in received] == events


def test_events_of_one_instant_have_ids_by_which_they_can_be_put_in_order(place: Path) -> None:
    made = [{"type": "generic", "timestamp": 1, "data": str(i)} for i in range(40)]
    (place / "e.txt").write_text("".join(f"{json.dumps(event)}\n" for event in made))
    content = batsim5.to_batsim5(workload({"type": "delay", "delay": 9}, 1))
    events = run5(place, content, "--ee", "e.txt").of("ExternalEventOccurredEvent")
    assert {one["id"].partition("!")[2]: one["external_event"]["data"] for one in events} == {
        str(i): str(i) for i in range(40)
    }
