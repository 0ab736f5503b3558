"""Logs of Slurm: single values, headers, records over several lines, steps, and every broken line with its number."""

from __future__ import annotations

import gzip
from datetime import UTC
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from support.logs import SACCT_COLUMNS, SACCT_ZERO, rows_of, sacct, sacct_line

from pybatsched.errors import InputError
from pybatsched.workload import load
from pybatsched.workload.formats.detection import format_of
from pybatsched.workload.logs import slurm_values as values
from pybatsched.workload.logs.records import COPY, RUNNING
from pybatsched.workload.logs.slurm import LOST_STEPS, read_slurm
from pybatsched.workload.logs.slurm_values import A_LIMIT, A_STATE, JobId, LoggedTime, Memory
from pybatsched.workload.logs.table import LogTable

CSV = "JobID,NCPUS,Submit,Start,End,State"


def ids(trace: LogTable) -> list[str]:
    return trace.jobs["given_id"].to_list()


def test_a_record(tmp_path: Path) -> None:
    file = sacct(tmp_path, sacct_line("7", 10, 5, 90, 4, AllocTRES="billing=4,cpu=4,mem=8G,node=2,gres/gpu:a100=3"))
    (job,) = rows_of(read_slurm(file))
    assert format_of(file) == "Slurm"
    assert (job.submitted_at, job.started_at, job.ended_at) == (SACCT_ZERO + 10, SACCT_ZERO + 15, SACCT_ZERO + 105)
    assert (job.run_s, job.requested_s, job.memory_gb, job.state) == (90, 600, 4, "COMPLETED")
    assert (job.allocated_cores, job.allocated_nodes, job.allocated_gpus) == (4, 2, 3)
    labels = (job.user, job.account, job.partition, job.qos, job.exit_code)
    assert labels == ("ann", "physics", "main", "normal", "0:0")
    assert job.line == 2


@pytest.mark.parametrize("order", [SACCT_COLUMNS, tuple(reversed(SACCT_COLUMNS)), tuple(sorted(SACCT_COLUMNS))])
@pytest.mark.parametrize("end", ["", "|"])
def test_any_order_of_columns_with_and_without_a_last_separator(
    tmp_path: Path, order: tuple[str, ...], end: str
) -> None:
    lines = []
    for job in ("1", "2"):
        cells = dict(zip(SACCT_COLUMNS, sacct_line(job).split("|"), strict=True))
        lines.append("|".join(cells[name] for name in order) + end)
    trace = read_slurm(sacct(tmp_path, *lines, header="|".join(order) + end))
    assert ids(trace) == ["1", "2"]
    assert rows_of(trace)[0].allocated_cores == 2
    assert rows_of(trace)[0].account == "physics"


@pytest.mark.parametrize(
    "header",
    [
        CSV,
        '"JobID","NCPUS","Submit","Start","End","State"',
        CSV.lower(),
        "job_id,ncpus,submit_time,start_time,end_time,state",
    ],
)
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_csv(tmp_path: Path, header: str, separator: str) -> None:
    text = f"{header}\r\n12,4,1704067200,1704067201,1704067261,COMPLETED\r\n".replace(",", separator)
    file = tmp_path / "log.csv"
    file.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert format_of(file) == "Slurm"
    (job,) = rows_of(read_slurm(file))
    assert (job.run_s, job.allocated_cores) == (60, 4)


@pytest.mark.parametrize("header", ["JobID,Submit,NNodes,User", "JobIDRaw%20|Elapsed|State|User"])
def test_a_header_of_sacct_that_lacks_a_column(tmp_path: Path, header: str) -> None:
    file = tmp_path / "log.csv"
    file.write_text(f"{header}\n1,1704067200,1,a\n".replace(",", "|" if "|" in header else ","))
    assert format_of(file) == "Slurm"
    with pytest.raises(InputError, match=r"line 1: expected (the|a) column .*sacct-command.*use mapping"):
        read_slurm(file)


def test_csv_with_quotes_commas_and_line_ends(tmp_path: Path) -> None:
    header = "JobID,JobName,AllocTRES,Submit,ElapsedRaw,State,SubmitLine"
    lines = (
        '1,"a, ""b""","cpu=4,node=1",1704067200,60,COMPLETED,"sbatch --wrap=\'\nsleep 1\n5,6,7\n\'"',
        '2,c,"cpu=2,node=1",1704067201,61,COMPLETED,x',
    )
    trace = read_slurm(sacct(tmp_path, *lines, header=header))
    assert [(job.number, job.line, job.allocated_cores) for job in rows_of(trace)] == [(1, 2, 4), (2, 6, 2)]
    assert rows_of(trace)[0].job_name == 'a, "b"'


@pytest.mark.parametrize("text", ["sbatch a\nb", "sbatch a\n\nb\n", "a | b", "x || y\n| z"])
def test_submit_lines_over_several_lines(tmp_path: Path, text: str) -> None:
    """Slurm does not quote: line ends and separators in a text column belong to it."""
    order = ("SubmitLine", *SACCT_COLUMNS[:-1])
    for columns in (SACCT_COLUMNS, order):
        lines = []
        for job in ("1", "2"):
            cells = dict(zip(SACCT_COLUMNS, sacct_line(job, SubmitLine="").split("|"), strict=True))
            lines.append("|".join((cells | {"SubmitLine": text})[name] for name in columns))
        if columns == SACCT_COLUMNS and "\n" in text:
            continue  # the last column ends with the line: see below
        trace = read_slurm(sacct(tmp_path, *lines, header="|".join(columns)))
        assert ids(trace) == ["1", "2"]
        assert {job.exit_code for job in rows_of(trace)} == {"0:0"}


def test_a_text_at_the_end_of_a_record_continues_on_lines_without_an_id(tmp_path: Path) -> None:
    lines = (sacct_line("1", SubmitLine="sbatch --wrap\nsleep 1\n\n  done"), sacct_line("2"))
    assert ids(read_slurm(sacct(tmp_path, *lines))) == ["1", "2"]
    ended = [f"{one}|" for one in lines]
    assert ids(read_slurm(sacct(tmp_path, *ended, header="|".join(SACCT_COLUMNS) + "|"))) == ["1", "2"]


def test_gzip_blank_lines_and_repeated_headers(tmp_path: Path) -> None:
    file = sacct(tmp_path, sacct_line("1"), "", "|".join(SACCT_COLUMNS), sacct_line("2"))
    packed = tmp_path / "sacct.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    assert ids(read_slurm(packed)) == ["1", "2"]
    assert format_of(packed) == "Slurm"


def test_names_in_another_encoding(tmp_path: Path) -> None:
    file = tmp_path / "sacct.txt"
    file.write_bytes(sacct(tmp_path, sacct_line(User="Umeå")).read_text().encode("latin-1"))
    assert rows_of(read_slurm(file))[0].user == "Umeå"


def test_steps_are_merged_into_their_job(tmp_path: Path) -> None:
    header = "JobID|Submit|Start|End|NCPUS|State|MaxRSS|ConsumedEnergyRaw"
    lines = (
        "1|1704067200|1704067200|1704067260|4|COMPLETED||",
        "1.batch|1704067200|1704067200|1704067260|4|COMPLETED|1048576K|100",
        "1.extern|1704067200|1704067200|1704067260|4|COMPLETED|0|100",
        "1.0|1704067200|1704067200|1704067230|4|COMPLETED|3G|50",
        "2_1|1704067200|1704067200|1704067260|4|COMPLETED||7",
        "2_1.0|1704067200|1704067200|1704067260|4|COMPLETED|2048M|9",
        "9.0|1704067200|1704067200|1704067260|4|COMPLETED|2048M|9",
    )
    trace = read_slurm(sacct(tmp_path, *lines, header=header))
    assert [(job.given_id, job.used_gb, job.energy_j) for job in rows_of(trace)] == [("1", 3, 150), ("2_1", 2, 7)]
    assert "lines of steps: merged into their jobs (4 lines)" in trace.notes
    assert [(rule_count.rule, rule_count.places) for rule_count in trace.rule_counts] == [(LOST_STEPS, [8])]


def test_steps_of_a_requeued_job_belong_to_the_attempt_above_them(tmp_path: Path) -> None:
    header = "JobID|Submit|Start|End|NCPUS|State|MaxRSS"
    lines = (
        "1|1704067200|1704067200|1704067260|4|NODE_FAIL|",
        "1.0|1704067200|1704067200|1704067260|4|CANCELLED|1G",
        "1|1704067260|1704067300|1704067400|4|COMPLETED|",
        "1.0|1704067260|1704067300|1704067400|4|COMPLETED|2G",
    )
    assert [job.used_gb for job in rows_of(read_slurm(sacct(tmp_path, *lines, header=header)))] == [1, 2]


def test_copies_and_unfinished_records_are_dropped(tmp_path: Path) -> None:
    running = sacct_line("2", End="Unknown", State="RUNNING")
    lines = (sacct_line("1"), running, sacct_line("1"), sacct_line("2"), running, sacct_line("3"))
    trace = read_slurm(sacct(tmp_path, *lines))
    assert [(job.number, job.line) for job in rows_of(trace)] == [(1, 2), (2, 5), (3, 7)]
    assert [(rule_count.rule, rule_count.places) for rule_count in trace.rule_counts] == [(COPY, [3, 4, 6])]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"Submit": "-5"},
         'field Submit: expected seconds since 1970, or a time such as 2024-01-31T12:00:00, found "-5"'),
        ({"Start": "soon"},
         'field Start: expected seconds since 1970, or a time such as 2024-01-31T12:00:00, found "soon"'),
        ({"Submit": "Unknown"},
         "field Submit: expected seconds since 1970, or a time such as 2024-01-31T12:00:00, found nothing"),
        ({"Elapsed": "-1"}, 'field Elapsed: expected a duration such as 1-12:00:00 or 90:00, or seconds, found "-1"'),
        ({"NCPUS": "two"}, 'field NCPUS: expected a whole number, 0 or more, found "two"'),
        ({"NCPUS": "-2"}, 'field NCPUS: expected a whole number, 0 or more, found "-2"'),
        ({"NCPUS": "0", "NNodes": "0", "AllocTRES": ""},
         'field NCPUS: expected at least 1, because the job ran, found "0"'),
        ({"AllocTRES": "cpu=x"}, 'field AllocTRES: cpu: expected a whole number, 0 or more, found "cpu=x"'),
        ({"AllocTRES": "cpu"},
         'field AllocTRES: expected resources such as cpu=4,mem=16G,node=1,gres/gpu=2, found "cpu"'),
        ({"ReqMem": "lots"}, 'field ReqMem: expected an amount of memory such as 4000M, 16G, 4Gn or 2Gc, found "lots"'),
        ({"State": "DONE"}, f'field State: expected {A_STATE}, found "DONE"'),
        ({"Timelimit": "1d"}, f'field Timelimit: expected {A_LIMIT}, found "1d"'),
        ({"JobID": "x1"}, 'field JobID: expected a job id such as 123, 123_4, 123+0 or 123.batch, found "x1"'),
        ({"JobID": ""}, 'field JobID: expected a job id such as 123, 123_4, 123+0 or 123.batch, found ""'),
        ({"Elapsed": "", "End": str(SACCT_ZERO - 9)},
         f'field End: expected a time that is not before Start, found "{SACCT_ZERO - 9}" after "{SACCT_ZERO}"'),
    ],
)  # fmt: skip
def test_bad_lines(tmp_path: Path, cells: dict[str, Any], message: str) -> None:
    wrong = sacct_line(cells.get("JobID", "2"), **{name: text for name, text in cells.items() if name != "JobID"})
    file = sacct(tmp_path, sacct_line("1"), wrong, sacct_line("3"))
    with pytest.raises(InputError) as caught:
        read_slurm(file)
    assert str(caught.value) == f"{file}: line 3: {message}"
    trace = read_slurm(file, lenient=True)
    assert ids(trace) == ["1", "3"]
    assert [rule_count.places for rule_count in trace.bad.values()] == [[3]]


def test_truncated_and_long_lines(tmp_path: Path) -> None:
    header = "JobID|Submit|Start|End|NCPUS|State"
    good = "{}|1704067200|1704067200|1704067260|4|COMPLETED"
    file = sacct(tmp_path, good.format(1), "2|1704067200|17040", good.format(3), good.format(4) + "|x", header=header)
    with pytest.raises(InputError, match=r"sacct.txt: line 3: expected 6 fields, found 3$"):
        read_slurm(file)
    trace = read_slurm(file, lenient=True)
    assert ids(trace) == ["1", "3"]
    assert {rule: rule_count.places for rule, rule_count in trace.bad.items()} == {"expected 6 fields": [3, 5]}


@pytest.mark.parametrize(
    ("more", "found"),
    [("", "8"), ("|JobName", '9 ("v2" for field Submit)'), ("|SubmitLine", '9 ("v2" for field Submit)')],
)
def test_a_delimiter_in_a_text_that_shifts_the_fields_after_it(tmp_path: Path, more: str, found: str) -> None:
    header = f"JobID|Reservation|Submit|Start|End|NCPUS|State{more}"
    lines = [f"{job}|1704067200|1704067200|1704067260|4|CD{more and '|x'}" for job in ("1|a", "2|train|v2")]
    file = sacct(tmp_path, *lines, header=header)
    with pytest.raises(InputError) as caught:
        read_slurm(file)
    assert str(caught.value) == (
        f'{file}: line 3: expected {7 + bool(more)} fields, found {found}; a text such as a job name contains "|": use '
        "lenient True to skip such lines, or write the log with `sacct --parsable2 --delimiter=';'`"
    )
    assert ids(read_slurm(file, lenient=True)) == ["1"]
    lines = [line.replace("|", ";").replace("train;", "train|") for line in lines]
    assert ids(read_slurm(sacct(tmp_path, *lines, header=header.replace("|", ";")))) == ["1", "2"]


def test_resources_with_commas_need_quotes(tmp_path: Path) -> None:
    header = "JobID,AllocTRES,Submit,ElapsedRaw"
    with pytest.raises(InputError, match=r"line 2: expected 4 fields, found 5; resources contain commas"):
        read_slurm(sacct(tmp_path, "1,cpu=1,node=1,1704067200,60", header=header))


def test_csv_without_quotes_is_an_error(tmp_path: Path) -> None:
    """Only output of sacct has text with separators and line ends without quotes."""
    header = "JobID,NCPUS,Submit,ElapsedRaw,SubmitLine"
    good = "{},4,1704067200,60,sbatch"
    file = sacct(tmp_path, good.format(1), "more", good.format(2) + ",a", good.format(3), header=header)
    with pytest.raises(InputError, match="line 3: expected 5 fields, found 1"):
        read_slurm(file)
    trace = read_slurm(file, lenient=True)
    assert ids(trace) == ["1", "3"]
    assert {rule: rule_count.places for rule, rule_count in trace.bad.items()} == {"expected 5 fields": [3, 4]}


def test_a_start_without_an_end_is_a_running_job(tmp_path: Path) -> None:
    header = "JobID,NCPUS,Submit,Start,End,ElapsedRaw"
    (job,) = rows_of(read_slurm(sacct(tmp_path, "1,4,1704067200,1704067200,Unknown,60", header=header)))
    assert (job.state, job.left_out) == ("RUNNING", RUNNING)


def test_a_quote_without_end(tmp_path: Path) -> None:
    lines = ("1,4,1704067200,60", '2,"4,1704067200,60', "3,4,1704067200,60")
    file = sacct(tmp_path, *lines, header="JobID,NCPUS,Submit,ElapsedRaw")
    with pytest.raises(InputError, match="line 3: expected a quote at the end of the text"):
        read_slurm(file)
    assert ids(read_slurm(file, lenient=True)) == ["1", "3"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"JobID|NCPUS|Elapsed\n1|2|3\n", "line 1: expected a column Submit, found"),
        (b"JobID|Submit|Start|NCPUS\n", "line 1: expected the column Elapsed, or Start and End, found"),
        (b"JobID|Submit|Elapsed\n", "line 1: expected a column of sizes, such as NCPUS, found"),
        (b"JobID|Submit|Elapsed|NCPUS\n", "expected a log of Slurm with jobs, found a header alone"),
        (b"JobID|Submit|Submit|NCPUS\n", "line 1: column Submit: expected once, found twice"),
        (
            b"JobID  Submit  Elapsed\n------ ---- ----\n",
            r"line 1: expected columns separated by \| \(`sacct --parsable2`\)",
        ),
        ("JobID|Submit|Elapsed|NCPUS\n".encode("utf-16"), "expected text in UTF-8, found UTF-16"),
        (b"JobID|Submit|Elapsed|NCPUS\n1|\x00|3|4\n", "line 2: expected text, found a binary file"),
    ],
)
def test_files_that_are_not_logs_are_rejected(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "log"
    file.write_bytes(content)
    assert format_of(file) == "Slurm"
    for lenient in (False, True):
        with pytest.raises(InputError, match=message) as caught:
            read_slurm(file, lenient=lenient)
        assert str(caught.value).startswith(str(file))


def test_an_unknown_time_zone(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="time zone 'Mars/Base': expected a name of the time zone database"):
        read_slurm(sacct(tmp_path, sacct_line()), timezone="Mars/Base")


def test_unknown_columns_are_listed(tmp_path: Path) -> None:
    header = "JobID|Submit|Elapsed|NCPUS|Sunshine|Layout"
    trace = read_slurm(sacct(tmp_path, "1|1704067200|60|4|a|b", header=header))
    assert trace.notes == ["columns that are not used: Sunshine, Layout"]


def test_a_second_header_with_other_columns(tmp_path: Path) -> None:
    """A lenient reading would read the lines after it by the wrong columns."""
    other = "|".join(reversed(SACCT_COLUMNS))
    file = sacct(tmp_path, sacct_line("1"), other, sacct_line("2"))
    for lenient in (False, True):
        with pytest.raises(InputError, match=r"line 3: expected the columns of the first header, found a header with"):
            read_slurm(file, lenient=lenient)


def test_steps_without_their_job_are_not_counted_as_merged(tmp_path: Path) -> None:
    report = load(sacct(tmp_path, sacct_line("1"), sacct_line("1.batch"), sacct_line("2.batch"))).about["report"]
    assert "lines of steps: merged into their jobs (1 lines)" in report["rules"]
    assert report["rules"]["a step whose job has no line: ignored"]["count"] == 1


PARIS = ZoneInfo("Europe/Paris")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400),  # a number alone is minutes
        ("0.5", 30),
        ("30:00", 1800),
        ("90:15", 5415),
        ("01:00:00", 3600),
        ("100:00:00", 360_000),
        ("1-00", 86_400),
        ("1-12:30", 131_400),
        ("2-03:04:05", 183_845),
        ("00:10:00.500", 600.5),
        ("UNLIMITED", None),
        ("Partition_Limit", None),
        ("INFINITE", None),
        ("INVALID", None),
        ("Unknown", None),
        ("", None),
    ],
)
def test_time_limits(text: str, seconds: float | None) -> None:
    assert values.limit_of(text) == seconds


@pytest.mark.parametrize(
    ("read", "expected", "texts"),
    [
        (values.limit_of, "a time limit such as", ["-5", "x", "1:2:3:4", "1-", "-1:00", "1d", "9" * 11, "1-2-3", "٣"]),
        (lambda text: values.time_of(text, UTC), "seconds since 1970, or a time such as",
         ["-5", "-1704067200", "1704067200000", "yesterday", "2024-13-01T00:00:00", "12:00", "1900-01-01"]),
        (values.memory_of, "an amount of memory", ["-4G", "4X", "G", "4Gx"]),
        (values.count_of, "a whole number", ["-1", "1.5", "x", "99999999999"]),
        (values.state_of, "a state of Slurm", ["DONE", "RE", "X Y"]),
        (values.job_id_of, "a job id such as", ["", "x", "-1", "12 3", "12_", "12.", "1" * 20]),
    ],
)  # fmt: skip
def test_wrong_values(read: Any, expected: str, texts: list[str]) -> None:
    for text in texts:
        with pytest.raises(ValueError, match=expected):
            read(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("60", 60), ("1-00:00:01", 86_401), ("00:00:59", 59), ("10:30", 630), ("None", None)]
)
def test_durations(text: str, seconds: float | None) -> None:
    assert values.duration_of(text) == seconds


@pytest.mark.parametrize(
    ("text", "zone", "time"),
    [
        ("1704067200", UTC, LoggedTime(1704067200)),
        ("1704067200.5", UTC, LoggedTime(1704067200.5)),
        ("2024-01-01T00:00:00", UTC, LoggedTime(1704067200, is_local=True)),
        ("2024-01-01 00:00:00", UTC, LoggedTime(1704067200, is_local=True)),
        ("2024-01-01T00:00:00Z", PARIS, LoggedTime(1704067200)),
        ("2024-01-01T01:00:00+01:00", UTC, LoggedTime(1704067200)),
        ("2024-01-01T01:00:00", PARIS, LoggedTime(1704067200, is_local=True)),
        ("2024-07-01T02:00:00", PARIS, LoggedTime(1719792000, is_local=True)),  # in summer
        ("2024-10-27T02:30:00", PARIS, LoggedTime(1729989000, is_local=True, is_ambiguous=True)),
        (
            "2024-03-31T02:30:00",
            PARIS,
            LoggedTime(1711848600, is_local=True, is_missing=True),
        ),  # does not exist: the clock was put forward
        ("Unknown", UTC, None),
        ("None", UTC, None),
        ("", UTC, None),
        ("0", UTC, None),
    ],
)
def test_times(text: str, zone: ZoneInfo, time: LoggedTime | None) -> None:
    assert values.time_of(text, zone) == time


@pytest.mark.parametrize(
    ("text", "memory"),
    [
        ("4000", Memory(4000 / 1024)),
        ("4096M", Memory(4)),
        ("16G", Memory(16)),
        ("1T", Memory(1024)),
        ("1048576K", Memory(1)),
        ("4Gn", Memory(4, "n")),
        ("2048Mc", Memory(2, "c")),
        ("0n", Memory(0, "n")),
        ("1.50G", Memory(1.5)),
        ("", None),
    ],
)
def test_memory(text: str, memory: Memory | None) -> None:
    assert values.memory_of(text) == memory


def test_used_memory_without_a_unit_is_in_kilobytes() -> None:
    assert values.memory_of("1048576", "K") == Memory(1)


def test_resources_and_gpus() -> None:
    found = values.resources_of("billing=8,cpu=4,mem=16G,node=1,gres/gpu=2,gres/gpu:a100=2")
    assert (found["cpu"], found["mem"], found["node"]) == ("4", "16G", "1")
    assert values.gpus_of(found) == 2
    assert values.gpus_of(values.resources_of("gres/gpu:a100=2,gres/gpu:v100=1")) == 3
    assert values.gpus_of(values.resources_of("cpu=4")) is None
    assert values.resources_of("") == {}
    with pytest.raises(ValueError, match="resources such as cpu=4"):
        values.resources_of("cpu:4")


@pytest.mark.parametrize(
    ("text", "types", "count"),
    [
        ("gpu:2080ti:2", "2080ti", 2),
        ("gpu:3090:4(S:0-1)", "3090", 4),
        ("gpu:1g.5gb:3,gpu:a100:1", "1g.5gb,a100", 4),
        ("craynetwork:1,gpu:2(IDX:0-1)", None, 2),
        ("gpu:2080ti", None, None),
    ],
)
def test_types_of_gpus_may_begin_with_a_digit(text: str, types: str | None, count: int | None) -> None:
    assert (values.gpu_types_of(text), values.gres_gpus_of(text)) == (types, count)


@pytest.mark.parametrize(("text", "count"), [("4", 4), ("2K", 2048), ("0", 0), ("", None), ("Unknown", None)])
def test_counts(text: str, count: int | None) -> None:
    assert values.count_of(text) == count


def test_energy() -> None:
    assert [values.energy_of(text) for text in ("1500", "1.50K", "2M", "", "18446744073709551614")] == [
        1500,
        1500,
        2e6,
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("COMPLETED", "COMPLETED"),
        ("CANCELLED by 1000", "CANCELLED"),
        ("CANCELLED+", "CANCELLED"),
        ("OUT_OF_ME+", "OUT_OF_MEMORY"),
        ("NODE_FAIL", "NODE_FAIL"),
        ("timeout", "TIMEOUT"),
        ("PR", "PREEMPTED"),
        ("CD", "COMPLETED"),
        ("OOM", "OUT_OF_MEMORY"),
        ("DEADLINE", "DEADLINE"),
        ("BOOT_FAIL", "BOOT_FAIL"),
        ("REQUEUED", "REQUEUED"),
        ("PENDING", "PENDING"),
        ("", None),
    ],
)
def test_states(text: str, state: str | None) -> None:
    assert values.state_of(text) == state


@pytest.mark.parametrize(
    ("text", "job_id"),
    [
        ("123", JobId(123, None, None, None, is_waiting=False)),
        ("123_4", JobId(123, 4, None, None, is_waiting=False)),
        ("123+1", JobId(123, None, 1, None, is_waiting=False)),
        ("123.batch", JobId(123, None, None, "batch", is_waiting=False)),
        ("123_4.0", JobId(123, 4, None, "0", is_waiting=False)),
        ("123+1.extern", JobId(123, None, 1, "extern", is_waiting=False)),
        ("123_[5-9%2]", JobId(123, None, None, None, is_waiting=True)),
    ],
)
def test_ids(text: str, job_id: JobId) -> None:
    assert values.job_id_of(text) == job_id


def test_ids_have_equal_lengths(tmp_path: Path) -> None:
    lines = [sacct_line(given) for given in ("123", "1234_4", "123_12", "123+1", "12_[5-9%2]")]
    rows = rows_of(read_slurm(sacct(tmp_path, *lines)))
    assert [job.id for job in rows] == ["0123", "1234_04", "0123_12", "0123+1", "0012"]
