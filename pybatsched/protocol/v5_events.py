"""Read events of Batsim 5 as events of `pybatsched.core`, and write them. Informative members stay in `extra`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from pybatsched.core import decisions as d, events as e
from pybatsched.core.intervals import EMPTY, IntervalSet
from pybatsched.protocol.v5_members import Members, extra_data_of, fields_of, full_name, short_name, workload_of
from pybatsched.protocol.v5_profiles import read_profile, write_profile

#: The type of an event, and its members.
Wire: TypeAlias = tuple[str, Mapping[str, Any]]
#: Members of a job that belong to Batsim.
_JOB: Final = ("id", "subtime", "res", "profile", "walltime")
#: Types of machine events in event files, and the notices of Batsim 4 for them.
_MACHINE_NOTICES: Final = {"machine_unavailable": e.MACHINES_UNAVAILABLE, "machine_available": e.MACHINES_AVAILABLE}
_MACHINE_TYPES: Final = {kind: name for name, kind in _MACHINE_NOTICES.items()}
#: The type of all events in files of Batsim 5.
_GENERIC: Final = "generic"
_NOTICES: Final = {
    e.NO_MORE_STATIC_JOBS: "AllStaticJobsHaveBeenSubmittedEvent",
    e.NO_MORE_EXTERNAL_EVENTS: "AllStaticExternalEventsHaveBeenInjectedEvent",
}
_U32: Final = 2**32

# --- start of the simulation ------------------------------------------------------------------------------------

_BEGINS: Final = (
    "host_number",
    "computation_host_number",
    "computation_hosts",
    "storage_host_number",
    "storage_hosts",
    "workloads",
    "profiles",
)


def _read_begins(given: Members, at: float) -> e.SimulationBegins:
    profiles: dict[str, dict[str, Any]] = {}
    for one in given.objects("profiles"):
        identifier, profile = read_profile(one)
        workload = workload_of(identifier)
        profiles.setdefault(workload, {})[short_name(identifier, workload)] = profile
    return e.SimulationBegins(
        n_resources=given.maybe_integer("host_number"),
        n_compute=given.maybe_integer("computation_host_number"),
        n_storage=given.maybe_integer("storage_host_number"),
        compute_resources=_read_hosts(given, "computation_hosts"),
        storage_resources=_read_hosts(given, "storage_hosts"),
        workloads={one.text("name"): one.maybe_text("filename") for one in given.objects("workloads")},
        profiles=profiles,
        timestamp=at,
        extra=given.rest(*_BEGINS) or e.NOTHING,
    )


_HOST: Final = ("id", "name", "state", "properties", "zone_properties")


def _read_hosts(given: Members, key: str) -> tuple[e.Resource, ...] | None:
    if given.maybe(key) is None:
        return None
    return tuple(
        e.Resource(
            host.integer("id"),
            host.maybe_text("name"),
            (host.maybe_text("state") or "idle").lower(),
            _read_properties(host, "properties"),
            _read_properties(host, "zone_properties"),
            extra=host.rest(*_HOST),
        )
        for host in given.objects(key)
    )


def _read_properties(host: Members, key: str) -> dict[str, str]:
    said = host.maybe(key)
    if type(said) is dict:
        return {name: str(value) for name, value in said.items()}
    return {one.text("key"): one.maybe_text("value") or "" for one in host.objects(key)}


def _write_begins(event: e.SimulationBegins) -> dict[str, Any]:
    extra = dict(event.extra)
    written: dict[str, Any] = {
        "host_number": event.n_resources,
        "computation_host_number": event.n_compute,
        "computation_hosts": [_write_host(host) for host in event.compute_resources or ()],
        "storage_host_number": event.n_storage,
        "storage_hosts": [_write_host(host) for host in event.storage_resources or ()],
        "batsim_arguments": extra.pop("batsim_arguments", []),
        "batsim_execution_context_json": extra.pop("batsim_execution_context_json", "{}"),
        "workloads": [{"name": name, "filename": file} for name, file in (event.workloads or {}).items()],
        "profiles": [
            write_profile(full_name(name, workload), profile)
            for workload, content in (event.profiles or {}).items()
            for name, profile in content.items()
        ],
    }
    return written | extra


def _write_host(host: e.Resource) -> dict[str, Any]:
    extra = {"pstate": 0, "pstate_count": 1, "core_count": 1, "computation_speed": []} | dict(host.extra)
    return {
        "id": host.id,
        "name": host.name,
        "state": (host.state or "idle").upper(),
        "properties": _write_properties(host.properties),
        "zone_properties": _write_properties(host.zone_properties),
        **extra,
    }


def _write_properties(properties: Mapping[str, str] | None) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in (properties or {}).items()]


def read_job(job_id: str, said: Members, submitted_at: float | None) -> dict[str, Any]:
    """Return a job's description in the form of Batsim 4: Batsim's members and the user's fields in one object."""
    workload = workload_of(job_id)
    walltime = said.maybe_number("walltime")
    job = fields_of(said.maybe_text("extra_data"), _JOB, has_walltime=walltime is not None)
    job |= {"id": job_id, "res": said.integer("resource_request")}
    job["profile"] = short_name(said.maybe_text("profile_id") or "", workload)
    if submitted_at is not None:
        job["subtime"] = submitted_at
    if walltime is not None:
        job["walltime"] = walltime
    return job


def write_job(job_id: str, job: Mapping[str, Any]) -> dict[str, Any]:
    """Return a job's description in the form of Batsim 5, with the user's fields in `extra_data`."""
    walltime = job.get("walltime")
    return {
        "resource_request": job["res"],
        "walltime": None if walltime is None or walltime <= 0 else float(walltime),
        "extra_data": extra_data_of({key: value for key, value in job.items() if key not in _JOB}, _JOB),
        "profile_id": full_name(str(job["profile"]), workload_of(job_id)),
    }


def _read_submitted(given: Members, at: float) -> e.JobSubmitted:
    job_id = given.text("job_id")
    submitted_at = given.maybe_number("submission_time")
    job = read_job(job_id, given.object("job"), at if submitted_at is None else submitted_at)
    profile = given.maybe_object("profile")
    return e.JobSubmitted(job_id, job, None if profile is None else read_profile(profile)[1], timestamp=at)


def _write_submitted(event: e.JobSubmitted) -> dict[str, Any]:
    job = event.job or {}
    written = {
        "job_id": event.job_id,
        "job": {**write_job(event.job_id, job), "rigid": True},
        "submission_time": float(job.get("subtime", event.timestamp)),
    }
    if event.profile is not None:
        identifier = full_name(str(job.get("profile")), workload_of(event.job_id))
        written["profile"] = write_profile(identifier, event.profile)
    return written


def _read_completed(given: Members, at: float) -> e.JobCompleted:
    code = given.maybe_integer("return_code")
    if code is not None and code >= _U32 // 2:
        code -= _U32  # it is written unsigned
    state = given.maybe_text("state") or given.maybe_text("job_state") or e.COMPLETED_SUCCESSFULLY
    return e.JobCompleted(given.text("job_id"), state, code, timestamp=at)


def _write_completed(event: e.JobCompleted) -> dict[str, Any]:
    return {"job_id": event.job_id, "state": event.final_state, "return_code": (event.return_code or 0) % _U32}


# --- kills --------------------------------------------------------------------------------------------------------

_ATOMIC, _SEQUENCE, _FORK = "KillProgressAtomicProfile", "KillProgressSequentialProfile", "KillProgressForkJoinProfile"


def _read_killed(given: Members, at: float) -> e.JobKilled:
    progress = {}
    for one in given.objects("progresses"):
        job_id = one.text("job_id")
        progress[job_id] = _read_progress(one.object("wrapper"), workload_of(job_id))
    return e.JobKilled(
        given.texts("job_ids"), progress, timestamp=at, extra=given.rest("job_ids", "progresses") or e.NOTHING
    )


def _read_progress(wrapper: Members, workload: str) -> dict[str, Any]:
    """Read the progress of a killed job. The index of a part counts within one repetition, unlike in Batsim 4."""
    kind, said = wrapper.text("kill_progress_type"), wrapper.object("kill_progress")
    node: dict[str, Any] = {"profile_name": short_name(said.maybe_text("profile_id") or "", workload)}
    if kind == _SEQUENCE:
        node["current_repetition"] = said.maybe_integer("current_repetition") or 0
        node["current_task_index"] = said.maybe_integer("current_task_index") or 0
        part = said.maybe_object("current_task_progress")
        if part is not None:
            node["current_task"] = _read_progress(part, workload)
    elif kind == _FORK:
        node["tasks"] = [_read_progress(part, workload) for part in said.objects("tasks_progress")]
    else:
        node["progress"] = said.maybe_number("progress") or 0.0
    return node


def _write_killed(event: e.JobKilled) -> dict[str, Any]:
    progress = event.job_progress or {}
    progresses = [
        {"job_id": job_id, "wrapper": _write_progress(node, workload_of(job_id))} for job_id, node in progress.items()
    ]
    return {"job_ids": list(event.job_ids), "progresses": progresses, **event.extra}


def _write_progress(node: Mapping[str, Any], workload: str) -> dict[str, Any]:
    said: dict[str, Any] = {"profile_id": full_name(str(node.get("profile_name", "")), workload)}
    if "current_task" in node:
        said["current_repetition"] = node.get("current_repetition", 0)
        said["current_task_index"] = node["current_task_index"]
        said["current_task_progress"] = _write_progress(node["current_task"], workload)
        return {"kill_progress_type": _SEQUENCE, "kill_progress": said}
    if "tasks" in node:
        said["tasks_progress"] = [_write_progress(part, workload) for part in node["tasks"]]
        return {"kill_progress_type": _FORK, "kill_progress": said}
    said["progress"] = node.get("progress", -1.0)  # means unknown
    return {"kill_progress_type": _ATOMIC, "kill_progress": said}


def _read_external(given: Members, at: float) -> e.Notify:
    """Read an external event. Batsim 5 has no machine events: its text contains those of Batsim 4."""
    said = given.maybe_object("external_event")
    text = None if said is None else said.maybe_text("data")
    fields = fields_of(text)
    kind = fields.pop("type", None)
    if type(kind) is not str:
        kind, fields = _GENERIC, {} if text is None else {"data": text}
    procs = None
    if kind in _MACHINE_NOTICES:
        procs = Members(fields, f"{given.path}.external_event.data").procs("resources")
        del fields["resources"]
    fields.pop("timestamp", None)  # the planned time, which is now
    identifier = given.maybe_text("id")
    if identifier is not None:
        fields["id"] = identifier
    return e.Notify(_MACHINE_NOTICES.get(kind, kind), procs, timestamp=at, extra=fields or e.NOTHING)


def _write_notify(event: e.Notify) -> dict[str, Any]:
    if event.kind in _NOTICES:
        return {}
    fields: dict[str, Any] = {"type": _MACHINE_TYPES.get(event.kind, event.kind), **event.extra}
    identifier = str(fields.pop("id", ""))
    text = fields.get("data")
    if event.kind != _GENERIC or type(text) is not str:
        if event.procs is not None:
            fields["resources"] = str(event.procs)
        text = extra_data_of({"timestamp": event.timestamp, **fields})
    return {"id": identifier, "external_event_type": "GenericExternalEvent", "external_event": {"data": text}}


def _read_state(given: Members, at: float, key: str) -> e.ResourceStateChanged:
    return e.ResourceStateChanged(given.procs("host_ids"), str(given.maybe_integer(key) or 0), timestamp=at)


#: The readers of events by type.
READERS: Final[dict[str, Callable[[Members, float], e.Event]]] = {
    "SimulationBeginsEvent": _read_begins,
    "SimulationEndsEvent": lambda given, at: e.SimulationEnds(timestamp=at),  # noqa: ARG005
    "JobSubmittedEvent": _read_submitted,
    "JobCompletedEvent": _read_completed,
    "JobsKilledEvent": _read_killed,
    "RequestedCallEvent": lambda given, at: e.RequestedCall(timestamp=at, extra=given.rest()),
    "AllStaticJobsHaveBeenSubmittedEvent": lambda given, at: e.Notify(e.NO_MORE_STATIC_JOBS, timestamp=at),  # noqa: ARG005
    "AllStaticExternalEventsHaveBeenInjectedEvent": (
        lambda given, at: e.Notify(e.NO_MORE_EXTERNAL_EVENTS, timestamp=at)  # noqa: ARG005
    ),
    "ExternalEventOccurredEvent": _read_external,
    "HostsPStateChangedEvent": partial(_read_state, key="pstate"),
    "HostsTurnedOnOffEvent": partial(_read_state, key="state"),
}


def write_state(changed: e.ResourceStateChanged | d.SetResourceState, key: str = "pstate") -> dict[str, Any]:
    """Return the members of an event that changes the pstate of hosts, or turns them on or off."""
    return {"host_ids": str(changed.procs), key: int(changed.state)}


_WRITERS: Final[dict[type[e.Event], tuple[str, Callable[[Any], dict[str, Any]]]]] = {
    e.SimulationBegins: ("SimulationBeginsEvent", _write_begins),
    e.SimulationEnds: ("SimulationEndsEvent", lambda _: {}),
    e.JobSubmitted: ("JobSubmittedEvent", _write_submitted),
    e.JobCompleted: ("JobCompletedEvent", _write_completed),
    e.JobKilled: ("JobsKilledEvent", _write_killed),
    e.RequestedCall: (
        "RequestedCallEvent",
        lambda event: {"call_me_later_id": "", "last_periodic_call": False} | dict(event.extra),
    ),
    e.Notify: ("ExternalEventOccurredEvent", _write_notify),
    e.ResourceStateChanged: ("HostsPStateChangedEvent", write_state),
}


def write_event(event: e.Event, turning: IntervalSet = EMPTY) -> Wire | None:
    """Return an event's type and members, other ones for hosts of `turning`; None if Batsim 5 lacks it."""
    if isinstance(event, e.UnknownEvent):
        return event.type, event.data
    if isinstance(event, e.ResourceStateChanged) and not event.procs.isdisjoint(turning):
        return "HostsTurnedOnOffEvent", write_state(event, "state")
    if type(event) not in _WRITERS:
        return None
    name, write = _WRITERS[type(event)]
    if isinstance(event, e.Notify):
        name = _NOTICES.get(event.kind, name)
    return name, write(event)
