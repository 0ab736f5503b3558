"""Two runs compared, and when the second is judged worse."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.places import ROOT
from support.process import run_cli

from pybatsched.errors import InputError
from pybatsched.metrics.compare import comparison
from pybatsched.metrics.compare.comparison import read_condition, relative_change


def summary(**figures: Any) -> dict[str, Any]:
    known = {
        "n_jobs": 10,
        "n_by_state": {"COMPLETED_SUCCESSFULLY": 10},
        "mean_wait_s": 100.0,
        "mean_bounded_slowdown": 2.0,
    }
    return {
        "format": "pybatsched-summary",
        "format_version": 1,
        "inputs": {"workloads": [{"file": "w.json", "sha256": "00"}]},
        "figures": known | figures,
        "n_unfinished": 0,
        "n_messages": 20,
        "ended_at": 500.0,
    }


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = tmp_path / "a_summary.json"
    path.write_text(json.dumps(summary()))
    return path


@pytest.mark.parametrize(
    ("text", "before", "after", "holds"),
    [
        ("m > +5%", 2.0, 2.1, False),  # just at the bound
        ("m > +5%", 2.0, 2.11, True),
        ("m >= +5%", 4.0, 4.2, True),
        ("m > +5%", 2.0, 1.0, False),
        ("m < -5%", 2.0, 1.0, True),
        ("m < -5%", 2.0, 2.0, False),
        ("m>+5 %", 100.0, 106.0, True),
        ("m > +0%", 100.0, 100.0, False),
        ("m > 0%", 100.0, 100.1, True),
        ("m > +5", 100.0, 104.0, False),
        ("m > +5", 100.0, 105.5, True),
        ("m < -1e1", 100.0, 89.0, True),
        ("m > 5", 100.0, 6.0, True),  # no sign: the value itself
        ("m <= 5", 100.0, 5.0, True),
        ("m == 0", 3.0, 0.0, True),
        ("m != 0", 3.0, 0.0, False),
        ("m > +5%", 0.0, 0.0, False),
        ("m > +5%", 0.0, 0.001, True),  # from nothing to something is more than any share
        ("m > +5%", -2.0, -1.0, True),
        ("m > .5", 1.0, 0.75, True),
    ],
)
def test_conditions(text: str, before: float, after: float, holds: bool) -> None:
    assert read_condition(text).holds(before, after) is holds


@pytest.mark.parametrize(
    "text", ["", "m", "m >", "> 5", "m > x", "m => 5", "m > 5%", "m > 5 +", "m > 5%%", "m n > 5", "m > inf"]
)
def test_invalid_conditions_are_rejected(text: str) -> None:
    with pytest.raises(InputError, match="fail_if"):
        read_condition(text)


@given(st.floats(0.001, 1e9), st.floats(0.001, 1e9), st.floats(0, 1000))
def test_a_relative_condition_compares_with_the_percentage(before: float, after: float, percent: float) -> None:
    held = read_condition(f"m > +{percent:.6f}%").holds(before, after)
    bound = before * (1 + round(percent, 6) / 100)
    if not math.isclose(after, bound, rel_tol=1e-9):
        assert held == (after > bound)


def test_relative_changes() -> None:
    assert relative_change(-4.0, -5.0) == -0.25
    assert relative_change(0.0, -1.0) == -math.inf


def compare(base: Path, after: dict[str, Any], *conditions: str) -> tuple[int, str, str]:
    path = base.with_name("b_summary.json")
    path.write_text(json.dumps(after))
    flags = [text for condition in conditions for text in ("--fail-if", condition)]
    done = run_cli("compare", str(base), str(path), *flags)
    return done.returncode, done.stdout, done.stderr


def test_the_command_prints_both_and_judges(base: Path) -> None:
    code, out, _ = compare(base, summary(mean_bounded_slowdown=2.05), "mean_bounded_slowdown > +5%")
    assert code == 0
    assert "mean_bounded_slowdown       2   2.05  +2.50%" in out
    code, out, output = compare(base, summary(mean_bounded_slowdown=3.0), "mean_bounded_slowdown > +5%", "n_killed > 0")
    assert code == 7
    assert "mean_bounded_slowdown       2      3  +50.00%" in out
    assert "mean_bounded_slowdown > +5%: mean_bounded_slowdown was 2, is 3 (+50.00%)" in output
    assert "n_killed" not in output


def test_different_inputs_are_reported(base: Path) -> None:
    after = summary() | {"inputs": {"workloads": [{"file": "w.json", "sha256": "11"}]}}
    code, _, output = compare(base, after)
    assert code == 0
    assert "the two runs have different inputs: workloads" in output
    code, _, output = compare(base, summary() | {"memory_unit": "MB"})  # a summary without a unit means KB
    assert (code, "the two runs have different inputs: memory_unit" in output) == (0, True)
    assert "different inputs" not in compare(base, summary() | {"memory_unit": "KB"})[2]
    assert "different inputs: feedback" in compare(base, summary() | {"feedback": True})[2]


@pytest.mark.parametrize(
    ("changes", "condition", "expected"),
    [
        ({"mean_wait_s": None}, "mean_wait_s > +5%", (7, "mean_wait_s has no value in")),  # no job ran: no improvement
        ({}, "slowdown > +5%",
         (2, "no metric 'slowdown' in both runs; expected one of ended_at, mean_bounded_slowdown")),
        ({}, "mean_bound_slowdown > +5%",
         (2, "in both runs; did you mean 'mean_bounded_slowdown'? Expected one of ended_at, mean_bounded_")),
    ],
)  # fmt: skip
def test_metrics_that_are_unknown_or_have_no_value(
    changes: dict[str, Any], condition: str, expected: tuple[int, str], base: Path
) -> None:
    code, _, output = compare(base, summary(**changes), condition)
    assert (code, expected[1] in output) == (expected[0], True), output


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "expected a summary in JSON"),
        ("[]", "expected a JSON object with format 'pybatsched-summary'"),
        ('{"format": "other"}', "expected a JSON object with format"),
        (json.dumps(summary() | {"format_version": 2}), "format_version is 2; expected 1"),
        (json.dumps(summary() | {"figures": []}), "expected an object 'figures'"),
        (json.dumps(summary(mean_wait_s="x")), "mean_wait_s is 'x'; expected a number"),
        (json.dumps(summary(mean_wait_s=True)), "mean_wait_s is True; expected a number"),
        ("[" * 100_000, "expected a summary in JSON"),
    ],
)
def test_files_that_are_not_summaries_are_rejected(content: str, message: str, base: Path) -> None:
    path = base.with_name("b_summary.json")
    path.write_text(content)
    with pytest.raises(InputError, match="b_summary.json") as error:
        comparison.read_summary(str(path))
    assert message in str(error.value)


def test_a_missing_file(base: Path) -> None:
    done = run_cli("compare", str(base), str(base.with_name("none.json")))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_real_summaries(tmp_path: Path) -> None:
    for policy in ("fcfs", "easy"):
        inputs = ("-p", "platforms/cluster32.xml", "-w", "examples/workload.json")
        args = (*inputs, "--policy", policy, "-e", str(tmp_path / policy))
        assert run_cli("simulate", *args, cwd=ROOT).returncode == 0
    a, b = str(tmp_path / "fcfs_summary.json"), str(tmp_path / "easy_summary.json")
    assert run_cli("compare", a, b, "--fail-if", "mean_wait_s > +0%").returncode == 0
    assert run_cli("compare", b, a, "--fail-if", "mean_wait_s > +0%").returncode == 7
    assert run_cli("compare", a, a, "--fail-if", "mean_wait_s != +0").returncode == 0
    by_prefix, by_file = run_cli("compare", "fcfs", "easy", cwd=tmp_path), run_cli("compare", a, b, cwd=tmp_path)
    assert (by_prefix.returncode, by_prefix.stderr) == (0, by_file.stderr)
    assert by_prefix.stdout == by_file.stdout.replace(f"{tmp_path}/", "")


def test_runs_are_compared_by_their_prefixes(base: Path) -> None:
    place = base.parent
    (place / "out").mkdir()
    (place / "out" / "_summary.json").write_text(base.read_text())
    (place / "kept.txt").write_text(base.read_text())
    named = base.name.removesuffix("_summary.json")
    for before, after in ((named, "out/"), (base.name, named), ("kept.txt", named)):
        assert run_cli("compare", before, after, "--fail-if", "n_jobs != +0", cwd=place).returncode == 0
    done = run_cli("compare", named, "none", cwd=place)
    message = "pybatsched: none_summary.json: cannot be read: No such file or directory\n"
    assert (done.returncode, done.stderr) == (2, message)
