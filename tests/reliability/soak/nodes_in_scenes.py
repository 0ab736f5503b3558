"""Scenes on nodes with memory and GPUs: random machines, requests and partitions, and rules for their schedules."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Final

from pybatsched.core.intervals import IntervalSet
from reliability.cases import Dice
from reliability.soak.scenes import Job

#: Bytes for a machine with its partitions, and for a job.
N_BYTES, N_OF_JOB = 90, 6
_REQUESTS: Final[tuple[dict[str, Any], ...]] = (
    {}, {"memory_gb": 1}, {"memory_gb": 2.5}, {"node_memory_gb": 6}, {"gpus_per_node": 1}, {"gpus_per_node": 2},
    {"gpus": 3}, {"n_nodes": "1-2"}, {"n_nodes": 2}, {"exclusive": True}, {"features": "ib"}, {"cores_per_node": 2},
    {"gpus_per_node": 1, "node_memory_gb": 4},
)  # fmt: skip
Host = dict[str, str]


def hosts_of(n_procs: int, dice: Dice) -> tuple[Host, ...]:
    """Draw the properties of hosts: nodes of one size, the last one may be smaller."""
    n_cores, hosts = dice.choice([2, 4, 1, 3]), list[Host]()
    for number in range(-(-n_procs // n_cores)):
        own = {"node": f"n{number}", "memory_gb": dice.choice(["8", "8", "16"])}
        own |= dice.choice([{}, {"gpus": "2"}, {"gpus": "a:1,b:2", "features": "ib"}])
        hosts += [own] * n_cores
    return tuple(hosts[:n_procs])


def partitions_of(hosts: Sequence[Host], span: Any, dice: Dice) -> str:
    """Draw partitions; the first is the default."""
    names, texts = list(dict.fromkeys(host["node"] for host in hosts)), []
    for name in "pqr"[: 1 + dice.below(3)]:
        first, n = dice.below(len(names)), 1 + dice.below(len(names))
        limits = [f"{names[first]}-{names[min(first + n, len(names)) - 1]}"] + ["default"] * (name == "p")
        limits += [f"max_time {span(dice.choice([3, 20])):f}"] * dice.chance(20)
        limits += [f"max_nodes {dice.choice([1, 2])}"] * dice.chance(20)
        limits += [f"priority {1 + dice.below(3)}"] * dice.chance(40)
        texts.append(f"{name}: {', '.join(limits)}")
    return "; ".join(texts)


def with_request(job: Job, dice: Dice, *, in_partitions: bool) -> Job:
    """Return a job with a random request, and perhaps with names of partitions; some do not exist."""
    fields = {name: value for name, value in job.fields.items() if name != "memory_gb"}
    fields |= dice.choice(_REQUESTS) if dice.chance(60) else {}
    if in_partitions and dice.chance(70):
        fields["partition"] = dice.choice(["p", "q", "r", "p,q", "r,q,p", "nowhere"])
    return replace(job, fields=fields)


# --- rules ---


def nodes_of(hosts: Sequence[Mapping[str, str]]) -> dict[str, IntervalSet]:
    """Return the processors of each node, by name."""
    places = groupby(range(len(hosts)), key=lambda proc: hosts[proc]["node"])
    return {name: IntervalSet(procs) for name, procs in places}


def allowed_nodes(text: str, names: Sequence[str], job: Job) -> list[set[str]]:
    """Return the nodes of each partition of a job. The description has ranges of nodes first, as drawn above."""
    found = {}
    for part in text.split("; "):
        name, _, rest = part.partition(": ")
        first, last = rest.split(", ")[0].split("-")
        found[name] = set(names[names.index(first) : names.index(last) + 1])
    named = str(job.fields.get("partition", "p")).split(",")
    return [nodes for name, nodes in found.items() if name in named]


def node_problems(
    hosts: Sequence[Mapping[str, str]], partitions: str | None, ran: Sequence[tuple[float, float, str, str, Job]]
) -> Iterator[str]:
    """Look for jobs on wrong nodes, and for nodes that hold more than they have.

    `ran` has start, end, processors, name and job of each segment. O(segments²).
    """
    nodes = nodes_of(hosts)
    of_node: dict[str, list[tuple[float, float, str, Job, int, float]]] = {name: [] for name in nodes}
    for start, end, text, name, job in ran:
        procs, fields = IntervalSet.parse(text), job.fields
        parts = {node: len(own & procs) for node, own in nodes.items() if not own.isdisjoint(procs)}
        if partitions and not any(parts.keys() <= allowed for allowed in allowed_nodes(partitions, [*nodes], job)):
            yield f"{name} runs on {', '.join(parts)}, which are in none of its partitions"
        fewest, _, most = str(fields.get("n_nodes", "")).partition("-")
        if fewest and not int(fewest) <= len(parts) <= int(most or fewest):
            yield f"{name} runs on {len(parts)} nodes; it requests {fields['n_nodes']}"
        n_gpus = fields.get("gpus_per_node", -(-fields.get("gpus", 0) // len(parts)))
        for node, n in parts.items():
            if fields.get("cores_per_node", n) != n:
                yield f"{name} has {n} processors on {node}; it requests {fields['cores_per_node']}"
            if fields.get("features", "") not in hosts[nodes[node].lowest].get("features", ""):
                yield f"{name} runs on {node}, which has no feature {fields['features']}"
            memory = fields.get("node_memory_gb", fields.get("memory_gb", 0) * n)
            of_node[node].append((start, end, name, job, n_gpus, memory))
    for node, jobs in of_node.items():
        properties = hosts[nodes[node].lowest]
        gpus = sum(int(part.rpartition(":")[2]) for part in properties.get("gpus", "0").split(","))
        for start, *_ in jobs:
            here = [one for one in jobs if one[0] <= start < one[1] - 2e-5 - 4 * math.ulp(one[1])]
            names = ", ".join(one[2] for one in here)
            if sum(one[4] for one in here) > gpus:
                yield f"GPUs of {node} are overcommitted at {start} by {names}"
            if sum(one[5] for one in here) > float(properties["memory_gb"]) + 1e-9:
                yield f"memory of {node} is overcommitted at {start} by {names}"
            if len(here) > 1 and any(one[3].fields.get("exclusive") for one in here):
                yield f"{node} is shared at {start} by {names}, of which one has it for itself"
