"""The ZeroMQ server: one socket, one peer, one reply per request.

It is a ROUTER socket that acts as REP for the first REQ peer. So a second Batsim gets an error, and stray bytes cannot
take a reply. It monitors the connection of the peer, so a lost peer is detected within seconds instead of after the
time-out, even if others are connected.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import zmq

from pybatsched.errors import InputError, Interrupted, PeerLostError, UnfinishedError, quantity, setting
from pybatsched.live import DEFAULT_ENDPOINT, DEFAULT_TIMEOUT_S, access
from pybatsched.live.connection import GRACE_S, LINGER_MS, LOOK_AROUND_MS, Watch, is_port, receive, send
from pybatsched.live.keys import ServerKeys
from pybatsched.session.diagnosis import diagnose

if TYPE_CHECKING:
    from pybatsched.session.session import Session

PATIENCE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Options of the server. `timeout_s` limits the time between messages, `first_timeout_s` the time to the first one.

    0 means no limit. `look` is called while no message arrives, and may raise an error that ends the run. It checks the
    peer itself, so with it a closed connection is ignored. `allow` are the accepted addresses of peers (empty: all);
    with `keys` a peer must have one of these keys.
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
    """Bind, answer until the simulation has ended, and close. Raises the error that ends a run early."""
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
    """Bind a socket to an endpoint. InputError has the reason if that fails."""
    port = endpoint.rpartition(":")[2]
    if not endpoint.startswith(("tcp://", "ipc://")):
        raise InputError(f"cannot bind to {endpoint}: expected tcp://HOST:PORT or ipc://PATH")
    if endpoint.startswith("tcp:") and port != "*" and not is_port(port):
        # ZeroMQ would use another port.
        raise InputError(f"cannot bind to {endpoint}: expected a port from 0 to 65535, found {port!r}")
    try:
        socket.bind(endpoint)
    except zmq.ZMQError as error:
        hint = " (is another scheduler running?)" if error.errno == zmq.EADDRINUSE else ""
        reason = zmq.strerror(error.errno) if error.errno is not None else str(error)
        raise InputError(f"cannot bind to {endpoint}: {reason}{hint}") from None


def _answer_all(socket: zmq.Socket[bytes], session: Session, options: ServerOptions, watch: Watch) -> None:
    heard_at = looked_at = time.monotonic()
    peer: bytes | None = None
    error_sent = False
    try:
        while not session.finished:
            try:
                sender, connection, envelope = receive(socket)
            except zmq.Again:  # none in time
                sender, connection, envelope = b"", None, []
            if len(envelope) < 2 or envelope[0] or (peer is not None and sender != peer):
                if len(envelope) >= 2 and not envelope[0]:
                    send(socket, sender, session.error_reply("this scheduler is busy with another Batsim"))
                # Otherwise the sender is not a REQ socket: stray bytes, or a port scan.
                now = time.monotonic()
                if (
                    not envelope or now - looked_at >= LOOK_AROUND_MS / 1000
                ):  # messages of other peers must not delay this check
                    looked_at = now
                    _look_around(session, options, watch, now - heard_at)
                continue
            peer = sender
            watch.received(sender, connection)
            try:
                reply = session.handle(envelope[1]) if len(envelope) == 2 else session.handle_parts(envelope[1:])
            except BaseException as error:
                # The peer waits for a reply. This one makes it stop.
                error_sent = not watch.is_gone()
                send(socket, peer, session.error_reply(error))
                raise
            send(socket, peer, reply)
            heard_at = looked_at = time.monotonic()
    except (Interrupted, KeyboardInterrupt, PeerLostError) as error:
        has_left = peer is not None and not error_sent and watch.is_gone()
        if has_left and isinstance(error, Interrupted) and error.signum == signal.SIGTERM:
            # Docker Compose sends SIGTERM because Batsim has ended. Report the end of Batsim.
            raise PeerLostError(
                f"{_closed(session)}, and {error} stops the scheduler\n{diagnose(session.engine)}"
            ) from None
        if peer is not None and not watch.is_gone():
            # The signal may have come between its request and the reply; if not, its REQ socket drops this message.
            send(socket, peer, session.error_reply(error))
            await_and_refuse(socket, peer, session.error_reply(error))
        raise
    unfinished = list(session.engine.jobs.alive.values())
    if unfinished:
        names = ", ".join(f"{job.id} ({job.state.value})" for job in unfinished[:10])
        more = f" and {len(unfinished) - 10} more" if len(unfinished) > 10 else ""
        raise UnfinishedError(f"the simulation ended with {quantity(len(unfinished), 'job')} unfinished: {names}{more}")


def await_and_refuse(socket: zmq.Socket[bytes], peer: bytes, error_reply: bytes) -> None:
    """Wait briefly for one more message of the peer, and reply with a message that stops it."""
    deadline = time.monotonic() + PATIENCE_S
    while socket.poll(max(int((deadline - time.monotonic()) * 1000), 0)):
        sender, *_ = socket.recv_multipart()
        send(socket, sender, error_reply)
        if sender == peer:
            return


def _look_around(session: Session, options: ServerOptions, watch: Watch, silent_s: float) -> None:
    """Raise PeerLostError if the peer is gone, or silent for too long."""
    if options.look is not None:
        options.look()
    gone_s = watch.gone_for_s()
    if not session.n_messages:
        if options.first_timeout_s and silent_s >= options.first_timeout_s:
            raise PeerLostError(f"no message from Batsim within {silent_s:.1f} s ({setting('first_timeout')})")
        return
    if gone_s is not None and gone_s >= GRACE_S and options.look is None:
        raise PeerLostError(f"{_closed(session)} ({gone_s:.1f} s ago)\n{diagnose(session.engine)}")
    if options.timeout_s and silent_s >= options.timeout_s:
        raise PeerLostError(
            f"no message for {silent_s:.1f} s ({setting('timeout', f'{options.timeout_s:g}')}), "
            f"after message {session.n_messages}\n" + diagnose(session.engine)
        )


def _closed(session: Session) -> str:
    return f"the peer closed its connection after message {session.n_messages}, without SIMULATION_ENDS"
