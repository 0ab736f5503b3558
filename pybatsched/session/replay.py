"""Replay a journal, to check whether the current policy gives the recorded answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

import msgspec

from pybatsched.core import events as e
from pybatsched.core.services.feedback import FEEDBACK_JOBS, following_jobs
from pybatsched.errors import InputError, PybatschedError, UntrustedFileError, setting
from pybatsched.policies import registry
from pybatsched.policies.loading import names_file
from pybatsched.protocol import Message
from pybatsched.session.journal import Exchange, JournalReader
from pybatsched.session.session import Session
from pybatsched.session.transcript import is_same


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference between a replay and its recording."""

    n: int
    recorded: str
    replayed: str

    def __str__(self) -> str:
        return f"first difference at message {self.n}\n  recorded: {self.recorded}\n  replayed: {self.replayed}"


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The number of equal exchanges, and the first difference. `note` describes the end of the journal."""

    n_same: int
    difference: Difference | None
    note: str


class _RecordedSession(Session):
    """The session of a journal. Earlier versions recorded the jobs that follow others in SIMULATION_BEGINS."""

    def _receive_first(self, raw: bytes) -> Message[e.Event] | bytes:
        received = super()._receive_first(raw)
        for event in () if isinstance(received, bytes) else received.items:
            if isinstance(event, e.SimulationBegins) and FEEDBACK_JOBS in event.extra:
                self.engine.feedback_jobs = following_jobs(event.extra[FEEDBACK_JOBS])
        return received


def session_for(reader: JournalReader, policy: str | None = None, given: Mapping[str, Any] | None = None) -> Session:
    """Create a session from the journal's header, or with the user's own `policy` and options (`given`)."""
    header = reader.header
    recorded = header["policy"]
    if policy is None and names_file(recorded) and not reader.is_trusted:
        raise UntrustedFileError(
            f"{reader.path!r} was recorded with the policy {recorded!r}, a Python file, which is not run from a "
            f"journal: give it with {setting('policy')}, or use {setting('trust')} if the journal is your own"
        )
    source = registry.find(policy or recorded, trusted=policy is not None or reader.is_trusted)
    plan = registry.PolicyPlan(source, given or {}, trusted=True)
    if given:
        plan.check_early()
    if PurePath(policy or recorded).name == PurePath(recorded).name:  # else it has other options
        recorded_options = registry.Recorded(header["given"], header["from_file"], reader.is_trusted)
        plan = replace(plan, recorded=recorded_options)
    return _RecordedSession(plan, feedback_jobs=following_jobs(header.get(FEEDBACK_JOBS, [])))


def replay(reader: JournalReader, policy: str | None = None, given: Mapping[str, Any] | None = None) -> ReplayResult:
    """Replay messages up to the first difference, and read the rest. Raises UntrustedFileError and InputError."""
    session = session_for(reader, policy, given)
    n_same = 0
    difference = None
    exchanges = reader.exchanges()
    for exchange in exchanges:
        if not exchange.is_answered:
            continue  # nothing to compare: too large to be recorded, or the run was killed there
        difference = _compare(exchange, session)
        if difference is not None:
            break
        n_same += 1
    if difference is not None:
        return ReplayResult(n_same, difference, _note_of_the_rest(reader, exchanges))
    if not n_same:
        raise InputError(f"{reader.path!r} contains no complete message to compare ({reader.note})")
    return ReplayResult(n_same, None, reader.note)


def _note_of_the_rest(reader: JournalReader, exchanges: Iterator[Exchange]) -> str:
    """Read a journal to its end and return its note. Damage is returned as text, not raised."""
    try:
        for _ in exchanges:
            pass
    except InputError as error:
        return str(error)
    return reader.note


def _compare(exchange: Exchange, session: Session) -> Difference | None:
    if exchange.reply is not None:
        recorded = _shown(exchange.reply)
    else:
        assert exchange.error is not None
        recorded = f"{exchange.error[0]}: {exchange.error[1]}"
    try:
        answer = session.handle(exchange.request)
        replayed = recorded if is_same(exchange, answer) else _shown(answer)
    except PybatschedError as error:
        replayed = f"{type(error).__name__}: {error!s}"
        if isinstance(error, UntrustedFileError) and replayed != recorded:
            raise  # the policy did not run, so there is no difference
    return None if recorded == replayed else Difference(exchange.n, recorded, replayed)


def _shown(reply: bytes) -> str:
    """Return a reply in a canonical form, so that replies are compared as values."""
    try:
        return msgspec.json.encode(msgspec.json.decode(reply)).decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError):
        return repr(reply)
