"""The handshake with Batsim 5: greeting and hello, and invalid ones."""

from __future__ import annotations

import json

import pytest

from pybatsched.errors import RemoteProtocolError
from pybatsched.protocol.v5_handshake import (
    Features,
    Hello,
    is_greeting,
    read_greeting,
    read_hello,
    write_greeting,
    write_hello,
)


def test_a_greeting_is_a_length_and_a_string() -> None:
    assert write_greeting('{"seed": 1}') == b'\x0b\x00\x00\x00{"seed": 1}'
    assert read_greeting(write_greeting("é")) == "é"
    assert is_greeting(b"\0\0\0\0")  # no text at all
    assert not is_greeting(b'{"now": 0.0, "events": []}')
    assert not is_greeting(b"\x01")


def test_a_hello_names_json_and_the_requested_features() -> None:
    hello = Hello("pybatsched", "1.2", Features(dynamic_registration=True))
    raw = write_hello(hello)
    assert raw[:4] == b"\x02\0\0\0"
    (event,) = json.loads(raw[4:])["events"]
    assert event["event_type"] == "EDCHelloEvent"
    assert event["event"]["decision_component_commit"] == ""
    assert event["event"]["requested_simulation_features"]["dynamic_registration"] is True
    assert read_hello(raw) == hello


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"", "four bytes"),
        (b"\x01\0\0\0abc", "FlatBuffers"),
        (b"\x02\0\0\0{", "not JSON"),
        (b'{"now":0.0,"events":[]}', "its answer to the greeting is only JSON"),
        (b'\x02\0\0\0{"now": 0.0, "events": []}', "one EDCHelloEvent"),
        (
            b'\x02\0\0\0{"now": 0, "events": [{"timestamp": 0, "event_type": "RejectJobEvent", "event": {}}]}',
            "EDCHello",
        ),
    ],
)
def test_invalid_hello_messages_are_rejected(raw: bytes, text: str) -> None:
    with pytest.raises(RemoteProtocolError, match=text):
        read_hello(raw)
