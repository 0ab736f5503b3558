"""What the users of a run have used so far: processor-seconds, perhaps with a half-life."""

from __future__ import annotations

import math

from pybatsched.core.jobs import Job, user_of


class UserUsage:
    """The processor-seconds that the jobs of each user have held up to now, the running ones included.

    With a half-life, a processor-second counts half after that time, a quarter after twice that time, and so on. It is
    computed when jobs start and end, and only from what has happened. O(1) for each start, end and question.
    """

    def __init__(self, half_life_s: float = math.inf) -> None:
        self._decay = math.log(2) / half_life_s
        self._users: dict[str, tuple[float, int, float]] = {}  # the usage at a time, the processors in use, the time
        self._running: dict[str, tuple[str, int]] = {}  # user and processors, by the id of the job

    def of(self, user: str, now: float) -> float:
        """Return the usage of a user."""
        used, n, at = self._users.get(user, (0.0, 0, now))
        return self._later(used, n, now - at)

    def started(self, job: Job, at: float) -> None:
        """Handle a job that holds processors since a time, which may be in the past."""
        if job.id not in self._running:
            user, n = user_of(job), job.n_held
            self._running[job.id] = user, n
            used, n_before, known_at = self._users.get(user, (0.0, 0, at))
            used = self._later(used, n_before, at - known_at) + self._later(0.0, n, known_at - at)
            self._users[user] = used, n_before + n, max(at, known_at)

    def ended(self, job: Job, now: float) -> None:
        """Handle a job that no longer holds processors."""
        if job.id in self._running:
            user, n = self._running.pop(job.id)
            _, n_before, _ = self._users[user]
            self._users[user] = self.of(user, now), n_before - n, now

    def _later(self, used: float, n: int, span_s: float) -> float:
        """Return a usage after a span in which `n` processors are in use; unchanged for a span below 0."""
        if span_s <= 0:
            return used
        if not self._decay:
            return used + n * span_s
        return used * math.exp(-self._decay * span_s) - n * math.expm1(-self._decay * span_s) / self._decay
