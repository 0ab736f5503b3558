"""pybatsched beside its peers: CPU time for the same jobs on the same machine, in one run.

    python benchmarks/peers.py [--jobs 10000] [--procs 256] [--load 0.9] [--rounds 3] [--only TEXT ...]

Peers are programs that are found on this machine: Batsim and batsched on the PATH, pybatsim in build/foreign, AccaSim
in build/accasim, our own compiled build in build/fast. What is not there is told and left out. Each case is run a few
times, all cases in turn, and the run whose CPU time is the median counts: that of every process from its start to its
end, user and system. A run with a single job tells how much of it is the start. Two cases are run under two names: how
far apart they are is the noise. Exchanges are counted in a run of their own, in which Batsim logs every message.

Prints tables in Markdown, never a verdict on speed. Exit code 1 says that a run failed, or that pybatsched's own
schedules are not the same everywhere.
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
from peer_programs import AGAIN, PATIENCE_S, Case, Input, Place

from pybatsched.workload import Workload

#: How long a process may outlive its partner.
GRACE_S = 60.0
KILLED = -signal.SIGKILL
#: What all figures are divided by: it needs nothing but Python.
REFERENCE = "embedded simulator, easy, pure Python"
LOGS = "scheduler.log", "simulator.log"

Starts = dict[str, float]


# --- a run ------------------------------------------------------------------------------------------------------------


class Taken(NamedTuple):
    """What a run took: CPU seconds of the scheduler (or of the only process) and of the simulator, and its schedule."""

    scheduler_s: float
    simulator_s: float
    starts: Starts

    @property
    def sum_s(self) -> float:
        """CPU seconds of all processes."""
        return self.scheduler_s + self.simulator_s


class RunError(Exception):
    """A run that came to no good end."""


def run(case: Case, place: Place, verbosity: str = "quiet") -> Taken:
    """Run a case to its end. Raises RunError with the last words of the process to blame, or if jobs are missing."""
    place.out.mkdir(parents=True)
    commands = [case.words(place)] + ([programs.batsim(place, verbosity)] if case.wired else [])
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
            process.kill()  # nothing happens to those that have ended
    codes = [process.returncode for process in processes]
    if any(codes):
        guilty = max(range(len(codes)), key=lambda index: (codes[index] != 0, codes[index] != KILLED))
        words = (place.out / LOGS[guilty]).read_text(errors="replace").strip().splitlines()[-3:]
        raise RunError(f"{Path(commands[guilty][0]).name} ended with {codes[guilty]}: {' / '.join(words)}")
    starts = starts_of(place.out)
    if starts.keys() != place.files.submitted.keys():
        raise RunError(f"{len(starts)} jobs ended well, expected {len(place.files.submitted)}")
    return Taken(used[0], used[1] if case.wired else 0.0, starts)


def finish(processes: Sequence[subprocess.Popen[bytes]]) -> list[float]:
    """Wait for all processes. Gives the CPU seconds of each; kills those that wait for a partner that has gone."""
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
    """Read when each job that ended well was started, from Batsim's table (and ours) or from AccaSim's."""
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
    """Give the run in the middle by its CPU time, so that its parts add up; of two, the cheaper one."""
    return sorted(runs, key=lambda run: run.sum_s)[(len(runs) - 1) // 2]


def measure(
    cases: Sequence[Case], files: Input, single: Input, scratch: Path, rounds: int
) -> tuple[list[Row], list[str]]:
    """Run all cases in turn, `rounds` times. Gives what each took, and what went wrong."""
    runs: dict[str, list[tuple[Taken, Taken]]] = {case.name: [] for case in cases}
    counts: dict[str, int] = {}
    troubles: dict[str, str] = {}

    def one(case: Case, inputs: Input, verbosity: str = "quiet") -> Taken:
        out = scratch / "run"
        shutil.rmtree(out, ignore_errors=True)
        return run(case, Place(inputs, out, free_port()), verbosity)

    def counted(case: Case, inputs: Input) -> int:
        one(case, inputs, "network-only")
        return (scratch / "run" / LOGS[1]).read_text(errors="replace").count("Sending '")

    for number in range(rounds + 1):
        for case in cases:
            is_known = number == 0 and (not case.wired or case.talk in counts)
            if is_known or case.name in troubles:
                continue
            tell(f"round {number} of {rounds}: {case.name}" if number else f"exchanges: {case.name}")
            try:
                if number:
                    runs[case.name].append((one(case, files), one(case, single)))
                else:
                    counts[case.talk] = counted(case, files) - counted(case, single)
            except RunError as error:
                troubles[case.name] = f"{case.name}: {error}"
    rows = []
    for case in cases:
        if case.name not in troubles:
            taken, starts = zip(*runs[case.name], strict=True)
            if any(again.starts != taken[0].starts for again in taken):
                troubles[case.name] = f"{case.name}: not the same schedule each time"
            n_exchanges = counts[case.talk] if case.wired else 0
            rows.append(Row(case, median(taken), median(starts), n_exchanges))
    return rows, [*troubles.values(), *differences(rows)]


def differences(rows: Sequence[Row]) -> list[str]:
    """Name the cases of ours whose schedule is not that of the first one with the same policy."""
    first: dict[str, Row] = {}
    found = []
    for row in rows:
        if row.case.ours:
            model = first.setdefault(row.case.policy, row)
            n = sum(at != row.taken.starts.get(job) for job, at in model.taken.starts.items())
            if n:
                found.append(f"{row.case.name}: {n} jobs start at other times than in: {model.case.name}")
    return found


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# --- tables -----------------------------------------------------------------------------------------------------------


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])


def cost_table(rows: Sequence[Row], n_jobs: int) -> str:
    """Tell what each case took. The ratio is to the reference, or to the first row if that was not run."""
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
    """Tell how the schedules differ: the mean wait, and how many jobs start when our policy starts them."""
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
    """Give, for each case that was run under two names, how far apart the two are."""
    taken = {row.case.name: row.taken for row in rows}
    found = []
    for name, once in taken.items():
        if again := taken.get(name + AGAIN):
            alone = f", scheduler alone {again.scheduler_s / once.scheduler_s:.2f}" if once.simulator_s else ""
            found.append(f"control: the same case twice, {name}: sum {again.sum_s / once.sum_s:.2f}{alone}")
    return found


def versions() -> str:
    """Name the programs that say who they are."""
    named = [f"CPython {platform.python_version()}, {platform.machine()}"]
    for program in ("batsim", "batsched"):
        if shutil.which(program):
            said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout.strip()
            named.append(f"{program} {said}")
    return "; ".join(named)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--procs", type=int, default=256)
    parser.add_argument("--load", type=float, default=0.9)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", action="append", metavar="TEXT", help="cases whose names contain it (repeatable)")
    args = parser.parse_args(arguments)
    if min(args.jobs, args.procs, args.rounds) < 1:
        parser.error("--jobs, --procs and --rounds: expected 1 or more")
    wanted = [
        case for case in programs.all_cases(args.procs) if not args.only or any(text in case.name for text in args.only)
    ]
    cases = [case for case in wanted if not case.missing]
    workload = programs.drawn(args.jobs, args.procs, args.load)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as scratch:
        files = programs.write_input(workload, Path(scratch) / "all")
        single = Workload(workload.jobs[:1], workload.profiles, workload.n_procs)
        rows, troubles = measure(
            cases, files, programs.write_input(single, Path(scratch) / "one"), Path(scratch), args.rounds
        )
    print(f"{args.jobs:,} jobs on {args.procs:,} processors, load {args.load}; median of {args.rounds}; {versions()}\n")
    if rows:
        print(cost_table(rows, args.jobs), schedule_table(rows, files.submitted), sep="\n\n")
    told = [*noise(rows), *(f"not here: {case.name}: {case.missing}" for case in wanted if case.missing)]
    print("", *told, *(f"WRONG: {trouble}" for trouble in troubles), sep="\n")
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main())
