"""Let users react to the machine: the next job of a session is submitted a think time after the end of another.

In a log, a user often waits for a job before submitting the next one. If a simulated policy ends that job earlier or
later, the user would have come earlier or later, too (Zakay and Feitelson, Preserving user behavior characteristics in
trace-based simulation of parallel job scheduling, MASCOTS 2014). A workload with feedback has jobs with `depends_on`
and `think_time`, and the member ``feedback: true``. Then `held_back` takes these jobs out of what Batsim submits, and
the engine registers them after the ends of the jobs that they depend on (`pybatsched.core.services.feedback`).
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Any, Final

from pybatsched.core.dependencies import plain_ids
from pybatsched.core.derive import can_copy, delay_of, single_delay
from pybatsched.core.services.feedback import FollowingJob
from pybatsched.errors import InputError, quantity
from pybatsched.workload.formats.checks import is_number
from pybatsched.workload.jobs import full_id, name_in
from pybatsched.workload.model import Workload
from pybatsched.workload.prepare import used_profiles
from pybatsched.workload.walltimes import tidy

#: The member of a workload file.
FEEDBACK: Final = "feedback"
#: A job that is submitted later than this after the end of another starts a new session.
SESSION_S: Final = 20 * 60.0


def has_feedback(workload: Workload) -> bool:
    """Return whether submissions of a workload depend on the ends of jobs."""
    return workload.about.get(FEEDBACK) is True


def feedback_note(workload: Workload) -> str:
    """Return how many jobs of a workload with feedback follow others, for reports. O(n)."""
    n = sum(plain_ids(job) is not None for job in workload.jobs)
    return f"{quantity(n, 'job')} {'follows' if n == 1 else 'follow'} the end of another (feedback)"


def without_followers(workloads: Mapping[str, Workload]) -> tuple[dict[str, Workload], list[FollowingJob]]:
    """Return the workloads that Batsim submits, and the jobs of all workloads that follow others. Raises InputError."""
    submitted, followers = {}, []
    for name, workload in workloads.items():
        submitted[name], held = held_back(name, workload)
        followers += held
    return submitted, followers


def held_back(name: str, workload: Workload) -> tuple[Workload, list[FollowingJob]]:
    """Return a workload without the jobs that follow others, and these jobs for the engine. O(n). Raises InputError.

    `name` is that of the workload in the run. A job follows those of its `depends_on` that come before it in the
    workload, unless these are conditions (`afterok:12`), which the engine obeys when the job is submitted. The jobs are
    as `pybatsched.core.services.feedback.FollowingJob` describes them; each has a profile of its own, because Batsim
    deletes a profile when the first job that uses it ends.
    """
    if not has_feedback(workload):
        return workload, []
    earlier: set[str] = set()
    kept, held = [], []
    taken = set(workload.profiles)
    for job in workload.jobs:
        names = {full_id(name, one) for one in plain_ids(job) or ()}
        after = sorted(names & earlier)
        job_id = full_id(name, job["id"])
        earlier.add(job_id)
        if not after:
            kept.append(job)
            continue
        where = f"{workload.source or name}: job {job['id']}"
        think_s = job.get("think_time", 0)
        if not is_number(think_s):
            raise InputError(f"{where}, field think_time: expected seconds, found {think_s!r:.40}")
        profile = _registrable(workload.profiles[job["profile"]], workload.profiles, where)
        profile_name = f"{job['profile']}.{name_in(name, job['id'])}"
        while profile_name in taken:
            profile_name += "."
        taken.add(profile_name)
        fields = {**job, "id": job_id, "profile": profile_name}
        held.append(FollowingJob(job_id, after, max(float(think_s), 0.0), fields, profile))
    about = {key: value for key, value in workload.about.items() if key != FEEDBACK}
    profiles = used_profiles(kept, workload.profiles)
    return Workload(kept, profiles, workload.n_procs, workload.source, about), held


def _registrable(profile: Mapping[str, Any], profiles: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return a profile that can be registered while Batsim runs: delays become one delay. Raises InputError."""
    delay_s = delay_of(profile, profiles)
    if delay_s is not None:
        return dict(single_delay(profile, delay_s))
    if not can_copy(profile, profiles):
        raise InputError(
            f"{where}: feedback: its profile is of the type {profile.get('type')}, which Batsim cannot register during "
            "a run; expected a delay or a parallel task"
        )
    return dict(profile)


def check_no_feedback(workloads: Mapping[str, Workload]) -> None:
    """Raise InputError for a workload with feedback, in a run without an engine that registers its jobs."""
    for name, workload in workloads.items():
        if has_feedback(workload):
            raise InputError(
                f"{workload.source or name}: feedback: expected a policy of pybatsched; another scheduler "
                "does not submit the jobs that follow others"
            )


def with_feedback(workload: Workload) -> Workload:
    """Return a workload whose jobs depend on the user's job that ended last before their submission. O(n log n).

    The end in the log is submission + `logged_wait_s` + run time. A job depends on another if it was submitted at most
    `SESSION_S` after that end; this is its think time. Jobs that have `depends_on` already (fields 17 and 18 of SWF)
    keep it. Raises InputError if no job depends on another.
    """
    run_s = {name: delay_of(profile, workload.profiles) for name, profile in workload.profiles.items()}
    running: dict[Any, list[tuple[float, int, Any]]] = {}  # by user, the jobs that have not ended in the log
    last: dict[Any, tuple[float, Any]] = {}
    jobs = []
    for place, job in enumerate(workload.jobs):
        user = job.get("user")
        made = dict(job)
        if user is not None:
            ends = running.setdefault(user, [])
            while ends and ends[0][0] <= job["subtime"]:
                ended_at, _, other = heapq.heappop(ends)
                last[user] = ended_at, other
            if user in last and "depends_on" not in job and job["subtime"] - last[user][0] <= SESSION_S:
                made |= {"depends_on": last[user][1], "think_time": tidy(job["subtime"] - last[user][0])}
            _add_end(ends, place, job, run_s[job["profile"]])
        jobs.append(made)
    if not any("depends_on" in job for job in jobs):
        raise InputError(
            f"{workload.source}: feedback: expected a log with users and waits, or with preceding jobs (fields 17 and "
            "18 of SWF); found no job that was submitted after the end of another of its user"
        )
    about = {**workload.about, FEEDBACK: True}
    return Workload(jobs, workload.profiles, workload.n_procs, workload.source, about)


def _add_end(ends: list[tuple[float, int, Any]], place: int, job: Mapping[str, Any], run_s: float | None) -> None:
    """Add the logged end of a job, if it is known."""
    wait_s = job.get("logged_wait_s")
    if run_s is not None and is_number(wait_s) and wait_s is not None:
        heapq.heappush(ends, (job["subtime"] + max(wait_s, 0) + run_s, place, job["id"]))
