"""The figures of a run by name, of all jobs and of each class of jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from pybatsched.core.events import FINAL_STATES, NOTHING
from pybatsched.metrics import truncated
from pybatsched.metrics.distributions import distribution
from pybatsched.metrics.job_results import JobResults
from pybatsched.metrics.node_use import figures_of_summary
from pybatsched.metrics.outcomes import MAY_CONTINUE, digest_of_ids
from pybatsched.metrics.summary import STATE_COUNTS

#: Statistics of a measure for each kind of job.
_OF_KINDS: Final = (("mean", "mean"), ("max", "maximum"))
#: Statistics of a measure for all jobs.
_STATISTICS: Final = ("mean", "std", "p5", "p25", "p50", "p75", "p95", "p99", "max")


def figures_of(
    table: JobResults, n_procs: int, tau_s: float, summary: Mapping[str, Any] = NOTHING
) -> dict[str, float | int | None]:
    """Return the figures of a run by name: counts, measures of all jobs and of each kind, utilisation, queue, end.

    If some jobs are not evaluated, utilisation, queue and end include all jobs; the other figures include only
    evaluated jobs. In a run that was truncated, utilisation and queue include the jobs that ran and waited
    then. A figure of a fact never replaces another figure of the same name.
    """
    jobs, frame = table.evaluated, table.evaluated.frame
    cut = truncated.of_summary("the summary", summary)
    queue = table.queue_length(cut)
    row: dict[str, Any] = {
        "n_jobs": len(jobs),
        "n_left_out": len(table) - len(jobs),
        "n_ran": jobs.ran.height,
        "n_requeued": int((frame["n_segments"] > 1).sum()),
        "utilisation": table.utilisation(n_procs, cut),
        "makespan_s": table.frame["ended_at"].max(),
        "mean_queue_length": queue.mean(*table.span_until(cut)),
        "max_queue_length": queue.maximum,
    }
    row |= counts_of(table, summary)
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


def counts_of(table: JobResults, summary: Mapping[str, Any]) -> dict[str, int]:
    """Return the counts of the jobs of a run by their final states, of those left at its end, and which were lost."""
    frame = table.evaluated.frame
    states = Counter(frame["state"])
    lost = frame.filter(frame["state"].is_in(list(MAY_CONTINUE)))["id"].to_list()
    lost += [str(one.get("job")) for one in summary.get("unfinished") or () if isinstance(one, dict)]
    counts = {STATE_COUNTS[state]: states[state] for state in FINAL_STATES}
    return {"n_jobs": len(frame), **counts, "n_unfinished": summary.get("n_unfinished") or 0, **digest_of_ids(lost)}


def figures_of_run(table: JobResults, n_procs: int, tau_s: float, summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a run, with those that only its summary has: of nodes, energy, and of the policy."""
    row: dict[str, Any] = figures_of(table, n_procs, tau_s, summary)
    row |= figures_of_summary(summary)
    row |= summary.get("energy") or {}
    row |= {"n_broken_promises": len(summary.get("broken_promises") or ()), "n_messages": summary.get("n_messages")}
    own = summary.get("policy_figures")
    return {**own, **row} if isinstance(own, Mapping) else row


def figures_of_each(table: JobResults, key: str, tau_s: float) -> dict[str, dict[str, float | int]]:
    """Return the figures of each class of jobs, such as each user: counts, means, maxima, totals of facts."""
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
        found[name] = {**of_facts, **row, **members.use_of_nodes()}
    return found
