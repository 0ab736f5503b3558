"""Figures of a run, by small examples that can be checked by hand."""

from __future__ import annotations

import pytest

from pybatsched.metrics import Outcome, Tally
from pybatsched.metrics.outcomes import lineage_of

SUCCESS, KILLED, REJECTED = "COMPLETED_SUCCESSFULLY", "COMPLETED_KILLED", "REJECTED"


def tally(*outcomes: Outcome, tau_s: float = 10.0) -> Tally:
    made = Tally(tau_s)
    for outcome in outcomes:
        made.add(outcome)
    return made


def test_waits_and_slowdowns() -> None:
    figures = tally(
        Outcome("w0!a", SUCCESS, 0.0, 0.0, 20.0, 2),
        Outcome("w0!b", SUCCESS, 5.0, 20.0, 5.0, 4),  # wait 15, (15 + 5) / max(5, 10)
        Outcome("w0!c", REJECTED, 6.0, -1.0, 0.0, 0),
    ).figures(4)
    assert figures.n_jobs == 3
    assert figures.n_by_state == {SUCCESS: 2, REJECTED: 1}
    assert (figures.mean_wait_s, figures.max_wait_s) == (7.5, 15.0)
    assert (figures.mean_bounded_slowdown, figures.max_bounded_slowdown) == (1.5, 2.0)
    assert figures.utilisation == (2 * 20 + 4 * 5) / (4 * 25)
    assert figures.makespan_s == 25.0


def test_a_requeued_job_counts_once() -> None:
    figures = tally(
        Outcome("w0!a", KILLED, 1.0, 2.0, 3.0, 1),
        Outcome("dyn!w0.a.1", KILLED, 5.0, 6.0, 2.0, 1, "parent=w0!a;segment=1;kind=requeue"),
        Outcome("dyn!w0.a.2", SUCCESS, 8.0, 11.0, 10.0, 1, "parent=w0!a;segment=2;kind=requeue"),
    ).figures(1)
    assert (figures.n_jobs, figures.n_by_state) == (1, {SUCCESS: 1})
    assert figures.mean_wait_s == 10.0
    assert figures.mean_bounded_slowdown == 2.0
    assert figures.utilisation == (3 + 2 + 10) / 20


def test_segments_may_come_in_any_order() -> None:
    last = Outcome("dyn!w0.a.2", SUCCESS, 8.0, 11.0, 10.0, 1, "parent=w0!a;segment=2;kind=requeue")
    middle = Outcome("dyn!w0.a.1", KILLED, 5.0, 6.0, 2.0, 1, "parent=w0!a;segment=1;kind=requeue")
    assert tally(last, middle).figures(1) == tally(middle, last).figures(1)


def test_a_replaced_job_is_not_counted_as_rejected() -> None:
    figures = tally(
        Outcome("w0!a", REJECTED, 1.0, -1.0, 0.0, 0, "replaced_by=dyn!w0.a.1;kind=replace"),
        Outcome("dyn!w0.a.1", SUCCESS, 1.0, 4.0, 10.0, 2, "parent=w0!a;segment=1;kind=replace"),
    ).figures(2)
    assert figures.n_by_state == {SUCCESS: 1}
    assert figures.mean_wait_s == 3.0


def test_an_unused_spare_job_is_not_counted() -> None:
    figures = tally(
        Outcome("w0!a", SUCCESS, 0.0, 0.0, 5.0, 1),
        Outcome("dyn!w0.a.1", REJECTED, 2.0, -1.0, 0.0, 0, "unused_spare_of=w0!a"),
    ).figures(1)
    assert figures.n_by_state == {SUCCESS: 1}


def test_figures_can_be_read_during_a_run() -> None:
    running = tally(Outcome("w0!a", KILLED, 0.0, 0.0, 5.0, 1))
    assert running.figures(1).n_by_state == {KILLED: 1}
    running.add(Outcome("dyn!w0.a.1", SUCCESS, 5.0, 5.0, 5.0, 1, "parent=w0!a;segment=1;kind=requeue"))
    assert running.figures(1).n_by_state == {SUCCESS: 1}


def test_without_jobs_there_are_no_figures() -> None:
    figures = tally().figures(4)
    assert figures.n_jobs == 0
    assert figures.mean_wait_s is figures.utilisation is figures.makespan_s is None


@pytest.mark.parametrize(
    ("text", "parent"), [("", None), ("note", None), ("a=b;parent=w0!1", "w0!1"), ("parents=w0!1", None)]
)
def test_lineage_is_read_from_metadata(text: str, parent: str | None) -> None:
    found = lineage_of(text)
    assert (found.parent if found is not None else None) == parent
