"""Read workload files of any format with the same options. `read_file` is the one place where formats differ."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pybatsched.errors import InputError
from pybatsched.workload import prepare, progress
from pybatsched.workload.formats import batsim4, files
from pybatsched.workload.formats.conversion import JobLogOptions, LogOptions, SizeIn, SwfOptions
from pybatsched.workload.model import Workload
from pybatsched.workload.report import Report
from pybatsched.workload.selection import Selection
from pybatsched.workload.walltimes import Walltimes

if TYPE_CHECKING:
    from pybatsched.workload.formats.job_log import JobLog
    from pybatsched.workload.formats.rackham_reader import RackhamTrace
    from pybatsched.workload.logs.table import LogTable

#: The content of a workload file before it is converted.
Content: TypeAlias = "Workload | LogTable | RackhamTrace | JobLog"

# The modules of a format are imported when a file of that format is read.


def read_file(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002  as the option
    mapping: str | None = None,
    timezone: str | None = None,
    lenient: bool = False,
) -> Content:
    """Read a file without converting it. `format` is a name of `files.FORMATS`, by default that of the content.

    `mapping` is the file that describes the columns of a table. `timezone` is that of times without a zone in a log
    of Slurm or a table. A `lenient` reading skips invalid lines of a log. Up to 60 µs per job. Raises InputError.
    """
    match files.format_of(path, format, mapping):
        case "Batsim JSON":
            return batsim4.read(path)
        case "Rackham":
            from pybatsched.workload.formats.rackham_reader import read_rackham  # noqa: PLC0415  see above

            return read_rackham(path, lenient=lenient)
        case "SWF":
            from pybatsched.workload.logs.swf import FRONTIER, read_swf  # noqa: PLC0415  see above

            return read_swf(path, lenient=lenient, names=FRONTIER if format == "frontier" else None)
        case "Slurm":
            from pybatsched.workload.formats.slurm_reader import read_slurm  # noqa: PLC0415  see above

            return read_slurm(path, timezone=timezone, lenient=lenient)
        case "table":
            from pybatsched.workload.formats.tables.reader import read_table  # noqa: PLC0415  see above

            return read_table(path, name=format, mapping=mapping, timezone=timezone, lenient=lenient)


def read(
    path: str | Path,
    options: SwfOptions,
    selection: Selection,
    *,
    lenient: bool = False,
    check: Callable[[Content], object] | None = None,
) -> tuple[Workload, Report]:
    """Read the jobs of a file that a selection keeps, and report dropped and changed jobs. Up to 100 µs per job.

    `check` is called with the content before it is converted.
    Options that do not apply to the format are ignored: a Batsim file uses the walltimes and the size of the machine,
    the Rackham format those of `LogOptions`, a log of Slurm or a table all but `memory_unit` and `unknown_runtime_s`.
    Options that are not `JobLogOptions` leave the unit of sizes and the zone to the log. Raises InputError.
    """
    zone = options.timezone if isinstance(options, JobLogOptions) else None
    with progress.part(0, 0.6):
        found = read_file(path, format=options.format, mapping=options.mapping, timezone=zone, lenient=lenient)
    if check is not None:
        check(found)
    with progress.part(0.6, 1):
        if not isinstance(found, Workload):
            return _converted(path, found, options, selection)
        workload, report = prepare.with_walltimes(found, options.walltimes)
        workload, report = prepare.select(workload, selection, report)
        if options.n_procs is not None:
            workload.n_procs = options.n_procs
        return workload, report


def _converted(
    path: str | Path, found: LogTable | RackhamTrace | JobLog, options: SwfOptions, selection: Selection
) -> tuple[Workload, Report]:
    """Convert a log, as `read` does."""
    from pybatsched.workload.formats import job_log, rackham  # noqa: PLC0415  see above
    from pybatsched.workload.formats.rackham_reader import RackhamTrace  # noqa: PLC0415  see above
    from pybatsched.workload.logs import conversion  # noqa: PLC0415  see above
    from pybatsched.workload.logs.table import LogTable  # noqa: PLC0415  see above

    match found:
        case LogTable():
            return conversion.to_workload(found, options, selection)
        case RackhamTrace():
            if selection.partitions:
                raise InputError(f"{path}: partitions: expected a log in SWF, found a file of the Rackham format")
            own = {one.name: getattr(options, one.name) for one in dataclasses.fields(LogOptions)}
            return rackham.to_workload(found, LogOptions(**own), selection)
        case _:
            return job_log.to_workload(found, options, selection)


def load(
    path: str | Path,
    *,
    walltimes: str = "requested",
    selection: Selection | None = None,
    lenient: bool = False,
    **options: Any,
) -> Workload:
    """Load a workload for a simulation: Batsim JSON or a log (SWF, Slurm, a table, Rackham). Up to 100 µs a job.

    Files may be compressed by gzip or zstd. `walltimes` is a rule of `pybatsched.workload.walltimes`. Other options are
    those of `JobLogOptions`; options that are not for the format are ignored, as in `read`. A `lenient` reading
    skips invalid lines of a log. `about["report"]` of the result counts dropped and changed jobs. Raises InputError.
    """
    rule = Walltimes.parse(walltimes)
    kind = files.format_of(path, options.get("format"), options.get("mapping"))
    if kind == "Batsim JSON":
        workload = prepare.with_walltimes(batsim4.read(path), rule)[0]
        workload.n_procs = options.get("n_procs") or workload.n_procs
        return workload if selection is None else prepare.select(workload, selection)[0]
    return read(path, options_for(kind, walltimes=rule, **options), selection or Selection(), lenient=lenient)[0]


def options_for(
    kind: files.Format, *, size_in: SizeIn | None = None, timezone: str | None = None, **options: Any
) -> SwfOptions:
    """Return the options for the conversion of a log of this format. Raises InputError."""
    if kind in {"Slurm", "table"}:
        return JobLogOptions(**options, size_in=size_in, timezone=timezone)
    return SwfOptions(**options)
