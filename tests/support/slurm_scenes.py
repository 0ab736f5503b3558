"""Small scenes for Slurm's controller: jobs are submitted by name, and each pass returns its decisions as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pybatsched.machines.slurm_conf import NodeSpec, Partition, Scheduling, SlurmConf
from pybatsched_schedulers.slurm.accounts import Accounts, Association, Limits, Qos
from pybatsched_schedulers.slurm.backfill import BackfillPass
from pybatsched_schedulers.slurm.controller import Controller, ExpectedStart, Reservation, StartedJob
from pybatsched_schedulers.slurm.jobs import Record, Request
from pybatsched_schedulers.slurm.main_pass import MainPass


def accounts_of(limits: Mapping[str, Limits] | None = None, qos: Iterable[Qos] = ()) -> Accounts:
    """Return the users ann and bob in account bio, and eve in chem, with limits by their names."""
    own = dict(limits or {})
    root = Association("root", limits=own.get("root", Limits()))
    for account, users in (("bio", ("ann", "bob")), ("chem", ("eve",))):
        above = Association(account, parent=root, limits=own.get(account, Limits()))
        root.children.append(above)
        above.children += [Association(account, user, parent=above, limits=own.get(user, Limits())) for user in users]
    return Accounts(root, {one.name: one for one in (Qos("normal"), *qos)})


class Scene:
    """A controller with nodes n0, n1, ... of equal size. Times are seconds, and tests begin at 0."""

    def __init__(
        self,
        n_nodes: int = 4,
        cpus: int = 1,
        *,
        nodes: Iterable[NodeSpec] = (),
        partitions: Iterable[Partition] = (),
        accounts: Accounts | None = None,
        scheduling: Mapping[str, Any] | None = None,
        **conf: Any,
    ) -> None:
        specs = tuple(nodes) or tuple(NodeSpec(f"n{i}", cpus, 1_000) for i in range(n_nodes))
        found = tuple(partitions) or (Partition("batch", tuple(range(len(specs))), is_default=True),)
        self.conf = SlurmConf(
            "test", specs, {one.name: one for one in found},
            scheduling=Scheduling(**{"bf_resolution_s": 60, "bf_window_s": 86_400, **(scheduling or {})}),
            enforce=frozenset({"associations", "limits"}), **conf,
        )  # fmt: skip
        self.accounts = accounts or accounts_of()
        self.controller = Controller(self.conf, self.accounts)
        self.names: dict[int, str] = {}
        self.records: dict[str, Record] = {}

    def submit(self, name: str, nodes: int = 0, minutes: float = 10, at: int = 0, **fields: Any) -> Record:
        """Submit a job. `nodes` is its exact number of nodes, with one task on each; 0 for any."""
        asked: dict[str, Any] = {"min_nodes": nodes, "max_nodes": nodes, "n_tasks": nodes} if nodes else {}
        for key in [key for key in fields if key in Request._fields]:
            asked[key] = fields.pop(key)
        user, qos = fields.pop("user", "ann"), fields.pop("qos", "normal")
        number = len(self.names) + 1
        names = fields.pop("partition", next(iter(self.conf.partitions))).split(",")
        partitions = [self.conf.partitions[one] for one in names]
        asked["exclusive"] = asked.get("exclusive", False) or partitions[0].is_exclusive or self.conf.select == "linear"
        if len(partitions) > 1:
            fields["choices"] = tuple((one, Request(**asked)) for one in partitions)
        if fields.get("tasks"):
            fields["array_id"] = number
        record = Record(
            number, Request(**asked), partitions[0], minutes * 60, at, user,
            self.accounts.find(user), self.accounts.qos[qos], **{"eligible_at": at, **fields},
        )  # fmt: skip
        self.names[number] = name
        self.records[name] = record
        self.controller.submit(record)
        return record

    def reserve(self, name: str, start: int, end: int, nodes: Iterable[int]) -> None:
        """Create a reservation."""
        found = sum(1 << node for node in nodes)
        self.controller.reservations[name] = Reservation(name, start, end, found)

    def name(self, record: Record) -> str:
        """Return the name of a job, or of a task of an array."""
        name = self.names[record.array_id or record.id]
        return name if record.task is None else f"{name}_{record.task}"

    def main(self, now: float, depth: int | None = None) -> list[str]:
        """Run the main scheduler."""
        return self._run(MainPass(self.controller, now, depth))

    def backfill(self, now: float) -> list[str]:
        """Run backfill."""
        return self._run(BackfillPass(self.controller, now))

    def _run(self, one: MainPass | BackfillPass) -> list[str]:
        found = []
        for decided in one.run():
            if isinstance(decided, StartedJob):
                record = decided.record
                name = self.name(record)
                self.records[name] = record
                assert record.placement is not None
                found.append(f"{name} on {_text(record.placement.nodes)}")
            elif isinstance(decided, ExpectedStart):
                found.append(f"{self.name(decided.record)} at {decided.start_at:g} on {_text(decided.nodes)}")
            else:
                found.append(f"{self.name(decided.victim)} preempted for {self.name(decided.by)}")
        return found

    def end(self, name: str, now: int, *, answered: bool = True) -> None:
        """End a job; its nodes answer at once."""
        record = self.records[name]
        self.controller.end(record, now)
        if answered:
            self.controller.nodes_answered(record)

    def answer(self, name: str) -> None:
        """Let the nodes of an ended or preempted job answer."""
        self.controller.nodes_answered(self.records[name])

    def reasons(self) -> dict[str, str]:
        """Return why jobs wait."""
        return {self.name(record): record.reason for record in self.controller.jobs.waiting.values()}


def _text(nodes: Iterable[int]) -> str:
    return ",".join(map(str, nodes))
