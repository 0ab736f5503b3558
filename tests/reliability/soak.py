"""Simulated faults from a seed: `make soak N=200`, or `python -m reliability.soak --runs 200`.

Every run is a random scene of (policy, seed), so a failure can be repeated by its seed. A failing scene is reduced
and printed as a test; the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Final

from support.patience import PATIENCE_S, no_longer_than

from pybatsched.cli.common.arguments import positive
from reliability.drawing import POLICIES, drawn
from reliability.scenes import Scene
from reliability.shrinking import as_test, shrunk
from reliability.soak_checks import Verdict, judge

#: One scene in so many is played over a real socket as well.
SOCKET_EVERY: Final = 500
_CHUNK: Final = 25
_SHOWN: Final = 5
COLUMNS: Final = {
    "policy": "policy", "runs": "runs", "jobs": "jobs", "outages": "outages", "kills": "kills by others",
    "registered": "jobs registered by others", "segments": "jobs registered by the policy", "messages": "messages",
    "ratio": "most messages an event", "failures": "failures",
}  # fmt: skip


@dataclass(slots=True)
class Row:
    """The results of the runs of one policy; `failures` are seeds with their problems."""

    policy: str
    runs: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    ratio: float = 0.0
    cpu_s: float = 0.0
    failures: list[tuple[int, list[str]]] = field(default_factory=list)

    def add(self, other: Row) -> None:
        """Add the results of another process."""
        self.runs += other.runs
        self.counts += other.counts
        self.ratio = max(self.ratio, other.ratio)
        self.cpu_s += other.cpu_s
        self.failures += other.failures

    def cells(self) -> list[str]:
        """Return its columns as text."""
        counted = {key: f"{self.counts[key]:,}" for key in COLUMNS}
        known = {"policy": self.policy, "runs": f"{self.runs:,}", "ratio": f"{self.ratio:.2f}"}
        return [(counted | known | {"failures": f"{len(self.failures):,}"})[key] for key in COLUMNS]


def judged(scene: Scene, *, socket: bool = False) -> Verdict:
    """Check a scene; any other exception, and a run without an end, is a problem too."""
    try:
        with no_longer_than(PATIENCE_S):
            return judge(scene, socket=socket)
    except Exception as error:  # noqa: BLE001  a run must never end like that
        where = traceback.extract_tb(error.__traceback__)[-1]
        return Verdict([f"{type(error).__name__} in {where.name}: {error}"])


def soak(policy: str, seeds: Iterable[int]) -> Row:
    """Play the scenes of some seeds."""
    row, began = Row(policy), time.process_time()
    for seed in seeds:
        verdict = judged(drawn(policy, seed), socket=seed % SOCKET_EVERY == 7)
        row.runs += 1
        row.counts += verdict.counts
        row.ratio = max(row.ratio, verdict.ratio)
        if verdict.problems:
            row.failures.append((seed, verdict.problems))
    row.cpu_s = time.process_time() - began
    return row


def _soaked(work: tuple[str, range]) -> Row:
    return soak(*work)


def table(rows: Iterable[Row], *, markdown: bool) -> Iterator[str]:
    """Write rows as a table for people, or for a page."""
    lines = [list(COLUMNS.values()), *(row.cells() for row in rows)]
    if markdown:
        lines.insert(1, ["---", *["---:"] * (len(COLUMNS) - 1)])
        yield from (f"| {' | '.join(cells)} |" for cells in lines)
        return
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for cells in lines:
        first, *others = (cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
        yield "  ".join([cells[0].ljust(len(first)), *others])


def ready_test(policy: str, seed: int, problems: list[str]) -> str:
    """Make the scene of a seed that fails as small as it can be, and write it as a test.

    Over a socket, too, if it fails only there. A scene that passes when repeated is written unchanged.
    """

    def again(one: Scene) -> list[str]:
        return judged(one, socket=needs_socket).problems

    scene = drawn(policy, seed)
    needs_socket = not judged(scene).problems
    if again(scene):
        scene = shrunk(scene, again)
        problems = again(scene)
    return as_test(scene, seed, problems)


def show(policy: str, seed: int) -> int:
    """Show one scene, and its problems."""
    scene = drawn(policy, seed)
    print(scene.as_code())
    problems = judged(scene, socket=True).problems
    print("\n".join(problems) or "nothing is wrong with it")
    if problems:
        print(f"\n{ready_test(policy, seed, problems)}")
    return int(bool(problems))


def main(args: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="soak", description="simulated faults from a seed")
    parser.add_argument("--runs", type=positive, default=200, metavar="N", help="how many of each policy (200)")
    parser.add_argument(
        "--policy", nargs="+", choices=POLICIES, default=POLICIES, metavar="NAME", help="which policies"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="the first seed (0)")
    parser.add_argument("--one", type=int, metavar="SEED", help="show the scene of one seed, and judge it")
    parser.add_argument("--processes", type=positive, default=os.cpu_count() or 1, metavar="N", help="at a time")
    parser.add_argument("--markdown", action="store_true", help="print the table for docs/reliability.md")
    given = parser.parse_args(args)
    if given.one is not None:
        return max(show(policy, given.one) for policy in given.policy)
    rows = {policy: Row(policy) for policy in given.policy}
    seeds = range(given.seed, given.seed + given.runs)
    work = [(policy, seeds[i : i + _CHUNK]) for policy in given.policy for i in range(0, len(seeds), _CHUNK)]
    with ProcessPoolExecutor(given.processes) as pool:
        for done, row in enumerate(pool.map(_soaked, work), 1):
            rows[row.policy].add(row)
            if sys.stderr.isatty():
                print(f"\r{done * 100 // len(work)} %", end="\r", file=sys.stderr)
    print("\n".join(table(rows.values(), markdown=given.markdown)))
    failures = [(row.policy, seed, problems) for row in rows.values() for seed, problems in row.failures]
    cpu_s, n_runs = sum(row.cpu_s for row in rows.values()), sum(row.runs for row in rows.values())
    build = "plain" if find_spec("pybatsched.policies._profile") is None else "compiled"
    each = f"{1000 * cpu_s / max(n_runs, 1):.1f} ms of processor time each"
    print(f"{n_runs:,} runs, {each}, on the {build} build", file=sys.stderr)
    for policy, seed, problems in failures[_SHOWN:]:
        print(f"{policy} {seed}: {problems[0]}")
    for policy, seed, problems in failures[:_SHOWN]:
        print(f"\n# {policy} {seed}: {problems[0]}\n{ready_test(policy, seed, problems)}")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
