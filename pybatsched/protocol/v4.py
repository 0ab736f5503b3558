"""Batsim's JSON protocol, versions 3.1 to 4.2: one table of shapes, read in both directions.

`decode_*` refuses what is not a message (`RemoteProtocolError` with the path of the culprit) and keeps what it does
not know: events of unknown type, unknown members, members that are null. `encode_*` puts everything back. Floats
are written with the shortest text that reads back as the same double.

Whether a decision is *allowed* is not asked here but in `pybatsched.rules`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

import msgspec

from pybatsched import decisions as d
from pybatsched import events as e
from pybatsched.errors import RemoteProtocolError
from pybatsched.intervals import IntervalSet
from pybatsched.protocol import Message

T = TypeVar("T")


# --- kinds of members -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kind:
    """How a member is read and written. `read` raises TypeError or ValueError; `expected` is for the message.

    A value of the type `plain` is taken as it is, which is the fast way. `exact` says that writing always gives back
    what was read; otherwise the codec compares, and keeps the original.
    """

    expected: str
    read: Callable[[Any], Any]
    write: Callable[[Any], Any] | None = None
    plain: type | None = None
    exact: bool = True


def _only(*types: type) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if type(value) not in types:
            raise TypeError
        return value

    return read


def _number(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is not int:
        raise TypeError
    return float(value)  # OverflowError is an ArithmeticError, translated by the caller


def _identifier(value: Any) -> str:
    if type(value) is str:
        return value
    if type(value) is int:
        return str(value)
    raise TypeError


def _identifiers(value: Any) -> tuple[str, ...]:
    if type(value) is not list:
        raise TypeError
    return tuple(map(_identifier, value))


def _procs(value: Any) -> IntervalSet:
    if type(value) is not str:
        raise TypeError
    return IntervalSet.parse(value)


def _procs_if_any(value: Any) -> IntervalSet | None:
    try:
        return _procs(value)
    except (TypeError, ValueError):
        return None  # a user's own event may call anything "resources"


def _resources(value: Any) -> tuple[e.Resource, ...]:
    if type(value) is not list:
        raise TypeError
    return tuple(map(_resource, value))


def _resource(raw: Any) -> e.Resource:
    if type(raw) is not dict:
        raise TypeError
    known = {key: value for key, value in raw.items() if key in _RESOURCE and value is not None}
    for key, value in known.items():
        if type(value) is not _RESOURCE[key]:
            raise ValueError(f"{key} of a resource is {_shown(value)}")
    if "id" not in known:
        raise ValueError("a resource has no id")
    extra = {key: value for key, value in raw.items() if key not in known}
    return e.Resource(**known, extra=extra or e.NOTHING)


def _write_resources(resources: tuple[e.Resource, ...]) -> list[dict[str, Any]]:
    return [
        {key: v for key in _RESOURCE if (v := getattr(resource, key)) is not None} | dict(resource.extra)
        for resource in resources
    ]


_RESOURCE: Final = {"id": int, "name": str, "state": str, "properties": dict, "zone_properties": dict}

TEXT: Final = Kind("a text", _only(str), plain=str)
INTEGER: Final = Kind("an integer", _only(int), plain=int)
FLAG: Final = Kind("true or false", _only(bool), plain=bool)
OBJECT: Final = Kind("an object", _only(dict), dict, plain=dict)
ANY: Final = Kind("a value", lambda value: value)
NUMBER: Final = Kind("a number", _number, plain=float, exact=False)  # an integer past 2**53 is no double
ID: Final = Kind("a job id", _identifier, plain=str, exact=False)
IDS: Final = Kind("an array of job ids", _identifiers, list, exact=False)
PROCS: Final = Kind("an interval set such as '0-3 5'", _procs, str, exact=False)
MAYBE_PROCS: Final = Kind("anything", _procs_if_any, str, exact=False)
RESOURCES: Final = Kind("an array of resources", _resources, _write_resources)


# --- shapes of events and decisions -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a `data` object."""

    key: str
    kind: Kind
    required: bool = True


@dataclass(frozen=True, slots=True)
class Shape:
    """The wire form of one class; the members are in the order of the class's own fields."""

    name: str
    cls: type[Any]
    members: tuple[Member, ...] = ()
    keys: frozenset[str] = field(init=False)
    attributes: tuple[tuple[str, str, Callable[[Any], Any] | None], ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", frozenset(m.key for m in self.members))
        names = [name for name in self.cls.__struct_fields__ if name not in _BASE_FIELDS]
        attributes = tuple((m.key, a, m.kind.write) for m, a in zip(self.members, names, strict=True))
        object.__setattr__(self, "attributes", attributes)


_BASE_FIELDS: Final = {"timestamp", "reason", "extra", "beside"}


def _optional(**kinds: Kind) -> tuple[Member, ...]:
    return tuple(Member(key, kind, required=False) for key, kind in kinds.items())


def _required(**kinds: Kind) -> tuple[Member, ...]:
    return tuple(Member(key, kind) for key, kind in kinds.items())


EVENT_SHAPES: Final = (
    Shape(
        "SIMULATION_BEGINS",
        e.SimulationBegins,
        _optional(
            nb_resources=INTEGER,
            nb_compute_resources=INTEGER,
            nb_storage_resources=INTEGER,
            allow_compute_sharing=FLAG,
            allow_storage_sharing=FLAG,
            config=OBJECT,
            compute_resources=RESOURCES,
            storage_resources=RESOURCES,
            workloads=OBJECT,
            profiles=OBJECT,
        ),
    ),
    Shape("SIMULATION_ENDS", e.SimulationEnds),
    Shape("JOB_SUBMITTED", e.JobSubmitted, _required(job_id=ID) + _optional(job=OBJECT, profile=OBJECT)),
    Shape(
        "JOB_COMPLETED",
        e.JobCompleted,
        _required(job_id=ID) + _optional(job_state=TEXT, return_code=INTEGER, alloc=TEXT),
    ),
    Shape("JOB_KILLED", e.JobKilled, _required(job_ids=IDS) + _optional(job_progress=OBJECT)),
    Shape("RESOURCE_STATE_CHANGED", e.ResourceStateChanged, _required(resources=PROCS, state=ID)),
    Shape("REQUESTED_CALL", e.RequestedCall),
    Shape("NOTIFY", e.Notify, _required(type=TEXT) + _optional(resources=MAYBE_PROCS)),
    Shape("ANSWER", e.Answer, _optional(consumed_energy=NUMBER)),
    Shape("QUERY", e.Query, _required(requests=OBJECT)),
    Shape("FROM_JOB_MSG", e.FromJobMsg, _required(job_id=ID, msg=ANY)),
)

DECISION_SHAPES: Final = (
    Shape(
        "EXECUTE_JOB",
        d.ExecuteJob,
        _required(job_id=ID, alloc=PROCS) + _optional(mapping=OBJECT, storage_mapping=OBJECT, additional_io_job=OBJECT),
    ),
    Shape("REJECT_JOB", d.RejectJob, _required(job_id=ID)),
    Shape("KILL_JOB", d.KillJob, _required(job_ids=IDS)),
    Shape("CALL_ME_LATER", d.CallMeLater, _required(timestamp=NUMBER)),
    Shape("SET_RESOURCE_STATE", d.SetResourceState, _required(resources=PROCS, state=ID)),
    Shape("SET_JOB_METADATA", d.SetJobMetadata, _required(job_id=ID, metadata=TEXT)),
    Shape(
        "CHANGE_JOB_STATE",
        d.ChangeJobState,
        _required(job_id=ID, job_state=TEXT) + _optional(kill_reason=TEXT),
    ),
    Shape("REGISTER_JOB", d.RegisterJob, _required(job_id=ID, job=OBJECT)),
    Shape(
        "REGISTER_PROFILE",
        d.RegisterProfile,
        _required(workload_name=TEXT, profile_name=TEXT, profile=OBJECT),
    ),
    Shape("NOTIFY", d.Notify, _required(type=TEXT)),
    Shape("QUERY", d.Query, _required(requests=OBJECT)),
    Shape("ANSWER", d.Answer, _optional(estimate_waiting_time=OBJECT)),
    Shape("TO_JOB_MSG", d.ToJobMsg, _required(job_id=ID, msg=ANY)),
)

_EVENTS_BY_TYPE: Final = {shape.name: shape for shape in EVENT_SHAPES}
_DECISIONS_BY_TYPE: Final = {shape.name: shape for shape in DECISION_SHAPES}
_MAY_SAY_NULL: Final = {"FROM_JOB_MSG", "TO_JOB_MSG"}  # None is a message too, not a missing one
_BY_CLASS: Final = {shape.cls: shape for shape in EVENT_SHAPES + DECISION_SHAPES}


# --- the four functions -----------------------------------------------------------------------------------------


def decode_events(raw: bytes) -> Message[e.Event]:
    """Read a message of the simulator. O(size)."""
    return _decode(raw, _EVENTS_BY_TYPE, e.UnknownEvent)


def decode_decisions(raw: bytes) -> Message[d.Decision]:
    """Read a message of the scheduler. O(size)."""
    return _decode(raw, _DECISIONS_BY_TYPE, d.UnknownDecision)


def encode_events(message: Message[e.Event]) -> bytes:
    """Write a message of the simulator. O(size)."""
    return _encode(message)


def encode_decisions(message: Message[d.Decision]) -> bytes:
    """Write a message of the scheduler; every decision must be stamped. O(size)."""
    return _encode(message)


def _decode(raw: bytes, shapes: Mapping[str, Shape], unknown: type[Any]) -> Message[Any]:
    envelope = _parse(raw)
    now = envelope.get("now")
    if type(now) is not float:
        now = _top(now, "now", _number, "a number", envelope)
    listed = envelope.get("events")
    if type(listed) is not list:
        listed = _top(listed, "events", _only(list), "an array", envelope)
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


def _parse(raw: bytes) -> dict[str, Any]:
    """Read JSON, with an answer for everything that is none."""
    try:
        value = msgspec.json.decode(raw)
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"expected JSON in UTF-8; {error}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        if len(raw) >= 4 and int.from_bytes(raw[:4], "little") == len(raw) - 4:
            raise RemoteProtocolError(
                "this is the handshake of Batsim 5, which speaks another protocol; expected Batsim 3.1 to 4.2. With "
                "Docker, pin such an image: BATSIM_IMAGE=oarteam/batsim:4.0.0 (the tag latest follows Batsim 5)"
            ) from None
        raise RemoteProtocolError(f"expected a JSON object; {error}, in {_excerpt(raw)}") from None
    if type(value) is not dict:
        raise RemoteProtocolError(f"expected a JSON object, got {_shown(value)}")
    return value


def _top(value: Any, key: str, read: Callable[[Any], Any], expected: str, envelope: dict[str, Any]) -> Any:
    """Read `now` or `events` when they are not of the usual type."""
    if key not in envelope:
        raise RemoteProtocolError(f"the message has no '{key}'; expected {expected}", field=key)
    try:
        return read(value)
    except (TypeError, ArithmeticError):
        raise RemoteProtocolError(f"expected {expected}, got {_shown(value)}", field=key) from None


def _decode_item(item: Any, index: int, shapes: Mapping[str, Shape], unknown: type[Any]) -> Any:
    path = f"events[{index}]"
    if type(item) is not dict:
        raise RemoteProtocolError(f"expected an object, got {_shown(item)}", field=path)
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
        raise RemoteProtocolError(f"expected a text, got {_shown(kind)}", field=f"{path}.type")
    if type(data) is not dict:
        raise RemoteProtocolError(f"expected an object, got {_shown(data)}", field=f"{path}.data")
    shape = shapes.get(kind)
    if shape is None:
        return unknown(kind, data, timestamp=timestamp, beside=beside)
    return _decode_data(shape, data, timestamp, beside, index)


def _decode_data(shape: Shape, data: dict[str, Any], timestamp: float, beside: Mapping[str, Any], index: int) -> Any:
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
                raise RemoteProtocolError(f"{shape.name}: expected {member.kind.expected}, got {what}", field=path)
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
        raise RemoteProtocolError(f"expected {member.kind.expected}, got {_shown(value)}{detail}", field=path) from None


def _written(write: Callable[[Any], Any] | None, typed: Any) -> Any:
    return typed if write is None or typed is None else write(typed)


def _encode(message: Message[Any]) -> bytes:
    items = []
    for item in message.items:
        shape = _BY_CLASS.get(type(item))
        if shape is None:
            unknown = cast("e.UnknownEvent | d.UnknownDecision", item)
            kind, data = unknown.type, unknown.data
        else:
            kind = shape.name
            data = {}
            for key, attribute, write in shape.attributes:
                value = getattr(item, attribute)
                if value is not None:
                    data[key] = value if write is None else write(value)
            if item.extra:
                data.update(item.extra)
            if kind in _MAY_SAY_NULL:
                data.setdefault("msg", None)
        wire = {"timestamp": item.timestamp, "type": kind, "data": data}
        if item.beside:
            wire.update(item.beside)
        items.append(wire)
    envelope = {"now": message.now, "events": items}
    if message.extra:
        envelope.update(message.extra)
    return msgspec.json.encode(envelope)


def _shown(value: Any) -> str:
    """Give a short picture of a JSON value for an error message."""
    if value is None:
        return "null"
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else text[:57] + "..."


def _excerpt(raw: bytes) -> str:
    return repr(raw[:60]) + ("..." if len(raw) > 60 else "")
