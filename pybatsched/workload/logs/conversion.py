"""Convert a log to a workload, with a report in its `about`: rules for whole columns, which jobs keep."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import polars as pl

from pybatsched.errors import InputError, quantity, setting, spelled
from pybatsched.workload import progress
from pybatsched.workload.formats.conversion import (
    CUT,
    LOOSE,
    NO_REQUEST,
    NO_RUN_TIME,
    NO_SIZE,
    OTHER_SIZE,
    RAISED,
    RENUMBERED,
    RUNNING,
    TOO_LARGE,
    LogOptions,
    MemoryUnit,
    gc_paused,
    profile_of,
)
from pybatsched.workload.job_columns import JobColumns, computed, tidied
from pybatsched.workload.logs import slurm_values
from pybatsched.workload.logs.dependencies import Ids
from pybatsched.workload.logs.table import WHOLE_NUMBER, LogTable, applying, first_of, size_of
from pybatsched.workload.model import Workload
from pybatsched.workload.report import Fate, Report
from pybatsched.workload.selection import MOVED, NOT_COUNTED, OUTSIDE, TOO_MANY, Selection
from pybatsched.workload.walltimes import plain, tidy

UNKNOWN: Final = "unknown run time: set to the given one"
UNPLANNED: Final = "neither run time nor requested time is known: no walltime and no estimate"
UNLIMITED: Final = "time limit UNLIMITED or Partition_Limit: no requested time"
ATTEMPT: Final = "an id given before (a further attempt of a requeued job, for example): a job of its own"
RENAMED: Final = 'id with a blank or one of ! , " \\, which ids of jobs do not have: written with _'
WHOLE_MACHINE: Final = (
    f"of some partitions alone: the machine is still the whole one, {{:,}} processors (or {setting('n_procs')})"
)
ESTIMATED: Final = (
    "the log does not have the size of its machine: estimated as the most {} in use at one time, {:,} "
    f"(or {setting('n_procs')})"
)
LARGEST: Final = (
    "the log has neither the size of its machine nor starts of jobs: the machine has the {} of the largest job, {:,} "
    f"(or {setting('n_procs')})"
)

SIMPLER_FEATURES: Final = (
    "a constraint with [] or numbers of nodes (a*2): simplified, each node may have any of these features"
)
NO_FEATURES: Final = "a constraint that is not such as a&b, a|b or [a*2&b]: ignored"
SEVERAL_TYPES: Final = "GPUs of several types: the types are ignored"
UNEVEN: Final = "a number of cores on each node that does not agree with the size: ignored"

_LABELS: Final = ("user", "group", "application", "account", "queue", "partition", "qos", "job_name", "exit_code")
_IN_A_GB: Final[Mapping[MemoryUnit, float]] = {"KB": 1e6, "MB": 1e3, "GB": 1.0}
_LEAST_S: Final = 1e-6  # of a requested time: Batsim's files have six decimals
_WHOLE: Final = re.compile(WHOLE_NUMBER)
_FEATURES: Final = pl.Struct({"features": pl.String, "is_simplified": pl.Boolean, "is_unread": pl.Boolean})
_TIMES: Final = pl.Struct({"walltime_s": pl.Float64, "estimate_s": pl.Float64, "changed": pl.String})
_NO_NUMBER: Final = pl.col("time_limit").is_not_null() & pl.col("requested_s").is_null()
_MINUS_ONE: Final = r"^-0*1(\.0+)?$"
_DECIMAL: Final = re.compile(r"-?[0-9]{1,15}\.[0-9]{1,15}")


def to_workload(
    log: LogTable, options: LogOptions | None = None, selection: Selection | None = None
) -> tuple[Workload, Report]:
    """Convert a log, or the jobs that a selection keeps. About 12 µs per job. Raises InputError.

    Options that do not apply to the format are ignored.
    """
    options, selection = options or LogOptions(), selection or Selection()
    if log.format != "SWF":
        options = replace(options, unknown_runtime_s=None)
    log = log.with_sizes_in(options.size_in)
    log = log if options.min_runtime_s is None else log.with_unknown_run_times()
    with gc_paused():
        conversion = _Conversion(log, options, selection)
        return conversion.workload(), conversion.report


def machine_of(log: LogTable, options: LogOptions) -> tuple[int, str | None]:
    """Return the processors of a log's machine, and a remark if the number is not from MaxProcs."""
    if options.n_procs is not None:
        return options.n_procs, None
    if (found := log.header_count("MaxProcs")) is not None:
        return found, None
    if (found := log.known_procs) is not None:
        return found, f"no MaxProcs in the header: the machine has its MaxNodes, {found:,} processors"
    largest = log.largest(options.size) or 1
    peak = log.peak_use(options.size)
    if peak > largest or (log.has_records and log.has_starts):
        return max(peak, largest), ESTIMATED.format(log.unit, max(peak, largest))
    return largest, LARGEST.format(log.unit, largest)


class _Conversion:
    """The conversion of one log. `_jobs` are the rows that become jobs, in order of submission."""

    def __init__(self, log: LogTable, options: LogOptions, selection: Selection) -> None:
        self._whole = log
        self._log = log = log.of_partitions(selection.partitions) if selection.partitions else log
        self._options = options
        self._selection = selection
        self.report = _report_of_reading(log)
        rows = log.jobs
        from_zero = rows["submitted_at"] if log.format == "SWF" else tidied(rows["submitted_at"] - log.zero_at)
        rows = rows.with_columns(from_zero.alias("subtime"))
        rows = rows.with_columns(size_of(options.size, log.size_in).alias("n_procs"))
        rows = rows.with_columns(pl.coalesce("left_out", first_of(self._drop_rules().items())).alias("dropped_by"))
        self._jobs, self._origin_at = self._chosen(rows)

    def workload(self) -> Workload:
        """Return the workload. O(n)."""
        log, report = self._log, self.report
        progress.report(0.3)
        self._plan()
        progress.report(0.7)
        profiles = self._profiles()
        report.rule_counts |= {
            rule_count.rule: rule_count for rule_count in log.rule_counts if rule_count.fate == "noted"
        }
        n_procs, remark = machine_of(log if log.format == "SWF" else self._whole, self._options)
        first = datetime.fromtimestamp(log.zero_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        time_0 = [f"time 0 is the first submission, {first}"] if log.has_records and len(self._jobs) else []
        for note in (*([] if remark is None else [remark]), *log.remarks, *time_0, *log.notes):
            report.note(note)
        if log.format == "SWF" and self._selection.partitions and self._options.n_procs is None:
            report.note(WHOLE_MACHINE.format(n_procs))
        moved_by_s = self._move()
        self._count("noted", {TOO_LARGE: pl.col("n_procs") > n_procs})
        report.n_kept = len(self._jobs)
        about = self._about(moved_by_s + log.zero_at)
        if remark is not None and log.known_procs is None:
            about["estimated_machine"] = spelled(remark)
        if log.format == "SWF":
            about["swf_header"] = dict(log.header)
        elif log.has_records:
            about["clock"] = {"UnixStartTime": "0", "TimeZoneString": log.zone}
        return Workload(self._job_columns(), profiles, n_procs, log.source, about)

    def _about(self, moved_by_s: float) -> dict[str, Any]:
        """Return the members of a workload file that describe its conversion. Its jobs were moved by `moved_by_s`."""
        log = self._log
        options = self._options.as_json(log.format)
        options |= {"size_in": log.size_in, "timezone": log.zone} if log.has_records else {}
        about: dict[str, Any] = {"source": Path(log.source).name, "conversion": options}
        if log.set_name:
            about["set"] = log.set_name
        if chosen := self._selection.as_json():
            about["selection"] = chosen
        if moved_by_s:
            about["shifted_by"] = tidy(moved_by_s)
        return about | {"report": self.report.as_json()}

    def _count(self, fate: Fate, rules: Mapping[str, pl.Expr]) -> None:
        """Count the jobs to which rules apply."""
        self.report.add(applying(self._jobs, rules, fate))

    def _drop_rules(self) -> dict[str, pl.Expr]:
        """Return the rules that drop jobs that did not run, and where they apply."""
        run_s, options = _known("run_s"), self._options
        rules = {}
        if options.min_runtime_s is None:
            rules[NO_RUN_TIME] = run_s == 0 if options.unknown_runtime_s is not None else run_s <= 0
        rules[NO_SIZE.format(self._log.unit)] = pl.col("n_procs") <= 0
        if options.run_times == "cut":
            rules[NO_REQUEST] = _known("requested_s") < _LEAST_S
        return rules

    def _chosen(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, float]:
        """Return the rows that become jobs, in order of submission, and the time that a window counts from."""
        selection, report = self._selection, self.report
        rows = rows.with_row_index("place")
        runnable = rows.filter(pl.col("dropped_by").is_null())
        origin_at = selection.origin(runnable["subtime"])
        times = rows["subtime"].fill_null(-1)
        times = tidied(times - origin_at) if origin_at else times
        limit = first_of(selection.limits(pl.lit(times), pl.col("n_procs")))
        rows = rows.with_columns(pl.coalesce("dropped_by", limit))
        running = self._running(rows, origin_at) if self._options.running_at_start else rows.clear()
        rows = rows.filter(~pl.col("place").is_in(running["place"].implode())) if len(running) else rows
        dropped_by = rows["dropped_by"].drop_nulls().unique().to_list()
        report.add(applying(rows, {rule: pl.col("dropped_by") == rule for rule in dropped_by}, "dropped"))
        kept = rows.filter(pl.col("dropped_by").is_null()) if dropped_by else rows
        if len(runnable) and not len(kept) and not selection.may_be_empty:
            raise selection.no_jobs_error(self._log.source, rows["subtime"].fill_null(-1).to_list())
        at = pl.col("subtime")
        kept = kept.with_columns((at < at.cum_max().shift(1)).alias("is_moved"))
        if kept["is_moved"].any():
            kept = kept.sort(at, maintain_order=True)
        most = len(kept) if selection.max_jobs is None else selection.max_jobs
        too_many = TOO_MANY.format(quantity(most, "job"))
        report.add(applying(kept[most:].sort("place"), {too_many: pl.lit(value=True)}, "dropped"))
        report.add(applying(kept[:most].sort("place"), {MOVED: pl.col("is_moved")}, "changed"))
        report.add(applying(running.sort("place"), {RUNNING: pl.lit(value=True)}, "noted"))
        return pl.concat([running, kept[:most]], how="diagonal") if len(running) else kept[:most], origin_at

    def _running(self, rows: pl.DataFrame, origin_at: float) -> pl.DataFrame:
        """Return the jobs that run when the selected ones begin, in order of their starts, with what is left of them.

        They are jobs that the window leaves out because they were submitted before it.
        """
        selection = self._selection
        begin_at = origin_at + max((selection.from_at or 0) - selection.warm_up_s, 0)
        first_at = min(rows.filter(pl.col("dropped_by").is_null())["subtime"], default=begin_at)
        begin_at = selection.moved_by(origin_at, first_at) or begin_at
        started_at = pl.col("subtime") + pl.col("wait_s")
        is_running = (pl.col("wait_s") >= 0) & (started_at < begin_at) & (started_at + pl.col("run_s") > begin_at)
        others = first_of(replace(selection, from_at=None, to_at=None).limits(pl.col("subtime"), pl.col("n_procs")))
        found = rows.filter((pl.col("dropped_by") == OUTSIDE) & is_running & others.is_null())
        ran_s = pl.lit(begin_at) - started_at
        return found.sort(started_at, maintain_order=True).with_columns(
            pl.lit(float(begin_at)).alias("subtime"),
            (pl.col("run_s") - ran_s).alias("run_s"),
            pl.when(pl.col("requested_s") > 0).then(pl.max_horizontal(pl.col("requested_s") - ran_s, _LEAST_S)),
            pl.lit(None, pl.Float64).alias("wait_s"),
            pl.lit(value=True).alias("is_running"),
            pl.lit(value=False).alias("is_moved"),
        )

    def _plan(self) -> None:
        """Set run times, walltimes, estimates and numbers of the jobs, and count changes."""
        log, options = self._log, self._options
        sets_unknown = options.unknown_runtime_s is not None
        is_unknown = (_known("run_s") < 0) & sets_unknown
        is_raised = (_known("run_s") <= 0) & ~is_unknown
        run_s = pl.when(is_unknown).then(options.unknown_runtime_s).when(is_raised).then(options.min_runtime_s)
        cuts = options.run_times == "cut"
        is_cut = (pl.col("run_s") > pl.col("requested_s")) & cuts
        jobs = self._jobs.with_columns(
            run_s.otherwise("run_s").alias("run_s"),
            pl.when(_known("requested_s") >= _LEAST_S).then("requested_s"),
            is_unknown.alias("is_unknown"),
            is_raised.alias("is_raised"),
        )
        jobs = jobs.with_columns(
            pl.when(is_cut).then("requested_s").otherwise("run_s").alias("run_s"), is_cut.alias("is_cut")
        )
        rule = options.walltimes
        is_longer = (pl.col("requested_s") > pl.col("run_s")) & rule.is_by_request  # the run time does not matter
        asked = jobs.select(pl.when(is_longer).then(0.0).otherwise("run_s").alias("run_s"), "requested_s")
        times = computed(
            asked, lambda run_s, requested_s: rule.of(run_s, requested_s)._asdict(), _TIMES
        ).struct.unnest()
        if sets_unknown and rule.is_by_request:
            is_planned = jobs["requested_s"].is_not_null() | ~jobs["is_unknown"]
            given = (pl.when(is_planned).then(name) for name in ("walltime_s", "estimate_s"))
            times = times.select(*given, pl.when(is_planned).then("changed").otherwise(pl.lit(UNPLANNED)))
        self._jobs = jobs = self._with_numbers(jobs.hstack(times))
        if "is_running" in jobs.columns:
            names = [one for one in ("depends_on", "think_s", "eligible_from", "array_limit") if one in jobs.columns]
            self._jobs = jobs.with_columns(pl.when(pl.col("is_running").is_null()).then(one) for one in names)
        rules = {
            RAISED: pl.col("is_raised"),
            UNKNOWN: pl.col("is_unknown"),
            CUT: pl.col("is_cut"),
            **{changed: pl.col("changed") == changed for changed in times["changed"].drop_nulls().unique()},
        }
        if log.has_allocated and options.size != "larger" and (log.format == "SWF" or options.size == "allocated"):
            rules[OTHER_SIZE] = _known(f"{options.size}_{log.size_in}") <= 0
        self._count("changed", rules | {RENUMBERED: pl.col("is_renumbered"), LOOSE: pl.col("is_loose")})
        if log.has_records:
            self._read_requests()
            self._count("changed", {RENAMED: pl.col("is_cleaned")})
            self._count("noted", {UNLIMITED: _NO_NUMBER, ATTEMPT: pl.col("attempt") > 1})

    def _read_requests(self) -> None:
        """Set what jobs request of nodes, and count it, and what is ignored or simplified. O(n)."""
        jobs, in_cores = self._jobs, self._log.size_in == "cores"
        n_nodes, n_gpus = (pl.coalesce(f"allocated_{one}", f"requested_{one}") for one in ("nodes", "gpus"))
        made = computed(jobs.select("constraint"), _features_of, _FEATURES).struct.unnest()
        jobs = jobs.hstack(made).with_columns(
            (pl.col("is_simplified") & (n_nodes != 1).fill_null(value=True)).alias("is_simplified"),
            pl.col("gpu_type").str.contains(",").fill_null(value=False).alias("has_types"),
            pl.when(in_cores).then("cores_per_node"),
            pl.when(pl.col("exclusive")).then("exclusive"),
        )
        of_nodes = n_nodes.fill_null(pl.col("n_procs") // pl.col("cores_per_node"))
        jobs = jobs.with_columns(
            (of_nodes * pl.col("cores_per_node") != pl.col("n_procs")).fill_null(value=False).alias("is_uneven")
        )
        jobs = jobs.with_columns(
            pl.when(~pl.col("has_types") & (n_gpus > 0)).then(pl.col("gpu_type").str.replace_all(r"[^\w.-]+", "_")),
            pl.when(~pl.col("is_uneven")).then("cores_per_node"),
        )
        by_node = pl.col("is_node_memory").fill_null(value=False) & (n_nodes > 1) & pl.col("cores_per_node").is_null()
        gb = computed(jobs.select("memory_gb", n_nodes.alias("n")), _memory_per_proc, pl.Float64)
        self._jobs = jobs.with_columns(pl.when(by_node & in_cores).then(gb).alias("node_memory_gb"))
        self._count(
            "changed",
            {
                SIMPLER_FEATURES: pl.col("is_simplified"),
                NO_FEATURES: pl.col("is_unread"),
                SEVERAL_TYPES: pl.col("has_types"),
                UNEVEN: pl.col("is_uneven"),
            },
        )
        has = {
            "a number of nodes": n_nodes > 0,
            "memory": pl.col("memory_gb") > 0,
            "GPUs": n_gpus > 0,
            "a type of GPUs": pl.col("gpu_type").is_not_null(),
            "features": pl.col("features").is_not_null(),
            "whole nodes (exclusive)": pl.col("exclusive"),
            "cores on each node": pl.col("cores_per_node").is_not_null(),
        }
        counts = self._jobs.select(one.sum().alias(name) for name, one in has.items()).row(0, named=True)
        found = ", ".join(f"{name} ({quantity(n, 'job')})" for name, n in counts.items() if n)
        if found:
            self.report.note(f"requests of nodes that jobs have: {found}")

    def _with_numbers(self, jobs: pl.DataFrame) -> pl.DataFrame:
        """Return jobs with unique ids, and without dependencies on jobs that are not among them."""
        is_number = jobs.schema["id"] == pl.Int64
        again = ~pl.col("id").is_first_distinct() if is_number else pl.col("attempt").fill_null(1) > 1
        repeated = jobs.filter(again)
        if len(repeated) and self._options.duplicates == "error":
            name = "id" if is_number else "given_id"
            given, line = repeated[name][0], repeated["line"][0]
            first_line = (jobs if is_number else self._whole.jobs).filter(pl.col(name) == given)["line"][0]
            where = self._log.where
            raise InputError(
                f"{self._log.source}: {where} {line}, {self._log.names['id']}: expected a unique id, found {given}, "
                f"which is also on {where} {first_line}"
            )
        if not is_number:
            return self._with_dependencies(jobs)
        greatest = self._log.jobs["id"].max()
        number = pl.when(again).then(pl.lit(greatest) + again.cum_sum()).otherwise("id")
        jobs = jobs.with_columns(number.alias("id"), again.alias("is_renumbered"))
        if "depends_on" not in jobs.columns:
            return jobs.with_columns(pl.lit(value=False).alias("is_loose"))
        depends_on = pl.when(pl.col("depends_on") > 0).then("depends_on")  # some logs write 0 for none
        is_loose = depends_on.is_not_null() & ~depends_on.is_in(jobs["id"].implode())
        jobs = jobs.with_columns(is_loose.alias("is_loose"), pl.when(~is_loose).then(depends_on).alias("depends_on"))
        has_think_time = pl.col("depends_on").is_not_null() & (pl.col("think_s") >= 0)
        return jobs.with_columns(pl.when(has_think_time).then("think_s"))

    def _with_dependencies(self, jobs: pl.DataFrame) -> pl.DataFrame:
        """Return jobs with `array`, `array_limit`, `depends_on` and `eligible_at`, with the ids of the workload. O(n).

        The eligible time of a job that depends on others, or whose array has a limit, is a result of the schedule in
        the log. Such a job has that of the first task of its array, or none.
        """
        is_last = pl.col("attempt").is_null() | (pl.col("attempt") == pl.col("attempt").max().over("given_id"))
        array = pl.when(pl.col("task").is_not_null() & is_last).then(
            pl.col("id").str.replace(r"_[0-9]+(-[0-9]+)?$", "")
        )
        limits = self._whole.jobs.group_by("number").agg(pl.col("array_limit").max().alias("limit"))
        jobs = jobs.with_columns(array.alias("array")).drop("array_limit")
        jobs = jobs.join(limits, on="number", how="left", maintain_order="left")
        jobs = jobs.with_columns(pl.when(pl.col("array").is_not_null()).then("limit").alias("array_limit"))
        made: list[tuple[str | None, bool]] = [(None, False)] * len(jobs)
        if jobs["dependency"].is_not_null().any():
            found = Ids(jobs)
            for place, (own, task, text) in enumerate(jobs.select("id", "task", "dependency").iter_rows()):
                made[place] = (None, False) if text is None else found.dependency(own, task, text)
        jobs = jobs.with_columns(
            pl.Series("depends_on", [one for one, _ in made], dtype=pl.String),
            pl.Series("is_loose", [is_loose for _, is_loose in made], dtype=pl.Boolean),
            pl.lit(value=False).alias("is_renumbered"),
        )
        first_at = pl.when(pl.col("array_limit").is_not_null()).then(pl.col("eligible_at").min().over("array"))
        at = pl.coalesce(first_at, "eligible_at")
        is_later = (at > pl.col("submitted_at")) & pl.col("depends_on").is_null()
        zero_at = self._log.zero_at
        return jobs.with_columns(
            tidied(jobs.select(pl.when(is_later).then(at - zero_at).alias("eligible_from")).to_series())
        )

    def _profiles(self) -> dict[str, dict[str, Any]]:
        """Set the names of the profiles of jobs, and return the profiles. O(n)."""
        run_times = self._jobs["run_s"].unique(maintain_order=True)
        names = [str(plain(run_s)) for run_s in run_times]
        name = pl.col("run_s").replace_strict(run_times, names, return_dtype=pl.String)
        self._jobs = self._jobs.with_columns(name.alias("profile"))
        options = self._options
        made = (profile_of(plain(run_s), options.profile, options.speed_flops) for run_s in run_times)
        return dict(zip(names, made, strict=True))

    def _move(self) -> float:
        """Mark the jobs that are in the window, move all submissions, and return how far. O(n). Raises InputError."""
        times, selection = self._jobs["subtime"], self._selection
        by_s = selection.moved_by(self._origin_at, times[0]) if len(times) else 0
        is_counted = selection.counted(self._log.source, times, self._origin_at)
        has_running = "is_running" in self._jobs.columns
        if is_counted is not None or has_running:
            is_running = pl.col("is_running").fill_null(value=False) if has_running else pl.lit(value=False)
            counted = pl.Series("is_counted", is_counted or [True] * len(times))
            self._jobs = self._jobs.with_columns(counted).with_columns(pl.col("is_counted") & ~is_running)
            self._count("noted", {NOT_COUNTED: ~pl.col("is_counted") & ~is_running})
            self._jobs = self._jobs.with_columns(pl.col("is_counted").alias("evaluated"))
        if by_s:
            self._jobs = self._jobs.with_columns(tidied(times - by_s))
            if "eligible_from" in self._jobs.columns:
                self._jobs = self._jobs.with_columns(tidied(self._jobs["eligible_from"] - by_s))
        return by_s

    def _job_columns(self) -> JobColumns:
        """Return the fields of the jobs. O(n) for each field."""
        rows, log = self._jobs, self._log
        fields: dict[str, pl.Expr | pl.Series] = {
            "id": pl.col("id"),
            "subtime": pl.col("subtime"),
            "res": pl.col("n_procs"),
            "profile": pl.col("profile"),
            "walltime": pl.col("walltime_s"),
            "estimate": pl.col("estimate_s"),
        }
        fields |= {name: pl.col(name) for name in _LABELS if name in rows.columns}
        fields |= self._swf_fields() if log.format == "SWF" else self._record_fields()
        waits = rows.select(pl.when(pl.col("wait_s") >= 0).then("wait_s")).to_series()
        fields["logged_wait_s"] = waits if log.format == "SWF" else tidied(waits)
        fields["requested_procs"] = _positive(f"requested_{log.size_in}")
        fields["requested_time"] = pl.col("requested_s")
        fields |= {
            name: pl.when(~pl.col(column).str.contains(_MINUS_ONE)).then(column) for name, column in log.extras.items()
        }
        if "is_running" in rows.columns:
            fields["running_at_start"] = pl.col("is_running")
            if "node_list" in rows.columns:
                fields["node_list"] = pl.when("is_running").then("node_list")
        others = {"depends_on": "depends_on", "think_time": "think_s", "evaluated": "evaluated"}
        fields |= {name: pl.col(column) for name, column in others.items() if column in rows.columns}
        readers = dict.fromkeys(_LABELS, _label) if log.format == "SWF" else {}
        return JobColumns(rows.select(**fields), readers | dict.fromkeys(log.extras, extra_value))

    def _swf_fields(self) -> dict[str, pl.Expr | pl.Series]:
        """Return the memory and the status that a line of SWF has."""
        # Python divides: polars multiplies by 1 / in_a_gb, which may differ in the last digit.
        in_a_gb = _IN_A_GB[self._options.memory_unit]
        memory = self._jobs.select(pl.coalesce(_positive("requested_memory"), _positive("used_memory")))
        return {
            "memory_gb": computed(memory, lambda amount: None if amount is None else amount / in_a_gb, pl.Float64),
            "status": pl.when(pl.col("status") >= 0).then("status"),
        }

    def _record_fields(self) -> dict[str, pl.Expr | pl.Series]:
        """Return the state, the sizes and the amounts that the record of a batch system has."""
        rows = self._jobs
        later_s = tidied(rows["eligible_at"] - rows["submitted_at"])
        return {
            "queue": pl.col("partition"),
            "dependency": pl.col("dependency"),
            "exit_state": pl.col("state"),
            "status": computed(rows.select("state"), slurm_values.ENDED.get, pl.Int64),
            **{name: pl.coalesce(f"allocated_{name}", f"requested_{name}") for name in ("nodes", "gpus")},
            "memory_gb": pl.when(pl.col("node_memory_gb").is_null()).then(
                computed(rows.select("memory_gb", "n_procs"), _memory_per_proc, pl.Float64)
            ),
            **{
                name: pl.col(name) for name in ("node_memory_gb", "gpu_type", "features", "exclusive", "cores_per_node")
            },
            "used_memory_gb": computed(rows.select("used_gb"), lambda gb: gb and round(gb, 9), pl.Float64),
            "priority": pl.col("priority"),
            "energy_j": pl.col("energy_j"),
            "mean_power_w": pl.col("power_w"),
            "time_limit": pl.when(_NO_NUMBER & self._options.walltimes.is_by_request).then("time_limit"),
            "array": pl.col("array"),
            "array_limit": pl.col("array_limit"),
            "eligible_at": pl.col("eligible_from"),
            "eligible_after_s": later_s.to_frame("later").select(_positive("later")).to_series(),
            "attempt": pl.col("attempt"),
        }


def _memory_per_proc(gb: float | None, n_procs: int | None) -> float | None:
    return (round(gb / n_procs, 9) or None) if gb and n_procs else None


def _features_of(constraint: str | None) -> dict[str, Any]:
    """Return the features that a constraint requests, and whether they are simplified, or cannot be read."""
    try:
        found = slurm_values.features_of(constraint) if constraint else None
    except ValueError:
        return {"features": None, "is_simplified": False, "is_unread": True}
    return {
        "features": found and found.text,
        "is_simplified": found is not None and found.is_simplified,
        "is_unread": False,
    }


def _report_of_reading(log: LogTable) -> Report:
    """Return the report of a log, with the lines and jobs that are dropped already."""
    report = Report(len(log) + log.n_bad, where=log.where)
    for rule_count in log.bad.values():
        dropped = replace(rule_count, rule=f"bad {log.where}, {rule_count.rule}: dropped")
        report.rule_counts[dropped.rule] = dropped
    for rule_count in (*log.rule_counts, *([] if log.others is None else [log.others])):
        if rule_count.fate == "dropped":
            report.n_read += rule_count.count
            report.rule_counts[rule_count.rule] = rule_count
    return report


def _known(name: str) -> pl.Expr:
    """Return a column with -1 for unknown values, as logs have them."""
    return pl.col(name).fill_null(-1)


def _positive(name: str) -> pl.Expr:
    """Return a column without values of 0 or below."""
    return pl.when(pl.col(name) > 0).then(name)


def _label(text: str) -> int | str:
    """Return a label as a number if it is one."""
    return int(text) if _WHOLE.fullmatch(text) else text


def extra_value(text: str) -> float | str | None:
    """Return the value of an extra field: a number, a text, or None for -1."""
    value = float(text) if _DECIMAL.fullmatch(text) else _label(text)
    return None if value == -1 else value
