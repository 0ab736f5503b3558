"""Reports of conversions and checks: every dropped or changed job, and every finding, is counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pybatsched.errors import plain_setting, quantity, setting, spelled
from pybatsched.workload.formats.files import Format

#: Number of places that are kept for each rule. The count has no limit.
PLACES_KEPT: Final = 5

Fate = Literal["dropped", "changed", "noted"]


@dataclass(slots=True)
class RuleCount:
    """How often a rule applied, and the first places, which are lines or jobs, as `where` says."""

    rule: str
    fate: Fate
    count: int = 0
    where: str = "line"
    places: list[int | str] = field(default_factory=list)

    def add(self, place: int | str) -> None:
        """Count one more job. O(1)."""
        self.count += 1
        if len(self.places) < PLACES_KEPT:
            self.places.append(place)

    def add_all(self, places: Sequence[int | str]) -> None:
        """Count several jobs. O(1)."""
        self.count += len(places)
        self.places += places[: PLACES_KEPT - len(self.places)]

    def shown(self) -> str:
        """Return the count as text: count, rule and first places."""
        if not self.places:
            return f"{self.count:>9,}  {self.rule}"
        more = ", ..." if self.count > len(self.places) else ""
        plural = "s" if self.count > 1 else ""
        return f"{self.count:>9,}  {self.rule} ({self.where}{plural} {', '.join(map(str, self.places))}{more})"

    def as_json(self) -> dict[str, Any]:
        """Return the count for the file: count, fate and first places."""
        places = {"first_" + self.where + "s": list(self.places)} if self.places else {}
        return {"fate": self.fate, "count": self.count, **places}


@dataclass(slots=True)
class Report:
    """The result of a conversion: jobs read, jobs kept, and a count for each rule that applied.

    A job that is dropped is counted by exactly one rule, so `n_read == n_kept + n_dropped` always holds. Rules that
    change a job, or only note something about it, may count the same job more than once. `where` is what places are if
    a rule does not say so.
    """

    n_read: int = 0
    n_kept: int = 0
    rule_counts: dict[str, RuleCount] = field(default_factory=dict)
    where: str = "line"

    def count(self, fate: Fate, rule: str, place: int | str, where: str = "") -> None:
        """Count one job under a rule. O(1)."""
        rule_count = self.rule_counts.get(rule)
        if rule_count is None:
            rule_count = self.rule_counts[rule] = RuleCount(rule, fate, where=where or self.where)
        rule_count.add(place)

    def add(self, rule_counts: Iterable[RuleCount]) -> None:
        """Add rules that were counted for the whole log."""
        for rule_count in rule_counts:
            rule_count.where = self.where
            self.rule_counts[rule_count.rule] = rule_count

    def count_changed(self, rule: str, jobs: Sequence[int | str]) -> None:
        """Count jobs, by their ids, that a rule changed, as `count` does for each. O(1)."""
        if jobs:
            self.rule_counts.setdefault(rule, RuleCount(rule, "changed", where="job")).add_all(jobs)

    def note(self, rule: str) -> None:
        """Add a note that is not about a single job."""
        self.rule_counts[rule] = RuleCount(rule, "noted", 1)

    def of(self, fate: Fate) -> Iterator[RuleCount]:
        """Return the counts of one fate, in the order in which they first applied."""
        return (rule_count for rule_count in self.rule_counts.values() if rule_count.fate == fate)

    @property
    def n_dropped(self) -> int:
        """The number of jobs that were read and are not in the workload."""
        return sum(rule_count.count for rule_count in self.of("dropped"))

    def lines(self) -> list[str]:
        """Return the report as text, line by line."""
        text = [f"{quantity(self.n_read, 'job')} read, {self.n_kept:,} kept, {self.n_dropped:,} dropped"]
        for fate in ("dropped", "changed", "noted"):
            rule_counts = list(self.of(fate))
            if rule_counts:
                text += [f"{fate}:", *(rule_count.shown() for rule_count in rule_counts)]
        return text

    def as_json(self) -> dict[str, Any]:
        """Return the report as the member `report` of a workload file."""
        return {
            "read": self.n_read,
            "kept": self.n_kept,
            "dropped": self.n_dropped,
            "rules": {spelled(rule): rule_count.as_json() for rule, rule_count in self.rule_counts.items()},
        }


Level = Literal["odd", "note"]


@dataclass(slots=True)
class Finding:
    """A problem or a note: its count, its first places, and how a conversion handles it."""

    what: str
    remedy: str
    level: Level = "odd"
    count: int = 0
    places: list[int | str] = field(default_factory=list)

    def add(self, place: int | str) -> None:
        """Count one place."""
        self.count += 1
        if len(self.places) < PLACES_KEPT:
            self.places.append(place)


@dataclass(slots=True)
class LintReport:
    """All findings about a file; `places` are lines or rows of a log, or ids of the jobs in a Batsim file (`where`)."""

    source: str
    format: Format
    n_jobs: int
    n_procs: int
    findings: dict[str, Finding] = field(default_factory=dict)
    where: str = "line"

    def add(self, what: str, remedy: str, place: int | str, level: Level = "odd") -> None:
        """Count one place of a finding. O(1)."""
        finding = self.findings.get(what)
        if finding is None:
            finding = self.findings[what] = Finding(what, remedy, level)
        finding.add(place)

    def add_rule_count(self, rule_count: RuleCount, remedy: str, level: Level = "note") -> None:
        """Add a finding whose places have been counted already."""
        self.findings[rule_count.rule] = Finding(
            rule_count.rule, remedy, level, rule_count.count, list(rule_count.places)
        )

    def add_bad_lines(self, bad: Mapping[str, RuleCount]) -> None:
        """Add the lines that a lenient reading has skipped."""
        for rule, rule_count in bad.items():
            finding = Finding(
                f"bad {self.where}: {rule}", f"an error, or dropped ({setting('lenient')})", "odd", rule_count.count
            )
            finding.places += rule_count.places
            self.findings[rule] = finding

    @property
    def is_odd(self) -> bool:
        """Whether there are problems other than notes."""
        return any(finding.level == "odd" for finding in self.findings.values())

    def as_json(self, spelling: Callable[[str, str], str] = plain_setting) -> dict[str, Any]:
        """Return the findings as JSON, with settings in one spelling."""
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
                    "what": spelled(finding.what, spelling),
                    "count": finding.count,
                    f"first_{self.where}s": finding.places,
                    "remedy": spelled(finding.remedy, spelling),
                }
                for finding in self.findings.values()
            ],
        }
