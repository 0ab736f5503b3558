"""Slurm as a policy: the controller of `slurmctld` with its clocks, on Batsim or the embedded simulator."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pydantic import ConfigDict, Field

from pybatsched import (
    HALF_TICK,
    TICK,
    BatsimFeature,
    CallMeLater,
    Decision,
    ExecuteJob,
    InputError,
    Job,
    KillJob,
    NodePart,
    Options,
    Policy,
    PolicyTable,
    Reason,
    RejectJob,
    Requeue,
    nodes_of,
    quantity,
    slurm_conf as sc,
)
from pybatsched_schedulers.slurm.accounts import read_accounts
from pybatsched_schedulers.slurm.backfill import BackfillPass
from pybatsched_schedulers.slurm.clocks import LATEST_KILL_S, Clocks
from pybatsched_schedulers.slurm.controller import (
    Controller,
    ExpectedStart,
    PreemptedJob,
    Reservation,
    StartedJob,
    machine_of,
)
from pybatsched_schedulers.slurm.limits import LimitReason
from pybatsched_schedulers.slurm.main_pass import MainPass
from pybatsched_schedulers.slurm.priority import PRIORITY_COLUMNS
from pybatsched_schedulers.slurm.queue import in_order
from pybatsched_schedulers.slurm.requests import UNLIMITED_S, RecordMaker, SlurmFields, SubmissionError
from pybatsched_schedulers.slurm.usage import SHARE_COLUMNS, load_usage, share_rows

if TYPE_CHECKING:
    from pybatsched import Cluster, IntervalSet, Nodes
    from pybatsched_schedulers.slurm.accounts import Accounts
    from pybatsched_schedulers.slurm.jobs import Record


#: Conditions that each task of an array meets at a time of its own.
_OF_EACH_TASK: Final = ("aftercorr", "singleton")
SQUEUE_COLUMNS: Final = (
    "job", "user", "partition", "qos", "priority", "tasks", "nodes", "cpus", "expected start", "reason", "limit",
)  # fmt: skip


class SlurmOptions(Options):
    """Options of the policy."""

    slurm_conf: str = Field(description="the cluster's slurm.conf")
    associations: str | None = Field(
        default=None,
        description="accounts, shares and limits: a file of `sacctmgr dump` or `show assoc -P` (default: none)",
    )
    qos: str | None = Field(default=None, description="QOS: a file of `sacctmgr show qos -P` (default: none)")
    sshare: str | None = Field(
        default=None, description="usage at the start: a file of `sshare -a -l -P` (default: no usage)"
    )
    exact: bool = Field(
        default=False, description="run both passes at every event, without the clocks and delays of a real slurmctld"
    )
    seed: int = Field(default=0, description="the phases of the clocks", ge=0)
    node_answer_s: float = Field(
        default=0.01, description="seconds from the end of a job until its nodes are free; without `exact`", ge=0
    )
    epilog_s: float = Field(
        default=0.03,
        description="seconds from the end of a job to the main pass that follows, if slurm.conf has an Epilog",
        ge=0,
    )

    #: Further options are parameters of slurm.conf, which replace its own.
    model_config = ConfigDict(extra="allow", frozen=True)

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters that replace those of slurm.conf."""
        return {name: str(value) for name, value in (self.model_extra or {}).items()}


class Slurm(Policy):
    """Decides as slurmctld does: main pass, backfill, priorities, limits and preemption from slurm.conf."""

    references = (
        """\
@inproceedings{yoo2003slurm,
  author = {Yoo, Andy B. and Jette, Morris A. and Grondona, Mark},
  title = {{SLURM}: Simple {Linux} Utility for Resource Management},
  booktitle = {Job Scheduling Strategies for Parallel Processing (JSSPP 2003)},
  series = {Lecture Notes in Computer Science},
  volume = {2862},
  pages = {44--60},
  year = {2003},
  doi = {10.1007/10968987_3},
}""",
    )
    Options: ClassVar[type[Any]] = SlurmOptions
    JobFields: ClassVar[type[Any]] = SlurmFields
    machine_option = "slurm_conf"
    gets_jobs_early = True
    names_files = ("slurm_conf", "associations", "qos", "sshare")
    takes_any_procs = False  # the controller keeps the nodes of each job
    needs: ClassVar[frozenset[BatsimFeature]] = frozenset({BatsimFeature.DYNAMIC_JOBS})

    def on_begin(self, cluster: Cluster) -> None:
        """Read the configuration, and find its nodes among the processors."""
        options: SlurmOptions = self.options
        self._conf = conf = sc.read_slurm_conf(Path(options.slurm_conf), options.parameters)
        self._accounts = accounts = None
        if options.associations is not None:
            qos = None if options.qos is None else Path(options.qos)
            self._accounts = accounts = read_accounts(Path(options.associations), qos, conf.cluster)
        elif options.qos is not None:
            raise InputError(f"{options.qos}: QOS are those of accounts; expected --associations with them")
        self._no_qos = _partition_qos(conf, accounts, options)
        self._machine = _machine_of(cluster, conf, options.slurm_conf)
        self._controller = Controller(conf, accounts, self._machine)
        if options.sshare is not None:
            if self._controller.priorities.shares is None:
                raise InputError(f"{options.sshare}: usage is that of accounts; expected --associations with them")
            load_usage(self._controller.priorities.shares, Path(options.sshare))
        self._partition = cluster.add_partition("all", cluster.procs)
        self._record_maker = RecordMaker(conf, accounts, self._machine)
        self._clocks: Clocks | None = None
        self._job_of: dict[tuple[int, int | None], Job] = {}  # by the number of a job or array, and its task
        self._record_of: dict[str, Record] = {}  # by the id of a job; a waiting task has that of its array
        self._arrays: dict[str, Record] = {}  # by the id of an array: its last record
        self._slots: dict[str, int] = {}  # by the id of an array with a limit: its first record
        self._refused: list[RejectJob] = []
        self._answers: list[tuple[float, Record]] = []  # when nodes of ended jobs answer
        self._limits: list[tuple[float, str, int]] = []  # when jobs are killed, by id and start: a heap
        self._called_at = -math.inf
        self._eligible_at = math.inf  # when the next job may start that waits for a time
        self._windows = self._partition.upcoming.copy()  # the reservations of hosts that begin later
        self._next_update: float | None = None
        self._has_changed = False
        self._plans: dict[Record, float] = {}  # expected starts
        self._counts = dict.fromkeys(("n_started_by_main", "n_started_by_backfill", "n_preempted"), 0)

    # --- what happened ---

    def on_job_submitted(self, job: Job, now: float) -> None:
        """Put a job into the list, or a task into its array."""
        self._update_priorities(now)
        if self._clocks is not None and not self._controller.jobs.waiting:
            self._clocks.skip(now)
        try:
            record = self._record_maker.record(job, math.floor(now))
        except SubmissionError as error:
            self._refused.append(RejectJob(job.id, reason=error.reason))
            return
        reason = self._controller.refused_by(record)
        if reason:
            self._refused.append(RejectJob(job.id, reason=_with_limit(reason)))
            return
        array = str(job.fields.get("array", ""))
        rest = self._arrays.get(array) if array else None
        if rest is not None and rest.tasks and self._are_alike(rest, record, job):
            record, task = rest, rest.tasks[-1] + 1
            self._controller.add_task(rest, task)
        else:
            task = None
            if array:
                task, record.array_id, record.tasks = 0, record.id, [0]
                record.slots_of = self._slots.setdefault(array, record.id) if record.array_limit else 0
                self._arrays[array] = record
            self._controller.submit(record)
        self._job_of[record.id, task] = job
        self._record_of[job.id] = record
        self._ask(now)

    def _are_alike(self, rest: Record, record: Record, job: Job) -> bool:
        """Return whether a new task can be one of the waiting tasks of an array: those may start at the same time."""
        if _submitted(rest) != _submitted(record):
            return False
        mine, theirs = job.fields, self._job(rest).fields
        if record.held and any(kind in str(mine.get("depends_on", "")) for kind in _OF_EACH_TASK):
            return False
        return all(mine.get(name) == theirs.get(name) for name in ("depends_on", "eligible_at", "hold"))

    def on_job_eligible(self, job: Job, now: float) -> None:
        """Let the next pass try a job. Slurm runs no pass because a begin time has come."""
        record = self._record_of.get(job.id)
        if record is None:  # it is rejected
            return
        if record.held == "BeginTime":
            record.eligible_at = math.floor(now)
            self._has_changed = True
            if self._clocks is not None:
                self._clocks.change(now)
        else:
            self._ask(now)
        record.held = ""

    def _drop_task(self, rest: Record, job: Job) -> None:
        """Forget a waiting task of an array that will not run."""
        task = next(one for one in rest.tasks if self._job_of[rest.id, one] is job)
        del self._job_of[rest.id, task]
        array = str(job.fields["array"])
        if len(rest.tasks) == 1 and self._arrays.get(array) is rest:
            del self._arrays[array]
        self._controller.drop_task(rest, task)

    def on_job_ended(self, job: Job, now: float) -> None:
        """Free what a job held; its nodes answer a moment later."""
        record = self._record_of.pop(job.id, None)
        if record is None:  # it was rejected by the engine before the policy could
            self._refused = [one for one in self._refused if one.job_id != job.id]
            return
        self._update_priorities(now)
        if record.tasks:
            self._drop_task(record, job)
            return
        del self._job_of[record.array_id or record.id, record.task]
        if record not in self._controller.jobs.running:  # it ended before it could be preempted
            self._controller.nodes_answered(record)
            if record.placement is None:  # else it was cancelled
                self._controller.drop(record)
        else:
            self._controller.end(record, math.floor(now))
            self._answers.append((now if self.options.exact else now + self.options.node_answer_s, record))
            if self._conf.has_epilog and self._clocks is not None:
                self._clocks.ask_at_once(now + max(self.options.epilog_s, self.options.node_answer_s))
        self._ask(now)

    def on_job_killed(self, job: Job, now: float) -> None:
        """Let the nodes of a preempted job be used again."""
        record = self._record_of[job.id]
        self._controller.nodes_answered(record)
        if record.placement is not None:  # it was cancelled
            del self._record_of[job.id], self._job_of[record.array_id or record.id, record.task]
        if self._clocks is not None:
            self._clocks.ask_at_once(now)
        self._ask(now)

    def on_machines_changed(self, procs: IntervalSet, now: float) -> None:  # noqa: ARG002
        """Use only nodes of which all processors are available."""
        away = self._partition.away
        self._controller.down = self._machine.within(away)
        self._ask(now)

    def _ask(self, now: float) -> None:
        self._has_changed = True
        if self._clocks is not None:
            self._clocks.ask(now)

    def _update_priorities(self, now: float) -> None:
        """Update priorities for all periods that have passed, and the clocks."""
        options: SlurmOptions = self.options
        if self._next_update is None:
            period_s = self._conf.priorities.calc_period_s
            if not options.exact:
                self._clocks = Clocks(self._conf.scheduling, options.seed, now)
            phase_s = period_s if options.exact else round(period_s * Random(options.seed).random(), 6)  # noqa: S311
            self._next_update = now + phase_s
            self._controller.update_priorities(math.floor(self._next_update - period_s))
        while self._next_update <= now:
            self._controller.update_priorities(math.floor(self._next_update))
            self._next_update += self._conf.priorities.calc_period_s
            if self._controller.jobs.waiting and self._can_change:
                self._has_changed = True
                if self._clocks is not None:
                    self._clocks.change(now)

    @property
    def _can_change(self) -> bool:
        """Whether other priorities could let a job start: when no job runs, none waits for the end of another."""
        controller = self._controller
        return bool(controller.jobs.running or self._answers or controller.waits_for_decay)

    # --- decisions ---

    def decide(self, now: float) -> Iterator[Decision]:
        """Run the passes that are due."""
        self._update_priorities(now)
        if self._windows is not self._partition.upcoming:
            self._windows = self._partition.upcoming
            self._controller.reservations = {
                one.name: Reservation(
                    one.name, math.floor(one.start_at), math.floor(one.end_at), self._machine.within(one.procs)
                )
                for one in self._windows
            }
        clocks, has_answers = self._clocks, False
        while self._answers and self._answers[0][0] <= now + HALF_TICK:
            self._controller.nodes_answered(self._answers.pop(0)[1])
            has_answers = True
        if has_answers and clocks is not None and min(clocks.next_main(), clocks.next_backfill()) == math.inf:
            clocks.ask(now)  # the passes after the end came before the answer
        yield from self._refused
        self._refused = []
        yield from self._kill_overdue(now)
        if self._eligible_at <= now + HALF_TICK:
            self._has_changed = True
            if clocks is not None:
                clocks.change(now)
        if clocks is None:
            while self._has_changed:
                self._has_changed, self._plans = False, {}
                yield from self._carry_out(MainPass(self._controller, now).run(), now)
                yield from self._carry_out(BackfillPass(self._controller, now).run(), now)
        else:
            if clocks.next_main() <= now + HALF_TICK:
                depth = None if clocks.main_ran(now) else self._conf.scheduling.default_queue_depth
                yield from self._carry_out(MainPass(self._controller, now, depth).run(), now)
            if clocks.next_backfill() <= now + HALF_TICK:
                self._plans = {}
                clocks.backfill_ran(now)
                yield from self._carry_out(BackfillPass(self._controller, now).run(), now)
        yield from self._calls(now)

    def _kill_overdue(self, now: float) -> Iterator[Decision]:
        """Kill the jobs that are past their time limits, at a check of slurmctld."""
        limits, controller = self._limits, self._controller
        while limits and limits[0][0] <= now + HALF_TICK:
            _, job_id, started_at = heapq.heappop(limits)
            record = self._running(job_id, started_at)
            if record is not None:
                controller.end(record, math.floor(now))
                yield KillJob((job_id,), reason=("at its time limit, {} s", record.limit_s))

    def _running(self, job_id: str, started_at: int) -> Record | None:
        """Return the record of a job that still runs since a time; None if it has ended or was preempted."""
        record = self._record_of.get(job_id)
        if record is None or record not in self._controller.jobs.running or record.started_at != started_at:
            return None
        return record

    def _watch_limit(self, record: Record, job: Job, now: float) -> None:
        """Remember when a job that starts must be killed. Batsim ends those whose walltime ends before the last check.

        So does it end jobs of a log that were killed at their limits, after the time of the log.
        """
        limit_s = record.limit_s + record.partition.over_time_s
        latest_s = limit_s + (0 if self._clocks is None else LATEST_KILL_S)
        if record.limit_s >= UNLIMITED_S or limit_s == math.inf or (job.walltime or math.inf) <= latest_s:
            return
        at = now + limit_s if self._clocks is None else self._clocks.limit_check(record.started_at + limit_s)
        heapq.heappush(self._limits, (at, job.id, record.started_at))

    def _calls(self, now: float) -> Iterator[Decision]:
        waiting = self._controller.jobs.waiting
        at = self._controller.next_eligible(now)
        self._eligible_at = at
        if waiting:
            assert self._next_update is not None
            if self._clocks is not None:
                at = min(at, self._clocks.next_main(), self._clocks.next_backfill())
            if self._conf.priorities.type == "multifactor" and self._can_change:
                at = min(at, self._next_update)
            if at == math.inf and self._answers:
                at = self._answers[0][0]
        while self._limits and self._running(*self._limits[0][1:]) is None:
            heapq.heappop(self._limits)
        if self._limits:
            at = min(at, self._limits[0][0])
        at = max(at, now + TICK)
        if at < math.inf and not now + HALF_TICK < self._called_at <= at + HALF_TICK:
            self._called_at = at
            yield CallMeLater(at)

    def _carry_out(self, found: Iterable[StartedJob | PreemptedJob | ExpectedStart], now: float) -> Iterator[Decision]:
        for one in found:
            if isinstance(one, StartedJob):
                if self._may_be_cut:
                    self._ask(now)
                yield self._start(one, now)
            elif isinstance(one, PreemptedJob):
                self._counts["n_preempted"] += 1
                job, by = self._job(one.victim), self._job(one.by)
                if self._controller.cancels(one.victim):
                    yield KillJob((job.id,), reason=("preempted for {}", by.id))
                else:
                    yield Requeue(job.id, by=by.id, reason=("preempted for {}", by.id))
            else:
                self._plans[one.record] = min(one.start_at, self._plans.get(one.record, math.inf))

    @property
    def _may_be_cut(self) -> bool:
        """Whether passes may stop before the end of the queue, so that another one may start more jobs."""
        options, n = self._conf.scheduling, len(self._controller.jobs.waiting)
        if options.sched_max_job_start or options.bf_max_job_start or options.partition_job_depth:
            return True
        return n >= min(options.default_queue_depth, options.bf_max_job_test)

    def _job(self, record: Record) -> Job:
        task = record.task if record.task is not None else record.tasks[0] if record.tasks else None
        return self._job_of[record.array_id or record.id, task]

    def _start(self, start: StartedJob, now: float) -> Decision:
        record, placement = start.record, start.record.placement
        assert placement is not None
        job = self._job(record)
        self._record_of[job.id] = record
        self._watch_limit(record, job, now)
        self._counts[f"n_started_by_{start.by}"] += 1
        if self._arrays.get(str(job.fields.get("array", ""))) is record:  # the last task of its array
            del self._arrays[str(job.fields["array"])]
        parts, left = [], job.n_procs
        for i, (node, n_cpus) in enumerate(zip(placement.nodes, placement.cpus, strict=True)):
            n = min(n_cpus, max(left - (len(placement.nodes) - i - 1), min(left, 1)))
            if n:  # a job may have fewer processors than nodes
                parts.append(NodePart(node, n))
            left -= n
        procs = self._machine.procs_of(parts, self._partition.free)
        return ExecuteJob(job.id, procs, reason=f"{start.by} pass, priority {math.floor(record.priority)}")

    # --- answers ---

    def why_waiting(self, job: Job, now: float) -> Reason:
        """Return Slurm's reason, and when backfill expects the job to start."""
        record = self._record_of.get(job.id)
        if record is None:
            return super().why_waiting(job, now)
        at, reason, priority = self._plans.get(record), _with_limit(record.reason), math.floor(record.priority)
        if at is None:
            return "{}, priority {}", reason, priority
        return "{}, priority {}, expected to start at {}", reason, priority, at

    def tables(self, now: float) -> Mapping[str, PolicyTable]:  # noqa: ARG002
        """Return priorities as `sprio` shows them, shares as `sshare`, and waiting jobs with reasons as `squeue`."""
        controller = self._controller
        records = controller.jobs.waiting.values()
        by_qos, weight = self._conf.preempt_type == "qos", controller.priorities.partition_weight
        queue = in_order(records, preempts_by_qos=by_qos, partition_weight=weight)
        waiting = list(dict.fromkeys(entry.record for entry in queue))
        engine = controller.priorities
        found: dict[str, PolicyTable] = {"squeue": [SQUEUE_COLUMNS, *map(self._queue_row, waiting)]}
        if self._conf.priorities.type == "multifactor":
            rows = zip(waiting, engine.rows(waiting), strict=True)
            found["sprio"] = [PRIORITY_COLUMNS, *((self._job(record).id, *row[1:]) for record, row in rows)]
        if engine.shares is not None:
            found["sshare"] = [SHARE_COLUMNS, *share_rows(engine.shares)]
        return found

    def _queue_row(self, record: Record) -> tuple[str, ...]:
        at, request = self._plans.get(record), record.request
        return (
            self._job(record).id,
            record.user,
            record.partition.name,
            "" if record.qos is None else record.qos.name,
            str(math.floor(record.priority)),
            str(max(len(record.tasks), 1)),
            str(request.min_nodes),
            str(request.n_cpus),
            "" if at is None else f"{at:g}",
            record.reason,
            record.reason.limit if isinstance(record.reason, LimitReason) else "",
        )

    def remarks(self) -> Iterable[str]:
        """List what is in the configuration and has no effect here."""
        n = self._record_maker.n_without_limit
        if n:
            yield f"{quantity(n, 'job')} without a time limit: that of the partition in slurm.conf"
        for one in (*self._conf.unsupported, *self._no_qos, *(self._accounts.unsupported if self._accounts else ())):
            yield f"{one.name}{'=' if one.value else ''}{one.value} is not simulated: {one.effect}"

    def figures(self) -> Mapping[str, float]:
        """Count the starts of both passes, and preemptions."""
        return self._counts


def _with_limit(reason: str) -> str:
    return f"{reason} ({reason.limit})" if isinstance(reason, LimitReason) else reason


def _submitted(record: Record) -> tuple[object, ...]:
    choices = record.choices or (record.partition, record.request)
    return choices, record.limit_s, record.association, record.qos, record.nice, record.array_limit, record.held


def _partition_qos(conf: sc.SlurmConf, accounts: Accounts | None, options: SlurmOptions) -> list[sc.Unsupported]:
    """Return the QOS of partitions that have no limits, as no file has them. Raises InputError for unknown ones."""
    named = {one.qos: one.name for one in conf.partitions.values() if one.qos}
    if accounts is None or not accounts.knows_qos:
        effect = "without a file of `sacctmgr show qos -P` the QOS of partitions have no limits"
        return [sc.Unsupported("QOS", name, effect) for name in sorted(named)]
    for name in sorted(named.keys() - accounts.qos.keys()):
        expected = f"expected one in {options.qos or options.associations}"
        raise InputError(f"{options.slurm_conf}: partition {named[name]}: unknown QOS {name}; {expected}")
    return []


def _machine_of(cluster: Cluster, conf: sc.SlurmConf, path: str) -> Nodes:
    """Return the nodes of a configuration with the processors of the platform. Raises InputError if they differ."""
    found = nodes_of(cluster).nodes
    if len(found) != len(conf.nodes):
        raise InputError(
            f"{path}: it has {len(conf.nodes):,} nodes, the platform {len(found):,}; expected the same number. "
            f"`pybatsched platform generate {path}` writes the platform"
        )
    for node, expected in zip(found, conf.nodes, strict=True):
        if node.n_cores != expected.n_cpus:
            raise InputError(
                f"{path}: node {expected.name} has {expected.n_cpus} CPUs, node {node.name} of the platform "
                f"{node.n_cores}; expected the same number"
            )
    return machine_of(conf, [node.procs for node in found])
