"""Derived jobs: what Batsim must be told so that a killed or resized job can go on as another one.

Facts these functions rest on (Batsim 4): a derived job needs a profile of its own, because Batsim forgets a profile
with the first job that ends on it (unless started with --enable-profile-reuse); a *dynamic* composed profile crashes
Batsim; smpi and usage traces can only come from files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from pybatsched.core.instants import TICK

if TYPE_CHECKING:
    from pybatsched.core.jobs import Job

Profiles = Mapping[str, Mapping[str, Any]]

_AMOUNTS: Final = {
    "parallel": ("cpu", "com"),
    "parallel_homogeneous": ("cpu", "com"),
    "parallel_homogeneous_total": ("cpu", "com"),
    "parallel_homogeneous_pfs": ("bytes_to_read", "bytes_to_write"),
    "data_staging": ("nb_bytes",),
}

DYNAMIC_WORKLOAD: Final = "dyn"
#: What of a note says whose segment a job is.
_PARENT: Final = "parent="


class CannotDeriveError(Exception):
    """The wanted profile cannot be made; the text says why."""


def delay_of(profile: Mapping[str, Any] | None, profiles: Profiles) -> float | None:
    """Give the duration of a profile made of delays alone (composed ones included), else None. O(parts)."""
    return _delay_of(profile, profiles, {}, 0)


def _delay_of(
    profile: Mapping[str, Any] | None, profiles: Profiles, known: dict[str, float | None], depth: int
) -> float | None:
    if profile is None or depth > 50:
        return None
    if profile.get("type") == "delay":
        delay = profile.get("delay")
        return float(delay) if isinstance(delay, int | float) else None
    if profile.get("type") != "composed":
        return None
    total = 0.0
    for name in profile.get("seq", ()):
        if name not in known:  # a part may be used many times, by parts that are used many times
            known[name] = _delay_of(profiles.get(name), profiles, known, depth + 1)
        part = known[name]
        if part is None:
            return None
        total += part
    repeat = profile.get("repeat", 1)
    return total * repeat if type(repeat) is int else None


def one_delay(profile: Mapping[str, Any], delay_s: float) -> Mapping[str, Any]:
    """Make a single delay of a profile made of delays, with all else that it says.

    Batsim tells of delays in whole ticks, of shorter ones as 0.0, and takes none of that back: then it is one tick.

    >>> one_delay({"type": "composed", "seq": ["a"], "ret": 1}, 0.0)
    {'type': 'delay', 'ret': 1, 'delay': 1e-06}
    """
    kept = {key: value for key, value in profile.items() if key not in {"seq", "repeat"}}
    return kept | {"type": "delay", "delay": max(delay_s, TICK)}


def is_any_size(profile: Mapping[str, Any] | None, profiles: Profiles) -> bool:
    """Tell whether Batsim lets a job of this profile run on any number of processors."""
    if profile is None:
        return False
    if profile.get("type") == "composed":
        parts = [profiles.get(name) for name in profile.get("seq", ())]
        return bool(parts) and all(p is not None and p.get("type") == "parallel_homogeneous_total" for p in parts)
    return profile.get("type") == "parallel_homogeneous_total"


def can_copy(profile: Mapping[str, Any] | None, profiles: Profiles) -> bool:
    """Tell whether the profile's work can be registered again under another name."""
    return profile is not None and (profile.get("type") in _AMOUNTS or delay_of(profile, profiles) is not None)


def requeued_profile(
    profile: Mapping[str, Any] | None,
    profiles: Profiles,
    *,
    work: Literal["all", "rest"],
    extra_s: float,
    elapsed_s: float,
    progress: float | None,
) -> Mapping[str, Any]:
    """Make the profile with which a killed job goes on: all of its work or the rest, and some extra seconds.

    The rest of a delay is counted in seconds (the progress Batsim reports is rounded); that of a parallel task
    is (1 - progress) of each amount, and extra seconds become work at the pace the job has shown.
    """
    if profile is None:
        raise CannotDeriveError("its profile is not known")
    delay_s = delay_of(profile, profiles)
    if delay_s is not None:
        left_s = delay_s - elapsed_s if work == "rest" else delay_s
        return one_delay(profile, max(left_s, TICK) + extra_s)
    amounts = _AMOUNTS.get(str(profile.get("type")))
    if amounts is None:
        raise CannotDeriveError(
            f"a {profile.get('type')} profile cannot go on from where it was killed; only work='all' without "
            "extra_s is possible for it"
        )
    share = 1.0
    if work == "rest":
        if progress is None:
            raise CannotDeriveError("Batsim reported no progress for it")
        share = max(1.0 - progress, TICK)
    if extra_s:
        if not progress or elapsed_s <= 0:
            raise CannotDeriveError("extra_s cannot be turned into work: the job has not shown a pace yet")
        share += extra_s * progress / elapsed_s
    return dict(profile) | {key: _scaled(profile[key], share) for key in amounts if key in profile}


def resized_profile(job: Job, profiles: Profiles, n: int, duration_s: float | None) -> Mapping[str, Any]:
    """Make the profile of a job that starts with another size or duration."""
    profile = job.profile
    delay_s = delay_of(profile, profiles)
    if delay_s is not None:
        return one_delay(profile or {}, delay_s if duration_s is None else duration_s)
    if duration_s is not None:
        return {"type": "delay", "delay": duration_s}
    if profile is None:
        raise CannotDeriveError(f"the profile {job.profile_name!r} of job {job.id} is not known")
    if profile.get("type") not in _AMOUNTS or (profile.get("type") == "parallel" and n != job.n_procs):
        raise CannotDeriveError(f"a {profile.get('type')} profile cannot run on {n} processors; give a duration_s")
    return dict(profile)


def loaded_profile(profile: Mapping[str, Any], extra_s: float) -> Mapping[str, Any]:
    """Put seconds that are no work in front of a profile, which must be a delay for that."""
    if not extra_s:
        return profile
    if profile.get("type") != "delay":
        raise CannotDeriveError(
            f"nothing can be put in front of a {profile.get('type')} profile, only of one made of delays; "
            f"give a duration_s, or no extra_s ({extra_s:.12g})"
        )
    return {**profile, "delay": profile["delay"] + extra_s}


def derived_job(
    job: Job, wire_id: str, profile_name: str, *, n: int, walltime: float | None, estimate: float | None
) -> Mapping[str, Any]:
    """Make the job object for REGISTER_JOB: the user's own fields, with the new id, size and times."""
    fields = dict(job.fields)
    fields.update(id=wire_id, res=n, profile=profile_name, subtime=fields.get("subtime", job.submitted_at))
    fields.pop("walltime", None)
    if walltime is not None:
        fields["walltime"] = walltime
    if "estimate" in fields and estimate is not None:
        fields["estimate"] = estimate
    return fields


class How(NamedTuple):
    """How a job goes on: as a requeued or a replaced one; with what was left of its work; with time that is no work.

    `by` is the job that it made room for.
    """

    kind: Literal["requeue", "replace"]
    is_rest: bool = False
    extra_s: float = 0.0
    by: str = ""


def id_in_note(job_id: str) -> str:
    """Write a job's id so that it can stand in a note, whose parts are between semicolons.

    >>> id_in_note("w0!12"), id_in_note("w0!a;b 50%")
    ('w0!12', 'w0!a%3Bb 50%25')
    """
    return job_id.replace("%", "%25").replace(";", "%3B")


def id_from_note(text: str) -> str:
    """Read a job's id from a note.

    >>> id_from_note(id_in_note("w0!a;b%3B"))
    'w0!a;b%3B'
    """
    return text.replace("%3B", ";").replace("%25", "%")


def parent_in_note(note: str) -> str:
    """Read from a note the id of the job that this one is a segment of; nothing if it is its own job. O(length).

    >>> parent_in_note("parent=w0!a%3Bb;segment=1;kind=requeue"), parent_in_note("moves=2")
    ('w0!a;b', '')
    """
    if _PARENT not in note:  # nearly all notes
        return ""
    found = next((part for part in note.split(";") if part.startswith(_PARENT)), "")
    return id_from_note(found.removeprefix(_PARENT))


def lineage(job: Job, segment: int, how: How) -> str:
    """Write the note by which ``_jobs.csv`` can be put together again (`pybatsched.metrics.outcomes` reads it)."""
    note = f"{_PARENT}{id_in_note(job.id)};segment={segment};kind={how.kind}"
    if how.is_rest:
        note += ";work=rest"
    if how.by:
        note += f";by={id_in_note(how.by)}"
    return f"{note};extra_s={how.extra_s:.12g}" if how.extra_s else note


def _scaled(amount: Any, share: float) -> Any:
    if isinstance(amount, list):
        return [_scaled(part, share) for part in amount]
    return amount * share if type(amount) in {int, float} else amount
