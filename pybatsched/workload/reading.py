"""Read workload files of any format with the same options."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from pybatsched.errors import InputError
from pybatsched.workload import prepare, progress
from pybatsched.workload.formats import batsim4, files, rackham, slurm, swf
from pybatsched.workload.formats.conversion import LogOptions
from pybatsched.workload.model import Workload
from pybatsched.workload.report import Report
from pybatsched.workload.selection import Selection
from pybatsched.workload.walltimes import Walltimes


def read(
    path: str | Path, options: swf.SwfOptions, selection: Selection, *, lenient: bool = False
) -> tuple[Workload, Report]:
    """Read the jobs of a file that a selection keeps, and report dropped and changed jobs. Up to 100 µs per job.

    Options that do not apply to the format are ignored: a Batsim file uses the walltimes and the size of the machine,
    the Rackham format those of `LogOptions`, a log of Slurm all but `memory_unit` and `unknown_runtime_s`. Options that
    are not `slurm.SlurmOptions` read a log of Slurm in cores, with times in UTC. Raises InputError.
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
            with progress.part(0, 0.5):  # reading takes about as long as the conversion
                trace = swf.read_swf(path, lenient=lenient)
            with progress.part(0.5, 0.8):  # adding the other fields takes the rest
                return swf.to_workload(trace, options, selection)
        case "Slurm":
            of_slurm = slurm.SlurmOptions.of(options)
            with progress.part(0, 0.7):
                accounting = slurm.read_slurm(path, timezone=of_slurm.timezone, lenient=lenient)
            with progress.part(0.7, 1):
                return slurm.to_workload(accounting, of_slurm, selection)


def load(
    path: str | Path,
    *,
    walltimes: str = "requested",
    size: swf.Size = "allocated",
    run_times: swf.RunTimes = "logged",
    min_runtime_s: float | None = None,
    unknown_runtime_s: float | None = None,
    n_procs: int | None = None,
    n_procs_else: int | None = None,
    memory_unit: swf.MemoryUnit = swf.DEFAULT_MEMORY_UNIT,
    size_in: slurm.SizeIn = "cores",
    timezone: str = "UTC",
    selection: Selection | None = None,
    lenient: bool = False,
) -> Workload:
    """Load a workload for a simulation: Batsim JSON or a log (SWF, Slurm, Rackham), plain or gzip. Up to 100 µs a job.

    `walltimes` is a rule of `pybatsched.workload.walltimes`. Walltimes of a Batsim file are its requested times. The
    other options are for logs, as in `slurm.SlurmOptions`; `size` and `run_times` are for SWF and Slurm, `memory_unit`
    and `unknown_runtime_s` for SWF, `size_in` and `timezone` for Slurm. `selection` keeps some of the jobs. A `lenient`
    reading skips invalid lines of a log. `about["report"]` of the result counts dropped and changed jobs. Raises
    InputError.
    """
    rule = Walltimes.parse(walltimes)
    if files.format_of(path) == "Batsim JSON":
        workload = prepare.with_walltimes(batsim4.read(path), rule)[0]
        return workload if selection is None else prepare.select(workload, selection)[0]
    options = swf.SwfOptions(
        rule,
        size=size,
        run_times=run_times,
        min_runtime_s=min_runtime_s,
        unknown_runtime_s=unknown_runtime_s,
        n_procs=n_procs,
        n_procs_else=n_procs_else,
        memory_unit=memory_unit,
    )
    if files.format_of(path) == "Slurm":
        options = slurm.SlurmOptions.of(options, size_in, timezone)
    return read(path, options, selection or Selection(), lenient=lenient)[0]
