"""Generate CURVE keys, by which a server and its peer authenticate each other (--curve)."""

from __future__ import annotations

import argparse
from typing import Final

from pybatsched.live import keys

EPILOG: Final = """\
writes DIR/server.key_secret and DIR/client.key_secret, readable only by you, and their public keys DIR/server.key and
DIR/clients/client.key. Existing files are not overwritten. The server (pybatsched --curve DIR) accepts only peers whose
public key is in DIR/clients. A peer on another machine (simulate --external, batsim or relay, with --curve) needs a
directory with only client.key_secret and server.key.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the options of `keys`."""
    parser.add_argument("directory", metavar="DIR", help="the directory to write to")


def run(args: argparse.Namespace) -> int:
    """Generate the keys and print the names of the files."""
    for path in keys.make(args.directory):
        print(path)
    return 0
