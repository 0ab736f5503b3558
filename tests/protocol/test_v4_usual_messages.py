"""The usual messages have a faster reader and writer. Both give what the table of shapes gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st
from support.examples import examples
from support.places import ROOT
from support.recordings import recording

from pybatsched.core import decisions as d
from pybatsched.core.intervals import IntervalSet
from pybatsched.errors import RemoteProtocolError
from pybatsched.protocol import Message, v4
from pybatsched.protocol.v4_shapes import DECISION_SHAPES

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
        b"",
        b"{",
        b"[]",
        b"[" * 5000,
        b'{"now":1,"events":[]}',
        b'{"now":1,"events":[]}x',
        b'{"now":1,"now":2,"events":[]}',
        b'{"now":1e999,"events":[]}',
        b'{"now":9007199254740993,"events":[]}',
        b'{"now":1,"events":[\xff]}',
        _SUBMITTED % (b"1", b""),
        _SUBMITTED % (b"9007199254740993", b""),
        _SUBMITTED % (b"-9007199254740993", b""),
        _SUBMITTED % (b"1", b',"profile":null'),
        _SUBMITTED % (b"1", b',"profile":{"type":"delay"}'),
        _SUBMITTED % (b"1", b',"other":1'),
        _COMPLETED % (b'"a"', b"0"),
        _COMPLETED % (b'"a"', b"1.0"),
        _COMPLETED % (b'"a"', b"true"),
        _COMPLETED % (b"7", b"0"),
    ],
)
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
