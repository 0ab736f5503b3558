"""One writer at a time: advisory locks on the very files that are written.

They are gone with the process that has them, however it ends, and there is no other file that could be left behind.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pybatsched.errors import InputError

#: The file that stands for all of a simulation's, and the one for all of a run with a real Batsim, which writes the
#: first itself (and may be a simulation of ours that plays Batsim).
OF_SIMULATION: Final = "_jobs.csv"
OF_BATSIM: Final = "_batsim.log"


def take(fd: int) -> bool:
    """Take the lock of an open file, until it is closed; False if somebody else has it.

    What cannot be locked, as a pipe, a device or a file on a file system without locks, counts as taken.
    """
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


@contextmanager
def files_of(prefix: str, own: str, others: Sequence[str] = ()) -> Iterator[None]:
    """Keep the files of a run to ourselves by the lock of one of them, while nobody has those of `others`.

    Nothing is written here; a file or directory that was made for the lock is taken away if the run comes to nothing.
    Where a file cannot be opened nothing is locked: who writes it will say why. Raises InputError.
    """
    path = Path(f"{prefix}{own}")
    for suffix in others:
        _refuse_if_taken(Path(f"{prefix}{suffix}"), prefix)
    if path.exists() and not path.is_file():
        yield
        return
    made = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
    fd = None
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = _opened(path, prefix)
    try:
        yield
    except BaseException:
        with suppress(OSError):
            if fd is not None and _is_at(fd, path) and not os.fstat(fd).st_size:
                path.unlink()  # before the lock is gone: afterwards it may be somebody else's
        with suppress(OSError):
            for folder in made:
                folder.rmdir()
        raise
    finally:
        if fd is not None:
            os.close(fd)


def _opened(path: Path, prefix: str) -> int:
    """Open a file and take its lock. Raises InputError if somebody else has it, and OSError."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        if not take(fd):
            os.close(fd)
            raise _taken(path, prefix)
        if _is_at(fd, path):
            return fd
        os.close(fd)  # who had it before has just taken the file away


def _refuse_if_taken(path: Path, prefix: str) -> None:
    with suppress(OSError):
        if not path.is_file():
            return
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if not take(fd):
                raise _taken(path, prefix)
        finally:
            os.close(fd)


def _taken(path: Path, prefix: str) -> InputError:
    return InputError(f"-e {prefix}: another run is writing {path} right now; expected its end, or another prefix")


def _is_at(fd: int, path: Path) -> bool:
    """Tell whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False
