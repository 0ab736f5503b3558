"""The sections of a campaign's page: means with their confidence intervals first, then how values are spread.

All charts of one measure have one axis of values.
"""

from __future__ import annotations

import html
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pybatsched.campaign import table
from pybatsched.campaign.spec import ChartSpec
from pybatsched.campaign.store import Store
from pybatsched.errors import InputError
from pybatsched.metrics.confidence import LEVEL_TOLD
from pybatsched.metrics.figure_names import figure_title, resolved
from pybatsched.report import html as tables, provenance
from pybatsched.report.campaign import charts as spreads, means_table, points as samples
from pybatsched.report.campaign.boxes import Chart
from pybatsched.report.campaign.layout import charts_of, named_charts
from pybatsched.report.campaign.means import means_of
from pybatsched.report.html import embedded
from pybatsched.report.scales import scales_of

_METHOD: Final = f"""<p class="note">Means with their {LEVEL_TOLD} confidence intervals: mean ± t·s/√n, by
Student's t with n - 1 degrees of freedom, s being the standard deviation. n counts the weeks of a log (each with the
mean over its seeds), or else the seeds. With n = 1 there is no interval; with few, an interval is wide, and may reach
below what is possible. An arrow at the end of one says that it goes on beyond the axis.</p>"""
_PAIRED: Final = """<p class="note">Each value over that of the baseline on the same workload, platform and seed, so
that the interval is not about how workloads differ. Bold where it is all on one side of 1.</p>"""


def sections_of(store: Store, baseline: str = "") -> tuple[str, list[str]]:
    """Give the script that draws the charts of a campaign's page, and its sections. O(points x figures).

    The baseline is as for the page. Raises InputError if no cell is done.
    """
    points = samples.points_of(store)
    done = [point.figures for point in points if point.figures is not None]
    if not done:
        raise InputError(f"{store.folder}: no cell is done, so there is nothing to show")
    manifest = store.manifest()
    spec = manifest["spec"]
    there = {name for row in done for name, value in row.items() if value is not None}
    charts = [{**one, "figure": resolved(one["figure"], there)} for one in spec.get("chart", ())]
    named = [ChartSpec.model_validate(one) for one in charts]
    drawn = [name for name in [one.figure for one in named] or samples.figures_of(points) if name in there]
    shown = _shown(points, named, baseline, spec.get("baseline", ""))
    script, means, boxes = _drawn(shown.charts)
    sections = [
        f'<p class="note">{len(done):,} of {len(points):,} points are done.</p>',
        *_failures(points),
        *_compared_with(spec),
        *_means(points, _told(table.shown(done), drawn), shown),
        *_rows(shown, means, are_means=True),
        _how_to_read(shown.compared),
        *_rows(shown, boxes, are_means=False),
        *_what_was_run(manifest),  # long for a large study, and who looks at the page looks for its results first
    ]
    return script, sections


class _Shown(NamedTuple):
    """What charts a page has: those that its file names, and those by parameter with what they are compared with."""

    named: list[tuple[ChartSpec, list[Chart]]]
    by_subject: dict[str, list[Chart]]
    compared: str

    @property
    def charts(self) -> list[Chart]:
        """All of them, in their order."""
        return [chart for found in (*(of for _, of in self.named), *self.by_subject.values()) for chart in found]


def _told(usual: Sequence[str], drawn: Sequence[str]) -> list[str]:
    """Give the columns of the table: counts, what is drawn and not among the usual figures, and those."""
    counts = [name for name in usual if name.startswith("n_")]
    more = [name for name in dict.fromkeys(drawn) if name not in usual]
    return [*counts, *more, *(name for name in usual if name not in counts)]


def _what_was_run(manifest: Mapping[str, Any]) -> list[str]:
    """Say of what the campaign is made, as its file has it."""
    told = provenance.of_campaign(manifest)
    if not told:
        return []
    rows = []
    for name, text in told:
        kind = ' class="code"' if name == "command" else ""
        written = provenance.command_html if kind else html.escape
        rows.append(f"<tr><td>{html.escape(name)}</td><td{kind}>{written(text)}</td></tr>")
    body = "\n".join(rows)
    table_of = f'<div class="wide"><table class="what" id="what"><tbody>\n{body}\n</tbody></table></div>'
    return ["<h2>What was run</h2>", table_of]


def _failures(points: Sequence[samples.Point]) -> list[str]:
    """Tell which points failed, by policy, with the first error of each."""
    errors: dict[str, list[str]] = {}
    for point in points:
        if point.error is not None:
            errors.setdefault(point.policy, []).append(point.error)
    if not errors:
        return []
    rows = [[name, tables.number(len(found)), (found[0].splitlines() or ["-"])[0]] for name, found in errors.items()]
    return ["<h2>Failed</h2>", tables.table(["policy", "points", "the first error"], rows)]


def _compared_with(spec: Mapping[str, Any]) -> list[str]:
    """Say what figures against the baseline of a campaign's file are about."""
    if not spec.get("baseline"):
        return []
    where = ", ".join(f"{name} = {samples.as_text(wanted)}" for name, wanted in spec.get("where", {}).items())
    of_jobs = f"jobs with {where}" if where else "all jobs"
    against = f"against the policy {spec['baseline']}, of {of_jobs}"
    text = f"Who is impacted, early or late, and the response of the impacted: {against}."
    return [f'<p class="note">{html.escape(text)}</p>']


def _shown(points: Sequence[samples.Point], named: Sequence[ChartSpec], baseline: str, usual: str) -> _Shown:
    """Say which charts there are: first those that the campaign's file names.

    If there are none, or for a baseline that is given, those by parameter. `usual` is the baseline if none is given.
    """
    wanted = [(one, named_charts(points, one)) for one in named]
    compared = samples.baseline_of(points, baseline or usual) if baseline or not named else ""
    by_subject: dict[str, list[Chart]] = {}
    for figure in samples.figures_of(points) if baseline or not named else ():
        found = charts_of(points, figure, compared)
        if compared and figure not in table.AGAINST:  # these are ratios to a baseline already
            found += charts_of(points, figure, compared, ratios=True)
        for chart in found:
            by_subject.setdefault(chart.subject, []).append(chart)
    return _Shown(wanted, by_subject, compared)


def _drawn(charts: Sequence[Chart]) -> tuple[str, Iterator[str], Iterator[str]]:
    """Draw charts: the script, each as means and each as boxes, with headings."""
    scales = scales_of(charts)
    plots = [
        [spreads.drawn(chart, scale, as_means=as_means) for chart, scale in zip(charts, scales, strict=True)]
        for as_means in (True, False)
    ]
    flat = itertools.chain.from_iterable(itertools.chain(*plots))
    script, divs = embedded({str(number): plot for number, plot in enumerate(flat)})
    elements = iter(divs.values())
    framed = []
    for are_means, drawn in zip((True, False), plots, strict=True):
        frames = []
        for chart, own in zip(charts, drawn, strict=True):
            subject = f"{chart.subject}: " if are_means and chart.subject and not chart.heading else ""
            element = "\n".join(itertools.islice(elements, len(own)))
            frames.append(_frame(chart, html.escape(f"{subject}{chart.title}"), element, are_means=are_means))
        framed.append(frames)
    return script, iter(framed[0]), iter(framed[1])


def _frame(chart: Chart, title: str, element: str, *, are_means: bool) -> str:
    """Put a heading above a chart, and what is special about it."""
    undefined = f" ({chart.n_undefined:,} without: the baseline is 0)" if chart.n_undefined else ""
    notes = []
    if chart.each:
        of_each = f"the mean over each {chart.each} of it" if are_means else f"a {chart.each} in a run"
        notes.append(f"Here {'a run is' if are_means else 'a dot is'} {of_each}.")
    if chart.axis == "own":
        notes.append("Its axis of values is its own.")
    told = f'<p class="note">{html.escape(" ".join(notes))}</p>' if notes else ""
    return f'<div class="wide"><h3>{title}{undefined}</h3>{told}{element}</div>'


def _rows(shown: _Shown, frames: Iterator[str], *, are_means: bool) -> list[str]:
    """Put charts side by side: the named ones together, others by what they are about."""
    sections = []
    if shown.named:
        parts = [part for one, found in shown.named for part in [next(frames) for _ in found] or [_missing(one)]]
        sections.append(f'<div class="row ends">{"".join(parts)}</div>')
    for subject, found in shown.by_subject.items():
        parts = [next(frames) for _ in found]
        if not are_means:
            axes = " and ".join(name for name in (found[0].x_title, found[0].column_title) if name)
            sections.append(f"<h2>{html.escape(f'{subject}: by {axes}' if subject else f'By {axes}')}</h2>")
            if shown.compared and not any(chart.is_ratio for chart in found):
                why = f"No ratios: {shown.compared} was not tried on the same platforms, workloads and seeds."
                parts.append(f'<p class="note">{html.escape(why)}</p>')
        sections.append(f'<div class="row ends">{"".join(parts)}</div>')
    return sections


def _missing(wanted: ChartSpec) -> str:
    """Say that a chart that the file names has nothing to show."""
    title = wanted.title or figure_title(wanted.figure)
    beside = f", and one of {wanted.over} beside it" if wanted.over else ""
    why = f"Nothing to show: no run that is done and chosen has the figure {wanted.figure}{beside}."
    return f'<div class="wide"><h3>{html.escape(title)}</h3><p class="note">{html.escape(why)}</p></div>'


def _means(points: Sequence[samples.Point], figures: Sequence[str], shown: _Shown) -> list[str]:
    """Give the tables of means: of figures, and of their ratios to the baseline where there is one."""
    sections = ["<h2>Means</h2>", _METHOD, means_table.written(means_of(points, figures), "means")]
    if shown.compared:
        chosen = [name for name in samples.figures_of(points) if name not in table.AGAINST]
        ratios = means_of(points, chosen, shown.compared)
        if ratios.rows:
            title = f"<h3>Means of ratios to {html.escape(shown.compared)}</h3>"
            sections += [title, _PAIRED, means_table.written(ratios, "mean-ratios", around=1.0)]
    return sections


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
