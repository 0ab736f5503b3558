"""Mutated files, for every reader that there is, as the commands call them.

A case is the name of a reading and the content of a file. A command is read by its own parser and run in this process;
every fortieth case goes through `pybatsched.cli.main` as a whole, and what counts there is the exit code.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gzip
import io
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from support.process import run_cli

from pybatsched import cli
from reliability.cases import Dice
from reliability.fuzz import file_seeds
from reliability.fuzz.mutations import BYTES, JSON, TEXT, Mutator, mutated
from reliability.fuzz.targets import NotDocumentedError, Target, scratch

_DOCUMENTED: Final = frozenset({0, 2, 3, 5, 7})
_WHOLE: Final = b"main "  # before the name of a reading that goes through all of `cli.main`

#: Something that reads a file: arguments of a command, or a function of the path.
Reading = Sequence[str] | Callable[[Path], object]


@functools.cache
def _parser(command: str) -> argparse.ArgumentParser:
    return cli.build_parser([command])


def command(args: Sequence[str]) -> None:
    """Run a command to its end, without converting errors to exit codes."""
    try:
        options = _parser(args[0]).parse_args(args)
    except SystemExit as stop:
        raise NotDocumentedError(f"{args}: the command line was refused") from stop
    options.for_batsim = []
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        options.run(options)


def _files(
    name: str,
    seeds: Callable[[], Sequence[bytes]],
    readings: dict[str, Reading],
    mutators: Sequence[Mutator],
    *,
    file: str = "",
    beside: Callable[[Path], None] | None = None,
    packs: bool = False,
    one: Callable[[Dice, bytes, bytes], bytes] | None = None,
) -> Target:
    """Describe a kind of file by samples, its readers (FILE is its name), and how it is mutated."""
    known = functools.cache(seeds)
    names = [text.encode() for text in readings]

    @functools.cache
    def path() -> Path:
        folder = scratch() / name
        folder.mkdir()
        if beside is not None:
            beside(folder)
        return folder / (file or name)

    def pieces(dice: Dice) -> tuple[Sequence[bytes], Iterator[bytes]]:
        samples = known()
        raw, other = dice.choice(samples), dice.choice(samples)
        reading = dice.choice(names)
        if dice.part() < 0.025 and not callable(readings[reading.decode()]):
            reading = _WHOLE + reading
        content = one(dice, raw, other) if one is not None else mutated(dice, raw, other, mutators)
        if packs and dice.part() < 0.1:
            content = gzip.compress(content, 1, mtime=0)
            if dice.part() < 0.7:
                content = mutated(dice, content, raw, mutators[:7])
        return (reading,), iter([content])

    def feed(given: Iterable[bytes]) -> None:
        coming = iter(given)
        reading, content = next(coming), next(coming)
        reader = readings[reading.removeprefix(_WHOLE).decode()]
        shutil.rmtree(scratch() / "out", ignore_errors=True)  # of the last case
        path().write_bytes(content)
        if callable(reader):
            reader(path())
            return
        args = [
            arg.replace("FILE", str(path())).replace("HERE", f"{scratch()}/{name}").replace("OUT", f"{scratch()}/out")
            for arg in reader
        ]
        if not reading.startswith(_WHOLE):
            command(args)
            return
        done = run_cli(*args)
        if done.returncode not in _DOCUMENTED or "Traceback" in done.stderr:
            raise NotDocumentedError(f"exit code {done.returncode}: {done.stderr[-2000:]}")

    return Target(name, pieces, feed)


_WORKLOADS: Final[dict[str, Reading]] = {
    "lint": ("workload", "lint", "FILE"),
    "lint-json": ("workload", "lint", "FILE", "--procs", "8", "--json"),
    "stats": ("workload", "stats", "FILE"),
    "stats-json": ("workload", "stats", "FILE", "--json"),
    "convert": ("workload", "convert", "FILE", "OUT/w.json"),
    "exact": ("workload", "convert", "FILE", "OUT/w.json", "--walltimes", "exact", "--for", "batsim5"),
    "deadlines": (
        *("workload", "inject", "FILE", "deadlines", "--every", "3", "--least", "24h"),
        *("--output", "OUT/w.json"),
    ),
}
_LOGS: Final[dict[str, Reading]] = {
    **_WORKLOADS,
    "lenient": ("workload", "convert", "FILE", "OUT/w.json", "--lenient", "--walltimes", "factor:2"),
    "simulate": ("simulate", "--procs", "8", "-w", "FILE", "--policy", "easy", "-e", "OUT/run", "--quiet"),
}
_SLURM: Final[dict[str, Reading]] = {
    **_LOGS,
    "nodes": ("workload", "convert", "FILE", "OUT/w.json", "--lenient", "--size-in", "nodes", "--duplicates", "error"),
    "gpus": ("workload", "convert", "FILE", "OUT/w.json", "--size-in", "gpus", "--timezone", "Europe/Paris"),
}
_TABLES: Final[dict[str, Reading]] = {
    **_SLURM,
    "describe": ("workload", "describe-table", "FILE"),
    "mapped": ("workload", "convert", "FILE", "OUT/w.json", "--mapping", "HERE/mapping.toml", "--lenient"),
    "mapped-lint": ("workload", "lint", "FILE", "--mapping", "HERE/mapping.toml"),
    "pm100": ("workload", "lint", "FILE", "--format", "pm100"),
    "philly": ("workload", "stats", "FILE", "--format", "philly"),
}
#: Files that were not written, or not copied, to their end. Other damage can make polars abort the process.
_HALVES: Final = BYTES[1:3]
_MAPPINGS: Final[dict[str, Reading]] = {
    "lint": ("workload", "lint", "HERE/jobs.csv", "--mapping", "FILE"),
    "convert": ("workload", "convert", "HERE/jobs.csv", "OUT/w.json", "--mapping", "FILE", "--lenient"),
}
_SIMULATED: Final[dict[str, Reading]] = {
    "easy": ("simulate", "--procs", "8", "-w", "FILE", "--policy", "easy", "-e", "OUT/run", "--quiet"),
    "ujfb": ("simulate", "--procs", "8", "-w", "FILE", "--policy", "ujfb", "-e", "OUT/run", "--quiet"),
}
_METRICS: Final[dict[str, Reading]] = {
    "metrics": ("metrics", "HERE/run"),
    "metrics-json": ("metrics", "HERE/run", "--json", "--partial"),
    "by": ("metrics", "HERE/run", "--by", "user", "--measure", "wait_s"),
    "against": ("metrics", "HERE/run", "--against", "HERE/good"),
    "columns": lambda path: file_seeds.by_columns(f"{path.parent}/run"),
}


def targets() -> dict[str, tuple[Target, float]]:
    """Return the targets by name, each with its share of all mutations."""
    seeds = file_seeds
    made: list[tuple[Target, float]] = [
        (_files("swf", seeds.swf, _LOGS, TEXT, packs=True), 12),
        (_files("slurm", seeds.slurm, _SLURM, TEXT, packs=True), 10),
        (_files("tables", seeds.tables, _TABLES, TEXT, packs=True, beside=seeds.mapping_beside), 10),
        (_files("json-tables", seeds.json_tables, _TABLES, JSON, packs=True, beside=seeds.mapping_beside), 4),
        (_files("parquet-tables", seeds.parquet_tables, _TABLES, _HALVES, beside=seeds.mapping_beside), 6),
        (_files("mappings", seeds.mappings, _MAPPINGS, TEXT, beside=seeds.table_beside), 6),
        (_files("rackham", seeds.rackham, _LOGS, TEXT, packs=True), 10),
        (_files("workload4", seeds.workload4, _WORKLOADS, JSON, packs=True), 10),
        (_files("workload5", seeds.workload5, _WORKLOADS, JSON, packs=True), 10),
        (_files("simulated", seeds.simulated, _SIMULATED, JSON), 4),
        (
            _files(
                "platform",
                seeds.platform,
                {
                    "show": ("platform", "show", "FILE"),
                    "check": ("platform", "check", "FILE"),
                    "check5": ("platform", "check", "--for", "batsim5", "FILE"),
                    "energy": ("platform", "check", "-E", "FILE"),
                },
                TEXT,
            ),
            10,
        ),
        (
            _files(
                "events",
                seeds.events,
                {
                    "events5": ("workload", "events", "FILE", "--for", "batsim5", "--output", "OUT/e.txt"),
                    "events4": ("workload", "events", "FILE", "--for", "batsim4", "--output", "OUT/e.txt"),
                    "read": seeds.read_events,
                },
                (*JSON, *TEXT[-4:]),
            ),
            8,
        ),
        (
            _files(
                "journal",
                seeds.journals,
                {
                    "replay": ("replay", "FILE"),
                    "explain": ("explain", "FILE", "w0!01"),
                    "earlier": ("explain", "FILE", "w0!03", "--why-not-earlier"),
                    "other": ("replay", "FILE", "--policy", "fcfs"),
                    "stories": seeds.read_histories,
                },
                (),
                one=seeds.mutated_journal,
            ),
            10,
        ),
        (_files("campaign", seeds.campaigns, {"spec": seeds.read_campaign}, TEXT), 8),
        (_files("config", seeds.configs, {"plan": seeds.read_config}, TEXT), 4),
        (
            _files(
                "summary",
                lambda: [seeds.run_file("_summary.json")],
                {
                    "before": ("compare", "FILE", "HERE/good_summary.json", "--fail-if", "mean_wait_s > +5%"),
                    "after": ("compare", "HERE/good_summary.json", "FILE", "--fail-if", "n_jobs != 8"),
                    **_METRICS,
                },
                JSON,
                file="run_summary.json",
                beside=seeds.two_runs,
            ),
            8,
        ),
    ]
    state: dict[str, Reading] = {
        **_METRICS,
        "after": ("compare", "HERE/good_summary.json", "HERE/run_summary.json", "--partial"),
    }
    made += [
        (_file_of_run("_jobs.csv", _METRICS, TEXT), 8),
        (_file_of_run("_schedule.csv", _METRICS, TEXT), 3),
        (_file_of_run("_consumed_energy.csv", _METRICS, TEXT), 1),
        (_file_of_run("_state.json", state, JSON), 3),
    ]
    campaign: dict[str, Reading] = {
        "status": ("campaign", "status", "HERE"),
        "table": ("campaign", "table", "HERE"),
        "by": ("campaign", "table", "HERE", "--by", "workload,policy,options", "--figures", "all"),
    }
    folder = seeds.campaign_folder
    made += [
        (_files("manifest", seeds.manifests, campaign, JSON, file="manifest.json", beside=folder), 3),
        (_files("cell", seeds.cells, campaign, JSON, file=seeds.CELL, beside=folder), 3),
    ]
    return {target.name: (target, share) for target, share in made}


def _file_of_run(suffix: str, readings: dict[str, Reading], mutators: Sequence[Mutator]) -> Target:
    """Describe a file of a run, which has all others beside it."""

    def samples() -> list[bytes]:
        return [file_seeds.run_file(suffix)]

    name = f"run{suffix}"
    return _files(name, samples, readings, mutators, file=name, beside=file_seeds.two_runs)
