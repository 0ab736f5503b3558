"""The fast policies start every job at the time of their slow twins, and no run breaks Batsim's rules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.examples import examples
from support.outages import outages
from support.twins import SlowConservative, SlowEasy, SlowFcfs

from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Workload, plan_for, run_policy

N_PROCS = 8


@st.composite
def workloads(draw: st.DrawFn, *, honest: bool = True, endless: bool = False, unit: float = 1.0) -> Workload:
    """Make small workloads with many coincidences. Honest jobs end no later than their estimate."""
    workload = Workload()
    at = 0
    for index in range(draw(st.integers(1, 25))):
        at += draw(st.integers(0, 4))
        run = draw(st.integers(1, 20))
        fields: dict[str, Any] = {}
        if not (endless and draw(st.booleans())):
            estimate = run + draw(st.sampled_from([0, 0, 1, 7, 40]))
            if not honest:
                estimate = draw(st.integers(1, 30))
            fields["estimate"] = estimate * unit
            fields["walltime"] = (max(run, estimate) + 1) * unit
        workload.job(f"{index:02}", n=draw(st.integers(1, N_PROCS)), s=run * unit, at=at * unit, **fields)
    return workload


def starts(run: FakeBatsim) -> dict[str, tuple[float | None, str]]:
    assert not run.deadlocked
    return {job.id: (job.started_at, str(job.procs)) for job in run.jobs.values()}


@examples(300)
@given(workloads(endless=True))
def test_fcfs(workload: Workload) -> None:
    assert starts(run_policy("fcfs", workload, N_PROCS)) == starts(run_policy(SlowFcfs, workload, N_PROCS))


@examples(500)
@given(workloads() | workloads(honest=False) | workloads(endless=True) | workloads(unit=0.1))
def test_easy(workload: Workload) -> None:
    assert starts(run_policy("easy", workload, N_PROCS)) == starts(run_policy(SlowEasy, workload, N_PROCS))


@examples(300)
@given(
    workloads() | workloads(honest=False) | workloads(endless=True) | workloads(endless=True, unit=0.1),
    st.sampled_from(["fcfs", "sjf", "widest"]),
)
def test_easy_with_a_queue_kept_by_sizes(workload: Workload, order: str) -> None:
    plain = starts(run_policy("easy", workload, N_PROCS, order=order))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pybatsched_schedulers.easy.LONG_QUEUE", 2)
        assert starts(run_policy("easy", workload, N_PROCS, order=order)) == plain


@examples(500)
@given(workloads() | workloads(unit=0.1))
def test_conservative_with_compression(workload: Workload) -> None:
    assert starts(run_policy("conservative", workload, N_PROCS)) == starts(
        run_policy(SlowConservative, workload, N_PROCS)
    )


@examples(300)
@given(workloads() | workloads(unit=0.1))
def test_conservative_without_compression(workload: Workload) -> None:
    fast = run_policy("conservative", workload, N_PROCS, compression=False)
    slow = run_policy(SlowConservative, workload, N_PROCS, compression=False)
    assert starts(fast) == starts(slow)


@given(workloads())
def test_with_exact_estimates_compression_changes_nothing(workload: Workload) -> None:
    for job in workload.jobs:
        job["estimate"] = workload.profiles[job["profile"]]["delay"]
    assert starts(run_policy("conservative", workload, N_PROCS)) == starts(
        run_policy("conservative", workload, N_PROCS, compression=False)
    )


ORDERS = ["fcfs", "sjf", "ljf", "narrowest", "widest", "smallest_area", "largest_area"]


@examples(300)
@given(
    st.sampled_from(["fcfs", "easy", "conservative"]),
    workloads() | workloads(honest=False) | workloads(endless=True) | workloads(honest=False, unit=0.1),
    st.sampled_from(ORDERS),
    outages(N_PROCS, 4),
    st.booleans(),
)
def test_every_job_ends_with_machine_failures(
    policy: str, workload: Workload, order: str, events: list[tuple[float, str, str]], compression: bool
) -> None:
    """Wrong estimates, endless jobs, machines that go and come back: no illegal decision, no hang, nothing lost."""
    options: dict[str, Any] = {"order": order}
    if policy == "conservative":
        options |= {"compression": compression, "assume_walltime": 15}
    run = run_policy(policy, workload, N_PROCS, machine_events=events, **options)
    assert not run.deadlocked
    assert all(job.final_state in {"COMPLETED_SUCCESSFULLY", "COMPLETED_WALLTIME_REACHED"} for job in run.jobs.values())


@given(workloads())
def test_no_job_of_conservative_starts_later_than_promised(workload: Workload) -> None:
    """With exact estimates no job starts later than planned at its submission, whatever jobs come later."""
    full = starts(run_policy("conservative", workload, N_PROCS))
    for job in workload.jobs:
        job["estimate"] = workload.profiles[job["profile"]]["delay"]
    exact = starts(run_policy("conservative", workload, N_PROCS))
    for k in range(1, len(workload.jobs) + 1):
        first = Workload()
        first.jobs, first.profiles = workload.jobs[:k], workload.profiles
        alone = starts(run_policy("conservative", first, N_PROCS))
        assert all(exact[job_id][0] == start for job_id, (start, _) in alone.items())
    assert set(full) == set(exact)


@pytest.mark.parametrize("policy", ["fcfs", "easy", "conservative"])
@given(workload=workloads(honest=False))
def test_the_same_input_gives_the_same_bytes(policy: str, workload: Workload) -> None:
    def transcript() -> list[bytes]:
        session = Session(plan_for(policy))
        replies: list[bytes] = []

        def handle(raw: bytes) -> bytes:
            reply = session.handle(raw)
            replies.extend((raw, reply))
            return reply

        FakeBatsim(workload, N_PROCS).run(handle)
        return replies

    assert transcript() == transcript()
