"""Connect a Batsim, which has no keys, to a scheduler that requires them (--curve)."""

from __future__ import annotations

import argparse
from typing import Final

from pybatsched.cli.common import arguments, process
from pybatsched.errors import quantity
from pybatsched.live import DEFAULT_ENDPOINT, keys
from pybatsched.live.relay import Relay

EPILOG: Final = """\
examples:
  pybatsched relay --to tcp://scheduler.example.org:28000 --curve keys       then: batsim -s tcp://127.0.0.1:28000 …

DIR contains client.key_secret and server.key of `pybatsched keys`. The scheduler must be started with --curve, too.
The relay serves one simulation. Exit code 0: Batsim has received its last reply. Exit code 4: no Batsim connects, the
scheduler is unreachable, does not reply or rejects the keys, or Batsim disconnects without its reply or sends nothing.
A Batsim that still waits for a reply is stopped.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `relay`."""
    add = parser.add_argument
    add("--to", required=True, metavar="ENDPOINT", help="endpoint of the scheduler")
    add("--curve", required=True, metavar="DIR", help="directory of the keys")
    add("--endpoint", "-s", default=DEFAULT_ENDPOINT, help="endpoint for Batsim, on this machine (default %(default)s)")
    arguments.add_timeout(add, "the scheduler does not reply, or Batsim sends nothing, for this time")
    arguments.add_first_timeout(add)


def run(args: argparse.Namespace) -> int:
    """Relay the messages of one simulation."""
    relay = Relay(args.endpoint, args.to, keys.read_client(args.curve), args.timeout, args.first_timeout)
    process.raise_interrupted()
    relay.run(lambda endpoint: arguments.say(f"relay to {args.to}, waiting for Batsim at {endpoint}"))
    arguments.say(f"Batsim has disconnected after {quantity(relay.n_messages, 'message')}")
    return 0
