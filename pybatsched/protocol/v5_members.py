"""Read members of Batsim 5's JSON objects, in any spelling of their names, with errors that contain their path."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any, Final, NoReturn, TypeVar

import msgspec

from pybatsched.core.intervals import IntervalSet
from pybatsched.errors import RemoteProtocolError
from pybatsched.protocol.json_values import EXTRA, fields_in, number, shown

T = TypeVar("T")

_MISSING: Final = object()
_PLAIN: Final = str.maketrans("", "", "_-")


class Members:
    """A JSON object of the peer, with its path; names may be spelt otherwise. `maybe_…` may return None."""

    __slots__ = ("_raw", "path")

    def __init__(self, raw: Any, path: str) -> None:
        if type(raw) is not dict:
            raise RemoteProtocolError(f"expected an object, found {shown(raw)}", field=path)
        self._raw: dict[str, Any] = raw
        self.path = path

    def maybe(self, key: str) -> Any:
        """Return a member of any type. O(1) with the right spelling, else O(members)."""
        found = self._raw.get(key, _MISSING)
        if found is not _MISSING:
            return found
        plain = key.translate(_PLAIN).lower()
        return next((value for name, value in self._raw.items() if name.translate(_PLAIN).lower() == plain), None)

    def _only(self, key: str, kind: type[T], expected: str) -> T | None:
        value: T | None = self.maybe(key)
        if value is not None and type(value) is not kind:
            self._fail(key, value, expected)
        return value

    def maybe_text(self, key: str) -> str | None:
        """Return a text."""
        return self._only(key, str, "a text")

    def maybe_integer(self, key: str) -> int | None:
        """Return an integer."""
        return self._only(key, int, "an integer")

    def maybe_flag(self, key: str) -> bool | None:
        """Return true or false."""
        return self._only(key, bool, "true or false")

    def maybe_number(self, key: str) -> float | None:
        """Return a number."""
        value = self.maybe(key)
        if value is None:
            return None
        try:
            return number(value)
        except (TypeError, ArithmeticError):
            self._fail(key, value, "a number")

    def text(self, key: str) -> str:
        """Return a text that must be there."""
        return self._there(key, self.maybe_text(key), "a text")

    def number(self, key: str) -> float:
        """Return a number that must be there."""
        return self._there(key, self.maybe_number(key), "a number")

    def integer(self, key: str) -> int:
        """Return an integer that must be there."""
        return self._there(key, self.maybe_integer(key), "an integer")

    def whole(self, key: str, most: int) -> int:
        """Return a whole number from 0 to `most` that must be there."""
        found = self.integer(key)
        if not 0 <= found <= most:
            self._fail(key, found, f"a whole number from 0 to {most}")
        return found

    def procs(self, key: str) -> IntervalSet:
        """Return an interval set that must be there."""
        text = self.text(key)
        try:
            return IntervalSet.parse(text)
        except ValueError as error:
            self._fail(key, text, f"an interval set such as '0-3 5' ({error})")

    def texts(self, key: str) -> tuple[str, ...]:
        """Return an array of texts; empty if it is missing."""
        return self._array(key, str, "an array of texts", "a text")

    def integers(self, key: str) -> tuple[int, ...]:
        """Return an array of integers; empty if it is missing."""
        return self._array(key, int, "an array of integers", "an integer")

    def _array(self, key: str, kind: type[T], expected: str, expected_one: str) -> tuple[T, ...]:
        values = self._only(key, list, expected) or []
        for index, value in enumerate(values):
            if type(value) is not kind:
                self._fail(f"{key}[{index}]", value, expected_one)
        return tuple(values)

    def object(self, key: str) -> Members:
        """Return an object that must be there."""
        return Members(self.maybe(key), f"{self.path}.{key}")

    def maybe_object(self, key: str) -> Members | None:
        """Return an object."""
        value = self.maybe(key)
        return None if value is None else Members(value, f"{self.path}.{key}")

    def objects(self, key: str) -> Iterator[Members]:
        """Return the objects of an array; empty if it is missing."""
        for index, value in enumerate(self._only(key, list, "an array of objects") or ()):
            yield Members(value, f"{self.path}.{key}[{index}]")

    def rest(self, *known: str) -> dict[str, Any]:
        """Return all members but these, with the peer's spelling."""
        return {name: value for name, value in self._raw.items() if name not in known}

    def _there(self, key: str, found: T | None, expected: str) -> T:
        if found is None:
            self._fail(key, None, expected)
        return found

    def _fail(self, key: str, value: Any, expected: str) -> NoReturn:
        found = "nothing" if value is None else shown(value)
        raise RemoteProtocolError(f"expected {expected}, found {found}", field=f"{self.path}.{key}")


def fields_of(extra_data: str | None, own: Container[str] = (), *, has_walltime: bool = True) -> dict[str, Any]:
    """Return the user's fields from `extra_data`. A text that is not a JSON object stays a text.

    So does an object that contradicts Batsim's `own` members.

    >>> fields_of('{"estimate": 60}'), fields_of("big"), fields_of("")
    ({'estimate': 60}, {'extra_data': 'big'}, {})
    >>> fields_of('{"res": 1}', {"res"})
    {'extra_data': '{"res": 1}'}
    """
    if not extra_data:
        return {}
    found = fields_in(extra_data, own, has_walltime=has_walltime)
    return {EXTRA: extra_data} if found is None else found


def extra_data_of(fields: Mapping[str, Any], own: Container[str] = ()) -> str:
    """Return fields as one text, the inverse of `fields_of`."""
    if not fields:
        return ""
    text = fields.get(EXTRA)
    if len(fields) == 1 and type(text) is str and text and fields_of(text, own) == fields:
        return text
    return msgspec.json.encode(fields).decode()


def workload_of(identifier: str) -> str:
    """Return the workload of an id such as ``w0!a``; empty if it has none."""
    return identifier.partition("!")[0] if "!" in identifier else ""


def short_name(identifier: str, workload: str) -> str:
    """Return an id without its workload, if it is this one."""
    return identifier.removeprefix(f"{workload}!") if workload else identifier


def full_name(name: str, workload: str) -> str:
    """Return an id with its workload."""
    return name if "!" in name or not workload else f"{workload}!{name}"
