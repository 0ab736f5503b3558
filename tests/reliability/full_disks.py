"""Disks that become full during a run: its error, its files, and the next run with space."""

from __future__ import annotations

import functools
import os
import random
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from support.patience import PATIENCE_S

from reliability import campaigning, children, crash_checks, serving, simulating, warm_workers
from reliability.crash_checks import Found
from reliability.self_kill import BEFORE, MOVING, RUNNING

PAGE: Final = 4096
_PLENTY: Final = "64m"


@functools.cache
def may_mount() -> bool:
    """Return whether this process may make a disk of any size, in memory."""
    if os.geteuid() or os.environ.get("PYBATSCHED_NO_MOUNT"):
        return False
    with tempfile.TemporaryDirectory() as folder:
        return _ran("mount", "-t", "tmpfs", "none", folder) and _ran("umount", folder)


def _ran(*command: str | Path) -> bool:
    """Run a program of the system. False if it fails."""
    return not subprocess.run(command, capture_output=True, check=False, timeout=PATIENCE_S).returncode


def ways() -> str:
    """Return how disks are filled here."""
    return "tmpfs and RLIMIT_FSIZE" if may_mount() else "RLIMIT_FSIZE, as no tmpfs may be mounted"


class Disk:
    """A directory with little room: a file system of so many bytes, or files that must not grow beyond them."""

    def __init__(self, place: Path, n_bytes: int, *, is_mounted: bool) -> None:
        self.place = place
        self.is_mounted = is_mounted
        self.room: int | None = None if is_mounted else n_bytes
        self._n_bytes = n_bytes

    @contextmanager
    def there(self) -> Iterator[None]:
        """Have the disk, for as long as this takes. There is plenty of room at first."""
        self.place.mkdir(parents=True)
        if not self.is_mounted:
            yield
            return
        assert _ran("mount", "-t", "tmpfs", "-o", f"size={_PLENTY}", "none", self.place)
        try:
            yield
        finally:
            assert _ran("umount", "-l", self.place)

    def fill(self) -> None:
        """Leave so little room beside what is there."""
        if self.is_mounted:
            used = os.statvfs(self.place)
            n_pages = used.f_blocks - used.f_bfree + self._n_bytes // PAGE
            self._resize(str(n_pages * PAGE))

    def make_room(self) -> None:
        """Make the disk large again."""
        self.room = None
        if self.is_mounted:
            self._resize(_PLENTY)

    def _resize(self, size: str) -> None:
        assert _ran("mount", "-o", f"remount,size={size}", self.place), f"no room of {size} at {self.place}"


class FullDisk:
    """Runs simulations, servers and campaigns on disks of random sizes."""

    def __init__(self, folder: Path) -> None:
        self._alone = simulating.alone_in(folder)
        self._pair = serving.pair_of(folder, "server")
        self._study = campaigning.study_in(folder)

    def attempt(self, place: Path, rng: random.Random) -> Found:
        """Try once."""
        is_mounted = may_mount() and rng.random() < 0.75
        way = "tmpfs" if is_mounted else "RLIMIT_FSIZE"
        what = rng.choice((self._simulate, self._serve, self._campaign))
        found = what(place, rng, is_mounted)
        found.how = f"{what.__name__.strip('_')}, {found.how}, {way}"
        return found

    def _disk(self, place: Path, rng: random.Random, files: Sequence[bytes], is_mounted: bool) -> Disk:
        """Draw a size that is too small for these files."""
        if is_mounted:
            n_pages = sum(-(-len(data) // PAGE) for data in files)
            return Disk(place, PAGE * rng.randint(1, n_pages), is_mounted=True)
        size = len(rng.choice(files))  # of files of all sizes, one that does not fit
        return Disk(place, rng.randint(1, max(size, 1)), is_mounted=False)

    def _simulate(self, place: Path, rng: random.Random, is_mounted: bool) -> Found:
        new, old = self._alone.new, self._alone.old
        disk = self._disk(place, rng, [*new.values(), self._alone.journal], is_mounted)
        has_earlier = rng.random() < 0.5
        found = Found(how="with earlier results" if has_earlier else "without")
        with disk.there():
            if has_earlier:
                crash_checks.ended_well(self._alone.command("fcfs"), place, found)
            disk.fill()
            child = children.start(self._alone.command(), place, room=disk.room)
            child.ended()
            disk.make_room()
            _check_reported(found, child, place)
            if child.code == 0:
                found.expect(
                    crash_checks.results_at(place / simulating.PREFIX) == new, "it ended with 0 without its results"
                )
                found.expect(
                    (place / "j.pbj").read_bytes() == self._alone.journal, "it ended with 0 without its journal"
                )
            crash_checks.check_results(found, place / simulating.PREFIX, new, old if has_earlier else None)
            if child.code == 2 and (place / "j.pbj").exists():
                crash_checks.check_reading(found, place / "j.pbj")
            crash_checks.ended_well(self._alone.command(), place, found)
            crash_checks.check_next_results(found, place / simulating.PREFIX, new)
            found.expect((place / "j.pbj").read_bytes() == self._alone.journal, "the next journal is another")
        return found

    def _serve(self, place: Path, rng: random.Random, is_mounted: bool) -> Found:
        pair = self._pair
        disk = self._disk(place, rng, [pair.journal], is_mounted)
        endpoint = serving.endpoint_in(rng, ports_only=True)
        away = place.with_name(f"{place.name}.peer")
        pair.place(away)
        found = Found(how="journal")
        with disk.there():
            (place / "out").mkdir()
            disk.fill()
            server = children.start(serving.serve(endpoint), place, "server", room=disk.room)
            if server.waits_until_printed(serving.READY):
                peer = children.start(serving.simulate(pair.inputs, endpoint), away, "peer")
                code = peer.ended()
                peer.kill()
                found.expect(code in {0, 3}, f"the simulation ended with {code}: {peer.errors[-300:]}")
            server.ended()
            server.kill()
            disk.make_room()
            _check_reported(found, server, place)
            if server.code == 0:
                found.expect(
                    (place / serving.JOURNAL).read_bytes() == pair.journal, "it ended with 0 without its journal"
                )
            if server.code == 2 and (place / serving.JOURNAL).exists():
                crash_checks.check_reading(found, place / serving.JOURNAL)
            pair.check_next(found, place, endpoint)
        return found

    def _campaign(self, place: Path, rng: random.Random, is_mounted: bool) -> Found:
        study, keep = self._study, rng.choice(campaigning.KEEPS)
        disk = self._disk(place, rng, list(study.whole[keep].values()), is_mounted)
        found = Found(how=keep)
        with disk.there():
            campaigning.written(place, keep)
            disk.fill()
            child = children.start(campaigning.command(1), place, room=disk.room, before=warm_workers.use)
            code = child.ended()
            child.kill()
            disk.make_room()
            if code == 7:  # cells that could not write their files have failed, and report it
                found.stage = RUNNING
                status = children.run("campaign", "status", str(place / campaigning.FOLDER))
                is_reported = re.search("InputError: .*(No space left|File too large|disk is full)", status.stdout)
                found.expect(is_reported, f"status does not say why cells failed: {status.stdout:.300}")
            else:
                _check_reported(found, child, place)
            if code == 0:
                study.check_whole(found, place / campaigning.FOLDER, keep)
            study.check_kept(found, place / campaigning.FOLDER, keep)
            study.resumed(found, place, keep, "--retry-failed")
        return found


def _check_reported(found: Found, child: children.Child, place: Path) -> None:
    """Check that a command has ended with 2 and named what cannot be written, or has had room enough."""
    if child.code == 0:
        return
    output = child.errors
    written = [path for path in place.rglob("*") if path.is_file() and path.stat().st_size]
    found.stage = RUNNING if any(path.parent.name == "cells" or ".p" in path.name for path in written) else BEFORE
    if "summary" in output or "results.parquet" in output:
        found.stage = MOVING
    found.expect(child.code == 2, f"it ended with {child.code}: {output[-400:]}")
    is_reported = re.search(r"(out|pbj|\.lock).*(No space left|File too large|disk is full)", output)
    found.expect(is_reported, f"it does not say what cannot be written: {output[-400:]}")
    found.expect("Traceback" not in output and "Exception" not in output, f"it says: {output[-600:]}")
