"""Tests without a marker find no batsim, docker, browser or Slurm, wherever they are installed; marked tests do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.patience import PATIENCE_OF_WORK_S
from support.places import ROOT
from support.programs import MARKERS, without_hidden

HIDDEN = (
    *("batsim", "batsim5", "batsched", "chromedriver", "chromium", "docker", "pybatsim", "robin", "valgrind"),
    *("sbatch", "slurmctld", "slurmd"),
)
KEPT = ("git", "cc", "make", "chrome-plated", "robinson")

#: Tests that print which programs they find: in their process, in a child process, and at import.
SMALL = f"""
import os, shutil, subprocess
import pytest

NAMES = {HIDDEN + KEPT!r}
AT_IMPORT = [name for name in NAMES if shutil.which(name)]

@pytest.fixture(scope="module")
def early():
    return [name for name in NAMES if shutil.which(name)]

def check(expected, early):
    assert early == expected
    assert [name for name in NAMES if shutil.which(name)] == expected
    words = ["sh", "-c", 'for name; do command -v "$name"; done', "sh", *NAMES]
    found = subprocess.run(words, capture_output=True, text=True).stdout.splitlines()
    assert [os.path.basename(line) for line in found] == expected

def test_import():
    assert AT_IMPORT == {list(KEPT)!r}

@pytest.mark.parametrize("k", range(3))
def test_unmarked(k):
    check({list(KEPT)!r}, {list(KEPT)!r})
"""
MARKED = """
@pytest.mark.{marker}
def test_{marker}(early):
    check(list(NAMES), early)

def test_after_{marker}():
    test_unmarked(0)
"""


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A directory with stand-ins for all hidden programs and for some others."""
    place = tmp_path / "bin"
    place.mkdir()
    for name in HIDDEN + KEPT:
        (place / name).write_text(f"#!/bin/sh\necho v{'5.0.0' if name == 'batsim5' else '4.2.1'}\n")
        (place / name).chmod(0o755)
    return place


def run_tests(text: str, place: Path, path: str, *options: str) -> str:
    """Run tests with the conftest of this project, and this PATH. Return the last line that pytest prints."""
    file = place / "test_small.py"
    file.write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(place)]
    done = subprocess.run(
        [*command, "-p", "conftest", "-p", "no:cacheprovider", "-m", "", *options, str(file)],
        env=os.environ | {"PATH": path, "PYTHONPATH": str(ROOT / "tests"), "TMPDIR": str(place)},
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_OF_WORK_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("options", [(), ("-n", "2")], ids=["one process", "xdist"])
def test_only_marked_tests_find_hidden_programs(options: tuple[str, ...], planted: Path, tmp_path: Path) -> None:
    text = SMALL + "".join(MARKED.format(marker=marker) for marker in MARKERS)
    output = run_tests(text, tmp_path, f"{planted}{os.pathsep}{os.environ['PATH']}", *options)
    assert output.startswith(f"{4 + 2 * len(MARKERS)} passed in ")
    assert not [*tmp_path.glob("pybatsched-path-*")]


def test_unmarked_tests_find_no_hidden_program() -> None:
    assert [name for name in HIDDEN if shutil.which(name)] == []
    assert shutil.which("git")


def test_a_directory_without_hidden_programs_stays_on_the_path(planted: Path, tmp_path: Path) -> None:
    other, link, place = tmp_path / "other", tmp_path / "link", tmp_path / "place"
    for directory in (other, place):
        directory.mkdir()
    link.symlink_to(planted)
    entries = ["/nowhere", str(planted), "", str(other), str(link), "/nowhere"]
    made = without_hidden(os.pathsep.join(entries), place).split(os.pathsep)
    assert [*zip(entries, made, strict=True)] == [
        ("/nowhere", "/nowhere"),
        (str(planted), str(place / "1")),
        ("", ""),
        (str(other), str(other)),
        (str(link), str(place / "4")),
        ("/nowhere", "/nowhere"),
    ]
    for directory in (place / "1", place / "4"):
        assert {program.name for program in directory.iterdir()} == {*KEPT}
        assert (directory / "git").resolve() == planted / "git"


def test_no_test_names_the_directories_of_programs_itself() -> None:
    """A PATH of /usr/bin would show what is hidden."""
    spelt = re.compile(r"/usr/bin:|:/bin\b")
    files = [path for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)]
    assert [str(path) for path in files if spelt.search(path.read_text())] == []
