"""Options of every policy that keeps a queue."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field

from pybatsched.core.fields import JobFields
from pybatsched.core.options import Options
from pybatsched.policies.orders import NAMED_ORDERS, parse_order


def _checked(text: str) -> str:
    parse_order(text)
    return text


#: The order of a queue: a name or an expression (`pybatsched.policies.orders`).
Order: TypeAlias = Annotated[str, AfterValidator(_checked)]


class QueueFields(JobFields):
    """The job fields of every policy with a queue: `urgent` is for the order `urgent_first`."""

    urgent: bool = Field(default=False, description="true or false")


class QueueOptions(Options):
    """Options of every policy that keeps a queue."""

    order: Order = Field(
        "fcfs",
        description=f"order of the queue: a name ({', '.join(NAMED_ORDERS)}), or an expression over wait, estimate, "
        "procs, submitted, now, usage, user, urgent and other fields of jobs; the lowest value goes first",
    )
    assume_walltime: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="planned seconds of jobs that have neither walltime nor estimate "
        "(without it they are planned as endless)",
    )


class ChoiceOptions(QueueOptions):
    """Options of a queue from which an agent chooses: the size of the observation, and the possible choices."""

    window: int = Field(32, ge=1, le=100_000, description="how many jobs of the queue are shown and can be chosen")
    running: int = Field(16, ge=1, le=100_000, description="how many running jobs are shown, earliest end first")
    reservations: bool = Field(
        True,
        description="whether a job that does not fit may be chosen: it gets a reservation, and jobs chosen after it "
        "must not delay it",
    )
