"""Input files on a node: who uses them, how long a load goes on, and what stays when nobody needs it any more.

A file is on a node while a job that uses it runs there, and for a job that starts in the instant in which the last user
ends. Whoever comes first loads it from the shared file system; who comes while it is loaded waits for the rest of that.
A *persistent* node also keeps files that nobody uses, as long as its memory holds them beside those in use, and
forgets the least recently used first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Stay(NamedTuple):
    """A time in which a file is on a node, known or planned: it arrives, is loaded, and its last use ends."""

    begin: float
    loaded: float
    end: float


class Arrival(NamedTuple):
    """What a job finds when it starts: seconds of its own load, or of waiting for somebody else's."""

    load_s: float
    wait_s: float
    is_reuse: bool  # the file was there, or on its way


def fit_together(memory_gb: float, sizes_gb: Iterable[float]) -> bool:
    """Tell whether a memory holds some files; 20 times 6.4 GB fill 128, however the numbers are rounded."""
    return math.fsum(sizes_gb) <= memory_gb * (1 + 1e-9)


@dataclass(slots=True)
class HeldFile:
    """A file on a node. `until` is the latest instant to which its users since it was last unused may run."""

    size_gb: float
    loaded_at: float
    until: float = 0.0
    n_users: int = 0
    left_at: float = -math.inf  # when its last user ended, if nobody uses it


class FilesOnNode:
    """The input files of one node. All is O(files on the node) at most."""

    def __init__(self, memory_gb: float, *, persistent: bool) -> None:
        self._memory_gb = memory_gb
        self._persistent = persistent
        self._files: dict[str, HeldFile] = {}  # unused ones in the order in which they were left

    def fits(self, name: str, size_gb: float) -> bool:
        """Tell whether a file has room beside the others that are in use."""
        others = [held.size_gb for other, held in self._files.items() if held.n_users and other != name]
        return fit_together(self._memory_gb, [size_gb, *others])

    def arrive(self, name: str, size_gb: float, load_s: float, now: float, until: float) -> Arrival:
        """Let a job start that uses a file: it loads it in `load_s`, unless it is here already."""
        held = self._files.get(name)
        if held is not None and self._is_here(held, now):
            found = Arrival(0.0, max(round(held.loaded_at - now, 6), 0.0), is_reuse=True)
        else:
            held = self._files[name] = HeldFile(size_gb, loaded_at=round(now + load_s, 6))
            found = Arrival(load_s, 0.0, is_reuse=False)
        held.n_users += 1
        held.until = max(held.until, until)
        if self._persistent:
            self._make_room(now)
        return found

    def leave(self, name: str, now: float) -> None:
        """Let a job end that used a file."""
        held = self._files[name]
        held.n_users -= 1
        if not held.n_users:
            held.left_at, held.until = now, 0.0
            del self._files[name]
            self._files[name] = held  # to the end: the most recently used

    def stays(self, now: float, ends: Mapping[str, float] | None = None) -> Iterator[tuple[str, float, Stay]]:
        """Give name, size and present stay of every file that is here, in no particular order; forget the others.

        `ends` tells how long files in use are needed; without it, as long as any of their users would have taken.
        """
        gone = []
        for name, held in self._files.items():
            if held.n_users:
                until = held.until if ends is None else ends[name]
                yield name, held.size_gb, Stay(now, max(now, held.loaded_at), until)
            elif self._is_here(held, now):
                yield name, held.size_gb, Stay(now, max(now, held.loaded_at), now)
            else:
                gone.append(name)
        for name in gone:
            del self._files[name]

    def _is_here(self, held: HeldFile, now: float) -> bool:
        if held.n_users or held.left_at == now:
            return True
        return self._persistent and held.loaded_at <= held.left_at  # what was not loaded whole is of no use

    def _make_room(self, now: float) -> None:
        """Forget unused files, the least recently used first, until the memory holds the others."""
        for name in [name for name, held in self._files.items() if not self._is_here(held, now)]:
            del self._files[name]  # it takes no memory from others
        for name in [name for name, held in self._files.items() if not held.n_users]:
            if fit_together(self._memory_gb, [held.size_gb for held in self._files.values()]):
                return
            del self._files[name]
