"""The Rackham format, read line by line."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.logs import ONE_OF_EACH, counts, line, log, rackham_file, rackham_line

from pybatsched.errors import InputError
from pybatsched.workload import load
from pybatsched.workload.formats import files
from pybatsched.workload.formats.rackham import to_workload
from pybatsched.workload.formats.rackham_reader import FIELDS, JobClass, RackhamJob, read_rackham


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n   \n"])
@pytest.mark.parametrize("packed", [False, True])
def test_all_fields_of_a_line(tmp_path: Path, end: str, packed: bool) -> None:
    text = end.join([*ONE_OF_EACH[:2], ""]).encode()
    (tmp_path / "w").write_bytes(gzip.compress(text) if packed else text)
    trace = read_rackham(tmp_path / "w")
    assert files.format_of(tmp_path / "w") == "Rackham"
    assert trace.jobs[0] == RackhamJob(7, 5, 500, 9000, 20, "eve", "3", 128, JobClass.WAITING, 1500, 12, 1)
    assert trace.jobs[1][:-1] == (8, 900, 300, 400, 4, "ann", "4", 25.6, JobClass.RUNNING, 950, 338)


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
    assert files.format_of(tmp_path / "w.swf") == kind


def test_fields_may_come_in_any_order_and_without_blanks_at_the_braces(tmp_path: Path) -> None:
    parts = rackham_line(3, kind=1).strip("{} ").split()
    pairs = [f"{name} {value}" for name, value in zip(parts[::2], parts[1::2], strict=True)]
    file = rackham_file(tmp_path, "\ufeff" + rackham_line(3, kind=1), "{" + "\t".join(reversed(pairs)) + "}")
    first, second = read_rackham(file).jobs
    assert first[:-1] == second[:-1]


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
    assert [job.number for job in trace.jobs] == [1, 2]
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


def test_fields_of_the_format_are_those_of_the_record() -> None:
    assert len(FIELDS) == len(RackhamJob._fields) - 1
