"""Read a run from its files: those of the embedded simulator or of real Batsim."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pybatsched.core.events import REJECTED
from pybatsched.core.intervals import IntervalSet
from pybatsched.errors import BrokenPromiseError, InputError, quantity, setting
from pybatsched.metrics import energy, jobs_csv, truncated, workload_fields as fields
from pybatsched.metrics.energy import Energy
from pybatsched.metrics.node_use import NodeUse, nodes_of_summary
from pybatsched.metrics.outcomes import JobRecord, joined
from pybatsched.metrics.series import Steps
from pybatsched.metrics.slowdown import DEFAULT_TAU_S
from pybatsched.metrics.summary import NODES
from pybatsched.results.run_state import (
    JOBS,
    MARK,
    SUFFIXES,
    SUMMARY,
    WHOLE,
    WORKLOAD,
    Found,
    RunState,
    State,
    read_stable,
)
from pybatsched.workload import Workload, load
from pybatsched.workload.formats.conversion import DEFAULT_MEMORY_UNIT, MEMORY_UNITS, MemoryUnit
from pybatsched.workload.formats.files import digest_of
from pybatsched.workload.prepare import scale_load
from pybatsched.workload.resample.feedback import with_feedback
from pybatsched.workload.selection import Selection
from pybatsched.workload.start_rules import without_rules
from pybatsched.workload.walltimes import Walltimes

if TYPE_CHECKING:
    from pybatsched.metrics.job_results import JobResults

#: Members of a summary with the options that inputs were read with, and their defaults for older summaries.
READ_OPTIONS: Final = {
    "walltimes": None,
    "memory_unit": DEFAULT_MEMORY_UNIT,
    "log_format": None,
    "mapping": None,
    "size_in": None,
    "timezone": None,
    "selection": None,
    "lenient": False,
    "units": None,
    "scale_load": None,
    "size": "allocated",
    "run_times": "logged",
    "min_runtime": None,
    "unknown_runtime": None,
    "running_at_start": False,
    "ignore_eligibility": False,
    "feedback": False,
}


@dataclass(frozen=True)
class SavedRun:
    """A run: its jobs, its processors (0 if unknown), and its summary, if there is one.

    `run_state` says whether the run is complete. If not, `summary` is the content of its state file. `energy` is set
    for complete runs that simulated it. Figures come from the table of `jobs`, which needs polars.

    `name` is the name to show instead of the prefix, `policy` that of its policy. `journal` is the path of the
    journal, if known; the file may be gone.
    """

    prefix: str
    records: Sequence[JobRecord]
    n_procs: int
    summary: Mapping[str, Any]
    run_state: RunState = WHOLE
    energy: Energy | None = None
    name: str = ""
    journal: str = ""
    policy: str = ""

    @property
    def label(self) -> str:
        """A short name: the user's name for the run, or the last part of its prefix."""
        return self.name or Path(self.prefix).name or self.prefix

    @cached_property
    def jobs(self) -> JobResults:
        """The table of all jobs."""
        from pybatsched.metrics.job_results import JobResults  # noqa: PLC0415  polars is slow to import

        where = f"{self.prefix}{SUMMARY}"
        return JobResults.of(self.records, NodeUse.of_summary(where, self.summary, self.records, self.cut))

    @property
    def evaluated(self) -> JobResults:
        """The jobs in figures of jobs: all, or those with ``evaluated: true`` if some have the field."""
        return self.jobs.evaluated

    @cached_property
    def usage(self) -> Steps:
        """The processors that jobs hold over time."""
        return self.jobs.procs_in_use(self.cut)

    @cached_property
    def queue_length(self) -> Steps:
        """The number of waiting jobs over time."""
        return self.jobs.queue_length(self.cut)

    @cached_property
    def cut(self) -> truncated.Truncation | None:
        """The truncation of the run (``--stop-at``); None if it was not truncated. Raises InputError."""
        return truncated.of_summary(f"{self.prefix}{SUMMARY}", self.summary)

    @property
    def span(self) -> tuple[float, float]:
        """The first submission, and the last end or the truncation; (0, 0) if no job ran."""
        return self.jobs.span_until(self.cut)

    @cached_property
    def clusters(self) -> Mapping[str, Sequence[tuple[int, int]]]:
        """The processors of each cluster, as half-open intervals; empty for one cluster. Raises InputError."""
        clusters = self.summary.get("clusters") or {}
        try:
            return {str(name): tuple(IntervalSet.parse(procs).intervals()) for name, procs in clusters.items()}
        except (ValueError, AttributeError, TypeError):
            expected = 'processors by name, as {"ctc": "0-429"}'
            raise InputError(
                f"{self.prefix}_summary.json: clusters: expected {expected}, found {clusters!r:.80}"
            ) from None

    @cached_property
    def procs_by_node(self) -> Mapping[str, Sequence[tuple[int, int]]]:
        """The processors of each node, as half-open intervals; empty unless nodes of several processors are counted."""
        nodes = nodes_of_summary(f"{self.prefix}{SUMMARY}", self.summary)
        if nodes is None or all(node.n_cores == 1 for node in nodes.nodes):
            return {}
        return {node.name: tuple(node.procs.intervals()) for node in nodes.nodes}

    @property
    def tau_s(self) -> float | None:
        """The bound of bounded slowdowns in the run's summary; None if unknown. Raises InputError."""
        return tau_of(f"{self.prefix}{SUMMARY}", self.summary)

    @property
    def workload_files(self) -> list[str]:
        """The workload files that the summary names. They may be changed or missing."""
        return [str(file.get("file")) for file in _named_workloads(self.summary) if isinstance(file, dict)]

    @property
    def n_left_out(self) -> int:
        """The number of jobs that are not evaluated: figures of jobs leave them out."""
        return len(self.records) - len(self.evaluated)

    @property
    def left_out_text(self) -> str:
        """A sentence with the number of jobs that are left out; empty if there are none."""
        if not self.n_left_out:
            return ""
        n, all_jobs = self.n_left_out, quantity(len(self.records), "job")
        are = "is" if n == 1 else "are"
        if not len(self.evaluated):
            what = "the only job" if n == 1 else f"all {all_jobs}"
            return f"{what} {are} left out of figures of jobs: none has evaluated: true"
        return f"{n:,} of {all_jobs} {are} left out of figures of jobs: only those with evaluated: true count"

    def utilisation(self) -> float | None:
        """Return the share of all processors' time that jobs held, as `JobResults.utilisation` computes it."""
        return self.jobs.utilisation(self.n_procs or 0, self.cut)


def tau_of(where: str, summary: Mapping[str, Any]) -> float | None:
    """Read the bound of bounded slowdowns in a summary, or in the state file of an unfinished run."""
    figures = summary.get("figures")
    tau_s = figures.get("tau_s") if isinstance(figures, dict) else summary.get("tau_s")
    if tau_s is None:
        return None
    if not isinstance(tau_s, int | float) or isinstance(tau_s, bool) or not 0 <= tau_s < math.inf:
        raise InputError(f"{where}: tau_s is {tau_s!r:.40}; expected a number of seconds, at least 0")
    return float(tau_s)


def common_tau_s(runs: Sequence[SavedRun], given: float | None = None) -> float:
    """Return one bound for several runs: the given one, else their own, else the default. Raises InputError."""
    if given is not None:
        return given
    known = {run.prefix: run.tau_s for run in runs if run.tau_s is not None}
    if len(set(known.values())) > 1:
        each = ", ".join(f"{prefix} {tau_s:g} s" for prefix, tau_s in known.items())
        raise InputError(
            f"the runs have different {setting('tau_s')}: {each}; give one {setting('tau_s')} for all of them"
        )
    return next(iter(known.values()), DEFAULT_TAU_S)


def read_run(
    prefix: str, workloads: Sequence[str] = (), n_procs: int | None = None, *, partial: bool = False
) -> SavedRun:
    """Read the last complete run, or with `partial` any. Raises BrokenPromiseError if there is none, and InputError."""
    run = read_latest(prefix, workloads, n_procs, newest=partial)
    if run.run_state.mark is not None and not partial:
        raise BrokenPromiseError(f"{prefix}: {run.run_state.notice}; expected a finished run, or partial=True")
    return run


def read_latest(
    prefix: str,
    workloads: Sequence[str] = (),
    n_procs: int | None = None,
    *,
    newest: bool = False,
    all_fields: bool = True,
    own_fields: Mapping[str, Mapping[str, Any]] | None = None,
) -> SavedRun:
    """Read ``PREFIX_jobs.csv``, and ``PREFIX_summary.json`` or ``PREFIX_schedule.csv`` if they exist. O(jobs).

    If there is no complete run, or with `newest`, it reads a run that is still running or incomplete; `run_state` says
    which. `n_procs` is the machine's size if no file contains it. Fields of jobs (user, deadline, …) come from
    `workloads`, in Batsim's order; by default from the files that the summary names, if they are unchanged.
    Without `all_fields`, jobs may have only the fields that pages show (user, partition, …) if figures use no other.
    With `own_fields`, the fields by id of a job are given, and no workload is read. Raises InputError.
    """
    _check_prefix(prefix)
    return read_stable(
        prefix,
        lambda found: _read(prefix, found, workloads, n_procs, all_fields=all_fields, own=own_fields),
        newest=newest,
    )


def _check_prefix(prefix: str) -> None:
    """Raise InputError if the prefix is the name of a file of a run."""
    suffix = next((suffix for suffix in (*SUFFIXES, MARK) if prefix.endswith(suffix)), "")
    own = prefix.removesuffix(suffix)
    if suffix and own and Path(prefix).is_file() and not Path(f"{prefix}{JOBS}").exists():
        raise InputError(f"{prefix} is a file of a run; give the prefix, `{own}`")


def _read(
    prefix: str,
    found: Found,
    workloads: Sequence[str],
    n_procs: int | None,
    *,
    all_fields: bool,
    own: Mapping[str, Mapping[str, Any]] | None,
) -> SavedRun:
    path = found.path(JOBS)
    if found.is_whole or found.mark is None:
        summary, outcomes = _summary(found.path(SUMMARY)), jobs_csv.read(path)
    else:
        summary, outcomes = found.mark.about, jobs_csv.read_partial(path)
    rows = list(outcomes)
    must_load = all_fields or workloads or any(row.state == REJECTED for row in rows)
    own = _few_fields(prefix, summary) if own is None and not must_load else own
    if own is None:
        own = fields.fields_of(workloads_of(prefix, summary, workloads))
    records = tuple(joined(rows, own))
    n_found = summary.get("n_procs")
    if not isinstance(n_found, int):
        n_found = _machines(found.path("_schedule.csv"))
    if n_procs is not None:
        _check_size(prefix, records, n_procs, n_found)
    consumed = None
    if found.is_whole and found.path("_consumed_energy.csv").exists():
        consumed = energy.read(path, found.path("_schedule.csv"))
    run_state = found.standing(prefix, len(records))
    return SavedRun(prefix, records, n_procs or n_found, summary, run_state, energy=consumed, journal=_journal(found))


def _few_fields(prefix: str, summary: Mapping[str, Any]) -> dict[str, Mapping[str, Any]] | None:
    """Return the fields that pages show; None if figures may use other fields, so that files must be loaded."""
    _memory_unit(prefix, summary)
    contents = [content for _, content in _unchanged(prefix, summary)]
    needs_all = bool(summary.get(fields.NOT_EVALUATED) or summary.get(NODES))
    if needs_all or not contents or not all(map(fields.has_no_metric_fields, contents)):
        return None
    found = fields.shown_fields_of(contents)
    return None if found is None else dict(found)


def _journal(found: Found) -> str:
    """Return the path of the journal from the run's own state file; empty if unknown."""
    mark = found.mark
    path = "" if mark is None or (found.is_whole and mark.state is not State.FINISHED) else mark.about.get("journal")
    return os.path.normpath(Path(found.prefix + JOBS).parent / path) if isinstance(path, str) and path else ""


def read_options_of(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with which a run read its workloads, by the names of `READ_OPTIONS`."""
    return {name: summary.get(name, default) for name, default in READ_OPTIONS.items()}


def workloads_of(prefix: str, summary: Mapping[str, Any], files: Sequence[str] = ()) -> dict[str, Workload]:
    """Read the workloads of a run by name: given files, or those of its summary if unchanged. Raises InputError."""
    unit = _memory_unit(prefix, summary)
    paths = list(files) or [path for path, _ in _unchanged(prefix, summary)]
    if not paths:
        _check_all_evaluated(prefix, summary)
    chosen = summary.get("selection")
    try:
        selection = None if chosen is None else Selection.from_json(chosen, len(paths))
    except InputError as error:
        raise InputError(f"{prefix}_summary.json: {error}") from None
    how: dict[str, Any] = {"memory_unit": unit, "selection": selection, "lenient": summary.get("lenient") is True}
    given = read_options_of(summary)
    names = {"log_format": "format", "mapping": "mapping", "size_in": "size_in", "timezone": "timezone"}
    how |= {to: None if given[name] is None else str(given[name]) for name, to in names.items()}
    how |= {name: given[name] for name in ("size", "run_times", "running_at_start")}
    for name in ("min_runtime", "unknown_runtime"):
        how[f"{name}_s"] = _above_zero(prefix, name, given[name])
    walltimes = str(given["walltimes"] or "requested")
    Walltimes.parse(walltimes, f"{prefix}_summary.json: walltimes: ")
    found = {f"w{i}": load(path, walltimes=walltimes, **how) for i, path in enumerate(paths)}
    if given["ignore_eligibility"] is True:
        found = {name: without_rules(workload)[0] for name, workload in found.items()}
    if given["feedback"] is True:
        found = {name: with_feedback(workload) for name, workload in found.items()}
    factor = _above_zero(prefix, "scale_load", given["scale_load"])
    return found if factor is None else {name: scale_load(workload, factor) for name, workload in found.items()}


def _above_zero(prefix: str, name: str, value: Any) -> float | None:
    """Return a member of a summary that is a number above 0, or None if it is missing. Raises InputError."""
    if value is not None and not (isinstance(value, int | float) and 0 < value < math.inf):
        raise InputError(f"{prefix}_summary.json: {name} is {value!r:.40}; expected a number above 0")
    return value


def _check_all_evaluated(prefix: str, summary: Mapping[str, Any]) -> None:
    """Raise InputError if some jobs of a run are not evaluated: without the workload it is unknown which."""
    if summary.get(fields.NOT_EVALUATED):
        raise InputError(
            f"{prefix}: some of its jobs are not evaluated, but the workload with the field `evaluated` is missing or"
            " has changed; give it with -w"
        )


def _check_size(prefix: str, records: Sequence[JobRecord], given: int, found: int) -> None:
    """Raise InputError if the given machine size contradicts the run's files."""
    where = f"{prefix}: {setting('n_procs', given)}"
    if found and found != given:
        raise InputError(f"{where}: expected {found:,}, as in the files of the run")
    largest = max((record for record in records if record.ran), key=lambda record: record.n_procs, default=None)
    if largest is not None and largest.n_procs > given:
        raise InputError(f"{where}: expected at least {largest.n_procs:,}, the size of job {largest.id}")


def _summary(path: Path) -> Mapping[str, Any]:
    if not path.exists():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: expected a summary in JSON; {error}") from None
    return content if isinstance(content, dict) else {}


def _memory_unit(prefix: str, summary: Mapping[str, Any]) -> MemoryUnit:
    """Return the memory unit with which the run read logs; older summaries have none."""
    unit: MemoryUnit = summary.get("memory_unit", DEFAULT_MEMORY_UNIT)
    if unit not in MEMORY_UNITS:
        expected = ", ".join(MEMORY_UNITS)
        raise InputError(f"{prefix}_summary.json: memory_unit is {unit!r:.40}; expected one of {expected}")
    return unit


def _named_workloads(summary: Mapping[str, Any]) -> list[Any]:
    """Return the members of a summary that name workload files."""
    inputs = summary.get("inputs")
    named = inputs.get("workloads") if isinstance(inputs, dict) else None
    return named if isinstance(named, list) else []


def _unchanged(prefix: str, summary: Mapping[str, Any]) -> list[tuple[str, bytes]]:
    """Return the workload files of a summary with their content, empty for directories; none if one has changed."""
    found = []
    beside = Path(f"{prefix}{WORKLOAD}")
    for file in _named_workloads(summary):
        if not isinstance(file, dict):
            return []
        path = Path(str(file.get("file")))
        path = beside if beside.is_file() and path.name.endswith(WORKLOAD) else path
        content = path.read_bytes() if path.is_file() else b""
        try:
            digest = digest_of(path) if path.is_dir() else hashlib.sha256(content).hexdigest()
        except InputError:  # a directory without the files of a table
            return []
        if digest != file.get("sha256"):
            return []
        found.append((str(path), content))
    return found


def _machines(path: Path) -> int:
    """Return the number of machines in ``_schedule.csv``, 0 if there is no such file."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            row = next(csv.DictReader(file), None)
        return int((row or {}).get("nb_computing_machines") or 0)
    except (OSError, ValueError, csv.Error):
        return 0
