"""Charts of runs and campaigns for notebooks and papers: each is a matplotlib Figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pybatsched.campaign.store import Store
from pybatsched.errors import InputError, quantity
from pybatsched.experiment.arguments import Time, public, warn
from pybatsched.metrics.saved_runs import SavedRun, common_tau_s
from pybatsched.settings import TIME

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: A width: that of a column (3.5 in) or of the text (7.2 in) of a paper, or inches.
Width: TypeAlias = Literal["column", "text"] | float
#: The scale of the axis of values. By default, it is logarithmic if the values differ much.
Scale: TypeAlias = Literal["auto", "log", "linear"]


class Plots:
    """The charts of some runs. All methods take the same keywords.

    `labels` are names to show instead of those of policies or runs. `by` says whether each run or each policy has a
    line, box or panel (default: each policy if there are more than 12 runs; its jobs count together, and values over
    time are means over its runs). `width` is the width of the chart, and `scale` (auto, log or linear) the scale of the
    axis of values. `begin` and `end` limit the time axis, or select jobs by submission. `tau_s` is the bound of bounded
    slowdowns, if not that of the runs.
    """

    def __init__(self, runs: Sequence[SavedRun]) -> None:
        self._runs = runs

    def cdf(self, measure: str = "bounded_slowdown", **options: Any) -> Figure:
        """Draw the share of jobs up to each value of a measure, one line per run or policy."""
        return self._chart("cdf", measure=measure, **options)

    def boxes(self, measure: str = "bounded_slowdown", **options: Any) -> Figure:
        """Draw the quartiles of a measure, whiskers at 5 and 95 per cent, and the mean, one box per run or policy."""
        return self._chart("boxes", measure=measure, **options)

    def utilisation(self, **options: Any) -> Figure:
        """Draw the processors in use over time, one panel per run or policy."""
        return self._chart("utilisation", **options)

    def resources(self, **options: Any) -> Figure:
        """Draw the shares of processors, memory and GPUs in use over time, of one run on nodes."""
        return self._chart("resources", **options)

    def queue(self, **options: Any) -> Figure:
        """Draw the number of waiting jobs over time, one line per run or policy."""
        return self._chart("queue", **options)

    def gantt(self, **options: Any) -> Figure:
        """Draw which job ran when and where, of one run. `color` is job, wait, partition, gpus or auto."""
        return self._chart("gantt", **options)

    @public
    def _chart(
        self,
        kind: str,
        *,
        measure: str | None = None,
        labels: Mapping[str, str] | None = None,
        width: Width = "text",
        begin: Time | None = None,
        end: Time | None = None,
        scale: Scale = "auto",
        color: Literal["auto", "job", "wait", "partition", "gpus"] = "auto",
        by: Literal["auto", "run", "policy"] = "auto",
        tau_s: float | None = None,
        **unknown: Any,
    ) -> Figure:
        from pybatsched.report import chart_style, charts, lines  # noqa: PLC0415  they need optional dependencies

        if unknown:
            expected = "labels, width, begin, end, scale, color, by, tau_s"
            raise InputError(f"{', '.join(sorted(unknown))}: unknown argument; expected one of {expected}")
        _check_labels(labels, [*lines.policies_of(self._runs), *(run.label for run in self._runs)])
        runs = lines.renamed(self._runs, labels or {})
        if measure is not None:
            runs[0].evaluated.check_measure(measure, *(run.evaluated for run in runs[1:]))
        bound = common_tau_s(runs if measure == "bounded_slowdown" else [], tau_s)
        begin_s, end_s = (None if at is None else TIME.read(name, at) for name, at in (("begin", begin), ("end", end)))
        if begin_s is not None and end_s is not None and end_s <= begin_s:
            raise InputError(f"{kind}: expected an end after {begin_s:g} s, found {end_s:g} s")
        inches = chart_style.width_of(str(width))
        options = charts.PlotOptions(measure or "bounded_slowdown", bound, scale, inches, begin_s, end_s, color, by)
        return charts.chart_of(kind, runs, options)


class CampaignPlots:
    """The charts of a campaign, those of its page. All methods take a figure or measure, and the same keywords.

    `baseline` is the policy to compare with (default: that of the campaign's file, else its first policy). `policy`
    draws only one policy, `only` only some workloads or families; names may contain stars. `each` is a field of jobs
    that the campaign keeps, such as user: a dot is then one of its values in a run. `labels` are names to show instead
    of those of policies, settings and families. `width` and `scale` are as in `Plots`.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def boxes(self, measure: str = "bounded_slowdown", **options: Any) -> Figure:
        """Draw a box of the runs' figures for each policy and value of its options, by family of workloads."""
        return self._chart("boxes", measure=measure, **options)

    def ratios(self, measure: str = "bounded_slowdown", **options: Any) -> Figure:
        """Draw boxes of the ratios to a baseline on the same workload, platform and seed."""
        return self._chart("ratios", measure=measure, **options)

    def means(self, measure: str = "bounded_slowdown", **options: Any) -> Figure:
        """Draw means with confidence intervals, by Student's t over weeks or seeds."""
        return self._chart("means", measure=measure, **options)

    def mean_ratios(self, measure: str = "bounded_slowdown", **options: Any) -> Figure:
        """Draw means of the ratios to a baseline, with confidence intervals."""
        return self._chart("mean-ratios", measure=measure, **options)

    def differences(self, measure: str = "bounded_slowdown", **options: Any) -> Figure:
        """Draw each policy minus a baseline, with intervals by paired bootstrap."""
        return self._chart("differences", measure=measure, **options)

    def sweep(self, measure: str = "bounded_slowdown", **options: Any) -> Figure:
        """Draw means with confidence intervals over the offered load, a line for each policy."""
        return self._chart("sweep", measure=measure, **options)

    @public
    def _chart(
        self,
        kind: str,
        *,
        measure: str,
        baseline: str = "",
        policy: str = "",
        only: str | Sequence[str] = (),
        each: str = "",
        labels: Mapping[str, str] | None = None,
        width: Width | None = None,
        scale: Scale = "auto",
        **unknown: Any,
    ) -> Figure:
        from pybatsched.report import campaign_charts, chart_style  # noqa: PLC0415  matplotlib is optional
        from pybatsched.report.campaign.points import points_of  # noqa: PLC0415

        if unknown:
            expected = "baseline, policy, only, each, labels, width, scale"
            raise InputError(f"{', '.join(sorted(unknown))}: unknown argument; expected one of {expected}")
        points = points_of(self._store)
        _check_labels(labels, campaign_charts.names_in(points))
        chosen = (only,) if isinstance(only, str) else tuple(only)
        options = campaign_charts.CampaignPlotOptions(
            measure,
            baseline or self._store.manifest()["spec"].get("baseline", ""),
            policy,
            each,
            scale,
            None if width is None else chart_style.width_of(str(width)),
            chosen,
            labels or {},
        )
        figure = campaign_charts.chart_of(kind, points, options)
        shown = [point for point in campaign_charts.chosen(points, chosen) if policy in {"", point.policy}]
        if n_missing := sum(point.figures is None for point in shown):
            warn(f"{quantity(n_missing, 'run')} of the campaign not finished: the chart does not contain them")
        return figure


def _check_labels(labels: Mapping[str, str] | None, known: Sequence[str]) -> None:
    """Raise InputError for labels of names that are not shown."""
    for name in labels or ():
        if name not in known:
            raise InputError(f"labels: {name!r:.60}: expected one of {', '.join(dict.fromkeys(known))}")
