"""What `make` installs before it runs something: for `make demo` and for `make test`, each once."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name
from support.packages import needed_for, pins_in
from support.patience import PATIENCE_S
from support.places import ROOT

FOR_DEMO, FOR_TESTS = "--editable '.[report]'", "--editable '.[dev]'"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A directory with what make looks at, and nothing set up."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / ".venv").mkdir()
    return tmp_path


def installs(clone: Path, *goals: str) -> list[str]:
    """Return what make would install in .venv, in this order, and steps that may run at the same time."""
    shown = subprocess.run(
        ["make", "-n", *goals], cwd=clone, capture_output=True, text=True, check=True, timeout=PATIENCE_S
    ).stdout
    return re.findall(
        r"^PIP_CONSTRAINT=constraints.txt .venv/bin/python -m pip install .*(--editable .*)$", shown, re.MULTILINE
    )


def test_the_demo_installs_what_it_needs_and_tests_the_rest(clone: Path) -> None:
    assert installs(clone, "demo") == [FOR_DEMO]
    assert installs(clone, "lint", "types") == [FOR_TESTS]
    assert installs(clone, "demo", "lint") == [FOR_DEMO, FOR_TESTS]
    assert installs(clone, "lint", "demo") == [FOR_DEMO, FOR_TESTS]  # never both at once, in whatever order


@pytest.mark.parametrize("goal", ["unit", "long"])
def test_other_programs_are_installed_before_the_tests_that_need_them(goal: str, clone: Path) -> None:
    (clone / "tests" / "foreign").mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "foreign" / "requirements.txt", clone / "tests" / "foreign")
    shown = subprocess.run(
        ["make", "-n", goal], cwd=clone, capture_output=True, text=True, check=True, timeout=PATIENCE_S
    ).stdout
    assert 0 < shown.find("touch build/foreign/ready") < shown.find("-m pytest")


@pytest.mark.parametrize("extra", ["report", "dev"])
def test_all_that_is_installed_is_pinned(extra: str) -> None:
    pinned = {canonicalize_name(name): version for name, version in pins_in().items()}
    needed = needed_for(extra) - {"pybatsched"}
    assert needed >= {"numpy", "polars", "pydantic"}
    assert {name: metadata.version(name) for name in needed} == {name: pinned.get(name) for name in needed}


def test_a_script_beside_a_clone_imports_the_package(tmp_path: Path) -> None:
    """A directory without __init__.py must not hide the package, though it has the same name and comes first."""
    (tmp_path / "pybatsched" / "docs").mkdir(parents=True)
    script = tmp_path / "script.py"
    script.write_text("import pybatsched, pybatsched_schedulers.easy\nprint(pybatsched.Policy.__name__)\n")
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert (done.stdout, done.stderr) == ("Policy\n", "")
