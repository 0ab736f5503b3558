"""Steps that add deadlines, urgent jobs, moldable types or input files to a workload, each with its own seed."""

from __future__ import annotations

import copy
import itertools
import random
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from pybatsched import pydantic_errors
from pybatsched.errors import InputError
from pybatsched.workload.inject import checkpoints, deadlines, input_files, urgent
from pybatsched.workload.model import Workload
from pybatsched.workload.selection import seconds_of

_Count = Annotated[int, Field(gt=0)]
_Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Share = Annotated[float, Field(gt=0, le=1)]
#: Queues are numbers in logs, and may be names in Batsim files.
_Queue = Annotated[str, BeforeValidator(lambda value: str(value) if type(value) is int else value)]


def _urgent_job(value: object) -> urgent.UrgentJob:
    with pydantic_errors.for_pydantic():
        return urgent.urgent_job_of(value)


_UrgentJob = Annotated[tuple[int, float, float], BeforeValidator(_urgent_job)]


class Step(BaseModel):
    """A change of a workload."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @property
    def is_random(self) -> bool:
        """Whether the result depends on the seed."""
        return True

    def applied(self, workload: Workload, seed: int) -> Workload:
        """Return the changed workload. Raises InputError if the step cannot be applied to it."""
        raise NotImplementedError


class CheckpointStep(Step):
    """Lengthen jobs by the dumps of checkpoints: `interval` of work ("daly" with `mtbf`, of one host), dump and read.

    Computations run at `speed` flop/s.
    """

    interval: str = checkpoints.DALY
    dump: str = "5m"
    read: str | None = None
    mtbf: str | None = None
    speed: float | None = Field(default=None, gt=0)

    @property
    def is_random(self) -> bool:
        """Whether the result depends on the seed."""
        return False

    def applied(self, workload: Workload, seed: int) -> Workload:  # noqa: ARG002
        """Return the workload with longer jobs."""
        settings = checkpoints.Checkpointing(self.interval, self.dump, self.read)
        mtbf_s = None if self.mtbf is None else seconds_of(self.mtbf, "mtbf")
        return checkpoints.with_checkpoints(workload, settings, node_mtbf_s=mtbf_s, speed=self.speed)


class Deadlines(Step):
    """Set a deadline, `max_stay` = max(least_s, factor x `of`), for every `every`-th job or by `share`."""

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
            raise ValueError("first: works only with every")
        return self

    @property
    def is_random(self) -> bool:
        """Whether the result depends on the seed."""
        return self.share is not None

    def applied(self, workload: Workload, seed: int) -> Workload:
        """Return the workload with deadlines."""
        n = len(workload.jobs)
        if self.share is not None:
            chosen: Iterable[int] = deadlines.random_jobs(n, self.share, seed)
        else:
            chosen = deadlines.every(n, self.every or 1, self.first)
        return deadlines.with_deadlines(workload, chosen, least_s=self.least_s, factor=self.factor, of=self.of)


class Urgent(Step):
    """Add an urgent job in each period `every_s`, or at each arrival with `probability`.

    With `busy`, only when the offered load is at least that. `kinds` are pairs of processors and seconds. Or add the
    given `jobs`, as [processors, seconds, instant]. Or mark existing jobs: those of `queues`, or each with probability
    `share`, or both.
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
        n_random = (self.every_s is not None) + (self.probability is not None)
        if n_random + (self.jobs is not None) + marks != 1:
            raise ValueError("expected exactly one of: every_s; probability; jobs; queues and share")
        for name in ("busy", "kinds"):
            if not n_random and name in self.model_fields_set:
                raise ValueError(f"{name}: works only with every_s or probability, which add random jobs")
        return self

    @property
    def is_random(self) -> bool:
        """Whether the result depends on the seed."""
        return self.share is not None or not (self.queues or self.jobs)

    def applied(self, workload: Workload, seed: int) -> Workload:
        """Return the workload with urgent jobs."""
        if self.every_s is not None:
            instants = urgent.periodic(workload, self.every_s, seed, busy=self.busy)
        elif self.probability is not None:
            instants = urgent.at_arrivals(workload, self.probability, seed, busy=self.busy)
        elif self.jobs is not None:
            return urgent.with_given(workload, [urgent.UrgentJob(*job) for job in self.jobs])
        else:
            return urgent.marked(workload, self.queues, self.share, seed)
        return urgent.with_urgent(workload, instants, self.kinds, seed)


class MoldableType(BaseModel):
    """A type of jobs: the parallel fraction (Amdahl), the maximum number of processors, and the share of jobs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    fraction: float = Field(ge=0, le=1)
    limit: _Count
    share: _Share


#: The usual types of moldable jobs.
TYPES: Final = tuple(
    MoldableType(fraction=fraction, limit=limit, share=share)
    for fraction, limit, share in ((0.8, 32, 0.5), (0.9, 96, 0.3), (0.99, 256, 0.15), (0.999, 650, 0.05))
)


class Moldable(Step):
    """Assign random types to jobs of more than one processor: parallel `fraction`, `limit` of processors, `share`."""

    types: tuple[MoldableType, ...] = Field(default=TYPES, min_length=1)

    @model_validator(mode="after")
    def _no_more_than_all(self) -> Self:
        if sum(kind.share for kind in self.types) > 1 + 1e-9:
            raise ValueError("types: expected a sum of shares of at most 1")
        return self

    def applied(self, workload: Workload, seed: int) -> Workload:
        """Return the workload with moldable jobs, sorted by submission. O(n log n).

        If the sum of shares is less than 1, the rest of the jobs gets no type. External jobs get none either, but they
        use a random number, so that the types of other jobs do not depend on which jobs are external.
        """
        rng = random.Random(f"{seed}/moldable")  # noqa: S311  no secret
        bounds = list(itertools.accumulate(kind.share for kind in self.types))
        if abs(bounds[-1] - 1.0) < 1e-9:
            bounds[-1] = 1.0  # a sum of floats may be slightly less than 1
        jobs, n_of_type = [], [0] * len(bounds)
        for job in sorted(workload.jobs, key=lambda job: job["subtime"]):
            place = bisect_right(bounds, rng.random()) if job["res"] > 1 else len(bounds)
            if place == len(bounds) or job.get("external") is True:
                jobs.append(job)
                continue
            n_of_type[place] += 1
            jobs.append({**job, "moldable": self.types[place].model_dump(include={"fraction", "limit"})})
        counts = [{**kind.model_dump(), "n": n} for kind, n in zip(self.types, n_of_type, strict=True)]
        about = {**workload.about, "moldable": {"types": counts, "seed": seed}}
        return Workload(jobs, copy.copy(workload.profiles), workload.n_procs, workload.source, about)


#: Gigabytes, or gigabytes per second. The bounds are generous, and quotients stay finite.
_Size = Annotated[float, Field(ge=1e-6, le=1e9)]


class Files(Step):
    """Add input files to all jobs. Consecutive jobs of a user with the same size share a file.

    A job shares the file of its user's last job if it has as many cores and was submitted within `gap_s` of it. A file
    has `per_core_gb` per core, or a random size between the two of `sizes_gb`. `classes` are pairs of a memory of nodes
    and the share of files whose jobs need it.
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
            raise ValueError("classes: expected a sum of shares of at most 1")
        return self

    @property
    def _rule(self) -> input_files.FileRule:
        classes = [input_files.MemoryClass(*kind) for kind in self.classes]
        return input_files.FileRule(self.gap_s, self.per_core_gb, self.sizes_gb, classes, self.bandwidth_gbps)

    @property
    def is_random(self) -> bool:
        """Whether the result depends on the seed."""
        return self._rule.is_random

    def applied(self, workload: Workload, seed: int) -> Workload:
        """Return the workload with input files."""
        return input_files.with_files(workload, self._rule, seed)


_StepType = TypeVar("_StepType", bound=Step)


def step_of(kind: type[_StepType], given: Mapping[str, Any]) -> _StepType:
    """Return a step with these parameters. Raises InputError that names the invalid parameter."""
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise InputError(str(pydantic_errors.problems(error, kind)[0])) from None
