"""A log in memory: one table with a row for each job, and facts about the file and its machine."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import polars as pl

from pybatsched.errors import InputError, setting
from pybatsched.workload.formats.conversion import NO_RUN_TIME
from pybatsched.workload.formats.files import Format
from pybatsched.workload.report import PLACES_KEPT, Fate, RuleCount
from pybatsched.workload.selection import OTHER_PARTITION, check_partitions

_COUNT: Final = re.compile(r"(?:\d{1,3}(?:,\d{3})+|\d{1,15})(?![\d.]|,\d)")
#: A label that is a number.
WHOLE_NUMBER: Final = r"^-?[0-9]{1,15}$"
#: Status codes of parts of a job that was suspended or checkpointed.
PART_STATUS: Final = (2, 3, 4)
#: What the size of a job can count; a log in SWF has processors.
UNITS: Final[Mapping[str, str]] = {"procs": "processors", "cores": "cores", "nodes": "nodes", "gpus": "gpus"}


@dataclass(slots=True)
class LogTable:
    """A log. The rows of `jobs` are in the order of the file, and null is an unknown value.

    All logs have these columns:

    | columns | type | meaning |
    |---|---|---|
    | `id` | integer or text | the id of the job |
    | `submitted_at` | number | the time of the submission, in seconds |
    | `started_at`, `wait_s` | number | the start, and the time from the submission to it |
    | `run_s` | number | the time from start to end, without suspended time if the log says so |
    | `requested_s` | number | the requested time |
    | `allocated_…`, `requested_…` | integer | sizes that the job got, and asked for, in each unit |
    | `user`, `group`, `partition`, … | text | names, or numbers as text without leading zeros |
    | `left_out` | text | why the job is no job of a workload, such as its state |
    | `line` | integer | the line or row of the file |

    Formats have more: SWF `status`, `used_memory`, `depends_on`, … (`logs.swf`), records of batch systems `state`,
    `memory_gb`, `attempt`, … (`logs.records`).

    Numbers may be wrong, such as a run time below 0: a check finds them, and a conversion drops them. `where` is what
    `line` counts, and `size_in` the unit of sizes. Time 0 of a workload is `zero_at` of the log. `zone` is that of
    times without a zone; `n_local` counts these, and `n_missing` those that do not exist. `extras` are other fields
    that jobs keep, with their columns, which are text. `header` has the values of the file by key; a key that occurs
    several times has one line per value. `names` are what the file calls the columns. `bad` counts the lines that a
    lenient reading has skipped, `rule_counts` lines that were dropped or not used for another reason, and `others` the
    jobs of partitions that are not selected. `remarks` are notes that checks report, too, and `notes` others.
    `has_allocated` says whether the log has sizes that jobs got. `set_name` is the public set that the log belongs to.
    """

    source: str
    format: Format
    jobs: pl.DataFrame
    where: str = "line"
    size_in: str = "procs"
    zero_at: float = 0.0
    zone: str = ""
    n_local: int = 0
    n_missing: int = 0
    header: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    extras: Mapping[str, str] = field(default_factory=dict)
    bad: Mapping[str, RuleCount] = field(default_factory=dict)
    rule_counts: Sequence[RuleCount] = ()
    others: RuleCount | None = None
    remarks: Sequence[str] = ()
    notes: Sequence[str] = ()
    has_allocated: bool = True
    set_name: str = ""

    def __len__(self) -> int:
        return self.jobs.height

    @property
    def n_bad(self) -> int:
        """The number of lines that a lenient reading has skipped."""
        return sum(rule_count.count for rule_count in self.bad.values())

    @property
    def first_line(self) -> int:
        """The line of the first job, 1 if there is no job."""
        return self.jobs["line"][0] if len(self) else 1

    @property
    def unit(self) -> str:
        """What sizes count, in words."""
        return UNITS[self.size_in]

    @property
    def has_records(self) -> bool:
        """Whether the rows are records of a batch system, with times since 1970, states and several sizes."""
        return self.format != "SWF"

    @property
    def known_procs(self) -> int | None:
        """The size of the machine by the header, None if unknown."""
        return self.header_count("MaxProcs") or self.header_count("MaxNodes")

    @property
    def knows_waits(self) -> bool:
        """Whether any job has a known wait, and so a known start. O(n)."""
        return bool((self.jobs["wait_s"] >= 0).any())

    @property
    def has_starts(self) -> bool:
        """Whether any job has a known start. O(n)."""
        return bool(self.jobs["started_at"].is_not_null().any())

    @property
    def partitions(self) -> Counter[str]:
        """The number of jobs of each partition, in the order of the log. Unknown partitions do not count. O(n)."""
        known = self.jobs.select("partition").drop_nulls()
        return Counter(dict(known.group_by("partition", maintain_order=True).len().iter_rows()))

    def header_count(self, key: str) -> int | None:
        """Return the number at the start of a header value, as in `MaxProcs: 1664 (72, 1368)`, if above 0."""
        match = _COUNT.match(self.header.get(key, ""))
        return int(match[0].replace(",", "")) or None if match else None

    def of_partitions(self, wanted: Sequence[str]) -> LogTable:
        """Return the log of some partitions. The jobs of the others are counted in it. O(n). Raises InputError."""
        if "partition" not in self.jobs.columns:
            raise InputError(
                f"{self.source}: partitions: expected a log with partitions, found the {self.format} format"
            )
        check_partitions(self.source, wanted, self.partitions)
        is_wanted = pl.col("partition").is_in(list(wanted)).fill_null(value=False)
        others = applying(self.jobs, {OTHER_PARTITION: ~is_wanted}, "dropped", self.where)
        return replace(self, jobs=self.jobs.filter(is_wanted), others=others[0]) if others else self

    def with_sizes_in(self, unit: str | None) -> LogTable:
        """Return the log with sizes in another unit. O(n). Raises InputError if no job has such a size."""
        if unit is None or not self.has_records:
            return self
        present = [one for one in UNITS if f"allocated_{one}" in self.jobs.columns and self.has_sizes_in(one)]
        if present and unit not in present:
            raise InputError(
                f"{self.source}: expected sizes in {unit}, found none; the log has sizes in {' and '.join(present)} "
                f"({setting('size_in', present[0])})"
            )
        return replace(self, size_in=unit)

    def with_unknown_run_times(self) -> LogTable:
        """Return the log where records that lack only the run time are jobs, too. O(n)."""
        lacks = pl.col("left_out").eq_missing(NO_RUN_TIME)
        if not self.jobs.select(lacks.any()).item():
            return self
        jobs = self.jobs.with_columns(pl.when(~lacks).then("left_out"))
        first_at = jobs.filter(pl.col("left_out").is_null())["submitted_at"].min()
        assert isinstance(first_at, float)
        return replace(self, jobs=jobs, zero_at=first_at)

    def has_sizes_in(self, unit: str) -> bool:
        """Whether any job has a size in a unit. O(n)."""
        return bool(self.jobs.select((size_of(size_in=unit) > 0).any()).item())

    def runnable(self, size: str = "allocated") -> pl.DataFrame:
        """Return the rows that have a submission, a run time and a size, which is their `n_procs`. O(n)."""
        sized = self.jobs.with_columns(size_of(size, self.size_in).alias("n_procs"))
        return sized.filter((pl.col("submitted_at") >= 0) & (pl.col("run_s") > 0) & (pl.col("n_procs") > 0))

    def largest(self, size: str = "allocated") -> int:
        """Return the size of the largest job, 0 if no job has a size. O(n)."""
        ran = self.jobs if self.format == "SWF" else self.jobs.filter(pl.col("run_s") != 0)
        return ran.select(size_of(size, self.size_in).max()).item() or 0

    def peak_use(self, size: str = "allocated") -> int:
        """Return the most processors in use at one time, 0 if the log does not have measured starts. O(n log n)."""
        if self.format == "SWF" and not (self.jobs["wait_s"] > 0).any():  # generated, as on a machine without limits
            return 0
        whole = self.runnable(size).filter(pl.col("left_out").is_null())
        if "status" in whole.columns:
            whole = whole.filter(~pl.col("status").is_in(PART_STATUS).fill_null(value=False))
        return procs_in_use(spans(whole)).select(pl.col("used").max()).item() or 0


def size_of(size: str = "allocated", size_in: str = "procs") -> pl.Expr:
    """Return the sizes of jobs: the chosen number, the other one if it is missing, or 0."""
    allocated, requested = pl.col(f"allocated_{size_in}"), pl.col(f"requested_{size_in}")
    if size == "larger":
        return pl.max_horizontal(allocated, requested, 0)
    first, second = (allocated, requested) if size == "allocated" else (requested, allocated)
    return pl.when(first > 0).then(first).otherwise(pl.max_horizontal(second, 0))


def spans(runnable: pl.DataFrame) -> pl.DataFrame:
    """Return `started_at`, `run_s`, `n_procs` and `line` of the jobs whose start is known. O(n)."""
    return runnable.filter(pl.col("started_at").is_not_null()).select("started_at", "run_s", "n_procs", "line")


def procs_in_use(of: pl.DataFrame) -> pl.DataFrame:
    """Return, at each start and end in order of time: the processors in use then, the change, and the job's line.

    `of` is a table as `spans` returns it. At one instant ends come before starts, and starts are in the order of the
    rows. O(n log n).
    """
    starts = of.select(at="started_at", change="n_procs", line="line")
    ends = of.select(at=pl.col("started_at") + pl.col("run_s"), change=-pl.col("n_procs"), line="line")
    events = pl.concat([ends, starts]).sort("at", maintain_order=True)
    return events.select(pl.col("change").cum_sum().alias("used"), "change", "line")


def applying(
    jobs: pl.DataFrame, rules: Mapping[str, pl.Expr], fate: Fate = "noted", where: str = "line"
) -> list[RuleCount]:
    """Count the rows to which rules apply, in the order of their first rows. O(n) each.

    Rules that first apply to the same row stay in their order.
    """
    found: list[tuple[int, RuleCount]] = []
    line, *masks = jobs.select("line", *(condition.alias(rule) for rule, condition in rules.items()))
    for mask in masks:
        if n_rows := int(mask.sum()):
            rows = mask.arg_true().head(PLACES_KEPT)
            found.append((rows[0], RuleCount(mask.name, fate, n_rows, where, line.gather(rows).to_list())))
    return [rule_count for _, rule_count in sorted(found, key=lambda pair: pair[0])]


def first_of(rules: Iterable[tuple[str, pl.Expr]]) -> pl.Expr:
    """Return the first rule that applies to a row, null for none."""
    return pl.coalesce(pl.lit(None, pl.String), *(pl.when(applies).then(pl.lit(rule)) for rule, applies in rules))
