"""Validate the workloads of a campaign's file: the source of jobs, and the steps that prepare them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    InstanceOf,
    SerializerFunctionWrapHandler,
    StrictBool,
    field_validator,
    model_serializer,
    model_validator,
)

from pybatsched.campaign.keys import as_key, keys_of
from pybatsched.errors import InputError
from pybatsched.pydantic_errors import for_pydantic
from pybatsched.runs.spec import WorkloadSpec
from pybatsched.settings import NUMBER, Checked
from pybatsched.workload.generate.models import MODELS
from pybatsched.workload.inject.steps import Deadlines, Files, Moldable, Step, Urgent
from pybatsched.workload.merge import NAME, NAME_IN_WORDS, check_name
from pybatsched.workload.prepare import as_list
from pybatsched.workload.resample.users import Resampling
from pybatsched.workload.selection import seconds_of
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


class _Settings(dict[str, Any]):
    """The settings of a record in a table of the file, not checked yet."""


class PartWithSettings(Part):
    """A table with the settings of a `RECORD` as keys, except those `APART`. The member in `SETTINGS` holds them."""

    RECORD: ClassVar[type[Checked]]
    APART: ClassVar[tuple[str, ...]] = ()
    SETTINGS: ClassVar[Mapping[str, Sequence[str]]]

    @model_validator(mode="before")
    @classmethod
    def _settings(cls, given: Any) -> Any:
        (member,) = cls.SETTINGS
        if not isinstance(given, dict):
            return given
        if member in given:
            raise ValueError(f"unknown key {member!r}; expected each of its settings as a key of this table")
        known = cls.RECORD.names()
        own = _Settings({key: value for key, value in given.items() if key in known and key not in cls.APART})
        return {key: value for key, value in given.items() if key not in own} | {member: own}

    @model_serializer(mode="wrap")
    def _flat(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        (member,) = self.SETTINGS
        content: dict[str, Any] = write(self)
        content.pop(member, None)
        own = getattr(self, member).as_json()
        return content | {as_key(name): value for name, value in own.items() if name not in self.APART}


def _above_zero(value: Any) -> Any:
    """Return a number above 0. The error is that of settings."""
    with for_pydantic():
        return NUMBER.read("", value)


def read_as(record: type[Checked]) -> BeforeValidator:
    """Return the validator of the member of a `PartWithSettings`. Its errors have the keys of the file."""

    def of(given: Any) -> Any:
        try:
            return record.by_name(given) if isinstance(given, _Settings) else given
        except InputError as error:
            raise ValueError(error.spelled(as_key)) from None

    return BeforeValidator(of)


#: An offered load, or a factor of it.
_Load = Annotated[float, BeforeValidator(_above_zero)]
_Seconds = Annotated[float, BeforeValidator(_seconds), Field(ge=0, allow_inf_nan=False)]


_Bounds = tuple[float, float | None]


class Weeks(Part):
    """The weeks of a log: "all", a list of numbers, or a table that describes busy weeks."""

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


class Change(BaseModel):
    """A change of the workload by a function of the user: ``module:function`` or ``file.py:function``.

    The other keys are its options. It gets the workload, `seed` and these options, and returns a workload, or several,
    each a separate workload.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    by: str

    @property
    def options(self) -> dict[str, Any]:
        """The options of the function."""
        return dict(self.model_extra or {})


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


class WorkloadTable(PartWithSettings):
    """The source of jobs, and the steps that prepare them, in this order.

    `jobs` are the settings of `runs.spec.WorkloadSpec`, which are keys of the same table. A `file` is searched for in
    the directory of the campaign file, then in the directory of traces. An `optional` workload is left out, with its
    points, if a file is missing. `merge` merges several logs into one workload. `external` is the share of merged jobs
    that are external, chosen at random. `walltimes` are exact for random workloads. `seeds` are the seeds of the
    campaign that the workload runs with, by default all. `reader` is a function, ``module:function`` or
    ``file.py:function``, that reads the `file` and returns a workload, for formats that pybatsched does not know.
    `change` is applied to the jobs that are left, before the steps that change jobs. Several values of `load` make
    several workloads. `shake` makes copies with moved submissions, new ones for each seed. `resample` makes new logs of
    the users of the log, before loads are scaled.
    """

    RECORD = WorkloadSpec
    APART = ("load",)
    SETTINGS: ClassVar = {"jobs": keys_of(WorkloadSpec, APART)}

    name: Name
    jobs: Annotated[InstanceOf[WorkloadSpec], read_as(WorkloadSpec)] = WorkloadSpec()
    merge: tuple[MergedLog, ...] = ()
    optional: StrictBool = False
    generate: GeneratedWorkload | None = None
    weeks: Weeks | None = None
    reader: str = ""
    change: Change | None = None
    external: float | None = Field(default=None, ge=0, le=1)
    load: Annotated[tuple[_Load, ...], BeforeValidator(as_list)] = ()
    shake: Shake | None = None
    resample: Resample | None = None
    seeds: tuple[int, ...] = ()
    moldable: Moldable | None = None
    deadlines: Deadlines | None = None
    files: Files | None = None
    urgent: Urgent | None = None

    @model_validator(mode="before")
    @classmethod
    def _exact_if_random(cls, given: Any) -> Any:
        if not isinstance(given, dict) or given.get("generate") is None:
            return given
        return {"walltimes": "exact"} | given

    def has(self, seed: int) -> bool:
        """Return whether the workload runs with a seed of the campaign."""
        return not self.seeds or seed in self.seeds

    @property
    def sources(self) -> list[str]:
        """The files of the workload."""
        return [self.jobs.file] if self.jobs.file else [log.file for log in self.merge]

    @property
    def injections(self) -> list[Step]:
        """The steps that change jobs, in this order: urgent jobs are added last, so that no other step changes them."""
        return [step for step in (self.moldable, self.deadlines, self.files, self.urgent) if step is not None]

    @property
    def is_split(self) -> bool:
        """Whether it may become workloads with other names: weeks, parts, loads, shaken copies or resamples."""
        parts = (self.weeks, self.change, self.shake, self.resample)
        return bool(self.load) or any(part is not None for part in parts)

    @property
    def draws(self) -> bool:
        """Whether the workload depends on the seed."""
        is_mixed = self.external is not None and 0 < self.external < 1
        parts = (self.generate, self.change, self.shake, self.resample)
        has_source = any(part is not None for part in parts)
        return has_source or is_mixed or any(step.is_random for step in self.injections)

    @model_validator(mode="after")
    def _one_source(self) -> WorkloadTable:
        if bool(self.jobs.file) + (self.generate is not None) + bool(self.merge) != 1:
            raise ValueError("expected one of file, merge and generate")
        names = [log.name for log in self.merge]
        if twins := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"merge: the name {twins[0]!r} is used twice; expected unique names")
        return self

    @model_validator(mode="after")
    def _whole_log(self) -> WorkloadTable:
        has_ends = self.jobs.warm_up or self.jobs.cool_down
        if self.resample is not None and (self.weeks is not None or self.change is not None):
            raise ValueError("resample: cannot be used with weeks or change")
        if self.resample is not None and has_ends:
            raise ValueError("resample: cannot be used with warm_up or cool_down")
        if self.change is not None and has_ends:
            raise ValueError("change: cannot be used with warm_up or cool_down")
        if self.reader and (not self.jobs.file or self.weeks is not None):
            raise ValueError("reader: works only with file, and without weeks")
        return self

    @model_validator(mode="after")
    def _fits_its_source(self) -> WorkloadTable:
        of_model = self.generate is not None and self.generate.load is not None
        if self.load and (self.jobs.scale_load is not None or of_model):
            raise ValueError("load: cannot be used with scale_load, or with a load of generate")
        if len(set(self.load)) < len(self.load):
            twice = next(load for load in self.load if self.load.count(load) > 1)
            raise ValueError(f"load: {twice:g} is given twice; expected different loads")
        for source, known in (("generate", _OF_GENERATED), ("reader", {"file", *_OF_GENERATED})):
            for name, _ in self.jobs.changed() if getattr(self, source) else ():
                if name not in known:
                    raise ValueError(f"{as_key(name)}: cannot be used with {source}")
        has_window = self.jobs.begin is not None or self.jobs.end is not None
        if self.weeks is not None and (not self.jobs.file or has_window):
            raise ValueError("weeks: works only with file, and without from and to")
        if self.external is not None and not self.merge:
            raise ValueError("external: works only with merge: jobs of merged logs have a cluster")
        if self.jobs.n_procs is not None and self.merge:
            raise ValueError("procs: expected in each log of merge, not in the workload")
        return self


#: Settings of workloads that apply to generated ones.
_OF_GENERATED: Final = frozenset({"walltimes", "warm_up", "cool_down", "max_jobs", "feedback", "scale_load"})
