"""External events: machines that become unavailable or available, and user-defined events for the scheduler.

The file has Batsim's format: one JSON object per line with `type` and `timestamp`; `machine_unavailable` and
`machine_available` also have `resources`. In files of Batsim 5 all events have the type `generic` and a text `data`.
If `data` is an event of Batsim 4 as JSON, it is read as that event.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from pybatsched.core.events import DRAIN, UNDRAIN
from pybatsched.core.intervals import EMPTY, IntervalSet
from pybatsched.errors import InputError, setting
from pybatsched.protocol.json_values import object_in
from pybatsched.workload.formats.checks import is_number

AVAILABLE: Final = "machine_available"
UNAVAILABLE: Final = "machine_unavailable"
_ORDER: Final = {AVAILABLE: 0, UNAVAILABLE: 1}


class ExternalEvent(NamedTuple):
    """One event. `described` is the JSON object of the file; `place` is the index of the event in the file."""

    at: float
    kind: str
    procs: IntervalSet
    described: Mapping[str, Any]
    place: int = 0


#: The only type of events in Batsim 5, and its member with the user's text.
GENERIC: Final = "generic"
DATA: Final = "data"


def read(path: str | Path, *, n_hosts: int | None, forward_unknown: bool = False) -> list[ExternalEvent]:
    """Read a file of events and return them in order of time. O(n log n). Raises InputError."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text; expected one JSON object per line") from None
    events: list[ExternalEvent] = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                event = _event(line, n_hosts, forward_unknown=forward_unknown)
                events.append(event._replace(place=len(events)))
            except ValueError as error:
                raise InputError(f"{path}: line {number}: {error}") from None
    events.sort(key=lambda event: (event.at, _ORDER.get(event.kind, 2)))
    _check_machines(path, events)
    return events


def to_batsim5(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event in the format of Batsim 5: type `generic`, with the whole event as data.

    An event that already has this format is returned unchanged.

    >>> to_batsim5({"timestamp": 5, "type": "machine_available", "resources": "0-3"})["data"]
    '{"timestamp": 5, "type": "machine_available", "resources": "0-3"}'
    """
    if event["type"] == GENERIC and isinstance(event.get(DATA), str) and from_batsim5(event) is event:
        return dict(event)
    return {"type": GENERIC, "timestamp": event["timestamp"], DATA: json.dumps(event, allow_nan=False)}


def from_batsim5(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the event in the data of a generic event, with the time of the generic one.

    An event without such data is returned unchanged.

    >>> from_batsim5({"type": "generic", "timestamp": 5, "data": '{"type": "machine_available", "resources": "0"}'})
    {'type': 'machine_available', 'resources': '0', 'timestamp': 5}
    """
    text = event.get(DATA)
    if event.get("type") != GENERIC or not isinstance(text, str):
        return event
    inner = object_in(text)
    if inner is None or not isinstance(inner.get("type"), str):
        return event
    return {**inner, "timestamp": event.get("timestamp")}


def _event(line: str, n_hosts: int | None, *, forward_unknown: bool) -> ExternalEvent:
    try:
        content = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"expected a JSON object: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"expected a JSON object, found {line[:60]}")  # noqa: TRY004  the caller adds file and line
    content = dict(from_batsim5(content))
    kind, at = content.get("type"), content.get("timestamp")
    if not isinstance(kind, str):
        raise ValueError(f"field type: expected a text, found {kind!r}")  # noqa: TRY004
    if not is_number(at) or at < 0:
        raise ValueError(f"field timestamp: expected seconds, 0 or more, found {at!r}")
    if kind not in _ORDER:
        if not forward_unknown:
            raise ValueError(
                f"field type: expected machine_available or machine_unavailable, found {kind!r}; "
                f"other types need {setting('forward_unknown_events')}"
            )
        if kind in {DRAIN, UNDRAIN}:
            _procs(content, n_hosts)
        return ExternalEvent(float(at), kind, EMPTY, content)
    return ExternalEvent(float(at), kind, _procs(content, n_hosts), content)


def _procs(content: Mapping[str, Any], n_hosts: int | None) -> IntervalSet:
    """Return the processors of an event. Raises ValueError if the platform does not have them."""
    text = content.get("resources")
    if not isinstance(text, str) or not text:
        raise ValueError(f"field resources: expected processors such as '0-3 5', found {text!r}")
    try:
        procs = IntervalSet.parse(text)
    except ValueError as error:
        raise ValueError(f"field resources: {error}") from None
    unknown = EMPTY if n_hosts is None else procs - IntervalSet.span(0, n_hosts)
    if unknown:
        raise ValueError(f"field resources: processors {unknown} do not exist; the platform has {n_hosts}")
    return procs


def _check_machines(path: str | Path, events: list[ExternalEvent]) -> None:
    """Raise InputError where Batsim would abort: a machine becomes unavailable twice, or available while it is."""
    away = EMPTY
    for event in events:
        if event.kind == UNAVAILABLE:
            if not event.procs.isdisjoint(away):
                raise InputError(
                    f"{path}: {event.procs & away} become unavailable at {event.at:g}, but they are already "
                    "unavailable; expected them to become available first"
                )
            away = away | event.procs
        elif event.kind == AVAILABLE:
            if not event.procs.issubset(away):
                raise InputError(
                    f"{path}: {event.procs - away} become available at {event.at:g}, but they were not unavailable; "
                    "expected them to become unavailable first"
                )
            away = away - event.procs
