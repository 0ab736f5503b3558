"""Stand beside a Batsim, which has no keys, and speak for it to a scheduler that wants some (--curve)."""

from __future__ import annotations

import argparse
from typing import Final

from pybatsched.cli.common import arguments, process
from pybatsched.errors import quantity
from pybatsched.live import keys
from pybatsched.live.relay import Relay
from pybatsched.live.server import DEFAULT_ENDPOINT, DEFAULT_TIMEOUT_S

EPILOG: Final = """\
examples:
  pybatsched relay --to tcp://scheduler.example.org:28000 --curve keys       then: batsim -s tcp://127.0.0.1:28000 …

DIR has client.key_secret and server.key, as `pybatsched keys` makes them; the scheduler is started with --curve, too.
One conversation, then it ends: 0 when Batsim has left with its last reply; 4 when no Batsim comes, the scheduler is
gone, silent or does not let us in, or Batsim leaves without its reply or falls silent. A Batsim that waits then is told
to stop.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `relay`."""
    add = parser.add_argument
    add("--to", required=True, metavar="ENDPOINT", help="where the scheduler waits")
    add("--curve", required=True, metavar="DIR", help="the keys")
    add(
        "--endpoint",
        "-s",
        default=DEFAULT_ENDPOINT,
        help="where to wait for Batsim, on this machine (default %(default)s)",
    )
    add(
        "--timeout",
        type=arguments.timeout_s,
        default=DEFAULT_TIMEOUT_S,
        metavar="SECONDS",
        help="give up on a scheduler that does not reply, or a Batsim that says nothing, for so long "
        "(default %(default)g, 0 = never)",
    )
    arguments.add_first_timeout(add)


def run(args: argparse.Namespace) -> int:
    """Pass on one conversation."""
    relay = Relay(args.endpoint, args.to, keys.read_client(args.curve), args.timeout, args.first_timeout)
    process.raise_interrupted()
    relay.run(lambda endpoint: arguments.say(f"relay to {args.to}, waiting for Batsim at {endpoint}"))
    arguments.say(f"Batsim has left after {quantity(relay.n_messages, 'message')}")
    return 0
