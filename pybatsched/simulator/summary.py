"""The last word of a run: a table for people, and a JSON summary from which it can be repeated."""

from __future__ import annotations

import hashlib
import json
import platform as python_platform
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pybatsched import __version__
from pybatsched import events as e
from pybatsched.errors import InputError
from pybatsched.simulator.outputs import BATSIM_VERSION

if TYPE_CHECKING:
    from pybatsched.simulator.options import Scenario
    from pybatsched.simulator.run import Result

FORMAT: Final = "pybatsched-summary"
FORMAT_VERSION: Final = 1

#: Final states in the order in which people want to read them, and what they read.
_WORDS: Final = {
    e.COMPLETED_SUCCESSFULLY: "completed",
    e.COMPLETED_FAILED: "failed",
    e.COMPLETED_WALLTIME_REACHED: "walltime reached",
    e.COMPLETED_KILLED: "killed",
    e.REJECTED: "rejected",
}


def of_run(
    scenario: Scenario,
    policy: Mapping[str, Any] | None,
    result: Result,
    inputs: Mapping[str, list[str]],
    extra: Mapping[str, Any],
) -> dict[str, Any]:
    """Give all that determines a run and all it came to. O(size of the inputs).

    `policy` is its name, origin and options, None for an external scheduler; `inputs` are the files by kind.

    Nothing in it depends on when or where the run was made: the same run gives the same summary, byte for byte.
    """
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "versions": {
            "pybatsched": __version__,
            "python": python_platform.python_version(),
            "behaves_as_batsim": BATSIM_VERSION,
        },
        "inputs": {kind: [_digest(path) for path in paths] for kind, paths in inputs.items()},
        "n_procs": scenario.platform.n_procs,
        "n_jobs_in_workloads": sum(len(workload.jobs) for workload in scenario.workloads.values()),
        "batsim_options": scenario.options.told()
        | {
            "energy": scenario.options.energy,
            "compute-sharing": scenario.options.compute_sharing,
            "storage-sharing": scenario.options.storage_sharing,
        },
        "policy": policy,
        **extra,
        "finished": result.finished,
        "ended_at": result.ended_at,
        "n_messages": result.n_messages,
        "figures": result.figures.as_dict(),
        "n_unfinished": len(result.stuck),
        "unfinished": [{"job": job.job_id, "why": job.why} for job in result.stuck],
        "rejections": [{"n": n, "first_reason": why} for n, why in result.rejections],
    }


def _digest(path: str) -> dict[str, str]:
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    return {"file": path, "sha256": hashlib.sha256(content).hexdigest()}


def write(path: str, summary: Mapping[str, Any]) -> None:
    """Write a summary."""
    try:
        Path(path).write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None


def table(result: Result) -> list[str]:
    """Give the closing table, a line each."""
    figures = result.figures
    shown = [state for state in _WORDS if state in figures.n_by_state or state == e.COMPLETED_SUCCESSFULLY]
    rows = [(_WORDS[state], f"{figures.n_by_state.get(state, 0):,}") for state in shown]
    if result.stuck:
        rows.append(("unfinished", f"{len(result.stuck):,}"))
    rows = [(f"jobs {what}", value) for what, value in rows]
    rows += [
        ("mean wait", _seconds(figures.mean_wait_s)),
        ("max wait", _seconds(figures.max_wait_s)),
        (f"mean bounded slowdown (tau {figures.tau_s:g} s)", _plain(figures.mean_bounded_slowdown)),
        ("max bounded slowdown", _plain(figures.max_bounded_slowdown)),
        ("utilisation", "-" if figures.utilisation is None else f"{figures.utilisation:.2%}"),
        ("makespan", _seconds(figures.makespan_s)),
    ]
    width, value_width = (max(len(row[i]) for row in rows) for i in (0, 1))
    lines = [f"{name:<{width}}  {value:>{value_width}}" for name, value in rows]
    lines += [f"{n} rejected, first reason: {why or 'none was given'}" for n, why in result.rejections]
    return lines


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f} s"


def _plain(value: float | None) -> str:
    return "-" if value is None else f"{value:,.3f}"
