"""What to tell a user whose simulation fell silent, or stopped with jobs left over."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pybatsched.core import decisions as d
from pybatsched.core.jobs import Job, JobState
from pybatsched.errors import NOT_THE_PLUGINS, quantity

if TYPE_CHECKING:
    from pybatsched.core.engine import Engine

_N_SHOWN = 10


def diagnose(engine: Engine) -> str:
    """Tell which jobs run and wait, since when, and the known causes of a silence. O(jobs alive)."""
    if not engine.began:
        return "the simulation had not begun"
    running = [job for job in engine.jobs.alive.values() if job.state is JobState.RUNNING]
    held = [job for job in engine.jobs.alive.values() if job.state is JobState.HELD]
    waiting = [job for job in engine.jobs.alive.values() if job.state is JobState.WAITING]
    n_over = sum(engine.jobs.n_over.values())
    counts = f"{n_over} over, {len(running)} running, {len(waiting)} waiting, {engine.n_calls_pending} calls pending"
    lines = [f"simulated time {engine.now}; {quantity(engine.jobs.n_submitted, 'job')} submitted, {counts}"]
    lines += _listed("running", running, _about_running)
    lines += _listed("held", held, _about_held)
    lines += _listed("waiting", waiting, _about_waiting)
    away = engine.cluster.away
    if away:
        lines.append(f"unavailable or asleep: {away}")
    lines.append("known causes:")
    lines += [f"  - {cause}" for cause in _causes(engine, running, waiting)]
    return "\n".join(lines)


def word_of(engine: Engine, job: Job, now: float) -> str:
    """Ask the policy why a job waits."""
    try:
        return d.reason_text(engine.policy.why_waiting(job, now))
    except NOT_THE_PLUGINS:
        raise
    except Exception as error:  # noqa: BLE001  a broken explanation must not hide the deadlock
        return f"(why_waiting raised {type(error).__name__}: {error})"


def _causes(engine: Engine, running: list[Job], waiting: list[Job]) -> list[str]:
    causes = []
    if waiting and not running and not engine.n_calls_pending:
        causes.append(
            "jobs wait, nothing runs and no call is pending: unless more jobs come, nothing can ever happen again. "
            "Batsim calls this a deadlock and exits with code 0 and no farewell; the policy should start or reject them"
        )
    if not waiting and not running:
        causes.append(
            "no job is left: Batsim may wait for external events, or for registration_finished "
            "(policies that manage registration themselves must send it)"
        )
    if running:
        causes.append("a running job may be endless (a recv profile without an answer, a very long delay)")
    causes.append("Batsim crashed, was stopped, or is busy for longer than --timeout; look at its own output")
    return causes


def _listed(what: str, jobs: list[Job], about: Callable[[Job], str]) -> list[str]:
    lines = [f"  {what}: {about(job)}" for job in jobs[:_N_SHOWN]]
    if len(jobs) > _N_SHOWN:
        lines.append(f"  {what}: and {len(jobs) - _N_SHOWN} more")
    return lines


def _about_running(job: Job) -> str:
    name = job.id if job.wire_id == job.id else f"{job.id} (as {job.wire_id})"
    return f"{name} since {job.started_at} on {job.procs}, expected to end at {job.expected_end_at}"


def _about_held(job: Job) -> str:
    return f"{job.id} since {job.held_from} on {job.procs}, to start at {job.start_at}"


def _about_waiting(job: Job) -> str:
    return f"{job.id} since {job.submitted_at}, wants {quantity(job.n_procs, 'processor')}"
