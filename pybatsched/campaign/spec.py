"""Read the description of a campaign: a TOML file, validated before anything runs."""

from __future__ import annotations

import fnmatch
import itertools
import json
import math
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import (
    AfterValidator,
    Field,
    InstanceOf,
    StrictBool,
    ValidationError,
    field_validator,
    model_validator,
)

from pybatsched import pydantic_errors
from pybatsched.campaign.keys import keys_of
from pybatsched.campaign.workloads import Name, Part, PartWithSettings, Positive, WorkloadTable, read_as
from pybatsched.errors import InputError, toml_problem
from pybatsched.metrics.workload_fields import as_choices
from pybatsched.runs.policies import PolicySpec
from pybatsched.runs.spec import MachineSpec, RunSpec

FORMAT_VERSION: Final = 1
MAX_POINTS: Final = 1_000_000


def _as_json(key: str, value: Any) -> Any:
    """Return an option as a JSON value: infinity as a text, which policies also accept."""
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            raise ValueError(f"{key}: expected a number, found nan")
        return str(value)
    if isinstance(value, list):
        return [_as_json(key, part) for part in value]
    if isinstance(value, dict):
        return {name: _as_json(key, part) for name, part in value.items()}
    if not isinstance(value, str | int | float | bool):
        raise ValueError(f"{key}: expected numbers, texts, lists or tables, found {value!r:.40}")  # noqa: TRY004
    return value


#: A table of options or of fields, whose values are JSON values.
_JsonTable = Annotated[
    dict[str, Any], AfterValidator(lambda table: {key: _as_json(key, value) for key, value in table.items()})
]


class PlatformTable(PartWithSettings):
    """A machine: equal processors, a name or file as for -p, groups of nodes, or the machine of the workload."""

    RECORD = MachineSpec
    SETTINGS: ClassVar = {"machine": keys_of(MachineSpec)}

    name: Name
    machine: Annotated[InstanceOf[MachineSpec], read_as(MachineSpec)] = MachineSpec()
    of_workload: StrictBool = False
    alpha: float = Field(default=0.0, ge=0, le=0.99)

    @model_validator(mode="after")
    def _one_source(self) -> PlatformTable:
        machine = self.machine
        sources = {
            "procs": machine.n_procs,
            "platform": machine.platform,
            "nodes": machine.nodes,
            "of_workload": self.of_workload,
        }
        given = [name for name, value in sources.items() if value not in {None, False}]
        if len(given) != 1:
            found = " and ".join(given) or "none of them"
            raise ValueError(f"expected one of procs, platform, nodes and of_workload = true, found {found}")
        if self.alpha and (machine.platform is not None or machine.nodes is not None):
            raise ValueError(
                "alpha: works only with procs or of_workload (`pybatsched platform generate` writes platform files)"
            )
        return self


def _are_tables(value: Any) -> bool:
    """Return whether a value is a list of tables, such as reservations."""
    return isinstance(value, list) and all(isinstance(part, dict) for part in value)


class PolicyTable(PartWithSettings):
    """A policy. It runs with all combinations of the values of its options; a list has several values."""

    RECORD = PolicySpec
    APART = ("options",)
    SETTINGS: ClassVar = {"spec": keys_of(PolicySpec, APART)}

    spec: Annotated[InstanceOf[PolicySpec], read_as(PolicySpec)]
    options: _JsonTable = Field(default_factory=dict)
    platforms: tuple[Name, ...] = ()
    workloads: tuple[Name, ...] = ()

    @field_validator("spec")
    @classmethod
    def _has_name(cls, spec: PolicySpec) -> PolicySpec:
        if not spec.policy:
            raise ValueError("name is missing; expected the name of a policy, or path/to/file.py:Class")
        return spec

    @field_validator("options")
    @classmethod
    def _have_values(cls, options: dict[str, Any]) -> dict[str, Any]:
        for key, value in options.items():
            if value == []:
                raise ValueError(f"{key}: expected a value, or a list of at least one value")
        return options

    @property
    def title(self) -> str:
        """The name in tables."""
        return self.spec.label or str(self.spec.policy)

    def settings(self) -> Iterator[dict[str, Any]]:
        """Yield all combinations of the values of its options. O(combinations)."""
        for values in itertools.product(*self.choices()):
            yield dict(zip(self.options, values, strict=True))

    def choices(self) -> list[list[Any]]:
        """Return the values of each option. One list of reservations is one value of `host_reservations`."""
        return [
            [value] if key == "host_reservations" and _are_tables(value) else as_choices(value)
            for key, value in self.options.items()
        ]


class ChartSpec(Part):
    """A chart of the campaign's page: a figure of its table, with a box for each value of `by`, a row per workload.

    `by` is `policy` (a box for each setting), `platform` or an option. `where` selects points by workload, platform,
    policy (patterns with stars) and options; a list selects all of its values. With `over`, the label of a policy,
    values are divided by those of that policy on the same workload, platform and seed. With `each`, a field in the
    campaign's `each`, a dot is one value of that field in a run, such as one user. Charts of one figure have the same
    axis of values, unless `axis` is `own`.
    """

    figure: Annotated[str, Field(min_length=1)]
    by: str = "policy"
    each: str = ""
    title: str = ""
    scale: Literal["auto", "log", "linear"] = "auto"
    axis: Literal["same", "own"] = "same"
    where: _JsonTable = Field(default_factory=dict)
    over: str = ""

    def check(self, spec: Spec) -> None:
        """Raise ValueError for a name that the campaign does not have."""
        options = dict.fromkeys(name for policy in spec.policy for name in policy.options)
        labels = [policy.title for policy in spec.policy]
        if self.by not in {"policy", "platform", *options}:
            raise ValueError(
                f"by: no policy has an option {self.by!r}; expected {_listed('policy', 'platform', *options)}"
            )
        if self.each and self.each not in spec.each:
            expected = _listed(*spec.each) if spec.each else "a member each in the campaign"
            raise ValueError(f"each: the campaign has no figures by {self.each!r}; expected {expected}")
        known: dict[str, list[str]] = {"platform": [part.name for part in spec.platform], "policy": labels}
        known["workload"] = [part.name for part in spec.workload]
        for name, wanted in self.where.items():
            if name not in {*known, *options}:
                raise ValueError(f"where: no policy has an option {name!r}; expected {_listed(*known, *options)}")
            if name == "workload" and any(part.is_split for part in spec.workload):
                continue  # the names of weeks and sequences are not known yet
            for choice in as_choices(wanted) if name in known else ():
                if not any(fnmatch.fnmatchcase(one, str(choice)) for one in known[name]):
                    raise ValueError(f"where: no {name} is named {choice!r}; expected {_listed(*known[name])}")
        if self.over and self.over not in labels:
            raise ValueError(f"over: no policy is named {self.over!r}; expected {_listed(*labels)}")


class OptionRange(Part):
    """The range of an option that is searched: whole numbers if both ends are, on a logarithmic scale with `log`."""

    low: int | float
    high: int | float
    log: StrictBool = False

    @model_validator(mode="after")
    def _ordered(self) -> OptionRange:
        if not self.low < self.high or not math.isfinite(self.high - self.low):
            raise ValueError(f"expected low below high, found {self.low} and {self.high}")
        if self.log and self.low <= 0:
            raise ValueError(f"log: expected low above 0, found {self.low}")
        return self


class TuneSpec(Part):
    """What `campaign tune` searches: options of a policy for the best mean of a figure.

    `policy` is the label of a policy with one setting. Its `options` are ranges (low, high, log) or lists of choices.
    With `against`, the label of another policy, the figure is divided by that of the other on the same workload. The
    first share `train` of the workloads is for the search, the rest for the test of the best options.
    """

    policy: str
    options: dict[str, OptionRange | tuple[str | int | float | bool, ...]] = Field(min_length=1)
    figure: str = "mean_bounded_slowdown"
    against: str = ""
    train: float = Field(default=0.5, gt=0, lt=1)
    trials: Positive = 50
    seed: int = Field(default=0, ge=0, lt=2**31)

    def suggested(self, trial: Any) -> dict[str, Any]:
        """Return the options of a trial of Optuna."""
        found: dict[str, Any] = {}
        for name, wanted in self.options.items():
            if not isinstance(wanted, OptionRange):
                found[name] = trial.suggest_categorical(name, list(wanted))
            elif isinstance(wanted.low, int) and isinstance(wanted.high, int):
                found[name] = trial.suggest_int(name, wanted.low, wanted.high, log=wanted.log)
            else:
                found[name] = trial.suggest_float(name, wanted.low, wanted.high, log=wanted.log)
        return found

    def check(self, spec: Spec) -> None:
        """Raise ValueError for a policy that the campaign does not have, or that has several settings."""
        for member in ("policy", "against"):
            label = getattr(self, member)
            own = [policy for policy in spec.policy if policy.title == label]
            if label and not own:
                known = _listed(*(policy.title for policy in spec.policy))
                raise ValueError(f"{member}: no policy is named {label!r}; expected {known}")
            if len(own) > 1 or any(len(list(policy.settings())) > 1 for policy in own):
                raise ValueError(f"{member}: {label!r} has several settings; expected one")
        if self.policy == self.against:
            raise ValueError(f"against: expected another policy than {self.policy!r}")
        for name, wanted in self.options.items():
            if wanted == ():
                raise ValueError(f"options: {name}: expected a range or at least one choice")


def _listed(*names: str) -> str:
    return f"one of {', '.join(dict.fromkeys(names))}"


class Spec(PartWithSettings):
    """A whole campaign.

    `each` are fields of jobs (or `size`, `kind`, `state`): figures are kept for each of their values, such as each
    user. With a `baseline`, the label of a policy, every point is compared with that policy's point, job by job;
    `where` selects the compared jobs by their fields. `tune` is for `campaign tune` only. `run` are the settings of
    `runs.spec.RunSpec`, which are keys of the file and hold for all runs.
    """

    RECORD = RunSpec
    APART = ("seed", "allow_empty")
    SETTINGS: ClassVar = {"run": keys_of(RunSpec, APART)}

    format: Literal[1] = FORMAT_VERSION
    name: Name
    workload: tuple[WorkloadTable, ...] = Field(min_length=1)
    platform: tuple[PlatformTable, ...] = Field(min_length=1)
    policy: tuple[PolicyTable, ...] = Field(min_length=1)
    seeds: tuple[Annotated[int, Field(ge=0, lt=2**31)], ...] = Field(default=(0,), min_length=1)
    repeats: Positive = 1
    run: Annotated[InstanceOf[RunSpec], read_as(RunSpec)] = RunSpec()
    keep: Literal["figures", "jobs", "files"] = "figures"
    each: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    baseline: str = ""
    where: _JsonTable = Field(default_factory=dict)
    timeout_s: float = Field(default=0.0, ge=0)
    chart: tuple[ChartSpec, ...] = ()
    tune: TuneSpec | None = None

    @model_validator(mode="before")
    @classmethod
    def _with_machine(cls, given: Any) -> Any:
        """Return the members with the machine of the first `slurm_conf` of a policy, if no platform is given."""
        policies = given.get("policy") if isinstance(given, dict) and "platform" not in given else ()
        for policy in policies if isinstance(policies, list | tuple) else ():
            options = policy.get("options") if isinstance(policy, dict) else None
            conf = options.get("slurm_conf") if isinstance(options, dict) else None
            if conf:
                return given | {"platform": [{"name": "cluster", "platform": as_choices(conf)[0]}]}
        return given

    @model_validator(mode="after")
    def _distinct(self) -> Spec:
        for kind in ("workload", "platform"):
            names = [part.name for part in getattr(self, kind)]
            twins = [name for name in names if names.count(name) > 1]
            if twins:
                raise ValueError(f"{kind}: the name {twins[0]!r} is used twice; expected unique names")
        if len(set(self.seeds)) < len(self.seeds):
            twice = next(seed for seed in self.seeds if self.seeds.count(seed) > 1)
            raise ValueError(f"seeds: {twice} is given twice; expected different seeds")
        for part in self.workload:
            unknown = [seed for seed in part.seeds if seed not in self.seeds]
            if unknown:
                raise ValueError(f"workload {part.name}, seeds: {unknown[0]} is not a seed of the campaign")
        return self

    @model_validator(mode="after")
    def _policies_fit(self) -> Spec:
        """Check that policies name known platforms and workloads, and that no two have the same point."""
        known = {
            "platform": tuple(platform.name for platform in self.platform),
            "workload": tuple(workload.name for workload in self.workload),
        }
        for policy in self.policy:
            for kind, named in (("platform", policy.platforms), ("workload", policy.workloads)):
                for name in named:
                    if name not in known[kind]:
                        raise ValueError(f"policy {policy.title}: no {kind} is named {name!r}")
        n_settings = sum(math.prod(map(len, policy.choices())) for policy in self.policy)
        n_points = len(self.workload) * len(self.platform) * n_settings * len(self.seeds) * self.repeats
        if n_points > MAX_POINTS:
            raise ValueError(f"the campaign has up to {n_points:,} points; expected at most {MAX_POINTS:,}")
        seen = set()
        for policy in self.policy:
            pairs = itertools.product(policy.platforms or known["platform"], policy.workloads or known["workload"])
            for setting, (platform, workload) in itertools.product(policy.settings(), pairs):
                point = (policy.title, json.dumps(setting, sort_keys=True), platform, workload)
                if point in seen:
                    raise ValueError(
                        f"policy {policy.title}: two entries have this label and the same options on {platform}; "
                        "expected different labels"
                    )
                seen.add(point)
        return self

    @model_validator(mode="after")
    def _baseline_fits(self) -> Spec:
        """Check that the baseline has one setting on each platform and workload."""
        if not self.baseline:
            if self.where:
                raise ValueError("where: works only with baseline (where selects the compared jobs)")
            return self
        own = [policy for policy in self.policy if policy.title == self.baseline]
        if not own:
            titles = _listed(*(policy.title for policy in self.policy))
            raise ValueError(f"baseline: no policy is named {self.baseline!r}; expected {titles}")
        covered: set[tuple[str, str]] = set()
        for policy in own:
            platforms = policy.platforms or tuple(platform.name for platform in self.platform)
            workloads = policy.workloads or tuple(workload.name for workload in self.workload)
            pairs = set(itertools.product(platforms, workloads))
            if len(list(policy.settings())) > 1 or pairs & covered:
                raise ValueError(f"baseline: {self.baseline!r} has several settings; expected one")
            covered |= pairs
        return self

    @model_validator(mode="after")
    def _parts_fit(self) -> Spec:
        """Check the names in the tables of tuning and of charts."""
        parts: dict[str, TuneSpec | ChartSpec] = {} if self.tune is None else {"tune": self.tune}
        parts |= {f"chart {number}": chart for number, chart in enumerate(self.chart, start=1)}
        for name, part in parts.items():
            try:
                part.check(self)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from None
        return self


def read_spec(path: str | Path) -> Spec:
    """Read and check a campaign file. Raises InputError that names the file and the member."""
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, a number with thousands of digits
        raise InputError(f"{path}: {toml_problem(error)}") from None
    return spec_of(content, str(path))


def spec_of(content: dict[str, Any], source: str) -> Spec:
    """Validate the content of a campaign file. Raises InputError that names `source` and the member."""
    try:
        return Spec.model_validate(content)
    except ValidationError as error:
        raise InputError("\n".join(f"{source}: {line}" for line in pydantic_errors.lines(error, Spec))) from None
