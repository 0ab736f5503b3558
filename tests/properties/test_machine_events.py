"""Machines that fail, are drained or reserved, under every policy: no job runs on a lost or reserved one, all end."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given, strategies as st
from support.examples import examples
from support.outages import Events, drains, outages, spans

from pybatsched.core import events as e
from pybatsched.core.derive import parent_in_note
from pybatsched.core.intervals import IntervalSet
from pybatsched.metrics.outcomes import Outcome, joined
from pybatsched.simulator.jobs import NO_TIME_S
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
    "published_predictsim": {},
    "rl": {"agent": "pybatsched.gym:in_queue_order"},
}
HOSTS: Final = [
    {"node": f"n{i // 4}", "cluster": f"c{i // 4}", "memory_gb": "16", "fs_bw_gbps": "2"} for i in range(N_PROCS)
]
RULES: Final = ("requeue_first", "requeue_last", "resubmit", "kill")
DYNAMIC: Final = {"dynamic-jobs-enabled": True, "forward-unknown-events": True}


@st.composite
def reservations(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw up to four reservations one after the other, some for alice, and some of a part of the machine."""
    found: list[dict[str, Any]] = []
    at = 0
    for index in range(draw(st.integers(1, 4))):
        at += draw(st.integers(0, 40))
        span = draw(st.integers(1, 30))
        low = draw(st.integers(0, N_PROCS - 1))
        high = draw(st.integers(low, N_PROCS - 1))
        table: dict[str, Any] = {"name": f"r{index}", "start": at, "duration": span, "hosts": f"{low}-{high}"}
        table["conflict"] = draw(st.sampled_from(["wait", "wait", "requeue", "kill"]))
        if draw(st.booleans()):
            table["users"] = ["alice"]
        if draw(st.booleans()):
            table["notice"] = draw(st.integers(0, 20))
        at += span
        found.append(table)
    return found


@st.composite
def workloads(draw: st.DrawFn, policy: str, *, reserved: bool = False) -> Workload:
    """Draw jobs that are urgent, have estimates of any quality, and deadlines or requests for a reservation."""
    workload = Workload()
    widest = 4 if policy in {"locality", "reallocation", "redirection"} else N_PROCS
    at = 0
    for index in range(draw(st.integers(1, 14))):
        at += draw(st.integers(0, 6))
        run_s = draw(st.integers(1, 25))
        fields: dict[str, Any] = {"urgent": draw(st.sampled_from([False, False, True]))}
        if draw(st.integers(0, 4)) == 4 and reserved:
            fields |= {"user": draw(st.sampled_from(["alice", "bob"])), "reservation": f"r{draw(st.integers(0, 3))}"}
        elif draw(st.integers(0, 4)) == 4:
            fields["max_stay"] = run_s + draw(st.integers(0, 60))
        estimate = run_s + draw(st.sampled_from([0, 0, 5, 40]))
        n = draw(st.integers(1, widest))
        workload.job(f"{index:02}", n=n, s=run_s, at=at, estimate=estimate, walltime=estimate + 1, **fields)
    return workload


def with_dumps(drawn: Workload, *settings: int) -> Workload:
    """Return the jobs with checkpoints: their interval, dump and read time."""
    whole = model.Workload(drawn.jobs, drawn.profiles, N_PROCS, "w.json")
    made = with_checkpoints(whole, Checkpointing(*map(str, settings)), node_mtbf_s=None, speed=None)
    return Workload.from_json({"jobs": made.jobs, "profiles": made.profiles})


def run_on_hosts(policy: str, workload: Workload, **how: Any) -> FakeBatsim:
    hosts = HOSTS if policy in {"locality", "reallocation"} else []
    if policy == "published_predictsim" and "host_reservations" not in how:  # a reservation needs honest estimates
        how["predict"] = "last2"
    return run_policy(policy, workload, N_PROCS, config=DYNAMIC, hosts=hosts, **{**POLICIES[policy], **how})


def check_reservations(run: FakeBatsim, workload: Workload, tables: list[dict[str, Any]]) -> None:
    """Check that only permitted jobs run in a reservation."""
    fields = {f"w0!{job['id']}": job for job in workload.jobs}
    for job in run.jobs.values():
        own = fields[parent_in_note(job.metadata) or job.id]
        if job.started_at is None or job.ended_at is None:
            continue
        for table in tables:
            start, end = table["start"], table["start"] + table["duration"]
            if IntervalSet.parse(table["hosts"]).isdisjoint(job.procs):
                assert own.get("reservation") != table["name"]
                continue
            if own.get("reservation") == table["name"]:
                assert own["user"] in table.get("users", ())
                assert start <= job.started_at
                assert job.ended_at <= end + 1e-6
            elif job.started_at < start:
                # Only a job that was there before the announcement may run on.
                known_at = max(start - table["notice"], 0) if "notice" in table else 0
                late = job.started_at < known_at and table["conflict"] == "wait"
                assert job.ended_at <= start + 1e-6 or late, (job, table)
            else:
                assert job.started_at >= end, (job, table)


def check_ends(run: FakeBatsim, workload: Workload, n_events: int, rule: str = "kill") -> None:
    """Check that every job ends, completes at most once, and that the policy requests few calls."""
    assert not run.deadlocked
    by_job: dict[str, list[str]] = {}
    for job in run.jobs.values():
        by_job.setdefault(parent_in_note(job.metadata) or job.id, []).append(job.final_state)
    assert len(by_job) == len(workload.jobs)
    for states in by_job.values():
        assert "" not in states
        assert {*states} & (
            {e.COMPLETED_SUCCESSFULLY, "REJECTED"} | ({e.COMPLETED_KILLED} if rule == "kill" else set())
        )
        assert states.count(e.COMPLETED_SUCCESSFULLY) <= 1
    n_kills = sum(job.final_state == e.COMPLETED_KILLED for job in run.jobs.values())
    assert run.n_messages <= 10 * (len(workload.jobs) + n_kills) + 2 * n_events


@pytest.mark.parametrize("policy", POLICIES)
@examples(40)
@given(data=st.data(), tables=reservations())
def test_reservations(policy: str, data: st.DataObject, tables: list[dict[str, Any]]) -> None:
    workload = data.draw(workloads(policy, reserved=True))
    run = run_on_hosts(policy, workload, host_reservations=tables)
    check_reservations(run, workload, tables)
    check_ends(run, workload, 2 * len(tables))


def check_machines(run: FakeBatsim, events: Events) -> None:
    """Check that no job runs on a lost processor, and that none starts on a drained one."""
    jobs = [(job, job.started_at, job.ended_at) for job in run.jobs.values()]
    ran = [(job, start, end) for job, start, end in jobs if start is not None and end is not None]
    for gone_at, back_at, proc in spans(events, e.MACHINES_UNAVAILABLE, e.MACHINES_AVAILABLE):
        for job, start, end in ran:
            assert proc not in job.procs or end <= gone_at or start >= back_at, job
    for gone_at, back_at, proc in spans(events, e.DRAIN, e.UNDRAIN):
        for job, start, _ in ran:
            assert proc not in job.procs or not gone_at < start < back_at, job


def check_work(run: FakeBatsim, workload: Workload) -> None:
    """Check that each completed job has done all of its work once, dumps included."""
    rows = []
    for part in run.jobs.values():
        started_at = part.started_at or 0.0
        ran_s = (part.ended_at or 0.0) - started_at
        if ran_s == pytest.approx(NO_TIME_S, abs=1e-9):  # as Batsim records a part that took no time
            ran_s = 0.0
        rows.append(Outcome(part.id, part.final_state, 0.0, started_at, ran_s, 1, part.metadata))
    run_s = {f"w0!{job['id']}": workload.profiles[job["profile"]]["delay"] for job in workload.jobs}
    records = joined(rows)
    assert {record.id for record in records} == run_s.keys()
    for record in records:
        if record.state == e.COMPLETED_SUCCESSFULLY:
            assert record.runtime_s == pytest.approx(run_s[record.id], abs=1e-5)


@pytest.mark.parametrize("policy", POLICIES)
@examples(25)
@given(data=st.data(), tables=reservations(), away=outages(N_PROCS, 8), drained=drains(N_PROCS, 4))
def test_reservations_with_failures_checkpoints_and_drains(
    policy: str, data: st.DataObject, tables: list[dict[str, Any]], away: Events, drained: Events
) -> None:
    workload = with_dumps(data.draw(workloads(policy, reserved=True)), 7, 1, 2)
    events = sorted(away + drained)
    rule = data.draw(st.sampled_from(RULES))
    run = run_on_hosts(policy, workload, host_reservations=tables, machine_events=events, on_failure=rule)
    check_reservations(run, workload, tables)
    check_machines(run, events)
    check_work(run, workload)
    check_ends(run, workload, len(events) + 2 * len(tables))


@pytest.mark.parametrize("policy", POLICIES)
@examples(25)
@given(data=st.data(), rule=st.sampled_from(RULES), events=outages(N_PROCS, 12))
def test_failures(policy: str, data: st.DataObject, rule: str, events: Events) -> None:
    """Each processor fails alone here, at most once at a time."""
    workload = data.draw(workloads(policy))
    repair_s = data.draw(st.sampled_from([None, 1, 9, 30]))
    run = run_on_hosts(policy, workload, machine_events=events, on_failure=rule, expected_repair_s=repair_s)
    check_machines(run, events)
    check_ends(run, workload, len(events), rule)


@pytest.mark.parametrize("policy", POLICIES)
@examples(20)
@given(data=st.data(), rule=st.sampled_from(RULES[:3]), events=outages(N_PROCS, 12))
def test_failures_of_jobs_with_checkpoints(policy: str, data: st.DataObject, rule: str, events: Events) -> None:
    settings = [data.draw(st.integers(1, most)) for most in (12, 3, 3)]
    workload = with_dumps(data.draw(workloads(policy)), *settings)
    run = run_on_hosts(policy, workload, machine_events=events, on_failure=rule)
    check_machines(run, events)
    check_work(run, workload)
    check_ends(run, workload, len(events), rule)


@examples(40)
@given(workload=workloads(""), seed=st.integers(0, 99), rule=st.sampled_from(RULES[:3]))
def test_without_failures_the_option_changes_nothing(workload: Workload, seed: int, rule: str) -> None:
    policy = list(POLICIES)[seed % 6]
    plain, same = (run_on_hosts(policy, workload, **more) for more in ({}, {"on_failure": rule}))
    assert {job.id: (job.started_at, str(job.procs)) for job in plain.jobs.values()} == {
        job.id: (job.started_at, str(job.procs)) for job in same.jobs.values()
    }
