"""The rules of the program RLScheduler: by hand, against a model of the program, and on the four logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from support.places import TRACES
from support.rlscheduler_twin import TwinJob, draw_starts, mean_bounded_slowdown, program_starts, read_log

from pybatsched.errors import InputError
from pybatsched.policies import registry
from pybatsched.testing import Workload, run_policy
from pybatsched.workload import load
from pybatsched.workload.prepare import select
from pybatsched.workload.selection import Selection
from pybatsched_studies.orders.sequences import SequenceStarts, sequences

ORDERS = ("fcfs", "wfp3", "unicep", "sjf", "f1")

#: A row of Table V: without and with backfilling, each in the order of `ORDERS`.
SDSC_SP2 = ((1727.54, 3000.88, 1848.45, 2680.55, 1232.06), (1595.12, 1083.12, 548.01, 2167.84, 1098.22))


def workload(jobs: list[TwinJob]) -> Workload:
    made = Workload()
    for job in jobs:
        fields: dict[str, Any] = {} if job.requested_s < 0 else {"estimate": job.requested_s}
        made.job(job.number, n=job.n, s=job.run_s, at=job.submitted_at, **fields)
    return made


def starts(jobs: list[TwinJob], n_procs: int, **options: Any) -> dict[int, float | None]:
    run = run_policy("published_rlscheduler", workload(jobs), n_procs, **options)
    return {int(job.id.removeprefix("w0!")): job.started_at for job in run.jobs.values()}


def test_the_committed_job_stays_first() -> None:
    """Job 2 is committed at 1 s. Job 3 is shorter, but it comes later. In `fcfs` with this order it starts at 10 s."""
    jobs = [TwinJob(1, 0, 10, 4, 10), TwinJob(2, 1, 20, 4, 20), TwinJob(3, 2, 5, 4, 5)]
    assert starts(jobs, 4, order="sjf") == {1: 0, 2: 10, 3: 30}
    run = run_policy("fcfs", workload(jobs), 4, order="sjf")
    assert [job.started_at for job in run.jobs.values()] == [0, 15, 10]


def test_backfilling_is_strict_and_has_no_extra_processors() -> None:
    """Job 1 should end at 10 s, when job 2 needs three of four processors.

    Job 3 would end at 10 s, which is not before the shadow time. Job 4 would use the extra processor. Only job 5 ends
    before 10 s.
    """
    jobs = [
        TwinJob(1, 0, 10, 3, 10),
        TwinJob(2, 1, 5, 3, 5),
        TwinJob(3, 2, 8, 1, 8),
        TwinJob(4, 2, 50, 1, 50),
        TwinJob(5, 2, 7, 1, 7),
    ]
    assert starts(jobs, 4, backfilling=True) == {1: 0, 2: 10, 3: 10, 4: 15, 5: 2}
    assert starts(jobs, 4) == {1: 0, 2: 10, 3: 10, 4: 15, 5: 15}


@pytest.mark.parametrize(
    ("options", "jobs", "expected"),
    [
        # The shadow time is computed once. Job 1 ends at 4 s instead of 10 s, so job 2 waits for job 3, until 8 s. The
        # shadow time stays 12 s, as planned at 1 s: job 4 starts at 4 s, although it delays job 2.
        ({"backfilling": True}, [(1, 0, 4, 2, 10), (3, 0, 8, 1, 12), (2, 1, 5, 4, 5), (4, 2, 7, 2, 7)],
         {1: 0, 3: 0, 2: 11, 4: 4}),
        # Submissions come before the ends of an instant: at 10 s job 3 comes while job 1 still runs there. Job 2 waits,
        # and job 3 is backfilled on the last processor.
        ({"backfilling": True}, [(1, 0, 10, 3, 30), (2, 1, 5, 4, 5), (3, 10, 5, 1, 5)], {1: 0, 2: 15, 3: 10}),
        # A job without an estimate has a requested time of -1.
        ({"order": "sjf"}, [(1, 0, 10, 4, 10), (2, 1, 5, 4, 1), (3, 2, 5, 4, 3), (4, 3, 10, 4, -1)],
         {1: 0, 2: 10, 4: 15, 3: 25}),
    ],
)  # fmt: skip
def test_starts_worked_out_by_hand(options: dict[str, Any], jobs: list[Any], expected: dict[int, float]) -> None:
    assert starts([TwinJob(*job) for job in jobs], 4, **options) == expected


def test_waits_of_the_program() -> None:
    """At 101 s jobs 2 and 3 have waited for 81 s and 11 s: 81 / 50 is more than 11 / 300, so job 2 is first.

    The program has waits of -21 s and -91 s: -(-21 / 50)^3 is more than -(-91 / 300)^3, so job 3 is first.
    """
    jobs = [TwinJob(1, 0, 100, 4, 100), TwinJob(5, 1, 1, 4, 1), TwinJob(2, 20, 50, 4, 50), TwinJob(3, 90, 300, 4, 300)]
    assert starts(jobs, 4, order="wfp3", waits="real") == {1: 0, 5: 100, 2: 101, 3: 151}
    assert starts(jobs, 4, order="wfp3") == {1: 0, 5: 100, 3: 101, 2: 401}


@st.composite
def crowds(draw: st.DrawFn) -> list[TwinJob]:
    """Few processors, and small whole times with many events of one instant."""
    at, jobs = draw(st.integers(0, 3)), []
    for number in range(11, draw(st.integers(11, 24)) + 1):  # Batsim sorts jobs of one instant by their ids as texts
        at += draw(st.sampled_from([0, 0, 0, 1, 1, 2, 5]))
        run_s = draw(st.integers(1, 6))
        requested_s = draw(st.sampled_from([-1, 1, 2, 3, 4, 5, 6, 8, 10]))
        jobs.append(TwinJob(number, at, run_s, draw(st.integers(1, 4)), requested_s))
    return jobs


@settings(max_examples=150)
@given(crowds(), st.sampled_from(ORDERS), st.booleans(), st.booleans())
def test_starts_are_those_of_the_program(jobs: list[TwinJob], order: str, backfilling: bool, real: bool) -> None:
    waits = "real" if real else "program"
    found = starts(jobs, 4, order=order, backfilling=backfilling, waits=waits)
    assert found == program_starts(jobs, 4, order, backfilling=backfilling, real_waits=real)


@pytest.mark.parametrize(
    ("n_jobs", "length", "seed"), [(10_000, 1024, 1), (10_000, 1024, 7), (3000, 256, 0), (34, 16, 3)]
)
def test_sequences_are_drawn_as_by_numpy(n_jobs: int, length: int, seed: int) -> None:
    drawn = SequenceStarts(n_jobs, length, seed)
    assert [drawn.draw() for _ in range(40)] == draw_starts(n_jobs, length, 40, seed)


def test_too_few_jobs_for_a_sequence() -> None:
    with pytest.raises(InputError, match="sequences of 16 jobs: expected at least 34 jobs to draw them from, found 33"):
        SequenceStarts(33, 16, 1)


def test_options_are_checked() -> None:
    source = registry.find("published_rlscheduler")
    with pytest.raises(InputError, match="option order"):
        registry.PolicyPlan(source, {"order": "laf"}).options_for(None)


def sdsc_sp2() -> Path:
    log = TRACES / "SDSC-SP2-1998-4.2-cln.swf.gz"
    if not log.exists():
        pytest.skip(f"{log} is missing")
    return log


@pytest.mark.parametrize("backfilling", [False, True])
def test_a_published_sequence_job_by_job(backfilling: bool) -> None:
    """The third sequence has job 5057, of which neither run time nor requested time is known."""
    whole = load(sdsc_sp2(), size="larger", unknown_runtime_s=10)
    (_, _, sequence) = sequences(select(whole, Selection(max_jobs=10_000))[0], 1, 3, 1024)
    jobs = read_log(sdsc_sp2())[4299 : 4299 + 1024]
    assert [job["id"] for job in sequence.jobs] == [job.number for job in jobs]
    assert {job.requested_s for job in jobs if job.number == 5057} == {-1}
    made = Workload.from_json({"jobs": sequence.jobs, "profiles": sequence.profiles})
    run = run_policy("published_rlscheduler", made, 128, order="unicep", backfilling=backfilling)
    found = {int(job.id.removeprefix("w0!")): job.started_at for job in run.jobs.values()}
    assert found == program_starts(jobs, 128, "unicep", backfilling=backfilling)


@pytest.mark.long
@pytest.mark.parametrize("backfilling", [False, True])
@pytest.mark.parametrize("order", ORDERS)
def test_the_model_gives_the_published_numbers(order: str, backfilling: bool) -> None:
    jobs = read_log(sdsc_sp2())
    values = []
    for start in draw_starts(10_000):
        sequence = jobs[start : start + 1024]
        values.append(mean_bounded_slowdown(sequence, program_starts(sequence, 128, order, backfilling=backfilling)))
    assert round(sum(values) / 10, 2) == SDSC_SP2[backfilling][ORDERS.index(order)]
