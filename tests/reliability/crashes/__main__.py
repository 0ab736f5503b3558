"""Kill processes of ours at random moments, fill disks, and check the remaining files: ``make crashes N=200``.

    PYTHONPATH=tests python -m reliability.crashes --times 200 --seed 1

Every try depends on the seed, the kind and its number alone: ``--only parent:17`` repeats one. Exit code 1 if a
problem was found.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import shutil
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol

from pybatsched import cli
from pybatsched.cli.common.arguments import positive
from pybatsched.policies import registry
from reliability.cases import table
from reliability.crashes import campaign, full_disks, processes, server, simulation
from reliability.crashes.checks import Found
from reliability.crashes.self_kill import STAGES


class Kind(Protocol):
    """A way to crash. It is made once, which measures what an undisturbed run does, and tried often."""

    def attempt(self, place: Path, rng: random.Random) -> Found:
        """Try once, in a directory that is not there yet."""


KINDS: Final[dict[str, Callable[[Path], Kind]]] = {
    "server": server.Server,
    "simulator": simulation.Simulator,
    "worker": campaign.Worker,
    "parent": campaign.Parent,
    "disk": full_disks.FullDisk,
}
_N_DRAWS: Final = 20
_LOADED: Final = ("serve", "simulate", "batsim", "campaign", "metrics", "replay")
#: The kinds that were made, which the processes that try inherit.
_made: dict[str, Kind] = {}


def main(argv: Sequence[str] | None = None) -> int:
    """Do the requested number of tries, and print a table."""
    parser = argparse.ArgumentParser(prog="reliability.crashes", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--times", type=positive, default=200, metavar="N", help="of each kind (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of all that is drawn (default %(default)s)")
    parser.add_argument("--jobs", type=positive, default=4, metavar="N", help="tries at once (default %(default)s)")
    parser.add_argument("--only", action="append", metavar="KIND:I", help="this try alone; repeatable")
    args = parser.parse_args(argv)
    for name in _LOADED:
        cli.module_of(name)
    import_module("polars")
    registry.available()
    todo = args.only or [f"{kind}:{i}" for i in range(args.times) for kind in KINDS]
    processes.adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="crashes-") as folder:
        for kind in dict.fromkeys(name.partition(":")[0] for name in todo):
            _made[kind] = KINDS[kind](Path(folder))
        fork = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(min(args.jobs, len(todo)), fork, processes.adopt_orphans) as pool:
            tries = [pool.submit(attempt, name, Path(folder), args.seed) for name in todo]
            found = {name: one.result() for name, one in zip(todo, tries, strict=True)}
    rows = []
    for kind in _made:
        own = [one for name, one in found.items() if name.startswith(kind)]
        stages = Counter(one.stage for one in own)
        rows.append([kind, len(own), *(stages[stage] for stage in STAGES), sum(bool(one.problems) for one in own)])
    print(table(["kind", "times", *STAGES, "problems"], rows))
    problems = [f"{name} ({one.how}; {one.stage or 'not hit'}): {text}" for name, one in found.items()
                for text in one.problems]  # fmt: skip
    print("".join(f"{line}\n" for line in problems), end="")
    ways = "tmpfs and RLIMIT_FSIZE" if full_disks.may_mount() else "RLIMIT_FSIZE, as no tmpfs may be mounted"
    print(f"{len(found):,} tries, {len(problems):,} problems; seed {args.seed}; full disks by {ways}")
    return 1 if problems else 0


def attempt(name: str, folder: Path, seed: int) -> Found:
    """Try until a process was hit: a random moment after its end proves nothing."""
    kind, _, number = name.partition(":")
    rng, place, found = random.Random(f"{seed}/{kind}/{number}"), folder / f"{kind}-{number}", Found()
    for _ in range(_N_DRAWS):
        try:
            found = _made[kind].attempt(place, rng)
        except Exception:  # noqa: BLE001  a try that breaks down has found something, too
            found.problems.append(traceback.format_exc(limit=-3))
        found.problems += processes.strays()
        if found.problems:
            break
        for path in (place, *folder.glob(f"{place.name}.*")):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        if found.stage:
            break
    return found


if __name__ == "__main__":
    sys.exit(main())
