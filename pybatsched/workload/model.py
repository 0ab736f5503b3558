"""A workload in memory, in the words of Batsim's own workload files.

Jobs and profiles stay plain dictionaries: Batsim forwards members it does not know, and so do we. What is read has
been checked once, at the border (`pybatsched.workload.batsim_json`, `pybatsched.workload.swf`); nobody checks again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Workload:
    """Jobs and profiles as a Batsim workload file holds them.

    `jobs` are in the file's order, each with `id` (text or integer), `subtime`, `res`, `profile` and whatever else the
    user put there; `n_procs` is the file's `nb_res`, the machine it was made for. `source` names the file in messages,
    and `about` keeps the file's other top-level members.
    """

    jobs: list[dict[str, Any]]
    profiles: dict[str, dict[str, Any]]
    n_procs: int
    source: str = ""
    about: dict[str, Any] = field(default_factory=dict)
