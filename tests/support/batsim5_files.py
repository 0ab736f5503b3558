"""Small workloads to be converted to Batsim 5's format."""

from __future__ import annotations

from typing import Any

from pybatsched.workload.model import Workload


def workload(profiles: dict[str, Any], *jobs: dict[str, Any], sizes: tuple[int, ...] = ()) -> Workload:
    """Make a workload of these jobs, and of one of each size for each profile."""
    more = [{"id": f"{name}-{n}", "subtime": 0, "res": n, "profile": name} for name in profiles for n in sizes]
    return Workload([*jobs, *more], profiles, 8, "w.json")


def job(**fields: Any) -> dict[str, Any]:
    return {"id": "a", "subtime": 0, "res": 2, "profile": "d", **fields}


DELAY = {"d": {"type": "delay", "delay": 5}}
