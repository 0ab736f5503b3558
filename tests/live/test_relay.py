"""The relay, which connects a Batsim without keys to a server with keys."""

from __future__ import annotations

import contextlib
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest
import zmq
from support.keyed import FIRST, made_in, plain_in, schedule, simulate
from support.patience import PATIENCE_MS, PATIENCE_S, wait_until
from support.process import Peer, Server, run_cli

from pybatsched.errors import PeerLostError
from pybatsched.live import keys, relay as relay_module, server


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_in(tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    return plain_in(tmp_path_factory.mktemp("plain"))


class Relay(Server):
    """A running ``pybatsched relay``."""

    def __init__(self, far: str, folder: Path, *more: str) -> None:
        super().__init__("relay", "--to", far, "--curve", str(folder), *more)


def test_a_batsim_without_keys_can_connect_through_the_relay(made: Path, tmp_path: Path, plain: str) -> None:
    with Server("--policy", "easy", "--curve", str(made)) as server, Relay(server.wait_ready(), made) as relay:
        assert simulate(relay.wait_ready(), cwd=tmp_path) == (0, "")
        assert (server.finish(), relay.finish()) == (0, 0)
        assert re.search(r"Batsim has disconnected after \d+ messages", relay.errors)
    assert schedule(tmp_path, "out") == plain


def test_a_waiting_batsim_gets_an_error_when_the_scheduler_is_lost(made: Path) -> None:
    with Server("--policy", "easy", "--curve", str(made)) as server, Relay(server.wait_ready(), made) as relay:
        with Peer(relay.wait_ready()) as peer, Peer(relay.endpoint) as second:
            assert b'"events"' in peer.ask(FIRST)
            assert b"busy with another Batsim" in second.ask(FIRST)
            server.process.kill()
            assert b"disconnected before it replied to message 2" in peer.ask(FIRST)
        assert relay.finish() == 4


def test_a_rejected_relay_reports_it(made: Path, tmp_path: Path) -> None:
    keys.make(tmp_path / "other")
    shutil.copy(made / "server.key", tmp_path / "other")
    with (
        Server("--policy", "easy", "--curve", str(made)) as server,
        Relay(server.wait_ready(), tmp_path / "other") as relay,
    ):
        assert relay.finish() == 4
        assert "rejected the connection (--curve)" in relay.errors


def test_a_relay_to_a_server_with_other_keys_reports_it(made: Path, tmp_path: Path) -> None:
    keys.make(tmp_path / "other")
    with (
        Server("--policy", "easy", "--curve", str(tmp_path / "other")) as far,
        # patience: the event that ends the wait never comes, so any time will do
        Relay(far.wait_ready(), made, "--timeout", "5") as relay,
        Peer(relay.wait_ready()) as peer,
    ):
        assert b"--curve" in peer.ask(FIRST)  # whether the hang-up, or the time-out, is noticed first
        assert relay.finish() == 4


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (
            ["--endpoint", "tcp://0.0.0.0:*", "--to", "tcp://127.0.0.1:1"],
            2,
            "expected a local endpoint, because it is not encrypted",
        ),
        (["--endpoint", "tcp://127.0.0.1:*", "--to", "nowhere"], 2, "cannot connect to 'nowhere'"),
        (
            ["--endpoint", "tcp://127.0.0.1:*", "--to", "tcp://127.0.0.1:99999"],
            2,
            "expected a port from 0 to 65535, found '99999'",
        ),
        (
            # patience: the event that ends the wait never comes, so any time will do
            ["--endpoint", "tcp://127.0.0.1:*", "--to", "tcp://127.0.0.1:1", "--first-timeout", "0.1"],
            4,
            "no message from Batsim",
        ),
    ],
)
def test_a_relay_that_cannot_start_reports_the_reason(made: Path, args: list[str], code: int, message: str) -> None:
    done = run_cli("relay", *args, "--curve", str(made))
    assert done.returncode == code
    assert message in done.stderr


def test_a_relay_without_a_scheduler_sends_an_error_to_batsim(made: Path) -> None:
    # patience: the event that ends the wait never comes, so any time will do
    with Relay("tcp://127.0.0.1:1", made, "--timeout", "0.5") as relay, Peer(relay.wait_ready()) as peer:
        assert b"no reply to message 1" in peer.ask(FIRST)
        assert relay.finish() == 4


@contextlib.contextmanager
def far_scheduler(made: Path) -> Iterator[tuple[zmq.Socket[bytes], str]]:
    """A socket with the keys of a server, and its endpoint: a scheduler whose replies a test gives."""
    with zmq.Context() as context, context.socket(zmq.REP) as far:
        far.setsockopt(zmq.LINGER, 0)
        far.setsockopt(zmq.RCVTIMEO, PATIENCE_MS)
        far.setsockopt(zmq.CURVE_SERVER, 1)
        far.setsockopt(zmq.CURVE_SECRETKEY, keys.read_server(made).own.secret)
        far.bind("tcp://127.0.0.1:*")
        yield far, far.getsockopt_string(zmq.LAST_ENDPOINT)


def test_a_batsim_that_disconnects_before_its_reply(made: Path) -> None:
    with far_scheduler(made) as (far, endpoint), Relay(endpoint, made, "--timeout", "0") as relay:
        with Peer(relay.wait_ready()) as peer:
            peer.send(FIRST)
            assert far.recv() == FIRST
        assert relay.finish() == 4
        assert "Batsim disconnected before it received the reply to its message 1" in relay.errors


class Passing:
    """A relay in a thread, to a scheduler whose replies a test gives: the test sets its timeout after the last message.

    So no machine is too slow for it. `error` is what ended it, if it did not end well.
    """

    def __init__(self, made: Path, far: zmq.Socket[bytes], endpoint: str) -> None:
        self.relay = relay_module.Relay("tcp://127.0.0.1:*", endpoint, keys.read_client(made), 0, 0)
        self.error: PeerLostError | None = None
        self._far = far
        self._endpoints: SimpleQueue[str] = SimpleQueue()
        self._thread = threading.Thread(target=self._pass_on, daemon=True)
        self._thread.start()
        self.endpoint = self._endpoints.get(timeout=PATIENCE_S)

    def _pass_on(self) -> None:
        try:
            self.relay.run(self._endpoints.put)
        except PeerLostError as error:
            self.error = error

    def exchange(self, peer: Peer) -> None:
        peer.send(FIRST)
        self._far.recv()
        self._far.send(b"{}")
        assert peer.receive() == b"{}"

    def finish(self) -> PeerLostError | None:
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        return self.error


def test_a_silent_batsim_times_out_and_gets_an_error_later(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PATIENCE_S", PATIENCE_S)
    is_given_up = threading.Event()

    def refuse(socket: zmq.Socket[bytes], peer: bytes, error_reply: bytes) -> None:
        is_given_up.set()
        server.await_and_refuse(socket, peer, error_reply)

    monkeypatch.setattr(relay_module, "await_and_refuse", refuse)
    with far_scheduler(made) as (far, endpoint):
        passing = Passing(made, far, endpoint)
        with Peer(passing.endpoint) as peer:
            passing.exchange(peer)
            # patience: the event that ends the wait never comes, so any time will do
            passing.relay._timeout_s = 0.1
            assert is_given_up.wait(PATIENCE_S)
            assert b"pybatsched relay: no message from Batsim for" in peer.ask(FIRST)
        message = r"no message from Batsim for \d+\.\d s \(--\w+ 0\.1\), after the reply to message 1; it was stopped"
        assert re.match(message, str(passing.finish()))


@pytest.mark.parametrize("limit_s", [0, 0.1])
def test_a_lost_batsim_is_noticed_while_another_connection_is_open(made: Path, limit_s: float) -> None:
    with far_scheduler(made) as (far, endpoint):
        passing = Passing(made, far, endpoint)
        with Peer(passing.endpoint) as peer:
            passing.exchange(peer)
            other = Peer(passing.endpoint)
            assert b"busy with another Batsim" in other.ask(FIRST)
        with other:
            wait_until(lambda: len(passing.relay._near_watch._open) == 1)
            assert b"busy with another Batsim" in other.ask(FIRST)  # so ZeroMQ has done with the other one
            passing.relay._timeout_s = limit_s
            assert passing.finish() is None
