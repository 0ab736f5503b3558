"""The inputs of a run, as `simulate` and `run` take them: platforms by file or name, workloads, and their digests."""

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
from pybatsched.simulator.options import Options, Scenario
from pybatsched.workload import jobs, load
from pybatsched.workload.formats import files, swf
from pybatsched.workload.model import Workload
from pybatsched.workload.prepare import UNITS, in_hosts, n_rounded
from pybatsched.workload.report import Report
from pybatsched.workload.selection import NothingLeftError, Selection


class Sizing(NamedTuple):
    """How sizes in cores become sizes in hosts. If it is not `asked` for, it is by the platform's name, for logs."""

    unit: str
    n_cores: int
    n_hosts: int
    n_cores_in_all: int
    asked: bool

    def applied(self, workload: Workload, report: Report | None = None) -> tuple[Workload, Report]:
        """Give a workload with sizes in hosts. Its machine is the platform, unless it has more cores than that."""
        n_procs = None if workload.n_procs > self.n_cores_in_all else -(-workload.n_procs // self.n_cores)
        n_procs = None if n_procs is None else min(n_procs, self.n_hosts)
        return in_hosts(workload, self.unit, self.n_cores, report, n_procs)


def add_units(parser: arguments.Group) -> None:
    """Describe the option for the unit of sizes."""
    text = (
        "what a host of the platform is: sizes in cores become sizes in hosts, rounded up (core: they stay as they "
        "are; default: as the platform's name says, for logs)"
    )
    parser.add_argument("--units", choices=UNITS, help=text)


def unit_by_name(name: str | None) -> str | None:
    """Tell what sizes in cores become on a platform of this name if the user says nothing; None if they stay."""
    known = names.unit_of(name) if name is not None else None
    return None if known is None or known[1] else known[0]


def sizing(unit: str | None, platform: Platform, name: str | None) -> Sizing | None:
    """Say how sizes in cores become sizes in hosts of a platform of this name; None if they stay as they are.

    `unit` is what the user said, None if nothing: then it is that of a machine by name, if its logs count in another.
    Raises InputError for a unit that the hosts are not.
    """
    known = names.unit_of(name) if name is not None else None
    by_name = unit_by_name(name)
    if unit == "core" or (unit is None and by_name is None):
        return None
    if unit is not None and known is not None and known[0] != unit:
        raise InputError(f"--units {unit}: expected a platform whose hosts are a {unit} each, {name} has a {known[0]}")
    size = host_size(platform)
    if unit is not None and size.n_cores == 1:
        raise InputError(
            f"--units {unit}: expected a platform whose hosts tell their cores (property cores), found one core each "
            f"in {platform.source}"
        )
    return Sizing(unit or by_name or "", *size, asked=unit is not None)


#: Options that change nothing of a run: where its files go, what is said meanwhile, whom to ask and for how long.
_ASIDE: Final = frozenset(
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
        "farewell",
    ]
)


def to_repeat(command: str, add_arguments: Callable[[argparse.ArgumentParser], None], args: argparse.Namespace) -> str:
    """Write a command line that makes the same run, but for where its files go. O(options).

    Options are in the order of the help and by their first names, whatever they were called and in which order: the
    same run has the same command. Those of which nothing depends, and defaults, are left out.
    """
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    words = ["pybatsched", command]
    for action in parser._actions:  # noqa: SLF001  there is no other way to ask a parser for its options
        if action.dest not in _ASIDE and action.option_strings:
            words += _words(action, getattr(args, action.dest, action.default))
    for_batsim = getattr(args, "for_batsim", [])
    return shlex.join([*words, *(["--", *for_batsim] if for_batsim else [])])


def _words(action: argparse.Action, value: Any) -> Iterator[str]:
    """Give the words that set an option to a value; none for its default."""
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
        help="a Batsim workload or a log (SWF, Rackham), .gz or not (repeatable: they are named w0, w1, …)",
    )
    add(
        "--walltimes",
        default="requested",
        metavar="HOW",
        help="walltimes: requested (default, as the file has them), exact, requested-strict, factor:F, round, none",
    )
    arguments.add_memory_unit(group)
    arguments.add_partition(group)
    arguments.add_lenient(group)
    arguments.add_window(group)
    arguments.add_max_jobs(group)
    add_units(group)
    add("--allow-empty", action="store_true", help="run without a job, too: without workloads, or with empty ones")


def workloads(
    args: argparse.Namespace, models: Mapping[str, type[JobFields]], platform: Platform, n_procs: int | None
) -> dict[str, Workload]:
    """Read workloads, by the names that Batsim gives them, and tell what was dropped or changed in logs.

    A log that does not tell its machine is taken to be of the one it runs on, of `n_procs` processors if that is known.
    Sizes in cores become sizes in hosts of the platform, if those are something else. Raises InputError where nothing
    is left to be run, unless that is wanted, and for fields of jobs that figures cannot use, or a policy, which has
    told what it reads by `models`.
    """
    if args.memory_unit is not None and "SWF" not in map(files.format_of, args.workload):
        raise InputError(
            "--memory-unit: expected a log in SWF among the workloads; jobs of Batsim files have memory_gb"
        )
    if args.lenient and all(files.format_of(path) == "Batsim JSON" for path in args.workload):
        raise InputError("--lenient: expected a log among the workloads; a Batsim file is read as a whole")
    selection = Selection.from_json(_selection(args), len(args.workload)) if _selection(args) else None
    if selection is not None and not args.allow_empty:
        selection = replace(selection, may_be_empty=False)  # then it tells what there would be to choose from
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
        raise InputError(
            f"there is no job to run ({what or 'no -w'}); expected a workload with jobs, or --allow-empty for none"
        )
    jobs.check_fields(found.values(), models, {"clusters": tuple(groups(platform, "cluster"))})
    for path, one in zip(args.workload, found.values(), strict=True):
        one.source = str(Path(path).resolve())  # as Batsim tells it; errors name files as the user does
    return found


def how_read(args: argparse.Namespace) -> dict[str, Any]:
    """Say how workloads were read, for the summary: who has the same files may still have read them otherwise."""
    unit = args.memory_unit or swf.DEFAULT_MEMORY_UNIT
    told: dict[str, Any] = {"walltimes": args.walltimes}
    told |= {} if unit == swf.DEFAULT_MEMORY_UNIT else {"memory_unit": unit}
    told |= {"selection": _selection(args)} if _selection(args) else {}
    unit_of_sizes = args.units or _unit_of_logs(args)
    told |= {"units": unit_of_sizes} if unit_of_sizes else {}
    return told | ({"lenient": True} if args.lenient else {})


def _unit_of_logs(args: argparse.Namespace) -> str:
    """Give what sizes of logs are made without --units, by the platform's name; nothing if they stay in cores."""
    formats = [files.format_of(path) for path in args.workload]
    unit = unit_by_name(args.platform)
    if unit is None or set(formats) <= {"Batsim JSON"}:
        return ""
    return f"{unit} (of logs)" if "Batsim JSON" in formats else unit


def are_as_files_say(args: argparse.Namespace) -> bool:
    """Tell whether Batsim files are read with all that is in them, and nothing else."""
    return args.walltimes == "requested" and not _selection(args) and args.units in {None, "core"}


def _selection(args: argparse.Namespace) -> dict[str, Any]:
    """Give which jobs are kept, as the summary has it; nothing if all are."""
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
    except NothingLeftError as error:
        raise InputError(f"{error}; expected some, or --allow-empty for none") from None
    if not args.quiet and (selection is not None or files.format_of(path) != "Batsim JSON"):
        for rule, what in workload.about["report"]["rules"].items():
            is_of_jobs = any(name.startswith("first_") for name in what)  # else it is about the whole log
            n = f"{quantity(what['count'], 'job')}: " if is_of_jobs else ""
            arguments.say(f"{path}: {n}{rule}")
    return workload


def _resized(path: str, args: argparse.Namespace, workload: Workload, sizing: Sizing | None) -> Workload:
    """Give a workload with sizes in hosts, where hosts are no cores; a Batsim file only if that is wanted."""
    if sizing is None or not (sizing.asked or files.format_of(path) != "Batsim JSON"):
        return workload
    if not args.quiet:
        rounded = f"{n_rounded(workload, sizing.n_cores):,} of {quantity(len(workload.jobs), 'job')} rounded up"
        how = "" if sizing.asked else f", since a host of {args.platform} is one; --units core takes them as they are"
        arguments.say(f"{path}: sizes in cores become sizes in {sizing.unit}s of {sizing.n_cores:,} ({rounded}){how}")
    return sizing.applied(workload)[0]


def too_small(platform: Platform, loaded: Iterable[Workload]) -> list[str]:
    """Say which workloads were made for a larger machine: jobs in cores on a platform of nodes, say. O(jobs + hosts).

    What `--units` needs is a platform that tells the cores of a host: another one gets the advice to be one.
    """
    said = []
    n_procs, has_cores = platform.n_procs, host_size(platform).n_cores > 1
    advice = "say what a host is: --units node or --units pset"
    if not has_cores:
        known = "-p NAME-node or NAME-pset of `pybatsched platform list`, or the property cores"
        advice = f"take a platform whose hosts tell their cores ({known}) and {advice}"
    for workload in loaded:
        all_jobs = quantity(len(workload.jobs), "job")
        n_large = sum(job["res"] > n_procs for job in workload.jobs)
        if 2 * n_large > len(workload.jobs):
            said.append(
                f"{workload.source}: {n_large:,} of {all_jobs} {'is' if n_large == 1 else 'are'} larger than the "
                f"platform's {quantity(n_procs, 'processor')} and will be rejected; if their sizes are cores and its "
                f"hosts are not, {advice}"
            )
        elif workload.n_procs > n_procs:
            see = " See --units" if has_cores else ""
            said.append(
                f"{workload.source}: made for {quantity(workload.n_procs, 'processor')}, the platform has {n_procs:,}; "
                f"larger jobs are rejected (is a processor here what it is there: a core, a node?{see})"
            )
    return said


def unloaded(loaded: Iterable[Workload]) -> list[str]:
    """Say for a run with energy that none of its jobs puts load on hosts: in Batsim no delay does. O(profiles)."""
    profiles = [profile for workload in loaded for profile in workload.profiles.values()]
    if not profiles or any(profile.get("type") != "delay" for profile in profiles):
        return []
    instead = "`pybatsched workload convert --load` writes profiles that do"
    return [f"all profiles are delays, which put no load on hosts: jobs draw no more power than idle hosts; {instead}"]


def endless(reserving: Reserving | None, loaded: Iterable[Workload]) -> list[str]:
    """Say how many jobs a policy rejects that reserves a time for each, since they have neither walltime nor estimate.

    `reserving` names it, None for others. O(jobs).
    """
    said: list[str] = []
    if reserving is None:
        return said
    by_option = f"with -o {shlex.quote(reserving.option)}, or, in a log, " if reserving.option else "in a log "
    for workload in loaded:
        n = sum(job.get("walltime", -1) == -1 and job.get("estimate") is None for job in workload.jobs)
        if n:
            have, them, their = ("has", "it", "its") if n == 1 else ("have", "them", "their")
            said.append(
                f"{workload.source}: {n:,} of {quantity(len(workload.jobs), 'job')} {have} neither walltime nor "
                f"estimate, and {reserving.policy} rejects {them}: plan {them} {by_option}with {their} run "
                f"time{'' if n == 1 else 's'} by --walltimes requested "
                "(or another rule than requested-strict and none)"
            )
    return said


def digests(
    platform: str | None, workload_files: Sequence[str], events: Sequence[str] = (), *, energy: bool = False
) -> dict[str, list[dict[str, str]]]:
    """Give what tells these inputs from others, by kind. To be asked for when they are read, not after the run."""
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
        raise InputError(f"cannot read {path}: {error.strerror}") from None


def setting_of(
    scenario: Scenario, files_read: Mapping[str, list[dict[str, str]]], policy: Mapping[str, Any] | None
) -> summary.Setting:
    """Say what a run on the embedded simulator is made of."""
    options = scenario.options
    more = {
        "energy": options.energy,
        "compute-sharing": options.compute_sharing,
        "storage-sharing": options.storage_sharing,
    }
    n_jobs = sum(len(workload.jobs) for workload in scenario.workloads.values())
    clusters = clusters_of(scenario.platform)
    return summary.Setting(files_read, scenario.platform.n_procs, n_jobs, options.told() | more, policy, clusters)


def clusters_of(platform: Platform) -> dict[str, str]:
    """Give the processors of each cluster by name, where a machine has several. O(hosts)."""
    return summary.clusters_text(groups(platform, "cluster"))


def described(plan: registry.PolicyPlan, options: Options) -> dict[str, Any]:
    """Say which policy runs with which options, before any file is touched."""
    return {"name": plan.source.name, "origin": plan.source.origin, "options": runs.options_of(plan, options)}
