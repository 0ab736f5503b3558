"""Convert profiles between the messages of Batsim 5 and the names of Batsim 4, which the rest of pybatsched uses.

In messages the id of a profile is ``workload!name``; here it is a name within a workload. A type that Batsim 4 does not
have keeps its name and members, with its `extra_data` as one text.

Files use other member names than messages, and other rules (amounts depend on the sizes of jobs): see
`pybatsched.workload.formats.batsim5`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pybatsched.protocol.json_values import EXTRA
from pybatsched.protocol.v5_members import Members, extra_data_of, fields_of, full_name, short_name, workload_of

_EACH: Final = "DefinedAmountsUsedForEachValue"
_SPREAD: Final = "DefinedAmountsSpreadUniformly"


@dataclass(frozen=True, slots=True)
class _Form:
    """One type of profile: members as (name here, name in Batsim 5, default), and fixed members in Batsim 5."""

    here: str
    there: str
    members: tuple[tuple[str, str, Any], ...]
    fixed: tuple[tuple[str, str], ...] = ()

    @property
    def keys(self) -> set[str]:
        """The names of Batsim 4."""
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
        "parallel", "ParallelTaskProfile", (("cpu", "computation_vector", None), ("com", "communication_matrix", None))
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
#: Types that only Batsim 5 has.
_ONLY_THERE: Final = {form.there for form in _FORMS} | {
    "ForkJoinCompositionProfile",
    "ParallelTaskMergeCompositionProfile",
}
#: Defaults of fixed members, which FlatBuffers may leave out.
_DEFAULTS: Final = {"generation_strategy": _EACH, "trace_type": "SMPI"}


def read_profile(given: Members) -> tuple[str, dict[str, Any]]:
    """Read ``{id, profile_type, profile, extra_data?}``: the id, and the profile by Batsim 4's names. O(size)."""
    identifier = given.text("id")
    workload = workload_of(identifier)
    kind, body = given.text("profile_type"), given.object("profile")
    text = given.maybe_text(EXTRA)
    extra = fields_of(text)
    for form in _FORMS:
        if form.there == kind and all(_value_of(body, key) == value for key, value in form.fixed):
            profile: dict[str, Any] = {**extra, "type": form.here}
            for here, there, _ in form.members:
                value = body.maybe(there)
                if here == "seq":
                    value = [short_name(name, workload) for name in body.texts(there)]
                if value is not None:
                    profile[here] = value
            return identifier, profile
    kept = {EXTRA: text} if text else {}
    return identifier, {**body.rest(), **kept, "type": kind}


def _value_of(body: Members, key: str) -> Any:
    value = body.maybe(key)
    return _DEFAULTS[key] if value is None else value


def is_known(kind: str) -> bool:
    """Return whether Batsim 5 has profiles of a type, by either name."""
    return kind in _BY_HERE or kind in _ONLY_THERE


def write_profile(identifier: str, profile: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message form of a profile with Batsim 4's names. Unknown members go into `extra_data`. O(size)."""
    workload = workload_of(identifier)
    kind = str(profile.get("type"))
    form = _BY_HERE.get(kind)
    if form is None:
        body = {key: value for key, value in profile.items() if key not in {"type", EXTRA}}
        kept = {EXTRA: profile[EXTRA]} if EXTRA in profile else {}
        return {"id": identifier, "profile_type": kind, "profile": body, **kept}
    body = {}
    for here, there, default in form.members:
        value = profile.get(here, default)
        if here == "seq":
            value = [full_name(name, workload) for name in value]
        if value is not None:
            body[there] = value
    body |= dict(form.fixed)
    written = {"id": identifier, "profile_type": form.there, "profile": body}
    extra = {key: value for key, value in profile.items() if key not in form.keys}
    if extra:
        written[EXTRA] = extra_data_of(extra)
    return written
