"""Compute the data of a Gantt chart: its rectangles as numbers, for the script that draws them (gantt.js)."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pybatsched.metrics.job_results import JobResults
from pybatsched.metrics.outcomes import JobRecord
from pybatsched.metrics.saved_runs import READ_OPTIONS, SavedRun, read_options_of
from pybatsched.metrics.summary import STATE_WORDS
from pybatsched.report.gantt.bars import BLOCKED, bars_of, color_of, legend_of
from pybatsched.report.gantt.cluster_rows import Rows, blocked_hosts, rows_of
from pybatsched.report.gantt.colors import BY_JOB, DISTINCT, Coloring, Counts, as_pixel, coloring_data

Numbers: TypeAlias = npt.NDArray[np.float64]


class Rectangles(NamedTuple):
    """Rectangles in the order of `bars_of`; `note` is the index of each one's text in `notes`; the first is empty."""

    left: Numbers
    right: Numbers
    low: Counts
    high: Counts
    job: Counts
    look: Counts
    note: Counts
    notes: list[str]


def rectangles_of(records: Sequence[JobRecord], rows: Rows | None = None) -> Rectangles:
    """Return the rectangles of the jobs that ran, numbered in the given order. O(n log n + r) for r rectangles."""
    bars = bars_of([record for record in records if record.segments], rows)
    sets = [bar.procs if rows is None else rows.placed(bar.procs) for bar in bars]
    n = np.fromiter(map(len, sets), np.int64, len(sets))
    low, high = np.fromiter(chain.from_iterable(chain.from_iterable(sets)), np.int64).reshape(-1, 2).T
    notes = {text: number for number, text in enumerate(dict.fromkeys(["", *(bar.note for bar in bars)]))}
    left, right = (np.repeat(np.array([bar[k] for bar in bars], np.float64), n) for k in (0, 1))
    numbers = ([bar.job for bar in bars], [bar.look for bar in bars], [notes[bar.note] for bar in bars])
    job, look, note = (np.repeat(np.array(column, np.int64), n) for column in numbers)
    return Rectangles(left, right, low, high, job, look, note, list(notes))


class GanttTable(NamedTuple):
    """The table of a Gantt chart: its rectangles, the colour of each job that ran, and the rows of the machine.

    `blocked` has rectangles of hosts that are reserved or down by look, each from when to when and from which row to
    which. `legend` has the text of each look.
    """

    rectangles: Rectangles
    hues: Counts
    rows: Rows | None
    n_rows: int
    blocked: dict[int, list[tuple[float, float, int, int]]]
    legend: list[tuple[int, str]]


def table_of(run: SavedRun) -> GanttTable:
    """Return the table of a run's Gantt chart. O(n log n + r) for r rectangles."""
    rows = rows_of(run)
    found = rectangles_of(run.records, rows)
    legend = list(legend_of(np.unique(found.look).tolist()).items())
    blocked: dict[int, list[tuple[float, float, int, int]]] = {}
    for member, (look, text) in BLOCKED.items():
        hosts = blocked_hosts(run, member, rows)
        if hosts:
            blocked[look] = [(one.begin, one.end, low, high) for one in hosts for low, high in one.procs]
            legend.append((look, text))
    n_rows = rows.n_rows if rows is not None else run.n_procs or int(found.high.max(initial=1))
    return GanttTable(found, _job_colors(run.jobs), rows, n_rows, blocked, legend)


WIDTH: Final = 1080
#: Margins to the right of a chart in pixels: without and with names of clusters.
MARGINS: Final = (32, 104)
#: The height of a chart by the number of charts on the page: several should be visible together.
_HEIGHTS: Final = {1: 440, 2: 340}
_LEAST_HEIGHT: Final = 290
#: The parts of the script, in their order.
_SCRIPTS: Final = ("clock.js", "bars.js", "board.js", "gantt.js", "over_time.js")
#: Colours of single jobs as the canvas has them.
_COLORS: Final = tuple(map(as_pixel, DISTINCT))
#: The columns of rectangles in the data of the script, and their types.
_OF_RECTANGLES: Final = {"left": "<f8", "right": "<f8", "low": "<u4", "high": "<u4", "job": "<u4", "look": "u1"}
#: Maximum number of lines of a job's history.
_N_LINES: Final = 20
_BUTTONS: Final = (
    ("+", "shorter stretch of time"),
    ("\N{MINUS SIGN}", "longer stretch of time"),
    ("←", "earlier"),
    ("→", "later"),
    ("all", "all of it"),
)
#: Options of reading that change the jobs of a workload (metrics.saved_runs.READ_OPTIONS).
_CHANGES_JOBS: Final = ("selection", "units", "log_format", "mapping", "size_in", "timezone", "scale_load")
Histories = Mapping[str, Sequence[tuple[float, str]]]


def script() -> str:
    """Return the script that draws charts; a page needs it once."""
    folder = resources.files("pybatsched.report")
    return "".join(folder.joinpath(name).read_text(encoding="utf-8") for name in _SCRIPTS)


def height(n_charts: int) -> int:
    """Return the height of each chart of a page."""
    return _HEIGHTS.get(n_charts, _LEAST_HEIGHT)


def data_of(
    run: SavedRun, histories: Histories | None = None, classes: Mapping[str, Counts] | None = None, n_charts: int = 1
) -> dict[str, Any]:
    """Return the data of a run for the script: rectangles by start, and details of each job. O(n log n + r)."""
    table, jobs = table_of(run), run.jobs.ran
    found, rows = table.rectangles, table.rows
    states = {state: number for number, state in enumerate(dict.fromkeys(jobs["state"]))}
    users = jobs["user"].to_list()
    data: dict[str, Any] = {
        "width": WIDTH,
        "height": height(n_charts),
        "margin": MARGINS[rows is not None],
        "begin": float(min(found.left[:1], default=min(jobs["submitted_at"], default=0.0))),
        "end": run.jobs.span[1],
        "kin": workload_key(run),
        "label": run.label,
        "procs": table.n_rows,
        "palette": [_COLORS[color_of(job, len(_COLORS))] for job in range(len(_COLORS))],
        "hues": packed(table.hues, "u1"),
        "legend": table.legend,
        "jobs": jobs["id"].to_list(),
        "words": [STATE_WORDS.get(state, state) for state in states],
        "states": packed([states[state] for state in jobs["state"]], "u1"),
        "sizes": packed(jobs["n_procs"], "<u4"),
        "submitted": packed(jobs["submitted_at"], "<f8"),
        "waits": packed(jobs["wait_s"], "<f8"),
        "runtimes": packed([round(runtime_s, 6) for runtime_s in jobs["runtime_s"]], "<f8"),
        "shades": {name: packed(column, "u1") for name, column in (classes or {}).items()},
    }
    if any(users):
        names = {user: number for number, user in enumerate(dict.fromkeys(users))}
        data |= {"users": list(names), "user": packed([names[user] for user in users], "<u4")}
    if rows is not None:
        data["bands"] = rows.bands
        if not rows.is_plain:  # which processor each row is
            data["rows"] = sorted((part.row, part.begin) for part in rows.stretches)
    if table.blocked:
        data["blocked"] = table.blocked
    if len(found.notes) > 1:
        data |= {"notes": found.notes, "note": packed(found.note, "<u4")}
    data |= {name: packed(getattr(found, name), kind) for name, kind in _OF_RECTANGLES.items()}
    if histories:
        data["stories"] = [_shortened(histories.get(job_id, ())) for job_id in jobs["id"]]
    return data


def _shortened(history: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    """Return the first and last lines of a long history, all lines of a short one."""
    if len(history) <= _N_LINES:
        return list(history)
    half = _N_LINES // 2
    left_out = history[half][0], f"(… {len(history) - 2 * half} more lines)"
    return [*history[:half], left_out, *history[-half:]]


def _job_colors(jobs: JobResults) -> Counts:
    """Return the index of each job's colour, by submission, so that it is the same in all runs. O(n log n)."""
    order = np.lexsort((np.array(jobs.frame["id"], np.str_), jobs.frame["submitted_at"].to_numpy()))
    colors = np.empty(len(order), np.int64)
    colors[order] = np.arange(len(order)) % len(_COLORS)
    return colors[jobs.frame["n_segments"].to_numpy() > 0]


def workload_key(run: SavedRun) -> str:
    """Return a key of a run's workloads, empty if unknown: with equal keys, equal ids are the same job."""
    inputs = run.summary.get("inputs")
    files = inputs.get("workloads") if isinstance(inputs, dict) else None
    digests = [str(file.get("sha256", ""))[:16] for file in files or () if isinstance(file, dict)]
    how = read_options_of(run.summary)
    changed = {name: how[name] for name in _CHANGES_JOBS if how[name] not in (None, "core", READ_OPTIONS[name])}
    return " ".join([*digests, json.dumps(changed, sort_keys=True)] if changed else digests)


def packed(column: npt.ArrayLike, kind: str) -> str:
    """Return numbers as base64 text, in the type that the script reads."""
    return base64.b64encode(np.asarray(column).astype(kind).tobytes()).decode()


def element(name: str, data: Mapping[str, Any], function: str = "pybatschedGantt") -> str:
    """Return the HTML of a chart; a board (below) must precede it. The data cannot end the script."""
    return (
        f'<div class="gantt" id="{name}"></div>\n'
        f'<script>{function}(document.getElementById("{name}"), {_as_json(data)}, window.board);</script>'
    )


def board(begin: float, end: float, colorings: Sequence[Coloring], chosen: str, notes: Sequence[str]) -> str:
    """Return the HTML of the controls of all charts: the shown time, colours, the search field, and notes."""
    by_job = {"name": BY_JOB, "title": "job", "colors": [], "words": []}
    about = {"begin": begin, "end": end, "shades": [by_job, *map(coloring_data, colorings)], "shade": chosen}
    buttons = "".join(f'<button value="{value}" title="{title}">{value}</button>' for value, title in _BUTTONS)
    paragraphs = "".join(f'<p class="note">{html.escape(note)}</p>' for note in notes)
    return (
        '<div class="side" id="board"><label>Find job <input type="search" placeholder="w0!23, or 23"></label>'
        f'<output></output><div class="zoom">{buttons}</div><label>Colours by <select></select></label>'
        f'<ul class="shades"></ul>{paragraphs}</div>\n'
        f'<script>window.board = pybatschedBoard(document.getElementById("board"), {_as_json(about)});</script>'
    )


def _as_json(data: Mapping[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
