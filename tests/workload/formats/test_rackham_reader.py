"""The Rackham format, read line by line."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.logs import ONE_OF_EACH, counts, line, log, rackham_file, rackham_line, rows_of

from pybatsched.errors import InputError
from pybatsched.workload import load
from pybatsched.workload.formats.conversion import (
    NO_RUN_TIME,
    NO_SIZE,
    NO_SUBMISSION,
    RAISED,
    RENUMBERED,
    TOO_LARGE,
    LogOptions,
)
from pybatsched.workload.formats.detection import format_of
from pybatsched.workload.logs.conversion import to_workload
from pybatsched.workload.logs.rackham import (
    EARLY,
    FIELDS,
    LATE,
    OUT_OF_TURN,
    OVER,
    RUNNING,
    WAITING,
    JobClass,
    read_rackham,
)
from pybatsched.workload.model import Workload
from pybatsched.workload.report import Report
from pybatsched.workload.selection import MOVED, OUTSIDE, TOO_MANY, Selection
from pybatsched.workload.walltimes import OVERRAN_STRICT, UNREQUESTED_STRICT


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n   \n"])
@pytest.mark.parametrize("packed", [False, True])
def test_all_fields_of_a_line(tmp_path: Path, end: str, packed: bool) -> None:
    text = end.join([*ONE_OF_EACH[:2], ""]).encode()
    (tmp_path / "w").write_bytes(gzip.compress(text) if packed else text)
    trace = read_rackham(tmp_path / "w")
    assert format_of(tmp_path / "w") == "Rackham"
    assert trace.jobs.select(*FIELDS.values()).rows() == [
        (7, 5, 500, 9000, 20, "eve", "3", 128, JobClass.WAITING, 1500, 12),
        (8, 900, 300, 400, 4, "ann", "4", 25.6, JobClass.RUNNING, 950, 338),
    ]


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ('{"nb_res": 1}', "Batsim JSON"),
        ("{}", "Batsim JSON"),
        ("{", "Batsim JSON"),
        ("[1]", "Batsim JSON"),
        ('\ufeff  \n{\n  "id": 1}', "Batsim JSON"),
        ("{ id: 1", "Rackham"),
        ("\ufeff\n\n{id:1}", "Rackham"),
        (" " * 4095 + "{" + " " * 40 + "memory : 1", "Rackham"),
        ("; MaxProcs: 4", "SWF"),
        ("id: 1", "SWF"),
    ],
)
def test_formats_are_detected_by_the_start_of_a_file(tmp_path: Path, content: str, kind: str) -> None:
    (tmp_path / "w.swf").write_text(content, encoding="utf-8")
    assert format_of(tmp_path / "w.swf") == kind


def test_fields_may_come_in_any_order_and_without_blanks_at_the_braces(tmp_path: Path) -> None:
    parts = rackham_line(3, kind=1).strip("{} ").split()
    pairs = [f"{name} {value}" for name, value in zip(parts[::2], parts[1::2], strict=True)]
    file = rackham_file(tmp_path, "\ufeff" + rackham_line(3, kind=1), "{" + "\t".join(reversed(pairs)) + "}")
    first, second = rows_of(read_rackham(file))
    assert (first.line, second.line) == (1, 2)
    assert vars(first) | {"line": 0} == vars(second) | {"line": 0}


HUGE = "9" * 5000


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (rackham_line()[:-1], "expected a } at the end of the line, found"),
        (rackham_line()[:60], "expected a } at the end of the line, found"),
        ("id: 3 }", 'expected a line as { id: 1 subtime: 0 … }, found "id: 3 }"'),
        (line(1), 'expected a line as { id: 1 subtime: 0 … }, found "1 0 0 60 2'),
        ('{"id": 1}', 'expected a field of the Rackham format, found "\\"id\\""'),
        ("{ }", "field id: expected on every line, found nothing"),
        ("{ id: }", "field id: expected a value, found nothing"),
        (rackham_line(subtime=""), "field subtime: expected a value, found nothing"),
        (rackham_line(user=""), "field user: expected a value, found nothing"),
        ("{ id: 1 2 3 }", 'expected the name of a field with a colon, found "2"'),
        ("{ id: 0 memory: 128 bandwidth: 0.1 core: 20 }", 'expected a field of the Rackham format, found "memory"'),
        (rackham_line().replace("cores: 2 ", ""), "field cores: expected on every line, found nothing"),
        (rackham_line().replace("cores: 2 ", "id: 2 "), "field id: expected once, found it twice"),
        (rackham_line(user="ann lee"), 'expected the name of a field with a colon, found "lee"'),
        (rackham_line("x"), 'field id: expected a whole number from 0, found "x"'),
        (rackham_line(-1), 'field id: expected a whole number from 0, found "-1"'),
        (rackham_line("1.5"), 'field id: expected a whole number from 0, found "1.5"'),
        (rackham_line(HUGE), 'field id: expected a whole number from 0, found "99999'),
        (rackham_line(subtime="soon"), 'field subtime: expected a number, found "soon"'),
        (rackham_line(subtime="1_000"), 'field subtime: expected a number, found "1_000"'),
        (rackham_line(subtime="٣"), 'field subtime: expected a number, found "\\u0663"'),
        (rackham_line(delay="nan"), 'field delay: expected a number, found "nan"'),
        (rackham_line(delay="inf"), 'field delay: expected a number, found "inf"'),
        (rackham_line(delay="1e300"), 'field delay: expected a number, found "1e300"'),
        (rackham_line(delay=HUGE), 'field delay: expected a number, found "99999'),
        (rackham_line(walltime="0x10"), 'field walltime: expected a number, found "0x10"'),
        (rackham_line(cores="2.5"), 'field cores: expected a whole number below 2^31, found "2.5"'),
        (rackham_line(cores=2**31), 'field cores: expected a whole number below 2^31, found "2147483648"'),
        (rackham_line(size=-0.1), 'field data_size: expected GB from 0, found "-0.1"'),
        (rackham_line(kind=3), 'field workload: expected a class from -2 to 2, found "3"'),
        (rackham_line(kind="0.5"), 'field workload: expected a class from -2 to 2, found "0.5"'),
        (rackham_line(started="then"), 'field start_time_from_history: expected a number, found "then"'),
        (rackham_line(node="1.5"), 'field start_node_from_history: expected a whole number, found "1.5"'),
        (rackham_line(kind=-2, node=0), 'field start_node_from_history: expected a node from 1 on (it ran), found "0"'),
    ],
    ids=lambda text: text[-50:],
)
def test_a_bad_line_is_reported_with_file_line_and_field_or_skipped(tmp_path: Path, bad: str, message: str) -> None:
    file = rackham_file(tmp_path, rackham_line(1), bad, rackham_line(2, 5), bad)
    with pytest.raises(InputError) as caught:
        read_rackham(file)
    assert str(caught.value).startswith(f"{file}: line 2: {message}")
    trace = read_rackham(file, lenient=True)
    assert trace.jobs["id"].to_list() == [1, 2]
    workload, report = to_workload(trace)
    ((rule, count),) = [(rule, found) for rule, found in counts(report).items() if rule.startswith("bad line")]
    assert message.startswith(rule.removeprefix("bad line, ").removesuffix(": dropped"))
    assert (count, report.n_read, report.n_kept, report.n_dropped) == ((2, [2, 4]), 4, 2, 2)
    assert len(workload.jobs) == 2


@given(st.text(max_size=60))
def test_any_broken_line_is_an_error_with_its_number(tmp_path_factory: Any, text: str) -> None:
    file = tmp_path_factory.mktemp("any") / "w"
    file.write_bytes(b"{ id: 1 " + text.encode("utf-8", "replace"))
    with pytest.raises(InputError, match=f"^{file}: line [0-9]+: "):
        load(file)


def test_binary_and_empty_files(tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(b"{ id: 1 \0\0 }")
    with pytest.raises(InputError, match="line 1: expected text, found a binary file"):
        load(tmp_path / "w")
    (tmp_path / "w").write_bytes(gzip.compress(rackham_line().encode())[:-9])
    with pytest.raises(InputError, match="truncated or damaged"):
        load(tmp_path / "w")
    (tmp_path / "w").write_text("\n \n")
    with pytest.raises(
        InputError, match=r"expected a workload \(Batsim JSON, SWF, Rackham, Slurm or a table\), found an empty file"
    ):
        load(tmp_path / "w")


def test_mixed_formats(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"line 4: field 1 \(job number\): expected a whole number, found \{$"):
        load(log(tmp_path, line(1), rackham_line(2)))
    with pytest.raises(InputError, match=r"line 2: expected a line as"):
        load(rackham_file(tmp_path, rackham_line(1), line(2)))


def made(path: Path, *lines: str, options: LogOptions | None = None, **selection: Any) -> tuple[Workload, Report]:
    return to_workload(read_rackham(rackham_file(path, *lines)), options, Selection(**selection))


def test_one_job_of_each_class(tmp_path: Path) -> None:
    workload, report = made(tmp_path, *ONE_OF_EACH)
    assert workload.jobs == [
        {"id": "07", "subtime": 0, "res": 20, "profile": "500", "walltime": 9000, "user": "eve",
         "input_file": "3", "input_size_gb": 128, "alone_s": 1780, "evaluated": False},
        {"id": "08", "subtime": 0, "res": 4, "profile": "250", "walltime": 350, "user": "ann",
         "input_file": "4", "input_size_gb": 25.6, "alone_s": 556, "evaluated": False, "history_node": 337,
         "history_start": -50},
        {"id": "09", "subtime": 0, "res": 1, "profile": "60", "walltime": 600, "user": "ann",
         "input_file": "5", "input_size_gb": 6.4, "alone_s": 124, "evaluated": False},
        {"id": "10", "subtime": 0, "res": 1, "profile": "60.5", "walltime": 600, "user": "bob",
         "input_file": "6", "input_size_gb": 6.4, "alone_s": 124.5, "evaluated": True},
        {"id": "11", "subtime": 200, "res": 3, "profile": "700", "walltime": 600, "user": "ann",
         "input_file": "7", "input_size_gb": 19.2, "alone_s": 892, "evaluated": False},
    ]  # fmt: skip
    assert workload.profiles["250"] == {"type": "delay", "delay": 250}
    assert workload.n_procs == 9720
    assert workload.about == {
        "source": "rackham.txt",
        "conversion": {"walltimes": "requested-strict", "duplicates": "renumber"},
        "shifted_by": 1000,
        "report": report.as_json(),
    }
    assert counts(report) == {WAITING: (1, [1]), RUNNING: (1, [2]), OVERRAN_STRICT: (1, [5])}
    assert (report.n_read, report.n_kept, report.n_dropped) == (5, 5, 0)


def test_jobs_that_ended_before_time_0_run_for_one_second(tmp_path: Path) -> None:
    """By its run time, by its walltime, by both, exactly at time 0; and one that has a second left anyway."""
    rows = [(50, 900), (900, 50), (50, 50), (100, 100), (101, 101), (50, -1)]
    lines = [rackham_line(k, 5, run, wall, kind=-2, started=900) for k, (run, wall) in enumerate(rows, 1)]
    workload, report = made(tmp_path, *lines, rackham_line(9, 1000))
    found = [(job["profile"], job.get("walltime"), job["alone_s"]) for job in workload.jobs[:-1]]
    assert found == [("1", 800, 178), ("800", 1, 1028), ("1", 1, 178), ("1", 1, 228), ("1", 1, 229), ("1", None, 178)]
    assert counts(report)[OVER] == (5, [1, 2, 3, 4, 6])
    assert counts(report)[OVERRAN_STRICT] == (4, [2, 3, 4, 5])
    assert counts(report)[UNREQUESTED_STRICT] == (1, [6])


def test_time_zero_is_the_first_submission_of_class_0_wherever_its_line_is(tmp_path: Path) -> None:
    lines = [rackham_line(1, 300), rackham_line(2, 100, kind=1), rackham_line(3, 200), rackham_line(4, -7)]
    workload, report = made(tmp_path, *lines)
    assert [(job["id"], job["subtime"]) for job in workload.jobs] == [("2", 0), ("3", 0), ("1", 100)]
    assert counts(report) == {NO_SUBMISSION: (1, [4]), MOVED: (2, [2, 3]), EARLY: (1, [2])}


def test_time_zero_without_class_0(tmp_path: Path) -> None:
    lines = [rackham_line(1, 5, kind=-1), rackham_line(2, 400, kind=2), rackham_line(3, 300, kind=1)]
    workload, report = made(tmp_path, *lines)
    assert [(job["id"], job["subtime"]) for job in workload.jobs] == [("1", 0), ("3", 0), ("2", 100)]
    assert "no job of class 0: time 0 is the first submission of class 1 or 2, at 300 s" in report.rule_counts
    with pytest.raises(InputError, match=r"rackham.txt: field workload: expected a job of class 0, 1 or 2, whose"):
        made(tmp_path, *lines[:1])


def test_history_that_started_after_time_0(tmp_path: Path) -> None:
    workload, report = made(tmp_path, rackham_line(1, 5, kind=-2, started=1300), rackham_line(2, 1000))
    first = workload.jobs[0]
    assert (first["history_start"], first["profile"], first["walltime"]) == (0, "60", 600)
    assert counts(report) == {RUNNING: (1, [1]), LATE: (1, [1])}


def test_jobs_that_cannot_run_are_dropped_or_get_a_run_time(tmp_path: Path) -> None:
    lines = [rackham_line(1, 0, 0), rackham_line(2, 1, -1), rackham_line(3, 2, cores=0), rackham_line(4, 3, cores=-1)]
    workload, report = made(tmp_path, *lines, rackham_line(5, 4))
    assert [job["id"] for job in workload.jobs] == ["5"]
    assert counts(report) == {NO_RUN_TIME: (2, [1, 2]), NO_SIZE.format("cores"): (2, [3, 4])}
    workload, report = made(tmp_path, *lines, rackham_line(5, 4), options=LogOptions(min_runtime_s=3))
    assert [(job["id"], job["profile"], job["alone_s"]) for job in workload.jobs] == [
        ("1", "3", 131),
        ("2", "3", 131),
        ("5", "60", 188),
    ]
    assert counts(report) == {NO_SIZE.format("cores"): (2, [3, 4]), RAISED: (2, [1, 2])}


def test_ids_given_twice(tmp_path: Path) -> None:
    lines = rackham_line(9), rackham_line(9), rackham_line(8), rackham_line(9, 5)
    workload, report = made(tmp_path, *lines)
    assert [job["id"] for job in workload.jobs] == ["09", "10", "08", "11"]
    assert counts(report) == {RENUMBERED: (2, [2, 4]), OUT_OF_TURN: (1, [3])}
    with pytest.raises(InputError, match=r"line 2, field id: expected a unique id, found 9, which is also on line 1$"):
        made(tmp_path, *lines, options=LogOptions(duplicates="error"))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=120), st.integers(0, 2000))
def test_texts_of_ids_are_in_the_order_of_the_file(
    tmp_path_factory: pytest.TempPathFactory, times: list[int], first: int
) -> None:
    lines = (rackham_line(first + k, at) for k, at in enumerate(sorted(times)))
    workload, _ = made(tmp_path_factory.getbasetemp(), *lines)
    order = [(job["subtime"], job["id"]) for job in workload.jobs]
    assert order == sorted(order)
    assert [int(name) for _, name in order] == list(range(first, first + len(times)))


def test_a_selection_is_by_the_clock_of_the_workload(tmp_path: Path) -> None:
    workload, report = made(tmp_path, *ONE_OF_EACH, to_at=200)
    assert [job["id"] for job in workload.jobs] == ["07", "08", "09", "10"]  # history is at 0
    assert counts(report)[OUTSIDE] == (1, [5])
    workload, _ = made(tmp_path, *ONE_OF_EACH, from_at=100)
    assert [(job["id"], job["subtime"]) for job in workload.jobs] == [("11", 0)]
    assert (workload.about["shifted_by"], workload.about["selection"]) == (1200, {"from": 100})
    workload, report = made(tmp_path, *ONE_OF_EACH, max_jobs=2, max_size=4)
    assert [job["id"] for job in workload.jobs] == ["08", "09"]
    assert (counts(report)[TOO_MANY.format("2 jobs")], WAITING in counts(report)) == ((2, [4, 5]), False)
    with pytest.raises(InputError, match="no job is left: 5 jobs submitted from 0 s to 200 s"):
        made(tmp_path, *ONE_OF_EACH, from_at=201)


def test_another_machine(tmp_path: Path) -> None:
    workload, report = made(tmp_path, *ONE_OF_EACH, options=LogOptions(n_procs=19))
    assert (workload.n_procs, counts(report)[TOO_LARGE]) == (19, (1, [1]))
