"""The days of Rackham, read line by line."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.logs import ONE_OF_EACH, line, rackham_file, rackham_line, real

from pybatsched.errors import InputError
from pybatsched.workload.formats.conversion import NO_RUN_TIME, NO_SIZE, NO_SUBMISSION
from pybatsched.workload.model import Workload
from pybatsched.workload.walltimes import OVERRAN_STRICT, UNREQUESTED_STRICT
from pybatsched_studies.locality.rackham import EARLY, LATE, OVER, RUNNING, WAITING, read

SEPTEMBER = "rackham/rackham-2022-09-10_V10000_anonymous.txt.gz"
MARCH = "rackham/rackham-2022-03-01_V10000.txt.gz"


def made(path: Path, *lines: str) -> tuple[Workload, dict[str, Any]]:
    """Read lines; also return how many jobs each rule applies to, and the first lines."""
    workload = read(rackham_file(path, *lines))
    rules = workload.about["report"]["rules"]
    return workload, {rule: (found["count"], found.get("first_lines")) for rule, found in rules.items()}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n   \n"])
@pytest.mark.parametrize("packed", [False, True])
def test_ends_of_lines(tmp_path: Path, end: str, packed: bool) -> None:
    expected = made(tmp_path, *ONE_OF_EACH)[0].jobs
    text = end.join([*ONE_OF_EACH, ""]).encode()
    (tmp_path / "w").write_bytes(gzip.compress(text) if packed else text)
    assert read(tmp_path / "w").jobs == expected


def test_fields_may_come_in_any_order_and_without_blanks_at_the_braces(tmp_path: Path) -> None:
    parts = rackham_line(3, kind=1).strip("{} ").split()
    pairs = [f"{name} {value}" for name, value in zip(parts[::2], parts[1::2], strict=True)]
    first = made(tmp_path, "\ufeff" + rackham_line(3, kind=1))[0].jobs
    assert made(tmp_path, "{" + "\t".join(reversed(pairs)) + "}")[0].jobs == first


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
def test_a_bad_line_is_reported_with_file_line_and_field(tmp_path: Path, bad: str, message: str) -> None:
    file = rackham_file(tmp_path, rackham_line(1), bad, rackham_line(2, 5), bad)
    with pytest.raises(InputError) as caught:
        read(file)
    assert str(caught.value).startswith(f"{file}: line 2: {message}")


@given(st.text(max_size=60))
def test_any_broken_line_is_an_error_with_its_number(tmp_path_factory: Any, text: str) -> None:
    file = tmp_path_factory.mktemp("any") / "w"
    file.write_bytes(b"{ id: 1 " + text.encode("utf-8", "replace"))
    with pytest.raises(InputError, match=f"^{file}: line [0-9]+: "):
        read(file)


def test_binary_and_empty_files(tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(b"{ id: 1 \0\0 }")
    with pytest.raises(InputError, match="line 1: expected text, found a binary file"):
        read(tmp_path / "w")
    (tmp_path / "w").write_bytes(gzip.compress(rackham_line().encode())[:-9])
    with pytest.raises(InputError, match="truncated or damaged"):
        read(tmp_path / "w")
    (tmp_path / "w").write_text("\n \n")
    with pytest.raises(InputError, match=r"expected jobs in the format of Rackham, found an empty file"):
        read(tmp_path / "w")


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
        "shifted_by": 1000,
        "report": workload.about["report"],
    }
    assert report == {WAITING: (1, [1]), RUNNING: (1, [2]), OVERRAN_STRICT: (1, [5])}
    assert [workload.about["report"][name] for name in ("read", "kept", "dropped")] == [5, 5, 0]


def test_jobs_that_ended_before_time_0_run_for_one_second(tmp_path: Path) -> None:
    """By its run time, by its walltime, by both, exactly at time 0; and one that has a second left anyway."""
    rows = [(50, 900), (900, 50), (50, 50), (100, 100), (101, 101), (50, -1)]
    lines = [rackham_line(k, 5, run, wall, kind=-2, started=900) for k, (run, wall) in enumerate(rows, 1)]
    workload, report = made(tmp_path, *lines, rackham_line(9, 1000))
    found = [(job["profile"], job.get("walltime"), job["alone_s"]) for job in workload.jobs[:-1]]
    assert found == [("1", 800, 178), ("800", 1, 1028), ("1", 1, 178), ("1", 1, 228), ("1", 1, 229), ("1", None, 178)]
    assert report[OVER] == (5, [1, 2, 3, 4, 6])
    assert report[OVERRAN_STRICT] == (4, [2, 3, 4, 5])
    assert report[UNREQUESTED_STRICT] == (1, [6])


def test_time_zero_is_the_first_submission_of_class_0_wherever_its_line_is(tmp_path: Path) -> None:
    lines = [rackham_line(1, 300), rackham_line(2, 100, kind=1), rackham_line(3, 200), rackham_line(4, -7)]
    workload, report = made(tmp_path, *lines)
    assert [(job["id"], job["subtime"]) for job in workload.jobs] == [("2", 0), ("3", 0), ("1", 100)]
    assert report == {NO_SUBMISSION: (1, [4]), EARLY: (1, [2])}


def test_time_zero_without_class_0(tmp_path: Path) -> None:
    lines = [rackham_line(1, 5, kind=-1), rackham_line(2, 400, kind=2), rackham_line(3, 300, kind=1)]
    workload, report = made(tmp_path, *lines)
    assert [(job["id"], job["subtime"]) for job in workload.jobs] == [("1", 0), ("3", 0), ("2", 100)]
    assert "no job of class 0: time 0 is the first submission of class 1 or 2, at 300 s" in report
    with pytest.raises(InputError, match=r"rackham.txt: field workload: expected a job of class 0, 1 or 2, whose"):
        made(tmp_path, *lines[:1])


def test_history_that_started_after_time_0(tmp_path: Path) -> None:
    workload, report = made(tmp_path, rackham_line(1, 5, kind=-2, started=1300), rackham_line(2, 1000))
    first = workload.jobs[0]
    assert (first["history_start"], first["profile"], first["walltime"]) == (0, "60", 600)
    assert report == {RUNNING: (1, [1]), LATE: (1, [1])}


def test_jobs_that_cannot_run_are_dropped(tmp_path: Path) -> None:
    lines = [rackham_line(1, 0, 0), rackham_line(2, 1, -1), rackham_line(3, 2, cores=0), rackham_line(4, 3, cores=-1)]
    workload, report = made(tmp_path, *lines, rackham_line(5, 4))
    assert [job["id"] for job in workload.jobs] == ["5"]
    assert report == {NO_RUN_TIME: (2, [1, 2]), NO_SIZE.format("cores"): (2, [3, 4])}


def test_ids_given_twice(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"line 2, field id: expected a unique id, found 9, which is also on line 1$"):
        made(tmp_path, rackham_line(9), rackham_line(9))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=120), st.integers(0, 2000))
def test_texts_of_ids_are_in_the_order_of_the_file(
    tmp_path_factory: pytest.TempPathFactory, times: list[int], first: int
) -> None:
    lines = (rackham_line(first + k, at) for k, at in enumerate(sorted(times)))
    workload, _ = made(tmp_path_factory.getbasetemp(), *lines)
    order = [(job["subtime"], job["id"]) for job in workload.jobs]
    assert order == sorted(order)
    assert [int(name) for _, name in order] == list(range(first, first + len(times)))


@pytest.mark.parametrize(
    ("name", "zero_at", "n_jobs", "n_evaluated", "n_running", "n_waiting", "n_over", "n_overran", "last_at"),
    [
        (SEPTEMBER, 6_071_695, 21_819, 1511, 2041, 865, 8, 276, 255_887),
        (MARCH, 978_662, 11_675, 5300, 705, 795, 0, 539, 171_975),
    ],
)
def test_real_days(
    name: str,
    zero_at: int,
    n_jobs: int,
    n_evaluated: int,
    n_running: int,
    n_waiting: int,
    n_over: int,
    n_overran: int,
    last_at: int,
) -> None:
    """All jobs are kept, and the texts of ids are in the order of the file."""
    workload = read(real(name))
    jobs, report = workload.jobs, workload.about["report"]
    assert (report["read"], report["kept"], len(jobs), workload.n_procs) == (n_jobs, n_jobs, n_jobs, 9720)
    assert workload.about["shifted_by"] == zero_at
    assert {rule: found["count"] for rule, found in report["rules"].items()} == {
        rule: n
        for rule, n in ((RUNNING, n_running), (WAITING, n_waiting), (OVER, n_over), (OVERRAN_STRICT, n_overran))
        if n
    }
    assert sum(job["evaluated"] for job in jobs) == n_evaluated
    assert [job["id"] for job in jobs] == [f"{number:05}" for number in range(1, n_jobs + 1)]
    assert [job["subtime"] for job in jobs] == sorted(job["subtime"] for job in jobs)
    assert (jobs[n_running + n_waiting]["subtime"], jobs[-1]["subtime"]) == (0, last_at)
    delays = {profile: content["delay"] for profile, content in workload.profiles.items()}
    assert sum(delays[job["profile"]] > job["walltime"] for job in jobs) == n_overran
    assert all(job["input_size_gb"] == pytest.approx(6.4 * job["res"]) for job in jobs)
    assert sum("history_node" in job for job in jobs) == n_running
