"""A log in memory: one table with a row for each job, and facts about the file and its machine."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import polars as pl

from pybatsched.workload.formats.files import Format
from pybatsched.workload.report import PLACES_KEPT, Fate, Tally
from pybatsched.workload.selection import OTHER_PARTITION, check_partitions

_COUNT: Final = re.compile(r"(?:\d{1,3}(?:,\d{3})+|\d{1,15})(?![\d.]|,\d)")
#: A label that is a number.
WHOLE_NUMBER: Final = r"^-?[0-9]{1,15}$"
#: Status codes of parts of a job that was suspended or checkpointed.
PART_STATUS: Final = (2, 3, 4)


@dataclass(slots=True)
class LogTable:
    """A log. The rows of `jobs` are in the order of the file, and null is an unknown value.

    | columns | type | meaning |
    |---|---|---|
    | `id` | integer | the number of the job |
    | `submitted_at` | number | the time of the submission, in seconds |
    | `wait_s`, `run_s` | number | the time from submission to start, and from start to end |
    | `allocated_procs`, `requested_procs` | integer | processors that the job got, and asked for |
    | `requested_s` | number | the requested time |
    | `cpu_s` | number | the mean CPU time of a processor |
    | `used_memory`, `requested_memory` | number | memory of each processor, in the unit of the log |
    | `status` | integer | how the job ended, by the codes of SWF |
    | `user`, `group`, `application`, `queue`, `partition` | text | names, or numbers as text without leading zeros |
    | `depends_on`, `think_s` | integer, number | the job that this one waits for, and the time after its end |
    | `line` | integer | the line of the file |

    Numbers may be wrong, such as a run time below 0: a check finds them, and a conversion drops them. `extras` are
    other fields that jobs keep, with their columns, which are text. `header` has the values of the file by key; a key
    that occurs several times has one line per value. `names` are what the format calls the columns. `bad` counts the
    lines that a lenient reading has skipped, `others` the jobs of partitions that are not selected, and `ignored` the
    lines with fields that are not read. `remarks` are notes about the whole log, `field_notes` those about its extras.
    """

    source: str
    format: Format
    jobs: pl.DataFrame
    ignored: Tally
    header: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    extras: Mapping[str, str] = field(default_factory=dict)
    bad: Mapping[str, Tally] = field(default_factory=dict)
    others: Tally | None = None
    remarks: Sequence[str] = ()
    field_notes: Sequence[str] = ()

    def __len__(self) -> int:
        return self.jobs.height

    @property
    def n_bad(self) -> int:
        """The number of lines that a lenient reading has skipped."""
        return sum(tally.count for tally in self.bad.values())

    @property
    def first_line(self) -> int:
        """The line of the first job, 1 if there is no job."""
        return self.jobs["line"][0] if len(self) else 1

    @property
    def known_procs(self) -> int | None:
        """The size of the machine by the header, None if unknown."""
        return self.header_count("MaxProcs") or self.header_count("MaxNodes")

    @property
    def knows_waits(self) -> bool:
        """Whether any job has a known wait, and so a known start. O(n)."""
        return bool((self.jobs["wait_s"] >= 0).any())

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
        check_partitions(self.source, wanted, self.partitions)
        is_wanted = pl.col("partition").is_in(list(wanted)).fill_null(value=False)
        others = applying(self.jobs, {OTHER_PARTITION: ~is_wanted}, "dropped")
        return replace(self, jobs=self.jobs.filter(is_wanted), others=others[0]) if others else self

    def runnable(self, size: str = "allocated") -> pl.DataFrame:
        """Return the rows that have a submission, a run time and a size, which is their `n_procs`. O(n)."""
        sized = self.jobs.with_columns(size_of(size).alias("n_procs"))
        return sized.filter((pl.col("submitted_at") >= 0) & (pl.col("run_s") > 0) & (pl.col("n_procs") > 0))

    def largest(self, size: str = "allocated") -> int:
        """Return the size of the largest job, 0 if no job has a size. O(n)."""
        return self.jobs.select(size_of(size).max()).item() or 0

    def peak_use(self, size: str = "allocated") -> int:
        """Return the most processors in use at one time, 0 if the log does not have measured waits. O(n log n)."""
        if not (self.jobs["wait_s"] > 0).any():  # in generated logs all waits are 0, as on a machine without limits
            return 0
        whole = self.runnable(size).filter(~pl.col("status").is_in(PART_STATUS).fill_null(value=False))
        return procs_in_use(spans(whole)).select(pl.col("used").max()).item() or 0


def size_of(size: str = "allocated") -> pl.Expr:
    """Return the processors of jobs: the chosen number, the other one if it is missing, or 0."""
    allocated, requested = pl.col("allocated_procs"), pl.col("requested_procs")
    if size == "larger":
        return pl.max_horizontal(allocated, requested, 0)
    first, second = (allocated, requested) if size == "allocated" else (requested, allocated)
    return pl.when(first > 0).then(first).otherwise(pl.max_horizontal(second, 0))


def spans(runnable: pl.DataFrame) -> pl.DataFrame:
    """Return `started_at`, `run_s`, `n_procs` and `line` of the jobs whose start is known. O(n)."""
    started_at = pl.col("submitted_at") + pl.col("wait_s")
    known = runnable.filter(pl.col("wait_s") >= 0)
    return known.select(started_at.alias("started_at"), "run_s", "n_procs", "line")


def spans_frame(rows: Iterable[tuple[float, float, int, int]]) -> pl.DataFrame:
    """Return rows of start, run time, size and line as the table that `procs_in_use` takes. O(n)."""
    schema = {"started_at": pl.Float64, "run_s": pl.Float64, "n_procs": pl.Int64, "line": pl.Int64}
    return pl.DataFrame(list(rows), schema=schema, orient="row")


def procs_in_use(of: pl.DataFrame) -> pl.DataFrame:
    """Return, at each start and end in order of time: the processors in use then, the change, and the job's line.

    `of` is a table as `spans` returns it. At one instant ends come before starts, and starts are in the order of the
    rows. O(n log n).
    """
    starts = of.select(at="started_at", change="n_procs", line="line")
    ends = of.select(at=pl.col("started_at") + pl.col("run_s"), change=-pl.col("n_procs"), line="line")
    events = pl.concat([ends, starts]).sort("at", maintain_order=True)
    return events.select(pl.col("change").cum_sum().alias("used"), "change", "line")


def applying(jobs: pl.DataFrame, rules: Mapping[str, pl.Expr], fate: Fate = "noted") -> list[Tally]:
    """Count the rows to which rules apply, in the order of their first rows. O(n) each.

    Rules that first apply to the same row stay in their order.
    """
    found: list[tuple[int, Tally]] = []
    line, *masks = jobs.select("line", *(condition.alias(rule) for rule, condition in rules.items()))
    for mask in masks:
        if n_rows := int(mask.sum()):
            rows = mask.arg_true().head(PLACES_KEPT)
            found.append((rows[0], Tally(mask.name, fate, n_rows, places=line.gather(rows).to_list())))
    return [tally for _, tally in sorted(found, key=lambda pair: pair[0])]
