"""Atomic writes: a file is written under a temporary name and renamed when it is complete."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pybatsched.errors import InputError

#: The start of the name of a temporary file, before the id of the process that writes it.
TEMPORARY: Final = ".part-"


def temporary_files(folder: Path) -> Iterator[Path]:
    """Return the temporary files of a directory: of active writers, and of writers that were killed. O(files)."""
    return folder.glob(f"{TEMPORARY}*")


@contextmanager
def whole(path: str | Path) -> Iterator[Path]:
    """Yield a temporary name, and rename the file when the block succeeds; otherwise remove it."""
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not target.is_file():
            yield target
            return
        temporary = target.with_name(f"{TEMPORARY}{os.getpid()}.{target.name}")
        temporary.unlink(missing_ok=True)  # from an earlier process with the same id, or a link of another user
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
        try:
            yield temporary
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    except IsADirectoryError:
        raise InputError(f"{path}: cannot be written: it is a directory") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from error
