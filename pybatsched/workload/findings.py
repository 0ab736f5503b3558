"""What was found odd about a workload file: each finding with its count and the first places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pybatsched.workload.files import Format
from pybatsched.workload.report import PLACES_KEPT, Tally

Level = Literal["odd", "note"]


@dataclass(slots=True)
class Finding:
    """Something odd, or worth a note: how often, where first, and what a conversion does about it."""

    what: str
    remedy: str
    level: Level = "odd"
    count: int = 0
    places: list[int | str] = field(default_factory=list)

    def add(self, place: int | str) -> None:
        """Count a place."""
        self.count += 1
        if len(self.places) < PLACES_KEPT:
            self.places.append(place)


@dataclass(slots=True)
class Linted:
    """All findings about a file; `places` are lines of a log, or ids of the jobs in a Batsim file."""

    source: str
    format: Format
    n_jobs: int
    n_procs: int
    findings: dict[str, Finding] = field(default_factory=dict)

    def see(self, what: str, remedy: str, place: int | str, level: Level = "odd") -> None:
        """Count one place of a finding. O(1)."""
        finding = self.findings.get(what)
        if finding is None:
            finding = self.findings[what] = Finding(what, remedy, level)
        finding.add(place)

    def see_bad_lines(self, bad: Mapping[str, Tally]) -> None:
        """Take over what a lenient reading left out."""
        for rule, tally in bad.items():
            finding = Finding(f"bad line: {rule}", "an error, or dropped (--lenient)", "odd", tally.count)
            finding.places += tally.places
            self.findings[rule] = finding

    @property
    def is_odd(self) -> bool:
        """Whether there is more than notes."""
        return any(finding.level == "odd" for finding in self.findings.values())

    @property
    def where(self) -> str:
        """What places are."""
        return "job" if self.format == "Batsim JSON" else "line"

    def as_json(self) -> dict[str, Any]:
        """Give the findings for machines."""
        return {
            "version": 1,
            "file": self.source,
            "format": self.format,
            "jobs": self.n_jobs,
            "processors": self.n_procs,
            "odd": self.is_odd,
            "findings": [
                {
                    "level": finding.level,
                    "what": finding.what,
                    "count": finding.count,
                    f"first_{self.where}s": finding.places,
                    "remedy": finding.remedy,
                }
                for finding in self.findings.values()
            ],
        }
