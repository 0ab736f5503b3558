"""The weeks of a log and their utilisation."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError
from support.logs import line, real, trace
from support.process import run_cli

from pybatsched.campaign.prepare import Preparer
from pybatsched.campaign.workloads import WorkloadTable
from pybatsched.errors import InputError
from pybatsched.workload import load
from pybatsched.workload.formats.batsim4 import text_of
from pybatsched.workload.formats.conversion import LogOptions
from pybatsched.workload.logs.swf import read_swf
from pybatsched.workload.selection import Selection
from pybatsched.workload.walltimes import Walltimes
from pybatsched.workload.weeks import (
    WEEK_S,
    Week,
    WeekChoice,
    busy_weeks,
    range_of,
    weekly,
    weeks_of,
    weeks_of_workload,
)

HALF = WEEK_S // 2


def test_weeks_begin_with_the_first_submission_and_use_logged_starts(tmp_path: Path) -> None:
    made = trace(
        tmp_path,
        line(1, 1000, wait=0, run=HALF, allocated=4),  # half of week 1 on half of the machine: 25 %
        line(2, 1000, wait=WEEK_S - 100, run=200, allocated=8),  # 100 s on all of it in either week
        line(3, 1000 + WEEK_S, wait=-1, run=WEEK_S, allocated=-1, requested=2),  # a quarter of week 2
        line(4, 1000 + 2 * WEEK_S + 5, wait=0, run=10 * WEEK_S, allocated=8),  # the last week, and on
        line(5, 1000 + 3 * WEEK_S, run=0),  # submits nothing
    )
    weeks = weeks_of(made, 8)
    hundred = 100 / WEEK_S
    assert [(week.number, week.starts_at, week.n_jobs) for week in weeks] == [
        (1, 1000, 2),
        (2, 1000 + WEEK_S, 1),
        (3, 1000 + 2 * WEEK_S, 1),
    ]
    assert [week.utilisation for week in weeks] == pytest.approx([0.25 + hundred, 0.25 + hundred, 1 - 5 / WEEK_S])
    assert weeks[0].ends_at == weeks[1].starts_at
    assert next(week.utilisation for week in weeks_of(made, 16)) == pytest.approx((0.25 + hundred) / 2)


def test_sizes_as_requested(tmp_path: Path) -> None:
    made = trace(tmp_path, line(1, run=WEEK_S, allocated=4, requested=8))
    assert [week.utilisation for week in weeks_of(made, 8)] == [0.5]
    assert [week.utilisation for week in weeks_of(made, 8, "requested")] == [1.0]


def test_a_log_without_jobs_has_no_weeks(tmp_path: Path) -> None:
    assert weeks_of(trace(tmp_path, line(run=0)), 8) == []


def test_a_wrong_time_does_not_fill_the_memory(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a log of at most 100,000 weeks"):
        weeks_of(trace(tmp_path, line(1), line(2, 1e15)), 8)


def test_busy_weeks() -> None:
    weeks = [Week(k + 1, 0, share, 1) for k, share in enumerate([0.9, 0.7, 0.69, 1.07, 0.8])]
    assert [week.number for week in busy_weeks(weeks)] == [2, 4]
    assert [week.number for week in busy_weeks(weeks, keep_ends=True)] == [1, 2, 4, 5]
    assert [week.number for week in busy_weeks(weeks, 0.7, 1.0, keep_ends=True)] == [1, 2, 5]


def without_waits(path: Path) -> Path:
    """Write a log without waits: an offered load of 50 %, 100 %, nothing, 25 % and 200 % in its five weeks."""
    weeks = ((0, 4), (1, 8), (3, 2), (4, 16))
    lines = [line(k + 1, 7 + week * WEEK_S, wait=-1, run=WEEK_S, allocated=n) for k, (week, n) in enumerate(weeks)]
    (path / "log.swf").write_text("; MaxProcs: 8\n" + "\n".join(lines) + "\n")
    return path / "log.swf"


def test_weeks_of_a_log_without_waits(tmp_path: Path) -> None:
    path = without_waits(tmp_path)
    weeks = weeks_of(read_swf(path), 8)
    assert [(week.offered_load, week.utilisation, week.n_weeks) for week in weeks] == [
        (load, None, 5) for load in (0.5, 1.0, 0.0, 0.25, 2.0)
    ]
    assert weeks_of_workload(load(path)) == weeks
    for choice, numbers in (
        (WeekChoice(all=True), [1, 2, 4, 5]),  # week 3 has no jobs
        (WeekChoice(all=True, max_weeks=2), [1, 2]),
        (WeekChoice(numbers=(4, 2)), [2, 4]),
        (WeekChoice(offered_load=(0.2, 1.0)), [2, 4]),
        (WeekChoice(offered_load=(0.2, 1.0), keep_ends=True), [1, 2, 4]),
    ):
        assert [week.number for week in choice.of(weeks, "log.swf")] == numbers


def test_choices_without_weeks_are_errors(tmp_path: Path) -> None:
    weeks = weeks_of(read_swf(without_waits(tmp_path)), 8)
    for choice, text in (
        (WeekChoice(), "log.swf: the log has no waits, so the utilisation of its weeks is unknown; choose weeks by "),
        (WeekChoice(numbers=(2, 6)), "week 6: expected 1 to 5, the weeks of log.swf"),
        (WeekChoice(numbers=(3,)), "week 3: expected a week with jobs, found none in that week of log.swf"),
        (
            WeekChoice(offered_load=(3.0, 4.0)),
            (
                "log.swf: expected a week with an offered load of 3 to 4, which is neither the first nor the last, "
                "found 50%, 100%, 0%, 25%, 200%"
            ),
        ),
    ):
        with pytest.raises(InputError) as error:
            choice.of(weeks, "log.swf")
        assert str(error.value).startswith(text)
    with pytest.raises(InputError, match="expected a log with jobs, found none"):
        WeekChoice(all=True).of([], "log.swf")


def test_weeks_of_any_format_have_the_same_jobs(tmp_path: Path) -> None:
    path = without_waits(tmp_path)
    (tmp_path / "w.json").write_text(text_of(load(path)))
    found = []
    for name in ("log.swf", "w.json"):
        options = LogOptions(Walltimes("requested"))
        made = weekly(tmp_path / name, options, Selection(warm_up_s=WEEK_S), WeekChoice(all=True))
        found.append([(week, workload.jobs, workload.about["week"]) for week, workload, _ in made])
    assert found[0] == found[1]
    assert [len(jobs) for _, jobs, _ in found[0]] == [1, 2, 1, 2]


@pytest.mark.parametrize(
    ("weeks", "names"),
    [
        ("all", ["log-week01", "log-week02", "log-week04", "log-week05"]),
        ([4, 2], ["log-week02", "log-week04"]),
        ({"offered_load": [0.9, None]}, ["log-week02"]),
        ({"offered_load": [0.9, None], "keep_ends": True}, ["log-week02", "log-week05"]),
    ],
)
def test_weeks_of_a_campaign(weeks: object, names: list[str], tmp_path: Path) -> None:
    without_waits(tmp_path)
    spec = WorkloadTable.model_validate({"name": "log", "file": "log.swf", "weeks": weeks})
    assert [one.name for one in Preparer(tmp_path, [tmp_path]).prepare(spec, 0)] == names
    assert WorkloadTable.model_validate(spec.model_dump(mode="json", by_alias=True)) == spec  # as a manifest keeps it


@pytest.mark.parametrize(
    ("weeks", "text"),
    [
        ("busy", 'expected "all", a list of numbers, or a table such as { max_weeks = 4 }'),
        ([0], "greater than 0"),
        ({"numbers": [1], "utilisation": [0.5, 1]}, "expected only one of all, numbers, utilisation and offered_load"),
    ],
)
def test_bad_weeks_of_a_campaign(weeks: object, text: str) -> None:
    with pytest.raises(ValidationError) as error:
        WorkloadTable.model_validate({"name": "log", "file": "log.swf", "weeks": weeks})
    assert text in str(error.value)


def test_convert_writes_weeks_by_number_all_or_by_load(tmp_path: Path) -> None:
    without_waits(tmp_path)
    for options, names in (
        (("--week", "2"), ["w.json"]),
        (("--week", "4,2"), ["w-week02.json", "w-week04.json"]),
        (("--week", "all"), [f"w-week{k:02}.json" for k in (1, 2, 4, 5)]),
        (("--weeks", "--offered-load", "0.9:"), ["w-week02.json"]),
    ):
        done = run_cli("workload", "convert", "log.swf", "w.json", *options, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        found = sorted(tmp_path.glob("w*.json"))
        assert [path.name for path in found] == names
        for path in found:
            path.unlink()
    bad: tuple[tuple[tuple[str, ...], str], ...] = (
        (("--weeks",), "log.swf: the log has no waits"),
        (("--week", "2,x"), "expected a whole number, 1 or more, found 'x'"),
        (("--week", "3"), "week 3: expected a week with jobs"),
        (("--weeks", "--offered-load", "1:0"), "offered load: expected a range such as 0.7:1.0"),
        (("--weeks", "--offered-load", "0:1", "--utilisation", "0:1"), "expected only one"),
        (("--offered-load", "0:1"), "work only with --weeks"),
    )
    for words, text in bad:
        done = run_cli("workload", "convert", "log.swf", "w.json", *words, cwd=tmp_path)
        assert done.returncode == 2
        assert text in done.stderr
        assert not list(tmp_path.glob("w*.json"))


def test_ranges_of_weeks() -> None:
    assert range_of("0.7:1.0") == (0.7, 1.0)
    assert range_of("0.7:") == (0.7, float("inf"))
    assert range_of(":0.5") == (0, 0.5)
    for text in ("0.7", "1:0.5", "a:b", "-1:2", "nan:", ""):
        with pytest.raises(InputError, match=r"utilisation: expected a range such as 0\.7:1\.0"):
            range_of(text)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "n_weeks", "n_busy"), [("CEA-Curie-2011-2.1-cln.swf.gz", 37, 18), ("RICC-2010-2.swf.gz", 22, 19)]
)
def test_the_weeks_of_the_redirection_study(name: str, n_weeks: int, n_busy: int) -> None:
    """168 h from the first submission, 70 % or more in use by the log, not the first and last: 18 and 19 weeks."""
    log = read_swf(real(name))
    n_procs = log.header_count("MaxProcs")
    assert n_procs is not None
    weeks = weeks_of(log, n_procs)
    assert (len(weeks), len(busy_weeks(weeks))) == (n_weeks, n_busy)
    if name.startswith("RICC"):  # the log is not consistent with its machine: 100 % and 107 % in use
        assert [round(week.utilisation or 0, 2) for week in weeks[9:11]] == [1.0, 1.07]
