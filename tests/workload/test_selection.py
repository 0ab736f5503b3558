"""Parts of a log: windows of time, sizes, and the first jobs."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.logs import counts, line, trace

from pybatsched.errors import InputError
from pybatsched.workload.formats.conversion import LogOptions
from pybatsched.workload.logs.conversion import to_workload
from pybatsched.workload.selection import MOVED, OUTSIDE, TOO_LARGE, TOO_SMALL, Selection
from pybatsched.workload.walltimes import OVERRAN, Walltimes

EXACT = Walltimes("exact")


def test_windows_include_their_begin_and_shift_to_zero(tmp_path: Path) -> None:
    made = trace(tmp_path, *(line(k, 10 * k) for k in range(1, 7)))
    workload, report = to_workload(made, LogOptions(EXACT), Selection(from_at=20, to_at=50))
    assert [(job["id"], job["subtime"]) for job in workload.jobs] == [(2, 0), (3, 10), (4, 20)]
    assert counts(report) == {OUTSIDE: (3, [3, 7, 8])}
    assert workload.about["selection"] == {"from": 20, "to": 50}
    assert workload.about["shifted_by"] == 20
    kept, _ = to_workload(made, LogOptions(EXACT), Selection(from_at=20, to_at=50, shift=False))
    assert [job["subtime"] for job in kept.jobs] == [20, 30, 40]
    shifted, _ = to_workload(made, LogOptions(EXACT), Selection(shift=True))
    assert [job["subtime"] for job in shifted.jobs] == [0, 10, 20, 30, 40, 50]


def test_sizes_and_the_first_jobs_by_submission(tmp_path: Path) -> None:
    made = trace(
        tmp_path, line(1, 9, allocated=1), line(2, 5, allocated=4), line(3, 1, allocated=8), line(4, 3), line(5, 2)
    )
    workload, report = to_workload(made, LogOptions(EXACT), Selection(min_size=2, max_size=4, max_jobs=2))
    assert [job["id"] for job in workload.jobs] == [5, 4]
    assert counts(report) == {
        TOO_SMALL: (1, [3]),
        TOO_LARGE: (1, [5]),
        "not among the first 2 jobs: dropped": (1, [4]),
        MOVED: (2, [6, 7]),
    }


def test_what_is_changed_is_counted_for_kept_jobs_only(tmp_path: Path) -> None:
    made = trace(tmp_path, line(1, 0, requested_s=1), line(2, 5, requested_s=1))
    report = to_workload(made, LogOptions(), Selection(from_at=5))[1]
    assert counts(report) == {OUTSIDE: (1, [3]), OVERRAN: (1, [4])}


def test_a_selection_of_nothing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no job is left: 1 job submitted from 0 s to 0 s"):
        to_workload(trace(tmp_path, line()), LogOptions(), Selection(from_at=100))


def test_a_log_without_jobs_is_a_workload_without_jobs(tmp_path: Path) -> None:
    workload, report = to_workload(trace(tmp_path), LogOptions(), Selection(from_at=100))
    assert (workload.jobs, workload.n_procs, report.n_read) == ([], 8, 0)
