"""The environment of `pybatsched.gym` with the episodes of RLScheduler: its reading of logs and its sequences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pybatsched.gym import SchedulingEnv
from pybatsched.policies.observations import Observation
from pybatsched.workload import Workload
from pybatsched.workload.formats.detection import format_of
from pybatsched_studies.orders.sequences import SequenceStarts


class SequencesEnv(SchedulingEnv):
    """Episodes of 1,024 (`n_jobs`) consecutive jobs, drawn as the program draws them.

    Of a file, the first 10,000 jobs are read. In SWF a job has the larger number of processors, and an unknown run time
    is 10 s. After a reset with a seed, each reset without a seed gives the next sequence. Other keywords are those of
    `SchedulingEnv`, except `span_s`.
    """

    def __init__(
        self,
        workload: str | Path | Workload,
        platform: str | Path | int | None = None,
        *,
        n_jobs: int = 1024,
        **options: Any,
    ) -> None:
        if not isinstance(workload, Workload):
            as_published = {"size": "larger", "unknown_runtime": 10.0} if format_of(workload) == "SWF" else {}
            options = {"max_jobs": 10_000, **as_published, **options}
        super().__init__(workload, platform, n_jobs=n_jobs, **options)
        self._length = n_jobs
        self._starts: SequenceStarts | None = None  # for the last seed

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start the next sequence, or the one that starts with the job of the option `start`."""
        if options and "start" in options:
            return super().reset(seed=seed, options=options)
        if seed is not None or self._starts is None:
            n_all = self.n_starts + self._length - 1
            of_seed = int(self.np_random.integers(2**31)) if seed is None else seed
            self._starts = SequenceStarts(n_all, self._length, of_seed)
        return super().reset(seed=seed, options={**(options or {}), "start": self._starts.draw()})
