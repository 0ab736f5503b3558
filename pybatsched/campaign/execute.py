"""Running one cell, in whatever process: inputs by name, a dictionary of figures out."""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pybatsched.core.events import FINAL_STATES
from pybatsched.errors import PybatschedError, UnfinishedError, quantity
from pybatsched.machines import names
from pybatsched.metrics import jobs_csv, joined
from pybatsched.metrics.classes import by_class, facts_told, measured, plain_measures_of, values_of
from pybatsched.metrics.distributions import distribution
from pybatsched.metrics.fields import chosen, evaluated, fields_of
from pybatsched.metrics.outcomes import JobRecord
from pybatsched.metrics.paired import stays_of
from pybatsched.metrics.series import queue_length, span_of
from pybatsched.platform import model
from pybatsched.policies import registry
from pybatsched.simulator import run as runs
from pybatsched.simulator.options import Scenario, SimulationOptions
from pybatsched.simulator.outputs.files import Outputs
from pybatsched.workload import jobs as ids, jobs as job_fields, load

#: Values of a measure that go into a row: of each kind of job, and of all.
_OF_KINDS: Final = (("mean", "mean"), ("max", "maximum"))
#: So many lines of a traceback are kept with a cell that failed for no reason we know.
_N_TRACE_LINES: Final = 12
_TOLD: Final = ("mean", "std", "p5", "p25", "p50", "p75", "p95", "p99", "max")
#: Of facts, which not every job has and which may be amounts, also how many jobs have one, and the sum.
_TOLD_OF_FACTS: Final = ("n", *_TOLD)


def run_cell(cell: Mapping[str, Any], folder: str | None = None) -> dict[str, Any]:
    """Run a cell and give its figures; files stay in `folder` if it wants to keep them. Raises what a run raises."""
    workload = load(cell["workload_file"])
    ids.check_ids({"w0": workload})
    fields = fields_of({"w0": workload})
    platform = model.uniform(cell["procs"]) if cell["procs"] else names.find(cell["platform"]).read()
    source = registry.find(cell["policy"], trusted=True)  # the owner's campaign names it
    plan = registry.PolicyPlan(source, dict(cell["options"]), given_by="the campaign", trusted=True)
    job_fields.check_fields([workload], plan.field_models())
    options = runs.with_needs(SimulationOptions(), plan)
    scenario = Scenario(platform, {"w0": workload}, options)
    with tempfile.TemporaryDirectory(prefix="pybatsched-") as scratch:
        place = folder if folder is not None and cell["keep"] == "files" else scratch
        Path(place).mkdir(parents=True, exist_ok=True)
        outputs = Outputs(f"{place}/run", machine_states=cell["keep"] == "files")
        result = runs.run_policy(scenario, plan, outputs)
        if not result.finished:
            raise UnfinishedError(
                f"{quantity(len(result.stuck), 'job')} unfinished; {result.stuck[0].why}" if result.stuck else ""
            )
        records = joined(jobs_csv.read(f"{place}/run_jobs.csv"), fields)
    row = figures_of(records, platform.n_procs, cell["tau_s"])
    row |= {"n_messages": result.n_messages, "n_broken_promises": len(result.broken_promises)}
    row = {**result.policy_figures, **row}  # a name that is ours already stays ours
    each = {key: figures_of_each(records, key, cell["tau_s"]) for key in cell["each"]}
    return {
        "figures": row,
        **({"each": each} if each else {}),
        **({"ends": _ends(records, cell["compared"])} if cell.get("compared") is not None else {}),
        "jobs": _jobs(records) if cell["keep"] == "jobs" else [],
    }


def figures_of(records: list[JobRecord], n_procs: int, tau_s: float) -> dict[str, float | int | None]:
    """Give the figures of a run by name: counts, measures of all jobs and of each kind, utilisation, queue, end.

    Where some jobs are not evaluated, what is told of the machine is of all jobs (utilisation, queue, end), the rest of
    those that are. A figure of a fact never takes the name of another one.
    """
    jobs = list(evaluated(records))
    begin, end = span_of(records)
    held_s = sum(part.n_procs * part.runtime_s for record in records for part in record.segments)
    queue = queue_length(records)
    row: dict[str, float | int | None] = {
        "n_jobs": len(jobs),
        "n_left_out": len(records) - len(jobs),
        "n_ran": sum(job.ran for job in jobs),
        "n_requeued": sum(len(job.segments) > 1 for job in jobs),
        "utilisation": held_s / (n_procs * (end - begin)) if end > begin else None,
        "makespan_s": end if end > begin else None,
        "queue_length_mean": queue.mean(begin, end),
        "queue_length_max": queue.maximum,
    }
    for state in FINAL_STATES:
        row[f"n_{state.lower().removeprefix('completed_')}"] = sum(job.state == state for job in jobs)
    measures = plain_measures_of(jobs)
    for measure in measures:
        told = measured(jobs, measure, tau_s)
        values = told.as_dict() if told is not None else {}
        row |= {f"{measure}_{name}": values.get(name) for name in _TOLD}
    facts = facts_told(jobs)
    of_facts: dict[str, float | int | None] = {}
    for fact in facts:
        told = measured(jobs, fact)
        if told is not None:
            of_facts[f"{fact}_total"] = told.total
            of_facts |= {f"{fact}_{name}": told.as_dict()[name] for name in _TOLD_OF_FACTS}
    kinds = by_class(jobs, "kind")
    if kinds.keys() - {"regular"}:
        for kind, members in kinds.items():
            row[f"{kind}_n_jobs"] = len(members)
            row[f"{kind}_n_late"] = sum(member.is_late for member in members)
            for measure in measures:
                told = distribution(values_of(members, measure, tau_s))
                row |= {f"{kind}_{measure}_{name}": getattr(told, key, None) for name, key in _OF_KINDS}
            for fact in facts:
                told = distribution(values_of(members, fact))
                of_kind = (("total", "total"), *_OF_KINDS)
                of_facts |= {f"{kind}_{fact}_{name}": getattr(told, key, None) for name, key in of_kind}
    return row | {name: value for name, value in of_facts.items() if name not in row}


def figures_of_each(records: list[JobRecord], key: str, tau_s: float) -> dict[str, dict[str, float | int]]:
    """Give the figures of each class of jobs, as of each user: how many there are, means and maxima, totals of facts.

    A class has those figures that its jobs have.
    """
    found: dict[str, dict[str, float | int]] = {}
    for name, members in by_class(evaluated(records), key).items():
        facts = facts_told(members)
        of_facts: dict[str, float | int] = {}
        row: dict[str, float | int] = {"n_jobs": len(members)}
        for measure in (*plain_measures_of(members), *facts):
            told = distribution(values_of(members, measure, tau_s))
            if told is not None:
                own = of_facts if measure in facts else row
                own |= {f"{measure}_{word}": getattr(told, member) for word, member in _OF_KINDS}
                if measure in facts:
                    own[f"{measure}_total"] = told.total
        found[name] = {**of_facts, **row}
    return found


def _ends(records: list[JobRecord], where: Mapping[str, Any]) -> list[tuple[str, float, float]]:
    """Give submission and end of the jobs that are compared with those of another run, by their ids."""
    return [(name, *stay) for name, stay in stays_of(chosen(evaluated(records), where)).items()]


def _jobs(records: list[JobRecord]) -> list[dict[str, Any]]:
    """Give a row a job, for those who want more than figures: with its facts, and whether it counts if not all do."""
    own = ("job", "state", "submitted_at", "started_at", "ended_at", "runtime_s", "n_procs", "n_segments")
    facts = [name for name in facts_told(records) if name not in own]
    some_count = any("evaluated" in record.fields for record in records)
    return [
        {
            "job": record.id,
            "state": record.state,
            "submitted_at": record.submitted_at,
            "started_at": record.started_at if record.ran else None,
            "ended_at": record.ended_at if record.ran else None,
            "runtime_s": record.runtime_s if record.ran else None,
            "n_procs": record.n_procs,
            "n_segments": len(record.segments),
        }
        | {name: record.facts.get(name) for name in facts}
        | ({"evaluated": record.fields.get("evaluated") is True} if some_count else {})
        for record in records
    ]


def tried(cell: Mapping[str, Any], folder: str | None = None) -> dict[str, Any]:
    """Run a cell; what it raises becomes part of the answer, so that one cell never stops others."""
    try:
        return {"address": cell["address"], **run_cell(cell, folder)}
    except PybatschedError as error:
        return {"address": cell["address"], "error": f"{type(error).__name__}: {error}"}
    except Exception as error:  # noqa: BLE001  whosever it is: told with the cell, the others go on
        where = "".join(traceback.format_tb(error.__traceback__)).splitlines()[-_N_TRACE_LINES:]
        return {"address": cell["address"], "error": "\n".join([f"{type(error).__name__}: {error}", *where])}
