"""Job fields that a policy reads in addition to Batsim's own, declared as models so that errors are found early.

A policy sets a pydantic model as its `JobFields`. Workloads are checked against it when they are read and by `workload
lint`; jobs from messages are checked on submission. All other fields are ignored.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from pybatsched.core.dependencies import EXPECTED, dependency_of
from pybatsched.errors import NOT_THE_PLUGINS, PolicyError, describe_error
from pybatsched.pydantic_errors import members, message, model_in, plain

#: Stands for a missing value.
NOTHING: Final = object()


class FieldModel(BaseModel):
    """Base of models of job fields. All other fields are ignored.

    Values are not converted: "5" and true are not numbers. Null is not a value: an unknown field is left out. Errors
    show the description of a field as the expected value. A field without a default is required. A validator with a
    `context` gets one dictionary for all jobs of a run.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class JobFields(FieldModel):
    """Base of the fields that a policy reads: the estimate, which every policy uses for planning."""

    estimate: float | None = Field(None, gt=0, allow_inf_nan=False, description="more than 0 seconds")


class DeadlineFields(FieldModel):
    """The deadline of a job, in one of two forms, for policies with deadlines and metrics of late jobs."""

    deadline: float = Field(math.nan, ge=0, allow_inf_nan=False, description="seconds from 0")
    max_stay: float = Field(math.nan, ge=0, allow_inf_nan=False, description="seconds from 0")

    @model_validator(mode="after")
    def _is_one(self) -> DeadlineFields:
        if {"deadline", "max_stay"} <= self.model_fields_set:
            raise ValueError("both deadline and max_stay; expected one of them")
        return self


class MetricFields(DeadlineFields):
    """Fields that figures and classes of jobs read: evaluated, urgent, run time alone, and deadlines."""

    evaluated: bool = Field(default=False, description="true or false")
    urgent: bool = Field(default=False, description="true or false")
    alone_s: float = Field(math.nan, gt=0, allow_inf_nan=False, description="more than 0 seconds")


class StartFields(FieldModel):
    """Fields of jobs that may not start yet, or that run when the simulation begins, for the engine."""

    eligible_at: float = Field(math.nan, allow_inf_nan=False, description="seconds")
    depends_on: Any = Field(None, description=EXPECTED)
    array: int | str = Field("", description="the id of an array")
    array_limit: int = Field(1, ge=1, description="a number of tasks, from 1")
    hold: bool = Field(default=False, description="true or false")
    running_at_start: bool | str = Field(default=False, description="true, false, or processors such as '0-3 5'")

    @model_validator(mode="before")
    @classmethod
    def _is_valid(cls, fields: dict[str, Any]) -> dict[str, Any]:
        if "array_limit" in fields and "array" not in fields:
            raise ValueError("array_limit without array; expected both")
        try:
            dependency_of(fields)
        except ValueError as error:
            raise FieldError("depends_on", str(error), fields["depends_on"]) from None
        return fields


class FieldError(ValueError):
    """Raised by a model's validator: one of the fields does not agree with the others."""

    def __init__(self, field: str, expected: str, found: Any = NOTHING) -> None:
        super().__init__(f"field {field}: expected {expected}")
        self.fault = Fault(field, f"expected {expected}", found)


class Fault(NamedTuple):
    """An error in a job's fields: the field ("" if it concerns several), the problem, and the value found."""

    field: str
    wrong: str
    found: Any = NOTHING

    @property
    def is_missing(self) -> bool:
        """Whether the field is required, and the job does not have it."""
        return self.found is NOTHING

    @property
    def what(self) -> str:
        """The field and the rule, without the value found."""
        return f"field {self.field}: {self.wrong}" if self.field else self.wrong

    def text_for(self, job_id: str) -> str:
        """Return the error message for a job of a message."""
        if not self.field:
            return f"job {job_id}: {self.wrong}"
        found = "nothing" if self.is_missing else "null" if self.found is None else repr(self.found)[:60]
        return f"job {job_id}, {self.what}, found {found}"


class ModelCheck:
    """Checks the fields of jobs against a model with pydantic. `FieldCheck` calls it for jobs that have such fields."""

    def __init__(self, model: type[FieldModel], owner: str, context: Mapping[str, Any]) -> None:
        self._model = model
        self._validate = model.__pydantic_validator__.validate_python  # `model_validate` takes three times as long
        self._owner = owner
        self._infos = members(model)
        self._context: dict[str, Any] = dict(context)
        self.names = frozenset(self._infos)
        self.plans = issubclass(model, JobFields)
        self.has_required = any(info.is_required() for info in self._infos.values())

    def faults(self, fields: Mapping[str, Any]) -> Iterator[Fault]:
        """Return all errors in a job's fields. Raises PolicyError for an exception of a validator."""
        nulls = [name for name in self._infos if name in fields and fields[name] is None]
        for name in nulls:
            yield Fault(name, f"expected {self._infos[name].description or 'a value'}", None)
        if nulls:
            return
        try:
            self._validate(fields if type(fields) is dict else dict(fields), context=self._context)
        except ValidationError as error:
            for problem in error.errors(include_url=False):
                yield _fault(self._model, problem)
        except NOT_THE_PLUGINS:
            raise
        except BaseException as error:
            text = f"{self._model.__name__} raised {describe_error(error)}"
            raise PolicyError(text, policy=self._owner, rule="no exception") from error


def field_descriptions(model: type[FieldModel]) -> dict[str, str]:
    """Return the description of each field of a model."""
    return {name: info.description or "" for name, info in members(model).items()}


_MOST: Final = 1e300


def memory_need_gb(fields: Mapping[str, Any]) -> float:
    """Return the memory that a job needs on its node, in GB: `node_memory_gb`, else `input_size_gb`, else 0. O(1).

    Raises ValueError with the name of an invalid field, without the job.

    >>> memory_need_gb({"node_memory_gb": 256, "input_size_gb": 12.8}), memory_need_gb({"input_size_gb": 12.8})
    (256.0, 12.8)
    """
    value = fields.get("node_memory_gb")
    if value is not None:
        if not _is_number(value) or value <= 0:
            raise ValueError(f"field node_memory_gb: expected more than 0 GB, found {str(value)[:60]}")
        return float(value)
    value = fields.get("input_size_gb")
    if value is None:
        return 0.0
    if not _is_number(value) or value < 0:
        raise ValueError(f"field input_size_gb: expected GB from 0, found {str(value)[:60]}")
    return float(value)


def _is_number(value: Any) -> bool:
    # Not `isfinite`, which raises OverflowError for very large integers.
    return type(value) in {int, float} and -_MOST <= value <= _MOST


def memory_class(need_gb: float, classes: Sequence[float]) -> float | None:
    """Return the smallest memory class, of a list in ascending order, that is large enough; None for none. O(log n).

    >>> memory_class(128, [128, 256]), memory_class(128.1, [128, 256]), memory_class(300, [128, 256])
    (128, 256, None)
    """
    i = bisect_left(classes, need_gb)
    return classes[i] if i < len(classes) else None


def _fault(model: type[BaseModel], problem: Mapping[str, Any]) -> Fault:
    """Convert an error of pydantic."""
    raised = problem.get("ctx", {}).get("error")
    if isinstance(raised, FieldError):
        return raised.fault
    place: list[str] = []
    description = None
    inner: type[BaseModel] | None = model
    for part in problem["loc"]:
        info = None if inner is None else members(inner).get(str(part))
        if info is None:
            break  # inside a value without field names, or one of several types
        place.append(str(part))
        description, inner = info.description, model_in(plain(info.annotation))
    text = message(problem)
    if not place:
        return Fault("", text)
    is_own = problem["type"] == "value_error"  # the message of the author's validator
    wrong = text if is_own or description is None else f"expected {description}"
    return Fault(".".join(place), wrong, NOTHING if problem["type"] == "missing" else problem["input"])
