"""The workloads of a campaign's file: where jobs come from, and what is done to them before they run."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from pybatsched.errors import InputError
from pybatsched.workload.formats.swf import MemoryUnit, RunTimes, Size
from pybatsched.workload.generate.models import MODELS
from pybatsched.workload.inject.steps import Deadlines, Files, Moldable, Step, Urgent
from pybatsched.workload.merge import NAME, NAME_IN_WORDS, check_name
from pybatsched.workload.selection import Selection, seconds_of
from pybatsched.workload.walltimes import Walltimes


def _name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise ValueError(f"expected {NAME_IN_WORDS}, found {text!r:.100}")
    return text


Name = Annotated[str, AfterValidator(_name)]
Positive = Annotated[int, Field(gt=0)]


class Part(BaseModel):
    """A table of the file: an unknown member is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _seconds(value: Any) -> Any:
    """Read a time that is a text, as 30d; what is none is for others to judge."""
    if not isinstance(value, str):
        return value
    try:
        return seconds_of(value, "time")
    except InputError as error:
        raise ValueError(str(error)) from None


_Seconds = Annotated[float, BeforeValidator(_seconds), Field(ge=0, allow_inf_nan=False)]


class Weeks(Part):
    """The busy weeks of a log, each of which is a workload of its own."""

    utilisation: tuple[float, float | None] = (0.7, None)
    max_weeks: Positive | None = None
    keep_ends: bool = False


class Drawn(Part):
    """A workload drawn at random, anew for each seed."""

    model: str = "lublin"
    procs: Positive
    jobs: Positive | None = None
    days: float | None = Field(default=None, gt=0)
    load: float | None = Field(default=None, gt=0)
    runtimes: str = "exponential:3600"
    sizes: str = "power2"
    users: int = Field(default=0, ge=0)

    @field_validator("model")
    @classmethod
    def _known(cls, model: str) -> str:
        if model not in MODELS:
            raise ValueError(f"expected one of {', '.join(MODELS)}")
        return model


class MergedLog(Part):
    """One of several logs that make a workload: the name of its cluster, its file, the processors of its machine."""

    name: str
    file: str
    procs: Positive | None = None

    @field_validator("name")
    @classmethod
    def _fit_for_ids(cls, name: str) -> str:
        try:
            check_name(name)
        except InputError as error:
            raise ValueError(str(error)) from None
        return name


class WorkloadSpec(Part):
    """Where jobs come from, and what is done to them before they run, in this order.

    A `file` is looked for beside the campaign file, then in the directory of traces; what is `optional` is left out,
    with its points, where a file is not found. `merge` makes one workload of several. Both are cut to a window, `from`
    and `to`, counted from the first submission of each file; `external` is the share of merged jobs that are so by
    chance. `walltimes` are as in `workload convert`: requested unless it says otherwise, and exact for drawn workloads.
    `size` and `run_times` say which processors of a log count, and whether run times are cut to the request.
    `memory_unit` is that of logs, KB unless it says otherwise; `partitions` are those whose jobs are taken, all unless
    it names some. `seeds` are those of the campaign that it is tried with, all unless it names some.
    """

    name: Name
    file: str | None = None
    merge: tuple[MergedLog, ...] = ()
    optional: bool = False
    generate: Drawn | None = None
    walltimes: str = ""
    weeks: Weeks | None = None
    from_at: _Seconds | None = Field(default=None, alias="from")
    to_at: _Seconds | None = Field(default=None, alias="to")
    external: float | None = Field(default=None, ge=0, le=1)
    max_jobs: Positive | None = None
    seeds: tuple[int, ...] = ()
    procs: Positive | None = None
    size: Size | None = None
    run_times: RunTimes | None = None
    memory_unit: MemoryUnit | None = None
    partitions: tuple[str, ...] = ()
    moldable: Moldable | None = None
    deadlines: Deadlines | None = None
    files: Files | None = None
    urgent: Urgent | None = None

    def has(self, seed: int) -> bool:
        """Tell whether it is tried with a seed of the campaign."""
        return not self.seeds or seed in self.seeds

    @property
    def sources(self) -> list[str]:
        """The files it is made of."""
        return [log.file for log in self.merge] if self.file is None else [self.file]

    @property
    def window(self) -> Selection:
        """Which jobs of each file are kept, by their submission."""
        if self.from_at is None and self.to_at is None:
            return Selection(partitions=self.partitions, clock="first" if self.merge else "log")
        return Selection(from_at=self.from_at, to_at=self.to_at, partitions=self.partitions, clock="first")

    @property
    def injections(self) -> list[Step]:
        """What is added to the jobs, in this order: urgent jobs come last, so that nothing else falls on them."""
        return [step for step in (self.moldable, self.deadlines, self.files, self.urgent) if step is not None]

    @property
    def of_swf(self) -> dict[str, str | None]:
        """What is said of a log in SWF alone, by name."""
        return {"size": self.size, "run_times": self.run_times, "memory_unit": self.memory_unit}

    @property
    def draws(self) -> bool:
        """Whether another seed may give another workload."""
        is_mixed = self.external is not None and 0 < self.external < 1
        return self.generate is not None or is_mixed or any(step.is_random for step in self.injections)

    @field_validator("partitions", mode="before")
    @classmethod
    def _numbers_are_names(cls, names: Any) -> Any:
        return [str(name) if type(name) is int else name for name in names] if isinstance(names, list) else names

    @field_validator("walltimes")
    @classmethod
    def _rule(cls, text: str) -> str:
        try:
            Walltimes.parse(text or "exact")
        except InputError as error:
            raise ValueError(str(error)) from None
        return text

    @model_validator(mode="after")
    def _one_source(self) -> WorkloadSpec:
        if (self.file is not None) + (self.generate is not None) + bool(self.merge) != 1:
            raise ValueError("expected one of file, merge and generate")
        names = [log.name for log in self.merge]
        if twins := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"merge: two are named {twins[0]!r}")
        return self

    @model_validator(mode="after")
    def _fits_its_source(self) -> WorkloadSpec:
        given: dict[str, Any] = {"from": self.from_at, "to": self.to_at, "max_jobs": self.max_jobs}
        given |= {"procs": self.procs, "partitions": self.partitions or None}
        if self.generate is not None:
            for name, value in (given | self.of_swf).items():
                if value is not None:
                    raise ValueError(f"{name}: expected with a file; what is drawn has its own")
        if self.weeks is not None and (self.file is None or self.from_at is not None or self.to_at is not None):
            raise ValueError("weeks: expected a log, by file, and neither from nor to: weeks are windows of their own")
        if self.external is not None and not self.merge:
            raise ValueError("external: expected with merge, which says whose cluster a job goes to")
        if self.procs is not None and self.merge:
            raise ValueError("procs: expected in each log of merge")
        try:
            _ = self.window
        except InputError as error:
            raise ValueError(str(error)) from None
        return self
