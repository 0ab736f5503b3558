"""Advisory locks for one writer at a time, on the files that are written. They end with their process."""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from pybatsched.errors import InputError

_RETRY_S: Final = 0.001


def take(fd: int) -> bool:
    """Take the lock of an open file; return False if another writer has it. Files without locks return True."""
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        return True
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if has_writer(fd) is not False:
                return False
            time.sleep(_RETRY_S)  # a process in `has_writer` holds the lock for a moment
        except OSError:
            return True
        else:
            return True


def has_writer(fd: int) -> bool | None:
    """Return whether another process has the lock of an open file; None if the file cannot be locked."""
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    fcntl.flock(fd, fcntl.LOCK_UN)
    return False


@contextmanager
def held(path: Path, refusal: str) -> Iterator[int]:
    """Open a file for writing, and hold its lock while it is open; yield its descriptor.

    Nothing is written here. After an exception, a new file that is still empty and new directories are removed. Raises
    InputError with the text `refusal` if another process has the lock, and OSError.
    """
    made = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
    fd = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = _opened(path, refusal)
        yield fd
    except BaseException:
        with suppress(OSError):
            if fd is not None and is_at(fd, path) and path.is_file() and not os.fstat(fd).st_size:
                path.unlink()  # while the lock is held: later another process may use the file
        with suppress(OSError):
            for folder in made:
                folder.rmdir()
        raise
    finally:
        if fd is not None:
            os.close(fd)


def _opened(path: Path, refusal: str) -> int:
    """Open a file and take its lock. Raises InputError if another process has it, and OSError."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        if not take(fd):
            os.close(fd)
            raise InputError(refusal)
        if is_at(fd, path):
            return fd
        os.close(fd)  # the previous owner has just removed the file


def is_at(fd: int, path: Path) -> bool:
    """Return whether a path still names an open file."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except OSError:
        return False
