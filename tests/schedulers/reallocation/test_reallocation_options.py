"""Platforms, options and jobs that reallocation rejects, with exact errors; and unusual ones that it accepts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.free_links import written
from support.gridded import Fate, Grid, fates
from support.located import DYNAMIC
from support.process import run_cli

from pybatsched.core.decisions import Decision, RejectJob, reason_text
from pybatsched.errors import InputError
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Workload, plan_for, run_policy
from pybatsched_schedulers.reallocation.policy import Reallocation

TWO = Grid({"c1": (4, None), "c2": (2, None)})
SLOW_AND_FAST = Grid({"c1": (2, 1), "c2": (4, 2)})
LOCAL = "policy reallocation, option local: "
NO_PROMISE = (
    "does not guarantee its planned starts, so expected ends are not reliable; "
    "expected conservative, or fcfs in the order of arrival"
)


class Telling(Reallocation):
    """Reallocation that keeps the reasons of its rejections."""

    def on_begin(self, cluster: Any) -> None:
        super().on_begin(cluster)
        self.reasons: dict[str, str] = {}

    def decide(self, now: float) -> Iterator[Decision]:
        for decision in super().decide(now):
            if isinstance(decision, RejectJob):
                self.reasons[decision.job_id.removeprefix("w0!")] = reason_text(decision.reason)
            yield decision


def rejected(workload: Workload, grid: Grid = TWO, **options: Any) -> dict[str, str]:
    """Return why jobs are rejected."""
    session = Session(plan_for(Telling, **options), checked=True)
    run = FakeBatsim(workload, grid.n_procs, config=DYNAMIC, hosts=grid.hosts).run(session.handle)
    assert not run.deadlocked
    policy = session.engine.policy
    assert isinstance(policy, Telling)
    assert fates(run, grid).keys() | policy.reasons.keys() == {job["id"] for job in workload.jobs}
    return policy.reasons


def hosts_of(*clusters_and_speeds: str) -> list[dict[str, str]]:
    """Hosts by cluster and speed, such as "a 1"; - is none."""
    both = [dict(zip(("cluster", "speed"), one.split(), strict=False)) for one in clusters_and_speeds]
    return [{name: value for name, value in host.items() if value != "-"} for host in both]


ONE_SPEED = "expected one speed"
ALL_OR_NONE = "expected it on all hosts or on none"


@pytest.mark.parametrize(
    ("hosts", "text"),
    [
        (
            hosts_of("a 1", "a 2.5e9"),
            f"host node1, property speed: 2500000000, but 1 in the rest of cluster a; {ONE_SPEED}",
        ),
        (hosts_of("a 1", "b 2", "a"), f"host node2, property speed: none, but 1 in the rest of cluster a; {ONE_SPEED}"),
        (hosts_of("a", "a 2"), f"host node1, property speed: 2, but none in the rest of cluster a; {ONE_SPEED}"),
        (
            hosts_of("- 1", "- 2"),
            f"host node1, property speed: 2, but 1 in the rest of its cluster (all hosts: none names one); {ONE_SPEED}",
        ),
        (
            hosts_of("a 2", "b", "b"),
            f"host node1, of cluster b, has no property speed; cluster a has one: {ALL_OR_NONE}",
        ),
        (hosts_of("a", "-"), f"host node1 has no property cluster; others have one: {ALL_OR_NONE}"),
        (hosts_of("-", "a"), f"host node0 has no property cluster; others have one: {ALL_OR_NONE}"),
        (hosts_of("a 0"), "host node0, property speed: expected a number above 0, found 0"),
        *(
            (
                [*hosts_of("a 1"), {"cluster": "b", "speed": speed}],
                f"host node1, property speed: expected a number from 0, found {speed!r}",
            )
            for speed in ("fast", "", "-1", "nan", "inf")
        ),
    ],
)
def test_invalid_grid_platforms_are_rejected(hosts: Sequence[Mapping[str, str]], text: str) -> None:
    with pytest.raises(InputError) as error:
        run_policy("reallocation", Workload(), len(hosts), hosts=hosts, config=DYNAMIC)
    assert str(error.value) == text


@pytest.mark.parametrize("hosts", [[], [{}, {}], [{"speed": "3"}, {"speed": "3"}]])
def test_a_platform_without_cluster_names_is_one_cluster(hosts: Sequence[Mapping[str, str]]) -> None:
    jobs = Workload().job("1", n=2, s=5, walltime=9).job("2", n=1, s=5, walltime=9, external=True, cluster="all")
    run = run_policy("reallocation", jobs, 2, hosts=hosts, config=DYNAMIC)
    assert [(job.started_at, job.metadata) for job in run.jobs.values()] == [
        (0.0, "moves=0;resubmitted=0;cluster=all"),
        (5.0, "cluster=all"),
    ]


def test_clusters_are_in_the_order_of_their_first_hosts_and_need_not_be_in_a_row() -> None:
    hosts = [{"cluster": name} for name in "baba"]
    jobs = Workload().job("1", n=1, s=5, walltime=9).job("2", n=2, s=5, walltime=9)
    run = run_policy("reallocation", jobs, 4, hosts=hosts, config=DYNAMIC)
    assert [(str(job.procs), job.metadata.split(";")[-1]) for job in run.jobs.values()] == [
        ("0", "cluster=b"),
        ("1 3", "cluster=a"),
    ]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"local": "easy"}, f"{LOCAL}easy {NO_PROMISE}"),
        ({"local": "dbf"}, f"{LOCAL}dbf {NO_PROMISE}"),
        ({"local": "fcfs", "local_options": {"order": "sjf"}}, f"{LOCAL}fcfs with these local_options {NO_PROMISE}"),
        (
            {"local": "redirection"},
            (
                f"{LOCAL}policy 'redirection' cannot be used as a local scheduler: it has no single queue; expected "
                "one such as fcfs or easy"
            ),
        ),
        (
            {"local_options": {"foo": 1}},
            (
                f"{LOCAL}policy conservative: unknown option 'foo' (from its options); "
                "expected one of: order, assume_walltime, placement, compression, predict, correct, on_failure, "
                "expected_repair_s, host_reservations, node_partitions"
            ),
        ),
    ],
)
def test_invalid_local_schedulers_are_rejected(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError) as error:
        TWO.run(Workload(), **options)
    assert str(error.value) == text


@pytest.mark.parametrize(("period", "expected"), [(0.5, "1 or more"), (1e300, "at most 1,000,000,000")])
def test_invalid_periods_are_rejected(period: float, expected: str) -> None:
    with pytest.raises(InputError) as error:
        TWO.run(Workload(), period=period)
    assert str(error.value).startswith("policy reallocation: option period (from ")
    assert f"expected {expected}, found {period}" in str(error.value)


MOLDABLE = 'moldable: expected {"fraction": F, "limit": N}'
FRACTION = "moldable.fraction: expected a number from 0 to 1"
LIMIT = "moldable.limit: expected a whole number from 1"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"external": True}, "cluster: expected the cluster that this external job goes to, found nothing"),
        ({"external": True, "cluster": ""}, "cluster: expected the name of a cluster, found ''"),
        ({"external": True, "cluster": 1}, "cluster: expected the name of a cluster, found 1"),
        ({"external": "yes"}, "external: expected true or false, found 'yes'"),
        ({"external": 1, "cluster": "c1"}, "external: expected true or false, found 1"),
        ({"external": None}, "external: expected true or false, found null"),
        *(({"moldable": given}, f"{MOLDABLE}, found {given!r}") for given in (0.9, "t1", [0.9, 96], True)),
        ({"moldable": None}, f"{MOLDABLE}, found null"),
        *(
            ({"moldable": {"fraction": given, "limit": 4}}, f"{FRACTION}, found {given!r}")
            for given in (1.01, -0.5, 90, "0.9", True)
        ),
        *(
            ({"moldable": {"fraction": 0.9, "limit": given}}, f"{LIMIT}, found {given!r}")
            for given in (0, -1, 4.0, "4", True)
        ),
        ({"moldable": {}}, f"{FRACTION}, found nothing"),
        ({"moldable": {"fraction": 1}}, f"{LIMIT}, found nothing"),
        # An external job is not resized, but its fields must be valid.
        ({"external": True, "cluster": "c1", "moldable": "much"}, f"{MOLDABLE}, found 'much'"),
    ],
)
def test_invalid_job_fields_are_rejected(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError) as error:
        TWO.run(Workload().job("7", n=1, s=5, walltime=9, **fields))
    assert str(error.value) == f"job w0!7, field {text}"


def test_a_job_too_large_for_every_cluster_is_rejected() -> None:
    jobs = Workload().job("1", n=5, s=5, walltime=9).job("2", n=60, s=5, walltime=9).job("3", n=4, s=5, walltime=9)
    text = "no cluster can hold it: it asks for {} processors, and the largest has 4"
    assert rejected(jobs) == {"1": text.format(5), "2": text.format(60)}


def test_a_job_without_processors_is_rejected() -> None:
    jobs = Workload().job("1", n=0, s=5, walltime=9)
    jobs.job("2", n=0, s=5, walltime=9, moldable={"fraction": 1, "limit": 4})
    jobs.job("3", n=0, s=5, walltime=9, external=True, cluster="c1")
    assert rejected(jobs) == dict.fromkeys("123", "asks for 0 processors")


def test_external_jobs_that_do_not_fit_their_cluster_are_rejected() -> None:
    jobs = Workload().job("1", n=1, s=5, walltime=9, external=True, cluster="c3")
    jobs.job("2", n=3, s=5, walltime=9, external=True, cluster="c2")
    jobs.job("3", n=3, s=5, walltime=9, external=True, cluster="c1")
    jobs.job("4", n=3, s=5, walltime=9, external=False, cluster="c3")  # not external: cluster is where it came from
    assert rejected(jobs) == {
        "1": "is external, and its cluster c3 is not there, only c1, c2",
        "2": "can never fit: asks for 3 processors, partition c2 has 2",
    }


def working(jobs: Workload, name: str) -> Workload:
    """Let a job be made of work instead of delays."""
    jobs.profiles["work"] = {"type": "parallel_homogeneous", "cpu": 5e9, "com": 0}
    next(job for job in jobs.jobs if job["id"] == name)["profile"] = "work"
    return jobs


def test_moldable_jobs_need_a_profile_of_delays() -> None:
    jobs = Workload().job("1", n=1, s=5, walltime=9, moldable={"fraction": 1, "limit": 4})
    text = "is moldable, but its profile 'work' is not known to be made of delays, so it can have no other size"
    assert rejected(working(jobs, "1")) == {"1": text}


def test_work_that_cannot_be_shortened_runs_on_the_slowest_clusters_only() -> None:
    jobs = Workload().job("1", n=2, s=5, walltime=9).job("2", n=2, s=5, walltime=9)
    found = fates(SLOW_AND_FAST.run(working(jobs, "1")), SLOW_AND_FAST)
    assert found["1"] == Fate(0.0, 5.0, "c1", 2)
    assert found["2"] == Fate(0.0, 2.5, "c2", 2)
    jobs = Workload().job("1", n=3, s=5, walltime=9)
    assert rejected(working(jobs, "1"), SLOW_AND_FAST) == {
        "1": "no cluster can hold it: where there are 3 processors they are faster than the slowest, and its times "
        "cannot be scaled, as its profile 'work' is not known to be made of delays"
    }


NO_TIME = "has neither walltime nor estimate, so no time can be reserved for it (see assume_walltime)"


@pytest.mark.parametrize("fields", [{}, {"moldable": {"fraction": 0.5, "limit": 3}}])
def test_jobs_without_a_walltime_are_rejected_by_conservative(fields: dict[str, Any]) -> None:
    """Under conservative there must be a time to reserve; fcfs can do without, and waits."""
    jobs = Workload().job("1", n=2, s=50, **fields).job("2", n=2, s=50, external=True, cluster="c2")
    jobs.job("3", n=4, s=5, walltime=9, at=1)
    assert rejected(jobs) == {"1": NO_TIME, "2": NO_TIME}
    for options in ({"local": "fcfs"}, {"local_options": {"assume_walltime": 60}}):
        assert rejected(jobs, **options) == {}
    found = fates(TWO.run(jobs, local_options={"assume_walltime": 60}), TWO)
    assert (found["1"].started_at, found["2"]) == (0.0, Fate(0.0, 50.0, "c2", 2))


@pytest.mark.parametrize(
    ("grid", "n", "s", "walltime", "moldable", "expected"),
    [
        (TWO, 4, 60, 120, {"fraction": 1.0, "limit": 2}, Fate(0.0, 120.0, "c1", 2)),  # a limit below its size
        (TWO, 1, 60, 60, {"fraction": 1.0, "limit": 1}, Fate(0.0, 60.0, "c1", 1)),
        (TWO, 1, 60, 60, None, Fate(0.0, 60.0, "c1", 1)),
        (TWO, 2, 60, 60, None, Fate(0.0, 60.0, "c1", 2)),
        (TWO, 2, 60, 60, {"fraction": 0.5, "limit": 10**30}, Fate(0.0, 50.0, "c1", 4)),  # as good as no limit
        (TWO, 64, 3, 6, {"fraction": 1, "limit": 100}, Fate(0.0, 48.0, "c1", 4)),  # larger than the platform
        # On four processors it needs 0.625 / 0.75 of the time, and half of that where they are twice as fast.
        (SLOW_AND_FAST, 2, 40, 60, {"fraction": 0.5, "limit": 100}, Fate(0.0, 16.666667, "c2", 4)),
    ],
)
def test_moldable_jobs(grid: Grid, n: int, s: int, walltime: int, moldable: Any, expected: Fate) -> None:
    jobs = Workload().job("1", n=n, s=s, walltime=walltime, **({"moldable": moldable} if moldable else {}))
    assert fates(grid.run(jobs), grid)["1"] == expected


@pytest.mark.parametrize("options", [{}, {"sizing": "exhaustive"}])
def test_a_job_without_speedup_gets_the_fewest_processors(options: dict[str, Any]) -> None:
    jobs = Workload().job("1", n=3, s=60, walltime=60, moldable={"fraction": 0, "limit": 4})
    assert fates(TWO.run(jobs, **options), TWO)["1"] == Fate(0.0, 60.0, "c1", 1)


@pytest.mark.parametrize("local", ["conservative", "fcfs"])
@pytest.mark.parametrize("algorithm", ["regular", "all_cancellation"])
def test_a_job_that_could_start_now_may_still_move(algorithm: str, local: str) -> None:
    """A job that could start now may still move: c2 is free since 10, and twice as fast for job 3."""
    grid = Grid({"c1": (4, 1), "c2": (4, 2)})
    jobs = Workload().job("1", n=4, s=3600, walltime=3600, external=True, cluster="c1")
    jobs.job("2", n=4, s=10, walltime=9000, external=True, cluster="c2").job("3", n=4, s=600, walltime=600, at=1)
    found = fates(grid.run(jobs, algorithm=algorithm, local=local), grid)
    assert found["3"] == Fate(3600.0, 3900.0, "c2", 4, 1, 1)


@pytest.mark.parametrize(
    ("machine", "cluster", "message"),
    [
        ("grid", "c3", 'expected one of the machine\'s, c1, c2, found "c3"'),
        ("uniform", "c1", 'expected all: the machine has no clusters, found "c1"'),
        ("grid", "c2", ""),
        ("uniform", "all", ""),
    ],
)
def test_an_unknown_cluster_is_reported_before_the_run(
    machine: str, cluster: str, message: str, tmp_path: Path
) -> None:
    """The platform is known when the workload is read; a served scheduler can only reject the job."""
    grid = Grid({"c1": (2, None), "c2": (2, None)})
    jobs = Workload().job("1", n=1, s=5, walltime=6, external=True, cluster=cluster)
    args = written(jobs, grid.hosts, tmp_path)
    workload = args[args.index("-w") + 1]
    given = args if machine == "grid" else ["--procs", "4", "-w", workload]
    done = run_cli("simulate", *given, "--policy", "reallocation", "-e", str(tmp_path / "out"), "-q")
    if message:
        assert (done.returncode, done.stdout) == (2, "")
        assert f'job "1", field cluster: {message}\n' in done.stderr
        assert not (tmp_path / "out_jobs.csv").exists()
    else:
        assert done.returncode == 0, done.stderr
