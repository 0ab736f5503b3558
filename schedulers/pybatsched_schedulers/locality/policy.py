"""Locality (Gonthier, Larsson, Marchal, Nettelblad and Thibault, 2024): jobs go where their input files are.

Jobs run on one node each and read one input file, which must be loaded from a slow shared file system unless another
job on the node uses it already. The score of a node depends on when it is available, what must be loaded and what would
be evicted. The load comes before the job's work and counts within its walltime.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, ClassVar

from pybatsched import (
    HALF_TICK,
    TICK,
    BatsimFeature,
    CallMeLater,
    Decision,
    InputError,
    Policy,
    Reason,
    RejectJob,
    Replace,
    SetJobMetadata,
    events as e,
    fact_text,
    memory_class,
    memory_need_gb,
)
from pybatsched_schedulers.locality.input_files import Arrival
from pybatsched_schedulers.locality.nodes import FileNode, FileNodes
from pybatsched_schedulers.locality.options import MOST, LocalityFields, LocalityOptions
from pybatsched_schedulers.locality.planner import Planner
from pybatsched_schedulers.locality.scores import WaitingJob
from pybatsched_schedulers.locality.transfers import Placed, Transfers

if TYPE_CHECKING:
    from pybatsched import Cluster, IntervalSet, Job


class Locality(Policy):
    """Assigns jobs of one node each to the node with the best score."""

    references = (
        """\
@inproceedings{gonthier2024locality,
  author = {Gonthier, Maxime and Larsson, Elisabeth and Marchal, Loris and Nettelblad, Carl and Thibault, Samuel},
  title = {Data-Driven Locality-Aware Batch Scheduling},
  booktitle = {IEEE International Parallel and Distributed Processing Symposium Workshops (IPDPSW), APDCM},
  year = {2024},
}""",
    )
    Options: ClassVar[type[Any]] = LocalityOptions
    JobFields: ClassVar[type[Any]] = LocalityFields
    reserves = True
    takes_any_procs = False  # a job stays on its node
    needs: ClassVar[frozenset[BatsimFeature]] = frozenset({BatsimFeature.DYNAMIC_JOBS})
    communicates_if: ClassVar[Mapping[str, str]] = {"loads": "transfers"}

    def on_begin(self, cluster: Cluster) -> None:
        """Read the nodes and create a partition for each class of memory."""
        options: LocalityOptions = self.options
        self._cluster = cluster
        self._nodes = FileNodes.of(cluster, options)
        self._planner = self._planner_of(self._nodes, options)
        self._waiting: dict[str, WaitingJob] = {}
        self._node_of: dict[str, FileNode] = {}  # of running jobs
        self._due: list[tuple[float, str]] = []  # a heap of the walltime ends of jobs; some may have ended
        self._refused: list[Decision] = []
        self._calls: list[float] = []  # requested calls that are not due yet
        self._totals = dict.fromkeys(("transfer_s", "load_wait_s", "reuses"), 0.0)
        self._transfers = Transfers(cluster) if options.loads == "transfers" else None

    def _planner_of(self, nodes: FileNodes, options: LocalityOptions) -> Any:
        """Return what places jobs on nodes."""
        return Planner(nodes, options)

    def take_over(self, job: Job, now: float) -> bool:  # noqa: ARG002
        """Plan with a running job of an earlier policy if it runs on one node. Its input file is not known there."""
        procs, started_at = job.procs, job.started_at
        assert procs is not None
        assert started_at is not None
        node = next((node for node in self._nodes if procs.issubset(node.procs)), None)
        span_s = job.walltime if job.walltime is not None else self.options.assume_walltime
        if node is None or span_s is None:
            return False
        end_at = round(started_at + span_s, 6)
        self._node_of[job.id] = node
        if job.walltime is not None:
            heappush(self._due, (end_at, job.id))
        node.start(job, len(procs), started_at, end_at, "")
        return True

    def on_job_submitted(self, job: Job, now: float) -> None:
        """Queue the job, or reject it if it can never start. Raises InputError for a file that cannot be loaded."""
        one = self._read(job)
        refusal = self._refusal(one)
        if refusal is not None:
            self._refused.append(RejectJob(job.id, reason=refusal))
            return
        self._waiting[job.id] = one
        self._planner.submit(one, now)

    def on_job_ended(self, job: Job, now: float) -> None:
        """Free the cores; the file stays for jobs that start at this time."""
        if self._transfers is not None and self._transfers.end(job):
            return
        self._node_of.pop(job.id).end(job, now)
        self._planner.changed()

    def on_job_killed(self, job: Job, now: float) -> None:
        """Free the cores (this policy kills no jobs)."""
        self.on_job_ended(job, now)

    def on_machines_changed(self, procs: IntervalSet, now: float) -> None:  # noqa: ARG002
        """Mark all nodes as changed for the next pass."""
        for node in self._nodes:
            node.has_changed = True
        self._planner.changed()

    def on_notify(self, event: e.Notify, now: float) -> None:  # noqa: ARG002
        """Reject the waiting jobs that can never start, when no machine can come back any more."""
        if event.kind == e.NO_MORE_STATIC_JOBS:
            self._planner.no_more_jobs()
        elif event.kind == e.NO_MORE_EXTERNAL_EVENTS:
            for one in self._planner.waiting():
                refusal = self._refusal(one)
                if refusal is not None:
                    self._planner.withdraw(one)
                    del self._waiting[one.job.id]
                    self._refused.append(RejectJob(one.job.id, reason=refusal))

    def _read(self, job: Job) -> WaitingJob:
        """Read the fields of a job for the planner."""
        fields, options = job.fields, self.options
        need_gb = memory_need_gb(fields)
        file, size_gb = _input_of(fields)
        history = None if job.past else _history_of(fields)  # a killed job may go to any node
        span_s = job.walltime if job.walltime is not None else options.assume_walltime
        span_s = math.inf if span_s is None else self._planned_s(span_s)
        memory = memory_class(need_gb, self._nodes.classes)
        one = WaitingJob(job, job.n_procs, span_s, file, size_gb, math.nan if memory is None else memory, history)
        if size_gb and (node := self._nodes.without_bandwidth) is not None:
            text = f"job {job.id} has an input file, but node {node.name} has no property fs_bw_gbps"
            raise InputError(f"{text}; expected it, or the option bandwidth")
        if size_gb and size_gb / self._nodes.least_bandwidth > MOST:
            speed = f"{self._nodes.least_bandwidth:g} GB/s"
            raise InputError(
                f"job {job.id}, field input_size_gb: {size_gb:g} GB at {speed} takes too long to load; expected at "
                f"most {MOST:g} s"
            )
        return one

    def _planned_s(self, span_s: float) -> float:
        """Return for how long a job with this walltime is planned."""
        return span_s

    def _refusal(self, one: WaitingJob) -> Reason | None:
        """Return why a job can never start; None if it can."""
        if one.span_s == math.inf:
            return "has no walltime, so no time can be reserved for it (see assume_walltime)"
        if one.size_gb and not self._cluster.can_load(one.job):
            return (
                "no load can be put in front of its profile {!r}, which is not known to be made of delays",
                one.job.profile_name,
            )
        if (refusal := self._too_large(one)) is not None:
            return refusal
        n_possible = self._most_cores(one)
        if one.n_cores > n_possible:
            return ("asks for {} cores; a node that it may use has {} at most", one.n_cores, n_possible)
        return None

    def _too_large(self, one: WaitingJob) -> Reason | None:
        """Return why no node has enough memory; None if one has."""
        largest = self._nodes.classes[-1]
        if one.size_gb > largest:
            return ("its file of {:g} GB is larger than the memory of any node ({:g} GB)", one.size_gb, largest)
        if math.isnan(one.memory_class):
            return ("needs {:g} GB on its node; none has more than {:g} GB", memory_need_gb(one.job.fields), largest)
        if not self._classes_of(one):
            text = "its file of {:g} GB is larger than the memory of any node that it may use ({:g} GB)"
            return (text, one.size_gb, one.memory_class)
        return None

    def _most_cores(self, one: WaitingJob) -> int:
        """Return the largest number of cores on a node that a job may use."""
        return max(map(self._nodes.most_cores, self._classes_of(one)))

    def _classes_of(self, one: WaitingJob) -> list[float]:
        """Return the classes that certainly admit a job; with areas, a larger class may never do so."""
        classes = [memory for memory in self._nodes.classes if memory >= one.memory_class]
        allowed = classes if self.options.bigger_nodes == "idle" else classes[:1]
        return [memory for memory in allowed if memory >= one.size_gb]

    def decide(self, now: float) -> Iterator[Decision]:
        """Reject jobs that can never start, start jobs, and request a call if one is needed."""
        refused, self._refused = self._refused, []
        yield from refused
        if self._transfers is not None:
            for found in self._transfers.take_loaded(now):
                if isinstance(found, Placed):
                    yield from self._start_loaded(found, now)
                else:
                    yield found
        if self._has_end_due(now):
            return  # ends come first, and Batsim has not reported this one yet
        for one in self._planner.starts(now):
            yield from self._start(one, now)
        self._calls = [at for at in self._calls if at > now + HALF_TICK]
        wake_at = self._planner.wake_at(now)
        if now < wake_at < min(self._calls, default=math.inf):
            self._calls.append(wake_at)
            yield CallMeLater(wake_at, reason="a reserved start or the next pass")

    def _has_end_due(self, now: float) -> bool:
        """Return whether a job reaches its walltime now: another message follows at this time."""
        while self._due and (self._due[0][1] not in self._node_of or self._due[0][0] < now - TICK - HALF_TICK):
            heappop(self._due)
        return bool(self._due) and self._due[0][0] <= now + HALF_TICK

    def _start(self, one: WaitingJob, now: float) -> Iterator[Decision]:
        job, node = one.job, one.node
        assert node is not None
        del self._waiting[job.id]
        self._node_of[job.id] = node
        if job.walltime is not None:
            heappush(self._due, (round(now + job.walltime, 6), job.id))
        until = round(now + one.span_s, 6)
        if self._transfers is not None and one.size_gb:
            yield from self._start_transfer(self._transfers, one, node, now)
            return
        found = Arrival(0.0, 0.0, is_reuse=False)
        if one.file:
            found = node.files.arrive(one.file, one.size_gb, node.load_s(one.size_gb), now, until)
            yield self._note(one, node, found)
        node.start(job, one.n_cores, now, until, one.file)
        extra_s = found.load_s + found.wait_s
        on = node.free_cores().first(one.n_cores)
        yield Replace(job.id, on, extra_s=extra_s, within_walltime=True, reason=_why(one, node, extra_s))

    def _note(self, one: WaitingJob, node: FileNode, found: Arrival) -> Decision:
        """Count what became of a job's file, and write it into its metadata."""
        self._totals["transfer_s"] += found.load_s
        self._totals["load_wait_s"] += found.wait_s
        self._totals["reuses"] += found.is_reuse
        return SetJobMetadata(one.job.id, _facts(one, node, found), reason="what became of its input file")

    def _start_transfer(self, transfers: Transfers, one: WaitingJob, node: FileNode, now: float) -> Iterator[Decision]:
        """Start a job with a file: at once if that is on the node, else when it has been loaded."""
        until = round(now + one.span_s, 6)
        found = node.files.arrive(one.file, one.size_gb, node.load_s(one.size_gb), now, until)
        placed = Placed(one, node, node.free_cores().first(one.n_cores), now)
        node.start(one.job, one.n_cores, now, until, one.file)
        if found.is_reuse and not node.files.load_of(one.file):
            yield from self._start_loaded(placed, now)
        else:
            yield from transfers.begin(placed, now)

    def _start_loaded(self, placed: Placed, now: float) -> Iterator[Decision]:
        """Start a job whose file has been loaded, or let it queue again if its cores have become unavailable."""
        one, node = placed.one, placed.node
        free = node.free_cores()
        if len(free) < one.n_cores:
            self._node_of.pop(one.job.id).end(one.job, now)
            one.forget_place()
            self._waiting[one.job.id] = one
            self._planner.submit(one, now)
            return
        on = placed.procs if placed.procs.issubset(free) else free.first(one.n_cores)
        spent_s = round(now - placed.since, 6)
        load_s = 0.0 if placed.load_from is None else round(now - placed.load_from, 6)
        found = Arrival(load_s, round(spent_s - load_s, 6), is_reuse=placed.load_from is None)
        yield self._note(one, node, found)
        yield Replace(one.job.id, on, spent_s=spent_s, reason=_why(one, node, spent_s))

    def figures(self) -> Mapping[str, float]:
        """Return the total times of loads and waits for loads, the reuses, and the numbers of passes and placements."""
        planner = self._planner
        return {**self._totals, "passes": planner.n_passes, "placements": planner.n_placements}

    def why_waiting(self, job: Job, now: float) -> Reason:  # noqa: ARG002
        """Return the job's reservation, or why it has none."""
        one = self._waiting.get(job.id)
        if one is None:
            node = self._node_of.get(job.id)
            return "it is in no queue" if node is None else ("its input file is being loaded on node {}", node.name)
        if one.node is None:
            why: Reason = self._planner.why_waiting(one)
            return why
        return ("reserved on node {} from {}", one.node.name, one.at)


def _why(one: WaitingJob, node: FileNode, load_s: float) -> Reason:
    """Return why a job starts on a node."""
    why = "is where it ran when the simulation began" if one.goes_on else "has the best score"
    return ("node {} {}; {:g} s until its file is there", node.name, why, load_s)


def _input_of(fields: Mapping[str, Any]) -> tuple[str, float]:
    """Read the name and the size in GB of a job's input file; "" for none."""
    file = fields.get("input_file")
    return ("", 0.0) if file is None else (file, float(fields["input_size_gb"]))


def _history_of(fields: Mapping[str, Any]) -> tuple[int, float] | None:
    """Return the node on which a job ran at the start of the simulation, and since when; None if it did not."""
    node = fields.get("history_node")
    return None if node is None else (node, float(fields.get("history_start") or 0.0))


def _facts(one: WaitingJob, node: FileNode, found: Arrival) -> str:
    """Return the facts about a job's file for its metadata."""
    names = fact_text(f"file {one.file} on node {node.name}")
    return f"load_s={found.load_s:.12g};load_wait_s={found.wait_s:.12g};reused={int(found.is_reuse)};input={names}"
