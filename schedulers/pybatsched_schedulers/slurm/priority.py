"""Priorities of jobs: priority/basic and priority/multifactor, with all factors as `sprio` prints them."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final

from pybatsched_schedulers.slurm.usage import FairShare

if TYPE_CHECKING:
    from pybatsched import slurm_conf as sc
    from pybatsched_schedulers.slurm.accounts import Accounts
    from pybatsched_schedulers.slurm.jobs import Record

#: The priority above that of the first job of priority/basic.
_TOP: Final = 0xFFFF0000
_GREATEST: Final = 0xFFFFFFFF
_DAY_S: Final = 86_400

PRIORITY_COLUMNS: Final = (
    "job", "user", "partition", "priority", "age", "age norm", "fairshare", "fairshare norm", "jobsize", "jobsize norm",
    "partition factor", "partition norm", "qos", "qos norm", "tres", "tres norm", "nice",
)  # fmt: skip


def _whole(partition: sc.Partition, conf: sc.SlurmConf) -> dict[str, float]:
    """Return what all nodes of a partition have, by the names of TRES."""
    found: Counter[str] = Counter()
    for node in (conf.nodes[i] for i in partition.nodes):
        found.update({"cpu": node.n_cpus, "mem": node.memory_mb, "node": 1, "gres/gpu": sum(node.gpus.values())})
        found.update({f"gres/gpu:{kind}": n for kind, n in node.gpus.items() if kind})
    return dict(found)


class PriorityEngine:
    """Sets `Record.priority` and `Record.factors`. The factors of waiting jobs change only by `update`."""

    def __init__(self, conf: sc.SlurmConf, accounts: Accounts | None) -> None:
        self.conf, self.weights = conf, conf.priorities
        self._is_basic = conf.priorities.type == "basic"
        self._charges_ends = "limits" in conf.enforce
        self.shares = None if accounts is None else FairShare(self.weights, accounts, counts_tres=self._charges_ends)
        self._lowest = _TOP
        self._last_update: int | None = None
        self._next_reset = -math.inf
        self._n_cpus, self._n_nodes = conf.n_cpus, len(conf.nodes)
        flags = self.weights.flags
        most = max([1, *(partition.job_factor for partition in conf.partitions.values())])
        self._partition_unit = 1 if "NO_NORMAL_PART" in flags else most
        qos = () if accounts is None else accounts.qos.values()
        self._qos_unit = 1 if "NO_NORMAL_QOS" in flags else max([1, *(one.priority for one in qos)])
        associations = () if accounts is None else accounts.associations
        highest = max([1, *(one.priority for one in associations)])
        self._assoc_unit = 1 if "NO_NORMAL_ASSOC" in flags else highest
        self._whole = {name: _whole(partition, conf) for name, partition in conf.partitions.items()}
        self._most_memory = {
            name: max((conf.nodes[i].memory_mb for i in partition.nodes), default=0)
            for name, partition in conf.partitions.items()
        }

    @property
    def partition_weight(self) -> float:
        """What the job factor of a partition counts in priorities."""
        return 0.0 if self._is_basic else self.weights.partition / self._partition_unit

    # --- what happens ---

    def submitted(self, record: Record, now: int) -> None:
        """Set the priority of a new job. A requeued job keeps its priority until the next update. O(factors)."""
        if self._is_basic:
            priority = self._lowest - 1
            if record.nice <= 0 or priority > record.nice + 1:
                priority -= record.nice
            record.priority = max(1, priority)
            self._lowest = min(self._lowest, int(record.priority))
        else:
            record.weighted = ()
            self._set_priority(record, now)

    def ended(self, record: Record, now: int) -> None:
        """Charge a job that ends or is preempted for the time since the last update, if limits are enforced."""
        if self._charges_ends and self.shares is not None and not self._is_basic:
            self.shares.charge(record, self._since(record), now)

    def update(self, waiting: Iterable[Record], running: Iterable[Record], now: int) -> None:
        """Decay usage, charge running jobs, and set the priorities of waiting ones: once in each calculation period.

        O(associations + running + waiting jobs). By the classic formula the usage of a user is that at the first
        waiting job of the user in the list of jobs: jobs before it in the list are charged, those after it are not.
        """
        if self._is_basic:
            return
        shares, passed = self.shares, now - (now if self._last_update is None else self._last_update)
        if shares is None:
            for record in waiting:
                self._set_priority(record, now)
        elif shares.is_fair_tree:
            self._reset_usage(now)
            shares.decay(passed)
            for record in running:
                shares.charge(record, self._since(record), now)
            shares.evaluate()
            for record in waiting:
                self._set_priority(record, now)
        else:
            self._reset_usage(now)
            shares.evaluate()
            if passed > 0:
                shares.decay(passed)
                for record in sorted(chain(waiting, running), key=_place):
                    if record.placement is None:
                        self._set_priority(record, now)
                    else:
                        shares.charge(record, self._since(record), now)
        self._last_update = now

    def _since(self, record: Record) -> float:
        """Return the time up to which a running job is charged."""
        return record.started_at if self._last_update is None else max(record.started_at, self._last_update)

    def _reset_usage(self, now: int) -> None:
        """Forget all usage at the end of a PriorityUsageResetPeriod (in UTC)."""
        period = self.weights.usage_reset
        if period == "none" or now < self._next_reset or self.shares is None:
            return
        if period == "now" or self._next_reset != -math.inf:
            self.shares.reset()
        self._next_reset = math.inf if period == "now" else _next_period(period, now)

    # --- factors ---

    def requested(self, record: Record) -> dict[str, float]:
        """Return what a job asks for by the names of TRES, with the default memory where none is asked. O(1)."""
        request, partition = record.request, record.partition
        n_nodes = max(1, request.min_nodes)
        per_cpu, per_node = request.cpu_memory, request.node_memory
        if not per_cpu and not per_node:
            per_cpu, per_node = partition.def_mem_per_cpu, partition.def_mem_per_node
        of_nodes = (per_node or self._most_memory[partition.name]) * n_nodes
        found: dict[str, float] = {
            "cpu": request.n_cpus,
            "mem": per_cpu * request.n_cpus if per_cpu else of_nodes,
            "node": n_nodes,
        }
        if request.gpus_per_node:
            found["gres/gpu"] = request.gpus_per_node * n_nodes
            if request.gpu_type:
                found[f"gres/gpu:{request.gpu_type}"] = request.gpus_per_node * n_nodes
        return found

    def _set_priority(self, record: Record, now: int) -> None:
        """Set the priority. Its parts are added in Slurm's order, as sums of floating-point numbers depend on it."""
        weights, factors = self.weights, record.factors
        if not record.weighted or record.weighted[0] != record.n_cpus_counted:
            self._weigh(record)
        _, assoc, jobsize, partition, qos, tres = record.weighted
        factors["age"] = age = self._age(record, now) if weights.age else 0.0
        fairshare = 0.0
        if weights.fairshare and self.shares is not None and record.association is not None:
            fairshare = self.shares.factor(record.association)
        factors["fairshare"] = fairshare
        priority = weights.age * age + assoc + weights.fairshare * fairshare + jobsize + partition + qos + tres
        priority = min(max(1.0, priority - record.nice), float(_GREATEST))
        if "INCR_ONLY" not in weights.flags or int(priority) > int(record.priority):
            record.priority = priority

    def _weigh(self, record: Record) -> None:
        """Set the factors that change only with the CPUs that are counted."""
        weights, factors = self.weights, record.factors
        factors["jobsize"] = self._job_size(record) if weights.jobsize else 0.0
        factors["partition"] = record.home.job_factor / self._partition_unit if weights.partition else 0.0
        factors["qos"] = record.qos.priority / self._qos_unit if weights.qos and record.qos is not None else 0.0
        association = record.association
        factors["assoc"] = association.priority / self._assoc_unit if weights.assoc and association is not None else 0.0
        if weights.tres:
            factors.update(self._tres(record))
        record.weighted = (
            record.n_cpus_counted,
            weights.assoc * factors["assoc"],
            weights.jobsize * factors["jobsize"],
            weights.partition * factors["partition"],
            weights.qos * factors["qos"],
            sum(weight * factors[name] for name, weight in weights.tres.items()),
        )

    def _age(self, record: Record, now: int) -> float:
        if "ACCRUE_ALWAYS" in self.weights.flags:
            waited: float = now - record.submit_at
        elif record.was_seen:
            waited = now - record.eligible_at
        else:
            return 0.0
        longest = self.weights.max_age_s
        return max(0.0, waited) / longest if waited < longest else 1.0

    def _job_size(self, record: Record) -> float:
        n_cpus, n_nodes = record.n_cpus_counted or record.request.n_cpus, max(1, record.request.min_nodes)
        all_cpus, all_nodes, favors_small = self._n_cpus, self._n_nodes, self.weights.favor_small
        if "SMALL_RELATIVE_TO_TIME" in self.weights.flags:
            limit = record.limit_s if record.limit_s < math.inf else record.partition.max_time_s
            size = max(n_nodes * all_cpus / all_nodes, n_cpus) / max(1.0, limit / 60) / all_cpus
            size = 1 - size if favors_small else size
        elif favors_small:
            size = ((all_nodes - n_nodes) / all_nodes + (all_cpus - n_cpus) / all_cpus) / 2
        else:
            size = (n_nodes / all_nodes + n_cpus / all_cpus) / 2
        return min(max(0.0, size), 1.0)

    def _tres(self, record: Record) -> dict[str, float]:
        asked, whole = self.requested(record), self._whole[record.home.name]
        if "NO_NORMAL_TRES" in self.weights.flags:
            return {name: asked.get(name, 0.0) for name in self.weights.tres}
        return {name: asked.get(name, 0.0) / whole[name] if whole.get(name) else 0.0 for name in self.weights.tres}

    # --- sprio ---

    def rows(self, records: Iterable[Record]) -> Iterator[tuple[str, ...]]:
        """Return the rows of `sprio` with weighted and normalised factors: PRIORITY_COLUMNS."""
        for record in records:
            factors = record.factors
            pairs: list[str] = []
            for name in ("age", "fairshare", "jobsize", "partition", "qos"):
                factor = factors.get(name, 0.0)
                pairs += [f"{getattr(self.weights, name) * factor:.0f}", f"{factor:.7f}"]
            of_tres = {name: factors.get(name, 0.0) for name in self.weights.tres if factors.get(name)}
            yield (
                str(record.id),
                record.user,
                record.home.name,
                str(int(record.priority)),
                *pairs,
                ",".join(f"{name}={self.weights.tres[name] * factor:.0f}" for name, factor in of_tres.items()),
                ",".join(f"{name}={factor:.2f}" for name, factor in of_tres.items()),
                str(record.nice),
            )


def _place(record: Record) -> int:
    return record.place


def _next_period(period: str, now: int) -> float:
    """Return the end of the day, week, month, quarter or year in UTC; weeks end on Saturday."""
    today = dt.datetime.fromtimestamp(now, dt.UTC).replace(hour=0, minute=0, second=0)
    if period in {"daily", "weekly"}:
        n_days = 1 if period == "daily" else 7 - (today.weekday() + 1) % 7
        return today.timestamp() + n_days * _DAY_S
    n_months = {"monthly": 1, "quarterly": 3, "yearly": 12}[period]
    month = today.year * 12 + (today.month - 1) // n_months * n_months + n_months
    return today.replace(year=month // 12, month=month % 12 + 1, day=1).timestamp()
