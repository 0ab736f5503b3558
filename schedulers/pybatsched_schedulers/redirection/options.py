"""Options of redirection."""

from __future__ import annotations

import math
from typing import Any, Literal, TypeAlias

from pydantic import Field, field_serializer, model_validator

from pybatsched import Options

Filter: TypeAlias = Literal["q", "w", "none", "w_paper"]
Conflict: TypeAlias = Literal["greatest_walltime", "greatest_count", "latest_start", "widest"]


class RedirectionOptions(Options):
    """Options of redirection."""

    alpha: float = Field(0.15, ge=0, lt=1, description="share of the processors that makes up the redirection group")
    group_size: int | None = Field(
        None, ge=0, description="the redirection group as a number of processors, instead of alpha"
    )
    theta: float = Field(
        10.0,
        ge=0,
        description="a job is redirected when more jobs than this arrived and waited since its start (or inf)",
    )
    filter: Filter = Field(
        "q",
        description="which arrivals a running job counts: q, those that request at most its processors; w, those with "
        "at most its planned duration; none, all; w_paper, those with at least its planned duration (the published "
        "pseudo-code, which contradicts its text)",
    )
    decision: Literal["per_job", "per_round"] = Field(
        "per_job",
        description="look for a job to redirect after each arrival that waits, or once after all of a message",
    )
    count_backfilled: bool = Field(
        True, description="also count arrivals that are backfilled at the same time (as published)"
    )
    conflict: Conflict = Field(
        "greatest_walltime",
        description="which of several jobs to redirect: the one with the greatest walltime (planned duration), the "
        "greatest count, the latest start (which loses least work) or the most processors; then the first submitted",
    )
    principal: str = Field("easy", description="local scheduler of the principal group: a policy with one queue")
    principal_options: dict[str, Any] = Field(default_factory=dict, description="options of that policy")
    redirected: str = Field("easy", description="local scheduler of the redirection group")
    redirected_options: dict[str, Any] = Field(default_factory=dict, description="options of that policy")

    @model_validator(mode="after")
    def _one_size(self) -> RedirectionOptions:
        if self.group_size is not None and "alpha" in self.model_fields_set:
            raise ValueError("alpha and group_size were both given; expected only one")
        return self

    @field_serializer("theta", when_used="json")
    def _finite(self, theta: float) -> Any:
        return theta if math.isfinite(theta) else "inf"  # JSON has no infinity
