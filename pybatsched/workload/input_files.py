"""Input files of jobs, and how long it takes to load them."""

from __future__ import annotations

from typing import Final

from pybatsched.workload.walltimes import tidy

#: From the shared file system to a node of Rackham, in GB/s: Gonthier, Larsson, Marchal, Nettelblad, Thibault,
#: "Data-Driven Locality-Aware Batch Scheduling", APDCM 2024.
BANDWIDTH_GBPS: Final = 0.1
#: The memory of a node, 128 GB, over its 20 cores: what files are taken to have for each core of a job (same source).
PER_CORE_GB: Final = 6.4


def alone_s(run_s: float, size_gb: float, bandwidth_gbps: float = BANDWIDTH_GBPS) -> int | float:
    """Give how long a job takes on an empty machine: it loads its file and runs.

    >>> alone_s(60, 6.4)
    124
    """
    return tidy(run_s + size_gb / bandwidth_gbps)
