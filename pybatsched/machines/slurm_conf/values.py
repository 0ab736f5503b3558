"""Values in Slurm's files: times, and trackable resources (TRES)."""

from __future__ import annotations

import math
import re
from typing import Final

from pybatsched.core.node_lists import parts_of

#: A suffix of a quantity of memory, in MB.
_IN_MB: Final = {"k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0**2, "p": 1024.0**3}
#: A suffix of a count.
_TIMES: Final = {"k": 1024.0, "m": 1024.0**2, "g": 1024.0**3, "t": 1024.0**4, "p": 1024.0**5}
_QUANTITY: Final = re.compile(r"(-?\d*\.?\d+)([kmgtp]?)b?", re.IGNORECASE)
_UNLIMITED: Final = frozenset({"-1", "infinite", "unlimited"})


def seconds(text: str) -> float:
    """Return a time in seconds: minutes, minutes:seconds, hours:minutes:seconds, or days-hours[:minutes[:seconds]].

    >>> seconds("90"), seconds("1:30"), seconds("12:00:00"), seconds("7-0"), seconds("1-2:30"), seconds("UNLIMITED")
    (5400.0, 90.0, 43200.0, 604800.0, 95400.0, inf)
    """
    if text.lower() in _UNLIMITED:
        return math.inf
    found = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", text)
    if found is None:
        raise ValueError(f"a time such as 30, 12:00:00, 7-0 or UNLIMITED, found {text!r}")
    days, first, second, third = (None if part is None else int(part) for part in found.groups())
    if days is None and third is None:  # minutes[:seconds]
        return float(first or 0) * 60 + (second or 0)
    return float((days or 0) * 86_400 + (first or 0) * 3_600 + (second or 0) * 60 + (third or 0))


def whole_minutes(text: str) -> float:
    """Return a time in seconds, rounded up to minutes, as Slurm does with limits and half-lives."""
    return math.ceil(seconds(text) / 60) * 60.0 if text.lower() not in _UNLIMITED else math.inf


def quantity(text: str, tres: str) -> float:
    """Return a quantity of a resource, such as 4, 64G or 1.5T: memory is in MB."""
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise ValueError(f"a number such as 4 or 64G, found {text!r}")
    is_memory = tres == "mem" or tres.startswith("bb/")
    return float(found[1]) * ((_IN_MB if is_memory else _TIMES)[found[2].lower()] if found[2] else 1.0)


def tres_pairs(text: str) -> list[tuple[str, str]]:
    """Return the names, in small letters, and values of a list of resources such as `CPU=300,GRES/gpu=600`."""
    pairs = []
    for one in filter(None, parts_of(text)):
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise ValueError(f"a list such as cpu=4,mem=64G,gres/gpu=2, found {text!r}")
        pairs.append((name.strip().lower(), value.strip()))
    return pairs


def tres_limits(text: str) -> dict[str, float]:
    """Return the limits of resources: -1 removes a limit.

    >>> tres_limits("cpu=40,mem=64G,gres/gpu:a100=2,node=-1")
    {'cpu': 40.0, 'mem': 65536.0, 'gres/gpu:a100': 2.0}
    """
    return {name: quantity(value, name) for name, value in tres_pairs(text) if value != "-1"}


def tres_weights(text: str) -> dict[str, float]:
    """Return the weights of resources. The weight of memory is per MB: 0.25G is 0.25 for each GB.

    >>> tres_weights("CPU=1.0,Mem=1024G,GRES/gpu=8.0")
    {'cpu': 1.0, 'mem': 1.0, 'gres/gpu': 8.0}
    """
    weights = {}
    for name, value in tres_pairs(text):
        found = _QUANTITY.fullmatch(value)
        if found is None:
            raise ValueError(f"a weight such as 1.0 or 0.25G, found {value!r}")
        unit = found[2].lower()
        per = (_IN_MB if name == "mem" or name.startswith("bb/") else _TIMES)[unit] if unit else 1.0
        weights[name] = float(found[1]) / per
    return weights
