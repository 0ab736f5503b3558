"""Random scenes, as a strategy of Hypothesis for each policy: machine, jobs, options of the policy, and faults."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import inf
from types import UnionType
from typing import Any, Final, Literal, NamedTuple, Union, get_args, get_origin

from hypothesis import strategies as st
from support.gridded import Grid
from support.located import BIG, FILES, HUGE, SLOW, SMALL, FileNode, Machine

from pybatsched.core.checkpoints import n_dumps, with_dumps_s
from pybatsched.core.instants import TICK
from pybatsched.policies import registry
from pybatsched.policies.orders import ALIASES, NAMED_ORDERS, parse_order
from reliability.cases import Dice
from reliability.soak import nodes_in_scenes as on_nodes
from reliability.soak.scenes import DELAY, FAILS, ON_NODES, OTHER, PARTS, WORK, Job, Kill, Outage, Scene

POLICIES: Final = (
    "fcfs", "easy", "conservative", "redirection", "dbf", "ujf", "ujfb", "locality", "reallocation", "rl",
)  # fmt: skip
#: Policies that register jobs, and so need dynamic jobs.
REGISTERING: Final = frozenset(("redirection", "ujfb", "locality", "reallocation"))
#: Policies that plan, for which the order of the queue must not vary with time.
_PLANNING: Final = frozenset(("conservative", "dbf", "ujfb"))
_ORDERS: Final = (*NAMED_ORDERS, *ALIASES, "estimate / procs", "-max(wait, 60) * procs / estimate")
_FIXED_ORDERS: Final = tuple(order for order in _ORDERS if not parse_order(order).varies)
_FILE_NODES: Final = (
    Machine((SMALL,)),
    Machine((SMALL,) * 3),
    Machine((FileNode(2, 16, 0.25),) * 4),
    Machine((SLOW, SMALL, SMALL)),
    Machine((SMALL, BIG)),
    Machine((SMALL, BIG, HUGE, FileNode(8, 16, 2))),
    Machine((FileNode(1, 16, 0.5),) * 2),
)
#: Estimates as parts of run times, by how right they are.
_GUESSES: Final[dict[str, list[float]]] = {
    "honest": [1, 1, 2, 10],
    "exact": [1],
    "short": [1, 0.5, 0.2],
    "any": [1, 1, 2, 10, 0.5, 0.1],
}
#: The property of a node with its speed of reading files.
_BANDWIDTH: Final = "fs_bw_gbps"
#: When scenes begin that begin late.
_LATE_BEGIN: Final = 1e9
_HEAD, _OPTIONS, _JOB, _FAULT = (st.binary(min_size=n, max_size=n) for n in (37, 24, 28, 14))
_NODES_HEAD, _REQUEST = (st.binary(min_size=n, max_size=n) for n in (on_nodes.N_BYTES, on_nodes.N_OF_JOB))
_JOBS, _MORE_JOBS = (st.lists(_JOB, min_size=low, max_size=high) for low, high in ((1, 12), (0, 40)))
_FAULTS: Final = st.lists(_FAULT, max_size=4)
_KINDS_OF_FAULTS: Final = ("kill", "outage", "outage", "outage", "kill", "drain", "reservation", "late")
Drawn = dict[str, Any]


class _Ground(NamedTuple):
    """The machine, and what jobs on it may look like: their widest size, and units of time."""

    n_procs: int
    hosts: tuple[dict[str, str], ...]
    widest: int
    unit: float
    begin: float
    clusters: tuple[str, ...] = ()
    classes: tuple[float, ...] = ()

    def at(self, units: float) -> float:
        """Return an instant."""
        return round(self.begin + units * self.unit, 6)

    def span(self, units: float) -> float:
        """Return a span, of a tick at least."""
        return max(round(units * self.unit, 6), 1e-6)


@lru_cache
@st.composite
def scenes(draw: st.DrawFn, policy: str) -> Scene:
    """Draw a scene. O(jobs + processors)."""
    head = Dice(draw(_HEAD))
    ground = _ground(policy, head)
    batsim = 5 if head.chance(15) else 4
    dynamic = policy in REGISTERING or head.chance(40)
    acknowledged, reuse = dynamic and head.chance(50), dynamic and head.chance(50)
    forward = head.chance(30)
    options = _options(policy, ground, Dice(draw(_OPTIONS))) | _common_options(ground, head, dynamic=dynamic)
    rows = [Dice(row) for row in draw(_JOBS) + (draw(_MORE_JOBS) if head.chance(30) else [])]
    jobs = _jobs(policy, ground, head, rows, others=dynamic and batsim == 4 and head.chance(40))
    last = (max(job.at for job in jobs) - ground.begin) / ground.unit + 30
    faults: dict[str, list[Dice]] = {kind: [] for kind in _KINDS_OF_FAULTS}
    for dice in map(Dice, draw(_FAULTS)):
        faults[dice.choice(_KINDS_OF_FAULTS)].append(dice)
    tables = _reservations(ground, last, faults["reservation"], dynamic=dynamic)
    if tables:
        options["host_reservations"] = tables
        if head.chance(50):
            jobs = [_in_reservation(job, tables, dice) for job, dice in zip(jobs, rows, strict=True)]
    if head.chance(35):
        jobs = [_with_checkpoints(job, dice) for job, dice in zip(jobs, rows, strict=True)]
    if policy in ON_NODES and ground.n_procs < 100:
        dice = Dice(draw(_NODES_HEAD))
        if dice.chance(40):
            ground = ground._replace(hosts=on_nodes.hosts_of(ground.n_procs, dice))
            if dice.chance(60):
                options["node_partitions"] = on_nodes.partitions_of(ground.hosts, ground.span, dice)
            requests = [Dice(draw(_REQUEST)) for _ in jobs]
            is_parted = "node_partitions" in options
            jobs = [
                on_nodes.with_request(job, one, in_partitions=is_parted)
                for job, one in zip(jobs, requests, strict=True)
            ]
    return Scene(
        policy,
        ground.n_procs,
        tuple(jobs),
        options,
        ground.hosts,
        _outages(ground, last, faults["outage"], offset=0.0371),
        _outages(ground, last, faults["drain"], offset=0.0137),
        tuple(Kill(ground.at(_instant(last, dice, 2)), dice.below(8)) for dice in faults["kill"]),
        tuple(round(ground.unit * dice.choice([1, 0.5, 3, 0]), 6) for dice in faults["late"] * head.choice([1, 3])),
        dynamic=dynamic,
        acknowledged=acknowledged,
        reuse=reuse,
        forward=forward,
        batsim=batsim,
    )


def _ground(policy: str, dice: Dice) -> _Ground:
    unit = dice.choice([1.0] * 8 + [0.1, 1 / 3, 1e-6, 1e-6, 1e-3, 1000.0])
    # At 1e9 s a double has no more than seven decimals: too few for spans of microseconds.
    begin = dice.choice([0.0] * 6 + [_LATE_BEGIN if unit > 1e-6 else 0.0] * 2 + [12_345.678901])
    if policy == "locality":
        machine = dice.choice(_FILE_NODES)
        hosts = tuple(machine.hosts)
        if dice.chance(20):  # then the option bandwidth has it
            hosts = tuple({key: text for key, text in host.items() if key != _BANDWIDTH} for host in hosts)
        classes = tuple(sorted({node.memory_gb for node in machine.nodes}))
        widest = max(node.n_cores for node in machine.nodes)
        return _Ground(machine.n_procs, hosts, widest, unit, begin, classes=classes)
    if policy == "reallocation":
        sizes = [1 + dice.below(8) for _ in range(1 + dice.below(3))] if dice.chance(50) else [4, 4]
        speed, is_reported = dice.choice([1, 2.5e9]), dice.chance(50)
        speeds = [speed * dice.choice([1, 1, 1.2, 1.4, 2]) if is_reported else None for _ in sizes]
        grid = Grid({f"c{nth}": (n, speeds[nth]) for nth, n in enumerate(sizes)})
        return _Ground(grid.n_procs, tuple(grid.hosts), max(sizes), unit, begin, tuple(grid.clusters))
    n_procs = dice.choice([1, 2, 3, 4, 4, 6, 8, 8, 12, 16])
    if dice.chance(4) and dice.chance(8):
        n_procs = 4_000
    hosts = ()
    if policy == "ujfb" and dice.chance(30) and n_procs < 100:
        memory = {"memory_gb": "48", "swap_bw_gbps": dice.choice(["6", "0.5"])}
        hosts = tuple({**memory, "vh": str(nth // 4)} for nth in range(n_procs))
    return _Ground(n_procs, hosts, n_procs, unit, begin)


# --- jobs ---


def _jobs(policy: str, ground: _Ground, head: Dice, rows: list[Dice], *, others: bool) -> list[Job]:
    n_workloads = head.choice([1, 1, 1, 2, 3])
    longest = head.choice([4, 12, 30])
    gaps: list[float] = head.choice([[0, 0, 1, 2, 5], [0], [0, 1, 1, 3, 30], [0, 0, 0, 0.5, 7]])
    mood = head.choice(["honest", "exact", "any", "any", "short"])
    kinds = head.choice([[DELAY], [DELAY], [DELAY, DELAY, DELAY, FAILS, WORK, PARTS]])
    widest = max(ground.widest // (2 if policy == "redirection" else 1), 1)
    at, jobs = 0.0, []
    for index, dice in enumerate(rows):
        at += dice.choice(gaps)
        n, run = 1 + dice.below(widest), 1 + dice.below(longest)
        if dice.chance(10):
            n = ground.widest + dice.chance(20)
        is_other = others and dice.chance(40)
        workload = OTHER if is_other else f"w{dice.below(n_workloads)}"
        kind = dice.choice(kinds)
        if kind == PARTS and is_other:
            kind = DELAY  # Batsim runs no composed profile that was made at run time
        fields = _times(ground, run, mood, dice) | _fields(policy, ground, run, dice)
        if kind == WORK:
            fields.pop("moldable", None)  # only times can be scaled
        jobs.append(Job(f"{workload}!{index}", ground.at(at), n, ground.span(run), kind, fields))
    return jobs


def _times(ground: _Ground, run: int, mood: str, dice: Dice) -> Drawn:
    """Draw walltime and estimate, right or wrong."""
    guess = run * dice.choice(_GUESSES[mood])
    fields = {"estimate": ground.span(guess)} if dice.chance(70) else {}
    if mood in {"honest", "exact"}:
        fields["walltime"] = ground.span(guess + 1)
    elif dice.chance(80):
        fields["walltime"] = ground.span(max(guess * dice.choice([1, 1, 2, 5]), 0.1))
    return fields


def _fields(policy: str, ground: _Ground, run: int, dice: Dice) -> Drawn:
    """Draw the fields that a policy reads."""
    fields: Drawn = {}
    if policy in {"dbf", "redirection"}:
        if dice.chance(60):
            fields["max_stay"] = ground.span(run * dice.choice([1, 2, 5, 20]) + dice.choice([0, 1, 10, 50]))
    elif policy in {"ujf", "ujfb", "easy"}:
        fields = {"urgent": True} if dice.chance(35) else {}
        if dice.chance(20):
            fields["memory_gb"] = dice.choice([0, 0.5, 12, 48])
    elif policy == "locality":
        if dice.chance(70):
            name = dice.choice(sorted(FILES))
            fields = {"input_file": name, "input_size_gb": FILES[name]}
        if dice.chance(25):
            fields["node_memory_gb"] = max(dice.choice([*ground.classes, 8]), fields.get("input_size_gb", 0))
        if dice.chance(10):
            fields |= {"history_node": dice.below(10), "history_start": -dice.below(10)}
    elif policy == "reallocation":
        kind = dice.below(3)
        if kind == 1:
            fields = {"external": True, "cluster": dice.choice(ground.clusters)}
        elif kind == 2:
            limit = dice.choice([1, 2, 3, ground.widest, 100])
            fields["moldable"] = {"fraction": dice.choice([0, 0.5, 0.8, 0.99, 1]), "limit": limit}
    return fields


def _in_reservation(job: Job, tables: list[Drawn], dice: Dice) -> Job:
    """Let some jobs ask for a reservation: their own, another one's, or none that there is."""
    if not dice.chance(30):
        return job
    asked = dice.choice([*(table["name"] for table in tables), "r9"])
    return replace(job, fields={**job.fields, "user": dice.choice(["alice", "bob"]), "reservation": asked})


def _with_checkpoints(job: Job, dice: Dice) -> Job:
    """Let most jobs write checkpoints: they take longer by their dumps."""
    interval_s = max(round(job.s * dice.choice([0.9, 0.5, 0.3, 0.1]), 6), 1e-6)
    dump_s, read_s = (round(job.s * dice.choice([0, 0.02, 0.1, 0.4]), 6) for _ in range(2))
    if not dice.chance(70) or not n_dumps(job.s, interval_s):
        return job
    times = {"checkpoint_interval_s": interval_s, "checkpoint_dump_s": dump_s, "checkpoint_read_s": read_s}
    fields = {**job.fields, **times, "checkpoint_work_s": job.s}
    for name in fields.keys() & {"walltime", "estimate"}:
        fields[name] = with_dumps_s(fields[name], interval_s, dump_s)
    return replace(job, s=with_dumps_s(job.s, interval_s, dump_s), fields=fields)


# --- options ---

#: Values of options that have many; None leaves an option out. Those with few, such as flags, take any.
_VALUES: Final[dict[str, list[Any]]] = {
    "order": [*[None] * len(_ORDERS), *_ORDERS],
    "backfill_order": [*[None] * 3 * len(_ORDERS), *_ORDERS],
    "assume_walltime": [*[None] * 8, 1e-6, 0.5, 5, 100, 1e12],
    "theta": [0, 0, 0, 0, 0.5, 1, 2, inf],
    "agent": ["support.agents:by_numbers", "pybatsched.gym:in_queue_order"],
    "window": [1, 2, 3, 5, 20, 32],
    "running": [1, 4, 16],
    "threshold": [0, 0.1, 1, 60],
}
#: Options of every policy, and those of SimGrid's clock, which the soak does not use.
_APART: Final = frozenset(
    ("predict", "correct", "on_failure", "expected_repair_s", "host_reservations", "node_partitions", "loads")
)


def choices(annotation: Any) -> tuple[Any, ...]:
    """Return all values of a type that has few."""
    inner = get_args(annotation)
    if annotation is bool or get_origin(annotation) is Literal:
        return inner or (True, False)
    return sum(map(choices, inner), ()) if get_origin(annotation) in {Union, UnionType} else ()


@lru_cache
def _values(policy: str) -> dict[str, list[Any]]:
    """Return the values that options of a policy may have."""
    values = {name: [None, *choices(one.annotation)] for name, one in registry.find(policy).option_fields.items()}
    if policy in _PLANNING:
        values["order"] = [*[None] * len(_FIXED_ORDERS), *_FIXED_ORDERS]
    known = {name: _VALUES.get(name, few) if len(few) == 1 else few for name, few in values.items()}
    return {name: few for name, few in known.items() if len(few) > 1 and name not in _APART}


def _options(policy: str, ground: _Ground, dice: Dice) -> Drawn:
    drawn = {name: dice.choice(values) for name, values in _values(policy).items()}
    options = {name: value for name, value in drawn.items() if value is not None}
    if policy in _MORE:
        _MORE[policy](options, ground, dice)
    return options


def _redirection(options: Drawn, ground: _Ground, dice: Dice) -> None:
    for group in ("principal", "redirected"):
        local = dice.choice(["easy", "fcfs", "conservative", "dbf", "ujf"])
        options |= {group: local, f"{group}_options": _options(local, ground, dice)}
    if options["redirected"] == "dbf":
        options["redirected_options"]["infeasible"] = "regular"
    alpha = dice.choice([0.5, 0, 0.15, 0.25, 0.9])
    if dice.chance(50) and ground.n_procs * (1 - alpha) >= 1:  # else there is no principal group
        options["alpha"] = alpha
    else:
        options["group_size"] = dice.below(ground.n_procs)


def _ujfb(options: Drawn, ground: _Ground, dice: Dice) -> None:
    swap_class = options.pop("swap_class", None)
    if options.get("swap") == "fixed":
        options |= {way: ground.span(dice.choice([0, 0.5, 1, 3])) for way in ("swap_out", "swap_in")}
        options["swap_in"] = dice.choice([0, options["swap_in"]])
    elif options.get("swap") == "uniform":
        options |= {"swap_out": [0.2, 2], "swap_in": [0, ground.span(3)], "seed": dice.below(9)}
    elif swap_class:
        options["swap_class"] = swap_class
    if ground.hosts and dice.chance(50):
        options["vh_memory_gb"] = dice.choice([0, 48, 200])


def _locality(options: Drawn, ground: _Ground, dice: Dice) -> None:
    options.setdefault("score", "fcfs")
    if dice.chance(25):
        del options["score"]
        options |= {name: dice.choice([0, 1, 500, 1e9]) for name in ("x1", "x2", "x3")}
    if _BANDWIDTH not in ground.hosts[0]:
        options["bandwidth"] = dice.choice([0.05, 0.5, 100])
    options["interval_s"] = dice.choice([0, 0.25, 3, 30])
    if options.get("bigger_nodes") == "area":
        options["areas"] = {f"{memory_gb:g}": dice.choice([0, 10, 1e4]) for memory_gb in ground.classes}


def _reallocation(options: Drawn, ground: _Ground, dice: Dice) -> None:
    options["period"] = max(round(ground.unit * dice.choice([10, 12.5, 20, 50, 1e4]), 6), 1)
    options["local"] = dice.choice(["conservative", "conservative", "fcfs"])
    options["local_options"] = _options("conservative", ground, dice) if options["local"] == "conservative" else {}


_MORE: Final = {
    "redirection": _redirection, "ujfb": _ujfb, "locality": _locality, "reallocation": _reallocation,
}  # fmt: skip


def _common_options(ground: _Ground, dice: Dice, *, dynamic: bool) -> Drawn:
    """Draw predictions, and what becomes of jobs on machines that fail."""
    options: Drawn = {}
    if dice.chance(20):
        options["correct"] = dice.choice(["requested", "doubling", "incremental"])
        if not dice.chance(10):
            options["predict"] = dice.choice(["last2", "mean2", "user_mean", "requested", "double", "linear"])
    if dice.chance(50 if dynamic else 10):
        options["on_failure"] = dice.choice([*(["requeue_first", "requeue_last", "resubmit"] * dynamic), "kill"])
    if dice.chance(15):
        options["expected_repair_s"] = ground.span(dice.choice([0.5, 3, 20]))
    return options


# --- faults ---


def _instant(last: float, dice: Dice, n_digits: int) -> float:
    """Draw when something happens: mostly at an instant of others."""
    return round(dice.part() * last, dice.choice([0, n_digits]))


def _reservations(ground: _Ground, last: float, rows: list[Dice], *, dynamic: bool) -> list[Drawn]:
    """Draw reservations, one after the other."""
    tables = []
    for nth, dice in enumerate(rows[:3]):
        n = 1 + dice.below(max(ground.n_procs // 3, 1))
        low = dice.below(ground.n_procs - n + 1)
        table: Drawn = {
            "name": f"r{nth}",
            "start": ground.at(nth * last / 3 + dice.part() * last / 8),
            "duration": ground.span(0.1 + dice.part() * (last / 8 - 0.1)),
            "hosts": f"{low}-{low + n - 1}",
            "conflict": dice.choice(["wait", "wait", "wait", "kill", *(["requeue", "requeue"] * dynamic)]),
        }
        if dice.chance(40):
            table["notice"] = ground.span(dice.choice([0, 0.05, 0.1, 0.25]) * last)
        if dice.chance(35):
            table["users"] = [dice.choice(["alice", "bob"])]
        tables.append(table)
    return tables


def _outages(ground: _Ground, last: float, rows: list[Dice], *, offset: float) -> tuple[Outage, ...]:
    """Draw machines that go, and mostly come back; no processor goes that is away."""
    away_until: dict[int, float] = {}
    found = []
    starts = sorted(((_instant(last, dice, 1), dice) for dice in rows), key=lambda one: one[0])
    for nth, (given, dice) in enumerate(starts):
        # Sums of late times are inexact: an end and an outage of one instant may come in either order. Jobs also start
        # when a machine returns, so each outage and each drain has an offset of its own.
        start = given + (offset + 0.00173 * nth if ground.begin == _LATE_BEGIN else 0)
        length = dice.choice([1, 3, 10, 40, inf]) if dice.chance(50) else 3
        first, n = dice.below(ground.n_procs), dice.choice([1, 1, 2, ground.n_procs])
        procs = [proc for proc in range(first, min(first + n, ground.n_procs)) if away_until.get(proc, -1) < start]
        if not procs:
            continue
        away_until |= dict.fromkeys(procs, start + length)
        at = ground.at(start)
        # Machines that come back at the moment they fail would stay unavailable: Batsim handles the return first.
        until = None if length == inf else max(ground.at(start + length), round(at + TICK, 6))
        is_run = len(procs) > 1 and procs[-1] - procs[0] + 1 == len(procs)
        found.append(Outage(at, until, f"{procs[0]}-{procs[-1]}" if is_run else " ".join(map(str, procs))))
    return tuple(found)
