"""Draw the pictures of the documentation as SVG files in docs/images.

    python release/pictures.py [DIRECTORY]

The picture of job states follows from `core.jobs.TRANSITIONS`, the Gantt charts from simulations of a small example.
The overheads of checkpoints are those of a study.
The same code gives the same files, byte for byte; a test compares them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from pybatsched.core.jobs import TRANSITIONS, JobState
from pybatsched.testing import Workload, run_policy

IMAGES: Final = Path(__file__).parent.parent / "docs" / "images"
INK, SOFT, PAPER, LINE = "#1f2937", "#4b5563", "#ffffff", "#6b7280"
BLUE, GREEN, AMBER, RED, GREY = "#dbe4ff", "#d3f2dc", "#ffecc2", "#ffdcd9", "#eceff4"
_FONT: Final = "system-ui, 'Segoe UI', 'DejaVu Sans', Arial, sans-serif"


class Box(NamedTuple):
    """A labelled rectangle."""

    x: int
    y: int
    width: int
    height: int
    title: str
    note: str = ""
    fill: str = BLUE

    @property
    def mid(self) -> int:
        """The horizontal middle."""
        return self.x + self.width // 2

    @property
    def level(self) -> int:
        """The vertical middle."""
        return self.y + self.height // 2


def text(
    x: float, y: float, words: str, *, size: int = 14, bold: bool = False, fill: str = INK, at: str = "middle"
) -> str:
    """Draw a line of text."""
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}"{weight} fill="{fill}" text-anchor="{at}">{escape(words)}</text>'
    )


def rect(x: float, y: float, width: float, height: float, how: str) -> str:
    """Draw a rectangle."""
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" {how}/>'


def line(x1: float, y1: float, x2: float, y2: float, how: str) -> str:
    """Draw a straight line without a head."""
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" {how}/>'


def box(one: Box) -> str:
    """Draw a rectangle with its title and note. A note may have several lines."""
    notes = one.note.split("\n") if one.note else []
    top = one.level + 5 - 9 * len(notes)
    lines = [text(one.mid, top, one.title, size=15, bold=True)]
    lines += [text(one.mid, top + 19 + 16 * i, note, size=12, fill=SOFT) for i, note in enumerate(notes)]
    frame = rect(one.x, one.y, one.width, one.height, f'rx="8" fill="{one.fill}" stroke="{LINE}"')
    return "\n".join([frame, *lines])


def arrow(
    points: Iterable[tuple[float, float]],
    label: str = "",
    at: tuple[float, float] | None = None,
    *,
    both: bool = False,
    anchor: str = "middle",
) -> str:
    """Draw a line through points with a head at its end, or at both, and a label that may have several lines."""
    path = " ".join(f"{x:g},{y:g}" for x, y in points)
    start = ' marker-start="url(#head)"' if both else ""
    drawn = [
        f'<polyline points="{path}" fill="none" stroke="{INK}" stroke-width="1.5"{start} marker-end="url(#head)"/>'
    ]
    if label and at is not None:
        drawn += [text(at[0], at[1] + 15 * i, one, size=12, at=anchor) for i, one in enumerate(label.split("\n"))]
    return "\n".join(drawn)


def picture(width: int, height: int, title: str, parts: Iterable[str]) -> str:
    """Return a whole SVG file on a white ground, so that it can be read on a dark page too."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(title)}" font-family="{_FONT}">\n<title>{escape(title)}</title>\n'
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" '
        f'orient="auto-start-reverse"><path d="M0 0 10 5 0 10z" fill="{INK}"/></marker></defs>\n'
        f'<rect width="{width}" height="{height}" rx="10" fill="{PAPER}"/>\n'
    )
    return head + "\n".join(parts) + "\n</svg>\n"


def architecture() -> str:
    """Draw the drivers, the engine and the policy."""
    batsim = Box(20, 60, 150, 70, "Batsim", "the real simulator,\nover ZeroMQ", GREY)
    journal = Box(20, 165, 150, 70, "journal", "recorded messages:\nreplay, explain", GREY)
    simulator = Box(20, 270, 150, 70, "simulator", "embedded; behaves\nlike Batsim 4.2.1", GREY)
    server = Box(250, 60, 120, 70, "live", "socket, keys,\nchild processes", GREEN)
    session = Box(450, 112, 130, 76, "session", "one conversation\nand its journal", GREEN)
    codec = Box(450, 20, 130, 60, "protocol", "bytes ↔ records", GREEN)
    engine = Box(660, 130, 150, 130, "engine", "state of jobs and\nprocessors;\nchecks each decision", BLUE)
    policy = Box(890, 150, 120, 90, "policy", "a plugin:\none Python file", AMBER)
    files = Box(250, 375, 120, 60, "results", "_jobs.csv, …", GREY)
    metrics = Box(450, 375, 130, 60, "metrics", "all figures", GREEN)
    report = Box(660, 375, 150, 60, "report", "pages, figures", GREEN)
    parts = [
        box(one) for one in (batsim, journal, simulator, server, session, codec, engine, policy, files, metrics, report)
    ]
    parts += [
        arrow([(170, 95), (250, 95)], "bytes", (210, 87), both=True),
        arrow([(370, 95), (410, 95), (410, 137), (450, 137)], "bytes", (398, 87), both=True),
        arrow([(170, 200), (410, 200), (410, 165), (450, 165)], "the same bytes", (290, 192)),
        arrow([(515, 112), (515, 80)], both=True),
        arrow([(580, 150), (660, 150)], "events", (620, 142)),
        arrow([(660, 175), (580, 175)], "decisions", (620, 191)),
        arrow([(170, 290), (620, 290), (620, 235), (660, 235)], "events, without bytes or a socket", (390, 282)),
        arrow([(730, 260), (730, 318), (170, 318)], "decisions", (390, 334)),
        arrow([(810, 175), (890, 175)], "hooks", (850, 167)),
        arrow([(890, 215), (810, 215)], "decisions", (850, 231)),
        arrow([(95, 340), (95, 405), (250, 405)], "writes", (172, 397)),
        arrow([(370, 405), (450, 405)]),
        arrow([(580, 405), (660, 405)]),
    ]
    return picture(
        1030, 455, "Three drivers send events to one engine, which calls the policy and returns its decisions", parts
    )


#: Where each state is drawn, and its colour.
_STATES: Final = {
    JobState.HELD: (40, 60, AMBER),
    JobState.WAITING: (330, 60, BLUE),
    JobState.RUNNING: (640, 60, GREEN),
    JobState.COMPLETED: (920, 60, GREY),
    JobState.REJECTED: (330, 240, GREY),
    JobState.KILLED: (640, 240, RED),
}
#: How each change of state is drawn: its points, its label and where the label is.
_CHANGES: Final[dict[tuple[JobState, JobState], tuple[list[tuple[float, float]], str, tuple[float, float]]]] = {
    (JobState.WAITING, JobState.HELD): ([(330, 78), (160, 78)], "StartAt", (245, 70)),
    (JobState.HELD, JobState.WAITING): (
        [(160, 100), (330, 100)],
        "Release, a lost processor,\nor the start",
        (245, 117),
    ),
    (JobState.WAITING, JobState.RUNNING): ([(450, 88), (640, 88)], "ExecuteJob,\nChangeJobState", (545, 65)),
    (JobState.WAITING, JobState.REJECTED): ([(370, 116), (370, 240)], "RejectJob", (330, 190)),
    (JobState.WAITING, JobState.WAITING): ([(370, 60), (370, 28), (410, 28), (410, 60)], "Replace, Reshape", (390, 20)),
    (JobState.RUNNING, JobState.COMPLETED): ([(760, 88), (920, 88)], "JOB_COMPLETED", (838, 80)),
    (JobState.RUNNING, JobState.KILLED): (
        [(720, 116), (720, 240)],
        "JOB_KILLED, or\nJOB_COMPLETED after a kill",
        (816, 178),
    ),
    (JobState.KILLED, JobState.WAITING): (
        [(660, 240), (660, 170), (420, 170), (420, 116)],
        "JOB_KILLED after a Requeue",
        (540, 163),
    ),
    (JobState.KILLED, JobState.KILLED): (
        [(760, 256), (800, 256), (800, 282), (760, 282)],
        "JOB_KILLED:\nthe job is finished",
        (870, 264),
    ),
}


def job_states() -> str:
    """Draw the states of a job and the causes of each change. Raises KeyError for a change that has no place here."""
    pairs = {(change.before, change.after) for change in TRANSITIONS.values()}
    changes = sorted(pairs, key=lambda pair: (list(JobState).index(pair[0]), pair[1].value))
    parts = [arrow(*_CHANGES[pair]) for pair in changes]
    ends = set(JobState) - {before for before, after in pairs if before is not after}
    notes = {JobState.WAITING: "submitted", **dict.fromkeys(ends, "finished")}
    parts += [
        box(Box(x, y, 120, 56, state.value, notes.get(state, ""), fill)) for state, (x, y, fill) in _STATES.items()
    ]
    return picture(1060, 320, "The states of a job and what changes them", parts)


def message() -> str:
    """Draw the way of one message as a sequence."""
    lanes = {"Batsim": 85, "live.server": 265, "session": 445, "core.engine": 665, "policy": 965}
    steps = [
        ("Batsim", "live.server", "message: now, events"),
        ("live.server", "session", "bytes"),
        ("session", "session", "write to the journal, decode"),
        ("session", "core.engine", "events"),
        ("core.engine", "core.engine", "apply events: ends, machines, submissions"),
        ("core.engine", "policy", "on_job_ended, on_job_submitted, …"),
        ("core.engine", "policy", "decide(now)"),
        ("policy", "core.engine", "one decision"),
        ("core.engine", "core.engine", "check the rules, change the state"),
        ("core.engine", "policy", "next decision, until there is none"),
        ("core.engine", "session", "decisions, reasons"),
        ("session", "session", "encode, write to the journal"),
        ("session", "live.server", "bytes"),
        ("live.server", "Batsim", "reply: now, events"),
    ]
    top, gap = 92, 36
    bottom = top + gap * len(steps) - 10
    parts = []
    for name, x in lanes.items():
        parts.append(f'<line x1="{x}" y1="56" x2="{x}" y2="{bottom}" stroke="{LINE}" stroke-dasharray="3 4"/>')
        fill = {"Batsim": GREY, "policy": AMBER, "core.engine": BLUE}.get(name, GREEN)
        parts.append(box(Box(x - 65, 16, 130, 40, name, fill=fill)))
    for i, (source, target, words) in enumerate(steps):
        y = top + gap * i
        start, end = lanes[source], lanes[target]
        if start == end:
            parts.append(f'<rect x="{start - 5}" y="{y - 12}" width="10" height="20" fill="{INK}"/>')
            parts.append(text(start + 14, y + 3, words, size=12, at="start", fill=SOFT))
        else:
            parts.append(arrow([(start, y), (end, y)]))
            parts.append(text((start + end) / 2, y - 7, words, size=12))
    return picture(1045, bottom + 16, "The way of one message from Batsim to the policy and back", parts)


_EXAMPLE: Final = (("A", 3, 6, 0), ("B", 4, 4, 1), ("C", 1, 4, 2), ("D", 2, 5, 3))
_COLOURS: Final = {"A": "#b9c7fb", "B": "#f8c98a", "C": "#9fdcb0", "D": "#e6b3e0"}


def backfilling() -> str:
    """Draw the same four jobs under FCFS and under EASY backfilling, as the embedded simulator runs them."""
    fcfs = _gantt("fcfs", "FCFS: no job starts before an earlier one", 50)
    easy = _gantt("easy", "EASY: C fits before B must start, so it is backfilled", 265)
    return picture(930, 430, "Gantt charts of four jobs under FCFS and EASY backfilling", [*fcfs, *easy])


def _gantt(policy: str, title: str, top: int) -> Iterator[str]:
    """Draw the example under one policy, and the reservation of job B if it was backfilled around."""
    jobs = Workload()
    for name, n, seconds, at in _EXAMPLE:
        jobs = jobs.job(name, n=n, s=seconds, at=at, estimate=float(seconds))
    run = run_policy(policy, jobs, n_procs=4)
    starts = {name: run.jobs[f"w0!{name}"].started_at or 0.0 for name, *_ in _EXAMPLE}
    scale, row, left = 46, 30, 110
    bottom = top + 4 * row
    yield text(left, top - 14, title, bold=True, at="start")
    for proc in range(4):
        yield text(left - 10, top + row * proc + 20, f"processor {proc}", size=12, fill=SOFT, at="end")
    for second in range(0, 17, 2):
        yield line(left + scale * second, top, left + scale * second, bottom, 'stroke="#e5e7eb"')
        yield text(left + scale * second, bottom + 17, f"{second} s", size=12, fill=SOFT)
    for name, _, seconds, _ in _EXAMPLE:
        x = left + scale * starts[name]
        for low, high in _spans(run.jobs[f"w0!{name}"].procs):
            how = f'fill="{_COLOURS[name]}" stroke="{INK}"'
            yield rect(x, top + row * low, scale * seconds, row * (high - low + 1), how)
            yield text(x + scale * seconds / 2, top + row * (low + high + 1) / 2 + 5, name, bold=True)
    if starts["C"] < starts["B"]:
        x = left + scale * starts["B"]
        yield line(x, top - 6, x, bottom + 4, 'stroke="#b91c1c" stroke-width="2" stroke-dasharray="5 3"')
        yield text(x, bottom + 38, "shadow time: B starts here at the latest", size=12, fill="#b91c1c")


def _spans(procs: Iterable[int]) -> list[tuple[int, int]]:
    """Return the contiguous runs of processors."""
    found = sorted(procs)
    breaks = [i for i, (one, other) in enumerate(pairwise(found), 1) if other != one + 1]
    edges = [0, *breaks, len(found)]
    return [(found[low], found[high - 1]) for low, high in pairwise(edges)]


#: Load times of `locality` on 2022-03-01 of Rackham in minutes: of 0, 5, … 100 % of the loads (docs/policies.md).
_LOADS: Final = (
    (
        "fixed seconds",
        "#4263eb",
        "1.1 1.1 1.1 1.1 2.1 4.3 4.3 4.3 4.3 8.5 8.5 10.7 17.1 21.3 21.3 21.3 21.3 21.3 21.3 21.3 21.3",
    ),
    (
        "transfers, the file system is never the limit",
        "#2b8a3e",
        "1 1.1 3.2 4.3 4.3 5.2 6.4 8.5 9.3 10.7 12.8 16 18.1 21.3 21.3 21.3 21.3 21.3 21.3 21.3 25.6",
    ),
    (
        "transfers, the file system gives 5 GB/s",
        "#c92a2a",
        "0 1.1 3.5 5.4 8.5 9.7 12.4 12.4 12.4 17.1 21.3 21.3 40.7 40.7 84 149.1 149.1 149.1 149.1 149.1 149.1",
    ),
)


def loads() -> str:
    """Draw the cumulative distribution of load times with fixed seconds and with transfers."""
    left, top, width, height, most = 90, 40, 640, 300, 150
    parts = []
    for share in range(0, 101, 25):
        y = top + height * (1 - share / 100)
        parts.append(line(left, y, left + width, y, 'stroke="#e5e7eb"'))
        parts.append(text(left - 10, y + 4, f"{share} %", size=12, fill=SOFT, at="end"))
    for minutes in range(0, most + 1, 30):
        x = left + width * minutes / most
        parts.append(line(x, top, x, top + height, 'stroke="#e5e7eb"'))
        parts.append(text(x, top + height + 18, f"{minutes}", size=12, fill=SOFT))
    parts.append(text(left + width / 2, top + height + 42, "minutes until the input file is loaded", size=13))
    parts.append(text(left, top - 14, "share of the loads", size=13, at="start"))
    for place, (name, colour, minutes_of) in enumerate(_LOADS):
        points = " ".join(
            f"{left + width * min(minutes, most) / most:.1f},{top + height * (1 - share / 20):.1f}"
            for share, minutes in enumerate(map(float, minutes_of.split()))
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        y = top + height - 62 + 22 * place
        parts.append(
            line(left + width - 330, y - 5, left + width - 300, y - 5, f'stroke="{colour}" stroke-width="2.5"')
        )
        parts.append(text(left + width - 290, y, name, size=13, at="start"))
    return picture(770, 400, "Load times with fixed seconds and with transfers", parts)


#: Overhead in percent for each MTBF, at these multiples of Daly's interval: tests/core/test_daly_optimum.py.
_FACTORS: Final = (0.4, 0.5, 0.63, 0.8, 1.0, 1.26, 1.6, 2.0, 2.5)
_OVERHEADS: Final = {
    "6 h": ("#b91c1c", (28.69, 25.01, 22.46, 20.88, 20.44, 21.03, 22.83, 25.51, 29.87)),
    "24 h": ("#b45309", (13.14, 11.42, 10.17, 9.45, 9.22, 9.49, 10.29, 11.54, 13.39)),
    "96 h": ("#1d4ed8", (6.30, 5.46, 4.85, 4.51, 4.39, 4.51, 4.90, 5.50, 6.39)),
}


def daly() -> str:
    """Draw the overhead of checkpoints and failures over the interval, for three mean times between failures."""
    left, top, width, height, most = 80, 50, 560, 290, 30
    bottom = top + height

    def across(factor: float) -> float:
        return round(left + width * math.log(factor / _FACTORS[0]) / math.log(_FACTORS[-1] / _FACTORS[0]), 1)

    def up(percent: float) -> float:
        return round(bottom - height * percent / most, 1)

    parts = [text(left, top - 18, "Time that is not work, over work", bold=True, at="start")]
    for percent in range(0, most + 1, 5):
        parts.append(line(left, up(percent), left + width, up(percent), 'stroke="#e5e7eb"'))
        parts.append(text(left - 10, up(percent) + 4, f"{percent} %", size=12, fill=SOFT, at="end"))
    parts += [text(across(factor), bottom + 20, f"{factor:g}", size=12, fill=SOFT) for factor in _FACTORS]
    parts.append(text(left + width / 2, bottom + 44, "checkpoint interval, over Daly's interval", size=13))
    parts.append(line(across(1), top, across(1), bottom, f'stroke="{LINE}" stroke-dasharray="5 3"'))
    for name, (colour, values) in _OVERHEADS.items():
        points = [(across(factor), up(value)) for factor, value in zip(_FACTORS, values, strict=True)]
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:g}" cy="{y:g}" r="3.5" fill="{colour}"/>' for x, y in points]
        parts.append(text(left + width + 12, points[-1][1] + 5, f"MTBF {name}", size=13, fill=colour, at="start"))
    return picture(760, bottom + 62, "Overhead over the checkpoint interval: it is least at Daly's interval", parts)


def logo() -> str:
    """Draw the sign of the site: bars of a Gantt chart."""
    bars = "".join(
        f'<rect x="{x}" y="{y}" width="{width}" height="4" rx="1"/>'
        for x, y, width in ((2, 3, 11), (15, 3, 7), (2, 10, 6), (10, 10, 12), (6, 17, 14))
    )
    size = 'viewBox="0 0 24 24" width="24" height="24"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} fill="#9fa8da">{bars}</svg>\n'


PICTURES: Final = {
    "architecture.svg": architecture,
    "backfilling.svg": backfilling,
    "daly.svg": daly,
    "job-states.svg": job_states,
    "loads.svg": loads,
    "logo.svg": logo,
    "message.svg": message,
}


def main(directory: Path = IMAGES) -> None:
    """Write all pictures."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        (directory / name).write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
