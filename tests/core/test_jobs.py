"""Jobs: their states and the table of all jobs."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product

import pytest
from support.places import ROOT

from pybatsched.core import jobs
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import TRANSITIONS, Job, JobShape, JobState, JobWork, Segment

ONE = IntervalSet([0])


#: For each change, the function that makes it.
CHANGES: dict[str, Callable[[Job], None]] = {
    "hold": lambda job: jobs.hold_job(job, 0.0, 5.0, ONE, partition=None, reason=""),
    "release": jobs.release_job,
    "reshape": lambda job: jobs.reshape_job(job, JobShape(1, 1.0)),
    "replace": lambda job: jobs.replace_job(job, Segment("dyn!1", job.whole), 2, None),
    "start": lambda job: jobs.start_job(job, 0.0, ONE, ""),
    "reject": lambda job: jobs.end_job(job, 9.0, JobState.REJECTED, ""),
    "complete": lambda job: jobs.end_job(job, 9.0, JobState.COMPLETED, "COMPLETED_SUCCESSFULLY"),
    "kill": lambda job: jobs.kill_job(job, 9.0),
    "requeue": lambda job: jobs.requeue_job(job, Segment("dyn!1", job.whole), None, None),
    "finish": lambda job: jobs.end_job(job, 9.0, JobState.KILLED, "COMPLETED_KILLED"),
}


def test_every_change_of_the_table_has_a_function() -> None:
    assert set(CHANGES) == set(TRANSITIONS)


@pytest.mark.parametrize(("before", "name"), list(product(JobState, TRANSITIONS)))
def test_a_state_follows_another_only_by_the_table(before: JobState, name: str) -> None:
    job = Job("w0!1", 1)
    job.state = before
    if name == "finish" and before is JobState.RUNNING:
        name = "kill"  # a running job that ends killed was killed by Batsim
    if before is TRANSITIONS[name].before:
        CHANGES[name](job)
        assert job.state is TRANSITIONS[name].after
    else:
        with pytest.raises(RuntimeError, match=f"^cannot {name} job w0!1: it is {before.value}"):
            CHANGES[name](job)
        assert job.state is before


def test_a_requeue_begins_another_segment() -> None:
    job = Job("w0!1", 2, walltime=30.0)
    jobs.start_job(job, 5.0, IntervalSet([0, 3]), "head")
    first = job.segment
    jobs.kill_job(job, 9.0)
    rest = JobWork("1.1", {"type": "delay", "delay": 26.0}, 26.0, 26.0)
    jobs.requeue_job(job, Segment("dyn!1.1", rest), rest, IntervalSet([1, 2]))
    assert (job.past, first.ran_s, first.procs, first.started_at) == ((first,), 4.0, IntervalSet([0, 3]), 5.0)
    assert (job.wire_id, job.walltime, job.procs, job.started_at, job.resume_on) == (
        "dyn!1.1", 26.0, None, None, IntervalSet([1, 2]),
    )  # fmt: skip
    assert (job.id, job.whole.walltime, job.requested) == ("w0!1", 30.0, 30.0)


def test_the_docs_show_the_same_table() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("## The states of a job")[2].partition("##")[0]
    shown = set(re.findall(r"^\| (\w+) \| (\w+) \| (\w+) \| ([^|]+) \|$", section, flags=re.MULTILINE))
    assert shown == {
        (name, change.before.value, change.after.value, change.cause) for name, change in TRANSITIONS.items()
    }
