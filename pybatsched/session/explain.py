"""Histories of jobs from a journal: submitted, not started and why, started by which rule, requeued, ended.

Events and decisions are read from the journal. Why a job was *not* started is asked from the policy, which is replayed.
If the current policy decides differently from the recorded one, the history contains a line about it and continues
without these reasons.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from pybatsched.core import decisions as d, events as e
from pybatsched.core.engine import Engine
from pybatsched.core.jobs import JobState
from pybatsched.errors import InputError, PybatschedError, RemoteProtocolError, UntrustedFileError, quantity
from pybatsched.protocol.v5_handshake import is_greeting
from pybatsched.session import job_history
from pybatsched.session.journal import Exchange, JournalReader
from pybatsched.session.replay import session_for
from pybatsched.session.session import Session
from pybatsched.session.transcript import Transcript, is_same

#: How many similar ids are suggested for an unknown job.
_N_OFFERED: Final = 5


class _Decoded(NamedTuple):
    """A decoded exchange: time, events, decisions with times and reasons; None for missing or unreadable parts."""

    now: float | None
    events: Sequence[e.Event] | None
    decisions: Sequence[tuple[d.Decision, float, str]] | None


def _decode(exchange: Exchange, transcript: Transcript) -> _Decoded:
    """Decode an exchange, once for all jobs because it is slow. O(its size)."""
    try:
        message = transcript.events(exchange)
        now, events = message.now, message.items
    except RemoteProtocolError:
        now, events = None, None
    return _Decoded(now, events, _decided(exchange, transcript))


def _decided(exchange: Exchange, transcript: Transcript) -> Sequence[tuple[d.Decision, float, str]] | None:
    try:
        reply = transcript.decisions(exchange)
    except RemoteProtocolError:
        return None
    if reply is None:
        return None
    reasons = [*exchange.reasons, *[""] * (len(reply.items) - len(exchange.reasons))]
    return [(one, one.timestamp or reply.now, why) for one, why in zip(reply.items, reasons, strict=False)]


@dataclass(slots=True)
class PolicyReplay:
    """The replayed policy. It can be asked why jobs wait as long as it gives the recorded answers."""

    session: Session | None
    #: The engine after the last exchange; None if there was no decision, or it is unknown.
    engine: Engine | None = None

    def play(self, exchange: Exchange) -> str:
        """Replay an exchange. Return why the policy cannot be asked from here on; empty if it can."""
        self.engine = None
        if self.session is None or not exchange.is_answered:
            return ""
        difference = _difference(self.session, exchange)
        if difference:
            self.session = None
        elif exchange.reply is not None and self.session.engine.began:
            self.engine = self.session.engine
        return difference


@dataclass(slots=True)
class _Histories:
    """The histories of some jobs, or of all jobs of the journal with `takes_all`."""

    histories: dict[str, job_history.JobHistory] = field(default_factory=dict)
    takes_all: bool = False
    #: The job of each segment.
    owners: dict[str, str] = field(default_factory=dict)
    #: Jobs that may wait: all but running and finished ones.
    waiting: dict[str, job_history.JobHistory] = field(default_factory=dict)
    #: The first line of jobs that appear later.
    first_line: str = ""
    now: float = 0.0

    def read_all(self, reader: JournalReader, replayed: PolicyReplay) -> Iterator[_Decoded]:
        """Add all exchanges of a journal, and yield each. O(journal + waiting jobs at each exchange)."""
        transcript = Transcript()
        for exchange in reader.exchanges():
            decoded = _decode(exchange, transcript)
            self.now = self.now if decoded.now is None else decoded.now
            self._add(exchange, decoded, replayed, self.now)
            yield decoded

    def _add(self, exchange: Exchange, decoded: _Decoded, replayed: PolicyReplay, now: float) -> None:
        for decision, _, _ in decoded.decisions or ():
            if parent := job_history.parent_of_segment(decision):
                self.owners |= dict.fromkeys(job_history.ids_in_decision(decision), parent)
        if decoded.events is None:
            self.add_to_all(now, f"(message {exchange.n} could not be read)")
        self._add_events(decoded, now)
        difference = replayed.play(exchange)
        engine = replayed.engine
        if engine is not None:
            for history in self.waiting.values():
                history.add_shape(engine, now)
        if exchange.reply is not None and decoded.decisions is None:
            self.add_to_all(now, f"(the reply to message {exchange.n} could not be read)")
        self._add_decisions(decoded, now)
        if exchange.error is not None:
            self.add_to_all(now, f"the run failed: {exchange.error[0]}: {exchange.error[1].splitlines()[0]}")
        if difference:
            self.first_line = f"({difference})"
            self.add_to_all(now, self.first_line)
        if engine is not None:
            self._ask(engine, now)

    def _add_events(self, decoded: _Decoded, now: float) -> None:
        for event in decoded.events or ():
            for wire_id in job_history.ids_in_event(event):
                if (history := self._history_of(wire_id, now)) is not None:
                    history.event(wire_id, event)

    def _add_decisions(self, decoded: _Decoded, now: float) -> None:
        for decision, at, why in decoded.decisions or ():
            for wire_id in job_history.ids_in_decision(decision):
                if (history := self._history_of(wire_id, now)) is not None:
                    history.decision(wire_id, decision, at, why)

    def add_to_all(self, at: float, text: str) -> None:
        """Add a line to all histories."""
        for history in self.histories.values():
            history.add(at, text)

    def lines(self) -> dict[str, list[tuple[float, str]]]:
        """Return the histories so far."""
        for history in self.histories.values():
            history.flush()
        return {job_id: history.lines for job_id, history in self.histories.items()}

    def _history_of(self, wire_id: str, now: float) -> job_history.JobHistory | None:
        own_id = self.owners.get(wire_id, wire_id)
        history = self.histories.get(own_id)
        if history is None and self.takes_all:
            history = self.histories[own_id] = job_history.JobHistory(own_id, names_holders=False)
            if self.first_line:
                history.add(now, self.first_line)
        if history is not None:
            self.waiting[own_id] = history
        return history

    def _ask(self, engine: Engine, now: float) -> None:
        """Ask the policy about the waiting jobs. A running job waits again only after a message about it."""
        for job_id, history in list(self.waiting.items()):
            job = history.ask(engine, now)
            if job is None or job.state is JobState.RUNNING:
                del self.waiting[job_id]


def explain(
    reader: JournalReader, job_id: str, policy: str | None = None, given: Mapping[str, Any] | None = None
) -> list[tuple[float, str]]:
    """Return the history of a job or segment as (time, text). `policy` and `given` are as in `replay`. O(journal)."""
    check_named(reader.path, job_id)
    histories = _Histories({job_id: job_history.JobHistory(job_id)})
    replayed = PolicyReplay(None)
    try:
        replayed.session = session_for(reader, policy, given)
    except InputError as error:
        if policy is not None or given:
            raise
        histories.add_to_all(0.0, f"(why the job waited is unknown: {error})")
    namesakes: dict[str, None] = {}
    for decoded in histories.read_all(reader, replayed):
        namesakes |= dict.fromkeys(_namesakes(decoded, job_id))
    if job_id in histories.owners:  # a segment: it is in the job's history
        return explain(
            JournalReader(reader.path, is_trusted=reader.is_trusted), histories.owners[job_id], policy, given
        )
    if not any(text for _, text in histories.lines()[job_id] if not text.startswith("(")):
        raise no_such_job(reader, job_id, namesakes)
    if reader.note:
        histories.add_to_all(histories.now, f"({reader.note})")
    return histories.lines()[job_id]


def _name(job_id: str) -> str:
    """Return the name of a job in its workload: the user may write 23 for w0!23."""
    return job_id.rpartition("!")[2]


def _namesakes(decoded: _Decoded, job_id: str) -> Iterator[str]:
    """Return the jobs of an exchange, submitted or registered, with the same name in any workload."""
    submitted = [event.job_id for event in decoded.events or () if isinstance(event, e.JobSubmitted)]
    submitted += [one.job_id for one, _, _ in decoded.decisions or () if isinstance(one, d.RegisterJob)]
    return (other for other in submitted if _name(other) == _name(job_id))


def check_named(path: str, job_id: str) -> None:
    """Raise InputError for a job that is in no message of a journal. No policy is run. O(journal).

    Messages are searched as text, up to the first with the job. A message is decoded if it contains the id, which may
    also be a processor number, or possibly a job of the same name in another workload. A journal that can be read only
    once, such as a pipe, is not searched.
    """
    if not Path(path).is_file():
        return
    reader = JournalReader(path)
    transcript = Transcript()
    quoted, name = _quoted(job_id), _quoted(_name(job_id))
    namesakes: dict[str, None] = {}
    for exchange in reader.exchanges():
        texts = (exchange.request, exchange.reply or b"")
        if any(_may_hold_escaped(text, quoted) for text in texts):
            return
        if any(job == job_id for _, job, _ in exchange.notes):
            return
        is_hello = exchange.n == 1 and is_greeting(exchange.request)  # it selects the protocol of the transcript
        if is_hello or any(quoted in text or name in text or b"!" + name[1:] in text for text in texts):
            decoded = _decode(exchange, transcript)
            if any(quoted in text for text in texts) and _may_name(exchange, decoded, job_id):
                return
            namesakes |= dict.fromkeys(_namesakes(decoded, job_id))
    raise no_such_job(reader, job_id, namesakes)


def _quoted(text: str) -> bytes:
    """Return a text as JSON bytes; bytes of the command line that are not UTF-8 are restored."""
    return json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogateescape")


def _may_name(exchange: Exchange, decoded: _Decoded, job_id: str) -> bool:
    """Return whether an event or a decision is about a job, or cannot be read."""
    if decoded.events is None or (decoded.decisions is None and exchange.reply is not None):
        return True
    return any(job_id in job_history.ids_in_event(event) for event in decoded.events) or any(
        job_id in job_history.ids_in_decision(decision) for decision, _, _ in decoded.decisions or ()
    )


def _may_hold_escaped(message: bytes, quoted: bytes) -> bool:
    """Return whether a JSON message may contain a text with other escapes than `quoted`."""
    if b"\\" in quoted or b"\\u" in message:
        return True
    return b"/" in quoted and b"\\/" in message


def no_such_job(reader: JournalReader, job_id: str, namesakes: Iterable[str]) -> InputError:
    """Return the error for a job that is not in a journal: similar ids, else the jobs of the journal. O(journal)."""
    offered = list(namesakes)[:_N_OFFERED]
    hint = f"did you mean {' or '.join(map(repr, offered))}?" if offered else _jobs_text(reader.path)
    note = "" if reader.is_whole else f" ({reader.note})"
    return InputError(f"{reader.path}: unknown job {job_id!r}; {hint}{note}")


def _jobs_text(path: str) -> str:
    """Return how many jobs were submitted in a journal, and the first and the last. O(journal)."""
    if not Path(path).is_file():
        return "expected the id of a job of the journal"
    transcript = Transcript()
    jobs: dict[str, None] = {}
    for exchange in JournalReader(path).exchanges():
        events = _decode(exchange, transcript).events or ()
        jobs |= dict.fromkeys(event.job_id for event in events if isinstance(event, e.JobSubmitted))
    ids = list(jobs)
    span = f", {ids[0]} to {ids[-1]}" if len(ids) > 1 else f", {ids[0]}" if ids else ""
    return f"the journal has {quantity(len(ids), 'job')}{span}"


def job_histories(reader: JournalReader) -> dict[str, list[tuple[float, str]]]:
    """Return the decisions about each job with their reasons, but not why it waited. O(journal)."""
    found: dict[str, list[tuple[float, str]]] = {}
    owners: dict[str, str] = {}
    transcript = Transcript()
    for exchange in reader.exchanges():
        for decision, at, why in _decided(exchange, transcript) or ():
            parent, what = job_history.parent_of_segment(decision), job_history.decision_text(decision)
            for wire_id in job_history.ids_in_decision(decision) if parent or what else ():
                if parent:
                    owners[wire_id] = parent
                else:
                    found.setdefault(owners.get(wire_id, wire_id), []).append((at, job_history.with_reason(what, why)))
    return found


def full_histories(reader: JournalReader) -> dict[str, list[tuple[float, str]]]:
    """Return `explain` for all jobs at once, without holders of nodes. O(journal + waiting jobs at each exchange).

    Raises InputError.
    """
    histories = _Histories(takes_all=True)
    for _ in histories.read_all(reader, PolicyReplay(session_for(reader))):
        pass
    return histories.lines()


def _difference(session: Session, exchange: Exchange) -> str:
    """Replay an exchange. Return why the policy cannot be asked from here on; empty if it answers as recorded."""
    try:
        same = is_same(exchange, session.handle(exchange.request))
    except PybatschedError as error:
        same = exchange.error is not None
        if isinstance(error, UntrustedFileError) and not same:
            return f"why the job waited is unknown: {error!s}"
    return "" if same else "from here on the policy decides differently; why the job waited is unknown"
