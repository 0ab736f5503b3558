"""Find problems in a workload: each with a count, the first places, and how a conversion handles it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from pybatsched.core.dependencies import names_of, with_ids
from pybatsched.core.derive import delay_of
from pybatsched.core.field_check import FieldCheck
from pybatsched.core.fields import FieldModel, JobFields, StartFields
from pybatsched.errors import InputError, setting
from pybatsched.workload import progress
from pybatsched.workload.checks.job_order import check_order
from pybatsched.workload.formats.checks import is_number
from pybatsched.workload.model import Workload
from pybatsched.workload.reading import Content, read_file
from pybatsched.workload.report import LintReport

Readers = Mapping[str, type[FieldModel]]
#: The name of the metrics among the readers of fields.
METRICS: Final = "metrics"
#: The name of the engine among them.
ENGINE: Final = "the engine"
#: The fields that every policy reads.
SCHEDULERS: Final[Readers] = {"schedulers": JobFields}


def lint(
    path: str | Path,
    n_procs: int | None = None,
    readers: Readers = SCHEDULERS,
    timezone: str | None = None,
    *,
    format: str | None = None,  # noqa: A002  as the option
    mapping: str | None = None,
) -> LintReport:
    """Check a workload file of any format with the field models `readers`. O(n log n). Raises InputError."""
    with progress.part(0, 0.5):
        found = read_file(path, format=format, mapping=mapping, timezone=timezone, lenient=True)
    with progress.part(0.5, 1):
        return lint_content(path, found, n_procs, readers)


def lint_content(
    path: str | Path, found: Content, n_procs: int | None = None, readers: Readers = SCHEDULERS
) -> LintReport:
    """Check the content of a workload file, as `read_file` returns it. O(n log n)."""
    if isinstance(found, Workload):
        return lint_workload(found, n_procs, readers)
    from pybatsched.workload.checks.lint_log import lint_log  # noqa: PLC0415  it needs polars, which is slow to import

    if found.bad and not len(found):
        first = next(iter(found.bad.values()))
        where = found.where
        raise InputError(f"{path}: {where} {first.places[0]}: {first.rule}; no {where} of the file is a job")
    return lint_log(found, n_procs)


def lint_workload(workload: Workload, n_procs: int | None = None, readers: Readers = SCHEDULERS) -> LintReport:
    """Check a Batsim file that has passed Batsim's own checks, with the field models of `readers`. O(n)."""
    found = LintReport(workload.source, "Batsim JSON", len(workload.jobs), n_procs or workload.n_procs, where="job")
    names = names_of(workload.jobs)
    latest_at = 0.0
    for job in workload.jobs:
        if job["subtime"] < latest_at:
            found.add("submitted before the job above it", "put in order of submission", job["id"])
        latest_at = max(latest_at, job["subtime"])
        _check_job(job, found)
        _check_job_times(job, delay_of(workload.profiles[job["profile"]], workload.profiles), found)
        _check_dependency(job, names, found)
    check_order(((job["subtime"], str(job["id"]), job["id"]) for job in workload.jobs), found)
    _check_fields(workload, {**readers, ENGINE: StartFields}, found)
    for name in _unused(workload):
        found.add("a profile that no job uses", "left out", f"profile {name}", "note")
    return found


def _check_job(job: dict[str, Any], found: LintReport) -> None:
    if job["res"] == 0:
        found.add("no processors", "kept; Batsim can start it on no processors", job["id"])
    if job["res"] > found.n_procs:
        remedy = f"kept, schedulers reject it (or {setting('max_size')})"
        found.add(f"larger than the machine of {found.n_procs:,}", remedy, job["id"])
    if "!" in str(job["id"]):
        found.add("an id with a !, which separates workload and job in messages", "kept", job["id"])


def _check_dependency(job: dict[str, Any], names: set[str], found: LintReport) -> None:
    """Find jobs that depend on one that is not in the file."""
    if "depends_on" not in job:
        return
    with contextlib.suppress(InputError):  # the check of fields reports it
        if with_ids(job, lambda name: name if name in names else None)[1]:
            found.add("depends on a job that is not in the file", "the dependency is removed", job["id"])


def _check_fields(workload: Workload, readers: Readers, found: LintReport) -> None:
    """Find fields of jobs that a model rejects, and name the policies. O(jobs * different models)."""
    by_model: dict[type[FieldModel], list[str]] = {}
    for reader, model in readers.items():
        by_model.setdefault(model, []).append(reader)
    rejected_by: dict[str, dict[str, None]] = {}
    checks = [(FieldCheck(model, names[0]), names) for model, names in by_model.items()]
    for job in workload.jobs:
        seen: dict[str, None] = {}
        for check, names in checks:
            for fault in check.faults(job):
                seen[fault.what] = None
                rejected_by.setdefault(fault.what, {}).update(dict.fromkeys(names))
        for what in seen:
            found.add(what, "", job["id"])
    for what, by_names in rejected_by.items():
        by = (
            "schedulers"
            if all(name in by_names for name in readers if name not in {METRICS, ENGINE})
            else ", ".join(by_names)
        )
        found.findings[what].remedy = f"kept; rejected by {by}"


def _check_job_times(job: dict[str, Any], run_s: float | None, found: LintReport) -> None:
    walltime_s = job.get("walltime", -1)
    estimate_s = job.get("estimate")
    if walltime_s == -1 and estimate_s is None:
        found.add("neither walltime nor estimate", "kept; backfilling plans it without an end", job["id"])
    if is_number(estimate_s) and estimate_s > walltime_s > 0:
        found.add("estimate above the walltime", "kept", job["id"])
    if run_s is not None and 0 < walltime_s <= run_s:
        found.add("runs at least as long as its walltime", "kept; it will be killed", job["id"])


def _unused(workload: Workload) -> Iterable[str]:
    used = {job["profile"] for job in workload.jobs}
    parts = {part for profile in workload.profiles.values() for part in profile.get("seq", ())}
    outcomes = {profile.get(key) for profile in workload.profiles.values() for key in ("success", "failure", "timeout")}
    return [name for name in workload.profiles if name not in used | parts | outcomes]
