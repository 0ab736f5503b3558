"""The page of one run or several: what was run, figures, Gantt charts with one time, lines, distributions, classes."""

from __future__ import annotations

import html
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import resources
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from pybatsched.metrics.distributions import distribution, mean_and_maximum, percentile
from pybatsched.metrics.energy import TITLES
from pybatsched.metrics.figure_names import figure_title, title_of
from pybatsched.metrics.job_table import JobTable
from pybatsched.metrics.outcomes import DEFAULT_TAU_S
from pybatsched.metrics.paired import paired
from pybatsched.metrics.runs import Run
from pybatsched.metrics.summary import STATE_WORDS
from pybatsched.report import durations, provenance
from pybatsched.report.gantt import bars, chart, colors
from pybatsched.report.html import beside, embedded, number, table
from pybatsched.report.run import charts

#: So many of the jobs moved most are listed.
_N_MOVED: Final = 20
_HOW_TO_LOOK: Final = (
    "All charts over time show the same stretch of it. Ctrl and the wheel zoom in time, Shift and the wheel in"
    " processors; drag to move, double click to see all. Hover for a job: its parts are outlined and joined, and so is"
    " the same job in other runs of the same workload."
)
_CLASS_MEASURES: Final = ("wait_s", "bounded_slowdown")
#: Links the lines over time with the Gantt charts, once Bokeh has drawn them.
_LINK: Final = """<script>document.addEventListener("DOMContentLoaded", function link() {
  const drawn = window.Bokeh && Bokeh.documents[0];
  if (drawn) window.board.link(...["time", "ticks"].map((name) => drawn.get_model_by_name(name)));
  else setTimeout(link, 20);
});</script>"""


class Told(NamedTuple):
    """What hovering tells of the jobs of a run besides their times, and what is to be said about that."""

    stories: chart.Stories = MappingProxyType({})
    note: str = ""


class Parts(NamedTuple):
    """The parts of a page: its title, its sections, and the script in its head."""

    title: str
    sections: Sequence[str]
    script: str


def style() -> str:
    """Give the style of what only pages of runs have."""
    return resources.files("pybatsched.report").joinpath("runs.css").read_text(encoding="utf-8")


def parts_of(runs: Sequence[Run], told: Sequence[Told] = (), tau_s: float = DEFAULT_TAU_S) -> Parts:
    """Write all parts of the page. O(jobs). `told` is of the first runs."""
    script, over_time, distributions = _lines(runs, tau_s)
    title = ", ".join(run.label for run in runs)
    sections = [
        *_notices(runs),
        *_left_out(runs),
        "<h2>What was run</h2>",
        _provenance(runs, tau_s),
        "<h2>Summary</h2>",
        _summary(runs, tau_s),
        f"<script>{chart.script()}</script>",
        *_over_time(runs, [*told, *[Told()] * (len(runs) - len(told))], over_time),
        _LINK,
        *_moved(runs),
        *_energy(runs),
        "<h2>Distributions</h2>",
        f'<div class="row">{distributions}</div>',
        "<h2>By kind and size of job</h2>",
        _classes(runs, tau_s),
    ]
    if len(runs) > 1:
        sections += [f"<h2>Job by job, against {html.escape(runs[0].label)}</h2>", *_pairs(runs, tau_s)]
    return Parts(title, sections, script)


def _span(runs: Sequence[Run]) -> tuple[float, float]:
    """Give the time that all charts show: from the first submission to the last end of all runs."""
    spans = [run.span for run in runs if run.span[1] > run.span[0]]
    return min((begin for begin, _ in spans), default=0.0), max((end for _, end in spans), default=0.0)


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


def _provenance(runs: Sequence[Run], tau_s: float) -> str:
    """Say what was run, runs side by side; what differs between them is marked."""
    head = "".join(f"<th>{html.escape(run.label)}</th>" for run in runs)
    rows = []
    for name, values in provenance.told(runs, tau_s):
        kind = ' class="differs"' if len(set(values)) > 1 else ""
        code = ' class="code"' if name == "command" else ""
        written = provenance.command_html if code else html.escape
        cells = "".join(f"<td{code}>{written(value)}</td>" for value in values)
        rows.append(f"<tr{kind}><td>{html.escape(name)}</td>{cells}</tr>")
    body = "\n".join(rows)
    marked = '<p class="note">Bold: what differs.</p>' if len(runs) > 1 and "differs" in body else ""
    return (
        f'<div class="wide"><table class="what" id="what"><thead><tr><th></th>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></div>{marked}"
    )


def _summary(runs: Sequence[Run], tau_s: float) -> str:
    rows: list[list[str]] = [["jobs", *(number(len(run.evaluated)) for run in runs)]]
    if any(run.n_left_out for run in runs):
        rows.append(["jobs left out: not evaluated", *(number(run.n_left_out) for run in runs)])
    states = [Counter(run.evaluated.frame["state"]) for run in runs]
    rows += [
        [f"jobs {STATE_WORDS.get(state, state)}", *(number(of_run[state]) for of_run in states)]
        for state in dict.fromkeys(state for of_run in states for state in sorted(of_run))
    ]
    for measure in max((run.evaluated.plain_measures for run in runs), key=len):
        found = [_mean_median_maximum(run.evaluated.values(measure, tau_s)) for run in runs]
        for name, values in zip(("mean", "median", "max"), zip(*found, strict=True), strict=True):
            rows.append([f"{name} {title_of(measure)}", *map(number, values)])
    for fact in sorted({fact for run in runs for fact in run.evaluated.facts}):
        told = [distribution(run.evaluated.values(fact)) for run in runs]
        rows.append([figure_title(f"n_jobs_with_{fact}"), *(number(one.n if one is not None else 0) for one in told)])
        for name, key in (("total", "total"), ("mean", "mean"), ("max", "maximum")):
            rows.append([f"{name} {title_of(fact)}", *(number(getattr(one, key, None)) for one in told)])
    rows.append(["utilisation", *(number(run.utilisation()) for run in runs)])
    rows.append(["makespan (s)", *(number(run.jobs.span[1]) for run in runs)])
    return table(["", *(run.label for run in runs)], rows, "summary")


def _mean_median_maximum(values: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """Give three numbers of a `distribution`; None if there are no values."""
    ordered = sorted(values)
    mean, maximum = mean_and_maximum(ordered)
    return mean, percentile(ordered, 50) if ordered else None, maximum


def _lines(runs: Sequence[Run], tau_s: float) -> tuple[str, Mapping[charts.Quantity, Sequence[str]], str]:
    """Draw what Bokeh draws: the script, the panels over time by what they show, and the distributions."""
    time = charts.time_axis(*_span(runs))
    grain, kin = charts.grain_of(runs), [chart.kin_of(run) for run in runs]
    quantities: tuple[charts.Quantity, ...] = ("utilisation", "queue")
    drawn: dict[str, Any] = {}
    for what in quantities:
        for plot in charts.over_time(runs, what, time, grain, kin):
            drawn[str(plot.name)] = plot
    drawn["waits"] = charts.cumulated(runs, "wait_s", tau_s)
    drawn["slowdowns"] = charts.cumulated(runs, "bounded_slowdown", tau_s)
    script, divs = embedded(drawn)
    panels = {what: [divs[f"{what}-{k}"] for k in range(len(runs))] for what in quantities}
    return script, panels, divs["waits"] + divs["slowdowns"]


def _over_time(runs: Sequence[Run], told: Sequence[Told], panels: Mapping[charts.Quantity, Sequence[str]]) -> list[str]:
    """Give all that is over time, with what these charts have in common beside them."""
    colours = colors.shades_of(runs)
    begin, end = _span(runs)
    drawn = []
    for k, (run, tale) in enumerate(zip(runs, told, strict=True)):
        classes = {shade.name: shade.classes[k] for shade in colours}
        data = chart.data_of(run, tale.stories, classes, len(runs))
        note = f'<p class="note">{html.escape(tale.note)}</p>' if tale.note else ""
        drawn.append(_heading(run, runs) + chart.element(f"gantt{k}", data) + note)
    line = _grain_told(charts.grain_of(runs))
    n_kin = len({chart.kin_of(run) for run in runs})
    scale = " Runs of the same workload have the same scale, others their own." if n_kin > 1 else ""
    share = "share" if all(run.n_procs for run in runs) else "number"
    return [
        "<h2>Gantt chart</h2>",
        '<div class="beside">',
        chart.board(begin, end, colours, colors.usual(runs, colours), [_HOW_TO_LOOK]),
        '<div class="charts">',
        *drawn,
        f'<h2>Processors in use ({share})</h2>\n<p class="note">{html.escape(line)}</p>',
        '<div class="panels">',
        *(_heading(run, runs) + panel for run, panel in zip(runs, panels["utilisation"], strict=True)),
        f'</div>\n<h2>Waiting jobs</h2>\n<p class="note">{html.escape(line + scale)}</p>',
        '<div class="panels">',
        *(_heading(run, runs) + panel for run, panel in zip(runs, panels["queue"], strict=True)),
        "</div></div></div>",
    ]


def _grain_told(grain: charts.Grain) -> str:
    """Say what lines and areas over time are."""
    if not grain.line_s:
        return "Lines are exact."
    area = f"over some {durations.told(grain.area_s)}" if grain.area_s else "exact"
    return f"A line is the mean over {durations.told(grain.line_s)}, the pale area is {area}."


def _heading(run: Run, runs: Sequence[Run]) -> str:
    return f"<h3>{html.escape(run.label)}</h3>" if len(runs) > 1 else ""


def _classes(runs: Sequence[Run], tau_s: float) -> str:
    """Give figures by kind and by size of jobs, those of several runs side by side."""
    keys: tuple[Literal["kind", "size"], ...] = ("kind", "size")
    head = ["jobs", *(f"{word} {title_of(measure)}" for measure in _CLASS_MEASURES for word in ("mean", "max"))]
    rows: list[tuple[str, list[list[str]]]] = []
    for key in keys:
        found = [run.evaluated.by_class(key) for run in runs]
        for name in _in_order([list(of_run) for of_run in found]):
            figures = [
                _figures_of_class(of_run[name], tau_s) if name in of_run else ["-"] * len(head) for of_run in found
            ]
            shown = name if key == "kind" else f"{name} processor{'' if name == '1' else 's'}"
            rows.append((shown, [list(values) for values in zip(*figures, strict=True)]))
    if len(runs) == 1:
        return table(["", *head], [[name, *itertools.chain(*values)] for name, values in rows], "classes")
    return beside(head, [run.label for run in runs], rows, "classes")


def _figures_of_class(jobs: JobTable, tau_s: float) -> list[str]:
    told = [mean_and_maximum(jobs.values(measure, tau_s)) for measure in _CLASS_MEASURES]
    return [number(len(jobs)), *(number(value) for pair in told for value in pair)]


def _in_order(lists: Sequence[Sequence[str]]) -> list[str]:
    """Put names of several lists into one, each after those that it comes after in its own; sizes go by number."""

    def place(name: str) -> tuple[int, str]:
        first = name.partition("-")[0]
        return (int(first), "") if first.isdigit() else (-1, name)

    return sorted({name for names in lists for name in names}, key=place)


def _energy(runs: Sequence[Run]) -> list[str]:
    """Tell the energy of runs and its parts; nothing where it was not simulated."""
    if all(run.energy is None for run in runs):
        return []
    parts = [{} if run.energy is None else run.energy.as_dict() for run in runs]
    rows = [[f"{title} (J)", *(number(one.get(name)) for one in parts)] for name, title in TITLES.items()]
    return ["<h2>Energy</h2>", table(["", *(run.label for run in runs)], rows, "energy")]


def _moved(runs: Sequence[Run]) -> list[str]:
    """Tell which jobs were moved most between clusters; nothing of runs whose policy does not tell moves."""
    sections = []
    for k, run in enumerate(runs):
        if bars.MOVES not in run.evaluated.facts:
            continue
        found = bars.moved(run.evaluated)
        n_moved, n_moves = sum(one.moves > 0 for one in found), sum(one.moves for one in found)
        told = f"{n_moved:,} of {len(run.evaluated):,} jobs were moved, {n_moves:,.0f} times in all"
        most = f"; the {_N_MOVED} moved most:" if len(found) > _N_MOVED else ":" if found else "."
        name = f"{run.label}: " if len(runs) > 1 else ""
        sections.append(f'<p class="note">{html.escape(name + told + most)}</p>')
        if found:
            rows = [
                [one.job, number(one.moves), number(one.resubmitted), one.cluster or "-", number(one.wait_s)]
                for one in found[:_N_MOVED]
            ]
            sections.append(table(["job", "moves", "resubmitted", "cluster", "wait (s)"], rows, f"moved{k}"))
    return ["<h2>Jobs moved most</h2>", *sections] if sections else []


def _pairs(runs: Sequence[Run], tau_s: float) -> list[str]:
    """Compare runs with the first one job by job, and say where it is only the ids of jobs that make them the same."""
    strangers = [run.label for run in runs[1:] if chart.kin_of(run) != chart.kin_of(runs[0])]
    note = f"Of other workloads: {', '.join(strangers)}. There, jobs of the same id are taken to be the same."
    sections = [f'<p class="note">{html.escape(note)}</p>'] if strangers else []
    rows = []
    for run in runs[1:]:
        for measure in ("flow_s", "bounded_slowdown"):
            both = paired(runs[0].evaluated, run.evaluated, measure, tau_s)
            of_ends = (both.n_pairs, both.impacted, both.early, both.response_ratio)
            values = (*of_ends, both.mean_ratio, both.median_ratio, both.ratio_of_means)
            rows.append([f"{run.label}, {title_of(measure)}", *map(number, values)])
    of_ends_told = ["jobs in both", "impacted", "early of these", "response ratio of these"]
    head = ["", *of_ends_told, "mean ratio", "median ratio", "ratio of means"]
    return [*sections, table(head, rows, "pairs")]
