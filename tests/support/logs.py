"""Logs for tests: written by hand, or real ones if available."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from pybatsched.workload.formats import batsim4
from pybatsched.workload.logs.swf import read_swf
from pybatsched.workload.logs.table import LogTable
from pybatsched.workload.report import Report
from pybatsched_studies.locality import rackham
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


def log(path: Path, *lines: str, header: str = HEADER, name: str = "log.swf") -> Path:
    """Write a log and give its path."""
    file = path / name
    file.write_text(header + "".join(f"{text}\n" for text in lines), encoding="utf-8")
    return file


def trace(path: Path, *lines: str, header: str = HEADER) -> LogTable:
    return read_swf(log(path, *lines, header=header))


def real(name: str) -> Path:
    """Return a real log, or skip the test with the reason."""
    path = TRACES / name
    if not path.exists():
        pytest.skip(f"the log {name} is not at hand (PYBATSCHED_TRACES)")
    return path


def rackham_line(
    number: int | str = 1,
    subtime: float | str = 0,
    delay: float | str = 60,
    walltime: float | str = 600,
    cores: int | str = 2,
    *,
    user: str = "ann",
    data: int | str = 1,
    size: float | str = "12.800000",
    kind: int | str = 0,
    started: float | str = 0,
    node: int | str = 1,
) -> str:
    """One job of the Rackham format."""
    job = f"id: {number} subtime: {subtime} delay: {delay} walltime: {walltime} cores: {cores}"
    data_of_it = f"user: {user} data: {data} data_size: {size}"
    history = f"workload: {kind} start_time_from_history: {started} start_node_from_history: {node}"
    return f"{{ {job} {data_of_it} {history} }}"


def rackham_file(path: Path, *lines: str, name: str = "rackham.txt") -> Path:
    """Write a file of the Rackham format and give its path."""
    file = path / name
    file.write_text("".join(f"{text}\n" for text in lines), encoding="utf-8")
    return file


def rackham_workload(path: Path, *lines: str) -> Path:
    """Write a file of the Rackham format as a workload of Batsim and give its path."""
    file = path / "rackham.json"
    batsim4.write(rackham.read(rackham_file(path, *lines)), file)
    return file


#: One job of each class: time 0 is 1000.
ONE_OF_EACH = (
    rackham_line(7, 5, 500, 9000, 20, user="eve", data=3, size="128.000000", kind=-1, started=1500, node=12),
    rackham_line(8, 900, 300, 400, 4, data=4, size="25.600000", kind=-2, started=950, node=338),
    rackham_line(9, 1000, 60, 600, 1, data=5, size="6.400000", kind=0, started=1001, node=9),
    rackham_line(10, 1000, 60.5, 600, 1, user="bob", data=6, size="6.400000", kind=1, started=1001, node=9),
    rackham_line(11, 1200, 700, 600, 3, data=7, size="19.200000", kind=2, started=1300, node=9),
)


def counts(report: Report) -> dict[str, tuple[int, list[int | str]]]:
    """Return how often each rule of a conversion was used, and on which lines first."""
    return {rule: (rule_count.count, rule_count.places) for rule, rule_count in report.rule_counts.items()}


#: Columns of a log of Slurm for tests.
SACCT_COLUMNS = (
    *("JobID", "Submit", "Eligible", "Start", "End", "Elapsed", "Timelimit", "NNodes", "NCPUS", "ReqMem", "AllocTRES"),
    *("State", "User", "Account", "Partition", "QOS", "ExitCode", "SubmitLine"),
)
#: The first submission in these logs.
SACCT_ZERO = 1_704_067_200


def sacct_line(job: str = "1", at: float = 0, wait: float = 0, run: float = 60, cores: int = 2, **cells: str) -> str:
    """One record of `sacct --parsable2`. `cells` replace columns by name."""
    submit = SACCT_ZERO + at
    found = {
        "JobID": job,
        "Submit": str(submit),
        "Eligible": str(submit),
        "Start": str(submit + wait),
        "End": str(submit + wait + run),
        "Elapsed": str(run),
        "Timelimit": "00:10:00",
        "NNodes": "1",
        "NCPUS": str(cores),
        "ReqMem": "4G",
        "AllocTRES": f"billing={cores},cpu={cores},mem=4G,node=1",
        "State": "COMPLETED",
        "User": "ann",
        "Account": "physics",
        "Partition": "main",
        "QOS": "normal",
        "ExitCode": "0:0",
        "SubmitLine": "sbatch a.sh",
    } | cells
    return "|".join(found[name] for name in SACCT_COLUMNS)


def sacct(path: Path, *lines: str, name: str = "sacct.txt", header: str = "|".join(SACCT_COLUMNS)) -> Path:
    """Write a log of Slurm and give its path."""
    file = path / name
    file.write_text("".join(f"{text}\n" for text in (header, *lines)), encoding="utf-8")
    return file


def rows_of(found: LogTable) -> list[SimpleNamespace]:
    """Return the rows of a log, with their columns as attributes."""
    return [SimpleNamespace(**row) for row in found.jobs.iter_rows(named=True)]
