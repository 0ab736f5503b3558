"""Read the points of a campaign with their results, as samples. This module draws nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pybatsched.campaign.store import Store
from pybatsched.campaign.table import AGAINST, points_done, warnings_of
from pybatsched.errors import InputError
from pybatsched.workload.names import parsed

#: Figures that are drawn of a campaign, the most important first.
FIGURES: Final = ("mean_bounded_slowdown", "mean_wait_s", "max_bounded_slowdown", "utilisation")
#: Figures that are drawn before them if there are kinds of jobs.
FIGURES_OF_KINDS: Final = ("urgent_max_slowdown", "deadline_n_late", "regular_mean_slowdown", "regular_mean_wait_s")


class Origin(NamedTuple):
    """The origin of a value: the workload, seed and repeat of its run."""

    workload: str
    seed: int = 0
    repeat: int = 0

    @property
    def is_week(self) -> bool:
        """Whether the workload is a week of a log."""
        return parsed(self.workload).is_week

    @property
    def unit(self) -> str:
        """The workload without the endings of loads and shaken copies, which are not independent."""
        return parsed(self.workload).unit


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a campaign. Points with the same address are one run.

    `family` is the workload in the campaign's file, with the load if submissions were scaled to one. `log` is the same
    without it.
    `figures` is None if the point is not done; if it failed, `error` is the reason. `each` are figures of classes of
    jobs (such as users), by the field of jobs and its value, if the campaign keeps them.
    """

    workload: str
    family: str
    platform: str
    policy: str
    options: Mapping[str, Any]
    seed: int
    repeat: int
    address: str
    figures: Mapping[str, Any] | None
    error: str | None = None
    each: Mapping[str, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    log: str = ""
    load: float | None = None
    warnings: Sequence[str] = ()

    @property
    def setting(self) -> str:
        """The policy with its options as text."""
        words = ", ".join(f"{key}={as_text(value)}" for key, value in self.options.items())
        return f"{self.policy} ({words})" if words else self.policy

    @property
    def key(self) -> tuple[str, str, int, int]:
        """The key of a point without its policy: equal for points that differ in the policy only."""
        return self.workload, self.platform, self.seed, self.repeat

    @property
    def origin(self) -> Origin:
        """The origin of the point's values."""
        return Origin(self.workload, self.seed, self.repeat)

    def value(self, figure: str) -> float | None:
        """Return a figure; None if the point is not done or does not have it."""
        found = self.figures.get(figure) if self.figures is not None else None
        return None if found is None else float(found)

    def sample(self, figure: str, each: str = "") -> dict[str, float]:
        """Return the values of a figure by name: one without a name, or with `each` one per value of that field."""
        if not each:
            value = self.value(figure)
            return {} if value is None else {"": value}
        return {name: float(row[figure]) for name, row in self.each.get(each, {}).items() if figure in row}


def points_of(store: Store) -> list[Point]:
    """Return all points of a campaign, done or not, in the order of its file. Raises InputError if there is none."""
    names = [str(part["name"]) for part in store.manifest()["spec"]["workload"]]
    points = []
    for row, result in points_done(store):
        parts = parsed(row["workload"], names)
        own = {name: row[name] for name in ("workload", "platform", "policy", "options", "seed", "repeat", "address")}
        points.append(
            Point(
                family=parts.family if parts.load is None else f"{parts.family}, load {parts.load:g}",
                figures=result.get("figures"),
                error=result.get("error"),
                each=result.get("each", {}),
                log=parts.family,
                load=parts.load,
                warnings=warnings_of(result),
                **own,
            )
        )
    return points


def figures_of(points: Sequence[Point]) -> list[str]:
    """Return the figures to draw: first those against a baseline and by kind of jobs, if the points have them."""
    there = {name for point in points for name, value in (point.figures or {}).items() if value is not None}
    return [*(name for name in (*AGAINST, *FIGURES_OF_KINDS) if name in there), *FIGURES]


def baseline_of(points: Sequence[Point], name: str = "") -> str:
    """Return the setting of the baseline, by label or setting, or the first one. Raises InputError."""
    settings = {point.setting: point.policy for point in points}
    for setting, policy in settings.items():
        if name in {setting, policy, ""}:
            return setting if len(settings) > 1 else ""
    known = ", ".join(dict.fromkeys([*settings.values(), *settings]))
    raise InputError(f"baseline {name!r:.60}: expected one of {known}")


def as_text(value: Any) -> str:
    """Return the value of an option as in a campaign's file; texts without quotes."""
    return value if isinstance(value, str) else json.dumps(value)
