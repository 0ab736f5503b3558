"""Elements of a platform file with their lines, how their attributes are read, and what is said about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from pybatsched.errors import InputError

T = TypeVar("T")

_TRACE_FILES = frozenset(("speed_file", "availability_file", "state_file", "bandwidth_file", "latency_file"))


class Place(NamedTuple):
    """An element of the file and where it begins; a tuple, because there may be a million of them."""

    tag: str
    attributes: dict[str, str]
    line: int

    @property
    def name(self) -> str:
        """The element as errors show it."""
        given = self.attributes.get("id")
        if given is None:
            return f"<{self.tag}>"
        return f"<{self.tag} id={given if given.isprintable() else ascii(given):.80}>"


class Remark(NamedTuple):
    """Something to tell the user about a line; `is_refused` if SimGrid, and so Batsim, refuses what we read."""

    line: int
    text: str
    is_refused: bool


class Notes:
    """What is said about a file while it is read. `refused` is what can be read but Batsim refuses: lines and texts."""

    def __init__(self, source: str, refused: list[tuple[int, str]]) -> None:
        self._source = source
        self._refused = refused
        self._remarks: dict[str, Remark] = {}

    def remark(self, kind: str, line: int, text: str, *, is_refused: bool = False) -> None:
        """Keep something to tell the user, once for each kind of it."""
        self._remarks.setdefault(kind, Remark(line, text, is_refused))

    def remarks(self) -> list[Remark]:
        """Give all remarks in the order of the file."""
        return sorted(self._remarks.values())

    def refuse(self, place: Place, text: str) -> None:
        """Take note of something that can be read but that Batsim refuses."""
        self._refused.append((place.line, f"{place.name}{text}"))

    def note_traces(self, place: Place) -> None:
        """Take note of files of an element that we do not follow."""
        if not _TRACE_FILES.isdisjoint(place.attributes):
            self.remark("trace", place.line, f"{place.name}: traces are not followed")

    def error(self, place: Place, text: str) -> InputError:
        """Give an error that names the file, the line and the element."""
        return InputError(f"{self._source}, line {place.line}: {place.name}{text}")

    def read(self, place: Place, key: str, read: Callable[[str], T], default: str = "") -> T:
        """Read an attribute; errors of `read` say what was expected."""
        text = place.attributes.get(key, default)
        try:
            return read(text)
        except ValueError as error:
            got = "" if ", got " in str(error) else f", got {text!r:.80}"
            raise self.error(place, f" attribute {key}: expected {error}{got}") from None
