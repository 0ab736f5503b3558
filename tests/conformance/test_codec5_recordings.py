"""Every recorded message of Batsim 5 is decoded and encoded without loss."""

from __future__ import annotations

import json

import pytest
from support.recordings import Recording5, recordings5

from pybatsched.core import events as e
from pybatsched.protocol.v5 import Codec
from pybatsched.protocol.v5_handshake import Features, is_greeting, read_greeting, read_hello, write_greeting

ALL = recordings5()
#: With texts of users (there may be blanks in them), or with stamps of an earlier message.
KEPT = (e.JobSubmitted, e.Notify, e.ResourceStateChanged)


def _plain(raw: bytes) -> object:
    return json.loads(raw.rstrip(b"\0"))


@pytest.mark.parametrize("recording", ALL, ids=lambda r: r.name)
def test_messages_survive_reading_and_writing(recording: Recording5) -> None:
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


@pytest.mark.parametrize("recording", ALL, ids=lambda r: r.name)
def test_recorded_messages_equal_those_of_the_embedded_simulator(recording: Recording5) -> None:
    """So our messages equal Batsim's, except for texts of users, and timestamps and names kept separately."""
    codec = Codec(Features(forward_profiles_on_simulation_begins=True))
    for sender, raw in recording.records[2:]:
        if sender == "batsim":
            for event in codec.decode_events(raw).items:
                assert not isinstance(event, e.UnknownEvent)
                assert not event.beside or isinstance(event, KEPT)


def test_there_are_recordings() -> None:
    assert {one.name for one in ALL} >= {"basic", "kill", "dynamic", "calls"}
