"""The points of a campaign as samples: where each comes from and what it came to. Nothing is drawn."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pybatsched.campaign.baseline import points_done
from pybatsched.campaign.store import Store
from pybatsched.campaign.table import AGAINST
from pybatsched.errors import InputError

#: What is drawn of a campaign, the most telling first.
FIGURES: Final = ("mean_bounded_slowdown", "mean_wait_s", "max_bounded_slowdown", "utilisation")
#: What is drawn besides where there are kinds of jobs, before the others.
FIGURES_OF_KINDS: Final = ("urgent_max_slowdown", "deadline_n_late", "regular_mean_slowdown", "regular_mean_wait_s")
_WEEK: Final = re.compile(r"-week[0-9]{2,}$")


class Origin(NamedTuple):
    """Where a value comes from: what may make it differ by chance."""

    workload: str
    seed: int = 0
    repeat: int = 0

    @property
    def is_week(self) -> bool:
        """Whether the workload is a week of a log."""
        return _WEEK.search(self.workload) is not None


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a campaign. Points with one address are one run.

    `figures` is None while it is not done; if it failed, `error` says why. `each` are figures of each user, say, by the
    field of jobs and its value, where the campaign keeps them.
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

    @property
    def setting(self) -> str:
        """The policy with its options, as people call it."""
        words = ", ".join(f"{key}={as_text(value)}" for key, value in self.options.items())
        return f"{self.policy} ({words})" if words else self.policy

    @property
    def key(self) -> tuple[str, str, int, int]:
        """What two points have in common that differ in nothing but the policy."""
        return self.workload, self.platform, self.seed, self.repeat

    @property
    def origin(self) -> Origin:
        """Where its values come from."""
        return Origin(self.workload, self.seed, self.repeat)

    def value(self, figure: str) -> float | None:
        """Give one of its figures; None if it is not done, or has none."""
        found = self.figures.get(figure) if self.figures is not None else None
        return None if found is None else float(found)

    def sample(self, figure: str, each: str = "") -> dict[str, float]:
        """Give what it adds to a sample: its figure, by no name; or that of each value of a field of jobs, by these."""
        if not each:
            value = self.value(figure)
            return {} if value is None else {"": value}
        return {name: float(row[figure]) for name, row in self.each.get(each, {}).items() if figure in row}


def points_of(store: Store) -> list[Point]:
    """Give all points of a campaign, done or not, in the order of its file. Raises InputError if there is none."""
    names = [str(part["name"]) for part in store.manifest()["spec"]["workload"]]
    points = []
    for row, result in points_done(store):
        own = {name: row[name] for name in ("workload", "platform", "policy", "options", "seed", "repeat", "address")}
        points.append(
            Point(
                family=family_of(row["workload"], names),
                figures=result.get("figures"),
                error=result.get("error"),
                each=result.get("each", {}),
                **own,
            )
        )
    return points


def family_of(workload: str, names: Iterable[str]) -> str:
    """Give the workload of the campaign's file that a prepared one comes from.

    >>> family_of("curie-week07", ["curie", "ricc"]), family_of("curie-week07", ["curie", "curie-week07"])
    ('curie', 'curie-week07')
    """
    known = set(names)
    stem = _WEEK.sub("", workload)
    return stem if workload not in known and (stem in known or not known) else workload


def figures_of(points: Sequence[Point]) -> list[str]:
    """Give what is drawn of such points: figures against a baseline and by kind of jobs first, where there are some."""
    there = {name for point in points for name, value in (point.figures or {}).items() if value is not None}
    return [*(name for name in (*AGAINST, *FIGURES_OF_KINDS) if name in there), *FIGURES]


def baseline_of(points: Sequence[Point], name: str = "") -> str:
    """Give the setting that others are compared with: the one named, by label or with its options, or the first.

    Of a policy with several settings it is the first one. Empty if there is but one setting. Raises InputError.
    """
    settings = {point.setting: point.policy for point in points}
    for setting, policy in settings.items():
        if name in {setting, policy, ""}:
            return setting if len(settings) > 1 else ""
    known = ", ".join(dict.fromkeys([*settings.values(), *settings]))
    raise InputError(f"baseline {name!r:.60}: expected one of {known}")


def as_text(value: Any) -> str:
    """Write the value of an option as people do in a campaign's file."""
    return value if isinstance(value, str) else json.dumps(value)
