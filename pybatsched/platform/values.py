"""Numbers with units as SimGrid writes them: speeds, bandwidths and latencies, and some that it rejects."""

from __future__ import annotations

import functools
import math
import re

from pybatsched.platform.model import MAX_HOSTS

_NUMBER = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)([A-Za-z]*)")
_DECIMAL = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi")
# "zeta" is the spelling of SimGrid.
_WORDS = ("", "kilo", "mega", "giga", "tera", "peta", "exa", "zeta", "yotta")


def _scaled(unit: str, prefixes: tuple[str, ...], step: float, one: float = 1.0) -> dict[str, float]:
    return {prefix + unit: one * step**power for power, prefix in enumerate(prefixes)}


_SIMGRID_SPEEDS = {**_scaled("f", _DECIMAL, 1e3), **_scaled("flops", _WORDS, 1e3)}
_SPEEDS = {
    **_scaled("f", _BINARY, 1024.0),
    **_scaled("flops", _BINARY, 1024.0),
    **_scaled("flops", _DECIMAL, 1e3),
    "zettaflops": 1e21,
    **_SIMGRID_SPEEDS,
    "": 1.0,
}
_BANDWIDTHS = {
    **_scaled("bps", _BINARY, 1024.0, 0.125),
    **_scaled("bps", _DECIMAL, 1e3, 0.125),
    **_scaled("Bps", _BINARY, 1024.0),
    **_scaled("Bps", _DECIMAL, 1e3),
    "": 1.0,
}
_TIMES = {
    "w": 604800.0,
    "d": 86400.0,
    "h": 3600.0,
    "m": 60.0,
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "ns": 1e-9,
    "ps": 1e-12,
    "": 1.0,
}


def _value(text: str, units: dict[str, float], expected: str) -> float:
    match = _NUMBER.fullmatch(text.strip())
    scale = units.get(match[2]) if match else None
    if match is None or scale is None:
        raise ValueError(expected)
    value = float(match[1]) * scale
    if not 0 <= value < math.inf:
        raise ValueError(expected)
    return value


@functools.lru_cache(maxsize=1024)
def speeds(text: str) -> tuple[float, ...]:
    """Read the speed of each pstate in flop/s, as in ``1Gf, 500Mf``. Raises ValueError with the expected value."""
    expected = "speeds in flop/s such as 1Gf or 100Mf,50Mf (f, kf, Mf, Gf, Tf, Pf, Ef)"
    parts = [part.split() for part in text.split(",")]
    if not all(parts):
        raise ValueError(expected)
    return tuple(_value(word, _SPEEDS, expected) for part in parts for word in part)


@functools.lru_cache(maxsize=1024)
def is_simgrids(text: str) -> bool:
    """Return whether SimGrid can read these speeds."""
    for part in text.split(","):
        match = _NUMBER.fullmatch(part.strip())
        if match is None or (match[2] and match[2] not in _SIMGRID_SPEEDS):
            return False
    return True


@functools.lru_cache(maxsize=1024)
def bandwidth(text: str) -> float:
    """Read a bandwidth in byte/s; return the lowest of several. Raises ValueError."""
    expected = "a bandwidth such as 125MBps or 1Gbps"
    return min(_value(part, _BANDWIDTHS, expected) for part in re.split("[;,]", text))


@functools.lru_cache(maxsize=1024)
def latency(text: str) -> float:
    """Read a latency in seconds. Raises ValueError."""
    return _value(text, _TIMES, "a time such as 50us")


# SimGrid holds these numbers in 32 bits.
_RANGE = re.compile(r"\s*([0-9]{1,20})\s*(?:-\s*([0-9]{1,20})\s*)?")
_HIGHEST = 2**31 - 1
_EXPECTED = "numbers and ranges such as 0-3,7,10-12"


def explode(text: str, room: int = MAX_HOSTS) -> list[range]:
    """Read ``0-3,7,10-12`` into ranges. O(parts). Raises ValueError, also if there are more than `room` numbers."""
    found = []
    n_numbers = 0
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError(f"{_EXPECTED}, found {part!r:.80}")
        first = int(match[1])
        last = first if match[2] is None else int(match[2])
        if last < first:
            raise ValueError(f"ascending ranges, found {part!r:.80}")
        if last > _HIGHEST:
            raise ValueError(f"numbers up to {_HIGHEST}, found {part!r:.80}")
        n_numbers += last - first + 1
        if n_numbers > room:
            raise ValueError(f"at most {MAX_HOSTS} hosts in a file, found {text!r:.80}")
        found.append(range(first, last + 1))
    return found


def n_placed(topology: str, parameters: str, n_numbers: int) -> int:
    """Return the number of hosts of a cluster with this topology; higher numbers are unused. Raises ValueError."""
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
        raise ValueError(f"sizes such as {_EXAMPLES[topology]} for {topology}, found {parameters!r:.80}") from None
    if n_hosts > n_numbers:
        raise ValueError(
            f"sizes for the {n_numbers} hosts of the radical, found {parameters!r:.80}, which needs {n_hosts}"
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
