"""The jobs of a run: read from a file, with sizes in hosts of its machine and with the wanted load."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from pybatsched.core.services.running_at_start import FIELD as RUNNING_AT_START
from pybatsched.errors import InputError, quantity, setting
from pybatsched.platform.groups import host_size
from pybatsched.platform.model import Platform
from pybatsched.runs.spec import MachineSpec, WorkloadSpec
from pybatsched.settings import check_exists
from pybatsched.workload import prepare, reading
from pybatsched.workload.formats import batsim4, files
from pybatsched.workload.formats.conversion import DEFAULT_MEMORY_UNIT, LogOptions
from pybatsched.workload.formats.detection import format_of
from pybatsched.workload.model import Workload
from pybatsched.workload.report import Report
from pybatsched.workload.resample.feedback import feedback_note, with_feedback
from pybatsched.workload.selection import Selection
from pybatsched.workload.start_rules import ignored_note, without_rules
from pybatsched.workload.walltimes import Walltimes

#: Formats in words, for errors.
_IN_WORDS: Final[Mapping[str, str]] = {
    "Batsim JSON": "a Batsim file",
    "SWF": "a log in SWF",
    "Slurm": "a log of Slurm",
    "table": "a table",
}
_ALL_LOGS: Final = tuple(kind for kind in _IN_WORDS if kind != "Batsim JSON")
_RECORDS: Final = tuple(kind for kind in _ALL_LOGS if kind != "SWF")
#: Settings that apply to logs of some formats only.
_FORMATS_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "lenient": _ALL_LOGS,
    "min_runtime": _ALL_LOGS,
    "size": _ALL_LOGS,
    "run_times": _ALL_LOGS,
    "memory_unit": ("SWF",),
    "unknown_runtime": ("SWF",),
    "size_in": _RECORDS,
    "timezone": _RECORDS,
    "running_at_start": _ALL_LOGS,
}
#: Settings with another key in summaries: `n_procs` there is the machine of the run.
_OTHER_KEYS: Final[Mapping[str, str]] = {"format": "log_format", "n_procs": "n_procs_of_workload"}
#: Settings that are not keys of summaries: the selection is one key, and the factor of the load is known later.
_NOT_KEPT: Final = frozenset(
    ("file", "begin", "end", "warm_up", "cool_down", "window_clock", "max_jobs", "partitions", "load", "scale_load")
)


class Jobs(msgspec.Struct, frozen=True):
    """The jobs of a workload, before they are fitted to a machine.

    `how` are the settings that they were read with, for summaries; None if they are not those of a file. `digest` is
    that of the content. `is_from_log` says that sizes may be in cores where a platform has nodes. `notes` say what was
    dropped or changed, `warnings` what the user should know. `copy` is a file that contains just these jobs.
    """

    workload: Workload
    name: str = ""
    how: Mapping[str, Any] | None = None
    digest: str = ""
    is_from_log: bool = False
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    copy: str = ""


def selection_of(spec: WorkloadSpec, n_workloads: int = 1) -> Selection:
    """Return which jobs of a file are kept. Several workloads on the clock of their logs stay synchronous."""
    has_window = spec.begin is not None or spec.end is not None
    clock = spec.window_clock if has_window else "log"
    return Selection(
        from_at=spec.begin,
        to_at=spec.end,
        warm_up_s=spec.warm_up,
        cool_down_s=spec.cool_down,
        max_jobs=spec.max_jobs,
        partitions=spec.partitions,
        clock=clock,
        shift=Selection.shift_of(n_workloads, clock),
    )


def check_formats(specs: Iterable[WorkloadSpec]) -> None:
    """Raise InputError for a setting that applies to none of these files."""
    specs = list(specs)
    kinds = {kind_of(spec) for spec in specs}
    for spec in specs:
        for name, value in spec.changed():
            wanted = _FORMATS_OF.get(name)
            if wanted is not None and kinds.isdisjoint(wanted):
                words = ", ".join(_IN_WORDS[kind] for kind in wanted)
                expected = "a log" if wanted == _ALL_LOGS else " or ".join(words.rsplit(", ", 1))
                found = ", ".join(f"{_IN_WORDS[kind_of(one)]}, {one.file}" for one in specs)
                raise InputError(f"{setting(name, value)}: expected {expected}, found {found}")


def kind_of(spec: WorkloadSpec) -> files.Format:
    """Return the format of a file. Raises InputError."""
    if spec.mapping is not None:
        check_exists("mapping", spec.mapping)
    return format_of(spec.file, spec.format, spec.mapping)


def log_options(spec: WorkloadSpec, **more: Any) -> LogOptions:
    """Return the options for the conversion of a log; `more` are those that runs do not have."""
    names = ("size", "run_times", "memory_unit")
    given = {name: value for name in names if (value := getattr(spec, name)) is not None}
    return LogOptions(
        walltimes=Walltimes.parse(spec.walltimes),
        min_runtime_s=spec.min_runtime,
        unknown_runtime_s=spec.unknown_runtime,
        n_procs=spec.n_procs,
        running_at_start=spec.running_at_start,
        size_in=spec.size_in,
        timezone=spec.timezone,
        format=spec.format,
        mapping=spec.mapping,
        **given,
        **more,
    )


def read(spec: WorkloadSpec, n_workloads: int = 1, *, may_be_empty: bool = False) -> Jobs:
    """Read the jobs of a file, one of `n_workloads` of the run. Up to 100 µs per job. Raises InputError."""
    is_from_log = kind_of(spec) != "Batsim JSON"
    selection = replace(selection_of(spec, n_workloads), may_be_empty=may_be_empty)
    report = None
    if not is_from_log and not selection.as_json():  # as it is, with unused profiles
        workload = prepare.with_walltimes(batsim4.read(spec.file), Walltimes.parse(spec.walltimes))[0]
        workload.n_procs = spec.n_procs or workload.n_procs
    else:
        workload, report = reading.read(spec.file, log_options(spec), selection, lenient=spec.lenient)
    # A rule with places is about jobs, another one about the whole log.
    rules = () if report is None else report.rule_counts.values()
    notes = [f"{spec.file}: {quantity(one.count, 'job') + ': ' if one.places else ''}{one.rule}" for one in rules]
    notes += [text] if (text := window_note(spec, workload)) else []
    workload, changes = changed(spec, workload)
    notes += [f"{spec.file}: {text}" for text in changes]
    return Jobs(workload, spec.file, how_read(spec, n_workloads), files.digest_of(spec.file), is_from_log, notes)


def changed(spec: WorkloadSpec, workload: Workload) -> tuple[Workload, list[str]]:
    """Return a workload with the changes of jobs that settings ask for, and a note about each. O(jobs)."""
    notes = []
    if spec.ignore_eligibility:
        workload, n_ignored = without_rules(workload)
        notes.append(ignored_note(n_ignored))
    if spec.feedback:
        workload = with_feedback(workload)
        notes.append(feedback_note(workload))
    return workload, notes


def window_note(spec: WorkloadSpec, workload: Workload) -> str:
    """Return how long the window really is, from the first kept job to the last; empty without a window. O(jobs)."""
    if (spec.begin is None and spec.end is None) or not workload.jobs:
        return ""
    n_running = workload.values(RUNNING_AT_START).count(True)  # they come first
    if n_running == len(workload.jobs):
        return ""
    days = (workload.jobs[-1]["subtime"] - workload.jobs[n_running]["subtime"]) / 86_400
    n = quantity(len(workload.jobs) - n_running, "job")
    return f"{spec.file}: the window has {n}, submitted within {days:.2f} days"


def how_read(spec: WorkloadSpec, n_workloads: int = 1) -> dict[str, Any]:
    """Return the settings by which a file was read, as in summaries. `metrics.saved_runs` reads it again with them."""
    given = {_OTHER_KEYS.get(name, name): value for name, value in spec.changed() if name not in _NOT_KEPT}
    found = {"walltimes": spec.walltimes, **given}
    if spec.memory_unit == DEFAULT_MEMORY_UNIT:
        del found["memory_unit"]
    found |= {} if spec.mapping is None else {"mapping": str(Path(spec.mapping).resolve())}
    chosen = selection_of(spec, n_workloads).as_json()
    return found | ({"selection": chosen} if chosen else {})


class Sizing(NamedTuple):
    """How sizes in cores become sizes in hosts. `asked`: by `units`, for all files; else by the platform, for logs."""

    unit: str
    n_cores: int
    n_hosts: int
    n_cores_in_all: int
    asked: bool
    platform: str = ""

    def applied(self, workload: Workload, report: Report | None = None) -> tuple[Workload, Report]:
        """Return the workload with sizes in hosts. Its machine is the platform, unless the workload has more cores."""
        n_procs = None if workload.n_procs > self.n_cores_in_all else -(-workload.n_procs // self.n_cores)
        n_procs = None if n_procs is None else min(n_procs, self.n_hosts)
        return prepare.in_hosts(workload, self.unit, self.n_cores, report, n_procs)

    def warning(self, jobs: Jobs) -> str:
        """Return a warning about the conversion of these jobs."""
        n = len(jobs.workload.jobs)
        rounded = f"{prepare.n_rounded(jobs.workload, self.n_cores):,} of {quantity(n, 'job')} rounded up"
        how = "" if self.asked else f", the hosts of {self.platform}; {setting('units', 'core')} keeps cores"
        what = f"converted sizes from cores to {self.unit}s of {self.n_cores:,} cores"
        return f"{jobs.name}: {what} ({rounded}){how}"


def in_hosts(jobs: Jobs, resize: Sizing | None) -> tuple[Workload, list[str]]:
    """Return the workload with sizes in hosts, and a warning. Sizes of a Batsim file are converted only if asked."""
    if resize is None or not (resize.asked or jobs.is_from_log):
        return jobs.workload, []
    return resize.applied(jobs.workload)[0], [resize.warning(jobs)]


def sizing(spec: MachineSpec, platform: Platform | None) -> Sizing | None:
    """Return how sizes in cores become hosts of a platform; None for no conversion. Raises InputError."""
    if spec.platform is None or platform is None or spec.units == "core":
        return None
    from pybatsched.machines import names  # noqa: PLC0415  only for runs with a platform

    known = names.unit_of(spec.platform)
    by_name = None if known is None or known[1] else known[0]
    asked = spec.units
    if asked is None and by_name is None:
        return None
    if asked is not None and known is not None and known[0] != asked:
        raise InputError(
            f"{setting('units', asked)}: expected a platform with a {asked} per host, found {spec.platform}, with a "
            f"{known[0]} per host"
        )
    size = host_size(platform)
    if asked is not None and size.n_cores == 1:
        raise InputError(
            f"{setting('units', asked)}: expected a platform whose hosts have the property cores, found one core per "
            f"host in {platform.source}"
        )
    return Sizing(asked or by_name or "", *size, asked=asked is not None, platform=spec.platform)


def load_factor(spec: WorkloadSpec, workloads: Sequence[Workload], n_procs: int) -> float:
    """Return the factor by which submission times are divided, 1 for no change. O(jobs). Raises InputError."""
    if spec.load is None:
        return 1.0 if spec.scale_load is None else spec.scale_load
    return prepare.load_factor(workloads, spec.load, n_procs)
