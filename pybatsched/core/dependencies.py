"""The field `depends_on` of jobs: which starts and ends of other jobs come before a job may start, as Slurm writes it.

A text has conditions, `afterok:12:13,afterany:7`, all of which must hold; with `?` between them, one is enough. A list
has ids and conditions, all of which must hold. An id alone means `afterany`, as in Slurm.

A number alone, or the field `think_time` beside it, is the preceding job of a log in SWF. It has an effect with
feedback only (`pybatsched.core.services.feedback`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from pybatsched.errors import InputError

#: The fields of jobs that may not start yet. A run without such jobs has no costs but this test of their names.
FIELDS: Final = frozenset(("eligible_at", "depends_on", "array", "array_limit", "hold"))
SINGLETON: Final = "singleton"
#: What `depends_on` must be, for errors.
EXPECTED: Final = (
    "conditions such as afterok:12:13,afterany:7 (after, afterany, afterok, afternotok, singleton; ? for any of them), "
    "or a list of ids and conditions"
)

_KINDS: Final = ("after", "afterany", "afterok", "afternotok")
_CONDITION: Final = re.compile(r"(after[a-z]*):(.*)", re.DOTALL)
_DELAYED: Final = re.compile(r"(.*)\+([0-9]{1,9})", re.DOTALL)


class StartCondition(NamedTuple):
    """A condition: the start (`after`) or the end of a job, or of all tasks of an array, by the id in its workload.

    `delay_s` is the time from then on, with `after`. The condition `singleton` has no id.
    """

    kind: str
    job: str = ""
    delay_s: float = 0.0

    def __str__(self) -> str:
        delay = f"+{self.delay_s / 60:.0f}" if self.delay_s else ""
        return f"{self.kind}:{self.job}{delay}" if self.job else self.kind


class Dependency(NamedTuple):
    """Conditions that must all hold before a job may start, or `is_any` of them."""

    conditions: tuple[StartCondition, ...]
    is_any: bool = False

    def __str__(self) -> str:
        """Return the text of Slurm's form, with one id for each condition."""
        return ("?" if self.is_any else ",").join(map(str, self.conditions))


def follows_only(fields: Mapping[str, Any]) -> bool:
    """Return whether the `depends_on` of a job is the preceding job of a log, and no condition."""
    return type(fields["depends_on"]) in {int, float} or "think_time" in fields


def dependency_of(fields: Mapping[str, Any]) -> Dependency | None:
    """Return the dependency of a job; None if it has none. O(conditions). Raises ValueError with what is expected.

    >>> str(dependency_of({"depends_on": "afterok:12:13,after:7+5"})), str(dependency_of({"depends_on": ["12", 13]}))
    ('afterok:12,afterok:13,after:7+5', 'afterany:12,afterany:13')
    """
    if "depends_on" not in fields or follows_only(fields):
        return None
    given = fields["depends_on"]
    if isinstance(given, str):
        parts, is_any = re.split("[,?]", given), "?" in given
        if is_any and "," in given:
            raise ValueError(f"{EXPECTED}; not both , and ?")
    elif isinstance(given, list):
        parts, is_any = given, False
    else:
        raise ValueError(EXPECTED)  # noqa: TRY004  as for other values
    found: dict[StartCondition, None] = {}
    for part in parts:
        if type(part) not in {int, str} or part == "":
            raise ValueError(EXPECTED)
        found.update(dict.fromkeys(_conditions(str(part))))
    return Dependency(tuple(found), is_any) if found else None


def _conditions(text: str) -> Iterable[StartCondition]:
    """Yield the conditions of a part of a dependency. Raises ValueError."""
    if text == SINGLETON:
        yield StartCondition(SINGLETON)
        return
    match = _CONDITION.fullmatch(text)
    if match is None:
        yield StartCondition("afterany", text)
        return
    kind = match[1]
    if kind not in _KINDS:
        raise ValueError(EXPECTED)
    for job in match[2].split(":"):
        delayed = _DELAYED.fullmatch(job) if kind == "after" else None
        job_id, delay_s = (job, 0.0) if delayed is None else (delayed[1], 60.0 * int(delayed[2]))
        if not job_id:
            raise ValueError(EXPECTED)
        yield StartCondition(kind, job_id, delay_s)


def plain_ids(fields: Mapping[str, Any]) -> list[str] | None:
    """Return the ids of a job's `depends_on` if it has ids alone, without conditions; else None.

    >>> plain_ids({"depends_on": 7}), plain_ids({"depends_on": ["7", 8]}), plain_ids({"depends_on": "afterok:7"})
    (['7'], ['7', '8'], None)
    """
    if "depends_on" not in fields:
        return None
    given = fields["depends_on"]
    texts = [str(one) for one in (given if isinstance(given, list) else [given])]
    is_plain = isinstance(given, list) or not re.search("[,?]", texts[0])
    return texts if is_plain and not any(_CONDITION.fullmatch(one) or one == SINGLETON for one in texts) else None


def names_of(jobs: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return what dependencies can name: the ids of jobs and of arrays. O(jobs)."""
    return {str(job[name]) for job in jobs for name in ("id", "array") if name in job}


def with_ids(fields: Mapping[str, Any], id_of: Callable[[str], Any]) -> tuple[dict[str, Any], bool]:
    """Return a job whose `depends_on` names other ids, and whether some are left out. O(conditions).

    `id_of` returns the new id for a job or an array, None for one that is not there: such a condition counts as met.
    Raises InputError for an invalid dependency.
    """
    made = dict(fields)
    given = fields["depends_on"]
    if follows_only(fields):
        all_ids = [id_of(str(one)) for one in (given if isinstance(given, list) else [given])]
        ids = [one for one in all_ids if one is not None]
        made["depends_on"] = ids if isinstance(given, list) else ids[0] if ids else None
        if not ids:
            del made["depends_on"]
            made.pop("think_time", None)
        return made, len(ids) < len(all_ids)
    try:
        dependency = dependency_of(fields) or Dependency(())
    except ValueError as error:
        raise InputError(f"job {fields.get('id')}, field depends_on: expected {error}") from None
    found = [(one, id_of(one.job) if one.job else "") for one in dependency.conditions]
    kept = tuple(one._replace(job=str(name)) for one, name in found if name is not None)
    is_loose = len(kept) < len(found)
    if not kept or (dependency.is_any and is_loose):
        del made["depends_on"]
    elif isinstance(given, list):
        made["depends_on"] = [one.job if one.kind == "afterany" else str(one) for one in kept]
    else:
        made["depends_on"] = str(Dependency(kept, dependency.is_any))
    return made, is_loose
