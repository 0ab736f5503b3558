"""Reading logs in SWF: every field, every header, every broken line with its number."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from support.logs import line, log, trace

from pybatsched.errors import InputError
from pybatsched.workload.formats.swf_reader import SwfJob, read_swf


def test_all_fields_of_a_line(tmp_path: Path) -> None:
    text = "  5 10.5  3  60 4 12.25 100 8 120 200 1 7 8 9 10 11 3 2.5  "
    assert list(trace(tmp_path, text)) == [
        SwfJob(5, 10.5, 3, 60, 4, 12.25, 100, 8, 120, 200, 1, 7, 8, 9, 10, 11, 3, 2.5, 3)
    ]


def test_jobs_are_read_by_index_and_by_iteration(tmp_path: Path) -> None:
    made = trace(tmp_path, line(1), "", line(2, 5), "; Note: in between", line(3, 6))
    assert len(made) == 3
    assert [job.line for job in made] == [3, 5, 7]
    assert made[1] == list(made)[1] == next(made.rows([1]))
    assert made[-1].number == 3


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
    assert made[0].user == name


def test_names_where_numbers_should_be_are_kept(tmp_path: Path) -> None:
    made = trace(tmp_path, line(user="routgeo", group=12, application="B00_RI*", queue="sx_rout", partition="p-1"))
    assert made[0][11:16] == ("routgeo", 12, "B00_RI*", "sx_rout", "p-1")


def test_line_ends_tabs_and_gzip(tmp_path: Path) -> None:
    text = "; MaxProcs: 4\r\n" + line(1).replace(" ", "\t") + "\r\n" + line(2)  # and no end of the last line
    file = tmp_path / "log.txt"
    file.write_bytes(gzip.compress(text.encode()))
    made = read_swf(file)
    assert [job.number for job in made] == [1, 2]
    assert made.header == {"MaxProcs": "4"}


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("1 2 3", "expected at least 18 fields, found 3"),
        (line(run="abc"), "field 4 (run time): expected a number, found abc"),
        (line(run="nan"), "field 4 (run time): expected a number, found nan"),
        (line(submit="inf"), "field 2 (submit time): expected a number, found inf"),
        (line(submit="1e999"), "field 2 (submit time): expected a number, found 1e999"),
        (line(submit="1e300"), "field 2 (submit time): expected a number, found 1e300"),
        (line(submit="1_000"), "field 2 (submit time): expected a number, found 1_000"),
        (line("1.5"), "field 1 (job number): expected a whole number, found 1.5"),
        (line(str(1 << 60)), f"field 1 (job number): expected a whole number, found {1 << 60}"),
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
    assert [job.number for job in made] == [1, 3]
    assert made.n_bad == 1
    assert [tally.places for tally in made.bad.values()] == [[4]]


def test_whole_numbers_may_be_written_with_a_point(tmp_path: Path) -> None:
    assert trace(tmp_path, line(allocated="4.0"))[0].allocated_procs == 4


def test_lenient_reading_counts_by_reason(tmp_path: Path) -> None:
    lines = [line(1), "x", *["1 2"] * 7, line(run="?"), line(2)]
    made = read_swf(log(tmp_path, *lines), lenient=True)
    assert {rule: (tally.count, tally.places) for rule, tally in made.bad.items()} == {
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
    assert [made[k].line for k in (0, 60_000, n - 2)] == [3, 60_003, n + 2]
