"""The offered load of a workload, and workloads scaled to another one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support import logs
from support.process import run_cli

import pybatsched as pb
from pybatsched.errors import InputError
from pybatsched.workload.formats import batsim4
from pybatsched.workload.model import Workload
from pybatsched.workload.names import ending, parsed
from pybatsched.workload.prepare import load_factor, offered_load, scale_load, with_load
from pybatsched.workload.statistics import stats


def workload(*jobs: tuple[float, int, float], n_procs: int = 4) -> Workload:
    """Return jobs given by submission, size and run time."""
    rows = [{"id": k, "subtime": at, "res": n, "profile": f"{run}"} for k, (at, n, run) in enumerate(jobs, start=1)]
    return Workload(rows, {f"{run}": {"type": "delay", "delay": run} for _, _, run in jobs}, n_procs, "w.json")


def test_the_offered_load_by_hand() -> None:
    two = workload((100, 2, 50), (300, 4, 25))  # 200 processor-seconds in 200 s on 4 processors
    assert offered_load([two], 4) == 0.25
    assert offered_load([two], 1) == 1.0
    assert offered_load([two, workload((500, 1, 200))], 4) == 400 / (4 * 400)


def test_times_are_divided_and_deadlines_keep_their_distance() -> None:
    two = workload((100, 2, 50), (300, 4, 25))
    two.jobs[1]["deadline"] = 1000
    made = with_load(two, 0.5)
    assert [job["subtime"] for job in made.jobs] == [50, 150]
    assert made.jobs[1]["deadline"] == 850
    assert made.about["scaled_load"] == 2
    assert [job["subtime"] for job in two.jobs] == [100, 300]  # the input is not changed
    assert [job["subtime"] for job in with_load(two, 0.5, n_procs=8).jobs] == [25, 75]


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 64), st.integers(1, 10**5)), min_size=2, max_size=30),
    st.floats(0.05, 3),
)
def test_the_load_is_the_wanted_one_and_that_of_the_statistics(jobs: list[tuple[int, int, int]], load: float) -> None:
    jobs.append((jobs[0][0] + 10**5, 1, 1))  # at another time
    some = workload(*sorted(jobs), n_procs=64)
    assert offered_load([some], 64) == pytest.approx(stats.summary(stats.sample_workload(some))["offered_load"])
    made = with_load(some, load)
    assert offered_load([made], 64) == pytest.approx(load, rel=1e-3)  # times are rounded to microseconds
    times = [job["subtime"] for job in made.jobs]
    assert times == sorted(times)


@pytest.mark.parametrize("load", [0, -0.5, float("inf"), float("nan"), 10.5, 90])
def test_a_load_is_a_number_above_0_and_no_percentage(load: float) -> None:
    with pytest.raises(InputError) as error:
        load_factor([workload((0, 1, 1), (5, 1, 1))], load, 4)
    hint = {10.5: "; did you mean 0.105?", 90: "; did you mean 0.9?"}.get(load, "")
    expected = f"load: expected an offered load above 0 and at most 10, such as 0.8 for 80 %, found {load:g}{hint}"
    assert str(error.value) == expected
    if not hint:
        with pytest.raises(InputError, match=r"^scale_load: expected a factor above 0, found "):
            scale_load(workload((0, 1, 1)), load)


def test_a_load_needs_known_run_times_and_different_submissions() -> None:
    with pytest.raises(InputError, match=r"^w\.json: load: expected jobs submitted at different times, found 2 jobs"):
        with_load(workload((7, 1, 1), (7, 1, 1)), 0.5)
    computing = workload((0, 1, 1), (7, 1, 2))
    computing.profiles["2"] = {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0}
    with pytest.raises(InputError, match=r"^w\.json: job 2: load: expected a profile made of delays"):
        with_load(computing, 0.5)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A log of ten jobs of 5 processors and 50 s, one a minute: 2500 / (8 x 540 s) = 57.9 % of 8 processors."""
    lines = [logs.line(k, 60 * k, run=50, allocated=5, requested_s=60) for k in range(1, 11)]
    (tmp_path / "log.swf").write_text("; MaxProcs: 8\n" + "\n".join(lines) + "\n")
    return tmp_path


def failure(place: Path, *args: str) -> str:
    before = sorted(place.iterdir())
    done = run_cli(*args, cwd=place)
    assert done.returncode == 2, done.stderr
    assert sorted(place.iterdir()) == before  # nothing is written
    return done.stderr


def test_convert_writes_the_wanted_load(place: Path) -> None:
    done = run_cli("workload", "convert", "log.swf", "w.json", "--load", "0.9", cwd=place)
    assert done.returncode == 0, done.stderr
    assert "submission times divided by 1.5552: an offered load of 0.9" in done.stdout
    done = run_cli("workload", "stats", "w.json", "--json", cwd=place)
    assert json.loads(done.stdout)["offered_load"] == pytest.approx(0.9)
    done = run_cli("workload", "convert", "log.swf", "x.json", "--scale-load", "2", cwd=place)
    assert [job["subtime"] for job in json.loads((place / "x.json").read_text())["jobs"]] == [*range(30, 301, 30)]


def test_simulate_scales_to_the_load_of_its_machine_and_metrics_read_the_run_again(place: Path) -> None:
    late = workload((0, 8, 45), (100, 8, 45), n_procs=8)
    late.jobs[1]["deadline"] = 150
    batsim4.write(late, place / "late.json")
    # 90 s of work in 100 s; at 1.8 job 2 comes at 50 s, still has 50 s, and needs 45 s.
    file = str(place / "late.json")
    args = ("simulate", "--procs", "8", "-w", file, "--policy", "fcfs", "-e", "out", "--load", "1.8")
    done = run_cli(*args, cwd=place)
    assert done.returncode == 0, done.stderr
    assert "submission times are divided by 2" in done.stderr
    summary = json.loads((place / "out_summary.json").read_text())
    assert summary["scale_load"] == 2
    assert summary["command"].endswith("--load 1.8 --policy fcfs")
    run = pb.read_run(place / "out")
    assert run.figures["deadline_n_late"] == 0
    assert run.jobs["submitted_at"].to_list() == [0, 50]
    again = run_cli(*args[:-2], "--scale-load", "2", "-q", cwd=place)
    assert again.returncode == 0
    assert json.loads((place / "out_summary.json").read_text())["figures"] == summary["figures"]


def test_bad_loads_of_commands_write_nothing(place: Path) -> None:
    convert = ("workload", "convert", "log.swf", "w.json")
    simulate = ("simulate", "-w", "log.swf", "--policy", "fcfs", "-e", "out")
    for command in (convert, simulate):
        assert "--load: expected a number above 0, found -1" in failure(place, *command, "--load=-1")
        assert "--load: expected an offered load above 0 and at most 10" in failure(place, *command, "--load", "90")
        assert "--scale-load: expected a number above 0, found 0" in failure(place, *command, "--scale-load", "0")
        both = failure(place, *command, "--scale-load", "2", "--load", "1")
        assert "--load and --scale-load: expected only one of them, found both" in both


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("kth", ("kth", "kth", "kth", None, False)),
        ("kth-load0.9", ("kth", "kth", "kth", 0.9, False)),
        ("kth-load1e-05-shake01", ("kth", "kth", "kth-shake01", 1e-05, False)),
        (
            "kth-resample03-week12-load1-shake007",
            ("kth", "kth-resample03-week12", "kth-resample03-week12-shake007", 1, 1),
        ),
        ("kth-load1-2", ("kth-load1-2",) * 3 + (None, False)),
        ("kth-shaken", ("kth-shaken",) * 3 + (None, False)),
    ],
)
def test_names_of_workloads(name: str, expected: tuple[Any, ...]) -> None:
    assert tuple(parsed(name)) == expected


@given(st.floats(1e-6, 1e6), st.integers(1, 999), st.integers(1, 99))
def test_endings_are_read_again(load: float, shake: int, week: int) -> None:
    name = f"log{ending('week', week)}{ending('load', load)}{ending('shake', shake, 999)}"
    found = parsed(name, ["log", "lo"])
    assert found == parsed(name)
    assert (found.family, found.load, found.unit) == ("log", float(f"{load:g}"), f"log{ending('week', week)}")
