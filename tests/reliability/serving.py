"""A server and its simulation, two processes and a socket: one of the two is killed."""

from __future__ import annotations

import functools
import random
import re
import socket
from pathlib import Path
from typing import Final

from support.patience import PATIENCE_S

from pybatsched.errors import PeerLostError
from reliability import children, crash_checks
from reliability.children import Child
from reliability.crash_checks import Found, Span
from reliability.self_kill import BEFORE, RUNNING

PREFIX: Final = "out/p"
READY: Final = "waiting for Batsim at"
JOURNAL: Final = "s.pbj"
#: For events that never come: the reply of a killed server, and a simulation killed before its start.
_SILENCE: Final = ("--timeout", f"{PATIENCE_S / 6:g}")
_NOBODY: Final = ("--first-timeout", f"{PATIENCE_S / 6:g}")
#: The exit code of a simulation that lost its scheduler, and of a server that lost its simulation.
_LOST: Final = PeerLostError.exit_code


def serve(endpoint: str) -> list[str]:
    """Return the command of the server."""
    return ["--policy", "easy", "--endpoint", endpoint, "--journal", JOURNAL, *_NOBODY]


def simulate(inputs: Path, endpoint: str, kind: str = "simulate") -> list[str]:
    """Return the command of the simulation that it serves: our own, or the one with Batsim's command line."""
    given = ["-p", str(inputs / "p.xml"), "-w", str(inputs / "w.json"), "-e", PREFIX]
    if kind == "batsim":
        return ["batsim", *given, "-s", endpoint, "-q"]
    return ["simulate", *given, "--external", "-s", endpoint, "-q", *_SILENCE]


def endpoint_in(rng: random.Random, *, ports_only: bool = False) -> str:
    """Draw an endpoint that is free: a file, or a port."""
    if not ports_only and rng.random() < 0.5:
        return "ipc://socket"
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{one.getsockname()[1]}"


class Pair:
    """What both kinds need: the files of an undisturbed pair, and how long its two commands are."""

    def __init__(self, folder: Path, disturbed: str) -> None:
        self.inputs = folder
        crash_checks.write_inputs(folder)
        name = f"pair-{disturbed}"
        place = folder / name
        self.place(place)
        rng = random.Random(name)
        endpoint = endpoint_in(rng)
        server = children.start(serve(endpoint), place, "server", {})
        assert server.waits_until_printed(READY), server.errors
        peer = children.start(simulate(folder, endpoint), place, "peer", {})
        codes = (peer.ended(), server.ended())
        assert codes == (0, 0), peer.errors + server.errors
        self.journal = (place / JOURNAL).read_bytes()
        self.whole = crash_checks.results_at(place / PREFIX)
        counted = crash_checks.counted((server if disturbed == "server" else peer).notes)
        self.span = Span(counted.calls, counted.files, 1.0)

    def place(self, place: Path) -> None:
        """Make a directory for a try."""
        (place / "out").mkdir(parents=True)

    def check_next(self, found: Found, place: Path, endpoint: str, server: Child | None = None) -> None:
        """Check that the next pair, with the same endpoint, journal and prefix, is the same as without a crash."""
        server = server or children.start(serve(endpoint), place, "server2")
        found.expect(server.waits_until_printed(READY), f"the next server cannot begin: {server.errors[-300:]}")
        crash_checks.ended_well(simulate(self.inputs, endpoint), place, found, "peer2")
        code = server.ended()
        server.kill()
        found.expect(code == 0, f"the next server ended with {code}: {server.errors[-300:]}")
        found.expect((place / JOURNAL).read_bytes() == self.journal, "the next journal is not an undisturbed one")
        for path in (place / "out").glob("p_schedule.trace"):  # which the drop-in writes, and only that
            path.unlink()
        crash_checks.check_next_results(found, place / PREFIX, self.whole)


@functools.cache
def pair_of(folder: Path, disturbed: str) -> Pair:
    """Return the one that all kinds of crashes in a directory share."""
    return Pair(folder, disturbed)


class Server:
    """Kills the server while a simulation, of either kind, talks to it."""

    def __init__(self, folder: Path) -> None:
        self.pair = pair_of(folder, "server")

    def attempt(self, place: Path, rng: random.Random) -> Found:
        """Try once."""
        self.pair.place(place)
        endpoint, kind = endpoint_in(rng), rng.choice(("simulate", "simulate", "batsim"))
        moment = self.pair.span.draw(rng)
        server = moment.start(serve(endpoint), place, "server")
        peer = None
        if server.waits_until_printed(READY):
            peer = children.start(simulate(self.pair.inputs, endpoint, kind), place, "peer")
        moment.await_death(server)
        journal = place / JOURNAL
        has_begun = journal.exists() and journal.stat().st_size > 0
        found = Found(crash_checks.stage_by(server, RUNNING if has_begun else BEFORE), f"{kind}, {moment.how}")
        found.expect(server.code in {0, -9}, f"the server ended with {server.code}: {server.errors[-300:]}")
        crash_checks.check_journal(found, journal, self.pair.journal, server.notes.get("n_requests", 0))
        if peer is not None:
            self._check_peer(found, place, peer, kind, has_begun)
        self.pair.check_next(found, place, endpoint)
        return found

    def _check_peer(self, found: Found, place: Path, peer: Child, kind: str, has_begun: bool) -> None:
        if kind == "batsim" and not has_begun:
            peer.kill()  # it waits for a scheduler that is never started, as Batsim does
            return
        code = peer.ended()
        peer.kill()
        if code == 0:
            jobs = (place / f"{PREFIX}_jobs.csv").read_bytes()
            found.expect(jobs == self.pair.whole["_jobs.csv"], "the simulation ended with 0 and is not whole")
            return
        found.expect(code == _LOST, f"the simulation ended with {code}: {peer.errors[-300:]}")
        is_reported = re.search(r"closed its connection|no answer|no scheduler", peer.errors)
        found.expect(is_reported, f"the simulation does not say why: {peer.errors[-300:]}")
        if kind == "simulate":
            crash_checks.check_results(found, place / PREFIX, None)


class PeerKilled:
    """Kills the simulation, of either kind, that a server of ours serves."""

    def __init__(self, folder: Path) -> None:
        self.pair = pair_of(folder, "peer")

    def attempt(self, place: Path, rng: random.Random) -> Found:
        """Try once."""
        self.pair.place(place)
        endpoint, kind = endpoint_in(rng), rng.choice(("simulate", "simulate", "batsim"))
        server = children.start(serve(endpoint), place, "server")
        found = Found()
        found.expect(server.waits_until_printed(READY), f"the server does not begin: {server.errors[-300:]}")
        moment = self.pair.span.draw(rng)
        peer = moment.start(simulate(self.pair.inputs, endpoint, kind), place, "peer")
        moment.await_death(peer)
        journal = place / JOURNAL
        found.stage = crash_checks.stage_by(peer, RUNNING if journal.stat().st_size else BEFORE)
        found.how = f"served, {kind}, {moment.how}"
        if not peer.notes.get("has_sent", moment.plan is None or peer.code == 0):
            self.pair.check_next(found, place, endpoint, server)  # it has received nothing of the first one
            return found
        self._check_server(found, server, journal)
        if kind == "simulate":
            crash_checks.check_results(found, place / PREFIX, self.pair.whole)
        self.pair.check_next(found, place, endpoint)
        return found

    def _check_server(self, found: Found, server: Child, journal: Path) -> None:
        code = server.ended()
        server.kill()
        is_whole = journal.read_bytes() == self.pair.journal
        found.expect(code == (0 if is_whole else _LOST), f"the server ended with {code}: {server.errors[-300:]}")
        if code == _LOST:
            is_reported = re.search("closed its connection after message|no message from Batsim within", server.errors)
            found.expect(is_reported, f"the server does not say why: {server.errors[-300:]}")
        crash_checks.check_reading(found, journal)
