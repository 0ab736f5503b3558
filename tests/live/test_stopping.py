"""How a scheduler ends that is stopped from outside when Batsim has ended, as Docker Compose does it."""

from __future__ import annotations

import signal
import time
from typing import NoReturn

import pytest
from support.process import Peer, Server
from support.recordings import recording

from pybatsched import cli
from pybatsched.cli import serve as serve_command
from pybatsched.errors import Interrupted
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Workload


def test_stopped_because_batsim_has_left_is_told_as_that() -> None:
    """Compose stops the scheduler as soon as Batsim has ended, before the scheduler would notice by itself."""
    with Server("--policy", "easy") as server:
        with Peer(server.wait_ready()) as peer:
            for request in recording("plain").requests[:2]:
                peer.ask(request)
        time.sleep(0.3)
        server.send_signal(signal.SIGTERM)
        assert server.finish() == 4
    assert "after message 2, without SIMULATION_ENDS, and signal 15 stops us" in server.errors
    assert "known causes" in server.errors


def test_a_signal_after_the_end_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def serve_then_stop(session: Session, _options: object, _ready: object) -> NoReturn:
        FakeBatsim(Workload().job("a", n=1, s=5), 2).run(session.handle)
        raise Interrupted(signal.SIGTERM)

    monkeypatch.setattr(serve_command, "serve", serve_then_stop)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert cli.main(["--policy", "fcfs"]) == 0
    assert "simulation ended at 5.0: 1 jobs" in capsys.readouterr().err


def test_a_signal_before_the_end_is_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_session: Session, _options: object, _ready: object) -> NoReturn:
        raise Interrupted(signal.SIGTERM)

    monkeypatch.setattr(serve_command, "serve", stop)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert cli.main(["--policy", "fcfs"]) == 143
