"""The bars of a Gantt chart: which work is lost, what is held, who is urgent, and what is told of it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from pybatsched.core.intervals import IntervalSet
from pybatsched.metrics import Outcome, joined
from pybatsched.metrics.outcomes import JobRecord
from pybatsched.report.bars import HELD, LEGEND, LOST, PLAIN, SUSPENDED, URGENT, Bar, bars_of, color_of, legend_of

SUCCESS, KILLED = "COMPLETED_SUCCESSFULLY", "COMPLETED_KILLED"


def row(name: str, begin: float, end: float, procs: str, note: str = "", state: str = SUCCESS) -> Outcome:
    where = IntervalSet.parse(procs)
    return Outcome(name, state, 0.0, begin, end - begin, len(where), note, where)


def job(*rows: Outcome, **fields: Any) -> JobRecord:
    (record,) = joined(rows, {"w0!j": fields})
    return record


def later(segment: int, begin: float, end: float, note: str = "", *, is_rest: bool, state: str = SUCCESS) -> Outcome:
    how = f"parent=w0!j;segment={segment};kind=requeue{';work=rest' if is_rest else ''}{note}"
    return row(f"dyn!w0.j.{segment}", begin, end, "0-5", how, state)


def test_a_suspended_job_an_urgent_one_and_what_was_held_for_both() -> None:
    regular = job(
        row("w0!j", 0, 10, "0-5", state=KILLED), later(1, 72, 162, ";by=w0!U;held_s=1", is_rest=True, state=SUCCESS)
    )
    urgent = job(row("w0!j", 11, 71, "0-4 6-7", "held_s=1"), urgent=True)
    assert bars_of([regular, urgent]) == [
        Bar(0, 10, 0, SUSPENDED, ((0, 6),), "suspended, preempted by w0!U"),
        Bar(10, 11, 1, HELD | URGENT, ((0, 5), (6, 8)), "held for 1 s"),
        Bar(11, 71, 1, URGENT, ((0, 5), (6, 8)), "held for 1 s before it started"),
        Bar(71, 72, 0, HELD, ((0, 6),), "held for 1 s"),
        Bar(72, 162, 0, PLAIN, ((0, 6),), "held for 1 s before it started"),
    ]


def test_what_was_killed_and_began_anew_is_lost() -> None:
    bars = bars_of(
        [job(row("w0!j", 0, 10, "0-5", state=KILLED), later(1, 70, 170, ";by=w0!U", is_rest=False, state=SUCCESS))]
    )
    assert [(bar.look, bar.note) for bar in bars] == [
        (LOST, "killed, preempted by w0!U; this work is lost"),
        (PLAIN, ""),
    ]


def test_what_was_suspended_before_a_kill_is_lost_as_well() -> None:
    parts = [
        later(1, 20, 30, is_rest=True, state=KILLED),
        later(2, 40, 50, is_rest=False, state=KILLED),
        later(3, 60, 65, ";by=w0!V", is_rest=True, state=KILLED),
        later(4, 70, 75, is_rest=True),
    ]
    record = job(row("w0!j", 0, 10, "0-5", state=KILLED), *parts)
    assert [(bar.look, bar.note) for bar in bars_of([record])] == [
        (LOST, "suspended; this work is lost"),
        (LOST, "killed; this work is lost"),
        (SUSPENDED, "suspended, preempted by w0!V"),
        (SUSPENDED, "suspended"),
        (PLAIN, ""),
    ]


def test_a_job_that_was_killed_for_good_keeps_its_colour() -> None:
    assert [bar.look for bar in bars_of([job(row("w0!j", 0, 10, "0", state=KILLED))])] == [PLAIN]


def test_seconds_are_told_as_they_are() -> None:
    told = [
        bars_of([job(row("w0!j", 5000, 5100, "0", f"held_s={held_s}"))])[0].note
        for held_s in ("0.000001", "1.374821", "60", "1200")
    ]
    assert told == ["held for 0.000001 s", "held for 1.374821 s", "held for 60 s", "held for 1,200 s"]


def test_the_legend_explains_what_is_there_and_nothing_more() -> None:
    def looks(*of_bars: int) -> list[int]:
        return list(legend_of([Bar(0, 1, 0, look, ()) for look in of_bars]))

    assert looks() == looks(PLAIN) == []
    assert looks(LOST, PLAIN) == [LOST]
    assert looks(URGENT, SUSPENDED, HELD) == [SUSPENDED, HELD, URGENT]
    assert looks(HELD | URGENT, URGENT) == [HELD, URGENT]
    assert looks(LOST | URGENT, SUSPENDED) == [SUSPENDED, LOST, URGENT]
    assert set(LEGEND) == {SUSPENDED, LOST, HELD, URGENT}


def test_neighbours_have_other_colours() -> None:
    assert sorted(color_of(number, 18) for number in range(18)) == list(range(18))
    assert all(abs(color_of(number, 18) - color_of(number + 1, 18)) > 1 for number in range(40))


@st.composite
def chains(draw: st.DrawFn) -> JobRecord:
    """A job of some segments, each of which goes on with the rest, or begins anew."""
    at, rows = 0, []
    n = draw(st.integers(1, 6))
    for k in range(n):
        held_s, span = draw(st.integers(0, 9)), draw(st.integers(1, 50))
        at += draw(st.integers(0, 20)) + held_s
        note = f";held_s={held_s}" if held_s else ""
        state = SUCCESS if k == n - 1 else KILLED
        if k:
            rows.append(later(k, at, at + span, note, is_rest=draw(st.booleans()), state=state))
        else:
            rows.append(row("w0!j", at, at + span, "0-5", note.removeprefix(";"), state))
        at += span
    return job(*rows)


@given(chains())
@examples(200)
def test_what_is_not_grey_is_the_run_time(record: JobRecord) -> None:
    """The colours say what the measures say: work that counts has the job's colour, and nothing else has."""
    bars = bars_of([record])
    assert sum(bar.end - bar.begin for bar in bars if bar.look in {PLAIN, SUSPENDED}) == record.runtime_s
    assert [bar.look for bar in bars if bar.look != HELD].count(PLAIN) == 1
    assert bars[-1].look == PLAIN
    held = [(bar.begin, bar.end) for bar in bars if bar.look == HELD]
    assert held == [(part.started_at - part.held_s, part.started_at) for part in record.segments if part.held_s]
