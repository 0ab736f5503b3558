"""Packages that an extra of ours needs, and programs run without some installed packages."""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

from support.places import ROOT

_WITHOUT = """
import runpy, sys

class NotInstalled:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {modules}:
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, NotInstalled)
runpy.run_path({program!r}, run_name="__main__")
"""


def pins_in(path: Path = ROOT / "constraints.txt") -> dict[str, str]:
    """Read the versions of all packages that are pinned, by name."""
    return dict(line.split("==") for line in path.read_text(encoding="utf-8").split())


def needed_for(extra: str) -> set[NormalizedName]:
    """Return all packages that ``pip install '.[extra]'`` brings here, ourselves included."""
    found: set[tuple[NormalizedName, str]] = set()
    pending = [(canonicalize_name("pybatsched"), ""), (canonicalize_name("pybatsched"), extra)]
    while pending:
        package = pending.pop()
        if package in found:
            continue
        found.add(package)
        for text in metadata.requires(package[0]) or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": package[1]}):
                pending += [(canonicalize_name(needed.name), part) for part in ("", *needed.extras)]
    return {name for name, _ in found}


def without(packages: set[NormalizedName], program: Path) -> list[str]:
    """Return the command that runs a Python program as if some packages were not installed."""
    modules = {
        module
        for module, owners in metadata.packages_distributions().items()
        if {canonicalize_name(owner) for owner in owners} <= packages
    }
    assert packages
    assert modules
    return [sys.executable, "-c", _WITHOUT.format(modules=sorted(modules), program=str(program))]
