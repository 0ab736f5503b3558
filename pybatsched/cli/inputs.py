"""The inputs of a run, as `simulate` and `run` take them: platforms by file or name, workloads, and their digests."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pybatsched import registry
from pybatsched.cli import arguments
from pybatsched.errors import InputError
from pybatsched.machines import names
from pybatsched.simulator import run as runs
from pybatsched.simulator.options import Options
from pybatsched.workload import Workload, files, load

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
        help="a Batsim workload or a log in SWF, .gz or not (repeatable: they are named w0, w1, …)",
    )
    add(
        "--walltimes",
        default="requested",
        metavar="HOW",
        help="walltimes: requested (default, as the file has them), exact, requested-strict, factor:F, round, none",
    )


def workloads(paths: Sequence[str], walltimes: str, *, quiet: bool) -> dict[str, Workload]:
    """Read workloads, by the names that Batsim gives them, and tell what was dropped or changed in logs."""
    return {f"w{i}": _workload(path, walltimes, quiet=quiet) for i, path in enumerate(paths)}


def _workload(path: str, walltimes: str, *, quiet: bool) -> Workload:
    workload = load(path, walltimes=walltimes)
    workload.source = str(Path(path).resolve())  # as Batsim tells it
    if not quiet and not files.looks_like_json(path):
        for rule, what in workload.about["report"]["rules"].items():
            arguments.say(f"{path}: {what['count']:,} jobs: {rule}")
    return workload


def digests(paths: Sequence[str]) -> list[dict[str, str]]:
    """Give what tells these inputs from others: files, or machines by name."""
    return [{"file": path, "sha256": hashlib.sha256(_content(path)).hexdigest()} for path in paths]


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        if names.variant_of(path) is not None:
            return names.find(path).data()
        raise InputError(f"cannot read {path}: {error.strerror}") from None


def described(plan: registry.PolicyPlan, options: Options) -> dict[str, Any]:
    """Say which policy runs with which options, before any file is touched."""
    return {"name": plan.source.name, "origin": plan.source.origin, "options": runs.options_of(plan, options)}
