"""Run one cell of a campaign, in any process: from a dictionary of inputs to a dictionary of figures."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import polars as pl

from pybatsched.core.events import FINAL_STATES
from pybatsched.errors import PybatschedError, UnfinishedError, quantity
from pybatsched.machines import names
from pybatsched.metrics.compare.paired import stays_of
from pybatsched.metrics.distributions import distribution
from pybatsched.metrics.job_table import JobTable
from pybatsched.metrics.summary import STATE_COUNTS
from pybatsched.metrics.truncated import Truncation
from pybatsched.metrics.workload_fields import fields_of
from pybatsched.platform import model
from pybatsched.policies import registry
from pybatsched.simulator import run as runs
from pybatsched.simulator.failure_events import FailureModel, checkpointed
from pybatsched.simulator.options import Scenario, SimulationOptions
from pybatsched.simulator.outputs.files import Outputs
from pybatsched.workload import Workload, jobs as workload_jobs, load
from pybatsched.workload.inject.checkpoints import Checkpointing

#: Statistics of a measure for each kind of job.
_OF_KINDS: Final = (("mean", "mean"), ("max", "maximum"))
#: Number of lines of a traceback that are kept for an unexpected error.
_N_TRACE_LINES: Final = 12
#: Statistics of a measure for all jobs.
_STATISTICS: Final = ("mean", "std", "p5", "p25", "p50", "p75", "p95", "p99", "max")


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
    workload, fields = _workload_of(cell["workload_file"])
    platform = model.uniform(cell["procs"]) if cell["procs"] else names.find(cell["platform"]).read()
    source = registry.find(cell["policy"], trusted=True)  # the user's campaign names it
    plan = registry.PolicyPlan(source, dict(cell["options"]), given_by="the campaign", trusted=True)
    workload_jobs.check_fields([workload], plan.field_models())
    events = []
    failures = None if cell.get("failures") is None else FailureModel.of_settings(cell["failures"])
    if failures is not None:
        plan = runs.with_failure_rule(plan, SimulationOptions(), failures)
        events.append(failures.on(platform))
    saving = None if cell.get("checkpoint") is None else Checkpointing.of_settings(cell["checkpoint"])
    options = runs.with_needs(SimulationOptions(), plan)
    scenario = Scenario(platform, checkpointed({"w0": workload}, saving, platform, failures), options, events)
    keeps_files = folder is not None and cell["keep"] == "files"
    if keeps_files:
        Path(str(folder)).mkdir(parents=True, exist_ok=True)
    outputs = Outputs(f"{folder}/run" if keeps_files else None)
    outputs.outcomes = []
    result = runs.run_policy(scenario, plan, outputs)
    if not result.finished:
        raise UnfinishedError(
            f"{quantity(len(result.stuck), 'job')} unfinished; {result.stuck[0].why}" if result.stuck else ""
        )
    jobs = JobTable.of_outcomes(outputs.outcomes, fields)
    row = figures_of(jobs, platform.n_procs, cell["tau_s"])
    row |= {"n_messages": result.n_messages, "n_broken_promises": len(result.broken_promises)}
    row = {**result.policy_figures, **row}  # figures of policies do not replace these
    each = {key: figures_of_each(jobs, key, cell["tau_s"]) for key in cell["each"]}
    return {
        "figures": row,
        **({"each": each} if each else {}),
        **({"ends": _ends(jobs, cell["compared"])} if cell.get("compared") is not None else {}),
        "jobs": _jobs(jobs, cell["address"], cell["tau_s"]) if cell["keep"] == "jobs" else [],
    }


def figures_of(
    table: JobTable, n_procs: int, tau_s: float, cut: Truncation | None = None
) -> dict[str, float | int | None]:
    """Return the figures of a run by name: counts, measures of all jobs and of each kind, utilisation, queue, end.

    If some jobs are not evaluated, utilisation, queue and end include all jobs; the other figures include only
    evaluated jobs. In a run that was truncated, utilisation and queue include the jobs that ran and waited at the
    `cut`. A figure of a fact never replaces another figure of the same name.
    """
    jobs, frame = table.evaluated, table.evaluated.frame
    begin, end = table.span
    queue = table.queue_length(cut)
    states = Counter(frame["state"])
    row: dict[str, float | int | None] = {
        "n_jobs": len(jobs),
        "n_left_out": len(table) - len(jobs),
        "n_ran": jobs.ran.height,
        "n_requeued": int((frame["n_segments"] > 1).sum()),
        "utilisation": table.utilisation(n_procs, cut),
        "makespan_s": end if end > begin else None,
        "mean_queue_length": queue.mean(*table.span_until(cut)),
        "max_queue_length": queue.maximum,
    }
    for state in FINAL_STATES:
        row[STATE_COUNTS[state]] = states[state]
    measures = jobs.plain_measures
    for measure in measures:
        statistics = jobs.distribution(measure, tau_s)
        values = statistics.as_dict() if statistics is not None else {}
        row |= {f"{name}_{measure}": values.get(name) for name in _STATISTICS}
    facts = jobs.facts
    of_facts: dict[str, float | int | None] = {}
    for fact in facts:
        statistics = jobs.distribution(fact)
        if statistics is not None:
            of_facts |= {f"total_{fact}": statistics.total, f"n_jobs_with_{fact}": statistics.n}
            of_facts |= {f"{name}_{fact}": statistics.as_dict()[name] for name in _STATISTICS}
    kinds = jobs.by_class("kind")
    if kinds.keys() - {"regular"}:
        for kind, members in kinds.items():
            row[f"{kind}_n_jobs"] = len(members)
            row[f"{kind}_n_late"] = int(members.frame["is_late"].sum())
            for measure in measures:
                statistics = distribution(members.values(measure, tau_s))
                row |= {f"{kind}_{name}_{measure}": getattr(statistics, key, None) for name, key in _OF_KINDS}
            for fact in facts:
                statistics = distribution(members.values(fact))
                of_kind = (("total", "total"), *_OF_KINDS)
                of_facts |= {f"{kind}_{name}_{fact}": getattr(statistics, key, None) for name, key in of_kind}
    return row | {name: value for name, value in of_facts.items() if name not in row}


def figures_of_each(table: JobTable, key: str, tau_s: float) -> dict[str, dict[str, float | int]]:
    """Return the figures of each class of jobs, such as each user: number of jobs, means, maxima, totals of facts.

    A class has the figures of its own jobs only.
    """
    found: dict[str, dict[str, float | int]] = {}
    for name, members in table.evaluated.by_class(key).items():
        of_facts: dict[str, float | int] = {}
        row: dict[str, float | int] = {"n_jobs": len(members)}
        for measure in (*members.plain_measures, *members.facts):
            statistics = distribution(members.values(measure, tau_s))
            if statistics is not None:
                own = of_facts if measure in members.facts else row
                own |= {f"{name}_{measure}": getattr(statistics, member) for name, member in _OF_KINDS}
                if measure in members.facts:
                    own[f"total_{measure}"] = statistics.total
        found[name] = {**of_facts, **row}
    return found


#: Fields of jobs in the tables of kept jobs. All tables have all of them, so that they can be read together.
KEPT_FIELDS: Final[dict[str, type[pl.DataType]]] = {
    **dict.fromkeys(("account", "group", "partition", "queue", "qos", "exit_state"), pl.String),
    **dict.fromkeys(("gpus", "memory_gb", "status"), pl.Float64),
}


def _ends(jobs: JobTable, where: Mapping[str, Any]) -> list[tuple[str, float, float]]:
    """Return id, submission and end of the jobs that are compared with a baseline."""
    return [(name, *stay) for name, stay in stays_of(jobs.evaluated.chosen(where)).items()]


def _jobs(table: JobTable, address: str, tau_s: float) -> list[dict[str, Any]]:
    """Return a row per job with the address of its cell, its user, wait and slowdowns, and its facts.

    The rows have `evaluated` if some jobs have that field, and always the columns of `KEPT_FIELDS`.
    """
    own = ("id", "user", "state", "submitted_at", "started_at", "ended_at", "runtime_s", "wait_s")
    frame = table.frame.select(pl.lit(address).alias("address"), *own, "n_procs", "n_segments").rename({"id": "job"})
    frame = frame.with_columns(table.column(name, tau_s) for name in ("slowdown", "bounded_slowdown"))
    frame = frame.with_columns(table.column(name) for name in table.facts if name not in frame.columns)
    if any("evaluated" in fields for fields in table.fields):
        frame = frame.with_columns(table.frame["evaluated"])
    return frame.with_columns(_field_column(table, name) for name in KEPT_FIELDS).to_dicts()


def _field_column(table: JobTable, name: str) -> pl.Series:
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
        return {"address": cell["address"], "error": f"{type(error).__name__}: {error}"}
    except Exception as error:  # noqa: BLE001  the error is kept with the cell
        where = "".join(traceback.format_tb(error.__traceback__)).splitlines()[-_N_TRACE_LINES:]
        return {"address": cell["address"], "error": "\n".join([f"{type(error).__name__}: {error}", *where])}
