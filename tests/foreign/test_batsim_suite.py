"""The command that runs Batsim's own tests with our simulator, tried on two small tests instead of 301."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.patience import PATIENCE_OF_WORK_S, PATIENCE_S
from support.places import ROOT

from foreign.inputs import write_input
from foreign.programs import needs_environment

_TESTS = """
import subprocess

import pytest


@pytest.mark.parametrize("more", ["--no-sched", "--no-sched --enable-redis"])
def test_it(more, tmp_path):
    batcmd = "batsim -p {platform} -w {workload} -e " + f"{{tmp_path}}/out {{more}}"
    times = "".join(f"{{name}}-timeout: {patience}\\n" for name in ("simulation", "ready", "success", "failure"))
    (tmp_path / "x.yaml").write_text(f"output-dir: {{tmp_path}}\\nbatcmd: {{batcmd}}\\nschedcmd: ''\\n{{times}}")
    assert subprocess.run(["robin", tmp_path / "x.yaml"]).returncode == 0
"""


@pytest.mark.long
@needs_environment
def test_the_summary_has_counts_and_reasons_of_failures(tmp_path: Path) -> None:
    made = write_input(tmp_path)
    tests = tmp_path / "batsim" / "test"
    tests.mkdir(parents=True)
    (tests / "test_tiny.py").write_text(
        _TESTS.format(platform=made.platform, workload=made.workload, patience=PATIENCE_S)
    )
    batsched = tmp_path / "batsched"
    batsched.write_text("#!/bin/sh\n")
    batsched.chmod(0o755)
    command = [sys.executable, str(ROOT / "tests/foreign/batsim_suite.py"), str(tests.parent)]
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=PATIENCE_OF_WORK_S, check=False
    )
    assert done.returncode == 1, done.stderr
    output = done.stdout.splitlines()[-4:]
    assert output[0].startswith("1 tests: robin: batsim: exit code 2: [0.000000] [batsim/ERROR] --enable-redis: ")
    assert output[1:] == [
        "    test_tiny::test_it[--no-sched --enable-redis]",
        "test_tiny: 1 passed, 1 not",
        "1 passed, 1 not",
    ]
