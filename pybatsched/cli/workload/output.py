"""Workload files that commands write: what they may be called, and what is said of them."""

from __future__ import annotations

from pybatsched.errors import InputError, quantity
from pybatsched.workload.formats import files
from pybatsched.workload.model import Workload
from pybatsched.workload.report import Report


def check_name(path: str) -> None:
    """Raise InputError for a name that no workload file has."""
    if not path.endswith((".json", ".json.gz")):
        raise InputError(f"{path}: expected a file name that ends in .json or .json.gz")


def refuse_empty(workload: Workload, report: Report) -> None:
    """Raise InputError if all jobs that were read have been dropped, or if a log has none."""
    if not workload.jobs and (report.n_dropped or files.format_of(workload.source) != "Batsim JSON"):
        raise InputError(f"{workload.source}: no job is left ({workload.why_empty}); expected at least one")


def say_written(workload: Workload, path: str) -> None:
    """Say what is in a file."""
    times = [job["subtime"] for job in workload.jobs]
    span = f", submitted from {times[0]:,} s to {times[-1]:,} s" if times else ""
    print(f"wrote {path}: {quantity(len(times), 'job')} for {quantity(workload.n_procs, 'processor')}{span}")
