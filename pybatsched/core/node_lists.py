"""Lists of nodes in Slurm's notation, such as ``n[1-3,7],gpu01``."""

from __future__ import annotations

import itertools
import math
import re
from typing import Final

_MOST_NAMES: Final = 1 << 20


def parts_of(text: str) -> list[str]:
    """Return the parts of a list, which are separated by commas outside brackets.

    >>> parts_of("n[1-3,7],gpu01")
    ['n[1-3,7]', 'gpu01']
    """
    return re.findall(r"(?:[^,\[(]|\[[^\]]*\]|\([^)]*\))+", text)


def nodes_in(text: str) -> list[str]:
    """Return the names of the nodes in a list. Raises ValueError with what was expected.

    >>> nodes_in("n[1-3,7],gpu01"), nodes_in("a[01-02]b[1-2]")
    (['n1', 'n2', 'n3', 'n7', 'gpu01'], ['a01b1', 'a01b2', 'a02b1', 'a02b2'])
    """
    found: list[str] = []
    if re.search(r"[\[\]]", re.sub(r"\[[^\[\]]*\]", "", text)):
        raise ValueError(f"closed brackets, found {text!r}")
    for one in parts_of(text):
        pieces = re.split(r"\[([^\[\]]*)\]", one.strip())
        choices = [
            [number for span in piece.split(",") for number in _numbers(span)] if i % 2 else [piece]
            for i, piece in enumerate(pieces)
        ]
        if math.prod(len(names) for names in choices) > _MOST_NAMES or re.search(r"[\s\[\]]", "".join(pieces[::2])):
            raise ValueError(f"names such as n[1-16], found {one!r}")
        found += ["".join(names) for names in itertools.product(*choices)]
    return found


def _numbers(span: str) -> list[str]:
    """Return the numbers of a part of brackets, such as 01-04, with their leading zeros."""
    first, dash, last = span.partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()) or int(last or first) < int(first):
        raise ValueError(f"numbers such as 1-16 in brackets, found {span!r}")
    if int(last or first) - int(first) >= _MOST_NAMES:
        raise ValueError(f"at most {_MOST_NAMES:,} names, found {span!r}")
    return [f"{number:0{len(first)}}" for number in range(int(first), int(last or first) + 1)]
