"""Elements of a platform file with their lines, and the errors and remarks about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from pybatsched.errors import InputError

T = TypeVar("T")

_TRACE_FILES = frozenset(("speed_file", "availability_file", "state_file", "bandwidth_file", "latency_file"))


class Element(NamedTuple):
    """An element of the file and its first line. A tuple, because there may be a million of them."""

    tag: str
    attributes: dict[str, str]
    line: int

    @property
    def name(self) -> str:
        """The element as shown in errors."""
        given = self.attributes.get("id")
        if given is None:
            return f"<{self.tag}>"
        return f"<{self.tag} id={given if given.isprintable() else ascii(given):.80}>"


class Remark(NamedTuple):
    """A remark for the user about a line, or the whole file (0); `is_refused` if Batsim rejects the file for it."""

    line: int
    text: str
    is_refused: bool


class PlatformNotes:
    """Collects remarks about a file, and as (line, text) what Batsim rejects, and what is not simulated."""

    def __init__(self, source: str, refused: list[tuple[int, str]], not_simulated: list[tuple[int, str]]) -> None:
        self._source = source
        self._refused = refused
        self.not_simulated = not_simulated
        self._remarks: dict[str, Remark] = {}
        self._n_unreachable: dict[str, tuple[int, int]] = {}  # by zone: the place in `refused`, and the number of hosts

    def remark(self, kind: str, line: int, text: str, *, is_refused: bool = False) -> None:
        """Add a remark for the user, at most one of each kind."""
        self._remarks.setdefault(kind, Remark(line, text, is_refused))

    def remarks(self) -> list[Remark]:
        """Return all remarks in the order of the file."""
        return sorted(self._remarks.values())

    def refuse(self, element: Element, text: str) -> None:
        """Record readable content that Batsim rejects."""
        self._refused.append((element.line, f"{element.name}{text}"))

    def refuse_unreachable(self, host: Element, zone: str) -> None:
        """Record a host of a zone with routing None. All hosts of a zone are one text, at the line of the first."""
        place, n = self._n_unreachable.get(zone, (len(self._refused), 0))
        self._n_unreachable[zone] = (place, n + 1)
        why = f"zone {zone!r:.80} has routing None, so no message can reach"
        if not n:
            self._refused.append((host.line, f"{host.name}: {why} the host"))
        else:
            self._refused[place] = (self._refused[place][0], f"{why} its {n + 1:,} hosts")

    def note_traces(self, element: Element) -> None:
        """Add a remark if an element has trace files, which the simulator ignores."""
        for name, file in element.attributes.items():
            if name in _TRACE_FILES and file:
                self.remark("trace", element.line, f"{element.name}: traces are ignored")
                self.not_simulated.append((element.line, f"{element.name} has a trace ({name})"))

    def error(self, element: Element, text: str) -> InputError:
        """Return an error that names the file, the line and the element."""
        return InputError(f"{self._source}: line {element.line}: {element.name}{text}")

    def read(self, element: Element, key: str, read: Callable[[str], T], default: str = "") -> T:
        """Read an attribute. The texts of `read`'s errors are the expected values."""
        text = element.attributes.get(key, default)
        try:
            return read(text)
        except ValueError as error:
            found = "" if ", found " in str(error) else f", found {text!r:.80}"
            raise self.error(element, f" attribute {key}: expected {error}{found}") from None
