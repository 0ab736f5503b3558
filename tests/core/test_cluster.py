"""Processors by a property of host or zone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pybatsched.core import decisions as d, events as e
from pybatsched.core.cluster import Cluster
from pybatsched.core.intervals import IntervalSet
from pybatsched.core.policy import Policy
from pybatsched.testing import Workload, run_policy


def cluster_of(*hosts: tuple[Mapping[str, str] | None, Mapping[str, str] | None]) -> Cluster:
    resources = tuple(e.Resource(i, f"n{i}", "idle", own, zone) for i, (own, zone) in enumerate(hosts))
    storage = (e.Resource(len(hosts), "pfs", "idle", {"node": "s"}),)
    begins = e.SimulationBegins(
        n_resources=len(hosts) + 1,
        n_compute=len(hosts),
        n_storage=1,
        compute_resources=resources,
        storage_resources=storage,
        timestamp=0.0,
    )
    return Cluster.from_begins(begins)


def as_texts(groups: Mapping[str, IntervalSet]) -> list[tuple[str, str]]:
    return [(name, str(procs)) for name, procs in groups.items()]


def test_by_a_property_of_host_or_zone_in_batsims_order() -> None:
    cluster = cluster_of(
        ({"node": "9"}, None),
        (None, {"node": "10"}),  # the zone's, where the host has none
        ({"node": "9"}, {"node": "10"}),  # the host's own goes before
        ({}, {}),
        ({"node": "1"}, {"node": "10"}),
        (None, {"node": "10"}),
        (None, None),
    )
    assert as_texts(cluster.groups("node")) == [("9", "0 2"), ("10", "1 5"), ("1", "4")]
    assert as_texts(cluster.groups("rack")) == []
    assert (cluster.property_of(5, "node"), cluster.property_of(6, "node")) == ("10", None)


def test_a_policy_sees_the_properties_of_a_tests_hosts() -> None:
    class Last(Policy):
        """Starts every job on the last node."""

        def on_begin(self, cluster: Cluster) -> None:
            self.nodes, self.jobs = cluster.groups("node"), list[str]()

        def on_job_submitted(self, job: object, now: float) -> None:
            self.jobs.append(job.id)  # type: ignore[attr-defined]

        def decide(self, now: float) -> Iterable[d.Decision]:
            while self.jobs:
                yield d.ExecuteJob(self.jobs.pop(), list(self.nodes.values())[-1])

    hosts = [{"node": name} for name in ("b", "b", "a", "a")]
    run = run_policy(Last, Workload().job("x", n=2, s=1), 4, hosts=hosts)
    assert str(run.jobs["w0!x"].procs) == "2-3"
