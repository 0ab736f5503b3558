"""The page of a study: one sentence, claims, charts of published and measured values, and variants apart."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pybatsched.campaign import studies
from pybatsched.campaign.studies import Claim, StudyOutcome, Verdict
from pybatsched.report import page, study as study_page


def verdict(status: str = "exact", *, value: float | None = 1.0, missing: tuple[str, ...] = (), **more: Any) -> Verdict:
    given = {"id": "c", "says": "s", "source": "Table 1", "measured": "mean(wait)", "published": 1, "why": "reason"}
    claim = Claim.model_validate({k: v for k, v in {**given, "status": status, **more}.items() if v is not None})
    holds = value == claim.published or status in {"not reproducible", "variant"}
    return Verdict(claim, value, holds=holds, missing=missing)


HOLDS, FAILS = verdict(), verdict(value=2.0)
LOST, MISSING = verdict("not reproducible", value=3.0), verdict(value=None, missing=("log",))
REST = "1 claim cannot be reproduced; 1 claim not measured, because logs are missing."
VARIANT = verdict("variant", value=4.0)


def outcome(*verdicts: Verdict) -> StudyOutcome:
    return StudyOutcome(studies.read_study("easy"), False, verdicts, 90.0, 7, "2 workers")


@pytest.mark.parametrize(
    ("verdicts", "sentence"),
    [
        ((HOLDS, HOLDS, VARIANT), "Confirmed: all 2 claims hold."),
        ((HOLDS,), "Confirmed: the claim holds."),
        ((HOLDS, LOST), "Confirmed in part: 1 of 2 claims hold; 1 claim cannot be reproduced."),
        (
            (HOLDS, HOLDS, LOST, MISSING),
            f"Confirmed in part: 2 of 4 claims hold; {REST}",
        ),
        ((HOLDS, FAILS), "Not confirmed: 1 of 2 claims does not hold."),
        ((MISSING, LOST), f"Not checked: none of 2 claims could be judged; {REST}"),
    ],
)
def test_one_sentence_says_whether_a_study_holds(verdicts: tuple[Verdict, ...], sentence: str) -> None:
    assert outcome(*verdicts).sentence == sentence


def test_variants_are_a_table_without_verdict() -> None:
    text = "\n".join(study_page.sections_of(outcome(HOLDS, LOST, VARIANT)))
    claims, variants = re.findall(r'<table class="claims".*?</table>', text, flags=re.DOTALL)
    assert claims.count("<tr>") == 1 + 2
    assert (">holds<" in claims, ">not reproducible<" in claims, "variant" in claims) == (True, True, False)
    assert 'id="variants"' in variants
    assert "<th>published for the original</th>" in variants
    assert "<td>4</td>" in variants
    assert "verdict" not in variants
    assert "<li>reason (2)</li>" in text
    assert "7 runs in 1.5 min on 2 workers." in text


def test_charts_have_claims_with_published_numbers_by_chart_or_source() -> None:
    rows = [
        verdict(chart="wait", says="FCFS: wait, in s"),
        verdict(chart="wait", says="EASY: wait, in s"),
        verdict(says="KTH: x, one"),
        verdict("not reproducible", value=3.0, says="KTH: x, two"),
        verdict(chart="alone"),
        verdict(published=None, below=2),
        MISSING,
        VARIANT,
    ]
    charts = study_page.charts_of(outcome(*rows))
    assert [(chart.title, list(chart.labels)) for chart in charts] == [
        ("wait", ["FCFS", "EASY"]),
        ("Table 1", ["one", "two"]),
    ]
    text = "".join(study_page.sections_of(outcome(*rows)))
    assert text.count("<svg ") == 2
    assert "<title>FCFS: wait, in s: published 1, measured 1, holds</title>" in text
    figure: Any = study_page.drawn(charts[1])
    (axes,) = figure.axes
    published, measured = axes.collections[-2:]
    assert [x for x, _ in published.get_offsets().tolist()] == [1.0, 1.0]
    assert [x for x, _ in measured.get_offsets().tolist()] == [1.0, 3.0]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["one", "two"]
    assert axes.get_xlim() == study_page.axis_of(charts[1])[:2]


@pytest.mark.parametrize(
    ("values", "is_log", "ends"),
    [([5.0, 50.0], False, (0.0, 52.0)), ([-10.0, -40.0], False, (-41.6, 0.0)), ([1.0, 100.0], True, (0.83, 120.2))],
)
def test_the_ends_of_axes(values: list[float], is_log: bool, ends: tuple[float, float]) -> None:
    assert study_page._ends(values, is_log=is_log) == pytest.approx(ends, rel=0.01)


def test_the_page_over_all_studies_has_a_line_for_each() -> None:
    lines = [study_page.summary_of(outcome(*own), "a/report.html") for own in ((HOLDS,), (HOLDS, LOST), (FAILS,))]
    assert [line["kind"] for line in lines] == ["holds", "partly", "fails"]
    text = page.of_studies(lines)
    assert text.count('<a href="a/report.html">easy</a>') == 3
    assert "Not confirmed: 1 of 1 claim does not hold." in text
    assert "1.5 min" in text
