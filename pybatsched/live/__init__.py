"""Sockets and child processes: the scheduler as a server, and a real Batsim as its client."""

from typing import Final

#: Where a server waits by default: on this machine only.
DEFAULT_ENDPOINT: Final = "tcp://127.0.0.1:28000"
#: Seconds without a message after which a peer is given up.
DEFAULT_TIMEOUT_S: Final = 300.0
