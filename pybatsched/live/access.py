"""Who may come in: from which addresses a server can be reached, and whom it lets in."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final

import zmq

from pybatsched.live.keys import ServerKeys

#: What our sockets are called when ZeroMQ asks whether to let somebody in.
DOMAIN: Final = "pybatsched"
#: Of how many addresses that were turned away it is told: whoever comes from ever other ones fills no log.
_N_TOLD: Final = 100


def is_wide(endpoint: str) -> bool:
    """Tell whether an endpoint that is bound can be reached from other machines.

    >>> is_wide("tcp://127.0.0.1:28000"), is_wide("ipc:///tmp/s"), is_wide("tcp://0.0.0.0:28000"), is_wide("tcp://[::]:1")
    (False, False, True, True)
    """
    if not endpoint.startswith("tcp://"):
        return False
    host = endpoint.removeprefix("tcp://").rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        return not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return True  # a name or an interface: not known to be this machine only


class Authenticator:
    """Lets peers in from some addresses only (all if there are none) and, with `keys`, with one of these keys only.

    Who is turned away is not answered, and `on_refused`, if there is one, hears of it: once of each address, of the
    first few of these, and once of keys, for they come again.
    """

    def __init__(self, allow: Sequence[str], keys: ServerKeys | None, on_refused: Callable[[str], None] | None) -> None:
        self._allow = allow
        self._keys = keys
        self._on_refused = on_refused
        self._refused: set[str] = set()

    def open(self, kind: int, stack: ExitStack) -> zmq.Socket[bytes]:
        """Make a socket at which this guard stands. The stack closes it, and ends all that is behind it."""
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        stack.callback(context.term)
        if self._allow or self._keys is not None:
            self._stand_by(context, stack)
        socket = context.socket(kind)
        stack.callback(socket.close)
        if self._allow or self._keys is not None:
            socket.setsockopt_string(zmq.ZAP_DOMAIN, DOMAIN)  # else nobody is asked about a peer without keys
        if self._keys is not None:
            socket.setsockopt(zmq.CURVE_SERVER, 1)
            socket.setsockopt(zmq.CURVE_SECRETKEY, self._keys.own.secret)
        return socket

    def _stand_by(self, context: zmq.Context[zmq.Socket[bytes]], stack: ExitStack) -> None:
        from zmq.auth.thread import ThreadAuthenticator  # noqa: PLC0415  takes a while, and few need it

        log = logging.Logger("pybatsched.doors")  # noqa: LOG001  one of its own, which nobody else hears of
        log.addHandler(_Told(self._no_address))
        guard = ThreadAuthenticator(context, log=log)
        guard.start()
        stack.callback(guard.stop)
        if self._allow:
            guard.allow(*self._allow)
        guard.configure_curve_callback(DOMAIN, self)

    def callback(self, _domain: str, key: bytes) -> bool:
        """Tell ZeroMQ whether somebody with this key may come in."""
        if self._keys is not None and key in self._keys.clients:
            return True
        self._tell("key", "somebody whose key is not among the clients was turned away (--curve)")
        return False

    def no_key(self) -> None:
        """Tell of somebody who speaks without a key, or takes us for another server."""
        if self._keys is not None:
            self._tell("", "somebody without a key, or with another server's, was turned away (--curve)")

    def _no_address(self, address: str) -> None:
        if len(self._refused) < _N_TOLD:
            self._tell(address, f"somebody at {address} was turned away (--allow)")

    def _tell(self, who: str, text: str) -> None:
        if who not in self._refused:
            self._refused.add(who)
            if self._on_refused is not None:
                self._on_refused(text)


class _Told(logging.Handler):
    """Hears what ZeroMQ's own guard notes down, and passes on which addresses it has turned away."""

    def __init__(self, on_address: Callable[[str], None]) -> None:
        super().__init__()
        self._on_address = on_address

    def emit(self, record: logging.LogRecord) -> None:
        """Pass a note on if it is about an address."""
        word, _, address = record.getMessage().partition(" address=")
        if word.startswith("DENIED") and address:
            self._on_address(address)
