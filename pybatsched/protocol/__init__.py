"""Codecs: bytes to events and decisions, and back. They do no input or output of their own.

A codec has four functions: `decode_events`, `encode_events`, `decode_decisions` and `encode_decisions`. The scheduler
uses the outer two, the simulator the inner two. Whatever a peer speaks, the events and decisions are those of
`pybatsched.core`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from pybatsched.core.decisions import Decision
from pybatsched.core.events import NOTHING, Event

Item = TypeVar("Item")


class Message(msgspec.Struct, Generic[Item], frozen=True):
    """One message: the sender's time, what it holds in order, and members nobody knows."""

    now: float
    items: tuple[Item, ...]
    extra: Mapping[str, Any] = NOTHING


class Codec(Protocol):
    """How one protocol is written: the module `v4` is one, `v5.Codec` makes others, one for each conversation."""

    def decode_events(self, raw: bytes, /) -> Message[Event]:
        """Read a message of the simulator."""

    def decode_decisions(self, raw: bytes, /) -> Message[Decision]:
        """Read a message of the scheduler."""

    def encode_events(self, message: Message[Event], /) -> bytes:
        """Write a message of the simulator."""

    def encode_decisions(self, message: Message[Decision], /) -> bytes:
        """Write a message of the scheduler."""
