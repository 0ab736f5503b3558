"""What a policy reads of jobs beside Batsim's own members, declared, so that mistakes are told before a run begins.

A policy names a model as its `JobFields`, as it does with its `Options`. Workloads are checked by it when they are
read, by `workload lint` too, and jobs that come over the wire when they come. Other members are free.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo

from pybatsched.errors import NOT_THE_PLUGINS, PolicyError, describe_error

#: What was found where there was nothing.
NOTHING: Final = object()


class FieldModel(BaseModel):
    """Members of jobs that somebody reads: typed, and told by their descriptions; all other members are ignored.

    Values are taken as JSON has them: "5" is no number, and neither is true. Null is no value of any member: what is
    not known is left out. What a description says is what errors say was expected. A member without a default must be
    there. Where a validator of the model is given a `context`, it is one dictionary for all jobs of a run.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


class JobFields(FieldModel):
    """Base of the fields that a policy reads: the estimate, which every policy plans with."""

    estimate: float | None = Field(None, gt=0, allow_inf_nan=False, description="more than 0 seconds")


class DeadlineFields(FieldModel):
    """When a job is to be over, for whoever reads that: policies that mind deadlines, and figures of late jobs.

    A job has one of them, or none (`model_fields_set` tells).
    """

    deadline: float = Field(math.nan, ge=0, allow_inf_nan=False, description="seconds from 0")
    max_stay: float = Field(math.nan, ge=0, allow_inf_nan=False, description="seconds from 0")

    @model_validator(mode="after")
    def _is_one(self) -> DeadlineFields:
        if {"deadline", "max_stay"} <= self.model_fields_set:
            raise ValueError("both deadline and max_stay; expected one of them")
        return self


class FieldError(ValueError):
    """For validators of a model: one of its fields is not as it should be beside the others."""

    def __init__(self, field: str, expected: str, found: Any = NOTHING) -> None:
        super().__init__(f"field {field}: expected {expected}")
        self.fault = Fault(field, f"expected {expected}", found)


class Fault(NamedTuple):
    """What is wrong with a job: the field ("" if it is about several), in which way, and what was found in it."""

    field: str
    wrong: str
    found: Any = NOTHING

    @property
    def what(self) -> str:
        """Field and rule, without what was found."""
        return f"field {self.field}: {self.wrong}" if self.field else self.wrong

    def of(self, job_id: str) -> str:
        """Give the words of an error about a job that came over the wire."""
        if not self.field:
            return f"job {job_id}: {self.wrong}"
        found = "nothing" if self.found is NOTHING else "null" if self.found is None else repr(self.found)[:60]
        return f"job {job_id}, {self.what}, got {found}"


class FieldCheck:
    """Checks jobs of one run by a model, in the order in which they come. `owner` is the policy whose model it is.

    `context` is what is known of the run before it begins: `clusters`, the names of its machine's.

    O(1) for jobs that have none of its fields. The estimate of a policy's model, which most jobs have, is looked at by
    hand first: that is thirty times as fast.
    """

    _of_all: ClassVar = frozenset(JobFields.model_fields)

    def __init__(
        self, model: type[FieldModel], owner: str = "", context: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        self._model = model
        self._validate = model.__pydantic_validator__.validate_python  # `model_validate` takes three times as long
        self._owner = owner
        infos = _by_member(model)
        plans = issubclass(model, JobFields)
        self._infos = infos
        self._own = frozenset(infos) - (self._of_all if plans else frozenset())
        self._plans = plans
        self._always = any(info.is_required() for info in infos.values())
        self._context: dict[str, Any] = dict(context)

    def faults(self, fields: Mapping[str, Any]) -> Iterator[Fault]:
        """Give all that is wrong with a job, by its members. Raises PolicyError for an exception of a validator."""
        if self._has_none(fields):
            return
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

    def _has_none(self, fields: Mapping[str, Any]) -> bool:
        """Tell whether a job has nothing that must be looked at, as most have. O(fields of the model)."""
        if self._always or not fields.keys().isdisjoint(self._own):
            return False
        return not self._plans or not _has_bad_estimate(fields)

    def refusal(self, job_id: str, fields: Mapping[str, Any]) -> str | None:
        """Give the words of the error about a job that came over the wire, None if there is nothing to say."""
        if self._has_none(fields):
            return None
        return next((fault.of(job_id) for fault in self.faults(fields)), None)


def described(model: type[FieldModel]) -> dict[str, str]:
    """Give what a model expects of each member, for people."""
    return {name: info.description or "" for name, info in _by_member(model).items()}


def _has_bad_estimate(fields: Mapping[str, Any]) -> bool:
    value = fields.get("estimate", 1)
    if type(value) is float and 0 < value < math.inf:
        return False
    return not (type(value) is int and 0 < value < 1 << 63)


def _by_member(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Give the fields of a model by the names that jobs have for them."""
    return {_member(name, info): info for name, info in model.model_fields.items()}


def _member(name: str, info: FieldInfo) -> str:
    alias = info.validation_alias or info.alias
    return alias if isinstance(alias, str) else name


def _fault(model: type[BaseModel], problem: Mapping[str, Any]) -> Fault:
    """Put what pydantic found into our words."""
    raised = problem.get("ctx", {}).get("error")
    if isinstance(raised, FieldError):
        return raised.fault
    place: list[str] = []
    description = None
    inner: type[BaseModel] | None = model
    for part in problem["loc"]:
        info = None if inner is None else _by_member(inner).get(str(part))
        if info is None:
            break  # a place within a value that has no names, or one of several types
        place.append(str(part))
        description, inner = info.description, _model_in(info.annotation)
    text = problem["msg"].removeprefix("Value error, ")
    if not place:
        return Fault("", text)
    is_own = problem["type"] == "value_error"  # of a validator: the author's own words
    wrong = text if is_own or description is None else f"expected {description}"
    return Fault(".".join(place), wrong, NOTHING if problem["type"] == "missing" else problem["input"])


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """Give the model that a member is, alone or as one of several types."""
    for kind in (annotation, *get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None


_MOST: Final = 1e300


def memory_need_gb(fields: Mapping[str, Any]) -> float:
    """Give the memory that a job needs on its node, in GB: `node_memory_gb`, else its file, `input_size_gb`, else 0.

    Raises ValueError that names the field for what cannot be one; who calls knows the job. O(1).

    >>> memory_need_gb({"node_memory_gb": 256, "input_size_gb": 12.8}), memory_need_gb({"input_size_gb": 12.8})
    (256.0, 12.8)
    """
    value = fields.get("node_memory_gb")
    if value is not None:
        if not _is_number(value) or value <= 0:
            raise ValueError(f"field node_memory_gb: expected more than 0 GB, got {str(value)[:60]}")
        return float(value)
    value = fields.get("input_size_gb")
    if value is None:
        return 0.0
    if not _is_number(value) or value < 0:
        raise ValueError(f"field input_size_gb: expected GB from 0, got {str(value)[:60]}")
    return float(value)


def _is_number(value: Any) -> bool:
    # Not `isfinite`: whole numbers may be too large even to be asked.
    return type(value) in {int, float} and -_MOST <= value <= _MOST


def memory_class(need_gb: float, classes: Sequence[float]) -> float | None:
    """Give the smallest of some memories, in ascending order, that holds a need; None if none does. O(log n).

    >>> memory_class(128, [128, 256]), memory_class(128.1, [128, 256]), memory_class(300, [128, 256])
    (128, 256, None)
    """
    place = bisect_left(classes, need_gb)
    return classes[place] if place < len(classes) else None
