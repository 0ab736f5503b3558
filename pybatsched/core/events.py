"""Events of the simulator: one class per Batsim event.

The classes are independent of the message format, which is in `pybatsched.protocol`. Every event has the time it
happened (`timestamp`) and keeps unknown members: `extra` those inside its data, `beside` those next to its data.
`extra` also keeps a member that cannot be restored from the typed field (a job id sent as a number, for example), so
that a decoded message is encoded to the same message.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from pybatsched.core.intervals import IntervalSet

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})

# Job states as Batsim names them.
COMPLETED_SUCCESSFULLY: Final = "COMPLETED_SUCCESSFULLY"
COMPLETED_FAILED: Final = "COMPLETED_FAILED"
COMPLETED_WALLTIME_REACHED: Final = "COMPLETED_WALLTIME_REACHED"
COMPLETED_KILLED: Final = "COMPLETED_KILLED"
REJECTED: Final = "REJECTED"
#: The final states of a job, in the order in which tables show them.
FINAL_STATES: Final = (COMPLETED_SUCCESSFULLY, COMPLETED_FAILED, COMPLETED_WALLTIME_REACHED, COMPLETED_KILLED, REJECTED)

# Kinds of `Notify` that Batsim itself sends.
NO_MORE_STATIC_JOBS: Final = "no_more_static_job_to_submit"
NO_MORE_EXTERNAL_EVENTS: Final = "no_more_external_event_to_occur"
MACHINES_UNAVAILABLE: Final = "event_machine_unavailable"
MACHINES_AVAILABLE: Final = "event_machine_available"
# Kinds of events in a user's event file that the engine knows.
DRAIN: Final = "drain"
UNDRAIN: Final = "undrain"


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all events."""

    timestamp: float
    extra: Mapping[str, Any] = NOTHING
    beside: Mapping[str, Any] = NOTHING


class Resource(msgspec.Struct, frozen=True):
    """One host as SIMULATION_BEGINS describes it; a missing member is None."""

    id: int
    name: str | None = None
    state: str | None = None
    properties: Mapping[str, str] | None = None
    zone_properties: Mapping[str, str] | None = None  # since Batsim 4.0
    extra: Mapping[str, Any] = NOTHING

    @property
    def sleep_pstates(self) -> frozenset[str]:
        """The pstates in which the host sleeps, from its property `sleep_pstates` (S:OFF:ON,…)."""
        text = (self.properties or {}).get("sleep_pstates", "")
        return frozenset(part.split(":")[0].strip() for part in text.split(",") if part)


class SimulationBegins(Event, frozen=True):
    """The first event: the platform, Batsim's options and the profiles. A missing member is None."""

    n_resources: int | None = None
    n_compute: int | None = None
    n_storage: int | None = None
    allow_compute_sharing: bool | None = None
    allow_storage_sharing: bool | None = None
    config: Mapping[str, Any] | None = None
    compute_resources: tuple[Resource, ...] | None = None
    storage_resources: tuple[Resource, ...] | None = None
    workloads: Mapping[str, Any] | None = None
    profiles: Mapping[str, Mapping[str, Any]] | None = None

    def option(self, name: str) -> Any:
        """Return a member of `config`; None if it is missing, as in older Batsim versions."""
        return (self.config or {}).get(name)


class SimulationEnds(Event, frozen=True):
    """The last event; one more reply follows."""


class JobSubmitted(Event, frozen=True):
    """A job was submitted, or a registered one acknowledged. `job` is None if it was sent through Redis."""

    job_id: str
    job: Mapping[str, Any] | None = None
    profile: Mapping[str, Any] | None = None


class JobCompleted(Event, frozen=True):
    """A job ended in any way; `alloc` are its processors as text."""

    job_id: str
    job_state: str | None = None
    return_code: int | None = None
    alloc: str | None = None

    @property
    def final_state(self) -> str:
        """The state by Batsim's current names; old peers and WRENCH send only `status`."""
        if self.job_state is not None:
            return self.job_state
        status = self.extra.get("status")
        return {"SUCCESS": COMPLETED_SUCCESSFULLY, "TIMEOUT": COMPLETED_WALLTIME_REACHED}.get(
            str(status), COMPLETED_FAILED
        )


class JobKilled(Event, frozen=True):
    """The answer to KILL_JOB; only jobs that were still running have a progress."""

    job_ids: tuple[str, ...]
    job_progress: Mapping[str, Mapping[str, Any]] | None = None


class ResourceStateChanged(Event, frozen=True):
    """All processors of a SET_RESOURCE_STATE have reached their pstate."""

    procs: IntervalSet
    state: str


class RequestedCall(Event, frozen=True):
    """A CALL_ME_LATER is due."""


class Notify(Event, frozen=True):
    """A notice: no more static jobs, machines unavailable or available, or an event of a user's event file."""

    kind: str
    procs: IntervalSet | None = None


class Answer(Event, frozen=True):
    """The answer to a QUERY."""

    consumed_energy: float | None = None


class Query(Event, frozen=True):
    """A query to the scheduler (WRENCH asks for waiting times)."""

    requests: Mapping[str, Any]


class FromJobMsg(Event, frozen=True):
    """A running job sent a message."""

    job_id: str
    msg: Any


class UnknownEvent(Event, frozen=True):
    """An event of unknown type, which is kept and ignored."""

    type: str
    data: Mapping[str, Any]
