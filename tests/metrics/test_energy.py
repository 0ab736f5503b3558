"""The energy of runs: the same in all outputs, and equal to Batsim's files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.logs import line, log
from support.places import RECORDED, ROOT
from support.process import run_cli
from support.simulated import rows

from pybatsched.core.intervals import IntervalSet
from pybatsched.errors import InputError
from pybatsched.machines import names
from pybatsched.metrics import energy
from pybatsched.metrics.energy import Energy
from pybatsched.metrics.saved_runs import read_run
from pybatsched.workload.model import Workload
from pybatsched.workload.prepare import LOADED, with_cpu_load

LOG = (
    line(1, 0, run=100, allocated=2, requested_s=120),
    line(2, 10, run=333.5, allocated=10, requested_s=400),
    line(3, 20, run=60, allocated=9, requested_s=90),
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A platform of 20 cores that draw 4.5 W idle and 12.5 W busy, and the log as delays and as work."""
    (tmp_path / "p.xml").write_text(names.find("rackham-128gb-core-energy@0.002").text)
    log(tmp_path, *LOG)
    for name, more in (("delays", ()), ("work", ("--cpu-load",))):
        done = run_cli("workload", "convert", "log.swf", f"{name}.json", "--platform", "p.xml", *more, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    return tmp_path


#: Job 3 waits for the end of job 1; the last end is that of job 2.
_ALL_IDLE = 20 * 4.5 * 343.5
_HELD_S = 2 * 100 + 10 * 333.5 + 9 * 60
PARTS = {"delays": Energy(_ALL_IDLE, 4.5 * _HELD_S), "work": Energy(_ALL_IDLE + 8 * _HELD_S, 12.5 * _HELD_S)}


@pytest.mark.parametrize("name", list(PARTS))
def test_energy_is_the_same_wherever_it_is_shown(name: str, place: Path) -> None:
    args = ("-p", "p.xml", "-w", f"{name}.json", "--mmax", "20", "--policy", "fcfs", "-E", "-e", "out")
    done = run_cli("simulate", *args, cwd=place)
    assert done.returncode == 0, done.stderr
    parts = PARTS[name].as_dict()
    assert parts["energy_rest_j"] == pytest.approx(4.5 * (20 * 343.5 - _HELD_S))
    assert json.loads((place / "out_summary.json").read_text())["energy"] == pytest.approx(parts)
    for key, title in energy.TITLES.items():
        (shown,) = [text for text in done.stdout.splitlines() if text.startswith(f"{title}  ")]
        assert shown.endswith(energy.energy_text(parts[key]))
    result = json.loads(run_cli("metrics", "out", "--json", cwd=place).stdout)["out"]
    assert {key: result[key]["total"] for key in parts} == pytest.approx(parts)
    compared = run_cli("compare", "out_summary.json", "out_summary.json", "--fail-if", "energy_j > +1%", cwd=place)
    assert compared.returncode == 0
    assert all(f"\n{key} " in compared.stdout for key in parts)
    assert run_cli("report", "out", cwd=place).returncode == 0
    page = (place / "report.html").read_text()
    table = page.partition('<table id="energy">')[2].partition("</table>")[0]
    assert all(f'<td class="text">{title} (J)</td>' in table for title in energy.TITLES.values())
    assert f"{parts['energy_j']:,.1f}".removesuffix(".0") in table


def test_without_energy_there_are_no_energy_figures(place: Path) -> None:
    args = ("-p", "p.xml", "-w", "work.json", "--policy", "fcfs")
    assert "energy" not in run_cli("simulate", *args, cwd=place).stdout
    assert "energy" not in json.loads((place / "out_summary.json").read_text())
    assert "energy" not in run_cli("metrics", "out", cwd=place).stdout
    run_cli("report", "out", cwd=place)
    assert '<table id="energy">' not in (place / "report.html").read_text()


def test_batsims_own_files_are_read(tmp_path: Path) -> None:
    for path in (RECORDED / "energy").glob("out_*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    found = read_run(str(tmp_path / "out")).energy
    assert found is not None
    assert found.total_j == 19950  # Batsim's consumed_joules
    assert found.rest_j == found.total_j - found.jobs_j > 0


def test_with_shared_hosts_there_is_no_rest_energy() -> None:
    assert Energy(100.0, 120.0).rest_j is None
    assert Energy(100.0, 100.0000004).rest_j == 0
    assert Energy(100.0, 120.0).as_dict() == {"energy_j": 100.0, "energy_jobs_j": 120.0, "energy_rest_j": None}


def test_a_damaged_table_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a_jobs.csv").write_text("job_id,consumed_energy\n1,many\n")
    with pytest.raises(InputError, match="a_jobs.csv: line 2: consumed_energy is 'many'; expected a number"):
        energy.read(tmp_path / "a_jobs.csv", tmp_path / "a_schedule.csv")
    assert energy.read(tmp_path / "none.csv", tmp_path / "none.csv") is None


def test_convert_reports_how_delays_are_changed(place: Path) -> None:
    done = run_cli("workload", "convert", "log.swf", "w.json", "--cpu-load", "--platform", "p.xml", cwd=place)
    assert done.stdout.splitlines() == [
        "3 jobs read, 3 kept, 0 dropped",
        "changed:",
        f"        3  {LOADED.format(35.2e9)} (jobs 1, 2, 3)",
        "noted:",
        "        2  larger than the machine: kept, schedulers will reject it (lines 4, 5)",
        "wrote w.json: 3 jobs for 8 processors, submitted from 0 s to 20 s",
    ]
    content = json.loads((place / "w.json").read_text())
    assert content["profiles"]["333.5"] == {"type": "parallel_homogeneous", "cpu": 333.5 * 35.2e9, "com": 0}
    assert content["load"] == {"speed": 35.2e9}


def test_hosts_of_several_speeds_and_cores_are_noted(place: Path) -> None:
    args = ("--cpu-load", "--platform", "curie-node-energy@0.002")
    output = run_cli("workload", "convert", "log.swf", "w.json", *args, cwd=place).stdout
    assert "2 of 12 hosts are not as fast as most (2.16e+10 flop/s): there jobs take other times" in output
    assert "hosts have 16 cores, and work on a host keeps one of them busy: a load of 1/16" in output


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--cpu-load",), "--cpu-load: expected --platform, which has the speed of hosts"),
        (("--cpu-load", "--platform", "p.xml", "--profile", "delay"), "--cpu-load: cannot be used with --profile"),
    ],
)
def test_cpu_load_needs_a_platform_with_speeds(args: tuple[str, ...], message: str, place: Path) -> None:
    done = run_cli("workload", "convert", "log.swf", "w.json", *args, cwd=place)
    assert (done.returncode, message in done.stderr) == (2, True)


def test_parts_of_composed_profiles_are_loaded_too() -> None:
    profiles: dict[str, dict[str, Any]] = {
        "a": {"type": "delay", "delay": 5, "ret": 1},
        "b": {"type": "parallel_homogeneous", "cpu": 7, "com": 0},
        "ab": {"type": "composed", "seq": ["a", "b"]},
        "bb": {"type": "composed", "seq": ["b", "b"]},
        "nested": {"type": "composed", "seq": ["ab"]},
    }
    jobs = [{"id": name, "subtime": 0, "res": 1, "profile": name} for name in profiles]
    made, report = with_cpu_load(Workload(jobs, profiles, 1), 2e9)
    assert made.profiles == {
        **profiles,
        "a": {"type": "parallel_homogeneous", "cpu": 10_000_000_000, "com": 0, "ret": 1},
    }
    assert [tally.places for tally in report.of("changed")] == [["a", "ab", "nested"]]
    assert profiles["a"]["type"] == "delay"  # those that were given are as they were


@given(st.floats(1e-3, 1e7), st.floats(1e6, 1e12))
def test_work_takes_as_long_as_the_delay_did(delay_s: float, speed: float) -> None:
    jobs = [{"id": 1, "subtime": 0, "res": 1, "profile": "a"}]
    made, _ = with_cpu_load(Workload(jobs, {"a": {"type": "delay", "delay": delay_s}}, 1), speed)
    assert made.profiles["a"]["cpu"] / speed == pytest.approx(delay_s, rel=1e-15 * 4, abs=0)


@pytest.mark.parametrize(
    ("platform", "n_hosts", "watts"),
    [
        ("curie-core", 16, 358.0),
        ("curie-node", 1, 117 + (358 - 117) / 16),
        ("intrepid-pset", 1, 640 + (1920 - 640) / 256),
    ],
)
def test_load_is_full_only_where_a_host_is_a_core(platform: str, n_hosts: int, watts: float, tmp_path: Path) -> None:
    """As in docs/platforms.md: of a host with several cores, one is busy."""
    log(tmp_path, line(1, 0, run=100, allocated=16), header="; MaxProcs: 64\n")
    convert = ("workload", "convert", "log.swf", "w.json", "--cpu-load", "--platform", f"{platform}-energy")
    assert run_cli(*convert, cwd=tmp_path).returncode == 0
    simulate = ("simulate", "-p", f"{platform}-energy", "-w", "w.json", "--policy", "fcfs", "-E", "-q")
    assert run_cli(*simulate, cwd=tmp_path).returncode == 0
    (row,) = rows(tmp_path / "out_jobs.csv")
    assert (len(IntervalSet.parse(row["allocated_resources"])), float(row["execution_time"])) == (n_hosts, 100)
    assert float(row["consumed_energy"]) == pytest.approx(100 * watts)
    page = (ROOT / "docs" / "platforms.md").read_text()
    page = " ".join(page.split())
    assert "On Curie (16 cores, 117 W idle, 358 W full) a busy node then uses 132 W." in page
    assert "A pset with 256 cores uses 1/256 of the difference between idle and full power." in page
