"""Command-line options for random failures of machines and for checkpoints of jobs."""

from __future__ import annotations

import argparse
from typing import Any

from pybatsched.cli.common import arguments
from pybatsched.errors import InputError
from pybatsched.simulator.failures import FailureModel
from pybatsched.workload.inject.checkpoints import Checkpointing

_NEED_MTBF = ("repair", "mtbf_of", "failure_law", "fail_together", "failure_seed")


def add_failures(group: arguments.Group) -> None:
    """Describe the options of random failures."""
    add = group.add_argument
    add(
        "--mtbf",
        metavar="T",
        help="machines fail: mean time between failures (seconds, or 12h, 30d), of each host (see --mtbf-of)",
    )
    add("--mtbf-of", choices=["node", "system"], help="whether --mtbf is that of a host (default) or of the machine")
    add("--failure-law", metavar="LAW", help="exponential (default) or weibull:SHAPE")
    add("--repair", metavar="T", help="time of a repair: 4h, exponential:MEAN or lognormal:MEDIAN:SIGMA (default 1h)")
    add("--fail-together", metavar="PROPERTY", help="hosts with the same value of a platform property fail at once")
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
    given = {"interval": args.checkpoint, "dump": args.checkpoint_dump, "read": args.checkpoint_read}
    given = {name: value for name, value in given.items() if value is not None}
    if args.checkpoint is None:
        for name in given:
            raise InputError(f"--checkpoint-{name}: works only with --checkpoint")
        return None
    return Checkpointing.of_settings(given, "--checkpoint")


def failure_model(args: argparse.Namespace) -> FailureModel | None:
    """Return the failures of the arguments; None if there are none. Raises InputError."""
    if args.mtbf is None:
        for name in _NEED_MTBF:
            if getattr(args, name) is not None:
                raise InputError(f"--{name.replace('_', '-')}: works only with --mtbf")
        return None
    given: dict[str, Any] = {
        "mtbf": args.mtbf,
        "of": args.mtbf_of,
        "law": args.failure_law,
        "repair": args.repair,
        "together": args.fail_together,
        "seed": args.failure_seed,
    }
    return FailureModel.of_settings({name: value for name, value in given.items() if value is not None}, "--mtbf")
