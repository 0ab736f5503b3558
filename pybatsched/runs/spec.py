"""The description of a run: its workloads, its machine, its policy, and the settings of the simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, Self

from pybatsched.core.instants import seconds_text
from pybatsched.errors import InputError, setting
from pybatsched.metrics import DEFAULT_TAU_S
from pybatsched.platform.model import DEFAULT_MASTER, MAX_HOSTS
from pybatsched.platform.roles import read_roles
from pybatsched.runs.policies import PolicySpec
from pybatsched.settings import (
    FILE,
    FILES,
    INTEGER,
    NUMBER,
    SWITCH,
    TEXT,
    TEXTS,
    TIME,
    Checked,
    Kind,
    given,
    one_of,
    record,
    record_of_settings,
    whole,
)
from pybatsched.simulator.failure_events import FailureModel
from pybatsched.simulator.options import AUTO, CLOCKS
from pybatsched.workload.formats.conversion import MEMORY_UNITS, SIZES, MemoryUnit, SizeIn
from pybatsched.workload.formats.files import FORMATS
from pybatsched.workload.inject.checkpoints import Checkpointing
from pybatsched.workload.prepare import UNITS
from pybatsched.workload.walltimes import RULES, Walltimes


def _rule(value: Any) -> str | None:
    """Return a rule of walltimes."""
    try:
        return str(Walltimes.parse(value)) if isinstance(value, str) else None
    except InputError:
        return None


def _zone(value: Any) -> str | None:
    """Return the name of a time zone."""
    from pybatsched.workload.formats.conversion import zone_of  # noqa: PLC0415  only for logs with local times

    try:
        return value if isinstance(value, str) and zone_of(value) is not None else None
    except InputError:
        return None


def _hosts_with_roles(value: Any) -> tuple[str, ...] | None:
    texts: tuple[str, ...] | None = TEXTS.of(value)
    try:
        read_roles(texts or ())
    except InputError as error:
        raise InputError(f"{setting('roles')}: {error}") from None
    return texts


_PROCS: Final = whole(1, MAX_HOSTS)
_TAU: Final = Kind("seconds, 0 or more", TIME.of, "SECONDS", unit="s", also="str")


@record_of_settings
class WorkloadSpec(Checked):
    """The jobs of a run: a file, how it is read, which of its jobs are kept, and their offered load."""

    file: str = given(
        "a Batsim workload or a log (SWF, Slurm, a table); several have the names w0, w1, …",
        FILE,
        "",
        "-w",
        "--workload",
    )
    walltimes: str = given(
        f"walltimes: requested (as in the file), {', '.join(rule for rule in RULES if rule != 'requested')}",
        Kind(f"one of {', '.join(RULES)}, with a factor above 0", _rule, "RULE"),
        "requested",
    )
    format: str | None = given(
        f"format of the file: {', '.join(FORMATS)} (default: by the content)", one_of(*FORMATS), metavar="NAME"
    )
    mapping: str | None = given("the file that describes the columns of a table (docs/traces.md)", FILE)
    size: Literal["allocated", "requested", "larger"] | None = given(
        "which number of processors of a job in a log counts (default: allocated)",
        one_of("allocated", "requested", "larger"),
    )
    run_times: Literal["logged", "cut"] | None = given(
        "run times of a log: logged, or cut to the requested time, which drops jobs without one (default: logged)",
        one_of("logged", "cut"),
    )
    memory_unit: MemoryUnit | None = given(
        "unit of memory per processor in a log in SWF (default: KB, as in its standard)", one_of(*MEMORY_UNITS)
    )
    size_in: SizeIn | None = given(
        "unit of job sizes in a log of Slurm or a table (default: cores, or as in the mapping)", one_of(*SIZES)
    )
    timezone: str | None = given(
        "time zone of a log of Slurm or a table, if its times have none (default: UTC, or as in the mapping)",
        Kind("a name of the time zone database, such as Europe/Paris or UTC", _zone, "ZONE"),
    )
    min_runtime: float | None = given(
        "keep jobs of a log with run time 0 or unknown; their run time becomes S seconds", NUMBER, metavar="S"
    )
    unknown_runtime: float | None = given(
        "keep jobs of a log in SWF with an unknown run time, which becomes S seconds. Without a requested time they "
        "have no estimate",
        NUMBER,
        metavar="S",
    )
    lenient: bool = given("skip and count invalid lines of logs instead of failing", SWITCH, False)
    n_procs: int | None = given(
        "processors of the machine that the jobs were made for (default: as in the file)",
        whole(1),
        None,
        "--procs",
        alias="procs",
    )
    partitions: tuple[str, ...] = given(
        "keep only jobs of this partition (field 16 of SWF, Partition of Slurm)", TEXTS, (), "--partition", metavar="P"
    )
    begin: float | None = given(
        "keep jobs submitted at T or later (seconds, or 12h, 3d, 2w after the first submission)",
        TIME,
        None,
        "--from",
        alias="from",
    )
    end: float | None = given(
        "keep jobs submitted before T, counted from the same time as the start of the window",
        TIME,
        None,
        "--submitted-before",
        old={"--to": "1.0", "--until": "1.0"},
        alias="to",
    )
    warm_up: float = given(
        "simulate also the jobs of the time T before the window, or of the first T if the window has no start; figures "
        "of jobs leave them out",
        TIME,
        0.0,
    )
    cool_down: float = given(
        "simulate also the jobs of the time T after the window, or of the last T if the window has no end; figures of "
        "jobs leave them out",
        TIME,
        0.0,
    )
    window_clock: Literal["first", "log"] = given(
        "what the window counts from: the first submission (first), or time 0 of the log (log)",
        one_of("first", "log"),
        "first",
    )
    max_jobs: int | None = given("keep at most N jobs: the first ones of the selection", whole(1))
    feedback: bool = given(
        "submit the next job of a user's session a think time after the end of the previous job, as in the log",
        SWITCH,
        False,
    )
    running_at_start: bool = given(
        "let the jobs of a log that run when the window begins occupy their processors until they end; figures of jobs "
        "leave them out",
        SWITCH,
        False,
    )
    ignore_eligibility: bool = given(
        "let jobs start from their submission on: ignore eligible times, dependencies, limits of arrays and holds",
        SWITCH,
        False,
    )
    load: float | None = given(
        "scale submission times so that the offered load on the machine of the run is F, such as 0.9", NUMBER
    )
    scale_load: float | None = given("divide submission times by F, which multiplies the offered load by F", NUMBER)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.load is not None and self.scale_load is not None:
            raise InputError(f"{setting('load')} and {setting('scale_load')}: expected only one of them, found both")
        if self.format is not None and self.mapping is not None:
            raise InputError(
                f"{setting('format')}: cannot be used with {setting('mapping')}, which is for other tables"
            )
        if self.begin is not None and self.end is not None and self.begin >= self.end:
            begin = setting("begin", seconds_text(self.begin))
            raise InputError(f"{setting('end', seconds_text(self.end))}: expected a time after {begin}")

    @property
    def scales_load(self) -> bool:
        """Whether submission times are scaled."""
        return self.load is not None or self.scale_load is not None


def _groups_of_nodes(value: Any) -> str | None:
    from pybatsched.machines.nodes import machine_of_nodes  # noqa: PLC0415  only for runs on nodes

    try:
        machine_of_nodes(value if isinstance(value, str) else "")
    except InputError:
        return None
    return str(value)


def _failures(value: Any) -> FailureModel:
    return FailureModel.of_settings(value)


@record_of_settings
class MachineSpec(Checked):
    """The machine of a run: a platform, or a number of equal processors; by default that of the workload."""

    platform: str | None = given(
        "a SimGrid platform, or the name of a machine (pybatsched platform list)",
        FILE,
        None,
        "-p",
        "--platform",
        metavar="FILE|NAME",
    )
    n_procs: int | None = given(
        "instead of a platform: N equal processors of 1 Gflop/s (default: as many as the workload was made for)",
        _PROCS,
        None,
        "--procs",
        alias="procs",
    )
    nodes: str | None = given(
        "instead of a platform: groups of equal nodes, such as '4 x 16 cores 64 GB, 2 x 32 cores 128 GB 4 gpus:a100'",
        Kind("groups of nodes such as '4 x 16 cores 64 GB, 1 x 8 cores 2 gpus:a100'", _groups_of_nodes, "GROUPS"),
    )
    units: Literal["core", "node", "pset"] | None = given(
        "what a host of the platform is: sizes in cores are converted to hosts, rounded up (core: no conversion; "
        "default: by the name of the platform, for logs only)",
        one_of(*UNITS),
    )
    energy: bool = given("simulate energy and pstates; writes two more files", SWITCH, False, "-E", "--energy")
    events: tuple[str, ...] = given("external events, one JSON object per line", FILES, ())
    failures: FailureModel | None = given(
        'failures of machines at random times: settings by name, such as {mtbf = "30d"}',
        record(_failures, "settings such as {mtbf = '30d'}", also="Mapping[str, Any]"),
    )
    checkpoint: Checkpointing | None = given(
        "checkpoints of all jobs: daly, a time, or settings by name",
        record(Checkpointing.of_settings, "daly, a time, or settings by name", also="str | float | Mapping[str, Any]"),
    )
    master_host: str = given("name of the master host", TEXT, DEFAULT_MASTER, "-m", "--master-host", metavar="NAME")
    roles: tuple[str, ...] = given(
        "give hosts a role: h1,h2:storage",
        Kind("hosts and a role, such as h1,h2:storage", _hosts_with_roles, "HOSTS:ROLE", also=TEXTS.also),
        (),
        "-r",
        "--add-role-to-hosts",
    )
    mmax: int = given("keep the first N processors only (0: all)", whole(0), 0)
    mmax_workload: bool = given("keep as many processors as the workloads were made for (nb_res)", SWITCH, False)

    def __post_init__(self) -> None:
        super().__post_init__()
        machines = [name for name in ("platform", "n_procs", "nodes") if getattr(self, name) is not None]
        if len(machines) > 1:
            found = " and ".join(map(setting, machines))
            raise InputError(f"{found}: expected only one of them, found {len(machines) if machines[2:] else 'both'}")
        if self.platform is None:
            if self.units not in {None, "core"}:
                raise self.works_only_with("units", setting("platform"))
            if self.energy:
                raise InputError(
                    f"{setting('energy')}: expected {setting('platform')} with watts; equal processors have none"
                )
            if self.master_host != DEFAULT_MASTER:
                raise self.works_only_with("master_host", f"{setting('platform')}; equal processors have no master")
            if self.roles:
                raise self.works_only_with("roles", f"{setting('platform')}; equal processors have no roles")
        if self.events and self.failures is not None:
            raise InputError(f"{setting('events')} and {setting('failures')}: expected only one of them, found both")

    @property
    def draws(self) -> bool:
        """Whether the machine depends on the seed of the run."""
        return self.failures is not None and self.failures.seed is None


#: What to write in Python instead of options of commands.
INSTEAD_OF_OPTIONS: Final = {"mtbf": 'failures={"mtbf": …}', "repair": 'failures={"mtbf": …, "repair": …}'}


@record_of_settings
class RunSpec(Checked):
    """A run: workloads, machine, policy (None: an external scheduler), and the settings of the simulation."""

    workloads: tuple[WorkloadSpec, ...] = ()
    machine: MachineSpec = MachineSpec()
    policy: PolicySpec | None = None
    seed: int | None = given("seed of policies that use random numbers (their option seed), and of failures", INTEGER)
    tau_s: float = given("bound of bounded slowdowns", _TAU, DEFAULT_TAU_S, "--tau", metavar="SECONDS")
    stop_at: float | None = given(
        "end the simulation at time T (seconds, or 12h, 3d, 2w), even with jobs left",
        TIME,
        None,
        "--stop-at",
        old={"--until-time": "1.0"},
    )
    clock: str = given(
        "exact: exact times, and messages of Batsim take no simulated time. simgrid: the times and the network of "
        "SimGrid, to the last bit. auto: simgrid if jobs communicate, share hosts or replay usage traces, and with "
        "energy, else exact",
        one_of(*CLOCKS),
        AUTO,
    )
    dynamic_jobs: bool = given(
        "allow the scheduler to register jobs (on by default for policies that need it)",
        SWITCH,
        False,
        "--enable-dynamic-jobs",
    )
    acknowledge_dynamic_jobs: bool = given(
        "send an event to the scheduler for each job it has registered", SWITCH, False
    )
    profile_reuse: bool = given("keep profiles whose jobs have ended", SWITCH, False, "--enable-profile-reuse")
    forward_profiles: bool = given("send the profile with each job", SWITCH, False, "--forward-profiles-on-submission")
    compute_sharing: bool = given(
        "allow several jobs to compute on one processor", SWITCH, False, "--enable-compute-sharing"
    )
    storage_sharing: bool = given(
        "allow several jobs at a time on a storage host",
        SWITCH,
        True,
        "--disable-storage-sharing",
        negated="one job at a time on a storage host",
    )
    forward_unknown_events: bool = given("forward events of unknown types to the scheduler", SWITCH, False)
    sched_cfg: str = given("configuration for the scheduler, sent to it at the start", TEXT, "")
    sched_cfg_file: str | None = given("the same from a file", FILE)
    allow_empty: bool = given("allow a run without jobs", SWITCH, False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sched_cfg and self.sched_cfg_file is not None:
            both = f"{setting('sched_cfg')} and {setting('sched_cfg_file')}"
            raise InputError(f"{both}: expected only one of them, found both")

    @classmethod
    def of(cls, settings: Mapping[str, Any], policy: PolicySpec | None = None, files: Sequence[str] = ("",)) -> Self:
        """Return the run with these settings, by name, of the run, machine and workloads. Raises InputError."""
        own = {name: value for name, value in settings.items() if name in cls.names()}
        machine = {name: value for name, value in settings.items() if name in MachineSpec.names()}
        jobs = {name: value for name, value in settings.items() if name not in own and name not in machine}
        workloads = tuple(WorkloadSpec.by_name({"file": file, **jobs}) for file in files)
        made = cls.by_name(own)
        return replace(made, workloads=workloads, machine=MachineSpec.by_name(machine), policy=policy)


#: All records that describe a run.
RECORDS: Final[tuple[type[Checked], ...]] = (
    RunSpec,
    WorkloadSpec,
    MachineSpec,
    PolicySpec,
    FailureModel,
    Checkpointing,
)
