"""Codec of Batsim's JSON protocol, versions 3.1 to 4.2, by the table of message shapes.

`decode_*` rejects invalid messages (`RemoteProtocolError` with the path of the field) and keeps unknown content: events
of unknown type, unknown members, members that are null. `encode_*` writes all of it again. Floats are written with the
shortest text that is read as the same double.

`pybatsched.core.validator` checks whether a decision is *allowed*.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import msgspec

from pybatsched.core import decisions as d, events as e
from pybatsched.core.policy import Policy
from pybatsched.errors import RemoteProtocolError
from pybatsched.protocol import Message
from pybatsched.protocol.json_values import number, parsed, shown
from pybatsched.protocol.v4_shapes import ANY, DECISION_SHAPES, EVENT_SHAPES, NUMBER, Member, MessageShape, only

_EVENTS_BY_TYPE: Final = {shape.name: shape for shape in EVENT_SHAPES}
_DECISIONS_BY_TYPE: Final = {shape.name: shape for shape in DECISION_SHAPES}
_MAY_BE_NULL: Final = {"FROM_JOB_MSG", "TO_JOB_MSG"}  # null is a valid message
_BY_CLASS: Final = {shape.cls: shape for shape in EVENT_SHAPES + DECISION_SHAPES}


class _SubmittedJob(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The data of JOB_SUBMITTED as Batsim 4 sends it."""

    job_id: str
    job: dict[str, Any]
    profile: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class _CompletedJob(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The data of JOB_COMPLETED as Batsim 4 sends it."""

    job_id: str
    job_state: str
    return_code: Any  # not int, which would also accept 1.0
    alloc: str


class _Submitted(msgspec.Struct, tag_field="type", tag="JOB_SUBMITTED", forbid_unknown_fields=True, gc=False):
    timestamp: float
    data: _SubmittedJob


class _Completed(msgspec.Struct, tag_field="type", tag="JOB_COMPLETED", forbid_unknown_fields=True, gc=False):
    timestamp: float
    data: _CompletedJob


class _UsualMessage(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A message in which only jobs are submitted and end."""

    now: float
    events: list[_Submitted | _Completed]


_decode_usual: Final = msgspec.json.Decoder(_UsualMessage).decode
#: From here on a double may stand for several integers. The original of such a time stamp is kept.
_FIRST_INEXACT: Final = 2.0**53


def batsim() -> int:
    """Return 4, which stands for Batsim 3.1 to 4.2."""
    return 4


def greet(_raw: bytes, _version: str, /) -> None:
    """Return None: there is no handshake."""


def missing(_policy: type[Policy], _name: str, /, *, keeps_notes: bool) -> tuple[str, ...]:  # noqa: ARG001
    """Return nothing: Batsim 4 has all features that policies use."""
    return ()


def order(events: tuple[e.Event, ...], /) -> tuple[e.Event, ...]:
    """Return the events in the order of the message."""
    return events


def prepare(decisions: tuple[d.Decision, ...], /) -> tuple[d.Decision, ...]:
    """Return the decisions unchanged."""
    return decisions


def unsent(_decisions: tuple[d.Decision, ...], /) -> list[tuple[int, d.SetJobMetadata]]:
    """Return nothing: all metadata is sent."""
    return []


def decode_events(raw: bytes) -> Message[e.Event]:
    """Read a message of the simulator. O(size). One with only submissions and ends takes a third of the time."""
    try:
        usual = _decode_usual(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return decode_any_events(raw)
    items: list[e.Event] = []
    for item in usual.events:
        timestamp = item.timestamp
        if abs(timestamp) >= _FIRST_INEXACT:
            return decode_any_events(raw)
        if isinstance(item, _Submitted):
            job = item.data
            profile = None if job.profile is msgspec.UNSET else job.profile
            items.append(e.JobSubmitted(job.job_id, job.job, profile, timestamp=timestamp))
        else:
            end = item.data
            if type(end.return_code) is not int:
                return decode_any_events(raw)
            items.append(e.JobCompleted(end.job_id, end.job_state, end.return_code, end.alloc, timestamp=timestamp))
    return Message(usual.now, tuple(items))


def decode_any_events(raw: bytes) -> Message[e.Event]:
    """Read any message of the simulator by the table of shapes. O(size)."""
    return _decode(raw, _EVENTS_BY_TYPE, e.UnknownEvent)


def decode_decisions(raw: bytes) -> Message[d.Decision]:
    """Read a message of the scheduler. O(size)."""
    return _decode(raw, _DECISIONS_BY_TYPE, d.UnknownDecision)


def encode_events(message: Message[e.Event]) -> bytes:
    """Write a message of the simulator. O(size)."""
    return encode_decisions(message)


def encode_decisions(message: Message[Any]) -> bytes:
    """Write a message of the scheduler; every decision must be stamped. O(size)."""
    items = []
    for item in message.items:
        data: Mapping[str, Any]
        if type(item) is d.ExecuteJob and item.mapping is item.storage_mapping is item.additional_io_job is None:
            kind, data = "EXECUTE_JOB", {"job_id": item.job_id, "alloc": str(item.procs)}  # the usual decision
            if item.extra:
                data = {**data, **item.extra}
        elif (shape := _BY_CLASS.get(type(item))) is None:
            unknown = cast("e.UnknownEvent | d.UnknownDecision", item)
            kind, data = unknown.type, unknown.data
        else:
            kind = shape.name
            data = written = {}
            for key, attribute, write in shape.attributes:
                value = getattr(item, attribute)
                if value is not None:
                    written[key] = value if write is None else write(value)
            if item.extra:
                written.update(item.extra)
            if kind in _MAY_BE_NULL:
                written.setdefault("msg", None)
        wire = {"timestamp": item.timestamp, "type": kind, "data": data}
        if item.beside:
            wire.update(item.beside)
        items.append(wire)
    envelope = {"now": message.now, "events": items}
    if message.extra:
        envelope.update(message.extra)
    return msgspec.json.encode(envelope)


def _decode(raw: bytes, shapes: Mapping[str, MessageShape], unknown: type[Any]) -> Message[Any]:
    envelope = parsed(raw)
    now = envelope.get("now")
    if type(now) is not float:
        now = _top(now, "now", number, "a number", envelope)
    listed = envelope.get("events")
    if type(listed) is not list:
        listed = _top(listed, "events", only(list), "an array", envelope)
    items = []
    for index, item in enumerate(listed):
        # The usual event has just these three members, of the usual types.
        if type(item) is dict and len(item) == 3:
            kind, timestamp, data = item.get("type"), item.get("timestamp"), item.get("data")
            if type(timestamp) is float and type(data) is dict and type(kind) is str and kind in shapes:
                items.append(_decode_data(shapes[kind], data, timestamp, e.NOTHING, index))
                continue
        items.append(_decode_item(item, index, shapes, unknown))
    if len(envelope) == 2:
        return Message(now, tuple(items))
    return Message(now, tuple(items), {key: v for key, v in envelope.items() if key not in {"now", "events"}})


def _top(value: Any, key: str, read: Callable[[Any], Any], expected: str, envelope: dict[str, Any]) -> Any:
    """Read `now` or `events` when they are not of the usual type."""
    if key not in envelope:
        raise RemoteProtocolError(f"the message has no '{key}'; expected {expected}", field=key)
    try:
        return read(value)
    except (TypeError, ArithmeticError):
        raise RemoteProtocolError(f"expected {expected}, found {shown(value)}", field=key) from None


def _decode_item(item: Any, index: int, shapes: Mapping[str, MessageShape], unknown: type[Any]) -> Any:
    path = f"events[{index}]"
    if type(item) is not dict:
        raise RemoteProtocolError(f"expected an object, found {shown(item)}", field=path)
    for key, expected in (("timestamp", "a number"), ("type", "a text"), ("data", "an object")):
        if key not in item:
            raise RemoteProtocolError(f"the event has no '{key}'; expected {expected}", field=f"{path}.{key}")
    timestamp, kind, data = item["timestamp"], item["type"], item["data"]
    beside: Mapping[str, Any] = e.NOTHING
    if len(item) > 3:
        beside = {key: v for key, v in item.items() if key not in {"timestamp", "type", "data"}}
    if type(timestamp) is not float:
        timestamp, original = _read_member(Member("timestamp", NUMBER), timestamp, f"{path}.timestamp"), timestamp
        if timestamp != original:
            beside = {**beside, "timestamp": original}
    if type(kind) is not str:
        raise RemoteProtocolError(f"expected a text, found {shown(kind)}", field=f"{path}.type")
    if type(data) is not dict:
        raise RemoteProtocolError(f"expected an object, found {shown(data)}", field=f"{path}.data")
    shape = shapes.get(kind)
    if shape is None:
        return unknown(kind, data, timestamp=timestamp, beside=beside)
    return _decode_data(shape, data, timestamp, beside, index)


def _decode_data(
    shape: MessageShape, data: dict[str, Any], timestamp: float, beside: Mapping[str, Any], index: int
) -> Any:
    values: list[Any] = []
    extra: dict[str, Any] = {}
    n_used = 0
    for member in shape.members:
        key = member.key
        value = data.get(key)
        if type(value) is member.kind.plain:
            values.append(value)
            n_used += 1
            continue
        path = f"events[{index}].data.{key}"
        if value is None:
            if member.required and (key not in data or member.kind is not ANY):
                what = "null" if key in data else "nothing"
                raise RemoteProtocolError(f"{shape.name}: expected {member.kind.expected}, found {what}", field=path)
            values.append(None)
            n_used += member.required
            continue
        typed = _read_member(member, value, path)
        values.append(typed)
        n_used += 1
        if not member.kind.exact and _written(member.kind.write, typed) != value:
            extra[key] = value
    if n_used != len(data):
        extra.update((key, v) for key, v in data.items() if key not in shape.keys or v is None)
    return shape.cls(*values, timestamp=timestamp, extra=extra or e.NOTHING, beside=beside)


def _read_member(member: Member, value: Any, path: str) -> Any:
    try:
        return member.kind.read(value)
    except (TypeError, ValueError, ArithmeticError) as error:
        detail = f" ({error})" if str(error) else ""
        raise RemoteProtocolError(
            f"expected {member.kind.expected}, found {shown(value)}{detail}", field=path
        ) from None


def _written(write: Callable[[Any], Any] | None, typed: Any) -> Any:
    return typed if write is None or typed is None else write(typed)
