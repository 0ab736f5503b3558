"""Options of every policy that keeps a queue."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pybatsched.core.fields import JobFields
from pybatsched.core.policy import Options

Order = Literal["fcfs", "sjf", "ljf", "narrowest", "widest", "smallest_area", "largest_area", "urgent_first"]


class QueueFields(JobFields):
    """What every policy that keeps a queue may read of jobs: its order may be `urgent_first`."""

    urgent: bool = Field(default=False, description="true or false")


class QueueOptions(Options):
    """Options of every policy that keeps a queue."""

    order: Order = Field(
        "fcfs",
        description="order of the queue: fcfs (arrival), sjf / ljf (shortest / longest estimate first), "
        "narrowest / widest (fewest / most processors first), smallest_area / largest_area, "
        "urgent_first (jobs with the field urgent: true, then by arrival)",
    )
    assume_walltime: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="seconds to plan with for jobs that have neither walltime nor estimate "
        "(without it they plan as endless)",
    )


class ChoiceOptions(QueueOptions):
    """Options of a queue from which somebody chooses: how much of it he sees, and what a choice may be."""

    window: int = Field(32, ge=1, le=100_000, description="how many jobs of the queue are shown, and can be chosen")
    running: int = Field(16, ge=1, le=100_000, description="how many of the running jobs are shown, soonest end first")
    reservations: bool = Field(
        True,
        description="whether a job that does not fit may be chosen: it is reserved for, and whoever is chosen after it "
        "must not delay it",
    )
