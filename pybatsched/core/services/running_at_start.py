"""Jobs that run when the simulation begins: a service of the engine, for every policy.

Such a job has the field `running_at_start`: true, or the processors on which it runs, such as "0-3 5". It starts when
it is submitted, before the other jobs of that message are submitted, and is in no queue. A policy that can take over
running jobs plans with it; for others, its processors are unavailable until it ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pybatsched.core import decisions as d
from pybatsched.core.intervals import EMPTY, IntervalSet
from pybatsched.core.services.service import Service
from pybatsched.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pybatsched.core.actions import Actions
    from pybatsched.core.jobs import Job

#: The job field.
FIELD: Final = "running_at_start"
_REASON: Final = "runs when the simulation begins"


class RunningAtStart(Service):
    """The jobs of one run that run when it begins. Other jobs cost one test."""

    fields = frozenset((FIELD,))

    def __init__(self, actions: Actions) -> None:
        self._actions = actions
        self._n_jobs = self._n_elsewhere = 0

    def takes(self, job: Job) -> bool:
        """Start a job that runs when the simulation begins. Return whether it is one. O(processors)."""
        if FIELD not in job.fields or job.past:
            return False
        given = job.fields[FIELD]
        if given is False:
            return False
        try:
            wanted = IntervalSet.parse(given) if isinstance(given, str) else EMPTY
        except ValueError:
            wanted = EMPTY
        if given is not True and not wanted:
            expected = "expected true, false, or processors such as '0-3 5'"
            raise InputError(f"job {job.id}, field {FIELD}: {expected}, found {str(given)[:60]}")
        self._n_jobs += 1
        self._start(job, wanted)
        return True

    def _start(self, job: Job, wanted: IntervalSet) -> None:
        """Start a job on the processors that it has, if they are free, else on the lowest free ones."""
        actions = self._actions
        partitions, n = actions.cluster.partitions.values(), job.n_procs
        free = EMPTY
        for partition in partitions:
            free = free | partition.free
        procs = wanted if len(wanted) == n and wanted.issubset(free) else EMPTY
        self._n_elsewhere += bool(wanted) and not procs
        if not procs:
            room = next((partition.free for partition in partitions if len(partition.free) >= n), free)
            if len(room) < n:
                reason = "runs when the simulation begins on {} processors, but only {} are free", n, len(room)
                actions.carry_out(d.RejectJob(job.id, reason=reason))
                return
            procs = room.first(n)
        actions.start_running(job, procs, _REASON)

    def figures(self) -> Mapping[str, float]:
        """Return how many jobs ran when the simulation began, if any did."""
        return {"n_running_at_start": self._n_jobs} if self._n_jobs else {}

    def remarks(self) -> tuple[Any, ...]:
        """Report jobs that did not get the processors that they had."""
        if not self._n_elsewhere:
            return ()
        return (f"{self._n_elsewhere:,} jobs that ran at the start were put on other processors than in the log",)
