"""Jobs: their states and the table of all jobs."""

from __future__ import annotations

import re
from itertools import product

import pytest
from support.places import ROOT

from pybatsched.core import jobs
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import TRANSITIONS, Job, JobState


def enter(job: Job, state: JobState) -> None:
    """Change the state by the function of this change."""
    match state:
        case JobState.WAITING:
            jobs.wait_again(job, job.present_work)
        case JobState.HELD:
            jobs.hold_job(job, 0.0, 5.0, IntervalSet([0]), partition=None, reason="")
        case JobState.RUNNING:
            jobs.start_job(job, 0.0, IntervalSet([0]), "")
        case _:
            jobs.end_job(job, 9.0, state, "")


@pytest.mark.parametrize(("before", "after"), list(product(JobState, JobState)))
def test_a_state_follows_another_only_by_the_table(before: JobState, after: JobState) -> None:
    job = Job("w0!1", 1)
    job.state = before
    if after in TRANSITIONS[before]:
        enter(job, after)
        assert job.state is after
    else:
        with pytest.raises(RuntimeError, match=f"cannot change from {before.value} to {after.value}"):
            enter(job, after)
        assert job.state is before


def test_the_docs_show_the_same_table() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("## The states of a job")[2].partition("##")[0]
    shown = set(re.findall(r"^\| (\w+) \| (\w+) \| [^|]+ \|$", section, flags=re.MULTILINE)) - {("state", "next")}
    assert shown == {(before.value, after.value) for before, found in TRANSITIONS.items() for after in found}
