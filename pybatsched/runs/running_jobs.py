"""The processors of jobs that run when a window of a log begins, from the names of their nodes in the log."""

from __future__ import annotations

from collections.abc import Mapping, Set as AbstractSet
from dataclasses import replace

from pybatsched.core.intervals import IntervalSet
from pybatsched.core.node_lists import nodes_in
from pybatsched.core.services.running_at_start import FIELD as RUNNING_AT_START
from pybatsched.platform.groups import property_of
from pybatsched.platform.model import Platform
from pybatsched.workload.model import Workload


def placed(workloads: Mapping[str, Workload], platform: Platform) -> dict[str, Workload]:
    """Return the workloads with the processors of jobs that run at the start, where the platform has their nodes.

    These are hosts with the names of the job's nodes in the log, or hosts with these names as the property `node`. The
    other jobs that run at the start get the lowest processors that are left. Without such hosts nothing changes.
    """
    found = dict(workloads)
    nodes: dict[str, list[int]] | None = None
    chosen: dict[tuple[str, int], list[int]] = {}
    others: list[tuple[str, int]] = []
    used = set[int]()
    for name, workload in workloads.items():
        lists = workload.values("node_list")
        for place, is_running in enumerate(workload.values(RUNNING_AT_START)):
            if is_running is not True:
                continue
            if nodes is None:
                nodes = _procs_by_node(platform)
            procs = _procs_on(nodes, lists[place], workload.jobs[place]["res"], used)
            if procs:
                used.update(procs)
                chosen[name, place] = procs
            else:
                others.append((name, place))
    if not chosen:
        return found
    for name, place in others:
        free = [proc for proc in range(platform.n_procs) if proc not in used]
        chosen[name, place] = free[: workloads[name].jobs[place]["res"]]
        used.update(chosen[name, place])
    for name, workload in workloads.items():
        jobs = list(workload.jobs)
        for (of, place), procs in chosen.items():
            if of == name and procs:
                jobs[place] = {**jobs[place], RUNNING_AT_START: str(IntervalSet(procs))}
        found[name] = replace(workload, jobs=jobs, batsim=0)
    return found


def _procs_by_node(platform: Platform) -> dict[str, list[int]]:
    by_node: dict[str, list[int]] = {}
    for proc, host in enumerate(platform.compute):
        for name in {host.name, property_of(host, "node") or host.name}:
            by_node.setdefault(name, []).append(proc)
    return by_node


def _procs_on(nodes: Mapping[str, list[int]], node_list: str | None, n: int, used: AbstractSet[int]) -> list[int]:
    """Return free processors of a job on its nodes, as many on each as possible; empty if they do not suffice."""
    try:
        names = nodes_in(node_list or "")
    except ValueError:  # None assigned
        names = []
    if not names or not all(name in nodes for name in names):
        return []
    left = [[proc for proc in nodes[name] if proc not in used] for name in names]
    found: list[int] = []
    for place, procs in enumerate(left):
        share = -(-(n - len(found)) // (len(left) - place))
        found += procs[:share]
    missing = n - len(found)
    more = [proc for procs in left for proc in procs if proc not in found]
    return [*found, *more[:missing]] if missing <= len(more) else []
