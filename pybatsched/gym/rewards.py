"""Rewards of actions, from the events up to the next choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from pybatsched.core.jobs import Job
from pybatsched.errors import InputError
from pybatsched.metrics import Figures, Outcome
from pybatsched.metrics.slowdown import bounded_slowdown


class Since(NamedTuple):
    """What happened from one choice to the next. `figures` are those of the whole episode at its end."""

    from_at: float
    to_at: float
    started: Sequence[Job]
    ended: Sequence[Outcome]
    n_jobs: int
    n_procs: int
    tau_s: float
    figures: Figures | None = None


Reward: TypeAlias = Callable[[Since], float]


def _bounded_slowdown(since: Since) -> float:
    """Return the negative bounded slowdowns of the ended jobs, divided by n_jobs; their sum is the negative mean."""
    total = sum(
        bounded_slowdown(max(job.started_at - job.submitted_at, 0.0), job.runtime_s, since.tau_s) for job in since.ended
    )
    return -total / since.n_jobs


def _wait(since: Since) -> float:
    """Return the negative wait of the started job in seconds, divided by n_jobs; the sum is the negative mean."""
    return -sum(max(since.from_at - job.submitted_at, 0.0) for job in since.started) / since.n_jobs


def _utilisation(since: Since) -> float:
    """Return the utilisation of the machine at the end of the episode, and 0 before."""
    return 0.0 if since.figures is None else since.figures.utilisation or 0.0


REWARDS: Final[Mapping[str, Reward]] = {
    "bounded_slowdown": _bounded_slowdown,
    "wait": _wait,
    "utilisation": _utilisation,
}


def reward_of(wanted: Any) -> Reward:
    """Return a reward by its name; a function is returned unchanged. InputError lists the names."""
    if callable(wanted):
        found: Reward = wanted
        return found
    if not isinstance(wanted, str) or wanted not in REWARDS:
        raise InputError(f"reward: expected one of {', '.join(REWARDS)}, or a function, found {wanted!r:.60}")
    return REWARDS[wanted]
