"""Watching ZeroMQ connections, to notice when the other side has gone, or has turned us away."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import zmq
from zmq.utils.monitor import recv_monitor_message

from pybatsched.errors import InputError

#: A peer that closes its connection may come back within so many seconds.
GRACE_S: Final = 2.0
#: How long to wait for a message before looking around.
LOOK_AROUND_MS: Final = 200
#: How long a last message may take to leave a closed socket.
LINGER_MS: Final = 2000
#: How ZeroMQ counts what two ends did not agree on: a key that opens nothing, and one that has keys where one has none.
_WRONG_KEYS: Final = (0x11000001, 0x11000002)
#: No connection has this number.
_CLOSED: Final = -1


def is_port(text: str) -> bool:
    """Tell whether a text is the number of a port: ZeroMQ takes any number, and means another one."""
    return text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= 65535


def connect(socket: zmq.Socket[bytes], endpoint: str) -> None:
    """Connect a socket to an endpoint, at which nobody need be yet. Raises InputError if there can be none."""
    port = endpoint.rpartition(":")[2]
    try:
        if endpoint.startswith("tcp:") and not is_port(port):
            raise InputError(f"cannot connect to {endpoint!r}: there is no port {port!r}")
        socket.connect(endpoint)
    except zmq.ZMQError as error:
        raise InputError(
            f"cannot connect to {endpoint!r}: {zmq.strerror(error.errno or 0)}; "
            "expected an endpoint such as tcp://localhost:28000"
        ) from None


def receive(socket: zmq.Socket[bytes]) -> tuple[bytes, int | None, list[bytes]]:
    """Receive a message from a ROUTER socket. Gives the sender, the connection it came by, and the parts.

    The connection is a file descriptor, as in the events of a `Watch`; None if the peer speaks an older ZMTP than 3.0.
    """
    head = socket.recv(copy=False)
    parts = socket.recv_multipart()
    try:
        return head.bytes, head.get(zmq.SRCFD), parts
    except zmq.ZMQError:
        return head.bytes, None, parts


class Watch:
    """Knows which connections of a socket are open, from the socket's own event stream.

    Once the peer was `heard`, only the connection of its last message counts. As long as that is not known, any does.
    `on_wrong_keys` is called when the two ends could not agree on their keys, the first time.
    """

    def __init__(self, socket: zmq.Socket[bytes], on_wrong_keys: Callable[[], None] | None = None) -> None:
        self._socket = socket
        self._on_wrong_keys = on_wrong_keys
        opened = zmq.EVENT_ACCEPTED | zmq.EVENT_CONNECTED
        failed = zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
        if on_wrong_keys is not None:
            failed |= zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL  # a peer that has noticed first just hangs up on us
        self._events = socket.get_monitor_socket(opened | failed | zmq.EVENT_DISCONNECTED)
        self._open: set[int] = set()
        self._peer: int | None = None  # the connection of the peer; `_CLOSED` once that is closed
        self._gone_at: float | None = None
        self.has_been_open = False
        self.is_refused = False  # by whoever decides who is let in
        self.has_wrong_keys = False

    def heard(self, sender: bytes, connection: int | None) -> None:
        """Note by which connection a message of the peer has come; None if that is not known. O(1), mostly."""
        if connection == self._peer and sender.startswith(b"\0"):
            return  # a name that ZeroMQ gave, which begins with NUL, is for one connection
        self._catch_up()  # an earlier connection that was closed may have had the same number
        self._peer = connection

    def gone_for_s(self) -> float | None:
        """Give the seconds since the peer's connection was closed, or the last of all if the peer's is not known.

        None while it is open.
        """
        self._catch_up()
        if self._open if self._peer is None else self._peer in self._open:
            self._gone_at = None
            return None
        now = time.monotonic()
        if self._gone_at is None:
            self._gone_at = now
        return now - self._gone_at

    def _catch_up(self) -> None:
        """Read the events that have come."""
        while self._events.poll(0):
            event = recv_monitor_message(self._events)
            connection = int(event["value"])
            if event["event"] == zmq.EVENT_DISCONNECTED:
                self._open.discard(connection)
                if connection == self._peer:
                    self._peer = _CLOSED  # the next connection may get the same number
            elif event["event"] == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
                self.is_refused = True
            elif event["event"] == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:
                self._failed()
            elif event["event"] == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
                if connection in _WRONG_KEYS:
                    self._failed()
            else:
                self._open.add(connection)
                self.has_been_open = True

    def _failed(self) -> None:
        if not self.has_wrong_keys:  # once: who is turned away comes again
            self.has_wrong_keys = True
            if self._on_wrong_keys is not None:
                self._on_wrong_keys()

    def is_gone(self) -> bool:
        """Tell whether the peer's connection is closed, or none is open if the peer's is not known."""
        return self.gone_for_s() is not None

    def close(self) -> None:
        """Stop watching."""
        self._socket.disable_monitor()
        self._events.close()
