"""Input files of jobs: how long it takes to load them, and files for jobs that have none, as users may share them."""

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

#: From the shared file system to a node of Rackham, in GB/s: Gonthier, Larsson, Marchal, Nettelblad, Thibault,
#: "Data-Driven Locality-Aware Batch Scheduling", APDCM 2024.
BANDWIDTH_GBPS: Final = 0.1
#: The memory of a node, 128 GB, over its 20 cores: what files are taken to have for each core of a job (same source).
PER_CORE_GB: Final = 6.4
#: As long after his last job, a user's next one is taken to use the same file.
GAP_S: Final = 3600.0


def alone_s(run_s: float, size_gb: float, bandwidth_gbps: float = BANDWIDTH_GBPS) -> int | float:
    """Give how long a job takes on an empty machine: it loads its file and runs.

    >>> alone_s(60, 6.4)
    124
    """
    return tidy(run_s + size_gb / bandwidth_gbps)


class MemoryClass(NamedTuple):
    """A class of nodes by their memory, and the share of the files whose jobs need as much."""

    memory_gb: float
    share: float


@dataclass(frozen=True, slots=True)
class Rule:
    """Who shares a file, and how large files are.

    A job shares the file of its user's last one if it has as many cores and comes within `gap_s` of it. A file has
    `per_core_gb` for each core, or, with `sizes`, a size drawn between the two: its logarithm is uniform. `classes` are
    drawn, one for each file.
    """

    gap_s: float = GAP_S
    per_core_gb: float = PER_CORE_GB
    sizes: tuple[float, float] | None = None
    classes: Sequence[MemoryClass] = ()
    bandwidth_gbps: float = BANDWIDTH_GBPS

    @property
    def draws(self) -> bool:
        """Whether another seed may give other files."""
        return self.sizes is not None or bool(self.classes)


def with_files(workload: Workload, rule: Rule, seed: int) -> Workload:
    """Give the jobs of a workload input files, and `alone_s` where their run time is known. O(n log n).

    Files that jobs had are replaced; nothing else of the jobs is changed but that they are in order of submission.
    Raises InputError for a job without a user.
    """
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
    about = {**workload.about, "files": files.told(len(jobs))}
    return Workload(jobs, copy.copy(workload.profiles), workload.n_procs, workload.source, about)


class _File(NamedTuple):
    name: str
    size_gb: int | float
    node_memory_gb: int | float | None


class _Files:
    """Makes files one after the other. Sizes and classes have dice of their own: one does not change the other."""

    def __init__(self, rule: Rule, seed: int) -> None:
        self._rule = rule
        self._seed = seed
        self._n = 0
        self._memories = sorted(kind.memory_gb for kind in rule.classes)
        self._sizes = random.Random(f"{seed}/file sizes")  # noqa: S311  no secret
        self._drawn = self._draw_classes()
        self._n_drawn: dict[float, int] = dict.fromkeys(self._memories, 0)

    def new(self, n_cores: int) -> _File:
        """Make a file for a job of so many cores."""
        self._n += 1
        size_gb = self._size(n_cores)
        memory_gb = next(self._drawn)
        if memory_gb is not None:
            # Nobody's class is too small for his own file; what no class holds needs as much as it has.
            held_by = memory_class(size_gb, self._memories)
            memory_gb = max(memory_gb, size_gb if held_by is None else held_by)
            if memory_gb in self._n_drawn:
                self._n_drawn[memory_gb] += 1
        return _File(str(self._n), size_gb, None if memory_gb is None else tidy(memory_gb))

    def _size(self, n_cores: int) -> int | float:
        if self._rule.sizes is None:
            return tidy(self._rule.per_core_gb * n_cores)
        low, high = map(math.log, self._rule.sizes)
        return tidy(math.exp(self._sizes.uniform(low, high)))

    def _draw_classes(self) -> Iterator[float | None]:
        """Draw the class of one file after the other; None for the rest, where shares are less than 1 together."""
        dice = random.Random(f"{self._seed}/file classes")  # noqa: S311  no secret
        bounds = list(itertools.accumulate(kind.share for kind in self._rule.classes))
        if bounds and abs(bounds[-1] - 1.0) < 1e-9:
            bounds[-1] = 1.0  # a sum of floats: nobody is to fall into the gap
        while True:
            place = bisect.bisect_right(bounds, dice.random())
            yield self._rule.classes[place].memory_gb if place < len(bounds) else None

    def told(self, n_jobs: int) -> dict[str, Any]:
        """Say what was made, for the file."""
        rule = self._rule
        size = {"per_core_gb": rule.per_core_gb} if rule.sizes is None else {"sizes_gb": list(rule.sizes)}
        told = {"n": self._n, "shared": n_jobs - self._n, "gap_s": rule.gap_s, **size}
        told["bandwidth_gbps"] = rule.bandwidth_gbps
        if rule.classes:
            told["classes"] = [{**kind._asdict(), "n": self._n_drawn[kind.memory_gb]} for kind in rule.classes]
        return told | ({"seed": self._seed} if rule.draws else {})


def _user(job: dict[str, Any], source: str) -> str:
    user = job.get("user")
    if type(user) not in {str, int} or user == "":
        found = shown(user) if "user" in job else "nothing"
        raise InputError(
            f"{source}: job {shown(job['id'])}, field user: expected a user, whose jobs share files, found {found}"
        )
    return str(user)


def _with_file(job: dict[str, Any], file: _File, rule: Rule, run_s: float | None) -> dict[str, Any]:
    own = {"input_file", "input_size_gb", "alone_s", *(["node_memory_gb"] if rule.classes else [])}
    made = {key: value for key, value in job.items() if key not in own}
    made |= {"input_file": file.name, "input_size_gb": file.size_gb}
    if file.node_memory_gb is not None:
        made["node_memory_gb"] = file.node_memory_gb
    if run_s is not None:
        made["alone_s"] = alone_s(run_s, file.size_gb, rule.bandwidth_gbps)
    return made
