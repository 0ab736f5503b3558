"""Options of FCFS, EASY and conservative backfilling. Policies only name these models: pydantic is slow to import."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field, field_validator

from pybatsched import Order, QueueOptions, parse_order


class PlacementOptions(QueueOptions):
    """Options of policies that place jobs on nodes."""

    model_config = ConfigDict(defer_build=True)

    placement: Literal["best", "fewest", "order", "weight", "spread"] | None = Field(
        None,
        description="which nodes a job gets that requests memory, GPUs or nodes: the fullest that suffice (best), as "
        "few as possible (fewest), the first ones (order), those with the lowest weight (weight), or the emptiest, "
        "with its processors spread evenly (spread) (default: best)",
    )


class EasyOptions(PlacementOptions):
    """Options of EASY backfilling."""

    model_config = ConfigDict(defer_build=True)

    backfill_order: Order | None = Field(
        None,
        description="order in which waiting jobs are tried for backfilling, as `order`; sjf is EASY-SJBF "
        "(default: the order of the queue)",
    )


class ConservativeOptions(PlacementOptions):
    """Options of conservative backfilling. The order must not change while jobs wait."""

    model_config = ConfigDict(defer_build=True)

    compression: bool = Field(
        True, description="move waiting jobs forward after an early end; without it they keep their reserved start"
    )

    @field_validator("order")
    @classmethod
    def _is_fixed(cls, order: str) -> str:
        parse_order(order).check_fixed()
        return order
