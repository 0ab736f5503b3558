"""The table of the jobs of a run: one row per job, segments of requeued jobs joined. All figures of jobs use it.

All measures of jobs are columns of this table. The tally that `simulate` prints (`pybatsched.metrics.tally`) computes
waits and bounded slowdowns a second time, job by job and without polars; a test compares the two.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, Final

import polars as pl

from pybatsched.core.events import NOTHING
from pybatsched.core.jobs import deadline_of
from pybatsched.errors import InputError, did_you_mean, setting
from pybatsched.metrics.distributions import Distribution, distribution
from pybatsched.metrics.figure_names import MEASURES, OF_LOGS, STRETCHES
from pybatsched.metrics.node_use import NodeUse
from pybatsched.metrics.outcomes import JobRecord, Outcome, facts_of, joined
from pybatsched.metrics.series import Steps
from pybatsched.metrics.slowdown import DEFAULT_TAU_S, bounded_slowdowns
from pybatsched.metrics.truncated import Truncation
from pybatsched.metrics.workload_fields import as_choices, kind_of, matches, user_name
from pybatsched.workload.formats.checks import is_number
from pybatsched.workload.statistics import shares
from pybatsched.workload.statistics.shares import Share

#: The columns of the table, with their types and meanings. Missing values are null. Facts of jobs follow, each in a
#: column of Float64 named ``fact.NAME``.
COLUMNS: Final[dict[str, tuple[type[pl.DataType], str]]] = {
    "row": (pl.Int64, "number of the job in its run, from 0"),
    "id": (pl.String, "`workload!job`, of the job that its user submitted"),
    "state": (pl.String, "final state of the last segment"),
    "kind": (pl.String, "urgent, deadline or regular, by the fields of the job"),
    "user": (pl.String, "field `user`, empty if there is none"),
    "evaluated": (pl.Boolean, "whether the job counts in figures of jobs"),
    "n_procs": (pl.Int64, "processors of the last segment; of a job that never ran, those it requested"),
    "n_segments": (pl.Int64, "how often the job was started"),
    "metadata": (pl.String, "metadata of the last segment"),
    "submitted_at": (pl.Float64, "first submission"),
    "started_at": (pl.Float64, "first start"),
    "ended_at": (pl.Float64, "last end"),
    "runtime_s": (pl.Float64, "the work that counts"),
    "deadline_at": (pl.Float64, "field `deadline`, or `max_stay` after the submission"),
    "alone_s": (pl.Float64, "field `alone_s`"),
    "flow_s": (pl.Float64, "ended_at - submitted_at"),
    "wait_s": (pl.Float64, "flow_s - runtime_s"),
    "queue_time_s": (pl.Float64, "started_at - submitted_at"),
    "is_late": (pl.Boolean, "whether the job has a deadline and did not end by it"),
}
#: The columns of the table of segments: one row for each start, in the order of the jobs.
SEGMENT_COLUMNS: Final = {
    "row": pl.Int64,
    "started_at": pl.Float64,
    "ended_at": pl.Float64,
    "runtime_s": pl.Float64,
    "n_procs": pl.Int64,
}
#: Lower bound of `alone_s`, in seconds, in a bounded stretch.
STRETCH_BOUND_S: Final = 300.0
#: A job that misses its deadline by at most this many seconds is not late, as in the promises of policies.
LATE_S: Final = 1e-3
UNKNOWN: Final = "unknown"
_FACT: Final = "fact."
#: The fact of jobs that could not start when they were submitted: for how long.
ELIGIBLE: Final = "eligible_after_s"
#: Names that no fact can have.
_RESERVED: Final = frozenset((*MEASURES, *STRETCHES, *OF_LOGS, "utilisation", "makespan_s", "queue_length"))


def _add_eligible_waits(
    facts: dict[int, Mapping[str, float]], records: Sequence[JobRecord], waits_s: Iterable[float | None]
) -> None:
    """Add the wait of each job from the time when it could start, if some jobs could not start at once. O(jobs)."""
    if not any(ELIGIBLE in one.segments[0].metadata for one in records if one.segments):
        return
    for row, (record, wait_s) in enumerate(zip(records, waits_s, strict=True)):
        if wait_s is not None:
            later_s = facts_of(record.segments[0].metadata).get(ELIGIBLE, 0.0)
            more = {ELIGIBLE: later_s} if later_s else {}
            facts[row] = {**facts.get(row, NOTHING), **more, "eligible_wait_s": max(round(wait_s - later_s, 6), 0.0)}


class JobResults:
    """Jobs of a run: a `frame` of `COLUMNS`, `segments`, and the workload `fields` of all jobs of the run by `row`."""

    def __init__(
        self,
        frame: pl.DataFrame,
        segments: pl.DataFrame,
        fields: Sequence[Mapping[str, Any]],
        nodes: NodeUse | None = None,
    ) -> None:
        self.frame = frame
        self.fields = fields
        #: What all jobs of the run held of nodes, if requests were counted.
        self.nodes = nodes
        self._of_run = segments

    @cached_property
    def segments(self) -> pl.DataFrame:
        """The segments of these jobs, in the order of the jobs."""
        return self._of_run.join(self.frame.select("row"), on="row", how="semi", maintain_order="left")

    @classmethod
    def of(cls, records: Sequence[JobRecord], nodes: NodeUse | None = None) -> JobResults:
        """Create the table of jobs. O(jobs). Raises InputError for fields that cannot be used."""
        parts = [part for record in records for part in record.segments]
        ends = [part.ended_at for part in parts]
        n_segments = [len(record.segments) for record in records]
        fields = [record.fields for record in records]
        some_count = any("evaluated" in one for one in fields if one)
        lasts = [record.segments[-1] if record.segments else None for record in records]
        facts: dict[int, Mapping[str, float]]
        facts = {row: facts_of(last.metadata) for row, last in enumerate(lasts) if last is not None and last.metadata}
        columns: dict[str, Sequence[Any]] = {
            "row": range(len(records)),
            "id": [record.id for record in records],
            "state": [record.state for record in records],
            "kind": [kind_of(one) if one else "regular" for one in fields],
            "user": [user_name(one.get("user")) if one else "" for one in fields],
            "evaluated": [not some_count or one.get("evaluated") is True for one in fields],
            "n_procs": [
                record.n_procs if last is None else last.n_procs for record, last in zip(records, lasts, strict=True)
            ],
            "n_segments": n_segments,
            "metadata": [last and last.metadata for last in lasts],
            "submitted_at": [record.submitted_at for record in records],
            "started_at": [record.segments[0].started_at if record.segments else None for record in records],
            "ended_at": [
                ends[after - 1] if n else None for n, after in zip(n_segments, accumulate(n_segments), strict=True)
            ],
            "runtime_s": [record.runtime_s if record.segments else None for record in records],
            "deadline_at": [
                deadline_of(one.id, one.fields, one.submitted_at) if one.fields else None for one in records
            ],
            "alone_s": [_alone_s(one.id, one.fields) if one.fields else None for one in records],
        }
        frame = pl.DataFrame([pl.Series(name, values, COLUMNS[name][0]) for name, values in columns.items()])
        frame = frame.with_columns(flow_s=pl.col("ended_at") - pl.col("submitted_at"))
        frame = frame.with_columns(
            wait_s=_at_least(0.0, _on_tick(frame["flow_s"] - frame["runtime_s"])),
            queue_time_s=_at_least(0.0, pl.col("started_at") - pl.col("submitted_at")),
            is_late=pl.col("deadline_at").is_not_null()
            & (pl.col("ended_at").is_null() | (pl.col("ended_at") > pl.col("deadline_at") + LATE_S)),
        )
        _add_eligible_waits(facts, records, frame["wait_s"])
        names = sorted({name for one in facts.values() for name in one} - _RESERVED)
        fact_columns = [
            pl.Series(f"{_FACT}{name}", [facts.get(row, NOTHING).get(name) for row in range(len(records))], pl.Float64)
            for name in names
        ]
        of_segments: dict[str, Sequence[Any]] = {
            "row": [row for row, n in enumerate(n_segments) for _ in range(n)],
            "started_at": [part.started_at for part in parts],
            "ended_at": ends,
            "runtime_s": [part.runtime_s for part in parts],
            "n_procs": [part.n_procs for part in parts],
        }
        segments = pl.DataFrame(
            [pl.Series(name, values, SEGMENT_COLUMNS[name]) for name, values in of_segments.items()]
        )
        frame = frame.with_columns(fact_columns)
        if nodes is not None:
            frame = frame.with_columns(pl.Series(name, values) for name, values in nodes.of_jobs().items())
        return cls(frame, segments, fields, nodes)

    @classmethod
    def of_outcomes(cls, rows: Iterable[Outcome], fields: Mapping[str, Mapping[str, Any]] = NOTHING) -> JobResults:
        """Create the table from the rows of a run; segments are joined to jobs. O(rows)."""
        return cls.of(joined(rows, fields))

    def __len__(self) -> int:
        return self.frame.height

    def _take(self, which: pl.Expr | Sequence[int]) -> JobResults:
        frame = self.frame.filter(which) if isinstance(which, pl.Expr) else self.frame[which]
        return JobResults(frame, self._of_run, self.fields, self.nodes)

    @cached_property
    def ran(self) -> pl.DataFrame:
        """The rows of the jobs that ran."""
        return self.frame.filter(pl.col("n_segments") > 0)

    @cached_property
    def evaluated(self) -> JobResults:
        """The jobs that count: all, or those with ``evaluated: true`` where some have the field."""
        return self if self.frame["evaluated"].all() else self._take(pl.col("evaluated"))

    def submitted_in(self, begin: float | None, end: float | None) -> JobResults:
        """Return the jobs submitted in a span of time, without its end; None is no limit. O(jobs)."""
        if begin is None and end is None:
            return self
        low, high = -math.inf if begin is None else begin, math.inf if end is None else end
        return self._take((pl.col("submitted_at") >= low) & (pl.col("submitted_at") < high))

    def chosen(self, where: Mapping[str, Any]) -> JobResults:
        """Return the jobs whose fields match `where`: a value or a list; a missing field is false. O(jobs)."""
        return self._take(
            [
                position
                for position, row in enumerate(self.frame["row"])
                if all(
                    any(matches(self.fields[row].get(name, False), choice) for choice in as_choices(wanted))
                    for name, wanted in where.items()
                )
            ]
        )

    def check_class(self, key: str) -> None:
        """Raise InputError if no job has this field. O(n)."""
        known = {name for row in self.frame["row"] for name in self.fields[row]}
        classes = ("kind", "size", "state", *(() if self.nodes is None else ("resource",)))
        if len(self) and key not in {*classes, *known}:
            others = f" or one of {', '.join(sorted(known))}" if known else "; -w names the workload with other fields"
            raise InputError(f"{setting('by', key[:60])}: no job has this field; expected {', '.join(classes)}{others}")

    def by_class(self, key: str) -> dict[str, JobResults]:
        """Group jobs by `kind`, `size`, `state`, `resource` (on nodes) or a workload field, in order. O(n)."""
        if key == "size":
            names: Sequence[Any] = [n.bit_length() for n in self.frame["n_procs"]]
        elif key in {"kind", "state"} or (key == "resource" and self.nodes is not None):
            names = self.frame[key].to_list()
        else:
            values = (self.fields[row].get(key, UNKNOWN) for row in self.frame["row"])
            names = [value if isinstance(value, str | int | float) else str(value) for value in values]
        classes: defaultdict[Any, list[int]] = defaultdict(list)
        for position, name in enumerate(names):
            classes[name].append(position)
        ordered = sorted(classes.items(), key=lambda item: _sort_key(item[0]))
        return {size_class(name) if key == "size" else str(name): self._take(rows) for name, rows in ordered}

    @cached_property
    def labels(self) -> dict[str, list[str]]:
        """Texts of the fields in which these jobs differ, such as their users and partitions, by field. O(n)."""
        return shares.labels_of(shares.columns_of([self.fields[row] for row in self.frame["row"]]))

    def largest(self, field: str) -> list[str]:
        """Return the values of a field with the most processor-seconds, at most eleven. O(n)."""
        return shares.names_of(field, self.labels[field], self._work)

    def shares(self, field: str, names: Sequence[str]) -> list[Share]:
        """Return the shares of some values of a field, and of others; none if the jobs do not differ. O(n)."""
        if field not in self.labels:
            return []
        return shares.shares(self.labels[field], self._work, self.frame["wait_s"].to_list(), names)

    @cached_property
    def _work(self) -> list[float]:
        """The processor-seconds of each job; 0 for a job that never ran."""
        return (self.frame["n_procs"] * self.frame["runtime_s"]).fill_null(0.0).to_list()

    def use_of_nodes(self) -> dict[str, float]:
        """Return which shares of all processors' time, memory and GPUs these jobs held; empty without nodes. O(n)."""
        return {} if self.nodes is None else self.nodes.shares(self.frame["row"])

    @cached_property
    def facts(self) -> list[str]:
        """The facts that some of these jobs have, sorted."""
        return [
            name.removeprefix(_FACT)
            for name in self.frame.columns
            if name.startswith(_FACT) and self.frame[name].count()
        ]

    @cached_property
    def plain_measures(self) -> list[str]:
        """The measures of these jobs, without facts."""
        is_known = any("alone_s" in self.fields[row] for row in self.frame["row"])
        return [*MEASURES, *(STRETCHES if is_known else ())]

    @cached_property
    def measures_of_log(self) -> list[str]:
        """The measures that some of these jobs have from their log."""
        return [name for name in OF_LOGS if any(name in self.fields[row] for row in self.frame["row"])]

    def check_measure(self, measure: str, *others: JobResults) -> None:
        """Raise InputError for a measure that no job of this table or of the others has."""
        tables = (self, *others)
        others_of = [name for table in tables for name in (*table.measures_of_log, *table.facts)]
        known = [*max((table.plain_measures for table in tables), key=len), *sorted(set(others_of))]
        if measure not in known:
            names = did_you_mean(measure, known, f": expected one of {', '.join(known)}")
            raise InputError(f"measure {measure!r:.40}{names}")

    def column(self, measure: str, tau_s: float = DEFAULT_TAU_S) -> pl.Series:
        """Return a measure of all jobs, null where a job has none. O(n)."""
        if measure in {"slowdown", "bounded_slowdown"}:
            bound_s = tau_s if measure == "bounded_slowdown" else 0.0
            found = bounded_slowdowns(pl.col("wait_s"), pl.col("runtime_s"), bound_s)
        elif measure in STRETCHES:
            bound_s = STRETCH_BOUND_S if measure == "bounded_stretch" else 0.0
            found = pl.col("flow_s") / pl.col("alone_s").clip(lower_bound=bound_s)
        elif measure in MEASURES:
            found = pl.col(measure)
        elif measure in OF_LOGS:
            values = (self.fields[row].get(measure) for row in self.frame["row"])
            return pl.Series(measure, [one if is_number(one) else None for one in values], pl.Float64)
        elif f"{_FACT}{measure}" in self.frame.columns:
            found = pl.col(f"{_FACT}{measure}")
        else:
            return pl.Series(measure, [None] * self.frame.height, pl.Float64)
        return self.frame.select(found.alias(measure)).to_series()

    def values(self, measure: str, tau_s: float = DEFAULT_TAU_S) -> list[float]:
        """Return a measure of all jobs that have it, in their order. O(n)."""
        return self.column(measure, tau_s).drop_nulls().to_list()

    def distribution(self, measure: str = "bounded_slowdown", tau_s: float = DEFAULT_TAU_S) -> Distribution | None:
        """Return statistics of a measure; None if no job has it. Raises InputError for an unknown measure."""
        self.check_measure(measure)
        return distribution(self.values(measure, tau_s))

    def procs_in_use(self, cut: Truncation | None = None) -> Steps:
        """Return the processors that jobs hold over time, in all segments, up to a truncation. O(n log n)."""
        n_procs = self.segments["n_procs"].cast(pl.Float64)
        changes = [(self.segments["started_at"], n_procs), (self.segments["ended_at"], -n_procs)]
        return _steps(changes, cut.in_use() if cut is not None else ())

    def queue_length(self, cut: Truncation | None = None) -> Steps:
        """Return the number of waiting jobs over time, up to `cut` in a truncated run. O(n log n).

        A job that could not start when it was submitted counts from the time when it could.
        """
        is_first = pl.col("row") != pl.col("row").shift(1, fill_value=-1)
        at = self.ran["submitted_at"]
        if f"{_FACT}{ELIGIBLE}" in self.ran.columns:
            at = at + self.ran[f"{_FACT}{ELIGIBLE}"].fill_null(0.0)
        submitted = at.gather(self.segments.select(is_first.cum_sum() - 1).to_series())
        since = self.segments.select(
            pl.when(is_first).then(submitted).otherwise(pl.col("ended_at").shift(1))
        ).to_series()
        one = pl.Series([1.0]).new_from_index(0, len(since))
        changes = [(since, one), (self.segments["started_at"], -one)]
        return _steps(changes, cut.waiting() if cut is not None else ())

    def utilisation(self, n_procs: int, cut: Truncation | None = None) -> float | None:
        """Return the share of all processors' time from the first submission to the last end that jobs held.

        A truncated run counts up to the truncation, with the jobs that ran then; None if files do not contain them, and
        if no job ran or the size of the machine is unknown. O(n).
        """
        begin, end = self.span_until(cut)
        if end <= begin or not n_procs or (cut is not None and cut.unfinished is None):
            return None
        held_s = (self.segments["n_procs"] * self.segments["runtime_s"]).to_list()
        held_s += [by * (end - at) for at, by in (cut.in_use() if cut is not None else ()) if by > 0]
        return math.fsum(held_s) / (n_procs * (end - begin))

    def span_until(self, cut: Truncation | None) -> tuple[float, float]:
        """Return the first submission, and the last end or the truncation; (0, 0) if no job ran."""
        return self.span if cut is None else cut.span(self.frame["submitted_at"])

    @property
    def span(self) -> tuple[float, float]:
        """The first submission, also of jobs that never ran, and the last end; (0, 0) if no job ran."""
        last: Any = self.frame["ended_at"].max()
        first: Any = self.frame["submitted_at"].min()
        return (0.0, 0.0) if last is None else (first, last)


def _steps(changes: Sequence[tuple[pl.Series, pl.Series]], more: Iterable[tuple[float, float]]) -> Steps:
    """Create steps from columns of times and integer changes, whose sums are exact in any order. O(n log n)."""
    at, by = zip(*more, strict=True) if (more := list(more)) else ((), ())
    columns = [(pl.Series(at, dtype=pl.Float64), pl.Series(by, dtype=pl.Float64)), *changes]
    frame = pl.DataFrame({"at": pl.concat([one for one, _ in columns]), "by": pl.concat([one for _, one in columns])})
    sums = frame.group_by("at").agg(pl.col("by").sum()).filter(pl.col("by") != 0).sort("at")
    return Steps(tuple(sums["at"].to_list()), tuple(sums["by"].cum_sum().to_list()))


def _on_tick(values: pl.Series) -> pl.Series:
    """Round to the six decimals of the files with Python's `round`: polars rounds halves differently."""
    return pl.Series(values.name, [None if value is None else round(value, 6) for value in values], pl.Float64)


def _at_least(least: float, values: pl.Expr | pl.Series) -> pl.Expr:
    """Return the larger of each value and `least`; null stays null."""
    found = pl.lit(values) if isinstance(values, pl.Series) else values
    return pl.when(found <= least).then(least).otherwise(found)  # equal: -0.0 becomes 0.0


def size_class(n_bits: int) -> str:
    """Return the name of the class of sizes with `n_bits` binary digits.

    >>> size_class(1), size_class(3)
    ('1', '4-7')
    """
    low = 1 << (n_bits - 1) if n_bits else 0
    return str(low) if n_bits <= 1 else f"{low}-{2 * low - 1}"


def _sort_key(name: Any) -> tuple[int, float, str]:
    return (0, float(name), "") if isinstance(name, int | float) else (1, 0.0, name)


def _alone_s(job_id: str, fields: Mapping[str, Any]) -> float | None:
    """Read the time that a job takes on an empty machine; None without the field. Raises InputError."""
    if "alone_s" not in fields:
        return None
    value = fields["alone_s"]
    if type(value) not in {int, float} or not 0 < value < math.inf:
        raise InputError(f"job {job_id}, field alone_s: expected more than 0 seconds, found {str(value)[:60]}")
    return float(value)
