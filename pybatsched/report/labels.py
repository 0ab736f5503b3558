"""What runs are called on a page: the shortest parts of their paths that tell them apart."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

from pybatsched.errors import InputError, quantity


def labels_of(prefixes: Sequence[str], given: Sequence[str] = ()) -> list[str]:
    """Give a label for each run: those `given`, or the fewest parts of the paths in which they differ.

    The last part comes first. Runs that no part tells apart get numbers. Raises InputError if labels were given, but
    not a different one for each. O(runs · 2^k) where paths differ in k of their parts.

    >>> labels_of(["out/fcfs", "out/easy"]), labels_of(["seed1/out/easy", "seed2/out/easy"])
    (['fcfs', 'easy'], ['seed1', 'seed2'])
    >>> labels_of(["a/easy", "b/easy", "b/fcfs"]), labels_of(["x/easy", "x/easy"])
    (['a/easy', 'b/easy', 'b/fcfs'], ['easy (1)', 'easy (2)'])
    """
    if given:
        if len(given) != len(prefixes):
            found = f"{quantity(len(given), 'label')} for {quantity(len(prefixes), 'run')}"
            raise InputError(f"--label: {found}; expected one for each, or none")
        for k, label in enumerate(given):
            if not label.strip():
                raise InputError(f"--label: found an empty one for {prefixes[k]}; expected a name")
            if label in given[:k]:
                first = prefixes[given.index(label)]
                raise InputError(f"--label {label}: found for {first} and for {prefixes[k]}; expected different names")
        return list(given)
    if len(prefixes) == 1:
        return [_name(prefixes[0])]
    parts = [tuple(reversed(Path(prefix).parts)) for prefix in prefixes]
    columns = [[own[at] if at < len(own) else "" for own in parts] for at in range(max(map(len, parts)))]
    telling = [at for at, column in enumerate(columns) if len(set(column)) > 1]
    for n in range(1, len(telling) + 1):
        for chosen in combinations(telling, n):
            own = zip(*(columns[at] for at in reversed(chosen)), strict=True)
            labels = ["/".join(filter(None, words)) for words in own]
            if all(labels) and len(set(labels)) == len(labels):
                return labels
    return [f"{_name(prefix)} ({number})" for number, prefix in enumerate(prefixes, 1)]


def _name(prefix: str) -> str:
    return Path(prefix).name or prefix
