"""What Batsim 5.0.0-rc2 does not survive in a workload that its format allows: left out, or told before a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from pybatsched.errors import InputError
from pybatsched.workload.checks import shown
from pybatsched.workload.model import Workload
from pybatsched.workload.prepare import used_profiles

_COMPUTING: Final = frozenset(("parallel", "parallel_homogeneous", "parallel_homogeneous_total"))


def without_unused(workload: Workload) -> Workload:
    """Leave out the profiles that no job uses, neither by itself nor as a part: 5.0.0-rc2 may end of one. O(size)."""
    profiles = used_profiles(workload.jobs, workload.profiles)
    return workload if len(profiles) == len(workload.profiles) else replace(workload, profiles=profiles)


def check_work(workload: Workload) -> None:
    """Raise InputError for a parallel task without any work: 5.0.0-rc2 ends when it begins one. O(profiles)."""
    for name, profile in workload.profiles.items():
        if profile["type"] in _COMPUTING and not any(map(_is_some, (profile.get("cpu", 0), profile.get("com", 0)))):
            raise InputError(
                f"{workload.source}: profile {shown(name)} computes and sends nothing; expected some work for Batsim 5 "
                "(its 5.0.0-rc2 ends when it begins such a job)"
            )


def _is_some(amounts: Any) -> bool:
    return any(amount > 0 for amount in amounts) if type(amounts) is list else amounts > 0


def check_names(workload: Workload, name: str) -> None:
    """Raise InputError for a profile that 5.0.0-rc2 does not find in a workload of a name such as w0. O(profiles).

    It takes the name of a profile with that name in it for a whole id. (With ids of jobs Batsim 4 does the same, and
    they are told when a workload is read.)
    """
    for one in workload.profiles:
        if name in one:
            raise InputError(
                f"{workload.source}: profile {shown(one)}: expected a name without {name!r} in it, which is what the "
                "workload is called in this run: Batsim 5 would not find it"
            )
