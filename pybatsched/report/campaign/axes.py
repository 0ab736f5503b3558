"""The axes along which the points of a campaign differ: policies, platforms, options with several values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from pybatsched.report.campaign.points import Point, as_text

_UNSET: Final = "not set"


class Axis(NamedTuple):
    """Something in which points may differ, with all of its values as they are shown.

    An axis of policies may tell their settings apart: `words` are what each is called then.
    """

    kind: Literal["option", "platform", "policy"]
    name: str
    values: tuple[str, ...]
    words: Mapping[str, str] = {}

    def of(self, point: Point) -> str:
        """Give the value of a point, as it is shown."""
        if self.kind == "option":
            return as_text(point.options[self.name]) if self.name in point.options else _UNSET
        if self.kind == "platform":
            return point.platform
        return self.words.get(point.setting, point.policy)


def axes_of(points: Sequence[Point]) -> list[Axis]:
    """Give the axes of a policy: options by number of values, then the platform, without what others determine."""
    return undetermined([*option_axes(points), platform_axis(points)], points)


def undetermined(axes: Sequence[Axis], points: Sequence[Point]) -> list[Axis]:
    """Give the axes that have several values, each if those before it do not determine where a point is."""
    kept: list[Axis] = []
    for axis in axes:
        if len(axis.values) > 1 and not _is_determined(axis, kept, points):
            kept.append(axis)
    return kept


def _is_determined(axis: Axis, by: Sequence[Axis], points: Sequence[Point]) -> bool:
    seen: dict[tuple[str, ...], str] = {}
    return all(seen.setdefault(tuple(a.of(p) for a in by), axis.of(p)) == axis.of(p) for p in points)


def option_axes(points: Sequence[Point]) -> list[Axis]:
    """Give an axis for each option, those with most values first."""
    names = dict.fromkeys(name for point in points for name in point.options)
    return sorted((option_axis(name, points) for name in names), key=lambda axis: -len(axis.values))


def option_axis(name: str, points: Sequence[Point]) -> Axis:
    """Sort numbers, and bounds made of them, by size; others stay in the order of the file, after them.

    What is not set comes first.
    """
    found = {as_text(point.options[name]): point.options[name] for point in points if name in point.options}
    numbers = {text: size for text, value in found.items() if (size := _size(value))}
    others = [text for text in found if text not in numbers]
    unset = [_UNSET] if any(name not in point.options for point in points) and _UNSET not in found else []
    return Axis("option", name, (*unset, *sorted(numbers, key=numbers.__getitem__), *others))


def _size(value: Any) -> tuple[float, ...]:
    """Give a number, or several, to be sorted by; nothing for what is neither."""
    parts = value if isinstance(value, list) else [value]
    is_number = all(isinstance(part, int | float) and not isinstance(part, bool) for part in parts)
    return tuple(map(float, parts)) if is_number else ()


def platform_axis(points: Sequence[Point]) -> Axis:
    """Give the axis of platforms, in the order of the file."""
    return Axis("platform", "platform", tuple(dict.fromkeys(point.platform for point in points)))


def policy_axis(points: Sequence[Point]) -> Axis:
    """Give the axis of policies, in the order of the file."""
    return Axis("policy", "policy", tuple(dict.fromkeys(point.policy for point in points)))


def setting_axis(points: Sequence[Point]) -> Axis:
    """Give the axis of policies with a place for each setting, told by the options in which a policy's own differ.

    Policies come in the order of the file, settings of one in that of their values.
    """
    by_policy: dict[str, list[Point]] = {}
    for point in points:
        by_policy.setdefault(point.policy, []).append(point)
    words: dict[str, str] = {}
    for policy, own in by_policy.items():
        differ = undetermined(option_axes(own), own)
        places = {point.setting: tuple(axis.values.index(axis.of(point)) for axis in differ) for point in own}
        told = {point.setting: ", ".join(f"{axis.name}={axis.of(point)}" for axis in differ) for point in own}
        for setting in sorted(places, key=places.__getitem__):
            words[setting] = f"{policy} {told[setting]}" if differ else policy
    return Axis("policy", "policy", tuple(dict.fromkeys(words.values())), words)
