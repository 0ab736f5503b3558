"""Options of EASY and conservative backfilling. Pydantic is slow to import, so the policies only name these models."""

from __future__ import annotations

from pydantic import ConfigDict, Field, field_validator

from pybatsched import Order, QueueOptions, parse_order


class EasyOptions(QueueOptions):
    """Options of EASY backfilling."""

    model_config = ConfigDict(defer_build=True)

    backfill_order: Order | None = Field(
        None,
        description="order in which waiting jobs are tried for backfilling, as `order`; sjf is EASY-SJBF "
        "(default: the order of the queue)",
    )


class ConservativeOptions(QueueOptions):
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
