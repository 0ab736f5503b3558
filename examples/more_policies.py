"""Policies that boot nodes, load files, choose sizes of jobs and divide the machine: see docs/write-a-policy.md."""

from pydantic import Field

from pybatsched import (
    BatsimFeature,
    IntervalSet,
    LocalPolicy,
    LocalScheduler,
    Policy,
    QueueFields,
    QueuePolicy,
    Replace,
    Reshape,
    SetJobMetadata,
    StartAt,
    local_scheduler,
)


class BootingScheduler(LocalScheduler):
    """First come, first served, after a minute of booting; the processors that rested longest go first."""

    def __init__(self, partition, options=None):
        super().__init__(partition, options)
        self.last_end = dict.fromkeys(partition.procs, 0.0)
        self.n_boots = 0

    def ended(self, job, now):
        self.last_end.update(dict.fromkeys(job.procs, now))

    def pick(self, job, now):
        rested = sorted(self.partition.free, key=lambda proc: (self.last_end[proc], proc))
        return IntervalSet(rested[: job.n_procs])

    def plan(self, now):
        while self.queue and self.queue[0].job.n_procs <= self.partition.n_free:
            job = self.queue[0].job
            start = self.start(self.queue[0], "boots first", self.pick(job, now))
            self.n_boots += job.n_procs
            yield StartAt(job.id, start.procs, now + 60, reason=start.reason)


class Booting(LocalPolicy):
    """First come, first served on nodes that are booted for each job."""

    scheduler = BootingScheduler

    def figures(self):
        return {"n_boots": self.local.n_boots}


class Staging(Policy):
    """First come, first served on nodes; a job loads its file unless it is that of the last one there."""

    needs = frozenset({BatsimFeature.DYNAMIC_JOBS})

    def on_begin(self, cluster):
        self.partition = cluster.add_partition("all", cluster.procs)
        self.nodes = cluster.groups("node")
        self.files = {}
        self.waiting = []

    def on_job_submitted(self, job, now):
        self.waiting.append(job)

    def decide(self, now):
        while self.waiting:
            job = self.waiting[0]
            free = {node: procs & self.partition.free for node, procs in self.nodes.items()}
            node = next((node for node, procs in free.items() if len(procs) >= job.n_procs), None)
            if node is None:
                return
            self.waiting.pop(0)
            file = job.fields["input_file"]
            is_there = self.files.get(node) == file
            self.files[node] = file
            load_s = 0.0 if is_there else job.fields["input_size_gb"] / 0.1
            yield SetJobMetadata(job.id, f"load_s={load_s:g};reused={is_there:d}")
            yield Replace(job.id, free[node].first(job.n_procs), extra_s=load_s, within_walltime=True)


class EarliestEnd(QueuePolicy):
    """Submit each job where it is expected to end first, with the fewest processors."""

    needs = frozenset({BatsimFeature.DYNAMIC_JOBS})

    def on_begin(self, cluster):
        self.locals = [
            local_scheduler("conservative", {"assume_walltime": 3600}, cluster.add_partition(name, procs))
            for name, procs in cluster.groups("cluster").items()
        ]
        self.arrived = []

    def on_job_submitted(self, job, now):
        self.arrived.append(job)

    def choices(self, job, now):
        for local in self.locals:
            for n in range(1, local.partition.n_procs + 1):
                scale = job.n_procs_requested / n
                span_s = job.estimate_at(scale) or local.assume_walltime
                start_at = local.estimate(n, span_s, now)
                if start_at is not None:
                    yield start_at + span_s, n, scale, local

    def decide(self, now):
        arrived, self.arrived = self.arrived, []
        for job in arrived:
            end_at, n, scale, local = min(self.choices(job, now), key=lambda choice: choice[:2])
            yield Reshape(job.id, n, scale, reason=("ends at {} on {}", end_at, local.partition.name))
            self.submit_to(local, job, now)
        yield from super().decide(now)


class ProjectFields(QueueFields):
    project: str = Field("none", min_length=1, description="the name of a project")
    share: float = Field(1.0, gt=0, le=1, description="a number above 0, up to 1")


class SharesScheduler(LocalScheduler):
    """First fit; each project uses at most its share of the machine."""

    def used_by(self, project):
        running = self.partition.running_jobs
        return sum(job.n_procs for job in running if job.fields.get("project", "none") == project)

    def plan(self, now):
        for entry in list(self.queue):
            job = entry.job
            most = self.partition.n_procs * job.fields.get("share", 1.0)
            used = self.used_by(job.fields.get("project", "none"))
            if job.n_procs <= self.partition.n_free and used + job.n_procs <= most:
                yield self.start(entry, ("its project has {} of {} processors", used, most))


class Shares(LocalPolicy):
    """First fit with a share for each project."""

    JobFields = ProjectFields
    scheduler = SharesScheduler
