"""Run one cell of a campaign, in any process: from a dictionary of inputs to a dictionary of figures."""

from __future__ import annotations

import shutil
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import polars as pl

from pybatsched.campaign.keys import as_key
from pybatsched.errors import PybatschedError, UnfinishedError, quantity, spelled
from pybatsched.metrics import Outcome, joined, truncated
from pybatsched.metrics.compare.paired import stays_of
from pybatsched.metrics.figures import figures_of_each, figures_of_run
from pybatsched.metrics.job_results import JobResults
from pybatsched.metrics.node_use import NodeUse
from pybatsched.metrics.workload_fields import fields_of
from pybatsched.results.run_state import WORKLOAD
from pybatsched.runs.build import build
from pybatsched.runs.execute import Keeping, execute, finish, results_of, warnings_after
from pybatsched.runs.policies import PolicySpec
from pybatsched.runs.spec import RunSpec
from pybatsched.runs.workloads import Jobs
from pybatsched.workload import Workload, jobs as workload_jobs, load

#: Number of lines of a traceback that are kept for an unexpected error.
_N_TRACE_LINES: Final = 12
#: The last workload of this process by its file, size and time. The next cells often have the same one.
_last_workload: dict[tuple[str, int, int], tuple[Workload, Mapping[str, Mapping[str, Any]]]] = {}


def _workload_of(path: str) -> tuple[Workload, Mapping[str, Mapping[str, Any]]]:
    """Return a workload that was checked, and its jobs by their ids. O(1) if the last cell had the same one."""
    key = (path, 0, 0)
    with suppress(OSError):  # `load` reports it
        status = Path(path).stat()
        key = (path, status.st_size, status.st_mtime_ns)
    if key not in _last_workload:
        _last_workload.clear()  # first: two large workloads need much memory
        workload = load(path)
        workload_jobs.check_ids({"w0": workload})
        _last_workload[key] = workload, fields_of({"w0": workload})
    return _last_workload[key]


def run_cell(cell: Mapping[str, Any], folder: str | None = None) -> dict[str, Any]:
    """Run a cell and return its figures; with keep = "files", its files stay in `folder`. Raises what a run raises."""
    prepared = cell["workload"]
    workload, fields = _workload_of(prepared["path"])
    policy = PolicySpec(**cell["policy"], given_by="the campaign")  # trusted: the user's campaign names it
    spec = RunSpec.of({**cell["run"], **cell["machine"]}, policy)
    jobs_read = Jobs(
        replace(workload, source=prepared["source"]),
        prepared["source"],
        digest=prepared["digest"],
        warnings=prepared["warnings"],
        copy=f"run{WORKLOAD}",
    )
    built = build(spec, [jobs_read])
    outcomes: list[Outcome] = []
    if folder is not None and cell["keep"] == "files":
        Path(folder).mkdir(parents=True, exist_ok=True)
        with results_of(built, f"{folder}/run") as results:
            # Members such as `walltimes` say how to read the copy, which was prepared.
            result, content = execute(built, results, [Keeping(outcomes)], more={"prepared": prepared["how"]})
            shutil.copyfile(prepared["path"], f"{results.part}{WORKLOAD}")
            finish(results, content)
    else:
        result, content = execute(built, None, [Keeping(outcomes)])
    if not result.finished and result.cut_at is None:
        raise UnfinishedError(
            f"{quantity(len(result.stuck), 'job')} unfinished; {result.stuck[0].why}" if result.stuck else ""
        )
    records = joined(outcomes, fields)
    cut = truncated.of_summary("the summary", content)
    jobs = JobResults.of(records, NodeUse.of_summary("the summary", content, records, cut))
    n_procs = built.scenario.platform.n_procs
    each = {key: figures_of_each(jobs, key, spec.tau_s) for key in cell["each"]}
    cites: dict[str, Any] = {
        name: content[name] for name in ("versions", "clock", "origins", "inputs", "policy") if name in content
    }
    return {
        "cites": cites,
        "figures": figures_of_run(jobs, n_procs, spec.tau_s, content),
        "warnings": [spelled(text, as_key) for text in (*built.warnings, *warnings_after(result))],
        **({"n_cut": len(result.stuck) + result.n_to_come} if result.cut_at is not None else {}),
        **({"each": each} if each else {}),
        **({"ends": _ends(jobs, cell["compared"])} if cell.get("compared") is not None else {}),
        "jobs": _jobs(jobs, cell["address"], spec.tau_s) if cell["keep"] == "jobs" else [],
    }


#: Fields of jobs in the tables of kept jobs. All tables have all of them, so that they can be read together.
KEPT_FIELDS: Final[dict[str, type[pl.DataType]]] = {
    **dict.fromkeys(("account", "group", "partition", "queue", "qos", "exit_state"), pl.String),
    **dict.fromkeys(("gpus", "memory_gb", "status"), pl.Float64),
}


def _ends(jobs: JobResults, where: Mapping[str, Any]) -> list[tuple[str, float, float]]:
    """Return id, submission and end of the jobs that are compared with a baseline."""
    return [(name, *stay) for name, stay in stays_of(jobs.evaluated.chosen(where)).items()]


def _jobs(table: JobResults, address: str, tau_s: float) -> list[dict[str, Any]]:
    """Return a row per job with the address of its cell, its user, wait and slowdowns, and its facts."""
    own = ("id", "user", "state", "submitted_at", "started_at", "ended_at", "runtime_s", "wait_s")
    frame = table.frame.select(pl.lit(address).alias("address"), *own, "n_procs", "n_segments").rename({"id": "job"})
    frame = frame.with_columns(table.column(name, tau_s) for name in ("slowdown", "bounded_slowdown"))
    frame = frame.with_columns(table.column(name) for name in table.facts if name not in frame.columns)
    if any("evaluated" in fields for fields in table.fields):
        frame = frame.with_columns(table.frame["evaluated"])
    return frame.with_columns(_field_column(table, name) for name in KEPT_FIELDS).to_dicts()


def _field_column(table: JobResults, name: str) -> pl.Series:
    """Return a field of all jobs; null where a job does not have it, or where a number is expected and not found."""
    is_text = KEPT_FIELDS[name] == pl.String
    values = [table.fields[row].get(name) for row in table.frame["row"]]
    found = [value if not is_text and type(value) in {int, float} else None for value in values]
    texts = [None if value is None else str(value) for value in values]
    return pl.Series(name, texts if is_text else found, KEPT_FIELDS[name], strict=False)


def run_or_error(cell: Mapping[str, Any], folder: str | None = None) -> dict[str, Any]:
    """Run a cell and return its result, or its error: a failed cell does not stop the others."""
    try:
        return {"address": cell["address"], **run_cell(cell, folder)}
    except PybatschedError as error:
        return {"address": cell["address"], "error": f"{type(error).__name__}: {error.spelled(as_key)}"}
    except Exception as error:  # noqa: BLE001  the error is kept with the cell
        where = "".join(traceback.format_tb(error.__traceback__)).splitlines()[-_N_TRACE_LINES:]
        return {"address": cell["address"], "error": "\n".join([f"{type(error).__name__}: {error}", *where])}
