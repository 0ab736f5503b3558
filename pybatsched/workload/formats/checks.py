"""The rules of Batsim's workload files, one job or one profile at a time.

A broken rule is an InputError that names the file, the job or profile, the field, what was expected and what was
found. These are the rules Batsim itself applies when it loads a workload, so that a file that passes here does not
abort there; it also protects the simulator, which trusts what it is given.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeGuard

from pybatsched.errors import InputError


def shown(value: Any) -> str:
    """Show a JSON value as it stands in the file, cut where it is long."""
    text = json.dumps(value, default=repr)
    return text if len(text) <= 60 else f"{text[:57]}…"


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a file we are: the words every error begins with."""

    source: str
    thing: str = ""

    def __str__(self) -> str:
        return self._at("")

    def refuse(self, field: str, expected: str, found: Any) -> NoReturn:
        """Raise the error about a field whose value is not as expected."""
        raise InputError(f"{self._at(field)}: expected {expected}, found {shown(found)}")

    def missing(self, field: str, expected: str) -> NoReturn:
        """Raise the error about a field that is not there."""
        raise InputError(f"{self._at(field)}: expected {expected}, found nothing")

    def _at(self, field: str) -> str:
        where = ", ".join(part for part in (self.thing, field) if part)
        return f"{self.source}: {where}" if where else self.source


def is_number(value: Any) -> TypeGuard[int | float]:
    """Tell whether a JSON value is a finite number that fits where Batsim puts it. True is no number."""
    return (type(value) is int and abs(value) < 1 << 63) or (type(value) is float and math.isfinite(value))


def is_text(value: str) -> bool:
    """Tell whether a text can be written as UTF-8: JSON can hold halves of characters."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_count(value: Any, least: int) -> TypeGuard[int]:
    """Tell whether a JSON value is a whole number from `least` on that fits Batsim's 32 bits."""
    return type(value) is int and least <= value < 1 << 31


# ------------------------------------------------------------------------------------------------------------ jobs


def check_job(job: Any, index: int, profiles: Mapping[str, Mapping[str, Any]], source: str) -> str:
    """Check one job of a file against Batsim's rules and give its id as text. O(1), but for a mapping of ranks.

    An integer id and the same digits as text are one id to Batsim, hence the text.
    """
    if type(job) is not dict:
        Place(source).refuse(f"jobs[{index}]", "an object", job)
    if "id" not in job:
        Place(source).missing(f"jobs[{index}].id", "a text or an integer")
    name = job["id"]
    if not (type(name) is int or (type(name) is str and name and is_text(name))):
        Place(source).refuse(f"jobs[{index}].id", "a text that is not empty, or an integer", name)
    # The words of an error are put together only when there is one: this runs for hundreds of thousands of jobs.
    subtime, n_procs, walltime = job.get("subtime"), job.get("res"), job.get("walltime", -1)
    if not is_number(subtime) or subtime < 0:
        _refuse_job(job, source, "subtime", "a number of seconds, 0 or more")
    if not is_count(n_procs, 0):
        _refuse_job(job, source, "res", "a whole number of processors, 0 or more")
    if not is_number(walltime) or not (walltime > 0 or walltime == -1):
        _refuse_job(job, source, "walltime", "more than 0 seconds, or -1 for none")
    profile_name = job.get("profile")
    if type(profile_name) is not str:
        _refuse_job(job, source, "profile", "the name of a profile")
    profile = profiles.get(profile_name)
    if profile is None:
        _refuse_job(job, source, "profile", f"one of the file's {len(profiles)} profiles")
    if profile["type"] == "parallel" and len(profile["cpu"]) != n_procs:
        expected = f"{len(profile['cpu'])} processors, as the profile {shown(profile_name)} has"
        _refuse_job(job, source, "res", expected)
    if "smpi_ranks_to_hosts_mapping" in job:
        _check_ranks(job, source)
    return str(name)


def _refuse_job(job: Mapping[str, Any], source: str, field: str, expected: str) -> NoReturn:
    place = Place(source, f"job {shown(job['id'])}")
    if field not in job:
        place.missing(f"field {field}", expected)
    place.refuse(f"field {field}", expected, job[field])


def _check_ranks(job: Mapping[str, Any], source: str) -> None:
    ranks = job["smpi_ranks_to_hosts_mapping"]
    if type(ranks) is not list or not all(is_count(rank, 0) and rank < job["res"] for rank in ranks):
        _refuse_job(job, source, "smpi_ranks_to_hosts_mapping", f"an array of whole numbers from 0 to {job['res'] - 1}")


# -------------------------------------------------------------------------------------------------------- profiles


def _amount(profile: Mapping[str, Any], field: str, place: Place) -> None:
    if field not in profile:
        place.missing(f"field {field}", "a number, 0 or more")
    if not is_number(profile[field]) or profile[field] < 0:
        place.refuse(f"field {field}", "a number, 0 or more", profile[field])


def _amounts(profile: Mapping[str, Any], field: str, expected: str, place: Place) -> int:
    if field not in profile:
        place.missing(f"field {field}", expected)
    if type(profile[field]) is not list:
        place.refuse(f"field {field}", expected, profile[field])
    for position, value in enumerate(profile[field]):
        if not is_number(value) or value < 0:
            place.refuse(f"field {field}[{position}]", "a number, 0 or more", value)
    return len(profile[field])


def _check_delay(profile: Mapping[str, Any], place: Place) -> None:
    if "delay" not in profile:
        place.missing("field delay", "more than 0 seconds")
    if not is_number(profile["delay"]) or profile["delay"] <= 0:
        place.refuse("field delay", "more than 0 seconds", profile["delay"])


def _check_parallel(profile: Mapping[str, Any], place: Place) -> None:
    n = _amounts(profile, "cpu", "an array of amounts, one a processor", place)
    if n == 0:
        place.refuse("field cpu", "an array of amounts, one a processor", profile["cpu"])
    wanted = f"an array of {n * n} amounts, {n} rows of {n}"
    n_com = _amounts(profile, "com", wanted, place)
    if n_com != n * n:
        place.refuse("field com", wanted, f"{n_com} amounts")


def _check_homogeneous(profile: Mapping[str, Any], place: Place) -> None:
    _amount(profile, "cpu", place)
    _amount(profile, "com", place)


def _check_composed(profile: Mapping[str, Any], place: Place) -> None:
    parts = profile.get("seq")
    if type(parts) is not list or not parts or not all(type(part) is str for part in parts):
        if "seq" not in profile:
            place.missing("field seq", "an array of at least one profile name")
        place.refuse("field seq", "an array of at least one profile name", parts)
    if not is_count(profile.get("repeat", 1), 1):
        place.refuse("field repeat", "a whole number, 1 or more", profile["repeat"])


def _check_send(profile: Mapping[str, Any], place: Place) -> None:
    if "msg" not in profile:
        place.missing("field msg", "an object")
    if type(profile["msg"]) is not dict:
        place.refuse("field msg", "an object", profile["msg"])
    _check_pause(profile, "sleeptime", place)


def _check_recv(profile: Mapping[str, Any], place: Place) -> None:
    for field in ("regex", "success", "failure", "timeout"):
        if type(profile.get(field, "")) is not str:
            place.refuse(f"field {field}", "a text", profile[field])
    try:
        re.compile(profile.get("regex", ".*"))
    except (re.error, RecursionError, OverflowError):
        place.refuse("field regex", "a regular expression", profile["regex"])
    _check_pause(profile, "polltime", place)


def _check_pause(profile: Mapping[str, Any], field: str, place: Place) -> None:
    value = profile.get(field, 1)
    if not is_number(value) or value <= 0:
        place.refuse(f"field {field}", "more than 0 seconds", value)


def _accept(profile: Mapping[str, Any], place: Place) -> None:
    """Take a profile by its type alone: whether it can be run is for the simulator to say."""


_TYPES: Final[dict[str, Callable[[Mapping[str, Any], Place], None]]] = {
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
    """Tell whether a profile is a delay that nothing need be said about."""
    delay_s = profile["delay"]
    return profile["type"] == "delay" and is_number(delay_s) and delay_s > 0


def check_profiles(profiles: Mapping[str, Any], source: str) -> None:
    """Check all profiles of a file, that composed ones are made of profiles of the file, and of no circle. O(size)."""
    for name, profile in profiles.items():
        if type(profile) is dict and profile.keys() == _PLAIN_DELAY and name.isascii() and _is_delay(profile):
            continue  # nearly all profiles of nearly all files
        place = Place(source, f"profile {shown(name)}")
        if type(profile) is not dict:
            place.refuse("", "an object", profile)
        if not is_text(name):
            place.refuse("", "a name that is text", name)
        if "type" not in profile:
            place.missing("field type", f"one of {', '.join(_TYPES)}")
        kind = profile["type"]
        check = _TYPES.get(kind) if type(kind) is str else None
        if check is None:
            place.refuse("field type", f"one of {', '.join(_TYPES)}", kind)
        check(profile, place)
        if not is_count(profile.get("ret", 0), 0):
            place.refuse("field ret", "a whole number, 0 or more", profile["ret"])
    _check_sequences(profiles, source)


def _check_sequences(profiles: Mapping[str, Any], source: str) -> None:
    """Refuse unknown parts and circles. Depth first without recursion: a chain may be as long as its file."""
    composed = {name: profile["seq"] for name, profile in profiles.items() if profile["type"] == "composed"}
    for name, parts in composed.items():
        for position, part in enumerate(parts):
            if part not in profiles:
                place = Place(source, f"profile {shown(name)}")
                place.refuse(f"field seq[{position}]", "the name of a profile of this file", part)
    done: set[str] = set()
    for root, first_parts in composed.items():
        trail = {root: iter(first_parts)}  # from the root down to where we are, each with the parts still to see
        while trail:
            name = next(reversed(trail))
            part = next(trail[name], None)
            if part is None:
                del trail[name]
                done.add(name)
            elif part in trail:
                names = list(trail)
                circle = " → ".join([*names[names.index(part) :], part])
                raise InputError(f"{source}: profile {shown(name)}, field seq: expected no circle, found {circle}")
            elif part in composed and part not in done:
                trail[part] = iter(composed[part])
