"""Find problems in a log, column by column and over the whole log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import polars as pl

from pybatsched.errors import setting
from pybatsched.workload.checks.job_order import check_order
from pybatsched.workload.checks.log_checks import check_beyond, check_gaps, check_times, check_units, check_use
from pybatsched.workload.logs.table import PART_STATUS, WHOLE_NUMBER, LogTable, applying, size_of, spans
from pybatsched.workload.report import Level, LintReport

_CANCELLED: Final = 5
#: Columns that no simulation needs: unknown values are only a note.
_OPTIONAL: Final = (
    *("wait_s", "cpu_s", "used_memory", "requested_memory", "status"),
    *("user", "group", "application", "queue", "partition"),
)


class _Check(NamedTuple):
    """A problem or a note, how a conversion handles it, and the rows that have it."""

    what: str
    remedy: str
    rows: pl.Expr
    level: Level = "odd"


def lint_log(log: LogTable, n_procs: int | None = None) -> LintReport:
    """Check a log. O(n log n) for the processors in use at one time, the rest is linear."""
    jobs = log.jobs
    largest = log.largest()
    known = n_procs or log.known_procs
    peak = 0 if known else log.peak_use()
    found = LintReport(log.source, log.format, len(log), known or max(largest, peak, 1))
    found.add_bad_lines(log.bad)
    if not len(log):
        found.add("no line is a job", "an error: no job is left", 1)
    if known is None:
        taken = f"the largest job, {largest:,}," if peak <= largest else f"the most processors in use, {peak:,},"
        found.add("header: no MaxProcs or MaxNodes", f"{taken} is taken (or {setting('n_procs')})", 1, "note")
    records = log.header_count("MaxRecords")
    if records is not None and records != len(log) + log.n_bad:
        what = f"header: MaxRecords is {records:,}, the file has {len(log) + log.n_bad:,} jobs"
        found.add(what, "nothing: a part of a log, or a cleaned one", 1, "note")
    if len(partitions := log.partitions) > 1:
        what = f"jobs of {len(partitions):,} partitions, the largest {partitions.most_common(1)[0][0]}"
        found.add(what, f"all are taken (or {setting('partitions')})", log.first_line, "note")
    for remark in log.remarks:
        found.add(remark, "taken", log.first_line, "note")
    _add(_order_and_numbers(jobs), jobs, found)
    _add((*_times(), *_sizes(found.n_procs)), jobs, found)
    runnable = log.runnable()
    together = runnable.filter(pl.col("submitted_at").is_duplicated())  # others are in order
    check_order(together.select("submitted_at", pl.col("id").cast(pl.String), "line").iter_rows(), found)
    check_units(jobs["requested_s"].filter(jobs["requested_s"] > 0), found, log.first_line)
    submitted = jobs.filter(pl.col("submitted_at") >= 0)
    _check_plausible(log, submitted["submitted_at"], found)
    check_gaps(submitted.select("submitted_at", "line"), found)
    for name in _OPTIONAL:
        for check in _unknown(name, log):
            _add([check], jobs, found)
    if log.ignored.count:
        found.add_tally(log.ignored, "ignored")
    if known is not None:  # a guessed machine size would only cause false findings
        check_use(spans(runnable), "processors", found)
    return found


def _add(checks: Iterable[_Check], jobs: pl.DataFrame, found: LintReport) -> None:
    """Add the findings of some checks, in the order of the first rows that have them."""
    by_name = {check.what: check for check in checks}
    for tally in applying(jobs, {what: check.rows for what, check in by_name.items()}):
        check = by_name[tally.rule]
        found.add_tally(tally, check.remedy, check.level)


def _check_plausible(log: LogTable, submissions: pl.Series, found: LintReport) -> None:
    """Check the units of submissions, run times and requested times over all jobs."""
    if not len(log):
        return
    jobs = log.jobs
    names = (log.names["submitted_at"], log.names["run_s"])
    check_times(submissions, jobs["run_s"].filter(jobs["run_s"] > 0), names, found, log.first_line)
    limited = jobs.filter(pl.col("requested_s") > 0)
    n_beyond = len(limited.filter(pl.col("run_s") > pl.col("requested_s")))
    check_beyond(n_beyond, len(limited), (log.names["requested_s"], names[1]), found, log.first_line)


def _order_and_numbers(jobs: pl.DataFrame) -> Iterator[_Check]:
    """Yield the checks of the order of submission, of repeated numbers, and of dependencies."""
    at = pl.col("submitted_at").fill_null(-1)
    is_part = pl.col("status").is_in(PART_STATUS).fill_null(value=False)
    depends_on = pl.when(pl.col("depends_on") > 0).then("depends_on")
    first = jobs.group_by("id").agg(pl.col("line").min())
    first_line = depends_on.replace_strict(first["id"], first["line"], default=None, return_dtype=pl.Int64)
    is_early = (at >= 0) & (at < at.cum_max())
    yield _Check("submitted before the job above it", "put in order of submission", is_early)
    yield _Check("a part of a job (status 2, 3 or 4)", "dropped if the whole job has a line too", is_part)
    remedy = f"renumbered (or {setting('duplicates', 'error')})"
    yield _Check("job number given before", remedy, ~pl.col("id").is_first_distinct() & ~is_part)
    is_missing = depends_on.is_not_null() & first_line.is_null()
    yield _Check("depends on a job that is not in the log", "the dependency is removed", is_missing)
    yield _Check("depends on a job that comes later", "kept", first_line > pl.col("line"))
    yield _Check("depends on itself", "kept", depends_on == pl.col("id"))


def _times() -> Iterator[_Check]:
    """Yield the checks of the times of each job."""
    run_s = pl.col("run_s").fill_null(-1)
    requested_s = pl.col("requested_s").fill_null(-1)
    yield _Check("submit time unknown or negative", "dropped", pl.col("submitted_at").fill_null(-1) < 0)
    yield _Check("run time 0", f"dropped (or {setting('min_runtime')})", run_s == 0)
    yield _Check("run time unknown or negative", f"dropped (or {setting('min_runtime')})", run_s < 0)
    yield _Check("requested time unknown, 0 or negative", "planned with its run time", requested_s <= 0)
    strict = setting("walltimes", "requested-strict")
    remedy = f"walltime is raised, the request stays the estimate (or {strict}: killed)"
    yield _Check("ran longer than requested", remedy, (requested_s > 0) & (run_s > requested_s))
    remedy = "walltime is raised by 1 s, so that it can end"
    yield _Check("ran exactly as long as requested", remedy, (requested_s > 0) & (run_s == requested_s), "note")


def _sizes(n_procs: int) -> Iterator[_Check]:
    """Yield the checks of the size and the status of each job."""
    n = size_of()
    allocated, requested = (pl.col(name).fill_null(-1) for name in ("allocated_procs", "requested_procs"))
    has_both = (allocated > 0) & (requested > 0)
    yield _Check("no processors, neither allocated nor requested", "dropped", n == 0)
    remedy = "the requested ones are taken"
    yield _Check("allocated processors unknown, 0 or negative", remedy, (allocated <= 0) & (n > 0))
    remedy = "the allocated ones are taken"
    yield _Check("requested processors unknown, 0 or negative", remedy, (allocated > 0) & (requested <= 0), "note")
    remedy = f"the allocated ones are taken (or {setting('size', 'requested')})"
    yield _Check("allocated other processors than requested", remedy, has_both & (allocated != requested))
    remedy = f"kept, schedulers reject it (or {setting('max_size')})"
    yield _Check(f"larger than the machine of {n_procs:,}", remedy, n > n_procs)
    remedy = "kept as it ran, dropped if it did not run"
    yield _Check("cancelled (status 5)", remedy, pl.col("status") == _CANCELLED, "note")


def _unknown(column: str, log: LogTable) -> Iterator[_Check]:
    """Yield the checks of a column that no simulation needs."""
    name, value = log.names[column], pl.col(column)
    yield _Check(f"{name} unknown", "left out", value.is_null(), "note")
    if log.jobs.schema[column] == pl.String:
        is_number = value.str.contains(WHOLE_NUMBER)
        yield _Check(f"{name} is a name, not a number", "kept as text", ~is_number, "note")
        yield _Check(f"{name} negative", "left out", is_number & value.str.starts_with("-"))
    else:
        yield _Check(f"{name} negative", "left out", value < 0)
