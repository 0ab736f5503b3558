"""Options of the policies that plan a start for every job, conservative and deadline-based; and what DBF reads."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from pybatsched import DeadlineFields, QueueFields, QueueOptions

Promote: TypeAlias = Literal["max", "each"]


class ConservativeOptions(QueueOptions):
    """Options of conservative backfilling."""

    compression: bool = Field(
        True,
        description="after an early end move waiting jobs forward; without it they keep the time they were promised",
    )


class DbfOptions(ConservativeOptions):
    """Options of deadline-based backfilling."""

    fixpoint: bool = Field(
        True,
        description="repeat the placement until all accepted deadlines are safe; false is the published single pass",
    )
    promote: Promote = Field(
        "max",
        description="where promoted jobs alone would miss their deadlines, promote all that came before the last of "
        "these (max), or before the first and look again (each)",
    )
    infeasible: Literal["regular", "reject"] = Field(
        "regular", description="a job that cannot meet its deadline when it arrives is treated as regular, or rejected"
    )


class DbfFields(QueueFields, DeadlineFields):
    """What deadline-based backfilling reads of jobs: when they are to be over."""
