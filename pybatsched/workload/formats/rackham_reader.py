"""Read files of the Rackham format: one line per job, with names and values in braces.

`{ id: 1 subtime: 0 delay: 158761 walltime: 864000 cores: 20 user: gbqvmwvt data: 1 data_size: 128.000000 workload: -1
start_time_from_history: 6348758 start_node_from_history: 338 }` is such a line. The authors of the locality study use
this format: times are seconds, `delay` is the run time, `data` the input file and `data_size` its size in GB, and
`workload` the class of the job.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Final, NamedTuple

from pybatsched.errors import InputError
from pybatsched.workload.formats.checks import shown
from pybatsched.workload.formats.files import BadLineError, lines_of, opened
from pybatsched.workload.report import Tally


class JobClass(IntEnum):
    """The class of a job in the study."""

    RUNNING = -2  # at time 0, on the node in the log
    WAITING = -1  # submitted before time 0
    WARM_UP = 0
    EVALUATED = 1
    AFTER = 2


class RackhamJob(NamedTuple):
    """One job: all fields of its line, and the line number."""

    number: int
    submitted_at: float
    run_s: float
    walltime_s: float
    n_cores: int
    user: str
    file: str
    size_gb: float
    kind: JobClass
    started_at: float
    node: int
    line: int


#: The names of the fields on a line, in the order of `RackhamJob`.
FIELDS: Final = (
    "id",
    "subtime",
    "delay",
    "walltime",
    "cores",
    "user",
    "data",
    "data_size",
    "workload",
    "start_time_from_history",
    "start_node_from_history",
)
_TEXTS: Final = frozenset({"user", "data"})
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")
_EXACT: Final = 1 << 53  # larger whole numbers are not all exact in floating point
_MOST_CORES: Final = (1 << 31) - 1  # Batsim's

_CLASSES: Final = frozenset(map(int, JobClass))
_ANY_NUMBER: Final = ("a number", lambda _: True)
#: Conditions for fields, as text and as test.
_RULES: Final[dict[str, tuple[str, Callable[[float], bool]]]] = {
    "id": ("a whole number from 0", lambda value: value.is_integer() and value >= 0),
    "cores": ("a whole number below 2^31", lambda value: value.is_integer() and abs(value) <= _MOST_CORES),
    "data_size": ("GB from 0", lambda value: value >= 0),
    "workload": ("a class from -2 to 2", lambda value: value in _CLASSES),
    "start_node_from_history": ("a whole number", float.is_integer),
}


@dataclass(slots=True)
class RackhamTrace:
    """A file in memory: its jobs, and the lines that a lenient reading has skipped."""

    source: str
    jobs: list[RackhamJob] = field(default_factory=list)
    bad: dict[str, Tally] = field(default_factory=dict)


def read_rackham(path: str | Path, *, lenient: bool = False) -> RackhamTrace:
    """Read a file, plain or gzip. About 10 µs per job. A lenient reading counts invalid lines in `bad`."""
    trace = RackhamTrace(str(path))
    with opened(path) as content:
        for line, raw in enumerate(lines_of(content), 1):
            text = raw.decode("utf-8-sig" if line == 1 else "utf-8", "backslashreplace").strip()
            if "\0" in text:
                raise InputError(f"{path}: line {line}: expected text, found a binary file")
            if not text:
                continue
            try:
                trace.jobs.append(_job(text, line))
            except BadLineError as error:
                if not lenient:
                    raise InputError(f"{path}: line {line}: {error.rule}, found {error.found}") from None
                trace.bad.setdefault(error.rule, Tally(error.rule, "dropped")).add(line)
    if not trace.jobs and not trace.bad:
        raise InputError(f"{path}: expected jobs in the Rackham format, found an empty file")
    return trace


def _job(text: str, line: int) -> RackhamJob:
    words = _words(text)
    number, at, run_s, walltime_s, n_cores, size_gb, kind, started_at, node = (
        _number(words[name], name) for name in FIELDS if name not in _TEXTS
    )
    if kind == JobClass.RUNNING and node < 1:
        rule = "field start_node_from_history: expected a node from 1 on (it ran)"
        raise BadLineError(rule, shown(words["start_node_from_history"]))
    times = (at, run_s, walltime_s)
    data = (words["user"], words["data"], size_gb)
    return RackhamJob(int(number), *times, int(n_cores), *data, JobClass(int(kind)), started_at, int(node), line)


def _words(text: str) -> dict[str, str]:
    """Return the values of a line by name. The line must have all fields of the format and no others."""
    if not text.startswith("{"):
        raise BadLineError("expected a line as { id: 1 subtime: 0 … }", shown(text[:40]))
    if not text.endswith("}"):
        raise BadLineError("expected a } at the end of the line", shown(text[-20:]))
    words = text[1:-1].split()
    found: dict[str, str] = {}
    for name, value in itertools.zip_longest(words[::2], words[1::2], fillvalue=""):
        field_name = name.removesuffix(":")
        if field_name == name:
            raise BadLineError("expected the name of a field with a colon", shown(name[:40]))
        if field_name not in FIELDS:
            raise BadLineError("expected a field of the Rackham format", shown(field_name[:40]))
        if field_name in found:
            raise BadLineError(f"field {field_name}: expected once", "it twice")
        if not value or (value.endswith(":") and value[:-1] in FIELDS):  # or the name of the next field
            raise BadLineError(f"field {field_name}: expected a value", "nothing")
        found[field_name] = value
    for field_name in FIELDS:
        if field_name not in found:
            raise BadLineError(f"field {field_name}: expected on every line", "nothing")
    return found


def _number(text: str, name: str) -> float:
    """Read a number and check the condition of its field."""
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    expected, is_right = _RULES.get(name, _ANY_NUMBER)
    if not abs(value) < _EXACT or not is_right(value):
        raise BadLineError(f"field {name}: expected {expected}", shown(text[:40]))
    return value
