"""The bound tau of bounded slowdowns is recorded with the run, and readers use it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import logs
from support.process import run_cli

from pybatsched import __version__
from pybatsched.errors import InputError
from pybatsched.metrics.saved_runs import common_tau_s, read_run
from pybatsched.report import provenance

LOG = [logs.line(number, number, run=5, allocated=5, requested_s=20) for number in range(1, 11)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of one log, with tau 1 s and 60 s."""
    place = tmp_path_factory.mktemp("tau")
    logs.log(place, *LOG)
    for name, tau in (("one", "1"), ("usual", "60")):
        args = ("--procs", "8", "--policy", "easy", "-w", "log.swf", "--tau", tau, "-e", name)
        assert run_cli("simulate", *args, cwd=place).returncode == 0
    return place


def own(place: Path, name: str) -> float:
    figures = json.loads((place / f"{name}_summary.json").read_text())["figures"]
    mean: float = figures["mean_bounded_slowdown"]
    return mean


@pytest.mark.parametrize(("name", "tau_s"), [("one", 1.0), ("usual", 60.0)])
def test_metrics_have_the_bound_of_the_run(name: str, tau_s: float, place: Path) -> None:
    result = json.loads(run_cli("metrics", name, "--json", cwd=place).stdout)[name]["bounded_slowdown"]
    assert (result["mean"], result["tau_s"]) == (pytest.approx(own(place, name)), tau_s)
    lines = run_cli("metrics", name, cwd=place).stdout.splitlines()
    assert sum(line.startswith(f"bounded_slowdown (tau {tau_s:g} s) ") for line in lines) == 1
    assert "tau_s" not in lines[0].split()
    by_size = run_cli("metrics", name, "--by", "size", cwd=place).stdout
    assert by_size.startswith(f"bounded_slowdown (tau {tau_s:g} s)  jobs")


def test_another_bound_may_be_given(place: Path) -> None:
    result = json.loads(run_cli("metrics", "one", "--tau", "60", "--json", cwd=place).stdout)["one"]["bounded_slowdown"]
    assert (result["mean"], result["tau_s"]) == (pytest.approx(own(place, "usual")), 60.0)


def test_runs_with_different_tau_need_a_common_tau(place: Path) -> None:
    message = "pybatsched: the runs have different --tau: usual 60 s, one 1 s; give one --tau for all of them\n"
    plotted = ("plot", "cdf", "usual", "one", "--output", "x.svg")
    for args in (("metrics", "one", "--against", "usual"), ("report", "usual", "one"), plotted):
        done = run_cli(*args, cwd=place)
        assert (done.returncode, done.stderr) == (2, message), args
    assert run_cli(*plotted, "--measure", "wait_s", cwd=place).returncode == 0
    done = run_cli("metrics", "one", "--against", "usual", "--tau", "10", "--json", cwd=place)
    assert json.loads(done.stdout)["one"]["bounded_slowdown"]["tau_s"] == 10.0
    runs = [read_run(str(place / name)) for name in ("usual", "one")]
    shown = dict(provenance.rows_of(runs, 60.0))["τ of bounded slowdowns"]
    assert shown == ["60 s", "60 s\n(1 s in its own table)"]


def test_compare_skips_bounded_slowdowns_with_different_tau(place: Path) -> None:
    pair = ("compare", "one_summary.json", "usual_summary.json")
    done = run_cli(*pair, "--fail-if", "mean_wait_s > +5%", "--fail-if", "mean_bounded_slowdown > 1e9", cwd=place)
    why = "the two runs have different --tau (1 s and 60 s): their bounded slowdowns cannot be compared"
    assert (done.returncode, done.stderr) == (0, f"pybatsched {__version__}: {why}\n")
    rows = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert [rows[name].endswith("  other tau") for name in ("mean_bounded_slowdown", "tau_s")] == [True, True]
    assert rows["mean_wait_s"].endswith(" =")
    done = run_cli(*pair, "--fail-if", "mean_bounded_slowdown > +5%", cwd=place)
    assert done.returncode == 2
    assert f"--fail-if 'mean_bounded_slowdown > +5%': {why}\n" in done.stderr


def test_runs_without_a_recorded_tau_use_the_default(place: Path) -> None:
    run = read_run(str(place / "one"))
    (place / "plain_jobs.csv").write_text((place / "one_jobs.csv").read_text())
    plain = read_run(str(place / "plain"))
    assert (plain.tau_s, common_tau_s([plain]), common_tau_s([plain, run]), common_tau_s([run], 5)) == (None, 10, 1, 5)
    bad = json.loads((place / "one_summary.json").read_text())
    bad["figures"]["tau_s"] = "long"
    (place / "bad_jobs.csv").write_text((place / "one_jobs.csv").read_text())
    (place / "bad_summary.json").write_text(json.dumps(bad))
    with pytest.raises(InputError, match="bad_summary.json: tau_s is 'long'; expected a number of seconds, at least 0"):
        common_tau_s([read_run(str(place / "bad"))])
