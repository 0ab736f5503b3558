"""What is measured of jobs, and jobs by class: by kind, by size, by user, by any field of the workload file.

There are measures that every job has that ran, some of jobs whose workload tells what they take alone, and *facts*:
numbers that were told of jobs (``SetJobMetadata(job.id, "load_s=64")``), which are measures of these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Final

from pybatsched.errors import InputError
from pybatsched.metrics.distributions import Distribution, distribution
from pybatsched.metrics.outcomes import DEFAULT_TAU_S, STRETCH_BOUND_S, JobRecord, bounded_slowdown

UNKNOWN: Final = "unknown"

#: What can be measured of every job that ran, by name.
MEASURES: Final[dict[str, Callable[[JobRecord, float], float]]] = {
    "wait_s": lambda record, _tau_s: record.wait_s,
    "flow_s": lambda record, _tau_s: record.flow_s,
    "slowdown": lambda record, _tau_s: bounded_slowdown(record.wait_s, record.runtime_s, 0.0),
    "bounded_slowdown": lambda record, tau_s: bounded_slowdown(record.wait_s, record.runtime_s, tau_s),
    "runtime_s": lambda record, _tau_s: record.runtime_s,
    "queue_time_s": lambda record, _tau_s: record.queue_time_s,
}
#: What can be measured of jobs whose workload tells what they take alone (`alone_s`).
STRETCHES: Final[dict[str, Callable[[JobRecord], float | None]]] = {
    "stretch": lambda record: record.stretch(),
    "bounded_stretch": lambda record: record.stretch(STRETCH_BOUND_S),
}
#: Measures that are members of a job's record by the same name.
_MEMBERS: Final = frozenset(("wait_s", "flow_s", "runtime_s", "queue_time_s"))
#: Figures of a whole run, whose names no fact can have.
_OF_RUNS: Final = frozenset(("utilisation", "makespan_s", "queue_length"))


def facts_told(records: Iterable[JobRecord]) -> list[str]:
    """Give the names of all facts that were told of some job, sorted. O(n)."""
    found = {name for record in records if record.facts for name in record.facts}
    return sorted(found - MEASURES.keys() - STRETCHES.keys() - _OF_RUNS)


def plain_measures_of(records: Iterable[JobRecord]) -> list[str]:
    """Give what can be measured of these jobs besides facts. O(n)."""
    is_known = any("alone_s" in record.fields for record in records)
    return [*MEASURES, *(STRETCHES if is_known else ())]


def measures_of(records: Sequence[JobRecord]) -> list[str]:
    """Give all that can be measured of these jobs: what every job has, stretches, then facts. O(n)."""
    return [*plain_measures_of(records), *facts_told(records)]


def check_measure(measure: str, records: Sequence[JobRecord]) -> None:
    """Raise InputError for what cannot be measured of any of these jobs. O(n) for a fact."""
    if measure not in MEASURES and measure not in (known := measures_of(records)):
        raise InputError(f"measure {measure!r:.40}: expected one of {', '.join(known)}")


def value_of(record: JobRecord, measure: str, tau_s: float = DEFAULT_TAU_S) -> float | None:
    """Measure one job; None if it did not run, or there is no such thing of it."""
    if not record.ran:
        return None
    found = MEASURES.get(measure)
    if found is not None:
        return found(record, tau_s)
    of_some = STRETCHES.get(measure)
    return record.facts.get(measure) if of_some is None else of_some(record)


def values_of(records: Iterable[JobRecord], measure: str, tau_s: float = DEFAULT_TAU_S) -> list[float]:
    """Give one measure of all jobs that have it, in their order. O(n)."""
    if measure in _MEMBERS:
        return list(map(attrgetter(measure), [record for record in records if record.segments]))
    found = MEASURES.get(measure)
    if found is not None:
        return [found(record, tau_s) for record in records if record.segments]
    values = (value_of(record, measure, tau_s) for record in records)
    return [value for value in values if value is not None]


def measured(
    records: Sequence[JobRecord], measure: str = "bounded_slowdown", tau_s: float = DEFAULT_TAU_S
) -> Distribution | None:
    """Describe one measure over the jobs that have it; None if none does. Raises InputError for an unknown one."""
    check_measure(measure, records)
    return distribution(values_of(records, measure, tau_s))


def by_class(records: Iterable[JobRecord], key: str) -> dict[str, list[JobRecord]]:
    """Sort jobs into classes, in the order of their names (sizes by number). O(n).

    `key` is `kind` (urgent, deadline or regular), `size` (1, 2-3, 4-7, … processors), `state`, or a field of the
    workload file, as `user`; where a job has none, its class is "unknown".
    """
    classes: defaultdict[Any, list[JobRecord]] = defaultdict(list)
    class_of = _CLASSES.get(key) or partial(_field_of, key)
    for record in records:
        classes[class_of(record)].append(record)
    ordered = sorted(classes.items(), key=lambda item: _place(item[0]))
    return {size_class(name) if key == "size" else str(name): members for name, members in ordered}


def _field_of(key: str, record: JobRecord) -> Any:
    value = record.fields.get(key, UNKNOWN)
    return value if isinstance(value, str | int | float) else str(value)


def kind_of(record: JobRecord) -> str:
    """Tell urgent jobs and those with a deadline from regular ones, by their fields."""
    fields = record.fields
    if fields.get("urgent") is True:
        return "urgent"
    return "deadline" if "deadline" in fields or "max_stay" in fields else "regular"


#: What tells the class of a job, by key; any other key is a field of the workload file.
_CLASSES: Final[dict[str, Callable[[JobRecord], Any]]] = {
    "kind": kind_of,
    "size": lambda record: record.n_procs.bit_length(),
    "state": attrgetter("state"),
}


def size_class(n_bits: int) -> str:
    """Name the sizes that have so many binary digits.

    >>> size_class(1), size_class(3)
    ('1', '4-7')
    """
    low = 1 << (n_bits - 1) if n_bits else 0
    return str(low) if n_bits <= 1 else f"{low}-{2 * low - 1}"


def _place(name: Any) -> tuple[int, float, str]:
    return (0, float(name), "") if isinstance(name, int | float) else (1, 0.0, name)
