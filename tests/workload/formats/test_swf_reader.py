"""Reading logs in SWF: every field, every header, every broken line with its number."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from support.logs import counts, line, log, real, trace

from pybatsched.errors import InputError
from pybatsched.workload.checks.lint import lint
from pybatsched.workload.checks.lint_log import ESTIMATE
from pybatsched.workload.checks.log_checks import GAP, MINUTES
from pybatsched.workload.formats.conversion import LogOptions
from pybatsched.workload.logs.conversion import to_workload
from pybatsched.workload.logs.swf import EXTRA_FIELDS, FIELDS, TAKEN_FIELDS, UNNAMED, extra_names, read_swf
from pybatsched.workload.selection import Selection

COLUMNS = (*(field.column for field in FIELDS), "line")


def test_all_fields_of_a_line(tmp_path: Path) -> None:
    text = "  5 10.5  3  60 4 12.25 100 8 120 200 1 7 8 9 10 11 3 2.5  "
    assert trace(tmp_path, text).jobs.select(*COLUMNS).rows() == [
        (5, 10.5, 3, 60, 4, 12.25, 100, 8, 120, 200, 1, "7", "8", "9", "10", "11", 3, 2.5, 3)
    ]


def test_unknown_values_are_null_and_other_negative_values_stay(tmp_path: Path) -> None:
    (job,) = trace(tmp_path, "-1.0 -1 -01 -2 -1 -1 -1 -7 0 -1 -1 -1 -01 -2 ann -1 0 -1").jobs.select(*COLUMNS).rows()
    known = {0: -1, 3: -2, 7: -7, 8: 0, 13: "-2", 14: "ann", 16: 0, 18: 3}  # the job number is the id of the job
    assert job == tuple(known.get(index) for index in range(19))


def test_empty_lines_and_comments_count_as_lines(tmp_path: Path) -> None:
    made = trace(tmp_path, line(1), "", line(2, 5), " ; Note: in between", "  ", line(3, 6))
    assert made.jobs["line"].to_list() == [3, 5, 8]
    assert made.jobs["id"].to_list() == [1, 2, 3]
    assert made.header["Note"] == "in between"


def test_headers(tmp_path: Path) -> None:
    header = (
        "; Version: 2.2\n;MaxProcs: 1664 (72, 1368, 224)\n; MaxNodes:0\n; UnixStartTime: 835823160\n;\n"
        "; Queue:  1 express\n; Queue:  2 normal\n"
        "; Note: Scheduler is EASY\n;       see http://www.example.org/a: or not\n;\n; not a key, after an empty line\n"
        "; Information: http://www.example.org/\n"
    )
    made = trace(tmp_path, line(), header=header)
    assert made.header == {
        "Version": "2.2",
        "MaxProcs": "1664 (72, 1368, 224)",
        "MaxNodes": "0",
        "UnixStartTime": "835823160",
        "Queue": "1 express\n2 normal",
        "Note": "Scheduler is EASY\nsee http://www.example.org/a: or not",
        "Information": "http://www.example.org/",
    }
    assert made.header_count("MaxProcs") == 1664
    assert made.header_count("MaxNodes") is None
    assert made.header_count("Version") is None  # 2.2 is no count
    assert made.header_count("Absent") is None


@pytest.mark.parametrize(("encoding", "name"), [("utf-8", "Umeå"), ("latin-1", "Umeå")])
def test_headers_and_names_in_either_encoding(tmp_path: Path, encoding: str, name: str) -> None:
    file = tmp_path / "log.swf"
    file.write_bytes(f"; Installation: {name}\n{line(user=name)}\n".encode(encoding))
    made = read_swf(file)
    assert made.header["Installation"] == name
    assert made.jobs["user"].to_list() == [name]


def test_names_where_numbers_should_be_are_kept(tmp_path: Path) -> None:
    made = trace(tmp_path, line(user="routgeo", group=12, application="B00_RI*", queue="sx_rout", partition="p-1"))
    assert made.jobs.row(0)[11:16] == ("routgeo", "12", "B00_RI*", "sx_rout", "p-1")
    (job,) = to_workload(made)[0].jobs
    assert [job[name] for name in ("user", "group", "application", "queue", "partition")] == [
        *("routgeo", 12, "B00_RI*", "sx_rout", "p-1")
    ]


def test_line_ends_tabs_and_gzip(tmp_path: Path) -> None:
    text = "; MaxProcs: 4\r\n" + line(1).replace(" ", "\t") + "\r\n" + line(2)  # and no end of the last line
    file = tmp_path / "log.txt"
    file.write_bytes(gzip.compress(text.encode()))
    made = read_swf(file)
    assert made.jobs["id"].to_list() == [1, 2]
    assert made.header == {"MaxProcs": "4"}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("1 2 3", "expected at least 18 fields, found 3"),
        (line(run="abc"), "field 4 (run time): expected a number, found abc"),
        (line(run="nan"), "field 4 (run time): expected a number, found nan"),
        (line(submit="inf"), "field 2 (submit time): expected a number, found inf"),
        (line(submit="1e999"), "field 2 (submit time): expected a number below 2^53, found 1e999"),
        (line(submit="1e300"), "field 2 (submit time): expected a number below 2^53, found 1e300"),
        (line(submit="1_000"), "field 2 (submit time): expected a number, found 1_000"),
        (line("1.5"), "field 1 (job number): expected a whole number, found 1.5"),
        (line(str(1 << 60)), f"field 1 (job number): expected a whole number below 2^53, found {1 << 60}"),
        (line(allocated="2.5"), "field 5 (allocated processors): expected a whole number, found 2.5"),
        (line(preceding="x"), "field 17 (preceding job): expected a whole number, found x"),
        (line(think="--1"), "field 18 (think time): expected a number, found --1"),
    ],
)
def test_bad_lines(tmp_path: Path, bad: str, message: str) -> None:
    file = log(tmp_path, line(1), bad, line(3, queue="a_b"))
    with pytest.raises(InputError) as caught:
        read_swf(file)
    assert str(caught.value) == f"{file}: line 4: {message}"
    made = read_swf(file, lenient=True)
    assert made.jobs["id"].to_list() == [1, 3]
    assert made.n_bad == 1
    assert [rule_count.places for rule_count in made.bad.values()] == [[4]]


def test_whole_numbers_may_be_written_with_a_point(tmp_path: Path) -> None:
    assert trace(tmp_path, line(allocated="4.0")).jobs["allocated_procs"].to_list() == [4]


def test_lenient_reading_counts_by_reason(tmp_path: Path) -> None:
    lines = [line(1), "x", *["1 2"] * 7, line(run="?"), line(2)]
    made = read_swf(log(tmp_path, *lines), lenient=True)
    assert {rule: (rule_count.count, rule_count.places) for rule, rule_count in made.bad.items()} == {
        "expected at least 18 fields, found 1": (1, [4]),
        "expected at least 18 fields, found 2": (7, [5, 6, 7, 8, 9]),
        "field 4 (run time): expected a number": (1, [12]),
    }


def test_files_that_are_not_logs_are_rejected(tmp_path: Path) -> None:
    file = tmp_path / "log.swf"
    for content, text in (
        (b"", "found an empty file"),
        (b"\n\n  \n", "found an empty file"),
        (b"\x89PNG\r\n\x1a\n\0\0\0", "line 1: expected at least 18 fields"),
        (b"1 2\0 3\n", "line 1: expected text, found a binary file"),
        ("job_id,nodes\n1,2\n".encode("utf-16"), "expected text in UTF-8, found UTF-16; convert it first"),
        (gzip.compress(b"; MaxProcs: 3\n" * 1000)[:-20], "the gzip data is truncated or damaged"),
    ):
        file.write_bytes(content)
        with pytest.raises(InputError, match=text) as caught:
            read_swf(file)
        assert str(file) in str(caught.value)
    with pytest.raises(InputError, match="found a directory"):
        read_swf(tmp_path)
    with pytest.raises(InputError, match="No such file"):
        read_swf(tmp_path / "no.swf")


def test_a_binary_file_is_not_read_leniently(tmp_path: Path) -> None:
    file = tmp_path / "log.swf"
    file.write_bytes(bytes(range(256)) * 40)
    with pytest.raises(InputError, match="found a binary file"):
        read_swf(file, lenient=True)


def test_a_header_alone_is_an_empty_log(tmp_path: Path) -> None:
    assert len(trace(tmp_path)) == 0


def test_a_long_log_is_read_in_pieces(tmp_path: Path) -> None:
    n = 90_000  # more than one chunk of 4 MB
    lines = [line(k, k) for k in range(1, n + 1)]
    lines[n - 10] = line(n - 9, "x")
    file = log(tmp_path, *lines)
    assert file.stat().st_size > 4 << 20
    made = read_swf(file, lenient=True)
    assert (len(made), made.n_bad) == (n - 1, 1)
    assert next(iter(made.bad.values())).places == [n - 10 + 3]
    assert made.jobs["line"].gather([0, 60_000, n - 2]).to_list() == [3, 60_003, n + 2]


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
    return list(workload.jobs), counts(report)


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
    header = "; 18: evaluated\n; 19: logged_wait_s\n"
    made = trace(tmp_path, *(f"{line(k, k)} 1 2" for k in (1, 2)), header=header)
    workload, _ = to_workload(made, LogOptions(), Selection(warm_up_s=1))
    assert [(job["evaluated"], job["logged_wait_s"]) for job in workload.jobs] == [(False, 0), (True, 0)]


def test_extra_fields_of_one_partition(tmp_path: Path) -> None:
    made = trace(tmp_path, f"{line(1, partition=1)} 4", f"{line(2, partition=2)} 8", header="; 18: used_GPUs\n")
    (job,) = to_workload(made, selection=Selection(partitions=("2",)))[0].jobs
    assert job["gpus"] == 8


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
    assert any("estimated as the most processors in use at one time, 7" in rule for rule in report.rule_counts)
    found = lint(log(tmp_path, *lines, header="; Version: 2\n"))
    assert found.n_procs == 7
    assert ESTIMATE.format("processors") in found.findings


def test_gaps_and_units_of_logs(tmp_path: Path) -> None:
    lines = [line(number, number, requested_s=600) for number in range(10, 20)]
    found = lint(log(tmp_path, *lines, line(20, 864_000, requested_s=600))).findings
    assert found[MINUTES].level == "note"
    assert found[GAP.format(10)].places == [13]


def test_the_log_of_alea_ng() -> None:
    workload, report = to_workload(read_swf(real("today/AleaNG-example1.swf21.gz")))
    assert (report.n_read, report.n_kept) == (2830, 2830)
    assert KEPT in report.rule_counts
    assert sum(job["gpus"] for job in workload.jobs) == 28_358
    assert {job["required_properties"] for job in workload.jobs} == {"all", "normal"}
