"""The real Batsims that are at hand, by the names of the markers of tests that run them."""

from __future__ import annotations

import functools
import shutil
import subprocess

from support.patience import PATIENCE_S


@functools.cache
def program(marker: str) -> str | None:
    """Find ``batsim``, of any version before 5, or ``batsim5``, which may be called batsim, too."""
    is_five = marker == "batsim5"
    for name in ("batsim5", "batsim") if is_five else ("batsim",):
        path = shutil.which(name)
        if path is not None and _version(path).startswith("5.") == is_five:
            return path
    return None


def _version(path: str) -> str:
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    return done.stdout.strip().removeprefix("v")
