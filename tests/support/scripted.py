"""A policy that replies as recorded; loaded by path into the real process."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pybatsched.core import decisions as d
from pybatsched.core.options import Options
from pybatsched.core.policy import Policy
from pybatsched.protocol import v4


class ScriptOptions(Options):
    """Where the recording is."""

    conversation: Path


class Scripted(Policy):
    """Answers the n-th message with the n-th recorded reply."""

    Options = ScriptOptions
    reads_sched_config = True
    handles_oversized = True
    manages_registration = True

    def __init__(self, options: ScriptOptions) -> None:
        super().__init__(options)
        import json

        lines = options.conversation.read_text(encoding="utf-8").splitlines()
        replies = [record["text"] for record in map(json.loads, lines) if record["from"] == "scheduler"]
        self._replies = iter(replies)
        self._now = 0.0

    def decide(self, now: float) -> Iterable[d.Decision]:
        message = v4.decode_decisions(next(self._replies).encode())
        self._now = message.now
        return message.items

    def busy_until(self, now: float) -> float:
        return self._now
