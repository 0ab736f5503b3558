"""What the jobs of a workload ask for, as slurmctld would see it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from pybatsched import PLAIN, InputError, JobFields, request_of, slurm_conf as sc
from pybatsched_schedulers.slurm.jobs import Record, Request

if TYPE_CHECKING:
    from pybatsched import Job, Nodes
    from pybatsched_schedulers.slurm.accounts import Accounts, Association, Qos

#: The MB of a millionth of a GB, the unit of requests; a GB has 1,024 MB, as in Slurm.
_MB = 1024e-6
#: A job without a limit counts as one of a year, as in Slurm.
UNLIMITED_S = 365 * 86_400.0


class SlurmFields(JobFields):
    """The fields of jobs that the policy reads. Logs of Slurm have them."""

    user: Any = None
    account: str = Field("", description="the name of an account")
    partition: str = Field("", description="the name of a partition")
    qos: str = Field("", description="the name of a QOS")
    nice: float = Field(0, description="a number that is subtracted from the priority")
    array: int | str = Field("", description="the id of an array")
    reservation: str = Field("", description="the name of a reservation")
    n_nodes: int | str = Field(0, description="a number of nodes, or a range such as 2-4")
    cores_per_node: int = Field(0, ge=1, description="a number from 1")
    memory_gb: float = Field(0, ge=0, allow_inf_nan=False, description="GB from 0")
    node_memory_gb: float = Field(0, ge=0, allow_inf_nan=False, description="GB from 0")
    gpus_per_node: int | str = Field(0, description="a number of GPUs, or a type with a number such as a100:2")
    gpus: int | str = Field(0, description="a number of GPUs, or a type with a number such as a100:2")
    gpu_type: str = Field("", description="a type of GPUs")
    features: str = Field("", description="features of every node, such as ib&nvme")
    time_limit: Literal["", "UNLIMITED", "Partition_Limit"] = Field(
        "", description="UNLIMITED or Partition_Limit, for a job without a time limit of its own"
    )
    exclusive: bool = Field(default=False, description="true or false")


class SubmissionError(Exception):
    """A job that Slurm does not accept at submission: its reason, and the name that is not accepted."""

    def __init__(self, reason: str, name: str) -> None:
        self.reason = f"{reason} ({{}})", name


def _check_access(partition: sc.Partition, account: str, qos: str) -> None:
    """Check that the jobs of an account and QOS may use a partition. Jobs without account or QOS may use it."""
    if not partition.is_up:
        raise SubmissionError("PartitionDown", partition.name)
    for name, allowed, denied, reason in (
        (account, partition.allow_accounts, partition.deny_accounts, "InvalidAccount"),
        (qos, partition.allow_qos, partition.deny_qos, "InvalidQOS"),
    ):
        if name and (name in denied if allowed is None else name not in allowed):
            raise SubmissionError(reason, f"{name} in partition {partition.name}")


def _within(request: Request, partition: sc.Partition, flags: frozenset[str]) -> Request:
    """Return a request with the fewest and most nodes of a partition. Jobs of some QOS may exceed these."""
    least = 0 if "partitionminnodes" in flags else partition.min_nodes
    most = 0 if "partitionmaxnodes" in flags else partition.max_nodes
    if (most and request.min_nodes > most) or (request.max_nodes and request.max_nodes < least):
        raise SubmissionError("PartitionNodeLimit", partition.name)
    if most and (not request.max_nodes or request.max_nodes > most):
        request = request._replace(max_nodes=most)
    return request._replace(min_nodes=max(request.min_nodes, least))


def _held(job: Job) -> str:
    """Return why a job may not start yet, in Slurm's words."""
    if job.eligible_at < math.inf:
        return ""
    return "JobHeldUser" if job.fields.get("hold") else "Dependency" if job.fields.get("depends_on") else "BeginTime"


class RecordMaker:
    """Makes the records of submitted jobs. Ids are numbers in the order of submission."""

    def __init__(self, conf: sc.SlurmConf, accounts: Accounts | None, machine: Nodes) -> None:
        self._conf, self._accounts, self._machine = conf, accounts, machine
        #: How many jobs have no time limit of their own.
        self.n_without_limit = 0
        self._n = 0

    def record(self, job: Job, now: int) -> Record:
        """Return the record of a job. Raises SubmissionError if Slurm would not accept it."""
        fields = job.fields
        partitions = self._partitions(str(fields.get("partition") or ""))
        user, account = str(fields.get("user", "")), str(fields.get("account") or "")
        association, qos = self._association(user, account, partitions[0], str(fields.get("qos") or ""))
        limit_s = None if fields.get("time_limit") else job.requested
        if fields.get("reservation"):  # those of this run are started by the engine
            raise SubmissionError("InvalidReservation", str(fields["reservation"]))
        if limit_s is None:
            self.n_without_limit += 1
            is_unlimited = fields.get("time_limit") == "UNLIMITED"
            limit_s = (
                partitions[0].max_time_s if is_unlimited else self._default_limit_s(partitions[0], qos, association)
            )
        flags = frozenset[str]() if qos is None else qos.flags
        names = (account if association is None else association.account).lower(), qos.name.lower() if qos else ""
        choices, refused = list[tuple[sc.Partition, Request]](), list[SubmissionError]()
        for one in partitions:
            try:
                _check_access(one, *names)
                if limit_s > one.max_time_s and "partitiontimelimit" not in flags:
                    raise SubmissionError("PartitionTimeLimit", one.name)
                choices.append((one, _within(self._request(job, one), one, flags)))
            except SubmissionError as error:
                refused.append(error)
        if not choices or (refused and self._conf.enforce_part_limits == "ALL"):
            raise refused[0]
        partition, request = choices[0]
        self._n += 1
        return Record(
            id=self._n,
            request=request,
            partition=partition,
            limit_s=min(limit_s, UNLIMITED_S),
            submit_at=now,
            user=user,
            association=association,
            qos=qos,
            nice=int(fields.get("nice") or 0),
            eligible_at=now,
            array_limit=int(fields.get("array_limit") or 0),
            held=_held(job),
            choices=tuple(choices) if len(choices) > 1 else (),
        )

    def _association(
        self, user: str, account: str, partition: sc.Partition, qos_name: str
    ) -> tuple[Association | None, Qos | None]:
        accounts, enforced = self._accounts, self._conf.enforce
        if accounts is None:
            return None, None
        association = accounts.find(user, account, partition.name)
        if association is None and "associations" in enforced:
            raise SubmissionError("InvalidAccount", f"user {user}{account and f' in account {account}'}")
        name = qos_name or (association.default_qos if association else "") or "normal"
        qos = accounts.qos.get(name)
        permitted = association.qos if association is not None else frozenset()
        if "qos" in enforced and (qos is None or (permitted and name not in permitted)):
            raise SubmissionError("InvalidQOS", f"{name} for user {user}")
        return association, qos

    def _default_limit_s(self, partition: sc.Partition, qos: Qos | None, association: Association | None) -> float:
        """Return the time limit of a job without one: the longest of a QOS or account, or that of the partition."""
        if self._accounts is not None and "limits" in self._conf.enforce:
            for one in (self._accounts.qos.get(partition.qos), qos, association):
                if one is not None and one.limits.max_wall_s is not None:
                    return min(one.limits.max_wall_s, partition.max_time_s)
        return partition.default_time_s or partition.max_time_s

    def _partitions(self, names: str) -> list[sc.Partition]:
        """Return the partitions that a job names, those of a high tier first."""
        default = self._conf.default_partition
        named = [name for name in names.split(",") if name] or ([default.name] if default else [])
        found = [self._conf.partitions[name] for name in named if name in self._conf.partitions]
        if not found:
            raise SubmissionError("PartitionName", names or "none is named, and none is the default")
        return sorted(found, key=lambda one: -one.tier)

    def _request(self, job: Job, partition: sc.Partition) -> Request:
        conf = self._conf
        try:
            asked, n_gpus = request_of(job.fields) or (PLAIN, 0)
        except ValueError as error:
            raise InputError(f"job {job.id}, {error}") from None
        if n_gpus:
            asked = self._machine.with_all_gpus(asked, n_gpus, job.n_procs)
        cpu_memory, node_memory = round(asked.core_memory * _MB), round(asked.node_memory * _MB)
        if not cpu_memory and not node_memory:
            node_memory, cpu_memory = partition.def_mem_per_node, partition.def_mem_per_cpu
        return Request(
            min_nodes=asked.min_nodes,
            max_nodes=asked.max_nodes,
            n_tasks=job.n_procs,
            tasks_per_node=asked.cores_per_node,
            cpu_memory=cpu_memory,
            node_memory=node_memory,
            gpus_per_node=asked.gpus_per_node,
            gpu_type=asked.gpu_type,
            exclusive=asked.exclusive or partition.is_exclusive or conf.select == "linear",
            features=asked.features,
        )
