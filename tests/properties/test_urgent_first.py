"""Urgent jobs first, on random workloads: invariants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from hypothesis import given, strategies as st
from support.examples import examples
from support.outages import outages
from support.urgent_twin import SlowUjfb

from pybatsched.core import events as e
from pybatsched.core.decisions import Decision, ExecuteJob
from pybatsched.core.instants import instant
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.jobs import Job
from pybatsched.core.policy import Policy
from pybatsched.metrics import JobRecord, Outcome, joined
from pybatsched.metrics.outcomes import lineage_of
from pybatsched.testing import FakeBatsim, Workload, run_policy
from pybatsched_schedulers.conservative import Conservative
from pybatsched_schedulers.ujfb.policy import Ujfb, UjfbScheduler

N_PROCS = 8
DYNAMIC = {"dynamic-jobs-enabled": True}
HOSTS = [{"vh": str(i // 4), "memory_gb": "6", "swap_bw_gbps": "6"} for i in range(N_PROCS)]
OPTIONS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "victim_order": st.sampled_from(["start_order", "longest_remaining", "fewest"]),
        "pd": st.sampled_from(["max", "serial"]),
        "urgent_order": st.sampled_from(["fcfs", "shortest"]),
        "order": st.sampled_from(["fcfs", "sjf", "widest"]),
        "compression": st.booleans(),
        "vh_memory_gb": st.sampled_from([0, 12, 24]),
    },
)
SWAPS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {},
        {"swap": "fixed", "swap_out": 1, "swap_in": 2},
        {"swap": "fixed", "swap_out": 0, "swap_in": 0},
        {"swap": "uniform", "seed": 5},
    ]
)
MODES = st.sampled_from(["suspend", "suspend", "kill_restart"])


@st.composite
def workloads(draw: st.DrawFn, *, honest: bool = False, n_urgent: int = 99, kinds: bool = True) -> Workload:
    """Draw crowded workloads; some jobs are urgent, some are parallel or composed, some estimates are wrong.

    Of `honest` ones no job outlives its estimate.
    """
    workload = Workload()
    workload.profiles |= {
        "task": {"type": "parallel_homogeneous", "cpu": 7e9, "com": 0},
        "delays": {"type": "composed", "repeat": 2, "seq": ["d3", "d1"]},
        "mixed": {"type": "composed", "seq": ["d1", "task"]},
        "d3": {"type": "delay", "delay": 3},
        "d1": {"type": "delay", "delay": 1},
    }
    at = 0
    for index in range(draw(st.integers(1, 16))):
        at += draw(st.sampled_from([0, 0, 1, 2, 4]))
        s = draw(st.sampled_from([0.5, 1, 2, 5, 9, 20]))
        urgent = n_urgent > 0 and draw(st.sampled_from([False, False, False, True]))
        n_urgent -= urgent
        estimate = max(s + draw(st.sampled_from([0, 0, 0, 3, 0 if honest else -1])), 0.25)
        walltime = max(s, estimate) + 1
        fields: dict[str, Any] = {"memory_gb": draw(st.sampled_from([0, 3, 6]))} if draw(st.booleans()) else {}
        n = draw(st.integers(1, N_PROCS))
        workload.job(f"{index:02}", n=n, s=s, at=at, estimate=estimate, walltime=walltime, urgent=urgent, **fields)
        if kinds and not urgent and draw(st.integers(0, 4)) == 4:
            kind = draw(st.sampled_from(["task", "delays", "mixed"]))
            workload.jobs[-1] |= {"profile": kind, "estimate": 8, "walltime": 30}
    return workload


def ran(workload: Workload, policy: type[Policy] = Ujfb, **options: Any) -> FakeBatsim:
    events = options.pop("machine_events", ())
    run = run_policy(policy, workload, N_PROCS, config=DYNAMIC, hosts=HOSTS, machine_events=events, **options)
    assert not run.deadlocked
    assert run.n_messages <= 10 * len(workload.jobs) + len(events) + 10
    return run


def records(run: FakeBatsim, workload: Workload) -> dict[str, JobRecord]:
    rows = [
        Outcome(
            job.id,
            job.final_state,
            float(job.fields["subtime"]),
            -1.0 if job.started_at is None else job.started_at,
            0.0 if job.ended_at is None or job.started_at is None else round(job.ended_at - job.started_at, 6),
            len(job.procs),
            job.metadata,
            job.procs,
        )
        for job in run.jobs.values()
    ]
    fields = {f"w0!{job['id']}": job for job in workload.jobs}
    return {record.id: record for record in joined(rows, fields)}


@examples(150)
@given(workloads(n_urgent=0), SWAPS, st.booleans())
def test_without_urgent_jobs_it_is_conservative(workload: Workload, swaps: dict[str, Any], compression: bool) -> None:
    other = run_policy(Conservative, workload, N_PROCS, compression=compression)
    run = ran(workload, compression=compression, **swaps)
    assert {job.id: (job.started_at, job.procs) for job in run.jobs.values()} == {
        job.id: (job.started_at, job.procs) for job in other.jobs.values()
    }


@examples(400)
@given(workloads(), SWAPS, OPTIONS, st.booleans())
def test_preempted_jobs_keep_their_work_and_processors(
    workload: Workload, swaps: dict[str, Any], options: dict[str, Any], same: bool
) -> None:
    run = ran(workload, resume_same_resources=same, **swaps, **options)
    kills = [job for job in run.jobs.values() if job.final_state == e.COMPLETED_KILLED]
    derived = [job for job in run.jobs.values() if job.id.startswith("dyn!")]
    assert len(kills) == len(derived)
    for record in records(run, workload).values():
        assert record.state in {e.COMPLETED_SUCCESSFULLY, e.COMPLETED_WALLTIME_REACHED}
        parts = record.segments
        if record.fields["urgent"]:
            assert len(parts) == 1
        if same:
            assert {part.procs for part in parts} == {parts[0].procs}
        profile = workload.profiles[record.fields["profile"]]
        if profile["type"] == "delay" and record.state == e.COMPLETED_SUCCESSFULLY:
            assert abs(record.runtime_s - profile["delay"]) <= 1.1e-5 * len(parts)


@examples(400)
@given(workloads(), SWAPS, OPTIONS)
def test_processors_of_victims_are_idle_until_the_urgent_job_starts(
    workload: Workload, swaps: dict[str, Any], options: dict[str, Any]
) -> None:
    run = ran(workload, **swaps, **options)
    found = records(run, workload)
    for record in found.values():
        for part, after in zip(record.segments, record.segments[1:], strict=False):
            lineage = lineage_of(after.metadata)
            assert lineage is not None
            urgent = found[lineage.by]
            assert urgent.fields["urgent"]
            stopped_at, begins_at = part.ended_at, urgent.started_at
            for other in run.jobs.values():
                if other.started_at is not None and not other.procs.isdisjoint(part.procs):
                    assert not stopped_at < other.started_at < begins_at


@examples(300)
@given(workloads(honest=True, kinds=False), SWAPS, OPTIONS, outages(N_PROCS, 3), st.booleans(), MODES)
def test_starts_equal_those_of_the_slow_twin(
    workload: Workload, swaps: dict[str, Any], options: dict[str, Any], events: Any, same: bool, mode: str
) -> None:
    """Start by start, with processors, for jobs that do not outlive their estimates."""
    options |= {"machine_events": events, "resume_same_resources": same, "mode": mode}
    run, slow = ran(workload, **swaps, **options), ran(workload, SlowUjfb, **swaps, **options)
    assert {job.id: (job.started_at, job.ended_at, str(job.procs)) for job in run.jobs.values()} == {
        job.id: (job.started_at, job.ended_at, str(job.procs)) for job in slow.jobs.values()
    }


class Watched(UjfbScheduler):
    """Records which jobs it preempts for which, and which it starts while urgent jobs wait."""

    def _preempt(self, urgent: Job, jobs: list[Job], now: float) -> Iterator[Decision]:
        freed = [self.partition.n_returned_by(job) for job in jobs]
        missing = urgent.n_procs - len(self._usable())
        assert sum(freed) >= missing > sum(freed[:-1])
        assert not any(job.is_urgent() for job in jobs)
        assert all(self._can_stop(job) for job in jobs)
        return super()._preempt(urgent, jobs, now)


class WatchedUjfb(Ujfb):
    def on_begin(self, cluster: Any) -> None:
        self.local = Watched(cluster.add_partition("all", cluster.procs), self.options, cluster)
        self.locals = [self.local]

    def decide(self, now: float) -> Iterable[Decision]:
        for decision in super().decide(now):
            yield decision
            if isinstance(decision, ExecuteJob) and self.local._reserved:
                job = next(job for job in self.local.partition.running_jobs if job.id == decision.job_id)
                if not job.is_urgent():
                    self.check_no_job_is_delayed(job, now)

    def check_no_job_is_delayed(self, started: Job, now: float) -> None:
        """Urgent jobs that wait may still have their reservations beside what was started."""
        local = self.local
        free = local._free_for_urgents(now)
        if local._can_stop(started):
            free.take(started.n_procs, now, started.expected_end_at)  # as if it could not be preempted
        for _, _, job in local._urgents:
            booking = local._reserved[job.id]
            assert free.earliest(job.n_procs, local.span_s(job), now) == booking.start_at
            free.take(*booking)


@examples(400)
@given(workloads(), SWAPS, OPTIONS)
def test_few_jobs_are_preempted_and_none_delays_an_urgent_job(
    workload: Workload, swaps: dict[str, Any], options: dict[str, Any]
) -> None:
    ran(workload, WatchedUjfb, **swaps, **options)


@examples(200)
@given(workloads(n_urgent=1, kinds=False), st.sampled_from(["max", "serial"]))
def test_a_single_urgent_job_starts_at_its_submission(workload: Workload, pd: str) -> None:
    run = ran(workload, swap="fixed", swap_out=1, swap_in=1, pd=pd)
    found = records(run, workload)
    for record in found.values():
        if record.fields["urgent"]:
            parts = [one for other in found.values() for one in other.segments[1:]]
            n_victims = len({part.id for part in parts})
            delay_s = 0 if not n_victims else 1 if pd == "max" else n_victims + 1
            assert record.started_at == instant(record.submitted_at, delay_s)


@examples(200)
@given(workloads(), SWAPS, OPTIONS, outages(N_PROCS, 6), st.booleans(), MODES)
def test_all_jobs_end_with_outages_and_wrong_estimates(
    workload: Workload, swaps: dict[str, Any], options: dict[str, Any], events: Any, same: bool, mode: str
) -> None:
    run = ran(workload, machine_events=events, resume_same_resources=same, mode=mode, **swaps, **options)
    assert all(job.final_state for job in run.jobs.values())
    away: dict[int, list[tuple[float, float]]] = {}
    for at, kind, procs in events:
        if kind == e.MACHINES_UNAVAILABLE:
            away.setdefault(int(procs), []).append((at, 1e9))
        else:
            begin, _ = away[int(procs)].pop()
            away[int(procs)].append((begin, at))
    for job in run.jobs.values():
        if job.started_at is not None:
            for proc in IntervalSet.parse(str(job.procs)):
                assert not any(begin < job.started_at < end for begin, end in away.get(proc, ()))
