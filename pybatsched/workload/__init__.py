"""Workloads: reading, checking, preparing, generating and describing them."""

from __future__ import annotations

from pathlib import Path

from pybatsched.workload import prepare, reading
from pybatsched.workload.formats import batsim4, files, swf
from pybatsched.workload.model import Workload
from pybatsched.workload.selection import Selection
from pybatsched.workload.walltimes import Walltimes

__all__ = ["Workload", "load"]


def load(
    path: str | Path,
    *,
    walltimes: str = "requested",
    size: swf.Size = "allocated",
    run_times: swf.RunTimes = "logged",
    min_runtime_s: float | None = None,
    n_procs: int | None = None,
    n_procs_else: int | None = None,
    memory_unit: swf.MemoryUnit = swf.DEFAULT_MEMORY_UNIT,
    selection: Selection | None = None,
    lenient: bool = False,
) -> Workload:
    """Load a workload for a simulation: Batsim JSON or a log (SWF or Rackham), plain or gzip, told by their content.

    `walltimes` is one of the rules of `pybatsched.workload.walltimes`; a Batsim file's own walltimes are the requested
    ones. The other options are for logs and mean what they mean in `swf.Options` (`size`, `run_times` and `memory_unit`
    for SWF alone): a Batsim file says for itself what its jobs are. `selection` keeps some of the jobs; a `lenient`
    reading leaves bad lines of a log out. What was dropped or changed is in `about["report"]` of the result. Costs up
    to 20 µs a job. Raises InputError.
    """
    rule = Walltimes.parse(walltimes)
    if files.format_of(path) == "Batsim JSON":
        workload = prepare.with_walltimes(batsim4.read(path), rule)[0]
        return workload if selection is None else prepare.select(workload, selection)[0]
    options = swf.Options(
        rule,
        size=size,
        run_times=run_times,
        min_runtime_s=min_runtime_s,
        n_procs=n_procs,
        n_procs_else=n_procs_else,
        memory_unit=memory_unit,
    )
    return reading.read(path, options, selection or Selection(), lenient=lenient)[0]
