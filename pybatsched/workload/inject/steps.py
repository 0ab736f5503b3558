"""What a study adds to the jobs of a workload: deadlines, urgent jobs, moldable types, input files.

Each is a step with parameters, the same in a campaign's file and on the command line (`workload inject`). The same
workload, parameters and seed give the same workload; each step draws from dice of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from pybatsched.errors import InputError
from pybatsched.workload.inject import deadlines, input_files, moldable, urgent
from pybatsched.workload.model import Workload

_Count = Annotated[int, Field(gt=0)]
_Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Share = Annotated[float, Field(gt=0, le=1)]
#: Logs number their queues, Batsim files may name them.
_Queue = Annotated[str, BeforeValidator(lambda value: str(value) if type(value) is int else value)]


def _urgent_job(value: object) -> urgent.UrgentJob:
    try:
        return urgent.urgent_job_of(value)
    except InputError as error:
        raise ValueError(str(error)) from None


_UrgentJob = Annotated[tuple[int, float, float], BeforeValidator(_urgent_job)]


class Step(BaseModel):
    """Something done to a workload. `draws` says whether the seed matters."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @property
    def draws(self) -> bool:
        """Whether another seed may give another workload."""
        return True

    def applied(self, workload: Workload, seed: int) -> Workload:
        """Give a new workload. Raises InputError for one that it does not fit."""
        raise NotImplementedError


class Deadlines(Step):
    """Some of the jobs get a deadline: `max_stay` of max(least_s, factor x what `of` says) after submission.

    Every `every`-th job, beginning with number `first` (from 0), or each job with the probability `share`.
    """

    every: _Count | None = None
    first: int = Field(default=0, ge=0)
    share: _Share | None = None
    least_s: float = Field(default=86_400.0, ge=0, allow_inf_nan=False)
    factor: float = Field(default=2.0, ge=0, allow_inf_nan=False)
    of: Literal["estimate", "walltime", "runtime"] = "estimate"

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.every is None) == (self.share is None):
            raise ValueError("expected either every or share")
        if self.first and self.every is None:
            raise ValueError("first: expected together with every")
        return self

    @property
    def draws(self) -> bool:
        """Whether another seed may give another workload."""
        return self.share is not None

    def applied(self, workload: Workload, seed: int) -> Workload:
        """Give a new workload with deadlines."""
        n = len(workload.jobs)
        if self.share is not None:
            chosen: Iterable[int] = deadlines.drawn(n, self.share, seed)
        else:
            chosen = deadlines.every(n, self.every or 1, self.first)
        return deadlines.with_deadlines(workload, chosen, least_s=self.least_s, factor=self.factor, of=self.of)


class Urgent(Step):
    """Urgent jobs: one is injected for each period `every_s`, or at each arrival with a `probability`.

    With `busy` only where the offered load is as high. `kinds` are pairs of processors and seconds. Or `jobs` says
    which, as [processors, seconds, instant]. Or jobs that are there are marked: those of `queues`, or each with the
    probability `share`, or both.
    """

    every_s: _Seconds | None = None
    probability: _Share | None = None
    busy: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    kinds: tuple[tuple[_Count, _Seconds], ...] = Field(default=urgent.TSUNAMI, min_length=1)
    jobs: tuple[_UrgentJob, ...] | None = Field(default=None, min_length=1)
    queues: tuple[_Queue, ...] = ()
    share: _Share | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        marks = bool(self.queues) or self.share is not None
        draws = (self.every_s is not None) + (self.probability is not None)
        if draws + (self.jobs is not None) + marks != 1:
            raise ValueError("expected every_s, probability, jobs, or queues and share: one of the four ways")
        for name in ("busy", "kinds"):
            if not draws and name in self.model_fields_set:
                raise ValueError(f"{name}: expected with every_s or probability, which draw jobs")
        return self

    @property
    def draws(self) -> bool:
        """Whether another seed may give another workload."""
        return self.share is not None or not (self.queues or self.jobs)

    def applied(self, workload: Workload, seed: int) -> Workload:
        """Give a new workload with urgent jobs."""
        if self.every_s is not None:
            instants = urgent.periodic(workload, self.every_s, seed, busy=self.busy)
        elif self.probability is not None:
            instants = urgent.at_arrivals(workload, self.probability, seed, busy=self.busy)
        elif self.jobs is not None:
            return urgent.with_given(workload, [urgent.UrgentJob(*job) for job in self.jobs])
        else:
            return urgent.marked(workload, self.queues, self.share, seed)
        return urgent.with_urgent(workload, instants, self.kinds, seed)


class _Type(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    fraction: float = Field(ge=0, le=1)
    limit: _Count
    share: _Share


class Moldable(Step):
    """Jobs of more than one processor get a type by chance: parallel `fraction`, `limit` of processors, `share`."""

    types: tuple[_Type, ...] = Field(
        default=tuple(_Type.model_validate(kind._asdict()) for kind in moldable.TYPES), min_length=1
    )

    @model_validator(mode="after")
    def _no_more_than_all(self) -> Self:
        if sum(kind.share for kind in self.types) > 1 + 1e-9:
            raise ValueError("types: expected shares of at most 1 together")
        return self

    def applied(self, workload: Workload, seed: int) -> Workload:
        """Give a new workload with moldable jobs."""
        types = [moldable.Type(kind.fraction, kind.limit, kind.share) for kind in self.types]
        return moldable.with_types(workload, types, seed)


#: Gigabytes, or as many a second: far beyond what there is, and quotients of them are still numbers.
_Size = Annotated[float, Field(ge=1e-6, le=1e9)]


class Files(Step):
    """All jobs get input files, which a user's consecutive jobs of one size share.

    A job shares the file of its user's last one if it has as many cores and was submitted within `gap_s` of it. A file
    has `per_core_gb` for each core, or a size drawn between the two of `sizes_gb`. `classes` are pairs of a memory and
    a share: so many of the files are for jobs that need as much on their node.
    """

    gap_s: float = Field(default=input_files.GAP_S, ge=0, allow_inf_nan=False)
    per_core_gb: _Size = input_files.PER_CORE_GB
    sizes_gb: tuple[_Size, _Size] | None = None
    classes: tuple[tuple[_Size, _Share], ...] = ()
    bandwidth_gbps: _Size = input_files.BANDWIDTH_GBPS

    @model_validator(mode="after")
    def _sizes_and_shares(self) -> Self:
        if self.sizes_gb is not None and "per_core_gb" in self.model_fields_set:
            raise ValueError("expected either per_core_gb or sizes_gb")
        if self.sizes_gb is not None and self.sizes_gb[0] > self.sizes_gb[1]:
            raise ValueError("sizes_gb: expected the smallest size first")
        if len({memory for memory, _ in self.classes}) < len(self.classes):
            raise ValueError("classes: expected each memory once")
        if sum(share for _, share in self.classes) > 1 + 1e-9:
            raise ValueError("classes: expected shares of at most 1 together")
        return self

    @property
    def _rule(self) -> input_files.Rule:
        classes = [input_files.MemoryClass(*kind) for kind in self.classes]
        return input_files.Rule(self.gap_s, self.per_core_gb, self.sizes_gb, classes, self.bandwidth_gbps)

    @property
    def draws(self) -> bool:
        """Whether another seed may give another workload."""
        return self._rule.draws

    def applied(self, workload: Workload, seed: int) -> Workload:
        """Give a new workload with input files."""
        return input_files.with_files(workload, self._rule, seed)


_Kind = TypeVar("_Kind", bound=Step)


def step_of(kind: type[_Kind], given: Mapping[str, Any]) -> _Kind:
    """Make a step of parameters that were read from somewhere. Raises InputError that names the parameter."""
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InputError(f"{where + ': ' if where else ''}{first['msg'].removeprefix('Value error, ')}") from None
