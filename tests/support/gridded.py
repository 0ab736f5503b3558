"""Grids of clusters, workloads for them, and the results of their jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pybatsched.testing import FakeBatsim, Workload, run_policy
from support.located import DYNAMIC, facts


class Fate(NamedTuple):
    """The result of a job: when it ran, on which cluster, with how many processors, and its moves."""

    started_at: float | None
    ended_at: float | None
    cluster: str
    n: int
    moves: int = 0
    resubmitted: int = 0


class Grid(NamedTuple):
    """Clusters by name: processors, and the speed if given."""

    clusters: Mapping[str, tuple[int, float | None]]

    @property
    def n_procs(self) -> int:
        return sum(n for n, _ in self.clusters.values())

    @property
    def hosts(self) -> list[dict[str, str]]:
        """The properties of the hosts, for `run_policy`."""
        return [
            {"cluster": name, **({} if speed is None else {"speed": f"{speed:g}"})}
            for name, (n, speed) in self.clusters.items()
            for _ in range(n)
        ]

    @property
    def cluster_of(self) -> list[str]:
        """The cluster of each processor."""
        return [name for name, (n, _) in self.clusters.items() for _ in range(n)]

    def run(self, workload: Workload, **options: Any) -> FakeBatsim:
        """Run reallocation on this grid, through the codec."""
        return run_policy("reallocation", workload, self.n_procs, hosts=self.hosts, config=DYNAMIC, **options)


def fates(run: FakeBatsim, grid: Grid) -> dict[str, Fate]:
    """Return the result of each job that ran, by the id that its user gave it."""
    found: dict[str, Fate] = {}
    for job in run.jobs.values():
        known = facts(job)
        if "replaced_by" in known or job.final_state == "REJECTED":
            continue
        assert job.final_state in {"COMPLETED_SUCCESSFULLY", "COMPLETED_WALLTIME_REACHED"}
        (cluster,) = {grid.cluster_of[proc] for proc in job.procs}  # within one cluster
        assert known["cluster"] == cluster
        name = known.get("parent", job.id).removeprefix("w0!")
        assert name not in found  # each job once
        moves, resubmitted = int(known.get("moves", 0)), int(known.get("resubmitted", 0))
        found[name] = Fate(job.started_at, job.ended_at, cluster, len(job.procs), moves, resubmitted)
    return found


def rejections(run: FakeBatsim) -> set[str]:
    """Return the jobs that were finally rejected."""
    return {
        job.id.removeprefix("w0!")
        for job in run.jobs.values()
        if job.final_state == "REJECTED" and "replaced_by" not in facts(job)
    }
