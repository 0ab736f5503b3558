"""The parts written in C, built from this checkout as an installation would build them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from support.patience import PATIENCE_S
from support.places import ROOT, module_of


def built_part(name: str, temporary: pytest.TempPathFactory) -> Any:
    """Return one of the parts, by its full name. They are built once in each test process.

    Skips where there is no compiler, or where the headers of Python are missing.
    """
    folder, _, module = name.rpartition(".")
    [file] = _built(temporary.getbasetemp() / "built").joinpath(*folder.split(".")).glob(f"{module}.*")
    return module_of(name, file)


@cache
def _built(place: Path) -> Path:
    """Build the parts into a directory, and return it."""
    if shutil.which((sysconfig.get_config_var("CC") or "cc").split()[0]) is None:
        pytest.skip("no C compiler")
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        pytest.skip("the headers of Python are not installed")
    paths = ["--build-lib", str(place), "--build-temp", str(place / "t")]
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", *paths],
        cwd=ROOT,
        env=os.environ | {"PYBATSCHED_COMPILE": "1", "PYTHONWARNINGS": "ignore"},
        check=True,
        timeout=PATIENCE_S,
    )
    return place
