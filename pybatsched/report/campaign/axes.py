"""Find the axes along which the points of a campaign differ: policies, platforms, options with several values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from pybatsched.report.campaign.points import Point, as_text

_UNSET: Final = "not set"


class Axis(NamedTuple):
    """A property in which points may differ, with its values as text. `titles` are the texts of settings."""

    kind: Literal["option", "platform", "policy"]
    name: str
    values: tuple[str, ...]
    titles: Mapping[str, str] = {}

    def of(self, point: Point) -> str:
        """Return the value of a point as text."""
        if self.kind == "option":
            return as_text(point.options[self.name]) if self.name in point.options else _UNSET
        if self.kind == "platform":
            return point.platform
        return self.titles.get(point.setting, point.policy)


def axes_of(points: Sequence[Point]) -> list[Axis]:
    """Return the axes of a policy: options by number of values, then the platform; no axis that others determine."""
    return undetermined([*option_axes(points), platform_axis(points)], points)


def undetermined(axes: Sequence[Axis], points: Sequence[Point]) -> list[Axis]:
    """Return the axes that have several values and are not determined by the axes before them."""
    kept: list[Axis] = []
    for axis in axes:
        if len(axis.values) > 1 and not _is_determined(axis, kept, points):
            kept.append(axis)
    return kept


def _is_determined(axis: Axis, by: Sequence[Axis], points: Sequence[Point]) -> bool:
    seen: dict[tuple[str, ...], str] = {}
    return all(seen.setdefault(tuple(a.of(p) for a in by), axis.of(p)) == axis.of(p) for p in points)


def option_axes(points: Sequence[Point]) -> list[Axis]:
    """Return an axis for each option, sorted by number of values, largest first."""
    names = dict.fromkeys(name for point in points for name in point.options)
    return sorted((option_axis(name, points) for name in names), key=lambda axis: -len(axis.values))


def option_axis(name: str, points: Sequence[Point]) -> Axis:
    """Return the axis of an option: "not set", then numbers and lists sorted, or others in file order."""
    found = {as_text(point.options[name]): point.options[name] for point in points if name in point.options}
    numbers = {text: size for text, value in found.items() if (size := _size(value))}
    others = [text for text in found if text not in numbers]
    unset = [_UNSET] if any(name not in point.options for point in points) and _UNSET not in found else []
    return Axis("option", name, (*unset, *sorted(numbers, key=numbers.__getitem__), *others))


def _size(value: Any) -> tuple[float, ...]:
    """Return the sort key of a number or a list of numbers; empty for other values."""
    parts = value if isinstance(value, list) else [value]
    is_number = all(isinstance(part, int | float) and not isinstance(part, bool) for part in parts)
    return tuple(map(float, parts)) if is_number else ()


def platform_axis(points: Sequence[Point]) -> Axis:
    """Return the axis of platforms, in the order of the file."""
    return Axis("platform", "platform", tuple(dict.fromkeys(point.platform for point in points)))


def policy_axis(points: Sequence[Point]) -> Axis:
    """Return the axis of policies, in the order of the file."""
    return Axis("policy", "policy", tuple(dict.fromkeys(point.policy for point in points)))


def setting_axis(points: Sequence[Point]) -> Axis:
    """Return the axis of policies with a value for each setting, named by the options that differ."""
    by_policy: dict[str, list[Point]] = {}
    for point in points:
        by_policy.setdefault(point.policy, []).append(point)
    titles: dict[str, str] = {}
    for policy, own in by_policy.items():
        differ = undetermined(option_axes(own), own)
        positions = {point.setting: tuple(axis.values.index(axis.of(point)) for axis in differ) for point in own}
        option_texts = {point.setting: ", ".join(f"{axis.name}={axis.of(point)}" for axis in differ) for point in own}
        for setting in sorted(positions, key=positions.__getitem__):
            titles[setting] = f"{policy} {option_texts[setting]}" if differ else policy
    return Axis("policy", "policy", tuple(dict.fromkeys(titles.values())), titles)
