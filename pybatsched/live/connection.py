"""Watching a ZeroMQ connection, to notice when the other side has gone."""

from __future__ import annotations

import time
from typing import Final

import zmq
from zmq.utils.monitor import recv_monitor_message

#: A peer that closes its connection may come back within so many seconds.
GRACE_S: Final = 2.0
#: How long to wait for a message before looking around.
LOOK_AROUND_MS: Final = 200
#: How long a last message may take to leave a closed socket.
LINGER_MS: Final = 2000


class Watch:
    """Knows which connections of a socket are open, from the socket's own event stream."""

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._socket = socket
        opened = zmq.EVENT_ACCEPTED | zmq.EVENT_CONNECTED
        self._events = socket.get_monitor_socket(opened | zmq.EVENT_DISCONNECTED)
        self._open: set[int] = set()
        self._gone_at: float | None = None
        self.has_been_open = False

    def gone_for_s(self) -> float | None:
        """Give the seconds since the last connection was closed, or None while one is open."""
        while self._events.poll(0):
            event = recv_monitor_message(self._events)
            connection = int(event["value"])
            if event["event"] == zmq.EVENT_DISCONNECTED:
                self._open.discard(connection)
            else:
                self._open.add(connection)
                self.has_been_open = True
        if self._open:
            self._gone_at = None
            return None
        now = time.monotonic()
        if self._gone_at is None:
            self._gone_at = now
        return now - self._gone_at

    def is_gone(self) -> bool:
        """Tell whether no connection is open."""
        return self.gone_for_s() is not None

    def close(self) -> None:
        """Stop watching."""
        self._socket.disable_monitor()
        self._events.close()
