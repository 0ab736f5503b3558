"""What reallocation says of platforms, options and jobs that it cannot use, and what it does with odd ones."""

from __future__ import annotations

from typing import Any

import pytest
from support.gridded import DYNAMIC, Fate, Grid, fates, rejections

from pybatsched.errors import InputError
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Workload, plan_for, run_policy

TWO = Grid({"c1": (4, None), "c2": (4, None)})
FAST = Grid({"slow": (4, 1.0), "fast": (4, 2.0)})


def job(**fields: Any) -> Workload:
    return Workload().job("a", **{"n": 2, "s": 10, "walltime": 20} | fields)


def reasons(workload: Workload, grid: Grid, **options: Any) -> dict[str, str]:
    """Run it, and give the reasons of rejections by job."""
    session = Session(plan_for("reallocation", **options), checked=True)
    fake = FakeBatsim(workload, grid.n_procs, config=DYNAMIC, hosts=grid.hosts).run(session.handle)
    found = {
        reason[0].format(*reason[1:]) if isinstance(reason, tuple) else reason
        for _, reason in session.engine.rejections.values()
    }
    return dict.fromkeys(rejections(fake), "; ".join(sorted(found)))


@pytest.mark.parametrize(
    ("hosts", "said"),
    [
        (
            [{"cluster": "a", "speed": "1"}, {"cluster": "a", "speed": "2"}],
            "host node1, property speed: 2, where cluster a has 1; expected one speed for all",
        ),
        (
            [{"cluster": "a", "speed": "1"}, {"cluster": "a"}],
            "host node1, property speed: none, where cluster a has 1; expected one speed for all",
        ),
        (
            [{"cluster": "a", "speed": "1"}, {"cluster": "b"}],
            "host node1, of cluster b, has no property speed; cluster a has one",
        ),
        ([{"cluster": "a", "speed": "0"}] * 2, "host node0, property speed: expected a number above 0, got 0"),
        ([{"cluster": "a", "speed": "-1"}] * 2, "host node0, property speed: expected a number from 0, got '-1'"),
        ([{"cluster": "a", "speed": "nan"}] * 2, "host node0, property speed: expected a number from 0, got 'nan'"),
        ([{"cluster": "a", "speed": "fast"}] * 2, "host node0, property speed: expected a number from 0, got 'fast'"),
        ([{"cluster": "a"}, {}], "host node1 has no property cluster; others have one"),
    ],
)
def test_platforms_that_do_not_tell_their_clusters(hosts: list[dict[str, str]], said: str) -> None:
    with pytest.raises(InputError) as caught:
        run_policy("reallocation", job(), 2, hosts=hosts, config=DYNAMIC)
    assert str(caught.value) == said


def test_without_clusters_there_is_one() -> None:
    run = run_policy("reallocation", job(), 2, config=DYNAMIC)
    assert "cluster=all" in run.jobs["w0!a"].metadata


@pytest.mark.parametrize("local", ["easy", "dbf"])
def test_a_local_scheduler_that_promises_nothing_is_refused(local: str) -> None:
    said = f"policy reallocation, option local: {local} with these options promises no job a start"
    with pytest.raises(InputError, match=said):
        TWO.run(job(), local=local)


def test_fcfs_in_another_order_promises_nothing() -> None:
    with pytest.raises(InputError, match="option local: fcfs with these options promises no job a start"):
        TWO.run(job(), local="fcfs", local_options={"order": "sjf"})


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"moldable": 3}, 'job w0!a, field moldable: expected {"fraction": F, "limit": N}, got \'3\''),
        ({"moldable": {}}, "job w0!a, field moldable.fraction: expected a number from 0 to 1, got None"),
        (
            {"moldable": {"fraction": 1.5, "limit": 4}},
            "job w0!a, field moldable.fraction: expected a number from 0 to 1, got 1.5",
        ),
        (
            {"moldable": {"fraction": True, "limit": 4}},
            "job w0!a, field moldable.fraction: expected a number from 0 to 1, got True",
        ),
        (
            {"moldable": {"fraction": 0.5, "limit": 0}},
            "job w0!a, field moldable.limit: expected a whole number from 1, got 0",
        ),
        (
            {"moldable": {"fraction": 0.5, "limit": 2.0}},
            "job w0!a, field moldable.limit: expected a whole number from 1, got 2.0",
        ),
        ({"external": "yes"}, "job w0!a, field external: expected true or false, got 'yes'"),
        (
            {"external": True},
            "job w0!a, field cluster: expected the name of the cluster that an external job goes to; it has none",
        ),
        (
            {"external": True, "cluster": 7},
            "job w0!a, field cluster: expected the name of the cluster that an external job goes to; got '7'",
        ),
    ],
)
def test_fields_that_are_none_name_the_job(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        TWO.run(job(**fields))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("workload", "said"),
    [
        (job(n=5), "no cluster can hold it: it asks for 5 processors, and the largest has 4"),
        (job(n=9), "no cluster can hold it: it asks for 9 processors, and the largest has 4"),
        (job(n=5, external=True, cluster="slow"), "can never fit: asks for 5 processors, partition slow has 4"),
        (job(external=True, cluster="c9"), "is external, and its cluster c9 is not there, only slow, fast"),
        (
            Workload().job("a", n=2, s=10),
            "has neither walltime nor estimate, so no time can be reserved for it (see assume_walltime)",
        ),
    ],
)
def test_jobs_that_no_cluster_can_run_are_rejected(workload: Workload, said: str) -> None:
    assert reasons(workload, FAST) == {"a": said}


def computing(**fields: Any) -> Workload:
    """A job that computes, so that its times cannot be others."""
    workload = job(**fields)
    workload.profiles = {"w": {"type": "parallel_homogeneous", "cpu": 1e10, "com": 0}}
    workload.jobs[0]["profile"] = "w"
    return workload


def test_a_job_that_computes_has_one_size() -> None:
    said = "is moldable, but its profile 'w' is not known to be made of delays, so it can have no other size"
    assert reasons(computing(moldable={"fraction": 0.5, "limit": 4}), FAST) == {"a": said}


def test_a_job_that_computes_runs_on_the_slowest_cluster() -> None:
    assert fates(FAST.run(computing()), FAST)["a"].cluster == "slow"
    small = Grid({"slow": (1, 1.0), "fast": (4, 2.0)})
    said = (
        "no cluster can hold it: where there are 2 processors they are faster than the slowest, and its times "
        "cannot be scaled, as its profile 'w' is not known to be made of delays"
    )
    assert reasons(computing(), small) == {"a": said}


def test_a_job_without_walltime_is_planned_as_assumed() -> None:
    """It is planned for as long everywhere, so the first cluster is as good as the fast one."""
    workload = Workload().job("a", n=2, s=10)
    assert fates(FAST.run(workload, local_options={"assume_walltime": 60}), FAST)["a"] == Fate(0, 10, "slow", 2)


def test_a_job_without_walltime_may_be_endless_in_strict_order() -> None:
    workload = Workload().job("a", n=2, s=10, moldable={"fraction": 0.5, "limit": 3})
    assert fates(FAST.run(workload, local="fcfs"), FAST)["a"] == Fate(0, 13.333333, "slow", 1)


def test_a_limit_may_be_below_the_submitted_size() -> None:
    workload = job(n=4, s=10, walltime=10, moldable={"fraction": 1, "limit": 2})
    assert fates(TWO.run(workload), TWO)["a"] == Fate(0, 20, "c1", 2)


def test_a_moldable_job_may_be_submitted_larger_than_the_platform() -> None:
    workload = job(n=16, s=10, walltime=10, moldable={"fraction": 1, "limit": 64})
    assert fates(TWO.run(workload), TWO)["a"] == Fate(0, 40, "c1", 4)


def test_a_sequential_job_stays_so() -> None:
    assert fates(FAST.run(job(n=1)), FAST)["a"] == Fate(0, 5, "fast", 1)


def test_an_external_job_has_its_logged_times() -> None:
    assert fates(FAST.run(job(external=True, cluster="fast")), FAST)["a"] == Fate(0, 10, "fast", 2)


def test_an_end_in_the_instant_of_an_event_is_known_to_it() -> None:
    """At 3600 both clusters are free; b, which was to begin on the slow one then, ends earlier on the fast one."""
    workload = Workload()
    workload.job("1", n=4, s=3600, walltime=3600, external=True, cluster="slow")
    workload.job("2", n=4, s=3600, walltime=9000, external=True, cluster="fast")
    workload.job("3", n=4, s=600, walltime=600, at=10)
    assert fates(FAST.run(workload), FAST)["3"] == Fate(3600, 3900, "fast", 4, 1, 1)
    assert fates(FAST.run(workload, algorithm="none"), FAST)["3"] == Fate(3600, 4200, "slow", 4)


def test_a_job_whose_cluster_is_gone_for_good_goes_elsewhere() -> None:
    workload = Workload()
    workload.job("1", n=4, s=50, walltime=50, external=True, cluster="c1")
    workload.job("2", n=4, s=500, walltime=500, external=True, cluster="c2")
    workload.job("3", n=4, s=10, walltime=10, at=1)
    gone = [(20.0, "event_machine_unavailable", "0")]
    run = run_policy("reallocation", workload, 8, hosts=TWO.hosts, config=DYNAMIC, machine_events=gone)
    assert fates(run, TWO)["3"] == Fate(500, 510, "c2", 4, 1, 1)
