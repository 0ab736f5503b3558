"""Figures of runs for notebooks and papers: each is a matplotlib Figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pybatsched.errors import InputError
from pybatsched.experiment.log import in_seconds
from pybatsched.metrics.runs import Run, common_tau_s

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: A width: that of a column (3.5 in) or of the text (7.2 in) of a paper, or inches.
Width: TypeAlias = Literal["column", "text"] | float


class Plots:
    """The figures of some runs. All methods take the same keywords.

    `labels` are names to show instead of the labels of policies, `width` is that of the figure, `scale` (auto, log or
    linear) that of the axis of values, `begin` and `end` limit the time axis (or choose jobs by their submission).
    """

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = runs

    def cdf(self, measure: str = "bounded_slowdown", **options: Any) -> Figure:
        """Draw the share of jobs up to each value of a measure, one line per run."""
        return self._figure("cdf", measure=measure, **options)

    def boxes(self, measure: str = "bounded_slowdown", **options: Any) -> Figure:
        """Draw the quartiles of a measure, whiskers at 5 and 95 per cent, and the mean, one box per run."""
        return self._figure("boxes", measure=measure, **options)

    def utilisation(self, **options: Any) -> Figure:
        """Draw the processors in use over time, one panel per run."""
        return self._figure("utilisation", **options)

    def queue(self, **options: Any) -> Figure:
        """Draw the number of waiting jobs over time, one line per run."""
        return self._figure("queue", **options)

    def gantt(self, **options: Any) -> Figure:
        """Draw which job ran when, and on which processors; of one run. `color` is job, wait or auto."""
        return self._figure("gantt", **options)

    def _figure(
        self,
        kind: str,
        *,
        labels: Mapping[str, str] | None = None,
        width: Width = "text",
        begin: float | str | None = None,
        end: float | str | None = None,
        **options: Any,
    ) -> Figure:
        from pybatsched.report import figure_style, figures  # noqa: PLC0415  matplotlib is an optional dependency

        runs = list(self._runs)
        if labels:
            known = [run.label for run in runs]
            for name in labels:
                if name not in known:
                    raise InputError(f"labels: {name!r}: expected one of {', '.join(known)}")
            runs = [replace(run, name=labels.get(run.label, run.label)) for run in runs]
        unknown = options.keys() - {"measure", "scale", "color"}
        if unknown:
            expected = "labels, width, begin, end, scale, color"
            raise InputError(f"{', '.join(sorted(unknown))}: expected one of {expected}")
        for name, known_values in (("scale", ("auto", "log", "linear")), ("color", ("auto", "job", "wait"))):
            if options.get(name, "auto") not in known_values:
                raise InputError(f"{name}: expected one of {', '.join(known_values)}, found {options[name]!r:.40}")
        if "measure" in options:
            runs[0].evaluated.check_measure(options["measure"], *(run.evaluated for run in runs[1:]))
        tau_s = common_tau_s(runs if options.get("measure") == "bounded_slowdown" else [])
        times = {"begin": begin, "end": end}
        span = {f"{name}_s": None if at is None else in_seconds(at, name) for name, at in times.items()}
        given = {"width": figure_style.width_of(str(width)), **span, **options}
        return figures.figure_of(kind, runs, figures.FigureOptions(tau_s=tau_s, **given))
