"""The result of a run: the table at its end, and a JSON summary from which the run can be repeated."""

from __future__ import annotations

import json
import platform as python_platform
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pybatsched.core import decisions as d, events as e
from pybatsched.core.intervals import IntervalSet
from pybatsched.errors import InputError, quantity, spelled
from pybatsched.metrics.energy import TITLES, Energy, energy_text
from pybatsched.metrics.figure_names import figure_title
from pybatsched.text_table import aligned
from pybatsched.version import __version__

if TYPE_CHECKING:
    from pybatsched.core.engine import Engine
    from pybatsched.metrics import Figures

FORMAT: Final = "pybatsched-summary"
FORMAT_VERSION: Final = 1

#: The members of a summary with the nodes of the machine, and with the figures of nodes.
NODES: Final = "nodes"
NODE_FIGURES: Final = "node_figures"
#: How the names of the figures of partitions begin.
OF_PARTITION: Final = "utilisation_of_"
#: Short names of the final states.
STATE_WORDS: Final = {
    e.COMPLETED_SUCCESSFULLY: "completed",
    e.COMPLETED_FAILED: "failed",
    e.COMPLETED_WALLTIME_REACHED: "walltime reached",
    e.COMPLETED_KILLED: "killed",
    e.REJECTED: "rejected",
}
#: The names of the counts of final states: n_completed, n_walltime_reached, …
STATE_COUNTS: Final = {state: "n_" + word.replace(" ", "_") for state, word in STATE_WORDS.items()}


class Stuck(msgspec.Struct, frozen=True):
    """A job that is unfinished at the end, and why. If it runs, it has `started_at` and holds `n_procs`.

    If nodes are counted, a running job has its processors and the fields with its request.
    """

    job_id: str
    n_procs: int
    submitted_at: float
    why: str
    started_at: float | None = None
    procs: str = ""
    fields: Mapping[str, Any] = {}


class Result(msgspec.Struct, frozen=True):
    """The result of a run. `stuck` is empty if it finished; `energy` is None if it was not simulated.

    `stopped` is the reason if the run was ended from outside. `cut_at` is the time at which the simulation was
    truncated, with `n_to_come` jobs not submitted yet. `n_too_large` jobs were rejected because the machine is too
    small for them. `predictions_by_user` has the quality of predicted run times, if there are any.
    `reservations` are the windows of reserved hosts, `unavailable` the outages of hosts; the `end` of an outage is None
    if the hosts were still down. `nodes` are the nodes of the machine if requests of jobs were counted on them, and
    `node_figures` how they were used. `clock` is SimGrid's, if the run had it and its network.
    """

    finished: bool
    ended_at: float
    n_messages: int
    figures: Figures
    stuck: tuple[Stuck, ...]
    rejections: tuple[tuple[int, str], ...] = ()
    remarks: tuple[str, ...] = ()
    broken_promises: tuple[str, ...] = ()
    policy_figures: Mapping[str, float] = {}
    stopped: str = ""
    cut_at: float | None = None
    n_to_come: int = 0
    energy: Energy | None = None
    n_too_large: int = 0
    predictions_by_user: Mapping[str, Mapping[str, float]] = {}
    reservations: tuple[Mapping[str, Any], ...] = ()
    unavailable: tuple[Mapping[str, Any], ...] = ()
    nodes: tuple[Mapping[str, Any], ...] = ()
    node_figures: Mapping[str, float] = {}
    clock: str = ""


def from_engine(engine: Engine) -> dict[str, Any]:
    """Return the members of a `Result` that only the engine knows, except its remarks."""
    return {
        "rejections": tuple((n, d.reason_text(why)) for n, why in engine.rejections.values()),
        "broken_promises": engine.broken_promises,
        "policy_figures": engine.figures,
        "predictions_by_user": engine.predictions_by_user,
        **{name: tuple(table) for name, table in engine.tables.items()},
    }


class RunSetting(msgspec.Struct, frozen=True):
    """The setting of a run: inputs with digests, size, clusters if several, Batsim's options, policy."""

    inputs: Mapping[str, list[dict[str, str]]]
    n_procs: int
    n_jobs: int
    batsim_options: Mapping[str, Any]
    policy: Mapping[str, Any] | None
    clusters: Mapping[str, str] = {}


def clusters_text(groups: Mapping[str, IntervalSet]) -> dict[str, str]:
    """Return the processors of each cluster as text for files; empty unless there are several clusters."""
    return {name: str(procs) for name, procs in groups.items()} if len(groups) > 1 else {}


def of_run(
    setting: RunSetting, result: Result, extra: Mapping[str, Any], simulator: Mapping[str, str]
) -> dict[str, Any]:
    """Return the summary of a run and the version of Batsim, without dates: equal runs have equal summaries."""
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "versions": {"pybatsched": __version__, "python": python_platform.python_version(), **simulator},
        "inputs": dict(setting.inputs),
        "n_procs": setting.n_procs,
        **({"clusters": dict(setting.clusters)} if setting.clusters else {}),
        "n_jobs_in_workloads": setting.n_jobs,
        "batsim_options": dict(setting.batsim_options),
        "policy": setting.policy,
        **extra,
        "finished": result.finished,
        "ended_at": result.ended_at,
        **({"stopped": result.stopped} if result.stopped else {}),
        **({"cut_at": result.cut_at, "n_to_come": result.n_to_come} if result.cut_at is not None else {}),
        **({"clock": result.clock} if result.clock else {}),
        "n_messages": result.n_messages,
        "figures": result.figures.as_dict(),
        **({NODE_FIGURES: dict(result.node_figures)} if result.node_figures else {}),
        **({"energy": result.energy.as_dict()} if result.energy is not None else {}),
        **({"policy_figures": dict(result.policy_figures)} if result.policy_figures else {}),
        **({"predictions_by_user": dict(result.predictions_by_user)} if result.predictions_by_user else {}),
        **({"reservations": [dict(one) for one in result.reservations]} if result.reservations else {}),
        **({"unavailable": _outages(result)} if result.unavailable else {}),
        **({NODES: [dict(one) for one in result.nodes]} if result.nodes else {}),
        "n_unfinished": len(result.stuck),
        "unfinished": [_unfinished(job, is_cut=result.cut_at is not None) for job in result.stuck],
        "rejections": [{"n": n, "first_reason": why} for n, why in result.rejections],
        "remarks": [spelled(remark) for remark in result.remarks],
        "broken_promises": list(result.broken_promises),
    }


def _outages(result: Result) -> list[dict[str, Any]]:
    """Return the outages of hosts; the last ones end with the run."""
    return [{**one, "end": result.ended_at if one["end"] is None else one["end"]} for one in result.unavailable]


def _unfinished(job: Stuck, *, is_cut: bool) -> dict[str, Any]:
    """Return the entry of an unfinished job; in a truncated run with the members that `metrics.truncated` reads."""
    entry: dict[str, Any] = {"job": job.job_id, "why": job.why}
    if is_cut:
        entry |= {"n_procs": job.n_procs, "submitted_at": job.submitted_at}
        entry |= {} if job.started_at is None else {"started_at": job.started_at}
        entry |= {"procs": job.procs, "fields": dict(job.fields)} if job.procs else {}
    return entry


def write(path: str, summary: Mapping[str, Any]) -> None:
    """Write a summary."""
    try:
        Path(path).write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None


def closing_table(result: Result) -> list[str]:
    """Return the lines of the table at the end of a run."""
    figures = result.figures
    shown = [state for state in STATE_WORDS if state in figures.n_by_state or state == e.COMPLETED_SUCCESSFULLY]
    rows = [(STATE_WORDS[state], f"{figures.n_by_state.get(state, 0):,}") for state in shown]
    if result.stuck:
        rows.append(("unfinished", f"{len(result.stuck):,}"))
    if result.n_to_come:
        rows.append(("still to come", f"{result.n_to_come:,}"))
    rows = [(f"jobs {what}", value) for what, value in rows]
    if figures.n_left_out:
        rows.append(("jobs left out: not evaluated", f"{figures.n_left_out:,}"))
    rows += [
        ("mean wait", _seconds(figures.mean_wait_s)),
        ("max wait", _seconds(figures.max_wait_s)),
        (f"mean bounded slowdown (tau {figures.tau_s:g} s)", _plain(figures.mean_bounded_slowdown)),
        ("max bounded slowdown", _plain(figures.max_bounded_slowdown)),
        ("utilisation", "-" if figures.utilisation is None else f"{figures.utilisation:.2%}"),
        ("makespan", _seconds(figures.makespan_s)),
    ]
    of_nodes = {name: value for name, value in result.node_figures.items() if not name.startswith(OF_PARTITION)}
    rows += [(figure_title(name), f"{value:.2%}") for name, value in of_nodes.items()]
    if result.energy is not None:
        rows += [(TITLES[name], energy_text(joules)) for name, joules in result.energy.as_dict().items()]
    rows += [(name, _number(value)) for name, value in result.policy_figures.items()]
    lines = aligned(rows, "lr")
    if result.n_too_large:
        n_all = sum(figures.n_by_state.values()) + figures.n_left_out + len(result.stuck) + result.n_to_come
        were = "was" if result.n_too_large == 1 else "were"
        text = f"{result.n_too_large:,} of {quantity(n_all, 'job')} {were} rejected: the machine is too small"
        lines = [f"warning: {text}", *lines]
    if figures.n_left_out and not figures.n_jobs:
        lines.append("there are no figures of jobs: none has evaluated: true")
    lines += losses(result)
    return lines


def nothing_completed(n_by_state: Mapping[str, int]) -> str:
    """Return why no job completed, if there were jobs and all were rejected or killed; else an empty text.

    >>> nothing_completed({"REJECTED": 3, "COMPLETED_KILLED": 1}), nothing_completed({"COMPLETED_FAILED": 1})
    ('none of 4 jobs completed: 3 rejected, 1 killed', '')
    """
    lost = {STATE_WORDS[state]: n_by_state.get(state, 0) for state in (e.REJECTED, e.COMPLETED_KILLED)}
    n_jobs = sum(n_by_state.values())
    if not n_jobs or n_jobs > sum(lost.values()):
        return ""
    counts = ", ".join(f"{n:,} {word}" for word, n in lost.items() if n)
    return f"none of {quantity(n_jobs, 'job')} completed: {counts}"


def losses(result: Result) -> list[str]:
    """Return the number of rejected jobs for each rule, with the first reason, and of killed jobs."""
    # In a truncated run, killed jobs might have run again.
    n = 0 if result.cut_at is not None else result.figures.n_by_state.get(e.COMPLETED_KILLED, 0)
    found = [f"{quantity(n, 'job')} rejected, first reason: {why or 'none was given'}" for n, why in result.rejections]
    return [*found, f"{quantity(n, 'job')} killed, which did not run again"] if n else found


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f} s"


def _number(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.3f}"


def _plain(value: float | None) -> str:
    return "-" if value is None else f"{value:,.3f}"
