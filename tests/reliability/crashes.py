"""Kill processes of ours at random moments, fill disks, and check the remaining files: ``make crashes N=200``.

    PYTHONPATH=tests python -m reliability.crashes --times 200 --kind server --kind parent --seed 1

Every try depends on the seed, the kind and its number alone: ``--only parent:17`` repeats one. Exit code 1 if a
problem was found.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Final, Protocol

from pybatsched import cli
from pybatsched.cli.common.arguments import positive
from pybatsched.policies import registry
from reliability import campaigning, children, full_disks, serving, simulating
from reliability.crash_checks import Found
from reliability.self_kill import STAGES


class Kind(Protocol):
    """A way to crash. It is made once, which measures what an undisturbed run does, and tried often."""

    def attempt(self, place: Path, rng: random.Random) -> Found:
        """Try once, in a directory that is not there yet."""


KINDS: Final[dict[str, Callable[[Path], Kind]]] = {
    "server": serving.Server,
    "simulator": simulating.Simulator,
    "worker": campaigning.Worker,
    "parent": campaigning.Parent,
    "disk": full_disks.FullDisk,
}
_N_DRAWS: Final = 20
_LOADED: Final = ("serve", "simulate", "batsim", "campaign", "metrics", "replay")


def main(argv: Sequence[str] | None = None) -> int:
    """Do the requested number of tries, and print a table."""
    args = _arguments(argv)
    for name in _LOADED:
        cli.module_of(name)
    import_module("polars")
    registry.available()
    kinds = args.kind or list(KINDS)
    todo = [(kind, i) for i in range(args.times) for kind in kinds]
    if args.only:
        todo = [(kind, int(i)) for kind, _, i in (text.partition(":") for text in args.only)]
    with tempfile.TemporaryDirectory(prefix="crashes-") as folder:
        rows = list(_all(Path(folder), todo, args))
    problems = [
        f"{kind}:{i} ({found.how}; {found.stage or 'not hit'}): {problem}"
        for kind, i, found in rows
        for problem in found.problems
    ]
    print(_table(rows))
    for line in problems:
        print(line)
    print(f"{len(rows):,} tries, {len(problems):,} problems; seed {args.seed}; full disks by {full_disks.ways()}")
    return 1 if problems else 0


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="reliability.crashes", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--times", type=positive, default=200, metavar="N", help="of each kind (default %(default)s)")
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="repeatable (default: all)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of all that is drawn (default %(default)s)")
    parser.add_argument("--jobs", type=positive, default=4, metavar="N", help="tries at once (default %(default)s)")
    parser.add_argument("--minutes", type=float, default=0, metavar="M", help="begin no try later (default: all)")
    parser.add_argument("--only", action="append", metavar="KIND:I", help="this try alone; repeatable")
    return parser.parse_args(argv)


def _all(folder: Path, todo: Sequence[tuple[str, int]], args: argparse.Namespace) -> Iterator[tuple[str, int, Found]]:
    """Do all tries, some at once, each in a process that adopts what its tries leave behind."""
    made: dict[str, Kind] = {}
    children.adopt_orphans()
    for kind in dict.fromkeys(kind for kind, _ in todo):
        made[kind] = KINDS[kind](folder)
    n = min(args.jobs, len(todo))
    runners = [_runner(folder, made, todo[i::n], args) for i in range(n)]
    for _, pipe in runners:
        with pipe:
            for line in pipe:
                kind, i, stage, how, problems = json.loads(line)
                yield kind, i, Found(stage, how, problems)
    statuses = [os.waitpid(pid, 0)[1] for pid, _ in runners]
    if any(statuses):
        raise SystemExit("crashes: a process that tries has broken down, and not all was tried")


def _runner(
    folder: Path, made: dict[str, Kind], todo: Sequence[tuple[str, int]], args: argparse.Namespace
) -> tuple[int, IO[str]]:
    """Fork a process that does its share of the tries. Return it, and the file of its results, a line each."""
    ours, theirs = os.pipe()
    if pid := os.fork():
        os.close(theirs)
        return pid, os.fdopen(ours)
    code = 1
    try:
        children.adopt_orphans()
        with os.fdopen(theirs, "w") as pipe:
            # patience: measured and reported only
            until = time.monotonic() + 60 * args.minutes if args.minutes else math.inf
            # patience: measured and reported only
            for kind, i in itertools.takewhile(lambda _: time.monotonic() < until, todo):
                found = _tried(made[kind], folder / f"{kind}-{i}", random.Random(f"{args.seed}/{kind}/{i}"))
                pipe.write(json.dumps([kind, i, found.stage, found.how, found.problems]) + "\n")
                pipe.flush()
        code = 0
    except BaseException:  # noqa: BLE001  this process ends here
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _tried(kind: Kind, place: Path, rng: random.Random) -> Found:
    """Try until a process was hit: a random moment after its end proves nothing."""
    found = Found()
    for _ in range(_N_DRAWS):
        try:
            found = kind.attempt(place, rng)
        except Exception:  # noqa: BLE001  a try that breaks down has found something, too
            found.problems.append(traceback.format_exc(limit=-3))
        found.problems += children.strays()
        if found.problems or found.stage:
            break
        _remove(place)
    if not found.problems:
        _remove(place)
    return found


def _remove(place: Path) -> None:
    for path in (place, *place.parent.glob(f"{place.name}.*")):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def _table(rows: Sequence[tuple[str, int, Found]]) -> str:
    head = ["kind", "times", *STAGES, "problems"]
    lines = [head, ["---"] * len(head)]
    for kind in KINDS:
        own = [found for name, _, found in rows if name == kind]
        if own:
            stages = Counter(found.stage for found in own)
            n_bad = sum(bool(found.problems) for found in own)
            lines.append([kind, str(len(own)), *(str(stages[stage]) for stage in STAGES), str(n_bad)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
