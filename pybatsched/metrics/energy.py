"""Read the energy of a run from Batsim's files: of the hosts that jobs held, and of all other hosts."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pybatsched.errors import InputError

#: Titles of the parts.
TITLES: Final = {
    "energy_j": "energy",
    "energy_jobs_j": "energy of hosts that jobs held",
    "energy_rest_j": "energy of hosts without jobs",
}
#: Largest sum of the rounding errors of many rows.
_ROUNDING_J: Final = 1e-3
_J_IN_A_KWH: Final = 3.6e6


@dataclass(frozen=True, slots=True)
class Energy:
    """Joules from the first submission to the last end: of all hosts, and of hosts while jobs held them."""

    total_j: float
    jobs_j: float

    @property
    def rest_j(self) -> float | None:
        """The energy of hosts without a job: idle, asleep or switching. None if jobs shared hosts."""
        rest_j = round(self.total_j - self.jobs_j, 6)
        return None if rest_j < -_ROUNDING_J else max(rest_j, 0.0)

    def as_dict(self) -> dict[str, float | None]:
        """Return the parts by name, for JSON and tables."""
        return {"energy_j": self.total_j, "energy_jobs_j": self.jobs_j, "energy_rest_j": self.rest_j}


def energy_text(joules: float | None) -> str:
    """Return an energy as text.

    >>> energy_text(7.2e6), energy_text(None)
    ('7,200,000 J (2 kWh)', '-')
    """
    return "-" if joules is None else f"{joules:,.0f} J ({joules / _J_IN_A_KWH:,.4g} kWh)"


def of_summary(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts in a summary by name; empty for a run without energy."""
    found = summary.get("energy")
    return {name: found.get(name) for name in TITLES} if isinstance(found, dict) else {}


def read(jobs: Path, schedule: Path) -> Energy | None:
    """Read the energy of a run from ``_jobs.csv`` and ``_schedule.csv``; None without. O(jobs). Raises InputError."""
    joules = [value for value in _column(jobs, "consumed_energy") if value >= 0]  # -1 without energy
    total = next(_column(schedule, "consumed_joules"), None)
    return Energy(total, round(sum(joules), 6)) if joules and total is not None and math.isfinite(total) else None


def _column(path: Path, name: str) -> Iterator[float]:
    """Yield the numbers of a column from the rows that have one. Yields nothing if the file or column is missing."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            for row in rows:
                if text := row.get(name):
                    try:
                        yield float(text)
                    except ValueError:
                        raise InputError(
                            f"{path}: line {rows.line_num}: {name} is {text!r:.40}; expected a number"
                        ) from None
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
