"""Who may come in: from which addresses a server can be reached, and whom it lets in."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Final

import zmq

#: What our sockets are called when ZeroMQ asks whether to let somebody in.
DOMAIN: Final = "pybatsched"


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


def guarded(
    allow: Sequence[str], on_refused: Callable[[str], None] | None, stack: ExitStack
) -> zmq.Context[zmq.Socket[bytes]]:
    """Make a context whose sockets of our `DOMAIN` let in peers from these addresses only; all if there are none.

    Who is turned away is not answered, and `on_refused`, if there is one, hears of it. The stack ends the context.
    """
    context = zmq.Context()
    stack.callback(context.term)
    if allow:
        from zmq.auth.thread import ThreadAuthenticator  # noqa: PLC0415  takes a while, and few need it

        log = logging.Logger("pybatsched.doors")  # noqa: LOG001  one of its own, which nobody else hears of
        log.addHandler(logging.NullHandler() if on_refused is None else _Told(on_refused))
        guard = ThreadAuthenticator(context, log=log)
        guard.start()
        stack.callback(guard.stop)
        guard.allow(*allow)
    return context


class _Told(logging.Handler):
    """Hears what ZeroMQ's guard notes down, and passes on whom it has turned away: once, for they come again."""

    def __init__(self, on_refused: Callable[[str], None]) -> None:
        super().__init__()
        self._on_refused = on_refused
        self._refused: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Pass a note on if it is about somebody new."""
        word, _, address = record.getMessage().partition(" address=")
        if word.startswith("DENIED") and address not in self._refused:
            self._refused.add(address)
            self._on_refused(f"somebody at {address} was turned away (--allow)")
