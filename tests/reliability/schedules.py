"""Rules that every schedule must keep, independent of the package."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from pybatsched.core import events as e
from pybatsched.core.intervals import IntervalSet
from reliability.playing import Fate
from reliability.scenes import FAILS, OTHER, WORK, Job, Scene

#: What a run is rounded to, and a little more; jobs of no time are written down with ten ticks.
TICK: Final = 1.5e-6
NO_TIME_S: Final = 1.2e-5


def inexact(at: float) -> float:
    """Return the possible error of times around an instant: clocks far from 0 have few decimals."""
    return NO_TIME_S + TICK + 4 * math.ulp(at)


def schedule_problems(scene: Scene, fates: dict[str, Fate]) -> list[str]:
    """Return what is wrong with a schedule."""
    rows, problems = lineages(scene, fates)
    problems += _processors(scene, fates)
    if not problems:
        for job in scene.jobs:
            problems += _one_job(scene, job, rows[job.id])
        problems += ORDERLY.get(scene.policy, _nothing_more)(scene, rows)
    return problems


def fields_of(note: str) -> dict[str, str]:
    """Return the fields of a note on a job."""
    return dict(part.partition("=")[::2] for part in note.split(";") if part)


Rows = dict[str, list[Fate]]


def lineages(scene: Scene, fates: dict[str, Fate]) -> tuple[Rows, list[str]]:
    """Combine the segments of each job in order, and report jobs that are lost or finished more than once."""
    found: dict[str, list[tuple[int, Fate]]] = {job.id: [] for job in scene.jobs}
    problems = []
    for name, fate in fates.items():
        fields = fields_of(fate.note)
        if "unused_spare_of" in fields:
            continue
        parent = fields.get("parent", name)
        if parent not in found:
            problems.append(f"{name} belongs to no job that was submitted")
        else:
            found[parent].append((int(fields.get("segment", "0")), fate))
    for name, parts in found.items():
        parts.sort()
        numbers = [number for number, _ in parts]
        if not parts or len(set(numbers)) < len(numbers) or numbers[0] != 0:
            problems.append(f"{name} is lost: its parts are {numbers}")
            continue
        for number, fate in parts[:-1]:
            if fate.state != e.COMPLETED_KILLED and not (fate.state == e.REJECTED and "replaced_by" in fate.note):
                problems.append(f"{name} goes on after its part {number}, which is {fate.state or 'not over'}")
        last = parts[-1][1]
        if last.state not in e.FINAL_STATES or (last.state == e.REJECTED and "replaced_by" in last.note):
            problems.append(f"{name} has no end: its last part is {last.state or 'not over'}")
        if last.state == e.COMPLETED_KILLED and not last.by_others and not scene.may_lose_jobs:
            problems.append(f"{name} was killed by its own scheduler, and never went on")
    return {name: [fate for _, fate in parts] for name, parts in found.items()}, problems


def _processors(scene: Scene, fates: dict[str, Fate]) -> Iterator[str]:
    """Look for processors with two jobs at a time, and for jobs that start where no machine is. O(n log n)."""
    held: dict[int, list[tuple[float, float, str]]] = {}
    for name, fate in fates.items():
        if fate.start >= 0:
            for proc in IntervalSet.parse(fate.procs):
                held.setdefault(proc, []).append((fate.start, fate.end, name))
    for proc, spans in held.items():
        spans.sort()
        for (_, end, one), (start, _, other) in pairwise(spans):
            if start < end - inexact(end):
                yield f"processor {proc} is used twice: by {one} until {end} and by {other} from {start}"
    for outage in scene.outages:
        until = float("inf") if outage.until is None else outage.until
        for proc in IntervalSet.parse(outage.procs):
            for start, _, name in held.get(proc, ()):
                if outage.at + inexact(start) < start < until - inexact(start):
                    yield f"{name} starts at {start} on processor {proc}, which is away from {outage.at} to {until}"


def _one_job(scene: Scene, job: Job, chain: list[Fate]) -> Iterator[str]:
    """Check the times of a job."""
    ran = [fate for fate in chain if fate.start >= 0]
    after = job.at - TICK
    for fate in ran:
        if fate.start < after:
            yield f"{job.id} starts at {fate.start}, before {after}"
        after = fate.end - inexact(fate.end)
    last = chain[-1]
    if last.state == e.COMPLETED_SUCCESSFULLY and job.kind == FAILS and len(chain) == 1:
        yield f"{job.id} succeeds, but it is to fail"
    if last.state == e.REJECTED and not ran:
        yield from _rejected(scene, job)
    is_itself = scene.policy != "reallocation"
    if is_itself and last.state == (e.COMPLETED_FAILED if job.kind == FAILS else e.COMPLETED_SUCCESSFULLY):
        did = _work_done(ran)
        # What is left of a parallel task is known by Batsim's progress, which has six decimals.
        by_progress_s = TICK * job.s if job.kind == WORK else 0.0
        if abs(did - job.s) > (inexact(last.end) + by_progress_s) * len(ran):
            yield f"{job.id} has done {did} s of work; it is to do {job.s} s"
    if is_itself and last.state == e.COMPLETED_WALLTIME_REACHED and len(chain) == 1:
        took = last.end - last.start
        if job.walltime is None or abs(took - job.walltime) > inexact(last.end):
            yield f"{job.id} is stopped at its walltime after {took} s; that is {job.walltime}"


def _work_done(ran: list[Fate]) -> float:
    """Return the seconds of work that count: those of all parts that went on with the rest, without swaps and loads."""
    did = 0.0
    for fate in reversed(ran):
        fields = fields_of(fate.note)
        did += max(fate.end - fate.start - float(fields.get("extra_s", 0)), 0.0)
        if fields.get("work") != "rest":
            break
    return did


def _rejected(scene: Scene, job: Job) -> Iterator[str]:
    """Check the reason of a rejection: a job that can run is not rejected, if all machines come back."""
    rule, options = scene.policy, scene.options
    if rule == "redirection":  # all jobs come to the principal group
        rule, options = options.get("principal", "easy"), options.get("principal_options", {})
    elif rule == "reallocation":
        rule, options = options.get("local", "conservative"), options.get("local_options", {})
    needs_end = rule in {"conservative", "dbf", "ujfb", "locality"}
    end = job.walltime if rule == "locality" else job.estimate
    is_endless = needs_end and end is None and "assume_walltime" not in options
    may_be_late = options.get("infeasible") == "reject" and "max_stay" in job.fields
    needs_memory = rule == "locality" and ("input_file" in job.fields or "node_memory_gb" in job.fields)
    is_known = job.kind != WORK and (job.workload != OTHER or scene.forward)  # to be of times, which can be scaled
    needs_scaling = scene.policy == "reallocation" and not is_known
    comes_back = all(outage.until is not None for outage in scene.outages)
    if comes_back and job.n <= _room(scene, job) and not (is_endless or may_be_late or needs_memory or needs_scaling):
        yield f"{job.id} is rejected without need"


def _room(scene: Scene, job: Job) -> int:
    """Return how many processors a job without wishes can have in any case."""
    options, hosts = scene.options, scene.hosts
    if scene.policy == "redirection":
        return int(scene.n_procs - options.get("group_size", scene.n_procs * options.get("alpha", 0.15)))
    if scene.policy == "locality" and hosts:
        least = min(float(host["memory_gb"]) for host in hosts)
        return max(Counter(host["node"] for host in hosts if float(host["memory_gb"]) == least).values())
    if scene.policy == "reallocation" and hosts:
        sizes = Counter(host["cluster"] for host in hosts)
        return sizes[job.fields["cluster"]] if job.fields.get("external") else max(sizes.values())
    return scene.n_procs


# --- guarantees of each policy ------------------------------------------------------------------------------------


def _nothing_more(_scene: Scene, _rows: Rows) -> Iterator[str]:
    return iter(())


def _in_order(scene: Scene, rows: Rows) -> Iterator[str]:
    """First come, first served: no job starts before an earlier one."""
    if scene.options.get("order", "fcfs") != "fcfs":
        return
    ran = [(job.at, rows[job.id][0].start, job.id) for job in scene.jobs if rows[job.id][0].start >= 0]
    if scene.late or scene.others:
        return  # then the order of their messages is unknown here
    for at, start, name in ran:
        for other_at, other_start, other in ran:
            if other_at < at and start < other_start - TICK:
                yield f"{name} starts at {start}, before {other}, which came first and starts at {other_start}"


def _urgent(scene: Scene, rows: Rows) -> Iterator[str]:
    """Urgent jobs are never suspended; suspended ones resume where they were, unless a machine went."""
    for job in scene.jobs:
        chain = rows[job.id]
        if job.fields.get("urgent") and len(chain) > 1 and not scene.has_kills:
            yield f"{job.id} is urgent and was preempted"
        is_suspended = scene.options.get("mode", "suspend") == "suspend"
        stays = is_suspended and scene.options.get("resume_same_resources", True)
        places = {fate.procs for fate in chain if fate.start >= 0}
        if stays and len(places) > 1 and not (scene.outages or scene.has_kills):
            yield f"{job.id} resumes on other processors: {' and '.join(sorted(places))}"


def _redirected(scene: Scene, rows: Rows) -> Iterator[str]:
    """No job is redirected twice, and redirected jobs go to the other group."""
    for job in () if scene.has_kills else scene.jobs:
        ran = [IntervalSet.parse(fate.procs) for fate in rows[job.id] if fate.start >= 0]
        if len(rows[job.id]) > 2:
            yield f"{job.id} is redirected more than once"
        if len(ran) == 2 and not max(ran[0]) < min(ran[1]):
            yield f"{job.id} is redirected from {ran[0]} to {ran[1]}"


def _within(key: str) -> Any:
    def check(scene: Scene, rows: Rows) -> Iterator[str]:
        """Each job runs within one node, or one cluster; external jobs on their own."""
        for job in scene.jobs:
            for fate in rows[job.id]:
                if fate.start < 0 or not scene.hosts:
                    continue
                places = {scene.hosts[proc][key] for proc in IntervalSet.parse(fate.procs)}
                if len(places) > 1:
                    yield f"{job.id} runs on more than one {key}: {', '.join(sorted(places))}"
                if job.fields.get("external") and places != {job.fields["cluster"]}:
                    yield f"{job.id} runs on {places}, not on its cluster {job.fields['cluster']}"

    return check


ORDERLY: Final = {
    "fcfs": _in_order,
    "ujfb": _urgent,
    "redirection": _redirected,
    "locality": _within("node"),
    "reallocation": _within("cluster"),
}
