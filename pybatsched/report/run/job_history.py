"""Read the histories of jobs from a run's journal: complete, decisions only, or none, by the run's size."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from pybatsched.core.instants import seconds_text
from pybatsched.errors import InputError
from pybatsched.metrics.job_results import JobResults
from pybatsched.metrics.saved_runs import SavedRun
from pybatsched.report.gantt.chart import Histories
from pybatsched.report.run.page import JobHistories
from pybatsched.session.explain import full_histories, job_histories
from pybatsched.session.journal import JournalReader

#: With more jobs, a journal is read only if the user names it.
MAX_JOBS: Final = 20_000
#: Maximum number of explanations of waiting jobs: about 10 µs each.
MAX_EXPLANATIONS: Final = 200_000
#: Maximum delay in seconds between the decision to start a job and its start in Batsim's files.
_MAX_DELAY_S: Final = 1.0


def read_histories(run: SavedRun, given: str = "") -> JobHistories:
    """Read histories from the journal `given`, else from the run's own if it fits. Raises InputError. O(journal)."""
    path = given or journal_of(run)
    if not path:
        return JobHistories()
    n_jobs = len(run.records)
    if not given and n_jobs > MAX_JOBS:
        note = (
            f"The journal {path} is not shown: the run has {n_jobs:,} jobs, more than {MAX_JOBS:,}; "
            "name the journal to show it."
        )
        return JobHistories(note=note)
    try:
        return _histories(run, path)
    except InputError as error:
        if given:
            raise
        return JobHistories(note=f"The journal {path} is not shown: {str(error).removeprefix(f'{path}: ')}.")


def journal_of(run: SavedRun) -> str:
    """Return the journal in the run's state file, or ``PREFIX.pbj``; empty if there is neither."""
    return next((path for path in (run.journal, f"{run.prefix}.pbj") if path and Path(path).is_file()), "")


def n_explanations(jobs: JobResults) -> int:
    """Estimate the number of explanations: one at each start, end and submission while a job waits."""
    begins, ends = jobs.segments["started_at"].to_numpy(), jobs.segments["ended_at"].to_numpy()
    submitted_at, started_at = jobs.ran["submitted_at"].to_numpy(), jobs.ran["started_at"].to_numpy()
    instants = np.unique(np.concatenate((submitted_at, begins, ends)))
    waited = np.searchsorted(instants, started_at) - np.searchsorted(instants, submitted_at)
    return int(np.maximum(waited, 0).sum())


def _histories(run: SavedRun, path: str) -> JobHistories:
    reader = JournalReader(path)
    _check_policy(reader, run)
    jobs = run.jobs
    why = "too many jobs waited for too long; see pybatsched explain" if n_explanations(jobs) > MAX_EXPLANATIONS else ""
    found: Histories = {}
    if not why:
        try:
            found = full_histories(reader)
        except InputError as error:
            why = str(error)
    if why:
        found = job_histories(reader)
    own = jobs.frame["id"].to_list()
    if own and found.keys().isdisjoint(own):
        raise InputError(f"{path}: it contains no job of {run.prefix} ({reader.note})")
    _check_starts(found, jobs, path, run)
    notes = [f"Reasons for waiting are not shown: {why}."] if why else []
    if not reader.is_whole:
        notes.append(f"The journal {path} is not complete, and histories end with it: {reader.note}.")
    return JobHistories(found, " ".join(notes))


def _check_policy(reader: JournalReader, run: SavedRun) -> None:
    """Raise InputError if the journal is of another policy or of other options."""
    policy = run.summary.get("policy")
    if not isinstance(policy, dict):
        return
    for what, of_run in (("policy", policy.get("name")), ("options", policy.get("options"))):
        if reader.header[what] != of_run:
            raise InputError(
                f"{reader.path}: {what} {reader.header[what]}, but {run.prefix} has {of_run}; "
                "expected the journals of the runs, in their order"
            )


def _check_starts(found: Histories, jobs: JobResults, path: str, run: SavedRun) -> None:
    """Raise InputError if the start of a job differs from the journal."""
    for job_id, started_at in jobs.ran.select("id", "started_at").iter_rows():
        decided_at = next((at for at, what in found.get(job_id, ()) if what.startswith("started on ")), None)
        if decided_at is not None and abs(started_at - decided_at) > _MAX_DELAY_S:
            raise InputError(
                f"{path}: job {job_id} started at {seconds_text(decided_at)}, but in {run.prefix} at "
                f"{seconds_text(started_at)}; expected the journal of this run"
            )
