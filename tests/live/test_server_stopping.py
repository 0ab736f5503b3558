"""A server that is stopped from outside after Batsim has ended, as by Docker Compose."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import NoReturn

import pytest
import zmq
from support.patience import PATIENCE_S, wait_until
from support.process import SIGNALS, Peer
from support.recordings import recording, structure_error

from pybatsched import cli
from pybatsched.cli import serve as serve_command
from pybatsched.errors import Interrupted, PeerLostError
from pybatsched.live import connection, server
from pybatsched.live.connection import Watch
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Workload, plan_for


class Served:
    """EASY on a real socket, in a thread that gets a signal when a test sends it: `look` raises it.

    `watch` knows whether the peer is connected, and `ended_by` is what ended it.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, look: Callable[[], None]) -> None:
        monkeypatch.setattr(server, "Watch", self._watching)
        self.session = Session(plan_for("easy"))
        self.watch: Watch
        self.ended_by: BaseException | None = None
        self._endpoints: SimpleQueue[str] = SimpleQueue()
        self._options = server.ServerOptions("tcp://127.0.0.1:*", timeout_s=0, look=look)
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def _watching(self, socket: zmq.Socket[bytes], on_wrong_keys: Callable[[], None] | None) -> Watch:
        self.watch = Watch(socket, on_wrong_keys)
        return self.watch

    def _serve(self) -> None:
        try:
            server.serve(self.session, self._options, self._endpoints.put)
        except BaseException as error:  # noqa: BLE001  the test looks at it
            self.ended_by = error

    def start(self) -> str:
        """Serve. Return the endpoint."""
        self._thread.start()
        return self._endpoints.get(timeout=PATIENCE_S)

    def finish(self) -> BaseException | None:
        """Wait for the end. Return what ended it."""
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        return self.ended_by


def test_a_stop_after_a_lost_batsim_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compose stops the scheduler as soon as Batsim has ended, before the scheduler would notice."""

    def stop_when_it_has_left() -> None:
        if served.session.n_messages == 2 and served.watch.is_gone():
            raise Interrupted(signal.SIGTERM)

    served = Served(monkeypatch, stop_when_it_has_left)
    with Peer(served.start()) as peer:
        for request in recording("plain").requests[:2]:
            peer.ask(request)
    error = served.finish()
    assert isinstance(error, PeerLostError)
    assert error.exit_code == 4
    assert "after message 2, without SIMULATION_ENDS, and signal 15 stops the scheduler" in str(error)
    assert "known causes" in str(error)


def test_a_batsim_that_disconnects_after_the_signal_was_not_lost_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Compose stops both at once, while the policy decides: Batsim gets the reply, and may disconnect quickly."""
    reply = connection.send

    def reply_and_see_it_leave(socket: zmq.Socket[bytes], peer: bytes, text: bytes) -> None:
        reply(socket, peer, text)
        if structure_error(text.decode()):
            wait_until(served.watch.is_gone)

    def stop(_raw: bytes) -> NoReturn:
        raise Interrupted(signal.SIGTERM)

    monkeypatch.setattr(server, "send", reply_and_see_it_leave)
    served = Served(monkeypatch, lambda: None)
    monkeypatch.setattr(served.session, "handle", stop)
    with Peer(served.start()) as peer:
        assert structure_error(peer.ask(recording("plain").requests[0]).decode())
    error = served.finish()
    assert isinstance(error, Interrupted)
    assert error.signum == signal.SIGTERM


@pytest.mark.parametrize("signum", SIGNALS)
def test_a_request_right_after_the_signal_gets_a_reply(signum: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PATIENCE_S", PATIENCE_S)  # right after is when this machine comes to it
    wanted, came = threading.Event(), threading.Event()

    def stop_when_wanted() -> None:
        if wanted.is_set():
            came.set()
            raise Interrupted(signum)

    served = Served(monkeypatch, stop_when_wanted)
    with Peer(served.start()) as peer:
        peer.ask(recording("plain").requests[0])
        wanted.set()
        assert came.wait(PATIENCE_S)
        assert structure_error(peer.ask(recording("plain").requests[1]).decode())
        error = served.finish()
    assert isinstance(error, Interrupted)
    assert error.signum == signum


def test_a_signal_after_the_end_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def serve_then_stop(session: Session, _options: object, _ready: object, _refused: object) -> NoReturn:
        FakeBatsim(Workload().job("a", n=1, s=5), 2).run(session.handle)
        raise Interrupted(signal.SIGTERM)

    monkeypatch.setattr(serve_command, "serve", serve_then_stop)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert cli.main(["--policy", "fcfs"]) == 0
    assert "simulation ended at 5.0: 1 job" in capsys.readouterr().err


def test_a_signal_before_the_end_is_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_session: Session, _options: object, _ready: object, _refused: object) -> NoReturn:
        raise Interrupted(signal.SIGTERM)

    monkeypatch.setattr(serve_command, "serve", stop)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert cli.main(["--policy", "fcfs"]) == 143
