"""Promises of policies: observers record them and check that each is kept or reported as broken."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from pybatsched.core import events as e
from pybatsched.core.engine import Engine
from pybatsched.core.jobs import JobState
from reliability.soak.scene_runs import Played
from reliability.soak.scenes import Scene
from reliability.soak.schedule_rules import TICK, inexact, is_stopped_by_reservation, lineages

#: Accepted deadlines have a tolerance of a millisecond, as documented.
GRACE_S: Final = 1e-3


class Promises:
    """Observes a policy while it decides, and records its promises.

    Accepted deadlines are either kept or reported as broken; nothing else is reported. If jobs and machines behave as
    announced, a promised planned start never moves back.
    """

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._deadlines: dict[str, float] = {}
        self._promised: dict[tuple[str, str], float] = {}
        self._moved: list[str] = []
        #: Calls come a little late: in Batsim 4 not before ten ticks have passed, in Batsim 5 at whole milliseconds.
        self._slack_s = TICK + len(scene.jobs) * (1e-5 if scene.batsim == 4 else 1e-3)
        #: Jobs of a grid are submitted again, and those of a group reduced by kills are put in front of others.
        self._shadows: dict[str, float] = {}
        is_first_come = scene.options.get("order", "fcfs") == "fcfs"
        is_simple = scene.is_honest and not scene.has_nodes
        self._looks_at_heads = is_simple and scene.policy == "easy" and is_first_come
        self._looks_at_starts = is_simple and scene.policy in {"fcfs", "conservative", "redirection"}

    def look(self, engine: Engine, now: float) -> None:
        """Look at all queues after a message."""
        if self._looks_at_heads:
            self._look_at_head(engine, now)
        for local in getattr(engine.policy, "locals", ()):
            for job in list(engine.jobs.alive.values()) if self._scene.policy in {"dbf", "redirection"} else ():
                if local.is_promised(job):
                    self._deadlines.setdefault(job.id, job.deadline_at() or math.inf)
            # During a kill a partition has no plan, and asking for one would create it.
            if self._looks_at_starts and local.promises and not local.partition.n_kills_pending:
                self._look_at_starts(local, now)

    def _look_at_head(self, engine: Engine, now: float) -> None:
        """Compute again when the first job of the queue can start by the estimates of running jobs, and compare."""
        alive = list(engine.jobs.alive.values())
        waiting = [job for job in alive if job.state is JobState.WAITING]
        for job_id in self._shadows.keys() - {job.id for job in waiting}:
            shadow_at = self._shadows.pop(job_id)
            if now > shadow_at + self._slack_s + inexact(now):
                self._moved.append(f"{job_id}, first in the queue, was to start by {shadow_at}, and waited until {now}")
        if not waiting:
            return
        head = min(waiting, key=lambda job: job.seq)
        running = [job for job in alive if job.state is JobState.RUNNING]
        n_free, shadow_at = self._scene.n_procs - sum(job.n_procs for job in running), math.inf
        for end_at, n in sorted(((job.started_at or 0.0) + (job.estimate or math.inf), job.n_procs) for job in running):
            n_free += n
            if n_free >= head.n_procs:
                shadow_at = end_at
                break
        self._shadows[head.id] = min(shadow_at, self._shadows.get(head.id, math.inf))

    def _look_at_starts(self, local: Any, now: float) -> None:
        name, promised = local.partition.name, self._promised
        waiting = {job.id: job for job in local.waiting()}
        for key in [key for key in promised if key[0] == name and key[1] not in waiting]:
            at = promised.pop(key)
            if now > at + self._slack_s + inexact(now):
                self._moved.append(f"{key[1]} was to start at {at}, and waited until {now}")
        for job_id, job in waiting.items():
            start, before = local.planned_start(job, now), promised.get((name, job_id))
            if before is not None and (start is None or start > before + self._slack_s + inexact(now)):
                self._moved.append(f"{job_id} was to start at {before}, and is to start at {start} now")
            if start is not None:
                promised[name, job_id] = start if before is None else min(start, before)

    def problems(self, played: Played) -> Iterator[str]:
        """Return promises that were broken without a report, and reports that are wrong."""
        if played.error or not played.finished or played.engine is None:
            return
        yield from self._moved[:1]
        promises = list(played.engine.broken_promises)
        rows, _ = lineages(self._scene, played.fates)
        given_up = (chain[-1] for chain in rows.values() if chain)
        if (
            any("failures=" in fate.note for fate in played.fates.values())
            or any(last.state == e.COMPLETED_KILLED and not last.by_others for last in given_up)
            or any(is_stopped_by_reservation(self._scene, fate, "requeue") for fate in played.fates.values())
        ):
            return  # nothing is promised after a kill by a failure or a reservation
        if self._scene.is_predicted:
            yield from (f"nothing is promised with predictions, but: {text}" for text in promises[:1])
            return
        for job_id, deadline_at in self._deadlines.items():
            last = rows[job_id][-1]
            too_late_s = math.inf if last.state == e.REJECTED else last.end - deadline_at - GRACE_S
            is_reported = any(f"job {job_id} " in text for text in promises)
            if too_late_s > inexact(last.end) and not is_reported:
                yield f"{job_id} was accepted with the deadline {deadline_at}, ended at {last.end}, and nobody told"
            if too_late_s < -inexact(last.end) and is_reported:
                yield f"{job_id} has met its deadline {deadline_at} at {last.end}, and is told to have missed it"
        for text in promises:
            if not any(f"job {job_id} " in text for job_id in self._deadlines):
                yield f"a broken promise is told that was never given: {text}"
