"""Checkpoints of jobs: how long a job takes with its dumps, and where it continues after a kill.

A job writes a checkpoint after every `interval_s` of work, which takes `dump_s`; there is none at its end. After a kill
it reads its last complete checkpoint, which takes `read_s`, and continues from there. Its profile includes the dumps:
`work_s` is its work alone. All functions are O(1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pybatsched.core.instants import HALF_TICK
from pybatsched.errors import InputError

INTERVAL: Final = "checkpoint_interval_s"
DUMP: Final = "checkpoint_dump_s"
READ: Final = "checkpoint_read_s"
WORK: Final = "checkpoint_work_s"


class Checkpoints(NamedTuple):
    """The checkpoints of one job."""

    interval_s: float
    dump_s: float
    read_s: float
    work_s: float

    @property
    def period_s(self) -> float:
        """The time from one complete checkpoint to the next."""
        return self.interval_s + self.dump_s

    @property
    def n(self) -> int:
        """How many checkpoints the whole job writes.

        >>> Checkpoints(50.0, 5.0, 2.0, 100.0).n, Checkpoints(50.0, 5.0, 2.0, 101.0).n
        (1, 2)
        """
        return n_dumps(self.work_s, self.interval_s)

    @property
    def total_s(self) -> float:
        """The run time of the whole job, with its dumps.

        >>> Checkpoints(50.0, 5.0, 2.0, 101.0).total_s
        111.0
        """
        return with_dumps_s(self.work_s, self.interval_s, self.dump_s)

    def n_complete(self, n_before: int, ran_s: float) -> int:
        """Return how many checkpoints are complete after a job that had `n_before` has run on for a time.

        >>> job = Checkpoints(50.0, 5.0, 2.0, 200.0)
        >>> [job.n_complete(0, ran_s) for ran_s in (54.9, 55.0, 109.0, 110.0, 209.0)], job.n_complete(1, 57.0)
        ([0, 1, 1, 2, 3], 2)
        """
        own_s = ran_s - (self.read_s if n_before else 0.0)
        return min(n_before + max(math.floor((own_s + HALF_TICK) / self.period_s), 0), self.n)

    def saved_s(self, n: int) -> float:
        """Return the seconds of a job's run time, dumps included, that it need not run again with n checkpoints."""
        return n * self.period_s

    def cut_s(self, n: int) -> float:
        """Return by how much a job that continues from its n-th checkpoint is shorter than the whole job."""
        return self.saved_s(n) - self.read_s if n else 0.0


def n_dumps(work_s: float, interval_s: float) -> int:
    """Return how many checkpoints are written during some work."""
    return max(math.ceil(work_s / interval_s - 1e-9) - 1, 0)


def with_dumps_s(work_s: float, interval_s: float, dump_s: float) -> float:
    """Return the time of some work with its dumps, on Batsim's tick."""
    return round(work_s + n_dumps(work_s, interval_s) * dump_s, 6)


def checkpoints_of(job_id: str, fields: Mapping[str, Any]) -> Checkpoints | None:
    """Return the checkpoints of a job by its fields; None if it has none. Raises InputError for an invalid value."""
    if INTERVAL not in fields:
        return None
    found: dict[str, Any] = {name: fields.get(name) for name in (INTERVAL, DUMP, READ, WORK)}
    if found[WORK] is None:
        raise InputError(
            f"job {job_id}, field {INTERVAL}: its profile does not include checkpoints (there is no {WORK}); "
            "write the workload with `pybatsched workload inject FILE checkpoints`"
        )
    for name, value in found.items():
        low = name in {DUMP, READ}
        is_number = type(value) in {int, float} and math.isfinite(value)
        if not is_number or value < 0 or (value == 0 and not low):
            expected = "0 seconds or more" if low else "more than 0 seconds"
            raise InputError(f"job {job_id}, field {name}: expected {expected}, found {value!r:.40}")
    return Checkpoints(*(float(value) for value in found.values() if value is not None))


class Restarts:
    """What kills, checkpoints and a policy have cost a job.

    Names with `n_` are counts, those with `_s` are seconds, the others processor-seconds.
    `ran` is its work since the last complete checkpoint, in all segments, and `kept` its work before. `extra_s` are
    seconds that a policy has added to the present segment, such as a swap; they come before its work.
    """

    __slots__ = (
        "extra",
        "extra_s",
        "kept",
        "kept_work_s",
        "lost",
        "lost_s",
        "n_checkpoints",
        "n_failures",
        "overhead",
        "ran",
        "ran_s",
    )

    def __init__(self) -> None:
        self.n_failures = 0
        self.n_checkpoints = 0
        self.ran_s = self.kept_work_s = self.lost_s = self.extra_s = 0.0
        self.ran = self.kept = self.lost = self.extra = 0.0
        self.overhead = 0.0  # complete dumps, and reads

    @property
    def facts(self) -> str:
        """What failures have cost the job, for its metadata; empty if there were none."""
        return f"failures={self.n_failures};lost_s={self.lost_s:.12g}" if self.n_failures else ""

    def add_run(self, n_procs: int, load_s: float, own_s: float) -> None:
        """Record that a segment has run: a load, and then all else."""
        extra_s = min(self.extra_s, own_s)
        self.extra_s -= extra_s
        self.extra += n_procs * (load_s + extra_s)
        self.ran_s += own_s - extra_s
        self.ran += n_procs * (own_s - extra_s)

    def add_checkpoints(self, checkpoints: Checkpoints) -> None:
        """Record the checkpoints that are complete by now. Segments on several numbers of processors count on average.

        >>> one = Restarts()
        >>> one.add_run(1, 0.0, 40.0), one.add_run(3, 0.0, 40.0)
        (None, None)
        >>> one.add_checkpoints(Checkpoints(50.0, 5.0, 2.0, 100.0)); one.kept, one.overhead, one.ran
        (100.0, 10.0, 50.0)
        """
        n_procs = self.ran / self.ran_s if self.ran_s else 0.0
        read_s = min(checkpoints.read_s, self.ran_s) if self.n_checkpoints else 0.0
        n = checkpoints.n_complete(self.n_checkpoints, self.ran_s)
        n_new, self.n_checkpoints = n - self.n_checkpoints, n
        self.kept_work_s += n_new * checkpoints.interval_s
        self.kept += n_procs * n_new * checkpoints.interval_s
        self.overhead += n_procs * (n_new * checkpoints.dump_s + read_s)
        self.ran_s = max(self.ran_s - checkpoints.saved_s(n_new) - read_s, 0.0)
        self.ran = n_procs * self.ran_s

    def restart(self, checkpoints: Checkpoints | None) -> int:
        """Record a restart from the last checkpoint, or from scratch. Return how many checkpoints are complete."""
        if checkpoints is not None:
            self.add_checkpoints(checkpoints)
        else:
            self.ran_s, self.ran = self.ran_s + self.kept_work_s, self.ran + self.kept
            self.n_checkpoints, self.kept_work_s, self.kept = 0, 0.0, 0.0
        self.lost_s += self.ran_s
        self.lost += self.ran
        self.ran_s = self.ran = self.extra_s = 0.0
        return self.n_checkpoints
