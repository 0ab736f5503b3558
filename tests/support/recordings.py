"""Recorded conversations: those of the project, and all in PYBATSCHED_GOLDEN."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pybatsched.errors import RemoteProtocolError
from pybatsched.protocol import v4
from support.places import FIXTURES, GOLDEN


@dataclass(frozen=True)
class _Recording:
    """One run of a real Batsim, of any version."""

    directory: Path

    @property
    def name(self) -> str:
        return self.directory.name

    @property
    def args(self) -> list[str]:
        return shlex.split((self.directory / "args.txt").read_text())

    @property
    def exit_code(self) -> int:
        return int((self.directory / "exit_code").read_text().strip())

    def _lines(self) -> list[dict[str, str]]:
        lines = (self.directory / "conversation.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]


class Recording(_Recording):
    """One run of the real Batsim."""

    @property
    def records(self) -> list[tuple[str, str]]:
        return [(record["from"], record["text"]) for record in self._lines()]

    @property
    def requests(self) -> list[bytes]:
        return [text.encode() for sender, text in self.records if sender == "batsim"]

    @property
    def replies(self) -> list[bytes]:
        return [text.encode() for sender, text in self.records if sender == "scheduler"]

    @property
    def is_readable(self) -> bool:
        """Whether every reply is a message at all."""
        try:
            for reply in self.replies:
                v4.decode_decisions(reply)
        except RemoteProtocolError:
            return False
        return True

    @property
    def ends(self) -> bool:
        """Whether the simulation came to its end."""
        return b"SIMULATION_ENDS" in self.requests[-1]


def recordings() -> list[Recording]:
    """Return all recordings, those of PYBATSCHED_GOLDEN in place of ours of the same name."""
    return [Recording(directory) for directory in _directories("v4")]


class Recording5(_Recording):
    """One run of the real Batsim 5: its greeting, the hello in answer, and the messages after these."""

    @property
    def records(self) -> list[tuple[str, bytes]]:
        """All messages as they were on the wire."""
        return [
            (record["from"], bytes.fromhex(record.get("hex", "")) + record.get("text", "").encode())
            for record in self._lines()
        ]


def recordings5() -> list[Recording5]:
    """Return all recordings of Batsim 5, those of PYBATSCHED_GOLDEN in place of ours of the same name."""
    return [Recording5(directory) for directory in _directories("v5")]


def _directories(version: str) -> list[Path]:
    found: dict[str, Path] = {}
    for root in (FIXTURES, GOLDEN):
        for conversation in sorted((root / version).glob("*/conversation.jsonl")):
            found[conversation.parent.name] = conversation.parent
    return list(found.values())


def recording(name: str) -> Recording:
    """Return one of the project's own recordings."""
    return Recording(FIXTURES / "v4" / name)


def structure_error(text: str) -> str | None:
    """Return in one word why a text is not a message, by an independent reading of the protocol; None if it is one."""
    try:
        value = json.loads(text)
    except ValueError:
        return "JSON"
    if not isinstance(value, dict):
        return "object"
    for key, kind in (("now", (int, float)), ("events", list)):
        if not isinstance(value.get(key), kind) or isinstance(value[key], bool):
            return key
    return next((error for event in value["events"] if (error := _event_error(event))), None)


def _event_error(event: Any) -> str | None:
    if not isinstance(event, dict):
        return "object"
    for key, kind in (("timestamp", (int, float)), ("type", str), ("data", dict)):
        if not isinstance(event.get(key), kind):
            return key
    return None
