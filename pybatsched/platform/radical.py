"""The numbers of a cluster's hosts, and how many of them its topology uses."""

from __future__ import annotations

import math
import re

from pybatsched.platform.model import MAX_HOSTS

# SimGrid holds these numbers in 32 bits.
_RANGE = re.compile(r"\s*([0-9]{1,20})\s*(?:-\s*([0-9]{1,20})\s*)?")
_HIGHEST = 2**31 - 1
_EXPECTED = "numbers and ranges such as 0-3,7,10-12"


def explode(text: str, room: int = MAX_HOSTS) -> list[range]:
    """Read ``0-3,7,10-12`` into ranges; zero padding does not count. O(parts), however many hosts it means.

    Raises ValueError that says what was expected, also if there are more than `room` numbers.
    """
    found = []
    n_numbers = 0
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError(f"{_EXPECTED}, got {part!r:.80}")
        first = int(match[1])
        last = first if match[2] is None else int(match[2])
        if last < first:
            raise ValueError(f"ranges that go up, got {part!r:.80}")
        if last > _HIGHEST:
            raise ValueError(f"numbers up to {_HIGHEST}, got {part!r:.80}")
        n_numbers += last - first + 1
        if n_numbers > room:
            raise ValueError(f"{MAX_HOSTS} hosts in a file at most, got {text!r:.80}")
        found.append(range(first, last + 1))
    return found


def n_placed(topology: str, parameters: str, n_numbers: int) -> int:
    """Give how many hosts a cluster of this topology makes; it leaves higher numbers unused. Raises ValueError."""
    if topology == "FLAT":
        return n_numbers
    try:
        if topology == "TORUS":
            n_hosts = math.prod(_positive(parameters))
        elif topology == "FAT_TREE":
            levels, down, up, count = parameters.split(";")
            sizes = [_positive(part) for part in (levels, down, up, count)]
            if len(sizes[0]) != 1 or any(len(part) != sizes[0][0] for part in sizes[1:]):
                raise ValueError(parameters)
            n_hosts = math.prod(sizes[1])
        else:
            groups, chassis, blades, nodes = (_positive(part) for part in parameters.split(";"))
            if [len(part) for part in (groups, chassis, blades, nodes)] != [2, 2, 2, 1]:
                raise ValueError(parameters)
            n_hosts = groups[0] * chassis[0] * blades[0] * nodes[0]
    except ValueError:
        raise ValueError(f"sizes such as {_EXAMPLES[topology]} for {topology}, got {parameters!r:.80}") from None
    if n_hosts > n_numbers:
        raise ValueError(
            f"sizes for the {n_numbers} hosts of the radical, got {parameters!r:.80}, which needs {n_hosts}"
        )
    return n_hosts


_EXAMPLES = {"TORUS": "4,4,2", "FAT_TREE": "2;4,2;1,2;1,1", "DRAGONFLY": "2,1;2,1;2,1;1"}


def _positive(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 64 or not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parts):
        raise ValueError(text)
    numbers = [int(part) for part in parts]
    if 0 in numbers:
        raise ValueError(text)
    return numbers
