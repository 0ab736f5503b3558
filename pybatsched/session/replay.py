"""Running a journal again, to see whether the policy of today answers as the one that was recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

import msgspec

from pybatsched.core.engine import Engine
from pybatsched.errors import InputError, PybatschedError, UntrustedFileError
from pybatsched.policies import registry
from pybatsched.policies.loading import names_file
from pybatsched.session.journal import Exchange, JournalReader
from pybatsched.session.session import Session
from pybatsched.session.transcript import is_same


@dataclass(frozen=True, slots=True)
class Difference:
    """The first point where a replay parts from its recording."""

    n: int
    recorded: str
    replayed: str

    def __str__(self) -> str:
        return f"first difference at message {self.n}\n  recorded: {self.recorded}\n  replayed: {self.replayed}"


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """How many exchanges were the same, and the first that was not. `note` tells if the journal was cut, or its end."""

    n_same: int
    difference: Difference | None
    note: str


def session_for(reader: JournalReader, policy: str | None = None, given: Mapping[str, Any] | None = None) -> Session:
    """Make a session as the journal's header says, possibly with another policy, or other options (`given`).

    No file is run because a journal names it, unless the owner trusts it (`reader.is_trusted`): `policy` and `given`
    are the owner's words, the header is not.
    """
    header = reader.header
    recorded = header["policy"]
    if policy is None and names_file(recorded) and not reader.is_trusted:
        raise UntrustedFileError(
            f"{reader.path!r} was recorded with the policy {recorded!r}; a Python file is not run because a journal "
            "names it: name it yourself, with --policy, or say --trust if the journal is your own"
        )
    source = registry.find(policy or recorded, trusted=policy is not None or reader.is_trusted)
    plan = registry.PolicyPlan(source, given or {}, trusted=True)
    if given:
        plan.check_early()
    if PurePath(policy or recorded).name == PurePath(recorded).name:  # else it has other options
        recorded_options = registry.Recorded(header["given"], header["from_file"], reader.is_trusted)
        plan = replace(plan, recorded=recorded_options)
    return Session(plan)


def replay(
    reader: JournalReader,
    policy: str | None = None,
    given: Mapping[str, Any] | None = None,
    *,
    watch: Callable[[Exchange, Engine], None] | None = None,
) -> ReplayResult:
    """Play the recorded messages at the policy, up to the first difference. `watch` sees each exchange that agreed.

    The rest of the journal is read all the same, to tell whether it is whole. Raises UntrustedFileError where the
    journal names a Python file that neither `policy` nor `given` name, InputError where there is nothing to compare.
    """
    session = session_for(reader, policy, given)
    n_same = 0
    difference = None
    exchanges = reader.exchanges()
    for exchange in exchanges:
        if not exchange.is_answered:
            continue  # nothing to compare with: too large to be kept, or the run died there
        difference = _compare(exchange, session)
        if difference is not None:
            break
        n_same += 1
        if watch is not None:
            watch(exchange, session.engine)
    if difference is not None:
        return ReplayResult(n_same, difference, _note_of_the_rest(reader, exchanges))
    if not n_same:
        raise InputError(f"{reader.path!r} holds no whole message: there is nothing to compare ({reader.note})")
    return ReplayResult(n_same, None, reader.note)


def _note_of_the_rest(reader: JournalReader, exchanges: Iterator[Exchange]) -> str:
    """Read a journal to its end, for what is to be said of it; damage there must not hide what was found before it."""
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
        replayed = f"{type(error).__name__}: {error}"
        if isinstance(error, UntrustedFileError) and replayed != recorded:
            raise  # nothing was tried, so nothing differs
    return None if recorded == replayed else Difference(exchange.n, recorded, replayed)


def _shown(reply: bytes) -> str:
    """Write a reply's value in one form, so that replies are compared as values."""
    try:
        return msgspec.json.encode(msgspec.json.decode(reply)).decode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, TypeError):
        return repr(reply)
