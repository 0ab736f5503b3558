"""An executable named `batsim`, for everything that starts one."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Final

from pybatsched.errors import InputError
from pybatsched.results.whole import whole

#: By this line one of ours is known.
_OURS: Final = "# Batsim's command line in front of pybatsched's embedded simulator; made by: pybatsched batsim --link"


def link(directory: Path) -> int:
    """Put an executable named `batsim` into a directory. One that is there already is replaced only if it is ours.

    It starts the very Python that has made it. Raises InputError.
    """
    place = directory / "batsim"
    if (place.exists() or place.is_symlink()) and not _is_ours(place):
        raise InputError(
            f"--link {directory}: {place} is there already, and it is not ours; expected another directory"
        )
    # -P: a directory `pybatsched` where it is started must not be taken for the package.
    text = f'#!/bin/sh\n{_OURS}\nexec {shlex.quote(sys.executable)} -P -m pybatsched batsim "$@"\n'
    with whole(place) as half:
        half.write_text(text)
        half.chmod(0o755)
    print(f"{place} is there. Put its directory first: PATH={shlex.quote(str(directory.absolute()))}:$PATH")
    return 0


def _is_ours(place: Path) -> bool:
    try:
        with place.open("rb") as file:
            return _OURS.encode() in file.read(4096)
    except OSError:
        return False
