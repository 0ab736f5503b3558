"""Options of conservative and deadline-based backfilling, and the job fields of the latter."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from pybatsched import DeadlineFields, QueueFields, QueueOptions

Promote: TypeAlias = Literal["max", "each"]


class ConservativeOptions(QueueOptions):
    """Options of conservative backfilling."""

    compression: bool = Field(
        True,
        description="move waiting jobs forward after an early end; without it they keep their reserved start",
    )


class DbfOptions(ConservativeOptions):
    """Options of deadline-based backfilling."""

    fixpoint: bool = Field(
        True,
        description="repeat the placement until all accepted deadlines are met; false is the published single pass",
    )
    promote: Promote = Field(
        "max",
        description="if promoted jobs would still miss their deadlines, promote all jobs submitted before the last of "
        "these (max), or before the first of these and repeat (each)",
    )
    infeasible: Literal["regular", "reject"] = Field(
        "regular", description="a job that cannot meet its deadline when it arrives is treated as regular, or rejected"
    )


class DbfFields(QueueFields, DeadlineFields):
    """The job fields of deadline-based backfilling: the deadline."""
