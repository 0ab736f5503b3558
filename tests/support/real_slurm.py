"""A real Slurm with several nodes on this machine, and what its logs say, in the form of recordings."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest

from support.patience import PATIENCE_OF_WORK_S, PATIENCE_S

#: What a line of the log of slurmctld or of its scheduler means. The group `job` may be a task such as 3_1(5).
_LINES = {
    "submit": re.compile(r"_slurm_rpc_submit_batch_job: JobId=(?P<job>\S+) InitPrio=(?P<info>\d+)"),
    "main": re.compile(r"Running job scheduler for (?P<info>full|default depth)"),
    "bf": re.compile(r"_attempt_backfill: beginning"),
    "main start": re.compile(r"\] sched: Allocate JobId=(?P<job>\S+) NodeList=(?P<info>\S+)"),
    "backfill start": re.compile(r"_start_job: Started JobId=(?P<job>\S+) in \S+ on (?P<info>\S+)"),
    "end": re.compile(r"_job_complete: JobId=(?P<job>\S+) done"),
    "timelimit": re.compile(r"Time limit exhausted for JobId=(?P<job>\S+)"),
}
_TESTED = re.compile(r"BACKFILL: test for JobId=(\S+) Prio=(\d+)")
_PLANNED = re.compile(r"_dump_job_sched: JobId=(\S+) to start at ([^,]+), .* on nodes (\S+) in")
_STAMP = re.compile(r"\[([^]]+)\]")


class Event(NamedTuple):
    """A row of `events.csv`."""

    t: float
    event: str
    job: str
    jobid: str
    info: str


def _epoch_s(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def _lines(log: Iterable[str], t0: float) -> Iterator[tuple[float, str]]:
    for line in log:
        found = _STAMP.search(line)
        if found:
            yield round(_epoch_s(found[1]) - t0, 3), line


def events_of(logs: Sequence[Iterable[str]], t0: float, names: Mapping[str, str]) -> list[Event]:
    """Return the events of slurmctld's log and the log of its scheduler. Arrays are not supported."""
    found, killed = [], set[str]()
    for t, line in sorted((one for log in logs for one in _lines(log, t0)), key=lambda one: one[0]):
        for kind, pattern in _LINES.items():
            match = pattern.search(line)
            if match is None:
                continue
            job, info = match.groupdict().get("job", ""), match.groupdict().get("info", "")
            if kind == "timelimit":
                killed.add(job)
            if kind == "end" and job in killed:
                break
            if kind == "main":
                info = info.split()[-1]
            way, _, is_start = kind.partition(" ")
            if is_start:
                found.append(Event(t, "start", names.get(job, ""), job, f"{way} {info}"))
            else:
                found.append(Event(t, kind, names.get(job, ""), job, info))
            break
    return found


def plans_of(log: Iterable[str], t0: float) -> Iterator[tuple[float, int, str, str, str, str]]:
    """Yield the rows of `plans.csv`: the cycle of backfill, the rank in it, job, priority, start and nodes."""
    cycle, rank, priorities = 0.0, 0, dict[str, str]()
    for t, line in _lines(log, t0):
        if _LINES["bf"].search(line):
            cycle, rank = t, 0
        elif match := _TESTED.search(line):
            priorities[match[1]] = match[2]
        elif match := _PLANNED.search(line):
            rank += 1
            yield cycle, rank, match[1], priorities[match[1]], f"{_epoch_s(match[2]) - t0:.3f}", match[3]
        elif match := _LINES["backfill start"].search(line):
            rank += 1
            yield cycle, rank, match["job"], priorities[match["job"]], "now", match["info"]


# --- a cluster ---

_CONF = """ClusterName=c
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
ReturnToService=2
PluginDir={plugins}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
SlurmSchedLogFile={folder}/sched.log
SlurmSchedLogLevel=1
LogTimeFormat=iso8601_ms
SlurmctldDebug=verbose
DebugFlags=Backfill,BackfillMap,Priority
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=5,bf_resolution=10,bf_window=60,bf_continue,sched_interval=30
NodeName=DEFAULT CPUs=4 RealMemory=1000 State=UNKNOWN
"""
WHOLE_NODES = """SelectType=select/linear
PriorityType=priority/basic
NodeName=n[1-4] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{first}-{last}]
PartitionName=batch Nodes=ALL Default=YES MaxTime=60 State=UP OverSubscribe=EXCLUSIVE
"""
#: No priority changes in the first five minutes.
SHARED_NODES = """SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=100
PriorityType=priority/multifactor
PriorityCalcPeriod=5
PriorityWeightAge=1000
PriorityWeightJobSize=500
GresTypes=gpu
NodeName=n[1-2] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{first}-{second}] Weight=10
NodeName=n[3-4] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{third}-{last}] Gres=gpu:2 Weight=20
PartitionName=batch Nodes=ALL Default=YES MaxTime=60 State=UP
"""


class Cluster:
    """A slurmctld and four slurmd in a folder. Entering it waits for the nodes, leaving it ends all daemons."""

    def __init__(self, folder: Path, nodes: str = WHOLE_NODES) -> None:
        if os.geteuid() != 0:
            pytest.skip("slurmctld and slurmd need root")
        self.folder = folder
        port = 17_000 + 5 * (os.getpid() % 2_000)
        controller = Path(shutil.which("slurmctld") or "").resolve()
        step = shutil.which("slurmstepd") or str(controller.with_name("slurmstepd-wlm"))
        plugins = next(controller.parents[1].glob("lib*/**/slurm*/sched_backfill.so")).parent
        (folder / "state").mkdir()
        values = {"folder": folder, "plugins": plugins, "port": port}
        values |= {name: port + n for n, name in enumerate(("first", "second", "third", "last"), 1)}
        (folder / "slurm.conf").write_text((_CONF + nodes).format(**values))
        if "GresTypes" in nodes:
            (folder / "gres.conf").write_text(f"NodeName=n[3-4] Name=gpu File={folder}/gpu[0-1]\n")
            for gpu in ("gpu0", "gpu1"):
                (folder / gpu).touch()
        self.env = os.environ | {"SLURM_CONF": str(folder / "slurm.conf"), "TZ": "UTC"}
        for number in range(1, 5):
            (folder / f"spool/n{number}").mkdir(parents=True)
        commands = [["slurmctld", "-D", "-f", str(folder / "slurm.conf")]]
        commands += [["slurmd", "-D", "-f", str(folder / "slurm.conf"), "-N", f"n{n}", "-d", step] for n in range(1, 5)]
        self._began_at = time.time()
        self._daemons = [
            subprocess.Popen(one, env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for one in commands
        ]

    def __enter__(self) -> Self:
        try:
            self.wait("sinfo", "-h", "-o", "%T %D", until="idle 4")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in self._daemons:
            daemon.wait(PATIENCE_S)

    def run(self, *command: str) -> str:
        """Run a command of Slurm, and return its output."""
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
        return done.stdout.strip()

    def wait(self, *command: str, until: str) -> None:
        """Repeat a command until it prints a text."""
        found, end = "", time.monotonic() + PATIENCE_OF_WORK_S
        # patience: a limit for jobs of a known length
        while time.monotonic() < end:
            found = subprocess.run(
                command, env=self.env, capture_output=True, text=True, timeout=PATIENCE_S, check=False
            ).stdout.strip()
            if found == until:
                return
            if any(daemon.poll() is not None for daemon in self._daemons):
                raise RuntimeError("a daemon of Slurm has ended")
            # patience: the pause between two looks
            time.sleep(0.5)
        raise TimeoutError(f"{command} printed {found!r}; expected {until!r}")

    def record(self, jobs: Iterable[tuple[float, str, int]]) -> None:
        """Submit jobs (seconds before it, options such as ``-N 2``, length in seconds), and record the run."""
        t0, submitted = time.time(), []
        for number, (pause_s, options, sleep_s) in enumerate(jobs, 1):
            # patience: submissions are spread over time, as in a workload
            time.sleep(pause_s)
            args = ["-p", "batch", "-t", "1", "-J", f"j{number}", "-o", "/dev/null", *options.split()]
            called = time.time()
            job_id = self.run("sbatch", "--parsable", "--chdir=/", *args, "--wrap", f"exec sleep {sleep_s}")
            text = " ".join([*args, "--wrap", f"exec sleep {sleep_s}"])
            submitted.append([number, round(called - t0, 1), called, time.time(), job_id, text])
        self.wait("squeue", "-h", until="")
        self._write(t0, submitted)

    def _write(self, t0: float, submitted: list[list[Any]]) -> None:
        folder, names = self.folder, {row[4]: f"j{row[0]}" for row in submitted}
        log = (folder / "slurmctld.log").read_text().splitlines()
        events = events_of([log, (folder / "sched.log").read_text().splitlines()], t0, names)
        _table(folder / "submit.csv", ["idx", "offset", "t_call", "t_return", "jobid", "args"], submitted)
        _table(folder / "events.csv.gz", Event._fields, events)
        _table(folder / "plans.csv.gz", ["cycle", "rank", "jobid", "prio", "start", "nodes"], plans_of(log, t0))
        with gzip.open(folder / "slurmctld.log.gz", "wt") as file:
            file.write("\n".join(log))
        (folder / "meta.json").write_text(json.dumps({"t0_epoch": t0, "ctld_start": self._began_at}))
        (folder / "sacctmgr_dump.cfg").write_text("Cluster - 'c'\nParent - 'root'\n")
        (folder / "qos.psv").write_text("Name|Priority\nnormal|0\n")


def _table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with gzip.open(path, "wt", newline="") if path.suffix == ".gz" else path.open("w", newline="") as file:
        csv.writer(file).writerows([columns, *rows])
