"""EASY's shadow time: when enough processors are expected to be free for a job that does not fit now.

The processors that are free then and that the job does not need are extra: other jobs may use them until later. Both
functions return the shadow time and the number of extra processors. The time is infinite, without extra processors, if
the job waits for one without an estimate or cannot start on the available machines.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pybatsched.core.instants import TICK, instant

if TYPE_CHECKING:
    from pybatsched.core.cluster import Partition
    from pybatsched.policies.availability import AvailabilityProfile


def shadow_time(partition: Partition, n_needed: int, now: float) -> tuple[float, int]:
    """Return the shadow time by the expected ends of the running jobs. O(running)."""
    n_then, shadow_at = partition.n_free, -math.inf
    are_whole = not partition.n_away  # then a job returns all that it holds
    for job in partition.running_jobs:
        is_enough = n_then >= n_needed
        if is_enough and job.expected_end_at > shadow_at:
            break
        n_then += job.n_held if are_whole else partition.n_returned_by(job)
        if n_then >= n_needed and not is_enough:
            shadow_at = max(job.expected_end_at, now)  # a job past its estimate is expected to end now
    if n_then < n_needed or shadow_at == math.inf:
        return math.inf, 0
    return shadow_at, n_then - n_needed


def shadow_time_around_reservations(
    profile: AvailabilityProfile, n_needed: int, span_s: float, now: float, *, has_extra: bool
) -> tuple[float, int]:
    """Return the shadow time by a profile with the running jobs and the reservations of hosts. O(steps).

    Without `has_extra` no processor is extra. This is for hosts that are reserved later: a job beside the head might
    need one of them.
    """
    start_at = profile.earliest(n_needed, span_s, profile.next_step(now))
    if start_at == math.inf or not has_extra:
        return start_at, 0
    return start_at, profile.least_free(start_at, instant(start_at, TICK)) - n_needed
