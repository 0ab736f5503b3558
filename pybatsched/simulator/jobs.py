"""The simulator's record of a job, and the job fields that it sends to the scheduler."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pybatsched.core.events import COMPLETED_FAILED, COMPLETED_SUCCESSFULLY, COMPLETED_WALLTIME_REACHED, REJECTED
from pybatsched.core.instants import on_tick
from pybatsched.core.intervals import EMPTY, IntervalSet
from pybatsched.metrics.outcomes import Outcome
from pybatsched.simulator.loop import Process
from pybatsched.simulator.work.profiles import Frame, Work

NOT_SUBMITTED: Final = "NOT_SUBMITTED"
SUBMITTED: Final = "SUBMITTED"
RUNNING: Final = "RUNNING"

#: Return codes that no profile sets: of a job at its walltime, and of a parallel task that was killed.
WALLTIME_REACHED: Final = -1
KILLED_TASK: Final = -2

#: The run time that Batsim records for a job that took no time.
NO_TIME_S: Final = 1e-5

#: Shared by all jobs that have not started: one list per job would cost much memory with a million jobs.
_NO_TRAIL: Final[list[Frame]] = []


class JobIO(NamedTuple):
    """What EXECUTE_JOB says about storage: hosts by label, or an additional I/O job with its hosts and profile."""

    storage_mapping: Mapping[str, int]
    alloc: IntervalSet = EMPTY
    work: Work | None = None


class SimJob:
    """One job. `fields` are sent to the scheduler; `return_code` is -1 until the job ends, as in Batsim."""

    __slots__ = (
        "alloc",
        "energy_j",
        "fields",
        "id",
        "inbox",
        "io",
        "kill_asked",
        "mapping",
        "metadata",
        "name",
        "process",
        "res",
        "return_code",
        "runtime_s",
        "started_at",
        "state",
        "subtime",
        "trail",
        "walltime",
        "work",
        "workload",
    )

    def __init__(self, workload: str, name: str, fields: Mapping[str, Any], work: Work) -> None:
        self.workload = workload
        self.name = name
        self.id = f"{workload}!{name}"
        self.fields = fields
        self.work = work
        self.res: int = fields["res"]
        self.subtime = float(fields["subtime"])
        self.walltime = float(fields.get("walltime", -1))
        self.state = NOT_SUBMITTED
        self.alloc: IntervalSet = EMPTY
        self.mapping: tuple[int, ...] = ()
        self.io: JobIO | None = None
        self.started_at = -1.0
        self.runtime_s = 0.0
        self.return_code = -1
        self.metadata = ""
        self.kill_asked = False
        self.process: Process | None = None
        self.trail = _NO_TRAIL
        self.inbox: deque[str] | None = None
        self.energy_j = -1.0

    def places(self) -> list[int]:
        """Return the processors of its executors: by the mapping of the scheduler, or one each."""
        hosts = list(self.alloc)
        return [hosts[place] for place in self.mapping] if self.mapping else hosts

    def outcome(self) -> Outcome:
        """Return the outcome of the finished job, as `pybatsched.metrics.jobs_csv` reads it."""
        if self.state == REJECTED:
            return Outcome(self.id, self.state, on_tick(self.subtime), 0.0, 0.0, 0, self.metadata)
        return Outcome(
            self.id,
            self.state,
            on_tick(self.subtime),
            on_tick(self.started_at),
            on_tick(self.runtime_s),
            len(self.alloc),
            self.metadata,
            self.alloc,
        )

    def end(self, code: int) -> None:
        """Set the final state of a job that was not killed: 0 is success, above 0 a failure, below 0 the walltime."""
        self.return_code = code
        if code == 0:
            self.state = COMPLETED_SUCCESSFULLY
        else:
            self.state = COMPLETED_FAILED if code > 0 else COMPLETED_WALLTIME_REACHED


def sent_fields(fields: Mapping[str, Any], job_id: str) -> dict[str, Any]:
    """Return job fields as Batsim sends them: every `id` is the full id, floats have six decimals. O(fields).

    >>> sent_fields({"id": 3, "subtime": 0.1234567, "res": 2, "profile": "p"}, "w0!3")
    {'id': 'w0!3', 'subtime': 0.123457, 'res': 2, 'profile': 'p'}
    """
    sent = dict(fields)
    for key, value in fields.items():
        kind = type(value)
        if kind is float:
            sent[key] = on_tick(value)
        elif kind is dict or kind is list:
            sent[key] = rounded(value, job_id)
    sent["id"] = job_id
    return sent


def rounded(value: Any, job_id: str | None = None) -> Any:
    """Return a JSON value with floats rounded to six decimals, as in messages. With a job, each `id` is the job's."""
    kind = type(value)
    if kind is float:
        return on_tick(value)
    if kind is str or kind is int:  # the most frequent types; the checks below are slow
        return value
    if isinstance(value, Mapping):
        has_id = job_id is not None
        return {key: job_id if has_id and key == "id" else rounded(part, job_id) for key, part in value.items()}
    if isinstance(value, list):
        return [rounded(part, job_id) for part in value]
    return value
