"""Mutated messages to a real server process: its replies and end equal those of a session in this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from support.process import Peer, Server

from pybatsched.errors import PybatschedError, UnfinishedError
from reliability.cases import Dice
from reliability.fuzz.messages import all_talks, lead_and_mutated
from reliability.fuzz.targets import NotDocumentedError, Target

_N_MUTATED = 6
_MAX_LEAD = 10
_GARBAGE = b""  # ends every session that goes on


def _pieces(dice: Dice) -> tuple[Sequence[bytes], Iterator[bytes]]:
    return lead_and_mutated(dice, (*all_talks(4), *all_talks(5)), "requests", _MAX_LEAD)


def _feed(given: Iterable[bytes]) -> None:
    """Send messages to a server and to a session: each message must get the same reply from both."""
    messages = iter(given)
    talk = (*all_talks(4), *all_talks(5))[int(next(messages))]
    twin = talk.session()
    error: PybatschedError | None = None
    with Server(*talk.words) as server, Peer(server.wait_ready()) as peer:
        for raw in chain(messages, [_GARBAGE]):
            try:
                wanted = twin.handle(raw)
            except PybatschedError as problem:
                error, wanted = problem, twin.error_reply(problem)
            answer = peer.ask(raw)
            if answer != wanted:
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


def targets() -> dict[str, tuple[Target, float]]:
    """Return the one target."""
    return {"server": (Target("server", _pieces, _feed, _N_MUTATED), 1)}
