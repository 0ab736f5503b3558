"""A policy whose local scheduler holds processors for jobs before it starts them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pybatsched.core.decisions import Decision, ExecuteJob, StartAt
from pybatsched_schedulers.fcfs import Fcfs, FcfsScheduler

#: How long processors rest before each job.
REST_S: Final = 50
NAME: Final = f"{__file__}:Holding"


class HoldingScheduler(FcfsScheduler):
    """First come, first served, with processors held before each start."""

    def plan(self, now: float) -> Iterator[Decision]:
        for decision in super().plan(now):
            assert isinstance(decision, ExecuteJob)
            yield StartAt(decision.job_id, decision.procs, now + REST_S, reason=decision.reason)


class Holding(Fcfs):
    """First come, first served, with processors held before each start."""

    scheduler = HoldingScheduler
