"""Endurance: millions of exchanges through one server process, and very many jobs in one embedded run.

    python -m reliability.endurance [--exchanges N] [--jobs N]

The server is a real process with its own socket; a small peer ends a job and submits another in each exchange. After
each hundredth of the exchanges, the server's memory, open files and CPU time are read from /proc. The same is done with
policies that register jobs at run time, for a tenth of the exchanges. With a journal there is a twentieth: their cost
must be the same at the end as at the beginning. The embedded runs are separate commands with all their files, and their
peak memory is taken at a quarter, a half and all of the jobs.

Exit code 1 if memory grew by 5 % or more after the first tenth, if files stayed open, if the journal became slower, or
if the second half of an embedded run's jobs takes more memory each than those before.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from support.patience import PATIENCE_S
from support.process import Peer

from pybatsched.cli.common.arguments import natural
from pybatsched.errors import quantity
from reliability.long_talk import LongTalk

MAX_GROWTH = 0.05
#: CPU time on a machine that others use as well differs by more than a tenth from minute to minute, memory by pages.
MAX_DEARER = 1.5
#: Linux counts CPU time in ticks, mostly of 10 ms: so much of a difference may be some ticks, however short the run.
SOME_TICKS_S = 0.1
#: Messages differ in length: so much of a difference may be some of them.
SOME_MESSAGES_BYTES = 4096
#: The peaks of two processes that do the same differ by some pages.
SOME_PAGES_BYTES = 2 * 2**20
#: Policies that register a job for each one that comes, or for every second one, and their options.
REGISTERING: dict[str, list[str]] = {"reallocation": [], "redirection": ["theta=0", "alpha=0.5"]}
_TICKS = os.sysconf("SC_CLK_TCK")


class Reading(NamedTuple):
    """What a process holds and has used, after so many jobs."""

    n: int
    rss_kb: int
    n_files: int
    cpu_s: float
    journal_bytes: int = 0


def read(pid: int, n: int, journal: Path | None = None) -> Reading:
    """Read a process of this machine from /proc."""
    place = Path("/proc") / str(pid)
    (rss,) = re.findall(r"^VmRSS:\s+(\d+) kB", (place / "status").read_text(), re.MULTILINE)
    fields = (place / "stat").read_text().rpartition(")")[2].split()
    size = 0 if journal is None else journal.stat().st_size
    cpu_s = (int(fields[11]) + int(fields[12])) / _TICKS
    return Reading(n, int(rss), len(list((place / "fd").iterdir())), cpu_s, size)


@contextmanager
def served(policy: str, place: Path, *more: str) -> Iterator[tuple[subprocess.Popen[bytes], LongTalk]]:
    """Start a server, and give it and a conversation with it: a small one with a policy that registers jobs."""
    endpoint = f"ipc://{place / 'door'}"
    command = [sys.executable, "-m", "pybatsched", "--policy", policy, "--endpoint", endpoint, *more]
    command += [text for option in REGISTERING.get(policy, ()) for text in ("-o", option)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as server:
        assert server.stderr is not None
        errors = server.stderr.readline()
        if b"waiting for Batsim" not in errors:
            raise SystemExit(f"the server did not start: {(errors + server.stderr.read()).decode()}")
        small: dict[str, Any] = {"dynamic": True, "n_alive": 20, "n_procs": 16} if policy in REGISTERING else {}
        try:
            with Peer(endpoint) as peer:
                yield server, LongTalk(peer.ask, **small)
        finally:
            if server.poll() is None:
                server.terminate()


def converse(policy: str, n: int, n_readings: int, *, has_journal: bool = False) -> list[Reading]:
    """Let a server schedule n jobs, and read it so many times on the way. It must end with exit code 0."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        journal = place / "journal" if has_journal else None
        more = () if journal is None else ("--journal", str(journal))
        with served(policy, place, *more) as (server, talk):
            talk.begin()
            readings = [read(server.pid, 0, journal)]
            print(_line(readings[0]), flush=True)
            for index in range(1, n_readings + 1):
                talk.go_on(n * index // n_readings - n * (index - 1) // n_readings)
                readings.append(read(server.pid, n * index // n_readings, journal))
                print(_line(readings[-1]), flush=True)
            talk.end()
            assert server.stderr is not None
            errors = server.stderr.read().decode()
            if server.wait(PATIENCE_S) != 0 or quantity(talk.n_submitted, "job") not in errors:
                raise SystemExit(f"the server did not end well: {errors}")
            print(
                f"ended: {talk.n_ended:,} jobs in {talk.n_exchanges:,} exchanges, "
                f"with {talk.n_registered:,} registered and {talk.n_killed:,} killed"
            )
        return readings


def _line(one: Reading) -> str:
    line = f"{one.n:>12,} jobs  {one.rss_kb / 1024:8.1f} MiB  {one.n_files:3} files  {one.cpu_s:9.1f} s CPU"
    line += f"  {one.cpu_s / one.n * 1e6:6.1f} us each" if one.n else ""
    return line + (f"  {one.journal_bytes:>14,} bytes of journal" if one.journal_bytes else "")


def judge_memory(readings: list[Reading]) -> list[str]:
    """Return the problems of a server that runs for long; print the figures."""
    start = next(one for one in readings if one.n * 10 >= readings[-1].n)
    late = readings[readings.index(start) :]
    growth = max(one.rss_kb for one in late) / start.rss_kb - 1
    files = {one.n_files for one in readings}
    print(f"memory after {start.n:,} jobs: {start.rss_kb / 1024:.1f} MiB; most after that: {growth:+.2%}")
    print(f"open files: {', '.join(map(str, sorted(files)))}")
    wrong = [f"memory grew by {growth:.2%}; expected less than {MAX_GROWTH:.0%}"] if growth >= MAX_GROWTH else []
    return wrong + (["the number of open files changed"] if len(files) > 1 else [])


def judge_journal(readings: list[Reading]) -> list[str]:
    """Return whether the journal became slower; print the figures."""
    # The first message, with its machine, is there before the first exchange that is counted.
    quarters = (readings[0], readings[1]), (readings[-2], readings[-1])
    cpu = [(last.cpu_s - first.cpu_s) / (last.n - first.n) for first, last in quarters]
    size = [(last.journal_bytes - first.journal_bytes) / (last.n - first.n) for first, last in quarters]
    n = readings[-1].n - readings[-2].n
    print(f"first quarter: {cpu[0] * 1e6:.1f} us and {size[0]:.0f} bytes an exchange")
    print(f"last quarter:  {cpu[1] * 1e6:.1f} us and {size[1]:.0f} bytes an exchange")
    wrong = []
    if (cpu[1] - MAX_DEARER * cpu[0]) * n > SOME_TICKS_S:
        costs = f"{cpu[1] * 1e6:.1f} us at the end, {cpu[0] * 1e6:.1f} at the beginning"
        wrong.append(f"with a journal an exchange costs {costs}; expected less than {MAX_DEARER:g} times as much")
    if (size[1] - (1 + MAX_GROWTH) * size[0]) * n > SOME_MESSAGES_BYTES:
        sizes = f"{size[1]:.0f} bytes an exchange at the end, by {size[0]:.0f} at the beginning"
        wrong.append(f"the journal grows by {sizes}")
    return wrong


def shares(n_jobs: int) -> list[int]:
    """Return a quarter, a half and all of the jobs; fewer numbers if there are too few jobs for that."""
    return sorted({max(n_jobs // 4, 1), max(n_jobs // 2, 1), n_jobs})


def embedded(policy: str, n_jobs: int) -> list[tuple[int, int]]:
    """Simulate `shares` of the jobs, each in a process of its own. Gives numbers of jobs, and kB."""
    peaks: list[tuple[int, int]] = []
    for n in shares(n_jobs):
        with tempfile.TemporaryDirectory() as scratch:
            place = Path(scratch)
            _write_jobs(place / "jobs.json", n)
            command = [sys.executable, "-m", "pybatsched", "simulate", "--procs", "64", "-w", "jobs.json"]
            command += ["--policy", policy, "-e", "out", "-q"]
            process = subprocess.Popen(command, cwd=place, stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode:
                raise SystemExit(f"a run of {n} jobs ended with exit code {process.returncode}")
            if (n_rows := (place / "out_jobs.csv").read_bytes().count(b"\n") - 1) != n:
                raise SystemExit(f"a run of {n} jobs has {n_rows} rows")
            cpu_s = usage.ru_utime + usage.ru_stime
            written = sum(path.stat().st_size for path in place.glob("out*"))
            peaks.append((n, usage.ru_maxrss))
        print(
            f"{n:>12,} jobs  peak {usage.ru_maxrss / 1024:8.1f} MiB  {cpu_s:8.1f} s CPU  "
            f"{cpu_s / n * 1e6:6.1f} us each  {written / n:6.0f} bytes of files each",
            flush=True,
        )
    return peaks


def judge_peaks(peaks: list[tuple[int, int]]) -> list[str]:
    """Return whether jobs of long runs take more memory each than those of short ones; print the figures."""
    slopes = []
    for (few, low), (many, high) in pairwise(peaks):
        slopes.append((high - low) * 1024 / (many - few))
        print(f"from {few:,} to {many:,} jobs: {slopes[-1]:,.0f} bytes a job")
    if len(slopes) < 2:
        return []  # too few jobs to compare any
    first, last = slopes[0], slopes[-1]
    is_dearer = (last - MAX_DEARER * first) * (peaks[-1][0] - peaks[-2][0]) > SOME_PAGES_BYTES
    return [f"a job takes {last:,.0f} bytes in the end, {first:,.0f} before"] if is_dearer else []


def _write_jobs(path: Path, n_jobs: int) -> None:
    """Write small jobs that come one a second and run a minute each, on a third of the machine."""
    profiles = {f"d{kind}": {"type": "delay", "delay": 10 + kind} for kind in range(50)}
    jobs = [
        {"id": n, "subtime": n, "walltime": 20 + n % 50, "res": 1 << (n % 3), "profile": f"d{n % 50}"}
        for n in range(n_jobs)
    ]
    path.write_text(json.dumps({"nb_res": 64, "profiles": profiles, "jobs": jobs}))


def main() -> int:
    """Run what is asked for. Return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exchanges", type=natural, default=200_000, help="0 leaves that out (default %(default)s)")
    parser.add_argument("--jobs", type=natural, default=50_000, help="of the embedded run (default %(default)s)")
    args = parser.parse_args()
    problems: list[str] = []
    for policy, n in (("fcfs", args.exchanges), *((policy, args.exchanges // 10) for policy in REGISTERING)):
        if n:
            print(f"one server, policy {policy}")
            problems += judge_memory(converse(policy, n, min(100, n)))
    if n_journal := args.exchanges // 20:
        print("one server with a journal")
        problems += judge_journal(converse("fcfs", n_journal, min(4, n_journal), has_journal=True))
    if args.jobs:
        print("one embedded run")
        problems += judge_peaks(embedded("fcfs", args.jobs))
    for text in problems:
        print(f"endurance: {text}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
