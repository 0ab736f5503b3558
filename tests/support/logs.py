"""Logs for tests: written by hand, or the real ones where they are at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybatsched.workload.swf import SwfTrace, read_swf
from support.places import TRACES

HEADER = "; Version: 2.2\n; MaxProcs: 8\n"


def line(
    number: int | str = 1,
    submit: float | str = 0,
    wait: float | str = 0,
    run: float | str = 60,
    allocated: int | str = 2,
    *,
    requested: int | str = -1,
    requested_s: float | str = -1,
    cpu: str = "-1",
    used_kb: float | str = -1,
    requested_kb: float | str = -1,
    status: int | str = 1,
    user: int | str = -1,
    group: int | str = -1,
    application: int | str = -1,
    queue: int | str = -1,
    partition: int | str = -1,
    preceding: int | str = -1,
    think: float | str = -1,
) -> str:
    """One job of a log, in the order of the format."""
    fields = (number, submit, wait, run, allocated, cpu, used_kb, requested, requested_s, requested_kb, status)
    return " ".join(map(str, (*fields, user, group, application, queue, partition, preceding, think)))


def log(path: Path, *lines: str, header: str = HEADER) -> Path:
    """Write a log and give its path."""
    file = path / "log.swf"
    file.write_text(header + "".join(f"{text}\n" for text in lines))
    return file


def trace(path: Path, *lines: str, header: str = HEADER) -> SwfTrace:
    return read_swf(log(path, *lines, header=header))


def real(name: str) -> Path:
    """Give a real log, or skip the test with the reason."""
    path = TRACES / name
    if not path.exists():
        pytest.skip(f"the log {name} is not at hand (PYBATSCHED_TRACES)")
    return path
