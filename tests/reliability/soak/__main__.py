"""Simulated faults from a seed: `make soak N=200`, or `python -m reliability.soak --runs 200`.

Hypothesis draws a scene for each policy and seed, so a failure can be repeated by its seed, and shrinks a scene that
fails. Scenes that fail are printed and kept in files, which `--replay` runs again; the exit code is 1 then.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from support.patience import PATIENCE_S, no_longer_than

from pybatsched.cli.common.arguments import positive
from reliability.cases import MOST_TRIES, draw, smallest, table
from reliability.soak.checks import Verdict, judge
from reliability.soak.random_scenes import POLICIES, scenes
from reliability.soak.scenes import Scene, scene_in, text_of

#: One scene in so many is played over a real socket as well.
SOCKET_EVERY: Final = 500
KEPT: Final = Path("build/soak")
_CHUNK: Final = 25
_SHOWN: Final = 5
_NAMES: Final = re.compile(r"\S*\d\S*( \S*\d\S*)*")
_COLUMNS: Final = {
    "policy": "policy", "runs": "runs", "jobs": "jobs", "outages": "outages", "kills": "kills by others",
    "registered": "jobs registered by others", "segments": "jobs registered by the policy", "messages": "messages",
    "ratio": "most messages an event", "failures": "failures",
}  # fmt: skip


@dataclass(slots=True)
class Row:
    """The results of the runs of one policy; `failures` are seeds with their problems."""

    policy: str
    counts: Counter[str] = field(default_factory=Counter)
    ratio: float = 0.0
    cpu_s: float = 0.0
    failures: list[tuple[int, list[str]]] = field(default_factory=list)

    def add(self, other: Row) -> None:
        """Add the results of other runs."""
        self.counts += other.counts
        self.ratio = max(self.ratio, other.ratio)
        self.cpu_s += other.cpu_s
        self.failures += other.failures

    def cells(self) -> list[object]:
        """Return its columns."""
        other = {"policy": self.policy, "ratio": f"{self.ratio:.2f}", "failures": len(self.failures)}
        return [other.get(key, self.counts[key]) for key in _COLUMNS]


def judged(scene: Scene, *, socket: bool = False) -> Verdict:
    """Check a scene; any other exception, and a run without an end, is a problem too."""
    try:
        with no_longer_than(PATIENCE_S):
            return judge(scene, socket=socket)
    except Exception as error:  # noqa: BLE001  a run must never end like that
        where = traceback.extract_tb(error.__traceback__)[-1]
        return Verdict([f"{type(error).__name__} in {where.name}: {error}"])


def kind(problem: str) -> str:
    """Return what problems of one kind share: their text without names and numbers."""
    return _NAMES.sub("#", problem)[:60]


def drawn(policy: str, seed: int) -> Scene:
    """Return the scene of a policy and a seed: the same one on every machine."""
    found: list[Scene] = []

    def play(scene: Scene) -> None:
        found.append(scene)

    draw(scenes(policy), f"{policy} {seed}", 2, play)
    return found[-1]


def shrunk(
    policy: str, seed: int, problems: Callable[[Scene], list[str]], most_tries: int = MOST_TRIES
) -> tuple[Scene, list[str]]:
    """Shrink the scene of a seed, which fails, as long as it fails in the same way.

    So many scenes are tried at most. Return the smallest scene with its problems. A scene that passes when it is
    repeated has no problems and is not shrunk.
    """
    wanted: list[str] = []

    def fails(scene: Scene) -> bool:
        kinds = list(map(kind, problems(scene)))
        wanted.extend(kinds[: not wanted])
        return bool(kinds) and wanted[0] in kinds

    scene = smallest(scenes(policy), f"{policy} {seed}", 2, 1, fails, most_tries)
    return (drawn(policy, seed), []) if scene is None else (scene, problems(scene))


def soak(policy: str, seeds: Iterable[int]) -> Row:
    """Play the scenes of some seeds."""
    row, began = Row(policy), time.process_time()
    for seed in seeds:
        verdict = judged(drawn(policy, seed), socket=seed % SOCKET_EVERY == 7)
        failures = [(seed, verdict.problems)] if verdict.problems else []
        row.add(Row(policy, verdict.counts + Counter(runs=1), verdict.ratio, failures=failures))
    row.cpu_s = time.process_time() - began
    return row


def report(policy: str, seed: int, problems: list[str]) -> str:
    """Shrink the scene of a seed that fails; over a socket, too, if it fails only there. Return and keep it as text.

    Its problems are comments before it. A scene that passes when repeated is written unchanged.
    """
    needs_socket = not judged(drawn(policy, seed)).problems
    scene, repeated = shrunk(policy, seed, lambda scene: judged(scene, socket=needs_socket).problems)
    lines = [line for problem in (repeated or problems)[:3] for line in problem.splitlines()]
    text = "".join(f"# {line}\n" for line in [f"found by --policy {policy} --one {seed}", *lines]) + text_of(scene)
    KEPT.mkdir(parents=True, exist_ok=True)
    path = KEPT / f"{policy}-{seed}.txt"
    path.write_text(text + "\n")
    return f"{text}\n# kept in {path}, for --replay"


def show(scene: Scene) -> list[str]:
    """Show a scene, and its problems."""
    print(text_of(scene))
    problems = judged(scene, socket=True).problems
    print("\n".join(problems) or "nothing is wrong with it")
    return problems


def main(args: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="soak", description="simulated faults from a seed")
    parser.add_argument("--runs", type=positive, default=200, metavar="N", help="how many of each policy (200)")
    parser.add_argument(
        "--policy", nargs="+", choices=POLICIES, default=POLICIES, metavar="NAME", help="which policies"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="the first seed (0)")
    parser.add_argument("--one", type=int, metavar="SEED", help="show the scene of one seed, and check it")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="check a scene that was printed")
    parser.add_argument("--processes", type=positive, default=os.cpu_count() or 1, metavar="N", help="at a time")
    options = parser.parse_args(args)
    if options.replay is not None:
        return int(bool(show(scene_in(options.replay.read_text()))))
    if options.one is not None:
        found = {policy: show(drawn(policy, options.one)) for policy in options.policy}
        for policy in (policy for policy, problems in found.items() if problems):
            print(f"\n{report(policy, options.one, found[policy])}")
        return int(any(found.values()))
    rows = {policy: Row(policy) for policy in options.policy}
    seeds = range(options.seed, options.seed + options.runs)
    work = [(policy, seeds[i : i + _CHUNK]) for policy in options.policy for i in range(0, len(seeds), _CHUNK)]
    with ProcessPoolExecutor(options.processes) as pool:
        for row in pool.map(soak, *zip(*work, strict=True)):
            rows[row.policy].add(row)
    print(table(list(_COLUMNS.values()), [row.cells() for row in rows.values()]))
    failures = [(row.policy, seed, problems) for row in rows.values() for seed, problems in row.failures]
    cpu_s, n_runs = sum(row.cpu_s for row in rows.values()), sum(row.counts["runs"] for row in rows.values())
    build = "plain" if find_spec("pybatsched.policies._profile") is None else "compiled"
    each = f"{1000 * cpu_s / n_runs:.1f} ms of processor time each"
    print(f"{n_runs:,} runs, {each}, on the {build} build", file=sys.stderr)
    for policy, seed, problems in failures[_SHOWN:]:
        print(f"{policy} {seed}: {problems[0]}")
    for policy, seed, problems in failures[:_SHOWN]:
        print(f"\n# {policy} {seed}: {problems[0]}\n{report(policy, seed, problems)}")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
