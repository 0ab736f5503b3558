"""Convert a log to a workload, with a report in its `about`: rules for columns first, dictionaries at the end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import polars as pl

from pybatsched.errors import InputError, setting, spelled
from pybatsched.workload import progress
from pybatsched.workload.formats.conversion import (
    CUT,
    LOOSE,
    NO_REQUEST,
    NO_RUN_TIME,
    NO_SUBMISSION,
    OTHER_SIZE,
    RAISED,
    RENUMBERED,
    TOO_LARGE,
    MemoryUnit,
    SwfOptions,
    about_conversion,
    gc_paused,
    move,
    profile_of,
    report_of_reading,
)
from pybatsched.workload.logs.selection import chosen, first_of
from pybatsched.workload.logs.table import PART_STATUS, WHOLE_NUMBER, LogTable, applying, size_of
from pybatsched.workload.model import Workload
from pybatsched.workload.report import Fate, Report
from pybatsched.workload.selection import NOT_COUNTED, Selection
from pybatsched.workload.walltimes import Times, plain

PART: Final = "a part of a job that also has a line for the whole: dropped"
NO_SIZE: Final = "no processors, neither allocated nor requested: dropped"
UNKNOWN: Final = "unknown run time: set to the given one"
UNPLANNED: Final = "neither run time nor requested time is known: no walltime and no estimate"
WHOLE_MACHINE: Final = (
    f"of some partitions alone: the machine is still the whole one, {{:,}} processors (or {setting('n_procs')})"
)
ESTIMATED: Final = "neither MaxProcs nor MaxNodes in the header: the machine is"

_LABELS: Final = ("user", "group", "application", "queue", "partition")
_IN_A_GB: Final[Mapping[MemoryUnit, float]] = {"KB": 1e6, "MB": 1e3, "GB": 1.0}
_EXACT: Final = 1 << 53
_WHOLE: Final = re.compile(WHOLE_NUMBER)
_UNPLANNED: Final = Times(None, None, UNPLANNED)
_DECIMAL: Final = re.compile(r"-?[0-9]{1,15}\.[0-9]{1,15}")


def to_workload(
    log: LogTable, options: SwfOptions | None = None, selection: Selection | None = None
) -> tuple[Workload, Report]:
    """Convert a log, or the jobs that a selection keeps. About 3 µs per job. Raises InputError."""
    options, selection = options or SwfOptions(), selection or Selection()
    if selection.partitions:
        log = log.of_partitions(selection.partitions)
    with gc_paused():
        conversion = _Conversion(log, options, selection)
        return conversion.workload(), conversion.report


def machine_of(log: LogTable, options: SwfOptions) -> tuple[int, str | None]:
    """Return the processors of a log's machine, and a remark if the number is not from MaxProcs."""
    if options.n_procs is not None:
        return options.n_procs, None
    if (found := log.header_count("MaxProcs")) is not None:
        return found, None
    if (found := log.known_procs) is not None:
        return found, f"no MaxProcs in the header: the machine has its MaxNodes, {found:,} processors"
    largest = log.largest(options.size) or 1
    if (peak := log.peak_use(options.size)) > largest:
        what = f"estimated as the most processors in use at one time, {peak:,} (or {setting('n_procs')})"
        return peak, f"{ESTIMATED} {what}"
    return largest, f"{ESTIMATED} as large as the largest job, {largest:,}"


class _Conversion:
    """The conversion of one log. `_jobs` are the rows that become jobs, in order of submission."""

    def __init__(self, log: LogTable, options: SwfOptions, selection: Selection) -> None:
        self.report = report_of_reading(len(log), log.bad, log.others)
        self._log = log
        self._options = options
        self._selection = selection
        rows = log.jobs.with_columns(size_of(options.size).alias("n_procs"))
        rows = rows.with_columns(first_of(self._drop_rules(rows)).alias("dropped_by"))
        self._jobs, self._origin_at = chosen(rows, selection, self.report, log.source)

    def workload(self) -> Workload:
        """Return the workload. O(n)."""
        times = self._plan()
        jobs, profiles = self._job_fields(times)
        for note in self._log.field_notes:
            self.report.note(note)
        if self._log.ignored.count:
            self.report.tallies[self._log.ignored.rule] = self._log.ignored
        n_procs, remark = machine_of(self._log, self._options)
        for note in (*self._log.remarks, *([] if remark is None else [remark])):
            self.report.note(note)
        self._count("changed", {LOOSE: pl.col("is_loose")})
        if self._selection.partitions and self._options.n_procs is None:
            self.report.note(WHOLE_MACHINE.format(n_procs))
        moved_by_s, is_counted = move(jobs, self._selection, self._log.source, self._origin_at)
        if is_counted is not None:
            self._count("noted", {NOT_COUNTED: ~pl.lit(pl.Series(is_counted))})
        self._count("noted", {TOO_LARGE: pl.col("n_procs") > n_procs})
        self.report.n_kept = len(jobs)
        about = about_conversion(self._log.source, self._options, self._selection, self.report, moved_by_s)
        if remark is not None and remark.startswith(ESTIMATED):
            about["estimated_machine"] = spelled(remark)
        about["swf_header"] = dict(self._log.header)
        return Workload(jobs, profiles, n_procs, self._log.source, about)

    def _count(self, fate: Fate, rules: Mapping[str, pl.Expr]) -> None:
        """Count the jobs to which rules apply."""
        self.report.add(applying(self._jobs, rules, fate))

    def _drop_rules(self, rows: pl.DataFrame) -> Iterator[tuple[str, pl.Expr]]:
        """Yield each rule that drops jobs that did not run, and whether it applies."""
        is_part = pl.col("status").is_in(PART_STATUS).fill_null(value=False)
        whole = rows.filter(~is_part)["id"]
        if len(whole) < len(rows):
            yield PART, is_part & pl.col("id").is_in(whole.implode())
        yield NO_SUBMISSION, _known("submitted_at") < 0
        if self._options.min_runtime_s is None:
            keeps_unknown = self._options.unknown_runtime_s is not None
            yield NO_RUN_TIME, _known("run_s") == 0 if keeps_unknown else _known("run_s") <= 0
        yield NO_SIZE, pl.col("n_procs") == 0
        if self._options.run_times == "cut":
            yield NO_REQUEST, _known("requested_s") <= 0

    def _plan(self) -> list[Times]:
        """Set run times and numbers of the jobs, count changes, and return their walltimes and estimates."""
        options = self._options
        sets_unknown = options.unknown_runtime_s is not None
        is_unknown = (_known("run_s") < 0) & sets_unknown
        is_raised = (_known("run_s") <= 0) & ~is_unknown
        run_s = pl.when(is_unknown).then(options.unknown_runtime_s).when(is_raised).then(options.min_runtime_s)
        is_cut = (pl.col("run_s") > pl.col("requested_s")) & (options.run_times == "cut")
        first_size = pl.lit(value=1) if options.size == "larger" else _known(f"{options.size}_procs")
        jobs = self._jobs.with_columns(
            run_s.otherwise("run_s").alias("run_s"),
            pl.when(_known("requested_s") > 0).then("requested_s"),
            is_unknown.alias("is_unknown"),
            is_raised.alias("is_raised"),
        )
        jobs = jobs.with_columns(
            pl.when(is_cut).then("requested_s").otherwise("run_s").alias("run_s"), is_cut.alias("is_cut")
        )
        rule = options.walltimes
        is_longer = (pl.col("requested_s") > pl.col("run_s")) & rule.is_by_request  # the run time does not matter
        run_times = jobs.select(pl.when(is_longer).then(0.0).otherwise("run_s")).to_series()
        pairs = list(zip(run_times.to_list(), jobs["requested_s"].to_list(), strict=True))
        by_pair = {pair: rule.of(*pair) for pair in set(pairs)}
        times = [by_pair[pair] for pair in pairs]
        if sets_unknown and rule.is_by_request:
            is_unplanned = jobs["is_unknown"] & jobs["requested_s"].is_null()
            times = [_UNPLANNED if is_one else one for one, is_one in zip(times, is_unplanned.to_list(), strict=True)]
        jobs = jobs.with_columns(pl.Series("times_changed", [one.changed for one in times], dtype=pl.String))
        self._jobs = self._with_numbers(jobs)
        rules = {
            RAISED: pl.col("is_raised"),
            UNKNOWN: pl.col("is_unknown"),
            CUT: pl.col("is_cut"),
            OTHER_SIZE: first_size <= 0,
            **{changed: pl.col("times_changed") == changed for changed in jobs["times_changed"].drop_nulls().unique()},
            RENUMBERED: pl.col("is_renumbered"),
        }
        self._count("changed", rules)
        return times

    def _with_numbers(self, jobs: pl.DataFrame) -> pl.DataFrame:
        """Return jobs with unique numbers, and without dependencies on jobs that are not among them."""
        again = ~pl.col("id").is_first_distinct()
        repeated = jobs.filter(again)
        if len(repeated) and self._options.duplicates == "error":
            number, line = repeated["id"][0], repeated["line"][0]
            first_line = jobs.filter(pl.col("id") == number)["line"][0]
            raise InputError(
                f"{self._log.source}: line {line}, {self._log.names['id']}: expected a unique number, found {number}, "
                f"which is also on line {first_line}"
            )
        greatest = self._log.jobs["id"].max()
        number = pl.when(again).then(pl.lit(greatest) + again.cum_sum()).otherwise("id")
        jobs = jobs.with_columns(number.alias("id"), again.alias("is_renumbered"))
        depends_on = pl.when(pl.col("depends_on") > 0).then("depends_on")  # some logs write 0 for none
        is_loose = depends_on.is_not_null() & ~depends_on.is_in(jobs["id"].implode())
        jobs = jobs.with_columns(is_loose.alias("is_loose"), pl.when(~is_loose).then(depends_on).alias("depends_on"))
        has_think_time = pl.col("depends_on").is_not_null() & (pl.col("think_s") >= 0)
        return jobs.with_columns(pl.when(has_think_time).then("think_s"))

    def _job_fields(self, times: Sequence[Times]) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
        """Return the jobs, with all their known fields, and the profiles. O(n) for each field."""
        rows, options = self._jobs, self._options
        in_a_gb = _IN_A_GB[options.memory_unit]
        names = {run_s: str(plain(run_s)) for run_s in rows["run_s"].unique(maintain_order=True).to_list()}
        profiles = {
            name: profile_of(plain(run_s), options.profile, options.speed_flops) for run_s, name in names.items()
        }
        columns = (
            rows["id"].to_list(),
            plains(rows["submitted_at"]),
            rows["n_procs"].to_list(),
            rows["run_s"].to_list(),
        )
        jobs: list[dict[str, Any]] = [
            {"id": number, "subtime": at, "res": n, "profile": names[run_s]}
            for number, at, n, run_s in progress.with_progress(zip(*columns, strict=True), len(rows))
        ]
        _add(jobs, "walltime", [one.walltime_s for one in times])
        _add(jobs, "estimate", [one.estimate_s for one in times])
        for name in _LABELS:
            _add(jobs, name, values_of(rows[name], _label))
        known = rows.select(
            pl.when(pl.col("status") >= 0).then("status"),
            pl.coalesce(_positive("requested_memory"), _positive("used_memory")).alias("memory"),
            pl.when(pl.col("wait_s") >= 0).then("wait_s"),
            _positive("requested_procs"),
        )
        _add(jobs, "status", known["status"].to_list())
        # Python divides: polars multiplies by 1 / in_a_gb, which may differ in the last digit.
        _add(jobs, "memory_gb", values_of(known["memory"], lambda amount: plain(amount / in_a_gb)))
        if options.with_waits:
            _add(jobs, "logged_wait_s", plains(known["wait_s"]))
        _add(jobs, "requested_procs", known["requested_procs"].to_list())
        _add(jobs, "requested_time", values_of(rows["requested_s"], plain))
        for name, column in self._log.extras.items():
            _add(jobs, name, values_of(rows[column], extra_value))
        _add(jobs, "depends_on", rows["depends_on"].to_list())
        _add(jobs, "think_time", values_of(rows["think_s"], plain))
        return jobs, profiles


def _known(name: str) -> pl.Expr:
    """Return a column with -1 for unknown values, as logs have them."""
    return pl.col(name).fill_null(-1)


def _positive(name: str) -> pl.Expr:
    """Return a column without values of 0 or below."""
    return pl.when(pl.col(name) > 0).then(name)


def plains(values: pl.Series) -> list[int | float | None]:
    """Return numbers without a fraction as integers: 60.0 is 60. Columns of whole numbers are converted at once."""
    if ((values == values.floor()) & (values.abs() < _EXACT)).all():
        return values.cast(pl.Int64).to_list()
    return [None if value is None else plain(value) for value in values.to_list()]


def _label(text: str) -> int | str:
    """Return a label as a number if it is one."""
    return int(text) if _WHOLE.fullmatch(text) else text


def extra_value(text: str) -> float | str | None:
    """Return the value of an extra field: a number, a text, or None for -1."""
    value = float(text) if _DECIMAL.fullmatch(text) else _label(text)
    return None if value == -1 else value


def values_of(column: pl.Series, value_of: Callable[[Any], Any]) -> list[Any]:
    """Return a function of each known value of a column. Results for equal values are one object."""
    values = {None: None} | {value: value_of(value) for value in column.drop_nulls().unique().to_list()}
    return [values[value] for value in column.to_list()]


def _add(jobs: Sequence[dict[str, Any]], name: str, values: Sequence[Any]) -> None:
    """Add a field to the jobs whose value is known."""
    for job, value in zip(jobs, values, strict=True):
        if value is not None:
            job[name] = value
