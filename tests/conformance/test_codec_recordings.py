"""Recorded messages of Batsim 4 and 5 survive decoding and encoding; invalid ones are rejected with the field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.recordings import Recording, Recording5, recordings, recordings5, structure_error

from pybatsched.core import decisions as d, events as e
from pybatsched.errors import RemoteProtocolError
from pybatsched.protocol import v4
from pybatsched.protocol.v5 import Codec
from pybatsched.protocol.v5_handshake import Features, is_greeting, read_greeting, read_hello, write_greeting

ALL = recordings()


@pytest.mark.parametrize("recording", ALL, ids=lambda r: r.name)
def test_messages_survive_reading_and_writing(recording: Recording) -> None:
    for sender, text in recording.records:
        codec: Any = (v4.decode_decisions, v4.encode_decisions)
        if sender == "batsim":
            codec = (v4.decode_events, v4.encode_events)
        decode, encode = codec
        broken = structure_error(text)
        if broken:
            with pytest.raises(RemoteProtocolError) as caught:
                decode(text.encode())
            assert broken in str(caught.value)
        else:
            message = decode(text.encode())
            assert json.loads(encode(message)) == json.loads(text)


@pytest.mark.parametrize("recording", ALL, ids=lambda r: r.name)
def test_recorded_messages_have_no_unknown_events_or_members(recording: Recording) -> None:
    """All types and members of the protocol have a field of their own; only users' own fields are extra."""
    for request in recording.requests:
        for event in v4.decode_events(request).items:
            assert not isinstance(event, e.UnknownEvent)
            if not isinstance(event, e.Notify):  # a user's event comes with members of its own
                assert not event.extra
            assert not event.beside


def test_scheduler_types_are_known() -> None:
    kinds = {
        type(item)
        for recording in ALL
        for reply in recording.replies
        if not structure_error(reply.decode())
        for item in v4.decode_decisions(reply).items
    }
    assert d.UnknownDecision in kinds  # bad-unknown-type
    assert {d.ExecuteJob, d.KillJob, d.RegisterJob, d.SetResourceState, d.Query, d.ToJobMsg} <= kinds


def test_the_projects_own_recordings_are_there() -> None:
    assert len(ALL) >= 25
    assert any(structure_error(text) for recording in ALL for _, text in recording.records)


ALL_5 = recordings5()
#: With texts of users (there may be blanks in them), or with stamps of an earlier message.
KEPT = (e.JobSubmitted, e.Notify, e.ResourceStateChanged)


def _plain(raw: bytes) -> object:
    return json.loads(raw.rstrip(b"\0"))


@pytest.mark.parametrize("recording", ALL_5, ids=lambda r: r.name)
def test_messages_of_batsim5_survive_reading_and_writing(recording: Recording5) -> None:
    (_, greeting), (_, hello), *rest = recording.records
    assert is_greeting(greeting)
    assert write_greeting(read_greeting(greeting)) == greeting
    codec = Codec(read_hello(hello).features, read_greeting(greeting))
    for sender, raw in rest:
        if sender == "batsim":
            assert _plain(codec.encode_events(codec.decode_events(raw))) == _plain(raw)
        elif recording.name == "bad-fractional-call":
            assert b"6.5" in raw  # which Batsim does not survive either
        else:
            assert _plain(codec.encode_decisions(codec.decode_decisions(raw))) == _plain(raw)


@pytest.mark.parametrize("recording", ALL_5, ids=lambda r: r.name)
def test_recorded_messages_equal_those_of_the_embedded_simulator(recording: Recording5) -> None:
    """So our messages equal Batsim's, except for texts of users, and timestamps and names kept separately."""
    codec = Codec(Features(forward_profiles_on_simulation_begins=True))
    for sender, raw in recording.records[2:]:
        if sender == "batsim":
            for event in codec.decode_events(raw).items:
                assert not isinstance(event, e.UnknownEvent)
                assert not event.beside or isinstance(event, KEPT)


def test_there_are_recordings() -> None:
    assert {one.name for one in ALL_5} >= {"basic", "kill", "dynamic", "calls"}
