"""What a simulation is made of: Batsim's own options and inputs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pybatsched.platform.model import Platform
from pybatsched.simulator.external_events import ExternalEvent
from pybatsched.workload.model import Workload


@dataclass(frozen=True, slots=True)
class Options:
    """Batsim's options that shape a simulation, by its own names. `batsim` is whose place it takes: 4, or 5."""

    dynamic_jobs: bool = False
    acknowledge_dynamic_jobs: bool = False
    profile_reuse: bool = False
    forward_profiles: bool = False
    compute_sharing: bool = False
    storage_sharing: bool = True
    energy: bool = False
    forward_unknown_events: bool = False
    sched_config: str = ""
    redis_hostname: str = "127.0.0.1"  # told, and used for nothing
    redis_port: int = 6379
    redis_prefix: str = "default"
    batsim: int = 4

    def told(self) -> dict[str, Any]:
        """Give `config` of SIMULATION_BEGINS, in Batsim's order."""
        return {
            "redis-enabled": False,
            "redis-hostname": self.redis_hostname,
            "redis-port": self.redis_port,
            "redis-prefix": self.redis_prefix,
            "profiles-forwarded-on-submission": self.forward_profiles,
            "dynamic-jobs-enabled": self.dynamic_jobs,
            "dynamic-jobs-acknowledged": self.acknowledge_dynamic_jobs,
            "profile-reuse-enabled": self.profile_reuse,
            "sched-config": self.sched_config,
            "forward-unknown-events": self.forward_unknown_events,
        }


@dataclass(frozen=True, slots=True)
class Scenario:
    """All inputs of one run. `workloads` are by Batsim's names w0, w1, …; `event_lists` one per ``--events``.

    Nothing happens after `ends_at`.
    """

    platform: Platform
    workloads: Mapping[str, Workload]
    options: Options = field(default_factory=Options)
    event_lists: Sequence[Sequence[ExternalEvent]] = ()
    ends_at: float = math.inf
