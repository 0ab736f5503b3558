"""A policy that runs each job on the cluster it names and reports the job's fields as facts; loaded by path."""

from __future__ import annotations

from collections.abc import Iterable

from pybatsched import Cluster, Decision, Job, QueuePolicy, SetJobMetadata
from pybatsched.policies.registry import local_scheduler


class OnNamedCluster(QueuePolicy):
    """First come, first served on each cluster; the field `facts` of a job goes into its metadata."""

    def on_begin(self, cluster: Cluster) -> None:
        self.by_name = {
            name: local_scheduler("fcfs", {}, cluster.add_partition(name, procs))
            for name, procs in cluster.groups("cluster").items()
        }
        self.locals = list(self.by_name.values())
        self.notes: list[SetJobMetadata] = []

    def on_job_submitted(self, job: Job, now: float) -> None:
        self.submit_to(self.by_name[job.fields["cluster"]], job, now)
        if "facts" in job.fields:
            self.notes.append(SetJobMetadata(job.id, job.fields["facts"]))

    def decide(self, now: float) -> Iterable[Decision]:
        yield from self.notes
        self.notes.clear()
        yield from super().decide(now)
