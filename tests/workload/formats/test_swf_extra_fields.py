"""Logs whose lines have more than the 18 fields of the format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.logs import counts, line, log, real, trace

from pybatsched.errors import InputError
from pybatsched.workload.checks.lint import lint
from pybatsched.workload.checks.log_checks import GAP, MINUTES
from pybatsched.workload.formats.swf import EXTRA_FIELDS, TAKEN_FIELDS, to_workload
from pybatsched.workload.formats.swf_reader import UNNAMED, extra_names, read_swf

FROM_ZERO = """\
; MaxProcs: 8
; JOB FIELDS MEANING:
;  0: job_id
;  1: submit_time
; 18: used_GPUs (sum over all used nodes)
; 19: soft_walltime ("expected" run time)
; 20: required_properties (a String; if it is "all", any cluster)
"""
KEPT = EXTRA_FIELDS.format("gpus, soft_walltime, required_properties")


def jobs_of(folder: Path, *lines: str, header: str = FROM_ZERO) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    workload, report = to_workload(trace(folder, *lines, header=header))
    return workload.jobs, counts(report)


def test_fields_that_the_header_names_are_fields_of_jobs(tmp_path: Path) -> None:
    jobs, found = jobs_of(tmp_path, f"{line(1)} 40 3609 all", f"{line(2, 5)} -1 60.5 big,mem")
    assert [{name: job.get(name) for name in ("gpus", "soft_walltime", "required_properties")} for job in jobs] == [
        {"gpus": 40, "soft_walltime": 3609, "required_properties": "all"},
        {"gpus": None, "soft_walltime": 60.5, "required_properties": "big,mem"},
    ]
    assert KEPT in found


def test_lines_of_different_widths(tmp_path: Path) -> None:
    jobs, found = jobs_of(tmp_path, line(1), f"{line(2)} 4", f"{line(3)} 5 60 all 7", f"{line(4)} 6 60")
    assert [job.get("gpus") for job in jobs] == [None, 4, 5, 6]
    assert [job.get("required_properties") for job in jobs] == [None, None, "all", None]
    assert found == {KEPT: (1, []), UNNAMED: (1, [10]), **{rule: found[rule] for rule in found if "requested" in rule}}


@pytest.mark.parametrize(
    ("header", "gpus", "unnamed"),
    [
        ("; 1: job number\n; 2: submit time\n; 19: used_GPUs\n", 7, 0),  # counted from 1
        ("; 18: used_GPUs\n", 7, 0),  # field 18 of the format is the think time, so this counts from 0
        ("; 19: used_GPUs\n", 7, 0),
        ("; MaxProcs: 8\n", None, 1),
        ("; 5: nodes\n", None, 1),
        ("; 10: 30 in the morning\n", None, 1),
    ],
)
def test_names_count_from_0_or_from_1(tmp_path: Path, header: str, gpus: int | None, unnamed: int) -> None:
    (job,), jobs = jobs_of(tmp_path, f"{line(1)} 7", header=header)
    assert job.get("gpus") == gpus
    assert jobs.get(UNNAMED, (0,))[0] == unnamed


def test_a_name_twice_is_the_first_field() -> None:
    assert extra_names({0: "job_id", 18: "a", 19: "a", 20: "b"}) == {18: "a", 20: "b"}


def test_names_of_other_fields_are_not_taken(tmp_path: Path) -> None:
    header = "; 18: walltime\n; 19: Used-GPUs\n; 20: num_gpus\n"
    (job,), jobs = jobs_of(tmp_path, f"{line(1, requested_s=90)} 1 2 3", header=header)
    assert (job["walltime"], job["gpus"]) == (90, 2)
    assert TAKEN_FIELDS.format("walltime, gpus") in jobs


def test_extra_fields_of_one_partition(tmp_path: Path) -> None:
    made = trace(tmp_path, f"{line(1, partition=1)} 4", f"{line(2, partition=2)} 8", header="; 18: used_GPUs\n")
    assert made.of_partitions(["2"]).extras == {"used_GPUs": [8]}


def test_fewer_fields_stay_an_error(tmp_path: Path) -> None:
    file = log(tmp_path, f"{line(1)} 4 60 all", line(2).rpartition(" ")[0], header=FROM_ZERO)
    with pytest.raises(InputError, match=r"line 9: expected at least 18 fields, found 17"):
        read_swf(file)


def test_lint_notes_ignored_fields(tmp_path: Path) -> None:
    found = lint(log(tmp_path, f"{line(1)} 4", header="; MaxProcs: 8\n"))
    assert found.findings[UNNAMED].count == 1
    assert found.findings[UNNAMED].level == "note"


def test_the_machine_of_a_log_without_its_size_is_the_peak(tmp_path: Path) -> None:
    lines = (line(1, 0, 0, 100, 3), line(2, 10, 5, 60, 4), line(3, 20, 80, 10, 2), line(4, 90, -1, 60, 1))
    workload, report = to_workload(trace(tmp_path, *lines, header="; Version: 2\n"))
    assert workload.n_procs == 7
    assert any("estimated as the most processors in use at one time, 7" in rule for rule in report.tallies)
    found = lint(log(tmp_path, *lines, header="; Version: 2\n"))
    assert found.n_procs == 7
    assert "the most processors in use, 7, is taken" in found.findings["header: no MaxProcs or MaxNodes"].remedy


def test_gaps_and_units_of_logs(tmp_path: Path) -> None:
    lines = [line(number, number, requested_s=600) for number in range(10, 20)]
    found = lint(log(tmp_path, *lines, line(20, 864_000, requested_s=600))).findings
    assert found[MINUTES].level == "note"
    assert found[GAP.format(10)].places == [13]


def test_the_log_of_alea_ng() -> None:
    workload, report = to_workload(read_swf(real("today/AleaNG-example1.swf21.gz")))
    assert (report.n_read, report.n_kept) == (2830, 2830)
    assert KEPT in report.tallies
    assert sum(job["gpus"] for job in workload.jobs) == 28_358
    assert {job["required_properties"] for job in workload.jobs} == {"all", "normal"}
