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

from reliability.crashes import campaign, checks, processes, server, simulation
from reliability.crashes.checks import Found
from reliability.crashes.processes import Child
from reliability.crashes.self_kill import BEFORE, MOVING, RUNNING

PAGE: Final = 4096
_PLENTY: Final = 2**26
_IS_FULL: Final = "(No space left|File too large|disk is full)"


@functools.cache
def may_mount() -> bool:
    """Return whether this process may make a disk of any size, in memory."""
    if os.geteuid() or os.environ.get("PYBATSCHED_NO_MOUNT"):
        return False
    with tempfile.TemporaryDirectory() as folder:
        return _succeeds("mount", "-t", "tmpfs", "none", folder) and _succeeds("umount", folder)


def _succeeds(*command: str | Path) -> bool:
    return not subprocess.run(command, capture_output=True, check=False, timeout=PATIENCE_S).returncode


class Disk:
    """A directory with little room for some files: a small file system, or files that must not grow.

    In the second case, `largest_file` is the size that none may exceed.
    """

    def __init__(self, place: Path, rng: random.Random, files: Sequence[bytes], *, is_mounted: bool) -> None:
        """Draw a size that is too small for these files."""
        self._place = place
        self._n_pages = rng.randint(1, sum(-(-len(data) // PAGE) for data in files)) if is_mounted else 0
        # Of files of all sizes, one does not fit.
        self.largest_file = None if is_mounted else rng.randint(1, max(len(rng.choice(files)), 1))

    @contextmanager
    def exists(self) -> Iterator[None]:
        """Have the disk, for as long as this takes. There is plenty of room at first."""
        self._place.mkdir(parents=True)
        if not self._n_pages:
            yield
            return
        assert _succeeds("mount", "-t", "tmpfs", "-o", f"size={_PLENTY}", "none", self._place)
        try:
            yield
        finally:
            assert _succeeds("umount", "-l", self._place)

    @contextmanager
    def full(self) -> Iterator[None]:
        """Leave so little room beside what is there, for as long as this takes."""
        used = os.statvfs(self._place)
        self._resize((used.f_blocks - used.f_bfree + self._n_pages) * PAGE)
        yield
        self._resize(_PLENTY)

    def _resize(self, size: int) -> None:
        if self._n_pages:
            assert _succeeds("mount", "-o", f"remount,size={size}", self._place), f"no room at {self._place}"


class FullDisk:
    """Runs simulations, servers and campaigns on disks of random sizes."""

    def __init__(self, folder: Path) -> None:
        self._alone = simulation.undisturbed_in(folder)
        self._served = server.undisturbed_in(folder)
        self._campaign = campaign.undisturbed_in(folder)

    def attempt(self, place: Path, rng: random.Random) -> Found:
        """Try once."""
        is_mounted = may_mount() and rng.random() < 0.75
        what = rng.choice((self._simulate, self._serve, self._run_campaign))
        found = what(place, rng, is_mounted)
        found.how = f"{what.__name__.strip('_')}, {found.how}, {'tmpfs' if is_mounted else 'RLIMIT_FSIZE'}"
        return found

    def _simulate(self, place: Path, rng: random.Random, is_mounted: bool) -> Found:
        alone = self._alone
        disk = Disk(place, rng, [*alone.new.values(), alone.journal], is_mounted=is_mounted)
        has_earlier = rng.random() < 0.5
        found = Found(how="with earlier results" if has_earlier else "without")
        with disk.exists():
            if has_earlier:
                found.run(alone.old_command, place)
            with disk.full():
                child = processes.start(alone.new_command, place, largest_file=disk.largest_file)
                child.ended()
            _check_reported(found, child, place)
            _check_journal(found, child, place / simulation.JOURNAL, alone.journal)
            if child.code == 0:
                is_whole = checks.results_at(place / simulation.PREFIX) == alone.new
                found.expect(is_whole, "it ended with 0 without its results")
            checks.check_results(found, place / simulation.PREFIX, alone.new, alone.old if has_earlier else None)
            alone.check_next(found, place)
        return found

    def _serve(self, place: Path, rng: random.Random, is_mounted: bool) -> Found:
        served = self._served
        disk = Disk(place, rng, [served.journal], is_mounted=is_mounted)
        endpoint = server.free_endpoint(rng, ports_only=True)
        away = place.with_name(f"{place.name}.peer")
        (away / "out").mkdir(parents=True)
        found = Found(how="journal")
        with disk.exists():
            (place / "out").mkdir()
            with disk.full():
                child = processes.start(server.serve(endpoint), place, "server", largest_file=disk.largest_file)
                if child.waits_until_printed(server.READY):
                    peer = processes.start(served.simulate(endpoint), away, "peer")
                    found.expect(peer.ended() in {0, 3}, f"the simulation ended with {peer.code}: {peer.errors[-300:]}")
                child.ended()
            _check_reported(found, child, place)
            _check_journal(found, child, place / server.JOURNAL, served.journal)
            served.check_next(found, place, endpoint)
        return found

    def _run_campaign(self, place: Path, rng: random.Random, is_mounted: bool) -> Found:
        undisturbed, keep = self._campaign, rng.choice(campaign.KEEPS)
        disk = Disk(place, rng, list(undisturbed.whole[keep].values()), is_mounted=is_mounted)
        found, folder = Found(how=keep), place / campaign.FOLDER
        with disk.exists():
            campaign.write_spec(place, keep)
            with disk.full():
                child = processes.start(campaign.command(1), place, largest_file=disk.largest_file)
                child.ended()
            if child.code == 7:  # cells that could not write their files have failed, and report it
                found.stage = RUNNING
                status = processes.run("campaign", "status", str(folder))
                is_reported = re.search(f"InputError: .*{_IS_FULL}", status.stdout)
                found.expect(is_reported, f"status does not say why cells failed: {status.stdout:.300}")
            else:
                _check_reported(found, child, place)
            if child.code == 0:
                undisturbed.check_whole(found, folder, keep)
            undisturbed.check_kept(found, folder, keep)
            undisturbed.check_resumed(found, place, keep, "--retry-failed")
        return found


def _check_journal(found: Found, child: Child, path: Path, whole: bytes) -> None:
    """Check that a journal is whole if the command ended well, and else can be read."""
    if child.code == 0:
        found.expect(path.read_bytes() == whole, "it ended with 0 without its journal")
    elif child.code == 2 and path.exists():
        checks.check_reading(found, path)


def _check_reported(found: Found, child: Child, place: Path) -> None:
    """Check that a command has ended with 2 and named what cannot be written, or has had room enough."""
    if child.code == 0:
        return
    output = child.errors
    written = [path for path in place.rglob("*") if path.is_file() and path.stat().st_size]
    found.stage = RUNNING if any(path.parent.name == "cells" or ".p" in path.name for path in written) else BEFORE
    if "summary" in output or "results.parquet" in output:
        found.stage = MOVING
    found.expect(child.code == 2, f"it ended with {child.code}: {output[-400:]}")
    is_reported = re.search(rf"(out|pbj|\.lock).*{_IS_FULL}", output)
    found.expect(is_reported, f"it does not say what cannot be written: {output[-400:]}")
    found.expect("Traceback" not in output and "Exception" not in output, f"it says: {output[-600:]}")
