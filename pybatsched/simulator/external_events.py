"""External events: machines that go away and come back, and anything else a user wants the scheduler to hear of.

The file is Batsim's own: one JSON object a line with `type` and `timestamp`; `machine_unavailable` and
`machine_available` name their `resources`. In Batsim 5's files all events are `generic` and have a text as `data`: one
that is an event of Batsim 4 as JSON is read as that event.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from pybatsched.core.intervals import EMPTY, IntervalSet
from pybatsched.errors import InputError
from pybatsched.protocol.json_values import object_in
from pybatsched.workload.formats.checks import is_number

AVAILABLE: Final = "machine_available"
UNAVAILABLE: Final = "machine_unavailable"
_ORDER: Final = {AVAILABLE: 0, UNAVAILABLE: 1}


class ExternalEvent(NamedTuple):
    """One event. `described` is what the file says, for events of the user's own kinds; `place` is its place there."""

    at: float
    kind: str
    procs: IntervalSet
    described: Mapping[str, Any]
    place: int = 0


#: The only type of events in Batsim 5, and its member with what the user has to say.
GENERIC: Final = "generic"
DATA: Final = "data"


def read(path: str | Path, *, n_hosts: int | None, forward_unknown: bool = False) -> list[ExternalEvent]:
    """Read a file of events, in the order in which they happen. O(n log n). InputError names file, line and field.

    Processors are those of a platform of `n_hosts`, None if it is not known.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not text; expected one JSON object a line") from None
    events: list[ExternalEvent] = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                event = _event(line, n_hosts, forward_unknown=forward_unknown)
                events.append(event._replace(place=len(events)))
            except ValueError as error:
                raise InputError(f"{path}, line {number}: {error}") from None
    events.sort(key=lambda event: (event.at, _ORDER.get(event.kind, 2)))
    _check_machines(path, events)
    return events


def to_batsim5(event: Mapping[str, Any]) -> dict[str, Any]:
    """Say an event in Batsim 5's words: it is generic, and the whole of it is its data. One of Batsim 5 stays so.

    >>> to_batsim5({"timestamp": 5, "type": "machine_available", "resources": "0-3"})["data"]
    '{"timestamp": 5, "type": "machine_available", "resources": "0-3"}'
    """
    if event["type"] == GENERIC and isinstance(event.get(DATA), str) and from_batsim5(event) is event:
        return dict(event)
    return {"type": GENERIC, "timestamp": event["timestamp"], DATA: json.dumps(event, allow_nan=False)}


def from_batsim5(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give the event that a generic one has as its data, at the time of the generic one; the same one if it has none.

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
        raise ValueError(f"expected a JSON object, got {line[:60]}")  # noqa: TRY004  the border names file and line
    content = dict(from_batsim5(content))
    kind, at = content.get("type"), content.get("timestamp")
    if not isinstance(kind, str):
        raise ValueError(f"field type: expected a text, got {kind!r}")  # noqa: TRY004
    if not is_number(at) or at < 0:
        raise ValueError(f"field timestamp: expected seconds from 0, got {at!r}")
    if kind not in _ORDER:
        if not forward_unknown:
            raise ValueError(
                f"field type: {kind!r} is none of machine_available and machine_unavailable; "
                "other events need --forward-unknown-events"
            )
        return ExternalEvent(float(at), kind, EMPTY, content)
    text = content.get("resources")
    if not isinstance(text, str) or not text:
        raise ValueError(f"field resources: expected processors as in '0-3 5', got {text!r}")
    try:
        procs = IntervalSet.parse(text)
    except ValueError as error:
        raise ValueError(f"field resources: {error}") from None
    strange = EMPTY if n_hosts is None else procs - IntervalSet.span(0, n_hosts)
    if strange:
        raise ValueError(f"field resources: there are no processors {strange}; the platform has {n_hosts}")
    return ExternalEvent(float(at), kind, procs, content)


def _check_machines(path: str | Path, events: list[ExternalEvent]) -> None:
    """Refuse what Batsim does not survive: going away twice, or coming back without having been away."""
    away = EMPTY
    for event in events:
        if event.kind == UNAVAILABLE:
            if not event.procs.isdisjoint(away):
                raise InputError(f"{path}: {event.procs & away} become unavailable at {event.at:g} but are already")
            away = away | event.procs
        elif event.kind == AVAILABLE:
            if not event.procs.issubset(away):
                raise InputError(f"{path}: {event.procs - away} become available at {event.at:g} but were not away")
            away = away - event.procs
