"""Urgent jobs first, without preemption: first come, first served, with all urgent jobs in front of the others."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from pybatsched import Order, QueueOptions
from pybatsched_schedulers.fcfs import Fcfs


class UjfOptions(QueueOptions):
    """Options of urgent jobs first."""

    order: Order = Field("urgent_first", description="order of the queue; urgent_first defines this policy")


class Ujf(Fcfs):
    """Urgent jobs first: jobs start in queue order, urgent jobs before all others; no job is preempted."""

    Options: ClassVar[type[Any]] = UjfOptions
