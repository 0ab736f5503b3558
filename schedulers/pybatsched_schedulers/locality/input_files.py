"""Input files on a node: the jobs that use them, their load times, and which unused files stay.

A file is on a node while a job that uses it runs there, and for a job that starts when the last user ends. The first
job loads it from the shared file system; a job that starts during the load waits for the rest of it. A *persistent*
node also keeps unused files, as long as its memory holds them in addition to those in use, and evicts the least
recently used first.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple


class FileStay(NamedTuple):
    """A known or planned interval in which a file is on a node: start of the load, end of the load, end of last use."""

    begin: float
    loaded: float
    end: float


class Arrival(NamedTuple):
    """The state of the file at the start of a job: seconds of its own load, or of waiting for another job's load."""

    load_s: float
    wait_s: float
    is_reuse: bool  # the file was there, or being loaded


def fit_together(memory_gb: float, sizes_gb: Iterable[float]) -> bool:
    """Return whether a memory holds some files, with a tolerance for rounding: 20 times 6.4 GB fit into 128."""
    return math.fsum(sizes_gb) <= memory_gb * (1 + 1e-9)


@dataclass(slots=True)
class HeldFile:
    """A file on a node. `until` is the latest planned end of its users since it was last unused."""

    size_gb: float
    loaded_at: float
    until: float = 0.0
    n_users: int = 0
    left_at: float = -math.inf  # when its last user ended, if it is unused
    load_id: str = ""  # the job that loads it, if that is simulated as a transfer


class FilesOnNode:
    """The input files of one node. All methods are O(files on the node) at most."""

    def __init__(self, memory_gb: float, *, persistent: bool) -> None:
        self._memory_gb = memory_gb
        self._persistent = persistent
        self._files: dict[str, HeldFile] = {}  # unused ones in the order of their last use

    def fits(self, name: str, size_gb: float) -> bool:
        """Return whether a file fits in addition to the others in use."""
        others = [held.size_gb for other, held in self._files.items() if held.n_users and other != name]
        return fit_together(self._memory_gb, [size_gb, *others])

    def arrive(self, name: str, size_gb: float, load_s: float, now: float, until: float) -> Arrival:
        """Record the start of a job with a file: it loads it in `load_s`, unless the file is here already."""
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

    def begin_load(self, name: str, load_id: str, expected_at: float) -> None:
        """Record that a job loads a file, probably until a time."""
        held = self._files[name]
        held.load_id, held.loaded_at = load_id, expected_at

    def end_load(self, name: str, at: float) -> None:
        """Record that the load of a file has ended. A time in the future means that it failed: the file is partial."""
        held = self._files[name]
        held.load_id, held.loaded_at = "", at

    def load_of(self, name: str) -> str:
        """Return the id of the job that loads a file; empty if none does."""
        return self._files[name].load_id

    def leave(self, name: str, now: float) -> None:
        """Record the end of a job that used a file."""
        held = self._files[name]
        held.n_users -= 1
        if not held.n_users:
            held.left_at, held.until = now, 0.0
            del self._files[name]
            self._files[name] = held  # to the end: the most recently used

    def stays(self, now: float, ends: Mapping[str, float] | None = None) -> Iterator[tuple[str, float, FileStay]]:
        """Return name, size and stay of every file, until `ends` or its last planned end; drop the others."""
        gone = []
        for name, held in self._files.items():
            if held.n_users:
                until = held.until if ends is None else ends[name]
                yield name, held.size_gb, FileStay(now, max(now, held.loaded_at), until)
            elif self._is_here(held, now):
                yield name, held.size_gb, FileStay(now, max(now, held.loaded_at), now)
            else:
                gone.append(name)
        for name in gone:
            del self._files[name]

    def _is_here(self, held: HeldFile, now: float) -> bool:
        if held.n_users or held.left_at == now:
            return True
        return self._persistent and held.loaded_at <= held.left_at  # a partly loaded file is not usable

    def _make_room(self, now: float) -> None:
        """Evict unused files, the least recently used first, until the memory holds the others."""
        for name in [name for name, held in self._files.items() if not self._is_here(held, now)]:
            del self._files[name]  # it does not count
        for name in [name for name, held in self._files.items() if not held.n_users]:
            if fit_together(self._memory_gb, [held.size_gb for held in self._files.values()]):
                return
            del self._files[name]
