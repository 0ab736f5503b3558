"""A run told to people while it goes on: every message and decision, for --verbose."""

from __future__ import annotations

import sys

from pybatsched.core import decisions as d
from pybatsched.core import events as e
from pybatsched.core.engine import Reply
from pybatsched.core.instants import seconds_text
from pybatsched.core.intervals import IntervalSet
from pybatsched.protocol import Message


def narrate(message: Message[e.Event], reply: Reply) -> None:
    """Tell one exchange to people, a line per event and decision."""
    lines = [f"t={seconds_text(message.now)}"]
    lines += [f"  <- {_told(event)}" for event in message.items]
    for decision in reply.decisions:
        why = d.reason_text(decision.reason)
        lines.append(f"  -> {_told(decision)}" + (f"   # {why}" if why else ""))
    print("\n".join(lines), file=sys.stderr, flush=True)


def _told(item: e.Event | d.Decision) -> str:
    """Write an event or a decision in one line: its name and its short members."""
    hidden = {"timestamp", "reason", "extra", "beside"}
    values = [getattr(item, name) for name in item.__struct_fields__ if name not in hidden]
    shown = [str(value) for value in values if isinstance(value, str | int | float | IntervalSet | tuple)]
    return " ".join([type(item).__name__, *(text if len(text) <= 100 else text[:97] + "..." for text in shown)])
