"""Limits of QOS and associations: how much may run and wait at a time, for each user, account and group.

The limits of the partition's QOS come first, then those of the job's QOS (the flag OverPartQOS exchanges them), then
those of associations. A limit replaces those of the same kind after it. What runs counts for all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, Self

if TYPE_CHECKING:
    from pybatsched_schedulers.slurm.accounts import Accounts, Association, Limits, Qos, Usage
    from pybatsched_schedulers.slurm.jobs import Record

#: The words that Slurm uses for TRES in the names of reasons.
_WORDS: Final = {"cpu": "Cpu", "mem": "Mem", "node": "Node", "billing": "Billing", "energy": "Energy"}
#: Names of reasons with other words or endings than most: by the reason of the rule with the word of the TRES.
_IRREGULAR: Final = {
    "GrpCpu": "GrpCpuLimit", "GrpCpuMinutes": "GrpCPUMinutesLimit", "GrpCpuRunMinutes": "GrpCPURunMinutesLimit",
    "MaxCpuPerJob": "MaxCpuPerJobLimit", "MaxCpuMinutesPerJob": "MaxCpuMinutesPerJobLimit",
    "MaxCpuPerUser": "MaxCpuPerUserLimit", "MinCpu": "MinCpuNotSatisfied", "GrpMem": "GrpMemLimit",
    "GrpNode": "GrpNodeLimit", "MaxNodePerJob": "MaxNodePerJobLimit", "MaxNodePerUser": "MaxNodePerUserLimit",
}  # fmt: skip
_MINUTE_S: Final = 60
#: Jobs without a time limit count as if it were this.
_LONGEST_S: Final = 1e9


class LimitReason(str):  # noqa: SLOT000  a text has no slots for attributes
    """Slurm's word for a limit. `limit` says what it is, and whose."""

    limit: str

    def __new__(cls, word: str, limit: str) -> Self:
        """Return a word with the limit that it stands for."""
        reason = super().__new__(cls, word)
        reason.limit = limit
        return reason


class _Use:
    """What runs at present, what waits or runs, and what running jobs may still use."""

    __slots__ = ("n_jobs", "n_submitted", "nodes", "of", "seconds", "tres")

    def __init__(self, of: str) -> None:
        #: A user, an account or a QOS, in words.
        self.of = of
        self.n_jobs = 0
        self.n_submitted = 0
        self.tres: Counter[str] = Counter()
        #: The jobs on each node: a node counts once.
        self.nodes: Counter[int] = Counter()
        #: The TRES of running jobs times the seconds that were left to them at the last update.
        self.seconds: Counter[str] = Counter()

    def change(self, record: Record, sign: int, left_s: float) -> None:
        self.n_jobs += sign
        for name, amount in record.tres.items():
            self.tres[name] += sign * amount  # type: ignore[assignment]
            self.seconds[name] += sign * amount * left_s  # type: ignore[assignment]
        nodes = () if record.placement is None else record.placement.nodes
        for node in nodes:
            self.nodes[node] += sign
            if not self.nodes[node]:
                del self.nodes[node]
        self.tres["node"] = len(self.nodes)


class _JobsRule(NamedTuple):
    """At most so many jobs."""

    most: int
    use: _Use
    reason: str


class _WallRule(NamedTuple):
    """A longest time limit; with usage, for the sum of all jobs so far."""

    most_s: float
    usage: Usage | None
    reason: str


class _TresRule(NamedTuple):
    """A limit of one TRES. The kind says what is compared with it."""

    kind: str
    tres: str
    limit: float
    use: _Use
    usage: Usage
    reason: str


#: The limits of TRES in Slurm's order, as fields of `Limits`: whether all levels of accounts have them, and the reason.
_TRES_RULES: Final = (
    ("grp_tres_mins", True, "Grp{}Minutes"),
    ("grp_tres", True, "Grp{}"),
    ("grp_tres_run_mins", True, "Grp{}RunMinutes"),
    ("max_tres_mins", False, "Max{}MinutesPerJob"),
    ("max_tres", False, "Max{}PerJob"),
    ("max_tres_per_node", False, "Max{}PerNode"),
    ("min_tres", False, "Min{}"),
    ("max_tres_per_account", False, "Max{}PerAccount"),
    ("max_tres_per_user", False, "Max{}PerUser"),
    ("max_tres_run_mins_per_account", False, "Max{}RunMinsPerAccount"),
    ("max_tres_run_mins_per_user", False, "Max{}RunMinsPerUser"),
)
#: Limits of the minutes that are left to running jobs.
_RUN_MINS: Final = ("grp_tres_run_mins", "max_tres_run_mins_per_account", "max_tres_run_mins_per_user")
#: Limits of QOS without the prefix QOS in their reasons.
_WITHOUT_PREFIX: Final = ("PerAccount", "RunMinsPerUser")


class _Rules:
    """All limits of the jobs of a user with a QOS in a partition. Those that are replaced are not among them."""

    def __init__(self, uses: dict[tuple[object, ...], _Use]) -> None:
        self._uses = uses
        self._imposed: set[tuple[str, str]] = set()  # the limits of QOS so far
        #: What counts its jobs, once each.
        self.counted: dict[_Use, None] = {}
        self.submits: list[_JobsRule] = []
        self.jobs: list[_JobsRule] = []
        self.walls: list[_WallRule] = []
        self.tres: list[_TresRule] = []

    def add_qos(self, qos: Qos, user: str, account: str) -> None:
        """Add the limits of a QOS."""
        limits, of = qos.limits, f"QOS {qos.name}"
        whole = self._use(of, "qos", qos.name)
        of_user = self._use(f"user {user} in {of}", "qos user", qos.name, user)
        of_account = self._use(f"account {account} in {of}", "qos account", qos.name, account)
        self._add(self.submits, "grp_submit", limits.grp_submit, whole, "QOSGrpSubmitJobsLimit")
        self._add(self.submits, "account", limits.max_submit_per_account, of_account, "MaxSubmitJobsPerAccount")
        self._add(self.submits, "max_submit", limits.max_submit_per_user, of_user, "QOSMaxSubmitJobPerUserLimit")
        self._add(self.jobs, "grp_jobs", limits.grp_jobs, whole, "QOSGrpJobsLimit")
        self._add(self.jobs, "account", limits.max_jobs_per_account, of_account, "MaxJobsPerAccount")
        self._add(self.jobs, "max_jobs", limits.max_jobs_per_user, of_user, "QOSMaxJobsPerUserLimit")
        self._add_walls(limits, qos.usage, "QOS", of, is_own=True)
        for kind, _, word in _TRES_RULES:
            use = of_user if kind.endswith("_user") else of_account if kind.endswith("_account") else whole
            self._add_tres(kind, getattr(limits, kind), use, qos.usage, prefix="QOS", word=word)

    def add_association(self, association: Association) -> None:
        """Add the limits of the association of a user, and those of the accounts above for groups."""
        for level, one in enumerate(association.upwards()):
            of = f"account {one.account}"
            of = f"user {one.user} in {of}" if one.user else of
            limits, use, is_own = one.limits, self._use(of, "association", id(one)), not level
            self._add(self.submits, "grp_submit", limits.grp_submit, use, "AssocGrpSubmitJobsLimit")
            self._add(self.jobs, "grp_jobs", limits.grp_jobs, use, "AssocGrpJobsLimit")
            if is_own:
                self._add(self.submits, "max_submit", limits.max_submit, use, "AssocMaxSubmitJobLimit")
                self._add(self.jobs, "max_jobs", limits.max_jobs, use, "AssocMaxJobsLimit")
            self._add_walls(limits, one.usage, "Assoc", of, is_own=is_own)
            for kind, is_for_groups, word in _TRES_RULES:
                if is_own or is_for_groups:
                    self._add_tres(kind, getattr(limits, kind), use, one.usage, prefix="Assoc", word=word)

    def _add_tres(
        self, kind: str, limits: Mapping[str, float], use: _Use, usage: Usage, *, prefix: str, word: str
    ) -> None:
        for tres, limit in limits.items():
            if self._is_new(kind, tres, prefix):
                reason = LimitReason(_reason(prefix, word, tres), f"{_name(kind)} {tres}={limit:g} of {use.of}")
                self.tres.append(_TresRule(kind, tres, limit, use, usage, reason))

    def _use(self, of: str, *key: object) -> _Use:
        use = self._uses.setdefault(key, _Use(of))
        self.counted[use] = None
        return use

    def _is_new(self, kind: str, tres: str, reason: str) -> bool:
        """Return whether no QOS has imposed a limit of this kind yet. Those of a QOS are imposed."""
        if (kind, tres) in self._imposed:
            return False
        if not reason.startswith("Assoc"):
            self._imposed.add((kind, tres))
        return True

    def _add(self, rules: list[_JobsRule], kind: str, most: int | None, use: _Use, reason: str) -> None:
        if most is not None and self._is_new(kind, "submits" if rules is self.submits else "jobs", reason):
            what = "waiting and running jobs" if rules is self.submits else "running jobs"
            rules.append(_JobsRule(most, use, LimitReason(reason, f"{most} {what} of {use.of}")))

    def _add_walls(self, limits: Limits, usage: Usage, prefix: str, of: str, *, is_own: bool) -> None:
        if limits.grp_wall_s is not None and self._is_new("grp_wall_s", "", prefix):
            reason = LimitReason(f"{prefix}GrpWallLimit", f"GrpWall {limits.grp_wall_s:g} s of {of}")
            self.walls.append(_WallRule(limits.grp_wall_s, usage, reason))
        if is_own and limits.max_wall_s is not None and self._is_new("max_wall_s", "", prefix):
            reason = LimitReason(f"{prefix}MaxWallDurationPerJobLimit", f"MaxWall {limits.max_wall_s:g} s of {of}")
            self.walls.append(_WallRule(limits.max_wall_s, None, reason))


def _name(kind: str) -> str:
    """Return the name of sacctmgr for a limit of TRES.

    >>> _name("grp_tres_run_mins")
    'GrpTRESRunMins'
    """
    return "".join("TRES" if word == "tres" else word.capitalize() for word in kind.split("_"))


def _reason(of: str, word: str, tres: str) -> str:
    """Return the reason of a limit of TRES.

    >>> _reason("QOS", "Grp{}", "cpu"), _reason("Assoc", "Max{}PerJob", "gres/gpu"), _reason("QOS", "Min{}", "mem")
    ('QOSGrpCpuLimit', 'AssocMaxGRESPerJob', 'QOSMinMemory')
    """
    name = _WORDS.get(tres) or ("GRES" if tres.startswith("gres/") else "Unknown")
    reason = word.format(name)
    if name == "Mem" and reason != "GrpMem" and of == "QOS":
        reason = word.format("Memory")
    return ("" if word.endswith(_WITHOUT_PREFIX) else of) + _IRREGULAR.get(reason, reason)


class RunningUse:
    """What runs and waits for each QOS and association, and whether one more job is within the limits."""

    def __init__(self, accounts: Accounts | None, *, is_enforced: bool, is_safe: bool = False) -> None:
        self._accounts = accounts if is_enforced else None
        self._is_safe = is_safe
        self._uses: dict[tuple[object, ...], _Use] = {}
        self._rules: dict[tuple[object, ...], _Rules] = {}
        self._updated_at = 0
        sources: list[Limits] = []
        if accounts is not None:
            sources = [qos.limits for qos in accounts.qos.values()] + [one.limits for one in accounts.associations]
        #: Whether usage is limited, not only what runs.
        self.limits_usage = any(limits.grp_tres_mins or limits.grp_wall_s is not None for limits in sources)
        self._has_minutes = any(
            limits.grp_tres_mins or any(getattr(limits, kind) for kind in _RUN_MINS) for limits in sources
        )

    def _rules_of(self, record: Record) -> _Rules:
        return self._rules_in(record, record.partition.name, record.partition.qos)

    def _rules_in(self, record: Record, partition: str, partition_qos: str) -> _Rules:
        key = record.user, record.qos, record.association, partition
        found = self._rules.get(key)
        if found is None:
            found = self._rules[key] = self._made(record, partition_qos)
        return found

    def _made(self, record: Record, partition_qos: str) -> _Rules:
        rules, association = _Rules(self._uses), record.association
        if self._accounts is not None:
            qos = [self._accounts.qos.get(partition_qos), record.qos]
            if record.qos is not None and "overpartqos" in record.qos.flags:
                qos.reverse()
            for one in dict.fromkeys(qos):
                if one is not None:
                    rules.add_qos(one, record.user, "" if association is None else association.account)
            if association is not None:
                rules.add_association(association)
        return rules

    # --- what happens ---

    def submitted(self, record: Record, n_jobs: int) -> None:
        """Count jobs or tasks that wait. O(depth of its account)."""
        for use in self._rules_in(record, record.home.name, record.home.qos).counted:
            use.n_submitted += n_jobs

    def left(self, record: Record, n_jobs: int) -> None:
        """Count jobs or tasks that have ended no longer. O(depth of its account)."""
        self.submitted(record, -n_jobs)

    def started(self, record: Record) -> None:
        """Count a job that starts. O(depth of its account)."""
        for use in self._rules_of(record).counted:
            use.change(record, 1, self._left_s(record))

    def ended(self, record: Record) -> None:
        """Count a job that has ended or is preempted no longer. O(depth of its account)."""
        for use in self._rules_of(record).counted:
            use.change(record, -1, self._left_s(record))

    def _left_s(self, record: Record) -> float:
        """Return how long a running job could run at the last update."""
        if not self._has_minutes:
            return 0
        return min(max(0.0, record.ends_by - max(record.started_at, self._updated_at)), _LONGEST_S)

    def updated(self, running: Iterable[Record], now: int) -> None:
        """Let less time be left to running jobs, as when usage decays. O(running), if there are limits of minutes."""
        if self._has_minutes:
            for use in self._uses.values():
                use.seconds.clear()
            self._updated_at = now
            for record in running:
                for use in self._rules_of(record).counted:
                    for name, amount in record.tres.items():
                        use.seconds[name] += amount * self._left_s(record)  # type: ignore[assignment]

    # --- what is allowed ---

    def refused_by(self, record: Record, tres: Mapping[str, float]) -> str:
        """Return Slurm's reason why a job is rejected at submission, empty if it is not.

        So are jobs that no limit would ever let start. Slurm rejects these only with the QOS flag DenyOnLimit or
        without a QOS; else they wait until the limit is changed.
        """
        rules = self._rules_of(record)
        for most, use, reason in rules.submits:
            if use.n_submitted >= most:
                return reason
        for most, _, reason in rules.jobs:
            if not most:
                return reason
        for most_s, _, reason in rules.walls:
            if record.limit_s > most_s:
                return reason
        for rule in rules.tres:
            if self._is_too_much(rule, record, tres):
                return rule.reason
        return ""

    def blocked_by(self, record: Record) -> str:
        """Return Slurm's reason why a job may not start, whatever it would get; empty if it may."""
        rules = self._rules_of(record)
        for most, use, reason in rules.jobs:
            if use.n_jobs >= most:
                return reason
        for most_s, usage, reason in rules.walls:
            used_s = 0.0 if usage is None else usage.wall_s // _MINUTE_S * _MINUTE_S
            if usage is not None and used_s >= most_s:
                return reason
            if (usage is None or self._is_safe) and used_s + record.limit_s > most_s:
                return reason
        return ""

    def limits_tres(self, record: Record) -> bool:
        """Return whether a job has limits of what it would get: those of `exceeded_by`. O(1)."""
        return bool(self._rules_of(record).tres)

    def exceeded_by(self, record: Record, tres: Mapping[str, float], nodes: Iterable[int] = ()) -> str:
        """Return Slurm's reason why a job that would get these TRES may not start; empty if it may. O(limits)."""
        for rule in self._rules_of(record).tres:
            if self._is_too_much(rule, record, tres) or self._is_too_much_now(rule, record, tres, nodes):
                return rule.reason
        return ""

    def _is_too_much(self, rule: _TresRule, record: Record, tres: Mapping[str, float]) -> bool:
        """Return whether a job exceeds a limit by itself."""
        amount = tres.get(rule.tres, 0)
        if rule.kind == "min_tres":
            return amount < rule.limit
        if rule.kind == "max_tres_per_node":
            return amount // max(tres.get("node", 1), 1) > rule.limit
        if rule.kind == "grp_tres_mins" and not self._is_safe:
            return False
        return amount > 0 and amount * _factor(rule.kind, record) > rule.limit

    def _is_too_much_now(
        self, rule: _TresRule, record: Record, tres: Mapping[str, float], nodes: Iterable[int]
    ) -> bool:
        """Return whether a job exceeds a limit with what runs, and what was used."""
        amount, use = tres.get(rule.tres, 0), rule.use
        if not amount:
            return False
        if rule.kind == "grp_tres_mins":
            used = rule.usage.tres.get(rule.tres, 0) // _MINUTE_S
            running = use.seconds[rule.tres] // _MINUTE_S + amount * _factor(rule.kind, record)
            return used >= rule.limit or (self._is_safe and used + running > rule.limit)
        if rule.kind in _RUN_MINS:
            return use.seconds[rule.tres] // _MINUTE_S + amount * _factor(rule.kind, record) > rule.limit
        if rule.kind not in {"grp_tres", "max_tres_per_account", "max_tres_per_user"}:
            return False
        shared = sum(node in use.nodes for node in nodes) if rule.tres == "node" else 0
        return use.tres[rule.tres] + amount - shared > rule.limit


def _factor(kind: str, record: Record) -> float:
    """Return what the TRES of a job are multiplied with for a limit: 1, or the minutes of its time limit."""
    if "_mins" not in kind:
        return 1
    factor = record.qos.usage_factor if record.qos is not None and "usagefactorsafe" in record.qos.flags else 1.0
    return record.limit_s / _MINUTE_S * factor
