"""The Gantt chart of a run: its rectangles as numbers, for the script that draws them (gantt.js)."""

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

from pybatsched.metrics.job_table import JobTable
from pybatsched.metrics.outcomes import JobRecord
from pybatsched.metrics.runs import Run, how_read_of
from pybatsched.metrics.summary import STATE_WORDS
from pybatsched.report.gantt.bars import bars_of, color_of, legend_of_looks
from pybatsched.report.gantt.cluster_rows import Rows, rows_of
from pybatsched.report.gantt.colors import BY_JOB, DISTINCT, Counts, Shade, as_pixel, told

Numbers: TypeAlias = npt.NDArray[np.float64]


class Rectangles(NamedTuple):
    """Rectangles in the order of `bars_of`; `note` is the place of each one's text in `notes`, the first is empty."""

    left: Numbers
    right: Numbers
    low: Counts
    high: Counts
    job: Counts
    look: Counts
    note: Counts
    notes: list[str]


def rectangles_of(records: Sequence[JobRecord], rows: Rows | None = None) -> Rectangles:
    """Return the rectangles of the jobs that ran, which are numbered as they come. O(n log n + r) for r rectangles."""
    bars = bars_of([record for record in records if record.segments], rows)
    sets = [bar.procs if rows is None else rows.placed(bar.procs) for bar in bars]
    n = np.fromiter(map(len, sets), np.int64, len(sets))
    low, high = np.fromiter(chain.from_iterable(chain.from_iterable(sets)), np.int64).reshape(-1, 2).T
    notes = {text: number for number, text in enumerate(dict.fromkeys(["", *(bar.note for bar in bars)]))}
    left, right = (np.repeat(np.array([bar[k] for bar in bars], np.float64), n) for k in (0, 1))
    numbers = ([bar.job for bar in bars], [bar.look for bar in bars], [notes[bar.note] for bar in bars])
    job, look, note = (np.repeat(np.array(column, np.int64), n) for column in numbers)
    return Rectangles(left, right, low, high, job, look, note, list(notes))


WIDTH: Final = 1080
#: How high a chart is, by the number of charts on the page: several are to be seen together.
_HEIGHTS: Final = {1: 440, 2: 340}
_LEAST_HEIGHT: Final = 290
#: The parts of the script, in their order.
_SCRIPTS: Final = ("clock.js", "bars.js", "board.js", "gantt.js")
#: Colours of single jobs as the canvas has them.
_COLORS: Final = tuple(map(as_pixel, DISTINCT))
#: What the script is told of each rectangle, and as which type.
_OF_RECTANGLES: Final = {"left": "<f8", "right": "<f8", "low": "<u4", "high": "<u4", "job": "<u4", "look": "u1"}
#: So many lines of a story are told.
_N_LINES: Final = 20
_BUTTONS: Final = (
    ("+", "shorter stretch of time"),
    ("\N{MINUS SIGN}", "longer stretch of time"),
    ("←", "earlier"),
    ("→", "later"),
    ("all", "all of it"),
)
#: Ways to read a workload that make its jobs others (metrics.runs.HOW_READ).
_CHANGES_JOBS: Final = ("selection", "units")
Stories = Mapping[str, Sequence[tuple[float, str]]]


def script() -> str:
    """Give the script that draws charts; a page needs it once."""
    folder = resources.files("pybatsched.report")
    return "".join(folder.joinpath(name).read_text(encoding="utf-8") for name in _SCRIPTS)


def height(n_charts: int) -> int:
    """Give how high each chart of a page is."""
    return _HEIGHTS.get(n_charts, _LEAST_HEIGHT)


def data_of(
    run: Run, stories: Stories | None = None, classes: Mapping[str, Counts] | None = None, n_charts: int = 1
) -> dict[str, Any]:
    """Give a run as the script wants it: rectangles in the order of their starts, and what is told of each job.

    O(n log n + r) for n jobs and r intervals of processors. Columns of numbers are packed. `classes` are those of jobs
    by the names of the shades of the page, which has `n_charts`.
    """
    rows, jobs = rows_of(run), run.jobs.ran
    found = rectangles_of(run.records, rows)
    states = {state: number for number, state in enumerate(dict.fromkeys(jobs["state"]))}
    users = jobs["user"].to_list()
    data: dict[str, Any] = {
        "width": WIDTH,
        "height": height(n_charts),
        "begin": float(min(found.left[:1], default=min(jobs["submitted_at"], default=0.0))),
        "end": run.jobs.span[1],
        "kin": kin_of(run),
        "label": run.label,
        "procs": run.n_procs or int(found.high.max(initial=1)),
        "palette": [_COLORS[color_of(job, len(_COLORS))] for job in range(len(_COLORS))],
        "hues": _packed(_hues(run.jobs), "u1"),
        "legend": list(legend_of_looks(np.unique(found.look).tolist()).items()),
        "jobs": jobs["id"].to_list(),
        "words": [STATE_WORDS.get(state, state) for state in states],
        "states": _packed([states[state] for state in jobs["state"]], "u1"),
        "sizes": _packed(jobs["n_procs"], "<u4"),
        "submitted": _packed(jobs["submitted_at"], "<f8"),
        "waits": _packed(jobs["wait_s"], "<f8"),
        "runtimes": _packed([round(runtime_s, 6) for runtime_s in jobs["runtime_s"]], "<f8"),
        "shades": {name: _packed(column, "u1") for name, column in (classes or {}).items()},
    }
    if any(users):
        names = {user: number for number, user in enumerate(dict.fromkeys(users))}
        data |= {"users": list(names), "user": _packed([names[user] for user in users], "<u4")}
    if rows is not None:
        data["procs"] = rows.n_rows
        data["bands"] = rows.bands
        if not rows.is_plain:  # which processor each row is
            data["rows"] = sorted((part.row, part.begin) for part in rows.stretches)
    if len(found.notes) > 1:
        data |= {"notes": found.notes, "note": _packed(found.note, "<u4")}
    data |= {name: _packed(getattr(found, name), kind) for name, kind in _OF_RECTANGLES.items()}
    if stories:
        data["stories"] = [_cut(stories.get(job_id, ())) for job_id in jobs["id"]]
    return data


def _cut(story: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    """Give a story that fits on the page: the begin and the end of a long one."""
    if len(story) <= _N_LINES:
        return list(story)
    half = _N_LINES // 2
    left_out = story[half][0], f"(… {len(story) - 2 * half} lines more)"
    return [*story[:half], left_out, *story[-half:]]


def _hues(jobs: JobTable) -> Counts:
    """Give the place of each job's own colour in the palette. O(n log n).

    It goes by the order of submissions, of jobs that never ran as well, so that a job has the same in all runs of its
    workload.
    """
    order = np.lexsort((np.array(jobs.frame["id"], np.str_), jobs.frame["submitted_at"].to_numpy()))
    hues = np.empty(len(order), np.int64)
    hues[order] = np.arange(len(order)) % len(_COLORS)
    return hues[jobs.frame["n_segments"].to_numpy() > 0]


def kin_of(run: Run) -> str:
    """Give what tells the workloads of a run from others: in runs of the same ones, jobs of one id are the same job.

    The same files are other workloads where times were moved or jobs resized. Where nobody has told them, runs are
    taken to be of the same.
    """
    inputs = run.summary.get("inputs")
    files = inputs.get("workloads") if isinstance(inputs, dict) else None
    told = [str(file.get("sha256", ""))[:16] for file in files or () if isinstance(file, dict)]
    how = how_read_of(run.summary)
    changed = {name: how[name] for name in _CHANGES_JOBS if how[name] not in (None, "core")}
    return " ".join([*told, json.dumps(changed, sort_keys=True)] if changed else told)


def _packed(column: npt.ArrayLike, kind: str) -> str:
    """Write numbers as text, in the type that the script reads them as."""
    return base64.b64encode(np.asarray(column).astype(kind).tobytes()).decode()


def element(name: str, data: Mapping[str, Any]) -> str:
    """Give the HTML of a chart; there must be a board (below) before it. Nothing in the data can end its script."""
    return (
        f'<div class="gantt" id="{name}"></div>\n<script>window.gantts = window.gantts || {{}};\n'
        f'window.gantts["{name}"] = pybatschedGantt(document.getElementById("{name}"), {_written(data)}, window.board);'
        "</script>"
    )


def board(begin: float, end: float, shades: Sequence[Shade], shade: str, notes: Sequence[str]) -> str:
    """Give the HTML of what charts have in common: the stretch of time, colours, the field to find a job, and notes."""
    by_job = {"name": BY_JOB, "title": "job", "colors": [], "words": []}
    about = {"begin": begin, "end": end, "shades": [by_job, *map(told, shades)], "shade": shade}
    buttons = "".join(f'<button value="{value}" title="{title}">{value}</button>' for value, title in _BUTTONS)
    told_notes = "".join(f'<p class="note">{html.escape(note)}</p>' for note in notes)
    return (
        '<div class="side" id="board"><label>Find job <input type="search" placeholder="w0!23, or 23"></label>'
        f'<output></output><div class="zoom">{buttons}</div><label>Colours by <select></select></label>'
        f'<ul class="shades"></ul>{told_notes}</div>\n'
        f'<script>window.board = pybatschedBoard(document.getElementById("board"), {_written(about)});</script>'
    )


def _written(data: Mapping[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
