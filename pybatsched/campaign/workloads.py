"""Validate the workloads of a campaign's file: the source of jobs, and the steps that prepare them."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    field_validator,
    model_validator,
)

from pybatsched.core.pydantic_errors import for_pydantic
from pybatsched.workload.formats.conversion import MemoryUnit, SizeIn
from pybatsched.workload.formats.files import FORMATS
from pybatsched.workload.formats.job_log import zone_of
from pybatsched.workload.formats.swf import RunTimes, Size
from pybatsched.workload.generate.models import MODELS
from pybatsched.workload.inject.steps import Deadlines, Files, Moldable, Step, Urgent
from pybatsched.workload.merge import NAME, NAME_IN_WORDS, check_name
from pybatsched.workload.prepare import as_list
from pybatsched.workload.resample.users import Resampling
from pybatsched.workload.selection import Selection, seconds_of
from pybatsched.workload.walltimes import Walltimes
from pybatsched.workload.weeks import WeekChoice


def _name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise ValueError(f"expected {NAME_IN_WORDS}, found {text!r:.100}")
    return text


Name = Annotated[str, AfterValidator(_name)]
Positive = Annotated[int, Field(gt=0)]


class Part(BaseModel):
    """A table of the file. Unknown members are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _seconds(value: Any) -> Any:
    """Parse a time that is a text, such as 30d; other values are returned unchanged."""
    with for_pydantic():
        return seconds_of(value, "time") if isinstance(value, str) else value


#: An offered load, or a factor of it.
_Load = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Seconds = Annotated[float, BeforeValidator(_seconds), Field(ge=0, allow_inf_nan=False)]


_Bounds = tuple[float, float | None]


class Weeks(Part):
    """The weeks of a log, each a separate workload: "all", a list of numbers, or a table that describes busy weeks.

    Busy weeks have a logged `utilisation` in a range (default: 0.7 or more) or an `offered_load` in a range.
    """

    all: StrictBool = False
    numbers: tuple[Positive, ...] = ()
    utilisation: _Bounds | None = None
    offered_load: _Bounds | None = None
    max_weeks: Positive | None = None
    keep_ends: StrictBool = False

    @model_validator(mode="before")
    @classmethod
    def _short(cls, given: Any) -> Any:
        if given == "all":
            return {"all": True}
        if isinstance(given, list) and given and all(type(number) is int for number in given):
            return {"numbers": given}
        if not isinstance(given, dict | cls):
            expected = 'expected "all", a list of numbers, or a table such as { max_weeks = 4 }'
            raise ValueError(f"{expected}, found {given!r:.60}")  # noqa: TRY004  pydantic reports it
        return given

    @model_validator(mode="after")
    def _one_way(self) -> Weeks:
        if self.all + bool(self.numbers) + (self.utilisation is not None) + (self.offered_load is not None) > 1:
            raise ValueError("expected only one of all, numbers, utilisation and offered_load")
        return self

    @property
    def choice(self) -> WeekChoice:
        """The same choice of weeks as a `WeekChoice`."""
        use, load = (
            None if one is None else (one[0], math.inf if one[1] is None else one[1])
            for one in (self.utilisation, self.offered_load)
        )
        return WeekChoice(self.all, self.numbers, use, load, self.keep_ends, self.max_weeks)


class Sequences(Part):
    """Random sequences of consecutive jobs, new ones for each seed; each sequence is a separate workload."""

    number: Positive = 10
    jobs: Positive = 1024


class Shake(Part):
    """Copies whose submissions move by random amounts of up to `by_s`; each copy is a separate workload."""

    n: Positive = 20
    by_s: _Seconds = 60


class Resample(Part):
    """New logs of the users of a log, each a separate workload, as in `workload resample`."""

    n: Positive = 10
    weeks: Positive | None = None
    long_term_weeks: Positive = 12
    load: _Load | None = None

    @property
    def options(self) -> Resampling:
        """The same options as a `Resampling`."""
        return Resampling(self.weeks, self.long_term_weeks, self.load)


class GeneratedWorkload(Part):
    """A random workload, a new one for each seed."""

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
            raise ValueError(f"expected one of {', '.join(MODELS)}, found {model!r:.60}")
        return model


class MergedLog(Part):
    """One of several logs that are merged: the name of its cluster, its file, the processors of its machine."""

    name: str
    file: str
    procs: Positive | None = None

    @field_validator("name")
    @classmethod
    def _fit_for_ids(cls, name: str) -> str:
        with for_pydantic():
            check_name(name)
        return name


class WorkloadSpec(Part):
    """The source of jobs, and the steps that prepare them, in this order.

    A `file` is searched for in the directory of the campaign file, then in the directory of traces. An `optional`
    workload is left out, with its points, if a file is missing. `merge` merges several logs into one workload. Both
    sources are restricted to a window, `from` and `to`, counted from the first submission of each file. Jobs of the
    `warm_up` before the window and of the `cool_down` after it are simulated, but figures leave them out. `external` is
    the share of merged jobs that are external, chosen at random. `walltimes` are as in `workload convert`: by default
    requested, and exact for random workloads. `size` and `run_times` select the processors of a log that count, and
    whether run times are limited to the request. `memory_unit` is that of logs in SWF, by default KB. `size_in` and
    `timezone` are for logs of Slurm and tables. `partitions` are those whose jobs are used, by default all. `format` is
    that of the files, by default that of their content; `mapping` is the file that describes the columns of tables,
    and is searched for as a `file`. `seeds` are the seeds of the campaign that the workload runs with, by default all.
    `unknown_runtime` keeps jobs of unknown run time. `sequences` are drawn from the jobs that are left, before the
    steps that change jobs. `scale_load` divides submission times by a factor. `load` scales them to each of these
    offered loads on the machine of the workload; each load is a separate workload. `shake` makes copies with moved
    submissions, new ones for each seed. `resample` makes new logs of the users of the log, before loads are scaled.
    With `feedback`, the next job of a user's session is submitted a think time after the end of the job before.
    """

    name: Name
    file: str | None = None
    format: str | None = None
    mapping: str | None = None
    merge: tuple[MergedLog, ...] = ()
    optional: StrictBool = False
    generate: GeneratedWorkload | None = None
    walltimes: str = ""
    weeks: Weeks | None = None
    sequences: Sequences | None = None
    from_at: _Seconds | None = Field(default=None, alias="from")
    to_at: _Seconds | None = Field(default=None, alias="to")
    warm_up: _Seconds = 0
    cool_down: _Seconds = 0
    external: float | None = Field(default=None, ge=0, le=1)
    max_jobs: Positive | None = None
    load: Annotated[tuple[_Load, ...], BeforeValidator(as_list)] = ()
    scale_load: _Load | None = None
    shake: Shake | None = None
    resample: Resample | None = None
    feedback: StrictBool = False
    seeds: tuple[int, ...] = ()
    procs: Positive | None = None
    size: Size | None = None
    run_times: RunTimes | None = None
    unknown_runtime: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    memory_unit: MemoryUnit | None = None
    size_in: SizeIn | None = None
    timezone: str | None = None
    partitions: tuple[str, ...] = ()
    moldable: Moldable | None = None
    deadlines: Deadlines | None = None
    files: Files | None = None
    urgent: Urgent | None = None

    def has(self, seed: int) -> bool:
        """Return whether the workload runs with a seed of the campaign."""
        return not self.seeds or seed in self.seeds

    @property
    def sources(self) -> list[str]:
        """The files of the workload."""
        return [log.file for log in self.merge] if self.file is None else [self.file]

    @property
    def window(self) -> Selection:
        """The selection of jobs of each file, by their submission."""
        is_plain = self.from_at is None and self.to_at is None and not self.merge
        return Selection(
            from_at=self.from_at,
            to_at=self.to_at,
            partitions=self.partitions,
            clock="log" if is_plain else "first",
            warm_up_s=self.warm_up,
            cool_down_s=self.cool_down,
        )

    @property
    def injections(self) -> list[Step]:
        """The steps that change jobs, in this order: urgent jobs are added last, so that no other step changes them."""
        return [step for step in (self.moldable, self.deadlines, self.files, self.urgent) if step is not None]

    @property
    def of_logs(self) -> dict[str, Any]:
        """The members that only apply to logs of some formats, by name."""
        names = ("size", "run_times", "unknown_runtime", "memory_unit", "size_in", "timezone")
        return {name: getattr(self, name) for name in names}

    @property
    def is_split(self) -> bool:
        """Whether it becomes workloads with other names: weeks, sequences, loads, shaken copies or resamples."""
        parts = (self.weeks, self.sequences, self.shake, self.resample)
        return bool(self.load) or any(part is not None for part in parts)

    @property
    def draws(self) -> bool:
        """Whether the workload depends on the seed."""
        is_mixed = self.external is not None and 0 < self.external < 1
        parts = (self.generate, self.sequences, self.shake, self.resample)
        has_source = any(part is not None for part in parts)
        return has_source or is_mixed or any(step.is_random for step in self.injections)

    @field_validator("partitions", mode="before")
    @classmethod
    def _numbers_are_names(cls, names: Any) -> Any:
        return [str(name) if type(name) is int else name for name in names] if isinstance(names, list) else names

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, name: str | None) -> str | None:
        with for_pydantic():
            if name is not None:
                zone_of(name)
        return name

    @field_validator("walltimes")
    @classmethod
    def _rule(cls, text: str) -> str:
        with for_pydantic():
            Walltimes.parse(text or "exact", "")
        return text

    @model_validator(mode="after")
    def _one_source(self) -> WorkloadSpec:
        if (self.file is not None) + (self.generate is not None) + bool(self.merge) != 1:
            raise ValueError("expected one of file, merge and generate")
        names = [log.name for log in self.merge]
        if twins := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"merge: the name {twins[0]!r} is used twice; expected unique names")
        return self

    @model_validator(mode="after")
    def _whole_log(self) -> WorkloadSpec:
        if self.resample is not None and (self.weeks is not None or self.sequences is not None):
            raise ValueError("resample: cannot be used with weeks or sequences")
        if self.resample is not None and (self.warm_up or self.cool_down):
            raise ValueError("resample: cannot be used with warm_up or cool_down")
        return self

    @model_validator(mode="after")
    def _one_load(self) -> WorkloadSpec:
        of_model = self.generate is not None and self.generate.load is not None
        if self.load and (self.scale_load is not None or of_model):
            raise ValueError("load: cannot be used with scale_load, or with a load of generate")
        if len(set(self.load)) < len(self.load):
            twice = next(load for load in self.load if self.load.count(load) > 1)
            raise ValueError(f"load: {twice:g} is given twice; expected different loads")
        return self

    @model_validator(mode="after")
    def _fits_its_source(self) -> WorkloadSpec:
        given: dict[str, Any] = {"from": self.from_at, "to": self.to_at, "max_jobs": self.max_jobs}
        given |= {"procs": self.procs, "partitions": self.partitions or None}
        given |= {"format": self.format, "mapping": self.mapping}
        if self.format is not None and self.format not in FORMATS:
            raise ValueError(f"format: expected one of {', '.join(FORMATS)}, found {self.format!r:.60}")
        if self.format is not None and self.mapping is not None:
            raise ValueError("format: cannot be used with mapping, which is for other tables")
        if self.generate is not None:
            for name, value in (given | self.of_logs).items():
                if value is not None:
                    raise ValueError(f"{name}: cannot be used with generate")
        if self.weeks is not None and (self.file is None or self.from_at is not None or self.to_at is not None):
            raise ValueError("weeks: works only with file, and without from and to")
        if self.weeks is not None and self.sequences is not None:
            raise ValueError("sequences: cannot be used with weeks")
        if self.sequences is not None and (self.warm_up or self.cool_down):
            raise ValueError("sequences: cannot be used with warm_up or cool_down")
        if self.external is not None and not self.merge:
            raise ValueError("external: works only with merge: jobs of merged logs have a cluster")
        if self.procs is not None and self.merge:
            raise ValueError("procs: expected in each log of merge, not in the workload")
        with for_pydantic():
            _ = self.window
        return self
