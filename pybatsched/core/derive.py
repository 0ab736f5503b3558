"""Derived jobs: the profiles and jobs to register in Batsim so that a killed or resized job can continue.

These functions depend on the behaviour of Batsim 4:

* Batsim deletes a profile when the first job that uses it ends, unless it was started with --enable-profile-reuse. So
  each derived job needs its own profile.
* A composed profile that is registered at run time crashes Batsim.
* smpi and usage traces can only be read from files.
"""

from __future__ import annotations

import math
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
#: The key in a job's metadata that names the job it is a segment of.
_PARENT: Final = "parent="


class CannotDeriveError(Exception):
    """The requested profile cannot be created; the text gives the reason."""


def delay_of(profile: Mapping[str, Any] | None, profiles: Profiles) -> float | None:
    """Return the duration of a profile that consists of delays, composed ones included; else None. O(parts)."""
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
        if name not in known:  # a part may be used many times, at several levels
            known[name] = _delay_of(profiles.get(name), profiles, known, depth + 1)
        part = known[name]
        if part is None:
            return None
        total += part
    repeat = profile.get("repeat", 1)
    return total * repeat if type(repeat) is int else None


def single_delay(profile: Mapping[str, Any], delay_s: float) -> Mapping[str, Any]:
    """Return a profile with a single delay instead of a composition of delays. All other members are kept.

    The delay is at least one tick: Batsim writes shorter ones as 0.0, which it does not accept.

    >>> single_delay({"type": "composed", "seq": ["a"], "ret": 1}, 0.0)
    {'type': 'delay', 'ret': 1, 'delay': 1e-06}
    """
    kept = {key: value for key, value in profile.items() if key not in {"seq", "repeat"}}
    return kept | {"type": "delay", "delay": max(delay_s, TICK)}


def is_any_size(profile: Mapping[str, Any] | None, profiles: Profiles) -> bool:
    """Return whether Batsim lets a job of this profile run on any number of processors."""
    if profile is None:
        return False
    if profile.get("type") == "composed":
        parts = [profiles.get(name) for name in profile.get("seq", ())]
        return bool(parts) and all(p is not None and p.get("type") == "parallel_homogeneous_total" for p in parts)
    return profile.get("type") == "parallel_homogeneous_total"


def can_copy(profile: Mapping[str, Any] | None, profiles: Profiles) -> bool:
    """Return whether the profile's work can be registered again under another name."""
    return profile is not None and (profile.get("type") in _AMOUNTS or delay_of(profile, profiles) is not None)


def requeued_profile(
    profile: Mapping[str, Any] | None,
    profiles: Profiles,
    *,
    ran: Mapping[str, Any] | None,
    work: Literal["all", "rest"],
    extra_s: float,
    elapsed_s: float,
    progress: float | None,
) -> Mapping[str, Any]:
    """Return the profile with which a killed job continues: all or the rest of its work, plus extra seconds.

    The rest of a delay is computed in seconds, because Batsim rounds the progress. The rest of a parallel task is
    (1 - progress) of each amount, and extra seconds become work at the job's speed so far: `progress` of the profile
    `ran` in the elapsed time.
    """
    if profile is None:
        raise CannotDeriveError("its profile is unknown")
    delay_s = delay_of(profile, profiles)
    if delay_s is not None:
        left_s = delay_s - elapsed_s if work == "rest" else delay_s
        return single_delay(profile, max(left_s, TICK) + extra_s)
    amounts = _AMOUNTS.get(str(profile.get("type")))
    if amounts is None:
        raise CannotDeriveError(
            f"a {profile.get('type')} profile cannot continue from where it was killed; expected work='all' without "
            "extra_s"
        )
    share = 1.0
    if work == "rest":
        if progress is None:
            raise CannotDeriveError("Batsim reported no progress for it; expected work='all'")
        share = max(1.0 - progress, TICK)
    if extra_s:
        if not progress or elapsed_s <= 0:
            raise CannotDeriveError("extra_s cannot be converted to work: the speed of the job is not known yet")
        size = _total(profile, amounts)
        share += extra_s * progress / elapsed_s * (_total(ran or {}, amounts) / size if size else 1.0)
    return dict(profile) | {key: _scaled(profile[key], share) for key in amounts if key in profile}


def shortened_profile(
    profile: Mapping[str, Any], profiles: Profiles, total_s: float, left_s: float
) -> Mapping[str, Any]:
    """Return the profile of a job of `total_s` that continues for `left_s`, with this share of its work."""
    if delay_of(profile, profiles) is not None:
        return single_delay(profile, left_s)
    amounts = _AMOUNTS[str(profile.get("type"))]
    return dict(profile) | {key: _scaled(profile[key], left_s / total_s) for key in amounts if key in profile}


def resized_profile(job: Job, profiles: Profiles, n: int, duration_s: float | None) -> Mapping[str, Any]:
    """Return the profile of a job that starts with another size or duration."""
    profile = job.profile
    delay_s = delay_of(profile, profiles)
    if delay_s is not None:
        return single_delay(profile or {}, delay_s if duration_s is None else duration_s)
    if duration_s is not None:
        return {"type": "delay", "delay": duration_s}
    if profile is None:
        raise CannotDeriveError(f"the profile {job.profile_name!r} of job {job.id} is unknown")
    if profile.get("type") not in _AMOUNTS or (profile.get("type") == "parallel" and n != job.n_procs):
        raise CannotDeriveError(f"a {profile.get('type')} profile cannot run on {n} processors; expected a duration_s")
    return dict(profile)


def loaded_profile(profile: Mapping[str, Any], extra_s: float) -> Mapping[str, Any]:
    """Return a profile with extra seconds before its work. The profile must be a delay."""
    if not extra_s:
        return profile
    if profile.get("type") != "delay":
        raise CannotDeriveError(
            f"extra_s ({extra_s:.12g}) cannot be added to a {profile.get('type')} profile; expected a profile of "
            "delays, or a duration_s"
        )
    return {**profile, "delay": profile["delay"] + extra_s}


def derived_job(
    job: Job, wire_id: str, profile_name: str, *, n: int, walltime: float | None, estimate: float | None
) -> Mapping[str, Any]:
    """Return the job object for REGISTER_JOB: the user's fields with the new id, size and times."""
    fields = dict(job.fields)
    fields.update(id=wire_id, res=n, profile=profile_name, subtime=fields.get("subtime", job.submitted_at))
    fields.pop("walltime", None)
    if walltime is not None:
        fields["walltime"] = walltime
    if "estimate" in fields and estimate is not None:
        fields["estimate"] = estimate
    return fields


class Derivation(NamedTuple):
    """How a job was derived from another: by a requeue or a replacement, with the rest of its work."""

    kind: Literal["requeue", "replace"]
    is_rest: bool = False
    extra_s: float = 0.0
    by: str = ""
    kept_s: float = 0.0
    failures: str = ""


def id_in_note(job_id: str) -> str:
    """Return a job's id escaped for the metadata, whose parts are separated by semicolons.

    >>> id_in_note("w0!12"), id_in_note("w0!a;b 50%")
    ('w0!12', 'w0!a%3Bb 50%25')
    """
    return job_id.replace("%", "%25").replace(";", "%3B")


def id_from_note(text: str) -> str:
    """Return a job's id from its escaped form in the metadata.

    >>> id_from_note(id_in_note("w0!a;b%3B"))
    'w0!a;b%3B'
    """
    return text.replace("%3B", ";").replace("%25", "%")


def parent_in_note(note: str) -> str:
    """Return the id of the job that a job is a segment of, from its metadata; empty if it is none. O(length).

    >>> parent_in_note("parent=w0!a%3Bb;segment=1;kind=requeue"), parent_in_note("moves=2")
    ('w0!a;b', '')
    """
    if _PARENT not in note:  # nearly all notes
        return ""
    found = next((part for part in note.split(";") if part.startswith(_PARENT)), "")
    return id_from_note(found.removeprefix(_PARENT))


def lineage(job: Job, segment: int, how: Derivation) -> str:
    """Return the metadata that links a segment to its job in ``_jobs.csv`` (read by `pybatsched.metrics.outcomes`)."""
    note = f"{_PARENT}{id_in_note(job.id)};segment={segment};kind={how.kind}"
    if how.is_rest:
        note += ";work=rest"
    if how.by:
        note += f";by={id_in_note(how.by)}"
    if how.kept_s:
        note += f";kept_s={how.kept_s:.12g}"
    if how.failures:
        note += f";{how.failures}"
    return f"{note};extra_s={how.extra_s:.12g}" if how.extra_s else note


def load_note(job_id: str) -> str:
    """Return the metadata of a job that loads the input of another one, before that is started by a `Replace`.

    Metrics join both: the load counts as wait.

    >>> load_note("w0!12")
    'parent=w0!12;segment=0;kind=load'
    """
    return f"{_PARENT}{id_in_note(job_id)};segment=0;kind=load"


def _scaled(amount: Any, share: float) -> Any:
    if isinstance(amount, list):
        return [_scaled(part, share) for part in amount]
    return amount * share if type(amount) in {int, float} else amount


def _total(profile: Mapping[str, Any], amounts: tuple[str, ...]) -> float:
    """Return the sum of all amounts of a profile."""
    found = 0.0
    for key in amounts:
        value = profile.get(key, 0.0)
        found += math.fsum(value) if isinstance(value, list) else value
    return found
