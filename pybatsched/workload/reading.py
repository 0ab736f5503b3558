"""Read workload files of any format with the same options. `read_file` is the one place where formats differ."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from pybatsched.workload import prepare, progress
from pybatsched.workload.formats import batsim4
from pybatsched.workload.formats.conversion import LogOptions
from pybatsched.workload.formats.detection import format_of
from pybatsched.workload.model import Workload
from pybatsched.workload.report import Report
from pybatsched.workload.selection import Selection
from pybatsched.workload.walltimes import Walltimes

if TYPE_CHECKING:
    from pybatsched.workload.logs.table import LogTable

#: The content of a workload file before it is converted.
Content: TypeAlias = "Workload | LogTable"

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
    match format_of(path, format, mapping):
        case "Batsim JSON":
            return batsim4.read(path)
        case "SWF":
            from pybatsched.workload.logs.swf import FRONTIER, read_swf  # noqa: PLC0415  see above

            return read_swf(path, lenient=lenient, names=FRONTIER if format == "frontier" else None)
        case "Slurm":
            from pybatsched.workload.logs.slurm import read_slurm  # noqa: PLC0415  see above

            return read_slurm(path, timezone=timezone, lenient=lenient)
        case "table":
            from pybatsched.workload.logs.tables.reader import read_table  # noqa: PLC0415  see above

            return read_table(path, name=format, mapping=mapping, timezone=timezone, lenient=lenient)


def read(
    path: str | Path,
    options: LogOptions,
    selection: Selection,
    *,
    lenient: bool = False,
    check: Callable[[Content], object] | None = None,
) -> tuple[Workload, Report]:
    """Read the jobs of a file that a selection keeps, and report dropped and changed jobs. Up to 100 µs per job.

    `check` is called with the content before it is converted. Options that do not apply to the format are ignored: a
    Batsim file uses the walltimes and the size of the machine. Raises InputError.
    """
    how: dict[str, Any] = {"format": options.format, "mapping": options.mapping, "timezone": options.timezone}
    with progress.part(0, 0.6):
        found = read_file(path, **how, lenient=lenient)
    if check is not None:
        check(found)
    with progress.part(0.6, 1):
        if not isinstance(found, Workload):
            from pybatsched.workload.logs.conversion import to_workload  # noqa: PLC0415  see above

            return to_workload(found, options, selection)
        workload, report = prepare.with_walltimes(found, options.walltimes)
        workload, report = prepare.select(workload, selection, report)
        if options.n_procs is not None:
            workload.n_procs = options.n_procs
        return workload, report


def load(
    path: str | Path,
    *,
    walltimes: str = "requested",
    selection: Selection | None = None,
    lenient: bool = False,
    **options: Any,
) -> Workload:
    """Load a workload for a simulation: Batsim JSON or a log (SWF, Slurm, a table). Up to 100 µs a job.

    Files may be compressed by gzip or zstd. `walltimes` is a rule of `pybatsched.workload.walltimes`. Other options are
    those of `LogOptions`; options that are not for the format are ignored, as in `read`. A `lenient` reading
    skips invalid lines of a log. `about["report"]` of the result counts dropped and changed jobs. Raises InputError.
    """
    rule = Walltimes.parse(walltimes)
    kind = format_of(path, options.get("format"), options.get("mapping"))
    if kind == "Batsim JSON":
        workload = prepare.with_walltimes(batsim4.read(path), rule)[0]
        workload.n_procs = options.get("n_procs") or workload.n_procs
        return workload if selection is None else prepare.select(workload, selection)[0]
    return read(path, LogOptions(rule, **options), selection or Selection(), lenient=lenient)[0]
