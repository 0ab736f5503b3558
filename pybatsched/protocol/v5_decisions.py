"""Write decisions of `pybatsched.core` as events of Batsim 5, strictly by its schema, and read them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from pybatsched.core import decisions as d
from pybatsched.protocol import CannotEncodeError
from pybatsched.protocol.v5_events import Wire, read_job, write_job, write_state
from pybatsched.protocol.v5_members import Members, full_name, short_name, workload_of
from pybatsched.protocol.v5_profiles import is_known, read_profile, write_profile

_ONE_BY_ONE: Final = "PredefinedExecutorPlacementStrategyWrapper"
_BY_HAND: Final = "CustomExecutorToHostMapping"
_SPREAD: Final = {"strategy": "SpreadOverHostsFirst"}
_MS: Final = 1000
#: The member with the id of a call.
CALL_ID: Final = "call_me_later_id"
#: The event that turns hosts on and off; all other changes of a pstate are immediate.
TURN: Final = "TurnOnOffHostsEvent"
#: Times are 64-bit integers.
_MOST_MS: Final = 2**64 - 1
#: The latest possible time of a call.
LATEST_S: Final = _MOST_MS / 1e3


def milliseconds(at: float) -> int:
    """Return a time in whole milliseconds, rounded up. Times are on the tick of a microsecond.

    >>> milliseconds(1.1), milliseconds(2.0004), milliseconds(3.0)
    (1100, 2001, 3000)
    """
    return math.ceil(round(at * _MS, 3))


def _write_execute(decision: d.ExecuteJob) -> dict[str, Any]:
    allocation: dict[str, Any] = {
        "host_allocation": str(decision.procs),
        "executor_placement_type": _ONE_BY_ONE,
        "executor_placement": _SPREAD,
    }
    if decision.mapping is not None:
        places = {int(executor): int(place) for executor, place in decision.mapping.items()}
        allocation["executor_placement_type"] = _BY_HAND
        allocation["executor_placement"] = {"mapping": [places[executor] for executor in range(len(places))]}
    written: dict[str, Any] = {"job_id": decision.job_id, "allocation": allocation}
    if decision.storage_mapping is not None:
        written["storage_placement"] = [
            {"storage_name": name, "host_id": int(host)} for name, host in decision.storage_mapping.items()
        ]
    if decision.additional_io_job is not None:
        raise CannotEncodeError("ExecuteJob with additional_io_job")
    return written


def _write_call(decision: d.CallMeLater) -> dict[str, Any]:
    time = milliseconds(decision.at)
    if time > _MOST_MS:
        raise CannotEncodeError(f"CallMeLater at {decision.at:g} s")
    when = {"time": time, "time_unit": "Millisecond"}
    return {CALL_ID: decision.extra.get(CALL_ID, ""), "when_type": "OneShot", "when": when}


def _write_register_job(decision: d.RegisterJob) -> dict[str, Any]:
    job = {key: value for key, value in write_job(decision.job_id, decision.job).items() if value is not None}
    return {"job_id": decision.job_id, "job": job}


def _write_register_profile(decision: d.RegisterProfile) -> dict[str, Any]:
    kind = decision.profile.get("type")
    if not is_known(str(kind)):
        raise CannotEncodeError(f"profile of type {kind!r}")
    identifier = full_name(decision.profile_name, decision.workload_name)
    return {"profile": write_profile(identifier, decision.profile)}


def write_decision(decision: d.Decision) -> Wire:
    """Return the event type and the members of a decision. Raises CannotEncodeError. O(its size)."""
    if isinstance(decision, d.UnknownDecision):
        return decision.type, decision.data
    if isinstance(decision, d.Notify) and decision.kind != d.REGISTRATION_FINISHED:
        raise CannotEncodeError(f"Notify({decision.kind!r})")
    form = _FORMS.get(type(decision))
    if form is None:
        raise CannotEncodeError(type(decision).__name__)
    return decision.v5_type, form.write(decision)


def _read_execute(given: Members, at: float) -> d.ExecuteJob:
    allocation = given.object("allocation")
    mapping: Mapping[str, Any] | None = None
    if allocation.maybe("executor_placement_type") == _BY_HAND:
        places = allocation.object("executor_placement").integers("mapping")
        mapping = {str(executor): str(place) for executor, place in enumerate(places)}
    storage = {one.text("storage_name"): one.integer("host_id") for one in given.objects("storage_placement")}
    return d.ExecuteJob(
        given.text("job_id"), allocation.procs("host_allocation"), mapping, storage or None, timestamp=at
    )


def _read_call(given: Members, at: float) -> d.Decision:
    when = given.object("when")
    if given.maybe("when_type") != "OneShot":
        return d.UnknownDecision("CallMeLaterEvent", given.rest(), timestamp=at)
    time = when.whole("time", _MOST_MS)
    due = time / _MS if when.maybe("time_unit") == "Millisecond" else float(time)
    return d.CallMeLater(due, timestamp=at, extra={CALL_ID: given.text(CALL_ID)})


def _read_register_job(given: Members, at: float) -> d.RegisterJob:
    job_id = given.text("job_id")
    return d.RegisterJob(job_id, read_job(job_id, given.object("job"), at), timestamp=at)


def _read_register_profile(given: Members, at: float) -> d.RegisterProfile:
    identifier, profile = read_profile(given.object("profile"))
    workload = workload_of(identifier)
    return d.RegisterProfile(workload, short_name(identifier, workload), profile, timestamp=at)


def _read_state(given: Members, at: float, key: str = "pstate") -> d.SetResourceState:
    return d.SetResourceState(given.procs("host_ids"), str(given.integer(key)), timestamp=at)


class _Form(NamedTuple):
    """How the members of a decision are written and read."""

    write: Callable[[Any], dict[str, Any]]
    read: Callable[[Members, float], d.Decision]


_FORMS: Final[dict[type[d.Decision], _Form]] = {
    d.ExecuteJob: _Form(_write_execute, _read_execute),
    d.RejectJob: _Form(
        lambda decision: {"job_id": decision.job_id}, lambda given, at: d.RejectJob(given.text("job_id"), timestamp=at)
    ),
    d.KillJob: _Form(
        lambda decision: {"job_ids": list(decision.job_ids)},
        lambda given, at: d.KillJob(given.texts("job_ids"), timestamp=at),
    ),
    d.CallMeLater: _Form(_write_call, _read_call),
    d.RegisterJob: _Form(_write_register_job, _read_register_job),
    d.RegisterProfile: _Form(_write_register_profile, _read_register_profile),
    d.Notify: _Form(lambda _: {}, lambda _, at: d.Notify(d.REGISTRATION_FINISHED, timestamp=at)),
    d.SetResourceState: _Form(write_state, _read_state),
}
#: How decisions are read, by their types.
READERS: Final[dict[str, Callable[[Members, float], d.Decision]]] = {
    **{decision.v5_type: form.read for decision, form in _FORMS.items()},
    TURN: partial(_read_state, key="state"),
}
