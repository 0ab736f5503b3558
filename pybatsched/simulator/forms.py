"""The form in which Batsim wants decisions: what else it does not survive in one that can be read.

Most of them may have no member beside their own, and a member that is there has a value. All is O(members).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pybatsched.core import decisions as d
from pybatsched.errors import NotSimulatedError
from pybatsched.simulator.refusal import Refusal

_OPTIONS: Final = ("mapping", "storage_mapping", "additional_io_job")
#: What a decision is called, and its own members: there must be no others.
_ALONE: Final[Mapping[type[d.Decision], tuple[str, tuple[str, ...]]]] = {
    d.RejectJob: ("REJECT_JOB", ("job_id",)),
    d.KillJob: ("KILL_JOB", ("job_ids",)),
    d.CallMeLater: ("CALL_ME_LATER", ("timestamp",)),
    d.SetResourceState: ("SET_RESOURCE_STATE", ("resources", "state")),
    d.SetJobMetadata: ("SET_JOB_METADATA", ("job_id", "metadata")),
    d.Query: ("QUERY", ("requests",)),
}


def check_members(decision: d.Decision) -> None:
    """Raise Refusal if a decision that was read has members that Batsim does not survive.

    A decision keeps what it does not know, and what it has read from another spelling (`0 1` for `0-1`).
    """
    form = _ALONE.get(type(decision))
    if form is None:
        return
    name, own = form
    for member in decision.extra:
        if member not in own:
            raise Refusal(f"{name} has the member {member!r:.60}; Batsim takes {' and '.join(own)} alone")
    if "state" in decision.extra:
        raise Refusal(f"a pstate is a number as text, not {decision.extra['state']!r:.60}")


def check_execution(decision: d.ExecuteJob) -> None:
    """Raise Refusal if a start has more or other members than Batsim survives; NotSimulatedError if only Batsim can."""
    others = [member for member in decision.extra if member not in ("job_id", "alloc")]
    given = [decision.mapping, decision.storage_mapping, decision.additional_io_job]
    if len(others) + sum(value is not None for value in given) > 1:
        raise Refusal(f"EXECUTE_JOB of {decision.job_id} has more than three members")
    for option in _OPTIONS:
        if option in others:
            raise Refusal(f"EXECUTE_JOB of {decision.job_id}: {option} is null; expected an object, or nothing")
    if decision.mapping is not None and not decision.mapping:
        raise Refusal(f"EXECUTE_JOB of {decision.job_id}: the mapping is empty")
    storages = decision.storage_mapping
    if storages is not None and not (storages and all(type(host) is int for host in storages.values())):
        raise Refusal(
            f"EXECUTE_JOB of {decision.job_id}: expected a storage_mapping of names to numbers of hosts, "
            f"found {dict(storages)!r:.60}"
        )
    if decision.additional_io_job is not None:
        raise NotSimulatedError(f"job {decision.job_id}: additional_io_job needs a network model; run it with Batsim")


def check_kill(decision: d.KillJob) -> None:
    """Raise Refusal if nobody is to be killed."""
    if not decision.job_ids:
        raise Refusal("KILL_JOB names no job")


def check_answer(decision: d.Answer) -> None:
    """Raise Refusal if an answer is not the one to the only question there is; it has no effect."""
    given: Mapping[str, Any] | None = decision.estimate_waiting_time
    if decision.extra or given is None:
        raise Refusal("Batsim takes the answer estimate_waiting_time, and no other")
    is_number = type(given.get("estimated_waiting_time")) in (int, float)
    if type(given.get("job_id")) is not str or not is_number:
        raise Refusal(
            "the answer estimate_waiting_time: expected a job_id (a text) and an estimated_waiting_time (a number), "
            f"found {dict(given)!r:.60}"
        )
