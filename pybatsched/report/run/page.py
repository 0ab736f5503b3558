"""Write the page of runs: what was run, figures, Gantt charts, lines over time, distributions, classes of jobs."""

from __future__ import annotations

import html
import itertools
from collections import Counter
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import polars as pl

from pybatsched.metrics.compare.paired import OTHER_JOBS, other_jobs, paired
from pybatsched.metrics.distributions import distribution, mean_and_maximum, percentile
from pybatsched.metrics.energy import TITLES
from pybatsched.metrics.figure_names import figure_title, title_of
from pybatsched.metrics.figures import counts_of
from pybatsched.metrics.job_results import JobResults
from pybatsched.metrics.node_use import figures_of_summary
from pybatsched.metrics.saved_runs import SavedRun
from pybatsched.metrics.slowdown import DEFAULT_TAU_S
from pybatsched.metrics.summary import STATE_WORDS
from pybatsched.metrics.workload_fields import SHOWN_FIELDS
from pybatsched.report import chart_style, durations, provenance
from pybatsched.report.charts import PlotOptions, chart_of
from pybatsched.report.gantt import bars, chart, colors
from pybatsched.report.html import grouped_table, number, table
from pybatsched.report.lines import MAX_SPANS, Line, Lines, Quantity, groups_of, of_nodes, over_time, span_of, time_axis

#: Number of listed jobs with the most moves.
_N_MOVED: Final = 20
_HOW_TO_LOOK: Final = (
    "All charts over time show the same period. Ctrl and the wheel zoom in time, Shift and the wheel in processors;"
    " drag to move, double click to see all. Hover over a job to outline and join its parts, also in other runs of the"
    " same workload."
)
_CLASS_MEASURES: Final = ("wait_s", "bounded_slowdown")
#: The columns of predicted run times, and the most users that are shown.
_PREDICTION_FIGURES: Final = {
    "n_jobs": "jobs",
    "mean_prediction_error_s": "mean prediction error (s)",
    "share_underestimated": "share underestimated",
}
_N_USERS: Final = 10
#: Figures of failures of machines, with their titles.
_FAILURE_FIGURES: Final = {
    "n_failures": "failures",
    "n_failure_kills": "kills of jobs",
    "lost_work_s": "lost work (processor-seconds)",
    "checkpoint_s": "checkpoints (processor-seconds)",
    "application_efficiency": "application efficiency",
}
#: Heights of charts over time in pixels, of one run and of several.
_HEIGHTS: Final = (150, 84)
_MAX_POINTS: Final = 2_000
_CDF_IN: Final = 5.4
_QUANTITIES: Final[tuple[Quantity, ...]] = ("utilisation", "queue")


class JobHistories(NamedTuple):
    """The histories of the jobs of a run, which the tooltips show, and a note about them."""

    stories: chart.Histories = MappingProxyType({})
    note: str = ""


class Parts(NamedTuple):
    """The parts of a page: its title and its sections."""

    title: str
    sections: Sequence[str]


def parts_of(runs: Sequence[SavedRun], histories: Sequence[JobHistories] = (), tau_s: float = DEFAULT_TAU_S) -> Parts:
    """Return all parts of the page. O(jobs). `histories` are those of the first runs."""
    title = ", ".join(run.label for run in runs)
    sections = [
        *_notices(runs),
        *_left_out(runs),
        "<h2>What was run</h2>",
        _provenance(runs, tau_s),
        "<h2>Summary</h2>",
        _summary(runs, tau_s),
        *_predictions(runs),
        *_failures(runs),
        f"<script>{chart.script()}</script>",
        *_over_time(runs, [*histories, *[JobHistories()] * (len(runs) - len(histories))]),
        *_moved(runs),
        *_energy(runs),
        "<h2>Distributions</h2>",
        f'<div class="row">{_distributions(runs, tau_s)}</div>',
        "<h2>By kind and size of job</h2>",
        _classes(runs, tau_s),
        *_by_field(runs),
    ]
    if len(runs) > 1:
        sections += [f"<h2>Job by job, against {html.escape(runs[0].label)}</h2>", *_pairs(runs, tau_s)]
    return Parts(title, sections)


def _notices(runs: Sequence[SavedRun]) -> list[str]:
    """Return a warning for each run that is not complete, or that ran fewer jobs of its workload than another run."""
    found = []
    for k, text in _with_other_jobs(runs).items():
        why = f"{runs[k].label}: {text}, fewer or others than in another run. Its figures are over {OTHER_JOBS}."
        found.append(f'<p class="broken" role="alert">{html.escape(why)}</p>')
    for run in runs:
        if run.run_state.notice:
            why = f"<small>{html.escape(run.run_state.reason)}</small>" if run.run_state.reason else ""
            text = html.escape(f"{run.label}: {run.run_state.notice}")
            found.append(f'<p class="broken" role="alert">{text}{why}</p>')
    return found


def _with_other_jobs(runs: Sequence[SavedRun]) -> dict[int, str]:
    """Return which runs ran fewer or other jobs of their workload than another run, and how many."""
    counts = {k: [counts_of(run.jobs, run.summary)] for k, run in enumerate(runs)}
    return other_jobs(counts, lambda k: chart.workload_key(runs[k]))


def _left_out(runs: Sequence[SavedRun]) -> list[str]:
    """Return notes with the numbers of jobs that are left out."""
    found = [f"{run.label}: {run.left_out_text}." for run in runs if run.left_out_text]
    if found:
        found.append("The Gantt chart, the charts over time, utilisation and makespan include all jobs.")
    return [f'<p class="note">{html.escape(text)}</p>' for text in found]


def _provenance(runs: Sequence[SavedRun], tau_s: float) -> str:
    """Return the table "What was run", runs side by side; differences are marked."""
    head = "".join(f"<th>{html.escape(run.label)}</th>" for run in runs)
    rows = []
    for name, values in provenance.rows_of(runs, tau_s):
        kind = ' class="differs"' if len(set(values)) > 1 else ""
        code = ' class="code"' if name == "command" else ""
        written = provenance.command_html if code else html.escape
        cells = "".join(f"<td{code}>{written(value)}</td>" for value in values)
        rows.append(f"<tr{kind}><td>{html.escape(name)}</td>{cells}</tr>")
    body = "\n".join(rows)
    marked = '<p class="note">Bold: differences between the runs.</p>' if len(runs) > 1 and "differs" in body else ""
    return (
        f'<div class="wide"><table class="what" id="what"><thead><tr><th></th>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>{marked}"
    )


def _summary(runs: Sequence[SavedRun], tau_s: float) -> str:
    rows: list[list[str]] = [["jobs", *(number(len(run.evaluated)) for run in runs)]]
    if any(run.n_left_out for run in runs):
        rows.append(["jobs left out: not evaluated", *(number(run.n_left_out) for run in runs)])
    states = [Counter(run.evaluated.frame["state"]) for run in runs]
    rows += [
        [f"jobs {STATE_WORDS.get(state, state)}", *(number(of_run[state]) for of_run in states)]
        for state in dict.fromkeys(state for of_run in states for state in sorted(of_run))
    ]
    for measure in max((run.evaluated.plain_measures for run in runs), key=len):
        found = [_mean_median_maximum(run.evaluated.column(measure, tau_s)) for run in runs]
        for name, values in zip(("mean", "median", "max"), zip(*found, strict=True), strict=True):
            rows.append([f"{name} {title_of(measure)}", *map(number, values)])
    for fact in sorted({fact for run in runs for fact in run.evaluated.facts}):
        statistics = [distribution(run.evaluated.values(fact)) for run in runs]
        rows.append(
            [figure_title(f"n_jobs_with_{fact}"), *(number(one.n if one is not None else 0) for one in statistics)]
        )
        title = title_of(fact)
        for name, key in (
            (f"total {title}", "total"),
            (f"mean {title} of these jobs", "mean"),
            (f"max {title}", "maximum"),
        ):
            rows.append([name, *(number(getattr(one, key, None)) for one in statistics)])
    rows.append(["utilisation", *(number(run.utilisation()) for run in runs)])
    of_nodes = [figures_of_summary(run.summary) for run in runs]
    names = dict.fromkeys(name for one in of_nodes for name in one)
    rows += [[figure_title(name), *(number(one.get(name)) for one in of_nodes)] for name in names]
    rows.append(["makespan (s)", *(number(run.jobs.span[1]) for run in runs)])
    return table(["", *(run.label for run in runs)], rows, "summary")


def _predictions(runs: Sequence[SavedRun]) -> list[str]:
    """Return the quality of predicted run times, all jobs and the users with most jobs; empty without predictions."""
    found: list[str] = []
    for k, run in enumerate(runs):
        users, overall = run.summary.get("predictions_by_user"), run.summary.get("policy_figures")
        if not isinstance(users, dict) or not isinstance(overall, dict):
            continue
        rows = [("all jobs", {"n_jobs": sum(one["n_jobs"] for one in users.values()), **overall})]
        most = sorted(users.items(), key=lambda item: (-item[1]["n_jobs"], item[0]))[:_N_USERS]
        rows += [(f"user {name}" if name else "unknown user", one) for name, one in most]
        cells = [[name, *(number(one.get(figure)) for figure in _PREDICTION_FIGURES)] for name, one in rows]
        found += [_heading(run, runs), table(["", *_PREDICTION_FIGURES.values()], cells, f"predictions{k}")]
        if len(users) > _N_USERS:
            found.append(f'<p class="note">The {_N_USERS} of {len(users)} users with most jobs.</p>')
    return ["<h2>Predicted run times</h2>", *found] if found else []


def _failures(runs: Sequence[SavedRun]) -> list[str]:
    """Return what failures of machines cost; empty without the option `on_failure`."""
    found = [run.summary.get("policy_figures") for run in runs]
    figures = [one if isinstance(one, dict) and "n_failures" in one else {} for one in found]
    if not any(figures):
        return []
    rows = [[title, *(number(one.get(name)) for one in figures)] for name, title in _FAILURE_FIGURES.items()]
    each = [
        one["n_failure_kills"] / len(run.jobs) if one and len(run.jobs) else None
        for run, one in zip(runs, figures, strict=True)
    ]
    rows.insert(2, ["kills per job, of all jobs", *map(number, each)])
    note = (
        '<p class="note">Application efficiency is useful work over useful work, checkpoints and lost work. "What was'
        ' run" has the settings of failures and checkpoints.</p>'
    )
    return ["<h2>Failures of machines</h2>", note, table(["", *(run.label for run in runs)], rows, "failures")]


def _mean_median_maximum(values: pl.Series) -> tuple[float | None, float | None, float | None]:
    """Return mean, median and maximum; None if there are no values."""
    ordered = values.drop_nulls().sort().to_list()
    mean, maximum = mean_and_maximum(ordered)
    return mean, percentile(ordered, 50) if ordered else None, maximum


def _distributions(runs: Sequence[SavedRun], tau_s: float) -> str:
    """Return the distributions of waits and bounded slowdowns of all runs with such jobs."""
    shown = [run for run in runs if run.evaluated.values("wait_s")]
    options = (PlotOptions(measure, tau_s, width=_CDF_IN) for measure in ("wait_s", "bounded_slowdown"))
    return "".join(chart_style.svg(chart_of("cdf", shown, one)) for one in options) if shown else ""


def _over_time(runs: Sequence[SavedRun], histories: Sequence[JobHistories]) -> list[str]:
    """Return all charts over time, with their common controls at the side."""
    colorings = colors.colorings_of(runs)
    begin, end = span_of(runs)
    drawn = []
    for k, (run, history) in enumerate(zip(runs, histories, strict=True)):
        classes = {coloring.name: coloring.classes[k] for coloring in colorings}
        data = chart.data_of(run, history.stories, classes, len(runs))
        note = f'<p class="note">{html.escape(history.note)}</p>' if history.note else ""
        drawn.append(_heading(run, runs) + chart.element(f"gantt{k}", data) + note)
    for what in (*_QUANTITIES, *of_nodes(runs)):
        drawn += _panels(runs, what, begin, end)
    return [
        "<h2>Gantt chart</h2>",
        '<div class="beside">',
        chart.board(begin, end, colorings, colors.default_coloring(runs, colorings), [_HOW_TO_LOOK]),
        '<div class="charts">',
        *drawn,
        "</div></div>",
    ]


def _panels(runs: Sequence[SavedRun], what: Quantity, begin: float, end: float) -> list[str]:
    """Return a quantity over time, a panel for each run: its line as in single charts, above an area of finer means."""
    groups, time = groups_of(runs, "run"), time_axis(begin, end, is_exact=True)
    coarse, fine = (over_time(groups, what, time, (begin, end), n_max=n_max) for n_max in (MAX_SPANS, _MAX_POINTS))
    ticks, title = coarse.y.ticks(4, only_powers=True)
    axis = {"kind": coarse.y.kind, "low": coarse.y.low, "high": coarse.y.high, "ticks": ticks}
    found = [f"<h2>{title[:1].upper() + title[1:]}</h2>", f'<p class="note">{_resolution_text(coarse, fine)}</p>']
    for k, (run, line, area, limit) in enumerate(zip(runs, coarse.lines, fine.lines, coarse.limits, strict=True)):
        data: dict[str, Any] = {"width": chart.WIDTH, "height": _HEIGHTS[len(runs) > 1], "axis": axis, "limit": limit}
        data["margin"] = chart.MARGINS[bool(run.clusters or run.procs_by_node)]
        data |= {"color": chart_style.COLORS[k % len(chart_style.COLORS)], "line": _columns(line)}
        if coarse.span_s:
            data["area"] = _columns(area)
        element = chart.element(f"{what}{k}", data, "pybatschedOverTime")
        found.append(f'<div class="panels">{_heading(run, runs)}{element}</div>')
    return found


def _columns(line: Line) -> list[str]:
    return [chart.packed(column, "<f8") for column in (line.x, line.y)]


def _resolution_text(coarse: Lines, fine: Lines) -> str:
    """Return a sentence about the resolution of lines and areas over time."""
    if not coarse.span_s:
        return "Lines are exact."
    area = f"the mean over {durations.duration_text(fine.span_s)}" if fine.span_s else "exact"
    return f"A line is the mean over {durations.duration_text(coarse.span_s)}, the pale area is {area}."


def _heading(run: SavedRun, runs: Sequence[SavedRun]) -> str:
    return f"<h3>{html.escape(run.label)}</h3>" if len(runs) > 1 else ""


def _classes(runs: Sequence[SavedRun], tau_s: float) -> str:
    """Return a table of figures by kind and by size of jobs, and on nodes by what they request, runs side by side."""
    keys = ("kind", "size", *(("resource",) if all(run.jobs.nodes is not None for run in runs) else ()))
    head = ["jobs", *(f"{word} {title_of(measure)}" for measure in _CLASS_MEASURES for word in ("mean", "max"))]
    rows: list[tuple[str, list[list[str]]]] = []
    for key in keys:
        found = [run.evaluated.by_class(key) for run in runs]
        for name in _in_order([list(of_run) for of_run in found]):
            figures = [
                _figures_of_class(of_run[name], tau_s) if name in of_run else ["-"] * len(head) for of_run in found
            ]
            sizes = f"{name} processor{'' if name == '1' else 's'}"
            shown = {"size": sizes, "resource": f"request: {name}"}.get(key, name)
            rows.append((shown, [list(values) for values in zip(*figures, strict=True)]))
    if len(runs) == 1:
        return table(["", *head], [[name, *itertools.chain(*values)] for name, values in rows], "classes")
    return grouped_table(head, [run.label for run in runs], rows, "classes")


def _figures_of_class(jobs: JobResults, tau_s: float) -> list[str]:
    figures = [mean_and_maximum(jobs.values(measure, tau_s)) for measure in _CLASS_MEASURES]
    return [number(len(jobs)), *(number(value) for pair in figures for value in pair)]


def _by_field(runs: Sequence[SavedRun]) -> list[str]:
    """Return tables by fields in which jobs differ, of the values with most work in the first run, if any."""
    head = ["jobs", "processor-seconds", f"mean {title_of('wait_s')}"]
    tables = []
    for field in dict.fromkeys(field for run in runs for field in run.evaluated.labels):
        names = next(run.evaluated.largest(field) for run in runs if field in run.evaluated.labels)
        found = [run.evaluated.shares(field, names) for run in runs]
        rows = []
        for place in range(max(map(len, found))):
            figures = [_figures_of_share(*one[place][1:]) if place < len(one) else ["-"] * len(head) for one in found]
            name = next(one[place].name for one in found if place < len(one))
            rows.append((name, [list(values) for values in zip(*figures, strict=True)]))
        title = f"<h3>{SHOWN_FIELDS[field][:1].upper()}{SHOWN_FIELDS[field][1:]}</h3>"
        if len(runs) == 1:
            plain = [[name, *itertools.chain(*values)] for name, values in rows]
            tables.append(f"<div>{title}{table(['', *head], plain, f'by-{field}')}</div>")
        else:
            own = grouped_table(head, [run.label for run in runs], rows, f"by-{field}")
            tables.append(f"<div>{title}{own}</div>")
    note = (
        '<p class="note">Fields of the workload in which jobs differ, by their share of all processor-seconds. Waits'
        " are those of the run.</p>"
    )
    content = ["<h2>By user and other fields of jobs</h2>", note, f'<div class="fields">{"".join(tables)}</div>']
    return content if tables else []


def _figures_of_share(n_jobs: int, share: float | None, mean_wait_s: float | None) -> list[str]:
    return [number(n_jobs), "-" if share is None else f"{share:.1%}", number(mean_wait_s)]


def _in_order(lists: Sequence[Sequence[str]]) -> list[str]:
    """Return the names of several lists, sorted; sizes by number."""

    def sort_key(name: str) -> tuple[int, str]:
        first = name.partition("-")[0]
        return (int(first), "") if first.isdigit() else (-1, name)

    return sorted({name for names in lists for name in names}, key=sort_key)


def _energy(runs: Sequence[SavedRun]) -> list[str]:
    """Return the section of energy; empty if no run simulated it."""
    if all(run.energy is None for run in runs):
        return []
    parts = [{} if run.energy is None else run.energy.as_dict() for run in runs]
    rows = [[f"{title} (J)", *(number(one.get(name)) for one in parts)] for name, title in TITLES.items()]
    return ["<h2>Energy</h2>", table(["", *(run.label for run in runs)], rows, "energy")]


def _moved(runs: Sequence[SavedRun]) -> list[str]:
    """Return the section of the jobs with the most moves between clusters; empty if no policy reports moves."""
    sections = []
    for k, run in enumerate(runs):
        if bars.MOVES not in run.evaluated.facts:
            continue
        found = bars.moved_jobs(run.evaluated)
        n_moved, n_moves = sum(one.moves > 0 for one in found), sum(one.moves for one in found)
        text = f"{n_moved:,} of {len(run.evaluated):,} jobs were moved, {n_moves:,.0f} times in all"
        most = f"; the {_N_MOVED} moved most:" if len(found) > _N_MOVED else ":" if found else "."
        name = f"{run.label}: " if len(runs) > 1 else ""
        sections.append(f'<p class="note">{html.escape(name + text + most)}</p>')
        if found:
            rows = [
                [one.job, number(one.moves), number(one.resubmitted), one.cluster or "-", number(one.wait_s)]
                for one in found[:_N_MOVED]
            ]
            sections.append(table(["job", "moves", "resubmitted", "cluster", "wait (s)"], rows, f"moved{k}"))
    return ["<h2>Jobs moved most</h2>", *sections] if sections else []


def _pairs(runs: Sequence[SavedRun], tau_s: float) -> list[str]:
    """Compare runs with the first one job by job, with a note on runs that have other workloads."""
    others = [run.label for run in runs[1:] if chart.workload_key(run) != chart.workload_key(runs[0])]
    note = f"Runs with other workloads: {', '.join(others)}. For these, jobs are paired by their ids."
    sections = [f'<p class="note">{html.escape(note)}</p>'] if others else []
    rows = []
    for run in runs[1:]:
        for measure in ("flow_s", "bounded_slowdown"):
            both = paired(runs[0].evaluated, run.evaluated, measure, tau_s)
            of_ends = (both.n_pairs, both.impacted, both.early, both.response_ratio)
            values = (*of_ends, both.mean_ratio, both.median_ratio, both.ratio_of_means)
            rows.append([f"{run.label}, {title_of(measure)}", *map(number, values)])
    titles = ["jobs in both", "impacted", "early of these", "response ratio of these"]
    head = ["", *titles, "mean ratio", "median ratio", "ratio of means"]
    return [*sections, table(head, rows, "pairs")]
