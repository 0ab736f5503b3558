"""Numbers of messages: at most ten per job, and one per machine event, for every policy."""

from __future__ import annotations

from typing import Any, TypeAlias

import pytest
from hypothesis import given, strategies as st
from support.examples import examples
from support.located import run_locality
from support.outages import outages

from pybatsched.core import events as e
from pybatsched.policies.orders import ALIASES, NAMED_ORDERS, parse_order
from pybatsched.testing import FakeBatsim, Workload, run_policy

N_PROCS = 8
ORDERS = (*NAMED_ORDERS, *ALIASES)
FIXED_ORDERS = tuple(order for order in ORDERS if not parse_order(order).varies)

Events: TypeAlias = list[tuple[float, str, str]]
MACHINES = outages(N_PROCS, 3) | outages(N_PROCS, 40)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Make crowded workloads with estimates of every kind: too short, too long and exact, whole seconds or not."""
    workload = Workload()
    unit = draw(st.sampled_from([1.0, 1.0, 0.1]))
    ticks = draw(st.sampled_from([[0], [0], [0, 0, 1, 2, 15, 1_100], range(0, 1_000_000, 54_321)]))
    longest = draw(st.sampled_from([12, 60, 500]))
    gaps, runs, beside = st.sampled_from([0, 0, 1, 1, 2, 5, 20]), st.integers(1, longest), st.sampled_from(ticks)
    # As shares of the run time, as more than it, or in seconds.
    guesses = (
        st.sampled_from([(1.0, 0), (1.0, 0), (1.0, 1), (1.0, 4), (1.0, 100), (0.0, 1e-6), (0.0, 5e-6), (0.0, 1)])
        | st.floats(0.01, 1.0).map(lambda part: (part, 0))
    )  # fmt: skip
    slacks = st.sampled_from([None, None]) | st.integers(0, 15) | st.integers(0, 3 * longest)
    sizes = st.integers(1, N_PROCS) | st.sampled_from([N_PROCS - 1, N_PROCS])
    urgent = st.sampled_from([False, False, False, True])
    at = 0
    for index in range(draw(st.integers(1, 20))):
        at += draw(gaps)
        run_s = draw(runs) * unit + draw(beside) * 1e-6
        part, more = draw(guesses)
        estimate = max(round(run_s * part + more * unit, 6), 1e-6)
        if draw(st.integers(0, 3)) == 3:
            run_s = 2e-6
        slack = draw(slacks)
        fields: dict[str, Any] = {"urgent": draw(urgent)}
        if slack is not None:
            fields["max_stay"] = round(estimate + slack * unit + draw(beside) * 1e-6, 6)
        workload.job(
            f"{index:02}",
            n=draw(sizes),
            s=round(run_s, 6),
            at=round(at * unit, 6),
            estimate=estimate,
            walltime=round(max(run_s, estimate) + unit, 6),
            **fields,
        )
    return workload


@st.composite
def options_of(draw: st.DrawFn, policy: str, *, may_reject: bool = True) -> dict[str, Any]:
    plans = policy in {"conservative", "dbf", "ujfb"}
    options: dict[str, Any] = {"order": draw(st.sampled_from(FIXED_ORDERS if plans else ORDERS))}
    if policy == "easy":
        options["backfill_order"] = draw(st.sampled_from([None, *ORDERS]))
    if plans:
        options["compression"] = draw(st.booleans())
    if policy == "dbf":
        options["fixpoint"] = draw(st.booleans())
        options["promote"] = draw(st.sampled_from(["max", "each"]))
        options["infeasible"] = draw(st.sampled_from(["regular", "reject"])) if may_reject else "regular"
    if policy == "ujfb":
        options["swap"] = "fixed"
        options["swap_out"], options["swap_in"] = (draw(st.sampled_from([0, 0.5, 2])) for _ in range(2))
        options["mode"] = draw(st.sampled_from(["suspend", "suspend", "kill_restart"]))
        options["victim_order"] = draw(st.sampled_from(["start_order", "longest_remaining", "fewest"]))
        options["resume_same_resources"] = draw(st.booleans())
        options["urgent_order"] = draw(st.sampled_from(["fcfs", "shortest"]))
    return options


@st.composite
def redirections(draw: st.DrawFn) -> dict[str, Any]:
    principal, redirected = (draw(st.sampled_from(["fcfs", "easy", "conservative", "dbf"])) for _ in range(2))
    return {
        "group_size": draw(st.integers(1, 3)),
        "theta": draw(st.sampled_from([0, 0, 1, 2])),
        "filter": draw(st.sampled_from(["q", "w", "none", "w_paper"])),
        "decision": draw(st.sampled_from(["per_job", "per_round"])),
        "count_backfilled": draw(st.booleans()),
        "principal": principal,
        "principal_options": draw(options_of(principal)),
        "redirected": redirected,
        "redirected_options": draw(options_of(redirected, may_reject=False)),
    }


def stays_within_bounds(policy: str, workload: Workload, options: dict[str, Any], events: Events) -> None:
    restarts = policy in {"redirection", "ujfb"}
    config = {"dynamic-jobs-enabled": restarts}
    run = run_policy(policy, workload, N_PROCS, config=config, machine_events=events, **options)
    assert not run.deadlocked
    over = {e.COMPLETED_SUCCESSFULLY, "REJECTED"} | ({e.COMPLETED_KILLED} if restarts else set())
    assert {job.final_state for job in run.jobs.values()} <= over
    assert run.n_messages <= 10 * len(workload.jobs) + len(events)


@examples(30)
@given(workloads(), options_of("fcfs"), MACHINES)
def test_fcfs(workload: Workload, options: dict[str, Any], events: Events) -> None:
    stays_within_bounds("fcfs", workload, options, events)


@examples(30)
@given(workloads(), options_of("ujf"), MACHINES)
def test_ujf(workload: Workload, options: dict[str, Any], events: Events) -> None:
    stays_within_bounds("ujf", workload, options, events)


@examples(30)
@given(workloads(), options_of("easy"), MACHINES)
def test_easy(workload: Workload, options: dict[str, Any], events: Events) -> None:
    stays_within_bounds("easy", workload, options, events)


@examples(200)
@given(workloads(), options_of("conservative"), MACHINES)
def test_conservative(workload: Workload, options: dict[str, Any], events: Events) -> None:
    stays_within_bounds("conservative", workload, options, events)


@examples(300)
@given(workloads(), options_of("dbf"), MACHINES)
def test_dbf(workload: Workload, options: dict[str, Any], events: Events) -> None:
    stays_within_bounds("dbf", workload, options, events)


@examples(200)
@given(workloads(), options_of("ujfb"), MACHINES)
def test_ujfb(workload: Workload, options: dict[str, Any], events: Events) -> None:
    stays_within_bounds("ujfb", workload, options, events)


@st.composite
def localities(draw: st.DrawFn) -> dict[str, Any]:
    options: dict[str, Any] = {"score": draw(st.sampled_from(["fcfs", "eft", "lea", "leo", "lem"]))}
    if draw(st.integers(0, 2)) == 2:
        return options | {"faithful": True, "interval_s": draw(st.sampled_from([1, 5, 30]))}
    options["backfill"], options["persistence"] = draw(st.booleans()), draw(st.booleans())
    return options | {"interval_s": draw(st.sampled_from([0, 0.25, 3, 30]))}


@examples(200)
@given(st.data(), workloads(), localities(), MACHINES, st.booleans())
def test_locality(
    data: st.DataObject, workload: Workload, options: dict[str, Any], events: Events, assumed: bool
) -> None:
    """Files that do not fit beside each other, and jobs that outlive what was assumed for them."""
    hosts = [{"node": str(i // 4), "memory_gb": "16", "fs_bw_gbps": "2"} for i in range(N_PROCS)]
    files = st.sampled_from([("a", 4), ("b", 8), ("c", 12), ("d", 15), ("", 0)])
    for job in workload.jobs:
        job["res"] = (job["res"] + 1) // 2
        name, size_gb = data.draw(files)
        if name:
            job |= {"input_file": name, "input_size_gb": size_gb}
        job["walltime"] += 8
        if assumed:
            del job["walltime"]
    options["assume_walltime"] = 2
    config = {"dynamic-jobs-enabled": True}
    run = run_locality(workload, N_PROCS, config=config, machine_events=events, hosts=hosts, **options)
    assert not run.deadlocked
    over = {e.COMPLETED_SUCCESSFULLY, e.COMPLETED_WALLTIME_REACHED}
    assert sum(job.final_state in over for job in run.jobs.values()) == len(workload.jobs)
    assert run.n_messages <= 10 * len(workload.jobs) + len(events)


@examples(200)
@given(workloads(), redirections(), MACHINES)
def test_redirection(workload: Workload, options: dict[str, Any], events: Events) -> None:
    stays_within_bounds("redirection", workload, options, events)


def starts(run: FakeBatsim) -> dict[str, float | None]:
    assert {job.final_state for job in run.jobs.values()} == {e.COMPLETED_SUCCESSFULLY}
    return {job.id.removeprefix("w0!"): job.started_at for job in run.jobs.values()}


def test_starts_within_a_few_ticks_cause_no_extra_calls() -> None:
    """From 222 to 273 job 25 is late: 6, of one tick, is to start at the next tick, and 3 at the tick after it."""
    jobs = (
        Workload()
        .job(1, at=1, n=64, s=221, walltime=331.5, estimate=331.5)
        .job(3, at=10, n=81, s=69, walltime=345, estimate=345)
        .job(5, at=21, n=51, s=262, walltime=1310.000001, estimate=1310, max_stay=2165)
        .job(6, at=22, n=120, s=0.000001, walltime=1.000001, estimate=0.000001, max_stay=200.00001)
        .job(25, at=84, n=55, s=189, walltime=190, estimate=94.5, max_stay=2090)
    )
    run = run_policy("dbf", jobs, 128, order="sjf")
    assert starts(run) == {"1": 1, "25": 84, "6": 273, "3": 273.000001, "5": 342.000001}
    assert run.n_messages == 13 + 2  # the two calls: at 332.5, where job 3 was promised to start, and for job 5


LATE = (
    Workload()
    .job("late", n=4, s=100_000, estimate=10, walltime=100_001)
    .job("wide", n=8, s=1, at=1, estimate=1, walltime=2)  # when late is over
    .job("narrow", n=4, s=50, at=2, estimate=50, walltime=51)  # after wide
)


@pytest.mark.parametrize("policy", ["conservative", "dbf"])
def test_jobs_behind_waiters_for_a_late_job_cause_no_call_each_second(policy: str) -> None:
    run = run_policy(policy, LATE, 9, compression=False)
    assert starts(run) == {"late": 0, "wide": 100_000, "narrow": 100_001}
    assert run.n_messages == 9 + 2  # the two calls: at 10 and 11, where wide and narrow were promised to start


@pytest.mark.parametrize("policy", ["conservative", "dbf"])
def test_machine_events_while_a_job_is_late_cause_no_calls(policy: str) -> None:
    kinds = [e.MACHINES_UNAVAILABLE, e.MACHINES_AVAILABLE]
    events = [(100.0 + i, kinds[i % 2], "8") for i in range(200)]
    run = run_policy(policy, LATE, 9, compression=False, machine_events=events)
    assert starts(run) == {"late": 0, "wide": 100_000, "narrow": 100_001}
    assert run.n_messages == 9 + 2 + 200 + 1  # the last: that no more will come


@pytest.mark.parametrize("policy", ["conservative", "dbf"])
def test_a_new_job_that_ranks_before_earlier_jobs_gets_a_call(policy: str) -> None:
    """Short comes at 74 and gets the place after wide's, at 82.000001; but it goes first when the plan is repaired."""
    jobs = (
        Workload()
        .job("late", n=3, s=1000, estimate=10, walltime=1001)
        .job("wide", n=4, s=8, at=5, estimate=8, walltime=9)
        .job("short", n=1, s=3, at=74, estimate=3, walltime=4)
    )
    run = run_policy(policy, jobs, 4, compression=False, order="sjf")
    assert starts(run) == {"late": 0, "wide": 1000, "short": 82.000001}


@pytest.mark.parametrize("policy", ["conservative", "dbf"])
def test_a_promise_is_kept_by_a_call_while_another_job_is_late(policy: str) -> None:
    """Late and wide are as they were; beside stays promised for 200, where nothing ends but a call comes."""
    jobs = (
        Workload()
        .job("late", n=4, s=1000, estimate=10, walltime=1001)
        .job("early", n=3, s=50, estimate=200, walltime=201)
        .job("wide", n=5, s=300, at=1, estimate=300, walltime=301)
        .job("beside", n=3, s=10, at=2, estimate=10, walltime=11)
    )
    run = run_policy(policy, jobs, 8, compression=False)
    assert starts(run) == {"late": 0, "early": 0, "wide": 1000, "beside": 200}


def test_jobs_behind_a_suspended_waiter_for_a_late_job_cause_no_call_each_second() -> None:
    """Urgent runs past its estimate; suspended is to resume for a second when it ends, then regular."""
    jobs = (
        Workload()
        .job("suspended", n=2, s=6, estimate=6, walltime=7)
        .job("urgent", n=4, s=1000, at=5, estimate=10, walltime=1001, urgent=True)
        .job("regular", n=4, s=9, at=6, estimate=9, walltime=10)
    )
    options: dict[str, Any] = {"compression": False, "swap": "fixed", "swap_out": 0, "swap_in": 0}
    run = run_policy("ujfb", jobs, 4, config={"dynamic-jobs-enabled": True}, **options)
    assert {job.id: job.started_at for job in run.jobs.values()} == {
        "w0!suspended": 0,
        "w0!urgent": 5,
        "dyn!w0.suspended.1": 1005,
        "w0!regular": 1006,
    }
    assert run.n_messages == 11


@pytest.mark.parametrize("interval_s", [0.5, 30])
def test_jobs_that_wait_for_memory_of_a_late_job_cause_no_call_each_interval(interval_s: float) -> None:
    hosts = [{"node": "n", "memory_gb": "16", "fs_bw_gbps": "0.5"}] * 4
    jobs = (
        Workload()
        .job("late", n=2, s=10_000, input_file="e", input_size_gb=12)
        .job("large", n=1, s=5, at=1, input_file="c", input_size_gb=8)
    )
    config = {"dynamic-jobs-enabled": True}
    run = run_policy("locality", jobs, 4, config=config, hosts=hosts, assume_walltime=6, interval_s=interval_s)
    assert run.jobs["dyn!w0.large.1"].started_at == 10_024
    assert run.n_messages <= 20  # each time it is expected to take as long again
