"""Jobs of a workload are made when they are submitted; a decision about a later job finds it as before."""

from collections.abc import Sequence
from itertools import islice
from typing import Any

import polars as pl
import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from pybatsched.core import decisions as d, events as e
from pybatsched.core.intervals import IntervalSet
from pybatsched.errors import InputError
from pybatsched.platform.model import uniform
from pybatsched.simulator.given_jobs import GivenJobs
from pybatsched.simulator.jobs import SimJob
from pybatsched.simulator.observers import Observer
from pybatsched.simulator.options import Scenario, SimulationOptions
from pybatsched.simulator.simulation import SimulatedRun
from pybatsched.simulator.work.profiles import resolve
from pybatsched.simulator.world import Refusal
from pybatsched.workload.job_columns import JobColumns
from pybatsched.workload.model import Workload

PROFILES: dict[str, dict[str, Any]] = {"d": {"type": "delay", "delay": 5}}
JOBS = [{"id": "a", "subtime": 0, "res": 1, "profile": "d"}, {"id": "b", "subtime": 50, "res": 1, "profile": "d"}]


def made_of(jobs: Any) -> tuple[GivenJobs, dict[str, SimJob]]:
    made: dict[str, SimJob] = {}
    works = {work.name: work for work in resolve(PROFILES, ["d"]).known()}
    return GivenJobs("w0", Workload(jobs, PROFILES, 4), works, made), made


@given(
    times=st.lists(st.sampled_from([0, 1, 1.5, 7]), max_size=12), n_taken=st.integers(0, 12), as_columns=st.booleans()
)
def test_jobs_arrive_by_time_and_id_also_if_all_are_made_early(
    times: list[float], n_taken: int, as_columns: bool
) -> None:
    jobs: list[dict[str, Any]] = [
        {"id": f"{len(times) - k}", "subtime": at, "res": 1, "profile": "d"} for k, at in enumerate(times)
    ]
    if as_columns:
        jobs.sort(key=lambda job: float(job["subtime"]))  # as those of a log are
    table = pl.DataFrame(jobs, schema={"id": pl.String, "subtime": pl.Float64, "res": pl.Int64, "profile": pl.String})
    ones, made = made_of(JobColumns(table) if as_columns else jobs)
    arrivals = ones.arrivals()
    first = list(islice(arrivals, n_taken))
    assert list(made.values()) == first
    assert ones.n_unmade == len(jobs) - len(first)
    ones.make_all()
    assert (ones.n_unmade, set(made)) == (0, ones.ids)
    all_jobs = [*first, *arrivals]
    expected = sorted(jobs, key=lambda job: (float(job["subtime"]), f"w0!{job['id']}"))
    assert [(job.id, job.subtime) for job in all_jobs] == [(f"w0!{job['id']}", job["subtime"]) for job in expected]
    assert list(map(id, all_jobs)) == list(map(id, made.values()))


def test_two_spellings_of_one_id_are_found_before_the_run() -> None:
    jobs = [{"id": one, "subtime": 0, "res": 1, "profile": "d"} for one in ("w0!7", 7)]
    with pytest.raises(InputError, match="expected unique job ids, found w0!7 twice: 7 is another spelling"):
        made_of(jobs)


def run(decided: Sequence[d.Decision], **options: Any) -> dict[str, str]:
    """Start each job at once; the decisions come before the start of the first. Return metadata of ended jobs."""
    metadata: dict[str, str] = {}

    class Record(Observer):
        def finished(self, job: SimJob, outcome: object) -> None:
            metadata[job.id] = job.metadata

    def scheduler(now: float, events: Sequence[e.Event]) -> tuple[float, Sequence[d.Decision]]:
        ids = [event.job_id for event in events if isinstance(event, e.JobSubmitted)]
        starts = [d.ExecuteJob(job_id, IntervalSet.span(0, 1)) for job_id in ids]
        decisions = [*(decided if "w0!a" in ids else ()), *starts]
        return now, [replace(one, timestamp=now) for one in decisions]

    scenario = Scenario(uniform(1), {"w0": Workload(JOBS, PROFILES, 1)}, SimulationOptions(**options))
    simulation = SimulatedRun(scenario, scheduler, [Record()])
    assert simulation.n_to_come == 2
    assert simulation.run()
    assert simulation.n_to_come == 0
    return metadata


def test_a_decision_about_a_later_job_finds_it() -> None:
    assert run([d.SetJobMetadata("w0!b", "later=1")]) == {"w0!a": "", "w0!b": "later=1"}


@pytest.mark.parametrize(
    ("decision", "why"),
    [
        (d.ExecuteJob("w0!b", IntervalSet.span(0, 1)), "cannot execute job w0!b: its state is NOT_SUBMITTED"),
        (d.RejectJob("w0!b"), "cannot reject job w0!b: its state is NOT_SUBMITTED"),
        (d.KillJob(("w0!b",)), "cannot kill job w0!b: its state is NOT_SUBMITTED"),
        (d.SetJobMetadata("w0!c", "x"), "cannot set the metadata of job 'w0!c': it does not exist"),
    ],
)
def test_a_later_job_cannot_be_started_or_ended(decision: d.Decision, why: str) -> None:
    with pytest.raises(Refusal) as caught:
        run([decision])
    assert why in str(caught.value)


def test_the_id_of_a_later_job_is_taken() -> None:
    with pytest.raises(Refusal, match="cannot register job w0!b: a job with this id exists or existed"):
        run([d.RegisterJob("w0!b", JOBS[1])], dynamic_jobs=True)
