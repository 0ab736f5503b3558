"""Planned areas: core seconds that the jobs of each memory class request per node of the class.

The area of a job is its cores times its walltime. The area of a class is the sum over its jobs, divided by the nodes
of the class. The policy `locality` with `bigger_nodes=area` compares classes by it.

`python -m pybatsched_studies.locality.areas w.json rackham` prints the areas of the option `areas` as JSON.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pybatsched.core.fields import memory_class, memory_need_gb
from pybatsched.errors import InputError, quantity
from pybatsched.machines import names
from pybatsched.platform.groups import nodes_by_memory
from pybatsched.workload import load
from pybatsched.workload.formats.checks import shown
from pybatsched.workload.model import Workload
from pybatsched.workload.walltimes import plain, tidy

_END_OF_TIME_S: Final = 1 << 53  # as in logs


class Areas(NamedTuple):
    """Core seconds per node by memory class, in ascending order, and the ids of jobs that fit no class."""

    by_class: dict[float, int | float]
    left_out: list[Any]


def planned_areas(workload: Workload, n_nodes: Mapping[float, int]) -> Areas:
    """Return the areas by memory class, with `n_nodes` of each. O(n log classes). Raises InputError."""
    classes = sorted(n_nodes)
    requested: dict[float, list[float]] = {memory_gb: [] for memory_gb in classes}
    left_out = []
    for job in workload.jobs:
        memory_gb = memory_class(_need_gb(job, workload.source), classes)
        if memory_gb is None:
            left_out.append(job["id"])
            continue
        requested[memory_gb].append(job["res"] * _walltime_s(job, workload.source))
    by_class = {memory_gb: tidy(math.fsum(requested[memory_gb]) / n_nodes[memory_gb]) for memory_gb in classes}
    return Areas(by_class, left_out)


def _walltime_s(job: Mapping[str, Any], source: str) -> float:
    walltime_s: float = job.get("walltime", -1)
    if not 0 < walltime_s < _END_OF_TIME_S:
        found = shown(job["walltime"]) if "walltime" in job else "nothing"
        raise InputError(
            f"{source}: job {shown(job['id'])}, field walltime: expected seconds above 0, for its area, found {found}"
        )
    return walltime_s


def _need_gb(job: Mapping[str, Any], source: str) -> float:
    try:
        return memory_need_gb(job)
    except ValueError as error:
        raise InputError(f"{source}: job {shown(job['id'])}, {error}") from None


def main(file: str, platform: str) -> int:
    """Print the areas of a workload on a platform. Returns the exit code."""
    try:
        n_nodes = nodes_by_memory(names.find(platform).read())
        areas = planned_areas(load(file), n_nodes)
    except InputError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    if areas.left_out:
        n, most_gb = quantity(len(areas.left_out), "job"), max(n_nodes)
        print(f"{file}: {n} left out, which need more than the {most_gb:g} GB of the largest node", file=sys.stderr)
    print(json.dumps({str(plain(memory_gb)): area for memory_gb, area in areas.by_class.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
