"""By what the jobs of Gantt charts can be coloured: by user, size, wait, class or workload, the same in all charts.

Each of these puts every job into one of a few classes with a colour and words for the key. What has but one class on a
page tells nothing, and is not there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from bokeh.palettes import Category20, Viridis256, YlOrRd

from pybatsched.metrics.figure_names import KINDS
from pybatsched.metrics.runs import Run

Counts: TypeAlias = npt.NDArray[np.int64]

#: Colours that can be told apart, without greys, which are for lost work.
DISTINCT: Final = tuple(color for number, color in enumerate(Category20[20]) if number not in {14, 15})
#: The colour of all that have none of their own.
_OTHERS: Final = "#d9cfc4"
#: So many users have a colour of their own.
_N_USERS: Final = 16
#: So many classes of sizes are enough; else they go by the power of four.
_N_SIZES: Final = 10
#: Where classes of waits begin, and what they are called.
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
#: The colours of single jobs, which have no classes.
BY_JOB: Final = "job"
#: With more jobs than these in a run, single jobs cannot be told by their colours.
_N_TOLD: Final = 3_000


class Shade(NamedTuple):
    """A way to colour jobs: the colours and words of its classes, and the class of each job, run by run."""

    name: str
    title: str
    colors: Sequence[str]
    words: Sequence[str]
    classes: Sequence[Counts]


def shades_of(runs: Sequence[Run]) -> list[Shade]:
    """Give all ways to colour the jobs of some runs that tell something, in the order of the list. O(jobs)."""
    found = [_by_user(runs), _by_size(runs), _by_wait(runs), _by_kind(runs), _by_workload(runs)]
    return [shade for shade in found if len(shade.words) > 1]


def usual(runs: Sequence[Run], shades: Iterable[Shade]) -> str:
    """Choose what is shown at first: single jobs, but their waits where they are too many for colours of their own."""
    is_long = any(run.jobs.ran.height > _N_TOLD for run in runs)
    return "wait" if is_long and any(shade.name == "wait" for shade in shades) else BY_JOB


def as_pixel(color: str) -> int:
    """Write a colour as the canvas has it: alpha, blue, green, red.

    >>> hex(as_pixel("#1f77b4"))
    '0xffb4771f'
    """
    return 0xFF000000 | int(color[5:7] + color[3:5] + color[1:3], 16)


def _used(name: str, title: str, all_classes: Sequence[tuple[str, str]], of: Sequence[Counts]) -> Shade:
    """Give a shade with those of its classes, each a colour and words, that some job is in."""
    n_jobs = sum((np.bincount(column, minlength=len(all_classes)) for column in of), np.zeros(len(all_classes), int))
    is_used = n_jobs > 0
    place = np.cumsum(is_used) - 1
    kept = [one for one, used in zip(all_classes, is_used.tolist(), strict=True) if used]
    return Shade(name, title, [c for c, _ in kept], [words for _, words in kept], [place[column] for column in of])


def _by_name(name: str, title: str, names: Sequence[Sequence[str]], classes: dict[str, tuple[str, str]]) -> Shade:
    """Give a shade by the names of classes, each with its colour and words; all other names are in the last one."""
    places = defaultdict(lambda: len(classes) - 1, {one: place for place, one in enumerate(classes)})
    columns = [np.fromiter(map(places.__getitem__, own), np.int64, len(own)) for own in names]
    return _used(name, title, list(classes.values()), columns)


def _by_user(runs: Sequence[Run]) -> Shade:
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


def _by_size(runs: Sequence[Run]) -> Shade:
    # The number of binary digits of each size.
    bits = [np.frexp(run.jobs.ran["n_procs"].to_numpy())[1].astype(np.int64) for run in runs]
    largest = max((int(own.max(initial=1)) for own in bits), default=1)
    each = 1 if largest <= _N_SIZES else 2
    lows = [1 << (bit - 1) for bit in range(1, largest + 1, each)]
    words = [str(low) if each * low == 1 else f"{low:,} to {(low << each) - 1:,}" for low in lows]
    colors = [Viridis256[round(k * 245 / max(len(lows) - 1, 1))] for k in range(len(lows))]
    columns = [np.maximum(own - 1, 0) // each for own in bits]
    told = [(color, f"{text} processor{'' if text == '1' else 's'}") for color, text in zip(colors, words, strict=True)]
    return _used("size", "size", told, columns)


def _by_wait(runs: Sequence[Run]) -> Shade:
    edges = np.array([begin for begin, _ in _WAITS])
    columns = [np.searchsorted(edges, run.jobs.ran["wait_s"].to_numpy(), side="right") - 1 for run in runs]
    colors = ["#c6dbef", *YlOrRd[9][-2::-1]][: len(_WAITS)]
    return _used("wait", "wait", [(color, words) for color, (_, words) in zip(colors, _WAITS, strict=True)], columns)


def _by_kind(runs: Sequence[Run]) -> Shade:
    kinds = [run.jobs.ran["kind"].to_list() for run in runs]
    return _by_name("class", "class", kinds, {kind: (_KIND_COLORS[kind], kind) for kind in KINDS})


def _by_workload(runs: Sequence[Run]) -> Shade:
    names = [[job_id.split("!", 1)[0] for job_id in run.jobs.ran["id"]] for run in runs]
    known = sorted(set().union(*names), key=lambda name: (len(name), name))
    own = dict(zip(known, zip(DISTINCT[::2], known, strict=False), strict=False))
    more = {"": (_OTHERS, "others")} if len(known) > len(own) else {}
    return _by_name("workload", "workload", names, own | more)


def told(shade: Shade) -> dict[str, Any]:
    """Give a shade as the script wants it, without the jobs."""
    return {
        "name": shade.name,
        "title": shade.title,
        "colors": [as_pixel(color) for color in shade.colors],
        "words": list(shade.words),
    }
