"""Redirection: equal to its slow twin, and the invariants of the published mechanism, on thousands of workloads."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st
from support.examples import examples
from support.outages import outages
from support.twins import SlowRedirection

from pybatsched.core import decisions as d, events as e
from pybatsched.core.intervals import IntervalSet
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, FakeJob, Workload, plan_for, run_policy
from pybatsched_schedulers.redirection.policy import Redirection

N_PROCS = 8
DYNAMIC = {"dynamic-jobs-enabled": True}
LOCAL = ["fcfs", "easy", "conservative", "dbf"]


@st.composite
def workloads(draw: st.DrawFn, *, exact: bool = False, widest: int = N_PROCS) -> Workload:
    """Make crowded workloads: many small jobs behind a few long ones, with many coincidences."""
    workload = Workload()
    at = 0
    for index in range(draw(st.integers(1, 25))):
        at += draw(st.sampled_from([0, 0, 1, 1, 2, 5]))
        run = draw(st.integers(1, 8) | st.integers(10, 60))
        estimate = run if exact else run + draw(st.sampled_from([0, 0, 1, 7]))
        n = draw(st.integers(1, 3) | st.integers(1, widest))
        workload.job(f"{index:02}", n=n, s=run, at=at, estimate=estimate, walltime=estimate + 1)
    return workload


@st.composite
def option_sets(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "group_size": draw(st.integers(0, 4)),
        "theta": draw(st.sampled_from([0, 0, 1, 2, 4])),
        "filter": draw(st.sampled_from(["q", "w", "none", "w_paper"])),
        "decision": draw(st.sampled_from(["per_job", "per_round"])),
        "count_backfilled": draw(st.booleans()),
        "conflict": draw(st.sampled_from(["greatest_walltime", "greatest_count", "latest_start", "widest"])),
    }


def results_of(run: FakeBatsim) -> dict[str, tuple[float | None, float | None, str, str]]:
    assert not run.deadlocked
    return {job.id: (job.started_at, job.ended_at, str(job.procs), job.final_state) for job in run.jobs.values()}


def redirect(workload: Workload, **options: Any) -> FakeBatsim:
    return run_policy("redirection", workload, N_PROCS, config=DYNAMIC, **options)


@examples(400)
@given(workloads(), option_sets())
def test_equals_its_slow_twin(workload: Workload, options: dict[str, Any]) -> None:
    slow = run_policy(SlowRedirection, workload, N_PROCS, config=DYNAMIC, **options)
    assert results_of(redirect(workload, **options)) == results_of(slow)


class Watched(Redirection):
    """Notes each redirection: the message, the job, and how many have come while it ran."""

    seen: list[tuple[int, str, int]]
    arrivals: list[float]
    n_rounds = 0

    def on_job_submitted(self, job: Any, now: float) -> None:
        super().on_job_submitted(job, now)
        self.arrivals.append(now)

    def decide(self, now: float) -> Any:
        type(self).n_rounds += 1
        for decision in super().decide(now):
            if isinstance(decision, d.Requeue):
                job = next(job for job in self.principal.partition.running_jobs if job.id == decision.job_id)
                n_came = sum(at >= (job.started_at or 0.0) for at in self.arrivals)
                self.seen.append((self.n_rounds, job.id, n_came))
            yield decision


@examples(300)
@given(workloads(), option_sets())
def test_invariants_hold_on_random_workloads(workload: Workload, options: dict[str, Any]) -> None:
    seen: list[tuple[int, str, int]] = []
    policy = type("WatchedRedirection", (Watched,), {"seen": seen, "arrivals": []})
    run = run_policy(policy, workload, N_PROCS, config=DYNAMIC, **options)
    assert not run.deadlocked
    n_principal = N_PROCS - options["group_size"]
    group = IntervalSet.span(n_principal, N_PROCS)
    second = {
        job.metadata.partition(";")[0].removeprefix("parent="): job for job in run.jobs.values() if is_second(job)
    }
    first = {job.id: job for job in run.jobs.values() if not is_second(job)}
    redirected = [job_id for _, job_id, _ in seen]
    assert len(set(redirected)) == len(redirected), "once at most (I2)"
    # A job that was to be redirected may have ended in that very instant: then it runs no second time.
    assert set(second) <= set(redirected)
    assert all(first[job_id].final_state == e.COMPLETED_SUCCESSFULLY for job_id in set(redirected) - set(second))
    for job_id, job in first.items():
        n = job.fields["res"]
        if n > n_principal:
            assert job.final_state == "REJECTED"
            continue
        assert job.procs.isdisjoint(group), "in the group if and only if redirected (I1)"
        if job_id in second:
            again = second[job_id]
            assert job.final_state == e.COMPLETED_KILLED
            assert again.procs.issubset(group)
            assert n <= len(group), "it fits (I3)"
            assert again.final_state == e.COMPLETED_SUCCESSFULLY
            assert again.started_at is not None
            assert again.ended_at is not None
            assert job.ended_at is not None
            # Batsim writes a run time of 10 microseconds for a job killed in the instant of its start.
            assert again.started_at >= job.ended_at - 1e-5
            assert again.ended_at - again.started_at == work_s(workload, job), "all of its work from scratch (I10)"
    # I4: more than theta must have come while it ran; that just as many waited is what the twin checks.
    assert all(n_came > options["theta"] for _, _, n_came in seen)
    if options["decision"] == "per_round":
        rounds = [number for number, _, _ in seen]
        assert len(set(rounds)) == len(rounds), "one a round (I5)"


def is_second(job: FakeJob) -> bool:
    return job.id.startswith("dyn!")


def work_s(workload: Workload, job: FakeJob) -> float:
    delay: float = workload.profiles[job.fields["profile"]]["delay"]
    return delay


@examples(100)
@given(workloads(widest=5), st.integers(0, 3), st.sampled_from(["q", "w", "none", "w_paper"]))
def test_without_a_threshold_it_is_easy_on_the_principal_group(workload: Workload, size: int, rule: str) -> None:
    """I6, to the last processor: by theta, by option or as text."""
    easy = results_of(run_policy("easy", workload, N_PROCS - size))
    for theta in (float("inf"), "inf", 10**9):
        assert results_of(redirect(workload, group_size=size, theta=theta, filter=rule)) == easy


@examples(100)
@given(workloads(widest=5), st.integers(1, 2))
def test_no_job_is_redirected_to_a_group_too_small(workload: Workload, size: int) -> None:
    """I7: no group, or one that is smaller than all jobs."""
    for job in workload.jobs:
        job["res"] = max(job["res"], size + 1)
    easy = results_of(run_policy("easy", workload, N_PROCS - size))
    assert results_of(redirect(workload, group_size=size, theta=0)) == easy
    assert results_of(redirect(workload, alpha=0, theta=0)) == results_of(run_policy("easy", workload, N_PROCS))


@examples(120)
@given(workloads(exact=True), st.sampled_from(LOCAL), st.sampled_from(LOCAL), st.booleans())
def test_all_jobs_end_with_any_local_schedulers(
    workload: Workload, principal: str, redirected: str, compression: bool
) -> None:
    options: dict[str, Any] = {"group_size": 2, "theta": 1, "principal": principal, "redirected": redirected}
    if principal in {"conservative", "dbf"}:
        options["principal_options"] = {"compression": compression}
    if redirected in {"conservative", "dbf"}:
        options["redirected_options"] = {"compression": compression}
    run = redirect(workload, **options)
    assert not run.deadlocked
    n_done = sum(job.final_state == e.COMPLETED_SUCCESSFULLY for job in run.jobs.values())
    n_fitting = sum(job["res"] <= N_PROCS - 2 for job in workload.jobs)
    assert n_done == n_fitting
    without = redirect(workload, **(options | {"theta": "inf"}))
    alone = run_policy(principal, only_fitting(workload), N_PROCS - 2, **options.get("principal_options", {}))
    assert results_of(without) == results_of(alone) | rejected(workload)


def only_fitting(workload: Workload) -> Workload:
    kept = Workload()
    kept.profiles = workload.profiles
    kept.jobs = [job for job in workload.jobs if job["res"] <= N_PROCS - 2]
    return kept


def rejected(workload: Workload) -> dict[str, Any]:
    wide = [job for job in workload.jobs if job["res"] > N_PROCS - 2]
    return {f"w0!{job['id']}": (None, None, "", "REJECTED") for job in wide}


@examples(100)
@given(workloads(exact=True, widest=6))
def test_no_backfilled_job_delays_the_head(workload: Workload) -> None:
    """I8: in the principal group too, the head starts no later than when it was promised to, redirections aside.

    A redirection frees processors and takes a job away for good, so it can only help.
    """
    promised: dict[str, float] = {}
    heads: list[tuple[str, float]] = []

    class Noted(Redirection):
        def decide(self, now: float) -> Any:
            yield from super().decide(now)
            local: Any = self.principal
            if local.queue and not local.partition.n_kills_pending:
                head = local.queue[0][2]
                shadow_at, _ = local.shadow(head, now)
                heads.append((head.id, shadow_at))

    run = run_policy(Noted, workload, N_PROCS, config=DYNAMIC, group_size=2, theta=1)
    for job_id, shadow_at in heads:
        promised[job_id] = min(promised.get(job_id, shadow_at), shadow_at)
    for job_id, shadow_at in promised.items():
        started_at = run.jobs[job_id].started_at
        assert started_at is not None
        assert started_at <= shadow_at


@examples(40)
@given(workloads(), option_sets())
def test_repeated_runs_give_identical_bytes(workload: Workload, options: dict[str, Any]) -> None:
    def transcript() -> list[bytes]:
        session = Session(plan_for("redirection", **options))
        replies: list[bytes] = []

        def handle(raw: bytes) -> bytes:
            reply = session.handle(raw)
            replies.extend((raw, reply))
            return reply

        FakeBatsim(workload, N_PROCS, config=DYNAMIC).run(handle)
        return replies

    assert transcript() == transcript()


@examples(200)
@given(
    workloads(widest=5),
    outages(N_PROCS, 4),
    st.lists(st.integers(1, 40), min_size=25, max_size=25),
    st.sampled_from(["fcfs", "easy", "conservative", "dbf"]),
    option_sets(),
)
def test_all_jobs_end_with_machine_failures_and_wrong_estimates(
    workload: Workload, events: list[tuple[float, str, str]], runs: list[int], principal: str, options: dict[str, Any]
) -> None:
    """Overruns, early ends and outages in both groups: nothing hangs, and every job that fits is done once."""
    for job, run in zip(workload.jobs, runs, strict=False):
        job["profile"] = f"d{run}"
        workload.profiles[job["profile"]] = {"type": "delay", "delay": run}
        job["walltime"] = max(run, job["estimate"]) + 1
        job["max_stay"] = 3 * job["estimate"]
    options["group_size"] = min(options["group_size"], 3)
    run_of = run_policy(
        "redirection", workload, N_PROCS, config=DYNAMIC, machine_events=events, principal=principal, **options
    )
    assert not run_of.deadlocked
    n_done = sum(job.final_state == e.COMPLETED_SUCCESSFULLY for job in run_of.jobs.values())
    assert n_done == len(workload.jobs)
