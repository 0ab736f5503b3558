"""The model of the job fields that metrics use."""

from __future__ import annotations

import math

from pydantic import Field

from pybatsched.core.fields import DeadlineFields


class MetricFields(DeadlineFields):
    """Fields that figures and classes of jobs read: evaluated, urgent, run time alone, and deadlines."""

    evaluated: bool = Field(default=False, description="true or false")
    urgent: bool = Field(default=False, description="true or false")
    alone_s: float = Field(math.nan, gt=0, allow_inf_nan=False, description="more than 0 seconds")
