"""Names of settings in errors, notes and reports are spelled before they are printed or stored."""

from __future__ import annotations

import gzip
import json
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from support.process import run_cli

import pybatsched
from pybatsched.errors import InputError, PolicyError, PybatschedError
from pybatsched.experiment.arguments import public

#: A log without a header: a job without a run time, one that ran longer than requested, and two of one number.
LOG = (
    "1 0 -1 10 4 -1 -1 4 5 -1 1 1 1 -1 1 1 -1 -1\n"
    "2 1 -1 0 4 -1 -1 2 20 -1 1 1 1 -1 1 2 -1 -1\n"
    "2 2 -1 10 4 -1 -1 4 20 -1 1 1 1 -1 1 2 -1 -1\n"
    "4 3 -1 10 3 -1 -1 3 20 -1 1 1 1 -1 1 2 -1 -1\n"
)
SLURM = (
    "JobID|Submit|Start|End|NCPUS|State\n1|2024-01-01T00:00:00|2024-01-01T00:00:01|2024-01-01T00:01:00|4|COMPLETED\n"
)
#: A policy that registers a job without the setting that allows it.
REGISTERS = """
from pybatsched import Policy, RegisterProfile

class Registers(Policy):
    def decide(self, now):
        return [RegisterProfile("w0", "p", {"type": "delay", "delay": 1})]
"""
CAMPAIGN = """
name = "c"
[[policy]]
name = "easy"
[[platform]]
name = "m"
procs = 4
[[workload]]
name = "w"
file = "log.swf"
"""
COMMANDS = {
    "lint log.swf": ("workload", "lint", "log.swf"),
    "lint as JSON": ("workload", "lint", "log.swf", "--json"),
    "lint slurm.txt": ("workload", "lint", "slurm.txt"),
    "convert": ("workload", "convert", "log.swf", "w.json", "--lint"),
    "convert partitions": ("workload", "convert", "log.swf", "p.json.gz", "--partition", "1"),
    "convert Slurm": ("workload", "convert", "slurm.txt", "s.json"),
    "convert to a format": ("workload", "convert", "slurm.txt", "f.json", "--size-in", "gpus"),
    "merge": ("workload", "merge", "a=log.swf", "b=log.swf", "--output", "m.json"),
    "resample": ("workload", "resample", "log.swf", "--output", "r.json"),
    "simulate": ("simulate", "-w", "log.swf", "--policy", "easy", "-e", "out/a", "--journal", "a.pbj"),
    "without jobs": ("simulate", "-w", "log.swf", "--policy", "easy", "-e", "out/b", "--from", "9d"),
    "two loads": ("simulate", "-w", "log.swf", "--policy", "easy", "--load", "1", "--scale-load", "2"),
    "a refused policy": ("simulate", "-w", "log.swf", "--policy", "own.py:Registers", "-q", "--journal", "c.pbj"),
    "replay": ("replay", "c.pbj", "--trust"),
    "replay without trust": ("replay", "c.pbj"),
    "explain": ("explain", "c.pbj", "w0!2", "--trust"),
    "no journal": ("replay", "log.swf"),
    "compare": ("compare", "out/a", "out/a", "--fail-if", "m > x"),
    "metrics": ("metrics", "out/a", "--by", "colour"),
    "metrics of another machine": ("metrics", "out/a", "--procs", "3"),
    "report": ("report", "out/a", "--output", "page.html", "--journal", "c.pbj"),
    "report with labels": ("report", "out/a", "--output", "page.html", "--label", "a", "--label", "b"),
    "platform": ("platform", "show", "curie"),
    "policies": ("policies", "easy"),
    "campaign": ("campaign", "run", "c.toml", "--output", "campaign", "--workers", "1"),
    "an invalid campaign": ("campaign", "run", "bad.toml", "--output", "bad"),
}  # fmt: skip


def is_spelled(content: bytes) -> bool:
    """Return whether no control character of a setting is left, neither in UTF-8 nor as an escape of JSON."""
    return not any(sign in content.lower() for c in "\ue000\ue001\ue002" for sign in (c.encode(), rb"\u%04x" % ord(c)))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "log.swf").write_text(LOG)
    (tmp_path / "slurm.txt").write_text(SLURM)
    (tmp_path / "own.py").write_text(REGISTERS)
    (tmp_path / "c.toml").write_text(CAMPAIGN)
    (tmp_path / "bad.toml").write_text(f"{CAMPAIGN}load = 1\nscale_load = 2\n")
    return tmp_path


def test_no_command_prints_or_writes_a_setting_that_is_not_spelled(place: Path) -> None:
    printed = ""
    for what, command in COMMANDS.items():
        done = run_cli(*command, cwd=place)
        assert "this is a bug" not in done.stderr, what
        assert is_spelled((done.stdout + done.stderr).encode()), what
        printed += done.stdout + done.stderr
    for option in ("--procs", "--min-runtime", "--partition", "--walltimes requested-strict", "--timezone",
                   "--enable-dynamic-jobs", "--load", "--by colour", "--label", "--trust", "--journal"):  # fmt: skip
        assert option in printed, option
    files = [path for path in place.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {".json", ".gz", ".pbj", ".csv"}
    for path in files:
        content = path.read_bytes()
        assert is_spelled(gzip.decompress(content) if path.suffix == ".gz" else content), path


def test_stored_reports_name_settings_as_run_specs_do(place: Path) -> None:
    run_cli(*COMMANDS["convert Slurm"], cwd=place)
    content = json.loads((place / "s.json").read_text())
    remark = "estimated as the most cores in use at one time, 4 (or n_procs)"
    assert sum(remark in rule for rule in content["report"]["rules"]) == 1
    assert remark in content["estimated_machine"]


@pytest.mark.parametrize(
    "call",
    [
        lambda log, _: log.workload,
        lambda log, _: pybatsched.simulate(log, "easy", load=1.0, scale_load=2.0),
        lambda log, _: pybatsched.simulate(log, "easy", units="node"),
        lambda log, folder: pybatsched.simulate(log, f"{folder}/own.py:Registers"),
        lambda log, _: pybatsched.simulate(log, "easy", clock="nothing"),
    ],
)
def test_no_error_or_warning_in_python_has_a_setting_that_is_not_spelled(
    place: Path, call: Callable[[pybatsched.Log, Path], object]
) -> None:
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            log = pybatsched.read_workload(str(place / "log.swf"))
            texts += [text for row in log.findings.rows() for text in row if isinstance(text, str)] + list(log.dropped)
            call(log, place)
        except PybatschedError as error:
            texts += [str(error), f"{error}", *map(str, error.args)]
    texts += [str(one.message) for one in caught]
    assert texts
    assert is_spelled("\n".join(texts).encode()), texts


def test_each_kind_of_error_is_spelled_in_python() -> None:
    errors = [InputError(field="stop_at", expected="0 or more", found=-1)]
    errors += [PolicyError(errors[0].whole(), policy="p", rule="r")]  # type: ignore[list-item]

    @public
    def fail(error: PybatschedError) -> None:
        raise error

    for error in errors:
        with pytest.raises(PybatschedError, match="stop_at=: expected 0 or more") as raised:
            fail(error)
        assert is_spelled(f"{raised.value}".encode())
