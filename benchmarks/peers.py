"""Comparison of pybatsched with other programs: CPU time for the same jobs on the same machine.

    python benchmarks/peers.py [--jobs 10000] [--procs 256] [--largest 256] [--load 0.9] [--rounds 3] [--only TEXT ...]
    python benchmarks/peers.py --communicating [...]

The programs are Batsim and batsched on the PATH, pybatsim in build/foreign, AccaSim in build/accasim, and the compiled
build of pybatsched in build/fresh. Missing programs are listed and left out. All cases run one after the other, for
several rounds. The run with the median CPU time (user and system, of all processes) counts. A run with a single job
measures the start-up. Two cases run under two names; their difference is the noise. Exchanges are counted in a separate
run, in which Batsim logs every message. With --communicating, all jobs send bytes over the backbone of a cluster, and
only Batsim and the embedded simulator run them.

Prints tables in Markdown, without a verdict on speed. Exit code 1 means that a run failed, or that the schedules of
pybatsched differ between runs.
"""

from __future__ import annotations

import argparse
import csv
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import peer_programs as programs
from peer_programs import AGAIN, PATIENCE_S, Case, Input, RunPaths

from pybatsched.workload import Workload

#: How long a process may run after its partner has ended.
GRACE_S = 60.0
KILLED = -signal.SIGKILL
#: The case that all figures are divided by. It needs only Python.
REFERENCE = "embedded simulator, easy, pure Python"
LOGS = "scheduler.log", "simulator.log"

Starts = dict[str, float]


# --- a run ------------------------------------------------------------------------------------------------------------


class Taken(NamedTuple):
    """The CPU seconds of the scheduler (or of the only process) and of the simulator in a run, and the schedule."""

    scheduler_s: float
    simulator_s: float
    starts: Starts

    @property
    def sum_s(self) -> float:
        """CPU seconds of all processes."""
        return self.scheduler_s + self.simulator_s


class RunError(Exception):
    """A failed run."""


def run(case: Case, place: RunPaths, verbosity: str = "quiet") -> Taken:
    """Run a case. Raises RunError with the last output of the failed process, or if jobs are missing."""
    place.out.mkdir(parents=True)
    commands = [case.command(place)] + ([programs.batsim(place, verbosity)] if case.wired else [])
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for command, name in zip(commands, LOGS, strict=False):
            with (place.out / name).open("wb") as log:
                process = subprocess.Popen(
                    command,
                    cwd=place.out,
                    env=os.environ | {"TZ": "UTC"},  # AccaSim writes dates
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            processes.append(process)
        used = finish(processes)
    finally:
        for process in processes:
            process.kill()  # no effect on ended processes
    codes = [process.returncode for process in processes]
    if any(codes):
        failed = max(range(len(codes)), key=lambda index: (codes[index] != 0, codes[index] != KILLED))
        words = (place.out / LOGS[failed]).read_text(errors="replace").strip().splitlines()[-3:]
        raise RunError(f"{Path(commands[failed][0]).name} ended with exit code {codes[failed]}: {' / '.join(words)}")
    starts = starts_of(place.out)
    if starts.keys() != place.files.submitted.keys():
        raise RunError(f"expected {len(place.files.submitted)} successful jobs, found {len(starts)}")
    return Taken(used[0], used[1] if case.wired else 0.0, starts)


def finish(processes: Sequence[subprocess.Popen[bytes]]) -> list[float]:
    """Wait for all processes; return the CPU seconds of each. Kill those that wait for an ended partner."""
    used: dict[int, float] = {}
    until = time.monotonic() + PATIENCE_S
    while len(used) < len(processes):
        time.sleep(0.01)
        late = time.monotonic() > until
        for process in processes:
            if process.pid in used:
                continue
            if late:
                os.kill(process.pid, -KILLED)
            pid, status, usage = os.wait4(process.pid, 0 if late else os.WNOHANG)
            if pid:
                used[pid] = usage.ru_utime + usage.ru_stime
                process.returncode = os.waitstatus_to_exitcode(status)
                until = min(until, time.monotonic() + GRACE_S)
    return [used[process.pid] for process in processes]


def starts_of(out: Path) -> Starts:
    """Return the start of each successful job, from the table of Batsim, pybatsched or AccaSim."""
    table = out / "run_jobs.csv"
    if table.exists():
        with table.open() as file:
            return {row["job_id"]: float(row["starting_time"]) for row in csv.DictReader(file) if row["success"] == "1"}
    starts = {}
    for schedule in out.glob("sched-*"):
        for line in schedule.read_text().splitlines():
            submitted, _, times = line.split("__")
            started = datetime.fromisoformat(times.partition(";")[0]).replace(tzinfo=UTC)
            starts[submitted.partition(";")[0]] = started.timestamp()
    return starts


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


# --- all runs ---------------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """What became of a case: its median run, the CPU of a run with one job, and its exchanges if it is wired."""

    case: Case
    taken: Taken
    start: Taken
    n_exchanges: int = 0

    @property
    def us_per_exchange(self) -> float:
        """CPU microseconds of the scheduler for an exchange, without its start."""
        return (self.taken.scheduler_s - self.start.scheduler_s) / self.n_exchanges * 1e6


def median(runs: Sequence[Taken]) -> Taken:
    """Return the run with the median CPU time, so that its parts add up; of two, the cheaper one."""
    return sorted(runs, key=lambda run: run.sum_s)[(len(runs) - 1) // 2]


def measure(
    cases: Sequence[Case], files: Input, single: Input, scratch: Path, rounds: int
) -> tuple[list[Row], list[str]]:
    """Run all cases one after the other, `rounds` times; return the costs of each, and the errors."""
    runs: dict[str, list[tuple[Taken, Taken]]] = {case.name: [] for case in cases}
    counts: dict[str, int] = {}
    errors: dict[str, str] = {}

    def one(case: Case, inputs: Input, verbosity: str = "quiet") -> Taken:
        out = scratch / "run"
        shutil.rmtree(out, ignore_errors=True)
        return run(case, RunPaths(inputs, out, free_port()), verbosity)

    def counted(case: Case, inputs: Input) -> int:
        one(case, inputs, "network-only")
        return (scratch / "run" / LOGS[1]).read_text(errors="replace").count("Sending '")

    for number in range(rounds + 1):
        for case in cases:
            is_known = number == 0 and (not case.wired or case.talk in counts)
            if is_known or case.name in errors:
                continue
            log(f"round {number} of {rounds}: {case.name}" if number else f"exchanges: {case.name}")
            try:
                if number:
                    runs[case.name].append((one(case, files), one(case, single)))
                else:
                    counts[case.talk] = counted(case, files) - counted(case, single)
            except RunError as error:
                errors[case.name] = f"{case.name}: {error}"
    rows = []
    for case in cases:
        if case.name not in errors:
            taken, starts = zip(*runs[case.name], strict=True)
            if any(again.starts != taken[0].starts for again in taken):
                errors[case.name] = f"{case.name}: the schedules of its runs differ"
            n_exchanges = counts[case.talk] if case.wired else 0
            rows.append(Row(case, median(taken), median(starts), n_exchanges))
    return rows, [*errors.values(), *differences(rows)]


def differences(rows: Sequence[Row]) -> list[str]:
    """Return the cases of pybatsched whose schedule differs from the first one with the same policy."""
    first: dict[str, Row] = {}
    found = []
    for row in rows:
        if row.case.ours:
            model = first.setdefault(row.case.policy, row)
            n = sum(at != row.taken.starts.get(job) for job, at in model.taken.starts.items())
            if n:
                found.append(f"{row.case.name}: {n} jobs start at other times than in {model.case.name}")
    return found


def log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# --- tables -----------------------------------------------------------------------------------------------------------


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])


def cost_table(rows: Sequence[Row], n_jobs: int) -> str:
    """Return the table of costs. The ratio is to the reference, or to the first row if that was not run."""
    head = "CPU s: scheduler", "simulator", "sum", "of it start", "jobs/s", "ratio", "scheduler µs an exchange"
    whole = next((row for row in rows if row.case.name == REFERENCE), rows[0]).taken.sum_s
    lines = []
    for row in rows:
        both = [f"{row.taken.scheduler_s:.2f}", f"{row.taken.simulator_s:.2f}"] if row.case.wired else ["", ""]
        total = row.taken.sum_s
        cells = [*both, f"{total:.2f}", f"{row.start.sum_s:.2f}", f"{n_jobs / total:,.0f}", f"{total / whole:.2f}"]
        lines.append([row.case.name, *cells, f"{row.us_per_exchange:.0f}" if row.n_exchanges else ""])
    return table(["", *head], lines)


def schedule_table(rows: Sequence[Row], submitted: Mapping[str, float]) -> str:
    """Return the table of schedules: the mean wait, and the share of jobs that start as under pybatsched."""
    ours = {row.case.policy: row.taken.starts for row in reversed(rows) if row.case.ours}
    lines = []
    for row in rows:
        starts = row.taken.starts
        wait_s = sum(at - submitted[job] for job, at in starts.items()) / len(starts)
        model = ours.get(row.case.policy, {})
        same = sum(model.get(job) == at for job, at in starts.items()) / len(starts)
        share = f"{same * 100:.1f} %" if model else ""
        exchanges = f"{row.n_exchanges:,}" if row.n_exchanges else ""
        lines.append([row.case.name, f"{len(starts):,}", f"{wait_s:,.0f}", share, exchanges])
    return table(["", "jobs", "mean wait s", "start as ours", "exchanges"], lines)


def noise(rows: Sequence[Row]) -> list[str]:
    """Return the difference of the two runs of each repeated case."""
    taken = {row.case.name: row.taken for row in rows}
    found = []
    for name, once in taken.items():
        if again := taken.get(name + AGAIN):
            alone = f", scheduler alone {again.scheduler_s / once.scheduler_s:.2f}" if once.simulator_s else ""
            found.append(f"control: the same case twice, {name}: sum {again.sum_s / once.sum_s:.2f}{alone}")
    return found


def versions() -> str:
    """Return the versions of the programs."""
    named = [f"CPython {platform.python_version()}, {platform.machine()}"]
    for program in ("batsim", "batsched"):
        if shutil.which(program):
            version = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout.strip()
            named.append(f"{program} {version}")
    return "; ".join(named)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--procs", type=int, default=256)
    parser.add_argument("--largest", type=int, help="processors of the largest jobs (default: all)")
    parser.add_argument("--load", type=float, default=0.9)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--communicating", action="store_true", help="jobs that share the backbone of a cluster")
    parser.add_argument("--only", action="append", metavar="TEXT", help="cases whose names contain it (repeatable)")
    args = parser.parse_args(arguments)
    if min(args.jobs, args.procs, args.rounds) < 1:
        parser.error("--jobs, --procs and --rounds: expected 1 or more")
    if args.largest is not None and not 1 <= args.largest <= args.procs:
        parser.error("--largest: expected a number from 1 to --procs")
    wanted = [
        case for case in programs.all_cases(args.procs) if not args.only or any(text in case.name for text in args.only)
    ]
    workload = programs.random_workload(args.jobs, args.procs, args.load, args.largest)
    write_input = programs.write_input
    if args.communicating:
        programs.let_communicate(workload)
        write_input = programs.write_communicating
        wanted = [case for case in wanted if case.communicates]
    cases = [case for case in wanted if not case.missing]
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as scratch:
        files = write_input(workload, Path(scratch) / "all")
        single = Workload(workload.jobs[:1], workload.profiles, workload.n_procs)
        rows, errors = measure(cases, files, write_input(single, Path(scratch) / "one"), Path(scratch), args.rounds)
    kind = "communicating jobs" if args.communicating else "jobs"
    load = f"load {args.load}; median of {args.rounds}"
    print(f"{args.jobs:,} {kind} on {args.procs:,} processors, {load}; {versions()}\n")
    if rows:
        print(cost_table(rows, args.jobs), schedule_table(rows, files.submitted), sep="\n\n")
    notes = [*noise(rows), *(f"not run: {case.name}: {case.missing}" for case in wanted if case.missing)]
    print("", *notes, *(f"ERROR: {error}" for error in errors), sep="\n")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
