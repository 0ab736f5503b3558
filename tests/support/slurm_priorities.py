"""Replay the events of a recorded Slurm through the priority engine, and compare sprio, sshare and squeue with it."""

from __future__ import annotations

import csv
import gzip
import heapq
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pybatsched.machines.slurm_conf import hostlist, read_slurm_conf, tres_limits
from pybatsched_schedulers.slurm.accounts import read_accounts
from pybatsched_schedulers.slurm.jobs import Placement, Record, Request
from pybatsched_schedulers.slurm.priority import PRIORITY_COLUMNS, PriorityEngine
from pybatsched_schedulers.slurm.usage import SHARE_COLUMNS, share_rows

#: Columns of sprio that may differ by this; all others are compared as they are printed.
WITHIN = {"age norm": 1e-4, "fairshare norm": 1e-4}
#: The same of sshare.
SHARES_WITHIN = {"RawUsage": 1.0, "NormUsage": 1e-4, "EffectvUsage": 1e-4, "FairShare": 1e-4}


@dataclass
class Comparison:
    """What differs: rows and values by column, and the first differences."""

    n_rows: int = 0
    n_equal: int = 0
    n_missing: int = 0
    by_column: Counter[str] = field(default_factory=Counter)
    differences: list[tuple[float, str, str, str, str]] = field(default_factory=list)

    def add(
        self, t: float, name: str, columns: tuple[str, ...], ours: Any, theirs: Any, within: dict[str, float]
    ) -> None:
        self.n_rows += 1
        equal = True
        for column, a, b in zip(columns, ours, theirs, strict=True):
            tolerance = within.get(column)
            same = a == b if tolerance is None or "" in {a, b} else abs(float(a) - float(b)) <= tolerance
            if not same:
                equal = False
                self.by_column[column] += 1
                self.differences.append((t, name, column, a, b))
        self.n_equal += equal


class Replay:
    """The jobs of a recorded run, and the engine."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.conf = read_slurm_conf(run / "slurm.conf")
        self.accounts = read_accounts(run / "assoc.psv", run / "qos.psv")
        self.engine = PriorityEngine(self.conf, self.accounts)
        meta = json.loads((run / "meta.json").read_text())
        self.t0, begun = meta["t0_epoch"], meta["ctld_start"]
        self.engine.update([], [], int(begun))
        with (run / "workload.csv").open() as file:
            self.workload = {int(row["idx"]): row for row in csv.DictReader(file)}
        lines = (run / "sacct.psv").read_text().splitlines()
        columns = lines[0].split("|")
        self.sacct = [dict(zip(columns, line.split("|"), strict=True)) for line in lines[1:]]
        self.waiting: dict[int, Record] = {}
        self.running: dict[int, Record] = {}
        self.last_place = 0
        #: When the rest of an array could start, while it can.
        self.begin: dict[int, int] = {}
        self.n_tasks: Counter[int] = Counter()
        self.sprio, self.sshare, self.squeue = Comparison(), Comparison(), Comparison()
        self._index = {node.name: i for i, node in enumerate(self.conf.nodes)}

    # --- the record ---

    def events(self) -> Iterator[tuple[float, int, str, Any]]:
        """Return all events and snapshots by time: offset, order, kind, content."""
        streams = [self._logged(), self._plans(), self._cancelled()]
        streams += [self._snapshots(name) for name in ("sprio", "sshare", "squeue")]
        yield from heapq.merge(*streams, key=lambda event: event[:2])

    def _logged(self) -> Iterator[tuple[float, int, str, Any]]:
        with gzip.open(self.run / "events.csv.gz", "rt") as file:
            for row in csv.DictReader(file):
                yield float(row["t"]), 0, row["event"], row

    def _plans(self) -> Iterator[tuple[float, int, str, Any]]:
        with gzip.open(self.run / "plans.csv.gz", "rt") as file:
            for row in csv.DictReader(file):
                yield float(row["cycle"]), 1, "plan", row

    def _cancelled(self) -> Iterator[tuple[float, int, str, Any]]:
        rows = [row for row in self.sacct if row["State"].startswith("CANCELLED")]
        for row in sorted(rows, key=lambda row: int(row["End"])):
            yield int(row["End"]) - self.t0, 0, "cancel", row

    def _snapshots(self, name: str) -> Iterator[tuple[float, int, str, Any]]:
        path = self.run / f"{name}.txt.gz"
        if not path.exists():
            return
        rows: list[str] = []
        t = None
        with gzip.open(path, "rt") as file:
            for line in file:
                if line.startswith("#"):
                    if t is not None:
                        yield t, 2, name, rows
                    rows, t = [], float(re.findall(r"offset=(\S+)", line)[0])
                else:
                    rows.append(line.rstrip("\n"))
        if t is not None:
            yield t, 2, name, rows

    def _rows_of(self, job_id: int) -> list[dict[str, str]]:
        return [row for row in self.sacct if int(row["JobIDRaw"]) == job_id]

    def _row_at(self, job_id: int, column: str, at: float) -> dict[str, str]:
        rows = [row for row in self._rows_of(job_id) if row[column].isdecimal()]
        return min(rows, key=lambda row: abs(int(row[column]) - self.t0 - at))

    # --- events ---

    def replay(self) -> None:
        for t, _, kind, content in self.events():
            getattr(self, f"on_{kind}", self.ignore)(t, int(self.t0 + t), content)

    def ignore(self, t: float, now: int, row: Any) -> None:
        """Events that change no priority."""

    def on_submit(self, t: float, now: int, row: dict[str, str]) -> None:
        job_id = int(row["jobid"])
        job = self.workload[int(row["job"][1:])]
        n_nodes = int(job["nodes"] or 0)
        partition = self.conf.partitions[job["partition"]]
        exclusive = partition.is_exclusive or job["exclusive"] == "1"
        request = Request(
            min_nodes=n_nodes or 1,
            n_tasks=int(job["ntasks"] or n_nodes or 1),
            tasks_per_node=int(job["tasks_per_node"] or 0),
            cpus_per_task=int(job["cpus_per_task"] or 1),
            cpu_memory=int(job["mem_per_cpu"] or 0),
            node_memory=int(job["mem_per_node"] or 0),
            gpus_per_node=int(job["gpus_per_node"] or 0),
            exclusive=exclusive,
        )
        spans = [part.partition("-") for part in job["array"].partition("%")[0].split(",") if part]
        tasks = [i for first, _, last in spans for i in range(int(first), int(last or first) + 1)]
        rows = [one for one in self.sacct if re.fullmatch(rf"{job_id}(_\d+)?", one["JobID"])]
        first = min(rows, key=lambda one: int(one["Start"]) if one["Start"].isdecimal() else 2**40)
        eligible = now if job["array"] else int(first["Eligible"]) if first["Eligible"].isdecimal() else 2**40
        record = Record(
            id=job_id,
            request=request,
            partition=partition,
            limit_s=int(job["limit_min"]) * 60,
            submit_at=now,
            user=job["user"],
            association=self.accounts.find(job["user"], job["account"], partition.name),
            qos=self.accounts.qos[job["qos"]],
            nice=int(job["nice"] or 0),
            eligible_at=eligible,
            array_id=job_id if tasks else 0,
            array_limit=int(job["array"].partition("%")[2] or 0),
            tasks=tasks,
            n_cpus_counted=request.n_cpus,
        )
        self.engine.submitted(record, now)
        if exclusive and self.conf.select == "linear":  # as the test at submission finds; cons_tres does not count it
            record.n_cpus_counted = sum(self.conf.nodes[i].n_cpus for i in partition.nodes[: request.min_nodes])
        if not tasks and not job["dep"]:  # the test whether it has the highest priority
            for rest in self.waiting.values():
                if rest.tasks:
                    self._test(rest, now)
        self._append(record)

    def _append(self, record: Record) -> None:
        self.last_place += 1
        record.place = self.last_place
        self.waiting[record.id] = record

    def on_plan(self, t: float, now: int, row: dict[str, str]) -> None:
        record = self.waiting.get(int(row["jobid"]))
        if record is not None and record.request.exclusive:
            record.n_cpus_counted = sum(self.conf.nodes[self._index[name]].n_cpus for name in hostlist(row["nodes"]))

    def on_main(self, t: float, now: int, row: dict[str, str]) -> None:
        for record in self.waiting.values():
            if record.tasks:
                self._count_from(record)
                self._test(record, now)
            else:
                record.was_seen = record.was_seen or record.eligible_at <= now

    on_bf = on_main

    def _count_from(self, rest: Record) -> None:
        """Let the age of the rest of an array count from when it could start."""
        begin = self.begin.get(rest.id, 0)
        if begin and not rest.was_seen:
            rest.was_seen, rest.eligible_at = True, begin

    def _test(self, rest: Record, now: int) -> None:
        """Test the limit of an array: its rest begins to be eligible, or ends to be."""
        if rest.array_limit and self.n_tasks[rest.array_id] >= rest.array_limit:
            self.begin[rest.id] = 0
        elif not self.begin.get(rest.id):
            self.begin[rest.id] = now

    def on_start(self, t: float, now: int, row: dict[str, str]) -> None:
        number, _, task = row["job"][1:].partition("_")
        job_id = int(row["jobid"])
        own = self.waiting.get(job_id)
        if own is None or (own.tasks and len(own.tasks) > 1):
            rest = next(
                one for one in self.waiting.values() if int(task or -1) in one.tasks and self._idx(one) == int(number)
            )
            own = replace(rest, id=job_id, task=int(task), tasks=[], factors=dict(rest.factors))
            rest.tasks = [i for i in rest.tasks if i != int(task)]
            del self.waiting[rest.id]
            self._append(rest)
            self.n_tasks[rest.array_id] += 1
            if row["info"].startswith("main"):
                self._count_from(rest)
            self._test(rest, now)
        else:
            del self.waiting[job_id]
            self.n_tasks[own.array_id] += 1
        logged = self._row_at(job_id, "Start", t)
        own.started_at = int(logged["Start"])
        own.tres = {name: amount for name, amount in tres_limits(logged["AllocTRES"]).items() if name != "billing"}
        own.placement = Placement(tuple(self._index[name] for name in hostlist(logged["NodeList"])), ())
        self.running[job_id] = own

    def _idx(self, record: Record) -> int:
        return next(int(row["JobName"][1:]) for row in self.sacct if row["JobID"].split("_")[0] == str(record.array_id))

    def on_end(self, t: float, now: int, row: dict[str, str]) -> None:
        job_id = int(row["jobid"])
        record = self.running.pop(job_id, None)
        if record is not None:
            self.engine.ended(record, int(self._row_at(job_id, "End", t)["End"]))
            self.n_tasks[record.array_id] -= 1

    on_timelimit = on_end

    def on_cancel(self, t: float, now: int, row: dict[str, str]) -> None:
        job_id = int(row["JobIDRaw"])
        record = self.running.pop(job_id, None)
        if record is not None:
            self.engine.ended(record, now)
        self.waiting.pop(job_id, None)

    def on_requeue(self, t: float, now: int, row: dict[str, str]) -> None:
        job_id = int(row["jobid"])
        record = self.running.pop(job_id)
        end = int(self._row_at(job_id, "End", t)["End"])
        self.engine.ended(record, end)
        record.placement, record.submit_at, record.eligible_at, record.was_seen = None, end, end + 121, False
        self.waiting[job_id] = record

    def on_decay(self, t: float, now: int, row: dict[str, str]) -> None:
        self.engine.update(list(self.waiting.values()), list(self.running.values()), now)

    # --- snapshots ---

    def on_sprio(self, t: float, now: int, rows: list[str]) -> None:
        for row in rows:
            theirs = row.split("|")
            record = self.waiting.get(int(theirs[0]))
            if record is None:
                self.sprio.n_missing += 1
                continue
            ours = next(self.engine.rows([record]))
            self.sprio.add(t, theirs[0], PRIORITY_COLUMNS, ours, theirs, WITHIN)

    def on_sshare(self, t: float, now: int, rows: list[str]) -> None:
        assert self.engine.shares is not None
        for ours, row in zip(share_rows(self.engine.shares), rows, strict=True):
            self.sshare.add(t, ours[1] or ours[0], SHARE_COLUMNS, ours, row.split("|"), SHARES_WITHIN)

    def on_squeue(self, t: float, now: int, rows: list[str]) -> None:
        for row in rows:
            job, state, *_ = theirs = row.split("|")
            record = self.waiting.get(int(job)) if state == "PENDING" and job.isdecimal() else None
            if record is not None:
                self.squeue.add(t, job, ("priority",), (str(int(record.priority)),), (theirs[5],), {})
