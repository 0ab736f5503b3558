"""slurm.conf and gres.conf: the nodes, partitions, and parameters of the scheduler of a cluster.

`read_slurm_conf` reads the files as they are on a cluster. What has no effect on scheduling is ignored, what has an
effect and is not simulated is in `SlurmConf.unsupported`, and an unknown name is an error.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from pybatsched.core.node_lists import nodes_in, parts_of
from pybatsched.errors import InputError
from pybatsched.machines.slurm_conf.parameters import (
    NO_EFFECT,
    NOT_SIMULATED,
    NOT_SIMULATED_OF_PARTITIONS,
    NOT_SIMULATED_OPTIONS,
    OF_GRES,
    OF_LINES,
    PARAMETERS,
    PRIORITY_FLAGS,
    SCHEDULING,
    SELECT_PARAMETERS,
)
from pybatsched.machines.slurm_conf.values import tres_weights, whole_minutes

T = TypeVar("T")

_PAIR: Final = re.compile(r'\s*([A-Za-z0-9_.]+)\s*[-*+/]?=\s*("[^"]*"(?=\s|$)|\S+)')
_MOST_INCLUDED: Final = 16
_NONE: Final[frozenset[str]] = frozenset()
_ANY: Final = frozenset({"unlimited", "infinite", "-1"})
_NO_NORMAL: Final = frozenset({"NO_NORMAL_ASSOC", "NO_NORMAL_PART", "NO_NORMAL_QOS", "NO_NORMAL_TRES"})
_ENFORCE: Final = ("ASSOCIATIONS", "LIMITS", "NOJOBS", "NOSTEPS", "QOS", "SAFE", "WCKEYS", "ALL", "NONE", "0", "1", "2")
_PREEMPT_MODES: Final = ("OFF", "CLUSTER", "CANCEL", "REQUEUE", "SUSPEND", "ON", "GANG", "WITHIN", "PRIORITY")
_ONE_WITHOUT_NAME: Final = [""]
_NO_GRES: Final[list[tuple[str, str, int]]] = []
#: Other names of parameters, in small letters.
_SAME: Final = {"features": "feature", "files": "file", "procs": "cpus", "shared": "oversubscribe"}
_PERIODS: Final = ("none", "now", "daily", "weekly", "monthly", "quarterly", "yearly")


class Unsupported(NamedTuple):
    """A parameter with an effect on scheduling that is not simulated, and what happens instead."""

    name: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A node. Its CPUs and memory are those that jobs can use. `gpus` are counted by type ("" without types)."""

    name: str
    n_cpus: int = 1
    memory_mb: int = 1
    gpus: Mapping[str, int] = field(default_factory=dict)
    weight: int = 1
    features: frozenset[str] = frozenset()
    threads_per_core: int = 1
    is_up: bool = True


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition. `nodes` are indexes into `SlurmConf.nodes`; None stands for any account or QOS."""

    name: str
    nodes: tuple[int, ...] = ()
    is_default: bool = False
    tier: int = 1
    job_factor: int = 1
    max_time_s: float = math.inf
    default_time_s: float | None = None
    #: How long jobs may run past their time limits.
    over_time_s: float = 0
    min_nodes: int = 0
    #: 0 for any number.
    max_nodes: int = 0
    is_exclusive: bool = False
    def_mem_per_cpu: int = 0
    def_mem_per_node: int = 0
    #: By the names of TRES in small letters; memory per MB. None: a job is billed for its CPUs.
    billing_weights: Mapping[str, float] | None = None
    qos: str = ""
    is_up: bool = True
    preempt_mode: str = ""
    allow_accounts: frozenset[str] | None = None
    deny_accounts: frozenset[str] = frozenset()
    allow_qos: frozenset[str] | None = None
    deny_qos: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Scheduling:
    """SchedulerType and SchedulerParameters. 0 stands for no limit."""

    has_backfill: bool = True
    #: Infinite without a main scheduler by the clock.
    sched_interval_s: float = 60
    batch_sched_delay_s: int = 3
    default_queue_depth: int = 100
    partition_job_depth: int = 0
    sched_max_job_start: int = 0
    bf_interval_s: int = 30
    bf_window_s: int = 86_400
    bf_resolution_s: int = 60
    bf_max_job_test: int = 500
    bf_max_job_user: int = 0
    bf_max_job_part: int = 0
    bf_max_job_start: int = 0
    bf_min_age_reserve_s: int = 0
    bf_max_job_array_resv: int = 20
    bf_one_resv_per_job: bool = False


@dataclass(frozen=True, slots=True)
class Priorities:
    """The parameters whose names begin with Priority."""

    type: str = "basic"
    age: int = 0
    fairshare: int = 0
    jobsize: int = 0
    partition: int = 0
    qos: int = 0
    assoc: int = 0
    #: By the names of TRES in small letters.
    tres: Mapping[str, float] = field(default_factory=dict)
    #: Infinite: usage does not decay.
    half_life_s: float = 604_800
    calc_period_s: float = 300
    max_age_s: float = 604_800
    favor_small: bool = False
    flags: frozenset[str] = frozenset()
    usage_reset: str = "none"
    dampening: int = 1

    @property
    def is_weighted(self) -> bool:
        """Whether any factor has a weight."""
        return any((self.age, self.fairshare, self.jobsize, self.partition, self.qos, self.assoc, self.tres))

    @property
    def is_fair_tree(self) -> bool:
        """Whether fair share is computed by Fair Tree, not by the classic formula."""
        return "NO_FAIR_TREE" not in self.flags


@dataclass(frozen=True, slots=True)
class SlurmConf:
    """A cluster. Nodes are in Slurm's order: by name, numbers as numbers."""

    cluster: str
    nodes: tuple[NodeSpec, ...]
    partitions: dict[str, Partition]
    scheduling: Scheduling = Scheduling()
    priorities: Priorities = Priorities()
    #: linear or cons_tres.
    select: str = "linear"
    select_parameters: frozenset[str] = frozenset()
    #: Of associations, limits, qos, and safe.
    enforce: frozenset[str] = frozenset()
    #: "", qos, or partition_prio.
    preempt_type: str = ""
    #: Of cancel and requeue.
    preempt_mode: frozenset[str] = frozenset()
    kill_wait_s: int = 30
    message_timeout_s: int = 10
    has_epilog: bool = False
    #: NO, ANY, or ALL.
    enforce_part_limits: str = "NO"
    requeues: bool = True
    unsupported: tuple[Unsupported, ...] = ()

    @property
    def n_cpus(self) -> int:
        """The CPUs of all nodes."""
        return sum(node.n_cpus for node in self.nodes)

    @property
    def counts_memory(self) -> bool:
        """Whether jobs share the memory of nodes by what they ask for."""
        return any(name.endswith("_MEMORY") for name in self.select_parameters)

    @property
    def default_partition(self) -> Partition | None:
        """The partition of jobs that name none: the last one with Default=YES."""
        named = [partition for partition in self.partitions.values() if partition.is_default]
        return named[-1] if named else None


class _Fields:
    """Parameters with their values and places, by their names in small letters."""

    def __init__(self, values: Mapping[str, tuple[str, str]]) -> None:
        self.values = values

    def text(self, name: str, default: str = "") -> str:
        """Return a value as it is."""
        return self.values[name.lower()][1] if name.lower() in self.values else default

    def read(self, name: str, how: Callable[[str], T], default: T) -> T:
        """Read a value. `how` raises ValueError with what was expected."""
        if name.lower() not in self.values:
            return default
        where, text = self.values[name.lower()]
        try:
            return how(text)
        except ValueError as error:
            raise InputError(f"{where}: {name}={text}: expected {error}") from None

    def integer(self, name: str, default: int = 0) -> int:
        """Read a whole number; 0 for no limit."""
        return self.read(name, _integer, default)

    def is_yes(self, name: str, *, default: bool = False) -> bool:
        """Read YES or NO."""
        return self.read(name, _is_yes, default)

    def names(self, name: str) -> frozenset[str] | None:
        """Read a list of names; None for all."""
        text = self.text(name).lower()
        return None if text in {"", "all"} else frozenset(name.strip() for name in text.split(","))


def _integer(text: str) -> int:
    if text.lower() in _ANY:
        return 0
    found = re.fullmatch(r"(\d+)(k?)", text, re.ASCII | re.IGNORECASE)
    if found is None:
        raise ValueError("a whole number")
    return int(found[1]) * (1024 if found[2] else 1)


def _is_yes(text: str) -> bool:
    if text.lower() not in {"yes", "up", "true", "1", "no", "down", "false", "0"}:
        raise ValueError("YES or NO")
    return text.lower() in {"yes", "up", "true", "1"}


def _some_of(known: Iterable[str]) -> Callable[[str], frozenset[str]]:
    """Return a reader of lists of known names, in capitals."""
    names = frozenset(known)

    def read(text: str) -> frozenset[str]:
        found = frozenset(filter(None, (part.strip().upper() for part in text.split(","))))
        for name in sorted(found - names):
            near = _nearest(name, names) or f"; known are {', '.join(sorted(names))}"
            raise ValueError(f"known names, found {name}{near}")
        return found

    return read


def _one_of(*known: str) -> Callable[[str], str]:
    """Return a reader of one of some names, without the prefix of a plugin and in small letters."""

    def read(text: str) -> str:
        name = text.rpartition("/")[2].lower()
        if name not in known:
            raise ValueError(f"one of {', '.join(known)}")
        return name

    return read


def _nearest(name: str, known: Iterable[str]) -> str:
    spellings = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name.lower(), spellings, 1)
    return f"; did you mean {spellings[near[0]]}?" if near else ""


# --- lines ---


def _lines(path: Path, cluster: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Return the lines of a file and of those that it includes, each with its place."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    if depth > _MOST_INCLUDED:
        raise InputError(f"{path}: expected at most {_MOST_INCLUDED} files that include each other")
    begun, first = "", 0
    for number, physical in enumerate([*text.split("\n"), ""], 1):
        line = re.sub(r"(?<!\\)#.*", "", physical).rstrip()
        first = first or number
        if line.endswith("\\"):
            begun += line[:-1]
            continue
        line, where = re.sub(r"\\(.)", r"\1", begun + line).strip(), f"{path}: line {first}"
        begun, first = "", 0
        include = re.match(r"include\s+(\S+)$", line, re.IGNORECASE)
        if include:
            yield from _lines(_included(where, path.parent, include[1].replace("%c", cluster)), cluster, depth + 1)
        elif line:
            found = re.match(r"clustername\s*=\s*\"?([\w.-]+)", line, re.IGNORECASE)
            cluster = found[1] if found else cluster
            yield where, line


def _included(where: str, folder: Path, name: str) -> Path:
    """Return the path of an included file; a copy beside the file that includes it stands for one of the cluster."""
    for path in (folder / name, folder / Path(name).name):
        if path.is_file():
            return path
    raise InputError(f"{where}: the included file {name} does not exist; expected it, or a copy of it in {folder}")


def _pairs(where: str, line: str) -> list[tuple[str, str]]:
    """Return the names and values of a line."""
    pairs, end = [], 0
    while end < len(line):
        found = _PAIR.match(line, end)
        if found is None:
            raise InputError(f"{where}: expected Name=value, found {line[end:].strip()!r:.60}")
        pairs.append((found[1], found[2].strip('"')))
        end = found.end()
    return pairs


def _known(where: str, pairs: Iterable[tuple[str, str]], names: Iterable[str], line: str) -> dict[str, tuple[str, str]]:
    """Return the parameters of a line by their names in small letters; an unknown name is an error."""
    spellings = {name.lower() for name in names}
    for name, _ in pairs:
        if name.lower() not in spellings:
            of = f" of {line}" if line else ""
            raise InputError(f"{where}: unknown parameter {name}{of}{_nearest(name, names)}")
    return {_SAME.get(name.lower(), name.lower()): (where, value) for name, value in pairs}


class _File:
    """The lines of slurm.conf, by kind. Lines named DEFAULT apply to those after them."""

    def __init__(self, path: Path, changes: Mapping[str, str]) -> None:
        self.path = path
        values: dict[str, tuple[str, str]] = {}
        self.lines: dict[str, list[tuple[str, str, _Fields]]] = {kind: [] for kind in OF_LINES}
        defaults: dict[str, Mapping[str, tuple[str, str]]] = {kind: {} for kind in OF_LINES}
        kinds = {kind.lower(): kind for kind in OF_LINES}
        for where, line in _lines(path):
            (name, value), *rest = pairs = _pairs(where, line)
            kind = kinds.get(name.lower())
            if kind is None:
                values.update(_known(where, pairs, PARAMETERS, ""))
                continue
            fields = {**defaults[kind], **_known(where, rest, OF_LINES[kind], kind)}
            if value.lower() == "default":
                defaults[kind] = fields
            else:
                self.lines[kind].append((where, value, _Fields(fields)))
        self.options = self._scheduler_parameters(values.get("schedulerparameters", ("", "")))
        for name, value in changes.items():
            self._change(values, name, value)
        self.fields = _Fields(values)

    def _scheduler_parameters(self, found: tuple[str, str]) -> dict[str, tuple[str, str]]:
        where, text = found
        options = {}
        known = {name.lower(): name for name in (*SCHEDULING, *NO_EFFECT, *NOT_SIMULATED_OPTIONS)}
        for option in filter(None, (one.strip() for one in text.split(","))):
            name, _, value = option.partition("=")
            if name.lower() not in known:
                raise InputError(
                    f"{where}: unknown option {name or option} of SchedulerParameters{_nearest(name, known.values())}"
                )
            options[known[name.lower()]] = (where, value)
        return options

    def _change(self, values: dict[str, tuple[str, str]], name: str, value: str) -> None:
        """Replace a parameter, or an option of SchedulerParameters; `no` removes an option."""
        spellings = {one.lower(): one for one in (*PARAMETERS, *SCHEDULING, *NO_EFFECT, *NOT_SIMULATED_OPTIONS)}
        spelled = spellings.get(name.lower(), "")
        if spelled in OF_LINES:
            raise InputError(f"{self.path}: lines {spelled} cannot be replaced by an option; expected a changed copy")
        if not spelled:
            raise InputError(f"{self.path}: unknown parameter {name}{_nearest(name, spellings.values())}")
        where = f"{self.path} with a change"
        if spelled == "SchedulerParameters":
            self.options = self._scheduler_parameters((where, value))
        elif spelled in PARAMETERS:
            values[spelled.lower()] = (where, value)
        elif value.lower() == "no":
            self.options.pop(spelled, None)
        else:
            self.options[spelled] = (where, value)

    def hosts(self, where: str, text: str) -> list[str]:
        """Return the names of a list of nodes."""
        try:
            return nodes_in(text)
        except ValueError as error:
            raise InputError(f"{where}: expected {error}") from None


# --- nodes ---


def _gres(text: str) -> list[tuple[str, str, int]]:
    """Return the name, type, and count of generic resources.

    >>> _gres("gpu:a100:4(S:0-1),mps:400,gpu"), _gres("gpu:2")
    ([('gpu', 'a100', 4), ('mps', '', 400), ('gpu', '', 1)], [('gpu', '', 2)])
    """
    found = []
    for one in parts_of(text):
        name, *parts = [part for part in re.sub(r"\(.*?\)", "", one).split(":") if part != "no_consume"]
        count = parts.pop() if parts and re.fullmatch(r"\d+[KMG]?", parts[-1], re.IGNORECASE) else "1"
        if len(parts) > 1:
            raise ValueError(f"a name, a type and a number, such as gpu:a100:4, found {one!r}")
        number = int(re.sub(r"\D", "", count)) * 1024 ** " kmg".index(count[-1].lower() if count[-1].isalpha() else " ")
        found.append((name.strip().lower(), parts[0] if parts else "", number))
    return found


def _types_of_gpus(path: Path) -> Callable[[str], dict[str, int]]:
    """Return a function of a node's name: its GPUs by type according to gres.conf, if there is one."""
    of_nodes: dict[str, dict[str, int]] = {}
    if path.exists():
        for where, line in _lines(path):
            fields = _Fields(_known(where, _pairs(where, line), OF_GRES, "gres.conf"))
            if fields.text("Name").lower() != "gpu":
                continue
            files = fields.read("File", nodes_in, _ONE_WITHOUT_NAME)
            count = fields.integer("Count", len(files))
            for name in fields.read("NodeName", nodes_in, _ONE_WITHOUT_NAME):
                gpus = of_nodes.setdefault(name, {})
                gpus[fields.text("Type")] = gpus.get(fields.text("Type"), 0) + count
    return lambda name: of_nodes.get(name, of_nodes.get("", {}))


def _cpus_of(fields: _Fields) -> tuple[int, int]:
    """Return the CPUs of a node and the threads of a core, without CPUs that are reserved for the system.

    A number of CPUs that is none of sockets, cores or threads is replaced, as in Slurm.
    """
    cores, threads = fields.integer("CoresPerSocket", 1) or 1, fields.integer("ThreadsPerCore", 1) or 1
    boards, n_cpus = fields.integer("Boards", 1) or 1, fields.integer("CPUs")
    sockets = fields.integer("SocketsPerBoard") * boards or fields.integer("Sockets")
    if not sockets:
        sockets = boards if n_cpus % (cores * threads) else n_cpus // (cores * threads) or boards
    if n_cpus not in {sockets, sockets * cores}:
        n_cpus = sockets * cores * threads
    if n_cpus < sockets * cores * threads:  # a CPU is a core
        threads = 1
    reserved = fields.integer("CoreSpecCount") * threads
    if fields.text("CPUSpecList"):
        reserved = sum(int(b or a) - int(a) + 1 for a, b in re.findall(r"(\d+)(?:-(\d+))?", fields.text("CPUSpecList")))
    return max(1, n_cpus - reserved), threads


def _by_numbers(name: str) -> list[tuple[int, str]]:
    """Return the key of the natural order: numbers in names are compared as numbers."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name) if part]


def _nodes(file: _File, unsupported: list[Unsupported]) -> tuple[NodeSpec, ...]:
    nodes: dict[str, NodeSpec] = {}
    types_of = _types_of_gpus(file.path.with_name("gres.conf"))
    down = {
        name
        for where, names, fields in file.lines["DownNodes"]
        if not fields.text("State").upper().startswith("UNKNOWN")
        for name in file.hosts(where, names)
    }
    for where, names, fields in file.lines["NodeName"]:
        state = fields.text("State", "UNKNOWN").upper()
        if state.startswith("FUTURE"):
            unsupported.append(Unsupported("State", "FUTURE", "future nodes do not exist"))
            continue
        n_cpus, threads = _cpus_of(fields)
        memory_mb, reserved_mb = fields.integer("RealMemory", 1) or 1, fields.integer("MemSpecLimit")
        gpus: dict[str, int] = {}
        for kind, type_, count in fields.read("Gres", _gres, _NO_GRES):
            if kind == "gpu":
                gpus[type_] = gpus.get(type_, 0) + count
            else:
                unsupported.append(Unsupported("Gres", kind, "requests for it are ignored"))
        spec = NodeSpec(
            name="",
            n_cpus=n_cpus,
            memory_mb=memory_mb - (reserved_mb if reserved_mb < memory_mb else 0),
            weight=fields.integer("Weight", 1),
            features=frozenset(filter(None, fields.text("Feature").split(","))),
            threads_per_core=threads,
            is_up=not re.match("DOWN|DRAIN|FAIL", state),
        )
        for name in file.hosts(where, names):
            if name in nodes:
                raise InputError(f"{where}: node {name} is defined twice")
            types = types_of(name)
            is_typed = gpus.keys() == {""} and sum(types.values()) == gpus[""]
            is_up = spec.is_up and name not in down
            nodes[name] = replace(spec, name=name, gpus=types if is_typed else gpus, is_up=is_up)
    if not nodes:
        raise InputError(f"{file.path}: expected a line NodeName=...")
    return tuple(nodes[name] for name in sorted(nodes, key=_by_numbers))


# --- partitions ---


def _node_indexes(file: _File, nodes: tuple[NodeSpec, ...]) -> Callable[[str, str], tuple[int, ...]]:
    """Return a function of a place and a text: the indexes of nodes, by names, sets of nodes, or ALL."""
    index = {node.name: i for i, node in enumerate(nodes)}
    sets: dict[str, set[int]] = {"ALL": set(range(len(nodes)))}
    future = {
        name
        for where, names, fields in file.lines["NodeName"]
        if fields.text("State").upper().startswith("FUTURE")
        for name in file.hosts(where, names)
    }

    def indexes(where: str, text: str) -> tuple[int, ...]:
        found: set[int] = set()
        for name in file.hosts(where, re.sub(r"\s+", ",", text.strip())):
            same = sets.get(name.upper() if name.upper() == "ALL" else name)
            if same is not None:
                found |= same
            elif name in index:
                found.add(index[name])
            elif name not in future:
                raise InputError(f"{where}: unknown node {name}{_nearest(name, (*index, *sets))}")
        return tuple(sorted(found))

    for where, name, fields in file.lines["NodeSet"]:
        feature = fields.text("Feature")
        featured = {i for i, node in enumerate(nodes) if feature in node.features}
        sets[name] = featured | set(indexes(where, fields.text("Nodes")))
    return indexes


def preempt_mode_of(text: str) -> str:
    """Return how jobs of a QOS or a partition are preempted, in small letters; empty for as on the whole cluster."""
    modes = _some_of(_PREEMPT_MODES)(text)
    return "cancel" if "CANCEL" in modes else "requeue" if "REQUEUE" in modes else "off" if modes - {"CLUSTER"} else ""


def _over_subscribe(text: str) -> str:
    kind, _, count = text.lower().partition(":")
    if kind not in {"no", "yes", "force", "exclusive"} or (count and not count.isdecimal()):
        raise ValueError("NO, YES, FORCE, or EXCLUSIVE")
    return "no" if kind == "force" and count == "1" else kind


def _default_memory(*places: _Fields) -> tuple[int, int]:
    """Return the memory of jobs that ask for none, for a node and for a CPU: of a partition, else of the cluster."""
    for fields in places:
        per_node, per_cpu = fields.integer("DefMemPerNode"), fields.integer("DefMemPerCPU")
        if per_node or per_cpu:
            return per_node, 0 if per_node else per_cpu
    return 0, 0


def _partitions(file: _File, nodes: tuple[NodeSpec, ...], unsupported: list[Unsupported]) -> dict[str, Partition]:
    partitions: dict[str, Partition] = {}
    indexes = _node_indexes(file, nodes)
    over_time_s = file.fields.read("OverTimeLimit", whole_minutes, 0.0)
    for where, name, fields in file.lines["PartitionName"]:
        priority = fields.integer("Priority") if fields.text("Priority") else None
        max_time_s = fields.read("MaxTime", whole_minutes, math.inf)
        default_time_s = fields.read("DefaultTime", whole_minutes, math.inf)
        per_node, per_cpu = _default_memory(fields, file.fields)
        sharing = fields.read("OverSubscribe", _over_subscribe, "no")
        state = fields.read("State", _one_of("up", "down", "drain", "inactive"), "up")
        if name in partitions:
            raise InputError(f"{where}: partition {name} is defined twice; expected one line for each")
        partitions[name] = Partition(
            name=name,
            nodes=indexes(fields.values["nodes"][0] if fields.text("Nodes") else where, fields.text("Nodes")),
            is_default=fields.is_yes("Default"),
            tier=fields.integer("PriorityTier", 1) if priority is None else priority,
            job_factor=fields.integer("PriorityJobFactor", 1) if priority is None else priority,
            max_time_s=max_time_s,
            default_time_s=default_time_s if default_time_s <= max_time_s else None,
            over_time_s=fields.read("OverTimeLimit", whole_minutes, over_time_s),
            min_nodes=fields.integer("MinNodes"),
            max_nodes=fields.integer("MaxNodes"),
            is_exclusive=sharing == "exclusive",
            def_mem_per_cpu=per_cpu,
            def_mem_per_node=per_node,
            billing_weights=fields.read("TRESBillingWeights", tres_weights, None),
            qos=fields.text("QOS"),
            is_up=state in {"up", "drain"},
            preempt_mode=fields.read("PreemptMode", preempt_mode_of, ""),
            allow_accounts=fields.names("AllowAccounts"),
            deny_accounts=fields.names("DenyAccounts") or frozenset(),
            allow_qos=fields.names("AllowQos"),
            deny_qos=fields.names("DenyQos") or frozenset(),
        )
        if sharing in {"yes", "force"}:
            value = fields.text("OverSubscribe")
            unsupported.append(Unsupported("OverSubscribe", value, "jobs do not share CPUs"))
        if state == "drain":
            unsupported.append(Unsupported("State", "DRAIN", f"partition {name} accepts jobs"))
        _list_unsupported(fields, NOT_SIMULATED_OF_PARTITIONS, unsupported)
    return partitions


def _list_unsupported(fields: _Fields, table: Mapping[str, tuple[str, str]], found: list[Unsupported]) -> None:
    for name, (harmless, effect) in table.items():
        value = fields.text(name)
        if value and value.lower() not in harmless.split():
            found.append(Unsupported(name, value, effect))


# --- parameters of the scheduler ---


def _scheduling(file: _File, unsupported: list[Unsupported]) -> Scheduling:
    values: dict[str, int] = {}
    for name, (where, text) in file.options.items():
        bounds = SCHEDULING.get(name, ())
        if name in NOT_SIMULATED_OPTIONS:
            unsupported.append(Unsupported(name, text, NOT_SIMULATED_OPTIONS[name]))
        elif bounds is None:
            try:
                values[name] = not text or _is_yes(text)
            except ValueError as error:
                raise InputError(f"{where}: {name}={text}: expected {error}") from None
        elif bounds:
            least, most = bounds
            if not re.fullmatch(r"-?\d+", text) or not least <= int(text) <= most:
                expected = f"{least:,} to {most:,}" if most < 2**31 else f"{least} or more"
                raise InputError(f"{where}: {name}={text}: expected a whole number, {expected}")
            values[name] = int(text)
    kind = file.fields.read("SchedulerType", _one_of("backfill", "builtin", "hold"), "backfill")
    if kind != "backfill":
        unsupported.append(Unsupported("SchedulerType", kind, "jobs start in the order of their priorities"))
    interval, bf_interval = values.pop("sched_interval", 60), values.pop("bf_interval", 30)
    renamed = {"batch_sched_delay", "bf_resolution", "bf_min_age_reserve"}
    return Scheduling(
        has_backfill=kind == "backfill" and bf_interval != -1,
        sched_interval_s=math.inf if interval == -1 else interval,
        bf_interval_s=bf_interval if bf_interval > 0 else 30,
        bf_window_s=values.pop("bf_window", 1_440) * 60,
        **{f"{name}_s" if name in renamed else name: value for name, value in values.items()},  # type: ignore[arg-type]
    )


def _priorities(fields: _Fields) -> Priorities:
    flags = set(fields.read("PriorityFlags", _some_of(PRIORITY_FLAGS), _NONE))
    if "NO_NORMAL_ALL" in flags:
        flags |= _NO_NORMAL
    if "DEPTH_OBLIVIOUS" in flags:
        flags.add("NO_FAIR_TREE")
    return Priorities(
        type=fields.read("PriorityType", _one_of("basic", "multifactor"), "basic"),
        age=fields.integer("PriorityWeightAge"),
        fairshare=fields.integer("PriorityWeightFairshare"),
        jobsize=fields.integer("PriorityWeightJobSize"),
        partition=fields.integer("PriorityWeightPartition"),
        qos=fields.integer("PriorityWeightQOS"),
        assoc=fields.integer("PriorityWeightAssoc"),
        tres=fields.read("PriorityWeightTRES", tres_weights, {}),
        half_life_s=fields.read("PriorityDecayHalfLife", whole_minutes, 604_800.0) or math.inf,
        calc_period_s=fields.read("PriorityCalcPeriod", _period, 300.0),
        max_age_s=fields.read("PriorityMaxAge", whole_minutes, 604_800.0),
        favor_small=fields.is_yes("PriorityFavorSmall"),
        flags=frozenset(flags),
        usage_reset=fields.read("PriorityUsageResetPeriod", _one_of(*_PERIODS), "none"),
        dampening=fields.integer("FairShareDampeningFactor", 1) or 1,
    )


def _period(text: str) -> float:
    found = whole_minutes(text)
    if not 0 < found < math.inf:
        raise ValueError("1 minute or more")
    return found


def _enforced(text: str) -> frozenset[str]:
    names = _some_of(_ENFORCE)(text)
    found = {name.lower() for name in names}
    if "all" in found:
        found |= {"limits", "qos", "safe"}
    if found & {"safe", "2"}:
        found.add("limits")
    if found & {"limits", "qos", "wckeys", "1"}:
        found.add("associations")
    return frozenset(found & {"associations", "limits", "qos", "safe"})


def _part_limits(text: str) -> str:
    if text.upper() not in {"NO", "YES", "ANY", "ALL"}:
        raise ValueError("NO, ANY, or ALL")
    return "ALL" if text.upper() == "YES" else text.upper()


def _selection(fields: _Fields, unsupported: list[Unsupported]) -> tuple[str, frozenset[str]]:
    plugin = fields.read("SelectType", _one_of("linear", "cons_res", "cons_tres", "cray_aries"), "linear")
    parameters = fields.read("SelectTypeParameters", _some_of(SELECT_PARAMETERS), _NONE) - {"NONE"}
    shares = plugin.startswith("cons_") or bool(parameters & {"OTHER_CONS_RES", "OTHER_CONS_TRES"})
    if plugin == "cray_aries":
        unsupported.append(Unsupported("SelectType", plugin, "nodes are chosen without the network of a Cray"))
    ignored = filter(re.compile("CR_(SOCKET|LLN|PACK|ONE|ALLOCATE)|LL_").match, sorted(parameters))
    unsupported += [Unsupported("SelectTypeParameters", name, "cores are chosen without it") for name in ignored]
    if shares and not any(name in parameters for name in SELECT_PARAMETERS if re.match("CR_(CPU|CORE|SOCKET)", name)):
        parameters |= {"CR_CORE_MEMORY"}
    return "cons_tres" if shares else "linear", parameters


def _preemption(fields: _Fields, unsupported: list[Unsupported]) -> tuple[str, frozenset[str]]:
    kind = fields.read("PreemptType", _one_of("none", "qos", "partition_prio"), "none")
    modes = {name.lower() for name in fields.read("PreemptMode", _some_of(_PREEMPT_MODES), _NONE)}
    ignored = sorted(modes & {"suspend", "on", "gang", "within", "priority"})
    effect = "jobs are not suspended and not preempted by it"
    unsupported += [Unsupported("PreemptMode", mode.upper(), effect) for mode in ignored]
    simulated = frozenset(modes & {"cancel", "requeue"})
    if kind != "none" and not simulated:
        unsupported.append(Unsupported("PreemptType", kind, "no job is preempted, because of PreemptMode"))
    return kind if kind != "none" and simulated else "", simulated


def read_slurm_conf(path: Path, changes: Mapping[str, str] | None = None) -> SlurmConf:
    """Read slurm.conf, the files that it includes, and gres.conf beside it.

    `changes` replaces parameters: names of slurm.conf, or options of SchedulerParameters.
    """
    file = _File(path, changes or {})
    fields = file.fields
    unsupported: list[Unsupported] = []
    nodes = _nodes(file, unsupported)
    select, parameters = _selection(fields, unsupported)
    if select == "cons_tres" and "CR_CPU" not in parameters and "CR_CPU_MEMORY" not in parameters:
        threads = max(node.threads_per_core for node in nodes)
        if threads > 1:
            effect = "jobs get CPUs, not whole cores"
            unsupported.append(Unsupported("ThreadsPerCore", str(threads), effect))
    preempt_type, preempt_mode = _preemption(fields, unsupported)
    partitions = _partitions(file, nodes, unsupported)
    if not partitions:
        raise InputError(f"{path}: expected a line PartitionName=...")
    scheduling, priorities = _scheduling(file, unsupported), _priorities(fields)
    _list_unsupported(fields, NOT_SIMULATED, unsupported)
    for name, newer, is_meant in (
        ("SelectType", "cons_tres", True),
        ("PriorityType", "multifactor", priorities.is_weighted),
    ):
        if is_meant and not fields.text(name):
            effect = (
                "slurm.conf does not set it, and the default is that of Slurm 22.05; set it for Slurm 23.11 or later"
            )
            unsupported.append(Unsupported(name, newer, effect))
    return SlurmConf(
        cluster=fields.text("ClusterName").lower(),
        nodes=nodes,
        partitions=partitions,
        scheduling=scheduling,
        priorities=priorities,
        select=select,
        select_parameters=parameters,
        enforce=fields.read("AccountingStorageEnforce", _enforced, _NONE),
        preempt_type=preempt_type,
        preempt_mode=preempt_mode,
        kill_wait_s=fields.integer("KillWait", 30),
        message_timeout_s=fields.integer("MessageTimeout", 10),
        has_epilog=bool(fields.text("Epilog")),
        enforce_part_limits=fields.read("EnforcePartLimits", _part_limits, "NO"),
        requeues=fields.is_yes("JobRequeue", default=True),
        unsupported=tuple(dict.fromkeys(unsupported)),
    )
