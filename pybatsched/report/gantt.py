"""The Gantt chart of a run: its rectangles as numbers, for the script that draws them (gantt.js)."""

from __future__ import annotations

import base64
import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from itertools import chain, repeat
from typing import Any, Final

from bokeh.palettes import Category20

from pybatsched.metrics.runs import Run
from pybatsched.metrics.series import span_of
from pybatsched.metrics.summary import STATE_WORDS
from pybatsched.report.bands import Rows, rows_of
from pybatsched.report.bars import Bar, bars_of, color_of, legend_of

WIDTH: Final = 1080
HEIGHT: Final = 440
#: Colours of jobs as the canvas has them (alpha, blue, green, red), without the greys, which are for lost work.
_COLORS: Final = tuple(
    0xFF000000 | int(color[5:7] + color[3:5] + color[1:3], 16)
    for number, color in enumerate(Category20[20])
    if number not in {14, 15}
)
#: What the script is told of each rectangle, and as which type.
_TYPES: Final = {"left": "d", "right": "d", "low": "I", "high": "I", "job": "I", "look": "B", "note": "I"}
Stories = Mapping[str, Sequence[tuple[float, str]]]


def script() -> str:
    """Give the script that draws charts; a page needs it once."""
    return resources.files("pybatsched.report").joinpath("gantt.js").read_text(encoding="utf-8")


def data_of(run: Run, stories: Stories | None = None) -> dict[str, Any]:
    """Give a run as the script wants it: rectangles in the order of their starts, and what is told of each job.

    O(n log n + r) for n jobs and r intervals of processors.
    """
    records = [record for record in run.records if record.ran]
    rows = rows_of(run)
    bars = bars_of(records, rows)
    notes = list(dict.fromkeys(["", *(bar.note for bar in bars)]))
    numbers = {note: number for number, note in enumerate(notes)}
    columns = _columns(bars, rows, numbers)
    begin, end = span_of(records)
    data: dict[str, Any] = {
        "width": WIDTH,
        "height": HEIGHT,
        "begin": min(columns["left"], default=begin),
        "end": end,
        "procs": run.n_procs or max(columns["high"], default=1),
        "palette": [
            _COLORS[color_of(job, len(_COLORS))] for job in range(len(_COLORS))
        ],  # of the first jobs; it repeats
        "legend": list(legend_of(bars).items()),
        "jobs": [record.id for record in records],
        "states": [STATE_WORDS.get(record.state, record.state) for record in records],
        "sizes": [record.n_procs for record in records],
        "submitted": [record.submitted_at for record in records],
        "waits": [record.wait_s for record in records],
        "runtimes": [round(record.runtime_s, 6) for record in records],
    }
    if rows is not None:
        data["procs"] = rows.n_rows
        data["bands"] = rows.bands
        if not rows.is_plain:  # which processor each row is
            data["rows"] = sorted((part.row, part.begin) for part in rows.stretches)
    if len(notes) > 1:
        data["notes"] = notes
    else:
        del columns["note"]
    for name, column in columns.items():
        data[name] = base64.b64encode(array(_TYPES[name], column).tobytes()).decode()
    if stories:
        data["stories"] = [[f"{at:g} s: {what}" for at, what in stories.get(record.id, ())][:20] for record in records]
    return data


def _columns(bars: Sequence[Bar], rows: Rows | None, numbers: Mapping[str, int]) -> dict[str, list[Any]]:
    """Give the rectangles of bars, one for each interval of processors, column by column. O(rectangles)."""
    procs = [bar.procs if rows is None else rows.placed(bar.procs) for bar in bars]
    counts = list(map(len, procs))

    def of_each(values: Iterable[Any]) -> list[Any]:
        return list(chain.from_iterable(map(repeat, values, counts)))

    columns = {
        "left": of_each([bar.begin for bar in bars]),
        "right": of_each([bar.end for bar in bars]),
        "low": [low for intervals in procs for low, _ in intervals],
        "high": [high for intervals in procs for _, high in intervals],
        "job": of_each([bar.job for bar in bars]),
        "look": of_each([bar.look for bar in bars]),
        "note": of_each([numbers[bar.note] for bar in bars]),
    }
    assert columns.keys() == _TYPES.keys()
    return columns


def element(name: str, data: Mapping[str, Any]) -> str:
    """Give the HTML of a chart. Nothing in the data can end the script it is in."""
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return (
        f'<div class="gantt" id="{name}"></div>\n<script>window.gantts = window.gantts || {{}};\n'
        f'window.gantts["{name}"] = pybatschedGantt(document.getElementById("{name}"), {text});</script>'
    )
