"""The history of one job, line by line, from its events and decisions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pybatsched.core import decisions as d, events as e
from pybatsched.core.derive import parent_in_note
from pybatsched.core.engine import Engine
from pybatsched.core.jobs import Job, JobShape, JobState
from pybatsched.errors import quantity
from pybatsched.session.node_holders import with_holders


@dataclass(slots=True)
class _PassedOver:
    """Successive exchanges in which the job was not started for the same reason."""

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
class JobHistory:
    """Collects the lines of one job from its events and decisions, which the caller selects. All methods are O(1)."""

    job_id: str
    lines: list[tuple[float, str]] = field(default_factory=list)
    passed_over: _PassedOver | None = None
    held_from: float | None = None
    shape: JobShape | None = None
    #: Whether to name the jobs that hold what it lacks on nodes, which takes some time.
    names_holders: bool = True
    #: Its ids in Batsim: its own, and those of its segments.
    wire_ids: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.wire_ids = {self.job_id}

    def add(self, at: float, text: str) -> None:
        """Add a line."""
        self.flush()
        self.lines.append((at, text))

    def flush(self) -> None:
        """Add the lines of the pending `_PassedOver`."""
        if self.passed_over is not None:
            passed, self.passed_over = self.passed_over, None
            self.lines.extend(passed.lines())

    def event(self, wire_id: str, event: e.Event) -> None:
        """Add a line for an event of the job, which has this id in Batsim."""
        match event:
            case e.JobSubmitted(job=job) if wire_id == self.job_id:
                fields = job or {}
                wish = f"{_processors(fields.get('res'))}, walltime {fields.get('walltime', 'none')}"
                self.add(event.timestamp, f"submitted: {wish}")
            case e.JobSubmitted():
                self.add(event.timestamp, f"registration of {wire_id} acknowledged")
            case e.JobCompleted():
                self.add(event.timestamp, f"ended: {event.final_state}, return code {event.return_code}")
            case e.JobKilled(job_progress=progress):
                stopped = wire_id in (progress or {})
                self.add(event.timestamp, "kill took effect" if stopped else "kill came too late: it had ended")
            case _:
                pass

    def decision(self, wire_id: str, decision: d.Decision, at: float, why: str) -> None:
        """Add a line for a decision about the job, which has this id in Batsim, with the reason."""
        text = self._text(wire_id, decision)
        if text:
            self.add(at, with_reason(text, why))

    def _text(self, wire_id: str, decision: d.Decision) -> str:
        match decision:
            case d.RegisterJob(job=job) if wire_id == self.job_id:
                return f"registered by the policy: {_processors(job.get('res'))}"
            case d.SetJobMetadata(metadata=text) if wire_id not in self.wire_ids:  # later metadata only adds facts
                self.wire_ids.add(wire_id)
                kind = "requeued" if "kind=requeue" in text else "replaced"
                extra_s = dict(part.partition("=")[::2] for part in text.split(";")).get("extra_s")
                return f"{kind}, continues as {wire_id}" + (f" with {extra_s} s that are not work" if extra_s else "")
            case _:
                return decision_text(decision)

    def ask(self, engine: Engine, now: float) -> Job | None:
        """Ask the policy, after its decisions, why the job was not started. Return the job, if it is unfinished."""
        job = engine.jobs.alive.get(self.job_id)
        if job is None:
            return None
        if job.state is JobState.RUNNING:
            self.held_from = None
        elif job.state is JobState.HELD and job.held_from != self.held_from:
            self.held_from = job.held_from
            why = d.reason_text(job.start_reason)
            self.add(now, with_reason(f"held on {job.procs}, to start at {job.start_at}", why))
        elif job.state is JobState.WAITING:
            if self.held_from is not None:
                self.held_from = None
                self.add(now, "released: it waits again")
            try:
                reason, nodes = engine.why_waiting(job, now), engine.cluster.nodes
                if nodes is not None and self.names_holders:
                    reason = with_holders(reason, nodes, job)
            except Exception as error:  # noqa: BLE001  a broken explanation must not hide the history
                reason = f"(why_waiting raised {type(error).__name__}: {error!s})"
            self._not_started(now, reason)
        return job

    def _not_started(self, at: float, reason: d.Reason) -> None:
        """Record once more that the job was not started."""
        text = d.reason_text(reason)
        template = d.reason_template(reason)
        run = self.passed_over
        if run is not None and run.template == template:
            run.last_at, run.last, run.n = at, text, run.n + 1
        else:
            self.flush()
            self.passed_over = _PassedOver(template, at, text, at, text)

    def add_shape(self, engine: Engine, now: float) -> None:
        """Add a line for the last `Reshape`, which is in no message. A job that starts now has this shape."""
        job = engine.jobs.alive.get(self.job_id)
        if job is not None and job.shape is not None and job.shape is not self.shape:
            self.shape = job.shape
            text = f"reshaped to {quantity(job.shape.n, 'processor')}, times x {job.shape.scale:.12g}"
            self.add(now, with_reason(text, d.reason_text(job.shape.reason)))


def _processors(n: object) -> str:
    """Return a number of processors as text; a message may contain another type."""
    return quantity(n, "processor") if isinstance(n, int) else f"{n} processors"


def with_reason(text: str, why: str) -> str:
    """Return a text with its reason, if there is one."""
    return f"{text}: {why}" if why else text


def decision_text(decision: d.Decision) -> str:
    """Return the line for a decision about a job; empty for decisions that are not shown."""
    match decision:
        case d.ExecuteJob(procs=procs):
            return f"started on {procs}"
        case d.RejectJob():
            return "rejected"
        case d.KillJob():
            return "kill asked for"
        case _:
            return ""


def ids_in_event(event: e.Event) -> tuple[str, ...]:
    """Return the jobs of an event, by their ids in Batsim, each once."""
    match event:
        case e.JobSubmitted(job_id=wire_id) | e.JobCompleted(job_id=wire_id):
            return (wire_id,)
        case e.JobKilled(job_ids=wire_ids):
            return tuple(dict.fromkeys(wire_ids))
        case _:
            return ()


def ids_in_decision(decision: d.Decision) -> tuple[str, ...]:
    """Return the jobs of a decision, as `ids_in_event`. Job metadata counts only if it is that of a segment."""
    match decision:
        case d.ExecuteJob(job_id=wire_id) | d.RejectJob(job_id=wire_id) | d.RegisterJob(job_id=wire_id):
            return (wire_id,)
        case d.SetJobMetadata(job_id=wire_id) if parent_of_segment(decision):
            return (wire_id,)
        case d.KillJob(job_ids=wire_ids):
            return tuple(dict.fromkeys(wire_ids))
        case _:
            return ()


def parent_of_segment(decision: d.Decision) -> str:
    """Return the job that a new one is a segment of, if this decision sets that metadata; else an empty text."""
    return parent_in_note(decision.metadata) if isinstance(decision, d.SetJobMetadata) else ""
