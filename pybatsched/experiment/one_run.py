"""Run one simulation of an experiment and write its files, those of `pybatsched simulate`; in any process."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pybatsched.experiment.arguments import warn
from pybatsched.experiment.log import Log
from pybatsched.runs.build import Built, build
from pybatsched.runs.execute import JOURNAL, execute, finish, results_of, warnings_after
from pybatsched.runs.spec import RunSpec
from pybatsched.simulator.observers import Watching


class Folder:
    """A temporary directory, which is removed with this object."""

    def __init__(self) -> None:
        self.name = tempfile.mkdtemp(prefix="pybatsched-")
        weakref.finalize(self, shutil.rmtree, self.name, ignore_errors=True)


@dataclass(frozen=True)
class RunRequest:
    """One simulation: a workload, and the run."""

    log: Log
    spec: RunSpec

    @property
    def label(self) -> str:
        """A short name of the run: its policy."""
        assert self.spec.policy is not None
        return self.spec.policy.title

    def built(self) -> Built:
        """Return the run, ready to start. Raises InputError."""
        return build(self.spec, [self.log.as_jobs()])


def run_one(
    request: RunRequest, prefix: str, *, progress: Callable[[float, int], None] | None = None, journal: bool = False
) -> list[str]:
    """Simulate, and write the files of `pybatsched simulate -e PREFIX`. Returns warnings."""
    built = request.built()
    path = f"{prefix}{JOURNAL}" if journal else None
    names = {"names": {"policy": request.label, "workload": request.log.name, "origin": request.log.origin}}
    with results_of(built, prefix, path) as results:
        observers = [] if progress is None else [Watching(progress)]
        result, content = execute(built, results, observers, journal=path, more=names)
        finish(results, content)
    return [*built.warnings, *(f"{request.label}: {text}" for text in warnings_after(result))]


def warn_all(texts: Sequence[str]) -> None:
    """Show warnings, each once."""
    for text in dict.fromkeys(texts):
        warn(text)
