"""Compare the decisions of policy `slurm` with those of a real Slurm, pass by pass.

    python benchmarks/slurm_decisions.py DIR...

Each directory holds the record of one run: slurm.conf, gres.conf, sacctmgr_dump.cfg, qos.psv, submit.csv, meta.json,
events.csv.gz, plans.csv.gz and slurmctld.log.gz; perhaps sacct.psv, sprio.txt.gz, sshare.txt.gz and squeue.txt.gz. The
instants of passes, submissions and ends are taken from it; each start, its nodes, each preemption and each plan of
backfill are computed. So are priorities and usage, which are compared with rows of sprio, sshare and squeue. But for
starts, priorities with classic fair share are taken from the log, as they depend on how far slurmctld has come in its
list of jobs. Exits with 1 if less than 99 % of the starts of a run are in the recorded pass and on the recorded nodes.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import re
import shlex
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

from pybatsched.core.node_lists import nodes_in
from pybatsched.machines.slurm_conf import SlurmConf, read_slurm_conf, whole_minutes
from pybatsched_schedulers.slurm.accounts import Accounts, read_accounts
from pybatsched_schedulers.slurm.backfill import BackfillPass
from pybatsched_schedulers.slurm.controller import Controller, ExpectedStart, Reservation, StartedJob
from pybatsched_schedulers.slurm.jobs import Placement, Record, Request
from pybatsched_schedulers.slurm.main_pass import MainPass
from pybatsched_schedulers.slurm.priority import PRIORITY_COLUMNS
from pybatsched_schedulers.slurm.usage import SHARE_COLUMNS, share_rows

#: How long the nodes of an ended job complete, in seconds. Not in the record.
_ANSWER_S = 0.010
#: After a kill they complete until the next main pass, if it comes within this time.
_KILL_ANSWER_S = 0.3
#: Columns of snapshots that may differ by this; all others are compared as they are printed.
_WITHIN: Final = {
    "sprio": {"age norm": 1e-4, "fairshare norm": 1e-4},
    "sshare": {"RawUsage": 1.0, "NormUsage": 1e-4, "EffectvUsage": 1e-4, "FairShare": 1e-4},
    "squeue": {},
}
_COLUMNS: Final = {"sprio": PRIORITY_COLUMNS, "sshare": SHARE_COLUMNS, "squeue": ("priority",)}
_MOST_DIFFERENCES: Final = 12


class Event(NamedTuple):
    """One line of `events.csv`: seconds since the first submission's origin, kind, name of a job, its id, and more."""

    at: float
    kind: str
    job: str
    job_id: int
    info: str


class Pass(NamedTuple):
    """One run of a scheduler, with the starts that were recorded in it: name of the job and its nodes."""

    at: float
    kind: str
    info: str
    starts: list[tuple[str, int]]


class Recording:
    """A directory with the record of one run of a real Slurm."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.conf: SlurmConf = read_slurm_conf(folder / "slurm.conf")
        qos = folder / "qos.psv"
        self.accounts: Accounts = read_accounts(folder / "sacctmgr_dump.cfg", qos if qos.exists() else None)
        meta = json.loads((folder / "meta.json").read_text())
        self.t0 = float(meta["t0_epoch"])
        #: When slurmctld began.
        self.begun_at = int(meta["ctld_start"])
        self.numbers = {node.name: number for number, node in enumerate(self.conf.nodes)}
        self.events = sorted(self._events(), key=_order)
        self.submissions = list(self._rows("submit.csv"))
        self.passes = list(self._passes())
        self.plans: dict[float, list[tuple[int, str, int]]] = defaultdict(list)
        self._plan_priorities: dict[int, list[tuple[float, int]]] = defaultdict(list)
        for row in self._rows("plans.csv.gz"):
            self.plans[float(row["cycle"])].append((int(row["jobid"]), row["start"], self.nodes(row["nodes"])))
            self._plan_priorities[int(row["jobid"])].append((float(row["cycle"]), int(row["prio"])))
        self.ids = {one.job: one.job_id for one in self.events if one.kind == "start"}
        self.started = set(self._started())

    def _rows(self, name: str) -> Iterator[dict[str, str]]:
        path = self.folder / name
        with gzip.open(path, "rt") if name.endswith(".gz") else path.open() as file:
            yield from csv.DictReader(file)

    def _started(self) -> Iterator[tuple[int, int]]:
        """Yield the ids of jobs and the seconds of their starts in the accounting, if it was recorded."""
        path = self.folder / "sacct.psv"
        lines = path.read_text().splitlines() if path.exists() else ()
        for row in csv.DictReader(lines, delimiter="|"):
            if row["Start"].isdecimal():
                yield int(row["JobIDRaw"]), int(row["Start"])

    def _events(self) -> Iterator[Event]:
        for row in self._rows("events.csv.gz"):
            yield Event(float(row["t"]), row["event"], row["job"], int(row["jobid"] or 0), row["info"])

    def nodes(self, names: str) -> int:
        """Return the nodes of a list such as ``n[1,3-4]``, as a set."""
        found = 0
        for name in nodes_in(names):
            found |= 1 << self.numbers[name]
        return found

    def _passes(self) -> Iterator[Pass]:
        now: Pass | None = None
        for one in self.events:
            if one.kind in {"main", "bf"}:
                if now is not None:
                    yield now
                now = Pass(one.at, one.kind, one.info, [])
            elif one.kind == "start" and now is not None:
                now.starts.append((one.job, self.nodes(one.info.split(" ", 1)[1])))
        if now is not None:
            yield now

    def priorities(self) -> Iterator[tuple[float, int, int]]:
        """Yield the priorities in the log of slurmctld: seconds, id of a job, and its priority as a whole number.

        They are printed with two digits. One that is rounded up to a whole number is corrected by that of backfill.
        """
        line = re.compile(r"\[([^]]*)\].*Job (\d+) priority: .*= (-?[\d.]+)$")
        found: dict[int, list[tuple[float, float]]] = defaultdict(list)
        with gzip.open(self.folder / "slurmctld.log.gz", "rt", errors="replace") as file:
            for text in file:
                match = line.match(text)
                if match:
                    at = datetime.fromisoformat(match[1]).replace(tzinfo=UTC).timestamp()
                    found[int(match[2])].append((at, float(match[3])))
        origin = self._origin()
        for job_id, lines in found.items():
            for (at, value), after in zip(lines, [*(one[0] for one in lines[1:]), float("inf")], strict=True):
                since, whole = at - origin, int(value)
                if value == whole:
                    shown = [p for cycle, p in self._plan_priorities[job_id] if since <= cycle < after - origin]
                    if shown and shown[0] == whole - 1:
                        whole -= 1
                yield since, job_id, whole

    def _origin(self) -> float:
        """Return the time of the log that stands for 0 in `events.csv`, by the first submission."""
        first = next(one for one in self.events if one.kind == "submit")
        with gzip.open(self.folder / "slurmctld.log.gz", "rt", errors="replace") as file:
            for text in file:
                if f"_slurm_rpc_submit_batch_job: JobId={first.job_id} " in text:
                    stamp = datetime.fromisoformat(text[1 : text.index("]")]).replace(tzinfo=UTC)
                    return stamp.timestamp() - first.at
        raise ValueError(f"{self.folder}: the submission of job {first.job_id} is not in slurmctld.log.gz")


_KINDS = ("submit", "end", "timelimit", "cancel", "requeue", "decay", "main", "bf", "start", "preempt")


def _order(one: Event) -> tuple[float, int]:
    """Sort by time; what a pass may see comes before it, and its starts after it."""
    return one.at, _KINDS.index(one.kind) if one.kind in _KINDS else len(_KINDS)


_ARGUMENTS = argparse.ArgumentParser(allow_abbrev=False)
for _names in (
    "-A --account", "-p --partition", "-t --time", "-J --job-name", "-o --output", "-e --error", "-N --nodes",
    "-n --ntasks", "-c --cpus-per-task", "-C --constraint", "-q --qos", "-a --array", "-b --begin", "-d --dependency",
    "-D --chdir", "--uid", "--export", "--ntasks-per-node", "--mem", "--mem-per-cpu", "--gres", "--gpus-per-node",
    "--nice", "--reservation",
):  # fmt: skip
    _ARGUMENTS.add_argument(*_names.split())
_ARGUMENTS.add_argument("--exclusive", nargs="?", const="yes", default="")
_ARGUMENTS.add_argument("--wrap", nargs=argparse.REMAINDER)


def _megabytes(text: str | None) -> int:
    if not text:
        return 0
    units = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}
    return round(float(text[:-1]) * units[text[-1].upper()]) if text[-1].isalpha() else int(text)


def record_of(recording: Recording, job_id: int, arguments: str, at: float) -> Record:
    """Return the record of a submitted job."""
    conf, now = recording.conf, int(recording.t0 + at)
    args, unknown = _ARGUMENTS.parse_known_args(shlex.split(arguments.split(" --wrap ", maxsplit=1)[0]))
    if unknown:
        print(f"job {job_id}: ignored arguments {' '.join(unknown)}", file=sys.stderr)
    name = args.partition.partition(",")[0] if args.partition else ""
    partition = next(one for one in conf.partitions.values() if one.name == name or (one.is_default and not name))
    fewest, _, most = (args.nodes or "").partition("-")
    per_node = int(args.ntasks_per_node or 0)
    n_tasks = int(args.ntasks or 0) or max(int(fewest or 1) * max(per_node, 1), 1)
    cpu_memory, node_memory = _megabytes(args.mem_per_cpu), _megabytes(args.mem)
    if not cpu_memory and not node_memory:
        node_memory, cpu_memory = partition.def_mem_per_node, partition.def_mem_per_cpu
    gres = f"gpu:{args.gpus_per_node}" if args.gpus_per_node else args.gres
    gpus = re.fullmatch(r"(?:gres[:/])?gpu(?:[:=]([a-z]\w*))?(?:[:=](\d+))?", gres or "")
    request = Request(
        min_nodes=int(fewest or 1),
        max_nodes=int(most or fewest or 0),
        n_tasks=n_tasks,
        tasks_per_node=per_node,
        cpus_per_task=int(args.cpus_per_task or 1),
        cpu_memory=cpu_memory,
        node_memory=node_memory,
        gpus_per_node=int(gpus[2] or 1) if gpus else 0,
        gpu_type=(gpus[1] or "") if gpus else "",
        exclusive=args.exclusive == "yes" or partition.is_exclusive or conf.select == "linear",
        features=args.constraint or "",
    )
    user = args.uid or ""
    association = recording.accounts.find(user, args.account or "", partition.name)
    qos = recording.accounts.qos.get(args.qos or (association.default_qos if association else "") or "normal")
    tasks, limit = tasks_of(args.array)
    begin = re.fullmatch(r"now\+(\d+)", args.begin or "")
    conditions = [one.partition(":") for one in (args.dependency or "").split(",") if one]
    return Record(
        id=job_id,
        request=request,
        partition=partition,
        limit_s=whole_minutes(args.time) if args.time else partition.default_time_s or partition.max_time_s,
        submit_at=now,
        user=user,
        association=association,
        qos=qos,
        nice=int(args.nice or 0),
        eligible_at=now + int(begin[1]) if begin else now,
        array_id=job_id if tasks else 0,
        tasks=tasks,
        array_limit=limit,
        reservation=args.reservation or "",
        dependencies=tuple((kind, int(other)) for kind, _, others in conditions for other in others.split(":")),
    )


def tasks_of(text: str | None) -> tuple[list[int], int]:
    """Return the tasks of an array such as ``0-5%3``, and how many may run at a time; 0 for any number."""
    if not text:
        return [], 0
    listed, _, limit = text.partition("%")
    tasks: list[int] = []
    for part in listed.split(","):
        first, _, last = part.partition("-")
        tasks += range(int(first), int(last or first) + 1)
    return tasks, int(limit or 0)


class Score:
    """How many decisions of a run are equal, and the first differences."""

    def __init__(self) -> None:
        self.n_starts = self.n_same_pass = self.n_same_nodes = 0
        self.n_plans = self.n_same_plans = 0
        self.n_freed_by_record = 0
        self.differences: list[str] = []

    def differ(self, text: str) -> None:
        """Keep one of the first differences."""
        if len(self.differences) < _MOST_DIFFERENCES:
            self.differences.append(text)


class Comparison:
    """How many rows of the snapshots of a command are equal, and the first differences."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.n_rows = self.n_equal = 0
        #: Rows of jobs that do not wait here.
        self.n_missing = 0
        self.differences: list[str] = []

    def add(self, at: float, name: str, ours: Sequence[str], theirs: Sequence[str]) -> None:
        """Compare a row of a snapshot."""
        self.n_rows += 1
        different = [
            f"{column} {a}, recorded {b}"
            for column, a, b in zip(_COLUMNS[self.kind], ours, theirs, strict=False)
            if not self._are_equal(column, a, b)
        ]
        if len(ours) != len(theirs):
            different.append(f"{len(ours)} columns, recorded {len(theirs)}")
        self.n_equal += not different
        if different and len(self.differences) < _MOST_DIFFERENCES:
            self.differences.append(f"{self.kind} at {at}: {name}: {'; '.join(different)}")

    def _are_equal(self, column: str, ours: str, theirs: str) -> bool:
        within = _WITHIN[self.kind].get(column)
        if ours == theirs or within is None or "" in {ours, theirs}:
            return ours == theirs
        return abs(float(ours) - float(theirs)) <= within


class Replay:
    """The controller, driven by the instants of a recording. Priorities may be those of its log."""

    def __init__(self, recording: Recording, *, with_logged_priorities: bool) -> None:
        self.recording = recording
        self.controller = Controller(recording.conf, recording.accounts)
        self.controller.update_priorities(recording.begun_at)
        self.score = Score()
        self.records: dict[str, Record] = {}  # what runs or was preempted, by the name of job or task
        self._names: dict[int, str] = {}  # the name of each submission by its id
        self._releases: list[tuple[float, str]] = []  # when the nodes of an ended or killed job answer
        self._kills: dict[str, float] = {}
        self._started_at: dict[str, float] = {}  # in the record
        self._passes = {(one.kind, one.at): one for one in recording.passes}
        self._late: dict[str, float] = {}  # jobs that ended in the record before they started here: how long they ran
        self._ends: list[tuple[float, str]] = []
        self._logged = sorted(recording.priorities(), reverse=True) if with_logged_priorities else []
        self._priority_of: dict[int, int] = {}
        self._arguments = {
            int(row["jobid"]): row["args"] for row in recording.submissions if row["jobid"] and _is_job(row)
        }
        self.snapshots = {kind: Comparison(kind) for kind in _COLUMNS}

    def run(self) -> Score:
        """Replay the whole recording."""
        recording = self.recording
        events = [*recording.events, *self.recorded_snapshots()]
        for row in recording.submissions:
            if row["args"].startswith("SCANCEL") and row["jobid"]:
                events.append(Event(float(row["t_return"]) - recording.t0, "cancel", "", int(row["jobid"]), ""))
            elif row["args"].startswith("RESV") and "created" in row["args"]:
                self._reserve(row["args"])
        for one in sorted(events, key=_order):
            self._release(one.at, is_main=one.kind == "main")
            self._carry_out(one)
        return self.score

    def _carry_out(self, one: Event) -> None:
        if one.kind == "submit":
            self._submit(one)
        elif one.kind == "start":
            self._started_at[one.job] = one.at
        elif one.kind == "cancel":
            self._cancel(one)
        elif one.kind in {"end", "timelimit"}:
            self._end(one.job, one.at, one.at - self._started_at.get(one.job, one.at), is_kill=one.kind != "end")
        elif one.kind == "requeue":
            self._answer(one.job)
        elif one.kind == "decay":
            self.controller.update_priorities(self._now(one.at))
        elif one.kind in {"main", "bf"}:
            self._set_priorities(one.at)
            self._pass(self._passes[one.kind, one.at])
        elif one.kind in self.snapshots:
            self._compare(one)

    def recorded_snapshots(self) -> Iterator[Event]:
        """Yield the snapshots of sprio, sshare and squeue with their rows. Logged priorities are not compared."""
        for kind in () if self._logged else self.snapshots:
            path = self.recording.folder / f"{kind}.txt.gz"
            if path.exists():
                with gzip.open(path, "rt") as file:
                    for text in file.read().split("# ")[1:]:
                        line, _, rows = text.partition("\n")
                        yield Event(float(re.findall(r"offset=(\S+)", line)[0]), kind, "", 0, rows)

    def _compare(self, one: Event) -> None:
        """Compare the state with a snapshot."""
        rows, found = [row.split("|") for row in one.info.splitlines()], self.snapshots[one.kind]
        engine = self.controller.priorities
        if one.kind == "sshare":
            for row, theirs in zip(share_rows(engine.shares) if engine.shares else (), rows, strict=False):
                found.add(one.at, row[1] or row[0], row, theirs)
            return
        waiting = {record.id: record for record in self.controller.jobs.waiting.values()}
        for theirs in rows:
            record = waiting.get(int(theirs[0])) if theirs[0].isdecimal() else None
            if one.kind == "squeue":
                if record is not None and theirs[1] == "PENDING":
                    found.add(one.at, theirs[0], (str(int(record.priority)),), theirs[5:6])
            elif record is None:
                found.n_missing += 1
            else:
                found.add(one.at, theirs[0], next(engine.rows([record])), theirs)

    def _now(self, at: float) -> int:
        return int(self.recording.t0 + at)

    def _reserve(self, text: str) -> None:
        found = dict(part.split("=", 1) for part in text.split() if "=" in part)
        start = int(self.recording.t0 + float(found["start_offset"]))
        name = text.rsplit(" ", 1)[1]
        self._reservation = Reservation(
            name, start, start + int(found["duration"]), self.recording.nodes(found["nodes"])
        )
        self.controller.reservations[name] = self._reservation

    def _submit(self, one: Event) -> None:
        record = record_of(self.recording, one.job_id, self._arguments[one.job_id], one.at)
        self._names[one.job_id] = one.job
        self.controller.submit(record)

    def _name(self, record: Record) -> str:
        name = self._names[record.array_id or record.id]
        return name if record.task is None else f"{name}_{record.task}"

    def _end(self, name: str, at: float, ran_s: float, *, is_kill: bool) -> None:
        record = self.records.get(name)
        if record is None or record not in self.controller.jobs.running:
            self._late[name] = ran_s
            return
        self.controller.end(record, self._now(at))
        if is_kill:
            self._kills[name] = at
        else:
            self._releases.append((at + _ANSWER_S, name))

    def _cancel(self, one: Event) -> None:
        """Cancel a job, or all tasks of an array."""
        jobs = self.controller.jobs
        for record in [r for r in jobs.waiting.values() if one.job_id in {r.id, r.array_id}]:
            jobs.drop(record)
        for record in [r for r in jobs.running if one.job_id in {r.id, r.array_id}]:
            self._end(self._name(record), one.at, 0, is_kill=True)

    def _answer(self, name: str) -> None:
        record = self.records.get(name)
        if record is not None:
            self.controller.nodes_answered(record)
            self._kills.pop(name, None)

    def _release(self, now: float, *, is_main: bool) -> None:
        """Let nodes answer that have had the time for it, and end jobs that started late."""
        for at, name in [one for one in self._releases if one[0] <= now]:
            self._releases.remove((at, name))
            self._answer(name)
        for name, at in list(self._kills.items()):
            if now > at + _KILL_ANSWER_S or (is_main and now > at + 2 * _ANSWER_S):
                self._answer(name)
        for at, name in [one for one in self._ends if one[0] <= now]:
            self._ends.remove((at, name))
            self._end(name, at, 0, is_kill=False)

    def _set_priorities(self, now: float) -> None:
        while self._logged and self._logged[-1][0] <= now:
            _, job_id, priority = self._logged.pop()
            self._priority_of[job_id] = priority
        for record in self.controller.jobs.waiting.values() if self._priority_of else ():
            record.priority = self._priority_of.get(record.id, record.priority)

    def _pass(self, recorded: Pass) -> None:
        controller, score = self.controller, self.score
        wanted = dict(recorded.starts)
        for record, nodes in list(controller.completing.items()):
            if nodes & _union(wanted.values()):
                score.n_freed_by_record += 1
                self._answer(self._name(record))
        now = self.recording.t0 + recorded.at
        plans, made = list[tuple[int, str, int]](), dict[str, int]()
        depth = self.recording.conf.scheduling.default_queue_depth if recorded.info == "depth" else None
        running = MainPass(controller, now, depth) if recorded.kind == "main" else BackfillPass(controller, now)
        for found in running.run():
            if isinstance(found, StartedJob):
                name = self._name(found.record)
                assert found.record.placement is not None
                made[name] = _set(found.record.placement)
                found.record.id = self.recording.ids.get(name, found.record.id)
                plans.append((found.record.id, "now", made[name]))
                self.records[name] = found.record
                if name in self._late:
                    self._ends.append((recorded.at + self._late.pop(name), name))
            elif isinstance(found, ExpectedStart):
                plans.append((found.record.id, f"{found.start_at - self.recording.t0:.3f}", _set_of(found.nodes)))
        score.n_starts += len(wanted)
        for name, nodes in wanted.items():
            score.n_same_pass += name in made
            score.n_same_nodes += made.get(name) == nodes
            self._correct_start(self.records.get(name))
        if made != wanted:
            score.differ(f"{recorded.kind} at {recorded.at}: {_text(made)}; recorded {_text(wanted)}")
        if recorded.kind == "bf":
            self._compare_plans(recorded, plans)

    def _correct_start(self, record: Record | None) -> None:
        """Take the recorded second of a start, which may be the one before or after that of its pass."""
        if record is not None:
            at, starts = record.started_at, self.recording.started
            record.started_at = next((t for t in (at, at - 1, at + 1) if (record.id, t) in starts), at)

    def _compare_plans(self, recorded: Pass, made: list[tuple[int, str, int]]) -> None:
        wanted, score = self.recording.plans.get(recorded.at, []), self.score
        score.n_plans += len(wanted)
        same = sum(
            one[0] == other[0] and one[2] == other[2] and _is_same_start(one[1], other[1])
            for one, other in zip(made, wanted, strict=False)
        )
        score.n_same_plans += same
        if same < len(wanted) or len(made) != len(wanted):
            first = next(
                (
                    pair
                    for pair in zip(made, wanted, strict=False)
                    if pair[0][0] != pair[1][0]
                    or pair[0][2] != pair[1][2]
                    or not _is_same_start(pair[0][1], pair[1][1])
                ),
                (made[len(wanted) :][:1], wanted[len(made) :][:1]),
            )
            score.differ(f"plans at {recorded.at}: {first[0]}; recorded {first[1]}")


def _is_job(row: Mapping[str, str]) -> bool:
    return row["args"].startswith("-")


def _is_same_start(one: str, other: str) -> bool:
    return one == other or ("now" not in {one, other} and abs(float(one) - float(other)) < 0.01)


def _set(placement: Placement) -> int:
    return _set_of(placement.nodes)


def _set_of(nodes: Iterable[int]) -> int:
    return _union(1 << node for node in nodes)


def _union(sets: Iterable[int]) -> int:
    found = 0
    for one in sets:
        found |= one
    return found


def _text(starts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} on {nodes:b}" for name, nodes in starts.items()) or "nothing"


def compare(folder: Path) -> tuple[Score, dict[str, Comparison]]:
    """Return how decisions and snapshots compare with a recording."""
    recording = Recording(folder)
    priorities = recording.conf.priorities
    own = Replay(recording, with_logged_priorities=False)
    score = own.run()
    if priorities.type == "multifactor" and not priorities.is_fair_tree:
        score = Replay(recording, with_logged_priorities=True).run()
    return score, own.snapshots


def main() -> int:
    """Compare the recordings that are named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", metavar="DIR", nargs="+", type=Path)
    args = parser.parse_args()
    is_bad = False
    for folder in args.folders:
        score, snapshots = compare(folder)
        print(
            f"{folder}: {score.n_same_pass} of {score.n_starts} starts in the recorded pass, {score.n_same_nodes} on "
            f"the recorded nodes; {score.n_same_plans} of {score.n_plans} plans; nodes answered earlier than assumed "
            f"{score.n_freed_by_record} times"
        )
        found = [one for one in snapshots.values() if one.n_rows]
        if found:
            print("    rows:", "; ".join(f"{one.n_equal} of {one.n_rows} of {one.kind}" for one in found))
        for text in (*score.differences, *(text for one in found for text in one.differences)):
            print("   ", text)
        is_bad = is_bad or score.n_same_nodes < 0.99 * score.n_starts
    return int(is_bad)


if __name__ == "__main__":
    sys.exit(main())
