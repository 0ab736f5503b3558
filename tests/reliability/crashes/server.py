"""Kill a server, or its simulation: two processes and a socket."""

from __future__ import annotations

import functools
import random
import re
import socket
from pathlib import Path
from typing import Final

from support.patience import PATIENCE_S

from pybatsched.errors import PeerLostError
from reliability.crashes import checks, processes
from reliability.crashes.checks import Found, Span
from reliability.crashes.processes import Child
from reliability.crashes.self_kill import BEFORE, RUNNING

PREFIX: Final = "out/p"
READY: Final = "waiting for Batsim at"
JOURNAL: Final = "s.pbj"
#: For events that never come: the reply of a killed server, and a simulation killed before its start.
_SILENCE: Final = ("--timeout", f"{PATIENCE_S / 6:g}")
_NOBODY: Final = ("--first-timeout", f"{PATIENCE_S / 6:g}")
#: The exit code of a simulation that lost its scheduler, and of a server that lost its simulation.
_LOST: Final = PeerLostError.exit_code
_KINDS: Final = ("simulate", "simulate", "batsim")


def serve(endpoint: str) -> list[str]:
    """Return the command of the server."""
    return ["--policy", "easy", "--endpoint", endpoint, "--journal", JOURNAL, *_NOBODY]


def free_endpoint(rng: random.Random, *, ports_only: bool = False) -> str:
    """Draw an endpoint that is free: a file, or a port."""
    if not ports_only and rng.random() < 0.5:
        return "ipc://socket"
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{one.getsockname()[1]}"


class Undisturbed:
    """An undisturbed server and its simulation: their files, and how long their commands are."""

    def __init__(self, folder: Path) -> None:
        self._inputs = folder
        checks.write_inputs(folder)
        place, endpoint = folder / "pair", "ipc://socket"
        (place / "out").mkdir(parents=True)
        server = processes.start(serve(endpoint), place, "server", {})
        assert server.waits_until_printed(READY), server.errors
        peer = checks.measured(self.simulate(endpoint), place)
        assert server.ended() == 0, server.errors
        self.journal = (place / JOURNAL).read_bytes()
        self.whole = checks.results_at(place / PREFIX)
        self.server_span, self.peer_span = (
            Span(child.notes["calls"], child.notes["files"], 1.0) for child in (server, peer)
        )

    def simulate(self, endpoint: str, kind: str = "simulate") -> list[str]:
        """Return the command of the simulation: our own, or the one with Batsim's command line."""
        given = ["-p", str(self._inputs / "p.xml"), "-w", str(self._inputs / "w.json"), "-e", PREFIX, "-q"]
        if kind == "batsim":
            return ["batsim", *given, "-s", endpoint]
        return ["simulate", *given, "--external", "-s", endpoint, *_SILENCE]

    def check_next(self, found: Found, place: Path, endpoint: str, server: Child | None = None) -> None:
        """Check that the next pair, with the same endpoint, journal and prefix, is the same as without a crash."""
        server = server or processes.start(serve(endpoint), place, "server2")
        found.expect(server.waits_until_printed(READY), f"the next server cannot begin: {server.errors[-300:]}")
        found.run(self.simulate(endpoint), place, "peer2")
        found.expect(server.ended() == 0, f"the next server ended with {server.code}: {server.errors[-300:]}")
        found.expect((place / JOURNAL).read_bytes() == self.journal, "the next journal is not an undisturbed one")
        (place / "out" / "p_schedule.trace").unlink(missing_ok=True)  # which the drop-in writes, and only that
        checks.check_next_results(found, place / PREFIX, self.whole)


undisturbed_in = functools.cache(Undisturbed)


class Server:
    """Kills the server while a simulation, of either kind, talks to it."""

    def __init__(self, folder: Path) -> None:
        self._undisturbed = undisturbed_in(folder)

    def attempt(self, place: Path, rng: random.Random) -> Found:
        """Try once."""
        (place / "out").mkdir(parents=True)
        endpoint, kind = free_endpoint(rng), rng.choice(_KINDS)
        moment = self._undisturbed.server_span.moment(rng)
        server = moment.start(serve(endpoint), place, "server")
        peer = None
        if server.waits_until_printed(READY):
            peer = processes.start(self._undisturbed.simulate(endpoint, kind), place, "peer")
        moment.await_death(server)
        journal, found = place / JOURNAL, Found()
        has_begun = journal.exists() and journal.stat().st_size > 0
        found.killed(server, f"{kind}, {moment.how}", RUNNING if has_begun else BEFORE)
        checks.check_journal(found, journal, self._undisturbed.journal, server.notes.get("n_requests", 0))
        if peer is not None and kind == "batsim" and not has_begun:
            peer.kill()  # it waits for a scheduler that is never started, as Batsim does
        elif peer is not None:
            self._check_peer(found, place, peer, kind)
        self._undisturbed.check_next(found, place, endpoint)
        return found

    def _check_peer(self, found: Found, place: Path, peer: Child, kind: str) -> None:
        if peer.ended() == 0:
            jobs = (place / f"{PREFIX}_jobs.csv").read_bytes()
            found.expect(jobs == self._undisturbed.whole["_jobs.csv"], "the simulation ended with 0 and is not whole")
            return
        found.expect(peer.code == _LOST, f"the simulation ended with {peer.code}: {peer.errors[-300:]}")
        is_reported = re.search(r"closed its connection|no answer|no scheduler", peer.errors)
        found.expect(is_reported, f"the simulation does not say why: {peer.errors[-300:]}")
        if kind == "simulate":
            checks.check_results(found, place / PREFIX, None)


class PeerKilled:
    """Kills the simulation, of either kind, that a server of ours serves."""

    def __init__(self, folder: Path) -> None:
        self._undisturbed = undisturbed_in(folder)

    def attempt(self, place: Path, rng: random.Random) -> Found:
        """Try once."""
        (place / "out").mkdir(parents=True)
        endpoint, kind, found = free_endpoint(rng), rng.choice(_KINDS), Found()
        server = processes.start(serve(endpoint), place, "server")
        found.expect(server.waits_until_printed(READY), f"the server does not begin: {server.errors[-300:]}")
        moment = self._undisturbed.peer_span.moment(rng)
        peer = moment.start(self._undisturbed.simulate(endpoint, kind), place, "peer")
        moment.await_death(peer)
        journal = place / JOURNAL
        found.killed(peer, f"served, {kind}, {moment.how}", RUNNING if journal.stat().st_size else BEFORE)
        if not peer.notes.get("has_sent", moment.plan is None or peer.code == 0):
            self._undisturbed.check_next(found, place, endpoint, server)  # it has received nothing of the first one
            return found
        self._check_server(found, server, journal)
        if kind == "simulate":
            checks.check_results(found, place / PREFIX, self._undisturbed.whole)
        self._undisturbed.check_next(found, place, endpoint)
        return found

    def _check_server(self, found: Found, server: Child, journal: Path) -> None:
        server.ended()
        expected = 0 if journal.read_bytes() == self._undisturbed.journal else _LOST
        found.expect(server.code == expected, f"the server ended with {server.code}: {server.errors[-300:]}")
        if server.code == _LOST:
            is_reported = re.search("closed its connection after message|no message from Batsim within", server.errors)
            found.expect(is_reported, f"the server does not say why: {server.errors[-300:]}")
        checks.check_reading(found, journal)
