"""Codec of Batsim 5's protocol in JSON.

Each conversation has one `Codec`, created after the handshake (`pybatsched.protocol.v5_handshake`). It is lenient in
reading and strict in writing, because Batsim 5 rejects unknown members. A decoded message is encoded to the same JSON
value: where our encoding would differ from the peer's, the original is kept in `beside`. (Exception: a member of the
envelope with another spelling is written under both names.)

Differences to Batsim 4 that are hidden here:

* the configuration (`sched-config`, enabled features) contains what the hello requested;
* times have more than six decimals and are rounded to the tick, as Batsim 4 writes them;
* calls are at whole milliseconds, rounded up, and each call has an id;
* sleeping hosts are turned on and off; others change their pstate at once;
* jobs have one text for all user fields, which contains a JSON object;
* there is no message for job metadata (`SetJobMetadata`). It is not sent; journals and our own outputs keep it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import heappop, heappush
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from pybatsched import protocol
from pybatsched.core import decisions as d, events as e
from pybatsched.core.instants import on_tick
from pybatsched.core.intervals import EMPTY, IntervalSet
from pybatsched.core.policy import BatsimFeature, Policy
from pybatsched.errors import RemoteProtocolError
from pybatsched.protocol import CannotEncodeError, Greeting, Message, v4, v5_handshake as handshake
from pybatsched.protocol.json_values import parsed
from pybatsched.protocol.v5_decisions import CALL_ID, LATEST_S, READERS as DECISION_READERS, TURN, write_decision
from pybatsched.protocol.v5_events import READERS as EVENT_READERS, Wire, write_event, write_state
from pybatsched.protocol.v5_members import Members, full_name, workload_of
from pybatsched.protocol.v5_profiles import write_profile

#: Events that Batsim 5.0.0-rc2 stamps with the time of an earlier message.
_STAMPED_BEFORE: Final = {
    "ExternalEventOccurredEvent",
    "HostsPStateChangedEvent",
    "HostsTurnedOnOffEvent",
    "JobsKilledEvent",
}
#: More parts than any sequence has.
_MANY: Final = 2**32
Record = TypeVar("Record", e.Event, d.Decision)


def codec_for(raw: bytes, needs: Iterable[BatsimFeature]) -> protocol.Codec:
    """Return the codec for the first message of a conversation: Batsim 5 sends a greeting, Batsim 4 sends JSON."""
    return Codec(handshake.features_for(needs)) if handshake.is_greeting(raw) else v4


class Codec:
    """One conversation: the agreed features, and which hosts are on or off."""

    def __init__(self, features: handshake.Features | None = None, init: str = "") -> None:
        self.features = features or handshake.Features()
        self.init = init
        self._n_calls = 0
        self._sleeps: dict[int, frozenset[str]] = {}  # by host: the pstates in which it sleeps
        self._asleep = EMPTY  # by the scheduler's decisions
        self._killed: set[str] = set()  # jobs with a pending kill: Batsim crashes on a second one
        # Unanswered requests to the simulator: hosts that are turned on or off, and calls by time.
        self._turning = EMPTY
        self._calls: list[tuple[float, int, str]] = []
        self._profiles: dict[str, Mapping[str, Any]] = {}  # all profiles so far, by id

    def batsim(self) -> int:
        """Return 5."""
        return 5

    # --- the scheduler's side -------------------------------------------------------------------------------------

    def greet(self, raw: bytes, version: str, /) -> Greeting:
        """Read the greeting, which holds the user's text, and answer with the requested features."""
        self.init = handshake.read_greeting(raw)
        return Greeting(handshake.write_hello(handshake.Hello("pybatsched", version, self.features)), self.config())

    def missing(self, policy: type[Policy], name: str, /, *, keeps_notes: bool) -> Iterable[str]:
        """Return a warning for each thing that a policy uses and Batsim 5 lacks."""
        return handshake.missing_features(policy, name, keeps_notes=keeps_notes)

    def order(self, events: tuple[e.Event, ...], /) -> tuple[e.Event, ...]:
        """Sort external events by id (``ee0!7``), as in their file: Batsim 5 mixes them. O(n log n)."""
        places = [i for i, event in enumerate(events) if type(event) is e.Notify and "id" in event.extra]
        if len(places) < 2:
            return events
        ordered = list(events)
        for place, event in zip(places, sorted((events[i] for i in places), key=_number), strict=True):
            ordered[place] = event
        return tuple(ordered)

    def unsent(self, decisions: tuple[d.Decision, ...], /) -> list[tuple[int, d.SetJobMetadata]]:
        """Return all job metadata: Batsim 5 has no message for it."""
        return [(index, one) for index, one in enumerate(decisions) if isinstance(one, d.SetJobMetadata)]

    def decode_events(self, raw: bytes, /) -> Message[e.Event]:
        """Read a message of Batsim. O(size)."""
        message = _decoded(raw, EVENT_READERS, e.UnknownEvent, write_event)
        if message.now > LATEST_S:
            raise RemoteProtocolError(
                f"expected at most {LATEST_S:.3g} s (64-bit milliseconds), found {message.now:.3g}", field="now"
            )
        if message.items and type(message.items[0]) is e.SimulationBegins:
            begins = message.items[0]
            self._sleeps = {host.id: host.sleep_pstates for host in begins.compute_resources or ()}
            message = replace(message, items=(replace(begins, config=self.config()), *message.items[1:]))
        for event in message.items:
            if type(event) is e.JobKilled:
                self._killed.difference_update(event.job_ids)
        return message

    def encode_decisions(self, message: Message[d.Decision], /) -> bytes:
        """Write a reply without job metadata. Raises CannotEncodeError for other decisions that Batsim 5 lacks."""
        items = []
        for decision in self.prepare(message.items):
            if type(decision) is not d.SetJobMetadata:
                is_kept = decision.beside.keys() >= {"event_type", "event"}  # encoded before, by the peer or by us
                kind, data = ("", {}) if is_kept else write_decision(decision)
                stamp = message.now if decision.timestamp is None else decision.timestamp
                items.append({"timestamp": stamp, "event_type": kind, "event": data, **decision.beside})
        return msgspec.json.encode({"now": message.now, "events": items, **message.extra})

    def prepare(self, decisions: Iterable[d.Decision], /) -> tuple[d.Decision, ...]:
        """Return the decisions with one event each: calls get ids, changes of pstates are split. O(n)."""
        ready: list[d.Decision] = []
        for decision in decisions:
            if type(decision) is d.CallMeLater and CALL_ID not in decision.extra:
                self._n_calls += 1
                ready.append(replace(decision, extra={CALL_ID: f"call-{self._n_calls}"}))
            elif type(decision) is d.SetResourceState and "event" not in decision.beside:
                ready += self._switches(decision)
            elif type(decision) is d.KillJob and "event" not in decision.beside:
                ready += self._new_kills(decision)
            else:
                ready.append(decision)
        return tuple(ready)

    def _new_kills(self, decision: d.KillJob) -> Iterator[d.KillJob]:
        """Leave out jobs with a pending kill, and the whole decision if there are no others."""
        job_ids = tuple(job_id for job_id in decision.job_ids if job_id not in self._killed)
        self._killed.update(job_ids)
        if job_ids:
            yield replace(decision, job_ids=job_ids, beside={"event": {"job_ids": list(job_ids)}})

    def _switches(self, decision: d.SetResourceState) -> Iterator[d.SetResourceState]:
        """Split a change of pstate into hosts turned on or off, and others. `beside` has the encoded parts."""
        to_sleep = IntervalSet(i for i, asleep in self._sleeps.items() if decision.state in asleep) & decision.procs
        turned = decision.procs & (self._asleep | to_sleep)
        self._asleep = (self._asleep - decision.procs) | to_sleep
        if turned:
            hosts = replace(decision, procs=turned)
            yield replace(hosts, beside={"event_type": TURN, "event": write_state(hosts, "state")})
        if decision.procs - turned:
            others = replace(decision, procs=decision.procs - turned)
            yield replace(others, beside={"event": write_decision(others)[1]})

    def config(self) -> dict[str, Any]:
        """Return the agreed features with the keys of Batsim 4's configuration."""
        features = self.features
        return {
            "dynamic-jobs-enabled": features.dynamic_registration,
            "dynamic-jobs-acknowledged": features.acknowledge_dynamic_jobs,
            "profile-reuse-enabled": features.profile_reuse,
            "profiles-forwarded-on-submission": features.forward_profiles_on_job_submission,
            "forward-unknown-events": True,
            "sched-config": self.init,
            "batsim": 5,
        }

    # --- the simulator's side -------------------------------------------------------------------------------------

    def decode_decisions(self, raw: bytes, /) -> Message[d.Decision]:
        """Read a reply of a scheduler. O(size)."""
        message = _decoded(raw, DECISION_READERS, d.UnknownDecision, write_decision)
        for decision in message.items:
            if type(decision) is d.SetResourceState and decision.beside.get("event_type") == TURN:
                self._turning |= decision.procs
            elif type(decision) is d.RegisterProfile:
                self._profiles[full_name(decision.profile_name, decision.workload_name)] = decision.profile
            elif type(decision) is d.CallMeLater:
                self._n_calls += 1
                heappush(self._calls, (max(decision.at, message.now), self._n_calls, decision.extra[CALL_ID]))
        return message

    def encode_events(self, message: Message[e.Event], /) -> bytes:
        """Write a message of a simulation, without events that Batsim 5 lacks, and with Batsim's final NUL."""
        items = []
        for event in message.items:
            written = write_event(self._completed(event), self._turning)
            if written is not None:
                kind, data = written
                items.append({"timestamp": event.timestamp, "event_type": kind, "event": data, **event.beside})
            if type(event) is e.ResourceStateChanged:
                self._turning -= event.procs
        return msgspec.json.encode({"now": message.now, "events": items, **message.extra}) + b"\0"

    def _completed(self, event: e.Event) -> e.Event:
        """Return an event with the data of this conversation: the id of a call, and the repetition of a killed job."""
        if type(event) is e.SimulationBegins:
            for workload, profiles in (event.profiles or {}).items():
                self._profiles |= {full_name(name, workload): profile for name, profile in profiles.items()}
            if not self.features.forward_profiles_on_simulation_begins:
                return replace(event, profiles={})
        elif type(event) is e.RequestedCall and self._calls and CALL_ID not in event.extra:
            return replace(event, extra={CALL_ID: heappop(self._calls)[2], "last_periodic_call": False})
        elif type(event) is e.JobKilled and event.job_progress:
            progress = {
                job_id: self._in_repetitions(node, workload_of(job_id)) for job_id, node in event.job_progress.items()
            }
            return replace(event, job_progress=progress, extra=self._killed_profiles(progress))
        return event

    def _in_repetitions(self, node: Mapping[str, Any], workload: str) -> Mapping[str, Any]:
        """Convert the index of a part: Batsim 4 counts over all repetitions, Batsim 5 within one repetition."""
        if "current_task" not in node or "current_repetition" in node:
            return node
        profile = self._profiles.get(full_name(node["profile_name"], workload), {})
        repetition, index = divmod(node["current_task_index"], len(profile.get("seq", ())) or _MANY)
        part = self._in_repetitions(node["current_task"], workload)
        return {**node, "current_repetition": repetition, "current_task_index": index, "current_task": part}

    def _killed_profiles(self, progress: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return the profiles of killed jobs, each once, if they were requested."""
        if not self.features.forward_profiles_on_jobs_killed:
            return e.NOTHING
        ids = dict.fromkeys(full_name(node["profile_name"], workload_of(job_id)) for job_id, node in progress.items())
        return {"profiles": [write_profile(name, self._profiles[name]) for name in ids if name in self._profiles]}


def _decoded(
    raw: bytes,
    readers: Mapping[str, Callable[[Members, float], Record]],
    unknown: Callable[..., Record],
    write: Callable[[Record], Wire | None],
) -> Message[Record]:
    """Read a message. Where our encoding would differ, the peer's is kept in `beside`. O(size)."""
    envelope = Members(parsed(raw.rstrip(b"\0")), "message")  # it may end with a NUL
    sent_now = envelope.number("now")
    items: list[Record] = []
    for item in envelope.objects("events"):
        sent_at, kind = item.number("timestamp"), item.text("event_type")
        at = on_tick(sent_now if kind in _STAMPED_BEFORE else sent_at)
        data = item.maybe("event")
        reader = readers.get(kind)
        if reader is None:
            record = unknown(kind, {} if data is None else data, timestamp=at)
        else:
            record = reader(Members({} if data is None else data, f"{item.path}.event"), at)
        beside = item.rest("timestamp", "event_type", "event")
        if at != sent_at:
            beside["timestamp"] = sent_at
        if _again(write, record) != (kind, data):
            beside |= {"event_type": kind, "event": data}
        items.append(replace(record, beside=beside) if beside else record)
    now, extra = on_tick(sent_now), envelope.rest("now", "events")
    return Message(now, tuple(items), extra if now == sent_now else {**extra, "now": sent_now})


def _number(event: e.Event) -> tuple[str, int]:
    name, _, number = str(event.extra["id"]).rpartition("!")
    return name, int(number) if number.isdecimal() else 0


def _again(write: Callable[[Record], Wire | None], record: Record) -> Wire | None:
    """Write a decoded record again; None if it cannot be encoded."""
    try:
        return write(record)
    except CannotEncodeError:
        return None
