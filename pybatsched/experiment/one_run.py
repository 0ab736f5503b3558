"""Run one simulation of an experiment and write its files, those of `pybatsched simulate`; in any process."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pybatsched.experiment.arguments import warn
from pybatsched.metrics import jobs_csv
from pybatsched.metrics.logged import LOGGED, logged_run
from pybatsched.results.run_state import JOBS
from pybatsched.runs.build import Built, build
from pybatsched.runs.execute import JOURNAL, execute, finish, results_of, summary_of, warnings_after
from pybatsched.runs.spec import RunSpec
from pybatsched.runs.workloads import Jobs
from pybatsched.simulator.observers import Watching


class Folder:
    """A temporary directory, which is removed with this object."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="pybatsched-")
        weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)


@dataclass(frozen=True)
class RunRequest:
    """One simulation: a workload with its name and origin, and the run. Without a policy, it is the logged run."""

    jobs: Jobs
    workload: str
    origin: str
    spec: RunSpec

    @property
    def label(self) -> str:
        """A short name of the run: its policy."""
        return LOGGED if self.spec.policy is None else self.spec.policy.title

    @property
    def n_jobs(self) -> int:
        """The number of jobs."""
        return len(self.jobs.workload.jobs)

    def built(self) -> Built:
        """Return the run, ready to start. Raises InputError."""
        return build(self.spec, [self.jobs])


def run_one(
    request: RunRequest, prefix: str, *, progress: Callable[[float, int], None] | None = None, journal: bool = False
) -> list[str]:
    """Simulate, and write the files of `pybatsched simulate -e PREFIX`. Returns warnings."""
    built = request.built()
    path = f"{prefix}{JOURNAL}" if journal else None
    names = {"names": {"policy": request.label, "workload": request.workload, "origin": request.origin}}
    with results_of(built, prefix, path) as results:
        if request.spec.policy is None:
            n_procs = built.scenario.platform.n_procs
            outcomes, result = logged_run(built.scenario.workloads, n_procs, request.spec.tau_s)
            results.begin(request.n_jobs, n_procs)
            jobs_csv.write(f"{results.part}{JOBS}", outcomes)
            results.n_over = len(outcomes)
            content = summary_of(built, result, names)
        else:
            observers = [] if progress is None else [Watching(progress)]
            result, content = execute(built, results, observers, journal=path, more=names)
        finish(results, content)
    return [*built.warnings, *(f"{request.label}: {text}" for text in warnings_after(result))]


def warn_all(texts: Sequence[str]) -> None:
    """Show warnings, each once."""
    for text in dict.fromkeys(texts):
        warn(text)
