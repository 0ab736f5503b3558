"""A file that is there whole or not at all: written beside its place, and put there when it is complete."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pybatsched.errors import InputError

#: What the name of a file begins with that is not complete, before the number of the process that writes it.
_HALF: Final = ".part-"


def halves(folder: Path) -> Iterator[Path]:
    """Give files of a directory that are being written, or were when their writer was killed. O(files)."""
    return folder.glob(f"{_HALF}*")


@contextmanager
def whole(path: str | Path) -> Iterator[Path]:
    """Give the name to write a file under, and put it in its place when that went well; else nothing is left of it.

    A file that is there already is replaced only then, and directories are made. The name ends as the file's own does.
    A pipe or a device is written as it is: there is nothing to replace. Raises InputError that names the file.
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not target.is_file():
            yield target
            return
        half = target.with_name(f"{_HALF}{os.getpid()}.{target.name}")
        half.unlink(missing_ok=True)  # of a process that had our number, or a link that somebody has put there
        os.close(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
        try:
            yield half
            half.replace(target)
        finally:
            half.unlink(missing_ok=True)
    except IsADirectoryError:
        raise InputError(f"{path}: cannot be written: it is a directory") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
