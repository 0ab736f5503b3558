"""Add deadlines, moldable types, checkpoints or input files to jobs of a workload, or add urgent jobs."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from pybatsched.cli.common import arguments
from pybatsched.cli.common.arguments import Command
from pybatsched.cli.workload import convert
from pybatsched.errors import InputError, quantity
from pybatsched.workload import load
from pybatsched.workload.formats import batsim4
from pybatsched.workload.inject.steps import CheckpointStep, Deadlines, Files, Moldable, Step, Urgent, step_of
from pybatsched.workload.inject.urgent import UrgentJob, urgent_job_of
from pybatsched.workload.model import Workload
from pybatsched.workload.selection import seconds_of

SUMMARY: Final = "Add deadlines, moldable types, checkpoints or input files to jobs, or add urgent jobs."
EPILOG: Final = """\
examples:
  pybatsched workload inject w.json deadlines --every 3 --least 24h --output a.json       every third job
  pybatsched workload inject w.json deadlines --share 0.333 --least 72h --seed 7 --output b.json
  pybatsched workload inject w.json urgent --every 720h --busy 0.75 --seed 1 --output u.json
  pybatsched workload inject w.json urgent --probability 0.001 --kind 16:10m --kind 32:4m --output u.json
  pybatsched workload inject w.json urgent --at 128:10m:4982280 --at 256:390:87d --output u.json   these two jobs
  pybatsched workload inject w.json urgent --queue sx_rout --output u.json                 mark existing jobs as urgent
  pybatsched workload inject w.json moldable --seed 3 --output m.json
  pybatsched workload inject w.json checkpoints --mtbf 30d --dump 5m --output c.json       by Daly's formula
  pybatsched workload inject w.json files --output f.json                    6.4 GB per core, shared within an hour
  pybatsched workload inject w.json files --gap 2h --sizes 1:100 --classes 128:0.9,256:0.08,1024:0.02 --output f.json

The same options and seed write the same file, byte for byte. Campaigns have the same steps. See docs/workloads.md.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the kinds of `workload inject` and their options."""
    parser.add_argument("file", metavar="FILE", help="a Batsim workload (JSON), or a log (SWF, Slurm)")
    kinds = (
        Command("deadlines", "Set a deadline for some jobs.", "", _deadlines_arguments, _run(_deadlines)),
        Command("urgent", "Add urgent jobs, or mark existing jobs as urgent.", "", _urgent_arguments, _run(_urgent)),
        Command("moldable", "Allow jobs to run on more or fewer processors.", "", _moldable_arguments, _run(_moldable)),
        Command(
            "checkpoints", "Lengthen jobs by the dumps of checkpoints.", "", _checkpoints_arguments, _run(_checkpoints)
        ),
        Command("files", "Add input files, which jobs of a user share.", "", _files_arguments, _run(_files)),
    )
    below = parser.add_subparsers(dest="what", metavar="KIND", required=True)
    for kind in kinds:
        sub = below.add_parser(kind.name, help=kind.summary, description=kind.summary)
        kind.add_options(sub)
        sub.add_argument(
            "--seed", type=arguments.natural, default=0, metavar="S", help="seed of the random numbers (default: 0)"
        )
        sub.add_argument("--output", required=True, metavar="FILE", help="the file to write: .json or .json.gz")
        sub.set_defaults(run_kind=kind.run)


def run(args: argparse.Namespace) -> int:
    """Write the changed workload."""
    return int(args.run_kind(args))


def _run(step_from: Callable[[argparse.Namespace], Step]) -> Callable[[argparse.Namespace], int]:
    def run_one(args: argparse.Namespace) -> int:
        try:
            step = step_from(args)
        except InputError as error:
            raise InputError(f"{args.what}: {error}") from None
        convert.check_name(args.output)
        arguments.refuse_to_overwrite(args.output, [args.file])
        changed = step.applied(load(args.file), args.seed)
        batsim4.write(changed, args.output)
        print(f"{args.what}: {_counts(changed)}" + (f", seed {args.seed}" if step.is_random else ""))
        convert.say_written(changed, args.output)
        return 0

    return run_one


def _counts(workload: Workload) -> str:
    """Return how many jobs have each of the fields that steps add."""
    n_late = sum("max_stay" in job for job in workload.jobs)
    n_urgent = sum(job.get("urgent") is True for job in workload.jobs)
    n_moldable = sum("moldable" in job for job in workload.jobs)
    n_files = len({str(job["input_file"]) for job in workload.jobs if "input_file" in job})
    n_loading = sum("input_file" in job for job in workload.jobs)
    counts = (
        (n_late, "with deadlines"),
        (n_urgent, "urgent"),
        (n_moldable, "moldable"),
        (sum("checkpoint_work_s" in job for job in workload.jobs), "with checkpoints"),
        (n_loading, f"with {quantity(n_files, 'input file')}"),
    )
    return ", ".join(f"{quantity(n, 'job')} {what}" for n, what in counts if n) or "no job was selected"


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _checkpoints_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--interval", metavar="T|daly", help="work between two checkpoints, such as 1h (default: daly, from --mtbf)")
    add("--dump", metavar="T", help="time to write a checkpoint (default 5m)")
    add("--read", metavar="T", help="time to read a checkpoint (default: as --dump)")
    add("--mtbf", metavar="T", help="mean time between failures of one host, for daly")
    add("--speed", type=arguments.number, metavar="F", help="speed of all hosts in flop/s, for computations")


def _checkpoints(args: argparse.Namespace) -> Step:
    names = ("interval", "dump", "read", "mtbf", "speed")
    return step_of(CheckpointStep, _given({name: getattr(args, name) for name in names}))


def _deadlines_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--every", type=arguments.positive, metavar="N", help="select every N-th job in order of submission"
    )
    which.add_argument(
        "--share", type=arguments.number, metavar="P", help="select each job with probability P, by the seed"
    )
    add("--first", type=arguments.positive, metavar="K", help="with --every: the first selected job (default 1)")
    add("--least", default="24h", metavar="T", help="the deadline is T after submission (default 24h), …")
    text = "… or F times --of (default 2), whichever is later"
    add("--factor", type=arguments.number, default=2.0, metavar="F", help=text)
    of = ("estimate", "walltime", "runtime")
    add("--of", choices=of, default=of[0], help="the time that F multiplies (default %(default)s)")


def _deadlines(args: argparse.Namespace) -> Deadlines:
    given = {"every": args.every, "first": args.first and args.first - 1, "share": args.share}
    more = {"least_s": seconds_of(args.least, "--least"), "factor": args.factor, "of": args.of}
    return step_of(Deadlines, _given(given | more))


def _urgent_arguments(parser: argparse.ArgumentParser) -> None:
    way = parser.add_mutually_exclusive_group()
    way.add_argument(
        "--every", metavar="T", help="add an urgent job in each period T, such as 720h, at a random minute"
    )
    way.add_argument(
        "--probability", type=arguments.number, metavar="P", help="add an urgent job at each arrival with probability P"
    )
    add = parser.add_argument
    add("--busy", type=arguments.number, metavar="L", help="only when the offered load is at least L, such as 0.75")
    kinds = (
        "a random job has N processors and run time T; of several kinds, one is chosen at random (repeatable; default "
        "128:600 256:390 512:240)"
    )
    add("--kind", action="append", metavar="N:T", help=kinds)
    given = "without random jobs: add a job of N processors and run time T, submitted at time INSTANT (repeatable)"
    add("--at", action="append", metavar="N:T:INSTANT", help=given)
    text = "add no jobs: mark the jobs of this queue as urgent (repeatable)"
    add("--queue", action="append", metavar="NAME", help=text)
    text = "add no jobs: mark each job (with --queue, of these queues) as urgent with probability P"
    add("--share", type=arguments.number, metavar="P", help=text)


def _urgent(args: argparse.Namespace) -> Urgent:
    for name in ("every", "probability", "busy", "kind", "queue", "share") if args.at is not None else ():
        if getattr(args, name) is not None:
            raise InputError(f"--{name}: cannot be used with --at, which sets all properties of its jobs")
    given = {
        "every_s": None if args.every is None else seconds_of(args.every, "--every"),
        "probability": args.probability,
        "busy": args.busy,
        "kinds": None if args.kind is None else list(_kinds(args.kind)),
        "jobs": None if args.at is None else list(_jobs(args.at)),
        "queues": args.queue,
        "share": args.share,
    }
    return step_of(Urgent, _given(given))


def _kinds(texts: list[str]) -> Iterator[tuple[int, float]]:
    for text in texts:
        size, colon, length = text.partition(":")
        count = _count_of(size)
        if not colon or count is None:
            raise InputError(f"--kind {text:.60}: expected PROCESSORS:SECONDS, such as 128:600 or 128:10m")
        yield count, seconds_of(length, f"--kind {text:.60}")


def _jobs(texts: list[str]) -> Iterator[UrgentJob]:
    for text in texts:
        size, *times = text.split(":")
        count = _count_of(size)
        if len(times) != 2 or count is None:
            raise InputError(
                f"--at {text:.60}: expected PROCESSORS:SECONDS:INSTANT, such as 256:390:86400 or 256:6.5m:1d"
            )
        try:
            yield urgent_job_of([count, *times])
        except InputError as error:
            raise InputError(f"--at {text:.60}: {error}") from None


def _count_of(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,15}", text) else None


def _moldable_arguments(parser: argparse.ArgumentParser) -> None:
    types = "parallel fraction, maximum of processors and share of jobs (repeatable; default .8:32:.5 and 3 more)"
    parser.add_argument("--type", action="append", metavar="F:N:P", help=types)


def _moldable(args: argparse.Namespace) -> Moldable:
    return step_of(Moldable, {} if args.type is None else {"types": list(_types(args.type))})


def _types(texts: list[str]) -> Iterator[dict[str, Any]]:
    for text in texts:
        values = text.split(":")
        if len(values) != 3:
            raise InputError(f"--type {text:.60}: expected FRACTION:LIMIT:SHARE, such as 0.8:32:0.5")
        yield dict(zip(("fraction", "limit", "share"), values, strict=True))


def _files_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    gap = (
        "a job shares the file of its user's last job if both have the same number of cores and are submitted within T "
        "(default 1h)"
    )
    add("--gap", default="1h", metavar="T", help=gap)
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--per-core", type=arguments.number, metavar="GB", help="size of a file per core of the job (default 6.4)"
    )
    size.add_argument("--sizes", metavar="LO:HI", help="instead of --per-core: random sizes in GB, log-uniform")
    classes = "memory of nodes and share of the files that need it, such as 128:0.9,256:0.08,1024:0.02"
    add("--classes", metavar="GB:P,...", help=classes)
    text = "bandwidth at which a file is loaded; the field alone_s depends on it (default 0.1)"
    add("--bandwidth", type=arguments.number, metavar="GB/S", help=text)


def _files(args: argparse.Namespace) -> Files:
    given = {
        "gap_s": seconds_of(args.gap, "--gap"),
        "per_core_gb": args.per_core,
        "sizes_gb": None if args.sizes is None else _pair("--sizes", args.sizes, "LO:HI, such as 1:100"),
        "classes": None if args.classes is None else list(_classes(args.classes)),
        "bandwidth_gbps": args.bandwidth,
    }
    return step_of(Files, _given(given))


def _classes(text: str) -> Iterator[list[str]]:
    for kind in text.split(","):
        yield _pair("--classes", kind, "GB:SHARE,…, such as 128:0.9,256:0.1")


def _pair(option: str, text: str, expected: str) -> list[str]:
    values = text.split(":")
    if len(values) != 2:
        raise InputError(f"{option} {text:.60}: expected {expected}")
    return values
