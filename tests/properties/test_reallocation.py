"""Invariants of reallocation on random grids: moves, reservations, sizes, calls, and no lost jobs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from hypothesis import given, strategies as st
from support.examples import examples
from support.grid_crowds import VARIANTS, crowd, crowds, grids
from support.grid_twin import GridTwin, by_all, by_halves
from support.gridded import Fate, Grid, fates, rejections
from support.located import DYNAMIC, facts

from pybatsched.core import events as e
from pybatsched.core.decisions import CallMeLater, Decision, Reason
from pybatsched.core.jobs import JobState
from pybatsched.core.policy import Policy
from pybatsched.policies.availability import AvailabilityProfile
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Workload, plan_for, run_policy
from pybatsched_schedulers.reallocation.grid import GridJob
from pybatsched_schedulers.reallocation.options import Sizing
from pybatsched_schedulers.reallocation.policy import Reallocation
from pybatsched_schedulers.reallocation.sizing import SEARCHES, SiteOffer

ONE_CLUSTER = grids().map(lambda grid: Grid(dict([next(iter(grid.clusters.items()))])))
DONE = {"COMPLETED_SUCCESSFULLY", "COMPLETED_WALLTIME_REACHED"}


class Watched(Reallocation):
    """Reallocation that is checked while it decides, and whose promises are recorded."""

    def on_begin(self, cluster: Any) -> None:
        super().on_begin(cluster)
        self.promised_ends: dict[str, float] = {}  # the last promised end of each job
        self.calls: list[float] = []
        self.moves: Counter[float] = Counter()  # by event

    def decide(self, now: float) -> Iterator[Decision]:
        for decision in super().decide(now):
            if isinstance(decision, CallMeLater):
                self.calls.append(decision.at)
            yield decision

    def _submit(self, one: GridJob, place: SiteOffer, now: float, reason: Reason) -> Iterator[Decision]:
        yield from super()._submit(one, place, now, reason)
        if one.job.id in self._waiting:
            assert one.planned_end(now) == place.end_at  # its reservation is what it was promised
            assert one.site is self.sites[place.nth]
            assert one.job.n_procs == place.n
            self.promised_ends[one.job.id.removeprefix("w0!")] = place.end_at

    def _withdraw(self, one: GridJob, now: float) -> None:
        assert one.job.state is JobState.WAITING
        super()._withdraw(one, now)

    def _move(self, one: GridJob, place: SiteOffer, now: float) -> Iterator[Decision]:
        assert self.sites[place.nth] is not one.site
        assert round(one.planned_end(now) - place.end_at, 6) >= self.options.threshold
        self.moves[now] += 1
        return super()._move(one, place, now)

    def _reallocate(self, now: float) -> Iterator[Decision]:
        nth = round(now / self.options.period)
        assert abs(now - nth * self.options.period) <= 1.05e-5  # calls in less time than that come a little late
        assert nth > 0
        return super()._reallocate(now)


def watched(
    grid: Grid, workload: Workload, options: dict[str, Any], outages: list[tuple[float, str, str]] | None = None
) -> tuple[FakeBatsim, Watched]:
    session = Session(plan_for(Watched, **options), checked=True)
    fake = FakeBatsim(workload, grid.n_procs, config=DYNAMIC, hosts=grid.hosts, machine_events=outages or ())
    fake.run(session.handle)
    assert not fake.deadlocked
    policy = session.engine.policy
    assert isinstance(policy, Watched)
    return fake, policy


def sizes_fit(workload: Workload, found: dict[str, Fate], grid: Grid) -> None:
    """Check that all have a size that they may have, where it is one."""
    for job in workload.jobs:
        fate = found.get(job["id"])
        if fate is None:
            continue
        most = grid.clusters[fate.cluster][0]
        if job.get("external"):
            assert (fate.cluster, fate.n, fate.moves) == (job["cluster"], job["res"], 0)
        elif "moldable" in job:
            assert 1 <= fate.n <= min(job["moldable"]["limit"], most)
        else:
            assert fate.n == job["res"]


@examples(100)
@given(st.data(), grids(), VARIANTS)
def test_promises_are_kept_for_jobs_within_their_estimates(
    data: st.DataObject, grid: Grid, options: dict[str, Any]
) -> None:
    workload = data.draw(crowds(grid))
    run, policy = watched(grid, workload, options)
    found = fates(run, grid)
    assert found.keys() | rejections(run) == {job["id"] for job in workload.jobs}
    sizes_fit(workload, found, grid)
    # No job ends after its last promised end.
    assert found.keys() >= policy.promised_ends.keys()
    assert all((found[name].ended_at or math.inf) <= end_at for name, end_at in policy.promised_ends.items())
    if options["algorithm"] == "regular" and options["heuristic"] == "minmin":
        assert all(n <= options["window"] for n in policy.moves.values())
    # To be looked at changes nothing.
    assert found == fates(grid.run(workload, **options), grid)


@examples(60)
@given(st.data(), grids(), VARIANTS)
def test_runs_end_by_themselves(data: st.DataObject, grid: Grid, options: dict[str, Any]) -> None:
    """With exact walltimes all calls are due before the last job ends."""
    workload = data.draw(crowds(grid, unscaled=False))
    for job in workload.jobs:
        job.pop("estimate", None)
        job["walltime"] = run_of(workload, job)
    run, policy = watched(grid, workload, options | {"local_options": {}})
    last_end = max((fate.ended_at or 0.0 for fate in fates(run, grid).values()), default=0.0)
    assert all(at < last_end for at in policy.calls)


def run_of(workload: Workload, job: dict[str, Any]) -> float:
    """Return the run time of a job that is made of delays, as submitted."""
    profile = workload.profiles[job["profile"]]
    once_s = sum(workload.profiles[part]["delay"] for part in profile.get("seq", [job["profile"]]))
    return float(round(profile.get("repeat", 1) * once_s, 6))


@examples(60)
@given(st.data(), grids(), VARIANTS)
def test_run_time_and_walltime_keep_their_ratio(data: st.DataObject, grid: Grid, options: dict[str, Any]) -> None:
    workload = data.draw(crowds(grid, unscaled=False))
    submitted = {f"w0!{job['id']}": job for job in workload.jobs}
    for job in grid.run(workload, **options).jobs.values():
        if job.final_state not in DONE:
            continue
        before = submitted[facts(job).get("parent", job.id)]
        run_s = run_of(workload, before)
        assert job.started_at is not None
        assert job.ended_at is not None
        took_s, walltime = job.ended_at - job.started_at, job.fields["walltime"]
        # Each of the two is rounded to the tick, and a walltime may be a tick longer so that the job ends by itself.
        assert abs(took_s * before["walltime"] - run_s * walltime) <= 1.6e-6 * (before["walltime"] + run_s)
        if run_s != before["walltime"]:  # the sum of its parts may be a little less
            assert (job.final_state == "COMPLETED_SUCCESSFULLY") == (run_s < before["walltime"])


@examples(60)
@given(st.data(), grids(), VARIANTS)
def test_without_reallocation_jobs_stay_on_the_cluster_of_their_earliest_end(
    data: st.DataObject, grid: Grid, options: dict[str, Any]
) -> None:
    workload = data.draw(crowds(grid))
    run, policy = watched(grid, workload, options | {"algorithm": "none"})
    found = fates(run, grid)
    assert dict(policy.figures()) == dict.fromkeys(policy.figures(), 0)
    assert all((fate.moves, fate.resubmitted) == (0, 0) for fate in found.values())
    if options["local_options"].get("compression", True):
        assert policy.calls == []
    # As if no event ever came.
    assert found == fates(grid.run(workload, **options | {"period": 1e9}), grid)


@st.composite
def rigid_crowds(draw: st.DrawFn, grid: Grid) -> Workload:
    workload = draw(crowds(grid))
    for job in workload.jobs:
        job.pop("moldable", None)
    return workload


def outages(grid: Grid, *, for_good: bool) -> st.SearchStrategy[list[tuple[float, str, str]]]:
    """Draw machine events: each processor goes once at most, and comes back or stays away."""

    def events(drawn: list[tuple[int, int, int | None]]) -> list[tuple[float, str, str]]:
        found = []
        for proc, (start, length) in {proc: (start, length) for start, proc, length in drawn}.items():
            found.append((float(start), e.MACHINES_UNAVAILABLE, str(proc)))
            if length is not None:
                found.append((float(start + length), e.MACHINES_AVAILABLE, str(proc)))
        return found

    lengths = st.integers(1, 100) | st.none() if for_good else st.integers(1, 100)
    return st.lists(st.tuples(st.integers(0, 80), st.integers(0, grid.n_procs - 1), lengths), max_size=6).map(events)


@examples(100)
@given(st.data(), ONE_CLUSTER, VARIANTS, st.sampled_from(["none", "regular"]))
def test_one_cluster_equals_its_local_scheduler(
    data: st.DataObject, grid: Grid, options: dict[str, Any], algorithm: str
) -> None:
    """Start by start and processor by processor, also if machines go and come back."""
    workload = data.draw(rigid_crowds(grid))
    events = data.draw(st.just([]) | outages(grid, for_good=False))
    local, local_options = options["local"], options["local_options"]
    found, expected = (
        {
            job.id: (job.started_at, job.ended_at, str(job.procs), job.final_state)
            for job in run_policy(
                policy, workload, grid.n_procs, hosts=grid.hosts, config=DYNAMIC, machine_events=events, **given
            ).jobs.values()
        }
        for policy, given in (("reallocation", options | {"algorithm": algorithm}), (local, local_options))
    )
    assert found == expected


@examples(150)
@given(st.data(), grids(), VARIANTS)
def test_no_job_is_lost_after_machine_events(data: st.DataObject, grid: Grid, options: dict[str, Any]) -> None:
    """Wrong estimates, machines that go and come back, or do not: each job runs once, or is rejected for good."""
    for_good = data.draw(st.booleans())
    workload = data.draw(crowds(grid) | crowds(grid, honest=False))
    run, _ = watched(grid, workload, options, data.draw(outages(grid, for_good=for_good)))
    found, rejected = fates(run, grid), rejections(run)
    assert found.keys() | rejected == {job["id"] for job in workload.jobs}
    assert not found.keys() & rejected
    sizes_fit(workload, found, grid)
    if not for_good:
        assert rejected == rejections(grid.run(workload, **options))


def test_estimates_hold_while_a_job_runs_past_its_estimate() -> None:
    """The plan was repaired, and compressed, when it was asked, and again at the same instant when the job came."""
    grid = Grid({"c0": (4, None), "c1": (4, None)})
    workload = crowd(grid, 67108865, 14, honest=False)
    outage = [(5.0, e.MACHINES_UNAVAILABLE, "4"), (8.0, e.MACHINES_AVAILABLE, "4")]
    options = {"algorithm": "none", "sizing": "exhaustive", "local": "conservative", "period": 10}
    run, policy = watched(grid, workload, options, outage)
    assert policy.promised_ends["13"] == 83.000001
    assert fates(run, grid).keys() | rejections(run) == {job["id"] for job in workload.jobs}


class Drawn:
    """The sizes of a job on a profile, which counts how often its ends are looked up."""

    def __init__(self, profile: AvailabilityProfile, n_most: int, fraction: float, alone_s: float, now: float) -> None:
        self.profile, self.n_most, self.now = profile, n_most, now
        self.spans_s = {n: round(alone_s * ((1 - fraction) + fraction / n), 6) for n in range(1, n_most + 1)}
        self.n_asked = 0

    def soonest(self, n: int) -> float:
        return round(self.now + self.spans_s[n], 6)

    def end_at(self, n: int, not_after: float) -> float:
        self.n_asked += 1
        end_at = self.exact(n)
        return math.inf if end_at > not_after else end_at

    def prefer(self, n: int, end_at: float, other: int) -> None:
        """Ignore how the clock would change the path of the search."""

    def exact(self, n: int) -> float:
        return round(self.profile.earliest(n, self.spans_s[n], self.now) + self.spans_s[n], 6)


@st.composite
def drawn_sizes(draw: st.DrawFn) -> Drawn:
    """Draw the sizes of a job on a busy cluster."""
    n_procs = draw(st.integers(1, 40))
    profile = AvailabilityProfile(0.0, n_procs)
    for n, start, span in draw(
        st.lists(st.tuples(st.integers(1, n_procs), st.integers(0, 60), st.integers(1, 60)), max_size=12)
    ):
        at = profile.earliest(n, span, start)
        profile.take(n, at, at + span)
    now, fraction = float(draw(st.integers(0, 20))), draw(st.sampled_from([0, 0.3, 0.8, 0.99, 1]))
    return Drawn(profile, draw(st.integers(1, n_procs)), fraction, draw(st.integers(1, 200)) / 2, now)


@examples(300)
@given(drawn_sizes(), st.sampled_from(["binary", "exhaustive"]), st.integers(0, 200) | st.just(math.inf))
def test_bounded_searches_equal_plain_searches(sizes: Drawn, sizing: Sizing, beat: float) -> None:
    plain = (by_halves if sizing == "binary" else by_all)(sizes.exact, sizes.n_most)
    assert SEARCHES[sizing](sizes) == plain
    assert sizes.n_asked <= (2 + math.ceil(math.log2(sizes.n_most)) if sizing == "binary" else sizes.n_most)
    end_at, n = SEARCHES[sizing](sizes, beat)
    if plain[0] < beat:
        assert (end_at, n) == plain
    else:
        assert end_at >= beat


class Outcome(NamedTuple):
    """What became of all jobs, and the policy's own figures."""

    fates: dict[str, Fate]
    rejected: set[str]
    figures: dict[str, float]
    n_messages: int

    def without_events(self) -> tuple[Any, ...]:
        """Leave out how many events there were, and how often jobs were withdrawn by them."""
        fates = {name: fate._replace(resubmitted=0) for name, fate in self.fates.items()}
        figures = {name: figure for name, figure in self.figures.items() if name not in {"n_events", "max_resubmitted"}}
        return fates, self.rejected, figures


def run(policy: str | type[Policy], grid: Grid, workload: Workload, options: dict[str, Any]) -> Outcome:
    session = Session(plan_for(policy, **options), checked=True)
    fake = FakeBatsim(workload, grid.n_procs, config=DYNAMIC, hosts=grid.hosts).run(session.handle)
    assert not fake.deadlocked
    figures = dict(session.engine.policy.figures())
    return Outcome(fates(fake, grid), rejections(fake), figures, session.n_messages)


@examples(300)
@given(st.data(), grids(), VARIANTS)
def test_starts_equal_those_of_the_slow_twin(data: st.DataObject, grid: Grid, options: dict[str, Any]) -> None:
    """The twin has an event at each multiple of the period; the policy leaves out those that would change nothing."""
    workload = data.draw(crowds(grid))
    fast, slow = (run(policy, grid, workload, options) for policy in ("reallocation", GridTwin))
    assert fast.without_events() == slow.without_events()
    assert fast.figures["n_events"] <= slow.figures["n_events"]
    for name, fate in fast.fates.items():
        assert fate.resubmitted <= slow.fates[name].resubmitted
        assert fate.resubmitted == slow.fates[name].resubmitted or options["algorithm"] == "all_cancellation"
