"""Fuzz pybatsched: ``python -m reliability.fuzz --messages 17500 --files 2400 --server 100 --seed 1``.

The same numbers give the same cases. Prints a table; the exit code is 1 if something was found.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pybatsched.cli.common.arguments import natural
from reliability.cases import table
from reliability.fuzz import files, messages
from reliability.fuzz.targets import HEAD, Target, TargetResults, little_memory, outcome, run

GROUPS: Final = {"messages": messages.targets, "files": files.targets, "server": messages.server_targets}
#: Larger findings are only kept.
_MAX_SHOWN: Final = 5000


def main(arguments: list[str] | None = None) -> int:
    """Fuzz, print the table and what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in GROUPS:
        parser.add_argument(f"--{name}", type=natural, default=0, metavar="N", help=f"so many mutations of {name}")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="the seed (default 1)")
    parser.add_argument("--only", default="", metavar="NAME", help="the targets whose names begin so")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="feed a finding that was kept again")
    args = parser.parse_args(arguments)
    if args.replay is not None:
        written: dict[str, Any] = {}
        exec(args.replay.read_text(), written)
        next(test for name, test in written.items() if name.startswith("test_"))()
        print("nothing was found")
        return 0
    if not any(getattr(args, name) for name in GROUPS):
        parser.error("expected --messages, --files, --server or --replay")
    results: list[TargetResults] = []
    for name, made in GROUPS.items():
        for target, n in shared(made(), getattr(args, name), args.only):
            begun = time.process_time()
            with little_memory():
                results.append(run(target, n, args.seed))
            print(f"{target.name}: {time.process_time() - begun:.1f} s of work", file=sys.stderr, flush=True)
    print(table(HEAD, [one.row() for one in results]))
    findings = [finding for one in results for finding in one.findings]
    for finding in findings:
        print(f"\n{finding.text()[:_MAX_SHOWN]}\n# kept in {finding.keep()}, for --replay")
    return 1 if findings else 0


def feed_again(name: str, pieces: Sequence[bytes]) -> str:
    """Feed the pieces of a finding to its target again, as the tests do that `main` prints.

    Return the result in one word. Raises an exception for a finding.
    """
    made = {key: target for group in GROUPS.values() for key, (target, _) in group().items()}
    return outcome(made[name], pieces)


def shared(targets: Mapping[str, tuple[Target, float]], n: int, only: str = "") -> list[tuple[Target, int]]:
    """Divide mutations among targets by their shares; all of them, and none more. O(targets)."""
    chosen = [pair for name, pair in targets.items() if name.startswith(only)]
    total = sum(share for _, share in chosen)
    found, before, so_far = [], 0, 0.0
    for target, share in chosen:
        so_far += share
        upto = round(n * so_far / total)
        if upto > before:
            found.append((target, upto - before))
        before = upto
    return found


if __name__ == "__main__":
    sys.exit(main())
