"""Options and job fields of urgent jobs first with backfilling: swapping of memory, and choice of preempted jobs."""

from __future__ import annotations

import math
from typing import Final, Literal, NamedTuple, TypeAlias

from pydantic import Field, model_validator

from pybatsched import QueueFields
from pybatsched_schedulers.backfilling_options import ConservativeOptions

SwapClass: TypeAlias = Literal["A", "B", "C", "D"]


class Measurement(NamedTuple):
    """One row of the published table. Outliers are left out of the fits."""

    input_size: SwapClass
    application: str
    size_mb: float
    swap_s: float
    is_outlier: bool = False


MEASUREMENTS: Final[tuple[Measurement, ...]] = (
    Measurement("A", "BT", 118.531, 0.022),
    Measurement("A", "CG", 123.727, 0.023),
    Measurement("A", "EP", 76.020, 0.014),
    Measurement("A", "FT", 396.707, 0.073),
    Measurement("A", "IS", 133.559, 0.024),
    Measurement("A", "LU", 110.238, 0.073, is_outlier=True),  # three and a half times as long as its neighbours
    Measurement("A", "MG", 506.758, 0.093),
    Measurement("A", "SP", 120.523, 0.022),
    Measurement("B", "BT", 248.621, 0.040),
    Measurement("B", "CG", 512.705, 0.082),
    Measurement("B", "EP", 76.020, 0.012),
    Measurement("B", "FT", 1630.167, 0.259),
    Measurement("B", "IS", 331.559, 0.053),
    Measurement("B", "LU", 215.742, 0.034),
    Measurement("B", "MG", 608.109, 0.097),
    Measurement("B", "SP", 256.770, 0.041),
    Measurement("C", "BT", 573.680, 0.106),
    Measurement("C", "CG", 741.656, 0.138),
    Measurement("C", "EP", 76.023, 0.014),
    Measurement("C", "FT", 2602.986, 0.676, is_outlier=True),  # 3.9 GB/s where the others have 5.4
    Measurement("C", "IS", 842.672, 0.156),
    Measurement("C", "LU", 633.914, 0.118),
    Measurement("C", "MG", 1741.941, 0.323),
    Measurement("C", "SP", 797.586, 0.148),
    Measurement("D", "BT", 1223.390, 0.201),
    Measurement("D", "CG", 1071.495, 0.176),
    Measurement("D", "EP", 76.023, 0.013),
    Measurement("D", "FT", 5127.443, 0.844),
    Measurement("D", "IS", 2116.223, 0.348),
    Measurement("D", "LU", 1116.267, 0.184),
    Measurement("D", "MG", 2469.829, 0.406),
    Measurement("D", "SP", 1441.358, 0.237),
)


def bandwidth_gbps(input_size: SwapClass | None = None) -> float:
    """Return the bandwidth by least squares through zero, over one input size or all, without the outliers.

    >>> round(bandwidth_gbps("A"), 3), round(bandwidth_gbps(), 1)
    (5.445, 6.0)
    """
    rows = [row for row in MEASUREMENTS if not row.is_outlier and input_size in {None, row.input_size}]
    mb_s = sum(row.size_mb * row.swap_s for row in rows)
    return sum(row.size_mb**2 for row in rows) / mb_s / 1000


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
    swap_in: Seconds | None = Field(None, description="seconds to swap a job in, likewise (0.1 to 2; 1)")
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
                raise ValueError(f"{name} is for swap=uniform or swap=fixed; swap is bandwidth")
            is_pair = isinstance(given, tuple)
            if is_pair != (self.swap == "uniform"):
                expected = "two numbers, [least, most]" if self.swap == "uniform" else "one number of seconds"
                raise ValueError(f"{name} with swap={self.swap}: expected {expected}, found {given}")
            least, most = given if isinstance(given, tuple) else (given, given)
            if not 0 <= least <= most < math.inf:
                raise ValueError(f"{name}: expected seconds from 0, the smaller bound first, found {given}")
        if self.swap_class is not None and self.swap != "bandwidth":
            raise ValueError(f"swap_class is for swap=bandwidth; swap is {self.swap}")
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
