"""The handshake of Batsim 5: its greeting, our hello, and the features that the hello requests.

The greeting is a length (four bytes) and a text of that length, which the user gave Batsim for the scheduler. The hello
is four bytes of flags, which select the format of all following messages, and a message with one event.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from typing import Final

import msgspec

from pybatsched.core.policy import BatsimFeature, Policy
from pybatsched.errors import RemoteProtocolError, setting
from pybatsched.protocol.v5_members import Members

#: The version of the message schema that we write.
BATPROTOCOL_VERSION: Final = "1.0.0"
_LENGTH: Final = struct.Struct("=I")
#: Bits of the hello's first four bytes.
_BINARY, _JSON = 0x1, 0x2
#: How many bytes of an invalid message are shown.
_N_SHOWN: Final = 60


@dataclass(frozen=True, slots=True)
class Features:
    """The features that a scheduler requests; Batsim 4 has command-line options for them."""

    dynamic_registration: bool = False
    profile_reuse: bool = False
    acknowledge_dynamic_jobs: bool = False
    forward_profiles_on_job_submission: bool = False
    forward_profiles_on_jobs_killed: bool = False
    forward_profiles_on_simulation_begins: bool = False


@dataclass(frozen=True, slots=True)
class Hello:
    """The name and version of the scheduler, and the features it requests."""

    name: str
    version: str
    features: Features = Features()


def is_greeting(raw: bytes) -> bool:
    """Return whether a first message is a greeting of Batsim 5: the length of the rest, and no JSON."""
    return len(raw) >= _LENGTH.size and _LENGTH.unpack_from(raw)[0] == len(raw) - _LENGTH.size


def first_message_error(raw: bytes) -> str:
    """Return the error message for an invalid first message."""
    shown = repr(raw[:_N_SHOWN]) + ("..." if len(raw) > _N_SHOWN else "")
    return (
        "expected a JSON object (Batsim 3.1 to 4.2), or the greeting of Batsim 5: four bytes with the length of the "
        f"following text; found {shown}, {len(raw)} bytes"
    )


def read_greeting(raw: bytes) -> str:
    """Return the text that the user gave Batsim for the scheduler."""
    try:
        return raw[_LENGTH.size :].rstrip(b"\0").decode()
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"Batsim's initialisation text is not in UTF-8: {error}") from None


def write_greeting(text: str) -> bytes:
    """Write Batsim's first message."""
    raw = text.encode()
    return _LENGTH.pack(len(raw)) + raw


def write_hello(hello: Hello) -> bytes:
    """Return the answer to a greeting, which selects JSON for all messages."""
    event = {
        "batprotocol_version": BATPROTOCOL_VERSION,
        "decision_component_name": hello.name,
        "decision_component_version": hello.version,
        "decision_component_commit": "",  # required: Batsim 5.0.0-rc2 reads it without a check
        "requested_simulation_features": asdict(hello.features),
    }
    message = {"now": 0.0, "events": [{"timestamp": 0.0, "event_type": "EDCHelloEvent", "event": event}]}
    return _LENGTH.pack(_JSON) + msgspec.json.encode(message)


def read_hello(raw: bytes) -> Hello:
    """Read a scheduler's answer to our greeting. Raises RemoteProtocolError if it is invalid or not in JSON."""
    if len(raw) < _LENGTH.size:
        raise RemoteProtocolError(f"expected four bytes of flags and a hello, found {raw!r}")
    if raw.startswith(b"{"):
        raise RemoteProtocolError(
            f"the scheduler uses the protocol of Batsim 4 ({setting('protocol', 'v4')}): its answer to the greeting is "
            "only JSON; expected four bytes of flags before the hello"
        )
    flags = _LENGTH.unpack_from(raw)[0]
    if not flags & _JSON:
        what = "FlatBuffers" if flags & _BINARY else f"flags {flags:#x} of {sys.byteorder} endianness"
        raise RemoteProtocolError(f"the scheduler requests {what}; expected JSON (flags {_JSON})")
    try:
        message = Members(msgspec.json.decode(raw[_LENGTH.size :].rstrip(b"\0")), "hello")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RemoteProtocolError(f"the hello is not JSON: {error}") from None
    events = list(message.objects("events"))
    if len(events) != 1 or events[0].text("event_type") != "EDCHelloEvent":
        raise RemoteProtocolError("expected a message with one EDCHelloEvent in answer to the greeting", field="events")
    event = events[0].object("event")
    wanted = event.object("requested_simulation_features")
    asked = {one.name: bool(wanted.maybe_flag(one.name)) for one in fields(Features)}
    return Hello(event.text("decision_component_name"), event.text("decision_component_version"), Features(**asked))


def features_for(needs: Iterable[BatsimFeature]) -> Features:
    """Return the features to request. A policy that registers jobs gets all profiles at the start."""
    makes_jobs = BatsimFeature.DYNAMIC_JOBS in needs
    return Features(
        dynamic_registration=makes_jobs,
        profile_reuse=BatsimFeature.PROFILE_REUSE in needs,
        acknowledge_dynamic_jobs=BatsimFeature.ACKNOWLEDGED_JOBS in needs,
        forward_profiles_on_job_submission=not makes_jobs or BatsimFeature.FORWARDED_PROFILES in needs,
        # Only if needed: Batsim 5.0.0-rc2 crashes if a workload has a profile that no job uses.
        forward_profiles_on_simulation_begins=makes_jobs,
    )


#: Hooks that Batsim 5 never triggers, and the feature that it lacks.
_NEVER_CALLED: Final = {"on_answer": "queries (for example of energy)", "on_job_message": "messages of jobs"}


def missing_features(cls: type[Policy], name: str, *, keeps_notes: bool) -> Iterator[str]:
    """Return a warning for each thing that the policy uses and Batsim 5 lacks."""
    for hook, what in _NEVER_CALLED.items():
        if getattr(cls, hook) is not getattr(Policy, hook):
            yield f"policy {name} has {hook}, which is never called: Batsim 5 has no {what}"
    if BatsimFeature.DYNAMIC_JOBS in cls.needs and not keeps_notes:
        yield (
            f"policy {name} may continue jobs under other ids, and Batsim 5 stores no job metadata: its own files do "
            "not show which. A journal and the files of pybatsched run do"
        )
        yield (
            "if Batsim ends now with a segmentation fault: 5.0.0-rc2 does so if a workload has profiles that no job "
            "uses; `pybatsched workload convert --for batsim5` removes them"
        )
