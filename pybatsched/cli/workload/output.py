"""Workload files that commands write: check their names and print their content."""

from __future__ import annotations

from pybatsched.errors import InputError, quantity
from pybatsched.workload.formats import files
from pybatsched.workload.model import Workload
from pybatsched.workload.report import Report


def check_name(path: str) -> None:
    """Raise InputError for a name that does not end in .json or .json.gz."""
    if not path.endswith((".json", ".json.gz")):
        raise InputError(f"{path}: expected a file name that ends in .json or .json.gz")


def refuse_empty(workload: Workload, report: Report) -> None:
    """Raise InputError if all jobs of a file have been dropped, or if a log has no jobs."""
    if not workload.jobs and (report.n_dropped or files.format_of(workload.source) != "Batsim JSON"):
        raise InputError(f"{workload.source}: no job is left ({workload.why_empty}); expected at least one")


def say_written(workload: Workload, path: str) -> None:
    """Print the number of jobs and processors of a file."""
    times = [job["subtime"] for job in workload.jobs]
    span = f", submitted from {times[0]:,} s to {times[-1]:,} s" if times else ""
    print(f"wrote {path}: {quantity(len(times), 'job')} for {quantity(workload.n_procs, 'processor')}{span}")
