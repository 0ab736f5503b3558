"""Batsim's output files: six decimals; six significant digits in machine states and changes of pstates."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from pybatsched.core.events import COMPLETED_SUCCESSFULLY, REJECTED
from pybatsched.core.intervals import IntervalSet
from pybatsched.errors import InputError
from pybatsched.results.run_state import JOBS
from pybatsched.simulator.hosts import SHOWN_STATES
from pybatsched.simulator.jobs import NO_TIME_S
from pybatsched.simulator.observers import Observer

if TYPE_CHECKING:
    from pybatsched.metrics import Outcome, Tally
    from pybatsched.results.writing import Results
    from pybatsched.simulator.hosts import Book
    from pybatsched.simulator.jobs import SimJob
    from pybatsched.simulator.options import Scenario


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


class ResultFiles(Observer):
    """Marks results as running, and counts the jobs that are over. Put it before the observers that write files."""

    def __init__(self, results: Results, tally: Tally) -> None:
        self._results = results
        self._tally = tally

    @contextmanager
    def opened(self, scenario: Scenario, book: Book) -> Iterator[None]:
        """Begin the results."""
        del book
        n_jobs = sum(len(workload.jobs) for workload in scenario.workloads.values())
        self._results.begin(n_jobs, scenario.platform.n_procs)
        try:
            yield
        finally:
            self._results.n_over = self._tally.n_over


def batsim_files(prefix: str) -> list[Observer]:
    """Return the observers that write the files of a run, all but the trace. They overwrite earlier ones."""
    return [JobFiles(prefix), MachineStates(prefix), EnergyFiles(prefix)]


class JobFiles(Observer):
    """Writes ``_jobs.csv`` during the run, and ``_schedule.csv`` at its end."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._flush_at = 0.0
        self._n_jobs = self._n_finished = self._n_success = 0
        self._makespan = 0.0
        self._sums = [0.0, 0.0, 0.0]  # waiting time, turnaround time, slowdown
        self._maxima = [0.0, 0.0, 0.0]

    @contextmanager
    def opened(self, scenario: Scenario, book: Book) -> Iterator[None]:
        """Open the file of jobs."""
        self._n_hosts, self._book = len(scenario.platform.hosts), book
        with written(self._prefix, JOBS, ",".join(JOB_COLUMNS)) as self._file:
            yield

    def finished(self, job: SimJob, outcome: Outcome) -> None:
        """Write the row of a finished job. O(1)."""
        del outcome
        self._n_jobs += 1
        state, sub, start, runtime = job.state, job.subtime, job.started_at, job.runtime_s
        if state == REJECTED:
            row = (job.name, job.workload, job.work.name, sub, job.res, job.walltime, "0", state, f'"{job.metadata}"')
            self._file.write(_REJECTED % row)
            return
        success = state == COMPLETED_SUCCESSFULLY
        finish, wait = start + runtime, start - sub
        turnaround = wait + runtime  # small numbers first: Batsim has more than double precision
        stretch = _stretch(wait, turnaround, runtime)
        self._n_finished += 1
        self._n_success += success
        if finish > self._makespan:
            self._makespan = finish
        sums, maxima = self._sums, self._maxima
        sums[0] += wait
        sums[1] += turnaround
        sums[2] += stretch
        if wait > maxima[0]:
            maxima[0] = wait
        if turnaround > maxima[1]:
            maxima[1] = turnaround
        if stretch > maxima[2]:
            maxima[2] = stretch
        self._file.write(
            _RAN
            % (
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
            self._file.flush()
            self._flush_at = at + _FLUSH_INTERVAL_S

    def run_ended(self, now: float, joules: float, n_switches: tuple[int, int]) -> None:
        """Write ``_schedule.csv``. As in Batsim, means include rejected jobs."""
        del now
        n, n_finished = self._n_jobs, self._n_finished
        figures = {
            "batsim_version": BATSIM_VERSION,
            "consumed_joules": _fixed6(joules),
            "makespan": _fixed6(self._makespan),
            "nb_computing_machines": str(self._n_hosts),
            "nb_grouped_switches": str(n_switches[0]),
            "nb_machine_switches": str(n_switches[1]),
            "nb_jobs": str(n),
            "nb_jobs_finished": str(n_finished),
            "nb_jobs_killed": str(n_finished - self._n_success),
            "nb_jobs_rejected": str(n - n_finished),
            "nb_jobs_success": str(self._n_success),
            "success_rate": _mean(self._n_success, n),
            "scheduling_time": _fixed6(0.0),
            "simulation_time": _fixed6(0.0),
        }
        for i, name in enumerate(("waiting_time", "turnaround_time", "slowdown")):
            figures[f"mean_{name}"] = _mean(self._sums[i], n)
            figures[f"max_{name}"] = _fixed6(self._maxima[i])
        for state, time_s in self._book.times_s().items():
            figures[f"time_{state.value}"] = _fixed6(time_s)
        keys = sorted(figures)
        with written(self._prefix, "_schedule.csv", ",".join(keys)) as file:
            file.write(",".join(figures[key] for key in keys) + "\n")


class MachineStates(Observer):
    """Writes ``_machine_states.csv``: the number of hosts in each state."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._at = math.nan
        self._at_text = ""

    @contextmanager
    def opened(self, scenario: Scenario, book: Book) -> Iterator[None]:
        """Open the file."""
        del scenario
        self._book = book
        head = "time," + ",".join(f"nb_{state.value}" for state in SHOWN_STATES)
        with written(self._prefix, "_machine_states.csv", head) as self._file:
            yield

    def machines_changed(self, now: float) -> None:
        """Write a row."""
        if now != self._at:  # several changes at one instant are frequent
            self._at, self._at_text = now, f"{now:g}"
        self._file.write(f"{self._at_text},{self._book.counts_text()}\n")


class EnergyFiles(Observer):
    """Writes ``_consumed_energy.csv`` and ``_pstate_changes.csv``, if the run has energy."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._last_entry = (0.0, 0.0)

    @contextmanager
    def opened(self, scenario: Scenario, book: Book) -> Iterator[None]:
        """Open the files."""
        del book
        if not scenario.options.energy:
            yield
            return
        with (
            written(self._prefix, "_consumed_energy.csv", "time,energy,event_type,wattmin,epower") as self._energy,
            written(self._prefix, "_pstate_changes.csv", "time,machine_id,new_pstate") as self._pstates,
        ):
            by_pstate: dict[int, list[int]] = {}
            for number, host in enumerate(scenario.platform.hosts):
                by_pstate.setdefault(host.pstate, []).append(number)
            for pstate, numbers in sorted(by_pstate.items()):
                self.pstate_changed(0.0, IntervalSet(numbers), pstate)
            yield

    def energy_read(self, now: float, joules: float, kind: str, watts_min: float) -> None:
        """Write the energy consumed so far, and the mean power since the last row."""
        last_at, last_j = self._last_entry
        power = f"{(joules - last_j) / (now - last_at):.6f}" if now > last_at else "NA"
        self._energy.write(f"{now:.6f},{joules:.6f},{kind},{watts_min:.6f},{power}\n")
        self._last_entry = (now, joules)

    def pstate_changed(self, now: float, hosts: IntervalSet, pstate: int) -> None:
        """Write the new pstate of hosts."""
        self._pstates.write(f"{now:g},{hosts},{pstate}\n")


@contextmanager
def written(prefix: str, suffix: str, head: str = "") -> Iterator[TextIO]:
    """Open a file of a run for writing, with a line at its head. An OSError until it is closed becomes an InputError.

    An OSError in a policy arrives here as a PolicyError.
    """
    try:
        with Path(f"{prefix}{suffix}").open("w", encoding="utf-8", newline="") as file:
            if head:
                file.write(f"{head}\n")
            yield file
    except OSError as error:
        raise InputError(f"cannot write {error.filename or f'the outputs {prefix}_*'}: {error.strerror}") from None


def _stretch(wait: float, turnaround: float, runtime: float) -> float:
    """Return Batsim's stretch. Batsim divides with more than double precision; jobs that took no time show this."""
    return wait * _PER_NO_TIME + 1.0 if runtime == NO_TIME_S else turnaround / runtime


def _mean(total: float, n: int) -> str:
    return _fixed6(total / n) if n else "-nan"  # what Batsim writes for a run without jobs


def _fixed6(value: float) -> str:
    return f"{value:.6f}" if math.isfinite(value) else "nan"
