"""The bars of a Gantt chart: lost work, held processors, urgent jobs, and their notes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given, strategies as st
from support import file_loads
from support.examples import examples

from pybatsched.core.intervals import IntervalSet
from pybatsched.metrics import Outcome, joined
from pybatsched.metrics.outcomes import JobRecord
from pybatsched.metrics.saved_runs import read_run
from pybatsched.report.gantt.bars import (
    HELD,
    LEGEND,
    LOAD,
    LOST,
    PLAIN,
    SUSPENDED,
    URGENT,
    Bar,
    bars_of,
    color_of,
    legend_of,
)

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


def test_work_before_a_restart_from_scratch_is_lost() -> None:
    bars = bars_of(
        [job(row("w0!j", 0, 10, "0-5", state=KILLED), later(1, 70, 170, ";by=w0!U", is_rest=False, state=SUCCESS))]
    )
    assert [(bar.look, bar.note) for bar in bars] == [
        (LOST, "killed, preempted by w0!U; this work is lost"),
        (PLAIN, ""),
    ]


def test_what_a_checkpoint_has_kept_is_not_lost() -> None:
    """A checkpoint of 5 s after every 50 s of work: at 120 s, 10 s are lost. A read takes 2 s."""
    record = job(
        row("w0!j", 0, 120, "0-5", state=KILLED),
        later(1, 130, 133, ";kept_s=110;extra_s=2", is_rest=False, state=KILLED),
        later(2, 140, 200, ";kept_s=110;extra_s=2", is_rest=False, state=KILLED),
        later(3, 210, 262, ";kept_s=165;extra_s=2", is_rest=False),
    )
    assert [(bar.begin, bar.end, bar.look, bar.note) for bar in bars_of([record])] == [
        (0, 110, PLAIN, "110 s kept by a checkpoint"),
        (110, 120, LOST, "killed; this work is lost"),
        (130, 133, LOST, "killed; this work is lost"),
        (140, 142, LOAD, "2 s before its work"),
        (142, 197, PLAIN, "55 s kept by a checkpoint"),
        (197, 200, LOST, "killed; this work is lost"),
        (210, 212, LOAD, "2 s before its work"),
        (212, 262, PLAIN, ""),
    ]


def test_a_job_that_starts_anew_loses_its_checkpoints() -> None:
    record = job(
        row("w0!j", 0, 120, "0-5", state=KILLED),
        later(1, 130, 150, ";kept_s=110;extra_s=2", is_rest=False, state=KILLED),
        later(2, 160, 300, is_rest=False),
    )
    assert [(bar.begin, bar.look) for bar in bars_of([record])] == [(0, LOST), (130, LOST), (160, PLAIN)]


def test_suspended_work_before_a_kill_is_lost() -> None:
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


def test_a_load_is_the_beginning_of_its_job(tmp_path: Path) -> None:
    run = read_run(str(file_loads.simulated(tmp_path)))
    bars = bars_of([record for record in run.records if record.ran])
    numbers = {record.id: number for number, record in enumerate(run.records)}
    a, b, c, d = (numbers[f"w0!{name}"] for name in "abcd")
    there = f"file {file_loads.GENOME.replace('=', '-')} on node 0"
    late = f"{there}: reused after 30 s of its load by another job"
    assert bars == [
        Bar(0, 60, a, LOAD, ((0, 8),), f"{there}: loaded in 60 s"),
        Bar(30, 60, b, LOAD, ((8, 16),), late),
        Bar(60, 260, a, PLAIN, ((0, 8),), f"{there}: loaded in 60 s"),
        Bar(60, 260, b, PLAIN, ((8, 16),), late),
        Bar(130, 230, d, LOAD, ((20, 40),), "file other on node 1: loaded in 120 s"),  # killed before its work
        Bar(130, 330, c, PLAIN, ((16, 20),), f"{there}: reused"),
    ]


def test_a_load_before_resumed_work_is_drawn_and_lost_with_it() -> None:
    record = job(
        row("w0!j", 0, 10, "0-5", state=KILLED),
        later(1, 20, 30, ";extra_s=4", is_rest=False, state=KILLED),
        later(2, 40, 50, ";extra_s=2.5", is_rest=True, state=SUCCESS),
    )
    assert [(bar.begin, bar.end, bar.look, bar.note) for bar in bars_of([record])] == [
        (0, 10, LOST, "killed; this work is lost"),
        (20, 24, LOAD, "suspended"),
        (24, 30, SUSPENDED, "suspended"),
        (40, 42.5, LOAD, "2.5 s before its work"),
        (42.5, 50, PLAIN, ""),
    ]
    lost = job(
        row("w0!j", 0, 1, "0", state="REJECTED"),
        later(1, 20, 30, ";extra_s=4", is_rest=False, state=KILLED),
        later(2, 40, 50, is_rest=False),
    )
    assert [(bar.begin, bar.end, bar.look) for bar in bars_of([lost])] == [(20, 30, LOST), (40, 50, PLAIN)]


def test_input_files_are_shown_only_if_known() -> None:
    notes = ("load_s=3;reused=0", "input=", "xinput=file 1", "input=file 1 on node 2", "load_s=0;input=f;reused=1")
    shown = [bars_of([job(row("w0!j", 0, 10, "0", note))])[0].note for note in notes]
    assert shown == ["", "", "", "file 1 on node 2: reused", "f: reused"]


def test_seconds_are_shown_unchanged() -> None:
    notes = [
        bars_of([job(row("w0!j", 5000, 5100, "0", f"held_s={held_s}"))])[0].note
        for held_s in ("0.000001", "1.374821", "60", "1200")
    ]
    assert notes == ["held for 0.000001 s", "held for 1.374821 s", "held for 60 s", "held for 1,200 s"]


def test_the_legend_lists_only_the_looks_that_occur() -> None:
    def looks(*of_bars: int) -> list[int]:
        return list(legend_of(of_bars))

    assert looks() == looks(PLAIN) == []
    assert looks(LOST, PLAIN) == [LOST]
    assert looks(URGENT, SUSPENDED, HELD) == [SUSPENDED, HELD, URGENT]
    assert looks(HELD | URGENT, URGENT) == [HELD, URGENT]
    assert looks(LOST | URGENT, SUSPENDED) == [SUSPENDED, LOST, URGENT]
    assert looks(LOAD | URGENT, HELD) == [HELD, LOAD, URGENT]
    assert set(LEGEND) == {SUSPENDED, LOST, HELD, LOAD, URGENT}


def test_neighbouring_jobs_have_different_colours() -> None:
    assert sorted(color_of(number, 18) for number in range(18)) == list(range(18))
    assert all(abs(color_of(number, 18) - color_of(number + 1, 18)) > 1 for number in range(40))


@st.composite
def chains(draw: st.DrawFn) -> JobRecord:
    """A job of some segments, each of which continues the rest, or restarts from scratch."""
    at, rows = 0, []
    n = draw(st.integers(1, 6))
    for k in range(n):
        held_s, span = draw(st.integers(0, 9)), draw(st.integers(1, 50))
        at += draw(st.integers(0, 20)) + held_s
        note = f";held_s={held_s}" if held_s else ""
        state = SUCCESS if k == n - 1 else KILLED
        if k:
            extra_s = draw(st.integers(0, 60))  # may be more than there was time for
            note += f";extra_s={extra_s}" if extra_s else ""
            rows.append(later(k, at, at + span, note, is_rest=draw(st.booleans()), state=state))
        else:
            rows.append(row("w0!j", at, at + span, "0-5", note.removeprefix(";"), state))
        at += span
    return job(*rows)


@given(chains())
@examples(200)
def test_bars_that_are_not_grey_add_up_to_the_run_time(record: JobRecord) -> None:
    """Colours agree with the measures: only work that counts has the job's colour."""
    bars = bars_of([record])
    assert sum(bar.end - bar.begin for bar in bars if bar.look in {PLAIN, SUSPENDED}) == record.runtime_s
    assert [bar.look for bar in bars].count(PLAIN) == (bars[-1].look == PLAIN)
    assert bars[-1].look in {PLAIN, LOAD}
    drawn = [bar for bar in bars if bar.look != HELD]
    assert sum(bar.end - bar.begin for bar in drawn) == sum(part.runtime_s for part in record.segments)
    assert all(bar.begin < bar.end for bar in bars)
    held = [(bar.begin, bar.end) for bar in bars if bar.look == HELD]
    assert held == [(part.started_at - part.held_s, part.started_at) for part in record.segments if part.held_s]
