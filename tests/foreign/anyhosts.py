"""pybatsim's own queue in order of submission, on any hosts: its schedFcfs without the wish for neighbouring ones.

pybatsim loads this file by its path; it runs in the environment of pybatsim.
"""

from __future__ import annotations

from typing import Any

from batsim.sched.algorithms.filling import filler_sched  # type: ignore[import-not-found]


def Anyhosts(scheduler: Any) -> None:  # noqa: N802  pybatsim derives the name from the file's
    filler_sched(scheduler, abort_on_first_nonfitting=True)
