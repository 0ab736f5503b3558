"""Options and job fields of urgent jobs first, with and without backfilling."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

from pydantic import Field, model_validator

from pybatsched import Order, QueueFields, QueueOptions
from pybatsched_schedulers.backfilling_options import ConservativeOptions

SwapClass: TypeAlias = Literal["A", "B", "C", "D"]
Seconds: TypeAlias = float | tuple[float, float]
VictimOrder: TypeAlias = Literal["start_order", "longest_remaining", "fewest"]
Delay: TypeAlias = Literal["max", "serial"]


class SwapFields(QueueFields):
    """The job fields for swapping."""

    memory_gb: float | None = Field(None, ge=0, allow_inf_nan=False, description="gigabytes per processor from 0")


class SwapOptions(ConservativeOptions):
    """Options of swapping."""

    swap: Literal["bandwidth", "uniform", "fixed"] = Field(
        "bandwidth",
        description="how long a swap takes: bandwidth, memory_gb of the job (per processor), else of the host, over "
        "swap_bw_gbps of the host, else 6.0; uniform, random between the bounds swap_out and swap_in; fixed, these "
        "seconds",
    )
    swap_class: SwapClass | None = Field(
        None, description="swap=bandwidth: the rate measured for this input size of the NAS benchmarks, on all hosts"
    )
    swap_out: Seconds | None = Field(
        None,
        description="seconds to swap a job out: [least, most] with swap=uniform (0.2 to 2), one number with fixed (1)",
    )
    swap_in: Seconds | None = Field(
        None,
        description="seconds to swap a job in: [least, most] with swap=uniform (0.1 to 2), one number with fixed (1)",
    )
    seed: int = Field(0, description="swap=uniform: the seed of the random numbers")
    vh_memory_gb: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="memory of a vector host (property vh) for swapped-out jobs; a job that does not fit is not "
        "suspended",
    )

    @model_validator(mode="after")
    def _one_model(self) -> SwapOptions:
        for name in ("swap_out", "swap_in"):
            given = getattr(self, name)
            if given is None:
                continue
            if self.swap == "bandwidth":
                raise ValueError(f"{name}: works only with swap=uniform or swap=fixed, not with swap=bandwidth")
            is_pair = isinstance(given, tuple)
            if is_pair != (self.swap == "uniform"):
                expected = "two numbers, [least, most]" if self.swap == "uniform" else "one number of seconds"
                raise ValueError(f"{name} with swap={self.swap}: expected {expected}, found {given}")
            least, most = given if isinstance(given, tuple) else (given, given)
            if not 0 <= least <= most < math.inf:
                raise ValueError(f"{name}: expected seconds from 0, the smaller bound first, found {given}")
        if self.swap_class is not None and self.swap != "bandwidth":
            raise ValueError(f"swap_class: works only with swap=bandwidth, not with swap={self.swap}")
        return self


class UjfbOptions(SwapOptions):
    """Options of UJFB."""

    victim_order: VictimOrder = Field(
        "start_order",
        description="which job to suspend first: the first started (as the authors' program does), the one with the "
        "longest remaining time (as they intended), or the one with the most processors, so that the fewest are "
        "suspended",
    )
    pd: Delay = Field(
        "max",
        description="the preemption delay: the longest swap-out (as published), or the sum of all swap-outs plus the "
        "last one again (as the authors' program does)",
    )
    mode: Literal["suspend", "kill_restart"] = Field(
        "suspend", description="suspend victims and continue with the rest, or kill and restart them, without swaps"
    )
    resume_same_resources: bool = Field(
        True, description="a suspended job resumes on the processors it had; false: on any (as the authors' program)"
    )
    urgent_order: Literal["fcfs", "shortest"] = Field(
        "fcfs", description="order of the waiting urgent jobs: by arrival, or the shortest estimate first"
    )


class UjfOptions(QueueOptions):
    """Options of urgent jobs first, without preemption and backfilling."""

    order: Order = Field("urgent_first", description="order of the queue; urgent_first defines this policy")
