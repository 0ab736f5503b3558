"""Findings of lint: each with its count, first lines and remedy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.logs import line, log

from pybatsched import FieldModel
from pybatsched.core.fields import MetricFields
from pybatsched.errors import InputError
from pybatsched.policies import registry
from pybatsched.testing import Workload, run_policy
from pybatsched.workload.checks.lint import METRICS, OTHER_ORDER, lint, overtaken_jobs
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
        ([good(1, -1)], {"submit time unknown or negative": (1, [3])}),
        ([good(1, run=0), good(2, run=-1)], {"run time 0": (1, [3]), "run time unknown or negative": (1, [4])}),
        ([good(1, run=101)], {"ran longer than requested": (1, [3])}),
        ([good(1, requested_s=0)], {"requested time unknown, 0 or negative": (1, [3])}),
        ([good(1, 9), good(2, 5), good(3, 9)], {"submitted before the job above it": (1, [4])}),
        ([good(1, allocated=9, requested=9, wait=-1)], {"larger than the machine of 8": (1, [3])}),
        ([good(1, allocated=4)], {"allocated other processors than requested": (1, [3])}),
        ([good(1, allocated=-1)], {"allocated processors unknown, 0 or negative": (1, [3])}),
        (
            [good(1, allocated=0, requested=-1)],
            {"no processors, neither allocated nor requested": (1, [3])},
        ),
        ([good(1), good(2), good(1), good(1)], {"job number given before": (2, [5, 6])}),
        ([good(1), good(1, status=2)], {"a part of a job (status 2, 3 or 4)": (1, [4])}),
        ([good(1, preceding=7)], {"depends on a job that is not in the log": (1, [3])}),
        ([good(1, preceding=2), good(2)], {"depends on a job that comes later": (1, [3])}),
        ([good(1, preceding=1)], {"depends on itself": (1, [3])}),
        ([good(1, cpu="-7")], {"field 6 (average CPU time) negative": (1, [3])}),
        (["1 2 3", good(1)], {"bad line: expected at least 18 fields, found 3": (1, [3])}),
        (
            [good(k, wait=k, allocated=3, requested=3) for k in range(1, 6)],
            {"started while more processors than the machine has were in use (up to 15 of 8: 188%)": (3, [5, 6, 7])},
        ),
    ],
)
def test_unusual_jobs_of_a_log_are_found(tmp_path: Path, lines: list[str], expected: dict[str, Any]) -> None:
    found = lint(log(tmp_path, *lines))
    assert odd(found) == expected
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
        "header: no MaxProcs or MaxNodes": (1, [1]),
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
        ([{"subtime": 5}, {"subtime": 4}], {"submitted before the job above it": (1, [2])}),
        ([{"res": 5}, {"res": 0}], {"larger than the machine of 4": (1, [1]), "no processors": (1, [2])}),
        ([{"walltime": -1}], {"neither walltime nor estimate": (1, [1])}),
        ([{"walltime": -1, "estimate": 5}], {}),
        ([{"walltime": 5}], {"runs at least as long as its walltime": (1, [1])}),
        ([{"estimate": 10}], {"estimate above the walltime": (1, [1])}),
        ([{"estimate": 0}, {"estimate": "x"}], {"field estimate: expected more than 0 seconds": (2, [1, 2])}),
        ([{"depends_on": [2]}, {"depends_on": 9}], {"depends on a job that is not in the file": (1, [2])}),
        ([{"id": "w0!a"}], {"an id with a !, which separates workload and job in messages": (1, ["w0!a"])}),
        ([{"deadline": 5, "max_stay": 5}], {"both deadline and max_stay; expected one of them": (1, [1])}),
        (
            [{"input_file": "a"}, {"input_size_gb": 0}, {"input_file": "b", "input_size_gb": 6.4}],
            {
                "field input_size_gb: expected the size of the input_file in GB": (1, [1]),
                "field input_file: expected the name of the file whose size is given": (1, [2]),
            },
        ),
        (
            [{"input_file": "a", "input_size_gb": wrong} for wrong in (-0.1, "6.4", [1], True, 0)],
            {"field input_size_gb: expected GB from 0": (4, [1, 2, 3, 4])},
        ),
        (
            [{"input_file": wrong, "input_size_gb": 1} for wrong in (1.5, True, 7, "")],
            {"field input_file: expected a name": (4, [1, 2, 3, 4])},
        ),
        (
            [{"node_memory_gb": wrong} for wrong in (0, -1, "128", 0.5)],
            {"field node_memory_gb: expected more than 0 GB": (3, [1, 2, 3])},
        ),
        (
            [{"history_node": wrong} for wrong in (-1, 1.5, "3", True, 0)],
            {"field history_node: expected a whole number from 0": (4, [1, 2, 3, 4])},
        ),
        (
            [{"history_start": "soon"}, {"history_start": -5}, {"history_start": -5, "history_node": 0}],
            {
                "field history_start: expected seconds": (1, [1]),
                "field history_node: expected the node on which it started": (1, [2]),
            },
        ),
        ([{"evaluated": 1}, {"evaluated": False}], {"field evaluated: expected true or false": (1, [1])}),
        (
            [{"cluster": ""}, {"cluster": 3}, {"cluster": "ctc"}],
            {"field cluster: expected the name of a cluster": (2, [1, 2])},
        ),
        (
            [{"external": 1, "cluster": "a"}, {"external": True}, {"external": False}],
            {
                "field external: expected true or false": (1, [1]),
                "field cluster: expected the cluster that this external job goes to": (1, [2]),
            },
        ),
        (
            [{"alone_s": 0}, {"alone_s": "x"}, {"alone_s": 0.5}],
            {"field alone_s: expected more than 0 seconds": (2, [1, 2])},
        ),
        (
            [{"deadline": "soon"}, {"max_stay": -1}, {"max_stay": None}, {"deadline": 7.5}],
            {
                "field deadline: expected seconds from 0": (1, [1]),
                "field max_stay: expected seconds from 0": (2, [2, 3]),
            },
        ),
        ([{"urgent": 1}, {"urgent": True}], {"field urgent: expected true or false": (1, [1])}),
        (
            [{"memory_gb": "4"}, {"memory_gb": 4}],
            {"field memory_gb: expected gigabytes per processor from 0": (1, [1])},
        ),
        (
            [{"moldable": {"fraction": 2, "limit": 3}}, {"moldable": {"fraction": 0.5}}],
            {
                "field moldable.fraction: expected a number from 0 to 1": (1, [1]),
                "field moldable.limit: expected a whole number from 1": (1, [2]),
            },
        ),
        (
            [{"input_file": "a", "input_size_gb": 1}, {"input_file": "a", "input_size_gb": 2}],
            {"field input_size_gb: expected the size that this file has in a job before it": (1, [2])},
        ),
        ([{"project": 7, "colour": None}], {}),
    ],
)
def test_unusual_jobs_of_a_batsim_file_are_found(
    tmp_path: Path, jobs: list[dict[str, Any]], expected: dict[str, Any]
) -> None:
    found = lint(workload(tmp_path, *jobs), readers=READERS)
    assert found.format == "Batsim JSON"
    assert odd(found) == expected
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
