"""The inputs of `simulate` and `run`: platforms by file or name, workloads, and their digests."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pybatsched.cli.common import arguments
from pybatsched.cli.common.progress import loading
from pybatsched.core.field_check import FieldsLike
from pybatsched.errors import InputError, quantity
from pybatsched.experiment import run_inputs
from pybatsched.experiment.run_inputs import Sizing, sizing, unit_by_name
from pybatsched.platform.model import DEFAULT_MASTER, Platform
from pybatsched.workload import load, prepare
from pybatsched.workload.formats.conversion import DEFAULT_MEMORY_UNIT
from pybatsched.workload.model import Workload
from pybatsched.workload.prepare import UNITS, n_rounded
from pybatsched.workload.resample.feedback import feedback_note, with_feedback
from pybatsched.workload.selection import NoJobsLeftError, Selection


def add_units(parser: arguments.Group) -> None:
    """Describe the option for the unit of sizes."""
    text = (
        "what a host of the platform is: sizes in cores are converted to hosts, rounded up (core: no conversion; "
        "default: by the name of the platform, for logs only)"
    )
    parser.add_argument("--units", choices=UNITS, help=text)


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


def add_roles(group: arguments.Group) -> None:
    """Describe the options that give hosts of a platform their roles, with the names of Batsim's options."""
    add = group.add_argument
    add(
        "-m",
        "--master-host",
        default=DEFAULT_MASTER,
        metavar="NAME",
        help="name of the master host (default %(default)s)",
    )
    add(
        "-r",
        "--add-role-to-hosts",
        action="append",
        default=[],
        metavar="HOSTS:ROLE",
        help="give hosts a role: h1,h2:storage",
    )


def add_workloads(group: arguments.Group) -> None:
    """Describe the options for workloads."""
    add = group.add_argument
    add(
        "-w",
        "--workload",
        action="append",
        default=[],
        metavar="FILE",
        help="a Batsim workload or a log (SWF, Slurm, a table, Rackham); repeatable, with the names w0, w1, …",
    )
    add(
        "--walltimes",
        default="requested",
        metavar="HOW",
        help="walltimes: requested (default, as in the file), exact, requested-strict, factor:F, round, none",
    )
    arguments.add_format(group)
    arguments.add_memory_unit(group)
    arguments.add_slurm(group)
    arguments.add_partition(group)
    arguments.add_lenient(group)
    arguments.add_window(group)
    arguments.add_max_jobs(group)
    arguments.add_load(group)
    arguments.add_feedback(group)
    add_units(group)
    add("--allow-empty", action="store_true", help="allow a run without jobs")


def workloads(
    args: argparse.Namespace, models: Mapping[str, FieldsLike], platform: Platform | None, n_procs: int | None
) -> dict[str, Workload]:
    """Read workloads, by the names that Batsim gives them, and print what was dropped or changed in logs.

    A log without the size of its machine gets `n_procs`, if that is known. Sizes in cores are converted to hosts of
    the platform, if necessary; without a platform, the machine is that of the workloads. Raises InputError if no job
    is left, unless --allow-empty is given, and for fields of jobs that are invalid for the metrics or for the policy,
    whose fields are in `models`.
    """
    selection = Selection.from_json(_selection(args), len(args.workload)) if _selection(args) else None
    formats = [arguments.format_of(path, args) for path in args.workload]
    if args.memory_unit is not None and "SWF" not in formats:
        raise InputError("--memory-unit: works only with a log in SWF; jobs of Batsim files have the field memory_gb")
    for option in ("size_in", "timezone"):
        if getattr(args, option) is not None and {"Slurm", "table"}.isdisjoint(formats):
            raise InputError(f"--{option.replace('_', '-')}: works only with a log of Slurm or a table")
    if args.lenient and set(formats) <= {"Batsim JSON"}:
        raise InputError("--lenient: works only with a log; a Batsim file is read as a whole")
    if selection is not None and not args.allow_empty:
        selection = replace(selection, may_be_empty=False)  # the error then shows the submission times of the file
    if platform is None and args.units not in {None, "core"}:
        raise InputError(f"--units {args.units}: works only with -p PLATFORM")
    resize = None if platform is None else sizing(args.units, platform, args.platform)
    if resize is not None and n_procs is not None:
        n_procs = resize.n_cores_in_all
    found = {
        f"w{i}": _resized(path, args, _workload(path, args, selection, n_procs), resize)
        for i, path in enumerate(args.workload)
    }
    found = _scaled(args, found, platform)
    run_inputs.check_workloads(found, models, platform)
    if not args.allow_empty and not any(workload.jobs for workload in found.values()):
        what = "; ".join(f"{path}: {one.why_empty}" for path, one in zip(args.workload, found.values(), strict=True))
        raise InputError(f"no job to run ({what or 'no -w'}); expected a workload with jobs, or --allow-empty")
    for path, one in zip(args.workload, found.values(), strict=True):
        one.source = str(Path(path).resolve())  # as in Batsim; the errors above name files as the user does
    return found


def _scaled(args: argparse.Namespace, found: Mapping[str, Workload], platform: Platform | None) -> dict[str, Workload]:
    """Return workloads with the wanted load: that of all their jobs, on the platform or on their own machine.

    `args.load_factor` is the factor, for the summary.
    """
    args.load_factor = None
    if not arguments.scales_load(args) or not any(workload.jobs for workload in found.values()):
        return dict(found)
    n_procs = max(one.n_procs for one in found.values())
    if platform is not None and not getattr(args, "mmax_workload", False):
        n_procs = platform.n_procs
    n_procs = min(n_procs, getattr(args, "mmax", 0) or n_procs)
    args.load_factor = arguments.load_factor(args, list(found.values()), n_procs)
    if not args.quiet:
        arguments.say(f"submission times are divided by {args.load_factor:g}")
    return {name: prepare.scale_load(one, args.load_factor) for name, one in found.items()}


def reading_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the options by which workloads were read, for the summary. Call it after `workloads`."""
    unit = args.memory_unit or DEFAULT_MEMORY_UNIT
    options: dict[str, Any] = {"walltimes": args.walltimes}
    options |= {} if unit == DEFAULT_MEMORY_UNIT else {"memory_unit": unit}
    options |= {name: value for name in ("size_in", "timezone") if (value := getattr(args, name)) is not None}
    options |= {} if args.format is None else {"log_format": args.format}
    options |= {} if args.mapping is None else {"mapping": str(Path(args.mapping).resolve())}
    options |= {"selection": _selection(args)} if _selection(args) else {}
    options |= {} if args.load_factor is None else {"scale_load": args.load_factor}
    unit_of_sizes = args.units or _unit_of_logs(args)
    options |= {"units": unit_of_sizes} if unit_of_sizes else {}
    return options | ({"lenient": True} if args.lenient else {})


def _unit_of_logs(args: argparse.Namespace) -> str:
    """Return the unit of sizes of logs without --units, by the platform's name; an empty text for cores."""
    formats = [arguments.format_of(path, args) for path in args.workload]
    unit = unit_by_name(args.platform)
    if unit is None or set(formats) <= {"Batsim JSON"}:
        return ""
    return f"{unit} (of logs)" if "Batsim JSON" in formats else unit


def files_are_unchanged(args: argparse.Namespace) -> bool:
    """Return whether Batsim files are used without any change."""
    is_unscaled = not arguments.scales_load(args) and not args.feedback
    return args.walltimes == "requested" and not _selection(args) and is_unscaled and args.units in {None, "core"}


def _selection(args: argparse.Namespace) -> dict[str, Any]:
    """Return the selection of jobs as JSON for the summary; empty if all jobs are kept."""
    window: dict[str, Any] = {**arguments.window(args), "max_jobs": args.max_jobs}
    return Selection(**window, partitions=tuple(args.partition)).as_json()


def _workload(path: str, args: argparse.Namespace, selection: Selection | None, n_procs: int | None) -> Workload:
    unit = args.memory_unit or DEFAULT_MEMORY_UNIT
    try:
        with loading(f"reading {path}", quiet=args.quiet):
            workload = load(
                path,
                walltimes=args.walltimes,
                memory_unit=unit,
                format=args.format,
                mapping=args.mapping,
                size_in=args.size_in,
                timezone=args.timezone,
                selection=selection,
                lenient=args.lenient,
                n_procs_else=n_procs,
                with_waits=args.feedback,
            )
            workload = with_feedback(workload) if args.feedback else workload
    except NoJobsLeftError as error:
        raise InputError(f"{error}; expected at least one job, or --allow-empty") from None
    if not args.quiet and (selection is not None or arguments.format_of(path, args) != "Batsim JSON"):
        for rule, what in workload.about["report"]["rules"].items():
            is_of_jobs = any(name.startswith("first_") for name in what)  # else it is about the whole log
            n = f"{quantity(what['count'], 'job')}: " if is_of_jobs else ""
            arguments.say(f"{path}: {n}{rule}")
        arguments.say_window(args, path, workload)
    if args.feedback and not args.quiet:
        arguments.say(f"{path}: {feedback_note(workload)}")
    return workload


def _resized(path: str, args: argparse.Namespace, workload: Workload, sizing: Sizing | None) -> Workload:
    """Return the workload with sizes in hosts. A Batsim file is converted only with --units."""
    if sizing is None or not (sizing.asked or arguments.format_of(path, args) != "Batsim JSON"):
        return workload
    if not args.quiet:
        rounded = f"{n_rounded(workload, sizing.n_cores):,} of {quantity(len(workload.jobs), 'job')} rounded up"
        how = "" if sizing.asked else f", the hosts of {args.platform}; use --units core for no conversion"
        arguments.say(
            f"{path}: converted sizes from cores to {sizing.unit}s of {sizing.n_cores:,} cores ({rounded}){how}"
        )
    return sizing.applied(workload)[0]
