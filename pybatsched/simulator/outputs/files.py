"""Batsim's output files: six decimals; six significant digits in machine states and changes of pstates."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from pybatsched.core.events import COMPLETED_SUCCESSFULLY, REJECTED
from pybatsched.errors import InputError
from pybatsched.metrics import Outcome, Tally
from pybatsched.results.run_state import JOBS
from pybatsched.results.writing import InPlace, Results
from pybatsched.simulator.jobs import NO_TIME_S
from pybatsched.simulator.machine.hosts import SHOWN_STATES, HostState

if TYPE_CHECKING:
    from pybatsched.core.intervals import IntervalSet
    from pybatsched.simulator.jobs import SimJob
    from pybatsched.simulator.outputs.paje import ScheduleTrace


#: The version of Batsim that the simulator reproduces.
BATSIM_VERSION: Final = "4.2.1"

_PER_NO_TIME: Final = round(1 / NO_TIME_S)
#: The interval between flushes. Rows of this time are invisible to readers, and lost if the process is killed.
_FLUSH_INTERVAL_S: Final = 1.0

#: The columns of ``_jobs.csv``.
JOB_COLUMNS: Final = (
    "job_id",
    "workload_name",
    "profile",
    "submission_time",
    "requested_number_of_resources",
    "requested_time",
    "success",
    "final_state",
    "starting_time",
    "execution_time",
    "finish_time",
    "waiting_time",
    "turnaround_time",
    "stretch",
    "allocated_resources",
    "consumed_energy",
    "metadata",
)

# Rows as %-templates: twice as fast as f-strings for rows with many floats.
_HEAD: Final = "%s,%s,%s,%.6f,%d,%.6f,%s,%s,"
_REJECTED: Final = _HEAD + ",,,,,,,,%s\n"
_RAN: Final = _HEAD + "%.6f,%.6f,%.6f,%.6f,%.6f,%.6f,%s,%.6f,%s\n"


def plain_job_row(*values: Any) -> str:
    """Return the row of a job that ran: a value for each of `JOB_COLUMNS`, times as floats, metadata in quotes."""
    return _RAN % values


def rejected_row(*values: Any) -> str:
    """Return the row of a rejected job: the columns up to ``final_state``, and the metadata in quotes."""
    return _REJECTED % values


if TYPE_CHECKING:
    job_row = plain_job_row
else:
    try:
        from pybatsched.core._fixed6 import row as job_row
    except ImportError:  # not built
        job_row = plain_job_row


class Totals:
    """The figures of ``_schedule.csv`` that are computed from the rows of jobs."""

    def __init__(self) -> None:
        self.n_jobs = 0
        self.n_finished = 0
        self.n_success = 0
        self.n_rejected = 0
        self.makespan = 0.0
        self.sums = [0.0, 0.0, 0.0]  # waiting time, turnaround time, slowdown
        self.maxima = [0.0, 0.0, 0.0]
        self.jobs_j = 0.0  # rounded to six decimals, as in the rows

    def add_rejected(self) -> None:
        """Count a job that was rejected."""
        self.n_jobs += 1
        self.n_rejected += 1

    def add(self, finish: float, wait: float, turnaround: float, stretch: float, *, success: bool) -> None:
        """Count a job that ran."""
        self.n_jobs += 1
        self.n_finished += 1
        self.n_success += success
        if finish > self.makespan:
            self.makespan = finish
        sums, maxima = self.sums, self.maxima
        sums[0] += wait
        sums[1] += turnaround
        sums[2] += stretch
        if wait > maxima[0]:
            maxima[0] = wait
        if turnaround > maxima[1]:
            maxima[1] = turnaround
        if stretch > maxima[2]:
            maxima[2] = stretch


class Outputs:
    """Writes the files of one run during the run. Without a prefix, figures are counted and no file is written.

    Existing results are replaced only when the new run has finished; a run that is rejected before it starts changes
    nothing. Pass `Results` instead of a prefix to add more files and finish them later. Pass `InPlace` to write the
    files directly to their final paths.
    """

    def __init__(
        self,
        place: str | Results | InPlace | None,
        *,
        energy: bool = False,
        machine_states: bool = True,
        trace: ScheduleTrace | None = None,
    ) -> None:
        self.totals = Totals()
        self.tally = Tally()
        self.trace = trace
        #: A list to which the outcome of each job is added, as a reader of the file of jobs returns it; None for none.
        self.outcomes: list[Outcome] | None = None
        self._place = place
        self._part: str | None = None
        self._with_energy = energy
        self._with_states = machine_states
        self._files = ExitStack()
        self._jobs: TextIO | _Nowhere = _Nowhere()
        self._states: TextIO | _Nowhere = _Nowhere()
        self._energy: TextIO | _Nowhere = _Nowhere()
        self._pstates: TextIO | _Nowhere = _Nowhere()
        self._last_entry = (0.0, 0.0)
        self._flush_at = 0.0
        self._states_at = math.nan
        self._states_at_text = ""

    @contextmanager
    def opened(self, n_jobs: int, n_procs: int) -> Iterator[None]:
        """Open the files for a run of so many jobs and processors. Raises InputError if they cannot be written."""
        if self._place is None:
            yield
        elif isinstance(self._place, Results):
            with self._opened_in(self._place, n_jobs, n_procs):
                yield
        elif isinstance(self._place, InPlace):
            self._part = self._place.prefix
            with _write_errors(self._part), self._files:
                self._open_all()
                yield
        else:
            with Results(self._place) as results:
                with self._opened_in(results, n_jobs, n_procs):
                    yield
                results.finish()

    @contextmanager
    def _opened_in(self, results: Results, n_jobs: int, n_procs: int) -> Iterator[None]:
        results.begin(n_jobs, n_procs)
        self._part = results.part
        try:
            with _write_errors(self._part), self._files:
                self._open_all()
                yield
        finally:
            results.n_over = self.tally.n_over

    def _open_all(self) -> None:
        self._jobs = self._open(JOBS)
        self._jobs.write(",".join(JOB_COLUMNS) + "\n")
        if self._with_states:
            self._states = self._open("_machine_states.csv")
            self._states.write("time," + ",".join(f"nb_{state.value}" for state in SHOWN_STATES) + "\n")
        if self._with_energy:
            self._energy = self._open("_consumed_energy.csv")
            self._energy.write("time,energy,event_type,wattmin,epower\n")
            self._pstates = self._open("_pstate_changes.csv")
            self._pstates.write("time,machine_id,new_pstate\n")
        if self.trace is not None:
            self.trace.begin(self._open("_schedule.trace"))

    def _open(self, suffix: str) -> TextIO:
        return self._files.enter_context(Path(f"{self._part}{suffix}").open("w", encoding="utf-8", newline=""))

    def job(self, job: SimJob) -> None:
        """Write the row of a finished job. O(1)."""
        outcome = job.outcome()
        self.tally.add(outcome)
        if self.outcomes is not None:
            self.outcomes.append(outcome)
        state, sub, start, runtime = job.state, job.subtime, job.started_at, job.runtime_s
        if state == REJECTED:
            self.totals.add_rejected()
            head = (job.name, job.workload, job.work.name, sub, job.res, job.walltime, "0", state)
            self._jobs.write(rejected_row(*head, f'"{job.metadata}"'))
            return
        success = state == COMPLETED_SUCCESSFULLY
        finish, wait = start + runtime, start - sub
        turnaround = wait + runtime  # small numbers first: Batsim has more than double precision
        stretch = _stretch(wait, turnaround, runtime)
        self.totals.add(finish, wait, turnaround, stretch, success=success)
        if job.energy_j >= 0:
            self.totals.jobs_j += round(job.energy_j, 6)
        if self._part is None:
            return
        self._jobs.write(
            job_row(
                job.name,
                job.workload,
                job.work.name,
                sub,
                job.res,
                job.walltime,
                "1" if success else "0",
                state,
                start,
                runtime,
                finish,
                wait,
                turnaround,
                stretch,
                str(job.alloc),
                job.energy_j,
                f'"{job.metadata}"',
            )
        )
        at = time.monotonic()
        if at >= self._flush_at:
            self._jobs.flush()
            self._flush_at = at + _FLUSH_INTERVAL_S

    def machine_states(self, now: float, counts: str) -> None:
        """Write the number of hosts in each state from `now`; `counts` are the columns after the time."""
        if self._part is None:
            return
        if now != self._states_at:  # several changes at one instant are frequent
            self._states_at, self._states_at_text = now, f"{now:g}"
        self._states.write(f"{self._states_at_text},{counts}\n")

    def energy(self, now: float, joules: float, kind: str, watts_min: float) -> None:
        """Write the energy consumed so far; `kind` is s (a start), e (an end) or p (a change of pstate)."""
        last_at, last_j = self._last_entry
        power = f"{(joules - last_j) / (now - last_at):.6f}" if now > last_at else "NA"
        self._energy.write(f"{now:.6f},{joules:.6f},{kind},{watts_min:.6f},{power}\n")
        self._last_entry = (now, joules)

    def pstate(self, now: float, hosts: IntervalSet, pstate: int) -> None:
        """Write the new pstate of hosts; -1 means switching on, -2 switching off."""
        self._pstates.write(f"{now:g},{hosts},{pstate}\n")

    def schedule(self, figures: dict[str, str], now: float) -> None:
        """Write ``_schedule.csv`` and the end of the trace, at the end of the run."""
        if self.trace is not None:
            self.trace.finish(now)
        if self._part is not None:
            keys = sorted(figures)
            with Path(f"{self._part}_schedule.csv").open("w", encoding="utf-8", newline="") as file:
                file.write(",".join(keys) + "\n" + ",".join(figures[key] for key in keys) + "\n")


@contextmanager
def _write_errors(prefix: str) -> Iterator[None]:
    """Turn an OSError of a write into an InputError. An OSError in a policy arrives here as a PolicyError."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot write {error.filename or f'the outputs {prefix}_*'}: {error.strerror}") from None


def schedule_figures(
    totals: Totals, times_s: dict[HostState, float], *, n_hosts: int, joules: float, n_switches: tuple[int, int]
) -> dict[str, str]:
    """Return the columns of ``_schedule.csv``. As in Batsim, means include rejected jobs."""
    names = ("waiting_time", "turnaround_time", "slowdown")
    figures = {
        "batsim_version": BATSIM_VERSION,
        "consumed_joules": _fixed6(joules),
        "makespan": _fixed6(totals.makespan),
        "nb_computing_machines": str(n_hosts),
        "nb_grouped_switches": str(n_switches[0]),
        "nb_machine_switches": str(n_switches[1]),
        "nb_jobs": str(totals.n_jobs),
        "nb_jobs_finished": str(totals.n_finished),
        "nb_jobs_killed": str(totals.n_finished - totals.n_success),
        "nb_jobs_rejected": str(totals.n_rejected),
        "nb_jobs_success": str(totals.n_success),
        "success_rate": _mean(totals.n_success, totals.n_jobs),
        "scheduling_time": _fixed6(0.0),
        "simulation_time": _fixed6(0.0),
    }
    for i, name in enumerate(names):
        figures[f"mean_{name}"] = _mean(totals.sums[i], totals.n_jobs)
        figures[f"max_{name}"] = _fixed6(totals.maxima[i])
    for state in HostState:
        figures[f"time_{state.value}"] = _fixed6(times_s[state])
    return figures


def _stretch(wait: float, turnaround: float, runtime: float) -> float:
    """Return Batsim's stretch. Batsim divides with more than double precision; jobs that took no time show this."""
    return wait * _PER_NO_TIME + 1.0 if runtime == NO_TIME_S else turnaround / runtime


def _mean(total: float, n: int) -> str:
    return _fixed6(total / n) if n else "-nan"  # what Batsim writes for a run without jobs


def _fixed6(value: float) -> str:
    return f"{value:.6f}" if math.isfinite(value) else "nan"


class _Nowhere:
    """A file that discards all writes."""

    def write(self, text: str, /) -> int:
        return len(text)

    def flush(self) -> None:
        pass
