"""Add urgent jobs to a workload, or mark existing jobs as urgent."""

from __future__ import annotations

import copy
import itertools
import random
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from pybatsched.core.derive import delay_of
from pybatsched.errors import InputError
from pybatsched.workload.formats.checks import is_count, is_number, shown
from pybatsched.workload.formats.conversion import profile_of
from pybatsched.workload.model import Workload
from pybatsched.workload.selection import seconds_of
from pybatsched.workload.walltimes import Walltimes, tidy

#: Usual urgent jobs, simulations of tsunamis: processors and seconds.
TSUNAMI: Final = ((128, 600.0), (256, 390.0), (512, 240.0))
_MINUTE_S: Final = 60
_MINUTES_OF_AN_HOUR: Final = 60
_MOST_PROCS: Final = (1 << 31) - 1  # Batsim's
_END_OF_TIME_S: Final = 1 << 53  # as in logs: larger whole numbers are not all exact in floating point


class UrgentJob(NamedTuple):
    """An urgent job to add: its processors, run time and submission time."""

    n_procs: int
    run_s: float
    at: float


def urgent_job_of(values: object) -> UrgentJob:
    """Check [processors, seconds, instant]; times may be texts such as 6.5m. Raises InputError with the wrong one."""
    if not isinstance(values, list | tuple) or len(values) != 3:
        raise InputError(f"expected [processors, seconds, instant], such as [256, 390, 86400], found {shown(values)}")
    n_procs, run_s, at = values
    if not is_count(n_procs, 1):
        raise InputError(f"processors: expected a whole number from 1 to {_MOST_PROCS:,}, found {shown(n_procs)}")
    return UrgentJob(n_procs, _seconds(run_s, "run time", 1e-6), _seconds(at, "instant", 0))


def _seconds(value: object, what: str, least: float) -> float:
    seconds = seconds_of(value, what) if isinstance(value, str) else value
    if not is_number(seconds) or not least <= seconds < _END_OF_TIME_S:
        raise InputError(f"{what}: expected seconds, {least:.6g} or more and below 2^53, found {shown(value)}")
    return float(seconds)


def with_urgent(
    workload: Workload, instants: Sequence[float], kinds: Sequence[tuple[int, float]], seed: int
) -> Workload:
    """Add an urgent job of random `kinds` at each instant. O(n log n). Raises InputError for too large kinds."""
    for size, _ in kinds:
        if size > workload.n_procs:
            raise InputError(
                f"{workload.source}: urgent jobs of {size:,} processors: expected at most {workload.n_procs:,}, "
                "the size of the machine; use other kinds"
            )
    rng = random.Random(f"{seed}/urgent kinds")  # noqa: S311  no secret
    return _injected(workload, [UrgentJob(*rng.choice(kinds), at) for at in instants], {"seed": seed})


def with_given(workload: Workload, given: Sequence[UrgentJob]) -> Workload:
    """Add these urgent jobs, numbered in this order. O(n log n). Raises InputError for too large jobs."""
    for number, job in enumerate(given, 1):
        if job.n_procs > workload.n_procs:
            raise InputError(
                f"{workload.source}: urgent job {number} of {len(given)}, at {tidy(job.at):,} s, has {job.n_procs:,} "
                f"processors: expected at most {workload.n_procs:,}, the size of the machine"
            )
    return _injected(workload, given, {})


def _injected(workload: Workload, urgent: Iterable[UrgentJob], details: dict[str, Any]) -> Workload:
    """Add urgent jobs with exact estimates, behind existing jobs of the same submission time."""
    taken = {str(job["id"]) for job in workload.jobs}
    ids = (name for name in (f"urgent{number}" for number in itertools.count(1)) if name not in taken)
    profiles = copy.copy(workload.profiles)
    injected = []
    for size, run_s, at in urgent:
        times = Walltimes("exact").of(run_s, None)
        injected.append(
            {
                "id": next(ids),
                "subtime": tidy(at),
                "res": size,
                "profile": _profile(profiles, run_s),
                "walltime": times.walltime_s,
                "estimate": times.estimate_s,
                "urgent": True,
            }
        )
    jobs = sorted([*workload.jobs, *injected], key=lambda job: job["subtime"])
    about = {**workload.about, "urgent": {"injected": len(injected), **details}}
    return Workload(jobs, profiles, workload.n_procs, workload.source, about)


def periodic(workload: Workload, every_s: float, seed: int, *, busy: float | None = None) -> list[float]:
    """Return one instant for each period: a random minute of the hour after its end. O(n log n).

    Periods are counted from the first submission to the last. With `busy`, a period ends at the first later arrival at
    which the offered load is at least that, and the next period starts there.
    """
    times = sorted(job["subtime"] for job in workload.jobs)
    if not times:
        return []
    ends: Iterable[float]
    if busy is None:
        ends = itertools.takewhile(lambda at: at <= times[-1], (times[0] + k * every_s for k in itertools.count(1)))
    else:
        ends = _busy_periods(times, offered_load(workload, times), every_s, busy)
    rng = random.Random(f"{seed}/urgent minutes")  # noqa: S311  no secret
    return [at + _MINUTE_S * rng.randrange(_MINUTES_OF_AN_HOUR) for at in ends]


def _busy_periods(times: Sequence[float], loads: Sequence[float], every_s: float, busy: float) -> Iterator[float]:
    due = times[0] + every_s
    for at, load in zip(times, loads, strict=True):
        if at >= due and load >= busy:
            yield at
            due = at + every_s


def at_arrivals(workload: Workload, probability: float, seed: int, *, busy: float | None = None) -> list[float]:
    """Return random arrivals, each with the same probability. With `busy`, only those with at least that load."""
    times = sorted(job["subtime"] for job in workload.jobs)
    loads = itertools.repeat(0.0, len(times)) if busy is None else offered_load(workload, times)
    rng = random.Random(f"{seed}/urgent arrivals")  # noqa: S311  no secret
    chosen = [rng.random() < probability for _ in times]  # for all, so that `busy` only removes some
    return [at for at, load, is_one in zip(times, loads, chosen, strict=True) if is_one and load >= (busy or 0.0)]


def offered_load(workload: Workload, times: Iterable[float]) -> list[float]:
    """Return the utilisation at these times if no job had waited; it may exceed 1. O(n log n)."""
    spans = [(job["subtime"], job["subtime"] + _run_s(workload, job), job["res"]) for job in workload.jobs]
    begins, begun = _accumulated((begin, size) for begin, _, size in spans)
    ends, ended = _accumulated((end, size) for _, end, size in spans)
    return [(begun[bisect_right(begins, at)] - ended[bisect_right(ends, at)]) / workload.n_procs for at in times]


def _accumulated(changes: Iterable[tuple[float, int]]) -> tuple[list[float], list[int]]:
    """Return the sorted times, and the sum of all sizes before each of them and after the last."""
    ordered = sorted(changes)
    return [at for at, _ in ordered], list(itertools.accumulate((size for _, size in ordered), initial=0))


def _run_s(workload: Workload, job: dict[str, Any]) -> float:
    run_s = delay_of(workload.profiles[job["profile"]], workload.profiles)
    limit_s = job.get("walltime", -1)
    has_limit = isinstance(limit_s, int | float) and limit_s > 0
    if run_s is None:
        if not has_limit:
            raise InputError(
                f"{workload.source}: job {job['id']}: the offered load needs a profile of delays or a walltime, "
                "found neither"
            )
        run_s = float(limit_s)
    return min(run_s, float(limit_s)) if has_limit else run_s


def marked(workload: Workload, queues: Sequence[str], share: float | None, seed: int) -> Workload:
    """Mark jobs of some queues (default: all) as urgent, with probability `share` if given. Raises InputError."""
    present = {str(job["queue"]) for job in workload.jobs if "queue" in job}
    for queue in queues:
        if queue not in present:
            known = ", ".join(sorted(present)) or "none"
            raise InputError(
                f"{workload.source}: urgent: expected a queue of the jobs ({known:.300}), found {queue!r:.60}"
            )
    rng = random.Random(f"{seed}/urgent marks")  # noqa: S311  no secret
    wanted = set(queues)
    jobs, n_marked = [], 0
    for job in sorted(workload.jobs, key=lambda job: job["subtime"]):
        is_one = (not wanted or str(job.get("queue")) in wanted) and (share is None or rng.random() < share)
        jobs.append({**job, "urgent": True} if is_one else job)
        n_marked += is_one
    about = {**workload.about, "urgent": {"marked": n_marked, "queues": list(queues), "share": share}}
    return Workload(jobs, copy.copy(workload.profiles), workload.n_procs, workload.source, about)


def _profile(profiles: dict[str, dict[str, Any]], run_s: float) -> str:
    """Return the name of a delay profile, and add it if it is missing."""
    wanted = profile_of(tidy(run_s), "delay", 1.0)
    for name in itertools.chain([f"urgent{tidy(run_s)}"], (f"urgent{tidy(run_s)}-{k}" for k in itertools.count(2))):
        if profiles.setdefault(name, wanted) == wanted:
            break
    return name
