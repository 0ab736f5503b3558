"""The Gantt chart of a run: its rectangles as numbers, for the script that draws them (gantt.js)."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from bokeh.palettes import Category20

from pybatsched.metrics.runs import Run
from pybatsched.metrics.summary import STATE_WORDS
from pybatsched.report.bands import rows_of
from pybatsched.report.bars import color_of, legend_of_looks
from pybatsched.report.rectangles import rectangles_of
from pybatsched.report.sheet import Sheet
from pybatsched.report.stairs import on_tick

WIDTH: Final = 1080
HEIGHT: Final = 440
#: Colours of jobs as the canvas has them (alpha, blue, green, red), without the greys, which are for lost work.
_COLORS: Final = tuple(
    0xFF000000 | int(color[5:7] + color[3:5] + color[1:3], 16)
    for number, color in enumerate(Category20[20])
    if number not in {14, 15}
)
#: What the script is told of each rectangle, and as which type.
_OF_RECTANGLES: Final = {"left": "<f8", "right": "<f8", "low": "<u4", "high": "<u4", "job": "<u4", "look": "u1"}
Stories = Mapping[str, Sequence[tuple[float, str]]]


def script() -> str:
    """Give the script that draws charts; a page needs it once."""
    return resources.files("pybatsched.report").joinpath("gantt.js").read_text(encoding="utf-8")


def data_of(run: Run, stories: Stories | None = None) -> dict[str, Any]:
    """Give a run as the script wants it, as `data_of_sheet` does. O(n log n + r)."""
    return data_of_sheet(Sheet(run), stories)


def data_of_sheet(sheet: Sheet, stories: Stories | None = None) -> dict[str, Any]:
    """Give a run as the script wants it: rectangles in the order of their starts, and what is told of each job.

    O(n log n + r) for n jobs and r intervals of processors. Columns of numbers are packed.
    """
    jobs, rows = sheet.jobs, rows_of(sheet.run)
    found = rectangles_of(jobs, rows)
    states = {state: number for number, state in enumerate(dict.fromkeys(jobs.states))}
    data: dict[str, Any] = {
        "width": WIDTH,
        "height": HEIGHT,
        "begin": float(min(found.left[:1], default=min(jobs.submitted_at, default=0.0))),
        "end": jobs.span[1],
        "procs": sheet.n_procs or int(found.high.max(initial=1)),
        "palette": [
            _COLORS[color_of(job, len(_COLORS))] for job in range(len(_COLORS))
        ],  # of the first jobs; it repeats
        "legend": list(legend_of_looks(np.unique(found.look).tolist()).items()),
        "jobs": jobs.ids,
        "words": [STATE_WORDS.get(state, state) for state in states],
        "states": _packed([states[state] for state in jobs.states], "u1"),
        "sizes": _packed(jobs.n_procs, "<u4"),
        "submitted": _packed(jobs.submitted_at, "<f8"),
        "waits": _packed(jobs.wait_s, "<f8"),
        "runtimes": _packed(on_tick(jobs.runtime_s), "<f8"),
    }
    if rows is not None:
        data["procs"] = rows.n_rows
        data["bands"] = rows.bands
        if not rows.is_plain:  # which processor each row is
            data["rows"] = sorted((part.row, part.begin) for part in rows.stretches)
    if len(found.notes) > 1:
        data |= {"notes": found.notes, "note": _packed(found.note, "<u4")}
    data |= {name: _packed(getattr(found, name), kind) for name, kind in _OF_RECTANGLES.items()}
    if stories:
        data["stories"] = [[f"{at:g} s: {what}" for at, what in stories.get(job_id, ())][:20] for job_id in jobs.ids]
    return data


def _packed(column: npt.ArrayLike, kind: str) -> str:
    """Write numbers as text, in the type that the script reads them as."""
    return base64.b64encode(np.asarray(column).astype(kind).tobytes()).decode()


def element(name: str, data: Mapping[str, Any]) -> str:
    """Give the HTML of a chart. Nothing in the data can end the script it is in."""
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return (
        f'<div class="gantt" id="{name}"></div>\n<script>window.gantts = window.gantts || {{}};\n'
        f'window.gantts["{name}"] = pybatschedGantt(document.getElementById("{name}"), {text});</script>'
    )
