"""The command that makes a run again, as its summary keeps it."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator
from typing import Any, Final

#: Options that change nothing of a run: where its files go, what is said meanwhile, whom to ask and for how long.
_ASIDE: Final = frozenset(
    [
        "help",
        "export",
        "journal",
        "quiet",
        "verbose",
        "socket_endpoint",
        "curve",
        "timeout",
        "first_timeout",
        "farewell",
    ]
)


def to_repeat(command: str, add_arguments: Callable[[argparse.ArgumentParser], None], args: argparse.Namespace) -> str:
    """Write a command line that makes the same run, but for where its files go. O(options).

    Options are in the order of the help and by their first names, whatever they were called and in which order: the
    same run has the same command. Those of which nothing depends, and defaults, are left out.
    """
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    words = ["pybatsched", command]
    for action in parser._actions:  # noqa: SLF001  there is no other way to ask a parser for its options
        if action.dest not in _ASIDE and action.option_strings:
            words += _words(action, getattr(args, action.dest, action.default))
    for_batsim = getattr(args, "for_batsim", [])
    return shlex.join([*words, *(["--", *for_batsim] if for_batsim else [])])


def _words(action: argparse.Action, value: Any) -> Iterator[str]:
    """Give the words that set an option to a value; none for its default."""
    name = action.option_strings[0]
    if value == action.default:
        return
    if action.nargs == 0:
        yield name
    else:
        for one in value if isinstance(value, list) else [value]:
            yield from (name, str(one))
