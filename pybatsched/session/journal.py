"""The journal of a run: all messages and the reasons of all decisions.

A journal is a stream of msgpack maps, flushed one by one, without wall-clock times: the same run gives the same bytes.

    {"record": "header", "format": "pybatsched journal", "version": 1, "pybatsched": …, "policy": …, "options": …,
     "given": …, "from_file": …, "platform": sha256 of the machine if it is in the first message,
     "feedback_jobs": [jobs that follow others, if Batsim does not send them]}
    {"record": "request", "n": 1, "bytes": …}          as received; an over-large one is truncated and has a "size"
    {"record": "reply", "n": 1, "bytes": …, "reasons": [one per decision],
     "notes": [[index, job, text]]}                    only job metadata that was not sent
    {"record": "error", "n": 1, "kind": …, "text": …}  instead of a reply
    {"record": "end", "how": "ended" | "interrupted" | …}

The journal of a killed run can be read up to its last complete record.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias, TypeVar

import msgpack
import msgspec

from pybatsched import locks
from pybatsched.core.events import Resource, SimulationBegins
from pybatsched.core.services.feedback import FEEDBACK_JOBS, FollowingJob
from pybatsched.errors import InputError, setting
from pybatsched.policies.registry import PolicyPlan
from pybatsched.version import __version__

#: Job metadata that was not sent: its index among the decisions, the job's id in Batsim, the text.
Note: TypeAlias = tuple[int, str, str]
Value = TypeVar("Value")

FORMAT: Final = "pybatsched journal"
VERSION: Final = 1
_HEADER: Final = {"policy": str, "options": dict, "given": dict, "from_file": dict}
_KEPT_OF_OVERSIZED: Final = 2**20
#: The start of every journal, after the byte with the number of members of its header.
_BEGIN: Final = msgpack.packb({"record": "header", "format": FORMAT})[1:]
_MAPS: Final = {*range(0x80, 0x90), 0xDE, 0xDF}


class JournalWriter:
    """Writes records, each flushed to the operating system before the next. The file is locked."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        try:
            self._file: BinaryIO = Path(path).open("ab")  # noqa: SIM115  closed by close()
            if not locks.take(self._file.fileno()):
                self._file.close()
                raise InputError(f"the journal {os.fspath(path)!r} is being written by another run; use another file")
            if Path(path).is_file():
                self._file.truncate(0)
        except OSError as error:
            raise InputError(f"the journal {os.fspath(path)!r} cannot be written: {error.strerror}") from None
        self._pack = msgpack.Packer(use_bin_type=True, unicode_errors="replace").pack

    def header(
        self,
        plan: PolicyPlan,
        begins: SimulationBegins | None,
        options: Mapping[str, Any],
        feedback_jobs: Sequence[FollowingJob] = (),
    ) -> None:
        """Write the versions, the policy with its options, the machine, and jobs that Batsim does not know."""
        added = {FEEDBACK_JOBS: _packable(msgspec.to_builtins(feedback_jobs))} if feedback_jobs else {}
        self._write(
            record="header",
            format=FORMAT,
            version=VERSION,
            pybatsched=__version__,
            python=platform.python_version(),
            policy=plan.source.name,
            options=_packable(options),
            given=_packable(_without_places(plan.given)),
            from_file=_packable(plan.from_file),
            platform=None if begins is None else platform_digest(begins),
            **added,
        )

    def request(self, n: int, raw: bytes, max_bytes: int) -> None:
        """Write a message of the peer as received."""
        if len(raw) > max_bytes:
            self._write(record="request", n=n, bytes=raw[:_KEPT_OF_OVERSIZED], size=len(raw))
        else:
            self._write(record="request", n=n, bytes=raw)

    def reply(self, n: int, raw: bytes, reasons: list[str], notes: Sequence[Note] = ()) -> None:
        """Write the reply with the reason of each decision, and the job metadata that was not sent."""
        kept = {"notes": notes} if notes else {}
        self._write(record="reply", n=n, bytes=raw, reasons=reasons, **kept)

    def error(self, n: int, kind: str, text: str) -> None:
        """Write the error that occurred instead of a reply."""
        self._write(record="error", n=n, kind=kind, text=text)

    def end(self, how: str) -> None:
        """Write how the run ended."""
        self._write(record="end", how=how)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, **record: Any) -> None:
        try:
            self._file.write(self._pack(record))
            self._file.flush()
        except OSError as error:
            raise InputError(f"the journal {self._file.name!r} cannot be written: {error.strerror}") from None


@dataclass(slots=True)
class Exchange:
    """A message of the peer and its result: a reply, an error, or nothing if the journal ends there."""

    n: int
    request: bytes
    reply: bytes | None = None
    reasons: list[str] = field(default_factory=list)
    #: Job metadata that is not in the reply because Batsim 5 has no message for it.
    notes: Sequence[Note] = ()
    error: tuple[str, str] | None = None
    is_cut: bool = False

    @property
    def is_answered(self) -> bool:
        """Whether the request is complete and its result is known."""
        return not self.is_cut and (self.reply is not None or self.error is not None)


class JournalReader:
    """Reads a journal record by record. `note` then describes how the run ended, or that the file is truncated.

    `is_whole` is set when the last record, with the end of the run, has been read. `progress` is called with the share
    of the file that has been read, from 0 to 1. With `is_trusted`, the Python files that the journal names may be run.
    """

    def __init__(
        self, path: str | os.PathLike[str], progress: Callable[[float], None] | None = None, *, is_trusted: bool = False
    ) -> None:
        self.path = os.fspath(path)
        self.is_trusted = is_trusted
        self.note = ""
        self.is_whole = False
        self._progress = progress
        self._records = self._read()
        try:
            header = next(self._records, None)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read: {error.strerror}") from None
        if header is None:
            what = self.note or "it is empty"
            raise InputError(
                f"{self.path!r} contains no complete record ({what}): the run ended before its first message"
            )
        if header.get("record") != "header" or header.get("format") != FORMAT:
            raise InputError(
                f"{self.path!r} is not a pybatsched journal; expected a file written with {setting('journal')}"
            )
        if header.get("version") != VERSION:
            raise InputError(f"{self.path!r} is a journal of version {header.get('version')}; expected {VERSION}")
        if not all(isinstance(header.get(key), kind) for key, kind in _HEADER.items()):
            raise InputError(
                f"{self.path!r} is damaged: its header is incomplete; record the run again with {setting('journal')}"
            )
        self.header: Mapping[str, Any] = header

    def exchanges(self) -> Iterator[Exchange]:
        """Return the exchanges in order, once. O(size of one) memory."""
        try:
            yield from self._exchanges()
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{self.path!r} is damaged: in a record, {error} is missing or invalid") from None

    def _exchanges(self) -> Iterator[Exchange]:
        pending: Exchange | None = None
        for record in self._records:
            kind = record.get("record")
            if kind == "request":
                if pending is not None:
                    yield pending
                pending = Exchange(_of(record, "n", int), _of(record, "bytes", bytes), is_cut="size" in record)
            elif kind == "reply" and pending is not None:
                pending.reply, pending.reasons = _of(record, "bytes", bytes), _texts(record, "reasons")
                pending.notes = _notes(record)
                yield pending
                pending = None
            elif kind == "error" and pending is not None:
                pending.error = (_of(record, "kind", str), _of(record, "text", str))
                yield pending
                pending = None
            elif kind == "end":
                self.is_whole = True
                self.note = f"the run {record['how']}"
        if pending is not None:
            yield pending
        if not self.is_whole and not self.note:
            self.note = "the journal has no end: the run was killed, or is still running"

    def _read(self) -> Iterator[dict[str, Any]]:
        with Path(self.path).open("rb") as file:
            head = file.peek(1 + len(_BEGIN))[: 1 + len(_BEGIN)]
            if head and not (head[0] in _MAPS and _BEGIN.startswith(head[1:])):
                raise InputError(
                    f"{self.path!r} is not a pybatsched journal; expected a file written with {setting('journal')}"
                )
            yield from self._unpack(file, os.fstat(file.fileno()).st_size)

    def _unpack(self, file: BinaryIO, size: int) -> Iterator[dict[str, Any]]:
        unpacker = msgpack.Unpacker(file, raw=False, max_buffer_size=0, strict_map_key=False)
        whole = 0
        while True:
            try:
                record = unpacker.unpack()
            except msgpack.OutOfData:
                if whole < size:
                    self.note = f"the journal is truncated: {size - whole} bytes after its last complete record"
                return
            except (ValueError, TypeError, msgpack.UnpackException) as error:  # TypeError: a list as a key
                why = str(error) or type(error).__name__
                raise InputError(f"{self.path!r}: the record at byte {whole} cannot be read ({why})") from None
            if not isinstance(record, dict):
                raise InputError(f"{self.path!r}: byte {whole}: expected a record, found {record!r:.60}")
            whole = unpacker.tell()
            if self._progress is not None and size:
                self._progress(min(whole / size, 1.0))  # the file may grow while it is read
            yield record


def _of(record: Mapping[str, Any], name: str, kind: type[Value]) -> Value:
    """Return a member of a record. Raises KeyError and TypeError with its name."""
    value = record[name]
    if not isinstance(value, kind):
        raise TypeError(f"'{name}'")
    return value


def _texts(record: Mapping[str, Any], name: str) -> list[str]:
    texts = _of(record, name, list)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"'{name}'")
    return texts


def _notes(record: Mapping[str, Any]) -> list[Note]:
    notes = [tuple(note) for note in record.get("notes", ())]
    if any([*map(type, note)] != [int, str, str] for note in notes):
        raise TypeError("'notes'")
    return [(index, job_id, text) for index, job_id, text in notes]


def _without_places(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the options without the file and line of each reservation, which belong to one machine."""
    tables = given.get("host_reservations")
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        return given
    kept = [{name: value for name, value in table.items() if name != "source"} for table in tables]
    return {**given, "host_reservations": kept}


def _packable(value: Any) -> Any:
    """Return a value that msgpack can write; other values are converted to text."""
    if isinstance(value, Mapping):
        return {str(key): _packable(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_packable(part) for part in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def platform_digest(begins: SimulationBegins) -> str:
    """Return a digest of the machine: its hosts, their properties and the sharing rules."""

    def plain(resources: tuple[Resource, ...] | None) -> object:
        return None if resources is None else [msgspec.structs.asdict(r) | {"extra": dict(r.extra)} for r in resources]

    machine = [
        begins.n_compute,
        begins.n_storage,
        begins.n_resources,
        begins.allow_compute_sharing,
        begins.allow_storage_sharing,
        plain(begins.compute_resources),
        plain(begins.storage_resources),
    ]
    return hashlib.sha256(msgspec.json.encode(machine, order="sorted")).hexdigest()
