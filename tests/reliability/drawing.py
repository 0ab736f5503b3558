"""Random scenes: the same policy and seed give the same scene on every machine."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, Final, NamedTuple

from support.gridded import Grid
from support.located import BIG, FILES, HUGE, SLOW, SMALL, Machine, Node

from pybatsched.core.checkpoints import n_dumps, with_dumps_s
from pybatsched.core.instants import TICK
from pybatsched.policies.orders import ALIASES, NAMED_ORDERS, parse_order
from reliability.scenes import DELAY, FAILS, OTHER, PARTS, WORK, Job, Kill, Outage, Scene

POLICIES: Final = (
    "fcfs", "easy", "conservative", "redirection", "dbf", "ujf", "ujfb", "locality", "reallocation", "rl",
)  # fmt: skip
#: Policies that register jobs, and so need dynamic jobs.
REGISTERING: Final = frozenset(("redirection", "ujfb", "locality", "reallocation"))
ORDERS: Final = (*NAMED_ORDERS, *ALIASES, "estimate / procs", "-max(wait, 60) * procs / estimate")
FIXED_ORDERS: Final = tuple(order for order in ORDERS if not parse_order(order).varies)
_NODES: Final = (
    Machine((SMALL,)),
    Machine((SMALL,) * 3),
    Machine((Node(2, 16, 0.25),) * 4),
    Machine((SLOW, SMALL, SMALL)),
    Machine((SMALL, BIG)),
    Machine((SMALL, BIG, HUGE, Node(8, 16, 2))),
    Machine((Node(1, 16, 0.5),) * 2),
)
#: Estimates as parts of run times, by how right they are.
_GUESSES: Final[dict[str, list[float]]] = {
    "honest": [1, 1, 2, 10],
    "exact": [1],
    "short": [0.2, 0.5, 1],
    "any": [0.1, 0.5, 1, 1, 2, 10],
}
#: The property of a node with its speed of reading files.
BANDWIDTH: Final = "fs_bw_gbps"
#: When scenes begin that begin late.
LATE_BEGIN: Final = 1e9
Dice = random.Random
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


def drawn(policy: str, seed: int) -> Scene:
    """Draw a scene: machine, jobs, options of the policy, faults. O(jobs + processors)."""
    dice = random.Random(f"{policy} {seed}")
    ground = _ground(policy, dice)
    dynamic = policy in REGISTERING or dice.random() < 0.4
    batsim = 5 if dice.random() < 0.15 else 4
    others = dynamic and batsim == 4 and dice.random() < 0.4
    jobs = _jobs(policy, ground, dice, others=others)
    last = (max(job.at for job in jobs) - ground.begin) / ground.unit + 30
    faults = _faults(ground, last, random.Random(f"faults {policy} {seed}"), dynamic=dynamic)
    jobs = _in_reservations(jobs, faults, random.Random(f"reservations {policy} {seed}"))
    drains = random.Random(f"drains {policy} {seed}")
    return Scene(
        policy,
        ground.n_procs,
        _with_checkpoints(jobs, random.Random(f"checkpoints {policy} {seed}")),
        OPTIONS[policy](ground, dice) | _predictions(random.Random(f"predictions {policy} {seed}")) | faults,
        ground.hosts,
        _outages(ground, last, dice, offset=0.0371) if dice.random() < 0.45 else (),
        _outages(ground, last, drains, offset=0.0137) if drains.random() < 0.2 else (),
        _kills(ground, last, dice) if dice.random() < 0.35 else (),
        _late(ground, dice) if dice.random() < 0.2 else (),
        dynamic=dynamic,
        acknowledged=dynamic and dice.random() < 0.5,
        reuse=dynamic and dice.random() < 0.5,
        forward=dice.random() < 0.3,
        batsim=batsim,
    )


def _ground(policy: str, dice: Dice) -> _Ground:
    unit = dice.choice([1.0] * 8 + [0.1, 1 / 3, 1e-6, 1e-6, 1e-3, 1000.0])
    # At 1e9 s a double has no more than seven decimals: too few for spans of microseconds.
    begin = dice.choice([0.0] * 6 + [LATE_BEGIN if unit > 1e-6 else 0.0] * 2 + [12_345.678901])
    if policy == "locality":
        machine = dice.choice(_NODES)
        widest = max(node.n_cores for node in machine.nodes)
        classes = tuple(sorted({node.memory_gb for node in machine.nodes}))
        hosts = tuple(machine.hosts)
        if dice.random() < 0.2:  # then the option bandwidth has it
            hosts = tuple({key: text for key, text in host.items() if key != BANDWIDTH} for host in hosts)
        return _Ground(machine.n_procs, hosts, widest, unit, begin, classes=classes)
    if policy == "reallocation":
        sizes = dice.choice([[4, 4], [dice.randint(1, 8) for _ in range(dice.randint(1, 3))]])
        speed = dice.choice([1, 2.5e9])
        is_reported = dice.random() < 0.5
        speeds = [speed * dice.choice([1, 1, 1.2, 1.4, 2]) if is_reported else None for _ in sizes]
        grid = Grid({f"c{nth}": (n, speeds[nth]) for nth, n in enumerate(sizes)})
        clusters = tuple(grid.clusters)
        return _Ground(grid.n_procs, tuple(grid.hosts), max(sizes), unit, begin, clusters)
    n_procs = dice.choice([1, 2, 3, 4, 4, 6, 8, 8, 12, 16])
    if dice.random() < 0.003:
        n_procs = 4_000
    hosts = ()
    if policy == "ujfb" and dice.random() < 0.3 and n_procs < 100:
        hosts = tuple(
            {"memory_gb": "48", "swap_bw_gbps": dice.choice(["6", "0.5"]), "vh": str(nth // 4)}
            for nth in range(n_procs)
        )
    return _Ground(n_procs, hosts, n_procs, unit, begin)


def _jobs(policy: str, ground: _Ground, dice: Dice, *, others: bool) -> tuple[Job, ...]:
    n_jobs = dice.choice([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 12])
    if dice.random() < 0.02:
        n_jobs = 40
    n_workloads = dice.choice([1, 1, 1, 2, 3])
    longest = dice.choice([4, 12, 30])
    gaps: list[float] = dice.choice([[0, 0, 1, 2, 5], [0], [0, 1, 1, 3, 30], [0, 0, 0, 0.5, 7]])
    mood = dice.choice(["honest", "exact", "any", "any", "short"])
    kinds = dice.choice([[DELAY], [DELAY], [DELAY, DELAY, DELAY, FAILS, WORK, PARTS]])
    at, jobs = 0.0, []
    for index in range(n_jobs):
        at += dice.choice(gaps)
        is_other = others and dice.random() < 0.4
        workload = OTHER if is_other else f"w{dice.randrange(n_workloads)}"
        kind = dice.choice(kinds)
        if kind == PARTS and is_other:
            kind = DELAY  # Batsim runs no composed profile that was made at run time
        run = dice.randint(1, longest)
        n = dice.randint(1, max(ground.widest // (2 if policy == "redirection" else 1), 1))
        if dice.random() < 0.1:
            n = ground.widest + (dice.random() < 0.2)
        fields = _times(ground, run, mood, dice) | FIELDS.get(policy, _no_fields)(ground, run, dice)
        if "moldable" in fields and kind == WORK:
            del fields["moldable"]  # only times can be scaled
        jobs.append(Job(f"{workload}!{index}", ground.at(at), n, ground.span(run), kind, fields))
    return tuple(jobs)


def _times(ground: _Ground, run: int, mood: str, dice: Dice) -> Drawn:
    """Draw walltime and estimate, right or wrong."""
    guess = run * dice.choice(_GUESSES[mood])
    fields: Drawn = {}
    if mood in {"honest", "exact"}:
        fields["walltime"] = ground.span(guess + 1)
        if dice.random() < 0.7:
            fields["estimate"] = ground.span(guess)
        return fields
    if dice.random() < 0.7:
        fields["estimate"] = ground.span(guess)
    if dice.random() < 0.8:
        fields["walltime"] = ground.span(max(guess * dice.choice([1, 1, 2, 5]), 0.1))
    return fields


def _with_checkpoints(jobs: tuple[Job, ...], dice: Dice) -> tuple[Job, ...]:
    """Let jobs of some scenes write checkpoints: they take longer by their dumps."""
    if dice.random() < 0.65:
        return jobs
    found = []
    for job in jobs:
        interval_s = max(round(job.s * dice.choice([0.1, 0.3, 0.5, 0.9]), 6), 1e-6)
        dump_s, read_s = (round(job.s * dice.choice([0, 0.02, 0.1, 0.4]), 6) for _ in range(2))
        if dice.random() < 0.3 or not n_dumps(job.s, interval_s):
            found.append(job)
            continue
        times = {"checkpoint_interval_s": interval_s, "checkpoint_dump_s": dump_s, "checkpoint_read_s": read_s}
        fields = {**job.fields, **times, "checkpoint_work_s": job.s}
        for name in fields.keys() & {"walltime", "estimate"}:
            fields[name] = with_dumps_s(fields[name], interval_s, dump_s)
        found.append(replace(job, s=with_dumps_s(job.s, interval_s, dump_s), fields=fields))
    return tuple(found)


def _in_reservations(jobs: tuple[Job, ...], options: Drawn, dice: Dice) -> tuple[Job, ...]:
    """Let some users reserve hosts, and let some jobs ask for a reservation: their own, another one's, or none."""
    tables = options.get("host_reservations", ())
    if not tables or dice.random() < 0.5:
        return jobs
    for table in tables:
        if dice.random() < 0.7:
            table["users"] = [dice.choice(["alice", "bob"])]
    asked = [*(table["name"] for table in tables), "r9"]
    return tuple(
        replace(job, fields={**job.fields, "user": dice.choice(["alice", "bob"]), "reservation": dice.choice(asked)})
        if dice.random() < 0.3
        else job
        for job in jobs
    )


def _no_fields(_ground: _Ground, _run: int, _dice: Dice) -> Drawn:
    return {}


def _urgency(_ground: _Ground, _run: int, dice: Dice) -> Drawn:
    fields: Drawn = {"urgent": True} if dice.random() < 0.35 else {}
    if dice.random() < 0.2:
        fields["memory_gb"] = dice.choice([0, 0.5, 12, 48])
    return fields


def _deadlines(ground: _Ground, run: int, dice: Dice) -> Drawn:
    if dice.random() < 0.4:
        return {}
    return {"max_stay": ground.span(run * dice.choice([1, 2, 5, 20]) + dice.choice([0, 1, 10, 50]))}


def _files(ground: _Ground, _run: int, dice: Dice) -> Drawn:
    fields: Drawn = {}
    if dice.random() < 0.7:
        name = dice.choice(sorted(FILES))
        fields = {"input_file": name, "input_size_gb": FILES[name]}
    if dice.random() < 0.25:
        fields["node_memory_gb"] = max(dice.choice([*ground.classes, 8]), fields.get("input_size_gb", 0))
    if dice.random() < 0.1:
        fields |= {"history_node": dice.randint(0, 9), "history_start": -dice.randint(0, 9)}
    return fields


def _grid_fields(ground: _Ground, _run: int, dice: Dice) -> Drawn:
    kind = dice.randrange(3)
    if kind == 0:
        return {"external": True, "cluster": dice.choice(ground.clusters)}
    if kind == 1:
        limit = dice.choice([1, 2, 3, ground.widest, 100])
        return {"moldable": {"fraction": dice.choice([0, 0.5, 0.8, 0.99, 1]), "limit": limit}}
    return {}


FIELDS: Final = {
    "dbf": _deadlines, "redirection": _deadlines, "ujf": _urgency, "ujfb": _urgency, "easy": _urgency,
    "locality": _files, "reallocation": _grid_fields,
}  # fmt: skip


def _predictions(dice: Dice) -> Drawn:
    """Draw the options that every policy has."""
    if dice.random() < 0.8:
        return {}
    options: Drawn = {"correct": dice.choice(["requested", "doubling", "incremental"])}
    if dice.random() < 0.9:
        options["predict"] = dice.choice(["last2", "mean2", "user_mean", "requested", "double", "linear"])
    return options


def _faults(ground: _Ground, last: float, dice: Dice, *, dynamic: bool) -> Drawn:
    """Draw what becomes of jobs on machines that fail, known repairs, and reservations of hosts."""
    options: Drawn = {}
    if dice.random() < (0.5 if dynamic else 0.1):
        options["on_failure"] = dice.choice([*(["requeue_first", "requeue_last", "resubmit"] * dynamic), "kill"])
    if dice.random() < 0.15:
        options["expected_repair_s"] = ground.span(dice.choice([0.5, 3, 20]))
    if dice.random() < 0.2:
        tables = []
        for nth in range(dice.randint(1, 3)):
            n = dice.randint(1, max(ground.n_procs // 3, 1))
            low = dice.randint(0, ground.n_procs - n)
            table: Drawn = {
                "name": f"r{nth}",
                "start": ground.at(nth * last / 3 + dice.uniform(0, last / 8)),
                "duration": ground.span(dice.uniform(0.1, last / 8)),
                "hosts": f"{low}-{low + n - 1}",
                "conflict": dice.choice(["wait", "wait", "wait", "kill", *(["requeue", "requeue"] * dynamic)]),
            }
            if dice.random() < 0.4:
                table["notice"] = ground.span(dice.uniform(0, last / 4))
            tables.append(table)
        options["host_reservations"] = tables
    return options


def _queue(_ground: _Ground, dice: Dice) -> Drawn:
    options: Drawn = {}
    if dice.random() < 0.5:
        options["order"] = dice.choice(ORDERS)
    if dice.random() < 0.4:
        options["assume_walltime"] = dice.choice([1e-6, 0.5, 5, 100, 1e12])
    return options


def _planned(ground: _Ground, dice: Dice) -> Drawn:
    options = _queue(ground, dice)
    if "order" in options:
        options["order"] = dice.choice(FIXED_ORDERS)
    if dice.random() < 0.4:
        options["compression"] = dice.random() < 0.3
    return options


def _dbf(ground: _Ground, dice: Dice) -> Drawn:
    return _planned(ground, dice) | {
        "fixpoint": dice.random() < 0.8,
        "promote": dice.choice(["max", "each"]),
        "infeasible": dice.choice(["regular", "regular", "reject"]),
    }


def _easy(ground: _Ground, dice: Dice) -> Drawn:
    options = _queue(ground, dice)
    if dice.random() < 0.3:
        options["backfill_order"] = dice.choice(ORDERS)
    return options


_LOCALS: Final = {"fcfs": _queue, "easy": _easy, "conservative": _planned, "dbf": _dbf, "ujf": _queue}


def _redirection(ground: _Ground, dice: Dice) -> Drawn:
    options: Drawn = {
        "theta": dice.choice([0, 0, 0, 0, 0.5, 1, 2, float("inf")]),
        "filter": dice.choice(["q", "w", "none", "w_paper"]),
        "decision": dice.choice(["per_job", "per_round"]),
        "count_backfilled": dice.random() < 0.5,
        "conflict": dice.choice(["greatest_walltime", "greatest_count", "latest_start", "widest"]),
    }
    for group in ("principal", "redirected"):
        local = dice.choice(sorted(_LOCALS))
        options[group] = local
        options[f"{group}_options"] = _LOCALS[local](ground, dice)
    if options["redirected"] == "dbf":
        options["redirected_options"]["infeasible"] = "regular"
    alpha = dice.choice([0, 0.15, 0.25, 0.5, 0.9])
    if dice.random() < 0.5 and ground.n_procs * (1 - alpha) >= 1:  # else there is no principal group
        return options | {"alpha": alpha}
    return options | {"group_size": dice.randrange(ground.n_procs)}


def _ujfb(ground: _Ground, dice: Dice) -> Drawn:
    options = _planned(ground, dice) | {
        "victim_order": dice.choice(["start_order", "longest_remaining", "fewest"]),
        "pd": dice.choice(["max", "serial"]),
        "mode": dice.choice(["suspend", "suspend", "suspend", "kill_restart"]),
        "resume_same_resources": dice.random() < 0.7,
        "urgent_order": dice.choice(["fcfs", "shortest"]),
        "swap": dice.choice(["bandwidth", "uniform", "fixed", "fixed"]),
    }
    if options["swap"] == "fixed":
        options |= {way: ground.span(dice.choice([0, 0.5, 1, 3])) for way in ("swap_out", "swap_in")}
        options["swap_in"] = dice.choice([0, options["swap_in"]])
    elif options["swap"] == "uniform":
        options |= {"swap_out": [0.2, 2], "swap_in": [0, ground.span(3)], "seed": dice.randrange(9)}
    elif dice.random() < 0.3:
        options["swap_class"] = dice.choice("ABCD")
    if ground.hosts and dice.random() < 0.5:
        options["vh_memory_gb"] = dice.choice([0, 48, 200])
    return options


def _locality(ground: _Ground, dice: Dice) -> Drawn:
    options: Drawn = {"score": dice.choice(["fcfs", "eft", "lea", "leo", "lem"])}
    if dice.random() < 0.25:
        options = {name: dice.choice([0, 1, 500, 1e9]) for name in ("x1", "x2", "x3")}
    if dice.random() < 0.5:
        options["assume_walltime"] = dice.choice([0.5, 20, 1e9])
    if BANDWIDTH not in ground.hosts[0]:
        options["bandwidth"] = dice.choice([0.05, 0.5, 100])
    options["faithful"] = "score" in options and dice.random() < 0.3
    if options["faithful"]:
        return options | {"interval_s": dice.choice([1, 5, 30])}
    options |= {"backfill": dice.random() < 0.5, "persistence": dice.random() < 0.5}
    options["interval_s"] = dice.choice([0, 0.25, 3, 30])
    options["bigger_nodes"] = dice.choice(["never", "never", "idle", "area"])
    if options["bigger_nodes"] == "area":
        options["areas"] = {f"{memory_gb:g}": dice.choice([0, 10, 1e4]) for memory_gb in ground.classes}
    return options


def _reallocation(ground: _Ground, dice: Dice) -> Drawn:
    local = dice.choice(["conservative", "conservative", "fcfs"])
    given = _planned(ground, dice) if local == "conservative" else {}
    return {
        "algorithm": dice.choice(["none", "regular", "regular", "all_cancellation", "all_cancellation"]),
        "heuristic": dice.choice(["mct", "minmin"]),
        "sizing": dice.choice(["binary", "exhaustive"]),
        "period": max(round(ground.unit * dice.choice([10, 12.5, 20, 50, 1e4]), 6), 1),
        "threshold": dice.choice([0, 0.1, 1, 60]),
        "window": dice.choice([1, 2, 3, 20]),
        "local": local,
        "local_options": given,
    }


def _rl(ground: _Ground, dice: Dice) -> Drawn:
    return _queue(ground, dice) | {
        "agent": dice.choice(["support.agents:by_numbers", "pybatsched.gym:in_queue_order"]),
        "window": dice.choice([1, 2, 5, 32]),
        "running": dice.choice([1, 4, 16]),
        "reservations": dice.random() < 0.7,
    }


OPTIONS: Final = {
    "fcfs": _queue, "easy": _easy, "conservative": _planned, "redirection": _redirection, "dbf": _dbf, "ujf": _queue,
    "ujfb": _ujfb, "locality": _locality, "reallocation": _reallocation, "rl": _rl,
}  # fmt: skip


def _outages(ground: _Ground, last: float, dice: Dice, *, offset: float) -> tuple[Outage, ...]:
    """Draw machines that go, and mostly come back; no processor goes that is away."""
    away_until: dict[int, float] = {}
    found = []
    starts = sorted(round(dice.uniform(0, last), dice.choice([0, 1])) for _ in range(dice.choice([1, 1, 2, 5])))
    if ground.begin == LATE_BEGIN:
        # Sums of such times are inexact: an end and an outage of one instant may come in either order. Jobs also start
        # when a machine returns, so each outage and each drain has an offset of its own.
        starts = [start + offset + 0.00173 * nth for nth, start in enumerate(starts)]
    for start in starts:
        length = dice.choice([1, 3, 10, 40])
        first = dice.randrange(ground.n_procs)
        n = dice.choice([1, 1, 2, ground.n_procs])
        procs = [proc for proc in range(first, min(first + n, ground.n_procs)) if away_until.get(proc, -1) < start]
        if not procs:
            continue
        for_good = dice.random() < 0.1
        away_until |= dict.fromkeys(procs, float("inf") if for_good else start + length)
        at = ground.at(start)
        # Machines that come back at the moment they fail would stay unavailable: Batsim handles the return first.
        until = None if for_good else max(ground.at(start + length), round(at + TICK, 6))
        runs = f"{procs[0]}-{procs[-1]}" if len(procs) > 1 and procs[-1] - procs[0] + 1 == len(procs) else ""
        found.append(Outage(at, until, runs or " ".join(map(str, procs))))
    return tuple(found)


def _kills(ground: _Ground, last: float, dice: Dice) -> tuple[Kill, ...]:
    return tuple(
        Kill(ground.at(round(dice.uniform(0, last), dice.choice([0, 2]))), dice.randrange(8))
        for _ in range(dice.choice([1, 1, 2, 4]))
    )


def _late(ground: _Ground, dice: Dice) -> tuple[float, ...]:
    return tuple(round(ground.unit * dice.choice([0, 0, 0.5, 1, 3]), 6) for _ in range(dice.choice([1, 3])))
