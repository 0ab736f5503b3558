"""The stories of jobs, from a journal: submitted, passed over why, started by which rule, requeued, ended.

What happened is read from the recording. Why a job was *not* started is asked of the policy itself, which is run again
beside it; should today's policy answer otherwise than the recorded one, the story says so and goes on without that.
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
from pybatsched.errors import InputError, PybatschedError, RemoteProtocolError, UntrustedFileError
from pybatsched.protocol.v5_handshake import is_greeting
from pybatsched.session.job_history import (
    Story,
    ids_in_decision,
    ids_in_event,
    parent_of_segment,
    said_plainly,
    with_reason,
)
from pybatsched.session.journal import Exchange, JournalReader
from pybatsched.session.replay import session_for
from pybatsched.session.session import Session
from pybatsched.session.transcript import Transcript, is_same

#: So many ids are offered to who has named none.
_N_OFFERED: Final = 5


class _Said(NamedTuple):
    """An exchange, decoded: its time, its events, and its decisions, each with its time and reason.

    None stands for what cannot be read, or is not there.
    """

    now: float | None
    events: Sequence[e.Event] | None
    decisions: Sequence[tuple[d.Decision, float, str]] | None


def _said(exchange: Exchange, transcript: Transcript) -> _Said:
    """Decode an exchange, which takes long: once, for all jobs. O(its size)."""
    try:
        message = transcript.events(exchange)
        now, events = message.now, message.items
    except RemoteProtocolError:
        now, events = None, None
    return _Said(now, events, _decided(exchange, transcript))


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
class _Witness:
    """The policy, run again beside the recording: it is asked why jobs wait as long as it answers as recorded."""

    session: Session | None
    #: Who can be asked, after what was heard last; nobody where nothing was decided, or it is not known what.
    engine: Engine | None = None

    def hear(self, exchange: Exchange) -> str:
        """Play an exchange again. Says why the policy cannot be asked any more, if that is so from here on."""
        self.engine = None
        if self.session is None or not exchange.is_answered:
            return ""
        parting = _parting(self.session, exchange)
        if parting:
            self.session = None
        elif exchange.reply is not None and self.session.engine.began:
            self.engine = self.session.engine
        return parting


@dataclass(slots=True)
class _Book:
    """The stories of some jobs, or of all that are heard of if it `is_open`. Its pages are written by `read`."""

    stories: dict[str, Story] = field(default_factory=dict)
    is_open: bool = False
    #: Whose segments jobs are.
    owners: dict[str, str] = field(default_factory=dict)
    #: Those that may wait: all but the running ones and those that are over.
    waiting: dict[str, Story] = field(default_factory=dict)
    #: What is to be said of jobs that are not heard of yet.
    preface: str = ""

    def read(self, exchange: Exchange, said: _Said, witness: _Witness, now: float) -> None:
        """Write down what an exchange tells. O(its size + waiting jobs)."""
        for decision, _, _ in said.decisions or ():
            if parent := parent_of_segment(decision):
                self.owners |= dict.fromkeys(ids_in_decision(decision), parent)
        if said.events is None:
            self.tell_all(now, f"(message {exchange.n} could not be read)")
        self._take_events(said, now)
        parting = witness.hear(exchange)
        engine = witness.engine
        if engine is not None:
            for story in self.waiting.values():
                story.tell_shape(engine, now)
        if exchange.reply is not None and said.decisions is None:
            self.tell_all(now, f"(the reply to message {exchange.n} could not be read)")
        self._take_decisions(said, now)
        if exchange.error is not None:
            self.tell_all(now, f"the run failed: {exchange.error[0]}: {exchange.error[1].splitlines()[0]}")
        if parting:
            self.preface = f"({parting})"
            self.tell_all(now, self.preface)
        if engine is not None:
            self._ask(engine, now)

    def _take_events(self, said: _Said, now: float) -> None:
        for event in said.events or ():
            for wire_id in ids_in_event(event):
                if (story := self._concerned(wire_id, now)) is not None:
                    story.event(wire_id, event)

    def _take_decisions(self, said: _Said, now: float) -> None:
        for decision, at, why in said.decisions or ():
            for wire_id in ids_in_decision(decision):
                if (story := self._concerned(wire_id, now)) is not None:
                    story.decision(wire_id, decision, at, why)

    def tell_all(self, at: float, text: str) -> None:
        """Add a line to all stories."""
        for story in self.stories.values():
            story.tell(at, text)

    def lines(self) -> dict[str, list[tuple[float, str]]]:
        """Give the stories as they are now."""
        for story in self.stories.values():
            story.settle()
        return {job_id: story.lines for job_id, story in self.stories.items()}

    def _concerned(self, wire_id: str, now: float) -> Story | None:
        own_id = self.owners.get(wire_id, wire_id)
        story = self.stories.get(own_id)
        if story is None and self.is_open:
            story = self.stories[own_id] = Story(own_id)
            if self.preface:
                story.tell(now, self.preface)
        if story is not None:
            self.waiting[own_id] = story
        return story

    def _ask(self, engine: Engine, now: float) -> None:
        """Ask about those that wait. One that runs waits again only after a message that concerns it."""
        for job_id, story in list(self.waiting.items()):
            job = story.ask(engine, now)
            if job is None or job.state is JobState.RUNNING:
                del self.waiting[job_id]


def explain(
    reader: JournalReader, job_id: str, policy: str | None = None, given: Mapping[str, Any] | None = None
) -> list[tuple[float, str]]:
    """Give the story of a job, or of the job that it is a part of, as (time, what happened) lines. O(journal).

    The policy that is asked is the recorded one, where that is installed; `policy` and `given` are as in `replay`.
    """
    check_named(reader.path, job_id)
    book = _Book({job_id: Story(job_id)})
    witness = _Witness(None)
    try:
        witness.session = session_for(reader, policy, given)
    except InputError as error:
        if policy is not None or given:
            raise
        book.tell_all(0.0, f"(why it waited is not known: {error})")
    namesakes: dict[str, None] = {}
    transcript = Transcript()
    now = 0.0
    for exchange in reader.exchanges():
        said = _said(exchange, transcript)
        now = now if said.now is None else said.now
        book.read(exchange, said, witness, now)
        namesakes |= dict.fromkeys(_namesakes(said, job_id))
    if job_id in book.owners:  # a part of a job: it is in the job's story
        return explain(JournalReader(reader.path, is_trusted=reader.is_trusted), book.owners[job_id], policy, given)
    if not any(text for _, text in book.lines()[job_id] if not text.startswith("(")):
        raise no_such_job(reader, job_id, namesakes)
    if reader.note:
        book.tell_all(now, f"({reader.note})")
    return book.lines()[job_id]


def _name(job_id: str) -> str:
    """Give what a job is called in its workload: whoever says 23 may mean w0!23."""
    return job_id.rpartition("!")[2]


def _namesakes(said: _Said, job_id: str) -> Iterator[str]:
    """Give the jobs that an exchange submits or registers under the same name, in whichever workload."""
    submitted = [event.job_id for event in said.events or () if isinstance(event, e.JobSubmitted)]
    submitted += [one.job_id for one, _, _ in said.decisions or () if isinstance(one, d.RegisterJob)]
    return (other for other in submitted if _name(other) == _name(job_id))


def check_named(path: str, job_id: str) -> None:
    """Raise InputError for a job that no message of a journal names. No policy is run. O(journal).

    Messages are searched as text, up to the first that names the job. Those are decoded that contain its id, which may
    as well be the number of a processor, or that may name a job of the same name in another workload. A journal that
    can be read only once, as a pipe, is not searched.
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
        is_hello = exchange.n == 1 and is_greeting(exchange.request)  # it tells the transcript which protocol is spoken
        if is_hello or any(quoted in text or name in text or b"!" + name[1:] in text for text in texts):
            said = _said(exchange, transcript)
            if any(quoted in text for text in texts) and _may_name(exchange, said, job_id):
                return
            namesakes |= dict.fromkeys(_namesakes(said, job_id))
    raise no_such_job(reader, job_id, namesakes)


def _quoted(text: str) -> bytes:
    """Write a text as JSON; what the command line has of a byte that is no UTF-8 is that byte again."""
    return json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogateescape")


def _may_name(exchange: Exchange, said: _Said, job_id: str) -> bool:
    """Tell whether an event or a decision is about a job. True as well if that cannot be read."""
    if said.events is None or (said.decisions is None and exchange.reply is not None):
        return True
    return any(job_id in ids_in_event(event) for event in said.events) or any(
        job_id in ids_in_decision(decision) for decision, _, _ in said.decisions or ()
    )


def _may_hold_escaped(message: bytes, quoted: bytes) -> bool:
    """Tell whether a message in JSON may hold a text that is written with other escapes than `quoted` is."""
    if b"\\" in quoted or b"\\u" in message:
        return True
    return b"/" in quoted and b"\\/" in message


def no_such_job(reader: JournalReader, job_id: str, namesakes: Iterable[str]) -> InputError:
    """Make the error for a job that a journal does not know, with the ids that may have been meant."""
    offered = list(namesakes)[:_N_OFFERED]
    perhaps = f"; perhaps {' or '.join(map(repr, offered))}?" if offered else ""
    return InputError(f"{reader.path!r} knows no job {job_id!r}{perhaps} ({reader.note})")


def stories(reader: JournalReader) -> dict[str, list[tuple[float, str]]]:
    """Give the stories of all jobs at once: what was decided about each, and why; not why it waited. O(journal)."""
    found: dict[str, list[tuple[float, str]]] = {}
    owners: dict[str, str] = {}
    transcript = Transcript()
    for exchange in reader.exchanges():
        for decision, at, why in _decided(exchange, transcript) or ():
            parent, what = parent_of_segment(decision), said_plainly(decision)
            for wire_id in ids_in_decision(decision) if parent or what else ():
                if parent:
                    owners[wire_id] = parent
                else:
                    found.setdefault(owners.get(wire_id, wire_id), []).append((at, with_reason(what, why)))
    return found


def whole_stories(reader: JournalReader) -> dict[str, list[tuple[float, str]]]:
    """Give what `explain` tells of each job, of all jobs at once. O(journal + waiting jobs at each exchange).

    The policy that is asked why jobs wait is the recorded one. Raises InputError, before anything is read, if it cannot
    be asked; if it answers otherwise than it did, all stories say so from there on.
    """
    book = _Book(is_open=True)
    witness = _Witness(session_for(reader))
    transcript = Transcript()
    now = 0.0
    for exchange in reader.exchanges():
        said = _said(exchange, transcript)
        now = now if said.now is None else said.now
        book.read(exchange, said, witness, now)
    return book.lines()


def _parting(session: Session, exchange: Exchange) -> str:
    """Play an exchange again; say why the policy cannot be asked from here on, or nothing if it answers as recorded."""
    try:
        same = is_same(exchange, session.handle(exchange.request))
    except PybatschedError as error:
        same = exchange.error is not None
        if isinstance(error, UntrustedFileError) and not same:
            return f"why it waited is not known: {error}"
    return "" if same else "from here on today's policy answers otherwise; why it waited is not known"
