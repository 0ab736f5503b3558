"""The options of every policy, as a pydantic model."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from pybatsched.core.model_refs import COMMON
from pybatsched.core.node_partitions import parse_partitions
from pybatsched.core.reservation_specs import ReservationSpec


def _partitions(text: str) -> str:
    parse_partitions(text)
    return text


class Options(BaseModel):
    """Base of a policy's options, a pydantic model. Unknown options are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    predict: str | None = Field(
        default=None,
        description="predictor of run times, which replace the requested times in all plans: last2, mean2, user_mean, "
        "exact, requested, double, linear, boosted, an expression over them, or path/to/file.py:Class (default: no "
        "predictions)",
    )
    correct: Literal["requested", "doubling", "incremental"] | None = Field(
        default=None,
        description="new estimate of a running job that has exceeded its last one: the requested time, twice the last "
        "estimate, or the first estimate plus 1 min, 5 min and so on (default with predict: requested)",
    )
    on_failure: Literal["requeue_first", "requeue_last", "resubmit", "kill"] | None = Field(
        default=None,
        description="jobs on a machine that becomes unavailable are killed, and requeued in front of the queue or "
        "behind all others, submitted again, or not requeued; a requeued job continues from its last complete "
        "checkpoint (default: they run on, as in Batsim)",
    )

    expected_repair_s: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="seconds after which an unavailable machine is expected back: plans use it from then on (default: "
        "unknown; with simulated failures and a fixed time of repair, this time)",
    )
    host_reservations: tuple[ReservationSpec, ...] | None = Field(
        default=None,
        description="reservations of hosts for time windows: a list of tables with name, start, duration, hosts and "
        "so on, as in a file of reservations (default: none)",
    )
    node_partitions: Annotated[str, AfterValidator(_partitions)] | None = Field(
        default=None,
        description="partitions of nodes as Slurm has them, such as 'batch: n[1-6], max_time 24h, default; gpu: n5-n6, "
        "max_nodes 2, priority 10' (default: none)",
    )

    @model_serializer(mode="wrap")
    def _as_written(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Return the options for summaries and journals, without those of every policy that are not set."""
        found: dict[str, Any] = handler(self)
        return {name: value for name, value in found.items() if name not in COMMON or value is not None}
