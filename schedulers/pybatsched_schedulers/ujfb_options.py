"""Options of urgent jobs first with backfilling: how memory is swapped, who is preempted; what is read of jobs."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

from pydantic import Field, model_validator

from pybatsched.policies.options import QueueFields
from pybatsched_schedulers.plan_options import ConservativeOptions
from pybatsched_schedulers.swap_measurements import SwapClass

Seconds: TypeAlias = float | tuple[float, float]
VictimOrder: TypeAlias = Literal["start_order", "longest_remaining", "fewest"]
Delay: TypeAlias = Literal["max", "serial"]


class SwapFields(QueueFields):
    """What is read of jobs that may be swapped."""

    memory_gb: float | None = Field(None, ge=0, allow_inf_nan=False, description="gigabytes per processor from 0")


class SwapOptions(ConservativeOptions):
    """Options of swapping."""

    swap: Literal["bandwidth", "uniform", "fixed"] = Field(
        "bandwidth",
        description="how long a swap takes: bandwidth, memory_gb of the job (per processor), else of the host, over "
        "swap_bw_gbps of the host, else 6.0; uniform, drawn from swap_out and swap_in as bounds; fixed, these seconds",
    )
    swap_class: SwapClass | None = Field(
        None, description="swap=bandwidth: the rate measured for this input size of the NAS benchmarks, on all hosts"
    )
    swap_out: Seconds | None = Field(
        None,
        description="seconds to swap a job out: [least, most] with swap=uniform (0.2 to 2), one number with fixed (1)",
    )
    swap_in: Seconds | None = Field(None, description="seconds to swap a job in, likewise (0.1 to 2; 1)")
    seed: int = Field(0, description="swap=uniform: the seed of the draws")
    vh_memory_gb: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="what the vector host of some engines (property vh) can hold of swapped-out memory; a job that "
        "does not fit is not suspended",
    )

    @model_validator(mode="after")
    def _one_model(self) -> SwapOptions:
        for name in ("swap_out", "swap_in"):
            given = getattr(self, name)
            if given is None:
                continue
            if self.swap == "bandwidth":
                raise ValueError(f"{name} is for swap=uniform or swap=fixed; swap is bandwidth")
            is_pair = isinstance(given, tuple)
            if is_pair != (self.swap == "uniform"):
                expected = "two numbers, [least, most]" if self.swap == "uniform" else "one number of seconds"
                raise ValueError(f"{name} with swap={self.swap}: expected {expected}, got {given}")
            least, most = given if isinstance(given, tuple) else (given, given)
            if not 0 <= least <= most < math.inf:
                raise ValueError(f"{name}: expected seconds from 0, the smaller bound first, got {given}")
        if self.swap_class is not None and self.swap != "bandwidth":
            raise ValueError(f"swap_class is for swap=bandwidth; swap is {self.swap}")
        return self


class UjfbOptions(SwapOptions):
    """Options of UJFB."""

    victim_order: VictimOrder = Field(
        "start_order",
        description="whom to suspend first: who began first (as the authors' program does), who has the longest time "
        "to go (as they intended), or who has the most processors, so that the fewest are suspended",
    )
    pd: Delay = Field(
        "max",
        description="the preemption delay: the longest swap-out (as published), or all one after the other and the "
        "last one again (as the authors' program does)",
    )
    mode: Literal["suspend", "kill_restart"] = Field(
        "suspend", description="suspend victims and go on with the rest, or kill them to begin again, without swaps"
    )
    resume_same_resources: bool = Field(
        True, description="a suspended job resumes on the processors it had; false: on any (as the authors' program)"
    )
    urgent_order: Literal["fcfs", "shortest"] = Field(
        "fcfs", description="order of the urgent jobs that wait: by arrival, or the shortest estimate first"
    )
