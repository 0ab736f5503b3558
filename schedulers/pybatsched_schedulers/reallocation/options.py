"""Options and job fields of reallocation."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from pydantic import Field, ValidationInfo, model_validator

from pybatsched import FieldError, FieldModel, Options, QueueFields
from pybatsched_schedulers.reallocation.grid import ONLY_SITE

Sizing: TypeAlias = Literal["binary", "exhaustive"]


class ReallocationOptions(Options):
    """Options of reallocation."""

    algorithm: Literal["none", "regular", "all_cancellation"] = Field(
        "regular",
        description="what happens to waiting grid jobs at every reallocation event: none; regular, each moves to "
        "another cluster if it gains enough; all_cancellation, all are withdrawn and submitted again",
    )
    heuristic: Literal["mct", "minmin"] = Field(
        "mct",
        description="which job is next: mct, the first submitted; minmin, the one with the earliest expected end among "
        "the oldest (see window)",
    )
    period: float = Field(
        3600.0, ge=1, le=1e9, allow_inf_nan=False, description="seconds between two reallocation events"
    )
    threshold: float = Field(
        60.0, ge=0, allow_inf_nan=False, description="minimum gain in seconds for a move (regular)"
    )
    window: int = Field(20, ge=1, description="how many of the oldest jobs minmin considers")
    sizing: Sizing = Field(
        "binary", description="search for the size of a moldable job: binary search, or exhaustive over all sizes"
    )
    local: str = Field(
        "conservative", description="local scheduler of every cluster: a policy with one queue that guarantees starts"
    )
    local_options: dict[str, Any] = Field(default_factory=dict, description="options of that policy")


class MoldableField(FieldModel):
    """The field `moldable` of a job: the parallel fraction of its work, and the most processors it can use."""

    fraction: float = Field(ge=0, le=1, description="a number from 0 to 1")
    limit: int = Field(ge=1, description="a whole number from 1")


class GridFields(QueueFields):
    """The job fields of a grid: whether a job is moldable, and whether it bypasses the meta-scheduler."""

    moldable: MoldableField | None = Field(None, description='{"fraction": F, "limit": N}')
    external: bool = Field(default=False, description="true or false")
    cluster: str | None = Field(None, min_length=1, description="the name of a cluster")

    @model_validator(mode="after")
    def _has_home(self, info: ValidationInfo) -> GridFields:
        if self.external and self.cluster is None:
            raise FieldError("cluster", "the cluster that this external job goes to")
        known = info.context.get("clusters") if isinstance(info.context, dict) else None
        if self.external and known is not None and self.cluster not in (known or (ONLY_SITE,)):
            there = (
                f"one of the machine's, {', '.join(known)}" if known else f"{ONLY_SITE}: the machine has no clusters"
            )
            raise FieldError("cluster", there, self.cluster)
        return self
