"""Loads of input files as simulated transfers (`loads=transfers`), so that loads slow each other down.

A load is a job of its own (profile ``parallel_homogeneous_pfs``) on the cores of the job whose file it reads, because
Batsim 4 cannot run a composed profile that is registered at run time. When it has ended, the job itself starts there.
A job whose file is being loaded by another job keeps its cores free until that load has ended. Both times count within
the walltime of the job, and metrics count them as wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pybatsched import (
    Cluster,
    Decision,
    ExecuteJob,
    InputError,
    IntervalSet,
    Job,
    RegisterJob,
    RegisterProfile,
    SetJobMetadata,
    load_note,
)
from pybatsched_schedulers.locality.nodes import FileNode
from pybatsched_schedulers.locality.scores import WaitingJob

_WORKLOAD: Final = "dyn"
_LABEL: Final = "pfs"
_GB: Final = 1e9


@dataclass(slots=True)
class Placed:
    """A job that has its node and cores, but not yet its file, since a time."""

    one: WaitingJob
    node: FileNode
    procs: IntervalSet
    since: float
    load_from: float | None = None  # when its own load began


class Transfers:
    """The loads that are running, and the jobs that wait for them. All methods are O(1), but for the sets of cores."""

    def __init__(self, cluster: Cluster) -> None:
        """Raises InputError if the platform has no storage host."""
        if not cluster.storage:
            raise InputError(
                "option loads=transfers: the platform has no storage host; expected a host with the property role = "
                "storage, as in -p rackham"
            )
        self._storage = cluster.storage.lowest
        self._running: dict[str, list[Placed]] = {}  # by the id of the load; the first one loads
        self._ended: list[tuple[str, bool]] = []
        self._n_loads = 0

    def begin(self, placed: Placed, now: float) -> Iterator[Decision]:
        """Load a file for a job, or let it wait for the load of another job on its node."""
        one, node = placed.one, placed.node
        load_id = node.files.load_of(one.file)
        if load_id:
            node.kept = node.kept | placed.procs
            self._running[load_id].append(placed)
            return
        yield from self._load([placed], now)

    def _load(self, users: list[Placed], now: float) -> Iterator[Decision]:
        """Start the load of a file on the cores of the first of its users."""
        first = users[0]
        one, node, n = first.one, first.node, len(first.procs)
        first.load_from = now
        self._n_loads += 1
        name = f"load.{self._n_loads}"
        load_id = f"{_WORKLOAD}!{name}"
        self._running[load_id] = users
        node.files.begin_load(one.file, load_id, round(now + node.load_s(one.size_gb), 6))
        profile = {
            "type": "parallel_homogeneous_pfs",
            "bytes_to_read": one.size_gb * _GB / n,
            "bytes_to_write": 0,
            "storage": _LABEL,
        }
        job = {"id": name, "subtime": now, "res": n, "profile": name}
        if one.job.walltime is not None:
            job["walltime"] = max(round(first.since + one.job.walltime - now, 6), 1e-6)
        reason = ("loads file {} for job {}", one.file, one.job.id)
        yield RegisterProfile(_WORKLOAD, name, profile, reason=reason)
        yield RegisterJob(load_id, job, reason=reason)
        yield SetJobMetadata(load_id, load_note(one.job.id), reason=reason)
        yield ExecuteJob(load_id, first.procs, storage_mapping={_LABEL: self._storage}, reason=reason)

    def end(self, load: Job) -> bool:
        """Record the end of a load; return False if the job is none."""
        if load.id not in self._running:
            return False
        self._ended.append((load.id, load.final_state == "COMPLETED_SUCCESSFULLY"))
        return True

    def take_loaded(self, now: float) -> Iterator[Placed | Decision]:
        """Yield the jobs whose file is loaded, or the decisions by which another job loads it after a failure."""
        ended, self._ended = self._ended, []
        for load_id, is_complete in ended:
            users = self._running.pop(load_id)
            first = users[0]
            node, one = first.node, first.one
            node.files.end_load(one.file, now if is_complete else round(now + node.load_s(one.size_gb), 6))
            for placed in users:
                node.kept = node.kept - placed.procs
            if is_complete:
                yield from users
                continue
            yield first
            if len(users) > 1:
                for placed in users[2:]:
                    node.kept = node.kept | placed.procs
                yield from self._load(users[1:], now)
