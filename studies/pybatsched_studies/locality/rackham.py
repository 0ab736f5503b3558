"""Read the days of Rackham that the authors of the study publish: one line per job, with names and values in braces.

`{ id: 1 subtime: 0 delay: 158761 walltime: 864000 cores: 20 user: gbqvmwvt data: 1 data_size: 128.000000 workload: -1
start_time_from_history: 6348758 start_node_from_history: 338 }` is such a line. Times are seconds, `delay` is the run
time, `data` the input file and `data_size` its size in GB, and `workload` the class of the job.

Time 0 of the workload is the submission of the first warm-up job. Jobs that ran then continue on the same node with
their remaining time, at least a second. Jobs that waited then are submitted at 0. Walltimes are those of the file, as
with `walltimes = "requested-strict"`. Jobs of the evaluated class are marked. README.md has all rules.

`python -m pybatsched_studies.locality.rackham DAY.txt.gz DAY.json` writes a day as a workload of Batsim.
"""

from __future__ import annotations

import itertools
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

from pybatsched.errors import InputError
from pybatsched.workload import Workload
from pybatsched.workload.formats import batsim4
from pybatsched.workload.formats.checks import shown
from pybatsched.workload.formats.conversion import NO_RUN_TIME, NO_SIZE, NO_SUBMISSION
from pybatsched.workload.formats.files import BadLineError, lines_of, opened
from pybatsched.workload.inject.input_files import alone_s
from pybatsched.workload.report import Report
from pybatsched.workload.walltimes import Walltimes, plain, tidy

#: The machine of the study: 486 nodes of 20 cores, each a processor.
N_PROCS: Final = 486 * 20
_LEAST_LEFT_S: Final = 1

RUNNING: Final = "ran at time 0: submitted then, run time and walltime shortened by what had passed"
OVER: Final = "ran at time 0, but its run time or walltime was over by then: 1 s is left"
LATE: Final = "ran at time 0, but was started later by the log: taken to start at time 0"
WAITING: Final = "waited at time 0: submitted then"
EARLY: Final = "of class 0, 1 or 2, but submitted before time 0: submitted then"


class JobClass(IntEnum):
    """The class of a job in the study."""

    RUNNING = -2  # at time 0, on the node in the log
    WAITING = -1  # submitted before time 0
    WARM_UP = 0
    EVALUATED = 1
    AFTER = 2


_TEXTS: Final = frozenset({"user", "data"})
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")
_EXACT: Final = 1 << 53  # larger whole numbers are not all exact in floating point
_MOST_CORES: Final = (1 << 31) - 1  # Batsim's
_CLASSES: Final = frozenset(map(int, JobClass))
_ANY_NUMBER: Final = ("a number", lambda _: True)
#: The fields of a line, with their conditions as text and as test.
_FIELDS: Final[Mapping[str, tuple[str, Callable[[float], bool]]]] = {
    "id": ("a whole number from 0", lambda value: value.is_integer() and value >= 0),
    "subtime": _ANY_NUMBER,
    "delay": _ANY_NUMBER,
    "walltime": _ANY_NUMBER,
    "cores": ("a whole number below 2^31", lambda value: value.is_integer() and abs(value) <= _MOST_CORES),
    "user": _ANY_NUMBER,
    "data": _ANY_NUMBER,
    "data_size": ("GB from 0", lambda value: value >= 0),
    "workload": ("a class from -2 to 2", lambda value: value in _CLASSES),
    "start_time_from_history": _ANY_NUMBER,
    "start_node_from_history": ("a whole number", float.is_integer),
}


def read(path: str | Path) -> Workload:
    """Read a file, plain or gzip, as a workload. About 15 µs per job. Raises InputError."""
    rows = list(_rows(path))
    if not rows:
        raise InputError(f"{path}: expected jobs in the format of Rackham, found an empty file")
    report = Report(n_read=len(rows))
    zero_at = _time_zero(rows, path, report)
    n_digits = len(str(max(row["id"] for row in rows)))
    jobs, profiles = [], {}
    for row in rows:
        if (rule := _drop_rule(row)) is not None:
            report.count("dropped", rule, row["line"])
            continue
        job, run_s = _job(row, zero_at, n_digits, report)
        jobs.append(job)
        profiles[job["profile"]] = {"type": "delay", "delay": run_s}
    jobs.sort(key=lambda job: job["subtime"])
    report.n_kept = len(jobs)
    about = {"source": Path(path).name, "shifted_by": plain(zero_at), "report": report.as_json()}
    return Workload(jobs, profiles, N_PROCS, str(path), about)


def _rows(path: str | Path) -> Iterator[dict[str, Any]]:
    """Yield the values of each line by field, and its `line`. Raises InputError."""
    known: dict[int, int] = {}
    with opened(path) as content:
        for line, raw in enumerate(lines_of(content), 1):
            text = raw.decode("utf-8-sig" if line == 1 else "utf-8", "backslashreplace").strip()
            if "\0" in text:
                raise InputError(f"{path}: line {line}: expected text, found a binary file")
            if not text:
                continue
            try:
                words = _words(text)
                row: dict[str, Any] = {
                    name: words[name] if name in _TEXTS else _number(words[name], name) for name in _FIELDS
                }
                if row["workload"] == JobClass.RUNNING and row["start_node_from_history"] < 1:
                    rule = "field start_node_from_history: expected a node from 1 on (it ran)"
                    raise BadLineError(rule, shown(words["start_node_from_history"]))
            except BadLineError as error:
                raise InputError(f"{path}: line {line}: {error.rule}, found {error.found}") from None
            number = int(row["id"])
            if number in known:
                where = f"which is also on line {known[number]}"
                raise InputError(f"{path}: line {line}, field id: expected a unique id, found {number}, {where}")
            known[number] = line
            yield row | {"id": number, "line": line}


def _time_zero(rows: list[dict[str, Any]], path: str | Path, report: Report) -> float:
    """Return the time of the log that is time 0: the first submission of class 0, or else of class 1 or 2. O(n)."""
    of_study = [row for row in rows if row["workload"] >= JobClass.WARM_UP and row["subtime"] >= 0]
    if not of_study:
        what = "expected a job of class 0, 1 or 2, whose submission is time 0, found none"
        raise InputError(f"{path}: field workload: {what}")
    warm_up = [row["subtime"] for row in of_study if row["workload"] == JobClass.WARM_UP]
    zero_at: float = min(warm_up or (row["subtime"] for row in of_study))
    if not warm_up:
        report.note(f"no job of class 0: time 0 is the first submission of class 1 or 2, at {plain(zero_at):,} s")
    return zero_at


def _drop_rule(row: Mapping[str, Any]) -> str | None:
    """Return why a line is no job of the workload; None if it is one."""
    rules = ((NO_SUBMISSION, row["subtime"] < 0), (NO_RUN_TIME, row["delay"] <= 0))
    return next((rule for rule, holds in (*rules, (NO_SIZE.format("cores"), row["cores"] <= 0)) if holds), None)


def _job(row: Mapping[str, Any], zero_at: float, n_digits: int, report: Report) -> tuple[dict[str, Any], int | float]:
    """Return a job at time 0 or later, and its run time.

    Batsim takes jobs of the same time by id as text: ids get as many leading zeros as the greatest needs.
    """
    kind, after_s = row["workload"], row["subtime"] - zero_at
    run_s, requested_s = row["delay"], row["walltime"] if row["walltime"] > 0 else None
    passed_s = max(zero_at - row["start_time_from_history"], 0.0) if kind == JobClass.RUNNING else 0.0
    left = [run_s - passed_s] + ([] if requested_s is None else [requested_s - passed_s])
    changes = {
        OVER: passed_s > 0 and min(left) < _LEAST_LEFT_S,
        RUNNING: kind == JobClass.RUNNING,
        LATE: kind == JobClass.RUNNING and row["start_time_from_history"] > zero_at,
        WAITING: kind == JobClass.WAITING,
        EARLY: kind >= JobClass.WARM_UP and after_s < 0,
    }
    alone = alone_s(run_s, row["data_size"])
    if passed_s > 0:
        run_s, *requested = (max(one, _LEAST_LEFT_S) for one in left)
        requested_s = requested[0] if requested else None
    times = Walltimes("requested-strict").of(run_s, requested_s)
    for rule in (*(rule for rule, holds in changes.items() if holds), times.changed):
        if rule is not None:
            report.count("changed", rule, row["line"])
    history = {"history_node": int(row["start_node_from_history"]) - 1, "history_start": tidy(-passed_s)}
    job = {
        "id": str(row["id"]).zfill(n_digits),
        "subtime": plain(max(after_s, 0.0) if kind >= JobClass.WARM_UP else 0.0),
        "res": int(row["cores"]),
        "profile": str(plain(run_s)),
        **({} if times.walltime_s is None else {"walltime": times.walltime_s}),
        "user": row["user"],
        "input_file": row["data"],
        "input_size_gb": plain(row["data_size"]),
        "alone_s": alone,
        "evaluated": kind == JobClass.EVALUATED,
        **(history if kind == JobClass.RUNNING else {}),
    }
    return job, plain(run_s)


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
        if field_name not in _FIELDS:
            raise BadLineError("expected a field of the Rackham format", shown(field_name[:40]))
        if field_name in found:
            raise BadLineError(f"field {field_name}: expected once", "it twice")
        if not value or (value.endswith(":") and value[:-1] in _FIELDS):  # or the name of the next field
            raise BadLineError(f"field {field_name}: expected a value", "nothing")
        found[field_name] = value
    for field_name in _FIELDS:
        if field_name not in found:
            raise BadLineError(f"field {field_name}: expected on every line", "nothing")
    return found


def _number(text: str, name: str) -> float:
    """Read a number and check the condition of its field."""
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    expected, is_right = _FIELDS[name]
    if not abs(value) < _EXACT or not is_right(value):
        raise BadLineError(f"field {name}: expected {expected}", shown(text[:40]))
    return value


if __name__ == "__main__":
    batsim4.write(read(sys.argv[1]), sys.argv[2])
