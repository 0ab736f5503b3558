"""Batsim 5 mode of the simulator: features requested in the handshake, and the extra fields of hosts.

The other differences from Batsim 4 are in `pybatsched.protocol.v5` (messages), `simulator.external` (handshake and
end), `simulator.simulation` (the first message with several submitters) and `simulator.external_events` (events in
files). docs/batsim5.md lists them for users.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from pybatsched.core import events as e
from pybatsched.platform.model import Host, Platform
from pybatsched.protocol.v5_handshake import BATPROTOCOL_VERSION, Features
from pybatsched.simulator.execution import Answer
from pybatsched.simulator.options import BATSIM5_VERSION, Scenario, SimulationOptions
from pybatsched.simulator.simulation import Scheduler


def with_requested_features(options: SimulationOptions, features: Features) -> SimulationOptions:
    """Return the options with the features that the scheduler requested turned on."""
    return replace(
        options,
        batsim=5,
        dynamic_jobs=features.dynamic_registration,
        acknowledge_dynamic_jobs=features.acknowledge_dynamic_jobs,
        profile_reuse=features.dynamic_registration and features.profile_reuse,
        forward_profiles=features.forward_profiles_on_job_submission,
        forward_unknown_events=True,
    )


def with_batsim5_fields(scheduler: Scheduler, scenario: Scenario, endpoint: str) -> Scheduler:
    """Return the scheduler wrapped so that its first message has the extra fields of Batsim 5."""

    def with_fields(now: float, events: Sequence[e.Event]) -> Answer:
        if events and isinstance(events[0], e.SimulationBegins):
            begins = add_batsim5_fields(events[0], scenario.platform, len(scenario.event_lists), endpoint)
            events = [begins, *events[1:]]
        return scheduler(now, events)

    return with_fields


def add_batsim5_fields(
    begins: e.SimulationBegins, platform: Platform, n_event_lists: int, endpoint: str
) -> e.SimulationBegins:
    """Add the extra fields of Batsim 5 to SIMULATION_BEGINS: speeds and cores of hosts, version and arguments."""
    hosts = platform.hosts
    n = len(begins.compute_resources or ())
    context = msgspec.json.encode({"socket_endpoint": endpoint, "export_prefix": ""}).decode()
    extra = {
        "batsim_arguments": ["batsim", "-s", endpoint, begins.option("sched-config") or ""],
        "batsim_execution_context_json": context,
        "external_events": [{"name": f"ee{index}", "filename": ""} for index in range(n_event_lists)],
        "batprotocol_version": BATPROTOCOL_VERSION,
        "batsim_version": BATSIM5_VERSION,
        "batsim_commit": "",
    }
    return msgspec.structs.replace(
        begins,
        compute_resources=_with_speeds(begins.compute_resources or (), hosts[:n]),
        storage_resources=_with_speeds(begins.storage_resources or (), hosts[n:]),
        profiles={name: dict(sorted(content.items())) for name, content in (begins.profiles or {}).items()},
        extra={**begins.extra, **extra},
    )


def _with_speeds(resources: Sequence[e.Resource], hosts: Sequence[Host]) -> tuple[e.Resource, ...]:
    return tuple(
        msgspec.structs.replace(one, properties=_own(one), zone_properties=_around(one), extra=_speeds(host))
        for one, host in zip(resources, hosts, strict=True)
    )


def _own(resource: e.Resource) -> dict[str, str]:
    """Return the properties of a host without the empty role that Batsim 4 adds."""
    return {name: value for name, value in (resource.properties or {}).items() if name != "role" or value}


def _around(resource: e.Resource) -> dict[str, str]:
    """Return the zone properties of a host, without those of its cluster: in SimGrid 4 these belong to the host."""
    own, around = resource.properties or {}, resource.zone_properties or {}
    return {name: value for name, value in around.items() if own.get(name) != value}


def _speeds(host: Host) -> dict[str, Any]:
    return {
        "pstate": host.pstate,
        "pstate_count": len(host.speeds),
        "core_count": host.n_cores,
        "computation_speed": list(host.speeds),
    }
