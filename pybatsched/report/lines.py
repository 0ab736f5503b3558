"""Compute charts of runs as tables: lines of distributions and over time, and boxes. This module draws nothing.

A group is a label with its runs: one run, or all runs of a policy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal, NamedTuple, TypeAlias

from pybatsched.errors import InputError, setting
from pybatsched.metrics.distributions import Distribution, distribution
from pybatsched.metrics.saved_runs import SavedRun
from pybatsched.metrics.series import Steps
from pybatsched.report import durations
from pybatsched.report.scales import LOG_FROM, ChartAxis, ScaleOption, axis_for

Group: TypeAlias = tuple[str, Sequence[SavedRun]]
Quantity = Literal["utilisation", "queue", "memory", "GPUs", "stranded"]
#: Whether charts have a line, box or panel for each run or for each policy.
ByOption = Literal["auto", "run", "policy"]

#: With more runs, those of a policy are drawn together.
MAX_RUNS: Final = 12
#: With more steps, a line over time consists of means over spans.
MAX_SPANS: Final = 400
_MAX_POINTS: Final = 4_000
_TITLES: Final[dict[Quantity, str]] = {
    "utilisation": "processors in use",
    "queue": "waiting jobs",
    "memory": "memory in use (GB)",
    "GPUs": "GPUs in use",
    "stranded": "stranded processors",
}


class Line(NamedTuple):
    """A line of a chart. Over time, `y[i]` is the value from `x[i]` to `x[i + 1]`, so `x` is longer by one."""

    label: str
    x: Sequence[float]
    y: Sequence[float]


class Lines(NamedTuple):
    """The table of a chart of lines. `limits` are what each group's machine has, such as processors; 0 if unknown.

    `span_s` is the length of the spans that values over time are means of; 0 if they are exact.
    """

    x: ChartAxis
    y: ChartAxis
    lines: tuple[Line, ...]
    limits: tuple[float, ...] = ()
    span_s: float = 0.0


class Boxes(NamedTuple):
    """The table of a chart of boxes: the statistics of each group."""

    y: ChartAxis
    labels: tuple[str, ...]
    boxes: tuple[Distribution, ...]


class JobSelection(NamedTuple):
    """The values that a chart of jobs shows: a measure of the jobs submitted in a span of time."""

    measure: str
    tau_s: float
    begin_s: float | None = None
    end_s: float | None = None

    def of(self, runs: Sequence[SavedRun]) -> list[float]:
        """Return the values of all jobs of some runs, sorted. Raises InputError if a run has none."""
        values: list[float] = []
        for run in runs:
            found = run.evaluated.submitted_in(self.begin_s, self.end_s).values(self.measure, self.tau_s)
            if not len(found):
                span = durations.span_text(self.begin_s, self.end_s)
                which = f" submitted {span}" if span else ""
                raise InputError(f"{run.prefix}: expected at least one job{which} with {self.measure}, found none")
            values += found
        return sorted(values)


def policies_of(runs: Sequence[SavedRun]) -> list[str]:
    """Return the policy of each run, with the options in which runs of the same policy differ. O(runs)."""
    described = [run.summary.get("policy") for run in runs]
    parts = [one if isinstance(one, dict) else {} for one in described]
    names = [run.policy or str(part.get("name") or run.label) for run, part in zip(runs, parts, strict=True)]
    options = [{} if run.policy else part.get("options") or {} for run, part in zip(runs, parts, strict=True)]
    found = []
    for name, own in zip(names, options, strict=True):
        of_name = [other for known, other in zip(names, options, strict=True) if known == name]
        texts = [f"{key}={value}" for key, value in own.items() if any(one.get(key) != value for one in of_name)]
        found.append(f"{name} ({', '.join(texts)})" if texts else name)
    return found


def renamed(runs: Sequence[SavedRun], labels: Mapping[str, str]) -> list[SavedRun]:
    """Return runs with new names: `labels` has those of runs and of policies. Raises InputError."""
    names = list(labels.values())
    twice = next((name for name in names if names.count(name) > 1 or not name.strip()), None)
    if twice is not None:
        raise InputError(f"{setting('label', twice[:60])}: expected names that are not empty and differ")
    found = []
    for run, policy in zip(runs, policies_of(runs), strict=True):
        new = labels.get(policy, policy)
        found.append(replace(run, name=labels.get(run.label, run.label.replace(policy, new, 1)), policy=new))
    return found


def groups_of(runs: Sequence[SavedRun], by: ByOption = "auto") -> list[Group]:
    """Return the groups that a chart shows: by policy if requested, or if there are more than 12 runs."""
    policies = policies_of(runs)
    n = len(set(policies))
    if by == "run" or (by == "auto" and (len(runs) <= MAX_RUNS or n == len(runs))):
        return [(run.label, (run,)) for run in runs]
    found: dict[str, list[SavedRun]] = {}
    for run, policy in zip(runs, policies, strict=True):
        found.setdefault(policy, []).append(run)
    return [(f"{policy} ({len(own):,} runs)" if len(own) > 1 else policy, own) for policy, own in found.items()]


def cdf_of(groups: Sequence[Group], jobs: JobSelection, scale: ScaleOption = "auto") -> Lines:
    """Return the share of jobs up to each value of a measure; all jobs of a group together. O(n log n)."""
    found = [jobs.of(runs) for _, runs in groups]
    low, high = min(values[0] for values in found), max(values[-1] for values in found)
    lines = []
    for (label, _), values in zip(groups, found, strict=True):
        stride = max(len(values) // _MAX_POINTS, 1)
        kept = sorted({*range(0, len(values), stride), len(values) - 1})
        # From 0 up to the first value, and from the last one to the end of the axis.
        x = [values[0], *(values[k] for k in kept), high]
        lines.append(Line(label, x, [0.0, *((k + 1) / len(values) for k in kept), 1.0]))
    return Lines(axis_for(low, high, jobs.measure, scale), ChartAxis(0.0, 1.02, title="share of jobs"), tuple(lines))


def boxes_of(groups: Sequence[Group], jobs: JobSelection, scale: ScaleOption = "auto") -> Boxes:
    """Return the statistics of a measure; all jobs of a group together. O(n log n)."""
    found = [one for _, runs in groups if (one := distribution(jobs.of(runs))) is not None]
    low = min(one.percentiles[5] for one in found)
    high = max(max(one.percentiles[95], one.mean) for one in found)
    axis = axis_for(low, high, jobs.measure, scale).with_room()
    return Boxes(axis, tuple(label for label, _ in groups), tuple(found))


def span_of(runs: Sequence[SavedRun], begin_s: float | None = None, end_s: float | None = None) -> tuple[float, float]:
    """Return the time that all charts of some runs show, within these limits. Raises InputError."""
    begins = [record.submitted_at for run in runs for record in run.records]
    ends = [record.ended_at for run in runs for record in run.records if record.ran]
    for run in runs:
        if run.cut is not None:
            begins.append(run.span[0])
            ends.append(run.span[1])
    begin = min(begins, default=0.0)
    end = max(*ends, begin + 1e-6) if ends else begin + 1.0
    first, last = begin if begin_s is None else begin_s, end if end_s is None else end_s
    if first >= end or last <= begin:
        found = f"{durations.duration_text(begin)} to {durations.duration_text(end)}"
        shown = durations.span_text(begin_s, end_s)
        raise InputError(f"no job is shown {shown}: the runs last from {found}; use another begin or end")
    return first, last


def time_axis(begin: float, end: float, *, is_exact: bool = False) -> ChartAxis:
    """Return an axis of time; it starts at 0 if `begin` is close to 0 and not `is_exact`."""
    return ChartAxis(0.0 if 0 < begin < 0.1 * end and not is_exact else begin, end, title="time", is_time=True)


def over_time(
    groups: Sequence[Group],
    what: Quantity,
    time: ChartAxis,
    span: tuple[float, float],
    *,
    scale: ScaleOption = "auto",
    n_max: int = MAX_SPANS,
) -> Lines:
    """Return a quantity over a span of time, as a line for each group; on nodes also what jobs held of these.

    Lines with more than `n_max` steps are means over round spans, for all groups. The values of a group of several runs
    are means over its runs. The axis of queues is logarithmic if a line is near 0 most of the time. O(n).
    """
    begin, end = span
    steps = [[_steps_of(run, what) for run in runs] for _, runs in groups]
    parts = [[_part(one, begin, end) for one in of_group] for of_group in steps]
    span_s = 0.0
    if any(len(own) > 1 or len(own[0].values) > n_max for own in parts):
        span_s = durations.span_for(end - begin, n_max)
        first, last = math.floor(begin / span_s) + 1, math.ceil(end / span_s)
        edges = [begin, *(span_s * k for k in range(first, last)), end]
        means = [[one.binned(edges) for one in own] for own in parts]
        values = [[math.fsum(at) / len(own) for at in zip(*own, strict=True)] for own in means]
        lines = [Line(label, edges, own) for (label, _), own in zip(groups, values, strict=True)]
        of_runs = " and over runs" if any(len(own) > 1 for own in parts) else ""
        time = time._replace(note=f"; means of each {durations.duration_text(span_s)}{of_runs}")
    else:
        lines = [Line(label, [*own.times, end], own.values) for (label, _), (own,) in zip(groups, parts, strict=True)]
    highest = max(max(line.y) for line in lines)
    limits = tuple(max(_limit_of(run, what) for run in runs) for _, runs in groups)
    if what != "queue":
        top = max(*(limit or max(line.y) for line, limit in zip(lines, limits, strict=True)), 1.0)
        return Lines(time, ChartAxis(0.0, 1.06 * top, title=_TITLES[what]), tuple(lines), limits, span_s)
    flattest = min(one.mean(begin, end) for own in steps for one in own)
    is_log = scale == "log" or (scale == "auto" and highest > LOG_FROM * max(flattest, 1.0))
    top = max(highest, 1.0)
    axis = (
        ChartAxis(-0.1, 1.2 * top, "symlog", _TITLES[what])
        if is_log
        else ChartAxis(0.0, 1.05 * top, title=_TITLES[what])
    )
    return Lines(time, axis, tuple(lines), limits, span_s)


def of_nodes(runs: Sequence[SavedRun]) -> list[Quantity]:
    """Return the quantities of nodes to show: those that all of these runs have, if one of them is above 0."""
    found: list[Quantity] = ["memory", "GPUs", "stranded"]
    nodes = [run.jobs.nodes for run in runs if run.jobs.nodes is not None]
    if len(nodes) < len(runs):
        return []
    return [what for what in found if any(one.held[what].maximum for one in nodes)]


def resources_over_time(run: SavedRun, time: ChartAxis, span: tuple[float, float]) -> Lines:
    """Return the shares of processors, memory and GPUs in use over a span of time, and of stranded processors. O(n)."""
    if run.jobs.nodes is None:
        raise InputError(f"resources: {run.label}: expected a run whose jobs request memory, GPUs or nodes")
    names: list[Quantity] = ["utilisation", *of_nodes([run])]
    tables = [over_time([(run.label, (run,))], what, time, span) for what in names]
    lines = []
    for what, table in zip(names, tables, strict=True):
        (line,), whole = table.lines, _limit_of(run, "utilisation" if what == "stranded" else what)
        label = _TITLES[what].removesuffix(" (GB)").removesuffix(" in use")
        lines.append(Line(label, line.x, [value / whole for value in line.y]))
    axis = next((table.x for table in tables if table.span_s), tables[0].x)
    return Lines(axis, ChartAxis(0.0, 1.02, title="share in use"), tuple(lines))


def _steps_of(run: SavedRun, what: Quantity) -> Steps:
    """Return a quantity of a run over time."""
    if what == "utilisation":
        return run.usage
    if what == "queue" or run.jobs.nodes is None:
        return run.queue_length
    return run.jobs.nodes.held[what]


def _limit_of(run: SavedRun, what: Quantity) -> float:
    """Return how much of a quantity the machine of a run has; 0 if unknown."""
    if what == "utilisation":
        return run.n_procs
    return 0 if run.jobs.nodes is None else run.jobs.nodes.capacity.get(what, 0)


def _part(steps: Steps, begin: float, end: float) -> Steps:
    """Return the steps within a span of time, from its begin on. O(n)."""
    kept = [(at, value) for at, value in zip(steps.times, steps.values, strict=True) if begin < at < end]
    return Steps((begin, *(at for at, _ in kept)), (steps.at(begin), *(value for _, value in kept)))
