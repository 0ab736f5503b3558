"""How much of a run's journal its page tells: whole stories of small runs, decisions of larger ones, or nothing.

Why a job waited is asked of the policy at each message while it does, which takes long where many wait; and a page of a
hundred thousand stories is none that somebody opens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from pybatsched.core.instants import seconds_text
from pybatsched.errors import InputError
from pybatsched.metrics.job_table import JobTable
from pybatsched.metrics.runs import Run
from pybatsched.report.run.page import Told
from pybatsched.session.explain import full_histories, job_histories
from pybatsched.session.journal import JournalReader

Stories = Mapping[str, Sequence[tuple[float, str]]]

#: With more jobs than these, a journal that nobody has named is not read.
MAX_JOBS: Final = 20_000
#: So often policies are asked why a job waits: some 10 µs each.
MAX_QUESTIONS: Final = 200_000
#: A start may be so much later in the files of a run than it was decided: Batsim takes a moment.
_LATE_S: Final = 1.0


def tell(run: Run, given: str = "") -> Told:
    """Tell the jobs of a run from its journal: the one `given`, or the one that is found beside it. O(journal).

    Raises InputError if the one given is not that of the run; one that was found is then left alone, and a note says
    so.
    """
    path = given or found_beside(run)
    if not path:
        return Told()
    n_jobs = len(run.records)
    if not given and n_jobs > MAX_JOBS:
        note = f"The journal {path} is not told: of {n_jobs:,} jobs, {MAX_JOBS:,} are the most; --journal tells it."
        return Told(note=note)
    try:
        return _told(run, path)
    except InputError as error:
        if given:
            raise
        return Told(note=f"The journal {path} is not told: {str(error).removeprefix(f'--journal {path}: ')}.")


def found_beside(run: Run) -> str:
    """Give the journal that the run's mark names, or ``PREFIX.pbj``; empty if there is neither."""
    return next((path for path in (run.journal, f"{run.prefix}.pbj") if path and Path(path).is_file()), "")


def n_questions(jobs: JobTable) -> int:
    """Estimate how often policies are asked for whole stories: at each start, end and submission while a job waits."""
    begins, ends = jobs.segments["started_at"].to_numpy(), jobs.segments["ended_at"].to_numpy()
    submitted_at, started_at = jobs.ran["submitted_at"].to_numpy(), jobs.ran["started_at"].to_numpy()
    instants = np.unique(np.concatenate((submitted_at, begins, ends)))
    waited = np.searchsorted(instants, started_at) - np.searchsorted(instants, submitted_at)
    return int(np.maximum(waited, 0).sum())


def _told(run: Run, path: str) -> Told:
    reader = JournalReader(path)
    _check_policy(reader, run)
    jobs = run.jobs
    why = "too many waited for too long; see pybatsched explain" if n_questions(jobs) > MAX_QUESTIONS else ""
    found: Stories = {}
    if not why:
        try:
            found = full_histories(reader)
        except InputError as error:
            why = str(error)
    if why:
        found = job_histories(reader)
    own = jobs.frame["id"].to_list()
    if own and found.keys().isdisjoint(own):
        raise InputError(f"--journal {path}: it tells of no job of {run.prefix} ({reader.note})")
    _check_starts(found, jobs, path, run)
    notes = [f"Why jobs waited is not told: {why}."] if why else []
    if not reader.is_whole:
        notes.append(f"The journal {path} is not whole, and stories end with it: {reader.note}.")
    return Told(found, " ".join(notes))


def _check_policy(reader: JournalReader, run: Run) -> None:
    """Raise InputError if the journal is of another policy, or of other options."""
    policy = run.summary.get("policy")
    if not isinstance(policy, dict):
        return
    for what, of_run in (("policy", policy.get("name")), ("options", policy.get("options"))):
        if reader.header[what] != of_run:
            raise InputError(
                f"--journal {reader.path}: {what} {reader.header[what]}, but {run.prefix} has {of_run}; "
                "expected the journals of the runs, in their order"
            )


def _check_starts(found: Stories, jobs: JobTable, path: str, run: Run) -> None:
    """Raise InputError if a job was started at another time than the journal says."""
    for job_id, started_at in jobs.ran.select("id", "started_at").iter_rows():
        told = next((at for at, what in found.get(job_id, ()) if what.startswith("started on ")), None)
        if told is not None and abs(started_at - told) > _LATE_S:
            raise InputError(
                f"--journal {path}: job {job_id} started at {seconds_text(told)}, but in {run.prefix} at "
                f"{seconds_text(started_at)}; expected the journal of this run"
            )
