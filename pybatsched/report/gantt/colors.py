"""Colour the jobs of Gantt charts by user, size, wait, partition and others, the same in all charts of a page."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pybatsched.metrics.figure_names import KINDS
from pybatsched.metrics.saved_runs import SavedRun
from pybatsched.report import chart_style

Counts: TypeAlias = npt.NDArray[np.int64]

#: Colours that are easy to distinguish, without greys, which are for lost work.
DISTINCT: Final = tuple(
    f"#{color}"
    for color in (
        *("1f77b4", "aec7e8", "ff7f0e", "ffbb78", "2ca02c", "98df8a", "d62728", "ff9896", "9467bd"),
        *("c5b0d5", "8c564b", "c49c94", "e377c2", "f7b6d2", "bcbd22", "dbdb8d", "17becf", "9edae5"),
    )
)
_WAIT_COLORS: Final = ("#c6dbef", "#ffeda0", "#fed976", "#feb24c", "#fd8d3c", "#fc4e2a", "#e31a1c", "#bd0026")
#: The colour of all other classes.
_OTHERS: Final = "#d9cfc4"
#: Number of users with their own colour.
_N_USERS: Final = 16
#: Maximum number of classes of sizes by powers of two; with more, classes are by powers of four.
_N_SIZES: Final = 10
#: Lower bounds of the classes of waits, and their texts.
_WAITS: Final = (
    (0.0, "none"),
    (1e-6, "under 1 min"),
    (60.0, "1 to 10 min"),
    (600.0, "10 min to 1 h"),
    (3600.0, "1 to 6 h"),
    (21_600.0, "6 h to 1 d"),
    (86_400.0, "1 to 7 d"),
    (604_800.0, "over 7 d"),
)
_KIND_COLORS: Final = {"urgent": "#d62728", "deadline": "#ff7f0e", "regular": "#6baed6"}
#: The name of the coloring of single jobs, which has no classes.
BY_JOB: Final = "job"
#: With more jobs in a run, single jobs cannot be distinguished by colours.
_MAX_COLORED_JOBS: Final = 3_000


class Coloring(NamedTuple):
    """A way to colour jobs: the colours and texts of its classes, and the class of each job for each run."""

    name: str
    title: str
    colors: Sequence[str]
    words: Sequence[str]
    classes: Sequence[Counts]


def colorings_of(runs: Sequence[SavedRun]) -> list[Coloring]:
    """Return all colorings of the jobs of some runs that have several classes, in the order of the list. O(jobs)."""
    found = [_by_user(runs), _by_size(runs), _by_wait(runs), _by_kind(runs), _by_workload(runs)]
    found += [_by_partition(runs), *([_by_gpus(runs)] if all(run.jobs.nodes is not None for run in runs) else [])]
    return [coloring for coloring in found if len(coloring.words) > 1]


def default_coloring(runs: Sequence[SavedRun], colorings: Iterable[Coloring]) -> str:
    """Return the coloring that is shown first: by job, or by wait if there are too many jobs for single colours."""
    is_long = any(run.jobs.ran.height > _MAX_COLORED_JOBS for run in runs)
    return "wait" if is_long and any(coloring.name == "wait" for coloring in colorings) else BY_JOB


def as_pixel(color: str) -> int:
    """Return a colour as a number of the canvas: alpha, blue, green, red.

    >>> hex(as_pixel("#1f77b4"))
    '0xffb4771f'
    """
    return 0xFF000000 | int(color[5:7] + color[3:5] + color[1:3], 16)


def _used(name: str, title: str, all_classes: Sequence[tuple[str, str]], of: Sequence[Counts]) -> Coloring:
    """Return a coloring with the classes, each a colour and a text, that contain jobs."""
    n_jobs = sum((np.bincount(column, minlength=len(all_classes)) for column in of), np.zeros(len(all_classes), int))
    is_used = n_jobs > 0
    place = np.cumsum(is_used) - 1
    kept = [one for one, used in zip(all_classes, is_used.tolist(), strict=True) if used]
    return Coloring(name, title, [c for c, _ in kept], [words for _, words in kept], [place[column] for column in of])


def _by_name(name: str, title: str, names: Sequence[Sequence[str]], classes: dict[str, tuple[str, str]]) -> Coloring:
    """Return a coloring by names of classes, each with its colour and text; all other names are in the last class."""
    places = defaultdict(lambda: len(classes) - 1, {one: place for place, one in enumerate(classes)})
    columns = [np.fromiter(map(places.__getitem__, own), np.int64, len(own)) for own in names]
    return _used(name, title, list(classes.values()), columns)


def _by_user(runs: Sequence[SavedRun]) -> Coloring:
    n_jobs = Counter[str]()
    for run in runs:
        n_jobs.update(run.jobs.ran["user"])
    n_jobs.pop("", None)
    most = sorted(n_jobs, key=lambda user: (-n_jobs[user], len(user), user))[:_N_USERS]
    classes = {user: (DISTINCT[k * 7 % len(DISTINCT)], f"user {user}") for k, user in enumerate(most)}
    n_others = len(n_jobs) - len(most)
    others = f"{n_others:,} other user{'s' if n_others > 1 else ''}" if n_others else "unknown"
    users = [run.jobs.ran["user"].to_list() for run in runs]
    if n_others and any("" in own for own in users):
        others += " and unknown"
    return _by_name("user", "user", users, {**classes, "": (_OTHERS, others)})


def _by_size(runs: Sequence[SavedRun]) -> Coloring:
    # The number of binary digits of each size.
    bits = [np.frexp(run.jobs.ran["n_procs"].to_numpy())[1].astype(np.int64) for run in runs]
    largest = max((int(own.max(initial=1)) for own in bits), default=1)
    each = 1 if largest <= _N_SIZES else 2
    lows = [1 << (bit - 1) for bit in range(1, largest + 1, each)]
    words = [str(low) if each * low == 1 else f"{low:,} to {(low << each) - 1:,}" for low in lows]
    colors = chart_style.viridis([k * 0.96 / max(len(lows) - 1, 1) for k in range(len(lows))])
    columns = [np.maximum(own - 1, 0) // each for own in bits]
    classes = [
        (color, f"{text} processor{'' if text == '1' else 's'}") for color, text in zip(colors, words, strict=True)
    ]
    return _used("size", "size", classes, columns)


def _by_wait(runs: Sequence[SavedRun]) -> Coloring:
    edges = np.array([begin for begin, _ in _WAITS])
    columns = [np.searchsorted(edges, run.jobs.ran["wait_s"].to_numpy(), side="right") - 1 for run in runs]
    classes = [(color, words) for color, (_, words) in zip(_WAIT_COLORS, _WAITS, strict=True)]
    return _used("wait", "wait", classes, columns)


def _by_kind(runs: Sequence[SavedRun]) -> Coloring:
    kinds = [run.jobs.ran["kind"].to_list() for run in runs]
    return _by_name("class", "class", kinds, {kind: (_KIND_COLORS[kind], kind) for kind in KINDS})


def _by_workload(runs: Sequence[SavedRun]) -> Coloring:
    names = [[job_id.split("!", 1)[0] for job_id in run.jobs.ran["id"]] for run in runs]
    known = sorted(set().union(*names), key=lambda name: (len(name), name))
    own = dict(zip(known, zip(DISTINCT[::2], known, strict=False), strict=False))
    more = {"": (_OTHERS, "others")} if len(known) > len(own) else {}
    return _by_name("workload", "workload", names, own | more)


def _by_partition(runs: Sequence[SavedRun]) -> Coloring:
    names = [[str(run.jobs.fields[row].get("partition") or "") for row in run.jobs.ran["row"]] for run in runs]
    n_jobs = Counter(name for own in names for name in own)
    n_jobs.pop("", None)
    most = sorted(n_jobs, key=lambda name: (-n_jobs[name], name))[: len(DISTINCT) // 2]
    classes = {name: (color, f"partition {name}") for name, color in zip(most, DISTINCT[::2], strict=False)}
    others = "other partitions" if len(n_jobs) > len(most) else "no partition"
    return _by_name("partition", "partition", names, {**classes, "": (_OTHERS, others)})


def _by_gpus(runs: Sequence[SavedRun]) -> Coloring:
    bits = [np.frexp(run.jobs.ran["held_gpus"].to_numpy())[1].astype(np.int64) for run in runs]
    largest = max((int(own.max(initial=0)) for own in bits), default=0)
    lows = [1 << bit for bit in range(largest)]
    words = ["no GPU", *("1 GPU" if low == 1 else f"{low:,} to {2 * low - 1:,} GPUs" for low in lows)]
    colors = [_OTHERS, *chart_style.viridis([k * 0.96 / max(len(lows) - 1, 1) for k in range(len(lows))])]
    return _used("gpus", "GPUs", list(zip(colors, words, strict=True)), bits)


def coloring_data(coloring: Coloring) -> dict[str, Any]:
    """Return a coloring as data for the script, without the jobs."""
    return {
        "name": coloring.name,
        "title": coloring.title,
        "colors": [as_pixel(color) for color in coloring.colors],
        "words": list(coloring.words),
    }
