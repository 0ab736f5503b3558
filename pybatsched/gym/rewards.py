"""What a choice was worth, by what has happened until the next one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from pybatsched.core.jobs import Job
from pybatsched.errors import InputError
from pybatsched.metrics import Figures, Outcome
from pybatsched.metrics.tally import bounded_slowdown


class Since(NamedTuple):
    """What has happened since a choice, itself included: from one instant to another, of an episode of `n_jobs`.

    `started` are the jobs that it started (one at most), `ended` those that were over by the next choice, and `figures`
    the figures of the whole episode once it is over, None before.
    """

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
    """Give the bounded slowdowns of the jobs that ended; over an episode their mean, times -1."""
    total = sum(
        bounded_slowdown(max(job.started_at - job.submitted_at, 0.0), job.runtime_s, since.tau_s) for job in since.ended
    )
    return -total / since.n_jobs


def _wait(since: Since) -> float:
    """Give the wait of the job that was started, in seconds; over an episode the mean, times -1."""
    return -sum(max(since.from_at - job.submitted_at, 0.0) for job in since.started) / since.n_jobs


def _utilisation(since: Since) -> float:
    """Give the utilisation of the machine at the end of the episode, and nothing before."""
    return 0.0 if since.figures is None else since.figures.utilisation or 0.0


REWARDS: Final[Mapping[str, Reward]] = {
    "bounded_slowdown": _bounded_slowdown,
    "wait": _wait,
    "utilisation": _utilisation,
}


def reward_of(wanted: Any) -> Reward:
    """Give a reward by its name, or as it is. Raises InputError that lists the names."""
    if callable(wanted):
        found: Reward = wanted
        return found
    if not isinstance(wanted, str) or wanted not in REWARDS:
        raise InputError(f"reward: expected one of {', '.join(REWARDS)}, or a function, found {wanted!r:.60}")
    return REWARDS[wanted]
