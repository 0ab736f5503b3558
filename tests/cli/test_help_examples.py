"""The examples in the help texts: every command line of them is accepted by the parsers."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator

import pytest

from pybatsched.cli import build_parser
from pybatsched.workload.selection import seconds_of

PARSER = build_parser()
#: An example is indented; its comment follows after two blanks or more.
EXAMPLE = re.compile(r"^ +(pybatsched [a-z].*?)(?:  .*)?$", re.MULTILINE)


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and the parsers of its sub-commands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from parsers(inner)


def examples() -> list[str]:
    """Return the examples of all help texts. `batsim` has a parser of its own, and `run` passes on what follows --."""
    texts = [text for parser in parsers(PARSER) for text in (parser.description, parser.epilog) if text]
    lines = dict.fromkeys(line.partition(" -- ")[0] for text in texts for line in EXAMPLE.findall(text))
    return [re.sub(r" > [\w./-]+$", "", line) for line in lines if not line.startswith("pybatsched batsim ")]


@pytest.mark.parametrize("line", examples())
def test_an_example_is_accepted(line: str) -> None:
    args = vars(PARSER.parse_args(shlex.split(line)[1:]))
    for option in ("until", "mtbf", "warm_up", "cool_down", "by") if args["command"] == "workload" else ():
        if isinstance(args.get(option), str):
            seconds_of(args[option], option)


def test_examples_are_found() -> None:
    assert len(examples()) > 80
