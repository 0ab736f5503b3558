"""Batsim's ``_schedule.trace`` in the Pajé format; the colours of jobs are the same in each run."""

from __future__ import annotations

import colorsys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pybatsched.core.events import COMPLETED_WALLTIME_REACHED
from pybatsched.simulator.jobs import KILLED_TASK
from pybatsched.simulator.observers import Observer
from pybatsched.simulator.outputs.files import written

if TYPE_CHECKING:
    from pybatsched.simulator.hosts import Book
    from pybatsched.simulator.jobs import SimJob
    from pybatsched.simulator.options import Scenario

#: The kinds of lines, numbered from 1, each with its fields. Batsim also writes the blanks at the ends of lines.
_KINDS: Final = (
    ("DefineContainerType", ("Type string", "Alias string", "Name string")),
    ("CreateContainer", ("Time date ", "Type string  ", "Alias string ", "Name string   ", "Container string  ")),
    ("DestroyContainer", ("Time date", "Name string ", "Type string")),
    ("DefineStateType", ("Alias string ", "Type string ", "Name string ")),
    ("DefineEntityValue", ("Alias string  ", "Type string  ", "Name string  ", "Color color ")),
    ("SetState", ("Time date  ", "Type string  ", "Container string  ", "Value string  ")),
    ("DefineEventType", ("Type string", "Alias string", "Name string")),
    ("NewEvent", ("Time date", "Type string", "Container string", "Value string")),
    ("DefineVariableType", ("Type string", "Alias string", "Name string", "Color string")),
    ("SetVariable", ("Time date", "Type string", "Container string", "Value double")),
)
_ENDS_WITH_BLANK: Final = "SetState"

_TYPES: Final = """\
# Container types creation
1 0 root_ct "Machines"
1 root_ct machine_ct "Machine"
1 0 scheduler_ct "Scheduler"
1 scheduler_ct killer_ct "Killer"

# Event types creation
7 killer_ct kk "Job kill"
7 machine_ct km "Job kill"

# Variable types creation
9 scheduler_ct vu_vt "Utilization" "0.0 0.5 0.0"

"""
_STATES: Final = """\
# States creation
4 machine_state machine_ct "Machine state"

# Creation of the different values the machine state can be
5 w machine_state "Waiting" "0.0 0.0 0.0"
5 l machine_state "Launching" "0.3 0.3 0.3"

# Begin of events
"""

_N_COLOURS: Final = 64
_STRIDE: Final = 23  # coprime to 64: consecutive jobs get different hues


class ScheduleTrace(Observer):
    """Writes the trace of one run. Each start and end costs O(processors of the job)."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._known: set[str] = set()
        self._jobs_on: dict[int, list[str]] = {}

    @contextmanager
    def opened(self, scenario: Scenario, book: Book) -> Iterator[None]:
        """Open the file, and write the header of the trace."""
        self._book = book
        names = [host.name for host in scenario.platform.hosts]
        self._n_hosts = len(names)
        with written(self._prefix, "_schedule.trace") as self._file:
            self._file.writelines(_definitions())
            self._file.write(_TYPES)
            self._file.write('# Containers creation\n2 0.000000 root_ct root "Machines" 0\n')
            self._file.writelines(f'2 0.000000 machine_ct m{i} "{name}" root\n' for i, name in enumerate(names))
            self._file.write('2 0.000000 scheduler_ct sc "Scheduler" 0\n2 0.000000 killer_ct k "Killer" sc\n\n')
            self._file.write(_STATES)
            self._file.writelines(f"6 0.000000 machine_state m{i} w\n" for i in range(len(names)))
            yield

    def started(self, job: SimJob, now: float) -> None:
        """Write the start of a job. A shared machine shows the job that started first."""
        for host in job.alloc:
            jobs = self._jobs_on.setdefault(host, [])
            jobs.append(job.id)
            if len(jobs) == 1:
                self._computes(host, job.id, now)

    def released(self, job: SimJob, now: float) -> None:
        """Write the end of a job. Like Batsim, mark only kills of parallel tasks. Unavailable machines stay so."""
        if job.state == COMPLETED_WALLTIME_REACHED or job.return_code == KILLED_TASK:
            self._file.write(f'8 {now:.6f} kk k "{job.id}"\n')
            self._file.writelines(f'8 {now:.6f} km m{host} "{job.id}"\n' for host in job.alloc)
        for host in job.alloc:
            jobs = self._jobs_on[host]
            was_shown = jobs[0] == job.id
            jobs.remove(job.id)
            if jobs and was_shown:
                self._computes(host, jobs[0], now)
            elif not jobs and not self._book.is_unavailable(host):
                self._file.write(f"6 {now:.6f} machine_state m{host} w\n")

    def run_ended(self, now: float, joules: float, n_switches: tuple[int, int]) -> None:
        """Write the end of the trace."""
        del joules, n_switches
        self._file.write("\n# End of events, containers destruction\n")
        self._file.writelines(f"3 {now:.6f} m{i} machine_ct\n" for i in range(self._n_hosts))
        self._file.write(f"3 {now:.6f} root root_ct\n")

    def _computes(self, host: int, job_id: str, now: float) -> None:
        if job_id not in self._known:
            self._file.write(f'5 j{job_id} machine_state "{job_id}" "{_colour(len(self._known))}"\n')
            self._known.add(job_id)
        self._file.write(f"6 {now:.6f} machine_state m{host} j{job_id}\n")


def _definitions() -> Iterable[str]:
    for number, (kind, fields) in enumerate(_KINDS, 1):
        yield f"%EventDef Paje{kind} {number}\n"
        yield from (f"% {field}\n" for field in fields)
        yield f"%EndEventDef{' ' if kind == _ENDS_WITH_BLANK else ''}\n\n"


def _colour(number: int) -> str:
    """Return the colour of the n-th job: one of 64 hues."""
    hue = number * _STRIDE % _N_COLOURS / _N_COLOURS
    return " ".join(f"{part:.6f}" for part in colorsys.hsv_to_rgb(hue, 1.0, 1.0))
