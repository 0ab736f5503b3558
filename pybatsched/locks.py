"""One writer at a time: advisory locks on the very files that are written.

They are gone with the process that has them, however it ends, and there is no other file that could be left behind.
"""

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

_GLANCE_S: Final = 0.001


def take(fd: int) -> bool:
    """Take the lock of an open file, until it is closed; False if another writer has it.

    What cannot be locked, as a pipe, a device or a file on a file system without locks, counts as taken.
    """
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        return True
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if has_writer(fd) is not False:
                return False
            time.sleep(_GLANCE_S)  # somebody just looks whether there is a writer, as in `has_writer`
        except OSError:
            return True
        else:
            return True


def has_writer(fd: int) -> bool | None:
    """Tell whether somebody else has taken the lock of an open file; None where there are no locks to tell by."""
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
    """Open a file to write it, and keep others from it while it is open. Gives its descriptor.

    Nothing is written here; a file or directory that was made for the lock is taken away if an exception comes and the
    file is still empty. Raises InputError with the text `refusal` if somebody else has it, and OSError.
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
                path.unlink()  # before the lock is gone: afterwards it may be somebody else's
        with suppress(OSError):
            for folder in made:
                folder.rmdir()
        raise
    finally:
        if fd is not None:
            os.close(fd)


def _opened(path: Path, refusal: str) -> int:
    """Open a file and take its lock. Raises InputError if somebody else has it, and OSError."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        if not take(fd):
            os.close(fd)
            raise InputError(refusal)
        if is_at(fd, path):
            return fd
        os.close(fd)  # who had it before has just taken the file away


def is_at(fd: int, path: Path) -> bool:
    """Tell whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except OSError:
        return False
