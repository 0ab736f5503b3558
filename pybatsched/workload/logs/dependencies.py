"""Dependencies of the jobs in records of batch systems, as conditions of the field `depends_on`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import polars as pl

from pybatsched.core.dependencies import SINGLETON, Dependency, StartCondition

_TYPE: Final = re.compile(r"(after[a-z]*|expand|singleton)(?::|$)(.*)", re.DOTALL)
_STATE: Final = re.compile(r"\([^)]*\)")  # (unfulfilled)
_NUMBER: Final = re.compile(r"0*([0-9]{1,15})(?:_([0-9]{1,15}|\*))?(?:\+([0-9]{1,9}))?")
#: Types that have another name, or hold for each task (`aftercorr`).
_KINDS: Final = {"after": "after", "afterok": "afterok", "afternotok": "afternotok", "aftercorr": "afterok"}


class Ids:
    """The ids of the jobs of a workload by those in its log. A job that was requeued has the id of its last attempt."""

    def __init__(self, jobs: pl.DataFrame) -> None:
        self._has_names = bool(jobs["name"].is_not_null().any())
        self._ids: dict[str, list[str]] = {}
        last: dict[str, str] = {}
        tasks: dict[str, list[str]] = {}  # of arrays
        requeued = set[str]()
        rows = jobs.select("id", "number", "name", "task", "array", "given_id", "attempt")
        for own, number, name, task, array, given, attempt in rows.iter_rows():
            last[given] = own
            if name is None and task is None and given != str(number):
                self._ids.setdefault(str(number), []).append(own)  # a part of a heterogeneous job
            elif array is not None:
                tasks.setdefault(str(number), []).append(own)
                self._ids[str(number)] = [array]
            if attempt is not None:
                requeued.add(str(number))
        for number, own_tasks in tasks.items():
            if number in requeued:  # some tasks are submitted later, and the array seems to be over before
                self._ids[number] = own_tasks
            self._ids[f"{number}_*"] = self._ids[number]
        self._ids |= {given: [own] for given, own in last.items()}

    def dependency(self, own: str, task: int | None, text: str) -> tuple[str | None, bool]:
        """Return the field `depends_on` of a job, and whether it depends on a job that is not in the workload.

        A condition on such a job counts as met. `task` is the job's number in its array.
        """
        conditions: dict[StartCondition, None] = {}
        is_loose = False
        for kind, name, delay_s in self._conditions(_STATE.sub("", text)):
            if kind == SINGLETON:
                conditions[StartCondition(SINGLETON)] = None
                continue
            of_task = self._ids.get(f"{name}_{task}") if kind == "aftercorr" and task is not None else None
            found = of_task or self._ids.get(name, [])
            is_loose |= not found
            made = (StartCondition(_KINDS.get(kind, "afterany"), one, delay_s) for one in found if one != own)
            conditions.update(dict.fromkeys(made))
        is_any = "?" in text
        if not conditions or (is_any and is_loose):
            return None, is_loose
        return str(Dependency(tuple(conditions), is_any)), is_loose

    def _conditions(self, text: str) -> Iterator[tuple[str, str, float]]:
        """Yield the type, the id and the delay of each condition."""
        if self._has_names and (whole := _TYPE.sub(r"\2", text)) in self._ids:  # some have blanks
            yield _kind_of(text), whole, 0.0
            return
        for part in re.split(r"[\s,;?|]+" if self._has_names else "[,?]", text):
            match, kind = _TYPE.fullmatch(part), _kind_of(part)
            if kind in {SINGLETON, "expand"}:
                if kind == SINGLETON:
                    yield SINGLETON, "", 0.0
                continue
            for name in re.split(r":", part if match is None else match[2]):
                if self._has_names:
                    if name in self._ids:
                        yield kind, name, 0.0
                elif (number := _NUMBER.match(name)) is not None:
                    after = number[3] is not None and kind == "after"
                    yield (
                        kind,
                        number[1] + _suffix(number, with_part=not after),
                        60.0 * int(number[3]) if after else 0.0,
                    )


def _kind_of(text: str) -> str:
    match = _TYPE.fullmatch(text)
    return "afterany" if match is None else match[1]


def _suffix(number: re.Match[str], *, with_part: bool) -> str:
    """Return the task and the part of an id."""
    task = "" if number[2] is None else f"_{number[2]}"
    return task + (f"+{number[3]}" if with_part and number[3] is not None else "")
