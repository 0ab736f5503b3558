"""Jobs as slurmctld sees them: what was asked for, and a record that waits or runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pybatsched import slurm_conf as sc
    from pybatsched_schedulers.slurm.accounts import Association, Qos


class Request(NamedTuple):
    """What a job asks for. Memory is in MB; 0 stands for what is not asked."""

    min_nodes: int = 1
    #: 0 for any number.
    max_nodes: int = 0
    n_tasks: int = 1
    tasks_per_node: int = 0
    cpus_per_task: int = 1
    cpu_memory: int = 0
    node_memory: int = 0
    gpus_per_node: int = 0
    gpu_type: str = ""
    exclusive: bool = False
    features: str = ""

    @property
    def n_cpus(self) -> int:
        """The CPUs of all tasks."""
        return self.n_tasks * self.cpus_per_task


class Placement(NamedTuple):
    """Where a job runs: node numbers in order, with the CPUs on each."""

    nodes: tuple[int, ...]
    cpus: tuple[int, ...]

    @property
    def n_cpus(self) -> int:
        """The CPUs on all nodes."""
        return sum(self.cpus)


@dataclass(slots=True, eq=False)
class Record:
    """A job, or the tasks of an array that wait. Times are whole seconds of the epoch, as in Slurm.

    A task that starts gets a record of its own. `id` is then the id of the task; `array_id` is the id of the array.
    """

    id: int
    request: Request
    partition: sc.Partition
    limit_s: float
    submit_at: int
    user: str = ""
    association: Association | None = None
    qos: Qos | None = None
    nice: int = 0
    #: The time from which on it may start and its age counts; infinite while it waits for other jobs.
    eligible_at: float = 0
    array_id: int = 0
    #: The waiting tasks of an array in rising order; empty for other jobs.
    tasks: list[int] = field(default_factory=list)
    #: The task that runs, or waits again after it was preempted; None for other records.
    task: int | None = None
    array_limit: int = 0
    #: The first record of its array, if its tasks differ: they share the limit.
    slots_of: int = 0
    #: Since when the rest of an array could start; 0 while it could not, as at its limit.
    could_start_at: int = 0
    reservation: str = ""
    #: Conditions on other jobs: a kind, such as ``afterok``, and the id of a job or array.
    dependencies: tuple[tuple[str, int], ...] = ()
    #: Why the engine does not let it start yet, in Slurm's words.
    held: str = ""
    #: The partitions of a job that names several, by tier, with what it asks for in each. `partition` and `request`
    #: are those of one of them.
    choices: tuple[tuple[sc.Partition, Request], ...] = ()
    #: Its place in the list of all jobs.
    place: int = 0
    #: When it last preempted other jobs, or a task of its array did.
    preempted_at: float = -math.inf
    #: Why it waits, in Slurm's words.
    reason: str = "None"

    # --- for priorities ---
    priority: float = 0.0
    #: The factors by the names of `sprio`: age, fairshare, jobsize, partition, qos, tres by name.
    factors: dict[str, float] = field(default_factory=dict)
    #: The CPUs that count in the job size factor: those asked, later those that node selection would give.
    n_cpus_counted: int = 0
    #: Kept by the priority engine: the CPUs that were counted, and the weighted factors that change only with them.
    weighted: tuple[float, ...] = ()
    #: Whether a scheduling run has seen it since it is eligible; its age counts from the next update on.
    was_seen: bool = False

    # --- since it runs ---
    placement: Placement | None = None
    started_at: int = 0
    #: What it uses by the names of TRES (cpu, mem in MB, node, gres/gpu, gres/gpu:TYPE, billing).
    tres: Mapping[str, float] = field(default_factory=dict)

    @property
    def home(self) -> sc.Partition:
        """Its partition; the first one of several."""
        return self.choices[0][0] if self.choices else self.partition

    @property
    def ends_by(self) -> float:
        """When its time limit ends: infinite while it waits."""
        return self.started_at + self.limit_s if self.placement is not None else math.inf
