"""Every recorded message is decoded and encoded without loss; invalid messages are rejected with the field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.recordings import Recording, recordings, structure_error

from pybatsched.core import decisions as d, events as e
from pybatsched.errors import RemoteProtocolError
from pybatsched.protocol import v4

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
