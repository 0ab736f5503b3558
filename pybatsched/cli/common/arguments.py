"""Options that several commands share: policies, numbers, time windows and output files."""

from __future__ import annotations

import argparse
import ipaddress
import math
import os
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from pybatsched.errors import InputError, spelled
from pybatsched.live import DEFAULT_TIMEOUT_S
from pybatsched.policies import registry
from pybatsched.results import run_state
from pybatsched.runs.policies import PolicySpec
from pybatsched.settings import INTEGER, Checked, Kind, whole
from pybatsched.version import __version__

if TYPE_CHECKING:
    from pybatsched.live.batsim_options import Option
    from pybatsched.metrics.saved_runs import SavedRun
    from pybatsched.runs.spec import WorkloadSpec
    from pybatsched.workload.formats.files import Format


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


def add_settings(
    group: Group, record: type[Checked], names: Iterable[str] = (), *, required: Collection[str] = (), dest: str = ""
) -> None:
    """Add the options of the settings of a record: of `names`, or of all. `given_settings` reads them."""
    for name, about in record.settings().items():
        if names and name not in names:
            continue
        default = record.default(name)
        is_switch = isinstance(default, bool)
        how: dict[str, Any] = {"dest": f"{dest}{name}", "default": None}
        if is_switch:
            how["action"] = "store_false" if default else "store_true"
        else:
            how |= {"type": about.kind.of_text, "metavar": about.metavar or about.kind.metavar or None}
            if about.kind.choices:
                how["choices"] = about.kind.choices
            if isinstance(default, tuple):
                how["action"] = "append"
        for old, since in about.old.items():
            add_old_name(group, old, about.options[-1], since, **how)
        text = about.negated or about.help
        if isinstance(default, tuple):
            text += " (repeatable)"
        elif not is_switch and default and "default" not in text:
            text += f" (default {default:g})" if isinstance(default, float) else f" (default {default})"
        is_required = {"required": True} if name in required else {}
        group.add_argument(*about.options, **how, help=text.replace("%", "%%"), **is_required)


def add_workload_settings(group: Group, *names: str) -> None:
    """Add the options of the settings of workloads: of `names`, or all that are not those of a machine."""
    from pybatsched.runs.spec import WorkloadSpec  # noqa: PLC0415  `serve` does not need it

    add_settings(
        group, WorkloadSpec, names or [name for name in WorkloadSpec.settings() if name not in {"file", "n_procs"}]
    )


def given_settings(args: argparse.Namespace, record: type[Checked], dest: str = "") -> dict[str, Any]:
    """Return the settings of a record that were given on the command line, by name."""
    values = {name: getattr(args, f"{dest}{name}", None) for name in record.settings()}
    return {name: value for name, value in values.items() if value is not None}


def workload_spec(args: argparse.Namespace, file: str = "") -> WorkloadSpec:
    """Return how a file is read, by the options. Raises InputError."""
    from pybatsched.runs.spec import WorkloadSpec  # noqa: PLC0415  `serve` does not need it

    return WorkloadSpec(**{**given_settings(args, WorkloadSpec), "file": str(file or args.file)})


def as_option(name: str, value: str) -> str:
    """Write a setting as an option of the command line, and perhaps its value.

    >>> as_option("stop_at", ""), as_option("failures.law", "weibull:0.7"), as_option("options", "order=sjf")
    ('--stop-at', '--failure-law weibull:0.7', '-o order=sjf')
    """
    from pybatsched.runs.spec import RECORDS  # noqa: PLC0415  only for errors

    known = {f"{one.prefix}{key}": about for one in RECORDS for key, about in one.settings().items()}
    known |= {"failures": known["failures.mtbf"], "checkpoint": known["checkpoint.interval"]}
    about = known.get(name)
    option = f"--{name.replace('_', '-')}" if about is None else about.options[-1]
    return option if not value or value in {"True", "False"} else f"{option} {shlex.quote(value)}"


def add_policy(group: Group, *, required: bool) -> None:
    """Describe the options that choose a policy. `policy_spec` reads them."""
    add_settings(group, PolicySpec, ["policy"], required=["policy"] if required else [])
    add_options(group, "an option of the policy; the value is read as JSON, else as text (repeatable)")
    add_settings(group, PolicySpec, ["config", "host_reservations", "node_partitions"])
    for name, text in _OF_SLURM.items():
        group.add_argument(f"--{name.replace('_', '-')}", action=_OptionOfSlurm, metavar="FILE", help=text)


#: Options of policy slurm that are also options of commands, with their help.
_OF_SLURM = {
    "slurm_conf": "policy slurm on the machine of this slurm.conf (as --policy slurm -o slurm_conf=FILE)",
    "associations": "its accounts, shares and limits: a file of `sacctmgr dump` (as -o associations=FILE)",
    "qos": "its QOS: a file of `sacctmgr show qos -P` (as -o qos=FILE)",
}


class _OptionOfSlurm(argparse.Action):
    """Add an option of the policy, and choose policy slurm unless another one is named."""

    def __call__(self, _parser: object, namespace: argparse.Namespace, value: Any, _option: object = None) -> None:
        namespace.options = [*namespace.options, f"{self.dest}={value}"]
        namespace.policy = namespace.policy or "slurm"


def policy_spec(args: argparse.Namespace) -> PolicySpec:
    """Return the policy of the options. Raises InputError."""
    return PolicySpec(
        args.policy,
        options_given(args.options),
        config=args.config,
        host_reservations=args.host_reservations,
        node_partitions=args.node_partitions,
    )


def add_options(parser: Group, help_text: str) -> None:
    """Describe the option for a policy's own options."""
    parser.add_argument("-o", dest="options", action="append", default=[], metavar="KEY=VALUE", help=help_text)


def add_baseline(parser: Group) -> None:
    """Describe the option for the baseline of a campaign."""
    text = "of a campaign: compare with this policy (default: the baseline in its file, else its first policy)"
    parser.add_argument("--baseline", default="", metavar="POLICY", help=text)


def add_runs(parser: Group) -> None:
    """Describe the runs, or the campaign, of a chart or a page."""
    text = "runs, by the prefixes of their files; or the directory of one campaign"
    parser.add_argument("runs", nargs="+", metavar="PREFIX|DIR", help=text)


def add_old_name(parser: Group, old: str, new: str, since: str, **how: Any) -> None:
    """Add the deprecated name of an option. It works, with a warning, but `--help` does not show it."""
    parser.add_argument(old, **how, help=argparse.SUPPRESS).replaced_by = new, since  # type: ignore[attr-defined]


def show(text: str) -> None:
    """Print a result on standard output, with settings as options."""
    print(spelled(text, as_option))


def say(text: str) -> None:
    """Print a message for the user on standard error."""
    print(f"pybatsched {__version__}: {spelled(text, as_option)}", file=sys.stderr, flush=True)


def hints(args: argparse.Namespace, unknown: Sequence[str], known: Collection[str]) -> Iterator[str]:
    """Yield a hint for each unknown option: one of Batsim, in `run`, one of policies, or like one of the `known`."""
    import difflib  # noqa: PLC0415  rarely needed

    policies = registry.available() if "options" in args else ()
    chosen = [args.policy] if policies and args.policy else []
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
        is_own = any(_has_option(name, key) for name in chosen)
        owners = [name for name in (chosen if is_own else policies) if flag.startswith("--") and _has_option(name, key)]
        if owners:
            given = value if equals else "VALUE" if after.startswith("--") else after
            which = f"policy {owners[0]}" if len(owners) == 1 else f"policies {', '.join(owners)}"
            use = f": use -o {shlex.quote(f'{key}={given}')}" if is_own or not chosen else ""
            yield f"{key} is an option of the {which}{use}"
        elif flag.startswith("--"):
            option = as_option(key, "")  # the option of a setting that is named as in Python
            near = difflib.get_close_matches((option if option in known else flag)[2:], [one[2:] for one in known], 1)
            yield from (f"did you mean --{one}?" for one in near)


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
    text = "fail if no Batsim connects within this time (default: no limit)"
    add("--first-timeout", type=timeout_s, default=0.0, metavar="SECONDS", help=text)


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


def refuse_to_overwrite(output: str, inputs: Iterable[str]) -> None:
    """Raise InputError if a file to write is one of those to read."""
    if Path(output).resolve() in {Path(path).resolve() for path in inputs}:
        raise InputError(f"{output} is an input of this command; expected another output file")


def refuse_to_overwrite_runs(output: str, runs: Iterable[SavedRun], inputs: Iterable[str] = ()) -> None:
    """Raise InputError if a file to write is one of `inputs` or of a run: its results, journal and workloads."""
    read = list(inputs)
    for run in runs:
        journals = (run.journal, f"{run.prefix}.pbj")
        read += _files_of_run(run.prefix.removesuffix(run_state.PART), ())
        read += [path for path in (*journals, *run.workload_files) if path and Path(path).is_file()]
    refuse_to_overwrite(output, read)


def _files_of_run(prefix: str, more_suffixes: Iterable[str]) -> list[str]:
    """Return the names of all files that a run may write, except for the journal."""
    partial = [f"{prefix}{run_state.PART}{suffix}" for suffix in (*run_state.SUFFIXES, run_state.MARK)]
    return [*partial, *(f"{prefix}{suffix}" for suffix in (*run_state.SUFFIXES, run_state.MARK, *more_suffixes))]


def refuse_outputs_over(args: argparse.Namespace, inputs: Iterable[str], more_suffixes: Iterable[str] = ()) -> None:
    """Raise InputError if a run would write over one of its inputs, or its journal over another of its files."""
    read, written = list(inputs), _files_of_run(args.export, more_suffixes)
    for name in (*written, *filter(None, [args.journal])):
        refuse_to_overwrite(name, read)
    if args.journal and Path(args.journal).resolve() in {Path(name).resolve() for name in written}:
        raise InputError(
            f"--journal {args.journal} is an output file of the run (-e {args.export}); expected another name"
        )


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
        "--workers",
        type=reader(whole(1, 4096)),
        default=n_cores,
        metavar="N",
        help="number of processes (default: all cores)",
    )


def add_fields_from(parser: argparse.ArgumentParser) -> None:
    """Describe the option that names the workloads of a finished run."""
    text = "a workload of the run; the fields of its jobs are read from it (repeatable)"
    parser.add_argument("-w", "--workload", action="append", default=[], metavar="FILE", help=text)


def add_own_tau(parser: Group) -> None:
    """Describe the same option for commands that read runs. The default is the bound of the run."""
    from pybatsched.metrics import DEFAULT_TAU_S  # noqa: PLC0415  `serve` does not need it

    name = f"bound of bounded slowdowns (default: the run's own, or {DEFAULT_TAU_S:g})"
    parser.add_argument("--tau", type=timeout_s, metavar="SECONDS", help=name)


def add_procs(parser: Group) -> None:
    """Describe the option for the size of a machine that is not in the files of a run."""
    text = "processors of the machine, for runs that have only a _jobs.csv"
    parser.add_argument("--procs", type=positive, metavar="N", help=text)


def span(args: argparse.Namespace) -> tuple[float | None, float | None]:
    """Return the start and the end of a span of time in seconds. Raises InputError."""
    from pybatsched.workload.selection import seconds_of  # noqa: PLC0415  `serve` does not need it

    begin = None if args.from_at is None else seconds_of(args.from_at, "--from")
    end = None if args.to_at is None else seconds_of(args.to_at, "--to")
    if begin is not None and end is not None and begin >= end:
        raise InputError(f"--to {args.to_at}: expected a time after --from {args.from_at}")
    return begin, end


def add_span(parser: Group) -> None:
    """Describe the span of simulated time that a chart shows. `span` reads it."""
    add = parser.add_argument
    text = "start of the time axis (seconds, or 12h, 3d, 2w); cdf and boxes: only jobs submitted at T or later"
    add("--from", dest="from_at", metavar="T", help=text)
    add("--to", dest="to_at", metavar="T", help="end of the time axis; cdf and boxes: only jobs submitted before T")


def add_file(parser: Group) -> None:
    """Describe the options for a workload file of any format, and for the size of its machine."""
    parser.add_argument("file", metavar="FILE", help="a log (SWF, Slurm, a table) or a Batsim workload (JSON)")
    add_workload_settings(parser, "format", "mapping", "n_procs")


def format_of(path: str, args: argparse.Namespace) -> Format:
    """Return the format of a file by the options, or by its content. Raises InputError."""
    from pybatsched.workload.formats import detection  # noqa: PLC0415  `serve` does not need it

    return detection.format_of(path, args.format, args.mapping)


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


def reader(kind: Kind) -> Callable[[str], int]:
    """Return the function that reads a whole number of a kind."""

    def read(text: str) -> int:
        value: int | None = kind.of(kind.of_text(text))
        if value is None:
            raise argparse.ArgumentTypeError(f"expected {kind.expected}, found {text!r:.40}")
        return value

    return read


integer, natural, positive = reader(INTEGER), reader(whole(0)), reader(whole(1))
