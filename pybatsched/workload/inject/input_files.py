"""Add input files, which users share among their jobs, and compute the time to load them."""

from __future__ import annotations

import bisect
import copy
import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pybatsched.core.derive import delay_of
from pybatsched.core.fields import memory_class
from pybatsched.errors import InputError
from pybatsched.workload.formats.checks import shown
from pybatsched.workload.model import Workload
from pybatsched.workload.walltimes import tidy

#: GB/s from the shared file system to a node.
BANDWIDTH_GBPS: Final = 0.1
#: File size per core of a job: the memory of a node, 128 GB, divided by its 20 cores.
PER_CORE_GB: Final = 6.4
#: Maximum time between two jobs of a user that share a file.
GAP_S: Final = 3600.0


def alone_s(run_s: float, size_gb: float, bandwidth_gbps: float = BANDWIDTH_GBPS) -> int | float:
    """Return how long a job takes on an empty machine: loading its file and running.

    >>> alone_s(60, 6.4)
    124
    """
    return tidy(run_s + size_gb / bandwidth_gbps)


class MemoryClass(NamedTuple):
    """A class of nodes by memory, and the share of files whose jobs need it."""

    memory_gb: float
    share: float


@dataclass(frozen=True, slots=True)
class FileRule:
    """Which jobs share a file, and how large files are, as described at `pybatsched.workload.inject.steps.Files`."""

    gap_s: float = GAP_S
    per_core_gb: float = PER_CORE_GB
    sizes: tuple[float, float] | None = None
    classes: Sequence[MemoryClass] = ()
    bandwidth_gbps: float = BANDWIDTH_GBPS

    @property
    def is_random(self) -> bool:
        """Whether the result depends on the seed."""
        return self.sizes is not None or bool(self.classes)


def with_files(workload: Workload, rule: FileRule, seed: int) -> Workload:
    """Add input files to the jobs, and `alone_s` if known. O(n log n). Raises InputError for a job without user."""
    files = _Files(rule, seed)
    last: dict[str, tuple[float, int, _File]] = {}
    jobs = []
    for job in sorted(workload.jobs, key=lambda job: job["subtime"]):
        user, at, n_cores = _user(job, workload.source), job["subtime"], job["res"]
        before = last.get(user)
        shares = before is not None and before[1] == n_cores and at - before[0] <= rule.gap_s
        file = before[2] if before is not None and shares else files.new(n_cores)
        last[user] = at, n_cores, file
        jobs.append(_with_file(job, file, rule, delay_of(workload.profiles[job["profile"]], workload.profiles)))
    about = {**workload.about, "files": files.summary(len(jobs))}
    return Workload(jobs, copy.copy(workload.profiles), workload.n_procs, workload.source, about)


class _File(NamedTuple):
    name: str
    size_gb: int | float
    node_memory_gb: int | float | None


class _Files:
    """Makes files one by one. Sizes and classes have separate random generators and do not affect each other."""

    def __init__(self, rule: FileRule, seed: int) -> None:
        self._rule = rule
        self._seed = seed
        self._n = 0
        self._memories = sorted(kind.memory_gb for kind in rule.classes)
        self._sizes = random.Random(f"{seed}/file sizes")  # noqa: S311  no secret
        self._classes = self._random_classes()
        self._n_of_class: dict[float, int] = dict.fromkeys(self._memories, 0)

    def new(self, n_cores: int) -> _File:
        """Return a new file for a job of this number of cores."""
        self._n += 1
        size_gb = self._size(n_cores)
        memory_gb = next(self._classes)
        if memory_gb is not None:
            # A class must hold its file. A file that is larger than all classes needs its own size.
            held_by = memory_class(size_gb, self._memories)
            memory_gb = max(memory_gb, size_gb if held_by is None else held_by)
            if memory_gb in self._n_of_class:
                self._n_of_class[memory_gb] += 1
        return _File(str(self._n), size_gb, None if memory_gb is None else tidy(memory_gb))

    def _size(self, n_cores: int) -> int | float:
        if self._rule.sizes is None:
            return tidy(self._rule.per_core_gb * n_cores)
        low, high = map(math.log, self._rule.sizes)
        return tidy(math.exp(self._sizes.uniform(low, high)))

    def _random_classes(self) -> Iterator[float | None]:
        """Yield a random class for each file; None for the rest, if the sum of shares is less than 1."""
        rng = random.Random(f"{self._seed}/file classes")  # noqa: S311  no secret
        bounds = list(itertools.accumulate(kind.share for kind in self._rule.classes))
        if bounds and abs(bounds[-1] - 1.0) < 1e-9:
            bounds[-1] = 1.0  # a sum of floats may be slightly less than 1
        while True:
            place = bisect.bisect_right(bounds, rng.random())
            yield self._rule.classes[place].memory_gb if place < len(bounds) else None

    def summary(self, n_jobs: int) -> dict[str, Any]:
        """Return the number of files and the options, for the workload file."""
        rule = self._rule
        size = {"per_core_gb": rule.per_core_gb} if rule.sizes is None else {"sizes_gb": list(rule.sizes)}
        summary = {"n": self._n, "shared": n_jobs - self._n, "gap_s": rule.gap_s, **size}
        summary["bandwidth_gbps"] = rule.bandwidth_gbps
        if rule.classes:
            summary["classes"] = [{**kind._asdict(), "n": self._n_of_class[kind.memory_gb]} for kind in rule.classes]
        return summary | ({"seed": self._seed} if rule.is_random else {})


def _user(job: dict[str, Any], source: str) -> str:
    user = job.get("user")
    if type(user) not in {str, int} or user == "":
        found = shown(user) if "user" in job else "nothing"
        raise InputError(
            f"{source}: job {shown(job['id'])}, field user: expected a user name or number "
            f"(jobs of one user share files), found {found}"
        )
    return str(user)


def _with_file(job: dict[str, Any], file: _File, rule: FileRule, run_s: float | None) -> dict[str, Any]:
    own = {"input_file", "input_size_gb", "alone_s", *(["node_memory_gb"] if rule.classes else [])}
    made = {key: value for key, value in job.items() if key not in own}
    made |= {"input_file": file.name, "input_size_gb": file.size_gb}
    if file.node_memory_gb is not None:
        made["node_memory_gb"] = file.node_memory_gb
    if run_s is not None:
        made["alone_s"] = alone_s(run_s, file.size_gb, rule.bandwidth_gbps)
    return made
