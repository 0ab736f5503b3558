"""Tables of jobs with a mapping of their columns."""

from __future__ import annotations

import gzip
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import zstandard
from hypothesis import given, strategies as st
from support import tables
from support.logs import counts, line, rows_of
from support.places import ROOT
from support.process import run_cli
from support.tables import HEADER, MAPPING, ROWS, mapping, text_table

from pybatsched.errors import InputError
from pybatsched.workload import load
from pybatsched.workload.checks.lint import lint
from pybatsched.workload.formats.conversion import NO_RUN_TIME
from pybatsched.workload.formats.detection import format_of
from pybatsched.workload.logs.cells import InvalidCell
from pybatsched.workload.logs.conversion import ATTEMPT, LARGEST, RENAMED, to_workload
from pybatsched.workload.logs.records import AMBIGUOUS, COPY, MISSING_TIMES, NOT_STARTED
from pybatsched.workload.logs.tables import reader
from pybatsched.workload.logs.tables.files import delimiter_of, open_table
from pybatsched.workload.logs.tables.mapping import mapping_of
from pybatsched.workload.logs.tables.proposal import QUESTION, describe_table
from pybatsched.workload.logs.tables.reader import BY_STATE, read_table

JOBS = [
    {"id": "7", "subtime": 0, "res": 4, "profile": "600", "walltime": 1800, "user": "eve", "exit_state": "COMPLETED",
     "status": 1, "nodes": 4, "requested_time": 1800, "logged_wait_s": 60},
    {"id": "8", "subtime": 10, "res": 8, "profile": "60", "walltime": 300, "user": "bob", "exit_state": "FAILED",
     "status": 0, "nodes": 8, "requested_time": 300, "logged_wait_s": 650},
]  # fmt: skip


def jobs_of(file: Path, mapping_file: str, **how: Any) -> list[dict[str, Any]]:
    return list(load(file, mapping=mapping_file, **how).jobs)


def test_a_table_with_a_mapping(tmp_path: Path) -> None:
    file = text_table(tmp_path, *ROWS)
    assert jobs_of(file, mapping(tmp_path)) == JOBS
    workload = load(file, mapping=mapping(tmp_path))
    assert workload.n_procs == 8  # the jobs do not overlap
    assert workload.about["conversion"]["mapping"] == "mapping.toml"
    assert workload.about["conversion"]["size_in"] == "nodes"


@pytest.mark.parametrize("delimiter", list(",;|\t:^ "))
def test_any_delimiter_is_found(tmp_path: Path, delimiter: str) -> None:
    rows = [one.replace(",", delimiter) if delimiter != ":" else one for one in ROWS]
    if delimiter == ":":  # times have colons
        rows = [
            one.replace("2024-01-01T00:", "").replace(",", ":")
            for one in ("7,1704067200,1704067260,1704067860,30,4,eve,CD",)
        ]
    file = text_table(tmp_path, *rows, header=HEADER.replace(",", delimiter))
    assert jobs_of(file, mapping(tmp_path))[0] == JOBS[0]


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("a,b c,d", ","),
        ("a b c", " "),
        ("a|b,c|d|e", "|"),
        ('"a;b";c;d', ";"),
        ("a\tb (x,y)\tc", "\t"),
        ("JOB_ID~N.x~t", "~"),
    ],
)
def test_delimiters(header: str, found: str) -> None:
    assert delimiter_of(header) == found


@pytest.mark.parametrize("kind", ["gz", "zst", "bom", "crlf", "quotes", "blank", "again", "two frames"])
def test_the_same_table_in_other_files(tmp_path: Path, kind: str) -> None:
    file = text_table(tmp_path, *ROWS)
    text = file.read_bytes()
    lines = text.splitlines(keepends=True)
    others = {
        "gz": lambda: gzip.compress(text),
        "zst": lambda: zstandard.compress(text),
        "two frames": lambda: zstandard.compress(text[:50]) + zstandard.compress(text[50:]),
        "bom": lambda: b"\xef\xbb\xbf" + text,
        "crlf": lambda: text.replace(b"\n", b"\r\n"),
        "quotes": lambda: text.replace(b"eve", b'"eve"').replace(b"job,", b'"job",'),
        "blank": lambda: b"\n" + lines[0] + b"\n" + b"".join(lines[1:]) + b"\n\n",
        "again": lambda: lines[0] + lines[1] + lines[0] + lines[2],
    }
    file.write_bytes(others[kind]())
    assert jobs_of(file, mapping(tmp_path)) == JOBS


def test_quoted_texts_with_delimiters_and_line_ends(tmp_path: Path) -> None:
    file = text_table(tmp_path, ROWS[0].replace("eve", '"eve, ""x""\n7,8"'), ROWS[1])
    found = rows_of(read_table(file, mapping=mapping(tmp_path)))
    assert [(job.line, job.user) for job in found] == [(2, 'eve, "x"\n7,8'), (4, "bob")]


def test_quotes_that_make_two_rows_one(tmp_path: Path) -> None:
    """Each row has a quote too many, in the same column: as one record, both have the right number of cells."""
    odd = [row.replace(name, f'"{name}') for row, name in zip(ROWS, ("eve", "bob"), strict=True)]
    file = text_table(tmp_path, *odd, ROWS[0].replace("7,", "9,", 1))
    with pytest.raises(
        InputError, match=r"line 2: expected a line of CSV: .*; the text of a cell continues up to line 3"
    ):
        read_table(file, mapping=mapping(tmp_path))
    log = read_table(file, mapping=mapping(tmp_path), lenient=True)
    assert [job.number for job in rows_of(log)] == [9]
    assert [(rule_count.count, rule_count.places) for rule_count in log.bad.values()] == [(2, [2, 3])]


def test_records_of_several_lines_count_with_all_their_lines(tmp_path: Path) -> None:
    file = text_table(tmp_path, ROWS[0].replace("eve", '"eve'), *["x"] * 5, 'y",z,z', ROWS[1])
    log = read_table(file, mapping=mapping(tmp_path), lenient=True)
    assert [job.number for job in rows_of(log)] == [8]
    assert [(rule_count.count, rule_count.places[0]) for rule_count in log.bad.values()] == [(7, 2)]


def test_texts_in_another_encoding(tmp_path: Path) -> None:
    file = text_table(tmp_path, *ROWS)
    file.write_bytes(file.read_bytes().replace(b"eve", "ève".encode("latin-1")))
    assert jobs_of(file, mapping(tmp_path))[0]["user"] == "ève"
    file.write_bytes(text_table(tmp_path, *ROWS).read_text().encode("utf-16"))
    with pytest.raises(InputError, match="found UTF-16; convert it first"):
        read_table(file, mapping=mapping(tmp_path))


@pytest.mark.parametrize(
    ("cell", "column", "seconds"),
    [
        ("90", '{ column = "limit", unit = "s" }', 90),
        ("90", '{ column = "limit", unit = "min" }', 5400),
        ("1.5", '{ column = "limit", unit = "h" }', 5400),
        ("2", '{ column = "limit", unit = "d" }', 172_800),
        ("90000", '{ column = "limit", unit = "ms" }', 90),
        ("1-12:00:00", '"limit"', 129_600),
        ("36:00:00", '{ column = "limit", unit = "min" }', 129_600),
        ("1 days 12:00:00", '"limit"', 129_600),
        ("UNLIMITED", '{ column = "limit", unit = "min" }', None),
        ("4294967295", '{ column = "limit", unit = "min" }', None),
        ("", '"limit"', None),
        ("0", '"limit"', None),
    ],
)
def test_units_of_durations(tmp_path: Path, cell: str, column: str, seconds: float | None) -> None:
    text = MAPPING.replace('{ column = "limit", unit = "min" }', column)
    file = text_table(tmp_path, ROWS[0].replace(",30,", f",{cell},"), ROWS[1])
    job = rows_of(read_table(file, mapping=mapping(tmp_path, text)))[0]
    assert job.requested_s == seconds
    assert job.time_limit == ("UNLIMITED" if cell in {"UNLIMITED", "4294967295"} else None)


@pytest.mark.parametrize(
    ("cell", "column", "at"),
    [
        ("2024-01-01T00:00:00", '"submitted"', 1704067200),
        ("2024-01-01 00:00:00.5", '"submitted"', 1704067200.5),
        ("2024-01-01T01:00:00+01:00", '"submitted"', 1704067200),
        ("1704067200", '"submitted"', 1704067200),
        ("1704067200.25", '{ column = "submitted", unit = "s" }', 1704067200.25),
        ("1704067200000", '{ column = "submitted", unit = "ms" }', 1704067200),
        ("1704067200000000", '{ column = "submitted", unit = "us" }', 1704067200),
        ("01/01/2024 00:00", '{ column = "submitted", format = "%d/%m/%Y %H:%M" }', 1704067200),
    ],
)
def test_units_of_times(tmp_path: Path, cell: str, column: str, at: float) -> None:
    text = MAPPING.replace('submit = "submitted"', f"submit = {column}")
    file = text_table(tmp_path, ROWS[0].replace("2024-01-01T00:00:00", cell))
    assert rows_of(read_table(file, mapping=mapping(tmp_path, text)))[0].submitted_at == at


_DECIMALS = """\
[table]
decimal = ","
unknown = ["-1,5"]
[columns]
submit = "s"
run_time = { column = "r", unit = "min" }
limit = "l"
nodes = "n"
memory = { column = "m", unit = "GB" }
requested_cores = { column = "tres", resource = ["1"] }
energy = "j"
priority = "prio"
"""


def test_decimal_commas(tmp_path: Path) -> None:
    header = "s;r;l;n;m;tres;j;prio"
    cells = ["1704067200,25", "1,5", "0:10:00,5", "4,0", "1,5G", "1=40,2=8192", "1.234,5", "-3,5"]
    file = text_table(tmp_path, ";".join(cells), "1704067201;2;90;1;2;1=1;-1,5;N/A", header=header)
    first, second = rows_of(read_table(file, mapping=mapping(tmp_path, _DECIMALS)))
    assert (first.submitted_at, first.run_s, first.requested_s, first.energy_j) == (1704067200.25, 90, 600.5, 1234.5)
    assert (first.allocated_nodes, first.requested_cores, first.priority) == (4, 40, -3.5)
    assert (first.memory_gb, second.run_s, second.energy_j) == (1.5, 120, None)
    quoted = text_table(tmp_path, ",".join(f'"{cell}"' for cell in cells), header=header.replace(";", ","))
    assert rows_of(read_table(quoted, mapping=mapping(tmp_path, _DECIMALS))) == [first]


@pytest.mark.parametrize(("cell", "point"), [("1.234", True), ("1.5G", True), ("1.234.567", False), ("1,2,3", False)])
def test_numbers_that_decimal_commas_make_ambiguous(tmp_path: Path, cell: str, point: bool) -> None:
    file = text_table(tmp_path, f"10;2;90;1;{cell};;;", header="s;r;l;n;m;tres;j;prio")
    with pytest.raises(InputError) as caught:
        read_table(file, mapping=mapping(tmp_path, _DECIMALS))
    assert f'found "{cell}"' in str(caught.value)
    assert ('expected a number without points, because the mapping has decimal = ","' in str(caught.value)) == point


def test_time_zones_and_an_origin(tmp_path: Path) -> None:
    file = text_table(tmp_path, *ROWS)
    there = read_table(file, mapping=mapping(tmp_path, MAPPING.replace("[table]", '[table]\ntimezone = "Asia/Tokyo"')))
    assert rows_of(there)[0].submitted_at == 1704067200 - 9 * 3600
    assert rows_of(read_table(file, mapping=mapping(tmp_path), timezone="Asia/Tokyo")) == rows_of(there)
    relative = text_table(tmp_path, "1,0,5,10,1,2,a,CD", name="relative.csv")
    log = read_table(
        relative, mapping=mapping(tmp_path, MAPPING.replace("[table]", '[table]\norigin = "2024-01-01T00:00:00"'))
    )
    assert (rows_of(log)[0].submitted_at, rows_of(log)[0].run_s) == (1704067200, 5)


def test_hours_that_exist_twice_or_never(tmp_path: Path) -> None:
    """On 27 October 2024 clocks in Paris go from 03:00 back to 02:00, on 31 March from 02:00 to 03:00."""
    day = "2024-10-27T"
    file = text_table(
        tmp_path,
        f"1,{day}01:50:00,{day}02:50:00,{day}02:10:00,60,1,a,CD",  # 00:50 to 01:10 in UTC
        f"2,{day}02:50:00,{day}02:10:00,{day}02:30:00,60,1,a,CD",  # submitted 00:50, ran from 01:10 to 01:30
        f"3,{day}02:10:00,{day}02:20:00,{day}02:50:00,60,1,a,CD",  # all three in the first hour
    )
    log = read_table(file, mapping=mapping(tmp_path), timezone="Europe/Paris")
    midnight = 1729987200  # 2024-10-27 00:00 in UTC
    assert [(job.submitted_at, job.started_at, job.ended_at) for job in rows_of(log)] == [
        (midnight - 600, midnight + 3000, midnight + 4200),
        (midnight + 3000, midnight + 4200, midnight + 5400),
        (midnight + 600, midnight + 1200, midnight + 3000),
    ]
    assert (log.notes, log.n_missing) == ([AMBIGUOUS.format(8)], 0)
    day = "2024-03-31T"
    file = text_table(tmp_path, f"1,{day}01:00:00,{day}01:30:00,{day}02:30:00,60,1,a,CD")
    log = read_table(file, mapping=mapping(tmp_path), timezone="Europe/Paris")
    assert (rows_of(log)[0].run_s, log.n_missing) == (3600, 1)
    found = lint(file, mapping=mapping(tmp_path), timezone="Europe/Paris")
    assert MISSING_TIMES in found.findings
    rules = load(file, mapping=mapping(tmp_path), timezone="Europe/Paris").about["report"]["rules"]
    assert f"{MISSING_TIMES}: read as an hour later (1 times)" in rules


def test_states_that_are_dropped_kept_and_named(tmp_path: Path) -> None:
    file = text_table(tmp_path, *ROWS, ROWS[0].replace("7,", "9,", 1).replace("COMPLETED", "done"))
    names = '\n[states.names]\ndone = "COMPLETED"\n'
    log = read_table(file, mapping=mapping(tmp_path, f'{MAPPING}\n[states]\ndrop = ["failed"]{names}'))
    assert [job.number for job in rows_of(log)] == [7, 9]
    assert [(rule_count.rule, rule_count.places) for rule_count in log.rule_counts] == [(BY_STATE, [3])]
    log = read_table(file, mapping=mapping(tmp_path, f'{MAPPING}\n[states]\nkeep = ["FAILED"]{names}'))
    assert [job.number for job in rows_of(log)] == [8]
    with pytest.raises(InputError, match=r'line 4: field state, column state: expected a state .*, found "done"'):
        read_table(file, mapping=mapping(tmp_path))


def test_other_columns(tmp_path: Path) -> None:
    text = """\
[table]
size_in = "gpus"
unknown = ["-1"]
[columns]
submit = "s"
wait = "w"
run_time = { column = "r", unit = "min" }
eligible = "e"
nodes = "n"
gpus = { column = "g", per = "node" }
requested_cores = "c"
memory = { column = "m", unit = "GB", per = "node" }
used_memory = { column = "um", unit = "KB" }
energy = { column = "j", unit = "kWh" }
power = { column = "p", unit = "kW", per = "node" }
priority = "prio"
account = "a"
qos = "q"
partition = "part"
dependency = "d"
"""
    header = "s,w,r,e,n,g,c,m,um,j,p,prio,a,q,part,d"
    rows = (
        "1704067200,10,2,1704067205,2,4,96,8,1048576,0.5,1.5,17,acc,high,gpu,",
        "1704067201,-1,1,,1,4,-1,-1,,,,,,,,afterok:1",
    )
    first, second = jobs_of(text_table(tmp_path, *rows, header=header), mapping(tmp_path, text))
    assert first == {
        "id": "2", "subtime": 0, "res": 8, "profile": "120", "walltime": 121, "estimate": 120, "account": "acc",
        "partition": "gpu", "qos": "high", "queue": "gpu", "nodes": 2, "gpus": 8, "priority": 17, "logged_wait_s": 10,
        "eligible_at": 5, "eligible_after_s": 5, "memory_gb": 2, "used_memory_gb": 1, "energy_j": 1_800_000,
        "mean_power_w": 3000,
    }  # fmt: skip
    assert (second["res"], second["dependency"]) == (4, "afterok:1")


@pytest.mark.parametrize(("cell", "priority"), [("12.75", 12.75), ("-3", -3), ("7.0", 7), ("N/A", None)])
def test_priorities_are_any_numbers(tmp_path: Path, cell: str, priority: float | None) -> None:
    file = text_table(tmp_path, f"{ROWS[0]},{cell}", header=f"{HEADER},prio")
    (job,) = jobs_of(file, mapping(tmp_path, MAPPING + 'priority = "prio"\n'))
    assert job.get("priority") == priority


def test_ids_that_are_names(tmp_path: Path) -> None:
    rows = [ROWS[0].replace("7,", "app_1!x,", 1), ROWS[1].replace("8,", "b.2,", 1)]
    assert [job["id"] for job in jobs_of(text_table(tmp_path, *rows), mapping(tmp_path))] == ["app_1_x", "b.2"]
    rows = [ROWS[0], ROWS[1].replace("8,", "7,", 1)]
    assert [job["id"] for job in jobs_of(text_table(tmp_path, *rows), mapping(tmp_path))] == ["7", "7-2"]


def test_ids_are_unique_and_dependencies_name_those_of_the_table(tmp_path: Path) -> None:
    ids = (("1", ""), ("1", "x"), ("1-2", "afterok:1-2"), ("a b", ""), ("a_b", "afterok:a b"), ('"a,b"', "1-2:a_b"))
    rows = [f"{one},{10 * k},5,1,{after}" for k, (one, after) in enumerate(ids)]
    file = text_table(tmp_path, *rows, header="job,submit,run_time,nodes,dependency")
    workload, report = to_workload(read_table(file, mapping=mapping(tmp_path, describe_table(file))))
    found = [(job["id"], job.get("depends_on")) for job in workload.jobs]
    assert found == [
        ("1", None), ("1-3", None), ("1-2", None), ("a_b-2", None), ("a_b", "afterok:a_b-2"),
        ("a_b-3", "afterany:1-2,afterany:a_b"),
    ]  # fmt: skip
    assert (counts(report)[ATTEMPT], counts(report)[RENAMED]) == ((1, [3]), (2, [5, 7]))


def test_without_starts_the_machine_is_as_large_as_the_largest_job(tmp_path: Path) -> None:
    file = text_table(tmp_path, "10,5,2", "10,5,3", header="submit,run_time,nodes")
    given = str(mapping(tmp_path, describe_table(file)))
    made, report = to_workload(read_table(file, mapping=given))
    assert (made.n_procs, LARGEST.format("nodes", 3) in report.rule_counts) == (3, True)
    assert "the size of the machine is an estimate: the nodes of the largest job" in {
        one.what for one in lint(file, mapping=given).findings.values()
    }


def test_names_of_times_are_recognised(tmp_path: Path) -> None:
    proposed = describe_table(text_table(tmp_path, "10,12,20,3", header="sent,started_on,ended_on,cores"))
    assert all(text in proposed for text in ('submit = { column = "sent"', '"started_on"', '"ended_on"'))


def test_rows_without_a_run_time(tmp_path: Path) -> None:
    file = text_table(tmp_path, "10,5,1,CD", "20,,1,CD", "30,,1,PD", "40,,1,", header="submit,run_time,nodes,state")
    jobs = rows_of(read_table(file, mapping=mapping(tmp_path, describe_table(file))))
    assert [job.left_out for job in jobs] == [None, NO_RUN_TIME, NOT_STARTED, NO_RUN_TIME]


def test_jobs_of_unknown_run_time_are_kept_with_the_least_one(tmp_path: Path) -> None:
    file = text_table(tmp_path, "5,,1,CD", "10,0,1,CD", "20,50,1,CD", "30,,1,PD", header="submit,run_time,nodes,state")
    given = mapping(tmp_path, describe_table(file))
    assert [job["id"] for job in jobs_of(file, given)] == ["4"]
    jobs = jobs_of(file, given, min_runtime_s=7)
    assert [(job["subtime"], job["profile"]) for job in jobs] == [(0, "7"), (5, "7"), (15, "50")]
    log = tmp_path / "log.swf"
    log.write_text("".join(f"{line(k, at, run=run)}\n" for k, (at, run) in enumerate([(5, -1), (10, 0), (20, 50)])))
    jobs = list(load(log, min_runtime_s=7).jobs)
    assert [(job["subtime"], job["profile"]) for job in jobs] == [(5, "7"), (10, "7"), (20, "50")]


def test_rows_that_repeat_another(tmp_path: Path) -> None:
    log = read_table(text_table(tmp_path, *ROWS, ROWS[0]), mapping=mapping(tmp_path))
    assert (len(log), [(rule_count.rule, rule_count.places) for rule_count in log.rule_counts]) == (2, [(COPY, [4])])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("2024-01-01T00:00:00", "-5", r"field submit, column submitted: expected a time, 0 or later, found \"-5\""),
        ("2024-01-01T00:00:00", "yesterday", "field submit, column submitted: expected seconds since 1970, or a time"),
        ("2024-01-01T00:00:00", "1704067200000", r"before the year 10000 \(is the unit right\?\)"),
        (
            "2024-01-01T00:00:00",
            "",
            "field submit, column submitted: expected a time, because the job ran .*, found nothing",
        ),
        (
            "2024-01-01T00:11:00",
            "2023-01-01T00:11:00",
            "field end, column ended: expected a time that is not before the start",
        ),
        (",30,", ",-3,", r"field limit, column limit: expected a duration in min, or such as 1-12:00:00, found \"-3\""),
        (",30,", ",99999999,", r"at most a century \(is the unit right\?\)"),
        (",4,", ",0,", "field nodes, column nodes: expected at least 1, because the job ran, found 0"),
        (",4,", ",4.5,", r"field nodes, column nodes: expected a whole number, 0 or more, found \"4.5\""),
        (",4,", ",many,", "field nodes, column nodes: expected a whole number"),
        (",4,", ",3000000000,", r"expected a whole number, 0 or more, at most 2,147,483,647, found \"3000000000\""),
        ("2024-01-01T00:00:00", "01/31/2024", r"\(the mapping of a column can have another format\), found"),
        ("2024-01-01T00:00:00", "0", "because the job ran \\(0 is an unknown time, unless the mapping has an origin"),
        ("2024-01-01T00:00:00", '"137,5"', 'column submitted: .*, found "137,5"; a decimal comma needs decimal = ","'),
        (",30,", ',"30,25",', 'column limit: .*, found "30,25"; a decimal comma needs decimal = ","'),
        ("7,", ",", "field id, column job: expected a job id"),
        ("COMPLETED", "odd", "field state, column state: expected a state of Slurm"),
        ("eve,", "eve,x,", "expected 8 fields, found 9"),
    ],
)
def test_invalid_rows(tmp_path: Path, old: str, new: str, message: str) -> None:
    """Strict reading names the file, the line and the column. Lenient reading drops the row and counts it."""
    file = text_table(tmp_path, ROWS[1], ROWS[0].replace(old, new, 1))
    with pytest.raises(InputError, match=f"^{file}: line 3: .*{message}"):
        read_table(file, mapping=mapping(tmp_path))
    log = read_table(file, mapping=mapping(tmp_path), lenient=True)
    assert [job.number for job in rows_of(log)] == [8]
    assert [rule_count.places for rule_count in log.bad.values()] == [[3]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected a table, found an empty file"),
        (b"\n \n", "expected a table, found an empty file"),
        (b"5312341,756,21,1703688808\n", "line 1: expected a header with the names of columns, found a row of values"),
        (b"one\n1\n", "line 1: expected a header with the names of columns"),
        (b"job,submitted,began\0,ended,limit,nodes,who,state\n", "line 1: expected text, found a binary file"),
        (
            HEADER.encode() + b"\n" + ROWS[0].encode().replace(b"eve", b"\0") + b"\n",
            "line 2: expected text, found a binary",
        ),
        (HEADER.encode() + b"\n", "expected a table with jobs, found a header alone"),
        (HEADER.replace("who", "job").encode() + b"\n", "expected once, found twice"),
        (b"PAR1 and no more", "the Parquet data is truncated or damaged"),
        (b"[{}", "line 1:4: expected an array of JSON objects, or an object on each line, found broken JSON"),
        (b'{"a": 1}\n{"a"', r"line 2:5: .*, found broken JSON \(is the file complete\?\): Expecting ':'"),
        (f"; MaxProcs: 8\n{line()}\n".encode(), "line 1: expected a table, found a log in SWF, which needs no mapping"),
        (f"{line()}\n".encode(), "line 1: expected a table, found a log in SWF, which needs no mapping"),
        (bytes(range(128, 256)) * 9, "line 1: expected a header with the names of columns, found a binary file"),
        (b'[{"a": 1}, 2]', "row 2: expected a JSON object, found 2"),
        (zstandard.compress(b"a,b,c\n" * 99)[:-5], "the zstd data is truncated"),
        (b"\x28\xb5\x2f\xfd damaged data that is not zstd", "the zstd data is damaged"),
    ],
)
def test_files_that_are_not_tables_are_rejected(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "jobs"
    file.write_bytes(content)
    for lenient in (False, True):
        with pytest.raises(InputError, match=message) as caught:
            read_table(file, mapping=mapping(tmp_path), lenient=lenient)
        assert str(file) in str(caught.value)


def test_a_table_may_start_with_an_empty_name_and_a_semicolon(tmp_path: Path) -> None:
    assert open_table(text_table(tmp_path, "0;1;2", header=";job;n")).columns == ["", "job", "n"]


def test_parquet_half_written_and_directories(tmp_path: Path) -> None:
    columns = {name: [row.split(",")[i] for row in ROWS] for i, name in enumerate(HEADER.split(","))}
    folder = tmp_path / "months"
    folder.mkdir()
    tables.parquet(folder / "2.parquet", {name: cells[1:] for name, cells in columns.items()})
    tables.parquet(folder / "1.parquet", {name: cells[:1] for name, cells in columns.items()})
    (folder / "README").write_text("not a table")
    assert format_of(folder) == "table"
    log = read_table(folder, mapping=mapping(tmp_path))
    assert [(job.number, job.line) for job in rows_of(log)] == [(7, 1), (8, 2)]
    assert log.where == "row"
    assert jobs_of(folder, mapping(tmp_path)) == JOBS
    whole = (folder / "2.parquet").read_bytes()
    (folder / "2.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"2.parquet: the Parquet data is truncated or damaged"):
        read_table(folder, mapping=mapping(tmp_path))
    tables.parquet(folder / "2.parquet", {"other": [1]})
    with pytest.raises(InputError, match=r"2.parquet: expected a column 'job', as the other files of the table have"):
        read_table(folder, mapping=mapping(tmp_path))


def test_types_of_parquet(tmp_path: Path) -> None:
    from datetime import UTC, datetime, timedelta

    frame = pl.DataFrame(
        {
            "job": [7, 8],
            "submitted": [datetime(2024, 1, 1), datetime(2024, 1, 1, 0, 0, 10)],  # noqa: DTZ001  without a zone
            "began": [datetime(2024, 1, 1, 0, 1, tzinfo=UTC), datetime(2024, 1, 1, 0, 11, tzinfo=UTC)],
            "ended": [datetime(2024, 1, 1, 0, 11, tzinfo=UTC), datetime(2024, 1, 1, 0, 12, tzinfo=UTC)],
            "limit": [timedelta(minutes=30), timedelta(minutes=5)],
            "nodes": [4.0, 8.0],
            "who": pl.Series(["eve", "bob"], dtype=pl.Categorical),
            "state": ["COMPLETED", "FAILED"],
        }
    )
    frame.write_parquet(tmp_path / "t.parquet")
    for unit in ("min", "s"):  # a duration has its own unit
        text = MAPPING.replace('unit = "min"', f'unit = "{unit}"')
        assert jobs_of(tmp_path / "t.parquet", mapping(tmp_path, text)) == JOBS


def test_times_of_parquet_have_no_unit_and_no_origin(tmp_path: Path) -> None:
    from datetime import UTC, datetime

    times = [datetime(2024, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, tzinfo=UTC)]
    columns = {"s": times, "r": [5, 5], "n": [1, 1]}
    text = '[columns]\nsubmit = { column = "s", unit = "ms" }\nrun_time = "r"\nnodes = "n"\n'
    for unit in ("ms", "us", "ns"):
        frame = pl.DataFrame(columns).with_columns(pl.col("s").cast(pl.Datetime(unit, "UTC")))
        frame.head(1).write_parquet(tmp_path / "t.parquet")
        assert (
            rows_of(read_table(tmp_path / "t.parquet", mapping=mapping(tmp_path, text)))[0].submitted_at == 1704067200
        )
    frame.write_parquet(tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"row 2: field submit, column s: expected a time, because the job ran"):
        read_table(tmp_path / "t.parquet", mapping=mapping(tmp_path, text))


def test_binary_texts_of_parquet(tmp_path: Path) -> None:
    pl.DataFrame({"s": [10, 20], "r": [5, 5], "n": [b"1", b"2"], "u": [b"ann", b"\xff"]}).write_parquet(
        tmp_path / "t.parquet"
    )
    text = '[columns]\nsubmit = "s"\nrun_time = "r"\nnodes = "n"\nuser = "u"\n'
    jobs = jobs_of(tmp_path / "t.parquet", mapping(tmp_path, text))
    assert [(job["res"], job["user"]) for job in jobs] == [(1, "ann"), (2, "\xff")]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_dates_that_look_like_numbers(tmp_path: Path, kind: str) -> None:
    """With a format, 20240131 is a date and not seconds since 1970."""
    text = '[columns]\nsubmit = { column = "s", format = "%Y%m%d" }\nrun_time = "r"\nnodes = "n"\n'
    file = tmp_path / f"t.{kind}"
    if kind == "csv":
        file.write_text("s,r,n\n20240131,5,1\n", encoding="utf-8")
    else:
        tables.parquet(file, {"s": [20240131], "r": [5], "n": [1]})
    assert rows_of(read_table(file, mapping=mapping(tmp_path, text)))[0].submitted_at == 1706659200


@pytest.mark.parametrize("zero", ["0", "0.0"])
def test_0_is_no_time_with_a_format_too(tmp_path: Path, zero: str) -> None:
    """Job 8 was cancelled before its start."""
    text = MAPPING.replace('"began"', '{ column = "began", format = "%Y-%m-%dT%H:%M:%S" }')
    file = text_table(tmp_path, ROWS[0], "8,2024-01-01T00:00:10,0,2024-01-01T00:12:00,5,8,bob,CANCELLED")
    file.write_text(file.read_text(encoding="utf-8").replace(",0,", f",{zero},"), encoding="utf-8")
    log = read_table(file, mapping=mapping(tmp_path, text))
    assert [job.started_at for job in rows_of(log)] == [1704067260, None]
    file.write_text(file.read_text(encoding="utf-8").replace(f",{zero},", ",1,"), encoding="utf-8")
    with pytest.raises(InputError, match=r"line 3: .*expected a time as %Y-%m-%dT%H:%M:%S, found .1"):
        read_table(file, mapping=mapping(tmp_path, text))


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize(
    "names",
    [
        "job,began,submitted,ended,limit,nodes,who,state",
        "state,submitted,began,ended,limit,nodes,who,job",
        "job,submitted,began,limit,ended,nodes,queue,state",
        "queue,submitted,job,x,y,z,u,v",
    ],
)
def test_another_header_in_the_file(tmp_path: Path, names: str, lenient: bool) -> None:
    file = text_table(tmp_path, ROWS[0], names, ROWS[1])
    with pytest.raises(
        InputError, match=r"line 3: expected the columns of the first header in its order, found others, "
    ):
        read_table(file, mapping=mapping(tmp_path), lenient=lenient)
    file.write_text("\n".join([HEADER, ROWS[0], HEADER, ROWS[1].replace("bob", "job")]), encoding="utf-8")
    assert [job["user"] for job in jobs_of(file, mapping(tmp_path))] == ["eve", "job"]


@pytest.mark.parametrize("lenient", [False, True])
def test_another_header_without_ids(tmp_path: Path, lenient: bool) -> None:
    """Without ids, all columns that are read make a header. A user named as the column of times is none."""
    text = '[columns]\nsubmit = "s"\nrun_time = "r"\nnodes = "n"\n'
    (tmp_path / "t.csv").write_text("s,r,n,u\n5,9,1,s\nx,n,r,s\n7,9,1,a\n", encoding="utf-8")
    with pytest.raises(InputError, match="line 3: expected the columns of the first header in its order"):
        read_table(tmp_path / "t.csv", mapping=mapping(tmp_path, text), lenient=lenient)


def test_zstd_that_starts_with_a_frame_to_skip(tmp_path: Path) -> None:
    content = "\n".join([HEADER, *ROWS]).encode()
    file = tmp_path / "t.csv.zst"
    file.write_bytes(
        b"\x5f\x2a\x4d\x18\x02\0\0\0ab" + zstandard.compress(content[:80]) + zstandard.compress(content[80:])
    )
    assert jobs_of(file, mapping(tmp_path)) == JOBS


def test_a_missing_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    file = tmp_path / "t"
    file.write_bytes(zstandard.compress(b"a,b\n"))
    with pytest.raises(InputError, match=r"run pip install '\.\[traces\]' in a clone of pybatsched"):
        read_table(file, mapping=mapping(tmp_path))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('nodes = "nodes"', 'nodes = "node"',
         r"line 9: columns.nodes: expected a column of .*, found 'node'; similar: nodes"),
        ('nodes = "nodes"', 'nodez = "nodes"',
         "line 9: columns.nodez: unknown key; expected one of id, submit, .*; similar: nodes"),
        ('unit = "min"', 'unit = "minutes"',
         "line 8: columns.limit.unit: expected one of auto, s, min, .*, found 'minutes'"),
        ('nodes = "nodes"', 'nodes = { column = "nodes", unit = "s" }',
         "line 9: columns.nodes.unit: expected none, because nodes has no unit, found 's'"),
        ('nodes = "nodes"', 'nodes = { unit = "s" }', "columns.nodes.column: expected the name of a column"),
        ('nodes = "nodes"', "nodes = 3", "columns.nodes: expected a table, found 3"),
        ('submit = "submitted"\n', "", "line 3: columns: expected submit, found id"),
        ('end = "ended"\n', "", "columns: expected run_time, or start and end"),
        ('nodes = "nodes"\n', "", "columns: expected a size"),
        ('size_in = "nodes"', 'size_in = "racks"',
         "line 2: table.size_in: expected one of cores, nodes, gpus, found 'racks'"),
        ('size_in = "nodes"', 'delimiter = "ab"', "table.delimiter: expected one character"),
        ('size_in = "nodes"', 'decimal = ";"', "line 2: table.decimal: expected one of ., ,, found ';'"),
        ('size_in = "nodes"', 'zone = "UTC"', "table.zone: unknown key; expected one of timezone"),
        ('size_in = "nodes"', 'timezone = "Mars"', "line 2: table.timezone: time zone 'Mars': expected a name of the"),
        ('size_in = "nodes"', 'origin = "then"', "table.origin: expected seconds since 1970"),
        ("[columns]", '[states.names]\nCOMPLETED = "Foo"\n[columns]',
         "mapping.toml: line 4: states.names.COMPLETED: expected a state of Slurm"),
        ('"submitted"', '{ column = "submitted", format = "%d", unit = "ms" }',
         "line 5: columns.submit.unit: expected none, because submit has a format, found 'ms'"),
        ('"submitted"', '{ column = "submitted", format = "%Q" }',
         "columns.submit.format: expected a format of strptime such as .*, found '%Q'"),
        ("[table]", "[tables]", "line 1: tables: unknown key; expected one of table, columns, states; similar: table"),
        ("[table]", "[table",
         r"mapping.toml: line 1:7: expected TOML: expected '\]' at the end of a table declaration"),
    ],
)  # fmt: skip
def test_invalid_mappings(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in MAPPING
    with pytest.raises(InputError, match=message):
        read_table(text_table(tmp_path, *ROWS), mapping=mapping(tmp_path, MAPPING.replace(old, new, 1)))


def test_a_table_of_no_public_set_needs_a_mapping(tmp_path: Path) -> None:
    file = text_table(tmp_path, *ROWS)
    assert format_of(file) == "table"
    with pytest.raises(InputError, match="expected the columns of a public set .*describe-table FILE.*use mapping"):
        load(file)
    with pytest.raises(InputError, match="format 'pm100': cannot be used with a mapping"):
        load(file, format="pm100", mapping=mapping(tmp_path))
    with pytest.raises(InputError, match="format 'pm': expected one of batsim, swf"):
        load(file, format="pm")
    with pytest.raises(InputError, match=r"none.toml: cannot be read"):
        load(file, mapping=str(tmp_path / "none.toml"))


@pytest.mark.parametrize(
    "header",
    [
        "job_id,submit_time,run_time,nodes",
        "jobid,submit,runtime,procs",
        "job_id,submit,duration,cores",
        "job_id,submit,start,nodes",
        "Job ID,user,elapsed,ncpus",
    ],
)
def test_a_table_with_some_columns_of_slurm_is_no_log_of_slurm(header: str, tmp_path: Path) -> None:
    """Many tables have a column job_id: the error must not ask for the columns of `sacct`."""
    folder = tmp_path / "logs"
    folder.mkdir()
    file = text_table(folder, "1,0,10,2", "2,5,20,4", header=header, name="a.csv")
    assert format_of(file) == format_of(folder) == "table"
    assert "Slurm" not in describe_table(file)
    for path in (file, folder):
        with pytest.raises(
            InputError, match=f"a.csv: expected the columns of a public set .*{header[:6]}.*use mapping"
        ):
            load(path)


def test_a_directory_of_workloads_of_batsim_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text((ROOT / "examples" / "workload.json").read_text())
    with pytest.raises(InputError, match=r"a.json: .*found a workload of Batsim, .*of a directory, name one file"):
        load(tmp_path)


def test_the_proposed_mapping_reads_the_table(tmp_path: Path) -> None:
    header = "Job Number;arrival;start_time;end_time;walltime_min;num_nodes;owner;final_state;odd one"
    file = text_table(tmp_path, *(f"{row},x".replace(",", ";") for row in ROWS), header=header)
    proposed = describe_table(file)
    assert "#   odd one such as x" in proposed
    assert 'limit = { column = "walltime_min", unit = "min" }' in proposed
    assert jobs_of(file, mapping(tmp_path, proposed)) == JOBS
    odd = text_table(tmp_path, "1,2,Weird", header="a,b,state", name="odd.csv")
    proposed = describe_table(odd)
    assert "# Missing: the time of submission" in proposed
    assert '"Weird" = "COMPLETED"' in proposed


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("id", "job_id JobID jid"),
        ("submit", "submitted_at queued_at enqueued time_queued submission_date arrival created_ts qtime"),
        ("eligible", "eligible_time eligible_at"),
        ("start", "began started_at begin_time dispatched Start job_start_time time_start launched"),
        ("end", "finished ended_at completed finish_time stopped job_end completion_timestamp"),
        ("run_time", "elapsed_s run_time duration actual_runtime"),
        ("limit", "walltime timelimit_min req_walltime max_runtime run_limit requested_duration"),
        ("cores", "cores cpus ncpus slots n_slots procs nproc num_processors cpu_count"),
        ("requested_cores", "req_cpus requested_cpus cores_requested procs_req"),
        ("nodes", "nodes nnodes num_nodes node_count number_of_nodes"),
        ("user", "who owner uid login submitter job_owner"),
        ("partition", "queue partition_name"),
        ("state", "status outcome job_state"),
    ],
)
def test_usual_names_of_columns_are_recognised(tmp_path: Path, what: str, names: str) -> None:
    for name in names.split():
        proposed = describe_table(text_table(tmp_path, "1,2", header=f"{name},odd"))
        assert re.search(rf'^{what} = .*"{name}"', proposed, re.MULTILINE), proposed


@pytest.mark.parametrize(
    ("limits", "unit"), [((30, 5), "min"), ((1800, 300), "s"), ((30, 300), "s"), (("0:30:00", "0:05:00"), "auto")]
)
@pytest.mark.parametrize("runs", ["began,finished", "began,elapsed"])
def test_limits_shorter_than_most_run_times_are_in_minutes(
    tmp_path: Path, limits: tuple[Any, Any], unit: str, runs: str
) -> None:
    ended = [("2024-01-01T00:11:00", "2024-01-01T00:12:00"), ("600", "60")]["elapsed" in runs]
    rows = [ROWS[k].split(",") for k in (0, 1)]
    rows = [[*row[:3], end, str(limit), *row[5:]] for row, end, limit in zip(rows, ended, limits, strict=True)]
    header = f"job,queued_at,{runs},timelimit,nodes,who,state"
    file = text_table(tmp_path, *map(",".join, rows), header=header)
    proposed = describe_table(file)
    assert f'limit = {{ column = "timelimit", unit = "{unit}" }}' in proposed
    assert ("most jobs ran longer than so many seconds" in proposed) == (unit == "min")
    if unit != "s":
        assert jobs_of(file, mapping(tmp_path, proposed)) == JOBS


_DATED = "job;submitted;began;ended;limit;nodes;memory"


def proposed_lines(file: Path) -> dict[str, str]:
    """Return the keys of a proposed mapping with their values, without comments."""
    lines = [line.partition("  #")[0].partition(" = ") for line in describe_table(file).splitlines()]
    return {key: value for key, equals, value in lines if equals}


def test_the_proposed_mapping_of_a_table_with_decimal_commas_and_dates(tmp_path: Path) -> None:
    row = "7;01.03.2024 12:00;01.03.2024 12:01;01.03.2024 12:11;1800,5;4;1.234,5"
    file = text_table(tmp_path, row, row.replace("7", "8", 1).replace("01.03", "31.03"), header=_DATED)
    assert (
        describe_table(file)
        == f"""\
# Mapping of {file}: 7 columns, found by their names. Check them and the units, then
#   pybatsched workload lint {file} --mapping THIS_FILE
[table]
timezone = "UTC"  # of times without a zone
size_in = "nodes"  # what the sizes of jobs count: cores, nodes or gpus
delimiter = ";"
decimal = ","  # such as 1800,5

[columns]
id = "job"  # such as 7
submit = {{ column = "submitted", format = "%d.%m.%Y %H:%M" }}  # such as 01.03.2024 12:00
start = {{ column = "began", format = "%d.%m.%Y %H:%M" }}  # such as 01.03.2024 12:01
end = {{ column = "ended", format = "%d.%m.%Y %H:%M" }}  # such as 01.03.2024 12:11
limit = {{ column = "limit", unit = "s" }}  # such as 1800,5 (check the unit)
nodes = "nodes"  # such as 4
memory = {{ column = "memory", unit = "MB" }}  # such as 1.234,5 (check the unit)
"""
    )
    (tmp_path / "mapping.toml").write_text(describe_table(file), encoding="utf-8")
    out = tmp_path / "w.json"
    done = run_cli("workload", "convert", str(file), str(out), "--mapping", str(tmp_path / "mapping.toml"))
    assert (done.returncode, done.stderr) == (0, "")
    found = [(job["id"], job["subtime"], job["res"], job["walltime"], job["logged_wait_s"]) for job in load(out).jobs]
    assert found == [("7", 0, 4, 1800.5, 60), ("8", 30 * 86_400, 4, 1800.5, 60)]


@pytest.mark.parametrize(
    ("submitted", "began", "formats"),
    [
        ("13.03.2024 12:00:01", "13.03.2024 12:00:02.5", ("%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M:%S.%f")),
        ("31/01/2024 12:00", "01/02/2024 12:00", ("%d/%m/%Y %H:%M",) * 2),
        ("01/02/2024 12:00", "31/03/2024 12:00", ("%d/%m/%Y %H:%M",) * 2),
        ("1/31/2024 5:07 PM", "1/31/2024, 5:08:00PM", ("%m/%d/%Y %I:%M %p", "%m/%d/%Y, %I:%M:%S%p")),
        ("2024/03/01 1:00", "2024-3-1", ("%Y/%m/%d %H:%M", "%Y-%m-%d")),
        ("13-03-2024T12:00", "2024-03-13T12:00", ("%d-%m-%YT%H:%M", "")),
        ("31.01.2024", "02/13/2024", ("%d.%m.%Y", "%m/%d/%Y")),
        ("03/01/2024", "12.01.2024", ("%d/%m/%Y", "%d.%m.%Y")),  # one order, else the start is too early
        ("05.06.2024", "06.05.2024", ("%m.%d.%Y", "%m.%d.%Y")),
    ],
)
def test_proposed_formats_of_dates(tmp_path: Path, submitted: str, began: str, formats: tuple[str, str]) -> None:
    file = text_table(tmp_path, f"7;{submitted};{began};60;4", header="job;submitted;began;elapsed;nodes")
    found = proposed_lines(file)
    for what, column, form in zip(("submit", "start"), ("submitted", "began"), formats, strict=True):
        assert found[what] == (f'{{ column = "{column}", format = "{form}" }}' if form else f'"{column}"')
    assert rows_of(read_table(file, mapping=mapping(tmp_path, describe_table(file))))[0].run_s == 60


@pytest.mark.parametrize(("late", "form"), [("02.13.2024", "%m.%d.%Y"), ("13.02.2024", "%d.%m.%Y")])
def test_a_date_late_in_the_file_shows_which_number_is_the_day(tmp_path: Path, late: str, form: str) -> None:
    """The row is not among the first megabytes."""
    text = f"1;01.02.2024;60;4;{'x' * 1000}"
    file = text_table(tmp_path, *[text] * 9000, f"1;{late};60;4;x", header="job;submitted;elapsed;nodes;text")
    assert proposed_lines(file)["submit"] == f'{{ column = "submitted", format = "{form}" }}'
    assert QUESTION not in describe_table(file)


@pytest.mark.parametrize(
    ("dates", "form"),
    [
        (("01.11.2024", "01.12.2024", "04.01.2024"), "%m.%d.%Y"),  # else the last is in January, after December
        (("11.03.2024", "12.03.2024", "01.04.2024"), "%d.%m.%Y"),
        (("05.05.2024", "05.05.2024"), "%d.%m.%Y"),
    ],
)
def test_submissions_show_which_number_is_the_day(tmp_path: Path, dates: tuple[str, ...], form: str) -> None:
    file = text_table(tmp_path, *(f"1;{date};60;4" for date in dates), header="job;submitted;elapsed;nodes")
    assert proposed_lines(file)["submit"] == f'{{ column = "submitted", format = "{form}" }}'
    assert QUESTION not in describe_table(file)


@pytest.mark.parametrize(
    ("date", "form", "question"),
    [
        ("01.03.2024", "%d.%m.%Y", "# Is 01.03.2024 the 1st of March? If not, use %m.%d.%Y"),
        ("02-11-2024", "%d-%m-%Y", "# Is 02-11-2024 the 2nd of November? If not, use %m-%d-%Y"),
        ("3/12/2024", "%m/%d/%Y", "# Is 3/12/2024 the 12th of March? If not, use %d/%m/%Y"),
    ],
)
def test_dates_that_the_file_does_not_decide(tmp_path: Path, date: str, form: str, question: str) -> None:
    row = f"7;{date} 10:00;{date} 10:01;{date} 10:11;30;4;1"
    file = text_table(tmp_path, row, header=_DATED)
    assert describe_table(file).count(f"[columns]\n{question}\nid =") == describe_table(file).count(QUESTION) == 1
    assert proposed_lines(file)["end"] == f'{{ column = "ended", format = "{form} %H:%M" }}'
    done = run_cli("workload", "describe-table", str(file))
    assert (done.stdout, done.stderr) == (describe_table(file), f"pybatsched: {question[2:]}\n")


def test_unsorted_submissions_do_not_show_which_number_is_the_day(tmp_path: Path) -> None:
    """With either order, some submissions decrease."""
    rows = (f"1;{date};60;4" for date in ("01.02.2024", "01.03.2024", "01.01.2024"))
    proposed = describe_table(text_table(tmp_path, *rows, header="job;submitted;elapsed;nodes"))
    assert "# Is 01.02.2024 the 1st of February? If not, use %m.%d.%Y\n" in proposed


def test_dates_in_two_formats_in_a_column(tmp_path: Path) -> None:
    file = text_table(tmp_path, "1;31.03.2024;60;4", "2;31.03.2024 00:30;60;4", header="job;submitted;elapsed;nodes")
    assert "; a time such as 31.03.2024 00:30 is an error: a column has one format\n" in describe_table(file)


@pytest.mark.parametrize(
    ("limit", "nodes", "memory", "line"),
    [
        ("30,5", "4", "2", 'decimal = ","  # such as 30,5\n\n'),
        ("30", "4,0", "2", 'decimal = ","  # such as 4,0\n\n'),
        ("1,234", "4", "1,5G", 'decimal = ","  # such as 1,5G\n\n'),
        ("0,250", "4", "2", 'decimal = ","  # such as 0,250\n\n'),
        ("1.5", "4", "1,5",
         'decimal = ","  # such as 1,5\n# Numbers with a point and no comma, such as 1.5, are errors: use one sep'),
        ("1,234", "4", "2", '# Is 1,234 a number with decimals? If so, add decimal = ","\n\n'),
        ("1,234,567", "4", "1,5", "# Commas between thousands, such as 1,234,567, are errors: remove them\n\n"),
        ("1,234.5", "4", "2", "# Commas between thousands, such as 1,234.5, are errors: remove them\n\n"),
        ("30", "4,5", "2", "\n"),
        ("30.5", "4", "2", "\n"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("delimiter", [";", ","])
def test_proposed_decimal_separators(
    tmp_path: Path, limit: str, nodes: str, memory: str, line: str, delimiter: str
) -> None:
    """A number of nodes such as 4,5 is a list of nodes. In CSV with commas the numbers are quoted."""
    cells = ("7", "2024-01-01T00:00:00", "60", limit, nodes, memory)
    row = delimiter.join(f'"{cell}"' for cell in cells)
    header = "job;submitted;elapsed;limit;nodes;memory".replace(";", delimiter)
    proposed = describe_table(text_table(tmp_path, row, header=header))
    assert f'delimiter = "{delimiter}"\n{line}' in proposed
    assert (QUESTION in proposed) == (QUESTION in line)


def test_the_proposed_mapping_reads_quoted_decimal_commas(tmp_path: Path) -> None:
    header = "job,submitted,elapsed,limit,nodes"
    file = text_table(tmp_path, '7,2024-01-01T00:00:00,"60,5","90,25",4', header=header)
    (job,) = rows_of(read_table(file, mapping=mapping(tmp_path, describe_table(file))))
    assert (job.run_s, job.requested_s) == (60.5, 90.25)
    file = text_table(tmp_path, '7,2024-01-01T00:00:00,"2.000,5","1.234,5",4', header=header)
    (job,) = rows_of(read_table(file, mapping=mapping(tmp_path, describe_table(file))))
    assert (job.run_s, job.requested_s) == (2000.5, 1234.5 * 60)  # limits below the run times are in minutes


def test_the_proposed_mapping_reads_the_jobs_of_a_run(tmp_path: Path) -> None:
    """The columns are those of Batsim's files: times have six decimals, and -1 is an unknown energy."""
    file = text_table(
        tmp_path,
        "1,w0,10,0.000000,2,60.000000,1,COMPLETED_SUCCESSFULLY,3.000000,10.000000,13.000000,3.000000,0-1,-1.000000,",
        header="job_id,workload_name,profile,submission_time,requested_number_of_resources,requested_time,success,"
        "final_state,starting_time,execution_time,finish_time,waiting_time,allocated_resources,consumed_energy,metadata",
    )
    (job,) = load(file, mapping=str(mapping(tmp_path, describe_table(file)))).jobs
    assert (job["id"], job["subtime"], job["res"], job["walltime"], job["profile"]) == ("1", 0, 2, 60, "10")
    assert "energy_j" not in job


@pytest.mark.parametrize("zero", ["0", "0.0", "0.000000"])
def test_the_proposed_mapping_of_a_table_that_begins_at_0(zero: str, tmp_path: Path) -> None:
    file = text_table(tmp_path, f"{zero},10,1", "5,20,2", header="submit,run_time,cores")
    jobs = load(file, mapping=str(mapping(tmp_path, describe_table(file)))).jobs
    assert [(job["subtime"], job["res"]) for job in jobs] == [(0, 1), (5, 2)]


_CELLS = {
    "job": st.sampled_from(["1", "2", "007", "x.3", "", "-4"]),
    "submitted": st.sampled_from(["1704067200", "1704067300", "", "2024-01-01T00:00:00", "-5"]),
    "began": st.sampled_from(["1704067260", "1704067400", "", "Unknown"]),
    "ended": st.sampled_from(["1704067260", "1704067350", "1704070000", ""]),
    "limit": st.sampled_from(["30", "5", "UNLIMITED", "", "1-00:00:00", "-1"]),
    "nodes": st.sampled_from(["4", "1", "0", "", "2.0", "many"]),
    "who": st.sampled_from(["eve", " bob ", "", "007"]),
    "state": st.sampled_from(["COMPLETED", "CD", "FAILED", "RUNNING", "", "odd"]),
}


def _read_each(
    cells: pl.Series, read: Callable[[Any], Any], dtype: Any, quick: Any = None
) -> tuple[pl.Series, list[InvalidCell]]:
    """The twin reads cell by cell."""
    values: list[Any] = []
    faults: list[InvalidCell] = []
    for row, cell in enumerate(cells):
        try:
            values.append(read(cell))
        except ValueError as error:
            values.append(None)
            faults.append(InvalidCell(row, str(error), cell))
    return pl.Series(values, dtype=dtype), faults


@given(rows=st.lists(st.fixed_dictionaries(_CELLS), min_size=1, max_size=12))
def test_columns_and_single_cells_are_read_equally(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("t")
    file = text_table(folder, *(",".join(row[name] for name in HEADER.split(",")) for row in rows))
    drops = mapping(folder, MAPPING + '[states]\ndrop = ["FAILED"]\n')
    fast = read_table(file, mapping=drops, lenient=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "read_cells", _read_each)
        slow = read_table(file, mapping=drops, lenient=True)
    assert fast.jobs.equals(slow.jobs)
    assert (fast.bad, fast.rule_counts, fast.notes) == (slow.bad, slow.rule_counts, slow.notes)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 500), st.integers(1, 9)), min_size=1, max_size=30))
def test_fast_and_careful_reading_are_equal(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, int]]
) -> None:
    """A quote in the last row makes all rows of the piece go through the csv module."""
    folder = tmp_path_factory.mktemp("t")
    base = 1704067200
    lines = [f"{i},{base + a},{base + a + 9},{base + a + 9 + b},{b},{n},u{a},CD" for i, (a, b, n) in enumerate(rows)]
    plain = rows_of(read_table(text_table(folder, *lines), mapping=mapping(folder)))
    quoted = [*lines[:-1], lines[-1].replace(",u", ',"u').replace(",CD", '",CD')]
    assert rows_of(read_table(text_table(folder, *quoted), mapping=mapping(folder))) == plain
    assert [(job.submitted_at, job.run_s, job.allocated_nodes) for job in plain] == [
        (base + a, b, n) for a, b, n in rows
    ]


def test_lint_of_a_table(tmp_path: Path) -> None:
    """The checks are those of logs of Slurm."""
    late = "9,2024-01-01T00:00:05,2024-01-01T00:00:00,2024-01-01T01:00:00,10,4,eve,COMPLETED"
    file = text_table(tmp_path, *ROWS, late, ROWS[0].replace("eve", "ann"), "x")
    found = lint(file, 10, mapping=mapping(tmp_path))
    whats = {finding.what: finding.places for finding in found.findings.values()}
    assert found.format == "table"
    assert whats["started before it was submitted"] == [4]
    assert whats["ran longer than its time limit (by up to 3,000 s)"] == [4]
    assert whats["id given before"] == [5]
    assert whats["bad line: expected 8 fields"] == [6]
    assert whats[
        "submitted before the job with the lower id on the line above (by up to 5 s): the clock was set back"
    ] == [4]
    assert any(what.startswith("started while more nodes than the machine has were in use") for what in whats)


def test_mappings_are_checked_before_the_table_is_read() -> None:
    with pytest.raises(InputError, match="m.toml: columns: expected a table of columns by field"):
        mapping_of("", "m.toml")


def test_commands_with_a_mapping(tmp_path: Path) -> None:
    file = text_table(tmp_path, *ROWS)
    how = ("--mapping", mapping(tmp_path))
    done = run_cli("workload", "convert", str(file), str(tmp_path / "w.json"), *how)
    assert (done.returncode, "2 jobs for 8 processors" in done.stdout) == (0, True), done.stderr
    assert run_cli("workload", "stats", str(file), *how).returncode == 0
    assert run_cli("workload", "lint", str(file), *how).returncode == 0
    args = ("simulate", "-w", str(file), "--policy", "easy", "-e", str(tmp_path / "out"), "-q", *how)
    assert run_cli(*args).returncode == 0
    done = run_cli("metrics", str(tmp_path / "out"), "--by", "user", "--measure", "wait_s")  # reads the table again
    assert (done.returncode, "eve" in done.stdout) == (0, True), done.stderr
    described = run_cli("workload", "describe-table", str(file))
    assert (described.returncode, "[columns]" in described.stdout) == (0, True)
    file.write_text(file.read_text() + "broken\n")
    done = run_cli("workload", "convert", str(file), str(tmp_path / "x.json"), *how)
    assert (done.returncode, (tmp_path / "x.json").exists()) == (2, False)
    assert f"{file}: line 4: expected 8 fields, found 1" in done.stderr
    done = run_cli("workload", "convert", str(file), str(tmp_path / "x.json"), *how, "--lenient")
    assert (done.returncode, "bad line, expected 8 fields: dropped (line 4)" in done.stdout) == (0, True)
