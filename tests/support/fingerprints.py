"""Print what the policies do with random workloads, a line each: builds that print the same lines have equal schedules.

    python -m support.fingerprints N

Each of the shipped policies gets N workloads with options of their own; a line holds a digest of the results of all
jobs, processor by processor, and of every message that was exchanged.
"""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any, Final

from pybatsched.core import events as e
from pybatsched.session.session import Session
from pybatsched.testing import FakeBatsim, Workload, plan_for
from support.located import BIG, DYNAMIC, SLOW, SMALL, Machine, crowd

N_PROCS: Final = 8
POLICIES: Final = (
    "fcfs", "easy", "conservative", "redirection", "dbf", "ujf", "ujfb", "locality", "reallocation",
    "published_predictsim",
)  # fmt: skip
NODES: Final = (Machine((SMALL,) * 3), Machine((SLOW, SMALL, BIG)))
#: Sites of a grid, by their hosts.
CLUSTERS: Final = [{"cluster": name} for name in ("a", "a", "a", "b", "b", "c", "c", "c")]


def drawn(dice: random.Random) -> Workload:
    """Draw jobs that often wait: some end early, some outlive their estimates or walltimes, some have none."""
    workload, now = Workload(), 0.0
    unit = dice.choice([1.0, 1.0, 0.1, 0.333333])
    for index in range(dice.randint(5, 30)):
        now = round(now + dice.choice([0, 0, 1, 1, 2, 5]) * unit, 6)
        run_s = round(dice.randint(1, 20) * unit, 6)
        guess_s = round(run_s * dice.choice([1, 1, 3, 10, 0.5]), 6)
        fields: dict[str, Any] = {"estimate": guess_s} if dice.randrange(3) else {}
        if dice.randrange(5) or not fields:
            fields["walltime"] = round(guess_s * dice.choice([1, 2, 2]), 6)
        if not dice.randrange(3):
            fields["max_stay"] = round((30 + 2 * dice.randint(1, 60)) * unit + 2 * guess_s, 6)
        if not dice.randrange(5):
            fields["urgent"] = True
        workload.job(f"{index:02}", n=dice.randint(1, N_PROCS), s=run_s, at=now, **fields)
    return workload


def setting(policy: str, dice: random.Random) -> tuple[Workload, int, list[dict[str, str]], dict[str, Any]]:
    """Draw a workload, the size of the machine, the properties of its hosts, and options."""
    if policy == "locality":
        machine = dice.choice(NODES)
        workload = crowd(machine, dice.randrange(2**32), dice.randint(5, 30))
        return workload, machine.n_procs, machine.hosts, {"score": dice.choice(["fcfs", "eft", "lea", "leo", "lem"])}
    options: dict[str, Any] = {}
    if policy in {"fcfs", "easy", "conservative", "dbf", "ujfb"}:
        options["order"] = dice.choice(["fcfs", "fcfs", "sjf", "widest", "smallest_area", "urgent_first"])
    if policy in {"conservative", "dbf", "ujfb"}:
        options["compression"] = bool(dice.randrange(4))
    if policy == "redirection":
        options = {"group_size": dice.randint(1, 4), "theta": dice.choice([0, 1, 3])}
        options["principal"] = dice.choice(["easy", "conservative"])
    if policy == "ujfb":
        options |= {"swap": "fixed", "swap_out": dice.choice([0, 0.5, 2]), "swap_in": dice.choice([0, 2])}
    if policy == "published_predictsim":
        options = {"backfill_order": dice.choice(["fcfs", "sjf"]), "predict": dice.choice(["last2", "mean2", "double"])}
        options["correct"] = dice.choice(["requested", "doubling", "incremental"])
    hosts = CLUSTERS if policy == "reallocation" else []
    return drawn(dice), N_PROCS, hosts, options


def outages(dice: random.Random) -> list[tuple[float, str, str]]:
    """Draw machines that go and return, for every fourth workload."""
    if dice.randrange(4):
        return []
    gone_at = dice.randint(0, 30)
    first = dice.randrange(N_PROCS)
    procs = f"{first}-{min(first + 2, N_PROCS - 1)}" if first < N_PROCS - 1 else str(first)
    back_at = gone_at + dice.randint(1, 20)
    return [(float(gone_at), e.MACHINES_UNAVAILABLE, procs), (float(back_at), e.MACHINES_AVAILABLE, procs)]


def fingerprint(policy: str, seed: int) -> str:
    """Run a policy on the workload of a seed; what it raises is part of the answer."""
    dice = random.Random(f"{policy} {seed}")
    workload, n_procs, hosts, options = setting(policy, dice)
    events = outages(dice) if policy in {"fcfs", "easy", "conservative", "dbf", "published_predictsim"} else []
    digest = hashlib.sha256()
    session = Session(plan_for(policy, **options), checked=True)

    def exchange(message: bytes) -> bytes:
        reply = session.handle(message)
        digest.update(message + b"\n" + reply + b"\n")
        return reply

    fake = FakeBatsim(workload, n_procs, config=DYNAMIC, machine_events=events, hosts=hosts)
    try:
        fake.run(exchange)
    except Exception as error:  # noqa: BLE001  both builds must say the same
        digest.update(f"{type(error).__name__}: {error}".encode())
    for job in fake.jobs.values():
        digest.update(f"{job}".encode())
    return digest.hexdigest()[:16]


def lines(n: int) -> Iterator[str]:
    """Return a line for each policy and seed."""
    for policy in POLICIES:
        for seed in range(n):
            yield f"{policy} {seed} {fingerprint(policy, seed)}"


if __name__ == "__main__":
    print(f"# {'plain' if find_spec('pybatsched.policies._profile') is None else 'compiled'}")
    for line in lines(int(sys.argv[1])):
        print(line)
