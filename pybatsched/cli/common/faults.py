"""Command-line options for random failures of machines and for checkpoints of jobs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Final

from pybatsched.cli.common import arguments
from pybatsched.errors import InputError
from pybatsched.platform.model import Platform
from pybatsched.simulator.failure_events import FailureModel, RandomFailures
from pybatsched.workload.inject.checkpoints import Checkpointing

#: The options of the settings of `FailureModel` and of `Checkpointing`.
_FAILURES: Final = {
    "mtbf": "--mtbf",
    "of": "--mtbf-of",
    "law": "--failure-law",
    "repair": "--repair",
    "together": "--fail-together",
    "seed": "--failure-seed",
}
_CHECKPOINTS: Final = {"interval": "--checkpoint", "dump": "--checkpoint-dump", "read": "--checkpoint-read"}


def add_failures(group: arguments.Group) -> None:
    """Describe the options of random failures."""
    add = group.add_argument
    add(
        "--mtbf",
        metavar="T",
        help="simulate failures of machines, with this mean time between failures of a host (seconds, or 12h, 30d)",
    )
    add(
        "--mtbf-of",
        choices=["node", "system"],
        help="whether --mtbf holds for one host (node, the default) or for all together (system)",
    )
    add("--failure-law", metavar="LAW", help="exponential (default) or weibull:SHAPE")
    add("--repair", metavar="T", help="time of a repair: 4h, exponential:MEAN or lognormal:MEDIAN:SIGMA (default 1h)")
    add("--fail-together", metavar="PROPERTY", help="hosts with the same value of a platform property fail together")
    add("--failure-seed", type=arguments.integer, metavar="N", help="seed of the failures (default 0)")


def add_checkpoints(group: arguments.Group) -> None:
    """Describe the options of checkpoints of all jobs."""
    add = group.add_argument
    add(
        "--checkpoint",
        metavar="T|daly",
        help="jobs write checkpoints after every T of work (1h), or by Daly's formula from --mtbf and their size",
    )
    add("--checkpoint-dump", metavar="T", help="time to write a checkpoint (default 5m)")
    add("--checkpoint-read", metavar="T", help="time to read a checkpoint (default: as --checkpoint-dump)")


def checkpointing(args: argparse.Namespace) -> Checkpointing | None:
    """Return the checkpoints of the arguments; None if there are none. Raises InputError."""
    given = _settings(args, _CHECKPOINTS)
    if given is None:
        return None
    try:
        return Checkpointing.of_settings(given)
    except InputError as error:
        raise _with_option(error, _CHECKPOINTS) from None


def failure_model(args: argparse.Namespace) -> FailureModel | None:
    """Return the failures of the arguments; None if there are none. Raises InputError."""
    given = _settings(args, _FAILURES)
    if given is None:
        return None
    try:
        return FailureModel.of_settings(given)
    except InputError as error:
        raise _with_option(error, _FAILURES) from None


def failures_on(failures: FailureModel, platform: Platform) -> RandomFailures:
    """Return the failures of a platform. O(hosts). Raises InputError that names an option."""
    try:
        return failures.on(platform)
    except InputError as error:
        raise _with_option(error, _FAILURES) from None


def _settings(args: argparse.Namespace, options: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the settings that were given, by name; None without the first one, which all others need."""
    values = {name: getattr(args, option[2:].replace("-", "_")) for name, option in options.items()}
    given = {name: value for name, value in values.items() if value is not None}
    first, *_ = options
    if first not in given:
        for name in given:
            raise InputError(f"{options[name]}: works only with {options[first]}")
        return None
    return given


def _with_option(error: InputError, options: Mapping[str, str]) -> InputError:
    """Return an error about a setting ("failures: law: …") as one about its option ("--failure-law: …")."""
    _, name, text = str(error).split(": ", 2)
    return InputError(f"{options[name]}: {text}")
