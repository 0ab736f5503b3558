"""Let users react to the machine: the next job of a session is submitted a think time after the end of another.

In a log, a user often waits for a job before submitting the next one. If a simulated policy ends that job earlier or
later, the user would have come earlier or later, too (Zakay and Feitelson, Preserving user behavior characteristics in
trace-based simulation of parallel job scheduling, MASCOTS 2014). A workload with feedback has jobs with `depends_on`
and `think_time`, and the member ``feedback: true``; the embedded simulator then submits these jobs after the end of the
jobs that they depend on.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Any, Final

from pybatsched.core.services.derive import delay_of
from pybatsched.errors import InputError
from pybatsched.workload.formats.checks import is_number
from pybatsched.workload.model import Workload
from pybatsched.workload.walltimes import tidy

#: The member of a workload file.
FEEDBACK: Final = "feedback"
#: A job that is submitted later than this after the end of another starts a new session.
SESSION_S: Final = 20 * 60.0


def has_feedback(workload: Workload) -> bool:
    """Return whether submissions of a workload depend on the ends of jobs."""
    return workload.about.get(FEEDBACK) is True


def with_feedback(workload: Workload, session_s: float = SESSION_S) -> Workload:
    """Return a workload whose jobs depend on the user's job that ended last before their submission. O(n log n).

    The end in the log is submission + `logged_wait_s` + run time. A job depends on another if it was submitted at most
    `session_s` after that end; this is its think time. Jobs that have `depends_on` already (fields 17 and 18 of SWF)
    keep it. Raises InputError if no job depends on another.
    """
    if not 0 <= session_s < float("inf"):
        raise InputError(f"feedback: expected 0 seconds or more for a session, found {session_s:g}")
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
            if user in last and "depends_on" not in job and job["subtime"] - last[user][0] <= session_s:
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
