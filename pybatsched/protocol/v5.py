"""The protocol of Batsim 5 in JSON: messages to events and decisions of `pybatsched.core`, and back.

One `Codec` is made for each conversation, after the handshake (`pybatsched.protocol.v5_handshake`). It is lenient about
what it reads and strict about what it writes: Batsim 5 refuses members that it does not know. What is read can be
written again as the same JSON value: where our own words would differ from the peer's, they are kept beside.

Differences to Batsim 4 that are settled here, so that nobody else need know them:

* what Batsim 4 tells in its configuration (`sched-config`, what is enabled) is what the hello asked for;
* times come with more than six decimals and are put on the tick, as Batsim 4 writes them;
* calls are at whole milliseconds: an instant is rounded up, and a call has an id, which nobody needs;
* hosts that sleep are turned on and off, others change their pstate at once;
* jobs have one text for all that is not Batsim's own, in which we keep a JSON object;
* notes on jobs (`SetJobMetadata`) cannot be said. They are left out, and `notes_of` gives them to whoever keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from pybatsched.core import decisions as d
from pybatsched.core import events as e
from pybatsched.core.instants import on_tick
from pybatsched.core.intervals import EMPTY, IntervalSet
from pybatsched.errors import RemoteProtocolError
from pybatsched.protocol import Message
from pybatsched.protocol.v4_shapes import shown
from pybatsched.protocol.v5_decisions import CALL_ID, CannotSayError, write_decision, write_turned
from pybatsched.protocol.v5_decisions import READERS as DECISION_READERS
from pybatsched.protocol.v5_events import READERS as EVENT_READERS
from pybatsched.protocol.v5_events import Wire, write_event
from pybatsched.protocol.v5_handshake import Features
from pybatsched.protocol.v5_members import Members

Record = TypeVar("Record", e.Event, d.Decision)


class Codec:
    """One conversation: what was agreed at its begin, and which hosts are on or off."""

    def __init__(self, features: Features | None = None, init: str = "") -> None:
        self.features = features or Features()
        self.init = init
        self._n_calls = 0
        self._sleeps: dict[int, frozenset[str]] = {}  # by host, the pstates in which it sleeps
        self._asleep = EMPTY  # as far as the scheduler has said
        self._turning = EMPTY  # as far as the simulator has heard and not answered

    # --- the scheduler's side -------------------------------------------------------------------------------------

    def decode_events(self, raw: bytes, /) -> Message[e.Event]:
        """Read a message of Batsim. O(size)."""
        message = _decoded(raw, EVENT_READERS, e.UnknownEvent, write_event)
        if message.items and type(message.items[0]) is e.SimulationBegins:
            begins = message.items[0]
            for host in begins.compute_resources or ():
                text = (host.properties or {}).get("sleep_pstates", "")
                self._sleeps[host.id] = frozenset(part.split(":")[0].strip() for part in text.split(",") if part)
            message = replace(message, items=(replace(begins, config=self._config()), *message.items[1:]))
        return message

    def encode_decisions(self, message: Message[d.Decision], /) -> bytes:
        """Write a reply, without what Batsim 5 has no place for. Raises CannotSayError for what it must not lose."""
        items = []
        for decision in message.items:
            stamp = message.now if decision.timestamp is None else decision.timestamp
            for kind, data in self._written(decision) if is_said(decision) else ():
                items.append({"timestamp": stamp, "event_type": kind, "event": data, **decision.beside})
        return msgspec.json.encode({"now": message.now, "events": items, **message.extra})

    def _written(self, decision: d.Decision) -> Iterator[Wire]:
        if type(decision) is d.CallMeLater and CALL_ID not in decision.extra:
            self._n_calls += 1
            decision = replace(decision, extra={CALL_ID: f"call-{self._n_calls}"})
        elif type(decision) is d.SetResourceState and "event" not in decision.beside:
            yield from self._switched(decision)
            return
        yield write_decision(decision)

    def _switched(self, decision: d.SetResourceState) -> Iterator[Wire]:
        """Hosts that sleep, or shall sleep, are turned on or off; others change their pace at once."""
        to_sleep = IntervalSet(i for i in decision.procs if decision.state in self._sleeps.get(i, ()))
        turned = decision.procs & (self._asleep | to_sleep)
        self._asleep = (self._asleep - decision.procs) | to_sleep
        if turned:
            yield write_turned(turned, decision.state)
        if decision.procs - turned:
            yield write_decision(replace(decision, procs=decision.procs - turned))

    def _config(self) -> dict[str, Any]:
        """Say what was agreed, in the words of Batsim 4's configuration."""
        features = self.features
        return {
            "dynamic-jobs-enabled": features.dynamic_registration,
            "dynamic-jobs-acknowledged": features.acknowledge_dynamic_jobs,
            "profile-reuse-enabled": features.profile_reuse,
            "profiles-forwarded-on-submission": features.forward_profiles_on_job_submission,
            "sched-config": self.init,
        }

    # --- the simulator's side -------------------------------------------------------------------------------------

    def decode_decisions(self, raw: bytes, /) -> Message[d.Decision]:
        """Read a reply of a scheduler. O(size)."""
        message = _decoded(raw, DECISION_READERS, d.UnknownDecision, write_decision)
        for decision in message.items:
            if type(decision) is d.SetResourceState and "event" in decision.beside:  # not as one at once is written
                self._turning |= decision.procs
        return message

    def encode_events(self, message: Message[e.Event], /) -> bytes:
        """Write a message of a simulation, but for what Batsim 5 does not tell, with the NUL that Batsim writes."""
        items = []
        for event in message.items:
            said = event
            if type(event) is e.SimulationBegins and not self.features.forward_profiles_on_simulation_begins:
                said = replace(event, profiles={})
            written = write_event(said, self._turning)
            if written is not None:
                kind, data = written
                items.append({"timestamp": event.timestamp, "event_type": kind, "event": data, **event.beside})
            if type(event) is e.ResourceStateChanged:
                self._turning -= event.procs
        return msgspec.json.encode({"now": message.now, "events": items, **message.extra}) + b"\0"


def _decoded(
    raw: bytes,
    readers: Mapping[str, Callable[[Members, float], Record]],
    unknown: Callable[..., Record],
    write: Callable[[Record], Wire | None],
) -> Message[Record]:
    """Read a message; what we would write in another way keeps the peer's own words beside it. O(size)."""
    envelope = _parsed(raw)
    told_now = envelope.number("now")
    items: list[Record] = []
    for item in envelope.objects("events"):
        told_at, kind = item.number("timestamp"), item.text("event_type")
        at = on_tick(told_at)
        data = item.maybe("event")
        reader = readers.get(kind)
        if reader is None:
            record = unknown(kind, {} if data is None else data, timestamp=at)
        else:
            record = reader(Members({} if data is None else data, f"{item.path}.event"), at)
        beside = item.rest("timestamp", "event_type", "event")
        if at != told_at:
            beside["timestamp"] = told_at
        if write(record) != (kind, data):
            beside |= {"event_type": kind, "event": data}
        items.append(replace(record, beside=beside) if beside else record)
    now, extra = on_tick(told_now), envelope.rest("now", "events")
    return Message(now, tuple(items), extra if now == told_now else {**extra, "now": told_now})


def notes_of(decisions: tuple[d.Decision, ...]) -> dict[str, str]:
    """Give the notes on jobs among decisions, which Batsim 5 is not told. O(decisions)."""
    return {one.job_id: one.metadata for one in decisions if type(one) is d.SetJobMetadata}


def is_said(decision: d.Decision) -> bool:
    """Tell whether a decision is for Batsim 5 to hear; O(1)."""
    return type(decision) is not d.SetJobMetadata


def _parsed(raw: bytes) -> Members:
    """Read JSON, behind which there may be a NUL, with an answer for everything that is none."""
    try:
        value = msgspec.json.decode(raw.rstrip(b"\0"))
    except UnicodeDecodeError as error:
        raise RemoteProtocolError(f"expected JSON in UTF-8; {error}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        excerpt = repr(raw[:60]) + ("..." if len(raw) > 60 else "")
        raise RemoteProtocolError(f"expected a JSON object; {error}, in {excerpt}") from None
    if type(value) is not dict:
        raise RemoteProtocolError(f"expected a JSON object, got {shown(value)}")
    return Members(value, "message")


__all__ = ["CannotSayError", "Codec", "Features", "is_said", "notes_of"]
