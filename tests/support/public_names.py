"""The public names of this version (docs/stability.md). `make api` writes them to tests/public_names.txt.

A line is a place and its names, as `simulate: --allow-empty --backfill …`. `make api` adds names and removes none:
removing a public name is a change of that file by hand.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

import pybatsched
from pybatsched import cli, errors, gym, testing
from pybatsched.campaign.spec import ChartSpec, PlatformTable, PolicyTable, Spec, TuneSpec
from pybatsched.campaign.workloads import WorkloadTable
from pybatsched.metrics.figure_names import AGAINST, MEASURES, OF_LOGS, OF_RUNS, STATISTICS
from pybatsched.policies import registry
from pybatsched.session import journal
from support.places import ROOT

FILE = ROOT / "tests" / "public_names.txt"
_CAMPAIGN = """
name = "c"
keep = "jobs"
workload = [{ name = "w", generate = { model = "lublin", procs = 8, jobs = 5 } }]
platform = [{ name = "own", of_workload = true }]
policy = [{ name = "easy" }]
"""


def current() -> dict[str, set[str]]:
    """Return the public names of the code, by their places."""
    found = {
        **dict(_of_module(pybatsched, pybatsched.__all__)),
        **dict(_of_module(testing, testing.__all__)),
        **dict(_of_module(gym, gym.__all__)),
        **dict(_of_parser(cli.build_parser(), "pybatsched")),
        **{f"policy {name}": {*registry.find(name).cls.Options.model_fields} for name in registry.available()},
        "measures": {*MEASURES, *STATISTICS},
        "figures": {*OF_LOGS, *OF_RUNS, *AGAINST},
        "exit codes": {f"{one.__name__}={one.exit_code}" for one in vars(errors).values() if hasattr(one, "exit_code")},
        "versions": {f"journal={journal.VERSION}", f"API_VERSION={pybatsched.API_VERSION}"},
        **{f"campaign file: {one.__name__}": _keys(one) for one in _TABLES},
        **dict(_of_files()),
    }
    return {place: names for place, names in found.items() if names}


def listed() -> dict[str, set[str]]:
    """Return the names of the file, by their places."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    return {place: {*names.split()} for place, _, names in (line.rpartition(": ") for line in lines)}


def write() -> None:
    """Add the names of the code to the file."""
    found, before = current(), listed()
    both = {place: found.get(place, set()) | before.get(place, set()) for place in sorted({*found, *before})}
    FILE.write_text("".join(f"{place}: {' '.join(sorted(names))}\n" for place, names in both.items()), encoding="utf-8")


_TABLES = (ChartSpec, PlatformTable, PolicyTable, Spec, TuneSpec, WorkloadTable)


def _keys(table: Any) -> set[str]:
    settings = getattr(table, "SETTINGS", {})
    return {*table.model_fields, *(key for keys in settings.values() for key in keys)} - {*settings}


def _of_module(module: Any, names: list[str]) -> Iterator[tuple[str, set[str]]]:
    yield module.__name__, {*names}
    for name in names:
        value = getattr(module, name)
        if inspect.isclass(value):
            ours = [one for one in value.__mro__ if one.__module__.startswith("pybatsched")]
            members = {key for one in ours for key in (*vars(one), *inspect.get_annotations(one), *_attributes(one))}
            yield f"{module.__name__}.{name}", {key for key in members if not _is_internal(value, key)}
        if inspect.isroutine(value) or name in {"Simulation", "SchedulingEnv"}:
            yield f"{module.__name__}.{name}()", {*inspect.signature(value).parameters}


def _attributes(cls: type) -> list[str]:
    """Return the attributes that `__init__` sets and a comment `#:` describes."""
    return re.findall(r"#: .*\n +self\.(\w+)", inspect.getsource(cls))


def _is_internal(cls: type, name: str) -> bool:
    for_engine = "(for the engine)" in (inspect.getdoc(getattr(cls, name, None)) or "")
    return for_engine or name.startswith(("_", "v4_", "v5_", "model_config"))


def _of_parser(parser: argparse.ArgumentParser, place: str) -> Iterator[tuple[str, set[str]]]:
    yield place, {name for one in parser._actions for name in one.option_strings}
    for one in parser._actions:
        if isinstance(one, argparse._SubParsersAction):
            yield f"{place} COMMAND", {*one.choices}
            for name, sub in one.choices.items():
                yield from _of_parser(sub, f"{place} {name}")


def _of_files() -> Iterator[tuple[str, set[str]]]:
    """Yield the files of a run and of a campaign, with their columns or keys."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        place = Path(folder)
        (place / "c.toml").write_text(_CAMPAIGN, encoding="utf-8")
        workload = str(ROOT / "examples" / "workload.json")
        assert cli.main(["simulate", "--procs", "32", "-w", workload, "--policy", "easy", "-qe", f"{place}/run_"]) == 0
        assert cli.main(["campaign", "run", f"{place}/c.toml", "--output", f"{place}/campaign"]) == 0
        for path in sorted(place.rglob("*")):
            name = str(path.relative_to(place)).replace("run__", "PREFIX_")
            if path.suffix == ".csv":
                yield name, {*path.read_text(encoding="utf-8").splitlines()[0].split(",")}
            elif path.suffix == ".parquet" and path.parent.name == "campaign":
                yield name, {*pl.read_parquet_schema(path)}
            elif name.endswith(("_summary.json", "_state.json")):
                yield name, {*json.loads(path.read_bytes())}
