"""Batsim's own tests with our simulator in Batsim's place, or with a real Batsim to compare.

    .venv/bin/python tests/foreign/batsim_suite.py BATSIM_SOURCES [--batsim PATH] [--out DIR] [pytest options]

The sources of Batsim 4.2.1 (with test/, workloads/, platforms/) have to be there already, and batsched has to be on the
PATH; robin is ours, pandas, pytest and pybatsim are those of build/foreign. Programs are started on a socket of this
run, not on Batsim's usual port. Prints the failures with their error output, and the counts. Takes minutes.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from foreign.programs import ENVIRONMENT, PYTHON
from foreign.robin import write_robin


def prepare(directory: Path, batsim: str | None) -> dict[str, str]:
    """Put all programs of a run into a directory. Return the environment in which they are found first."""
    shims = directory / "bin"
    shims.mkdir()
    write_robin(shims)
    if batsim is None:
        subprocess.check_call([sys.executable, "-m", "pybatsched", "batsim", "--link", str(directory)])
        batsim = str(directory / "batsim")
    programs = {"batsim": batsim, "batsched": shutil.which("batsched"), "pybatsim": str(ENVIRONMENT / "bin/pybatsim")}
    for name, program in programs.items():
        if program is None:
            raise SystemExit(f"no {name} on the PATH")
        endpoint = f"ipc://{directory}/socket"
        _write_script(shims / name, f'exec {shlex.quote(program)} "$@" -s {shlex.quote(endpoint)}')
    if shutil.which("redis-server") is None:
        _write_script(shims / "redis-server", "exec sleep 1000000")  # the tests begin by starting one
    return os.environ | {"PATH": f"{shims}:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}


def _write_script(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def print_summary(report: Path) -> int:
    """Print the failures by their error output, and the counts by file. Return how many tests did not pass."""
    passed: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    reasons: defaultdict[str, list[str]] = defaultdict(list)
    for case in ET.parse(report).iter("testcase"):
        file = case.get("classname", "").rpartition(".")[2]
        problems = [found.get("message", "") for kind in ("failure", "error", "skipped") for found in case.iter(kind)]
        if not problems:
            passed[file] += 1
            continue
        failed[file] += 1
        lines = [line for line in (case.findtext("system-err") or "").splitlines() if line.startswith("robin: ")]
        own = [line for line in lines if "stopped" not in line]  # a stopped program is not the cause
        reasons[" | ".join(own or lines) or problems[0]].append(f"{file}::{case.get('name')}")
    for reason, names in reasons.items():
        print(f"{len(names)} tests: {reason}", *(f"    {name}" for name in names), sep="\n")
    for file in sorted(passed | failed):
        print(f"{file}: {passed[file]} passed, {failed[file]} not")
    print(f"{passed.total()} passed, {failed.total()} not")
    return failed.total()


def main() -> int:
    parser = argparse.ArgumentParser(description="Batsim's own tests, with our simulator in Batsim's place")
    parser.add_argument("sources", type=Path, help="the sources of Batsim 4.2.1")
    parser.add_argument("--batsim", help="a Batsim to test instead of ours")
    parser.add_argument("--out", type=Path, help="where the tests write test-out (a directory that is removed)")
    args, options = parser.parse_known_args()
    tests = args.sources.resolve() / "test"
    with tempfile.TemporaryDirectory(prefix="batsim-suite-") as name:
        directory = Path(name)
        environment = prepare(directory, args.batsim)
        out = args.out or directory / "out"
        out.mkdir(parents=True, exist_ok=True)
        report = directory / "report.xml"
        command = [
            str(PYTHON),
            "-m",
            "pytest",
            "-q",
            "--tb=no",
            "--disable-warnings",
            "-r",
            "N",
            "-c",
            os.devnull,
            "--rootdir",
            str(tests),
        ]
        command += [
            "-p",
            "no:cacheprovider",
            "-o",
            "junit_logging=all",
            "--junitxml",
            str(report),
            str(tests),
            *options,
        ]
        code = subprocess.call(command, cwd=out, env=environment)
        if code not in {0, 1}:
            return code
        return 1 if print_summary(report) else 0


if __name__ == "__main__":
    sys.exit(main())
