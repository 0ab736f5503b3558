"""Workload files of every format, read with the same options: what commands and campaigns begin with."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from pybatsched.errors import InputError
from pybatsched.workload import prepare, progress
from pybatsched.workload.formats import batsim4, files, rackham, swf
from pybatsched.workload.formats.conversion import LogOptions
from pybatsched.workload.model import Workload
from pybatsched.workload.report import Report
from pybatsched.workload.selection import Selection


def read(
    path: str | Path, options: swf.Options, selection: Selection, *, lenient: bool = False
) -> tuple[Workload, Report]:
    """Read a file and make a workload of the jobs that a selection keeps, with a report of what became of the others.

    Of the options, a file takes those that mean something for its format: a Batsim file its walltimes and the machine's
    size, the Rackham format all but `size`, `run_times` and `memory_unit`. Costs up to 20 µs a job. Raises InputError.
    """
    match files.format_of(path):
        case "Batsim JSON":
            workload, report = prepare.with_walltimes(batsim4.read(path), options.walltimes)
            workload, report = prepare.select(workload, selection, report)
            if options.n_procs is not None:
                workload.n_procs = options.n_procs
            return workload, report
        case "Rackham":
            if selection.partitions:
                raise InputError(f"{path}: partitions: expected a log in SWF, found a file of the Rackham format")
            own = {one.name: getattr(options, one.name) for one in dataclasses.fields(LogOptions)}
            with progress.part(0, 0.8):
                log = rackham.read_rackham(path, lenient=lenient)
            return rackham.to_workload(log, LogOptions(**own), selection)
        case "SWF":
            with progress.part(0, 0.5):  # as the times of both are
                trace = swf.read_swf(path, lenient=lenient)
            with progress.part(0.5, 0.8):  # what the log knows besides takes the rest
                return swf.to_workload(trace, options, selection)
