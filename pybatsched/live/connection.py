"""Monitor ZeroMQ connections, to detect that the peer has closed or rejected the connection."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import Final

import zmq

from pybatsched.errors import InputError

#: A peer that closes its connection may reconnect within this time.
GRACE_S: Final = 2.0
#: How long to wait for a message before the connection is checked.
LOOK_AROUND_MS: Final = 200
#: How long a last message may take to leave a closed socket.
LINGER_MS: Final = 2000
#: ZeroMQ's error codes for a wrong key, and for a key on only one side.
_WRONG_KEYS: Final = (0x11000001, 0x11000002)
#: Not a possible connection number.
_CLOSED: Final = -1
#: The first part of a message of a monitor: an event, and its value. (pyzmq's reader imports asyncio.)
_EVENT: Final = struct.Struct("=hi")


def is_port(text: str) -> bool:
    """Return whether a text is a port number. ZeroMQ accepts larger numbers and uses another port."""
    return text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= 65535


def connect(socket: zmq.Socket[bytes], endpoint: str) -> None:
    """Connect a socket to an endpoint, where the peer may appear later. Raises InputError for a wrong endpoint."""
    port = endpoint.rpartition(":")[2]
    try:
        if endpoint.startswith("tcp:") and not is_port(port):
            raise InputError(f"cannot connect to {endpoint!r}: expected a port from 0 to 65535, found {port!r}")
        socket.connect(endpoint)
    except zmq.ZMQError as error:
        raise InputError(
            f"cannot connect to {endpoint!r}: {zmq.strerror(error.errno or 0)}; "
            "expected an endpoint such as tcp://localhost:28000"
        ) from None


def receive(socket: zmq.Socket[bytes]) -> tuple[bytes, int | None, list[bytes]]:
    """Receive from a ROUTER socket: the sender, its file descriptor (None before ZMTP 3.0), and the parts."""
    sender = socket.recv()
    part = socket.recv(copy=False)  # knows whether more parts follow: a third of the time of `recv_multipart`
    parts = [part.bytes]
    while part.more:
        part = socket.recv(copy=False)
        parts.append(part.bytes)
    try:
        return sender, part.get(zmq.SRCFD), parts
    except zmq.ZMQError:
        return sender, None, parts


def send(socket: zmq.Socket[bytes], receiver: bytes, text: bytes) -> None:
    """Send a message from a ROUTER socket to a REQ socket. It takes half of the time of `send_multipart`."""
    socket.send(receiver, zmq.SNDMORE)
    socket.send(b"", zmq.SNDMORE)
    socket.send(text)


class Watch:
    """Tracks the open connections of a socket: all, or only that of the peer's last message, if known."""

    def __init__(self, socket: zmq.Socket[bytes], on_wrong_keys: Callable[[], None] | None = None) -> None:
        self._socket = socket
        self._on_wrong_keys = on_wrong_keys
        opened = zmq.EVENT_ACCEPTED | zmq.EVENT_CONNECTED
        failed = zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
        if on_wrong_keys is not None:
            failed |= zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL  # the peer may detect it first and disconnect
        self._events = socket.get_monitor_socket(opened | failed | zmq.EVENT_DISCONNECTED)
        self._open: set[int] = set()
        self._peer: int | None = None  # the connection of the peer; `_CLOSED` after it was closed
        self._gone_at: float | None = None
        self.has_been_open = False
        self.is_refused = False  # by the access control of the peer
        self.has_wrong_keys = False

    def received(self, sender: bytes, connection: int | None) -> None:
        """Record the connection of a message of the peer; None if unknown. O(1), mostly."""
        if connection == self._peer and sender.startswith(b"\0"):
            return  # names from ZeroMQ start with NUL and belong to one connection
        self._catch_up()  # a closed connection may have had the same number
        self._peer = connection

    def gone_for_s(self) -> float | None:
        """Return the seconds since the peer's connection, or the last of all, was closed; None while it is open."""
        self._catch_up()
        if self._open if self._peer is None else self._peer in self._open:
            self._gone_at = None
            return None
        now = time.monotonic()
        if self._gone_at is None:
            self._gone_at = now
        return now - self._gone_at

    def _catch_up(self) -> None:
        """Process pending events."""
        while self._events.poll(0):
            event, connection = _EVENT.unpack(self._events.recv_multipart()[0])
            if event == zmq.EVENT_DISCONNECTED:
                self._open.discard(connection)
                if connection == self._peer:
                    self._peer = _CLOSED  # the next connection may get the same number
            elif event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
                self.is_refused = True
            elif event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:
                self._failed()
            elif event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
                if connection in _WRONG_KEYS:
                    self._failed()
            else:
                self._open.add(connection)
                self.has_been_open = True

    def _failed(self) -> None:
        if not self.has_wrong_keys:  # only once: peers retry
            self.has_wrong_keys = True
            if self._on_wrong_keys is not None:
                self._on_wrong_keys()

    def is_gone(self) -> bool:
        """Return whether the peer's connection is closed; if it is unknown, whether none is open."""
        return self.gone_for_s() is not None

    def close(self) -> None:
        """Stop monitoring."""
        self._socket.disable_monitor()
        self._events.close()
