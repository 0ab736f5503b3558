"""Ctrl-C at any time, also during imports: exit code 130 and one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.patience import PATIENCE_S
from support.places import ROOT

import pybatsched

#: Sends SIGINT to its own process when a module is asked for; Python runs this before anything else.
_CUSTOM = """
import importlib.abc, os, signal, sys

class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == os.environ["AT"]:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
        return None

sys.meta_path.insert(0, Interrupting())
"""
ONE_LINE = "pybatsched: interrupted by signal 2\n"
PROGRAMS = {"module": ("-m", "pybatsched"), "script": (str(Path(sys.executable).with_name("pybatsched")),)}


def interrupted(at: str, program: str, args: tuple[str, ...], place: Path) -> subprocess.CompletedProcess[str]:
    """Run a command that is interrupted when a module is asked for."""
    (place / "sitecustomize.py").write_text(_CUSTOM)
    env = os.environ | {"PYTHONPATH": str(place), "AT": at}
    return subprocess.run(
        [sys.executable, *PROGRAMS[program], *args],
        capture_output=True,
        text=True,
        cwd=place,
        timeout=PATIENCE_S,
        check=False,
        env=env,
    )


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(
    "at",
    [
        "pybatsched.cli",
        "argparse",
        "pybatsched.errors",
        "pybatsched.cli.simulate",
        "pybatsched.simulator.run",
        "msgspec",
    ],
)
def test_ctrl_c_while_modules_are_imported(at: str, program: str, tmp_path: Path) -> None:
    done = interrupted(at, program, ("simulate", "--procs", "4", "--policy", "easy"), tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", ONE_LINE)


def test_ctrl_c_while_a_command_runs(tmp_path: Path) -> None:
    """Most commands have no signal handler: KeyboardInterrupt gives one line."""
    done = interrupted("pybatsched_schedulers.easy", "module", ("policies", "easy"), tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", ONE_LINE)


def test_ctrl_c_while_a_policy_is_imported_leaves_no_files(tmp_path: Path) -> None:
    args = ("simulate", "--procs", "4", "--policy", "easy", "-e", "a")
    done = interrupted("pybatsched_schedulers.easy", "module", args, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", ONE_LINE)
    assert {path.name for path in tmp_path.iterdir()} - {"__pycache__"} == {"sitecustomize.py"}


def test_an_interrupt_ignored_by_the_shell_stays_ignored(tmp_path: Path) -> None:
    """As with nohup: a shell ignores the signal for commands in the background."""
    (tmp_path / "sitecustomize.py").write_text(_CUSTOM)
    env = os.environ | {"PYTHONPATH": str(tmp_path), "AT": "pybatsched_schedulers.easy"}
    command = ["/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-m", "pybatsched", "policies", "easy"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("easy: ")


def test_importing_the_package_imports_no_submodules() -> None:
    """Otherwise a signal could arrive before its handler is set. Even `typing` is not imported, because it is slow."""
    script = (
        f"import os, sys; sys.path.insert(0, {str(ROOT)!r}); before = {{*sys.modules}}; import pybatsched.__main__;"
        "print(sorted({*sys.modules} - before))"
    )
    done = subprocess.run(
        [sys.executable, "-ISc", script], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert done.stdout == "['pybatsched', 'pybatsched.__main__', 'pybatsched.version']\n"


def test_all_public_names_can_be_imported_lazily() -> None:
    script = "from pybatsched import *; import pybatsched; print(sorted({*pybatsched.__all__} - {*globals()}))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert done.stdout == "[]\n"
    assert {*pybatsched.__all__} <= {*dir(pybatsched)}
    with pytest.raises(AttributeError, match="module 'pybatsched' has no attribute 'Polcy'"):
        pybatsched.Polcy  # type: ignore[attr-defined]  # noqa: B018
