"""A workload in memory, in the words of Batsim's own workload files.

Jobs and profiles stay plain dictionaries: Batsim forwards members it does not know, and so do we. What is read has
been checked once, when it was read (`formats.batsim4`, `formats.swf`), and is not checked again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pybatsched.errors import quantity


@dataclass(slots=True)
class Workload:
    """Jobs and profiles as a Batsim workload file holds them.

    `jobs` are in the file's order, each with `id` (text or integer), `subtime`, `res`, `profile` and whatever else the
    user put there; `n_procs` is the file's `nb_res`, the machine it was made for. `source` names the file in messages,
    and `about` keeps the file's other top-level members. `batsim` is the Batsim whose file it was read from, 4 or
    5, and 0 if there is none that says the same.
    """

    jobs: list[dict[str, Any]]
    profiles: dict[str, dict[str, Any]]
    n_procs: int
    source: str = ""
    about: dict[str, Any] = field(default_factory=dict)
    batsim: int = field(default=0, compare=False)

    @property
    def why_empty(self) -> str:
        """What became of its jobs if it has none: those that were dropped, by rule, as far as it is known."""
        report = self.about.get("report")
        rules = report.get("rules") if isinstance(report, dict) else None
        dropped = [
            f"{quantity(what['count'], 'job')}: {rule}"
            for rule, what in (rules.items() if isinstance(rules, dict) else ())
            if isinstance(what, dict) and what.get("fate") == "dropped" and isinstance(what.get("count"), int)
        ]
        return ", ".join(dropped) or "no jobs in it"
