"""Read files of the Rackham format: one line per job, with names and values in braces (rules: docs/workloads.md).

`{ id: 1 subtime: 0 delay: 158761 walltime: 864000 cores: 20 user: gbqvmwvt data: 1 data_size: 128.000000 workload: -1
start_time_from_history: 6348758 start_node_from_history: 338 }` is such a line. The authors of the locality study use
this format: times are seconds, `delay` is the run time, `data` the input file and `data_size` its size in GB, and
`workload` the class of the job.

Time 0 of the workload is the submission of the first warm-up job. Jobs that ran then continue on the same node with
their remaining time. Jobs that waited then are submitted at 0. Jobs of the evaluated class are marked, so that metrics
can be limited to them.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

import polars as pl

from pybatsched.errors import InputError
from pybatsched.workload.formats.checks import shown
from pybatsched.workload.formats.conversion import NO_SUBMISSION
from pybatsched.workload.formats.files import BadLineError, lines_of, opened
from pybatsched.workload.job_columns import computed, tidied
from pybatsched.workload.logs.table import LogTable
from pybatsched.workload.report import RuleCount
from pybatsched.workload.walltimes import plain

#: The machine of the study: 486 nodes of 20 cores, each a processor.
N_NODES: Final = 486
NODE_CORES: Final = 20
_LEAST_LEFT_S: Final = 1

RUNNING: Final = "ran at time 0: submitted then, run time and walltime shortened by what had passed"
OVER: Final = "ran at time 0, but its run time or walltime was over by then: 1 s is left"
LATE: Final = "ran at time 0, but was started later by the log: taken to start at time 0"
WAITING: Final = "waited at time 0: submitted then"
EARLY: Final = "of class 0, 1 or 2, but submitted before time 0: submitted then"
OUT_OF_TURN: Final = "submitted with the job above it, but of a lower id: Batsim takes it first"


class JobClass(IntEnum):
    """The class of a job in the study."""

    RUNNING = -2  # at time 0, on the node in the log
    WAITING = -1  # submitted before time 0
    WARM_UP = 0
    EVALUATED = 1
    AFTER = 2


#: The fields of a line, and the columns of the table that they fill.
FIELDS: Final = {
    "id": "id",
    "subtime": "submitted_at",
    "delay": "run_s",
    "walltime": "requested_s",
    "cores": "allocated_cores",
    "user": "user",
    "data": "file",
    "data_size": "size_gb",
    "workload": "kind",
    "start_time_from_history": "started_at",
    "start_node_from_history": "node",
}
_WHOLE: Final = ("id", "allocated_cores", "kind", "node", "line")
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
_SCHEMA: Final = {
    **dict.fromkeys(FIELDS.values(), pl.Float64),
    **dict.fromkeys(_WHOLE, pl.Int64),
    **dict.fromkeys(("user", "file"), pl.String),
}


def read_rackham(path: str | Path, *, lenient: bool = False) -> LogTable:
    """Read a file, plain or gzip. About 10 µs per job. A lenient reading counts invalid lines in `bad`."""
    rows: list[tuple[Any, ...]] = []
    bad: dict[str, RuleCount] = {}
    with opened(path) as content:
        for line, raw in enumerate(lines_of(content), 1):
            text = raw.decode("utf-8-sig" if line == 1 else "utf-8", "backslashreplace").strip()
            if "\0" in text:
                raise InputError(f"{path}: line {line}: expected text, found a binary file")
            if not text:
                continue
            try:
                rows.append((*_job(text), line))
            except BadLineError as error:
                if not lenient:
                    raise InputError(f"{path}: line {line}: {error.rule}, found {error.found}") from None
                bad.setdefault(error.rule, RuleCount(error.rule, "dropped")).add(line)
    if not rows and not bad:
        raise InputError(f"{path}: expected jobs in the Rackham format, found an empty file")
    jobs = pl.DataFrame(rows, schema=_SCHEMA, orient="row")
    zero_at, remarks = _time_zero(jobs)
    return LogTable(
        str(path),
        "Rackham",
        _from(zero_at or 0.0, jobs),
        size_in="cores",
        zero_at=zero_at or 0.0,
        header={"MaxProcs": str(N_NODES * NODE_CORES)},
        names={"id": "field id"},
        bad=bad,
        remarks=remarks,
        has_allocated=False,
    )


def _time_zero(jobs: pl.DataFrame) -> tuple[float | None, list[str]]:
    """Return the time of the log that is time 0, and a remark about it; None without a job of class 0, 1 or 2. O(n)."""
    submitted = jobs.filter(pl.col("submitted_at") >= 0)
    for least, most, remark in ((0, 0, ""), (1, 2, "no job of class 0: ")):
        at = submitted.filter(pl.col("kind").is_between(least, most)).select(pl.col("submitted_at").min()).item()
        if at is not None:
            of = f"{remark}time 0 is the first submission of class 1 or 2, at {plain(at):,} s"
            return at, [of] if remark else []
    return None, []


def _from(zero_at: float, jobs: pl.DataFrame) -> pl.DataFrame:
    """Return jobs with the columns of a log, and with those for their state at time 0. `subtime` is from time 0 on."""
    at, is_running = pl.col("submitted_at"), pl.col("kind") == JobClass.RUNNING
    is_of_study = pl.col("kind") >= JobClass.WARM_UP
    passed_s = pl.max_horizontal(zero_at - pl.col("started_at"), 0)
    return jobs.with_columns(
        pl.lit(None, pl.Int64).alias("requested_cores"),
        pl.lit(None, pl.Float64).alias("wait_s"),
        pl.when(at < 0).then(pl.lit(NO_SUBMISSION)).alias("left_out"),
        pl.when(is_of_study).then(pl.max_horizontal(at - zero_at, 0)).otherwise(0.0).alias("subtime"),
        pl.when(is_running).then(passed_s).otherwise(0.0).alias("passed_s"),
        (is_running & (pl.col("started_at") > zero_at)).alias("is_late"),
        (is_of_study & (at < zero_at)).alias("is_early"),
        (pl.col("kind") == JobClass.EVALUATED).alias("evaluated"),
    )


#: Whether a job is of class 0, 1 or 2, with a known submission.
IS_OF_STUDY: Final = (pl.col("kind") >= JobClass.WARM_UP) & (pl.col("submitted_at") >= 0)


def check_time_zero(log: LogTable) -> None:
    """Raise InputError for a log without a job whose submission is time 0."""
    if not log.jobs.select(IS_OF_STUDY.any()).item():
        raise InputError(
            f"{log.source}: field workload: expected a job of class 0, 1 or 2, whose submission is time 0, found none"
        )


def is_over() -> pl.Expr:
    """Return whether less than a second is left of the run time or the walltime of a job that ran at time 0."""
    passed_s, walltime_s = pl.col("passed_s"), pl.col("requested_s").fill_null(0)
    has_no_walltime_left = (walltime_s > 0) & (walltime_s < passed_s + _LEAST_LEFT_S)
    return (passed_s > 0) & ((pl.col("run_s") - passed_s < _LEAST_LEFT_S) | has_no_walltime_left)


#: What changes jobs, and whether it does.
CHANGES: Final[Mapping[str, pl.Expr]] = {
    OVER: pl.col("is_over"),
    RUNNING: pl.col("kind") == JobClass.RUNNING,
    LATE: pl.col("is_late"),
    WAITING: pl.col("kind") == JobClass.WAITING,
    EARLY: pl.col("is_early"),
}


def from_time_zero(jobs: pl.DataFrame) -> pl.DataFrame:
    """Return jobs with what is left of their run times and walltimes at time 0, at least a second each. O(n)."""
    left = (
        pl.when(pl.col("passed_s") > 0)
        .then(pl.max_horizontal(pl.col(name) - pl.col("passed_s"), _LEAST_LEFT_S))
        .otherwise(name)
        for name in ("run_s", "requested_s")
    )
    run_s, requested_s = left
    requested_s = pl.when(pl.col("requested_s").is_not_null()).then(requested_s)
    return jobs.with_columns(
        pl.col("run_s").alias("whole_s"), is_over().alias("is_over"), run_s.alias("run_s"), requested_s
    )


def is_out_of_turn() -> pl.Expr:
    """Return whether Batsim takes a job before the job above, which has the same submission and a greater id."""
    at, number = pl.col("subtime"), pl.col("id")
    return (at == at.shift(1)) & (number < number.shift(1))


def job_fields(jobs: pl.DataFrame, ids: pl.Series) -> dict[str, pl.Expr | pl.Series]:
    """Return the fields of jobs of the study, by name.

    Batsim takes jobs of the same time by id as text: ids get as many leading zeros as the greatest of the `ids` of the
    log, or of the jobs, needs. O(n).
    """
    from pybatsched.workload.inject.input_files import alone_s  # noqa: PLC0415  imports pydantic

    n_digits = len(str(pl.concat([ids, jobs["id"]]).max()))
    is_running = pl.col("kind") == JobClass.RUNNING
    began_at = tidied(-jobs["passed_s"])
    return {
        "id": pl.col("id").cast(pl.String).str.zfill(n_digits),
        "user": pl.col("user"),
        "input_file": pl.col("file"),
        "input_size_gb": pl.col("size_gb"),
        "alone_s": computed(jobs.select("whole_s", "size_gb"), alone_s, pl.Float64),
        "evaluated": pl.col("evaluated"),
        "history_node": pl.when(is_running).then(pl.col("node") - 1),
        "history_start": pl.when(is_running).then(pl.lit(began_at)),
    }


def _job(text: str) -> tuple[Any, ...]:
    """Return the values of a line, in the order of the fields."""
    words = _words(text)
    found: dict[str, Any] = {name: words[name] if name in _TEXTS else _number(words[name], name) for name in FIELDS}
    if found["workload"] == JobClass.RUNNING and found["start_node_from_history"] < 1:
        rule = "field start_node_from_history: expected a node from 1 on (it ran)"
        raise BadLineError(rule, shown(words["start_node_from_history"]))
    return tuple(int(value) if FIELDS[name] in _WHOLE else value for name, value in found.items())


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
