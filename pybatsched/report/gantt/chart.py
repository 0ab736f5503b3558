"""The Gantt chart of a run: its rectangles as numbers, for the script that draws them (gantt.js)."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pybatsched.metrics.runs import Run, how_read_of
from pybatsched.metrics.summary import STATE_WORDS
from pybatsched.report.gantt.bars import URGENT, bars_of, bars_of_job, color_of, legend_of_looks
from pybatsched.report.gantt.cluster_rows import Rows, rows_of
from pybatsched.report.gantt.colors import BY_JOB, DISTINCT, Shade, as_pixel, told
from pybatsched.report.gantt.columns import Counts, Jobs, Numbers, Sheet, laid_out, on_tick


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


def rectangles_of(jobs: Jobs, rows: Rows | None = None) -> Rectangles:
    """Give the rectangles of the jobs that ran, which are numbered as they come. O(n log n + r) for r rectangles.

    Nearly all jobs of nearly all runs have one bar that nothing need be said about, and what it needs is in the columns
    of jobs. The bars of the others are made one by one; so are all where there are clusters to be told.
    """
    urgent = (jobs.kinds == "urgent") * np.int64(URGENT)
    plain, place, lengths, intervals = jobs.holdings
    if rows is not None:
        plain, place = plain[:0], place[:0]
        bars = bars_of([record for record in jobs.records if record.ran], rows)
    else:
        bars = [bar for k, record in jobs.special for bar in bars_of_job(k, record, int(urgent[k]), rows)]
    more = laid_out([bar.procs if rows is None else rows.placed(bar.procs) for bar in bars])
    place = np.concatenate((place, np.arange(len(bars)) + len(lengths)))
    lengths, intervals = np.concatenate((lengths, more[0])), np.concatenate((intervals, more[1]))
    begin = np.concatenate((jobs.started_at[plain], [bar.begin for bar in bars]))
    end = np.concatenate((jobs.ended_at[plain], [bar.end for bar in bars]))
    job = np.concatenate((plain, np.array([bar.job for bar in bars], np.int64)))
    look = np.concatenate((urgent[plain], np.array([bar.look for bar in bars], np.int64)))
    order = np.lexsort((job, end, begin))
    texts = [""] * len(plain) + [bar.note for bar in bars]
    notes = list(dict.fromkeys(["", *(texts[i] for i in order.tolist())]))
    numbers = {text: number for number, text in enumerate(notes)}
    note = np.array([numbers[text] for text in texts], np.int64)
    n, first = lengths[place[order]], (np.cumsum(lengths) - lengths)[place[order]]
    low, high = intervals[np.arange(n.sum()) + np.repeat(first - (np.cumsum(n) - n), n)].T
    left, right, job, look, note = (np.repeat(column[order], n) for column in (begin, end, job, look, note))
    return Rectangles(left, right, low, high, job, look, note, notes)


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


def data_of(run: Run, stories: Stories | None = None) -> dict[str, Any]:
    """Give a run as the script wants it, as `data_of_sheet` does. O(n log n + r)."""
    return data_of_sheet(Sheet(run), stories)


def data_of_sheet(
    sheet: Sheet, stories: Stories | None = None, classes: Mapping[str, Counts] | None = None, n_charts: int = 1
) -> dict[str, Any]:
    """Give a run as the script wants it: rectangles in the order of their starts, and what is told of each job.

    O(n log n + r) for n jobs and r intervals of processors. Columns of numbers are packed. `classes` are those of jobs
    by the names of the shades of the page, which has `n_charts`.
    """
    jobs, rows = sheet.jobs, rows_of(sheet.run)
    found = rectangles_of(jobs, rows)
    states = {state: number for number, state in enumerate(dict.fromkeys(jobs.states))}
    data: dict[str, Any] = {
        "width": WIDTH,
        "height": height(n_charts),
        "begin": float(min(found.left[:1], default=min(jobs.submitted_at, default=0.0))),
        "end": jobs.span[1],
        "kin": kin_of(sheet.run),
        "label": sheet.label,
        "procs": sheet.n_procs or int(found.high.max(initial=1)),
        "palette": [_COLORS[color_of(job, len(_COLORS))] for job in range(len(_COLORS))],
        "hues": _packed(_hues(jobs), "u1"),
        "legend": list(legend_of_looks(np.unique(found.look).tolist()).items()),
        "jobs": jobs.ids,
        "words": [STATE_WORDS.get(state, state) for state in states],
        "states": _packed([states[state] for state in jobs.states], "u1"),
        "sizes": _packed(jobs.n_procs, "<u4"),
        "submitted": _packed(jobs.submitted_at, "<f8"),
        "waits": _packed(jobs.wait_s, "<f8"),
        "runtimes": _packed(on_tick(jobs.runtime_s), "<f8"),
        "shades": {name: _packed(column, "u1") for name, column in (classes or {}).items()},
    }
    if any(jobs.users):
        names = {user: number for number, user in enumerate(dict.fromkeys(jobs.users))}
        data |= {"users": list(names), "user": _packed([names[user] for user in jobs.users], "<u4")}
    if rows is not None:
        data["procs"] = rows.n_rows
        data["bands"] = rows.bands
        if not rows.is_plain:  # which processor each row is
            data["rows"] = sorted((part.row, part.begin) for part in rows.stretches)
    if len(found.notes) > 1:
        data |= {"notes": found.notes, "note": _packed(found.note, "<u4")}
    data |= {name: _packed(getattr(found, name), kind) for name, kind in _OF_RECTANGLES.items()}
    if stories:
        data["stories"] = [_cut(stories.get(job_id, ())) for job_id in jobs.ids]
    return data


def _cut(story: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    """Give a story that fits on the page: the begin and the end of a long one."""
    if len(story) <= _N_LINES:
        return list(story)
    half = _N_LINES // 2
    left_out = story[half][0], f"(… {len(story) - 2 * half} lines more)"
    return [*story[:half], left_out, *story[-half:]]


def _hues(jobs: Jobs) -> Counts:
    """Give the place of each job's own colour in the palette. O(n log n).

    It goes by the order of submissions, of jobs that never ran as well, so that a job has the same in all runs of its
    workload.
    """
    ids = [*jobs.ids, *(record.id for record in jobs.others)]
    submitted_at = np.concatenate((jobs.submitted_at, [record.submitted_at for record in jobs.others]))
    order = np.lexsort((np.array(ids, np.str_), submitted_at))
    hues = np.empty(len(order), np.int64)
    hues[order] = np.arange(len(order)) % len(_COLORS)
    return hues[: len(jobs.ids)]


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
