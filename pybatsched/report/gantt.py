"""The Gantt chart of a run: its rectangles as numbers, for the script that draws them (gantt.js)."""

from __future__ import annotations

import base64
import json
from array import array
from collections.abc import Mapping, Sequence
from importlib import resources
from operator import itemgetter
from typing import Any, Final

from bokeh.palettes import Category20

from pybatsched.metrics.runs import Run
from pybatsched.metrics.series import span_of

WIDTH: Final = 1080
HEIGHT: Final = 440
_KILLED: Final = 0xFFB0B0B0
#: Colours of jobs as the canvas has them (alpha, blue, green, red), without the greys, which are for what was killed.
_COLORS: Final = tuple(
    0xFF000000 | int(color[5:7] + color[3:5] + color[1:3], 16)
    for number, color in enumerate(Category20[20])
    if number not in {14, 15}
)
Stories = Mapping[str, Sequence[tuple[float, str]]]


def script() -> str:
    """Give the script that draws charts; a page needs it once."""
    return resources.files("pybatsched.report").joinpath("gantt.js").read_text(encoding="utf-8")


def data_of(run: Run, stories: Stories | None = None) -> dict[str, Any]:
    """Give a run as the script wants it: rectangles in the order of their starts, and what is told of each job.

    O(n log n + r) for n jobs and r intervals of processors.
    """
    records = [record for record in run.records if record.ran]
    parts = []
    for number, record in enumerate(records):
        last = len(record.segments) - 1
        for place, part in enumerate(record.segments):
            color = _COLORS[number * 7 % len(_COLORS)] if place == last else _KILLED
            parts.append((part.started_at, part.ended_at, number, color, part.procs))
    parts.sort(key=itemgetter(0, 1, 2))
    columns: tuple[list[Any], ...] = ([], [], [], [], [], [])  # as named below
    for begin, end, number, color, procs in parts:
        spans = list(procs.intervals())
        columns[0].extend([begin] * len(spans))
        columns[1].extend([end] * len(spans))
        columns[2].extend([low for low, _ in spans])
        columns[3].extend([high for _, high in spans])
        columns[4].extend([number] * len(spans))
        columns[5].extend([color] * len(spans))
    begin, end = span_of(records)
    data: dict[str, Any] = {
        "width": WIDTH,
        "height": HEIGHT,
        "begin": min(columns[0], default=begin),
        "end": end,
        "procs": run.n_procs or max(columns[3], default=1),
        "jobs": [record.id for record in records],
        "states": [record.state.removeprefix("COMPLETED_") for record in records],
        "sizes": [record.n_procs for record in records],
        "submitted": [record.submitted_at for record in records],
        "waits": [round(record.wait_s, 6) for record in records],
        "runtimes": [round(record.runtime_s, 6) for record in records],
    }
    for name, code, column in zip(("left", "right", "low", "high", "job", "color"), "ddIIII", columns, strict=True):
        data[name] = base64.b64encode(array(code, column).tobytes()).decode()
    if stories:
        data["stories"] = [[f"{at:g} s: {what}" for at, what in stories.get(record.id, ())][:20] for record in records]
    return data


def element(name: str, data: Mapping[str, Any]) -> str:
    """Give the HTML of a chart. Nothing in the data can end the script it is in."""
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return (
        f'<div class="gantt" id="{name}"></div>\n<script>window.gantts = window.gantts || {{}};\n'
        f'window.gantts["{name}"] = pybatschedGantt(document.getElementById("{name}"), {text});</script>'
    )
