"""Check jobs and profiles of Batsim's workload files.

A violation is an InputError that names the file, the job or profile, the field, what was expected and what was found.
The rules are those of Batsim, so that Batsim loads a file that passes here. The embedded simulator relies on them, too.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeGuard

from pybatsched.errors import InputError


def shown(value: Any) -> str:
    """Return a JSON value as text, cut if it is long."""
    text = json.dumps(value, default=repr)
    return text if len(text) <= 60 else f"{text[:57]}…"


@dataclass(frozen=True, slots=True)
class FileLocation:
    """A place in a file, with which error messages start: the file, and a job or profile."""

    source: str
    thing: str = ""

    def __str__(self) -> str:
        return self._at("")

    def fail(self, field: str, expected: str, found: Any) -> NoReturn:
        """Raise InputError for a field with an unexpected value."""
        raise InputError(f"{self._at(field)}: expected {expected}, found {shown(found)}")

    def missing(self, field: str, expected: str) -> NoReturn:
        """Raise InputError for a missing field."""
        raise InputError(f"{self._at(field)}: expected {expected}, found nothing")

    def _at(self, field: str) -> str:
        where = ", ".join(part for part in (self.thing, field) if part)
        return f"{self.source}: {where}" if where else self.source


def is_number(value: Any) -> TypeGuard[int | float]:
    """Return whether a JSON value is a finite number in Batsim's range. True is not a number."""
    return (type(value) is int and abs(value) < 1 << 63) or (type(value) is float and math.isfinite(value))


def is_text(value: str) -> bool:
    """Return whether a text can be written as UTF-8: JSON can have single surrogates."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_count(value: Any, least: int) -> TypeGuard[int]:
    """Return whether a JSON value is a whole number, `least` or more, that fits Batsim's 32 bits."""
    return type(value) is int and least <= value < 1 << 31


def check_job(job: Any, index: int, profiles: Mapping[str, Mapping[str, Any]], source: str) -> str:
    """Check one job of a file and return its id as text. O(1), except for a mapping of ranks.

    Batsim does not distinguish an integer id from the same digits as text.
    """
    if type(job) is not dict:
        FileLocation(source).fail(f"jobs[{index}]", "an object", job)
    if "id" not in job:
        FileLocation(source).missing(f"jobs[{index}].id", "a text or an integer")
    name = job["id"]
    if not (type(name) is int or (type(name) is str and name and is_text(name))):
        FileLocation(source).fail(f"jobs[{index}].id", "a text that is not empty, or an integer", name)
    # Error messages are built only after an error: this runs for hundreds of thousands of jobs.
    subtime, n_procs, walltime = job.get("subtime"), job.get("res"), job.get("walltime", -1)
    if not is_number(subtime) or subtime < 0:
        _fail_job(job, source, "subtime", "a number of seconds, 0 or more")
    if not is_count(n_procs, 0):
        _fail_job(job, source, "res", "a whole number of processors, 0 or more")
    if not is_number(walltime) or not (walltime > 0 or walltime == -1):
        _fail_job(job, source, "walltime", "more than 0 seconds, or -1 for none")
    profile_name = job.get("profile")
    if type(profile_name) is not str:
        _fail_job(job, source, "profile", "the name of a profile")
    profile = profiles.get(profile_name)
    if profile is None:
        _fail_job(job, source, "profile", f"a profile of the file ({_some(profiles)})")
    if profile["type"] == "parallel" and len(profile["cpu"]) != n_procs:
        expected = f"{len(profile['cpu'])} processors, as the profile {shown(profile_name)} has"
        _fail_job(job, source, "res", expected)
    if "smpi_ranks_to_hosts_mapping" in job:
        _check_ranks(job, source)
    return str(name)


def _some(names: Iterable[str]) -> str:
    """Return the first five of these names."""
    first = list(itertools.islice(names, 6))
    return ", ".join([*(f"{name:.40}" for name in first[:5]), *(["…"] if len(first) > 5 else [])])


def _fail_job(job: Mapping[str, Any], source: str, field: str, expected: str) -> NoReturn:
    place = FileLocation(source, f"job {shown(job['id'])}")
    if field not in job:
        place.missing(f"field {field}", expected)
    place.fail(f"field {field}", expected, job[field])


def _check_ranks(job: Mapping[str, Any], source: str) -> None:
    ranks = job["smpi_ranks_to_hosts_mapping"]
    if type(ranks) is not list or not all(is_count(rank, 0) and rank < job["res"] for rank in ranks):
        _fail_job(job, source, "smpi_ranks_to_hosts_mapping", f"an array of whole numbers from 0 to {job['res'] - 1}")


def _amount(profile: Mapping[str, Any], field: str, place: FileLocation) -> None:
    if field not in profile:
        place.missing(f"field {field}", "a number, 0 or more")
    if not is_number(profile[field]) or profile[field] < 0:
        place.fail(f"field {field}", "a number, 0 or more", profile[field])


def _amounts(profile: Mapping[str, Any], field: str, expected: str, place: FileLocation) -> int:
    if field not in profile:
        place.missing(f"field {field}", expected)
    if type(profile[field]) is not list:
        place.fail(f"field {field}", expected, profile[field])
    for position, value in enumerate(profile[field]):
        if not is_number(value) or value < 0:
            place.fail(f"field {field}[{position}]", "a number, 0 or more", value)
    return len(profile[field])


def _check_delay(profile: Mapping[str, Any], place: FileLocation) -> None:
    if "delay" not in profile:
        place.missing("field delay", "more than 0 seconds")
    if not is_number(profile["delay"]) or profile["delay"] <= 0:
        place.fail("field delay", "more than 0 seconds", profile["delay"])


def _check_parallel(profile: Mapping[str, Any], place: FileLocation) -> None:
    n = _amounts(profile, "cpu", "an array of amounts, one per processor", place)
    if n == 0:
        place.fail("field cpu", "an array of amounts, one per processor", profile["cpu"])
    wanted = f"an array of {n * n} amounts, {n} rows of {n}"
    n_com = _amounts(profile, "com", wanted, place)
    if n_com != n * n:
        place.fail("field com", wanted, f"{n_com} amounts")


def _check_homogeneous(profile: Mapping[str, Any], place: FileLocation) -> None:
    _amount(profile, "cpu", place)
    _amount(profile, "com", place)


def _check_composed(profile: Mapping[str, Any], place: FileLocation) -> None:
    parts = profile.get("seq")
    if type(parts) is not list or not parts or not all(type(part) is str for part in parts):
        if "seq" not in profile:
            place.missing("field seq", "an array of at least one profile name")
        place.fail("field seq", "an array of at least one profile name", parts)
    if not is_count(profile.get("repeat", 1), 1):
        place.fail("field repeat", "a whole number, 1 or more", profile["repeat"])


def _check_send(profile: Mapping[str, Any], place: FileLocation) -> None:
    if "msg" not in profile:
        place.missing("field msg", "an object")
    if type(profile["msg"]) is not dict:
        place.fail("field msg", "an object", profile["msg"])
    _check_pause(profile, "sleeptime", place)


def _check_recv(profile: Mapping[str, Any], place: FileLocation) -> None:
    for field in ("regex", "success", "failure", "timeout"):
        if type(profile.get(field, "")) is not str:
            place.fail(f"field {field}", "a text", profile[field])
    try:
        re.compile(profile.get("regex", ".*"))
    except (re.error, RecursionError, OverflowError):
        place.fail("field regex", "a regular expression", profile["regex"])
    _check_pause(profile, "polltime", place)


def _check_pause(profile: Mapping[str, Any], field: str, place: FileLocation) -> None:
    value = profile.get(field, 1)
    if not is_number(value) or value <= 0:
        place.fail(f"field {field}", "more than 0 seconds", value)


def _accept(profile: Mapping[str, Any], place: FileLocation) -> None:
    """Accept a profile by its type alone: the simulator checks whether it can run it."""


_TYPES: Final[dict[str, Callable[[Mapping[str, Any], FileLocation], None]]] = {
    "delay": _check_delay,
    "parallel": _check_parallel,
    "parallel_homogeneous": _check_homogeneous,
    "parallel_homogeneous_total": _check_homogeneous,
    "composed": _check_composed,
    "parallel_homogeneous_pfs": _accept,
    "data_staging": _accept,
    "smpi": _accept,
    "usage_trace": _accept,
    "send": _check_send,
    "recv": _check_recv,
}


_PLAIN_DELAY: Final = {"type", "delay"}


def _is_delay(profile: Mapping[str, Any]) -> bool:
    """Return whether a profile is a valid delay."""
    delay_s = profile["delay"]
    return profile["type"] == "delay" and is_number(delay_s) and delay_s > 0


def check_profiles(profiles: Mapping[str, Any], source: str) -> None:
    """Check all profiles of a file. The parts of composed ones must exist and must not form a cycle. O(size)."""
    for name, profile in profiles.items():
        if type(profile) is dict and profile.keys() == _PLAIN_DELAY and name.isascii() and _is_delay(profile):
            continue  # nearly all profiles of nearly all files
        place = FileLocation(source, f"profile {shown(name)}")
        if type(profile) is not dict:
            place.fail("", "an object", profile)
        if not is_text(name):
            place.fail("", "a name without single surrogates", name)
        if "type" not in profile:
            place.missing("field type", f"one of {', '.join(_TYPES)}")
        kind = profile["type"]
        check = _TYPES.get(kind) if type(kind) is str else None
        if check is None:
            place.fail("field type", f"one of {', '.join(_TYPES)}", kind)
        check(profile, place)
        if not is_count(profile.get("ret", 0), 0):
            place.fail("field ret", "a whole number, 0 or more", profile["ret"])
    _check_sequences(profiles, source)


def _check_sequences(profiles: Mapping[str, Any], source: str) -> None:
    """Reject unknown parts and cycles. Depth first without recursion: a chain may be as long as the file."""
    composed = {name: profile["seq"] for name, profile in profiles.items() if profile["type"] == "composed"}
    for name, parts in composed.items():
        for position, part in enumerate(parts):
            if part not in profiles:
                place = FileLocation(source, f"profile {shown(name)}")
                place.fail(f"field seq[{position}]", "the name of a profile of this file", part)
    done: set[str] = set()
    for root, first_parts in composed.items():
        trail = {root: iter(first_parts)}  # from the root to the current profile, each with its remaining parts
        while trail:
            name = next(reversed(trail))
            part = next(trail[name], None)
            if part is None:
                del trail[name]
                done.add(name)
            elif part in trail:
                names = list(trail)
                cycle = " → ".join([*names[names.index(part) :], part])
                raise InputError(f"{source}: profile {shown(name)}, field seq: expected no cycle, found {cycle}")
            elif part in composed and part not in done:
                trail[part] = iter(composed[part])
