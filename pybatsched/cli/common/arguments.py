"""Options that several commands share: policies, numbers, time windows and output files."""

from __future__ import annotations

import argparse
import ipaddress
import math
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from pybatsched.errors import InputError, not_utf8, quantity, toml_problem
from pybatsched.live import DEFAULT_TIMEOUT_S
from pybatsched.policies import registry
from pybatsched.policies.loading import names_file, split
from pybatsched.results import run_state
from pybatsched.version import __version__

if TYPE_CHECKING:
    from pybatsched.live.batsim_options import Option
    from pybatsched.metrics.runs import Run
    from pybatsched.workload.formats.files import Format
    from pybatsched.workload.model import Workload


class Group(Protocol):
    """A parser, or a group of a parser, to which options are added."""

    def add_argument(self, *names: str, **how: Any) -> argparse.Action:
        """Add an option."""


class Command(NamedTuple):
    """A sub-command: its name, summary, epilog of the help, options, and the function that runs it."""

    name: str
    summary: str
    epilog: str
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]


def add_commands(parser: argparse.ArgumentParser, commands: Iterable[Command]) -> None:
    """Add sub-commands to a command. `run_chosen` runs the chosen one."""
    below = parser.add_subparsers(dest="subcommand", metavar="COMMAND", required=True)
    for command in commands:
        sub = below.add_parser(
            command.name,
            help=command.summary,
            description=command.summary,
            epilog=command.epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_options(sub)
        sub.set_defaults(run_subcommand=command.run)


def run_chosen(args: argparse.Namespace) -> int:
    """Run the chosen sub-command and return its exit code."""
    return int(args.run_subcommand(args))


def add_policy(parser: Group, *, required: bool) -> None:
    """Describe the options that choose a policy."""
    add = parser.add_argument
    add("--policy", required=required, metavar="NAME", help="an installed policy, or path/to/file.py:Class")
    add_options(parser, "an option of the policy; the value is read as JSON, else as text (repeatable)")
    add("--config", metavar="FILE.toml", help="options of policies, in tables [policy.NAME]")
    add("--reservations", metavar="FILE.toml", help="reservations of hosts, in tables [[reservation]] (docs/faults.md)")


def add_options(parser: Group, help_text: str) -> None:
    """Describe the option for a policy's own options."""
    parser.add_argument("-o", dest="options", action="append", default=[], metavar="KEY=VALUE", help=help_text)


def add_seed(parser: Group) -> None:
    """Describe the option for the seed of a policy."""
    text = "seed of policies that use random numbers (their option seed)"
    parser.add_argument("--seed", type=integer, metavar="N", help=text)


def add_baseline(parser: Group) -> None:
    """Describe the option for the baseline of a campaign."""
    text = "of a campaign: compare with this policy (default: the baseline in its file, else its first policy)"
    parser.add_argument("--baseline", default="", metavar="POLICY", help=text)


def add_old_names(parser: Group, *names: str, **how: Any) -> None:
    """Add former names of an option. They work, but `--help` does not show them."""
    parser.add_argument(*names, **how, help=argparse.SUPPRESS)


def say(text: str) -> None:
    """Print a message for the user on standard error."""
    print(f"pybatsched {__version__}: {text}", file=sys.stderr, flush=True)


def reservations_of(path: str) -> list[dict[str, Any]]:
    """Read a file of reservations. Raises InputError with the file and the line."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: {not_utf8(error)}") from None
    from pybatsched.core.services.reservation_specs import read_reservations  # noqa: PLC0415  imports pydantic

    return read_reservations(text, path)


def policy_plan(
    name: str, given: list[str], config: str | None, seed: int | None = None, reservations: str | None = None
) -> registry.PolicyPlan:
    """Find a policy and collect the user's options. The seed is used if the policy has an option of that name.

    `reservations` is a file of reservations of hosts.
    """
    source = registry.find(name, trusted=True)
    from_file: Mapping[str, Any] = {}
    if config is not None:
        from_file = _table(config, source.table_name)
    options = options_given(given)
    if seed is not None and "seed" in source.option_fields:
        options.setdefault("seed", seed)
    if reservations is not None:
        if "host_reservations" in options:
            raise InputError("--reservations and -o host_reservations: expected only one of them, found both")
        options["host_reservations"] = reservations_of(reservations)
    return registry.PolicyPlan(source, options, from_file, config or "", trusted=True)


def hints(args: argparse.Namespace, unknown: Sequence[str]) -> Iterator[str]:
    """Yield a hint for each unknown option that is an option of Batsim, in `run`, or of the policy: use ``-o``.

    If no policy is chosen, all installed policies are searched.
    """
    if "options" not in args:  # the command has no options of policies
        return
    names = [args.policy] if args.policy else registry.available()
    of_batsim = _batsim_options() if "for_batsim" in args else {}
    for word, after in zip(unknown, [*unknown[1:], "--"], strict=True):
        own = of_batsim.get(word.partition("=")[0] if word.startswith("--") else word[:2])
        if own is not None:
            has_value = own.n_values and word in own.names
            example = shlex.join([word, *([after if after[:1] != "-" else "VALUE"] if has_value else [])])
            yield f"give it to Batsim after --: pybatsched run … -- {example}"
            continue
        flag, equals, value = word.partition("=")
        key = flag.removeprefix("--").replace("-", "_")
        owners = [name for name in names if _has_option(name, key)] if flag.startswith("--") else []
        if owners:
            given = value if equals else "VALUE" if after.startswith("--") else after
            which = f"policy {owners[0]}" if len(owners) == 1 else f"policies {', '.join(owners)}"
            yield f"{key} is an option of the {which}: use -o {shlex.quote(f'{key}={given}')}"


def _batsim_options() -> dict[str, Option]:
    """Return the options of Batsim that a user can give to it, by each of their names."""
    from pybatsched.live.batsim_options import OPTIONS  # noqa: PLC0415  rarely needed

    return {name: one for one in OPTIONS if one.name != "--socket-endpoint" for name in one.names}


def _has_option(policy: str, key: str) -> bool:
    try:
        return key in registry.find(policy, trusted=True).option_fields
    except InputError:  # reported later
        return False


def options_given(texts: Iterable[str]) -> dict[str, Any]:
    """Read the options given with ``-o``. Raises InputError."""
    return dict(map(_option, texts))


def add_for_batsim(parser: argparse.ArgumentParser, help_text: str, *, required: bool = False) -> None:
    """Add ``--for``, the version of Batsim (`args.batsim`). The default is 4, unless the option is `required`."""
    parser.add_argument(
        "--for",
        dest="batsim",
        choices=("batsim4", "batsim5"),
        default=None if required else "batsim4",
        required=required,
        help=help_text,
    )


def add_timeout(add: Callable[..., object], cause: str, default: float | None = DEFAULT_TIMEOUT_S) -> None:
    """Add ``--timeout``. The help says: fail if `cause`. `add` is the method of a parser or a group."""
    text = f"fail if {cause} (default {DEFAULT_TIMEOUT_S:g}, 0 = never)"
    add("--timeout", type=timeout_s, default=default, metavar="SECONDS", help=text)


def add_first_timeout(add: Callable[..., object]) -> None:
    """Add ``--first-timeout``, for commands that wait for a Batsim. `add` is the method of a parser or a group."""
    add(
        "--first-timeout",
        type=timeout_s,
        default=0.0,
        metavar="SECONDS",
        help="fail if no Batsim connects within this time (default: no limit)",
    )


def ip_address(text: str) -> str:
    """Read an IP address."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected an IP address such as 192.0.2.7, found {text!r}") from None


def _option(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise InputError(f"-o {text!r}: expected KEY=VALUE")
    try:
        return key, msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return key, value


def _table(path: str, name: str) -> Mapping[str, Any]:
    import tomllib  # noqa: PLC0415  only for --config

    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"--config {path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, a number of thousands of digits
        raise InputError(f"--config {path}: {toml_problem(error)}") from None
    unknown = [key for key in content if key != "policy"]
    if unknown:
        raise InputError(f"--config {path}: unknown key {unknown[0]!r}; expected tables [policy.NAME]")
    tables = content.get("policy", {})
    for other in tables if isinstance(tables, dict) else ():
        if other != name and other not in registry.available():
            raise InputError(
                f"--config {path}: unknown policy {other!r} in the table [policy.{other}]; expected an installed policy"
            )
    table = tables.get(name, {}) if isinstance(tables, dict) else None
    if not isinstance(table, dict):
        raise InputError(f"--config {path}: expected a table [policy.{name}]")
    return table


def refuse_to_overwrite(output: str, inputs: Iterable[str]) -> None:
    """Raise InputError if a file to write is one of those to read."""
    if Path(output).resolve() in {Path(path).resolve() for path in inputs}:
        raise InputError(f"{output} is an input of this command; expected another output file")


def refuse_to_overwrite_runs(output: str, runs: Iterable[Run], inputs: Iterable[str] = ()) -> None:
    """Raise InputError if a file to write is one of `inputs` or belongs to one of the runs.

    The files of a run are its results, its journal and the workloads that its summary names.
    """
    read = list(inputs)
    for run in runs:
        journals = (run.journal, f"{run.prefix}.pbj")
        read += _files_of_run(run.prefix.removesuffix(run_state.PART), ())
        read += [path for path in (*journals, *run.workload_files) if path and Path(path).is_file()]
    refuse_to_overwrite(output, read)


def files_of_policy(plan: registry.PolicyPlan | None, config: str | None) -> list[str]:
    """Return the Python files and the configuration file of a policy."""
    named = [] if plan is None else [plan.source.name, *plan.trusted_files(None).names]
    return [*(str(split(name)[0]) for name in named if names_file(name)), *([config] if config else [])]


def _files_of_run(prefix: str, more_suffixes: Iterable[str]) -> list[str]:
    """Return the names of all files that a run may write, except for the journal."""
    partial = [f"{prefix}{run_state.PART}{suffix}" for suffix in (*run_state.SUFFIXES, run_state.MARK)]
    return [*partial, *(f"{prefix}{suffix}" for suffix in (*run_state.SUFFIXES, run_state.MARK, *more_suffixes))]


def refuse_outputs_over(prefix: str, inputs: Iterable[str], more_suffixes: Iterable[str] = ()) -> None:
    """Raise InputError if a run with this prefix would write over one of its own inputs."""
    wanted = list(inputs)
    for name in _files_of_run(prefix, more_suffixes):
        refuse_to_overwrite(name, wanted)


def refuse_journal_among(journal: str, prefix: str, more_suffixes: Iterable[str] = ()) -> None:
    """Raise InputError if the journal has the name of another file of the run."""
    if Path(journal).resolve() in {Path(name).resolve() for name in _files_of_run(prefix, more_suffixes)}:
        raise InputError(f"--journal {journal} is an output file of the run (-e {prefix}); expected another name")


def timeout_s(text: str) -> float:
    """Read a number of seconds, 0 or more."""
    seconds = number(text)
    if not (math.isfinite(seconds) and seconds >= 0):
        raise argparse.ArgumentTypeError(f"expected a number of seconds, 0 or more, found {text!r}")
    return seconds


def add_workers(parser: Group) -> None:
    """Describe the option for the number of processes."""
    n_cores = os.cpu_count() or 1
    parser.add_argument(
        "--workers", type=n_workers, default=n_cores, metavar="N", help="number of processes (default: all cores)"
    )


def add_fields_from(parser: argparse.ArgumentParser) -> None:
    """Describe the option that names the workloads of a finished run."""
    parser.add_argument(
        "-w",
        "--workload",
        action="append",
        default=[],
        metavar="FILE",
        help="a workload of the run; the fields of its jobs are read from it (repeatable)",
    )


def add_tau(parser: Group) -> None:
    """Describe the option for the bound of bounded slowdowns."""
    from pybatsched.metrics import DEFAULT_TAU_S  # noqa: PLC0415  `serve` does not need it

    name = "bound of bounded slowdowns (default %(default)g)"
    parser.add_argument("--tau", type=timeout_s, default=DEFAULT_TAU_S, metavar="SECONDS", help=name)


def add_own_tau(parser: Group) -> None:
    """Describe the same option for commands that read runs. The default is the bound of the run."""
    from pybatsched.metrics import DEFAULT_TAU_S  # noqa: PLC0415  `serve` does not need it

    name = f"bound of bounded slowdowns (default: the run's own, or {DEFAULT_TAU_S:g})"
    parser.add_argument("--tau", type=timeout_s, metavar="SECONDS", help=name)


def add_procs(parser: Group) -> None:
    """Describe the option for the size of a machine that is not in the files of a run."""
    text = "processors of the machine, for runs that have only a _jobs.csv"
    parser.add_argument("--procs", type=positive, metavar="N", help=text)


def add_max_jobs(parser: Group) -> None:
    """Describe the option for a number of jobs."""
    parser.add_argument(
        "--max-jobs", type=positive, metavar="N", help="keep at most N jobs: the first ones of the selection"
    )


def add_lenient(parser: Group) -> None:
    """Describe the option for logs with bad lines."""
    text = "skip and count invalid lines of logs instead of failing"
    parser.add_argument("--lenient", action="store_true", help=text)


def add_window(parser: Group, zero: str = "time 0 of the log") -> None:
    """Describe the window of submission times whose jobs are kept, counted from `zero`. `window` reads it."""
    add = parser.add_argument
    add("--from", dest="from_at", metavar="T", help="keep jobs submitted at T or later (seconds, or 12h, 3d, 2w)")
    before = f"keep jobs submitted before T; here and in --from, T counts from {zero}"
    add("--submitted-before", dest="to_at", metavar="T", help=before)
    add_old_names(parser, "--to", "--until", dest="to_at")
    warm_up = "also keep jobs up to T before the window (without --from: the first T); figures of jobs leave them out"
    add("--warm-up", metavar="T", help=warm_up)
    cool_down = (
        "also keep jobs up to T after the window (without --submitted-before: the last T); figures of jobs leave "
        "them out"
    )
    add("--cool-down", metavar="T", help=cool_down)


def window(args: argparse.Namespace) -> dict[str, float | None]:
    """Return the members of a `Selection` for the window, in seconds. Raises InputError."""
    from pybatsched.workload.selection import seconds_of  # noqa: PLC0415  `serve` does not need it

    begin, end = span(args, "--submitted-before")
    warm_up = 0.0 if args.warm_up is None else seconds_of(args.warm_up, "--warm-up")
    cool_down = 0.0 if args.cool_down is None else seconds_of(args.cool_down, "--cool-down")
    return {"from_at": begin, "to_at": end, "warm_up_s": warm_up, "cool_down_s": cool_down}


def say_window(args: argparse.Namespace, path: str, workload: Workload) -> None:
    """Print how long the window really is: from the first kept job to the last. O(1)."""
    if (args.from_at is None and args.to_at is None) or not workload.jobs:
        return
    days = (workload.jobs[-1]["subtime"] - workload.jobs[0]["subtime"]) / 86_400
    say(f"{path}: the window has {quantity(len(workload.jobs), 'job')}, submitted within {days:.2f} days")


def span(args: argparse.Namespace, end_name: str = "--to") -> tuple[float | None, float | None]:
    """Return the start and the end of a span of time in seconds. Raises InputError; `end_name` names the end."""
    from pybatsched.workload.selection import seconds_of  # noqa: PLC0415  `serve` does not need it

    begin = None if args.from_at is None else seconds_of(args.from_at, "--from")
    end = None if args.to_at is None else seconds_of(args.to_at, end_name)
    if begin is not None and end is not None and begin >= end:
        raise InputError(f"{end_name} {args.to_at}: expected a time after --from {args.from_at}")
    return begin, end


def add_span(parser: Group) -> None:
    """Describe the span of simulated time that a chart shows. `span` reads it."""
    add = parser.add_argument
    add(
        "--from",
        dest="from_at",
        metavar="T",
        help="start of the time axis (seconds, or 12h, 3d, 2w); cdf and boxes: only jobs submitted at T or later",
    )
    add("--to", dest="to_at", metavar="T", help="end of the time axis; cdf and boxes: only jobs submitted before T")


def add_load(parser: Group) -> None:
    """Describe the options that scale the load. `load_factor` reads them."""
    add = parser.add_argument
    add(
        "--load",
        nargs="?",
        const="",
        type=_load,
        metavar="F",
        help="scale submission times to an offered load of F on the machine, such as 0.9 for 90 %%",
    )
    add(
        "--scale-load",
        type=number,
        metavar="F",
        help="divide submission times by F, which multiplies the offered load by F",
    )


def _load(text: str) -> float:
    """Read an offered load. The error names `--cpu-load`, whose former name was `--load`."""
    try:
        return float(text)
    except ValueError:
        found = f", found {text!r:.60}" if text else ""
        raise argparse.ArgumentTypeError(
            f"expected an offered load such as 0.9{found}; work that puts load on hosts is --cpu-load of `workload "
            "convert`"
        ) from None


def add_feedback(parser: Group) -> None:
    """Describe the option for submissions that depend on the ends of jobs."""
    text = "submit the next job of a user's session a think time after the end of the previous job, as in the log"
    parser.add_argument("--feedback", action="store_true", help=text)


def scales_load(args: argparse.Namespace) -> bool:
    """Return whether the options scale the load."""
    return args.load is not None or args.scale_load is not None


def load_factor(args: argparse.Namespace, workloads: Sequence[Workload], n_procs: int) -> float:
    """Return the factor by which submission times are divided, 1 for no change. Raises InputError. O(jobs)."""
    from pybatsched.workload import prepare  # noqa: PLC0415  `serve` does not need it

    if args.load is not None and args.scale_load is not None:
        raise InputError("--load and --scale-load were both given; expected only one")
    try:
        if args.load is not None:
            return prepare.load_factor(workloads, args.load, n_procs)
    except InputError as error:
        raise InputError(f"--load {args.load:g}: {error}") from None
    factor = 1.0 if args.scale_load is None else float(args.scale_load)
    if not 0 < factor < math.inf:
        raise InputError(f"--scale-load {factor:g}: expected a factor above 0")
    return factor


def add_memory_unit(parser: Group) -> None:
    """Describe the option for the unit of memory in logs."""
    from pybatsched.workload.formats.conversion import MEMORY_UNITS  # noqa: PLC0415  `serve` does not need it

    text = "unit of memory per processor in logs (default: KB, as in the SWF standard)"
    parser.add_argument("--memory-unit", choices=MEMORY_UNITS, help=text)


def add_partition(parser: Group) -> None:
    """Describe the option for the partitions of logs."""
    text = "keep only jobs of this partition (field 16 of SWF, Partition of Slurm; repeatable)"
    parser.add_argument("--partition", action="append", default=[], metavar="P", help=text)


def add_slurm(parser: Group) -> None:
    """Describe the options for logs of Slurm and tables: the unit of sizes, and the time zone."""
    from pybatsched.workload.formats.conversion import SIZES  # noqa: PLC0415  `serve` does not need it

    text = "unit of job sizes in a log of Slurm or a table (default: cores, or as in the mapping)"
    parser.add_argument("--size-in", choices=SIZES, help=text)
    add_timezone(parser)


def add_timezone(parser: Group) -> None:
    """Describe the option for the zone of times."""
    text = "time zone of a log of Slurm or a table, if its times have none (default: UTC, or as in the mapping)"
    parser.add_argument("--timezone", metavar="ZONE", help=text)


def add_format(parser: Group) -> None:
    """Describe the options for the format of a file. `format_of` reads them."""
    from pybatsched.workload.formats.files import FORMATS  # noqa: PLC0415  `serve` does not need it

    names = ", ".join(FORMATS)
    add = parser.add_argument
    add("--format", metavar="NAME", choices=tuple(FORMATS), help=f"{names} (default: by the content)")
    add("--mapping", metavar="FILE", help="the file that describes the columns of a table (docs/traces.md)")


def add_file(parser: Group) -> None:
    """Describe the options for a workload file of any format, and for the size of its machine."""
    parser.add_argument("file", metavar="FILE", help="a log (SWF, Slurm, a table, Rackham) or a Batsim workload (JSON)")
    add_format(parser)
    text = "processors of the machine (default: as in the file)"
    parser.add_argument("--procs", type=positive, metavar="N", help=text)


def format_of(path: str, args: argparse.Namespace) -> Format:
    """Return the format of a file by the options, or by its content. Raises InputError."""
    from pybatsched.workload.formats import files  # noqa: PLC0415  `serve` does not need it

    return files.format_of(path, args.format, args.mapping)


def timezone(args: argparse.Namespace) -> str | None:
    """Return the time zone. Raises InputError for a zone that is not used."""
    check_of_job_log(args, "timezone")
    zone: str | None = args.timezone
    return zone


def check_of_job_log(args: argparse.Namespace, name: str) -> None:
    """Raise InputError for an option of logs of Slurm and tables that is given for another format."""
    kind = format_of(args.file, args)
    if getattr(args, name) is not None and kind not in {"Slurm", "table"}:
        raise InputError(f"--{name.replace('_', '-')}: expected a log of Slurm or a table, found {kind}, {args.file}")


def n_workers(text: str) -> int:
    """Read a number of processes."""
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= 4096:
        raise argparse.ArgumentTypeError(f"expected a number of processes from 1 to 4096, found {text!r}")
    return int(text)


def megabytes(text: str) -> int:
    """Read a size in MiB and return it in bytes."""
    size = number(text)
    if not (math.isfinite(size) and 0 < size <= 2**20):
        raise argparse.ArgumentTypeError(f"expected a size in MiB, found {text!r}")
    return int(size * 2**20)


def number(text: str) -> float:
    """Read a number."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number, found {text!r}") from None


def integer(text: str) -> int:
    """Read a whole number."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a whole number, found {text!r:.40}") from None


def processors(text: str) -> int:
    """Read the number of processors of a machine."""
    from pybatsched.platform.model import MAX_HOSTS  # noqa: PLC0415  `serve` does not need it

    n = _whole(text, 1)
    if n > MAX_HOSTS:
        raise argparse.ArgumentTypeError(f"expected 1 to {MAX_HOSTS:,} processors, found {text:.40}")
    return n


def positive(text: str) -> int:
    """Read a whole number, 1 or more."""
    return _whole(text, 1)


def natural(text: str) -> int:
    """Read a whole number, 0 or more."""
    return _whole(text, 0)


def _whole(text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"expected a whole number, {least} or more, found {text!r:.40}")
    return number
