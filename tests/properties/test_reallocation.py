"""What reallocation promises, on random grids and crowded workloads."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st
from support.examples import examples
from support.grid_crowds import VARIANTS, crowds, grids
from support.gridded import DYNAMIC, Grid, facts, fates, rejections

from pybatsched.core.decisions import CallMeLater, Decision, Reshape
from pybatsched.core.jobs import JobState
from pybatsched.policies.profile import Profile
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Workload, plan_for, run_policy
from pybatsched_schedulers.grid import GridJob
from pybatsched_schedulers.reallocation import Reallocation
from pybatsched_schedulers.sizing import Place, binary, end_on, exhaustive


class Watched(Reallocation):
    """Reallocation that writes down what it does, and checks each move where it happens."""

    def on_begin(self, cluster: Any) -> None:
        super().on_begin(cluster)
        self.called_for: list[float] = []
        self.last_ends: dict[str, float] = {}
        self.moved: dict[float, list[str]] = {}

    def decide(self, now: float) -> Iterator[Decision]:
        for decision in super().decide(now):
            if (
                isinstance(decision, CallMeLater)
                and decision.reason == "time to look for better clusters for those who wait"
            ):
                self.called_for.append(decision.at)
            if isinstance(decision, Reshape):
                job = self._cluster.jobs[decision.job_id]
                assert job.state is JobState.WAITING
                assert job.queued_in is None
            yield decision

    def _move(self, one: GridJob, place: Place, now: float) -> Iterator[Decision]:
        site = self.sites[place.nth]
        assert site is not one.site
        assert round(one.planned_end(now) - end_on(one, site, place.n, now), 6) >= self.options.threshold
        self.moved.setdefault(now, []).append(one.job.id)
        yield from super()._move(one, place, now)

    def _submit(self, one: GridJob, place: Place, now: float, reason: Any) -> Iterator[Decision]:
        yield from super()._submit(one, place, now, reason)
        if self.options.local == "conservative" and one.site is not None:
            assert one.planned_end(now) == place.end_at  # a reservation is what was estimated
        self.last_ends[one.job.id] = place.end_at


def watched(grid: Grid, workload: Workload, options: dict[str, Any]) -> tuple[Watched, FakeBatsim]:
    session = Session(plan_for(Watched, **options), checked=True)
    fake = FakeBatsim(workload, grid.n_procs, config=DYNAMIC, hosts=grid.hosts).run(session.handle)
    assert not fake.deadlocked
    policy = session.engine.policy
    assert isinstance(policy, Watched)
    return policy, fake


@examples(150)
@given(st.data(), grids(), VARIANTS, st.booleans())
def test_every_job_runs_once_within_its_bounds(
    data: st.DataObject, grid: Grid, options: dict[str, Any], honest: bool
) -> None:
    workload = data.draw(crowds(grid, honest=honest))
    policy, run = watched(grid, workload, options)
    found = fates(run, grid)
    assert found.keys() | rejections(run) == {job["id"] for job in workload.jobs}
    assert not found.keys() & rejections(run)
    for job in workload.jobs:
        fate = found.get(job["id"])
        if fate is None:
            continue
        assert fate.started_at is not None
        assert fate.started_at >= job["subtime"]
        if job.get("external"):
            assert (fate.cluster, fate.n, fate.moves, fate.resubmitted) == (job["cluster"], job["res"], 0, 0)
        elif "moldable" in job:
            assert 1 <= fate.n <= min(job["moldable"]["limit"], grid.clusters[fate.cluster][0])
        else:
            assert fate.n == job["res"]
        assert fate.moves <= fate.resubmitted
    # Events fall at multiples of the period.
    assert all(at == round(round(at / options["period"]) * options["period"], 6) for at in policy.called_for)
    if options["algorithm"] == "none":
        assert not policy.called_for
    if options["heuristic"] == "minmin":
        assert all(len(moved) == len(set(moved)) <= options["window"] for moved in policy.moved.values())


@examples(100)
@given(st.data(), grids(), VARIANTS)
def test_run_time_over_walltime_stays_what_it_was(data: st.DataObject, grid: Grid, options: dict[str, Any]) -> None:
    workload = data.draw(crowds(grid, unscaled=False))
    _, run = watched(grid, workload, options)
    submitted = {job["id"]: job for job in workload.jobs}
    for job in run.jobs.values():
        known = facts(job)
        if "replaced_by" in known or job.final_state == "REJECTED":
            continue
        before = submitted[known.get("parent", job.id).removeprefix("w0!")]
        assert job.started_at is not None
        assert job.ended_at is not None
        took_s = job.ended_at - job.started_at
        if before["profile"].startswith("d") and "walltime" in before:
            fraction, limit = (before.get("moldable") or {}).get("fraction", 0.0), before.get("moldable")
            cluster = grid.cluster_of[job.procs.lowest]
            speeds = {name: speed or 1.0 for name, (_, speed) in grid.clusters.items()}
            scale = 1.0 if before.get("external") else min(speeds.values()) / speeds[cluster]
            if limit:
                n = len(job.procs)
                scale *= ((1 - fraction) + fraction / n) / ((1 - fraction) + fraction / before["res"])
            run_s = min(float(before["profile"][1:]), before["walltime"])
            assert math.isclose(took_s, run_s * scale, abs_tol=3e-6)


@examples(100)
@given(st.data(), grids(), VARIANTS)
def test_nobody_ends_after_the_end_he_was_given_last(data: st.DataObject, grid: Grid, options: dict[str, Any]) -> None:
    """With walltimes that hold; and no call is due when all is over."""
    workload = data.draw(crowds(grid))
    for job in workload.jobs:
        job.pop("estimate", None)
    policy, run = watched(grid, workload, options)
    found = fates(run, grid)
    for job_id, end_at in policy.last_ends.items():
        fate = found.get(job_id.removeprefix("w0!"))
        if fate is not None:
            assert fate.ended_at is not None
            assert fate.ended_at <= end_at + 3e-6


@examples(100)
@given(st.data(), grids(), VARIANTS)
def test_the_last_call_is_due_before_the_last_end(data: st.DataObject, grid: Grid, options: dict[str, Any]) -> None:
    """Where jobs take as long as they say, so that plans come true."""
    workload = data.draw(crowds(grid, unscaled=False))
    for job in workload.jobs:
        job.pop("estimate", None)
        job["walltime"] = (
            sum(workload.profiles[part]["delay"] for part in 2 * workload.profiles[job["profile"]].get("seq", []))
            or workload.profiles[job["profile"]]["delay"]
        )
    policy, run = watched(grid, workload, options)
    last_end = max((fate.ended_at or 0 for fate in fates(run, grid).values()), default=0)
    assert max(policy.called_for, default=0) <= last_end


@examples(100)
@given(st.data(), grids(), VARIANTS)
def test_with_one_cluster_and_rigid_jobs_it_is_the_local_scheduler(
    data: st.DataObject, grid: Grid, options: dict[str, Any]
) -> None:
    """All cancellation plans anew, and is not."""
    assume(options["algorithm"] != "all_cancellation")
    name, (n, _) = next(iter(grid.clusters.items()))
    alone = Grid({name: (n, None)})
    workload = data.draw(crowds(alone, honest=False))
    for job in workload.jobs:
        job.pop("moldable", None)
    mine = fates(alone.run(workload, **options), alone)
    theirs = run_policy(options["local"], workload, n, **options["local_options"])
    told = {job.id.removeprefix("w0!"): job for job in theirs.jobs.values() if job.final_state != "REJECTED"}
    assert {key: (fate.started_at, fate.ended_at) for key, fate in mine.items()} == {
        key: (job.started_at, job.ended_at) for key, job in told.items()
    }


OUTAGES = st.lists(
    st.tuples(
        st.integers(0, 60).map(float),
        st.sampled_from(["event_machine_unavailable", "event_machine_available"]),
        st.integers(0, 3),
    ),
    max_size=8,
)


@examples(150)
@given(st.data(), grids(), VARIANTS, OUTAGES)
def test_nobody_is_lost_when_machines_go_and_come(
    data: st.DataObject, grid: Grid, options: dict[str, Any], outages: list[tuple[float, str, int]]
) -> None:
    workload = data.draw(crowds(grid))
    events: list[tuple[float, str, str]] = []
    away: set[int] = set()
    for at, kind, proc in sorted(outages):
        goes = kind == "event_machine_unavailable"
        if proc < grid.n_procs and (proc in away) != goes:
            events.append((at, kind, str(proc)))
            (away.add if goes else away.discard)(proc)
    session = Session(plan_for(Watched, **options), checked=True)
    fake = FakeBatsim(workload, grid.n_procs, config=DYNAMIC, hosts=grid.hosts, machine_events=events)
    fake.run(session.handle)
    assert not fake.deadlocked
    assert fates(fake, grid).keys() | rejections(fake) == {job["id"] for job in workload.jobs}


class Drawn:
    """Sizes on a random profile; asked without bounds it tells all."""

    def __init__(self, profile: Profile, n_most: int, alone_s: float, fraction: float) -> None:
        self.profile, self.n_most, self.alone_s, self.fraction = profile, n_most, alone_s, fraction

    def span_s(self, n: int) -> float:
        return round(self.alone_s * ((1 - self.fraction) + self.fraction / n), 6)

    def soonest(self, n: int) -> float:
        return self.span_s(n)

    def end_at(self, n: int, not_after: float) -> float:
        start_at = self.profile.earliest(n, self.span_s(n), 0.0)
        end_at = round(start_at + self.span_s(n), 6)
        return math.inf if end_at > not_after else end_at


def plain_binary(sizes: Drawn) -> tuple[float, int]:
    low, high = 1, sizes.n_most
    seen = {n: sizes.end_at(n, math.inf) for n in (low, high)}
    while high - low > 1:
        middle = (low + high) // 2
        seen[middle] = sizes.end_at(middle, math.inf)
        low, high = (low, middle) if seen[low] <= seen[high] else (middle, high)
    return min((end_at, n) for n, end_at in seen.items())


@examples(300)
@given(
    st.lists(st.tuples(st.integers(1, 6), st.integers(0, 40), st.integers(1, 30)), max_size=12),
    st.integers(1, 40),
    st.integers(1, 200),
    st.sampled_from([0.0, 0.5, 0.8, 0.99, 1.0]),
    st.sampled_from([math.inf, 5.0, 20.0, 60.0]),
)
def test_searches_that_are_cut_short_find_the_same(
    busy: list[tuple[int, int, int]], n_most: int, alone_s: int, fraction: float, beat: float
) -> None:
    profile = Profile(0.0, 40)
    for n, start, length in busy:
        if profile.least_free(start, start + length) >= n:
            profile.take(n, float(start), float(start + length))
    sizes = Drawn(profile, n_most, float(alone_s), fraction)
    for search, best in (
        (binary, plain_binary(sizes)),
        (exhaustive, min((sizes.end_at(n, math.inf), n) for n in range(1, n_most + 1))),
    ):
        found = search(sizes, beat)
        assert found == best if best[0] < beat or beat == math.inf else found[0] >= beat
