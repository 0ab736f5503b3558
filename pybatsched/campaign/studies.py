"""Read published studies, and judge each claim by the measured value (`pybatsched.campaign.measures`).

A study is a package with `campaign.toml`, `quick.toml` and `study.toml`. An entry point of the group
``pybatsched.studies`` names it.
"""

from __future__ import annotations

import math
import tomllib
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal
from importlib import metadata, resources
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from pybatsched import pydantic_errors
from pybatsched.campaign.measures import evaluate, selections
from pybatsched.campaign.spec import Spec, spec_of
from pybatsched.errors import InputError, quantity
from pybatsched.metrics.workload_fields import matches
from pybatsched.workload.names import parsed

if TYPE_CHECKING:
    import polars as pl

GROUP: Final = "pybatsched.studies"

Status = Literal["exact", "within noise", "trend only", "not reproducible", "variant"]


class Claim(BaseModel):
    """A published result: a number with a relative `tolerance` or an absolute one (`within`), or bounds.

    `below` and `above` are exclusive bounds, for trends; `least` and `most` are inclusive bounds, for ranges.
    A claim with the status "not reproducible" has a reason `why`; it is measured and never fails. A "variant" is a run
    of our own: it is measured beside a published number and has no verdict. Claims with the same `chart` are drawn
    together; without one, a published number is in the chart of its source. `decimals` is the number of decimals that
    were published.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    says: str
    source: str
    measured: str
    published: float | None = None
    tolerance: float = Field(default=0.0, ge=0)
    within: float = Field(default=0.0, ge=0)
    below: float | None = None
    above: float | None = None
    least: float | None = None
    most: float | None = None
    status: Status
    why: str = ""
    chart: str = ""
    decimals: int = 0

    @model_validator(mode="before")
    @classmethod
    def _with_decimals(cls, claim: dict[str, Any]) -> dict[str, Any]:
        exponent = Decimal(str(claim.get("published", 0))).as_tuple().exponent
        return {"decimals": -min(int(exponent), 0), **claim}

    @model_validator(mode="after")
    def _judgeable(self) -> Claim:
        if all(value is None for value in (self.published, self.below, self.above, self.least, self.most)):
            raise ValueError("expected published, below, above, least or most")
        if self.status == "not reproducible" and not self.why:
            raise ValueError("why: expected the reason why the claim is not reproducible")
        return self

    @property
    def expected(self) -> str:
        """The published value or bounds as short text."""
        if self.published is not None:
            allowed = f"{100 * self.tolerance:g}%" if self.tolerance else f"{Decimal(f'{self.within:g}'):f}"
            published = f"{self.published:.{self.decimals}f}"
            return f"{published} ± {allowed}" if self.tolerance or self.within else published
        signs = (("<", self.below), (">", self.above), ("≥", self.least), ("≤", self.most))
        if self.least is not None and self.most is not None:
            return f"{self.least:g} to {self.most:g}"
        return ", ".join(f"{sign} {bound:g}" for sign, bound in signs if bound is not None)


@dataclass(frozen=True, slots=True)
class Study:
    """A study: its claims and campaigns, each in a full and a quick version.

    `references` are what to cite for it: entries in BibTeX, or the names of policies, which have them.
    """

    name: str
    title: str
    about: str
    claims: tuple[Claim, ...]
    quick_claims: tuple[Claim, ...]
    campaign: Spec
    quick_campaign: Spec
    references: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a claim: the measured value (None: not measured), and whether the claim holds."""

    claim: Claim
    value: float | None
    holds: bool
    missing: tuple[str, ...] = ()

    @property
    def measured(self) -> str:
        """The measured value with the digits that were published; with more if these contradict the verdict."""
        if self.value is None:
            return "-"
        if self.claim.published is None:
            return f"{self.value:g}"
        text = f"{self.value:.{self.claim.decimals}f}"
        is_same = _is_within_bounds(self.claim, float(text)) == _is_within_bounds(self.claim, self.value)
        return text if is_same else f"{self.value:.10g}"

    @property
    def word(self) -> str:
        """The verdict in one to three words."""
        if self.missing:
            return "not measured"
        if self.claim.status in {"not reproducible", "variant"}:
            return self.claim.status
        return "holds" if self.holds else "DOES NOT HOLD"


@dataclass(frozen=True, slots=True)
class StudyOutcome:
    """The verdicts of a run of a study, how long it took, and on what."""

    study: Study
    is_quick: bool
    verdicts: tuple[Verdict, ...]
    wall_s: float
    n_cells: int
    machine: str

    @property
    def judged(self) -> list[Verdict]:
        """The verdicts on claims, without variants."""
        return [one for one in self.verdicts if one.claim.status != "variant"]

    @property
    def variants(self) -> list[Verdict]:
        """The variants of our own, which have no verdict."""
        return [one for one in self.verdicts if one.claim.status == "variant"]

    @property
    def counts(self) -> Counter[str]:
        """The number of claims with each verdict."""
        return Counter(one.word for one in self.judged)

    @property
    def sentence(self) -> str:
        """Whether the study holds, in one sentence with counts.

        A claim that cannot be reproduced, or was not measured, does not count against the study.
        """
        counts, n = self.counts, len(self.judged)
        n_left = n - counts["holds"] - counts["DOES NOT HOLD"]
        rest = [f"{quantity(counts[word], 'claim')} {words}" for word, words in _REST.items() if counts[word]]
        of = quantity(n, "claim")
        if counts["DOES NOT HOLD"]:
            text = f"Not confirmed: {counts['DOES NOT HOLD']:,} of {of} {_verb(counts['DOES NOT HOLD'])} not hold"
        elif not counts["holds"]:
            text = f"Not checked: none of {of} could be judged"
        elif n_left:
            text = f"Confirmed in part: {counts['holds']:,} of {of} hold"
        else:
            text = f"Confirmed: all {of} hold" if n > 1 else "Confirmed: the claim holds"
        return "; ".join([text, *rest]) + "."


#: The verdicts that are not about the claim, in words.
_REST: Final = {"not reproducible": "cannot be reproduced", "not measured": "not measured, because logs are missing"}


def _verb(n: int) -> str:
    return "does" if n == 1 else "do"


def names() -> list[str]:
    """Return the names of all installed studies."""
    return sorted(_installed())


def read_study(name: str) -> Study:
    """Read a study. Raises InputError with the names of all studies if the name is unknown."""
    installed = _installed()
    if name not in installed:
        raise InputError(f"unknown study {name!r:.60}; expected one of {', '.join(sorted(installed)) or 'none'}")
    package = installed[name].value
    try:
        folder = resources.files(package)
        texts = {file: folder.joinpath(file).read_text(encoding="utf-8") for file in _FILES}
    except (ImportError, OSError) as error:
        expected = f"expected a package with {', '.join(_FILES)} (in its package-data)"
        raise InputError(f"study {name} ({package}): {expected}: {error}") from None
    content = _parsed(texts["study.toml"], f"{name}/study.toml", parse_float=Decimal)
    campaigns = [spec_of(_parsed(texts[file], f"{name}/{file}"), f"{name}/{file}") for file in _FILES[:2]]
    if missing := [key for key in ("title", "about", "claim", "quick") if key not in content]:
        raise InputError(f"{name}/study.toml: expected {missing[0]}, found none")
    try:
        claims, quick = (tuple(Claim.model_validate(claim) for claim in content[key]) for key in ("claim", "quick"))
    except ValidationError as error:
        raise InputError("\n".join(f"study {name}: {line}" for line in pydantic_errors.lines(error, Claim))) from None
    cited = content.get("references", [])
    if not isinstance(cited, list) or not all(isinstance(one, str) for one in cited):
        raise InputError(f"{name}/study.toml: references: expected a list of texts, found {cited!r:.60}")
    about = content["about"].strip()
    return Study(name, content["title"], about, claims, quick, campaigns[0], campaigns[1], tuple(cited))


_FILES: Final = ("campaign.toml", "quick.toml", "study.toml")


def _installed() -> Mapping[str, EntryPoint]:
    return {entry.name: entry for entry in metadata.entry_points(group=GROUP)}


def _parsed(text: str, where: str, **options: Any) -> dict[str, Any]:
    try:
        return tomllib.loads(text, **options)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{where}: {error}") from None


def needed(claim: Claim, campaign: Spec) -> set[str]:
    """Return the names of the workloads of a campaign whose points a claim measures. O(workloads x policies)."""
    return {
        part.name
        for wanted in selections(claim.measured)
        for part in campaign.workload
        if all(_is_part_of(part.name, wanted[name]) for name in ("workload", "family") if name in wanted)
        and any(
            matches(policy.title, wanted.get("policy", "*"))
            for policy in campaign.policy
            if not policy.workloads or part.name in policy.workloads
        )
    }


def _is_part_of(family: str, pattern: str) -> bool:
    """Return whether a pattern may match a workload of this family, such as one of its weeks."""
    names = (family, f"{family}-week01")
    return any(matches(name, pattern) for name in names) or parsed(pattern, [family]).family == family


def judge(claim: Claim, table: pl.DataFrame, missing: Collection[str] = ()) -> Verdict:
    """Measure a claim on a campaign's table and judge it. `missing` are the workloads that it needs and are missing."""
    if missing:
        return Verdict(claim, None, holds=True, missing=tuple(missing))
    try:
        value = evaluate(claim.measured, table)
    except InputError as error:
        raise InputError(f"claim {claim.id}: {claim.measured}: {error}") from None
    is_free = claim.status in {"not reproducible", "variant"}
    if value is None or not math.isfinite(value):
        return Verdict(claim, None, holds=is_free)
    holds = is_free or _is_within_bounds(claim, value)
    return Verdict(claim, value, holds)


def _is_within_bounds(claim: Claim, value: float) -> bool:
    if claim.published is not None:
        allowed = max(claim.tolerance * abs(claim.published), claim.within) + 1e-12
        if abs(value - claim.published) > allowed:
            return False
    return (
        (claim.below is None or value < claim.below)
        and (claim.above is None or value > claim.above)
        and (claim.least is None or value >= claim.least)
        and (claim.most is None or value <= claim.most)
    )
