"""Replay a recorded Slurm with the controller, and compare sprio, sshare and squeue with what it computes."""

from __future__ import annotations

import csv
import gzip
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pybatsched_schedulers.slurm.jobs import Record
from pybatsched_schedulers.slurm.priority import PRIORITY_COLUMNS
from pybatsched_schedulers.slurm.usage import SHARE_COLUMNS, share_rows
from support.places import ROOT, module_of

decisions: Any = module_of("slurm_decisions", ROOT / "benchmarks" / "slurm_decisions.py")

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


class Replay(decisions.Replay):  # type: ignore[misc]
    """The controller with its own priorities, and what it is compared with."""

    def __init__(self, folder: Path) -> None:
        super().__init__(decisions.Recording(folder), with_logged_priorities=False)
        self.sprio, self.sshare, self.squeue = Comparison(), Comparison(), Comparison()
        with (folder / "sacct.psv").open() as file:
            rows = list(csv.DictReader(file, delimiter="|"))
        self._started = {(int(row["JobIDRaw"]), int(row["Start"])) for row in rows if row["Start"].isdecimal()}

    def snapshots(self) -> Iterator[Any]:
        for kind in ("sprio", "sshare", "squeue"):
            path = self.recording.folder / f"{kind}.txt.gz"
            if path.exists():
                with gzip.open(path, "rt") as file:
                    for text in file.read().split("# ")[1:]:
                        line, _, rows = text.partition("\n")
                        yield decisions.Event(float(re.findall(r"offset=(\S+)", line)[0]), kind, "", 0, rows)

    def _pass(self, recorded: Any) -> None:
        """Run a pass. A start may be recorded in the second before or after that of its pass."""
        super()._pass(recorded)
        for name, _ in recorded.starts:
            record = self.records[name]
            at = record.started_at
            record.started_at = next(t for t in (at, at - 1, at + 1) if (record.id, t) in self._started)

    def compare(self, one: Any) -> None:
        rows = [row.split("|") for row in one.info.splitlines()]
        engine = self.controller.priorities
        if one.kind == "sshare":
            for share, theirs in zip(share_rows(engine.shares), rows, strict=True):
                self.sshare.add(one.at, share[1] or share[0], SHARE_COLUMNS, share, theirs, SHARES_WITHIN)
            return
        waiting: dict[int, Record] = {record.id: record for record in self.controller.jobs.waiting.values()}
        for theirs in rows:
            record = waiting.get(int(theirs[0])) if theirs[0].isdecimal() else None
            if one.kind == "squeue":
                if record is not None and theirs[1] == "PENDING":
                    ours = (str(int(record.priority)),)
                    self.squeue.add(one.at, theirs[0], ("priority",), ours, (theirs[5],), {})
            elif record is None:
                self.sprio.n_missing += 1
            else:
                ours = next(engine.rows([record]))
                self.sprio.add(one.at, theirs[0], PRIORITY_COLUMNS, ours, theirs, WITHIN)
