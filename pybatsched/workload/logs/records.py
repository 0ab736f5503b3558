"""Records of batch systems, from the accounting of Slurm or from tables, as a log (rules: docs/traces.md).

`slurm` and `tables.reader` make columns of a file. Here they get ids, run times and the reasons why some are no jobs.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Any, Final

import polars as pl

from pybatsched.errors import setting
from pybatsched.workload.formats.conversion import NO_RUN_TIME, NO_SUBMISSION
from pybatsched.workload.formats.files import Format
from pybatsched.workload.logs import slurm_values as values
from pybatsched.workload.logs.table import LogTable, first_of
from pybatsched.workload.report import RuleCount

WAITING_TASKS: Final = "tasks of an array that had not started at the end of the log: dropped"
CANCELLED: Final = "cancelled before it started: dropped"
NOT_STARTED: Final = "not started at the end of the log: dropped"
RUNNING: Final = "still running at the end of the log: dropped"
COPY: Final = "a record that another line repeats, or repeats with the end of the job: dropped"
WITHOUT_ZONE: Final = (
    "times have no zone and are read as UTC: if the clocks of the cluster change for daylight saving time, some times "
    f"are wrong by an hour ({setting('timezone', 'Europe/Paris')})"
)
AMBIGUOUS: Final = (
    "local times that exist twice, when daylight saving time ends: the first one is taken, or the second one if a job "
    "would start before its submission or end before its start ({:,} times)"
)
MISSING_TIMES: Final = "local times that do not exist, when daylight saving time begins (is the time zone right?)"

#: The names of text fields, which jobs keep.
LABELS: Final = (
    *("user", "group", "account", "partition", "qos", "job_name", "exit_code", "dependency", "node_list"),
    *("constraint", "gpu_type"),
)
#: The columns of sizes.
SIZE_COLUMNS: Final = tuple(
    f"{kind}_{unit}" for kind in ("allocated", "requested") for unit in ("cores", "nodes", "gpus")
)
#: The columns that readers of records fill. Ids are a number, perhaps with a task and a part, or a name; `elapsed_s` is
#: the run time by the log, `memory_gb` and `used_gb` are of the whole job, `power_w` is that of all its nodes.
#: `time_limit` is UNLIMITED or Partition_Limit, if there is no number. `is_node_memory` says that the job requested as
#: much memory on each node. Several types of GPUs are joined by commas.
SCHEMA: Final[Mapping[str, Any]] = {
    **dict.fromkeys(("number", "task", "part", "array_limit", "cores_per_node", "line"), pl.Int64),
    "name": pl.String,
    **dict.fromkeys(("is_waiting", "is_node_memory", "exclusive"), pl.Boolean),
    **dict.fromkeys(("submitted_at", "eligible_at", "started_at", "ended_at", "elapsed_s", "requested_s"), pl.Float64),
    **dict.fromkeys(SIZE_COLUMNS, pl.Int64),
    **dict.fromkeys(("memory_gb", "used_gb", "priority", "energy_j", "power_w"), pl.Float64),
    **dict.fromkeys((*LABELS, "state", "time_limit"), pl.String),
}
_NUMBER: Final = ("number", "task", "part")
_FORBIDDEN: Final = r'[!,"\\\s\x00\x1c-\x1f]'


#: A time, and an amount of memory, as columns.
TIME: Final = pl.Struct(
    {"at": pl.Float64, "is_local": pl.Boolean, "is_ambiguous": pl.Boolean, "is_missing": pl.Boolean}
)
MEMORY: Final = pl.Struct({"gb": pl.Float64, "per": pl.String})


@dataclass(slots=True)
class Records:
    """The records of a file while it is read; `parts` are tables with some of the columns of records.

    `n_local` counts times without a zone, `n_ambiguous` those that exist twice, `n_missing` those that do not exist.
    `set_name` is the public set that a table belongs to.
    """

    source: str
    format: Format
    where: str
    size_in: str
    zone: str
    parts: list[pl.DataFrame] = field(default_factory=list)
    bad: dict[str, RuleCount] = field(default_factory=dict)
    rule_counts: list[RuleCount] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    n_local: int = 0
    n_ambiguous: int = 0
    n_missing: int = 0
    set_name: str = ""

    def jobs(self) -> pl.DataFrame:
        """Return the records that have been read, with all columns of records."""
        parts = self.parts or [pl.DataFrame(schema=SCHEMA)]
        self.parts = []
        jobs = pl.concat(parts, how="diagonal")
        missing = (pl.lit(None, kind).alias(name) for name, kind in SCHEMA.items() if name not in jobs.columns)
        return jobs.with_columns(missing).select(*SCHEMA)

    def counted(self, times: pl.DataFrame) -> pl.Series:
        """Return times, and count those without a zone."""
        self.n_local += int(times["is_local"].sum())
        self.n_ambiguous += int(times["is_ambiguous"].sum())
        self.n_missing += int(times["is_missing"].sum())
        return times["at"]

    def drop(self, rule: str, lines: Sequence[int]) -> None:
        """Count records that are left out."""
        if lines:
            self.rule_counts.append(RuleCount(rule, "dropped", where=self.where))
            self.rule_counts[-1].add_all(lines)

    def count_bad(self, rule: str, line: int) -> None:
        """Count an invalid line that is skipped."""
        self.bad.setdefault(rule, RuleCount(rule, "dropped", where=self.where)).add(line)

    def log(self, jobs: pl.DataFrame) -> LogTable:
        """Return the log of these records, which are the rows of `jobs`. O(n)."""
        jobs = jobs.with_columns(
            pl.coalesce("elapsed_s", pl.col("ended_at") - pl.col("started_at")).alias("run_s"),
            (pl.col("started_at") - pl.col("submitted_at")).alias("wait_s"),
            pl.col("is_waiting").fill_null(value=False),
            pl.lit(None, pl.Int64).alias("attempt"),
            pl.col("name").str.contains(_FORBIDDEN).fill_null(value=False).alias("is_cleaned"),
        )
        jobs = jobs.with_columns(given_id().alias("given_id"), _id_of(jobs).alias("id"))
        if not jobs["given_id"].is_unique().all():
            jobs = self._without_copies(jobs)
            number, n_all = pl.int_range(1, pl.len() + 1).over("given_id"), pl.len().over("given_id")
            jobs = jobs.with_columns(pl.when(n_all > 1).then(number).alias("attempt"))
        jobs = _with_unique_ids(jobs)
        jobs = jobs.with_columns(first_of(_reasons().items()).alias("left_out"))
        names = {
            "id": "field JobID",
            "submitted_at": "submission times",
            "run_s": "run times",
            "requested_s": "time limits",
        }
        ended = jobs.filter(pl.col("left_out").is_null())
        notes = [WITHOUT_ZONE] if self.n_local and self.zone.upper() == "UTC" else []
        notes += [AMBIGUOUS.format(self.n_ambiguous)] if self.n_ambiguous else []
        notes += [f"{MISSING_TIMES}: read as an hour later ({self.n_missing:,} times)"] if self.n_missing else []
        ignored = ", ".join(dict.fromkeys(self.ignored))[:200]
        return LogTable(
            self.source,
            self.format,
            jobs,
            self.where,
            self.size_in,
            ended.select(pl.col("submitted_at").min()).item() or 0.0,
            self.zone,
            self.n_local,
            self.n_missing,
            names=names | self.names,
            bad=self.bad,
            rule_counts=self.rule_counts,
            remarks=self.remarks,
            notes=[*notes, *([f"columns that are not used: {ignored}"] if ignored else [])],
            set_name=self.set_name,
        )

    def _without_copies(self, jobs: pl.DataFrame) -> pl.DataFrame:
        """Drop lines that repeat a record, as in months that were exported separately, or lack its end. O(n)."""
        key = ("given_id", "submitted_at", "started_at")
        rows = jobs.with_row_index("place").filter(~pl.col("is_waiting") & pl.struct(key).is_duplicated())
        are_ended = rows.select(has_ended()).to_series().to_list()
        by_run: dict[Any, tuple[dict[str, Any], bool]] = {}
        dropped: dict[int, int] = {}  # the line of each place
        for row, is_ended in zip(rows.iter_rows(named=True), are_ended, strict=True):
            place, line = row.pop("place"), row.pop("line")
            run = tuple(row[name] for name in key)
            first, first_ended = by_run.setdefault(run, (row | {"at": (place, line)}, is_ended))
            if first["at"] == (place, line):
                continue
            if not is_ended or {**row, "at": first["at"]} == first:
                dropped[place] = line
            elif not first_ended:
                first_place, dropped_line = first["at"]
                dropped[first_place] = dropped_line
                by_run[run] = (row | {"at": (place, line)}, is_ended)
            # else the lines differ in more than their end: both are kept, as attempts
        self.drop(COPY, [dropped[place] for place in sorted(dropped)])
        return jobs.with_row_index("place").filter(~pl.col("place").is_in(list(dropped))).drop("place")


def not_before(at: pl.Series, least_at: pl.Series, zone: tzinfo) -> pl.Series:
    """Return local times, or the second time of that name where the first one is too early."""
    if not (at < least_at).any():
        return at
    pairs = zip(at, least_at, strict=True)
    return pl.Series(at.name, [values.not_before(one, least, zone) for one, least in pairs], dtype=pl.Float64)


def as_dict(found: Any) -> dict[str, Any] | None:
    """Return a named tuple as the value of a column of structs."""
    return None if found is None else found._asdict()


def has_ended() -> pl.Expr:
    """Return whether a job is not waiting or running at the end of the log."""
    is_known = pl.col("ended_at").is_not_null() | pl.col("elapsed_s").is_not_null()
    return ~pl.col("state").is_in(list(values.ALIVE)).fill_null(value=False) & is_known


def _reasons() -> dict[str, pl.Expr]:
    """Return the reasons why a record is not a job that ran to its end, and where they apply."""
    is_alive = pl.col("state").is_in(list(values.ALIVE)).fill_null(value=False)
    is_cancelled = pl.col("state").is_in(["CANCELLED", "REVOKED"]).fill_null(value=False)
    is_pending = pl.col("state").eq_missing("PENDING")
    return {
        WAITING_TASKS: pl.col("is_waiting"),
        CANCELLED: is_cancelled & (pl.col("run_s").fill_null(0) == 0),
        RUNNING: ~has_ended() & pl.col("started_at").is_not_null() & ~is_pending,
        NOT_STARTED: is_alive,
        NO_SUBMISSION: pl.col("submitted_at").is_null(),
        NO_RUN_TIME: ~has_ended(),
    }


def given_id() -> pl.Expr:
    """Return the ids as the log has them, without leading zeros. Those of waiting tasks end in brackets."""
    return _joined("name", "number", "task", "part") + pl.when("is_waiting").then(pl.lit("_[]")).otherwise(pl.lit(""))


def _id_of(jobs: pl.DataFrame) -> pl.Expr:
    """Return ids with as many leading zeros that numbers, tasks and parts have equal lengths, and valid names. O(n)."""
    digits = {name: len(str(jobs[name].max() or 0)) for name in _NUMBER}
    name = pl.col("name").str.replace_all(_FORBIDDEN, "_")
    return _joined(name, *(pl.col(name).cast(pl.String).str.zfill(n) for name, n in digits.items()))


def _with_unique_ids(jobs: pl.DataFrame) -> pl.DataFrame:
    """Return jobs with the ids of further attempts, `ID-2` and so on; a number makes any other id unique, too. O(n)."""
    is_attempt = pl.col("attempt") > 1
    made = jobs.select(
        pl.when(is_attempt).then(pl.format("{}-{}", "id", "attempt")).otherwise("id").alias("id"),
        pl.col("id").alias("base"),
        pl.col("attempt").fill_null(1),
        (is_attempt.fill_null(value=False) | pl.col("is_cleaned")).alias("is_made"),
    )
    if jobs["name"].is_not_null().any() and not made["id"].is_unique().all():
        taken = set(made.filter(~pl.col("is_made"))["id"])
        ids = []
        for one, base, attempt, is_made in made.iter_rows():
            numbers = itertools.count(attempt + 1)
            while is_made and one in taken:
                one = f"{base}-{next(numbers)}"  # noqa: PLW2901
            taken.add(one)
            ids.append(one)
        return jobs.with_columns(pl.Series("id", ids))
    return jobs.with_columns(made["id"])


def _joined(name: str | pl.Expr, *parts: Any) -> pl.Expr:
    """Return names, or numbers with their task and part: 123_4+5."""
    number, task, part = (pl.col(one).cast(pl.String) if isinstance(one, str) else one for one in parts)
    with_task = pl.when(pl.col("task").is_not_null()).then(pl.lit("_") + task).otherwise(pl.lit(""))
    with_part = pl.when(pl.col("part").is_not_null()).then(pl.lit("+") + part).otherwise(pl.lit(""))
    return pl.coalesce(name, number + with_task + with_part)
