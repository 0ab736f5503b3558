"""Shares of a workload by fields in which jobs differ: the ten names with the most work, and all others."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pybatsched.workload.formats.checks import is_number

#: Fields of jobs that are shown, in this order, and their titles. Of two fields with one title, the first is used.
TITLES: Final[Mapping[str, str]] = {
    "user": "user",
    "account": "account",
    "group": "group",
    "partition": "partition",
    "queue": "queue",
    "qos": "QOS",
    "gpus": "GPUs",
    "memory_gb": "memory for each processor",
    "exit_state": "state in the log",
    "status": "state in the log",
}
#: The number of names in a list. All further names are together in one more row.
N_NAMES: Final = 10
UNKNOWN: Final = "unknown"
_STATUS: Final = {0: "failed", 1: "completed", 5: "cancelled"}  # as in SWF
_LONGEST: Final = 40


class Share(NamedTuple):
    """The jobs with one value of a field: number, share of processor-seconds, mean wait; None if unknown."""

    name: str
    n_jobs: int
    share: float | None
    mean_wait_s: float | None


def columns_of(jobs: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the fields of jobs that are shown, a value or None for each job. O(jobs x fields)."""
    return {field: [job.get(field) for job in jobs] for field in TITLES if any(field in job for job in jobs)}


def labels_of(columns: Mapping[str, Sequence[Any]]) -> dict[str, list[str]]:
    """Return fields as texts of each job, without those with one value or equal to another. O(jobs x fields)."""
    found: dict[str, list[str]] = {}
    for field, title in TITLES.items():
        if field not in columns or title in map(TITLES.get, found):
            continue
        values = _plain(columns[field])
        texts = {value: _TEXTS.get(field, _name)(value) for value in set(values)}
        labels = [texts[value] for value in values]
        if len(set(labels)) > 1 and labels not in found.values():
            found[field] = labels
    return found


def names_of(field: str, labels: Sequence[str], work: Sequence[float]) -> list[str]:
    """Return the values of a field with the most work, or all if few; classes are in order of numbers. O(n)."""
    total: defaultdict[str, float] = defaultdict(float)
    for label, amount in zip(labels, work, strict=True):
        total[label] += amount
    n_jobs = Counter(labels)
    names = sorted(total, key=lambda name: (-total[name], -n_jobs[name], name))
    names = names if len(names) <= N_NAMES + 1 else names[:N_NAMES]
    return sorted(names, key=_first_number) if field in _CLASSES else names


def shares(
    labels: Sequence[str], work: Sequence[float], wait_s: Sequence[float | None] | None, names: Sequence[str]
) -> list[Share]:
    """Return the share of each of some values, and of all others; waits are None if unknown. O(jobs)."""
    listed = set(names)
    n_jobs = Counter(labels)
    total: defaultdict[str, float] = defaultdict(float)
    for label, amount in zip(labels, work, strict=True):
        total[label] += amount
    waits: defaultdict[str, float] = defaultdict(float)
    n_waits: Counter[str] = Counter()
    for label, wait in zip(labels, wait_s, strict=True) if wait_s is not None else ():
        if wait is not None:
            waits[label] += wait
            n_waits[label] += 1
    whole = sum(total.values())
    others = [label for label in n_jobs if label not in listed]
    rest = f"{len(others):,} other{'s' if len(others) > 1 else ''}"
    made = []
    for name, members in (*((name, [name]) for name in names), *([(rest, others)] if others else [])):
        n = sum(n_waits[label] for label in members)
        made.append(
            Share(
                name,
                sum(n_jobs[label] for label in members),
                sum(total[label] for label in members) / whole if whole else None,
                sum(waits[label] for label in members) / n if n else None,
            )
        )
    return made


def _plain(values: Sequence[Any]) -> Sequence[Any]:
    """Return values that can be keys: of JSON, lists and objects cannot."""
    if set(map(type, values)) <= {str, int, float, bool, type(None)}:
        return values
    return [value if isinstance(value, str | int | float | None) else str(value) for value in values]


def _name(value: Any) -> str:
    text = "" if value is None else str(value).strip()
    return UNKNOWN if not text else text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _gpus(value: Any) -> str:
    n = int(value) if is_number(value) and value > 0 else 0
    low = 1 << max(n.bit_length() - 1, 0)
    return "none" if not n else str(low) if low == 1 else f"{low}-{2 * low - 1}"


def _memory(value: Any) -> str:
    if not is_number(value) or value <= 0:
        return UNKNOWN
    low = 1 << max(int(value).bit_length() - 1, 0)
    return "below 1 GB" if value < 1 else f"{low}-{2 * low} GB"


def _status(value: Any) -> str:
    return _STATUS.get(value, _name(value)) if isinstance(value, int) else _name(value)


_TEXTS: Final[Mapping[str, Callable[[Any], str]]] = {"gpus": _gpus, "memory_gb": _memory, "status": _status}
_CLASSES: Final = frozenset({"gpus", "memory_gb"})


def _first_number(name: str) -> float:
    """Return the order of a class: none or below 1 is the first, unknown the last."""
    digits = name.partition("-")[0]
    return float(digits) if digits.isdigit() else math.inf if name == UNKNOWN else 0.0
