"""The energy of a run and its parts, as Batsim's files tell them: of the hosts that jobs held, and of all others."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pybatsched.errors import InputError

#: What parts are called, for people.
TITLES: Final = {
    "energy_j": "energy",
    "energy_jobs_j": "energy of hosts that jobs held",
    "energy_rest_j": "energy of hosts without jobs",
}
#: What rounding of many rows may come to.
_ROUNDING_J: Final = 1e-3
_J_IN_A_KWH: Final = 3.6e6


@dataclass(frozen=True, slots=True)
class Energy:
    """Joules from the first submission to the last end: of all hosts (Batsim's `consumed_joules`), and for the jobs.

    `jobs_j` is the sum of the `consumed_energy` of all jobs: what their hosts drew while they had them.
    """

    total_j: float
    jobs_j: float

    @property
    def rest_j(self) -> float | None:
        """What hosts without a job drew: idle, asleep or on the way. None where jobs shared hosts and count twice."""
        rest_j = round(self.total_j - self.jobs_j, 6)
        return None if rest_j < -_ROUNDING_J else max(rest_j, 0.0)

    def as_dict(self) -> dict[str, float | None]:
        """Give the parts by name, for JSON and tables."""
        return {"energy_j": self.total_j, "energy_jobs_j": self.jobs_j, "energy_rest_j": self.rest_j}


def told(joules: float | None) -> str:
    """Write an energy for people.

    >>> told(7.2e6), told(None)
    ('7,200,000 J (2 kWh)', '-')
    """
    return "-" if joules is None else f"{joules:,.0f} J ({joules / _J_IN_A_KWH:,.4g} kWh)"


def of_summary(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Give the parts that a summary tells by name; nothing of a run without energy."""
    found = summary.get("energy")
    return {name: found.get(name) for name in TITLES} if isinstance(found, dict) else {}


def read(jobs: Path, schedule: Path) -> Energy | None:
    """Read the energy of a run from its ``_jobs.csv`` and ``_schedule.csv``; None if it was not simulated. O(jobs).

    Raises InputError for what is no number.
    """
    joules = [value for value in _column(jobs, "consumed_energy") if value >= 0]  # -1 without energy
    total = next(_column(schedule, "consumed_joules"), None)
    return Energy(total, round(sum(joules), 6)) if joules and total is not None and math.isfinite(total) else None


def _column(path: Path, name: str) -> Iterator[float]:
    """Give the numbers of a column, of rows that have one; nothing where there is no such file or column."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            for row in rows:
                if text := row.get(name):
                    try:
                        yield float(text)
                    except ValueError:
                        raise InputError(
                            f"{path}, line {rows.line_num}: {name} is {text!r:.40}; expected a number"
                        ) from None
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
