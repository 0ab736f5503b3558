"""A whole run, read back from its files: the embedded simulator's or real Batsim's."""

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
from pybatsched.errors import BrokenPromiseError, InputError, quantity
from pybatsched.metrics import energy, fields, jobs_csv, truncated
from pybatsched.metrics.energy import Energy
from pybatsched.metrics.outcomes import DEFAULT_TAU_S, JobRecord, joined
from pybatsched.metrics.series import Steps
from pybatsched.results.run_state import JOBS, MARK, SUFFIXES, SUMMARY, WHOLE, Found, RunState, State, read_stable
from pybatsched.workload import Workload, load
from pybatsched.workload.formats import swf
from pybatsched.workload.selection import Selection

if TYPE_CHECKING:
    from pybatsched.metrics.job_table import JobTable

#: How inputs were read, by the members of a summary: what one that does not say has meant.
HOW_READ: Final = {
    "walltimes": None,
    "memory_unit": swf.DEFAULT_MEMORY_UNIT,
    "selection": None,
    "lenient": False,
    "units": None,
}


@dataclass(frozen=True)
class Run:
    """A run: its jobs, its processors (0 if no file says), and what its summary says, if there is one.

    `standing` tells whether it is whole. If it is not, what its mark says stands for the summary. `energy` is that of a
    whole run for which it was simulated. Figures come from the table of `jobs`, which needs polars.

    `name` is what to call it, if not by its prefix. `journal` is where it was recorded, if that is known: the file need
    not be there any more.
    """

    prefix: str
    records: Sequence[JobRecord]
    n_procs: int
    summary: Mapping[str, Any]
    standing: RunState = WHOLE
    energy: Energy | None = None
    name: str = ""
    journal: str = ""

    @property
    def label(self) -> str:
        """A short name: what the user called it."""
        return self.name or Path(self.prefix).name or self.prefix

    @cached_property
    def jobs(self) -> JobTable:
        """The table of all jobs. Raises InputError without polars."""
        from pybatsched.metrics.job_table import JobTable  # noqa: PLC0415  polars is an extra

        return JobTable.of(self.records)

    @property
    def evaluated(self) -> JobTable:
        """The jobs that figures of jobs are about: all, or those with ``evaluated: true`` where some have the field."""
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
    def cut(self) -> truncated.Cut | None:
        """When simulated time was ended, and what was left over then; None of others. Raises InputError."""
        return truncated.of_summary(f"{self.prefix}{SUMMARY}", self.summary)

    @property
    def span(self) -> tuple[float, float]:
        """The first submission and the last end, or the cut; (0, 0) if nothing ran."""
        if self.cut is None:
            return self.jobs.span
        return self.cut.span(record.submitted_at for record in self.records)

    @cached_property
    def clusters(self) -> Mapping[str, Sequence[tuple[int, int]]]:
        """The processors of each cluster, as intervals without their ends; empty where the machine has not several.

        Raises InputError for what the summary cannot mean.
        """
        told = self.summary.get("clusters") or {}
        try:
            return {str(name): tuple(IntervalSet.parse(procs).intervals()) for name, procs in told.items()}
        except (ValueError, AttributeError, TypeError):
            expected = 'processors by name, as {"ctc": "0-429"}'
            raise InputError(f"{self.prefix}_summary.json: clusters: expected {expected}, found {told!r:.80}") from None

    @property
    def tau_s(self) -> float | None:
        """The bound of bounded slowdowns that its own table has; None if no file says. Raises InputError."""
        return tau_of(f"{self.prefix}{SUMMARY}", self.summary)

    @property
    def workload_files(self) -> list[str]:
        """The workload files that the summary names. They may have changed, or may be gone."""
        return [str(file.get("file")) for file in _named_workloads(self.summary) if isinstance(file, dict)]

    @property
    def n_left_out(self) -> int:
        """How many jobs are not evaluated, and left out of all figures of jobs."""
        return len(self.records) - len(self.evaluated)

    @property
    def left_out_told(self) -> str:
        """Say how many jobs are left out; nothing if none is."""
        if not self.n_left_out:
            return ""
        n, all_jobs = self.n_left_out, quantity(len(self.records), "job")
        are = "is" if n == 1 else "are"
        if not len(self.evaluated):
            what = "the only job" if n == 1 else f"all {all_jobs}"
            return f"{what} {are} left out of figures of jobs: none has evaluated: true"
        return f"{n:,} of {all_jobs} {are} left out of figures of jobs: only those with evaluated: true count"

    def utilisation(self) -> float | None:
        """Give the share of all processors' time from the first submission to the last end that jobs held.

        Of a run that was cut, up to the cut, with the jobs that ran then; None where files do not tell these.
        """
        begin, end = self.span
        if end <= begin or not self.n_procs or (self.cut is not None and self.cut.left is None):
            return None
        return self.usage.integral(begin, end) / (self.n_procs * (end - begin))


def tau_of(where: str, summary: Mapping[str, Any]) -> float | None:
    """Read the bound of bounded slowdowns in a summary, or in the mark of a run that has none yet."""
    figures = summary.get("figures")
    tau_s = figures.get("tau_s") if isinstance(figures, dict) else summary.get("tau_s")
    if tau_s is None:
        return None
    if not isinstance(tau_s, int | float) or isinstance(tau_s, bool) or not 0 <= tau_s < math.inf:
        raise InputError(f"{where}: tau_s is {tau_s!r:.40}; expected a number of seconds from 0")
    return float(tau_s)


def common_tau_s(runs: Sequence[Run], given: float | None = None) -> float:
    """Give one bound of bounded slowdowns for several runs: the given one, else their own, else the usual one.

    Raises InputError if they have different ones: slowdowns by several bounds cannot be compared.
    """
    if given is not None:
        return given
    told = {run.prefix: run.tau_s for run in runs if run.tau_s is not None}
    if len(set(told.values())) > 1:
        each = ", ".join(f"{prefix} {tau_s:g} s" for prefix, tau_s in told.items())
        raise InputError(f"the runs were made with different --tau: {each}; give one --tau for all of them")
    return next(iter(told.values()), DEFAULT_TAU_S)


def read_run(prefix: str, workloads: Sequence[str] = (), n_procs: int | None = None, *, partial: bool = False) -> Run:
    """Read the last whole run, or with `partial` the last one in any case; see `read_what_is_there`.

    Raises BrokenPromiseError if there is no whole run, but one that still runs or broke off, and InputError.
    """
    run = read_what_is_there(prefix, workloads, n_procs, newest=partial)
    if run.standing.mark is not None and not partial:
        raise BrokenPromiseError(f"{prefix}: {run.standing.notice}; expected a finished run, or partial=True")
    return run


def read_what_is_there(
    prefix: str,
    workloads: Sequence[str] = (),
    n_procs: int | None = None,
    *,
    newest: bool = False,
    all_fields: bool = True,
) -> Run:
    """Read ``PREFIX_jobs.csv``, and ``PREFIX_summary.json`` or ``PREFIX_schedule.csv`` where they are. O(jobs).

    If there is no whole run, or the `newest` is wanted, it is one that still runs or broke off; `standing` says so.
    `n_procs` is the machine's size if none of the files says. Fields of jobs (user, deadline, …) come from `workloads`,
    in Batsim's order; without them from the files that the summary names, if those are still what they were. Raises
    InputError.

    Without `all_fields`, jobs may have no fields but their users, where figures rest on no others: workloads need not
    be loaded then.
    """
    _refuse_file(prefix)
    return read_stable(
        prefix, lambda found: _read(prefix, found, workloads, n_procs, all_fields=all_fields), newest=newest
    )


def _refuse_file(prefix: str) -> None:
    """Raise InputError with the prefix if what was given is the name of a file of a run."""
    suffix = next((suffix for suffix in (*SUFFIXES, MARK) if prefix.endswith(suffix)), "")
    own = prefix.removesuffix(suffix)
    if suffix and own and Path(prefix).is_file() and not Path(f"{prefix}{JOBS}").exists():
        raise InputError(f"{prefix} is a file of a run; give the prefix, `{own}`")


def _read(prefix: str, found: Found, workloads: Sequence[str], n_procs: int | None, *, all_fields: bool) -> Run:
    path = found.path(JOBS)
    if found.is_whole or found.mark is None:
        summary, outcomes = _summary(found.path(SUMMARY)), jobs_csv.read(path)
    else:
        summary, outcomes = found.mark.about, jobs_csv.read_what_is_there(path)
    rows = list(outcomes)
    must_load = all_fields or workloads or any(row.state == REJECTED for row in rows)
    own = None if must_load else _few_fields(prefix, summary)
    if own is None:
        own = fields.fields_of(workloads_of(prefix, summary, workloads))
    records = tuple(joined(rows, own))
    n_told = _size(found, summary)
    if n_procs is not None:
        _check_size(prefix, records, n_procs, n_told)
    consumed = None
    if found.is_whole and found.path("_consumed_energy.csv").exists():
        consumed = energy.read(path, found.path("_schedule.csv"))
    standing = found.standing(prefix, len(records))
    return Run(prefix, records, n_procs or n_told, summary, standing, energy=consumed, journal=_journal(found))


def _few_fields(prefix: str, summary: Mapping[str, Any]) -> dict[str, Mapping[str, Any]] | None:
    """Return the users of jobs, where workload files in plain JSON have no other field that figures rest on.

    None if the files must be loaded.
    """
    _memory_unit(prefix, summary)
    contents = [content for _, content in _unchanged(summary)]
    if summary.get(fields.NOT_EVALUATED) or not contents or not all(map(fields.tells_nothing, contents)):
        return None
    users = fields.users_of(contents)
    return None if users is None else {job_id: {"user": user} for job_id, user in users.items() if user}


def _journal(found: Found) -> str:
    """Give where the run was recorded, by its own mark; empty if that does not say, or is a later run's."""
    mark = found.mark
    told = "" if mark is None or (found.is_whole and mark.state is not State.FINISHED) else mark.about.get("journal")
    return os.path.normpath(Path(found.prefix + JOBS).parent / told) if isinstance(told, str) and told else ""


def _size(found: Found, summary: Mapping[str, Any]) -> int:
    """Give the processors that the machine has by its files, 0 if none says."""
    n_told = summary.get("n_procs")
    return n_told if isinstance(n_told, int) else _machines(found.path("_schedule.csv"))


def how_read_of(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Tell how a run has read its workloads, by the names of `HOW_READ`: the same files may be read otherwise."""
    return {name: summary.get(name, usual) for name, usual in HOW_READ.items()}


def workloads_of(prefix: str, summary: Mapping[str, Any], files: Sequence[str] = ()) -> dict[str, Workload]:
    """Read the workloads of a run by their names in it: these files, or those its summary names if they are unchanged.

    Without any, nobody can tell which jobs count: if some do not, that is an InputError.
    """
    unit = _memory_unit(prefix, summary)
    paths = list(files) or [path for path, _ in _unchanged(summary)]
    if not paths:
        _refuse_to_guess(prefix, summary)
    chosen = summary.get("selection")
    try:
        selection = None if chosen is None else Selection.from_json(chosen, len(paths))
    except InputError as error:
        raise InputError(f"{prefix}_summary.json: {error}") from None
    how: dict[str, Any] = {"memory_unit": unit, "selection": selection, "lenient": summary.get("lenient") is True}
    return {f"w{i}": load(path, walltimes="none", **how) for i, path in enumerate(paths)}


def _refuse_to_guess(prefix: str, summary: Mapping[str, Any]) -> None:
    """Raise InputError if some jobs of a run do not count, and its workload is not there to tell which."""
    if summary.get(fields.NOT_EVALUATED):
        raise InputError(
            f"{prefix}: some of its jobs are not evaluated, but the workload that tells which is not found or has"
            " changed; give it with -w"
        )


def _check_size(prefix: str, records: Sequence[JobRecord], given: int, found: int) -> None:
    """Raise InputError if a machine of the given size cannot be that of the run."""
    if found and found != given:
        raise InputError(f"{prefix}: {quantity(given, 'processor')} given, but the run's own files say {found:,}")
    largest = max((record for record in records if record.ran), key=lambda record: record.n_procs, default=None)
    if largest is not None and largest.n_procs > given:
        raise InputError(
            f"{prefix}: {quantity(given, 'processor')} given, but job {largest.id} held {largest.n_procs:,}"
        )


def _summary(path: Path) -> Mapping[str, Any]:
    if not path.exists():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: expected a summary in JSON; {error}") from None
    return content if isinstance(content, dict) else {}


def _memory_unit(prefix: str, summary: Mapping[str, Any]) -> swf.MemoryUnit:
    """Give the unit that the run has read logs with; an older summary does not say it."""
    unit: swf.MemoryUnit = summary.get("memory_unit", swf.DEFAULT_MEMORY_UNIT)
    if unit not in swf.MEMORY_UNITS:
        expected = ", ".join(swf.MEMORY_UNITS)
        raise InputError(f"{prefix}_summary.json: memory_unit is {unit!r:.40}; expected one of {expected}")
    return unit


def _named_workloads(summary: Mapping[str, Any]) -> list[Any]:
    """Give the members of a summary that name workload files."""
    inputs = summary.get("inputs")
    named = inputs.get("workloads") if isinstance(inputs, dict) else None
    return named if isinstance(named, list) else []


def _unchanged(summary: Mapping[str, Any]) -> list[tuple[str, bytes]]:
    """Give the workload files that a summary names, with their content, if all of them are still the same."""
    found = []
    for file in _named_workloads(summary):
        if not isinstance(file, dict):
            return []
        path = Path(str(file.get("file")))
        content = path.read_bytes() if path.is_file() else b""
        if hashlib.sha256(content).hexdigest() != file.get("sha256"):
            return []
        found.append((str(path), content))
    return found


def _machines(path: Path) -> int:
    """Give the number of machines by ``_schedule.csv``, 0 if there is none."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            row = next(csv.DictReader(file), None)
        return int((row or {}).get("nb_computing_machines") or 0)
    except (OSError, ValueError, csv.Error):
        return 0
