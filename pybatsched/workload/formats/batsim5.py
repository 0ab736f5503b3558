"""Workload files of Batsim 5, which has other names for profiles, and one text for all that it does not know itself.

A workload in memory is in Batsim 4's words (`pybatsched.workload.model`). `to_batsim5` says it in those of Batsim 5,
and `from_batsim5` takes a file's content back: what the first has made, the second makes equal to what it was. Members
that Batsim 5 has no use for are in `extra_data`, a JSON object as text, since it forwards nothing else to schedulers.

All rules are those of Batsim 5.0.0-rc2. Two of its amounts are not what they were: what is "spread uniformly" goes over
all n·(n-1) transfers of a job of n processors (Batsim 4: over n), and of what each host moves to and from a storage it
takes the bytes to read for both, unless they are spread. Amounts are changed so that the job does the same; the amounts
of Batsim 4 are kept in `extra_data`, to be found again without rounding.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pybatsched.errors import InputError
from pybatsched.protocol.json_values import EXTRA, WALLTIME, fields_in, object_in
from pybatsched.workload.formats.checks import Place, is_count, is_number, shown
from pybatsched.workload.model import Workload
from pybatsched.workload.prepare import users_of


def with_extra(made: dict[str, Any], extra: dict[str, Any], own: frozenset[str]) -> dict[str, Any]:
    """Put all that Batsim does not read into one text; a file's own `extra_data` stays as it is if it is alone.

    `own` are the members that Batsim may read there.
    """
    if not extra:
        return made
    alone = extra.get(EXTRA) if len(extra) == 1 else None
    if type(alone) in {str, dict, list} and fields_in(alone, own, has_walltime=WALLTIME in made) is None:
        return {**made, **extra}
    return {**made, EXTRA: json.dumps(extra, allow_nan=False)}


def with_expanded(made: dict[str, Any], extra: Any, own: frozenset[str], place: Place) -> dict[str, Any]:
    """Give the members of an `extra_data` to those made already, as far as they can stand beside Batsim's `own`."""
    if type(extra) not in {str, dict, list}:
        place.refuse(f"field {EXTRA}", "a text, an object or an array", extra)
    members = fields_in(extra, own, has_walltime=WALLTIME in made)
    return {**made, EXTRA: extra} if members is None else made | members


STRATEGY: Final = "generation_strategy"
SPREAD: Final = "DefinedAmountsSpreadUniformly"
EACH: Final = "DefinedAmountsUsedForEachValue"
#: Where a profile keeps what Batsim 5's file says, while Batsim 4 has no words for it.
KEPT: Final = "batsim5"

_MAPPING: Final = "smpi_ranks_to_hosts_mapping"
_OF_JOBS: Final = frozenset(("id", "subtime", "res", "profile", "walltime"))
#: So many communication amounts are filled in where a file of Batsim 5 has none.
_MOST_ZEROS: Final = 10_000_000


class _Kind(NamedTuple):
    """A type of profiles: its name in Batsim 5, and the members that Batsim itself reads, the same in both."""

    name: str
    members: tuple[str, ...]
    trace_type: str = ""


_STORAGE: Final = "ParallelTaskOnStorageHomogeneousProfile"
_HOMOGENEOUS: Final = "ParallelTaskHomogeneousProfile"
_REPLAY: Final = "TraceReplayProfile"
_KINDS: Final[dict[str, _Kind]] = {
    "delay": _Kind("DelayProfile", ("delay",)),
    "parallel": _Kind("ParallelTaskProfile", ("cpu", "com")),
    "parallel_homogeneous": _Kind(_HOMOGENEOUS, ("cpu", "com")),
    "parallel_homogeneous_total": _Kind(_HOMOGENEOUS, ("cpu", "com")),
    "composed": _Kind("SequentialCompositionProfile", ("seq", "repeat")),
    "parallel_homogeneous_pfs": _Kind(_STORAGE, ("bytes_to_read", "bytes_to_write", "storage", "host")),
    "data_staging": _Kind("ParallelTaskDataStagingBetweenStoragesProfile", ("nb_bytes", "from", "to")),
    "smpi": _Kind(_REPLAY, ("trace",), "SMPI"),
    "usage_trace": _Kind(_REPLAY, ("trace",), "FractionalComputation"),
}
_SPREADABLE: Final = frozenset((_HOMOGENEOUS, _STORAGE))
_UNFINISHED: Final = ("ForkJoinCompositionProfile", "ParallelTaskMergeCompositionProfile")
_NAMES: Final = frozenset((*(kind.name for kind in _KINDS.values()), *_UNFINISHED))
_BYTES: Final = ("bytes_to_read", "bytes_to_write")
_LOST: Final[dict[str, str]] = {
    "send": "it sends a message to the scheduler, and Batsim 5 has no messages between jobs and schedulers",
    "recv": "it waits for a message of the scheduler, and Batsim 5 has no messages between jobs and schedulers",
}


def is_batsim5(profiles: Mapping[str, Any]) -> bool:
    """Tell whether the profiles of a file have Batsim 5's names for types. O(profiles)."""
    for profile in profiles.values():
        kind = profile.get("type") if type(profile) is dict else None
        if type(kind) is str and kind in _NAMES:
            return True
    return False


# ------------------------------------------------------------------------------------------------- in Batsim 5's words


def to_batsim5(workload: Workload) -> Workload:
    """Say a workload in Batsim 5's words, to be written to a file and for nothing else. O(size).

    Raises InputError that names the job or the profile which Batsim 5 cannot have, and says why.
    """
    sizes = _Sizes(workload.jobs, workload.profiles)
    profiles = {
        name: {"type": "DelayProfile", "delay": profile["delay"]}
        if profile["type"] == "delay" and len(profile) == 2  # nearly all profiles of nearly all files
        else _to_profile(profile, Place(workload.source, f"profile {shown(name)}"), sizes.of(name))
        for name, profile in workload.profiles.items()
    }
    traces = [name for name, profile in workload.profiles.items() if profile["type"] in {"smpi", "usage_trace"}]
    replayed = users_of(traces, workload.profiles) if traces else set()
    jobs = [_to_job(job, workload.source, replays=job["profile"] in replayed) for job in workload.jobs]
    return Workload(jobs, profiles, workload.n_procs, workload.source, workload.about)


def n_changed(before: Workload, made: Workload) -> int:
    """Count the profiles whose amounts are others in Batsim 5's words than they were. O(profiles)."""
    return sum(
        any(profile.get(field) != made.profiles[name].get(field) for field in (*_BYTES, "com"))
        for name, profile in before.profiles.items()
    )


def _to_job(job: Mapping[str, Any], source: str, *, replays: bool) -> dict[str, Any]:
    made = {field: value for field, value in job.items() if field in _OF_JOBS}
    extra = {field: value for field, value in job.items() if field not in _OF_JOBS}
    if not is_count(abs(job["id"]) if type(job["id"]) is int else 0, 0):
        made["id"] = str(job["id"])  # Batsim reads whole numbers of 32 bits, and any text
    if made.get("walltime") == -1:
        extra["walltime"] = made.pop("walltime")  # Batsim 5 knows none by its absence only
    if replays and job.get(_MAPPING) and job[_MAPPING] != [rank % job["res"] for rank in range(len(job[_MAPPING]))]:
        raise InputError(
            f"{source}: job {shown(job['id'])}, field {_MAPPING}: expected none, or ranks on one processor after the "
            f"other, for Batsim 5, where the scheduler says it when it starts the job; found {shown(job[_MAPPING])}"
        )
    return with_extra(made, extra, _OF_JOBS)


def _to_profile(profile: Mapping[str, Any], place: Place, sizes: frozenset[int]) -> dict[str, Any]:
    if _is_kept(profile):
        return dict(profile[KEPT])
    old = profile["type"]
    if old in _LOST:
        place.refuse("field type", f"a profile that Batsim 5 can run ({_LOST[old]})", old)
    kind = _KINDS[old]
    _check_members(profile, kind, place)
    own = _own(old)
    made = {field: profile[field] for field in profile if field in own} | {"type": kind.name}
    extra = {field: value for field, value in profile.items() if field not in own}
    if kind.trace_type:
        made["filename"] = made.pop("trace")
        made["trace_type"] = kind.trace_type
    elif old == "parallel_homogeneous_total":
        made[STRATEGY] = SPREAD
        why = "which spreads it over n*(n-1) transfers, not over n; make a profile for each size"
        _multiply(made, extra, old, sizes, place, expected=f"field com: expected jobs of one size for Batsim 5, {why}")
    elif old == "parallel_homogeneous_pfs" and profile.get(_BYTES[0], 0) != profile.get(_BYTES[1], 0):
        made[STRATEGY] = SPREAD  # else Batsim 5 would write as much as it reads
        why = "or as many as bytes_to_read, for Batsim 5, which takes the one for the other"
        expected = f"field bytes_to_write: expected jobs of one size, {why}"
        _multiply(made, extra, old, sizes, place, expected=expected)
    elif old == "data_staging" and profile["nb_bytes"] > 0:
        expected = "0 for Batsim 5 (its 5.0.0-rc2 ends when it begins such a transfer)"
        place.refuse("field nb_bytes", expected, profile["nb_bytes"])
    return with_extra(made, extra, own)


def _own(old: str) -> frozenset[str]:
    return frozenset(("type", "ret", *_KINDS[old].members))


def _check_members(profile: Mapping[str, Any], kind: _Kind, place: Place) -> None:
    """Refuse what Batsim does not load, of the types that are taken by name alone where workloads are read."""
    if kind.name == _STORAGE:
        for field in _BYTES:
            if not is_number(profile.get(field, 0)) or profile.get(field, 0) < 0:
                place.refuse(f"field {field}", "a number of bytes, 0 or more", profile[field])
        if not any(field in profile for field in _BYTES):
            place.missing("field bytes_to_read or bytes_to_write", "a number of bytes, 0 or more")
        texts = [field for field in ("storage", "host") if field in profile]
    elif kind is _KINDS["data_staging"]:
        if "nb_bytes" not in profile:
            place.missing("field nb_bytes", "a number of bytes, 0 or more")
        if not is_number(profile["nb_bytes"]) or profile["nb_bytes"] < 0:
            place.refuse("field nb_bytes", "a number of bytes, 0 or more", profile["nb_bytes"])
        texts = ["from", "to"]
    else:
        texts = ["trace"] if kind.trace_type else []
    for field in texts:
        if field not in profile:
            place.missing(f"field {field}", "a text")
        if type(profile[field]) is not str:
            place.refuse(f"field {field}", "a text", profile[field])


def _multiply(
    made: dict[str, Any], extra: dict[str, Any], old: str, sizes: frozenset[int], place: Place, *, expected: str
) -> None:
    """Change amounts to Batsim 5's, and keep what they were."""
    factor = _factor(made, old, sizes)
    if factor is None:
        raise InputError(f"{place}, {expected}; found jobs of {_listed(sizes)} processors")
    for field in _amounts(old) if factor > 1 else ():
        if field in made:
            extra[field] = made[field]
            made[field] = made[field] * factor
            if not is_number(made[field]):
                place.refuse(f"field {field}", f"an amount that a computer can hold {factor} times", extra[field])


# ------------------------------------------------------------------------------------------------- in Batsim 4's words


def from_batsim5(jobs: Sequence[Any], profiles: Mapping[str, Any], source: str) -> tuple[list[Any], dict[str, Any]]:
    """Say jobs and profiles of a file in Batsim 4's words, with the members of `extra_data` as their own. O(size).

    What is wrong with them stays as it is, to be told by whoever checks them, but what only Batsim 5 has: InputError.
    """
    sizes = _Sizes(jobs, profiles)
    made: dict[str, Any] = {}
    for name, profile in profiles.items():
        kind = profile.get("type") if type(profile) is dict else None
        if kind == "DelayProfile" and EXTRA not in profile:
            made[name] = {**profile, "type": "delay"}
        elif type(kind) is str:
            place = Place(source, f"profile {shown(name)}")
            if kind not in _NAMES or kind in _UNFINISHED:
                known = ", ".join(sorted(_NAMES.difference(_UNFINISHED)))
                place.refuse("field type", f"one that Batsim 5 can run beside others of its types ({known})", kind)
            made[name] = _from_profile(profile, place, sizes.of(name))
        else:
            made[name] = profile
    return [_from_job(job, index, source) for index, job in enumerate(jobs)], made


def settled(workload: Workload) -> Workload:
    """Give a workload without profiles for which Batsim 4 has no words, as jobs of several sizes may need. O(profiles).

    It is the same one if there are none. Raises InputError if such a profile is used by jobs of several sizes still.
    """
    kept = {name: profile[KEPT] for name, profile in workload.profiles.items() if _is_kept(profile)}
    if not kept:
        return workload
    sizes = _Sizes(workload.jobs, workload.profiles)
    profiles = dict(workload.profiles)
    for name, told in kept.items():
        place = Place(workload.source, f"profile {shown(name)}")
        profiles[name] = _from_profile(told, place, sizes.of(name))
        if KEPT in profiles[name]:
            raise InputError(
                f"{place}, field {STRATEGY}: expected jobs of one size for Batsim 4, which spreads amounts otherwise; "
                f"found jobs of {_listed(sizes.of(name))} processors"
            )
    return Workload(workload.jobs, profiles, workload.n_procs, workload.source, workload.about)


def _is_kept(profile: Mapping[str, Any]) -> bool:
    kept = profile.get(KEPT)
    return type(kept) is dict and type(kept.get("type")) is str and kept["type"] in _NAMES


def _from_job(job: Any, index: int, source: str) -> Any:
    if type(job) is not dict or EXTRA not in job:
        return job
    made = {field: value for field, value in job.items() if field != EXTRA}
    name = f"job {shown(job['id'])}" if "id" in job else f"jobs[{index}]"
    return with_expanded(made, job[EXTRA], _OF_JOBS, Place(source, name))


def _from_profile(profile: Mapping[str, Any], place: Place, sizes: frozenset[int]) -> dict[str, Any]:
    old = _old_type(profile, place)
    made = {field: value for field, value in profile.items() if field != EXTRA} | {"type": old}
    own = _own(old)
    extra = profile.get(EXTRA, {})
    if _KINDS[old].trace_type:
        del made["trace_type"]
        if type(made.get("filename")) is not str:
            place.refuse("field filename", "the name of a file of traces", made.get("filename"))
        made["trace"] = made.pop("filename")
    elif old == "parallel":
        _fill(made, place)
    elif STRATEGY in made and _KINDS[old].name in _SPREADABLE and made.pop(STRATEGY) == SPREAD:
        before = object_in(extra) if type(extra) is str else extra
        before = before if type(before) is dict else {}
        factor = _factor(profile, old, sizes)
        if factor is None:
            made[KEPT] = dict(profile)
        elif _divide(made, before, _amounts(old), factor):
            extra = {field: value for field, value in before.items() if field not in _amounts(old)}
    return with_expanded(made, extra, own, place) if EXTRA in profile else made


def _old_type(profile: Mapping[str, Any], place: Place) -> str:
    kind, strategy = profile["type"], profile.get(STRATEGY, EACH)
    if kind in _SPREADABLE and type(strategy) is not str:
        place.refuse(f"field {STRATEGY}", f"{EACH} or {SPREAD}", strategy)
    if kind == _HOMOGENEOUS:
        return "parallel_homogeneous_total" if strategy == SPREAD else "parallel_homogeneous"
    if kind == _REPLAY:
        traced = {one.trace_type: old for old, one in _KINDS.items() if one.trace_type}
        given = profile.get("trace_type")
        if type(given) is not str or given not in traced:
            place.refuse("field trace_type", f"one of {', '.join(sorted(traced))}", given)
        return traced[given]
    return next(old for old, one in _KINDS.items() if one.name == kind)


def _fill(made: dict[str, Any], place: Place) -> None:
    """Fill in the amounts that Batsim 4 must have and Batsim 5 need not."""
    cpu, com = made.get("cpu"), made.get("com")
    if type(cpu) is list and "com" not in made:
        if len(cpu) ** 2 > _MOST_ZEROS:
            place.missing("field com", f"amounts, for more than {math.isqrt(_MOST_ZEROS):,} processors")
        made["com"] = [0] * len(cpu) ** 2
    elif type(com) is list and "cpu" not in made:
        made["cpu"] = [0] * math.isqrt(len(com))


def _divide(made: dict[str, Any], before: Mapping[str, Any], fields: Iterable[str], factor: int) -> bool:
    """Change amounts to Batsim 4's; tell whether those kept in `extra_data` were found to be the same ones."""
    given = [field for field in fields if is_number(made.get(field))]
    kept = [field for field in given if is_number(before.get(field)) and before[field] * factor == made[field]]
    if factor > 1 and given and kept == given:
        made.update((field, before[field]) for field in given)
        return True
    for field in given:
        amount = made[field]
        whole = type(amount) is int and amount % factor == 0
        made[field] = amount // factor if whole else amount / factor
    return False


# --------------------------------------------------------------------------------------------------- amounts and sizes


def _amounts(old: str) -> tuple[str, ...]:
    return _BYTES if old == "parallel_homogeneous_pfs" else ("com",)


def _factor(profile: Mapping[str, Any], old: str, sizes: frozenset[int]) -> int | None:
    """Give how many times Batsim 4's amount a spread amount is for jobs of these sizes; None if sizes disagree."""
    if not any(is_number(amount := profile.get(field)) and amount > 0 for field in _amounts(old)):
        return 1
    least = 1 if old == "parallel_homogeneous_pfs" else 2  # a processor alone sends nothing
    factors = {n - least + 1 for n in sizes if n >= least}
    return None if len(factors) > 1 else min(factors, default=1)


def _listed(sizes: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(sizes)[:4])) + (", …" if len(sizes) > 4 else "")


class _Sizes:
    """Of how many processors the jobs are that use a profile, as it is or in a sequence. O(size), when first asked."""

    def __init__(self, jobs: Sequence[Any], profiles: Mapping[str, Any]) -> None:
        self._jobs = jobs
        self._profiles = profiles
        self._found: dict[str, set[int]] | None = None

    def of(self, name: str) -> frozenset[int]:
        """Give the sizes of jobs that use a profile."""
        if self._found is None:
            self._found = self._find()
        return frozenset(self._found.get(name, ()))

    def _find(self) -> dict[str, set[int]]:
        found: dict[str, set[int]] = {}
        for job in self._jobs:
            if type(job) is dict and type(job.get("profile")) is str and is_count(job.get("res"), 0):
                found.setdefault(job["profile"], set()).add(job["res"])
        waiting = list(found)
        while waiting:
            name = waiting.pop()
            for part in _parts(self._profiles.get(name)):
                known = found.setdefault(part, set())
                if not found[name] <= known:
                    known |= found[name]
                    waiting.append(part)
        return found


def _parts(profile: Any) -> list[str]:
    if type(profile) is not dict or profile.get("type") not in ("composed", _KINDS["composed"].name):  # may be a list
        return []
    parts = profile.get("seq")
    return [part for part in parts if type(part) is str] if type(parts) is list else []
