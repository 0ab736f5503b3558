"""Compare policies by paired bootstrap: differences with intervals, and how sure it is that one is better.

A pair is the same figure of two policies on the same workload, platform, seed and repeat. The independent values are
the differences of the workloads (weeks, resamples), or of the shaken copies or seeds of a single workload; see
`grouped.unit_means`. The methods are those of scipy: `bootstrap` (BCa) for the interval, `permutation_test` for the
p-value, and `false_discovery_control` (Benjamini and Hochberg) for many comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pybatsched.errors import InputError
from pybatsched.metrics.compare.confidence import LEVEL
from pybatsched.metrics.compare.grouped import unit_means
from pybatsched.metrics.compare.paired import OTHER_JOBS, PAIRED_BY, ran_of
from pybatsched.metrics.figure_names import better_of, is_count

#: Number of random resamples of a bootstrap, and of random signs of a permutation test.
N_RESAMPLES: Final = 9_999
#: What the columns of a comparison mean, for tables and pages.
COLUMNS: Final = {
    "figure": "The compared figure.",
    "better": "The direction of better values; empty if neither is better.",
    "n": "The number of independent pairs: weeks or other workloads, else shaken copies, else seeds.",
    "mean": "The mean of the policy over these pairs.",
    "baseline": "The mean of the baseline over the same pairs.",
    "difference": "The mean of the policy minus that of the baseline; where lower is better, below 0 is better.",
    "low": "The lower end of the confidence interval of the difference.",
    "high": "The upper end; an interval that excludes 0 indicates a real difference.",
    "p_better": "The probability that the policy is better than the baseline, by the bootstrap; 0.5 favours neither.",
    "p": "The p-value of a permutation test: how often random signs give a difference as large.",
    "p_adjusted": "The same after the correction of Benjamini and Hochberg for all rows of the table.",
    "verdict": "better or worse if p_adjusted is below 1 minus the level of confidence, else undecided. There is no "
    "verdict, interval or probability if the policy and the baseline did not run the same jobs.",
}

Row = Mapping[str, Any]


class Comparison(NamedTuple):
    """A policy against a baseline in one figure (`COLUMNS`). With one pair there is no interval."""

    n: int
    mean: float
    baseline: float
    difference: float
    low: float | None = None
    high: float | None = None
    p_better: float | None = None
    p: float | None = None


def compare(
    pairs: Sequence[tuple[float, float]], better: str = "lower", *, level: float = LEVEL, seed: int = 0
) -> Comparison:
    """Compare independent pairs (policy, baseline); `better` is lower, higher or empty. O(pairs · resamples)."""
    if not 0 < level < 1:
        raise InputError(f"confidence level {level:g}: expected a number between 0 and 1, such as {LEVEL:g}")
    if not pairs:
        raise InputError("comparison: expected at least one pair of runs, found none")
    if not all(math.isfinite(value) for pair in pairs for value in pair):
        raise InputError(
            "comparison: expected finite values, found NaN or infinity; leave out the pairs with such values"
        )
    numpy, stats = _scipy()
    first, second = numpy.array(pairs, dtype=float).T
    found = first - second
    mean, base = math.fsum(first) / len(pairs), math.fsum(second) / len(pairs)
    difference = math.fsum(found) / len(pairs)
    if len(pairs) == 1:
        return Comparison(1, mean, base, difference)
    sign = {"lower": -1.0, "higher": 1.0}.get(better, 0.0)
    if not numpy.ptp(found):  # all differences are equal: scipy has no interval for them
        p_better = float(1 + numpy.sign(sign * difference)) / 2 if sign else None
        p = 0.5 ** (len(pairs) - 1) if difference else 1.0
        return Comparison(len(pairs), mean, base, difference, difference, difference, p_better, p)
    how = {"n_resamples": N_RESAMPLES, "rng": numpy.random.default_rng(seed), "vectorized": True}
    result = stats.bootstrap((found,), numpy.mean, confidence_level=level, method="BCa", **how)
    low, high = map(float, result.confidence_interval)
    drawn = result.bootstrap_distribution
    if math.isnan(low) or math.isnan(high):
        low, high = (float(numpy.quantile(drawn, share)) for share in ((1 - level) / 2, (1 + level) / 2))
    p_better = float(numpy.mean(sign * drawn > 0) + numpy.mean(drawn == 0) / 2) if sign else None
    p = float(stats.permutation_test((found,), numpy.mean, permutation_type="samples", **how).pvalue)
    return Comparison(len(pairs), mean, base, difference, low, high, p_better, p)


def adjusted(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p-values after the correction of Benjamini and Hochberg; None stays None. O(n log n)."""
    _, stats = _scipy()
    known = [p for p in p_values if p is not None]
    made = iter(map(float, stats.false_discovery_control(known)) if known else ())
    return [None if p is None else next(made) for p in p_values]


def _verdict(row: Row, level: float) -> str:
    if not row["better"]:
        return ""
    if row["p_adjusted"] is None or row["p_adjusted"] >= 1 - level:
        return "undecided"
    return "better" if (row["difference"] < 0) == (row["better"] == "lower") else "worse"


def against(
    rows: Sequence[Row],
    is_baseline: Callable[[Row], bool],
    by: Sequence[str],
    figures: Sequence[str],
    *,
    level: float = LEVEL,
) -> list[dict[str, Any]]:
    """Compare the groups of runs with a baseline, in the order of their first runs. O(groups · figures · resamples).

    A row is a run with its figures; groups differ in the columns `by`. The result has a row for each group and figure:
    the columns `by`, and those of `COLUMNS`. Pairs without a finite value are left out. A baseline without a seed is
    compared with all seeds. There is no verdict if a run and its partner did not run the same jobs. Raises
    InputError if there is no pair, and if the baseline has several settings.
    """
    base: dict[tuple[Any, ...], Row] = {}
    for row in filter(is_baseline, rows):
        first = base.setdefault(_key(row), row)
        if first.get("options") != row.get("options"):
            raise InputError(
                f"baseline {row.get('policy')}: expected one setting on {row.get('workload')}, found several; give "
                "each setting a [[policy]] with a label of its own"
            )
    groups: dict[tuple[Any, ...], dict[tuple[Any, ...], tuple[Row, Row]]] = {}
    for row in rows:
        partner = base.get(_key(row)) or base.get(_key(row, seed=None))
        if not is_baseline(row) and partner is not None:
            own = groups.setdefault(tuple(row.get(name) for name in by), {})
            runs = (row.get("address", len(own)), partner.get("address", len(own)))
            own.setdefault(runs, (row, partner))  # pairs of the same two runs count once
    if not groups:
        raise InputError("expected runs of another policy on the workloads, platforms and seeds of the baseline")
    found = []
    for names, own in groups.items():
        have_other_jobs = any(ran_of(run).differs(ran_of(partner)) for run, partner in own.values())
        for figure in figures:
            pairs = _unit_pairs(list(own.values()), figure)
            if pairs:
                made = compare(pairs, better_of(figure), level=level)
                verdict = OTHER_JOBS if have_other_jobs and not is_count(figure) else ""
                if verdict:
                    made = Comparison(*made[:4])
                head = {**dict(zip(by, names, strict=True)), "figure": figure, "better": better_of(figure)}
                found.append({**head, **made._asdict(), "p_adjusted": None, "verdict": verdict})
    for row, p in zip(found, adjusted([row["p"] for row in found]), strict=True):
        row["p_adjusted"] = p
        row["verdict"] = row["verdict"] or _verdict(row, level)
    return found


def _key(row: Row, **others: Any) -> tuple[Any, ...]:
    changed = {**row, **others}
    return tuple(changed.get(name) for name in PAIRED_BY)


def _unit_pairs(own: Sequence[tuple[Row, Row]], figure: str) -> list[tuple[float, float]]:
    """Return the means of a figure over the pairs of each independent unit, without those that are not finite."""
    known = [pair for pair in own if all(row.get(figure) is not None and math.isfinite(row[figure]) for row in pair)]
    first = unit_means([a for a, _ in known], figure)
    second = unit_means([{**a, figure: b[figure]} for a, b in known], figure)
    return [(value, second[unit]) for unit, value in first.items()]


def _scipy() -> tuple[Any, Any]:
    """Import numpy and scipy's statistics, an extra. Raises InputError."""
    try:
        import numpy  # noqa: ICN001, PLC0415  an extra, slow to import
        from scipy import stats  # noqa: PLC0415
    except ImportError:
        raise InputError.not_installed("comparisons need scipy", "compare") from None
    return numpy, stats
