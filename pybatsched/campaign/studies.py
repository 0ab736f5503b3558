"""Studies: what was published, what is measured, and a verdict on each claim.

A claim's `measured` is an expression over the points of the campaign's table, see `pybatsched.campaign.measures`.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from pybatsched.campaign.measures import evaluate
from pybatsched.campaign.spec import Spec, spec_of
from pybatsched.errors import InputError

if TYPE_CHECKING:
    import polars as pl

Status = Literal["exact", "within noise", "trend only", "not reproducible"]


class Claim(BaseModel):
    """Something that was published: a number with a relative `tolerance` or an absolute one (`within`), or bounds.

    `below` and `above` are bounds that must not be met, for trends; `least` and `most` may be, for ranges.
    A claim of the status "not reproducible" says `why`, is measured all the same, and never fails. `needs` is the
    workload, optional in the campaign, without which nothing can be measured and nothing fails.
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
    needs: str = ""

    @model_validator(mode="after")
    def _judgeable(self) -> Claim:
        if all(value is None for value in (self.published, self.below, self.above, self.least, self.most)):
            raise ValueError("expected published, below, above, least or most")
        if self.status == "not reproducible" and not self.why:
            raise ValueError("expected why it is not reproducible")
        return self

    @property
    def expected(self) -> str:
        """What was published, in a few characters."""
        if self.published is not None:
            allowed = f"{100 * self.tolerance:g}%" if self.tolerance else f"{self.within:g}"
            return f"{self.published:g} ± {allowed}" if self.tolerance or self.within else f"{self.published:g}"
        signs = (("<", self.below), (">", self.above), ("≥", self.least), ("≤", self.most))
        if self.least is not None and self.most is not None:
            return f"{self.least:g} to {self.most:g}"
        return ", ".join(f"{sign} {bound:g}" for sign, bound in signs if bound is not None)


@dataclass(frozen=True, slots=True)
class Study:
    """A study: its claims and campaigns, in full and quick."""

    name: str
    title: str
    about: str
    claims: tuple[Claim, ...]
    quick_claims: tuple[Claim, ...]
    campaign: Spec
    quick_campaign: Spec


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a claim: the measured value (None if nothing was measured), and whether it holds.

    It is `lacking` where the log that it needs is not at hand; that is no failure.
    """

    claim: Claim
    value: float | None
    holds: bool
    lacking: bool = False

    @property
    def word(self) -> str:
        """Say it in a word or two."""
        if self.claim.status == "not reproducible":
            return "not reproducible"
        if self.lacking:
            return "not measured"
        return "holds" if self.holds else "DOES NOT HOLD"


def names() -> list[str]:
    """Give the names of all studies."""
    return sorted(part.name for part in _folder().iterdir() if part.joinpath("study.toml").is_file())


def read_study(name: str) -> Study:
    """Read a study. Raises InputError that lists those there are."""
    if name not in names():
        raise InputError(f"there is no study {name!r:.60}; expected one of {', '.join(names())}")
    folder = _folder().joinpath(name)
    content = tomllib.loads(folder.joinpath("study.toml").read_text(encoding="utf-8"))
    campaigns = [
        spec_of(tomllib.loads(folder.joinpath(file).read_text(encoding="utf-8")), f"{name}/{file}")
        for file in ("campaign.toml", "quick.toml")
    ]
    try:
        claims, quick = (tuple(Claim.model_validate(claim) for claim in content[key]) for key in ("claim", "quick"))
    except ValidationError as error:
        raise InputError(f"study {name}: {error.errors()[0]['loc']}: {error.errors()[0]['msg']}") from None
    return Study(name, content["title"], content["about"].strip(), claims, quick, campaigns[0], campaigns[1])


def _folder() -> Traversable:
    return resources.files("pybatsched.campaign.papers")


def judge(claim: Claim, table: pl.DataFrame, left_out: Collection[str] = ()) -> Verdict:
    """Measure a claim on a campaign's table, from which some optional workloads were left out, and judge it."""
    if claim.needs in left_out:
        return Verdict(claim, None, holds=True, lacking=True)
    try:
        value = evaluate(claim.measured, table)
    except InputError as error:
        raise InputError(f"claim {claim.id}: {claim.measured}: {error}") from None
    if value is None or not math.isfinite(value):
        return Verdict(claim, None, holds=claim.status == "not reproducible")
    holds = claim.status == "not reproducible" or _is_so(claim, value)
    return Verdict(claim, value, holds)


def _is_so(claim: Claim, value: float) -> bool:
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
