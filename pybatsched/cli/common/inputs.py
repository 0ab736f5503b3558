"""The inputs of `simulate` and `run`: platforms by file or name, workloads, and their digests."""

from __future__ import annotations

import argparse
import hashlib
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from pybatsched.cli.common import arguments
from pybatsched.cli.common.progress import loading
from pybatsched.core.fields import JobFields
from pybatsched.errors import InputError, quantity
from pybatsched.machines import names
from pybatsched.metrics import summary
from pybatsched.metrics.fields import check_fields
from pybatsched.platform.groups import groups, host_size
from pybatsched.platform.model import Platform
from pybatsched.policies import registry
from pybatsched.policies.registry import Reserving
from pybatsched.simulator import run as runs
from pybatsched.simulator.options import Scenario, SimulationOptions
from pybatsched.workload import jobs, load
from pybatsched.workload.formats import files, swf
from pybatsched.workload.model import Workload
from pybatsched.workload.prepare import UNITS, in_hosts, n_rounded
from pybatsched.workload.report import Report
from pybatsched.workload.selection import NoJobsLeftError, Selection


class Sizing(NamedTuple):
    """How sizes in cores become sizes in hosts. `asked`: by --units, for all files; else by the platform, for logs."""

    unit: str
    n_cores: int
    n_hosts: int
    n_cores_in_all: int
    asked: bool

    def applied(self, workload: Workload, report: Report | None = None) -> tuple[Workload, Report]:
        """Return the workload with sizes in hosts. Its machine is the platform, unless the workload has more cores."""
        n_procs = None if workload.n_procs > self.n_cores_in_all else -(-workload.n_procs // self.n_cores)
        n_procs = None if n_procs is None else min(n_procs, self.n_hosts)
        return in_hosts(workload, self.unit, self.n_cores, report, n_procs)


def add_units(parser: arguments.Group) -> None:
    """Describe the option for the unit of sizes."""
    text = (
        "unit of a host of the platform: sizes in cores are converted to hosts, rounded up (core: no conversion; "
        "default: by the name of the platform, for logs only)"
    )
    parser.add_argument("--units", choices=UNITS, help=text)


def unit_by_name(name: str | None) -> str | None:
    """Return the unit that sizes of logs are converted to on this platform by default; None for no conversion."""
    known = names.unit_of(name) if name is not None else None
    return None if known is None or known[1] else known[0]


def sizing(unit: str | None, platform: Platform, name: str | None) -> Sizing | None:
    """Return how sizes in cores become sizes in hosts of this platform; None for no conversion.

    `unit` is the user's choice. If it is None, a known machine whose logs count cores has its own unit. Raises
    InputError if the hosts of the platform are not such units.
    """
    known = names.unit_of(name) if name is not None else None
    by_name = unit_by_name(name)
    if unit == "core" or (unit is None and by_name is None):
        return None
    if unit is not None and known is not None and known[0] != unit:
        raise InputError(
            f"--units {unit}: expected a platform with a {unit} per host, found {name}, with a {known[0]} per host"
        )
    size = host_size(platform)
    if unit is not None and size.n_cores == 1:
        raise InputError(
            f"--units {unit}: expected a platform whose hosts have the property cores, found one core per host "
            f"in {platform.source}"
        )
    return Sizing(unit or by_name or "", *size, asked=unit is not None)


#: Options that do not change the result: output files, messages, endpoints and time-outs.
_WITHOUT_EFFECT: Final = frozenset(
    [
        "help",
        "export",
        "journal",
        "quiet",
        "verbose",
        "socket_endpoint",
        "curve",
        "timeout",
        "first_timeout",
        "send_end",
    ]
)


def command_to_repeat(
    command: str, add_arguments: Callable[[argparse.ArgumentParser], None], args: argparse.Namespace
) -> str:
    """Return a command line that repeats the run, except for the names of its output files. O(options).

    Options are in the order of the help and by their first names, so that the same run always has the same command.
    Options without effect on the result, and defaults, are left out.
    """
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    words = ["pybatsched", command]
    for action in parser._actions:  # noqa: SLF001  there is no public way
        is_shown = action.help != argparse.SUPPRESS  # else a former name of another option
        if action.dest not in _WITHOUT_EFFECT and action.option_strings and is_shown:
            words += _words(action, getattr(args, action.dest, action.default))
    for_batsim = getattr(args, "for_batsim", [])
    return shlex.join([*words, *(["--", *for_batsim] if for_batsim else [])])


def _words(action: argparse.Action, value: Any) -> Iterator[str]:
    """Yield the arguments that set an option to a value; none for its default."""
    name = action.option_strings[0]
    if value == action.default:
        return
    if action.nargs == 0:
        yield name
    else:
        for one in value if isinstance(value, list) else [value]:
            yield from (name, str(one))


PLATFORM_HELP: Final = "a SimGrid platform, or the name of a machine (pybatsched platform list)"


def add_workloads(group: arguments.Group) -> None:
    """Describe the options for workloads."""
    add = group.add_argument
    add(
        "-w",
        "--workload",
        action="append",
        default=[],
        metavar="FILE",
        help="a Batsim workload or a log (SWF, Rackham), plain or gzip (repeatable: they are named w0, w1, …)",
    )
    add(
        "--walltimes",
        default="requested",
        metavar="HOW",
        help="walltimes: requested (default, as in the file), exact, requested-strict, factor:F, round, none",
    )
    arguments.add_memory_unit(group)
    arguments.add_partition(group)
    arguments.add_lenient(group)
    arguments.add_window(group)
    arguments.add_max_jobs(group)
    add_units(group)
    add("--allow-empty", action="store_true", help="allow a run without jobs")


def workloads(
    args: argparse.Namespace, models: Mapping[str, type[JobFields]], platform: Platform, n_procs: int | None
) -> dict[str, Workload]:
    """Read workloads, by the names that Batsim gives them, and print what was dropped or changed in logs.

    A log without the size of its machine gets `n_procs`, if that is known. Sizes in cores are converted to hosts of
    the platform, if necessary. Raises InputError if no job is left, unless --allow-empty is given, and for fields of
    jobs that are invalid for the metrics or for the policy, whose fields are in `models`.
    """
    if args.memory_unit is not None and "SWF" not in map(files.format_of, args.workload):
        raise InputError(
            "--memory-unit: expected a log in SWF among the workloads; jobs of Batsim files have the field memory_gb"
        )
    if args.lenient and all(files.format_of(path) == "Batsim JSON" for path in args.workload):
        raise InputError("--lenient: expected a log among the workloads; a Batsim file is read as a whole")
    selection = Selection.from_json(_selection(args), len(args.workload)) if _selection(args) else None
    if selection is not None and not args.allow_empty:
        selection = replace(selection, may_be_empty=False)  # the error then shows the submission times of the file
    resize = sizing(args.units, platform, args.platform)
    if resize is not None and n_procs is not None:
        n_procs = resize.n_cores_in_all
    found = {
        f"w{i}": _resized(path, args, _workload(path, args, selection, n_procs), resize)
        for i, path in enumerate(args.workload)
    }
    jobs.check_ids(found)
    check_fields(found.values())
    if not args.allow_empty and not any(workload.jobs for workload in found.values()):
        what = "; ".join(f"{path}: {one.why_empty}" for path, one in zip(args.workload, found.values(), strict=True))
        raise InputError(f"no job to run ({what or 'no -w'}); expected a workload with jobs, or --allow-empty")
    jobs.check_fields(found.values(), models, {"clusters": tuple(groups(platform, "cluster"))})
    for path, one in zip(args.workload, found.values(), strict=True):
        one.source = str(Path(path).resolve())  # as in Batsim; the errors above name files as the user does
    return found


def reading_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options by which workloads were read, for the summary."""
    unit = args.memory_unit or swf.DEFAULT_MEMORY_UNIT
    options: dict[str, Any] = {"walltimes": args.walltimes}
    options |= {} if unit == swf.DEFAULT_MEMORY_UNIT else {"memory_unit": unit}
    options |= {"selection": _selection(args)} if _selection(args) else {}
    unit_of_sizes = args.units or _unit_of_logs(args)
    options |= {"units": unit_of_sizes} if unit_of_sizes else {}
    return options | ({"lenient": True} if args.lenient else {})


def _unit_of_logs(args: argparse.Namespace) -> str:
    """Return the unit of sizes of logs without --units, by the platform's name; an empty text for cores."""
    formats = [files.format_of(path) for path in args.workload]
    unit = unit_by_name(args.platform)
    if unit is None or set(formats) <= {"Batsim JSON"}:
        return ""
    return f"{unit} (of logs)" if "Batsim JSON" in formats else unit


def files_are_unchanged(args: argparse.Namespace) -> bool:
    """Return whether Batsim files are used without any change."""
    return args.walltimes == "requested" and not _selection(args) and args.units in {None, "core"}


def _selection(args: argparse.Namespace) -> dict[str, Any]:
    """Return the selection of jobs as JSON for the summary; empty if all jobs are kept."""
    return Selection(*arguments.window(args), max_jobs=args.max_jobs, partitions=tuple(args.partition)).as_json()


def _workload(path: str, args: argparse.Namespace, selection: Selection | None, n_procs: int | None) -> Workload:
    unit = args.memory_unit or swf.DEFAULT_MEMORY_UNIT
    try:
        with loading(f"reading {path}", quiet=args.quiet):
            workload = load(
                path,
                walltimes=args.walltimes,
                memory_unit=unit,
                selection=selection,
                lenient=args.lenient,
                n_procs_else=n_procs,
            )
    except NoJobsLeftError as error:
        raise InputError(f"{error}; expected at least one job, or --allow-empty") from None
    if not args.quiet and (selection is not None or files.format_of(path) != "Batsim JSON"):
        for rule, what in workload.about["report"]["rules"].items():
            is_of_jobs = any(name.startswith("first_") for name in what)  # else it is about the whole log
            n = f"{quantity(what['count'], 'job')}: " if is_of_jobs else ""
            arguments.say(f"{path}: {n}{rule}")
    return workload


def _resized(path: str, args: argparse.Namespace, workload: Workload, sizing: Sizing | None) -> Workload:
    """Return the workload with sizes in hosts. A Batsim file is converted only with --units."""
    if sizing is None or not (sizing.asked or files.format_of(path) != "Batsim JSON"):
        return workload
    if not args.quiet:
        rounded = f"{n_rounded(workload, sizing.n_cores):,} of {quantity(len(workload.jobs), 'job')} rounded up"
        how = "" if sizing.asked else f", the hosts of {args.platform}; use --units core for no conversion"
        arguments.say(
            f"{path}: converted sizes from cores to {sizing.unit}s of {sizing.n_cores:,} cores ({rounded}){how}"
        )
    return sizing.applied(workload)[0]


def size_warnings(platform: Platform, loaded: Iterable[Workload]) -> list[str]:
    """Return warnings for workloads that were made for a larger machine. O(jobs + hosts).

    A typical cause are sizes in cores on a platform of nodes. `--units` needs a platform with the property cores.
    """
    warnings = []
    n_procs, has_cores = platform.n_procs, host_size(platform).n_cores > 1
    advice = "use --units node or --units pset"
    if not has_cores:
        known = "such as NAME-node or NAME-pset of `pybatsched platform list`"
        advice = f"use a platform whose hosts have the property cores ({known}) and {advice}"
    for workload in loaded:
        all_jobs = quantity(len(workload.jobs), "job")
        n_large = sum(job["res"] > n_procs for job in workload.jobs)
        if 2 * n_large > len(workload.jobs):
            warnings.append(
                f"{workload.source}: {n_large:,} of {all_jobs} {'is' if n_large == 1 else 'are'} larger than the "
                f"platform's {quantity(n_procs, 'processor')} and will be rejected; if their sizes are cores and the "
                f"hosts are not, {advice}"
            )
        elif workload.n_procs > n_procs:
            see = " See --units" if has_cores else ""
            warnings.append(
                f"{workload.source}: made for {quantity(workload.n_procs, 'processor')}, the platform has {n_procs:,}; "
                f"larger jobs are rejected (do both count the same: cores, or nodes?{see})"
            )
    return warnings


def energy_warnings(loaded: Iterable[Workload]) -> list[str]:
    """Return a warning for a run with energy whose jobs are all delays, which put no load on hosts. O(profiles)."""
    profiles = [profile for workload in loaded for profile in workload.profiles.values()]
    if not profiles or any(profile.get("type") != "delay" for profile in profiles):
        return []
    instead = "use `pybatsched workload convert --cpu-load` to write profiles that do"
    return [f"all profiles are delays, which put no load on hosts: jobs use no more power than idle hosts; {instead}"]


def planning_warnings(reserving: Reserving | None, loaded: Iterable[Workload]) -> list[str]:
    """Return warnings about jobs that a policy rejects because they have neither walltime nor estimate. O(jobs).

    `reserving` describes a policy that makes a reservation for each job. It is None for other policies.
    """
    warnings: list[str] = []
    if reserving is None:
        return warnings
    by_option = f"with -o {shlex.quote(reserving.option)}, or, in a log, " if reserving.option else "in a log "
    for workload in loaded:
        n = sum(job.get("walltime", -1) == -1 and job.get("estimate") is None for job in workload.jobs)
        if n:
            have, them, their = ("has", "it", "its") if n == 1 else ("have", "them", "their")
            warnings.append(
                f"{workload.source}: {n:,} of {quantity(len(workload.jobs), 'job')} {have} neither walltime nor "
                f"estimate, and {reserving.policy} rejects {them}: plan {them} {by_option}with {their} run "
                f"time{'' if n == 1 else 's'} by --walltimes requested "
                "(or another rule than requested-strict and none)"
            )
    return warnings


def digests(
    platform: str | None, workload_files: Sequence[str], events: Sequence[str] = (), *, energy: bool = False
) -> dict[str, list[dict[str, str]]]:
    """Return the digests of the inputs, by kind. Call it when they are read, not after the run."""
    platforms = [] if platform is None else [_digest(platform, names.find(platform, energy=energy).data())]
    return {
        "platform": platforms,
        "workloads": [_digest(path, _content(path)) for path in workload_files],
        "events": [_digest(path, _content(path)) for path in events],
    }


def _digest(name: str, content: bytes) -> dict[str, str]:
    return {"file": name, "sha256": hashlib.sha256(content).hexdigest()}


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def setting_of(
    scenario: Scenario, files_read: Mapping[str, list[dict[str, str]]], policy: Mapping[str, Any] | None
) -> summary.Setting:
    """Return the inputs and options of a run on the embedded simulator."""
    options = scenario.options
    more = {
        "energy": options.energy,
        "compute-sharing": options.compute_sharing,
        "storage-sharing": options.storage_sharing,
    }
    n_jobs = sum(len(workload.jobs) for workload in scenario.workloads.values())
    clusters = clusters_of(scenario.platform)
    return summary.Setting(
        files_read, scenario.platform.n_procs, n_jobs, options.batsim_config() | more, policy, clusters
    )


def clusters_of(platform: Platform) -> dict[str, str]:
    """Return the processors of each cluster by name, if the machine has several. O(hosts)."""
    return summary.clusters_text(groups(platform, "cluster"))


def policy_description(plan: registry.PolicyPlan, options: SimulationOptions) -> dict[str, Any]:
    """Return the policy and its options, before any file is written."""
    return {"name": plan.source.name, "origin": plan.source.origin, "options": runs.options_of(plan, options)}
