"""Options and job fields of locality, and the scores that the options select."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from pydantic import Field, ValidationInfo, model_validator

from pybatsched import FieldError, JobFields, Options


class Weights(NamedTuple):
    """The multipliers of a score. With `is_eager`, nodes with an immediate start are scored by EAT + LOAD (LEO)."""

    load: float = 0.0  # x1
    evict: float = 0.0  # x2
    copies: float = 0.0  # x3
    is_eager: bool = False


FCFS: Final = Weights()
EFT: Final = Weights(load=1.0)
LEA: Final = Weights(load=500.0, evict=1.0)
LEO: Final = LEA._replace(is_eager=True)


Score = Literal["fcfs", "eft", "lea", "leo", "lem"]

_PRESETS: Final[Mapping[str, Weights]] = {"fcfs": FCFS, "eft": EFT, "lea": LEA, "leo": LEO, "lem": LEA}


class Rule:
    """The weights of the score. For LEM they depend on whether some node is idle."""

    def __init__(self, weights: Weights, *, is_mixed: bool = False) -> None:
        self._weights = weights
        self._is_mixed = is_mixed

    @property
    def is_fcfs(self) -> bool:
        """Whether files do not count."""
        return self._weights == FCFS

    def weights(self, *, some_idle: bool) -> Weights:
        """Return the weights for the next job; `some_idle` means that a node has no job."""
        return EFT if self._is_mixed and some_idle else self._weights


class LocalityOptions(Options):
    """Options of locality."""

    score: Score | None = Field(
        None,
        description="how nodes are scored: fcfs (by availability alone), eft (earliest finish), lea (avoid loads and "
        "evictions; the default), leo (eft where the job can start at once, else lea), lem (eft while some node is "
        "idle, else lea)",
    )
    x1: float | None = Field(None, ge=0, le=1e9, description="multiplier of the load time, instead of a preset")
    x2: float | None = Field(None, ge=0, le=1e9, description="multiplier of the time to load evicted files again")
    x3: float | None = Field(None, ge=0, le=1e9, description="multiplier of load time times copies on other nodes")
    backfill: bool = Field(
        False, description="let jobs start on cores that are reserved for later, if their walltime ends by then"
    )
    interval_s: float = Field(
        30.0,
        ge=0,
        le=1e9,
        allow_inf_nan=False,
        description="seconds between two passes at least; 0: one pass for each message",
    )
    persistence: bool = Field(False, description="nodes keep unused files while their memory holds them")
    bandwidth: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="GB/s from the file system, where the platform has no fs_bw_gbps"
    )
    loads: Literal["seconds", "transfers"] = Field(
        "seconds",
        description="how files are loaded: seconds, size / bandwidth, independent of other loads; transfers, as "
        "simulated transfers from the storage host of the platform, which share its links (needs --clock simgrid)",
    )
    bigger_nodes: Literal["never", "idle", "area"] = Field(
        "never",
        description="whether jobs may use nodes with more memory than they need: never; idle, to start at once if "
        "their own class cannot; area, those of the next class while its planned area allows (see areas)",
    )
    areas: dict[str, float] | None = Field(
        None, description="planned area by class of memory, as docs/policies.md describes it"
    )
    assume_walltime: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="planned seconds of jobs without walltime (without it they are rejected)",
    )

    @model_validator(mode="after")
    def _fit_together(self) -> LocalityOptions:
        given = [name for name in ("x1", "x2", "x3") if getattr(self, name) is not None]
        if self.score is not None and given:
            raise ValueError(f"score {self.score} sets {given[0]} already; expected only one of them")
        if (self.bigger_nodes == "area") != (self.areas is not None):
            raise ValueError("bigger_nodes=area and areas: expected both or neither")
        self._check_areas()
        return self

    def _check_areas(self) -> None:
        for name, area in (self.areas or {}).items():
            if not _is_memory(name) or not (math.isfinite(area) and area >= 0):
                raise ValueError(
                    f"areas: expected an area of 0 or more for each memory in GB, found {name!r:.40}: {area!r}"
                )
        by_memory: dict[float, str] = {}
        for name in self.areas or ():
            if (other := by_memory.setdefault(float(name), name)) != name:
                raise ValueError(f"areas: {other!r:.40} and {name!r:.40} are the same memory; expected one area for it")

    def rule(self) -> Rule:
        """Return the selected scores."""
        if self.x1 is None and self.x2 is None and self.x3 is None:
            score = self.score or "lea"
            return Rule(_PRESETS[score], is_mixed=score == "lem")
        return Rule(Weights(self.x1 or 0.0, self.x2 or 0.0, self.x3 or 0.0))


def _is_memory(name: Any) -> bool:
    try:
        return float(name) > 0
    except ValueError:
        return False


#: The largest number of GB or seconds of a job.
MOST: Final = 1e15


class LocalityFields(JobFields):
    """Fields of jobs with an input file each. All jobs of a run give a file the same size."""

    node_memory_gb: float | None = Field(None, gt=0, le=MOST, description="more than 0 GB")
    input_file: str | None = Field(None, min_length=1, description="a name")
    input_size_gb: float | None = Field(None, ge=0, le=MOST, description="GB from 0")
    history_node: int | None = Field(None, ge=0, description="a whole number from 0")
    history_start: float | None = Field(None, ge=-MOST, le=MOST, description="seconds")

    @model_validator(mode="after")
    def _fit_together(self, info: ValidationInfo) -> LocalityFields:
        if self.input_file is None and self.input_size_gb is not None:
            raise FieldError("input_file", "the name of the file whose size is given")
        if self.input_file is not None and self.input_size_gb is None:
            raise FieldError("input_size_gb", "the size of the input_file in GB")
        if self.history_node is None and self.history_start is not None:
            raise FieldError("history_node", "the node on which it started")
        if self.input_file is not None and isinstance(info.context, dict):
            sizes: dict[str, Any] = info.context.setdefault("sizes", {})
            if sizes.setdefault(self.input_file, self.input_size_gb) != self.input_size_gb:
                raise FieldError("input_size_gb", "the size that this file has in a job before it", self.input_size_gb)
        return self
