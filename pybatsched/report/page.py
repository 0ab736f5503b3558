"""One HTML file that holds everything: numbers, charts and the code that draws them. It loads nothing from anywhere."""

from __future__ import annotations

import html
import itertools
from collections.abc import Sequence
from typing import Any, Final, Literal

import numpy as np
from bokeh.resources import INLINE

from pybatsched import __version__
from pybatsched.campaign.store import Store
from pybatsched.metrics.classes import facts_told, title_of, values_of
from pybatsched.metrics.distributions import distribution, mean_and_maximum, percentile
from pybatsched.metrics.energy import TITLES
from pybatsched.metrics.outcomes import DEFAULT_TAU_S
from pybatsched.metrics.paired import paired
from pybatsched.metrics.runs import Run
from pybatsched.metrics.summary import STATE_WORDS
from pybatsched.report import charts, gantt, moves, samples, study
from pybatsched.report.embedding import embedded
from pybatsched.report.markup import number as _number
from pybatsched.report.markup import table as _table
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
table.means { font-size: 0.87em; } table.means th, table.means td { padding: 0.25em 0.5em; }
table.means td.half { padding-left: 0; text-align: left; }
td.half { color: #555; } td.half, td.n { white-space: nowrap; } .row.ends { align-items: flex-end; }
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
    """Write the page of a campaign: means, and charts: those its file names, or of each figure by parameter.

    The baseline that the latter are compared with is a policy by its label, or with its options, or else that of the
    campaign's file, or the first policy. Where it is given, there are always such charts.
    """
    script, sections = study.sections_of(store, baseline)
    return _page(str(store.manifest()["name"]), sections, script)


def _page(title: str, sections: Sequence[str], script: str) -> str:
    name = html.escape(title)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{name}</title>\n'
        f'<link rel="icon" href="data:,">\n<style>{_STYLE}</style>\n{INLINE.render()}\n{script}\n</head>\n<body>\n'
        f"<h1>{name}</h1>\n"
        + "\n".join(sections)
        + f'\n<p class="note">pybatsched {__version__}</p>\n</body>\n</html>\n'
    )


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
