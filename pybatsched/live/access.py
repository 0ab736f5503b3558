"""Access control of a server: the addresses that can reach it, and the peers that it accepts."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final

import zmq

from pybatsched.live.keys import ServerKeys

#: The domain of our sockets in ZeroMQ's authentication protocol (ZAP).
DOMAIN: Final = "pybatsched"
#: The number of rejected addresses that are logged, so that a peer with many addresses cannot fill the log.
_MAX_LOGGED: Final = 100


def is_wide(endpoint: str) -> bool:
    """Return whether a bound endpoint can be reached from other machines.

    >>> is_wide("tcp://127.0.0.1:28000"), is_wide("ipc:///tmp/s"), is_wide("tcp://0.0.0.0:28000"), is_wide("tcp://[::]:1")
    (False, False, True, True)
    """
    if not endpoint.startswith("tcp://"):
        return False
    host = endpoint.removeprefix("tcp://").rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return True  # a name or an interface, which may be reachable


class Authenticator:
    """Accepts peers only from `allow` (empty: all) and with one of `keys`. Each rejected address is reported once."""

    def __init__(self, allow: Sequence[str], keys: ServerKeys | None, on_refused: Callable[[str], None] | None) -> None:
        self._allow = allow
        self._keys = keys
        self._on_refused = on_refused
        self._refused: set[str] = set()

    def open(self, kind: int, stack: ExitStack) -> zmq.Socket[bytes]:
        """Return a socket with this access control. The stack closes it and its context."""
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        stack.callback(context.term)
        if self._allow or self._keys is not None:
            self._authenticate(context, stack)
        socket = context.socket(kind)
        stack.callback(socket.close)
        if self._allow or self._keys is not None:
            socket.setsockopt_string(zmq.ZAP_DOMAIN, DOMAIN)  # otherwise peers without keys are not checked
        if self._keys is not None:
            socket.setsockopt(zmq.CURVE_SERVER, 1)
            socket.setsockopt(zmq.CURVE_SECRETKEY, self._keys.own.secret)
        return socket

    def _authenticate(self, context: zmq.Context[zmq.Socket[bytes]], stack: ExitStack) -> None:
        from zmq.auth.thread import ThreadAuthenticator  # noqa: PLC0415  slow to import, and rarely needed

        log = logging.Logger("pybatsched.doors")  # noqa: LOG001  a private logger without other handlers
        log.addFilter(self._read_log)
        guard = ThreadAuthenticator(context, log=log)
        guard.start()
        stack.callback(guard.stop)
        if self._allow:
            guard.allow(*self._allow)
        guard.configure_curve_callback(DOMAIN, self)

    def callback(self, _domain: str, key: bytes) -> bool:
        """Return to ZeroMQ whether a peer with this key is accepted."""
        if self._keys is not None and key in self._keys.clients:
            return True
        self._report("key", "rejected a peer whose key is not in DIR/clients")
        return False

    def no_key(self) -> None:
        """Report a peer without a key, or with the key of another server."""
        if self._keys is not None:
            self._report("", "rejected a peer without a key or with the key of another server")

    def _read_log(self, record: logging.LogRecord) -> bool:
        """Report an address that ZeroMQ's authenticator denied, which only its log contains."""
        word, _, address = record.getMessage().partition(" address=")
        if word.startswith("DENIED") and address and len(self._refused) < _MAX_LOGGED:
            self._report(address, f"rejected a peer at {address}: the address is not allowed")
        return False

    def _report(self, cause: str, text: str) -> None:
        if cause not in self._refused:
            self._refused.add(cause)
            if self._on_refused is not None:
                self._on_refused(text)
