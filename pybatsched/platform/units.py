"""Numbers with units as SimGrid writes them: speeds, bandwidths and latencies.

What SimGrid refuses but everybody understands (binary prefixes and short names of flop/s, spaces between the speeds of
pstates) is read too; `is_simgrids` tells the difference, so that a reader can say so.
"""

from __future__ import annotations

import functools
import math
import re

_NUMBER = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)([A-Za-z]*)")
_DECIMAL = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi")
# "zeta" is SimGrid's own spelling of it.
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
    """Read the speed of each pstate in flop/s, as in ``1Gf, 500Mf``. Raises ValueError that says what was expected."""
    expected = "speeds in flop/s such as 1Gf or 100Mf,50Mf (f, kf, Mf, Gf, Tf, Pf, Ef)"
    parts = [part.split() for part in text.split(",")]
    if not all(parts):
        raise ValueError(expected)
    return tuple(_value(word, _SPEEDS, expected) for part in parts for word in part)


@functools.lru_cache(maxsize=1024)
def is_simgrids(text: str) -> bool:
    """Tell whether SimGrid would understand these speeds too."""
    for part in text.split(","):
        match = _NUMBER.fullmatch(part.strip())
        if match is None or (match[2] and match[2] not in _SIMGRID_SPEEDS):
            return False
    return True


@functools.lru_cache(maxsize=1024)
def bandwidth(text: str) -> float:
    """Read a bandwidth in byte/s, the lowest where there are several. Raises ValueError."""
    expected = "a bandwidth such as 125MBps or 1Gbps"
    return min(_value(part, _BANDWIDTHS, expected) for part in re.split("[;,]", text))


@functools.lru_cache(maxsize=1024)
def latency(text: str) -> float:
    """Read a latency in seconds. Raises ValueError."""
    return _value(text, _TIMES, "a time such as 50us")
