"""Codecs between bytes and the events and decisions of `pybatsched.core`, which hide the version of Batsim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from pybatsched.core.decisions import Decision, SetJobMetadata
from pybatsched.core.events import NOTHING, Event
from pybatsched.core.policy import Policy

Item = TypeVar("Item")


class Message(msgspec.Struct, Generic[Item], frozen=True):
    """One message: the sender's time, its events or decisions in order, and unknown members."""

    now: float
    items: tuple[Item, ...]
    extra: Mapping[str, Any] = NOTHING


class CannotEncodeError(Exception):
    """The protocol has no message for a decision; the text names the decision."""


class Greeting(NamedTuple):
    """The handshake before the first message: our answer, and the agreed configuration."""

    answer: bytes
    config: Mapping[str, Any]


class Codec(Protocol):
    """One protocol in one conversation: the module `v4`, or a `v5.Codec` for each conversation."""

    def batsim(self) -> int:
        """Return the major version of Batsim; 4 stands for 3.1 to 4.2."""

    def greet(self, raw: bytes, version: str, /) -> Greeting | None:
        """Answer the first message with our version if it is a greeting; None if it holds events."""

    def missing(self, policy: type[Policy], name: str, /, *, keeps_notes: bool) -> Iterable[str]:
        """Return a warning for each thing that a policy uses and this Batsim lacks."""

    def order(self, events: tuple[Event, ...], /) -> tuple[Event, ...]:
        """Return the events of one message in the order for the engine."""

    def prepare(self, decisions: tuple[Decision, ...], /) -> tuple[Decision, ...]:
        """Return the decisions of one reply in the form in which they are encoded, one message item each."""

    def unsent(self, decisions: tuple[Decision, ...], /) -> list[tuple[int, SetJobMetadata]]:
        """Return the job metadata that cannot be encoded, each with its index in the reply."""

    def decode_events(self, raw: bytes, /) -> Message[Event]:
        """Read a message of the simulator."""

    def decode_decisions(self, raw: bytes, /) -> Message[Decision]:
        """Read a message of the scheduler."""

    def encode_events(self, message: Message[Event], /) -> bytes:
        """Write a message of the simulator."""

    def encode_decisions(self, message: Message[Decision], /) -> bytes:
        """Write a message of the scheduler."""
