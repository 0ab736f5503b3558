"""The options that describe a run, in `simulate` and `run`, and the command that repeats it."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator
from typing import Any, Final

from pybatsched.cli.common import arguments
from pybatsched.errors import InputError, setting
from pybatsched.runs.policies import PolicySpec
from pybatsched.runs.spec import MachineSpec, RunSpec, WorkloadSpec
from pybatsched.simulator.failure_events import FailureModel
from pybatsched.workload.inject.checkpoints import Checkpointing

#: Options that do not change the result: output files, messages, endpoints and time-outs.
_WITHOUT_EFFECT: Final = frozenset(
    {"help", "export", "journal", "quiet", "verbose"}
    | {"socket_endpoint", "curve", "timeout", "first_timeout", "send_end"}
)


def command_to_repeat(
    command: str, add_arguments: Callable[[argparse.ArgumentParser], None], args: argparse.Namespace
) -> str:
    """Return the same command line for the same run: without output files, defaults and former names."""
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


def add_workloads(group: arguments.Group) -> None:
    """Describe the options for workloads."""
    text = f"{WorkloadSpec.settings()['file'].help} (repeatable)"
    group.add_argument("-w", "--workload", dest="files", action="append", default=[], metavar="FILE", help=text)
    arguments.add_workload_settings(group)


def add_failures(group: arguments.Group, *records: type[FailureModel | Checkpointing]) -> None:
    """Describe the options of random failures of machines and of checkpoints of jobs, by default of both."""
    for record in records or (FailureModel, Checkpointing):
        arguments.add_settings(group, record, dest=record.prefix)


def run_spec(args: argparse.Namespace, policy: PolicySpec | None) -> RunSpec:
    """Return the run of the options. Raises InputError."""
    of_jobs = arguments.given_settings(args, WorkloadSpec)
    of_jobs.pop("n_procs", None)  # --procs is the machine of the run
    of_run = arguments.given_settings(args, MachineSpec) | arguments.given_settings(args, RunSpec)
    return RunSpec.of({**of_jobs, **of_run, **faults(args)}, policy, args.files)


def faults(args: argparse.Namespace) -> dict[str, Any]:
    """Return the settings of failures and checkpoints that were given. Raises InputError."""
    settings: dict[str, Any] = {}
    for name, record, first in (("failures", FailureModel, "mtbf"), ("checkpoint", Checkpointing, "interval")):
        found = arguments.given_settings(args, record, record.prefix)
        if found and first not in found:
            raise InputError(f"{setting(record.prefix + next(iter(found)))}: works only with {setting(name)}")
        settings |= {name: found} if found else {}
    return settings
