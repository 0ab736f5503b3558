"""Codecs: bytes to events and decisions, and back. They do no input or output of their own.

A codec is a module with four functions: `decode_events`, `encode_events`, `decode_decisions` and
`encode_decisions`. The scheduler uses the outer two, the simulator the inner two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec

from pybatsched.core.events import NOTHING

Item = TypeVar("Item")


class Message(msgspec.Struct, Generic[Item], frozen=True):
    """One message: the sender's time, what it holds in order, and members nobody knows."""

    now: float
    items: tuple[Item, ...]
    extra: Mapping[str, Any] = NOTHING
