"""Diagnosis of a simulation that sends no messages any more, or that stopped with unfinished jobs."""

from __future__ import annotations

from collections.abc import Callable

from pybatsched.core import decisions as d
from pybatsched.core.engine import Engine
from pybatsched.core.jobs import Job, JobState
from pybatsched.core.node_requests import PLAIN
from pybatsched.errors import NOT_THE_PLUGINS, quantity, setting
from pybatsched.session.node_holders import lacks

_N_SHOWN = 10


def diagnose(engine: Engine) -> str:
    """Return which jobs run and wait, since when, and the known causes of a stop. O(unfinished jobs)."""
    if not engine.began:
        return "the simulation had not started"
    running = [job for job in engine.jobs.alive.values() if job.state is JobState.RUNNING]
    held = [job for job in engine.jobs.alive.values() if job.state is JobState.HELD]
    waiting = [job for job in engine.jobs.alive.values() if job.state is JobState.WAITING]
    n_over = sum(engine.jobs.n_over.values())
    counts = (
        f"{n_over} finished, {len(running)} running, {len(waiting)} waiting, {engine.n_calls_pending} calls pending"
    )
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


def why_waiting_text(engine: Engine, job: Job, now: float) -> str:
    """Return the policy's reason why a job waits."""
    try:
        return d.reason_text(engine.why_waiting(job, now))
    except NOT_THE_PLUGINS:
        raise
    except Exception as error:  # noqa: BLE001  a broken explanation must not hide the deadlock
        return f"(why_waiting raised {type(error).__name__}: {error!s})"


def obstacle_of(engine: Engine, job: Job) -> str:
    """Return why a job could not start now, whatever the queue: it is not eligible, or does not fit on nodes."""
    nodes = engine.cluster.nodes
    if job.id in engine.held_back:
        return d.reason_text(engine.eligibility.why_waiting(job) or "")
    if nodes is None or job.state is not JobState.WAITING or not lacks(nodes, job):
        return ""
    return d.reason_text(nodes.missing(nodes.requests.get(job.id, PLAIN), job.n_procs))


def _causes(engine: Engine, running: list[Job], waiting: list[Job]) -> list[str]:
    causes = []
    if waiting and not running and not engine.n_calls_pending:
        causes.append(
            "jobs wait, no job runs and no call is pending: unless more jobs are submitted, this is a deadlock. Batsim "
            "then exits with code 0 and sends no last message; the policy should start or reject the waiting jobs"
        )
    if not waiting and not running:
        causes.append(
            "all jobs have ended: Batsim may wait for external events, or for registration_finished "
            "(a policy that manages registration must send it)"
        )
    if running:
        causes.append("a running job may never end (a recv profile without an answer, a very long delay)")
    causes.append(f"Batsim crashed, was stopped, or computes for longer than {setting('timeout')}; see its output")
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
    return f"{job.id} since {job.submitted_at}, requests {quantity(job.n_procs, 'processor')}"
