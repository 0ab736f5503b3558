"""Find problems in a workload: each with a count, the first places, and how a conversion handles it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, TypeVar

from pybatsched.core.field_check import FieldCheck
from pybatsched.core.fields import FieldModel, JobFields
from pybatsched.core.services.derive import delay_of
from pybatsched.errors import InputError, setting
from pybatsched.workload import progress
from pybatsched.workload.checks.lint_job_log import lint_job_log
from pybatsched.workload.checks.log_checks import check_beyond, check_gaps, check_times, check_units, check_use
from pybatsched.workload.formats.checks import is_number
from pybatsched.workload.formats.job_log import JobLog
from pybatsched.workload.formats.rackham import N_NODES, NODE_CORES, is_over, submitted_at, time_zero
from pybatsched.workload.formats.rackham_reader import JobClass, RackhamJob, RackhamTrace
from pybatsched.workload.formats.swf import peak_use, size_of
from pybatsched.workload.formats.swf_reader import FIELDS, SwfJob, SwfTrace
from pybatsched.workload.model import Workload
from pybatsched.workload.prepare import as_list
from pybatsched.workload.reading import Content, read_file
from pybatsched.workload.report import PLACES_KEPT, Finding, LintReport, Tally

Where = TypeVar("Where", int, str)

OTHER_ORDER: Final = "submission times whose jobs Batsim takes in another order than the file: by id as text"

Readers = Mapping[str, type[FieldModel]]
#: The name of the metrics among the readers of fields.
METRICS: Final = "metrics"
#: The fields that every policy reads.
SCHEDULERS: Final[Readers] = {"schedulers": JobFields}

_CANCELLED: Final = 5
_PARTS: Final = frozenset({2, 3, 4})
#: Fields that no simulation needs: unknown values are only a note.
_OPTIONAL: Final = (2, 5, 6, 9, 10, 11, 12, 13, 14, 15)


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
    match found:
        case Workload():
            return lint_workload(found, n_procs, readers)
        case RackhamTrace():
            _check_has_jobs(path, found.jobs, found.bad)
            return lint_rackham(found, n_procs)
        case SwfTrace():
            _check_has_jobs(path, found, found.bad)
            return lint_trace(found, n_procs)
        case JobLog():
            _check_has_jobs(path, found.jobs, found.bad, found.where)
            return lint_job_log(found, n_procs)


def _check_has_jobs(path: str | Path, jobs: Sized, bad: Mapping[str, Tally], where: str = "line") -> None:
    if bad and not len(jobs):
        first = next(iter(bad.values()))
        raise InputError(f"{path}: {where} {first.places[0]}: {first.rule}; no {where} of the file is a job")


def lint_trace(trace: SwfTrace, n_procs: int | None = None) -> LintReport:
    """Check a log in SWF. O(n log n) for the processors in use at one time, the rest is linear."""
    sizes = [n if n > 0 else max(other, 0) for n, other in zip(trace.numbers[4], trace.numbers[7], strict=True)]
    largest = max(sizes, default=0)
    known = n_procs or trace.header_count("MaxProcs") or trace.header_count("MaxNodes")
    peak = 0 if known else peak_use(trace)
    found = LintReport(trace.source, "SWF", len(trace), known or max(largest, peak, 1))
    found.add_bad_lines(trace.bad)
    if not len(trace):
        found.add("no line is a job", "an error: no job is left", 1)
    if known is None:
        taken = f"the largest job, {largest:,}," if peak <= largest else f"the most processors in use, {peak:,},"
        found.add("header: no MaxProcs or MaxNodes", f"{taken} is taken (or {setting('n_procs')})", 1, "note")
    records = trace.header_count("MaxRecords")
    if records is not None and records != len(trace) + trace.n_bad:
        what = f"header: MaxRecords is {records:,}, the file has {len(trace) + trace.n_bad:,} jobs"
        found.add(what, "nothing: a part of a log, or a cleaned one", 1, "note")
    if len(partitions := trace.partitions) > 1:
        what = f"jobs of {len(partitions):,} partitions, the largest {partitions.most_common(1)[0][0]}"
        found.add(what, f"all are taken (or {setting('partitions')})", trace.lines[0], "note")
    for remark in trace.remarks:
        found.add(remark, "taken", trace.lines[0] if len(trace) else 1, "note")
    _check_order_and_numbers(trace, found)
    for job in trace.rows(_unusual(trace, found.n_procs)):
        _check_times(job, found)
        _check_sizes(job, found)
    check_order(_runnable(trace, sizes), found)
    check_units([limit_s for limit_s in trace.numbers[8] if limit_s > 0], found, trace.lines[0] if len(trace) else 1)
    _check_plausible(trace, found)
    check_gaps([(at, line) for at, line in zip(trace.numbers[1], trace.lines, strict=True) if at >= 0], found)
    _check_unknown(trace, found)
    if trace.unnamed.count:
        found.add_tally(trace.unnamed, "ignored")
    if known is not None:  # a guessed machine size would only cause false findings
        check_use(_spans(trace, sizes), "processors", found)
    return found


def _check_plausible(trace: SwfTrace, found: LintReport) -> None:
    """Check the units of submissions, run times and requested times over all jobs."""
    if not len(trace):
        return
    submissions = [at for at in trace.numbers[1] if at >= 0]
    run_times_s = [run_s for run_s in trace.numbers[3] if run_s > 0]
    names = ("field 2 (submit time)", "field 4 (run time)")
    check_times(submissions, run_times_s, names, found, trace.lines[0])
    pairs = [(run_s, limit_s) for run_s, limit_s in zip(trace.numbers[3], trace.numbers[8], strict=True) if limit_s > 0]
    n_beyond = sum(run_s > limit_s for run_s, limit_s in pairs)
    check_beyond(n_beyond, len(pairs), ("field 9 (requested time)", names[1]), found, trace.lines[0])


def _unusual(trace: SwfTrace, n_procs: int) -> Iterator[int]:
    """Yield the places of jobs about which `_check_times` or `_check_sizes` may find something: most need no look."""
    numbers = trace.numbers
    rows = zip(numbers[1], numbers[3], numbers[8], numbers[4], numbers[7], numbers[10], strict=True)
    for place, (at, run_s, wanted_s, allocated, requested, status) in enumerate(rows):
        is_usual = at >= 0 and 0 < run_s < wanted_s and 0 < allocated == requested <= n_procs and status != _CANCELLED
        if not is_usual:
            yield place


def _runnable(trace: SwfTrace, sizes: Sequence[int]) -> Iterator[tuple[float, str, int]]:
    """Yield submission, id and line of each line that becomes a job."""
    rows = zip(trace.numbers[1], trace.numbers[0], trace.numbers[3], sizes, trace.lines, strict=True)
    return ((at, str(number), line) for at, number, run_s, n, line in rows if at >= 0 and run_s > 0 and n > 0)


def _check_order_and_numbers(trace: SwfTrace, found: LintReport) -> None:
    numbers = set(trace.numbers[0])
    seen: set[float] = set()
    latest_at = -1.0
    for at, number, status, preceding, line in zip(
        trace.numbers[1], trace.numbers[0], trace.numbers[10], trace.numbers[16], trace.lines, strict=True
    ):
        if 0 <= at < latest_at:
            found.add("submitted before the job above it", "put in order of submission", line)
        if at > latest_at:
            latest_at = at
        if status in _PARTS:
            found.add("a part of a job (status 2, 3 or 4)", "dropped if the whole job has a line too", line)
        elif number in seen:
            found.add("job number given before", f"renumbered (or {setting('duplicates', 'error')})", line)
        seen.add(number)
        if preceding > 0 and preceding not in numbers:
            found.add("depends on a job that is not in the log", "the dependency is removed", line)
        elif preceding > 0 and preceding not in seen:
            found.add("depends on a job that comes later", "kept", line)
        elif preceding > 0 and preceding == number:
            found.add("depends on itself", "kept", line)


def _check_times(job: SwfJob, found: LintReport) -> None:
    if job.submitted_at < 0:
        found.add("submit time unknown or negative", "dropped", job.line)
    if job.run_s == 0:
        found.add("run time 0", f"dropped (or {setting('min_runtime')})", job.line)
    elif job.run_s < 0:
        found.add("run time unknown or negative", f"dropped (or {setting('min_runtime')})", job.line)
    if job.requested_s <= 0:
        found.add("requested time unknown, 0 or negative", "planned with its run time", job.line)
    elif job.run_s > job.requested_s:
        strict = setting("walltimes", "requested-strict")
        remedy = f"walltime is raised, the request stays the estimate (or {strict}: killed)"
        found.add("ran longer than requested", remedy, job.line)
    elif job.run_s == job.requested_s:
        found.add("ran exactly as long as requested", "walltime is raised by 1 s, so that it can end", job.line, "note")


def _check_sizes(job: SwfJob, found: LintReport) -> None:
    allocated, requested = job.allocated_procs, job.requested_procs
    n = size_of(allocated, requested)
    if n == 0:
        found.add("no processors, neither allocated nor requested", "dropped", job.line)
    elif allocated <= 0:
        found.add("allocated processors unknown, 0 or negative", "the requested ones are taken", job.line)
    elif requested <= 0:
        found.add("requested processors unknown, 0 or negative", "the allocated ones are taken", job.line, "note")
    elif allocated != requested:
        remedy = f"the allocated ones are taken (or {setting('size', 'requested')})"
        found.add("allocated other processors than requested", remedy, job.line)
    if n > found.n_procs:
        found.add(
            f"larger than the machine of {found.n_procs:,}",
            f"kept, schedulers reject it (or {setting('max_size')})",
            job.line,
        )
    if job.status == _CANCELLED:
        found.add("cancelled (status 5)", "kept as it ran, dropped if it did not run", job.line, "note")


def _check_unknown(trace: SwfTrace, found: LintReport) -> None:
    """Note unknown values of fields that no simulation needs, field by field."""
    for index in _OPTIONAL:
        name = f"field {index + 1} ({FIELDS[index]})"
        column: Sequence[Any] = trace.labels[index] or trace.numbers[index]
        _add_matching(column, trace, found, lambda value: value == -1, Finding(f"{name} unknown", "left out", "note"))
        names = Finding(f"{name} is a name, not a number", "kept as text", "note")
        _add_matching(column, trace, found, lambda value: isinstance(value, str), names)
        negative = Finding(f"{name} negative", "left out")
        _add_matching(
            column, trace, found, lambda value: not isinstance(value, str) and value < 0 and value != -1, negative
        )


def _add_matching(
    column: Sequence[Any], trace: SwfTrace, found: LintReport, is_it: Callable[[Any], bool], finding: Finding
) -> None:
    """Add a finding for the values that pass a test. Each different value is tested once."""
    values = {value for value in set(column) if is_it(value)}
    if values:
        finding.count = sum(map(column.count, values)) if len(values) < 4 else sum(value in values for value in column)
        lines = (line for value, line in zip(column, trace.lines, strict=True) if value in values)
        finding.places += itertools.islice(lines, PLACES_KEPT)
        found.findings[finding.what] = finding


def _spans(trace: SwfTrace, sizes: Sequence[int]) -> Iterator[tuple[float, float, int, int]]:
    """Yield the start, run time, size and line of each job whose start is known."""
    rows = zip(trace.numbers[1], trace.numbers[2], trace.numbers[3], sizes, trace.lines, strict=True)
    return (
        (at + wait_s, run_s, n, line)
        for at, wait_s, run_s, n, line in rows
        if at >= 0 and wait_s >= 0 and run_s > 0 and n > 0
    )


def lint_rackham(trace: RackhamTrace, n_procs: int | None = None) -> LintReport:
    """Check a Rackham log, line by line. O(n)."""
    found = LintReport(trace.source, "Rackham", len(trace.jobs), n_procs or N_NODES * NODE_CORES)
    found.add_bad_lines(trace.bad)
    zero_at = _check_time_zero(trace, found)
    seen: set[int] = set()
    sizes: dict[str, float] = {}
    latest_at = -1.0
    for job in trace.jobs:
        if 0 <= job.submitted_at < latest_at:
            found.add("submitted before the job above it", "put in order of submission", job.line)
        latest_at = max(latest_at, job.submitted_at)
        if job.number in seen:
            found.add("id given before", f"renumbered (or {setting('duplicates', 'error')})", job.line)
        seen.add(job.number)
        if sizes.setdefault(job.file, job.size_gb) != job.size_gb:
            found.add("data_size is not that of the same data above", "kept; the policy locality rejects it", job.line)
        _check_rackham_times(job, found)
        _check_cores(job, found)
        if zero_at is not None:
            _check_class(job, zero_at, found)
    if zero_at is not None:
        _check_rackham_order(trace, zero_at, found)
    return found


def _check_rackham_order(trace: RackhamTrace, zero_at: float, found: LintReport) -> None:
    """Count the submission times whose jobs are not in the order of their ids. A conversion pads ids with zeros."""
    n_digits = len(str(max(job.number for job in trace.jobs)))
    runnable = (job for job in trace.jobs if job.submitted_at >= 0 and job.run_s > 0 and job.n_cores > 0)
    check_order(((submitted_at(job, zero_at), f"{job.number:0{n_digits}}", job.line) for job in runnable), found)


def _check_time_zero(trace: RackhamTrace, found: LintReport) -> float | None:
    try:
        zero_at, remark = time_zero(trace)
    except InputError:
        found.add("no job of class 0, 1 or 2, whose submission is time 0", "an error", trace.jobs[0].line)
        return None
    if remark:
        found.add("no job of class 0", "time 0 is the first submission of class 1 or 2", trace.jobs[0].line, "note")
    return zero_at


def _check_rackham_times(job: RackhamJob, found: LintReport) -> None:
    if job.submitted_at < 0:
        found.add("subtime unknown or negative", "dropped", job.line)
    if job.run_s <= 0:
        found.add("delay of 0, unknown or negative", f"dropped (or {setting('min_runtime')})", job.line)
    if job.walltime_s <= 0:
        found.add("walltime of 0, unknown or negative", "kept without a walltime", job.line)
    elif job.run_s >= job.walltime_s:
        found.add("ran at least as long as its walltime", "kept; it will be killed", job.line)


def _check_cores(job: RackhamJob, found: LintReport) -> None:
    if job.n_cores <= 0:
        found.add("no cores", "dropped", job.line)
    elif job.n_cores > found.n_procs:
        remedy = f"kept, schedulers reject it (or {setting('max_size')})"
        found.add(f"larger than the machine of {found.n_procs:,}", remedy, job.line)
    elif job.n_cores > NODE_CORES:
        remedy = "kept; schedulers of single nodes reject it"
        found.add(f"larger than a node of {NODE_CORES} cores", remedy, job.line)


def _check_class(job: RackhamJob, zero_at: float, found: LintReport) -> None:
    """Find jobs whose history contradicts their class at time 0."""
    if job.kind >= JobClass.WARM_UP:
        if 0 <= job.submitted_at < zero_at:
            found.add("of class 0, 1 or 2, but submitted before time 0", "submitted at time 0", job.line)
        return
    if job.kind != JobClass.RUNNING:
        return
    if job.started_at > zero_at:
        found.add("ran at time 0, but was started later", "taken to start at time 0", job.line)
    elif is_over(job.run_s, job.walltime_s, zero_at - job.started_at):
        found.add("ran at time 0, but its run time or walltime was over", "1 s is left", job.line, "note")
    if job.node > N_NODES:
        remedy = "kept; schedulers take it modulo their nodes"
        found.add(f"ran on a node beyond the machine's {N_NODES}", remedy, job.line, "note")


def lint_workload(workload: Workload, n_procs: int | None = None, readers: Readers = SCHEDULERS) -> LintReport:
    """Check a Batsim file that has passed Batsim's own checks, with the field models of `readers`. O(n)."""
    found = LintReport(workload.source, "Batsim JSON", len(workload.jobs), n_procs or workload.n_procs, where="job")
    ids = {str(job["id"]) for job in workload.jobs}
    latest_at = 0.0
    for job in workload.jobs:
        if job["subtime"] < latest_at:
            found.add("submitted before the job above it", "put in order of submission", job["id"])
        latest_at = max(latest_at, job["subtime"])
        _check_job(job, found)
        _check_job_times(job, delay_of(workload.profiles[job["profile"]], workload.profiles), found)
        if "depends_on" in job and not all(str(name) in ids for name in as_list(job["depends_on"])):
            found.add("depends on a job that is not in the file", "the dependency is removed", job["id"])
    check_order(((job["subtime"], str(job["id"]), job["id"]) for job in workload.jobs), found)
    _check_fields(workload, readers, found)
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
        by = "schedulers" if all(name in by_names for name in readers if name != METRICS) else ", ".join(by_names)
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


def overtaken_jobs(jobs: Iterable[tuple[float, str, Where]]) -> Iterator[Where]:
    """Yield the first overtaken of (submission, id, place) at each time with another order. O(n log n)."""
    ordered = sorted(jobs, key=itemgetter(0))  # stable: equal times stay in the order of the file
    for _, group in groupby(ordered, key=itemgetter(0)):
        jobs_then = list(group)
        if len(jobs_then) > 1:  # most jobs are alone
            yield from next(([place] for (_, a, place), (_, b, _) in pairwise(jobs_then) if b < a), ())


def check_order(jobs: Iterable[tuple[float, str, Any]], found: LintReport) -> None:
    """Count the submission times whose jobs Batsim takes in another order than the file. O(n log n)."""
    for place in overtaken_jobs(jobs):
        found.add(OTHER_ORDER, "kept; ids with the same number of digits would keep the order", place, "note")
