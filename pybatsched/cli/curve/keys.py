"""Make keys, by which a server and its peer know each other (--curve)."""

from __future__ import annotations

import argparse
from typing import Final

from pybatsched.live import keys

EPILOG: Final = """\
writes DIR/server.key_secret and DIR/client.key_secret, for you alone, and their public keys DIR/server.key and
DIR/clients/client.key. Nothing is overwritten. The server (pybatsched --curve DIR) lets in whose public keys are in
DIR/clients; a peer on another machine (simulate --external, batsim or relay, with --curve) needs a directory with
client.key_secret and server.key alone.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `keys`."""
    parser.add_argument("directory", metavar="DIR", help="where to put them")


def run(args: argparse.Namespace) -> int:
    """Make them, and name the files."""
    for path in keys.make(args.directory):
        print(path)
    return 0
