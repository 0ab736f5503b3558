"""All commands as the parser knows them, so that tests over all commands include new ones."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from pybatsched.cli import build_parser


def all_commands() -> list[tuple[str, ...]]:
    """Return the names of every command that can be run, such as ("simulate",) and ("workload", "lint")."""
    return list(_below(build_parser(), ()))


def _below(parser: argparse.ArgumentParser, args: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    choices = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    for action in choices:
        for name, sub in action.choices.items():
            yield from _below(sub, (*args, name))
    if not choices:
        yield args
