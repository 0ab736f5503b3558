"""Journals as a crash leaves them, and what `explain` reads from journals."""

from __future__ import annotations

from pathlib import Path

import msgpack

from pybatsched.session.explain import explain
from pybatsched.session.journal import JournalReader


def record_ends(raw: bytes) -> list[int]:
    """Return the places where the records of a journal end."""
    unpacker = msgpack.Unpacker()
    unpacker.feed(raw)
    return [unpacker.tell() for _ in unpacker]


def cut_before_reply(path: Path, n: int) -> None:
    """Leave of a journal the header, the first exchanges, and the request of exchange `n`, but not its reply."""
    raw = path.read_bytes()
    path.write_bytes(raw[: record_ends(raw)[2 * n - 1] + 7])


def explained(path: Path, job: str) -> list[str]:
    """Return the history of a job, each line with its time."""
    return [f"{at:g} {text}" for at, text in explain(JournalReader(path), job)]
