"""Programs that only marked tests find: their paths, and the PATH of all other tests."""

from __future__ import annotations

import fnmatch
import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

from support.patience import PATIENCE_S

#: Names of programs, as shell patterns, that only tests with one of the MARKERS find.
HIDDEN = (
    *("batsim*", "batsched*", "pybatsim*", "robin", "docker*", "valgrind*"),
    *("chromium*", "chrome", "chromedriver*", "google-chrome*", "firefox*", "geckodriver*"),
    *("slurm*", "sbatch", "salloc", "srun", "squeue", "scancel", "scontrol", "sinfo", "sacct*", "sprio", "sshare"),
)
MARKERS = ("batsim", "batsim5", "browser", "docker", "slurm")
#: Programs that all tests with a marker need.
_NEEDED = {"browser": ("chromium", "chromedriver"), "slurm": ("slurmctld", "slurmd", "sbatch")}

#: The PATH of this machine, by which tests with a marker find their programs.
FULL_PATH = os.environ.get("PATH", os.defpath)

_is_hidden = re.compile("|".join(map(fnmatch.translate, HIDDEN))).match


def find(name: str) -> str | None:
    """Find a program on the full PATH."""
    return shutil.which(name, path=FULL_PATH)


@functools.cache
def program(marker: str) -> str | None:
    """Find ``batsim``, of any version before 5, or ``batsim5``, which may be called batsim, too."""
    is_five = marker == "batsim5"
    for name in ("batsim5", "batsim") if is_five else ("batsim",):
        path = find(name)
        if path is not None and _version(path).startswith("5.") == is_five:
            return path
    return None


def _version(path: str) -> str:
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    return done.stdout.strip().removeprefix("v")


def missing(marker: str) -> str:
    """Name the programs that tests with this marker need and this machine lacks, if any."""
    if marker in _NEEDED:
        return " and ".join(name for name in _NEEDED[marker] if find(name) is None)
    return "" if program(marker) else marker


def without_hidden(path: str, place: Path) -> str:
    """Return this PATH without the hidden programs. O(programs in the directories that hold a hidden one).

    A directory that holds a hidden program is replaced by a new directory in `place`, with links to its other programs.
    """
    return os.pathsep.join(
        _linked(Path(entry).resolve(), place / str(k)) or entry if entry else entry
        for k, entry in enumerate(path.split(os.pathsep))
    )


def _linked(directory: Path, place: Path) -> str:
    """Link the programs of a directory that holds a hidden one in the new directory `place`. Otherwise return ""."""
    try:
        programs = list(directory.iterdir())
    except OSError:  # a PATH may name directories that do not exist
        return ""
    if not any(_is_hidden(program.name) for program in programs):
        return ""
    place.mkdir()
    for program in programs:
        if not _is_hidden(program.name):
            (place / program.name).symlink_to(program)
    return str(place)
