"""The ZeroMQ server: one socket, one peer, one reply per request.

It is a ROUTER socket that plays REP for the first REQ peer that speaks: so a second Batsim can be told that it has the
wrong door, and stray bytes cannot swallow a reply. It watches the peer's connection, so a peer that vanishes is noticed
within seconds and not after the time-out, whoever else is connected.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import zmq

from pybatsched.errors import InputError, Interrupted, PeerLostError, UnfinishedError, quantity
from pybatsched.live import access
from pybatsched.live.connection import GRACE_S, LINGER_MS, LOOK_AROUND_MS, Watch, is_port, receive
from pybatsched.live.keys import ServerKeys
from pybatsched.session.diagnosis import diagnose

if TYPE_CHECKING:
    from pybatsched.session.session import Session

DEFAULT_ENDPOINT: Final = "tcp://127.0.0.1:28000"
DEFAULT_TIMEOUT_S: Final = 300.0
PATIENCE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How to serve. `timeout_s` is for silence after the start, `first_timeout_s` for the first message; 0 is for ever.

    `look` is called whenever nothing was heard for a moment, and may raise what ends the run; it knows more of the peer
    than the connection does, so a connection that is closed means nothing beside it. `allow` are the addresses from
    which a peer may come, if not from all; with `keys` it must have one of theirs.
    """

    endpoint: str = DEFAULT_ENDPOINT
    timeout_s: float = DEFAULT_TIMEOUT_S
    first_timeout_s: float = 0.0
    look: Callable[[], None] | None = None
    allow: tuple[str, ...] = ()
    keys: ServerKeys | None = None


def serve(
    session: Session,
    options: ServerOptions,
    on_ready: Callable[[str], None],
    on_refused: Callable[[str], None] | None = None,
) -> None:
    """Bind, answer until the simulation has ended, and close. Raises what ends a run early.

    `on_ready` hears the endpoint really bound (of use with ``tcp://127.0.0.1:*``), `on_refused` of somebody who came
    from where nobody may, or with a wrong key or none.
    """
    with contextlib.ExitStack() as stack:
        guard = access.Authenticator(options.allow, options.keys, on_refused)
        socket = guard.open(zmq.ROUTER, stack)
        socket.setsockopt(zmq.LINGER, LINGER_MS)
        socket.setsockopt(zmq.RCVTIMEO, LOOK_AROUND_MS)
        watch = Watch(socket, guard.no_key)
        stack.callback(watch.close)
        bind(socket, options.endpoint)
        on_ready(socket.getsockopt_string(zmq.LAST_ENDPOINT))
        _answer_all(socket, session, options, watch)


def bind(socket: zmq.Socket[bytes], endpoint: str) -> None:
    """Bind a socket to an endpoint. Raises InputError that says why it cannot be had."""
    port = endpoint.rpartition(":")[2]
    if not endpoint.startswith(("tcp://", "ipc://")):
        raise InputError(f"cannot bind to {endpoint}: expected tcp://HOST:PORT or ipc://PATH")
    if endpoint.startswith("tcp:") and port != "*" and not is_port(port):
        raise InputError(f"cannot bind to {endpoint}: there is no port {port!r}")  # ZeroMQ would take another one
    try:
        socket.bind(endpoint)
    except zmq.ZMQError as error:
        hint = " (is another scheduler running?)" if error.errno == zmq.EADDRINUSE else ""
        reason = zmq.strerror(error.errno) if error.errno is not None else str(error)
        raise InputError(f"cannot bind to {endpoint}: {reason}{hint}") from None


def _answer_all(socket: zmq.Socket[bytes], session: Session, options: ServerOptions, watch: Watch) -> None:
    heard_at = looked_at = time.monotonic()
    peer: bytes | None = None
    is_told = False
    try:
        while not session.finished:
            sender, connection, envelope = _receive(socket)
            if len(envelope) < 2 or envelope[0] or (peer is not None and sender != peer):
                if len(envelope) >= 2 and not envelope[0]:
                    _reply(socket, sender, session.farewell("this scheduler is busy with another Batsim"))
                # Else no REQ socket has sent it: stray bytes, or a port scan.
                now = time.monotonic()
                if not envelope or now - looked_at >= LOOK_AROUND_MS / 1000:  # other peers must not hide a lost one
                    looked_at = now
                    _look_around(session, options, watch, now - heard_at)
                continue
            peer = sender
            watch.heard(sender, connection)
            try:
                reply = session.handle_parts(envelope[1:])
            except BaseException as error:
                # The peer waits for an answer; without one it would wait for ever. With this one it leaves.
                is_told = not watch.is_gone()
                _reply(socket, peer, session.farewell(error))
                raise
            _reply(socket, peer, reply)
            heard_at = looked_at = time.monotonic()
    except (Interrupted, KeyboardInterrupt, PeerLostError) as error:
        has_left = peer is not None and not is_told and watch.is_gone()
        if has_left and isinstance(error, Interrupted) and error.signum == signal.SIGTERM:
            # Docker Compose stops us because Batsim has ended; what it left behind is the news.
            raise PeerLostError(f"{_closed(session)}, and {error} stops us\n{diagnose(session.engine)}") from None
        if peer is not None and not watch.is_gone():
            # The signal may have come between its request and our reply; if not, a REQ socket drops this one.
            _reply(socket, peer, session.farewell(error))
            await_and_refuse(socket, peer, session.farewell(error))
        raise
    unfinished = list(session.engine.jobs.alive.values())
    if unfinished:
        names = ", ".join(f"{job.id} ({job.state.value})" for job in unfinished[:10])
        more = f" and {len(unfinished) - 10} more" if len(unfinished) > 10 else ""
        raise UnfinishedError(f"the simulation ended with {quantity(len(unfinished), 'job')} unfinished: {names}{more}")


def _receive(socket: zmq.Socket[bytes]) -> tuple[bytes, int | None, list[bytes]]:
    """Receive a message as `receive` does; one without parts if none comes for a moment."""
    try:
        return receive(socket)
    except zmq.Again:
        return b"", None, []


def _reply(socket: zmq.Socket[bytes], peer: bytes, text: bytes) -> None:
    socket.send_multipart([peer, b"", text])


def await_and_refuse(socket: zmq.Socket[bytes], peer: bytes, farewell: bytes) -> None:
    """Stay for a moment: a peer that is about to ask gets an answer that stops it, instead of none for ever."""
    deadline = time.monotonic() + PATIENCE_S
    while socket.poll(max(int((deadline - time.monotonic()) * 1000), 0)):
        sender, *_ = socket.recv_multipart()
        _reply(socket, sender, farewell)
        if sender == peer:
            return


def _look_around(session: Session, options: ServerOptions, watch: Watch, silent_s: float) -> None:
    """Give up on a peer that is gone, or silent for too long."""
    if options.look is not None:
        options.look()
    gone_s = watch.gone_for_s()
    if not session.n_messages:
        if options.first_timeout_s and silent_s >= options.first_timeout_s:
            raise PeerLostError(f"no Batsim has come within {silent_s:.1f} s (--first-timeout)")
        return
    if gone_s is not None and gone_s >= GRACE_S and options.look is None:
        raise PeerLostError(f"{_closed(session)} ({gone_s:.1f} s ago)\n{diagnose(session.engine)}")
    if options.timeout_s and silent_s >= options.timeout_s:
        raise PeerLostError(
            f"no message for {silent_s:.1f} s (--timeout {options.timeout_s:g}), "
            f"after message {session.n_messages}\n" + diagnose(session.engine)
        )


def _closed(session: Session) -> str:
    return f"the peer closed its connection after message {session.n_messages}, without SIMULATION_ENDS"
