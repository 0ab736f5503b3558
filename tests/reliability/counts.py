"""How often something is tried, as the commands of reliability read it: a number that does nothing is no number."""

from __future__ import annotations

import argparse


def at_least(least: int, text: str) -> int:
    """Read a whole number that is not less. Raises argparse's error."""
    try:
        n = int(text)
    except ValueError:
        n = least - 1
    if n < least:
        raise argparse.ArgumentTypeError(f"expected a whole number from {least}, got {text!r}")
    return n


def some(text: str) -> int:
    """Read how many there are to be, of which there must be one."""
    return at_least(1, text)


def or_none(text: str) -> int:
    """Read how many there are to be; 0 leaves them out."""
    return at_least(0, text)
