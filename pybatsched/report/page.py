"""One HTML file that holds everything: numbers, charts and the code that draws them. It loads nothing from anywhere."""

from __future__ import annotations

import html
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np
from bokeh.resources import INLINE

from pybatsched import __version__
from pybatsched.campaign import table
from pybatsched.campaign.spec import ChartSpec
from pybatsched.campaign.store import Store
from pybatsched.errors import InputError
from pybatsched.metrics.classes import facts_told, title_of, values_of
from pybatsched.metrics.distributions import distribution, mean_and_maximum, percentile
from pybatsched.metrics.energy import TITLES
from pybatsched.metrics.outcomes import DEFAULT_TAU_S
from pybatsched.metrics.paired import paired
from pybatsched.metrics.runs import Run
from pybatsched.metrics.summary import STATE_WORDS
from pybatsched.report import charts, gantt, moves, samples, spreads
from pybatsched.report.boxes import Chart
from pybatsched.report.embedding import embedded
from pybatsched.report.layout import charts_of, named_charts
from pybatsched.report.sheet import Sheet
from pybatsched.report.stairs import Numbers

_STYLE: Final = """
body { font-family: system-ui, sans-serif; margin: 2em auto; max-width: 1120px; color: #222; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; } h3 { font-size: 1em; }
table { border-collapse: collapse; font-size: 0.92em; } th, td { padding: 0.25em 0.8em; text-align: right; }
th:first-child, td:first-child { text-align: left; } thead th { border-bottom: 2px solid #888; }
td.text, th.text { text-align: left; } td.text { white-space: nowrap; } .wide { overflow-x: auto; }
tbody tr:nth-child(odd) { background: #f5f5f5; } .note { color: #666; font-size: 0.9em; }
.gantt { position: relative; }
.gantt-tip { display: none; position: absolute; background: #fffffff0; border: 1px solid #888; padding: 0.4em 0.7em;
  font-size: 0.85em; white-space: pre-wrap; max-width: 320px; pointer-events: none; z-index: 5; }
.gantt-legend { display: flex; flex-wrap: wrap; gap: 0.3em 1.6em; margin-left: 64px; font-size: 0.85em; }
.gantt-legend canvas { vertical-align: -3px; margin-right: 0.5em; }
.row { display: flex; flex-wrap: wrap; } .row > .wide { width: min-content; min-width: min(500px, 100%); }
.broken { border: 2px solid #b00020; border-radius: 4px; background: #fdecee; color: #7a0016; padding: 0.6em 1em;
  font-weight: bold; } .broken small { display: block; font-weight: normal; }
"""
#: So many of the jobs moved most are listed.
_N_MOVED: Final = 20
_HOW_TO_LOOK: Final = """<p class="note">The wheel zooms in time, with shift in processors, with ctrl in both; drag to
move, double click to see all, hover for a job.</p>"""


def of_runs(runs: Sequence[Run], stories: Sequence[gantt.Stories] = (), tau_s: float = DEFAULT_TAU_S) -> str:
    """Write the page of one run or several. O(jobs). `stories` are those of the first runs, by job."""
    sheets = [Sheet(run) for run in runs]
    told = [stories[i] if i < len(stories) else {} for i in range(len(runs))]
    gantts = [
        (f"<h3>{html.escape(run.label)}</h3>" if len(runs) > 1 else "")
        + gantt.element(f"gantt{number}", gantt.data_of_sheet(run, story))
        for number, (run, story) in enumerate(zip(sheets, told, strict=True))
    ]
    drawn: dict[str, Any] = {
        "utilisation": charts.over_time(sheets, "utilisation"),
        "queue": charts.over_time(sheets, "queue length"),
        "waits": charts.cumulated(sheets, "wait_s", tau_s),
        "slowdowns": charts.cumulated(sheets, "bounded_slowdown", tau_s),
    }
    drawn["queue"].x_range = drawn["utilisation"].x_range  # one time for both, also when somebody zooms
    script, divs = embedded(drawn)
    sections = [
        *_notices(runs),
        *_left_out(runs),
        "<h2>Summary</h2>",
        _summary(sheets, tau_s),
        "<h2>Gantt chart</h2>",
        _HOW_TO_LOOK,
        f"<script>{gantt.script()}</script>",
        *gantts,
        *_moved(sheets),
        *_energy(runs),
        "<h2>Over time</h2>",
        divs["utilisation"],
        divs["queue"],
        "<h2>Distributions</h2>",
        f'<div class="row">{divs["waits"]}{divs["slowdowns"]}</div>',
        "<h2>By kind and size of job</h2>",
        *(_classes(run, tau_s) for run in sheets),
    ]
    if len(runs) > 1:
        sections += [f"<h2>Job by job, against {html.escape(runs[0].label)}</h2>", _pairs(runs, tau_s)]
    return _page(", ".join(run.label for run in runs), sections, script)


def _notices(runs: Sequence[Run]) -> list[str]:
    """Tell of each run that is not whole, where nobody can miss it."""
    found = []
    for run in runs:
        if run.standing.notice:
            why = f"<small>{html.escape(run.standing.reason)}</small>" if run.standing.reason else ""
            text = html.escape(f"{run.label}: {run.standing.notice}")
            found.append(f'<p class="broken" role="alert">{text}{why}</p>')
    return found


def _left_out(runs: Sequence[Run]) -> list[str]:
    """Tell how many jobs of each run do not count."""
    found = [f"{run.label}: {run.left_out_told}." for run in runs if run.left_out_told]
    if found:
        found.append("The Gantt chart, what goes over time, utilisation and makespan are of all jobs.")
    return [f'<p class="note">{html.escape(text)}</p>' for text in found]


def of_campaign(store: Store, baseline: str = "") -> str:
    """Write the page of a campaign: its table, and charts: those its file names, or of each figure by parameter.

    The baseline that the latter are compared with is a policy by its label, or with its options, or else that of the
    campaign's file, or the first policy. Where it is given, there are always such charts.
    """
    points = samples.points_of(store)
    done = [point.figures for point in points if point.figures is not None]
    if not done:
        raise InputError(f"{store.folder}: no cell is done, so there is nothing to show")
    spec = store.manifest()["spec"]
    named = [ChartSpec.model_validate(one) for one in spec.get("chart", ())]
    drawn = [one.figure for one in named] or samples.figures_of(points)
    head, means = samples.means_of(points, _told(table.shown(done), [name for name in drawn if _is_there(name, done)]))
    body = [[_number(value) for value in row] for row in means]
    script, pictures = _pictures(points, named, baseline, spec.get("baseline", ""))
    sections = [
        f'<p class="note">{len(done):,} of {len(points):,} points are done.</p>',
        *_failures(points),
        *_compared_with(spec),
        *pictures,
        "<h2>Means</h2>",
        _table(head, body),
    ]
    return _page(str(store.manifest()["name"]), sections, script)


def _is_there(figure: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    return any(row.get(figure) is not None for row in rows)


def _told(usual: Sequence[str], drawn: Sequence[str]) -> list[str]:
    """Give the columns of the table: counts, what is drawn and not among the usual figures, and those."""
    counts = [name for name in usual if name.startswith("n_")]
    more = [name for name in dict.fromkeys(drawn) if name not in usual]
    return [*counts, *more, *(name for name in usual if name not in counts)]


def _failures(points: Sequence[samples.Point]) -> list[str]:
    """Tell which points failed, by policy, with the first error of each."""
    errors: dict[str, list[str]] = {}
    for point in points:
        if point.error is not None:
            errors.setdefault(point.policy, []).append(point.error)
    if not errors:
        return []
    rows = [[name, _number(len(found)), (found[0].splitlines() or ["-"])[0]] for name, found in errors.items()]
    return ["<h2>Failed</h2>", _table(["policy", "points", "the first error"], rows)]


def _compared_with(spec: Mapping[str, Any]) -> list[str]:
    """Say what figures against the baseline of a campaign's file are about."""
    if not spec.get("baseline"):
        return []
    where = ", ".join(f"{name} = {samples.as_text(wanted)}" for name, wanted in spec.get("where", {}).items())
    of_jobs = f"jobs with {where}" if where else "all jobs"
    against = f"against the policy {spec['baseline']}, of {of_jobs}"
    text = f"Who is impacted, early or late, and the response of the impacted: {against}."
    return [f'<p class="note">{html.escape(text)}</p>']


def _pictures(
    points: Sequence[samples.Point], named: Sequence[ChartSpec], baseline: str, usual: str
) -> tuple[str, list[str]]:
    """Draw all charts of a campaign: the script, and the sections.

    First those that its file names; if there are none, or for a baseline that is given, those by parameter. `usual` is
    the baseline if none is given.
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
    script, frames = _framed([chart for found in (*(of for _, of in wanted), *by_subject.values()) for chart in found])
    sections = [_how_to_read(compared)]
    if named:
        parts = [part for one, found in wanted for part in [next(frames) for _ in found] or [_missing(one)]]
        sections.append(f'<div class="row">{"".join(parts)}</div>')
    for subject, found in by_subject.items():
        axes = " and ".join(name for name in (found[0].x_title, found[0].column_title) if name)
        sections.append(f"<h2>{html.escape(f'{subject}: by {axes}' if subject else f'By {axes}')}</h2>")
        parts = [next(frames) for _ in found]
        if compared and not any(chart.is_ratio for chart in found):
            why = f"No ratios: {compared} was not tried on the same platforms, workloads and seeds."
            parts.append(f'<p class="note">{html.escape(why)}</p>')
        sections.append(f'<div class="row">{"".join(parts)}</div>')
    return script, sections


def _framed(found: Sequence[Chart]) -> tuple[str, Iterator[str]]:
    """Draw charts: the script, and each with its heading, in this order."""
    plots = [spreads.drawn(chart) for chart in found]
    drawn: dict[str, Any] = {str(number): plot for number, plot in enumerate(itertools.chain(*plots))}
    script, divs = embedded(drawn)
    elements = iter(divs.values())
    frames = []
    for chart, own in zip(found, plots, strict=True):
        note = f" ({chart.n_undefined:,} without: the baseline is 0)" if chart.n_undefined else ""
        told = f'<p class="note">Here a dot is a {html.escape(chart.each)} in a run.</p>' if chart.each else ""
        element = "\n".join(itertools.islice(elements, len(own)))
        frames.append(f'<div class="wide"><h3>{html.escape(chart.title)}{note}</h3>{told}{element}</div>')
    return script, iter(frames)


def _missing(wanted: ChartSpec) -> str:
    """Say that a chart that the file names has nothing to show."""
    title = wanted.title or samples.figure_title(wanted.figure)
    beside = f", and one of {wanted.over} beside it" if wanted.over else ""
    why = f"Nothing to show: no run that is done and chosen has the figure {wanted.figure}{beside}."
    return f'<div class="wide"><h3>{html.escape(title)}</h3><p class="note">{html.escape(why)}</p></div>'


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
        f" diamonds means{compared}</p>"
    )


def _page(title: str, sections: Sequence[str], script: str) -> str:
    name = html.escape(title)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{name}</title>\n'
        f'<link rel="icon" href="data:,">\n<style>{_STYLE}</style>\n{INLINE.render()}\n{script}\n</head>\n<body>\n'
        f"<h1>{name}</h1>\n"
        + "\n".join(sections)
        + f'\n<p class="note">pybatsched {__version__}</p>\n</body>\n</html>\n'
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], name: str = "") -> str:
    """Write a table; all of it is text."""
    kinds = [_kind(word) for word in rows[0]] if rows else [""] * len(head)
    cells = "".join(f"<th{kind}>{html.escape(word)}</th>" for word, kind in zip(head, kinds, strict=True))
    body = "\n".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    mark = f' id="{name}"' if name else ""
    return f'<div class="wide"><table{mark}><thead><tr>{cells}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>'


def _cell(word: str) -> str:
    return f"<td{_kind(word)}>{html.escape(word)}</td>"


def _kind(word: str) -> str:
    return "" if word[:1].isdigit() or word[:1] in {"-", ""} else ' class="text"'


def _number(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float) and value.is_integer():
        return f"{value:,.0f}"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _summary(runs: Sequence[Sheet], tau_s: float) -> str:
    rows: list[list[str]] = [["jobs", *(_number(len(run.evaluated.records)) for run in runs)]]
    if any(run.run.n_left_out for run in runs):
        rows.append(["jobs left out: not evaluated", *(_number(run.run.n_left_out) for run in runs)])
    states = [run.evaluated.n_by_state for run in runs]
    rows += [
        [f"jobs {STATE_WORDS.get(state, state)}", *(_number(of_run[state]) for of_run in states)]
        for state in dict.fromkeys(state for of_run in states for state in sorted(of_run))
    ]
    for measure in max((run.evaluated.measures for run in runs), key=len):
        found = [_mean_median_maximum(run.evaluated.values(measure, tau_s)) for run in runs]
        for name, values in zip(("mean", "median", "max"), zip(*found, strict=True), strict=True):
            rows.append([f"{name} {title_of(measure)}", *map(_number, values)])
    for fact in facts_told(itertools.chain.from_iterable(run.evaluated.noted for run in runs)):
        told = [distribution(values_of(run.evaluated.noted, fact)) for run in runs]
        rows.append([samples.figure_title(f"{fact}_n"), *(_number(one.n if one is not None else 0) for one in told)])
        for name, key in (("total", "total"), ("mean", "mean"), ("max", "maximum")):
            rows.append([f"{name} {title_of(fact)}", *(_number(getattr(one, key, None)) for one in told)])
    rows.append(["utilisation", *(_number(run.utilisation()) for run in runs)])
    rows.append(["makespan (s)", *(_number(run.jobs.span[1]) for run in runs)])
    return _table(["", *(run.label for run in runs)], rows, "summary")


def _mean_median_maximum(values: Numbers) -> tuple[float | None, float | None, float | None]:
    """Give three numbers of a `distribution`; None if there are no values."""
    ordered = np.sort(values).tolist()
    mean, maximum = mean_and_maximum(ordered)
    return mean, percentile(ordered, 50) if ordered else None, maximum


def _classes(run: Sheet, tau_s: float) -> str:
    rows = []
    keys: tuple[Literal["kind", "size"], ...] = ("kind", "size")
    columns = [run.evaluated.values(measure, tau_s) for measure in ("wait_s", "bounded_slowdown")]
    for key in keys:
        for name, (n, which) in run.evaluated.by_class(key).items():
            told = [mean_and_maximum(column[which].tolist()) for column in columns]
            shown = name if key == "kind" else f"{name} processors"
            rows.append([shown, _number(n), *(_number(value) for pair in told for value in pair)])
    head = ["", "jobs", "mean wait (s)", "max wait (s)", "mean bounded slowdown", "max bounded slowdown"]
    return f"<h3>{html.escape(run.label)}</h3>{_table(head, rows)}"


def _moved(runs: Sequence[Sheet]) -> list[str]:
    """Tell which jobs were moved most between clusters; nothing of runs whose policy does not tell moves."""
    sections = []
    for number, run in enumerate(runs):
        if not moves.are_told(run.evaluated.noted):
            continue
        found = moves.moved(run.evaluated.noted)
        n_moved, n_moves = sum(one.moves > 0 for one in found), sum(one.moves for one in found)
        told = f"{n_moved:,} of {len(run.evaluated.records):,} jobs were moved, {n_moves:,.0f} times in all"
        most = f"; the {_N_MOVED} moved most:" if len(found) > _N_MOVED else ":" if found else "."
        name = f"{run.label}: " if len(runs) > 1 else ""
        sections.append(f'<p class="note">{html.escape(name + told + most)}</p>')
        if found:
            rows = [
                [one.job, _number(one.moves), _number(one.resubmitted), one.cluster or "-", _number(one.wait_s)]
                for one in found[:_N_MOVED]
            ]
            sections.append(_table(["job", "moves", "resubmitted", "cluster", "wait (s)"], rows, f"moved{number}"))
    return ["<h2>Jobs moved most</h2>", *sections] if sections else []


def _energy(runs: Sequence[Run]) -> list[str]:
    """Tell the energy of runs and its parts; nothing where it was not simulated."""
    if all(run.energy is None for run in runs):
        return []
    parts = [{} if run.energy is None else run.energy.as_dict() for run in runs]
    rows = [[f"{title} (J)", *(_number(one.get(name)) for one in parts)] for name, title in TITLES.items()]
    return ["<h2>Energy</h2>", _table(["", *(run.label for run in runs)], rows, "energy")]


def _pairs(runs: Sequence[Run], tau_s: float) -> str:
    rows = []
    for run in runs[1:]:
        for measure in ("flow_s", "bounded_slowdown"):
            both = paired(runs[0].evaluated, run.evaluated, measure, tau_s)
            of_ends = (both.n_pairs, both.impacted, both.early, both.response_ratio)
            values = (*of_ends, both.mean_ratio, both.median_ratio, both.ratio_of_means)
            rows.append([f"{run.label}, {title_of(measure)}", *map(_number, values)])
    of_ends_told = ["jobs in both", "impacted", "early of these", "response ratio of these"]
    head = ["", *of_ends_told, "mean ratio", "median ratio", "ratio of means"]
    return _table(head, rows, "pairs")
