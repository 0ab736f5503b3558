"""Rules that every schedule must keep, independent of the package."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

from pybatsched.core import events as e
from pybatsched.core.intervals import IntervalSet
from reliability.soak.nodes_in_scenes import node_problems
from reliability.soak.scene_runs import Fate
from reliability.soak.scenes import FAILS, OTHER, WORK, Job, Scene

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
    problems += _nodes(scene, fates)
    if not problems:
        for job in scene.jobs:
            problems += _one_job(scene, job, rows[job.id])
        if scene.policy in PROMISED:
            problems += PROMISED[scene.policy](scene, rows)
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
        is_unknown = name.startswith(f"{OTHER}!") and len(parts) > 1 and not (scene.reuse or scene.forward)
        if last.state == e.COMPLETED_KILLED and not (
            last.by_others or _is_given_up(scene, last, is_unknown=is_unknown)
        ):
            problems.append(f"{name} was killed by its own scheduler, and never went on")
    return {name: [fate for _, fate in parts] for name, parts in found.items()}, problems


def _is_given_up(scene: Scene, fate: Fate, *, is_unknown: bool) -> bool:
    """Return whether jobs that end here and now are not requeued: their machine fails, or a reservation begins.

    A requeued job whose profile `is_unknown` cannot be requeued again: Batsim deleted the profile at the first end.
    """
    gone = [(one.at, one.procs) for one in scene.outages if scene.options.get("on_failure") == "kill" or is_unknown]
    conflicts = ("kill", "requeue") if is_unknown else ("kill",)
    return _ends_with(scene, fate, gone) or is_stopped_by_reservation(scene, fate, *conflicts)


def is_stopped_by_reservation(scene: Scene, fate: Fate, *conflicts: str) -> bool:
    """Return whether a reservation that kills or requeues jobs in its way begins when and where a part ends."""
    gone = [(one["start"], one["hosts"]) for one in scene.reservations if one["conflict"] in conflicts]
    return _ends_with(scene, fate, gone)


def _ends_with(scene: Scene, fate: Fate, gone: list[tuple[float, str]]) -> bool:
    """Return whether processors of a part are gone when it ends."""
    procs = IntervalSet.parse(fate.procs)
    return any(
        -inexact(at) < fate.end - at < late_s(scene, at) and not procs.isdisjoint(IntervalSet.parse(hosts))
        for at, hosts in gone
    )


def late_s(scene: Scene, at: float) -> float:
    """Tell by how much what is due at an instant may be late: calls are, and schedulers that take their time.

    In Batsim 4 a call takes ten ticks at least, in Batsim 5 it is at a whole millisecond.
    """
    call_s = 2e-5 if scene.batsim == 4 else 2e-3
    return inexact(at) + call_s + 3 * sum(scene.late)


def _processors(scene: Scene, fates: dict[str, Fate]) -> Iterator[str]:
    """Look for processors with two jobs at a time, and for jobs that start where no machine is. O(n log n)."""
    held: Held = {}
    for name, fate in fates.items():
        if fate.start >= 0:
            for proc in IntervalSet.parse(fate.procs):
                held.setdefault(proc, []).append((fate.start, fate.end, name))
    for proc, spans in held.items():
        spans.sort()
        for (_, end, one), (start, _, other) in pairwise(spans):
            if start < end - inexact(end):
                yield f"processor {proc} is used twice: by {one} until {end} and by {other} from {start}"
    for outages, word in ((scene.outages, "away"), (scene.drains, "drained")):
        for gone in outages:
            until = math.inf if gone.until is None else gone.until
            yield from _starts_within(held, gone.procs, gone.at, until, f"which is {word}", inexact(gone.at))
    if "on_failure" in scene.options:
        for outage in scene.outages:
            yield from _runs_on(scene, held, outage.procs, outage.at, "which has failed")
    for table in scene.reservations:
        yield from _reserved(scene, held, fates, table)


def _nodes(scene: Scene, fates: dict[str, Fate]) -> Iterator[str]:
    """Look for jobs on wrong nodes, and for nodes whose memory or GPUs are overcommitted."""
    if scene.has_nodes:
        by_id = {job.id: job for job in scene.jobs}
        ran = [
            (fate.start, fate.end, fate.procs, name, by_id[fields_of(fate.note).get("parent", name)])
            for name, fate in fates.items()
            if fate.start >= 0
        ]
        yield from node_problems(scene.hosts, scene.options.get("node_partitions"), ran)


#: For each processor: start, end and name of each job on it, in order.
Held = dict[int, list[tuple[float, float, str]]]


def _on(held: Held, procs: str, own: Container[str] = ()) -> Iterator[tuple[int, float, float, str]]:
    """Return processor, start, end and name of all jobs on some processors, but for some."""
    for proc in IntervalSet.parse(procs):
        yield from ((proc, start, end, name) for start, end, name in held.get(proc, ()) if name not in own)


def _starts_within(
    held: Held, procs: str, at: float, until: float, why: str, late: float, own: Container[str] = ()
) -> Iterator[str]:
    """Look for jobs that start on processors between two instants."""
    for proc, start, _, name in _on(held, procs, own):
        if at + late < start < until - inexact(start):
            yield f"{name} starts at {start} on processor {proc}, {why} from {at} to {until}"


def _runs_on(scene: Scene, held: Held, procs: str, at: float, why: str, own: Container[str] = ()) -> Iterator[str]:
    """Look for jobs that run on processors at an instant, and should be killed then."""
    for proc, start, end, name in _on(held, procs, own):
        if start < at - inexact(at) and end > at + late_s(scene, at):
            yield f"{name} runs on after {at}, until {end}, on processor {proc}, {why}"


def _reserved(scene: Scene, held: Held, fates: dict[str, Fate], table: Mapping[str, Any]) -> Iterator[str]:
    """Look for jobs that break a reservation, and for its own jobs elsewhere."""
    at, until, hosts = table["start"], table["start"] + table["duration"], IntervalSet.parse(table["hosts"])
    by_id = {job.id: job for job in scene.jobs}
    own = set()
    for name, fate in fates.items():
        job = by_id.get(fields_of(fate.note).get("parent", name))
        if fate.start < 0 or job is None:
            continue
        if job.fields.get("reservation") == table["name"]:
            own.add(name)
            is_inside = at - inexact(at) <= fate.start and IntervalSet.parse(fate.procs).issubset(hosts)
            if not is_inside or job.fields["user"] not in table.get("users", ()):
                yield f"{name} starts at {fate.start} on {fate.procs}, not in its reservation {table['name']}"
        elif table["conflict"] == "wait" and not IntervalSet.parse(fate.procs).isdisjoint(hosts):
            known_at = max(at - table["notice"], 0.0) if "notice" in table else 0.0
            is_known = known_at + late_s(scene, known_at) < fate.start < at - inexact(at)
            is_first = name == job.id and not scene.is_predicted
            # Policies may assume a walltime for a job that has none.
            end = fate.start + (0.0 if job.estimate is None else job.estimate)
            if is_known and is_first and end > at + inexact(at):
                yield f"{name} starts at {fate.start} for {job.estimate} s, in the way of {table['name']} at {at}"
    yield from _starts_within(held, table["hosts"], at, until, "which is reserved", late_s(scene, at), own)
    if table["conflict"] != "wait" and until > at + late_s(scene, at):
        yield from _runs_on(scene, held, table["hosts"], at, "which is reserved", own)


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
    if is_itself:
        yield from _kept(job, ran, is_known=job.workload != OTHER or scene.forward)
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


def _own_s(fate: Fate) -> float:
    """Give the seconds that a part ran, without swaps, loads and reads of checkpoints; negative if these go on."""
    return fate.end - fate.start - float(fields_of(fate.note).get("extra_s", 0))


def _work_done(ran: list[Fate]) -> float:
    """Give the seconds of work that count: those of all parts that went on with the rest, and what was kept."""
    did = 0.0
    for fate in reversed(ran):
        said = fields_of(fate.note)
        did += _own_s(fate) + float(said.get("kept_s", 0))
        if said.get("work") != "rest":
            break
    return did


def _kept(job: Job, ran: list[Fate], *, is_known: bool) -> Iterator[str]:
    """Count anew what is kept by checkpoints: all that were complete at a kill, and nothing else.

    A job whose profile is not known cannot be shortened: it starts anew.
    """
    times = [float(job.fields.get(f"checkpoint_{name}_s", 0)) for name in ("interval", "dump", "work")]
    period_s, n_most = times[0] + times[1], math.ceil(times[2] / times[0] - 1e-9) - 1 if times[0] and is_known else 0
    done_s = 0.0
    for nth, fate in enumerate(ran):
        said = fields_of(fate.note)
        kept_s = float(said.get("kept_s", 0))
        if said.get("work") != "rest":
            # An instant is rounded, so a checkpoint that ends just at the kill is complete or not.
            slack_s = (inexact(fate.end) + TICK * job.s) * (nth + 1)
            low, high = (
                max(min(math.floor(at / period_s), n_most), 0) if n_most else 0
                for at in (done_s - slack_s, done_s + slack_s)
            )
            if not any(abs(kept_s - n * period_s) <= 1e-5 for n in range(low, high + 1)):
                yield f"{job.id} goes on from {kept_s} s in its part {nth}, after {done_s} s with {period_s} s for each"
            done_s = kept_s
        done_s += max(_own_s(fate), 0.0)


def _requeues(scene: Scene, chain: list[Fate]) -> int:
    """Return how often the policy has killed a job that went on: not because a machine failed or was reserved."""
    killed = [fate for fate in chain[:-1] if fate.state == e.COMPLETED_KILLED]
    failures = max((int(fields_of(fate.note).get("failures", "0")) for fate in chain), default=0)
    return sum(not is_stopped_by_reservation(scene, fate, "requeue") for fate in killed) - failures


def _rejected(scene: Scene, job: Job) -> Iterator[str]:
    """Check the reason of a rejection: a job that can run is not rejected, if all machines come back."""
    if "reservation" in job.fields or scene.has_nodes:
        return
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
    comes_back = all(outage.until is not None for outage in (*scene.outages, *scene.drains))
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


def _in_order(scene: Scene, rows: Rows) -> Iterator[str]:
    """First come, first served: no job starts before an earlier one."""
    if scene.options.get("order", "fcfs") != "fcfs" or "node_partitions" in scene.options:
        return
    waiting = [job for job in scene.jobs if "reservation" not in job.fields]
    ran = [(job.at, rows[job.id][0].start, job.id) for job in waiting if rows[job.id][0].start >= 0]
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
        if job.fields.get("urgent") and _requeues(scene, chain) > 0:
            yield f"{job.id} is urgent and was preempted"
        is_suspended = scene.options.get("mode", "suspend") == "suspend"
        stays = is_suspended and scene.options.get("resume_same_resources", True)
        for one, other in pairwise(fate for fate in chain if fate.start >= 0):
            is_resumed = fields_of(other.note).get("work") == "rest"
            if stays and is_resumed and one.procs != other.procs and not (scene.outages or scene.drains):
                yield f"{job.id} resumes on other processors: {one.procs} and {other.procs}"


def _redirected(scene: Scene, rows: Rows) -> Iterator[str]:
    """No job is redirected twice, and redirected jobs go to the other group.

    A job whose machine fails is requeued in its own group, or as a new one in the principal group.
    """
    stays = scene.options.get("on_failure", "requeue_first") == "requeue_first"
    for job in scene.jobs:
        ran = [IntervalSet.parse(fate.procs) for fate in rows[job.id] if fate.start >= 0]
        if _requeues(scene, rows[job.id]) > 1:
            yield f"{job.id} is redirected more than once"
        n_first = _room(scene, job)
        groups = [min(procs) >= n_first for procs in ran]
        if "reservation" in job.fields:
            continue
        is_back = stays and groups != sorted(groups)
        if is_back or any(min(procs) < n_first <= max(procs) for procs in ran):
            yield f"{job.id} is redirected from {ran[0]} to {ran[-1]}"


def _within(key: str) -> Any:
    def check(scene: Scene, rows: Rows) -> Iterator[str]:
        """Each job runs within one node, or one cluster; external jobs on their own. In reservations, anywhere."""
        for job in (job for job in scene.jobs if "reservation" not in job.fields):
            for fate in rows[job.id]:
                if fate.start < 0 or not scene.hosts:
                    continue
                places = {scene.hosts[proc][key] for proc in IntervalSet.parse(fate.procs)}
                if len(places) > 1:
                    yield f"{job.id} runs on more than one {key}: {', '.join(sorted(places))}"
                if job.fields.get("external") and places != {job.fields["cluster"]}:
                    yield f"{job.id} runs on {places}, not on its cluster {job.fields['cluster']}"

    return check


#: What each policy promises for its schedule.
PROMISED: Final = {
    "fcfs": _in_order,
    "ujfb": _urgent,
    "redirection": _redirected,
    "locality": _within("node"),
    "reallocation": _within("cluster"),
}
