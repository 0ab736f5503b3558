"""Find problems in a log, column by column and over the whole log."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import polars as pl

from pybatsched.errors import setting
from pybatsched.workload.checks.job_order import check_order
from pybatsched.workload.checks.log_checks import check_beyond, check_gaps, check_times, check_units, check_use
from pybatsched.workload.formats.conversion import NO_RUN_TIME, SIZES
from pybatsched.workload.logs.records import MISSING_TIMES
from pybatsched.workload.logs.table import PART_STATUS, WHOLE_NUMBER, LogTable, applying, size_of, spans
from pybatsched.workload.report import Level, LintReport

_CANCELLED: Final = 5
_HOUR_S: Final = 3600
_DAY_S: Final = 86_400
_SLACK_S: Final = 60  # Slurm kills jobs up to a minute after their limit
IN_FUTURE: Final = "submitted in the future: is the unit of times right?"
ESTIMATE: Final = "the size of the machine is an estimate: the most {} in use at one time"
LARGEST: Final = "the size of the machine is an estimate: the {} of the largest job"
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
    if log.has_records:
        log = log.with_sizes_in(next((one for one in (log.size_in, *SIZES) if log.has_sizes_in(one)), log.size_in))
    known = n_procs or log.known_procs
    largest = log.largest()
    peak = 0 if known else log.peak_use()
    found = LintReport(log.source, log.format, len(log), known or max(largest, peak, 1), where=log.where)
    found.add_bad_lines(log.bad)
    if not len(log):
        found.add("no line is a job", "an error: no job is left", 1)
        if log.has_records:
            return found
    if known is None:
        rule = ESTIMATE if peak > largest or (log.has_records and log.has_starts) else LARGEST
        found.add(rule.format(log.unit), f"taken (or {setting('n_procs')})", log.first_line, "note")
    for rule_count in log.rule_counts:
        found.add_rule_count(rule_count, "dropped" if rule_count.fate == "dropped" else "ignored")
    for remark in log.remarks:
        found.add(remark, "nothing", log.first_line, "note")
    (_check_swf if log.format == "SWF" else _check_records)(log, found)
    jobs = log.jobs.filter(pl.col("left_out").is_null()) if log.has_records else log.jobs
    check_units(jobs["requested_s"].filter(jobs["requested_s"] > 0), found, log.first_line)
    submitted = jobs.filter(pl.col("submitted_at") >= 0)
    _check_plausible(log, jobs, submitted["submitted_at"], found)
    check_gaps(submitted.select("submitted_at", "line"), found)
    if known is not None:  # nothing exceeds an estimate by the peak
        runnable = log.runnable()
        check_use(
            spans(runnable.filter(pl.col("left_out").is_null()) if log.has_records else runnable), log.unit, found
        )
    return found


def _check_swf(log: LogTable, found: LintReport) -> None:
    """Find problems in a log in SWF."""
    jobs = log.jobs
    records = log.header_count("MaxRecords")
    if records is not None and records != len(log) + log.n_bad:
        what = f"header: MaxRecords is {records:,}, the file has {len(log) + log.n_bad:,} jobs"
        found.add(what, "nothing: a part of a log, or a cleaned one", 1, "note")
    if len(partitions := log.partitions) > 1:
        what = f"jobs of {len(partitions):,} partitions, the largest {partitions.most_common(1)[0][0]}"
        found.add(what, f"all are taken (or {setting('partitions')})", log.first_line, "note")
    _add(_order_and_numbers(jobs), jobs, found)
    _add((*_times(), *_sizes(found.n_procs)), jobs, found)
    together = log.runnable().filter(pl.col("submitted_at").is_duplicated())  # others are in order
    check_order(together.select("submitted_at", pl.col("id").cast(pl.String), "line").iter_rows(), found)
    for name in _OPTIONAL:
        for check in _unknown(name, log):
            _add([check], jobs, found)


def _check_records(log: LogTable, found: LintReport) -> None:
    """Find problems in records of a batch system."""
    jobs = log.jobs
    if log.n_local and log.zone.upper() == "UTC":
        found.add("times have no zone", f"read as UTC (or {setting('timezone')})", log.first_line, "note")
    if log.n_missing:
        found.add(MISSING_TIMES, f"read as an hour later (or {setting('timezone')})", log.first_line)
    latest = time.time() + _DAY_S  # clocks of other zones are up to a day ahead
    reasons = jobs["left_out"].drop_nulls().unique().to_list()
    remedies = {NO_RUN_TIME: f"dropped (or {setting('min_runtime')})"}
    left_out = [
        _Check(one.removesuffix(": dropped"), remedies.get(one, "dropped"), pl.col("left_out") == one, "note")
        for one in reasons
    ]
    remedy = f"a job of its own, as after a requeue (or {setting('duplicates', 'error')})"
    repeated = _Check("id given before", remedy, ~pl.col("given_id").is_first_distinct())
    _add((*left_out, _Check(IN_FUTURE, "kept", pl.col("submitted_at") > latest), repeated), jobs, found)
    ended = jobs.filter(pl.col("left_out").is_null()).with_columns(size_of(size_in=log.size_in).alias("n_procs"))
    _add(_of_records(ended, log.unit, found.n_procs), ended, found)
    _check_clock(jobs, found)


def _of_records(ended: pl.DataFrame, unit: str, n_procs: int) -> Iterator[_Check]:
    """Yield the checks of the times, the size and the limit of each job."""
    ran = pl.col("run_s") > 0
    apart_s = (pl.col("ended_at") - pl.col("started_at") - pl.col("elapsed_s")).abs()
    remedy = f"dropped (or {setting('min_runtime')})"
    yield _Check("run time 0 or unknown", remedy, pl.col("run_s").fill_null(0) == 0)
    yield _Check("started before it was submitted", "kept; its wait is unknown", pl.col("wait_s") < 0)
    remedy = f"the run time is taken (or {setting('timezone')})"
    yield _Check("run time differs from end - start by an hour: daylight saving time", remedy, apart_s == _HOUR_S)
    remedy = "the run time is taken, which is without suspended time"
    yield _Check("run time is not end - start", remedy, (apart_s > 1) & (apart_s != _HOUR_S))
    yield _Check(f"no {unit}", "dropped", ran & (pl.col("n_procs") == 0))
    remedy = f"kept, schedulers reject it (or {setting('max_size')})"
    yield _Check(f"larger than the machine of {n_procs:,}", remedy, ran & (pl.col("n_procs") > n_procs))
    beyond_s = pl.col("run_s") - pl.col("requested_s")
    most = ended.select(beyond_s.max()).item() or 0
    strict = setting("walltimes", "requested-strict")
    remedy = f"walltime is raised, the limit stays the estimate (or {strict}: killed)"
    yield _Check(f"ran longer than its time limit (by up to {most:,.0f} s)", remedy, beyond_s > _SLACK_S)
    is_little = (beyond_s > 0) & (beyond_s <= _SLACK_S)
    yield _Check("ran up to a minute longer than its time limit", "walltime is raised", is_little, "note")
    remedy = "planned with its run time"
    yield _Check("time limit unknown, UNLIMITED or Partition_Limit", remedy, pl.col("requested_s").is_null(), "note")


def _check_clock(jobs: pl.DataFrame, found: LintReport) -> None:
    """Find submissions that are earlier than that of a lower id. Ids of attempts do not count."""
    is_whole = pl.col("task").is_null() & pl.col("part").is_null()
    single = jobs.filter((is_whole.sum().over("number") <= 1) & pl.col("number").is_not_null())
    single = single.filter(pl.col("submitted_at").is_not_null())
    steps = single.with_columns(back_s=-pl.col("submitted_at").diff()).filter(pl.col("number").diff() > 0)
    most = steps.select(pl.col("back_s").max()).item() or 0
    what = (
        f"submitted before the job with the lower id on the line above (by up to {most:,.0f} s): the clock was set back"
    )
    _add([_Check(what, "put in order of submission", pl.col("back_s") > 1)], steps, found)


def _add(checks: Iterable[_Check], jobs: pl.DataFrame, found: LintReport) -> None:
    """Add the findings of some checks, in the order of the first rows that have them."""
    by_name = {check.what: check for check in checks}
    for rule_count in applying(jobs, {what: check.rows for what, check in by_name.items()}):
        check = by_name[rule_count.rule]
        found.add_rule_count(rule_count, check.remedy, check.level)


def _check_plausible(log: LogTable, jobs: pl.DataFrame, submissions: pl.Series, found: LintReport) -> None:
    """Check the units of submissions, run times and requested times over all jobs."""
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
