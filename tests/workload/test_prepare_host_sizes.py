"""Sizes in cores converted to sizes in hosts: rounded up, counted and reported, by option or by platform name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.logs import line, log
from support.process import run_cli

from pybatsched.errors import InputError
from pybatsched.machines import names
from pybatsched.metrics import jobs_csv
from pybatsched.platform.groups import host_size
from pybatsched.platform.xml import parse
from pybatsched.workload import prepare
from pybatsched.workload.formats.conversion import LOOSE
from pybatsched.workload.model import Workload
from pybatsched.workload.prepare import in_hosts
from pybatsched.workload.selection import OUTSIDE, TOO_MANY, Selection, seconds_of
from pybatsched.workload.walltimes import Walltimes

LOG = (line(1, 0, allocated=16), line(2, 1, allocated=17), line(3, 2, allocated=1), line(4, 3, allocated=4096))


BOUND = {
    "parallel": {"type": "parallel", "cpu": [1] * 32, "com": [0] * 1024},
    "total": {"type": "parallel_homogeneous_total", "cpu": 1e9, "com": 0},
    "smpi": {"type": "smpi", "trace": "a.txt"},
    "easy": {"type": "delay", "delay": 5},
    "twice": {"type": "composed", "repeat": 2, "seq": ["easy", "total"]},
    "hears": {"type": "composed", "repeat": 1, "seq": ["recv"]},
    "recv": {"type": "recv", "regex": ".*", "success": "parallel", "failure": "easy", "polltime": 1},
}


def workload(*sizes: int, profile: str = "delay", **fields: Any) -> Workload:
    profiles: dict[str, dict[str, Any]]
    profiles = {"delay": {"type": "delay", "delay": 5}, "parallel": {"type": "parallel", "cpu": [1], "com": [0]}}
    jobs = [{"id": k, "subtime": 0, "res": n, "profile": profile, **fields} for k, n in enumerate(sizes)]
    return Workload(jobs, profiles, 64, "w.json")


@given(st.lists(st.integers(0, 10_000)), st.integers(1, 512))
def test_jobs_get_as_many_hosts_as_they_need_and_no_more(sizes: list[int], n_cores: int) -> None:
    made, report = in_hosts(workload(*sizes), "node", n_cores)
    for cores, job in zip(sizes, made.jobs, strict=True):
        assert job["res"] * n_cores >= cores > (job["res"] - 1) * n_cores or cores == job["res"] == 0
    rounded = report.rule_counts.get("cores that do not fill the last node: rounded up")
    assert (0 if rounded is None else rounded.count) == sum(cores % n_cores > 0 for cores in sizes)
    assert made.n_procs == -(-64 // n_cores)


def test_memory_of_a_processor_becomes_that_of_a_host() -> None:
    made, _ = in_hosts(workload(16, 20, memory_gb=2), "node", 16)
    assert [job["memory_gb"] for job in made.jobs] == [32, 20]  # the whole job needs as much as before


def test_sizes_already_in_nodes_are_rejected() -> None:
    once, _ = in_hosts(workload(16), "node", 16)
    with pytest.raises(InputError, match="expected sizes in cores, found sizes that were converted to nodes"):
        in_hosts(once, "node", 16)


@pytest.mark.parametrize(
    ("profile", "found"),
    [
        ("parallel", '"parallel" of type parallel: it has an amount for each processor'),
        ("total", '"total" of type parallel_homogeneous_total: its amounts are shared among the processors'),
        ("smpi", '"smpi" of type smpi: its ranks are written for a number of hosts'),
        ("twice", '"total" of type parallel_homogeneous_total: its amounts are shared among the processors'),
        ("hears", '"parallel" of type parallel: it has an amount for each processor'),
    ],
)
def test_work_that_would_take_another_time_is_rejected(profile: str, found: str, tmp_path: Path) -> None:
    """Also if it is a part of the work; an unused profile is no reason."""
    jobs = [{"id": "a", "subtime": 0, "res": 32, "profile": profile}, {"id": "b", "subtime": 0, "res": 1}]
    content = {"nb_res": 64, "jobs": [jobs[0], jobs[1] | {"profile": "easy"}], "profiles": BOUND}
    (tmp_path / "w.json").write_text(json.dumps(content))
    args = ("workload", "convert", "w.json", "v.json", "--platform", "curie-node", "--units", "node")
    done = run_cli(*args, cwd=tmp_path)
    assert (done.returncode, (tmp_path / "v.json").exists()) == (2, False)
    expected = "field profile: expected one whose duration does not depend on the number of processors"
    assert done.stderr.endswith(f'w.json: job "a", {expected}, found {found}\n')
    (tmp_path / "w.json").write_text(json.dumps(content | {"jobs": [jobs[0] | {"profile": "easy"}]}))
    assert run_cli(*args, cwd=tmp_path).returncode == 0


def test_ranks_on_hosts_are_rejected() -> None:
    with pytest.raises(InputError, match="^w.json: job 0, field smpi_ranks_to_hosts_mapping: expected none, because"):
        in_hosts(workload(1, smpi_ranks_to_hosts_mapping=[0]), "node", 16)


@pytest.mark.parametrize("profile", ["easy", "all"])
def test_work_takes_as_long_on_hosts(profile: str, tmp_path: Path) -> None:
    profiles = {"easy": {"type": "parallel_homogeneous", "cpu": 2.16e11, "com": 0}, "d": {"type": "delay", "delay": 3}}
    profiles |= {"all": {"type": "composed", "repeat": 2, "seq": ["easy", "d"]}}
    content = {"nb_res": 64, "profiles": profiles}
    content |= {"jobs": [{"id": "a", "subtime": 0, "res": 33, "profile": profile, "walltime": 100}]}
    (tmp_path / "w.json").write_text(json.dumps(content))
    spans = []
    for args in (["-p", "curie-core@0.01"], ["-p", "curie-node@0.01", "--units", "node"]):
        assert run_cli("simulate", "-w", "w.json", "--policy", "fcfs", *args, cwd=tmp_path).returncode == 0
        (row,) = jobs_csv.read(tmp_path / "out_jobs.csv")
        spans.append((row.n_procs, row.runtime_s))
    assert [n for n, _ in spans] == [33, 3]
    assert spans[0][1] == spans[1][1] > 0


def test_convert_by_the_name_of_a_platform(tmp_path: Path) -> None:
    log(tmp_path, *LOG, header="; MaxProcs: 93312\n")
    done = run_cli("workload", "convert", "log.swf", "w.json", "--platform", "curie-node", cwd=tmp_path)
    assert done.stdout.splitlines()[-4:] == [
        "        4  no requested time: estimate is the run time, walltime the run time + 1 (lines 2, 3, 4, 5)",
        "        4  size in cores: now in hosts that are a node of 16 (jobs 1, 2, 3, 4)",
        "        2  cores that do not fill the last node: rounded up (jobs 2, 3)",
        "wrote w.json: 4 jobs for 5,274 processors, submitted from 0 s to 3 s",
    ]
    content = json.loads((tmp_path / "w.json").read_text())
    assert [job["res"] for job in content["jobs"]] == [1, 2, 1, 256]
    assert (content["nb_res"], content["units"]) == (5274, {"unit": "node", "cores": 16})
    again = run_cli("workload", "convert", "w.json", "v.json", "--platform", "curie-node", cwd=tmp_path)
    assert again.returncode == 0  # a Batsim file is what it is
    assert [job["res"] for job in json.loads((tmp_path / "v.json").read_text())["jobs"]] == [1, 2, 1, 256]
    args = ("w.json", "v.json", "--platform", "curie-node", "--units", "node")
    twice = run_cli("workload", "convert", *args, cwd=tmp_path)
    assert (twice.returncode, "found sizes that were converted to nodes" in twice.stderr) == (2, True)
    args = ("log.swf", "k.json", "--week", "1", "--platform", "intrepid-pset")
    week = run_cli("workload", "convert", *args, cwd=tmp_path)
    assert week.returncode == 0
    assert [job["res"] for job in json.loads((tmp_path / "k.json").read_text())["jobs"]] == [1, 1, 1, 16]


def sizes(directory: Path, *args: str) -> tuple[list[int], str]:
    done = run_cli("simulate", "-w", "log.swf", "--policy", "fcfs", *args, cwd=directory)
    assert done.returncode == 0, done.stderr
    rows = sorted(jobs_csv.read(directory / "out_jobs.csv"), key=lambda row: row.id)
    return [row.n_procs for row in rows], done.stderr


def test_simulate_takes_the_unit_of_the_platforms_name(tmp_path: Path) -> None:
    log(tmp_path, *LOG[:3], header="")
    converted = "log.swf: converted sizes from cores to nodes of 16 cores (2 of 3 jobs rounded up)"
    message = f"{converted}, the hosts of curie-node; --units core keeps cores\n"
    found, errors = sizes(tmp_path, "-p", "curie-node")
    assert (found, message in errors) == ([1, 2, 1], True)
    assert sizes(tmp_path, "-p", "curie-node", "--units", "core")[0] == [16, 17, 1]
    found, errors = sizes(tmp_path, "-p", "sx-ace")  # its logs count in nodes
    assert (found, "converted sizes" in errors) == ([16, 17, 1], False)
    assert sizes(tmp_path, "--procs", "32")[0] == [16, 17, 1]


def test_simulate_takes_the_cores_of_hosts(tmp_path: Path) -> None:
    (tmp_path / "mine.xml").write_text(names.find("ricc-node@0.01").text)
    log(tmp_path, *LOG[:3])
    found, errors = sizes(tmp_path, "-p", "mine.xml", "--units", "node")
    assert found == [2, 3, 1]
    assert "log.swf: converted sizes from cores to nodes of 8 cores (2 of 3 jobs rounded up)\n" in errors
    assert json.loads((tmp_path / "out_summary.json").read_text())["units"] == "node"
    assert run_cli(*["workload", "convert", "log.swf", "w.json"], cwd=tmp_path).returncode == 0
    args = ["simulate", "-w", "w.json", "--policy", "fcfs", "-p", "mine.xml"]
    assert run_cli(*args, "--units", "node", cwd=tmp_path).returncode == 0
    assert [row.n_procs for row in jobs_csv.read(tmp_path / "out_jobs.csv")] == [2, 3, 1]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("-p curie --units node", "--units node: expected a platform with a node per host, found curie, with a core"),
        ("--procs 8 --units node", "--units: works only with --platform"),
    ],
)
def test_units_that_do_not_match_the_hosts_are_rejected(args: str, message: str, tmp_path: Path) -> None:
    log(tmp_path, *LOG)
    done = run_cli("simulate", "-w", "log.swf", "--policy", "fcfs", *args.split(), cwd=tmp_path)
    assert (done.returncode, message in done.stderr) == (2, True)


def test_convert_needs_a_platform(tmp_path: Path) -> None:
    log(tmp_path, *LOG)
    done = run_cli(*["workload", "convert", "log.swf", "w.json", "--units", "node"], cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "pybatsched: --units: works only with --platform\n"


def test_a_platform_on_which_most_jobs_are_rejected_names_the_option(tmp_path: Path) -> None:
    log(tmp_path, *LOG, header="; MaxProcs: 5000\n")
    done = run_cli("simulate", "-w", "log.swf", "--policy", "fcfs", "--procs", "8", cwd=tmp_path)
    assert (
        "log.swf: 3 of 4 jobs are larger than the platform's 8 processors and will be rejected; if their sizes are "
        "cores and the hosts are not, use a platform whose hosts have the property cores (such as NAME-node or "
        "NAME-pset of `pybatsched platform list`) and use --units node or --units pset\n"
    ) in done.stderr
    xml = run_cli("platform", "generate", "ricc-node@0.001", "--output", "mine.xml", cwd=tmp_path)
    assert xml.returncode == 0, xml.stderr
    mine = run_cli("simulate", "-w", "log.swf", "--policy", "fcfs", "-p", "mine.xml", cwd=tmp_path)
    assert "are cores and the hosts are not, use --units node or --units pset\n" in mine.stderr
    some = run_cli("simulate", "-w", "log.swf", "--policy", "fcfs", "--procs", "17", cwd=tmp_path)
    assert "made for 5,000 processors, the platform has 17; larger jobs are rejected" in some.stderr
    assert "will be rejected" not in some.stderr


def test_an_invalid_cores_property_is_rejected() -> None:
    text = names.find("ricc-node@0.01").text.replace('id="cores" value="8"', 'id="cores" value="many"')
    with pytest.raises(InputError, match="property cores: expected a whole number from 1, found 'many'"):
        host_size(parse(text.encode(), "mine.xml"))


def made(*jobs: dict[str, Any]) -> Workload:
    profiles: dict[str, dict[str, Any]] = {
        "five": {"type": "delay", "delay": 5},
        "twice": {"type": "composed", "seq": ["five", "one"], "repeat": 2},
        "one": {"type": "delay", "delay": 1},
        "task": {"type": "parallel_homogeneous", "cpu": 1e9, "com": 0},
        "talk": {"type": "recv", "success": "one", "failure": "gone"},
        "idle": {"type": "delay", "delay": 9},
    }
    full = [{"id": f"j{k}", "subtime": 0, "res": 1, "profile": "five", **job} for k, job in enumerate(jobs)]
    return Workload(full, profiles, 8, "w.json", {"version": 1})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("1.5", 1.5), ("9s", 9), ("10m", 600), ("12h", 43200), ("3d", 259200), ("1w", 604800), ("1e3", 1000)],
)
def test_times_with_units_are_read(text: str, seconds: float) -> None:
    assert seconds_of(text, "--from") == seconds


@pytest.mark.parametrize("text", ["", "d", "-1", "3x", "1h30", "nan", "inf", "1e999", "１"])
def test_other_times_are_rejected(text: str) -> None:
    with pytest.raises(InputError, match="^--from: expected seconds"):
        seconds_of(text, "--from")


@pytest.mark.parametrize(
    "limits",
    [{"from_at": 5, "to_at": 5}, {"min_size": 4, "max_size": 3}, {"max_jobs": 0}, {"min_size": 0}, {"max_size": -1}],
)
def test_impossible_selections(limits: Any) -> None:
    with pytest.raises(InputError, match="expected"):
        Selection(**limits)


def test_a_window_moves_all_instants_and_changes_nothing_it_was_given() -> None:
    workload = made(
        {"subtime": 1}, {"subtime": 30, "deadline": 100}, {"subtime": 20.25, "deadline": "soon"}, {"subtime": 50}
    )
    before = [dict(job) for job in workload.jobs]
    cut, report = prepare.select(workload, Selection(from_at=20, to_at=50))
    assert [(job["id"], job["subtime"], job.get("deadline")) for job in cut.jobs] == [
        ("j2", 0, "soon"),
        ("j1", 9.75, 79.75),
    ]
    assert workload.jobs == before
    assert (report.n_read, report.n_kept, report.n_dropped) == (4, 2, 2)
    assert (report.rule_counts[OUTSIDE].where, report.rule_counts[OUTSIDE].places) == ("job", ["j0", "j3"])
    assert cut.about["shifted_by"] == 20.25
    assert cut.about["version"] == 1
    again, _ = prepare.select(cut, Selection(from_at=5))
    assert again.about["shifted_by"] == 30


def test_only_used_profiles_stay() -> None:
    cut, _ = prepare.select(made({"profile": "twice"}, {"profile": "task", "subtime": 9}), Selection(to_at=5))
    assert list(cut.profiles) == ["five", "twice", "one"]
    assert list(prepare.select(made({"profile": "talk"}), Selection())[0].profiles) == ["one", "talk"]


def test_dependencies_on_jobs_cut_away() -> None:
    workload = made(
        {"id": 1},
        {"id": 2, "depends_on": "1"},
        {"id": 3, "subtime": 9, "depends_on": [2, 1], "think_time": 3},
        {"id": 4},
    )
    cut, report = prepare.select(workload, Selection(max_jobs=3))
    assert [job.get("depends_on") for job in cut.jobs] == [None, "1", None]
    assert report.rule_counts[TOO_MANY.format("3 jobs")].places == [3]
    cut, report = prepare.select(workload, Selection(from_at=5))
    assert cut.jobs == [{"id": 3, "subtime": 0, "res": 1, "profile": "five"}]
    assert report.rule_counts[LOOSE].places == [3]


def test_a_selection_without_jobs_is_an_error() -> None:
    with pytest.raises(InputError, match=r"w\.json: no job is left: 1 job submitted from 0 s to 0 s"):
        prepare.select(made({}), Selection(min_size=2))
    assert prepare.select(made(), Selection(min_size=2))[0].jobs == []


def test_other_walltimes_for_delays() -> None:
    workload = made({"walltime": 50, "estimate": 40}, {"profile": "twice"})
    exact, report = prepare.with_walltimes(workload, Walltimes("exact"))
    assert [(job["walltime"], job["estimate"]) for job in exact.jobs] == [(6, 5), (13, 12)]
    assert report.rule_counts["estimate and walltime set by the rule exact"].count == 2
    double, _ = prepare.with_walltimes(workload, Walltimes.parse("factor:10"))
    assert [(job["walltime"], job.get("estimate")) for job in double.jobs] == [(50, None), (120, None)]
    none, report = prepare.with_walltimes(workload, Walltimes("none"))
    assert not any("walltime" in job or "estimate" in job for job in none.jobs)
    assert report.rule_counts["estimate and walltime set by the rule none"].places == ["j0"]
    assert prepare.with_walltimes(workload, Walltimes("requested"))[0] is workload


def test_other_walltimes_need_a_run_time() -> None:
    with pytest.raises(InputError, match=r'w\.json: job "j0": walltimes exact: expected a profile made of delays'):
        prepare.with_walltimes(made({"profile": "task"}), Walltimes("exact"))
    prepare.with_walltimes(made({"profile": "task"}), Walltimes("none"))
