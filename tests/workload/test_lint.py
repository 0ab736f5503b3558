"""Findings of lint: each with its count, first lines and remedy."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.logs import SACCT_ZERO, line, log, sacct, sacct_line
from support.process import run_cli

from pybatsched import FieldModel
from pybatsched.core.fields import MetricFields
from pybatsched.errors import InputError
from pybatsched.policies import registry
from pybatsched.testing import Workload, run_policy
from pybatsched.workload.checks import log_checks
from pybatsched.workload.checks.job_order import OTHER_ORDER, overtaken_jobs
from pybatsched.workload.checks.lint import METRICS, lint
from pybatsched.workload.checks.lint_log import ESTIMATE, IN_FUTURE, LARGEST
from pybatsched.workload.report import LintReport

SHIPPED = ("conservative", "dbf", "easy", "fcfs", "locality", "reallocation", "redirection", "ujf", "ujfb")
READERS: dict[str, type[FieldModel]] = {
    METRICS: MetricFields,
    **{name: registry.find(name).cls.JobFields for name in SHIPPED},
}
CLEAN = {"requested": 2, "requested_s": 100, "cpu": "5", "used_kb": 1, "requested_kb": 1, "user": 1, "group": 1}
CLEAN |= {"application": 1, "queue": 1, "partition": 1}


def good(*args: Any, **fields: Any) -> str:
    return line(*args, **{**CLEAN, **fields})


def odd(found: LintReport) -> dict[str, tuple[int, list[int | str]]]:
    return {f.what: (f.count, f.places) for f in found.findings.values() if f.level == "odd"}


def notes(found: LintReport) -> dict[str, tuple[int, list[int | str]]]:
    return {f.what: (f.count, f.places) for f in found.findings.values() if f.level == "note"}


def test_a_clean_log_has_no_findings(tmp_path: Path) -> None:
    found = lint(log(tmp_path, good(1), good(2, 5, preceding=1)))
    assert (found.format, found.n_jobs, found.n_procs, found.findings, found.is_odd) == ("SWF", 2, 8, {}, False)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([good(1, -1)], {"submit time unknown or negative": [3]}),
        ([good(1, run=0), good(2, run=-1)], {"run time 0": [3], "run time unknown or negative": [4]}),
        ([good(1, run=101)], {"ran longer than requested": [3]}),
        ([good(1, requested_s=0)], {"requested time unknown, 0 or negative": [3]}),
        ([good(1, 9), good(2, 5), good(3, 9)], {"submitted before the job above it": [4]}),
        ([good(1, allocated=9, requested=9, wait=-1)], {"larger than the machine of 8": [3]}),
        ([good(1, allocated=4)], {"allocated other processors than requested": [3]}),
        ([good(1, allocated=-1)], {"allocated processors unknown, 0 or negative": [3]}),
        ([good(1, allocated=0, requested=-1)], {"no processors, neither allocated nor requested": [3]}),
        ([good(1), good(2), good(1), good(1)], {"job number given before": [5, 6]}),
        ([good(1), good(1, status=2)], {"a part of a job (status 2, 3 or 4)": [4]}),
        ([good(1, preceding=7)], {"depends on a job that is not in the log": [3]}),
        ([good(1, preceding=2), good(2)], {"depends on a job that comes later": [3]}),
        ([good(1, preceding=1)], {"depends on itself": [3]}),
        ([good(1, cpu="-7")], {"field 6 (average CPU time) negative": [3]}),
        (["1 2 3", good(1)], {"bad line: expected at least 18 fields, found 3": [3]}),
        (
            [good(k, wait=k, allocated=3, requested=3) for k in range(1, 6)],
            {"started while more processors than the machine has were in use (up to 15 of 8: 188%)": [5, 6, 7]},
        ),
    ],
)
def test_unusual_jobs_of_a_log_are_found(tmp_path: Path, lines: list[str], expected: dict[str, Any]) -> None:
    found = lint(log(tmp_path, *lines))
    assert odd(found) == {what: (len(places), places) for what, places in expected.items()}
    assert found.is_odd
    assert all(finding.remedy for finding in found.findings.values())


def test_a_job_may_start_when_another_ends_without_a_finding(tmp_path: Path) -> None:
    lines = [good(1, 0, run=50, allocated=8, requested=8), good(2, 20, wait=30, allocated=8, requested=8)]
    assert not odd(lint(log(tmp_path, *lines)))
    assert odd(lint(log(tmp_path, *lines), n_procs=7)).keys() == {
        "larger than the machine of 7",
        "started while more processors than the machine has were in use (up to 8 of 7: 114%)",
    }


def test_an_estimated_machine_size_gives_no_finding_of_overuse(tmp_path: Path) -> None:
    """Without a size in the header, the largest job is taken for the machine; that others ran beside it is not odd."""
    lines = [good(k, wait=k, allocated=3, requested=3) for k in range(1, 6)]
    path = log(tmp_path, *lines, header="")
    assert not lint(path).is_odd
    assert [*odd(lint(path, n_procs=8))] == [
        "started while more processors than the machine has were in use (up to 15 of 8: 188%)"
    ]


def test_notes_on_a_log(tmp_path: Path) -> None:
    header = "; MaxRecords: 9\n"
    lines = [good(k, 60 * k, status=5, user="pat", group=-1, requested_s=60) for k in range(1, 8)]
    found = lint(log(tmp_path, *lines, good(8, 600, requested=-1), header=header))
    assert not found.is_odd
    assert notes(found) == {
        LARGEST.format("processors"): (1, [2]),
        "header: MaxRecords is 9, the file has 8 jobs": (1, [1]),
        "ran exactly as long as requested": (7, [2, 3, 4, 5, 6]),
        "cancelled (status 5)": (7, [2, 3, 4, 5, 6]),
        "requested processors unknown, 0 or negative": (1, [9]),
        "field 12 (user) is a name, not a number": (7, [2, 3, 4, 5, 6]),
        "field 13 (group) unknown": (7, [2, 3, 4, 5, 6]),
    }


def test_instants_whose_jobs_are_taken_in_another_order(tmp_path: Path) -> None:
    numbers = [(9, 5), (10, 5), (11, 5), (12, 7), (13, 7), (99, 60), (100, 60), (7, 61), (6, 61)]
    found = lint(log(tmp_path, *(good(number, at) for number, at in numbers)))
    assert notes(found)[OTHER_ORDER] == (3, [3, 8, 10])  # not at 7: 12 is before 13 as a text as well
    skipped = lint(log(tmp_path, good(9, 5), good(10, 5, run=0), good(11, 6), good(9, 6)))
    assert notes(skipped).get(OTHER_ORDER) is None  # the second makes no job


def test_instants_of_a_batsim_file(tmp_path: Path) -> None:
    jobs: list[dict[str, Any]]
    jobs = [{"id": 9}, {"id": "10"}, {"id": "b", "subtime": 3}, {"id": "a", "subtime": 3}, {"id": "c", "subtime": 3}]
    assert notes(lint(workload(tmp_path, *jobs)))[OTHER_ORDER] == (2, [9, "b"])


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 12)), max_size=12, unique_by=lambda job: job[1]))
def test_the_count_is_that_of_the_instants_at_which_the_simulator_has_another_order(
    jobs: list[tuple[int, int]],
) -> None:
    made = Workload()
    for at, number in jobs:
        made.job(number, n=1, s=1, at=at, walltime=2)
    taken = list(run_policy("fcfs", made, n_procs=1).jobs.values()) if jobs else []
    taken.sort(key=lambda job: job.started_at or 0)
    instants = {at for at, _ in jobs}
    differ = {
        at
        for at in instants
        if [f"w0!{number}" for when, number in jobs if when == at]
        != [job.id for job in taken if job.fields["subtime"] == at]
    }
    assert len(list(overtaken_jobs((at, str(number), number) for at, number in jobs))) == len(differ)


def test_a_file_without_jobs_is_not_a_log(tmp_path: Path) -> None:
    (tmp_path / "readme").write_text("This is\nnot a log.\n")
    with pytest.raises(InputError, match="line 1: expected at least 18 fields, found 2; no line of the file is a job"):
        lint(tmp_path / "readme")


def workload(path: Path, *jobs: dict[str, Any], **profiles: Any) -> Path:
    full = [{"id": k, "subtime": 0, "res": 1, "profile": "five", "walltime": 9, **job} for k, job in enumerate(jobs, 1)]
    content = {"nb_res": 4, "jobs": full, "profiles": {"five": {"type": "delay", "delay": 5}, **profiles}}
    (path / "w.json").write_text(json.dumps(content))
    return path / "w.json"


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ([{"subtime": 5}, {"subtime": 4}], {"submitted before the job above it": [2]}),
        ([{"res": 5}, {"res": 0}], {"larger than the machine of 4": [1], "no processors": [2]}),
        ([{"walltime": -1}], {"neither walltime nor estimate": [1]}),
        ([{"walltime": -1, "estimate": 5}], {}),
        ([{"walltime": 5}], {"runs at least as long as its walltime": [1]}),
        ([{"estimate": 10}], {"estimate above the walltime": [1]}),
        ([{"estimate": 0}, {"estimate": "x"}], {"field estimate: expected more than 0 seconds": [1, 2]}),
        ([{"depends_on": [2]}, {"depends_on": 9}], {"depends on a job that is not in the file": [2]}),
        ([{"id": "w0!a"}], {"an id with a !, which separates workload and job in messages": ["w0!a"]}),
        ([{"deadline": 5, "max_stay": 5}], {"both deadline and max_stay; expected one of them": [1]}),
        (
            [{"input_file": "a"}, {"input_size_gb": 0}, {"input_file": "b", "input_size_gb": 6.4}],
            {
                "field input_size_gb: expected the size of the input_file in GB": [1],
                "field input_file: expected the name of the file whose size is given": [2],
            },
        ),
        (
            [{"input_file": "a", "input_size_gb": wrong} for wrong in (-0.1, "6.4", [1], True, 0)],
            {"field input_size_gb: expected GB from 0": [1, 2, 3, 4]},
        ),
        (
            [{"input_file": wrong, "input_size_gb": 1} for wrong in (1.5, True, 7, "")],
            {"field input_file: expected a name": [1, 2, 3, 4]},
        ),
        (
            [{"node_memory_gb": wrong} for wrong in (0, -1, "128", 0.5)],
            {"field node_memory_gb: expected more than 0 GB": [1, 2, 3]},
        ),
        (
            [{"history_node": wrong} for wrong in (-1, 1.5, "3", True, 0)],
            {"field history_node: expected a whole number from 0": [1, 2, 3, 4]},
        ),
        (
            [{"history_start": "soon"}, {"history_start": -5}, {"history_start": -5, "history_node": 0}],
            {
                "field history_start: expected seconds": [1],
                "field history_node: expected the node on which it started": [2],
            },
        ),
        ([{"evaluated": 1}, {"evaluated": False}], {"field evaluated: expected true or false": [1]}),
        (
            [{"cluster": ""}, {"cluster": 3}, {"cluster": "ctc"}],
            {"field cluster: expected the name of a cluster": [1, 2]},
        ),
        (
            [{"external": 1, "cluster": "a"}, {"external": True}, {"external": False}],
            {
                "field external: expected true or false": [1],
                "field cluster: expected the cluster that this external job goes to": [2],
            },
        ),
        ([{"alone_s": 0}, {"alone_s": "x"}, {"alone_s": 0.5}], {"field alone_s: expected more than 0 seconds": [1, 2]}),
        (
            [{"deadline": "soon"}, {"max_stay": -1}, {"max_stay": None}, {"deadline": 7.5}],
            {"field deadline: expected seconds from 0": [1], "field max_stay: expected seconds from 0": [2, 3]},
        ),
        ([{"urgent": 1}, {"urgent": True}], {"field urgent: expected true or false": [1]}),
        ([{"memory_gb": "4"}, {"memory_gb": 4}], {"field memory_gb: expected gigabytes per processor from 0": [1]}),
        (
            [{"moldable": {"fraction": 2, "limit": 3}}, {"moldable": {"fraction": 0.5}}],
            {
                "field moldable.fraction: expected a number from 0 to 1": [1],
                "field moldable.limit: expected a whole number from 1": [2],
            },
        ),
        (
            [{"input_file": "a", "input_size_gb": 1}, {"input_file": "a", "input_size_gb": 2}],
            {"field input_size_gb: expected the size that this file has in a job before it": [2]},
        ),
        ([{"project": 7, "colour": None}], {}),
    ],
)
def test_unusual_jobs_of_a_batsim_file_are_found(
    tmp_path: Path, jobs: list[dict[str, Any]], expected: dict[str, Any]
) -> None:
    found = lint(workload(tmp_path, *jobs), readers=READERS)
    assert found.format == "Batsim JSON"
    assert odd(found) == {what: (len(places), places) for what, places in expected.items()}
    assert not notes(found)


def test_unused_profiles(tmp_path: Path) -> None:
    found = lint(workload(tmp_path, {}, six={"type": "delay", "delay": 6}))
    assert notes(found) == {"a profile that no job uses": (1, ["profile six"])}


def test_a_broken_batsim_file_cannot_be_linted(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="field res: expected"):
        lint(workload(tmp_path, {"res": -1}))


def test_policies_that_reject_a_field_are_listed(tmp_path: Path) -> None:
    jobs = ({"deadline": "soon"}, {"memory_gb": -1}, {"estimate": 0}, {"urgent": "yes"}, {"alone_s": 0})
    found = lint(workload(tmp_path, *jobs), readers=READERS)
    assert {what: finding.remedy for what, finding in found.findings.items()} == {
        "field deadline: expected seconds from 0": "kept; rejected by metrics, dbf",
        "field memory_gb: expected gigabytes per processor from 0": "kept; rejected by ujfb",
        "field estimate: expected more than 0 seconds": "kept; rejected by schedulers",
        "field urgent: expected true or false": (
            "kept; rejected by metrics, conservative, easy, fcfs, redirection, ujf, dbf, reallocation, ujfb"
        ),
        "field alone_s: expected more than 0 seconds": "kept; rejected by metrics",
    }
    assert not lint(workload(tmp_path, {"deadline": "soon"})).findings  # no known policy reads it


DAY = 86_400
ALWAYS = {ESTIMATE.format("cores"): ("note", 1, [2])}


def findings(folder: Path, *lines: str, n_procs: int | None = None) -> dict[str, tuple[str, int, list[int | str]]]:
    found = lint(sacct(folder, *lines), n_procs).findings
    return {what: (one.level, one.count, one.places) for what, one in found.items()}


def test_nothing_but_the_estimate_of_the_machine(tmp_path: Path) -> None:
    assert findings(tmp_path, sacct_line("1"), sacct_line("2", 5)) == ALWAYS
    assert findings(tmp_path, sacct_line("1"), sacct_line("2", 5), n_procs=8) == {}


def test_run_times_that_are_not_from_start_to_end(tmp_path: Path) -> None:
    found = findings(tmp_path, sacct_line("1", Elapsed="50"), sacct_line("2", End=str(SACCT_ZERO + 3660)))
    assert found["run time is not end - start"] == ("odd", 1, [2])
    assert found["run time differs from end - start by an hour: daylight saving time"] == ("odd", 1, [3])


def test_a_start_before_the_submission(tmp_path: Path) -> None:
    assert findings(tmp_path, sacct_line("1", wait=-30))["started before it was submitted"] == ("odd", 1, [2])


def test_a_submission_in_the_future(tmp_path: Path) -> None:
    """Tomorrow may be a clock of another zone; in 2100 it is an error."""
    hour_ahead, year_2100 = int(time.time()) + 3600 - SACCT_ZERO, 4_102_444_800 - SACCT_ZERO
    lines = (sacct_line("1"), sacct_line("2", hour_ahead), sacct_line("3", year_2100))
    assert findings(tmp_path, *lines)[IN_FUTURE] == ("odd", 1, [4])


def test_runs_beyond_the_limit(tmp_path: Path) -> None:
    lines = (sacct_line("1", run=630), sacct_line("2", run=700), sacct_line("3", run=2000), sacct_line("4"))
    found = findings(tmp_path, *lines)
    assert found["ran longer than its time limit (by up to 1,400 s)"] == ("odd", 2, [3, 4])
    assert found["ran up to a minute longer than its time limit"] == ("note", 1, [2])


@pytest.mark.parametrize(
    ("limit", "what"), [("00:20:00", log_checks.MINUTES), ("86400", log_checks.SECONDS), ("01:00:00", None)]
)
def test_units_of_limits(tmp_path: Path, limit: str, what: str | None) -> None:
    found = findings(tmp_path, *(sacct_line(str(n), n, Timelimit=limit) for n in range(10, 30)))
    assert {one for one in (log_checks.MINUTES, log_checks.SECONDS) if one in found} == ({what} if what else set())


def test_unknown_limits_are_noted(tmp_path: Path) -> None:
    lines = (sacct_line("1", Timelimit="UNLIMITED"), sacct_line("2", Timelimit=""))
    assert findings(tmp_path, *lines)["time limit unknown, UNLIMITED or Partition_Limit"] == ("note", 2, [2, 3])


def test_a_clock_that_was_set_back(tmp_path: Path) -> None:
    lines = (sacct_line("1", 5000), sacct_line("2", 1400), sacct_line("3", 1500))
    what = "submitted before the job with the lower id on the line above (by up to 3,600 s): the clock was set back"
    assert findings(tmp_path, *lines)[what] == ("odd", 1, [3])
    requeued = (sacct_line("1", 0), sacct_line("1", 5000), sacct_line("2", 1400))
    assert not any("clock" in what for what in findings(tmp_path, *requeued))


def test_ids_given_before(tmp_path: Path) -> None:
    lines = (sacct_line("1"), sacct_line("1", 100), sacct_line("2_1", 200), sacct_line("2_2", 200))
    assert findings(tmp_path, *lines)["id given before"] == ("odd", 1, [3])


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
    assert findings(tmp_path, sacct_line("1", run=0, cores=4)) == {**ALWAYS, "run time 0 or unknown": ("odd", 1, [2])}


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
