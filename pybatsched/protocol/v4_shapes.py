"""The message shapes of events and decisions in Batsim's JSON, versions 3.1 to 4.2: one table for both directions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, Final, get_args

from pybatsched.core import decisions as d, events as e
from pybatsched.core.intervals import IntervalSet
from pybatsched.protocol.json_values import number, shown

# --- types of members -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ValueType:
    """How a member is read and written: `plain` values as they are, `exact` ones without a comparison."""

    expected: str
    read: Callable[[Any], Any]
    write: Callable[[Any], Any] | None = None
    plain: type | None = None
    exact: bool = True


def only(*types: type) -> Callable[[Any], Any]:
    """Return a reader that accepts values of these types unchanged and raises TypeError for others."""

    def read(value: Any) -> Any:
        if type(value) not in types:
            raise TypeError
        return value

    return read


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
        return None  # in a user's event, "resources" may have any type


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
            raise ValueError(f"{key} of a resource is {shown(value)}; expected {_RESOURCE[key].__name__}")
        if type(value) is dict:
            for name, text in value.items():
                if type(text) is not str:
                    raise ValueError(f"{name} in the {key} of a resource is {shown(text)}; expected a text")
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

TEXT: Final = ValueType("a text", only(str), plain=str)
INTEGER: Final = ValueType("an integer", only(int), plain=int)
FLAG: Final = ValueType("true or false", only(bool), plain=bool)
OBJECT: Final = ValueType("an object", only(dict), dict, plain=dict)
ANY: Final = ValueType("a value", lambda value: value)
NUMBER: Final = ValueType("a number", number, plain=float, exact=False)  # an integer above 2**53 may not be a double
ID: Final = ValueType("a job id", _identifier, plain=str, exact=False)
IDS: Final = ValueType("an array of job ids", _identifiers, list, exact=False)
PROCS: Final = ValueType("an interval set such as '0-3 5'", _procs, str, exact=False)
MAYBE_PROCS: Final = ValueType("anything", _procs_if_any, str, exact=False)
RESOURCES: Final = ValueType("an array of resources", _resources, _write_resources)


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a `data` object."""

    key: str
    kind: ValueType
    required: bool = True


@dataclass(frozen=True, slots=True)
class MessageShape:
    """The message form of one class; the members are in the order of the class's fields."""

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


def _optional(**kinds: ValueType) -> tuple[Member, ...]:
    return tuple(Member(key, kind, required=False) for key, kind in kinds.items())


def _required(**kinds: ValueType) -> tuple[Member, ...]:
    return tuple(Member(key, kind) for key, kind in kinds.items())


EVENT_SHAPES: Final = (
    MessageShape(
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
    MessageShape("SIMULATION_ENDS", e.SimulationEnds),
    MessageShape("JOB_SUBMITTED", e.JobSubmitted, _required(job_id=ID) + _optional(job=OBJECT, profile=OBJECT)),
    MessageShape(
        "JOB_COMPLETED",
        e.JobCompleted,
        _required(job_id=ID) + _optional(job_state=TEXT, return_code=INTEGER, alloc=TEXT),
    ),
    MessageShape("JOB_KILLED", e.JobKilled, _required(job_ids=IDS) + _optional(job_progress=OBJECT)),
    MessageShape("RESOURCE_STATE_CHANGED", e.ResourceStateChanged, _required(resources=PROCS, state=ID)),
    MessageShape("REQUESTED_CALL", e.RequestedCall),
    MessageShape("NOTIFY", e.Notify, _required(type=TEXT) + _optional(resources=MAYBE_PROCS)),
    MessageShape("ANSWER", e.Answer, _optional(consumed_energy=NUMBER)),
    MessageShape("QUERY", e.Query, _required(requests=OBJECT)),
    MessageShape("FROM_JOB_MSG", e.FromJobMsg, _required(job_id=ID, msg=ANY)),
)

_VALUE_TYPES: Final[dict[Any, ValueType]] = {
    str: TEXT,
    d.JobId: ID,
    d.PState: ID,
    float: NUMBER,
    IntervalSet: PROCS,
    Mapping[str, Any]: OBJECT,
    tuple[str, ...]: IDS,
    Any: ANY,
}


def _shape_of(decision: type[d.Decision]) -> MessageShape:
    """Return the shape of a decision. A field that may be None is optional."""
    members = []
    for name, kind in d.field_types(decision).items():
        parts = get_args(kind) if isinstance(kind, UnionType) else (kind,)
        members.append(
            Member(decision.v4_keys.get(name, name), _VALUE_TYPES[parts[0]], required=type(None) not in parts)
        )
    return MessageShape(decision.v4_type, decision, tuple(members))


DECISION_SHAPES: Final = tuple(_shape_of(decision) for decision in d.DECISIONS if decision.v4_type)
