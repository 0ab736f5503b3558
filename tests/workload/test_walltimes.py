"""Estimates and walltimes: one table of all rules."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pybatsched.errors import InputError
from pybatsched.workload.walltimes import (
    OVERRAN,
    OVERRAN_STRICT,
    UNREQUESTED,
    UNREQUESTED_STRICT,
    Walltimes,
    rounded_up,
)


@pytest.mark.parametrize(
    ("rule", "run_s", "requested_s", "walltime_s", "estimate_s", "changed"),
    [
        ("exact", 60, 100, 61, 60, None),
        ("exact", 0.5, None, 1.5, 0.5, None),
        ("requested", 60, 100, 100, None, None),
        ("requested", 60, 60, 61, 60, OVERRAN),
        ("requested", 60, 50, 61, 50, OVERRAN),
        ("requested", 60, None, 61, 60, UNREQUESTED),
        ("requested-strict", 60, 100, 100, None, None),
        ("requested-strict", 60, 60, 60, None, OVERRAN_STRICT),
        ("requested-strict", 60, 50, 50, None, OVERRAN_STRICT),
        ("requested-strict", 60, None, None, None, UNREQUESTED_STRICT),
        ("factor:2", 60, 100, 120, None, None),
        ("factor:1", 60, None, 61, 60, None),
        ("factor:0.5", 60, None, 61, 30, None),
        ("factor:1.1", 3, None, 4, 3.3, None),
        ("round", 60, None, 300, None, None),
        ("round", 3599, None, 3600 + 0, 3600, None),
        ("none", 60, 100, None, None, None),
    ],
)
def test_walltime_and_estimate_of_each_rule(
    rule: str,
    run_s: float,
    requested_s: float | None,
    walltime_s: float | None,
    estimate_s: float | None,
    changed: str | None,
) -> None:
    assert tuple(Walltimes.parse(rule).of(run_s, requested_s)) == (walltime_s, estimate_s, changed)


@pytest.mark.parametrize(
    "text", ["", "exactly", "factor", "factor:", "factor:0", "factor:-1", "factor:x", "factor:nan"]
)
def test_other_rules_are_rejected(text: str) -> None:
    with pytest.raises(InputError, match="walltimes"):
        Walltimes.parse(text)


def test_factor_inf_and_colons(tmp_path: object) -> None:
    for text in ("factor:inf", "exact:2", "factor:F"):
        with pytest.raises(InputError, match="walltimes"):
            Walltimes.parse(text)


@pytest.mark.parametrize(
    ("run_s", "rounded_s"),
    [(1, 60), (60, 300), (61, 300), (3600, 5400), (86_400, 108_000), (259_200, 345_600), (400_000, 432_000)],
)
def test_run_times_are_rounded_up_to_usual_requests(run_s: float, rounded_s: float) -> None:
    assert rounded_up(run_s) == rounded_s


RULES = st.sampled_from(["exact", "requested", "factor:3", "factor:0.1", "factor:1", "round"])


@given(RULES, st.floats(0.001, 1e7), st.none() | st.floats(0.001, 1e7))
def test_every_walltime_exceeds_the_run_time(rule: str, run_s: float, requested_s: float | None) -> None:
    """All rules but the strict one let a job run as long as it did: its walltime is more than its run time."""
    walltime_s, estimate_s, _ = Walltimes.parse(rule).of(run_s, requested_s)
    assert walltime_s is not None
    assert walltime_s > run_s
    assert estimate_s is None or 0 < estimate_s <= walltime_s


@given(st.text(max_size=20))
def test_rules_are_read_or_rejected(text: str) -> None:
    try:
        rule = Walltimes.parse(text)
    except InputError:
        return
    assert Walltimes.parse(str(rule)).rule == rule.rule
