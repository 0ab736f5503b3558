"""The story of a job, from a journal: submitted, passed over why, started by which rule, requeued, ended.

What happened is read from the recording. Why a job was *not* started is asked of the policy itself, which is run again
beside it; should today's policy answer otherwise than the recorded one, the story says so and goes on without that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, cast

from pybatsched.core import decisions as d
from pybatsched.core import events as e
from pybatsched.core.derive import id_from_note, id_in_note
from pybatsched.core.engine import Engine
from pybatsched.core.jobs import JobState
from pybatsched.core.terms import Shape
from pybatsched.errors import InputError, PybatschedError, RemoteProtocolError, UntrustedFileError
from pybatsched.protocol import v4
from pybatsched.session.journal import Exchange, JournalReader
from pybatsched.session.replay import session_for
from pybatsched.session.session import Session

#: So many ids are offered to who has named none.
_N_OFFERED: Final = 5


@dataclass(slots=True)
class _PassedOver:
    """A run of exchanges in which the job was looked at and not started."""

    template: object
    first_at: float
    first: str
    last_at: float
    last: str
    n: int = 1

    def lines(self) -> Iterator[tuple[float, str]]:
        yield self.first_at, f"not started: {self.first}"
        if self.n > 2:
            yield self.last_at, f"... passed over {self.n - 1} more times"
        if self.n > 1 and self.last != self.first:
            yield self.last_at, f"not started: {self.last}"


@dataclass(slots=True)
class Story:
    """Collects what concerns one job."""

    job_id: str
    lines: list[tuple[float, str]] = field(default_factory=list)
    wire_ids: set[str] = field(default_factory=set)
    passed_over: _PassedOver | None = None
    held_from: float | None = None
    shape: Shape | None = None
    #: Ids of others that have the same name in a workload: whoever says 23 may mean w0!23.
    namesakes: dict[str, None] = field(default_factory=dict)

    def tell(self, at: float, text: str) -> None:
        """Add a line."""
        self.settle()
        self.lines.append((at, text))

    def settle(self) -> None:
        """Write down the run of refusals so far."""
        if self.passed_over is not None:
            passed, self.passed_over = self.passed_over, None
            self.lines.extend(passed.lines())

    def not_started(self, at: float, reason: d.Reason) -> None:
        """Note one more time that the job was not started."""
        text = d.reason_text(reason)
        template = d.reason_template(reason)
        run = self.passed_over
        if run is not None and run.template == template:
            run.last_at, run.last, run.n = at, text, run.n + 1
        else:
            self.settle()
            self.passed_over = _PassedOver(template, at, text, at, text)

    def events(self, exchange: Exchange) -> float:
        """Take from a message what concerns the job. Gives the message's time."""
        message = v4.decode_events(exchange.request)
        name = self.job_id.rpartition("!")[2]
        for event in message.items:
            if isinstance(event, e.JobSubmitted) and event.job_id.rpartition("!")[2] == name:
                self.namesakes[event.job_id] = None
            if isinstance(event, e.JobSubmitted) and event.job_id in self.wire_ids:
                if event.job_id == self.job_id:
                    job = event.job or {}
                    wish = f"{job.get('res')} processors, walltime {job.get('walltime', 'none')}"
                    self.tell(event.timestamp, f"submitted: {wish}")
                else:
                    self.tell(event.timestamp, f"registration of {event.job_id} acknowledged")
            elif isinstance(event, e.JobCompleted) and event.job_id in self.wire_ids:
                self.tell(event.timestamp, f"ended: {event.final_state}, return code {event.return_code}")
            elif isinstance(event, e.JobKilled):
                for wire_id in self.wire_ids.intersection(event.job_ids):
                    stopped = wire_id in (event.job_progress or {})
                    self.tell(event.timestamp, "kill took effect" if stopped else "kill came too late: it had ended")
        return message.now

    def decisions(self, exchange: Exchange) -> None:
        """Take from a reply what concerns the job."""
        if exchange.reply is None:
            return
        message = v4.decode_decisions(exchange.reply)
        for index, decision in enumerate(message.items):
            why = exchange.reasons[index] if index < len(exchange.reasons) else ""
            text = self._decision(decision)
            if text is not None:
                self.tell(decision.timestamp or message.now, f"{text}: {why}" if why else text)

    def _is_next(self, wire_id: str, metadata: str) -> bool:
        """Tell whether a note makes an id the job's next segment; later ones only say more of it."""
        return f"parent={id_in_note(self.job_id)};" in metadata and wire_id not in self.wire_ids

    def _decision(self, decision: d.Decision) -> str | None:
        match decision:
            case d.RegisterJob(job_id=wire_id, job=job) if wire_id == self.job_id:
                return f"registered by the policy: {job.get('res')} processors"
            case d.SetJobMetadata(job_id=wire_id, metadata=text) if self._is_next(wire_id, text):
                self.wire_ids.add(wire_id)
                kind = "requeued" if "kind=requeue" in text else "replaced"
                extra_s = dict(part.partition("=")[::2] for part in text.split(";")).get("extra_s")
                return f"{kind}, goes on as {wire_id}" + (f" with {extra_s} s that are no work" if extra_s else "")
            case d.ExecuteJob(job_id=wire_id, procs=procs) if wire_id in self.wire_ids:
                return f"started on {procs}"
            case d.RejectJob(job_id=wire_id) if wire_id in self.wire_ids:
                return "rejected"
            case d.KillJob(job_ids=wire_ids) if self.wire_ids.intersection(wire_ids):
                return "kill asked for"
            case _:
                return None


def explain(
    reader: JournalReader, job_id: str, policy: str | None = None, given: Mapping[str, Any] | None = None
) -> list[tuple[float, str]]:
    """Give the story of a job as (time, what happened) lines. O(journal).

    The policy that is asked is the recorded one, where that is installed; `policy` and `given` are as in `replay`.
    """
    story = Story(job_id, wire_ids={job_id})
    session: Session | None = None
    try:
        session = session_for(reader, policy, given)
    except InputError as error:
        if policy is not None or given:
            raise
        story.tell(0.0, f"(why it waited is not known: {error})")
    now = 0.0
    for exchange in reader.exchanges():
        try:
            now = story.events(exchange)
        except RemoteProtocolError:
            story.tell(now, f"(message {exchange.n} could not be read)")
        parting = "" if session is None else _parting(session, exchange)
        if session is not None and not parting:
            _tell_shape(story, session.engine, now)
        try:
            story.decisions(exchange)
        except RemoteProtocolError:
            story.tell(now, f"(the reply to message {exchange.n} could not be read)")
        if exchange.error is not None:
            story.tell(now, f"the run failed: {exchange.error[0]}: {exchange.error[1].splitlines()[0]}")
        if parting:
            story.tell(now, f"({parting})")
            session = None
        elif session is not None:
            _ask_why(story, session.engine, now)
    story.settle()
    if not any(text for _, text in story.lines if not text.startswith("(")):
        raise no_such_job(reader, job_id, story.namesakes)
    if reader.note:
        story.tell(now, f"({reader.note})")
    return story.lines


def no_such_job(reader: JournalReader, job_id: str, namesakes: Iterable[str]) -> InputError:
    """Make the error for a job that a journal does not know, with the ids that may have been meant."""
    offered = list(namesakes)[:_N_OFFERED]
    perhaps = f"; perhaps {' or '.join(map(repr, offered))}?" if offered else ""
    return InputError(f"{reader.path!r} knows no job {job_id!r}{perhaps} ({reader.note})")


def stories(reader: JournalReader) -> dict[str, list[tuple[float, str]]]:
    """Give the stories of all jobs at once: what was decided about each, and why; not why it waited. O(journal)."""
    found: dict[str, list[tuple[float, str]]] = {}
    own_ids: dict[str, str] = {}
    for exchange in reader.exchanges():
        if exchange.reply is None:
            continue
        try:
            message = v4.decode_decisions(exchange.reply)
        except RemoteProtocolError:
            continue
        for index, decision in enumerate(message.items):
            why = exchange.reasons[index] if index < len(exchange.reasons) else ""
            for wire_id, what in _told(decision):
                if what.startswith("parent="):
                    own_ids[wire_id] = id_from_note(what.partition(";")[0].removeprefix("parent="))
                    continue
                lines = found.setdefault(own_ids.get(wire_id, wire_id), [])
                lines.append((decision.timestamp or message.now, f"{what}: {why}" if why else what))
    return found


def whole_stories(reader: JournalReader) -> dict[str, list[tuple[float, str]]]:
    """Give what `explain` tells of each job, of all jobs at once. O(journal + waiting jobs at each exchange).

    The policy that is asked why jobs wait is the recorded one. Raises InputError, before anything is read, if it cannot
    be asked; if it answers otherwise than it did, all stories say so from there on.
    """
    found: dict[str, Story] = {}
    owners: dict[str, str] = {}
    session: Session | None = session_for(reader)
    unknown = ""
    for exchange in reader.exchanges():
        now, concerned = _concerned(exchange, owners)
        new = [job_id for job_id in concerned if job_id not in found]
        found |= {job_id: Story(job_id, wire_ids={job_id}) for job_id in new}
        _tell_all([found[job_id] for job_id in new], now, unknown)
        own = [found[job_id] for job_id in concerned]
        _tell_each(Story.events, own, exchange)
        parting = "" if session is None else _parting(session, exchange)
        engine = None if session is None or parting else session.engine
        alive = [] if engine is None else [found[job_id] for job_id in engine.jobs.alive if job_id in found]
        for story in alive:
            _tell_shape(story, cast("Engine", engine), now)
        _tell_each(Story.decisions, own, exchange)
        for story in alive:
            _ask_why(story, cast("Engine", engine), now)
        if parting:
            session, unknown = None, f"({parting})"
            _tell_all(found.values(), now, unknown)
    for story in found.values():
        story.settle()
    return {job_id: story.lines for job_id, story in found.items()}


def _tell_all(stories_told: Iterable[Story], at: float, text: str) -> None:
    """Add a line to some stories, if there is one."""
    for story in stories_told if text else ():
        story.tell(at, text)


def _tell_each(take: Callable[[Story, Exchange], object], stories_told: Iterable[Story], exchange: Exchange) -> None:
    """Let stories take from an exchange what concerns them; what cannot be read concerns nobody."""
    for story in stories_told:
        with suppress(RemoteProtocolError):
            take(story, exchange)


def _concerned(exchange: Exchange, owners: dict[str, str]) -> tuple[float, list[str]]:
    """Give the time of an exchange, and the jobs that it tells of. `owners` are those of segments, and are filled."""
    ids: list[str] = []
    now = 0.0
    with suppress(RemoteProtocolError):
        events = v4.decode_events(exchange.request)
        now = events.now
        for event in events.items:
            if isinstance(event, e.JobSubmitted | e.JobCompleted):
                ids.append(event.job_id)
            elif isinstance(event, e.JobKilled):
                ids += event.job_ids
    if exchange.reply is not None:
        with suppress(RemoteProtocolError):
            for decision in v4.decode_decisions(exchange.reply).items:
                for wire_id, what in _told(decision):
                    if what.startswith("parent="):
                        owners[wire_id] = id_from_note(what.partition(";")[0].removeprefix("parent="))
                    ids.append(wire_id)
    return now, list(dict.fromkeys(owners.get(wire_id, wire_id) for wire_id in ids))


def _told(decision: d.Decision) -> list[tuple[str, str]]:
    """Give what a decision says, by the ids of the jobs it is about."""
    match decision:
        case d.SetJobMetadata(job_id=wire_id, metadata=text) if text.startswith("parent="):
            return [(wire_id, text)]
        case d.ExecuteJob(job_id=wire_id, procs=procs):
            return [(wire_id, f"started on {procs}")]
        case d.RejectJob(job_id=wire_id):
            return [(wire_id, "rejected")]
        case d.KillJob(job_ids=wire_ids):
            return [(wire_id, "kill asked for") for wire_id in wire_ids]
        case _:
            return []


def _parting(session: Session, exchange: Exchange) -> str:
    """Play an exchange again; say why the policy cannot be asked from here on, or nothing if it answers as recorded."""
    try:
        same = session.handle(exchange.request) == exchange.reply
    except PybatschedError as error:
        same = exchange.error is not None
        if isinstance(error, UntrustedFileError) and not same:
            return f"why it waited is not known: {error}"
    return "" if same else "from here on today's policy answers otherwise; why it waited is not known"


def _tell_shape(story: Story, engine: Engine, now: float) -> None:
    """Tell the last `Reshape`, which no message tells: if the job starts at once, it does so in this shape."""
    job = engine.jobs.alive.get(story.job_id)
    if job is not None and job.shape is not None and job.shape is not story.shape:
        story.shape = job.shape
        why = d.reason_text(job.shape.reason)
        story.tell(
            now, f"reshaped to {job.shape.n} processors, times x {job.shape.scale:.12g}" + (f": {why}" if why else "")
        )


def _ask_why(story: Story, engine: Engine, now: float) -> None:
    job = engine.jobs.alive.get(story.job_id)
    if job is not None and job.state is JobState.RUNNING:
        story.held_from = None
    elif job is not None and job.state is JobState.HELD and job.held_from != story.held_from:
        story.held_from = job.held_from
        why = d.reason_text(job.start_reason)
        story.tell(now, f"held on {job.procs}, to start at {job.start_at}" + (f": {why}" if why else ""))
    elif job is not None and job.state is JobState.WAITING:
        if story.held_from is not None:
            story.held_from = None
            story.tell(now, "released: it waits again")
        try:
            reason = engine.policy.why_waiting(job, now)
        except Exception as error:  # noqa: BLE001  a broken explanation must not hide the story
            reason = f"(why_waiting raised {type(error).__name__}: {error})"
        story.not_started(now, reason)
