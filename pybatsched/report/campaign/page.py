"""Write the sections of a campaign's page: means with their confidence intervals, then boxes of all values."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pybatsched.campaign import table
from pybatsched.campaign.spec import ChartSpec
from pybatsched.campaign.store import Store
from pybatsched.errors import InputError
from pybatsched.metrics.compare.bootstrap import COLUMNS
from pybatsched.metrics.compare.confidence import LEVEL_TEXT
from pybatsched.metrics.figure_names import figure_title, resolved
from pybatsched.report import chart_style, provenance
from pybatsched.report.campaign import means_table
from pybatsched.report.campaign.boxes import Chart
from pybatsched.report.campaign.layout import charts_of, named_charts
from pybatsched.report.campaign.means import differences_of, means_of
from pybatsched.report.campaign.points import Point, as_text, baseline_of, figures_of, points_of
from pybatsched.report.campaign_charts import for_page
from pybatsched.report.html import number, table as html_table
from pybatsched.report.scales import axes_of

_METHOD: Final = f"""<p class="note">Means with their {LEVEL_TEXT} confidence intervals: mean ± t·s/√n, by
Student's t with n - 1 degrees of freedom, s being the standard deviation. n counts the weeks of a log (each with the
mean over its seeds), or else the seeds. With n = 1 there is no interval. With a small n the interval is wide and may
include impossible values. An arrow marks an interval that continues beyond the axis. "Other jobs" marks policies under
which fewer of the jobs ran than under another one: their figures cannot be compared.</p>"""
_PAIRED: Final = """<p class="note">Each value over that of the baseline on the same workload, platform and seed, so
that differences between workloads do not widen the interval. Bold: the interval does not contain 1.</p>"""


#: The first columns of the table of differences, which are visible on narrow screens.
_COMPARED: Final = ("figure", "verdict", "difference", "low", "high", "p", "p_adjusted")
#: The most figures and comparisons of the table of differences.
_N_DIFFERENCES, _MOST_DIFFERENCES = 3, 60


def sections_of(store: Store, baseline: str = "") -> list[str]:
    """Return the sections of a campaign's page. Raises InputError."""
    points = points_of(store)
    done = [point.figures for point in points if point.figures is not None]
    if not done:
        raise InputError(f"{store.folder}: the campaign has no finished cell to show; run it first")
    manifest = store.manifest()
    spec = manifest["spec"]
    there = {name for row in done for name, value in row.items() if value is not None}
    charts = [{**one, "figure": resolved(one["figure"], there)} for one in spec.get("chart", ())]
    named = [ChartSpec.model_validate(one) for one in charts]
    drawn = [name for name in [one.figure for one in named] or figures_of(points) if name in there]
    shown = _shown(points, named, baseline, spec.get("baseline", ""))
    means, boxes = (iter(_drawn(shown.charts, are_means=are_means)) for are_means in (True, False))
    return [
        f'<p class="note">{len(done):,} of {len(points):,} points are done.</p>',
        *_failures(points),
        *_warnings(points),
        *_compared_with(spec),
        *_means(points, _columns(table.shown(done), drawn), shown),
        *_rows(shown, means, are_means=True),
        _how_to_read(shown.compared),
        *_rows(shown, boxes, are_means=False),
        *_what_was_run(manifest),  # at the end: it is long for a large study
    ]


class _Shown(NamedTuple):
    """The charts of a page: those in the campaign's file, those by parameter, and the baseline of the latter."""

    named: list[tuple[ChartSpec, list[Chart]]]
    by_subject: dict[str, list[Chart]]
    compared: str

    @property
    def charts(self) -> list[Chart]:
        """All charts in their order."""
        return [chart for found in (*(of for _, of in self.named), *self.by_subject.values()) for chart in found]


def _columns(usual: Sequence[str], drawn: Sequence[str]) -> list[str]:
    """Return the columns of the table: counts, figures in charts only, and the usual figures."""
    counts = [name for name in usual if name.startswith("n_")]
    more = [name for name in dict.fromkeys(drawn) if name not in usual]
    return [*counts, *more, *(name for name in usual if name not in counts)]


def _what_was_run(manifest: Mapping[str, Any]) -> list[str]:
    """Return the section that describes the campaign."""
    described = provenance.of_campaign(manifest)
    if not described:
        return []
    rows = []
    for name, text in described:
        kind = ' class="code"' if name == "command" else ""
        written = provenance.command_html if kind else html.escape
        rows.append(f"<tr><td>{html.escape(name)}</td><td{kind}>{written(text)}</td></tr>")
    body = "\n".join(rows)
    table_of = f'<div class="wide"><table class="what" id="what"><tbody>\n{body}\n</tbody></table></div>'
    return ["<h2>What was run</h2>", table_of]


def _failures(points: Sequence[Point]) -> list[str]:
    """Return the section of failed points by policy, with the first error of each."""
    errors: dict[str, list[str]] = {}
    for point in points:
        if point.error is not None:
            errors.setdefault(point.policy, []).append(point.error)
    if not errors:
        return []
    rows = [[name, number(len(found)), (found[0].splitlines() or ["-"])[0]] for name, found in errors.items()]
    return ["<h2>Failed</h2>", html_table(["policy", "points", "the first error"], rows)]


def _warnings(points: Sequence[Point]) -> list[str]:
    """Return the section of warnings of runs, with the policies that had each."""
    found: dict[str, list[str]] = {}
    for point in points:
        for text in dict.fromkeys(point.warnings):
            found.setdefault(text, []).append(point.policy)
    if not found:
        return []
    rows = [[text, number(len(own)), ", ".join(dict.fromkeys(own))] for text, own in found.items()]
    return ["<h2>Warnings</h2>", html_table(["warning", "points", "policies"], rows, "warnings")]


def _compared_with(spec: Mapping[str, Any]) -> list[str]:
    """Return a note that explains the figures against the baseline of the campaign's file."""
    if not spec.get("baseline"):
        return []
    where = ", ".join(f"{name} = {as_text(wanted)}" for name, wanted in spec.get("where", {}).items())
    of_jobs = f"jobs with {where}" if where else "all jobs"
    against = f"against the policy {spec['baseline']}, of {of_jobs}"
    text = f"The shares of impacted, early and late jobs and the response ratio are {against}."
    return [f'<p class="note">{html.escape(text)}</p>']


def _shown(points: Sequence[Point], named: Sequence[ChartSpec], baseline: str, usual: str) -> _Shown:
    """Return the charts of the page: those in the campaign's file, else, or with a baseline, by parameter."""
    wanted = [(one, named_charts(points, one)) for one in named]
    compared = baseline_of(points, baseline or usual) if baseline or not named else ""
    by_subject: dict[str, list[Chart]] = {}
    for figure in figures_of(points) if baseline or not named else ():
        found = charts_of(points, figure, compared)
        if compared and figure not in table.AGAINST:  # these are ratios to a baseline already
            found += charts_of(points, figure, compared, ratios=True)
        for chart in found:
            by_subject.setdefault(chart.subject, []).append(chart)
    return _Shown(wanted, by_subject, compared)


def _drawn(charts: Sequence[Chart], *, are_means: bool) -> list[str]:
    """Draw each chart as means or as boxes, with its heading and notes."""
    framed = []
    for chart, axis in zip(charts, axes_of(charts), strict=True):
        subject = f"{chart.subject}: " if are_means and chart.subject and not chart.heading else ""
        drawn = chart_style.svg(for_page(chart, axis, as_means=are_means))
        framed.append(_frame(chart, html.escape(f"{subject}{chart.title}"), drawn, are_means=are_means))
    return framed


def _frame(chart: Chart, title: str, element: str, *, are_means: bool) -> str:
    """Return a chart with its heading and notes."""
    undefined = f" ({chart.n_undefined:,} without: the baseline is 0)" if chart.n_undefined else ""
    notes = []
    if chart.each:
        of_each = f"the mean over each {chart.each} of it" if are_means else f"a {chart.each} in a run"
        notes.append(f"Here {'a run is' if are_means else 'a dot is'} {of_each}.")
    if chart.axis == "own":
        notes.append("This chart has its own axis of values.")
    text = f'<p class="note">{html.escape(" ".join(notes))}</p>' if notes else ""
    return f'<div class="wide"><h3>{title}{undefined}</h3>{text}{element}</div>'


def _rows(shown: _Shown, frames: Iterator[str], *, are_means: bool) -> list[str]:
    """Return rows of charts side by side: the named ones together, others by subject."""
    sections = []
    if shown.named:
        parts = [part for one, found in shown.named for part in [next(frames) for _ in found] or [_missing(one)]]
        sections.append(f'<div class="row">{"".join(parts)}</div>')
    for subject, found in shown.by_subject.items():
        parts = [next(frames) for _ in found]
        if not are_means:
            axes = " and ".join(name for name in (found[0].x_title, found[0].column_title) if name)
            sections.append(f"<h2>{html.escape(f'{subject}: by {axes}' if subject else f'By {axes}')}</h2>")
            if shown.compared and not any(chart.is_ratio for chart in found):
                why = f"No ratios: {shown.compared} did not run on the same platforms, workloads and seeds."
                parts.append(f'<p class="note">{html.escape(why)}</p>')
        sections.append(f'<div class="row">{"".join(parts)}</div>')
    return sections


def _missing(wanted: ChartSpec) -> str:
    """Return a note that a chart of the campaign's file has no values."""
    title = wanted.title or figure_title(wanted.figure)
    paired = f" and a run of {wanted.over} to compare with" if wanted.over else ""
    why = f"Nothing to show: no finished and selected run has the figure {wanted.figure}{paired}."
    return f'<div class="wide"><h3>{html.escape(title)}</h3><p class="note">{html.escape(why)}</p></div>'


def _means(points: Sequence[Point], figures: Sequence[str], shown: _Shown) -> list[str]:
    """Return the tables of means: of figures, and of their ratios to the baseline if there is one."""
    sections = ["<h2>Means</h2>", _METHOD, means_table.table_html(means_of(points, figures), "means")]
    if shown.compared:
        chosen = [name for name in figures_of(points) if name not in table.AGAINST]
        ratios = means_of(points, chosen, shown.compared)
        if ratios.rows:
            title = f"<h3>Means of ratios to {html.escape(shown.compared)}</h3>"
            sections += [title, _PAIRED, means_table.table_html(ratios, "mean-ratios", around=1.0)]
            sections += _differences(points, ratios.figures[:_N_DIFFERENCES], shown.compared)
    return sections


def _differences(points: Sequence[Point], figures: Sequence[str], baseline: str) -> list[str]:
    """Return the table of differences to the baseline by paired bootstrap; a note if there are too many, or none."""
    title = f"<h3>Differences to {html.escape(baseline)}</h3>"
    n = len({(point.family, point.platform, point.setting) for point in points}) * len(figures)
    if n > _MOST_DIFFERENCES:
        note = f"{n:,} comparisons are too many for a page; use `pybatsched campaign table DIR --against POLICY`."
        return [title, f'<p class="note">{note}</p>']
    try:
        rows = differences_of(points, figures, baseline)
    except InputError as error:
        return [title, f'<p class="note">{html.escape(str(error))}</p>']
    heads = ["family"] if len({row["family"] for row in rows}) > 1 else []
    heads += ["policy", *_COMPARED, *(name for name in COLUMNS if name not in _COMPARED)]
    rows.sort(key=lambda row: figures.index(row["figure"]))
    cells = [[_four_digits(row[name]) for name in heads] for row in rows]
    lines = "".join(f"<li><b>{name}</b>: {html.escape(text)}</li>" for name, text in COLUMNS.items())
    return [title, html_table(heads, cells, "differences"), f'<ul class="note">{lines}</ul>']


def _four_digits(value: Any) -> str:
    """Return a number with at most four significant digits, and a text as it is.

    >>> _four_digits(12345.6), _four_digits(0.000123456), _four_digits(-99.996), _four_digits("worse")
    ('12,350', '0.0001235', '-100', 'worse')
    """
    return number(float(f"{value:.4g}") if isinstance(value, float) else value)


def _how_to_read(baseline: str) -> str:
    compared = (
        f"; the baseline is grey. Ratios are to {html.escape(baseline)} on the same workload, platform and seed; below"
        " the dashed line at 1 the value is smaller than that of the baseline."
        if baseline
        else "."
    )
    return (
        "<h2>Spread over workloads and seeds</h2>\n"
        '<p class="note">A dot is a run; hover for its workload. Boxes are quartiles, whiskers 5 and 95 per cent, red'
        f" diamonds means, n the number of dots{compared}</p>"
    )
