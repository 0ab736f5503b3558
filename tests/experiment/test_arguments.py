"""Arguments of the functions for experiments: errors for wrong types and values, in terms of Python."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from support.process import run_cli

import pybatsched as pb
from pybatsched import InputError
from pybatsched.experiment.arguments import public

LOG = pb.generate_workload("lublin", n_jobs=8, n_procs=8, seed=1, n_users=2)
#: Values that are wrong for most arguments.
WRONG: list[Any] = [None, [], ["x"], -1, 3.5, float("nan"), "nothing", {"a": 1}, pl.DataFrame({"a": [1]}), True, b"x"]
WRONG_SEEDS: Any = "123"
WRONG_LOG: Any = LOG.jobs
#: An option of the commands outside of a whole command.
OPTION = re.compile(r"(?<![\w-])--?[a-zA-Z][a-z-]*")


@pytest.fixture(scope="module")
def runs() -> pb.Runs:
    return pb.simulate(LOG, ["fcfs", "easy"], progress=False)


def _calls(runs: pb.Runs) -> dict[str, tuple[Callable[..., Any], dict[str, Any], str]]:
    """Return functions by name, each with arguments that it needs, and the names of those to be wrong."""
    of_plot = "labels width begin end scale color tau_s"
    machine = "n_procs platform units events stop_at tau_s"
    return {
        "read_workload": (
            pb.read_workload,
            {"path": "none.swf"},
            "path name walltimes memory_unit size_in timezone partitions n_procs lenient",
        ),
        "generate_workload": (
            pb.generate_workload,
            {"model": "lublin", "n_procs": 8, "n_jobs": 5},
            "model n_procs n_jobs days seed load walltimes n_users name",
        ),
        "window": (LOG.window, {}, "begin end warm_up"),
        "head": (LOG.head, {}, "n"),
        "where": (LOG.where, {}, "condition"),
        "scale_load": (LOG.scale_load, {}, "factor"),
        "with_walltimes": (LOG.with_walltimes, {}, "rule"),
        "named": (LOG.named, {}, "name"),
        "write": (LOG.write, {}, "path"),
        "policy": (pb.policy, {"name": "easy"}, "name label order"),
        "simulate": (
            pb.simulate,
            {"log": LOG, "policy": "easy", "progress": False},
            f"log policy {machine} energy journal seeds workers client order",
        ),
        "explain": (runs[0].explain, {}, "job_id"),
        "run.report": (runs[0].report, {}, "path"),
        "run.save": (runs[0].save, {}, "prefix"),
        "gantt": (runs[0].gantt, {}, of_plot),
        "cdf": (runs.plot.cdf, {}, f"measure {of_plot}"),
        "queue": (runs.plot.queue, {}, of_plot),
        "summary": (runs.summary, {}, "by ci figures"),
        "compare": (runs.compare, {"baseline": "fcfs"}, "baseline measure"),
        "runs.where": (runs.where, {}, "policy workload seed user"),
        "runs.save": (runs.save, {}, "folder"),
        "Runs": (pb.Runs, {}, "runs"),
        "read_run": (pb.read_run, {"prefix": "none"}, "prefix label"),
        "read_campaign": (pb.read_campaign, {}, "folder"),
        "Simulation": (pb.Simulation, {"log": LOG, "policy": "easy"}, f"log policy {machine} seed features"),
        "run": (pb.Simulation(LOG, "easy").run, {}, "until"),
        "run_until": (pb.Simulation(LOG, "easy").run_until, {}, "condition"),
        "replace_policy": (pb.Simulation(LOG, "easy").replace_policy, {}, "policy"),
    }


@pytest.mark.parametrize("name", _calls(pb.simulate(LOG, ["fcfs"], progress=False)))
def test_wrong_arguments_are_input_errors(
    name: str, runs: pb.Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All other exceptions are failures of this test."""
    monkeypatch.chdir(tmp_path)
    function, needed, arguments = _calls(runs)[name]
    n_errors = 0
    for argument in arguments.split():
        for value in WRONG:
            try:
                function(**{**needed, argument: value})
            except InputError as error:
                n_errors += 1
                assert not OPTION.search(re.sub("`[^`]*`", "", str(error))), error
    assert n_errors >= 3 * len(arguments.split())


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda _runs: pb.simulate(LOG, "easy", seeds=WRONG_SEEDS), "seeds: expected a list of whole numbers or None"),
        (lambda _runs: pb.simulate(LOG, "easy", seeds=[]), "seeds: expected at least one, found none"),
        (lambda _runs: pb.simulate(WRONG_LOG, "easy"), "log: expected a Log, a text, .*, found a DataFrame"),
        (lambda _runs: pb.simulate(LOG, "easy", units="rack"), "units=: expected one of core, node, pset, found"),
        (lambda _runs: pb.simulate(LOG, "easy", clock="batsim"), "clock=: expected one of auto, exact, simgrid, found"),
        (lambda _runs: LOG.window(9, 3), "end=3: expected a time after begin=9"),
        (lambda _runs: LOG.window(window_clock="x"), "window_clock=: expected one of first, log, found 'x'"),
        (lambda _runs: LOG.where(pl.col("size") > 3), "expected one over the columns id, submitted_at"),
        (lambda _runs: LOG.where(pl.col("n_procs")), "expected True or False for each job, found Int64"),
        (lambda _runs: LOG.where(pl.lit(True)), "expected True or False for each job"),
        (lambda runs: runs.summary(ci=95), "confidence level 95: expected a number between 0 and 1, such as 0.95"),
        (lambda runs: runs.summary(by="nothing"), "unknown column 'nothing' to group by; expected some of workload"),
        (lambda runs: runs.where(policy="eazy"), "policy: expected one of 'fcfs', 'easy', found 'eazy'"),
        (lambda runs: runs["easy"], r"expected a number; use runs.where\(policy='easy'\)"),
        (lambda runs: runs[:0].figures, "expected at least one run, found none"),
        (lambda runs: runs.plot.cdf(labels={"nope": "x"}), "labels: 'nope': expected one of fcfs, easy"),
        (lambda runs: runs.plot.cdf(width=900), "width=900: expected column, text or"),
        (lambda runs: runs.plot.queue(begin="9w"), "use another begin or end"),
        (lambda runs: runs[0].gantt(begin="2h", end="1h"), "gantt: expected an end after 7200 s, found 3600 s"),
        (lambda runs: runs.plot.cdf("wait_s", begin="9w"), "^expected at least one job submitted from 63 d"),
        (lambda runs: runs[0].explain("nope"), "^unknown job 'nope'; the journal has"),
    ],
)
def test_errors_name_what_was_found_and_expected(call: Any, expected: str, runs: pb.Runs) -> None:
    with pytest.raises(InputError, match=expected):
        call(runs)


def test_runs_with_different_bounds_need_one(runs: pb.Runs) -> None:
    both = pb.Runs([runs[0], pb.simulate(LOG, "easy", tau_s=5, progress=False)])
    with pytest.raises(InputError, match="the runs have different tau_s=: .*; give one tau_s= for all of them"):
        both.plot.cdf()
    assert both.plot.cdf(tau_s=10).axes


@pytest.mark.parametrize(
    ("unknown", "known"),
    [
        ("walltime", "walltimes=…"),
        ("partition", "partitions=…"),
        ("procs", "n_procs=…"),
        ("from", "begin=…"),
        ("until", "end=…"),
        ("with_waits", "feedback=…"),
        ("load", "simulate(…, load=…)"),
    ],
)
def test_names_that_are_like_a_setting_are_explained(unknown: str, known: str) -> None:
    options: dict[str, Any] = {unknown: 1}
    with pytest.raises(InputError) as caught:
        pb.read_workload("w.json", **options)
    assert str(caught.value) == f"read_workload: unknown keyword {unknown!r}; did you mean {known}?"


def test_other_wrong_names_are_type_errors() -> None:
    unknown: dict[str, Any] = {"colour": "red"}
    with pytest.raises(TypeError, match=r"read_workload\(\) got an unexpected keyword argument 'colour'"):
        pb.read_workload("w.json", **unknown)


def test_settings_have_types_in_signatures() -> None:
    for function in (pb.simulate, pb.Simulation, pb.read_workload):
        parameters = inspect.signature(function).parameters
        assert all(one.annotation is not one.empty for one in parameters.values()), function
        assert parameters["n_procs"].annotation == "int | None"
    assert inspect.signature(pb.simulate).parameters["stop_at"].annotation == "str | float | None"
    assert inspect.signature(pb.simulate).parameters["failures"].annotation == "Mapping[str, Any] | FailureModel | None"


def test_numbers_of_numpy_become_plain() -> None:
    count: Any = np.int64(4)
    run = pb.simulate(LOG.head(count), "easy", n_procs=count * 2, seeds=None, progress=False)
    assert type(run.about["n_procs"]) is int
    assert run.about["n_procs"] == 8


def test_commands_name_options_and_python_names_arguments(tmp_path: Path) -> None:
    LOG.write(tmp_path / "w.json")
    args = ("simulate", "-p", "rackham", "--units", "pset", "-w", str(tmp_path / "w.json"), "--policy", "easy")
    by_command = run_cli(*args, "-e", str(tmp_path / "out"))
    assert "--units pset: expected a platform with a pset per host" in by_command.stderr
    with pytest.raises(InputError, match="^units='pset': expected a platform with a pset per host"):
        pb.simulate(LOG, "easy", platform="rackham", units="pset")


def test_a_warning_shows_the_line_of_the_user() -> None:
    with pytest.warns(UserWarning, match="reject") as found:
        pb.simulate(LOG, "easy", n_procs=1, progress=False)
    assert {Path(one.filename).name for one in found} == {Path(__file__).name}
    assert not any(OPTION.search(re.sub("`[^`]*`", "", str(one.message))) for one in found)


def test_public_functions_keep_their_names() -> None:
    def scaled(factor: float) -> float:
        """Return twice the factor."""
        return 2 * factor

    assert public(scaled).__doc__ == "Return twice the factor."
    assert public(scaled)(2) == 4
