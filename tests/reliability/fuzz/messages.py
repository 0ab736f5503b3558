"""Mutated messages: for both codecs in both directions, for sessions with all policies, for the simulator.

Recordings of the real Batsim are sent to a policy that replies as recorded. The other policies get the messages of
the embedded simulator for small workloads, in the protocols of Batsim 4 and 5.
"""

from __future__ import annotations

import functools
import itertools
import json
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from support import fingerprints
from support.places import ROOT
from support.process import Peer, Server
from support.recordings import recordings, recordings5

from pybatsched.core import decisions as d
from pybatsched.core.options import Options
from pybatsched.core.policy import Policy
from pybatsched.core.services.feedback import FollowingJob
from pybatsched.errors import PeerLostError, PybatschedError, RemoteProtocolError, UnfinishedError
from pybatsched.protocol import Codec, Message, v4, v5
from pybatsched.protocol.v5_handshake import is_greeting, read_greeting, read_hello
from pybatsched.session.diagnosis import diagnose
from pybatsched.session.journal import JournalWriter
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Refused, Workload, plan_for
from pybatsched.workload import model
from pybatsched.workload.resample.feedback import FEEDBACK, held_back
from reliability.cases import Dice
from reliability.fuzz.mutations import mutated, mutated_conversation
from reliability.fuzz.targets import NotDocumentedError, Target, scratch

AGENT: Final = f"{ROOT / 'tests' / 'support' / 'agents.py'}:by_numbers"
POLICIES: Final = (*fingerprints.POLICIES, "rl")
_N_WORKLOADS: Final = 4  # of each policy
_N_MUTATED: Final = 6  # messages one after another
_MAX_LEAD: Final = 30
_MAX_SERVER_LEAD: Final = 10
_GARBAGE: Final = b""  # ends every session that goes on
_MAX_BYTES: Final = 60_000  # of a recorded message: larger ones only take longer


@dataclass(frozen=True)
class Talk:
    """A conversation: messages of the simulator and replies; and how to start a similar one."""

    requests: tuple[bytes, ...]
    replies: tuple[bytes, ...]
    session: Callable[[], Session]
    fake: Callable[[], FakeBatsim] | None = None
    words: tuple[str, ...] = ()  # the same session as options of `pybatsched serve`, if they can tell it


@functools.cache
def talks(policy: str, batsim: int) -> tuple[Talk, ...]:
    """Run a policy on small workloads, and record the messages."""
    return tuple(_talk(policy, batsim, number) for number in range(_N_WORKLOADS))


def _talk(policy: str, batsim: int, number: int) -> Talk:
    dice = random.Random(f"0 {policy} {number}")
    workload, n_procs, hosts, options = fingerprints.setting("easy" if policy == "rl" else policy, dice)
    if policy == "rl":
        options = {"agent": AGENT}
    workload.jobs = workload.jobs[:8]
    followers = _with_followers(workload) if batsim == 4 and number == 0 else []
    events = fingerprints.outages(dice) if policy in {"fcfs", "easy", "conservative", "dbf", "rl"} else []
    plan = plan_for(policy, **options)
    config = {need.config_key: True for need in plan.source.cls.needs} | {"dynamic-jobs-enabled": True}
    requests: list[bytes] = []
    replies: list[bytes] = []
    session = Session(plan, feedback_jobs=followers)

    def noted(raw: bytes) -> bytes:
        requests.append(raw)
        replies.append(session.handle(raw))
        return replies[-1]

    def fake() -> FakeBatsim:
        return FakeBatsim(workload, n_procs, config, events, hosts, batsim=batsim)

    fake().run(noted)
    given = [arg for key, value in options.items() for arg in ("-o", f"{key}={json.dumps(value)}")]
    # The command `serve` has no jobs that follow others.
    words = () if followers else ("--policy", policy, *given)
    return Talk(tuple(requests), tuple(replies), lambda: Session(plan, feedback_jobs=followers), fake, words)


def _with_followers(workload: Workload) -> list[FollowingJob]:
    """Let the last two jobs follow the jobs before, remove them from the workload, and return them for the engine."""
    for at in (-2, -1):
        workload.jobs[at] |= {"depends_on": workload.jobs[at - 1]["id"], "think_time": 2.5}
    kept, held = held_back("w0", model.Workload(workload.jobs, workload.profiles, 1, "", {FEEDBACK: True}))
    workload.jobs, workload.profiles = list(kept.jobs), kept.profiles
    return held


class Echo(Policy):
    """Replies to the n-th message as recorded."""

    reads_sched_config = True
    handles_oversized = True
    manages_registration = True
    recorded: tuple[Message[d.Decision], ...] = ()

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._replies = iter(self.recorded)
        self._now = 0.0

    def decide(self, now: float) -> Iterable[d.Decision]:
        message = next(self._replies, Message(now, ()))
        self._now = message.now
        return message.items

    def busy_until(self, now: float) -> float:
        return max(self._now, now)


@functools.cache
def recorded(batsim: int) -> tuple[Talk, ...]:
    """Return the recordings whose messages are not too large."""
    if batsim == 4:
        found = [_echoed(one.name, one.requests, one.replies, v4) for one in recordings() if one.is_readable]
    else:
        found = []
        for one5 in recordings5():
            own, others = (
                [raw for sender, raw in one5.records if (sender == "batsim") is is_own] for is_own in (True, False)
            )
            found.append(_echoed(one5.name, own, others, v5.Codec()))
    return tuple(talk for talk in found if max(map(len, talk.requests)) < _MAX_BYTES)


def _echoed(name: str, requests: Sequence[bytes], replies: Sequence[bytes], codec: Codec) -> Talk:
    messages = []
    for raw in replies[is_greeting(requests[0]) :]:
        try:
            messages.append(codec.decode_decisions(raw))
        except RemoteProtocolError:
            break
    echo = type(f"Echo-{name}", (Echo,), {"recorded": tuple(messages)})
    return Talk(tuple(requests), tuple(replies), lambda: Session(plan_for(echo)))


@functools.cache
def all_talks(batsim: int) -> tuple[Talk, ...]:
    """Return the conversations of all policies."""
    return tuple(talk for policy in POLICIES for talk in talks(policy, batsim))


@functools.cache
def _messages(batsim: int, side: str) -> tuple[bytes, ...]:
    both = (*all_talks(batsim), *recorded(batsim))
    return tuple(dict.fromkeys(raw for talk in both for raw in getattr(talk, side)))


@functools.cache
def _greetings() -> tuple[bytes, ...]:
    both = [*talks("easy", 5), *talks("ujfb", 5), *recorded(5)]
    return tuple(dict.fromkeys(raw for talk in both for raw in (talk.requests[0], talk.replies[0])))


# --- cases ---


def _message(known: Callable[[], Sequence[bytes]], dice: Dice) -> tuple[Sequence[bytes], Iterator[bytes]]:
    """Make a case of one mutated message."""
    return (), iter([mutated(dice, dice.choice(known()), dice.choice(known()))])


def _conversation(
    known: Callable[[], Sequence[Talk]], side: str, max_lead: int, dice: Dice
) -> tuple[Sequence[bytes], Iterator[bytes]]:
    """Make a case: the number of a conversation, its first messages, and from there on mutated ones."""
    every = known()
    number = dice.below(len(every))
    messages, others = getattr(every[number], side), getattr(dice.choice(every), side)
    at = int(min(len(messages), max_lead) * dice.part() ** 3)
    return (b"%d" % number, *messages[:at]), mutated_conversation(dice, messages, others, at)


# --- what reads them ---


def _to_codec(codec: Callable[[], Codec], side: str, pieces: Iterable[bytes]) -> None:
    """Read a message, write what was read, and read that; with Batsim 4 it must be the same."""
    for raw in pieces:
        message = getattr(codec(), f"decode_{side}")(raw)
        again = getattr(codec(), f"decode_{side}")(getattr(codec(), f"encode_{side}")(message))
        if again != message and codec() is v4:  # the codec of Batsim 5 keeps state, and has two spellings
            raise NotDocumentedError(f"read {message}, but when it was written again {again}")


def _to_handshake(pieces: Iterable[bytes]) -> None:
    for raw in pieces:
        (read_greeting if is_greeting(raw) else read_hello)(raw)


def _to_session(known: Callable[[], Sequence[Talk]], given: Iterable[bytes]) -> None:
    messages = iter(given)
    number = int(next(messages))
    session = known()[number].session()
    if number % 4 == 0:
        session.record_in(JournalWriter(scratch() / "fuzz.pbj"))
    try:
        for raw in messages:
            session.handle_parts([raw])
            if session.finished:
                break
        diagnose(session.engine)
    except PybatschedError as error:
        session.error_reply(error)
        raise
    finally:
        session.close("fuzzed")


def _to_simulator(batsim: int, given: Iterable[bytes]) -> None:
    replies = iter(given)
    make = all_talks(batsim)[int(next(replies))].fake
    assert make is not None

    def answer(_raw: bytes) -> bytes:
        reply = next(replies, None)
        if reply is None:
            raise PeerLostError("it says no more")
        return reply

    try:
        make().run(answer)
    except Refused as error:
        assert isinstance(error.__cause__, RemoteProtocolError)
        raise error.__cause__ from None


def _to_server(given: Iterable[bytes]) -> None:
    """Send messages to a server and to a session: each message must get the same reply from both."""
    messages = iter(given)
    talk = _served_talks()[int(next(messages))]
    twin = talk.session()
    error: PybatschedError | None = None
    with Server(*talk.words) as server, Peer(server.wait_ready()) as peer:
        for raw in itertools.chain(messages, [_GARBAGE]):
            try:
                wanted = twin.handle(raw)
            except PybatschedError as problem:
                error, wanted = problem, twin.error_reply(problem)
            answer = peer.ask(raw)
            # How deep a message may be nested depends on the stack.
            if answer != wanted and b"maximum recursion depth" not in answer + wanted:
                raise NotDocumentedError(f"the server says {answer!r:.300}, a session {wanted!r:.300}")
            if error is not None or twin.finished:
                break
        if error is None and twin.engine.jobs.alive:
            error = UnfinishedError("the simulation ended with jobs unfinished")
        code = server.finish()
        errors = server.errors
    if code != (0 if error is None else error.exit_code) or "Traceback" in errors:
        raise NotDocumentedError(f"exit code {code} after {error!r}: {errors[-2000:]}")
    if error is not None:
        raise error


@functools.cache
def _served_talks() -> Sequence[Talk]:
    return [talk for talk in (*all_talks(4), *all_talks(5)) if talk.words]


def targets() -> dict[str, tuple[Target, float]]:
    """Return the targets by name, each with its share of all mutations."""
    made: list[tuple[Target, float]] = [(Target("handshake5", partial(_message, _greetings), _to_handshake), 4)]
    for batsim, codec in ((4, lambda: v4), (5, v5.Codec)):
        for side, kind in (("requests", "events"), ("replies", "decisions")):
            pieces = partial(_message, partial(_messages, batsim, side))
            made.append((Target(f"codec{batsim}-{kind}", pieces, partial(_to_codec, codec, kind)), 19.5))
    for batsim in (4, 5):
        kinds = {policy: (partial(talks, policy, batsim), 0.6) for policy in POLICIES}
        for name, (known, share) in (kinds | {"recorded": (partial(recorded, batsim), 1.5)}).items():
            conversation, is_recorded = partial(_conversation, known, "requests", _MAX_LEAD), name == "recorded"
            session = partial(_to_session, known)
            made.append((Target(f"session{batsim}-{name}", conversation, session, _N_MUTATED, is_recorded), share))
        conversation = partial(_conversation, partial(all_talks, batsim), "replies", _MAX_LEAD)
        made.append((Target(f"simulator{batsim}", conversation, partial(_to_simulator, batsim), _N_MUTATED), 1.5))
    return {target.name: (target, share) for target, share in made}


def server_targets() -> dict[str, tuple[Target, float]]:
    """Return the one target of real processes."""
    conversation = partial(_conversation, _served_talks, "requests", _MAX_SERVER_LEAD)
    return {"server": (Target("server", conversation, _to_server, _N_MUTATED), 1)}
