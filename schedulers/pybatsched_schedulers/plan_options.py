"""Options of EASY, conservative and deadline-based backfilling and of predictsim, and job fields with deadlines."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import ConfigDict, Field, field_validator

from pybatsched import DeadlineFields, Options, Order, QueueFields, QueueOptions, parse_order

Promote: TypeAlias = Literal["max", "each"]
#: Each policy uses one of these models; the others are not built.
_DEFERRED = ConfigDict(defer_build=True)


class EasyOptions(QueueOptions):
    """Options of EASY backfilling."""

    model_config = _DEFERRED

    backfill_order: Order | None = Field(
        None,
        description="order in which waiting jobs are tried for backfilling, as `order`; sjf is EASY-SJBF "
        "(default: the order of the queue)",
    )


class PredictsimOptions(Options):
    """Options of `published_predictsim`."""

    model_config = _DEFERRED

    backfill_order: Literal["fcfs", "sjf"] = Field(
        "fcfs", description="order in which waiting jobs are tried for backfilling: fcfs, or shortest prediction first"
    )


class ConservativeOptions(QueueOptions):
    """Options of conservative backfilling. The order must not change while jobs wait."""

    model_config = _DEFERRED

    compression: bool = Field(
        True,
        description="move waiting jobs forward after an early end; without it they keep their reserved start",
    )

    @field_validator("order")
    @classmethod
    def _is_fixed(cls, order: str) -> str:
        parse_order(order).check_fixed()
        return order


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

    model_config = _DEFERRED
