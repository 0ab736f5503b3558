"""Machines that fail under every policy: no job runs on a lost machine, and every job ends."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given, strategies as st
from support.examples import examples
from support.outages import outages

from pybatsched.core import events as e
from pybatsched.core.services.derive import parent_in_note
from pybatsched.metrics.outcomes import Outcome, joined
from pybatsched.testing import FakeBatsim, Workload, run_policy
from pybatsched.workload import model
from pybatsched.workload.inject.checkpoints import Checkpointing, with_checkpoints

N_PROCS: Final = 8
#: All policies that can run on equal processors, with options for small machines.
POLICIES: Final[dict[str, dict[str, Any]]] = {
    "fcfs": {},
    "easy": {"order": "wfp3"},
    "conservative": {},
    "dbf": {},
    "ujf": {},
    "ujfb": {"swap": "fixed", "swap_out": 1, "swap_in": 1},
    "redirection": {"group_size": 3, "theta": 0},
    "reallocation": {},
    "locality": {"score": "eft"},
    "published_predictsim": {"predict": "last2"},
    "rl": {"agent": "pybatsched.gym:in_queue_order"},
}
HOSTS: Final = [
    {"node": f"n{i // 4}", "cluster": f"c{i // 4}", "memory_gb": "16", "fs_bw_gbps": "2"} for i in range(N_PROCS)
]
RULES: Final = ("requeue_first", "requeue_last", "resubmit", "kill")


@st.composite
def workloads(draw: st.DrawFn, widest: int) -> Workload:
    """Draw jobs that are urgent, have deadlines, and have estimates of any quality."""
    workload = Workload()
    at = 0
    for index in range(draw(st.integers(1, 14))):
        at += draw(st.integers(0, 6))
        run_s = draw(st.integers(1, 25))
        fields: dict[str, Any] = {"urgent": draw(st.sampled_from([False, False, True]))}
        if draw(st.integers(0, 4)) == 4:
            fields["max_stay"] = run_s + draw(st.integers(0, 60))
        estimate = run_s + draw(st.sampled_from([0, 0, 5, 40]))
        n = draw(st.integers(1, widest))
        workload.job(f"{index:02}", n=n, s=run_s, at=at, estimate=estimate, walltime=estimate + 1, **fields)
    return workload


def segments(run: FakeBatsim) -> dict[str, list[Any]]:
    """Return the jobs of Batsim by the user's job."""
    found: dict[str, list[Any]] = {}
    for job in run.jobs.values():
        found.setdefault(parent_in_note(job.metadata) or job.id, []).append(job)
    return found


def check(run: FakeBatsim, workload: Workload, events: list[tuple[float, str, str]], rule: str) -> None:
    """Check that no job runs on a lost machine, and that every job ends."""
    assert not run.deadlocked
    downs: dict[str, list[tuple[float, float]]] = {}
    for at, kind, procs in events:
        if kind == e.MACHINES_UNAVAILABLE:
            back_at = min(t for t, other, p in events if other == e.MACHINES_AVAILABLE and p == procs and t > at)
            downs.setdefault(procs, []).append((at, back_at))
    for job in run.jobs.values():
        if job.started_at is not None and job.ended_at is not None:
            for proc in job.procs:
                for down_at, up_at in downs.get(str(proc), []):
                    assert job.ended_at <= down_at or job.started_at >= up_at, job
    by_job = segments(run)
    assert len(by_job) == len(workload.jobs)
    for parts in by_job.values():
        states = {part.final_state for part in parts}
        assert states & ({e.COMPLETED_SUCCESSFULLY, "REJECTED"} | ({e.COMPLETED_KILLED} if rule == "kill" else set()))
        assert sum(part.final_state == e.COMPLETED_SUCCESSFULLY for part in parts) <= 1
    n_kills = sum(job.final_state == e.COMPLETED_KILLED for job in run.jobs.values())
    assert run.n_messages <= 10 * (len(workload.jobs) + n_kills) + 2 * len(events)


@pytest.mark.parametrize("policy", POLICIES)
@examples(25)
@given(data=st.data(), rule=st.sampled_from(RULES), events=outages(N_PROCS, 12))
def test_every_policy(policy: str, data: st.DataObject, rule: str, events: list[tuple[float, str, str]]) -> None:
    """Each processor fails alone here, at most once at a time."""
    workload = data.draw(workloads(4 if policy in {"locality", "reallocation", "redirection"} else N_PROCS))
    hosts = HOSTS if policy in {"locality", "reallocation"} else []
    options = {**POLICIES[policy], "expected_repair_s": data.draw(st.sampled_from([None, 1, 9, 30]))}
    run = run_policy(policy, workload, N_PROCS, machine_events=events, hosts=hosts, on_failure=rule, **options)
    check(run, workload, events, rule)


@pytest.mark.parametrize("policy", POLICIES)
@examples(20)
@given(data=st.data(), rule=st.sampled_from(RULES[:3]), events=outages(N_PROCS, 12))
def test_checkpoints(policy: str, data: st.DataObject, rule: str, events: list[tuple[float, str, str]]) -> None:
    """Every completed job has done all of its work once, dumps included, whatever was lost in between."""
    drawn = data.draw(workloads(4 if policy in {"locality", "reallocation", "redirection"} else N_PROCS))
    whole = model.Workload(drawn.jobs, drawn.profiles, N_PROCS, "w.json")
    settings = Checkpointing(*(str(data.draw(st.integers(1, most))) for most in (12, 3, 3)))
    made = with_checkpoints(whole, settings, node_mtbf_s=None, speed=None)
    workload = Workload.from_json({"jobs": made.jobs, "profiles": made.profiles})
    hosts = HOSTS if policy in {"locality", "reallocation"} else []
    run = run_policy(policy, workload, N_PROCS, machine_events=events, hosts=hosts, on_failure=rule, **POLICIES[policy])
    check(run, workload, events, rule)
    rows = []
    for part in run.jobs.values():
        started_at, ended_at = part.started_at or 0.0, part.ended_at or 0.0
        rows.append(Outcome(part.id, part.final_state, 0.0, started_at, ended_at - started_at, 1, part.metadata))
    for record in joined(rows):
        if record.state == e.COMPLETED_SUCCESSFULLY:
            job = next(job for job in workload.jobs if f"w0!{job['id']}" == record.id)
            assert record.runtime_s == pytest.approx(workload.profiles[job["profile"]]["delay"], abs=1e-5)


@examples(40)
@given(
    workload=workloads(N_PROCS),
    seed=st.integers(0, 99),
    rule=st.sampled_from(["requeue_first", "requeue_last", "resubmit"]),
)
def test_without_failures_the_option_changes_nothing(workload: Workload, seed: int, rule: str) -> None:
    policy = list(POLICIES)[seed % 6]
    options = POLICIES[policy]
    config = {"dynamic-jobs-enabled": True}
    plain, same = (
        run_policy(policy, workload, N_PROCS, config=config, **options, **more)  # type: ignore[arg-type]
        for more in ({}, {"on_failure": rule})
    )
    assert {job.id: (job.started_at, str(job.procs)) for job in plain.jobs.values()} == {
        job.id: (job.started_at, str(job.procs)) for job in same.jobs.values()
    }
