"""Names of workloads made from a family's: ``kth-resample03-week07-load0.9-shake02``, in this order."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

_ENDINGS: Final = re.compile(
    r"(?P<resample>-resample[0-9]+)?(?P<week>-week[0-9]{2,})?(?P<part>-part[0-9]+)?"
    r"(?P<load>-load[0-9][0-9.e+-]*)?(?P<shake>-shake[0-9]+)?"
)


class WorkloadName(NamedTuple):
    """The parts of a name. `load` is the offered load that submissions were scaled to, None if they were not.

    `unit` is the name without the endings of loads and shaken copies: workloads with different units are independent,
    copies of one unit are not. `without_load` is equal for the same jobs at different loads.
    """

    family: str
    unit: str
    without_load: str
    load: float | None = None
    is_week: bool = False


def ending(kind: str, number: float, n: int = 0) -> str:
    """Return the ending of a name: the number of a copy, with as many digits as `n` has (at least two), or a load.

    >>> ending("week", 7), ending("shake", 7, 100), ending("load", 0.9)
    ('-week07', '-shake007', '-load0.9')
    """
    if kind == "load":
        return f"-load{number:g}"
    return f"-{kind}{int(number):0{max(len(str(n)), 2)}}"


def name_of_file(path: str | Path) -> str:
    """Return the name of a file without its endings."""
    name = Path(path).name
    for suffix in (".gz", ".zst", ".json", ".swf", ".txt", ".csv", ".parquet"):
        name = name.removesuffix(suffix)
    return name


def parsed(workload: str, names: Iterable[str] = ()) -> WorkloadName:
    """Return the parts of a name. `names` are those of the families; if there are none, any name is one. O(names).

    >>> parsed("kth-week07-load0.9-shake02", ["kth", "ricc"])
    WorkloadName(family='kth', unit='kth-week07', without_load='kth-week07-shake02', load=0.9, is_week=True)
    >>> parsed("kth-week07", ["kth", "kth-week07"]).family, parsed("other", ["kth"]).family
    ('kth-week07', 'other')
    """
    known = sorted(set(names), key=len, reverse=True)
    for family in known:
        if workload.startswith(family) and (found := _ENDINGS.fullmatch(workload[len(family) :])):
            return _named(family, found)
    if not known and (found := re.fullmatch(rf"(?P<family>.+?){_ENDINGS.pattern}", workload)):
        return _named(found["family"], found)
    return WorkloadName(workload, workload, workload)


def _named(family: str, found: re.Match[str]) -> WorkloadName:
    unit = "".join([family, *(found[name] or "" for name in ("resample", "week", "part"))])
    try:
        load = float(found["load"].removeprefix("-load")) if found["load"] else None
    except ValueError:  # not a load: the name is the user's
        whole = family + found[0].removeprefix(family)
        return WorkloadName(whole, whole, whole)
    return WorkloadName(family, unit, unit + (found["shake"] or ""), load, found["week"] is not None)
