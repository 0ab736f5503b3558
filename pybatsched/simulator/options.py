"""The inputs of a simulation: Batsim's options, platform, workloads and external events."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pybatsched.core.events import SimulationBegins
from pybatsched.core.services.feedback import FollowingJob
from pybatsched.platform.model import Platform
from pybatsched.simulator.external_events import ExternalEvent
from pybatsched.workload.model import Workload
from pybatsched.workload.resample.feedback import has_feedback, without_followers

AUTO: Final = "auto"
EXACT: Final = "exact"
SIMGRID: Final = "simgrid"
CLOCKS: Final = (AUTO, EXACT, SIMGRID)
#: The clock of `pybatsched batsim`.
BATSIM: Final = "batsim"
#: The release of Batsim 5 whose messages the simulator sends.
BATSIM5_VERSION: Final = "5.0.0-rc2"


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """Batsim's options that affect a simulation, with Batsim's names. `batsim` is the version to act as: 4 or 5.

    `clock` is EXACT, SIMGRID (which has a network), AUTO: SIMGRID if a job communicates, or BATSIM: SIMGRID also if
    messages to the master take time, unless SIMGRID is not simulated with the other inputs.
    """

    dynamic_jobs: bool = False
    acknowledge_dynamic_jobs: bool = False
    profile_reuse: bool = False
    forward_profiles: bool = False
    compute_sharing: bool = False
    storage_sharing: bool = True
    energy: bool = False
    forward_unknown_events: bool = False
    sched_config: str = ""
    redis_hostname: str = "127.0.0.1"  # sent to the scheduler, otherwise unused
    redis_port: int = 6379
    redis_prefix: str = "default"
    batsim: int = 4
    clock: str = AUTO

    def begins(self) -> SimulationBegins:
        """Return the first event of a run, with these options only: a policy has its options with ``--sched-cfg``."""
        return SimulationBegins(config=self.batsim_config(), timestamp=0.0)

    def batsim_config(self) -> dict[str, Any]:
        """Return the member `config` of SIMULATION_BEGINS, in Batsim's order."""
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
    """All inputs of one run, which stops at `ends_at`. `workloads` have the names of Batsim."""

    platform: Platform
    workloads: Mapping[str, Workload]
    options: SimulationOptions = field(default_factory=SimulationOptions)
    event_lists: Sequence[Iterable[ExternalEvent]] = ()
    ends_at: float = math.inf

    def __post_init__(self) -> None:
        if not self.options.dynamic_jobs and any(map(has_feedback, self.workloads.values())):
            object.__setattr__(self, "options", replace(self.options, dynamic_jobs=True))

    def feedback_jobs(self) -> list[FollowingJob]:
        """Return the jobs that the engine submits, because they follow others. O(n)."""
        return without_followers(self.workloads)[1]
