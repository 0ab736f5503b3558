"""How a conversation with Batsim 5 begins: its greeting, and the hello that answers it.

The greeting is a length (four bytes) and so many bytes of a text, what the user gave Batsim for the scheduler. The
hello is four bytes that say in which format the rest is spoken, and a message with one event. No other message is like
these.
"""

from __future__ import annotations

import struct
import sys
from dataclasses import asdict, dataclass, fields
from typing import Final

import msgspec

from pybatsched.errors import RemoteProtocolError
from pybatsched.protocol.v5_members import Members

#: The version of the message schema that we write.
BATPROTOCOL_VERSION: Final = "1.0.0"
_LENGTH: Final = struct.Struct("=I")
#: Bits of the hello's first four bytes.
_BINARY, _JSON = 0x1, 0x2
#: How many bytes of what is no message are shown.
_N_SHOWN: Final = 60


@dataclass(frozen=True, slots=True)
class Features:
    """What a scheduler asks of the simulation; Batsim 4 has options of its command line for these."""

    dynamic_registration: bool = False
    profile_reuse: bool = False
    acknowledge_dynamic_jobs: bool = False
    forward_profiles_on_job_submission: bool = False
    forward_profiles_on_jobs_killed: bool = False
    forward_profiles_on_simulation_begins: bool = False


@dataclass(frozen=True, slots=True)
class Hello:
    """Who decides, and what it asks for."""

    name: str
    version: str
    features: Features = Features()


def is_greeting(raw: bytes) -> bool:
    """Tell whether a conversation that begins so is one with Batsim 5: a length of what follows, and no JSON."""
    return len(raw) >= _LENGTH.size and _LENGTH.unpack_from(raw)[0] == len(raw) - _LENGTH.size


def no_first_message(raw: bytes) -> str:
    """Say of bytes that begin no conversation what was expected."""
    shown = repr(raw[:_N_SHOWN]) + ("..." if len(raw) > _N_SHOWN else "")
    return (
        "expected a JSON object (Batsim 3.1 to 4.2), or the greeting of Batsim 5: four bytes that give the length of "
        f"the text behind them; got {shown}, {len(raw)} bytes"
    )


def read_greeting(raw: bytes) -> str:
    """Give the text that Batsim was started with for its scheduler."""
    try:
        return raw[_LENGTH.size :].rstrip(b"\0").decode()
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"Batsim's initialisation text is not in UTF-8: {error}") from None


def write_greeting(text: str) -> bytes:
    """Write Batsim's first message."""
    raw = text.encode()
    return _LENGTH.pack(len(raw)) + raw


def write_hello(hello: Hello) -> bytes:
    """Write the answer to a greeting, in JSON, and that all else is, too."""
    event = {
        "batprotocol_version": BATPROTOCOL_VERSION,
        "decision_component_name": hello.name,
        "decision_component_version": hello.version,
        "decision_component_commit": "",  # Batsim 5.0.0-rc2 reads it unseen
        "requested_simulation_features": asdict(hello.features),
    }
    message = {"now": 0.0, "events": [{"timestamp": 0.0, "event_type": "EDCHelloEvent", "event": event}]}
    return _LENGTH.pack(_JSON) + msgspec.json.encode(message)


def read_hello(raw: bytes) -> Hello:
    """Read a scheduler's answer to our greeting. Raises RemoteProtocolError for what is none, or not in JSON."""
    if len(raw) < _LENGTH.size:
        raise RemoteProtocolError(f"expected four bytes of flags and a hello, got {raw!r}")
    if raw.startswith(b"{"):
        raise RemoteProtocolError(
            "the scheduler answers the greeting with JSON alone, as if to Batsim 4: it speaks another protocol "
            "(simulate --protocol v4); expected four bytes of flags before the hello"
        )
    flags = _LENGTH.unpack_from(raw)[0]
    if not flags & _JSON:
        what = "FlatBuffers" if flags & _BINARY else f"flags {flags:#x} of {sys.byteorder} endianness"
        raise RemoteProtocolError(f"the scheduler wants to speak {what}; expected JSON (flags {_JSON})")
    try:
        message = Members(msgspec.json.decode(raw[_LENGTH.size :].rstrip(b"\0")), "hello")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RemoteProtocolError(f"the hello is no JSON: {error}") from None
    events = list(message.objects("events"))
    if len(events) != 1 or events[0].text("event_type") != "EDCHelloEvent":
        raise RemoteProtocolError("expected a message with one EDCHelloEvent in answer to the greeting", field="events")
    event = events[0].object("event")
    wanted = event.object("requested_simulation_features")
    asked = {one.name: bool(wanted.maybe_flag(one.name)) for one in fields(Features)}
    return Hello(event.text("decision_component_name"), event.text("decision_component_version"), Features(**asked))
