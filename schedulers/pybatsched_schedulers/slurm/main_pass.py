"""The main scheduler: jobs in strict order, until the first one that does not fit blocks its partition."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

from pybatsched_schedulers.slurm.controller import PreemptedJob, StartedJob, whole_second

if TYPE_CHECKING:
    from pybatsched_schedulers.slurm.controller import Controller
    from pybatsched_schedulers.slurm.jobs import Record


class MainPass:
    """One run of the main scheduler."""

    def __init__(self, controller: Controller, now: float, depth: int | None = None) -> None:
        self._controller = controller
        self._now = whole_second(now)
        self._depth = depth
        self._blocked: set[str] = set()  # partitions and reservations in which a job did not fit
        self._withdrawn = 0  # the nodes of blocked partitions
        self._refused_arrays: set[tuple[int, str]] = set()

    def run(self) -> Iterator[StartedJob | PreemptedJob]:
        """Try the waiting jobs in order. The caller sees each decision after it was carried out."""
        controller = self._controller
        tried: Counter[str] = Counter()
        n_left = controller.conf.scheduling.sched_max_job_start or math.inf
        per_partition = controller.conf.scheduling.partition_job_depth
        for entry in controller.queue(self._now)[: self._depth]:
            tried[entry.partition.name] += 1
            if (per_partition and tried[entry.partition.name] > per_partition) or not entry.is_tried():
                continue
            if not entry.record.array_id and self._is_skipped(entry.record):  # most are
                continue
            for decided in self._try(entry.record):
                yield decided
                n_left -= isinstance(decided, StartedJob)
                if not n_left:
                    return

    def _try(self, record: Record) -> Iterator[StartedJob | PreemptedJob]:
        if (record.array_id, record.partition.name) in self._refused_arrays:
            return
        controller = self._controller
        while not self._is_skipped(record):
            is_last = len(record.tasks) <= 1
            done = yield from self._select(record)
            if not done and record.array_id:
                self._refused_arrays.add((record.array_id, record.partition.name))
            if not done or is_last:
                return
            controller.see_array(record, self._now)

    def _is_skipped(self, record: Record) -> bool:
        """Return whether a job is passed over without blocking others, and set its reason."""
        controller = self._controller
        if controller.jobs.is_over_array_limit(record):
            record.reason = "JobArrayTaskLimit"
            return True
        if (record.reservation or record.partition.name) in self._blocked:
            record.reason = "Priority"
            return True
        if not record.partition.is_up:
            record.reason = "PartitionDown"
            return True
        blocked = controller.use.blocked_by(record)
        if blocked:
            record.reason = blocked
            return True
        return False

    def _select(self, record: Record) -> Generator[StartedJob | PreemptedJob, None, bool]:
        """Start a job if it fits, or preempt others for it; block its partition if it does not fit."""
        controller, now = self._controller, self._now
        request, selection = record.request, controller.selection
        nodes = controller.usable(record) & ~self._withdrawn
        if nodes.bit_count() < request.min_nodes:
            self._block(record)
            return False
        allowed = nodes & ~controller.reserved_against(record, now, now + record.limit_s)
        selection.reset_weights(request, allowed)
        completing = controller.completing_nodes
        placement = selection.choose(request, allowed & ~completing, controller.free)
        if placement is not None:
            reason = controller.use.exceeded_by(record, controller.tres(record, placement), placement.nodes)
            if reason:
                record.reason = reason
                return False
            yield StartedJob(controller.start(record, placement, now), "main")
            return True
        reason = controller.use.exceeded_by(record, controller.asked_tres(record))
        if reason:  # a job that is over its limits never blocks others
            record.reason = reason
            return False
        if not allowed & completing and not selection.fits_when_idle(request, allowed):
            record.reason = "ReqNodeNotAvail"
            return False
        yield from self._preempt(record, allowed & ~completing)
        self._block(record)
        return False

    def _preempt(self, record: Record, allowed: int) -> Iterator[PreemptedJob]:
        controller, conf = self._controller, self._controller.conf
        if not conf.preempt_type or self._now < record.preempted_at + conf.kill_wait_s + conf.message_timeout_s:
            return
        found = controller.with_preemption(record, allowed)
        if found is not None:
            record.preempted_at = self._now
            for victim in found[1]:
                controller.preempt(victim, self._now)
                yield PreemptedJob(victim, record)

    def _block(self, record: Record) -> None:
        record.reason = "Resources"
        if record.reservation:
            self._blocked.add(record.reservation)
        else:
            self._blocked.add(record.partition.name)
            self._withdrawn |= self._controller.partition_nodes[record.partition.name]
