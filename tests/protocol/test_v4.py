"""The codec of Batsim 4: a table for both directions, messages of older and other peers, and invalid messages."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st
from support.examples import examples
from support.places import ROOT
from support.recordings import recording

from pybatsched.core import decisions as d, events as e
from pybatsched.core.intervals import IntervalSet
from pybatsched.errors import RemoteProtocolError
from pybatsched.protocol import Message, v4
from pybatsched.protocol.v4_shapes import DECISION_SHAPES, EVENT_SHAPES


def procs(text: str) -> IntervalSet:
    return IntervalSet.parse(text)


# (the object, its type on the wire, its data)
EVENTS: list[tuple[e.Event, str, dict[str, Any]]] = [
    (e.SimulationEnds(timestamp=1.5), "SIMULATION_ENDS", {}),
    (e.JobSubmitted("w0!1", {"id": "w0!1", "res": 2, "user": "pat"}, timestamp=1.5), "JOB_SUBMITTED",
     {"job_id": "w0!1", "job": {"id": "w0!1", "res": 2, "user": "pat"}}),
    (e.JobSubmitted("w0!1", {"id": "w0!1"}, {"type": "delay", "delay": 1}, timestamp=1.5), "JOB_SUBMITTED",
     {"job_id": "w0!1", "job": {"id": "w0!1"}, "profile": {"type": "delay", "delay": 1}}),
    (e.JobCompleted("w0!1", "COMPLETED_FAILED", 3, "0-1 4", timestamp=1.5), "JOB_COMPLETED",
     {"job_id": "w0!1", "job_state": "COMPLETED_FAILED", "return_code": 3, "alloc": "0-1 4"}),
    (e.JobKilled(("a", "b"), {"a": {"profile_name": "p", "progress": 0.5}}, timestamp=1.5), "JOB_KILLED",
     {"job_ids": ["a", "b"], "job_progress": {"a": {"profile_name": "p", "progress": 0.5}}}),
    (e.ResourceStateChanged(procs("0-3 7"), "2", timestamp=1.5), "RESOURCE_STATE_CHANGED",
     {"resources": "0-3 7", "state": "2"}),
    (e.RequestedCall(timestamp=1.5), "REQUESTED_CALL", {}),
    (e.Notify("no_more_static_job_to_submit", timestamp=1.5), "NOTIFY", {"type": "no_more_static_job_to_submit"}),
    (e.Notify("event_machine_available", procs("1 3"), timestamp=1.5), "NOTIFY",
     {"type": "event_machine_available", "resources": "1 3"}),
    (e.Answer(12.5, timestamp=1.5), "ANSWER", {"consumed_energy": 12.5}),
    (e.Query({"estimate_waiting_time": {}}, timestamp=1.5), "QUERY", {"requests": {"estimate_waiting_time": {}}}),
    (e.FromJobMsg("w0!1", {"want": 2}, timestamp=1.5), "FROM_JOB_MSG", {"job_id": "w0!1", "msg": {"want": 2}}),
    (e.FromJobMsg("w0!1", None, timestamp=1.5), "FROM_JOB_MSG", {"job_id": "w0!1", "msg": None}),
    (e.UnknownEvent("SNOW", {"cm": 3}, timestamp=1.5), "SNOW", {"cm": 3}),
]  # fmt: skip

DECISIONS: list[tuple[d.Decision, str, dict[str, Any]]] = [
    (d.ExecuteJob("w0!1", procs("0-1"), timestamp=1.5), "EXECUTE_JOB", {"job_id": "w0!1", "alloc": "0-1"}),
    (d.ExecuteJob("w0!1", procs("0"), mapping={"0": "0"}, timestamp=1.5), "EXECUTE_JOB",
     {"job_id": "w0!1", "alloc": "0", "mapping": {"0": "0"}}),
    (d.ExecuteJob("w0!1", procs("0"), storage_mapping={"pfs": 4}, timestamp=1.5), "EXECUTE_JOB",
     {"job_id": "w0!1", "alloc": "0", "storage_mapping": {"pfs": 4}}),
    (d.ExecuteJob("w0!1", procs("0"), additional_io_job={"alloc": "4", "profile_name": "io"}, timestamp=1.5),
     "EXECUTE_JOB", {"job_id": "w0!1", "alloc": "0", "additional_io_job": {"alloc": "4", "profile_name": "io"}}),
    (d.RejectJob("w0!1", timestamp=1.5), "REJECT_JOB", {"job_id": "w0!1"}),
    (d.KillJob(("a", "b"), timestamp=1.5), "KILL_JOB", {"job_ids": ["a", "b"]}),
    (d.CallMeLater(20.25, timestamp=1.5), "CALL_ME_LATER", {"timestamp": 20.25}),
    (d.SetResourceState(procs("0-3"), "13", timestamp=1.5), "SET_RESOURCE_STATE", {"resources": "0-3", "state": "13"}),
    (d.SetJobMetadata("a", "x=1", timestamp=1.5), "SET_JOB_METADATA", {"job_id": "a", "metadata": "x=1"}),
    (d.ChangeJobState("a", "RUNNING", timestamp=1.5), "CHANGE_JOB_STATE", {"job_id": "a", "job_state": "RUNNING"}),
    (d.RegisterJob("dyn!1", {"id": "dyn!1", "subtime": 1.5, "res": 1, "profile": "p"}, timestamp=1.5), "REGISTER_JOB",
     {"job_id": "dyn!1", "job": {"id": "dyn!1", "subtime": 1.5, "res": 1, "profile": "p"}}),
    (d.RegisterProfile("dyn", "p", {"type": "delay", "delay": 0.1}, timestamp=1.5), "REGISTER_PROFILE",
     {"workload_name": "dyn", "profile_name": "p", "profile": {"type": "delay", "delay": 0.1}}),
    (d.Notify("registration_finished", timestamp=1.5), "NOTIFY", {"type": "registration_finished"}),
    (d.Query({"consumed_energy": {}}, timestamp=1.5), "QUERY", {"requests": {"consumed_energy": {}}}),
    (d.Answer({"job_id": "1", "estimated_waiting_time": 3.0}, timestamp=1.5), "ANSWER",
     {"estimate_waiting_time": {"job_id": "1", "estimated_waiting_time": 3.0}}),
    (d.ToJobMsg("a", "go", timestamp=1.5), "TO_JOB_MSG", {"job_id": "a", "msg": "go"}),
    (d.UnknownDecision("DANCE", {}, timestamp=1.5), "DANCE", {}),
]  # fmt: skip


def wire(kind: str, data: dict[str, Any], **beside: Any) -> dict[str, Any]:
    return {"now": 2.0, "events": [{"timestamp": 1.5, "type": kind, "data": data, **beside}]}


@pytest.mark.parametrize(("event", "kind", "data"), EVENTS, ids=[case[1] for case in EVENTS])
def test_events_are_decoded_and_encoded(event: e.Event, kind: str, data: dict[str, Any]) -> None:
    text = wire(kind, data)
    assert json.loads(v4.encode_events(Message(2.0, (event,)))) == text
    assert v4.decode_events(json.dumps(text).encode()) == Message(2.0, (event,))


@pytest.mark.parametrize(("decision", "kind", "data"), DECISIONS, ids=[case[1] for case in DECISIONS])
def test_decisions_are_decoded_and_encoded(decision: d.Decision, kind: str, data: dict[str, Any]) -> None:
    text = wire(kind, data)
    assert json.loads(v4.encode_decisions(Message(2.0, (decision,)))) == text
    assert v4.decode_decisions(json.dumps(text).encode()) == Message(2.0, (decision,))


def test_every_type_of_the_protocol_is_in_the_tables() -> None:
    assert {case[1] for case in EVENTS} >= {shape.name for shape in EVENT_SHAPES} - {"SIMULATION_BEGINS"}
    assert {case[1] for case in DECISIONS} >= {shape.name for shape in DECISION_SHAPES}


def one_event(kind: str, data: Any, **beside: Any) -> Any:
    raw = json.dumps(wire(kind, data, **beside)).encode()
    message = v4.decode_events(raw)
    assert json.loads(v4.encode_events(message)) == json.loads(raw), "it must be written as it was read"
    return message.items[0]


def test_messages_of_batsim_3_1_with_fewer_members_are_read() -> None:
    begins = one_event(
        "SIMULATION_BEGINS",
        {
            "nb_resources": 2,
            "nb_compute_resources": 2,
            "nb_storage_resources": 0,
            "allow_compute_sharing": False,
            "allow_storage_sharing": True,
            "config": {"redis-enabled": False, "dynamic-jobs-enabled": True},
            "compute_resources": [{"id": 0, "name": "n0", "state": "idle", "properties": {}}, {"id": 1}],
            "storage_resources": [],
            "workloads": {"w0": "w.json"},
            "profiles": {"w0": {}},
        },
    )
    assert begins.option("dynamic-jobs-enabled") is True
    assert begins.option("sched-config") is None
    assert begins.compute_resources[1] == e.Resource(1)


def test_messages_of_wrench_are_read() -> None:
    completed = one_event("JOB_COMPLETED", {"job_id": "12", "status": "SUCCESS", "kill_reason": ""})
    assert (completed.job_id, completed.final_state) == ("12", "COMPLETED_SUCCESSFULLY")
    assert completed.extra == {"status": "SUCCESS", "kill_reason": ""}
    assert one_event("JOB_COMPLETED", {"job_id": 12, "status": "TIMEOUT"}).job_id == "12"
    assert one_event("JOB_KILLED", {"job_ids": [1, "2"]}).job_ids == ("1", "2")


def test_unknown_members_are_kept_everywhere() -> None:
    event = one_event("REQUESTED_CALL", {"forWhat": 3}, color="red")
    assert (event.extra, event.beside) == ({"forWhat": 3}, {"color": "red"})
    raw = b'{"now": 1, "events": [], "weather": {"rain": [1, 2.5]}}'
    message = v4.decode_events(raw)
    assert message.extra == {"weather": {"rain": [1, 2.5]}}
    assert json.loads(v4.encode_events(message)) == json.loads(raw)


def test_unusual_values_are_kept_unchanged() -> None:
    assert one_event("JOB_SUBMITTED", {"job_id": "a", "job": {"res": 1}, "profile": None}).profile is None
    assert one_event("NOTIFY", {"type": "mine", "resources": [1, 2]}).procs is None
    assert one_event("NOTIFY", {"type": "mine", "resources": "3-4 1"}).procs == procs("1 3-4")
    assert one_event("ANSWER", {"consumed_energy": 9007199254740993}).consumed_energy == 9007199254740992.0
    assert one_event("JOB_SUBMITTED", {"job_id": "a", "job": {"big": 10**30}}).job["big"] == 10**30


NONSENSE = [
    (b"", "", "JSON"),
    (b"{", "", "JSON"),
    (b"\x00\xff\xfe", "", "JSON"),
    (b'"\xff"', "", "UTF-8"),
    (b"[]", "", "object"),
    (b"null", "", "object"),
    (b"[" * 100_000, "", "JSON"),
    (b'{"events": []}', "now", "no 'now'"),
    (b'{"now": "1", "events": []}', "now", "a number"),
    (b'{"now": true, "events": []}', "now", "a number"),
    (b'{"now": null, "events": []}', "now", "a number"),
    (b'{"now": NaN, "events": []}', "", "JSON"),
    (b'{"now": 1e999, "events": []}', "", "JSON"),
    (b'{"now": 1' + b"0" * 400 + b', "events": []}', "now", "a number"),
    (b'{"now": 1}', "events", "no 'events'"),
    (b'{"now": 1, "events": {}}', "events", "an array"),
    (b'{"now": 1, "events": [3]}', "events[0]", "an object"),
    (b'{"now": 1, "events": [{"type": "X", "data": {}}]}', "events[0].timestamp", "no 'timestamp'"),
    (b'{"now": 1, "events": [{"timestamp": 1, "data": {}}]}', "events[0].type", "no 'type'"),
    (b'{"now": 1, "events": [{"timestamp": 1, "type": "X"}]}', "events[0].data", "no 'data'"),
    (b'{"now": 1, "events": [{"timestamp": "x", "type": "X", "data": {}}]}', "events[0].timestamp", "a number"),
    (b'{"now": 1, "events": [{"timestamp": 1, "type": 1, "data": {}}]}', "events[0].type", "a text"),
    (b'{"now": 1, "events": [{"timestamp": 1, "type": "X", "data": []}]}', "events[0].data", "an object"),
]


@pytest.mark.parametrize(("raw", "field", "expected"), NONSENSE)
def test_invalid_messages_are_rejected_with_the_field(raw: bytes, field: str, expected: str) -> None:
    for decode in (v4.decode_events, v4.decode_decisions):
        with pytest.raises(RemoteProtocolError) as caught:
            decode(raw)
        assert caught.value.field == field
        assert expected in str(caught.value)
        assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("kind", "data", "field", "expected"),
    [
        ("JOB_SUBMITTED", {}, "job_id", "found nothing"),
        ("JOB_SUBMITTED", {"job_id": None}, "job_id", "found null"),
        ("JOB_SUBMITTED", {"job_id": ["a"]}, "job_id", "a job id"),
        ("JOB_SUBMITTED", {"job_id": "a", "job": 3}, "job", "an object"),
        ("JOB_COMPLETED", {"job_id": "a", "return_code": "0"}, "return_code", "an integer"),
        ("JOB_COMPLETED", {"job_id": "a", "return_code": True}, "return_code", "an integer"),
        ("JOB_KILLED", {"job_ids": "a"}, "job_ids", "an array"),
        ("RESOURCE_STATE_CHANGED", {"resources": "3-1", "state": "0"}, "resources", "ends before it starts"),
        ("RESOURCE_STATE_CHANGED", {"resources": "1,2", "state": "0"}, "resources", "1,2"),
        ("SIMULATION_BEGINS", {"compute_resources": [{"name": "x"}]}, "compute_resources", "no id"),
        ("SIMULATION_BEGINS", {"compute_resources": [{"id": "0"}]}, "compute_resources", "id of a resource"),
        (
            "SIMULATION_BEGINS",
            {"compute_resources": [{"id": 0, "zone_properties": {"a": "1", "b": [2]}}]},
            "compute_resources",
            "b in the zone_properties of a resource is [2]; expected a text",
        ),
        ("SIMULATION_BEGINS", {"nb_resources": 2.5}, "nb_resources", "an integer"),
    ],
)
def test_wrong_members_are_rejected_with_the_field(kind: str, data: dict[str, Any], field: str, expected: str) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        v4.decode_events(json.dumps(wire(kind, data)).encode())
    assert caught.value.field == f"events[0].data.{field}"
    assert expected in str(caught.value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_are_written_so_that_they_read_back_the_same(value: float) -> None:
    raw = v4.encode_decisions(Message(value, (d.CallMeLater(value, timestamp=value),)))
    read = json.loads(raw)
    for back in (read["now"], read["events"][0]["timestamp"], read["events"][0]["data"]["timestamp"]):
        assert math.copysign(1, back) == math.copysign(1, value)
        assert back == value


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
KEYS = sorted({m.key for shape in EVENT_SHAPES + DECISION_SHAPES for m in shape.members})
TYPES = sorted({shape.name for shape in EVENT_SHAPES + DECISION_SHAPES})


@given(
    st.sampled_from(["event", "decision"]),
    st.sampled_from(TYPES) | st.text(),
    st.dictionaries(st.sampled_from(KEYS) | st.text(), json_values | st.sampled_from(["0-3", "a", ["x"], {}, "5 1-2"])),
    st.dictionaries(st.text(), json_values, max_size=3),
)
def test_any_message_is_rejected_or_kept_completely(
    side: str, kind: str, data: dict[str, Any], beside: dict[str, Any]
) -> None:
    text = {"now": 1.0, "events": [{**beside, "timestamp": 0.5, "type": kind, "data": data}], "more": beside}
    decode, encode = (
        (v4.decode_events, v4.encode_events) if side == "event" else (v4.decode_decisions, v4.encode_decisions)
    )
    try:
        message = decode(json.dumps(text).encode())
    except RemoteProtocolError as error:
        assert error.field.startswith("events[0].data")
    else:
        assert json.loads(encode(message)) == text  # type: ignore[arg-type]


@given(st.binary(max_size=200))
def test_no_bytes_crash_the_reader(raw: bytes) -> None:
    with contextlib.suppress(RemoteProtocolError):
        v4.decode_events(raw)


_ODD: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.just(2**53 + 1),
    st.just(10**400),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=3),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)
_TIMES = st.one_of(
    st.floats(0, 1e9), st.integers(0, 2**54), st.sampled_from([0, 0.5, -1, 2**53, 2**53 + 1, -(2**53) - 1])
)


def mostly(usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return a strategy of usual values, and of odd ones now and then."""
    return st.sampled_from([usual] * 29 + [_ODD]).flatmap(lambda chosen: chosen)


def members(**usual: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Return objects with these members: usually all, sometimes without one or with another one, in any order."""
    whole = st.fixed_dictionaries({key: mostly(value) for key, value in usual.items()})
    more = st.fixed_dictionaries({}, optional={key: mostly(value) for key, value in usual.items()} | {"other": _ODD})
    found = st.sampled_from([whole] * 19 + [more]).flatmap(lambda chosen: chosen)
    return found.flatmap(lambda content: st.permutations(list(content.items())).map(dict))


_JOB = members(id=st.text(max_size=4), res=st.integers(1, 9), walltime=_TIMES, profile=st.text(max_size=3))
_EVENTS = st.one_of(
    members(timestamp=_TIMES, type=st.just("JOB_SUBMITTED"), data=members(job_id=st.text(max_size=4), job=_JOB)),
    members(
        timestamp=_TIMES,
        type=st.just("JOB_SUBMITTED"),
        data=members(job_id=st.text(max_size=4), job=_JOB, profile=members(type=st.just("delay"), delay=_TIMES)),
    ),
    members(
        timestamp=_TIMES,
        type=st.just("JOB_COMPLETED"),
        data=members(
            job_id=st.text(max_size=4),
            job_state=st.text(max_size=4),
            return_code=st.sampled_from([0, 1, -1, 1.0]),
            alloc=st.just("0-3"),
        ),
    ),
    members(timestamp=_TIMES, type=st.sampled_from(["REQUESTED_CALL", "SIMULATION_ENDS", "NEW"]), data=members()),
)
_MESSAGES = members(now=_TIMES, events=st.lists(_EVENTS, max_size=3))


def outcome(read: Callable[[bytes], Any], raw: bytes) -> Any:
    """Return the message, with the types of its values, or the text of the error."""
    try:
        message = read(raw)
    except RemoteProtocolError as error:
        return str(error), error.field
    return message, repr(message)


@examples(300)
@given(_MESSAGES)
def test_both_readers_give_the_same(message: dict[str, Any]) -> None:
    raw = msgspec.json.encode(message) if _can_be_written(message) else repr(message).encode()
    assert outcome(v4.decode_events, raw) == outcome(v4.decode_any_events, raw)


def _can_be_written(message: dict[str, Any]) -> bool:
    try:
        msgspec.json.encode(message)
    except (OverflowError, msgspec.MsgspecError):
        return False
    return True


_SUBMITTED = b'{"now":1,"events":[{"timestamp":%s,"type":"JOB_SUBMITTED","data":{"job_id":"a","job":{}%s}}]}'
_COMPLETED = (
    b'{"now":1,"events":[{"timestamp":1,"type":"JOB_COMPLETED","data":'
    b'{"job_id":%s,"job_state":"DONE","return_code":%s,"alloc":"0"}}]}'
)


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"{", b"[]", b"[" * 5000, b'{"now":1,"events":[]}', b'{"now":1,"events":[]}x',
        b'{"now":1,"now":2,"events":[]}', b'{"now":1e999,"events":[]}', b'{"now":9007199254740993,"events":[]}',
        b'{"now":1,"events":[\xff]}', _SUBMITTED % (b"1", b""), _SUBMITTED % (b"9007199254740993", b""),
        _SUBMITTED % (b"-9007199254740993", b""), _SUBMITTED % (b"1", b',"profile":null'),
        _SUBMITTED % (b"1", b',"profile":{"type":"delay"}'), _SUBMITTED % (b"1", b',"other":1'),
        _COMPLETED % (b'"a"', b"0"), _COMPLETED % (b'"a"', b"1.0"), _COMPLETED % (b'"a"', b"true"),
        _COMPLETED % (b"7", b"0"),
    ],
)  # fmt: skip
def test_both_readers_give_the_same_for_odd_messages(raw: bytes) -> None:
    assert outcome(v4.decode_events, raw) == outcome(v4.decode_any_events, raw)


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "tests/conformance/recordings/v4").iterdir()))
def test_recordings_of_batsim_are_read_the_same(name: str) -> None:
    requests = recording(name).requests
    assert requests
    for raw in requests:
        assert outcome(v4.decode_events, raw) == outcome(v4.decode_any_events, raw)


def test_the_fast_reader_reads_the_usual_messages() -> None:
    """A typed reader that rejects all messages would still be right, but slow."""
    usual = [raw for raw in recording("plain").requests if b"SIMULATION" not in raw and b"NOTIFY" not in raw]
    assert len(usual) > 4
    for raw in usual:
        v4._decode_usual(raw)


_OBJECT = st.none() | st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2)


@examples(200)
@given(
    st.text(max_size=5),
    st.sets(st.integers(0, 40), max_size=6),
    _OBJECT,
    _OBJECT,
    _OBJECT,
    st.floats(0, 1e9),
    st.booleans(),
)
def test_starts_of_jobs_are_written_as_the_table_says(
    job_id: str, procs: set[int], mapping: Any, storage: Any, io_job: Any, at: float, has_extra: bool
) -> None:
    extra: dict[str, Any] = {"extra": {"alloc": "7", "more": 1}, "beside": {"note": 2}} if has_extra else {}
    start = d.ExecuteJob(job_id, IntervalSet(procs), mapping, storage, io_job, timestamp=at, **extra)
    shape = next(shape for shape in DECISION_SHAPES if shape.cls is d.ExecuteJob)
    data = {}
    for key, attribute, write in shape.attributes:
        value = getattr(start, attribute)
        if value is not None:
            data[key] = value if write is None else write(value)
    item = {"timestamp": at, "type": shape.name, "data": data | dict(start.extra)} | dict(start.beside)
    assert v4.encode_decisions(Message(at, (start,))) == msgspec.json.encode({"now": at, "events": [item]})
