"""Profiles as Batsim 5 writes them in messages, and as the rest of pybatsched knows them: by Batsim 4's names.

Ids of profiles are ``workload!name`` there, and plain names inside of a workload here. A type that Batsim 4 has not is
kept as it is, under its own name, with its `extra_data` in one piece.

Files have other names for the members than messages have, and other rules (amounts depend on the sizes of jobs):
`pybatsched.workload.formats.batsim5` is about those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pybatsched.protocol.extra_data import EXTRA
from pybatsched.protocol.v5_members import Members, extra_data_of, fields_of, full_name, short_name

_EACH: Final = "DefinedAmountsUsedForEachValue"
_SPREAD: Final = "DefinedAmountsSpreadUniformly"


@dataclass(frozen=True, slots=True)
class _Form:
    """How one type of profile is written: (name here, name there, value if it is missing), and what is fixed there."""

    here: str
    there: str
    members: tuple[tuple[str, str, Any], ...]
    fixed: tuple[tuple[str, str], ...] = ()

    @property
    def keys(self) -> set[str]:
        """The names here."""
        return {"type", *(here for here, _, _ in self.members)}


_AMOUNTS: Final = (("cpu", "computation_amount", 0.0), ("com", "communication_amount", 0.0))
_STORAGE: Final = (
    ("storage", "storage_name", "pfs"),
    ("bytes_to_read", "bytes_to_read", 0.0),
    ("bytes_to_write", "bytes_to_write", 0.0),
)
_FORMS: Final = (
    _Form("delay", "DelayProfile", (("delay", "delay", 0.0),)),
    _Form(
        "parallel",
        "ParallelTaskProfile",
        (("cpu", "computation_vector", None), ("com", "communication_matrix", None)),
    ),
    _Form(
        "parallel_homogeneous_total", "ParallelTaskHomogeneousProfile", _AMOUNTS, (("generation_strategy", _SPREAD),)
    ),
    _Form("parallel_homogeneous", "ParallelTaskHomogeneousProfile", _AMOUNTS, (("generation_strategy", _EACH),)),
    _Form(
        "parallel_homogeneous_pfs",
        "ParallelTaskOnStorageHomogeneousProfile",
        _STORAGE,
        (("generation_strategy", _EACH),),
    ),
    _Form(
        "data_staging",
        "ParallelTaskDataStagingBetweenStoragesProfile",
        (
            ("nb_bytes", "bytes_to_transfer", 0.0),
            ("from", "emitter_storage_name", ""),
            ("to", "receiver_storage_name", ""),
        ),
    ),
    _Form("composed", "SequentialCompositionProfile", (("repeat", "repetition_count", 1), ("seq", "profile_ids", ()))),
    _Form("smpi", "TraceReplayProfile", (("trace", "filename", ""),), (("trace_type", "SMPI"),)),
    _Form(
        "usage_trace", "TraceReplayProfile", (("trace", "filename", ""),), (("trace_type", "FractionalComputation"),)
    ),
)
_BY_HERE: Final = {form.here: form for form in _FORMS}
#: Types that Batsim 5 alone has a name for.
_ONLY_THERE: Final = {form.there for form in _FORMS} | {
    "ForkJoinCompositionProfile",
    "ParallelTaskMergeCompositionProfile",
}
#: What stands for a fixed member that is missing: FlatBuffers may leave out a default.
_DEFAULTS: Final = {"generation_strategy": _EACH, "trace_type": "SMPI"}


def read_profile(given: Members) -> tuple[str, dict[str, Any]]:
    """Read ``{id, profile_type, profile, extra_data?}``: the id, and the profile by Batsim 4's names. O(size)."""
    identifier = given.text("id")
    workload = identifier.partition("!")[0] if "!" in identifier else ""
    kind, said = given.text("profile_type"), given.object("profile")
    text = given.maybe_text(EXTRA)
    extra = fields_of(text)
    for form in _FORMS:
        if form.there == kind and all(_said(said, key) == value for key, value in form.fixed):
            profile: dict[str, Any] = {**extra, "type": form.here}
            for here, there, _ in form.members:
                value = said.maybe(there)
                if here == "seq":
                    value = [short_name(name, workload) for name in said.texts(there)]
                if value is not None:
                    profile[here] = value
            return identifier, profile
    kept = {EXTRA: text} if text else {}
    return identifier, {**said.rest(), **kept, "type": kind}


def _said(said: Members, key: str) -> Any:
    value = said.maybe(key)
    return _DEFAULTS[key] if value is None else value


def is_known(kind: str) -> bool:
    """Tell whether Batsim 5 has profiles of a type, by either name."""
    return kind in _BY_HERE or kind in _ONLY_THERE


def write_profile(identifier: str, profile: Mapping[str, Any]) -> dict[str, Any]:
    """Write a profile that is known by Batsim 4's names, its own members in `extra_data`. O(size)."""
    workload = identifier.partition("!")[0] if "!" in identifier else ""
    kind = str(profile.get("type"))
    form = _BY_HERE.get(kind)
    if form is None:
        said = {key: value for key, value in profile.items() if key not in {"type", EXTRA}}
        kept = {EXTRA: profile[EXTRA]} if EXTRA in profile else {}
        return {"id": identifier, "profile_type": kind, "profile": said, **kept}
    said = {}
    for here, there, default in form.members:
        value = profile.get(here, default)
        if here == "seq":
            value = [full_name(name, workload) for name in value]
        if value is not None:
            said[there] = value
    said |= dict(form.fixed)
    written = {"id": identifier, "profile_type": form.there, "profile": said}
    extra = {key: value for key, value in profile.items() if key not in form.keys}
    if extra:
        written[EXTRA] = extra_data_of(extra)
    return written
