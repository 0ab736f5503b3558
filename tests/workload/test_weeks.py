"""The weeks of a log and their utilisation."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.logs import line, real, trace

from pybatsched.errors import InputError
from pybatsched.workload.formats.swf import read_swf
from pybatsched.workload.weeks import WEEK_S, Week, busy_weeks, range_of, weeks_of

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
