"""Convert workloads between the formats of Batsim 4 and Batsim 5.

Batsim 5 has other names of profile types, and forwards unknown fields to schedulers only in `extra_data`, a JSON object
as text. A workload in memory is in the format of Batsim 4 (`pybatsched.workload.model`). `from_batsim5` reverts
`to_batsim5` exactly.

All rules are those of Batsim 5.0.0-rc2. It differs from Batsim 4 in two amounts. An amount "spread uniformly" is
divided by the n·(n-1) transfers of a job of n processors (Batsim 4: by n). And if the bytes to and from a storage are
not spread, `bytes_to_read` is used for both directions. Amounts are converted so that the job does the same work. The
original amounts are kept in `extra_data`, so that the way back needs no rounding.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pybatsched.errors import InputError
from pybatsched.protocol.json_values import EXTRA, WALLTIME, fields_in, object_in
from pybatsched.workload.formats.checks import FileLocation, is_count, is_number, shown
from pybatsched.workload.model import Workload
from pybatsched.workload.prepare import users_of


def with_extra(made: dict[str, Any], extra: dict[str, Any], own: frozenset[str]) -> dict[str, Any]:
    """Add the fields that Batsim does not read (not in `own`) to the file's `extra_data`."""
    if not extra:
        return made
    alone = extra.get(EXTRA) if len(extra) == 1 else None
    if type(alone) in {str, dict, list} and fields_in(alone, own, has_walltime=WALLTIME in made) is None:
        return {**made, **extra}
    return {**made, EXTRA: json.dumps(extra, allow_nan=False)}


def with_expanded(made: dict[str, Any], extra: Any, own: frozenset[str], place: FileLocation) -> dict[str, Any]:
    """Add the members of `extra_data` as fields, unless they conflict with the fields `own` that Batsim reads."""
    if type(extra) not in {str, dict, list}:
        place.fail(f"field {EXTRA}", "a text, an object or an array", extra)
    members = fields_in(extra, own, has_walltime=WALLTIME in made)
    return {**made, EXTRA: extra} if members is None else made | members


STRATEGY: Final = "generation_strategy"
SPREAD: Final = "DefinedAmountsSpreadUniformly"
EACH: Final = "DefinedAmountsUsedForEachValue"
#: The field that holds the profile of a Batsim 5 file that cannot be expressed in Batsim 4.
KEPT: Final = "batsim5"

_MAPPING: Final = "smpi_ranks_to_hosts_mapping"
_OF_JOBS: Final = frozenset(("id", "subtime", "res", "profile", "walltime"))
#: Limit of the communication amounts that are filled in if a file of Batsim 5 has none.
_MOST_ZEROS: Final = 10_000_000


class _ProfileType(NamedTuple):
    """A profile type: its name in Batsim 5, and the fields that both versions of Batsim read."""

    name: str
    members: tuple[str, ...]
    trace_type: str = ""


_STORAGE: Final = "ParallelTaskOnStorageHomogeneousProfile"
_HOMOGENEOUS: Final = "ParallelTaskHomogeneousProfile"
_REPLAY: Final = "TraceReplayProfile"
_PROFILE_TYPES: Final[dict[str, _ProfileType]] = {
    "delay": _ProfileType("DelayProfile", ("delay",)),
    "parallel": _ProfileType("ParallelTaskProfile", ("cpu", "com")),
    "parallel_homogeneous": _ProfileType(_HOMOGENEOUS, ("cpu", "com")),
    "parallel_homogeneous_total": _ProfileType(_HOMOGENEOUS, ("cpu", "com")),
    "composed": _ProfileType("SequentialCompositionProfile", ("seq", "repeat")),
    "parallel_homogeneous_pfs": _ProfileType(_STORAGE, ("bytes_to_read", "bytes_to_write", "storage", "host")),
    "data_staging": _ProfileType("ParallelTaskDataStagingBetweenStoragesProfile", ("nb_bytes", "from", "to")),
    "smpi": _ProfileType(_REPLAY, ("trace",), "SMPI"),
    "usage_trace": _ProfileType(_REPLAY, ("trace",), "FractionalComputation"),
}
_SPREADABLE: Final = frozenset((_HOMOGENEOUS, _STORAGE))
_UNFINISHED: Final = ("ForkJoinCompositionProfile", "ParallelTaskMergeCompositionProfile")
_NAMES: Final = frozenset((*(kind.name for kind in _PROFILE_TYPES.values()), *_UNFINISHED))
_BYTES: Final = ("bytes_to_read", "bytes_to_write")
_UNSUPPORTED: Final[dict[str, str]] = {
    "send": "it sends a message to the scheduler, which Batsim 5 does not support",
    "recv": "it waits for a message of the scheduler, which Batsim 5 does not support",
}


def is_batsim5(profiles: Mapping[str, Any]) -> bool:
    """Return whether the profiles of a file have type names of Batsim 5. O(profiles)."""
    for profile in profiles.values():
        kind = profile.get("type") if type(profile) is dict else None
        if type(kind) is str and kind in _NAMES:
            return True
    return False


def to_batsim5(workload: Workload) -> Workload:
    """Convert a workload to the format of Batsim 5, only to write it to a file. O(size). Raises InputError."""
    sizes = _ProfileSizes(workload.jobs, workload.profiles)
    profiles = {
        name: {"type": "DelayProfile", "delay": profile["delay"]}
        if profile["type"] == "delay" and len(profile) == 2  # nearly all profiles of nearly all files
        else _to_profile(profile, FileLocation(workload.source, f"profile {shown(name)}"), sizes.of(name))
        for name, profile in workload.profiles.items()
    }
    traces = [name for name, profile in workload.profiles.items() if profile["type"] in {"smpi", "usage_trace"}]
    replayed = users_of(traces, workload.profiles) if traces else set()
    jobs = [_to_job(job, workload.source, replays=job["profile"] in replayed) for job in workload.jobs]
    return Workload(jobs, profiles, workload.n_procs, workload.source, workload.about)


def n_changed(before: Workload, made: Workload) -> int:
    """Return the number of profiles whose amounts differ in the format of Batsim 5. O(profiles)."""
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
        extra["walltime"] = made.pop("walltime")  # in Batsim 5, a missing field means no walltime
    if replays and job.get(_MAPPING) and job[_MAPPING] != [rank % job["res"] for rank in range(len(job[_MAPPING]))]:
        raise InputError(
            f"{source}: job {shown(job['id'])}, field {_MAPPING}: expected none, or ranks on consecutive processors; "
            f"in Batsim 5 the scheduler sets the mapping when it starts the job; found {shown(job[_MAPPING])}"
        )
    return with_extra(made, extra, _OF_JOBS)


def _to_profile(profile: Mapping[str, Any], place: FileLocation, sizes: frozenset[int]) -> dict[str, Any]:
    if _is_kept(profile):
        return dict(profile[KEPT])
    old = profile["type"]
    if old in _UNSUPPORTED:
        place.fail("field type", f"a profile that Batsim 5 supports ({_UNSUPPORTED[old]})", old)
    kind = _PROFILE_TYPES[old]
    _check_members(profile, kind, place)
    own = _own(old)
    made = {field: profile[field] for field in profile if field in own} | {"type": kind.name}
    extra = {field: value for field, value in profile.items() if field not in own}
    if kind.trace_type:
        made["filename"] = made.pop("trace")
        made["trace_type"] = kind.trace_type
    elif old == "parallel_homogeneous_total":
        made[STRATEGY] = SPREAD
        why = "which divides it by n*(n-1) transfers, not by n; write a profile for each size"
        _multiply(made, extra, old, sizes, place, expected=f"field com: expected jobs of one size for Batsim 5, {why}")
    elif old == "parallel_homogeneous_pfs" and profile.get(_BYTES[0], 0) != profile.get(_BYTES[1], 0):
        made[STRATEGY] = SPREAD  # else Batsim 5 would write as much as it reads
        why = "or the same as bytes_to_read, because Batsim 5 uses one value for both"
        expected = f"field bytes_to_write: expected jobs of one size, {why}"
        _multiply(made, extra, old, sizes, place, expected=expected)
    elif old == "data_staging" and profile["nb_bytes"] > 0:
        expected = "0 for Batsim 5 (5.0.0-rc2 crashes when it starts such a transfer)"
        place.fail("field nb_bytes", expected, profile["nb_bytes"])
    return with_extra(made, extra, own)


def _own(old: str) -> frozenset[str]:
    return frozenset(("type", "ret", *_PROFILE_TYPES[old].members))


def _check_members(profile: Mapping[str, Any], kind: _ProfileType, place: FileLocation) -> None:
    """Check the fields of profile types that `checks` accepts by name alone."""
    if kind.name == _STORAGE:
        for field in _BYTES:
            if not is_number(profile.get(field, 0)) or profile.get(field, 0) < 0:
                place.fail(f"field {field}", "a number of bytes, 0 or more", profile[field])
        if not any(field in profile for field in _BYTES):
            place.missing("field bytes_to_read or bytes_to_write", "a number of bytes, 0 or more")
        texts = [field for field in ("storage", "host") if field in profile]
    elif kind is _PROFILE_TYPES["data_staging"]:
        if "nb_bytes" not in profile:
            place.missing("field nb_bytes", "a number of bytes, 0 or more")
        if not is_number(profile["nb_bytes"]) or profile["nb_bytes"] < 0:
            place.fail("field nb_bytes", "a number of bytes, 0 or more", profile["nb_bytes"])
        texts = ["from", "to"]
    else:
        texts = ["trace"] if kind.trace_type else []
    for field in texts:
        if field not in profile:
            place.missing(f"field {field}", "a text")
        if type(profile[field]) is not str:
            place.fail(f"field {field}", "a text", profile[field])


def _multiply(
    made: dict[str, Any], extra: dict[str, Any], old: str, sizes: frozenset[int], place: FileLocation, *, expected: str
) -> None:
    """Convert amounts to Batsim 5, and keep the originals in `extra`."""
    factor = _factor(made, old, sizes)
    if factor is None:
        raise InputError(f"{place}, {expected}; found jobs of {_listed(sizes)} processors")
    for field in _amounts(old) if factor > 1 else ():
        if field in made:
            extra[field] = made[field]
            made[field] = made[field] * factor
            if not is_number(made[field]):
                place.fail(f"field {field}", f"an amount that is finite after multiplication by {factor}", extra[field])


def from_batsim5(jobs: Sequence[Any], profiles: Mapping[str, Any], source: str) -> tuple[list[Any], dict[str, Any]]:
    """Convert a file to the format of Batsim 4, with `extra_data` as fields. O(size). Raises InputError."""
    sizes = _ProfileSizes(jobs, profiles)
    made: dict[str, Any] = {}
    for name, profile in profiles.items():
        kind = profile.get("type") if type(profile) is dict else None
        if kind == "DelayProfile" and EXTRA not in profile:
            made[name] = {**profile, "type": "delay"}
        elif type(kind) is str:
            place = FileLocation(source, f"profile {shown(name)}")
            if kind not in _NAMES or kind in _UNFINISHED:
                known = ", ".join(sorted(_NAMES.difference(_UNFINISHED)))
                place.fail("field type", f"a type of Batsim 5, as in other profiles of this file ({known})", kind)
            made[name] = _from_profile(profile, place, sizes.of(name))
        else:
            made[name] = profile
    return [_from_job(job, index, source) for index, job in enumerate(jobs)], made


def resolve_profiles(workload: Workload) -> Workload:
    """Convert profiles that were kept because their jobs had several sizes. O(profiles). Raises InputError."""
    kept = {name: profile[KEPT] for name, profile in workload.profiles.items() if _is_kept(profile)}
    if not kept:
        return workload
    sizes = _ProfileSizes(workload.jobs, workload.profiles)
    profiles = dict(workload.profiles)
    for name, original in kept.items():
        place = FileLocation(workload.source, f"profile {shown(name)}")
        profiles[name] = _from_profile(original, place, sizes.of(name))
        if KEPT in profiles[name]:
            raise InputError(
                f"{place}, field {STRATEGY}: expected jobs of one size, because Batsim 4 divides amounts differently; "
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
    return with_expanded(made, job[EXTRA], _OF_JOBS, FileLocation(source, name))


def _from_profile(profile: Mapping[str, Any], place: FileLocation, sizes: frozenset[int]) -> dict[str, Any]:
    old = _batsim4_type(profile, place)
    made = {field: value for field, value in profile.items() if field != EXTRA} | {"type": old}
    own = _own(old)
    extra = profile.get(EXTRA, {})
    if _PROFILE_TYPES[old].trace_type:
        del made["trace_type"]
        if type(made.get("filename")) is not str:
            place.fail("field filename", "the name of a trace file", made.get("filename"))
        made["trace"] = made.pop("filename")
    elif old == "parallel":
        _fill(made, place)
    elif STRATEGY in made and _PROFILE_TYPES[old].name in _SPREADABLE and made.pop(STRATEGY) == SPREAD:
        before = object_in(extra) if type(extra) is str else extra
        before = before if type(before) is dict else {}
        factor = _factor(profile, old, sizes)
        if factor is None:
            made[KEPT] = dict(profile)
        elif _divide(made, before, _amounts(old), factor):
            extra = {field: value for field, value in before.items() if field not in _amounts(old)}
    return with_expanded(made, extra, own, place) if EXTRA in profile else made


def _batsim4_type(profile: Mapping[str, Any], place: FileLocation) -> str:
    kind, strategy = profile["type"], profile.get(STRATEGY, EACH)
    if kind in _SPREADABLE and type(strategy) is not str:
        place.fail(f"field {STRATEGY}", f"{EACH} or {SPREAD}", strategy)
    if kind == _HOMOGENEOUS:
        return "parallel_homogeneous_total" if strategy == SPREAD else "parallel_homogeneous"
    if kind == _REPLAY:
        traced = {one.trace_type: old for old, one in _PROFILE_TYPES.items() if one.trace_type}
        given = profile.get("trace_type")
        if type(given) is not str or given not in traced:
            place.fail("field trace_type", f"one of {', '.join(sorted(traced))}", given)
        return traced[given]
    return next(old for old, one in _PROFILE_TYPES.items() if one.name == kind)


def _fill(made: dict[str, Any], place: FileLocation) -> None:
    """Fill in amounts that are required in Batsim 4 and optional in Batsim 5."""
    cpu, com = made.get("cpu"), made.get("com")
    if type(cpu) is list and "com" not in made:
        if len(cpu) ** 2 > _MOST_ZEROS:
            place.missing("field com", f"amounts, for more than {math.isqrt(_MOST_ZEROS):,} processors")
        made["com"] = [0] * len(cpu) ** 2
    elif type(com) is list and "cpu" not in made:
        made["cpu"] = [0] * math.isqrt(len(com))


def _divide(made: dict[str, Any], before: Mapping[str, Any], fields: Iterable[str], factor: int) -> bool:
    """Convert amounts to Batsim 4. Returns whether the originals in `extra_data` were used."""
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


def _amounts(old: str) -> tuple[str, ...]:
    return _BYTES if old == "parallel_homogeneous_pfs" else ("com",)


def _factor(profile: Mapping[str, Any], old: str, sizes: frozenset[int]) -> int | None:
    """Return the ratio of the amounts of Batsim 5 and Batsim 4 for jobs of these sizes; None if sizes disagree."""
    if not any(is_number(amount := profile.get(field)) and amount > 0 for field in _amounts(old)):
        return 1
    least = 1 if old == "parallel_homogeneous_pfs" else 2  # a single processor sends nothing
    factors = {n - least + 1 for n in sizes if n >= least}
    return None if len(factors) > 1 else min(factors, default=1)


def _listed(sizes: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(sizes)[:4])) + (", …" if len(sizes) > 4 else "")


class _ProfileSizes:
    """Sizes of the jobs that use a profile, directly or in a sequence. O(size) at the first use."""

    def __init__(self, jobs: Sequence[Any], profiles: Mapping[str, Any]) -> None:
        self._jobs = jobs
        self._profiles = profiles
        self._found: dict[str, set[int]] | None = None

    def of(self, name: str) -> frozenset[int]:
        """Return the sizes of jobs that use a profile."""
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
    if type(profile) is not dict or profile.get("type") not in (
        "composed",
        _PROFILE_TYPES["composed"].name,
    ):  # may be a list
        return []
    parts = profile.get("seq")
    return [part for part in parts if type(part) is str] if type(parts) is list else []
