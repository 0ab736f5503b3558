"""Reallocation by the worked examples: sizes, moves and thresholds."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from support.gridded import Fate, Grid, fates
from support.located import DYNAMIC

from pybatsched.policies.availability import AvailabilityProfile
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Workload, plan_for
from pybatsched_schedulers.reallocation.grid import amdahl
from pybatsched_schedulers.reallocation.sizing import binary, exhaustive

TWO = Grid({"c1": (4, None), "c2": (4, None)})


class FromProfile:
    """The sizes of a job that can be shared perfectly, on a profile of free processors."""

    def __init__(self, profile: AvailabilityProfile, n_most: int, alone_s: float) -> None:
        self.profile, self.n_most, self.alone_s = profile, n_most, alone_s
        self.asked: list[int] = []

    def soonest(self, n: int) -> float:
        return self.alone_s / n

    def end_at(self, n: int, not_after: float) -> float:
        self.asked.append(n)
        end_at = self.profile.earliest(n, self.alone_s / n, 0.0) + self.alone_s / n
        return math.inf if end_at > not_after else end_at

    def prefer(self, n: int, end_at: float, other: int) -> None:
        """Ignore how the clock would change the path of the search."""


def published_example() -> FromProfile:
    """Five processors, of which one is busy until 2, 3, 5 and 6 minutes in turn; a job of 7 minutes."""
    profile = AvailabilityProfile(0.0, 5)
    for start, end in ((120, 180), (120, 300), (120, 360), (0, 360)):
        profile.take(1, start, end)
    assert profile.steps() == [(0, 4), (120, 1), (180, 2), (300, 3), (360, 5)]
    return FromProfile(profile, 5, 420.0)


def test_every_end_of_the_published_example() -> None:
    sizes = published_example()
    assert [round(sizes.end_at(n, math.inf) / 60, 3) for n in range(1, 6)] == [7, 6.5, 7.333, 1.75, 7.4]


def test_the_search_by_halves_misses_the_best_size() -> None:
    sizes = published_example()
    assert binary(sizes) == (390.0, 2)
    assert sorted(sizes.asked) == [1, 2, 3, 5]


def test_the_exhaustive_search_finds_the_best_size() -> None:
    assert exhaustive(published_example()) == (105.0, 4)


class Listed:
    """Sizes whose ends are given."""

    def __init__(self, *ends: float) -> None:
        self.n_most, self.ends = len(ends), ends

    def soonest(self, n: int) -> float:
        return 0.0

    def end_at(self, n: int, not_after: float) -> float:
        return self.ends[n - 1] if self.ends[n - 1] <= not_after else math.inf

    def prefer(self, n: int, end_at: float, other: int) -> None:
        """Ignore how the clock would change the path of the search."""


def test_for_equal_ends_the_search_continues_in_the_lower_half() -> None:
    assert binary(Listed(10, 8, 12, 6, 10)) == (8, 2)
    assert binary(Listed(11, 8, 12, 6, 10)) == (6, 4)


@pytest.mark.parametrize("n_taken", [0, 1, 649])
def test_a_search_for_650_processors_asks_eleven_or_twelve_times(n_taken: int) -> None:
    profile = AvailabilityProfile(0.0, 650)
    profile.take(n_taken, 0.0, 1000.0)
    sizes = FromProfile(profile, 650, 650.0)
    binary(sizes)
    assert len(sizes.asked) in {11, 12}


def test_speedup_by_amdahl() -> None:
    assert [amdahl(1.0, 8), amdahl(0.0, 8), amdahl(0.5, 1)] == [8, 1, 1]


def example(*, first_ends_at: int = 4000, with_short_one: bool = True) -> Workload:
    """C2's job ends long before its walltime, when two jobs wait for c1 already."""
    jobs = Workload()
    jobs.job("1", n=4, s=first_ends_at, walltime=first_ends_at, external=True, cluster="c1")
    jobs.job("2", n=4, s=1800, walltime=7200, external=True, cluster="c2")
    jobs.job("3", n=4, s=600, walltime=600, at=10)
    if with_short_one:
        jobs.job("4", n=4, s=30, walltime=30, at=20)
    return jobs


@pytest.mark.parametrize(
    ("options", "third", "fourth"),
    [
        ({"algorithm": "none"}, Fate(4000, 4600, "c1", 4), Fate(4600, 4630, "c1", 4)),
        ({}, Fate(3600, 4200, "c2", 4, 1, 1), Fate(4000, 4030, "c1", 4)),
        ({"algorithm": "all_cancellation"}, Fate(3600, 4200, "c2", 4, 1, 1), Fate(4000, 4030, "c1", 4, 0, 1)),
        ({"heuristic": "minmin"}, Fate(3630, 4230, "c2", 4, 1, 1), Fate(3600, 3630, "c2", 4, 1, 1)),
        (
            {"algorithm": "all_cancellation", "heuristic": "minmin"},
            Fate(3630, 4230, "c2", 4, 1, 1),
            Fate(3600, 3630, "c2", 4, 1, 1),
        ),
        # With a window of one the oldest is the only one that minmin looks at; the other moves up.
        ({"heuristic": "minmin", "window": 1}, Fate(3600, 4200, "c2", 4, 1, 1), Fate(4000, 4030, "c1", 4)),
    ],
)
@pytest.mark.parametrize("local", ["conservative", "fcfs"])
def test_the_worked_example(options: dict[str, Any], third: Fate, fourth: Fate, local: str) -> None:
    found = fates(TWO.run(example(), local=local, **options), TWO)
    assert (found["3"], found["4"]) == (third, fourth)


@pytest.mark.parametrize(
    ("first_ends_at", "algorithm", "expected"),
    [
        (3659, "regular", Fate(3659, 4259, "c1", 4)),
        (3659, "all_cancellation", Fate(3600, 4200, "c2", 4, 1, 1)),
        (3660, "regular", Fate(3600, 4200, "c2", 4, 1, 1)),
        (3660, "all_cancellation", Fate(3600, 4200, "c2", 4, 1, 1)),
    ],
)
def test_a_gain_of_a_minute_is_enough(first_ends_at: int, algorithm: str, expected: Fate) -> None:
    workload = example(first_ends_at=first_ends_at, with_short_one=False)
    assert fates(TWO.run(workload, algorithm=algorithm), TWO)["3"] == expected


def test_an_external_job_keeps_its_place() -> None:
    """Whatever the other jobs do; it moves forward when they leave."""
    workload = example(with_short_one=False)
    workload.job("5", n=4, s=100, walltime=100, at=30, external=True, cluster="c1")
    for algorithm in ("regular", "all_cancellation"):
        found = fates(TWO.run(workload, algorithm=algorithm), TWO)
        assert found["3"] == Fate(3600, 4200, "c2", 4, 1, 1)
        assert found["5"] == Fate(4000, 4100, "c1", 4)


QUIET_S = 5000 * 3600
MOLDABLE = {"moldable": {"fraction": 0.99, "limit": 4}}


def quiet(**fields: Any) -> Workload:
    """A job that waits for 5,000 periods while nothing happens. A smaller size could start now, but would end later."""
    jobs = Workload()
    jobs.job("1", n=4, s=QUIET_S, walltime=QUIET_S, external=True, cluster="c1")
    jobs.job("2", n=3, s=10 * QUIET_S, walltime=10 * QUIET_S, external=True, cluster="c2")
    jobs.job("3", n=4, s=QUIET_S, walltime=QUIET_S, at=10, **fields)
    return jobs


@pytest.mark.parametrize("algorithm", ["regular", "all_cancellation"])
@pytest.mark.parametrize("heuristic", ["mct", "minmin"])
@pytest.mark.parametrize("sizing", ["binary", "exhaustive"])
@pytest.mark.parametrize("fields", [{}, MOLDABLE], ids=["rigid", "moldable"])
def test_time_without_events_needs_no_messages(
    algorithm: str, heuristic: str, sizing: str, fields: dict[str, Any]
) -> None:
    plan = plan_for("reallocation", algorithm=algorithm, heuristic=heuristic, sizing=sizing)
    session = Session(plan, checked=True)
    run = FakeBatsim(quiet(**fields), 8, config=DYNAMIC, hosts=TWO.hosts).run(session.handle)
    assert fates(run, TWO)["3"][:4] == (QUIET_S, 2 * QUIET_S, "c1", 4)
    assert session.n_messages < 20
    assert session.engine.policy.figures()["n_events"] == 2  # after an hour, and when the first job ends


@pytest.mark.parametrize("algorithm", ["regular", "all_cancellation"])
@pytest.mark.parametrize("heuristic", ["mct", "minmin"])
def test_the_search_by_halves_may_find_a_better_size_later(algorithm: str, heuristic: str) -> None:
    """Size 4 of c2 ends at 95 h. The search looks at it only once size 1, which could start now, ends after size 5.

    The job waits for c1, to end there at 100 h. On c2 size 1 ends 100 h from now, and size 5 at 140 h.
    """
    grid, hour = Grid({"c1": (6, None), "c2": (6, None)}), 3600
    jobs = Workload()
    for name, cluster, n, hours in (("1", "c1", 6, 80), ("2", "c2", 3, 70), ("3", "c2", 2, 96), ("4", "c2", 5, 24)):
        jobs.job(name, n=n, s=hours * hour, walltime=hours * hour, external=True, cluster=cluster)
    jobs.job("5", n=5, s=20 * hour, walltime=20 * hour, at=10, moldable={"fraction": 1, "limit": 5})
    session = Session(plan_for("reallocation", algorithm=algorithm, heuristic=heuristic), checked=True)
    run = FakeBatsim(jobs, 12, config=DYNAMIC, hosts=grid.hosts).run(session.handle)
    assert fates(run, grid)["5"][:5] == (70 * hour, 95 * hour, "c2", 4, 1)
    # At 40 h both sizes end at the same time; at 41 h size 5 is the better one, and the job moves.
    assert session.engine.policy.figures()["n_events"] == 5  # at 1, 40, 41, 42 and 70 h


@pytest.mark.parametrize("algorithm", ["regular", "all_cancellation"])
@pytest.mark.parametrize("heuristic", ["mct", "minmin"])
def test_events_at_a_multiple_of_the_period_are_handled_without_a_call(algorithm: str, heuristic: str) -> None:
    """No call was requested for 3 h, as nothing was expected. The second job ends early just then."""
    hour = 3600
    jobs = Workload()
    jobs.job("1", n=4, s=20 * hour, walltime=20 * hour, external=True, cluster="c1")
    jobs.job("2", n=4, s=3 * hour, walltime=30 * hour, external=True, cluster="c2")
    jobs.job("3", n=4, s=600, walltime=600, at=10)
    run = TWO.run(jobs, algorithm=algorithm, heuristic=heuristic)
    assert fates(run, TWO)["3"][:3] == (3 * hour, 3 * hour + 600, "c2")


def test_no_call_is_requested_twice() -> None:
    """After an event the next period is checked; in between the estimate of the first job is the next time."""
    far, hour = 90 * 3600, 3600
    jobs = Workload()
    for name, cluster, n in (("1", "c1", 4), ("2", "c2", 3)):
        jobs.job(name, n=n, s=far + 5 * hour, walltime=2 * far, estimate=far, external=True, cluster=cluster)
    jobs.job("3", n=4, s=600, walltime=far, at=10)
    for nth in range(40):
        jobs.job(f"x{nth}", n=1, s=600, walltime=600, at=nth * hour + 1800, external=True, cluster="c2")
    session = Session(plan_for("reallocation"), checked=True)
    called_at: list[float] = []

    def handle(message: bytes) -> bytes:
        reply = session.handle(message)
        events = json.loads(reply)["events"]
        called_at.extend(event["data"]["timestamp"] for event in events if event["type"] == "CALL_ME_LATER")
        return reply

    FakeBatsim(jobs, 8, config=DYNAMIC, hosts=TWO.hosts).run(handle)
    assert far in called_at
    assert len(called_at) == len(set(called_at))


@pytest.mark.parametrize("algorithm", ["regular", "all_cancellation"])
def test_a_job_past_its_estimate_is_checked_in_every_period(algorithm: str) -> None:
    """The first job outlives its estimate: the third one waits for it until the other cluster is the better one."""
    jobs = Workload()
    jobs.job("1", n=4, s=50 * 3600, walltime=99 * 3600, estimate=5 * 3600, external=True, cluster="c1")
    jobs.job("2", n=4, s=8.5 * 3600, walltime=8.5 * 3600, external=True, cluster="c2")
    jobs.job("3", n=4, s=60, walltime=3600, at=10)
    session = Session(plan_for("reallocation", algorithm=algorithm, threshold=0), checked=True)
    run = FakeBatsim(jobs, 8, config=DYNAMIC, hosts=TWO.hosts).run(session.handle)
    assert fates(run, TWO)["3"][:3] == (9 * 3600, 9 * 3600 + 60, "c2")
    # The event at 1 h changes nothing, and so no call is needed before 5 h, when the estimate is over.
    assert session.engine.policy.figures()["n_events"] == 6  # at 1, 5, 6, 7, 8 and 9 h
