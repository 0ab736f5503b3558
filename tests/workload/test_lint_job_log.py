"""Findings in logs of Slurm: times, limits, clocks, ids, gaps and use beyond the machine."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from support.logs import SACCT_ZERO, line, sacct, sacct_line
from support.process import run_cli

from pybatsched.errors import InputError
from pybatsched.workload.checks import lint_job_log as rules, log_checks
from pybatsched.workload.checks.lint import lint

DAY = 86_400
ALWAYS = {rules.ESTIMATE.format("cores"): ("note", 1, [2])}


def findings(folder: Path, *lines: str, n_procs: int | None = None) -> dict[str, tuple[str, int, list[int | str]]]:
    found = lint(sacct(folder, *lines), n_procs).findings
    return {what: (one.level, one.count, one.places) for what, one in found.items()}


def test_nothing_but_the_estimate_of_the_machine(tmp_path: Path) -> None:
    assert findings(tmp_path, sacct_line("1"), sacct_line("2", 5)) == ALWAYS
    assert findings(tmp_path, sacct_line("1"), sacct_line("2", 5), n_procs=8) == {}


def test_run_times_that_are_not_from_start_to_end(tmp_path: Path) -> None:
    found = findings(tmp_path, sacct_line("1", Elapsed="50"), sacct_line("2", End=str(SACCT_ZERO + 3660)))
    assert found[rules.OTHER_RUN_TIME] == ("odd", 1, [2])
    assert found[rules.DAYLIGHT_SAVING] == ("odd", 1, [3])


def test_a_start_before_the_submission(tmp_path: Path) -> None:
    assert findings(tmp_path, sacct_line("1", wait=-30))[rules.EARLY_START] == ("odd", 1, [2])


def test_a_submission_in_the_future(tmp_path: Path) -> None:
    """Tomorrow may be a clock of another zone; in 2100 it is an error."""
    hour_ahead, year_2100 = int(time.time()) + 3600 - SACCT_ZERO, 4_102_444_800 - SACCT_ZERO
    lines = (sacct_line("1"), sacct_line("2", hour_ahead), sacct_line("3", year_2100))
    assert findings(tmp_path, *lines)[rules.IN_FUTURE] == ("odd", 1, [4])


def test_runs_beyond_the_limit(tmp_path: Path) -> None:
    lines = (sacct_line("1", run=630), sacct_line("2", run=700), sacct_line("3", run=2000), sacct_line("4"))
    found = findings(tmp_path, *lines)
    assert found[rules.BEYOND_LIMIT.format("1,400")] == ("odd", 2, [3, 4])
    assert found["ran up to a minute longer than its time limit"] == ("note", 1, [2])


@pytest.mark.parametrize(
    ("limit", "what"), [("00:20:00", log_checks.MINUTES), ("86400", log_checks.SECONDS), ("01:00:00", None)]
)
def test_units_of_limits(tmp_path: Path, limit: str, what: str | None) -> None:
    found = findings(tmp_path, *(sacct_line(str(n), n, Timelimit=limit) for n in range(10, 30)))
    assert {one for one in (log_checks.MINUTES, log_checks.SECONDS) if one in found} == ({what} if what else set())


def test_unknown_limits_are_noted(tmp_path: Path) -> None:
    lines = (sacct_line("1", Timelimit="UNLIMITED"), sacct_line("2", Timelimit=""))
    assert findings(tmp_path, *lines)[rules.NO_LIMIT] == ("note", 2, [2, 3])


def test_a_clock_that_was_set_back(tmp_path: Path) -> None:
    lines = (sacct_line("1", 5000), sacct_line("2", 1400), sacct_line("3", 1500))
    assert findings(tmp_path, *lines)[rules.CLOCK_STEP.format("3,600")] == ("odd", 1, [3])
    requeued = (sacct_line("1", 0), sacct_line("1", 5000), sacct_line("2", 1400))
    assert not any("clock" in what for what in findings(tmp_path, *requeued))


def test_ids_given_before(tmp_path: Path) -> None:
    lines = (sacct_line("1"), sacct_line("1", 100), sacct_line("2_1", 200), sacct_line("2_2", 200))
    assert findings(tmp_path, *lines)[rules.DUPLICATE] == ("odd", 1, [3])


def test_gaps_without_submissions(tmp_path: Path) -> None:
    lines = (sacct_line("1"), sacct_line("2", 6 * DAY), sacct_line("3", 16 * DAY))
    assert findings(tmp_path, *lines)[log_checks.GAP.format(10)] == ("note", 1, [4])


def test_use_beyond_the_machine(tmp_path: Path) -> None:
    lines = (sacct_line("1", 0, 0, 100, 3), sacct_line("2", 10, 0, 100, 3), sacct_line("3", 20, 200, 10, 4))
    found = findings(tmp_path, *lines, n_procs=4)
    assert found[log_checks.BEYOND_MACHINE.format("cores", 6, 4, 1.5)] == ("odd", 1, [3])
    assert findings(tmp_path, *lines, n_procs=3)["larger than the machine of 3"] == ("odd", 1, [4])


def test_jobs_that_did_not_run_are_noted(tmp_path: Path) -> None:
    found = findings(
        tmp_path,
        sacct_line("1"),
        sacct_line("2", run=0, State="CANCELLED by 5"),
        sacct_line("3", State="RUNNING", End="Unknown"),
        sacct_line("4", run=0),
        sacct_line("1"),
    )
    assert found["cancelled before it started"] == ("note", 1, [3])
    assert found["still running at the end of the log"] == ("note", 1, [4])
    assert found["run time 0 or unknown"] == ("odd", 1, [5])
    assert found["a record that another line repeats, or repeats with the end of the job: dropped"][1:] == (1, [6])


def test_times_without_a_zone(tmp_path: Path) -> None:
    line = sacct_line("1", Submit="2024-01-01T00:00:00", Eligible="")
    assert findings(tmp_path, line)["times have no zone"] == ("note", 1, [2])
    file = sacct(tmp_path, line)
    done = run_cli("workload", "lint", str(file), "--timezone", "Europe/Paris", "--strict")
    assert (done.returncode, "times have no zone" in done.stdout) == (0, False), done.stdout


def test_bad_lines(tmp_path: Path) -> None:
    found = findings(tmp_path, sacct_line("1"), sacct_line("2", NCPUS="x"))
    assert found["field NCPUS: expected a whole number, 0 or more"] == ("odd", 1, [3])
    with pytest.raises(InputError, match="line 2: field NCPUS: .*; no line of the file is a job"):
        findings(tmp_path, sacct_line("2", NCPUS="x"))


def test_a_job_without_a_run_time_does_not_exceed_an_estimate(tmp_path: Path) -> None:
    assert findings(tmp_path, sacct_line("1", run=0, cores=4)) == {
        **ALWAYS,
        "run time 0 or unknown": ("odd", 1, [2]),
    }


# --- units --------------------------------------------------------------------------------------------------------


def table_findings(folder: Path, units: dict[str, str], n_jobs: int = 1000) -> set[str]:
    """Return the problems of a table: a job every 600 s, of an hour, with a limit of two hours."""
    rows = [f"{n},{1_600_000_000 + 600 * n},3600,7200,1\n" for n in range(n_jobs)]
    (folder / "t.csv").write_text("".join(("job,submitted,ran,most,cores\n", *rows)))
    given = {"submit": "s", "run_time": "s", "limit": "s", **units}
    columns = zip(given.items(), ("submitted", "ran", "most"), strict=True)
    lines = (f'{what} = {{ column = "{column}", unit = "{unit}" }}\n' for (what, unit), column in columns)
    (folder / "m.toml").write_text(f'[columns]\nid = "job"\ncores = "cores"\n{"".join(lines)}')
    found = lint(folder / "t.csv", 100_000, mapping=str(folder / "m.toml"))
    each = "ran longer than its time limit"
    return {what for what, one in found.findings.items() if one.level == "odd" and not what.startswith(each)}


RAN, MOST = "column ran (run_time, unit {})", "column most (limit, unit {})"


@pytest.mark.parametrize(
    ("units", "expected"),
    [
        ({}, []),
        ({"submit": "ms"}, [log_checks.SHORT_LOG.format(1000, 599.4, "column submitted (submit, unit ms)")]),
        (
            {"run_time": "d"},
            [
                log_checks.LONG_RUNS.format(3600, RAN.format("d")),
                log_checks.MOST_BEYOND.format(1000, 1000, MOST.format("s"), RAN.format("d")),
            ],
        ),
        ({"run_time": "ms"}, [log_checks.SHORT_RUNS.format(1000, 3.6, RAN.format("ms"))]),
        ({"limit": "ms"}, [log_checks.MOST_BEYOND.format(1000, 1000, MOST.format("ms"), RAN.format("s"))]),
    ],
)
def test_units_of_a_table(tmp_path: Path, units: dict[str, str], expected: list[str]) -> None:
    assert table_findings(tmp_path, units) == set(expected)
    assert table_findings(tmp_path, units, n_jobs=9) == set()


def test_submissions_over_decades(tmp_path: Path) -> None:
    lines = (line(n, n * 100_000_000, requested_s=9) for n in range(1, 12))
    (tmp_path / "log.swf").write_text("; MaxProcs: 9\n" + "\n".join(lines) + "\n")
    found = lint(tmp_path / "log.swf").findings
    assert "submissions are 32 years apart: is the unit of field 2 (submit time) right?" in found
    assert (
        "11 of 11 jobs ran longer than their time limit: is the unit of field 9 (requested time) or of field 4 (run "
        "time) right?" in found
    )
