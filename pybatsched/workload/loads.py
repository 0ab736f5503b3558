"""Delays made work: jobs that take as long, and keep the processors of a platform busy meanwhile.

Batsim puts no load on the hosts of a delay: with energy, they draw what idle hosts draw.
"""

from __future__ import annotations

import copy
from typing import Any, Final

from pybatsched.workload.logs import profile_of
from pybatsched.workload.model import Workload
from pybatsched.workload.prepare import users_of
from pybatsched.workload.report import Report

LOADED: Final = "a delay: now work that takes as long on processors of {:g} flop/s, and puts load on them"


def with_load(workload: Workload, speed_flops: float, report: Report | None = None) -> tuple[Workload, Report]:
    """Give delays as `parallel_homogeneous` work of the same duration on processors of this speed. O(n).

    Other profiles stay as they are, composed ones with their parts. The report counts jobs and goes on from the one
    given.
    """
    report = copy.deepcopy(report) if report else Report(n_read=len(workload.jobs), n_kept=len(workload.jobs))
    profiles = {name: _loaded(profile, speed_flops) for name, profile in workload.profiles.items()}
    delayed = users_of((name for name, one in workload.profiles.items() if one["type"] == "delay"), workload.profiles)
    jobs: list[int | str] = [job["id"] for job in workload.jobs if job["profile"] in delayed]
    report.count_all("changed", LOADED.format(speed_flops), jobs, "job")
    about = {**workload.about, "load": {"speed": speed_flops}, "report": report.as_json()}
    return Workload(workload.jobs, profiles, workload.n_procs, workload.source, about), report


def _loaded(profile: dict[str, Any], speed_flops: float) -> dict[str, Any]:
    if profile["type"] != "delay":
        return profile
    others = {key: value for key, value in profile.items() if key not in {"type", "delay"}}
    return {**profile_of(profile["delay"], "parallel", speed_flops), **others}
