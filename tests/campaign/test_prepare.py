"""Workloads prepared for a campaign: weeks, injections, dependence on seeds, and the cache."""

from __future__ import annotations

import inspect
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from support.logs import sacct, sacct_line
from support.places import ROOT

from pybatsched.campaign import prepare
from pybatsched.campaign.cells import hosts_of
from pybatsched.campaign.prepare import Prepared, Preparer
from pybatsched.campaign.spec import spec_of
from pybatsched.campaign.workloads import WorkloadTable
from pybatsched.errors import InputError
from pybatsched.runs.spec import WorkloadSpec
from pybatsched.runs.workloads import load_factor
from pybatsched.settings import whole
from pybatsched.workload import reading


def test_a_damaged_index_is_rebuilt(tmp_path: Path) -> None:
    spec = WorkloadTable.model_validate({"name": "w", "file": "workload.json"})
    before = Preparer(tmp_path, [ROOT / "examples"]).prepare(spec, 0)
    (index,) = tmp_path.glob("*.index.json")
    index.write_text("[[")
    assert Preparer(tmp_path, [ROOT / "examples"]).prepare(spec, 0) == before


def test_workloads_are_prepared_again_if_the_code_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = (Preparer, WorkloadTable, WorkloadSpec, load_factor, whole, reading.read)
    files = [Path(inspect.getfile(one)).relative_to(ROOT) for one in own]
    package = tmp_path / "pybatsched"
    shutil.copytree(ROOT / "pybatsched", package, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    monkeypatch.setattr(prepare, "__file__", str(package / "campaign" / "prepare.py"))

    def digest() -> str:
        prepare._code_digest.cache_clear()
        return prepare._code_digest()

    found = [digest()]
    for name in files:
        with (tmp_path / name).open("a") as file:
            file.write("# another version\n")
        found.append(digest())
    assert len(set(found)) == 7
    (package / "cli" / "serve.py").write_text("")
    assert digest() == found[-1]
    monkeypatch.undo()
    prepare._code_digest.cache_clear()


def log(path: Path, n_weeks: int) -> Path:
    """Write a log with a job of three quarters of the machine in each week, and a small one."""
    week = 7 * 24 * 3600
    lines = ["; MaxProcs: 4"]
    for number in range(n_weeks):
        at = number * week
        lines.append(f"{2 * number + 1} {at} 0 {week} 3 -1 -1 3 {2 * week} -1 1 1 1 1 1 1 -1 -1")
        lines.append(f"{2 * number + 2} {at + 60} 0 60 1 -1 -1 1 120 -1 1 2 1 1 1 1 -1 -1")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_weeks_of_a_log_are_workloads_of_their_own(tmp_path: Path) -> None:
    log(tmp_path / "log.swf", 5)
    spec = WorkloadTable.model_validate(
        {"name": "log", "file": "log.swf", "weeks": {"max_weeks": 2}, "walltimes": "exact"}
    )
    preparer = Preparer(tmp_path, [tmp_path])
    found = preparer.prepare(spec, seed=1)
    assert [one.name for one in found] == ["log-week02", "log-week03"]
    jobs = json.loads(Path(found[0].path).read_text())["jobs"]
    assert [(job["subtime"], job["walltime"]) for job in jobs] == [(0, 604801), (60, 61)]
    stamps = [Path(one.path).stat().st_mtime_ns for one in found]
    assert preparer.prepare(spec, seed=2) == found  # no seed is in it, and it is not made again
    assert [Path(one.path).stat().st_mtime_ns for one in found] == stamps
    Path(found[1].path).unlink()
    assert preparer.prepare(spec, seed=1) == found
    assert Path(found[1].path).exists()


def test_a_log_that_changes_is_another_workload(tmp_path: Path) -> None:
    spec = WorkloadTable.model_validate({"name": "log", "file": "log.swf"})
    log(tmp_path / "log.swf", 2)
    before = Preparer(tmp_path, [tmp_path]).prepare(spec, 0)
    log(tmp_path / "log.swf", 3)
    assert Preparer(tmp_path, [tmp_path]).prepare(spec, 0)[0].digest != before[0].digest


def test_weeks_of_a_log_are_busy_by_the_sizes_that_are_wanted(tmp_path: Path) -> None:
    lines = [f"{number} {number * 604_800} 0 604800 1 -1 -1 4 604800 -1 1 1 1 1 1 1 -1 -1" for number in range(4)]
    (tmp_path / "log.swf").write_text("; MaxProcs: 4\n" + "\n".join(lines) + "\n")
    given = {"name": "log", "file": "log.swf", "weeks": {"utilisation": [0.9, None]}}
    wanted = WorkloadTable.model_validate(given | {"size": "requested"})
    assert Preparer(tmp_path, [tmp_path]).prepare(wanted, 0)
    with pytest.raises(InputError, match="log.swf: expected a week with a logged utilisation of 0.9 or more"):
        Preparer(tmp_path, [tmp_path]).prepare(WorkloadTable.model_validate(given), 0)


def test_merged_logs_of_slurm_have_sizes_in_nodes(tmp_path: Path) -> None:
    for name in ("a.swf", "b.swf"):
        sacct(tmp_path, sacct_line(cores=36).replace("node=1", "node=3"), name=name)
    (one,) = Preparer(tmp_path, [tmp_path]).prepare(merge_spec(size_in="nodes"), 0)
    assert [job["res"] for job in json.loads(Path(one.path).read_text())["jobs"]] == [3, 3]


@pytest.mark.parametrize(
    ("file", "members", "message"),
    [
        ("workload.json", {"size": "requested"}, "a log, found a Batsim file"),
        ("workload.json", {"unknown_runtime": 10}, "a log in SWF, found a Batsim file"),
        ("workload.json", {"timezone": "UTC"}, "a log of Slurm or a table, found a Batsim file"),
        ("log.swf", {"size_in": "nodes"}, "a log of Slurm or a table, found a log in SWF"),
        ("log.txt", {"memory_unit": "MB"}, "a log in SWF, found a log of Slurm"),
    ],
)
def test_members_need_a_log_of_their_format(file: str, members: dict[str, Any], message: str, tmp_path: Path) -> None:
    log(tmp_path / "log.swf", 1)
    sacct(tmp_path, sacct_line(), name="log.txt")
    spec = WorkloadTable.model_validate({"name": "w", "file": file} | members)
    ((name, value),) = members.items()
    with pytest.raises(InputError, match=rf"^workload w: {name} {value}: expected {message}, .*{file}$"):
        Preparer(tmp_path, [tmp_path, ROOT / "examples"]).prepare(spec, 0)


@pytest.mark.parametrize(
    ("how", "places"), [({"every": 3}, range(0, 30, 3)), ({"every": 3, "first": 2}, range(2, 30, 3))]
)
def test_deadlines(how: dict[str, Any], places: range, tmp_path: Path) -> None:
    given = {
        "name": "w",
        "file": "workload.json",
        "walltimes": "exact",
        "deadlines": how | {"least_s": 500, "factor": 2},
    }
    (one,) = Preparer(tmp_path, [ROOT / "examples"]).prepare(WorkloadTable.model_validate(given), 0)
    jobs = json.loads(Path(one.path).read_text())["jobs"]
    assert [place for place, job in enumerate(jobs) if "max_stay" in job] == list(places)
    for job in jobs:
        if "max_stay" in job:
            assert job["max_stay"] == pytest.approx(max(500, 2 * job["estimate"]))


def test_jobs_with_deadlines_are_chosen_by_the_seed(tmp_path: Path) -> None:
    given = {"name": "w", "file": "workload.json", "deadlines": {"share": 0.5}}
    preparer = Preparer(tmp_path, [ROOT / "examples"])
    spec = WorkloadTable.model_validate(given)
    digests = [preparer.prepare(spec, seed)[0].digest for seed in (1, 2, 1)]
    assert digests[0] == digests[2] != digests[1]


@pytest.mark.parametrize(
    ("how", "draws"),
    [
        ({"deadlines": {"every": 3}}, False),
        ({"urgent": {"queues": ["a"]}}, False),
        ({"urgent": {"jobs": [[2, 60, 5]]}}, False),
        ({"urgent": {"queues": ["a"], "share": 0.5}}, True),
        ({"urgent": {"probability": 0.5, "kinds": [[2, 60], [3, 61]]}}, True),
        ({"moldable": {}}, True),
        ({"deadlines": {"every": 3}, "moldable": {}}, True),
    ],
)
def test_workloads_with_random_changes_are_prepared_once_per_seed(
    how: dict[str, Any], draws: bool, tmp_path: Path
) -> None:
    jobs = [{"id": i, "subtime": i, "res": 2, "profile": "p", "walltime": 9, "queue": "a"} for i in range(40)]
    (tmp_path / "w.json").write_text(
        json.dumps({"nb_res": 8, "jobs": jobs, "profiles": {"p": {"type": "delay", "delay": 5}}})
    )
    spec = WorkloadTable.model_validate({"name": "w", "file": "w.json"} | how)
    preparer = Preparer(tmp_path / "prepared", [tmp_path])
    (tmp_path / "prepared").mkdir()
    first, second, again = (preparer.prepare(spec, seed)[0] for seed in (1, 2, 1))
    assert first == again
    assert (first.digest != second.digest, first.path != second.path) == (draws, draws)


def test_injections_come_one_after_the_other(tmp_path: Path) -> None:
    """Urgent jobs come last: they get no deadline and no type, and do not change the choices for other jobs."""
    steps = {
        "deadlines": {"every": 2},
        "moldable": {"types": [{"fraction": 0.9, "limit": 8, "share": 1}]},
        "urgent": {"probability": 1, "kinds": [[4, 60]]},
    }
    given = {"name": "d", "generate": {"procs": 16, "jobs": 20}} | steps
    (one,) = Preparer(tmp_path, []).prepare(WorkloadTable.model_validate(given), 1)
    jobs = json.loads(Path(one.path).read_text())["jobs"]
    own, injected = ([job for job in jobs if ("urgent" in job) is is_urgent] for is_urgent in (False, True))
    assert (len(own), len(injected)) == (20, 20)
    assert [place for place, job in enumerate(own) if "max_stay" in job] == list(range(0, 20, 2))
    assert all(("moldable" in job) == (job["res"] > 1) for job in own)
    assert not any("max_stay" in job or "moldable" in job for job in injected)


def test_urgent_jobs_by_name_are_those_of_each_week(tmp_path: Path) -> None:
    """Instants are those of the workload that is run: of a week, which begins at 0."""
    log(tmp_path / "log.swf", 5)
    given = {
        "name": "log",
        "file": "log.swf",
        "weeks": {"max_weeks": 2},
        "urgent": {"jobs": [[4, "6.5m", "1h"], [2, 60, 30]]},
    }
    for one in Preparer(tmp_path, [tmp_path]).prepare(WorkloadTable.model_validate(given), 1):
        made = json.loads(Path(one.path).read_text())
        rows = [(job["id"], job["subtime"], job["res"], job.get("urgent")) for job in made["jobs"]]
        assert rows[1:] == [("urgent2", 30, 2, True), (rows[2][0], 60, 1, None), ("urgent1", 3600, 4, True)]
        assert made["jobs"][3]["estimate"] == 390
        assert made["urgent"] == {"injected": 2}  # no seed: it would make files of one content different


def test_injections_that_do_not_fit_name_the_workload(tmp_path: Path) -> None:
    given = {"name": "small", "generate": {"procs": 16, "jobs": 20}, "urgent": {"every_s": 60}}
    with pytest.raises(InputError, match=r"^workload small: urgent jobs of 128 processors: expected at most 16"):
        Preparer(tmp_path, []).prepare(WorkloadTable.model_validate(given), 1)
    given["urgent"] = {"jobs": [[16, 60, 0], [17, 60, 1]]}
    message = r"^workload small: urgent job 2 of 2, at 1 s, has 17 processors: expected at most 16, "
    with pytest.raises(InputError, match=f"{message}the size of the machine$"):
        Preparer(tmp_path, []).prepare(WorkloadTable.model_validate(given), 1)


def test_a_missing_optional_workload_is_omitted(tmp_path: Path) -> None:
    missing = WorkloadTable.model_validate({"name": "log", "file": "log.swf"})
    preparer = Preparer(tmp_path / "prepared", [tmp_path])
    with pytest.raises(InputError, match=r"workload file log\.swf: not found"):
        preparer.prepare(missing, 0)
    assert preparer.prepare(missing.model_copy(update={"optional": True}), 0) == []


def small_log(path: Path, *submissions: int, n_procs: int = 4) -> None:
    """Write a log of jobs of two processors, a minute each, of which users asked for two."""
    lines = [f"; MaxProcs: {n_procs}"]
    lines += [f"{k} {at} 0 60 2 -1 -1 2 120 -1 1 1 1 1 1 1 -1 -1" for k, at in enumerate(submissions, 1)]
    path.write_text("\n".join(lines) + "\n")


def jobs_of(path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(Path(path).read_text())["jobs"]
    return found


def merge_spec(**more: Any) -> WorkloadTable:
    logs = [{"name": "a", "file": "a.swf"}, {"name": "b", "file": "b.swf", "procs": 6}]
    return WorkloadTable.model_validate({"name": "grid", "merge": logs} | more)


def test_merged_logs(tmp_path: Path) -> None:
    small_log(tmp_path / "a.swf", 1000, 1050, 1200)
    small_log(tmp_path / "b.swf", 0, 70, 80)
    preparer = Preparer(tmp_path, [tmp_path])
    (one,) = preparer.prepare(merge_spec(**{"from": 50, "to": "3m"}), 3)
    assert (one.name, one.family, one.n_procs) == ("grid", "grid", 10)
    rows = [(job["id"], job["subtime"], job["walltime"], job["cluster"]) for job in jobs_of(one.path)]
    assert rows == [("a-2", 0, 120, "a"), ("b-2", 20, 120, "b"), ("b-3", 30, 120, "b")]
    (first,) = preparer.prepare(merge_spec(max_jobs=2, walltimes="exact"), 3)
    assert [(job["id"], job["subtime"], job["walltime"]) for job in jobs_of(first.path)] == [
        ("a-1", 0, 61),
        ("b-1", 0, 61),
    ]
    (whole,) = preparer.prepare(merge_spec(external=1, moldable={}), 3)
    assert [("external" in job, "moldable" in job) for job in jobs_of(whole.path)] == [(True, False)] * 6


def test_only_merged_logs_are_converted_to_hosts(tmp_path: Path) -> None:
    small_log(tmp_path / "a.swf", 0, 10)
    batsim = {"nb_res": 32, "jobs": [{"id": "x", "subtime": 5, "res": 9, "profile": "p"}]}
    (tmp_path / "b.json").write_text(json.dumps(batsim | {"profiles": {"p": {"type": "delay", "delay": 60}}}))
    logs = [{"name": name, "file": file} for name, file in (("a", "a.swf"), ("b", "b.json"))]
    found = {}
    for units in (None, "node"):
        machine = {"name": "m", "platform": "ricc-node@0.05"} | ({"units": units} if units else {})
        given = {"name": "c", "workload": [{"name": "w", "file": "f"}], "policy": [{"name": "easy"}]}
        host = hosts_of(spec_of({**given, "platform": [machine]}, "s"))["m"]
        (one,) = Preparer(tmp_path, [tmp_path]).prepare(merge_spec(merge=logs), 0, host)
        sizes = {job["id"]: job["res"] for job in jobs_of(one.path)}
        found[units] = sizes["a-1"], sizes["b-x"], [text.partition(": converted sizes")[0] for text in one.warnings]
    assert found == {None: (1, 9, ["a.swf"]), "node": (1, 2, ["a.swf", "b.json"])}


def test_external_jobs_depend_on_the_seed(tmp_path: Path) -> None:
    for name in "ab":
        small_log(tmp_path / f"{name}.swf", *range(0, 400, 10))
    preparer = Preparer(tmp_path, [tmp_path])
    for share, draws in ((None, False), (0, False), (0.5, True), (1, False)):
        spec = merge_spec(**({} if share is None else {"external": share}))
        first, second, again = (preparer.prepare(spec, seed)[0].digest for seed in (1, 2, 1))
        assert (first == again, first != second) == (True, draws)


def test_merged_logs_are_identified_by_their_content(tmp_path: Path) -> None:
    small_log(tmp_path / "a.swf", 0, 10)
    small_log(tmp_path / "b.swf", 5)
    preparer = Preparer(tmp_path, [tmp_path])
    before = preparer.prepare(merge_spec(), 0)
    (tmp_path / "other").mkdir()
    for name in "ab":
        (tmp_path / f"{name}.swf").rename(tmp_path / "other" / f"{name}.swf")
    assert Preparer(tmp_path, [tmp_path / "other"]).prepare(merge_spec(), 0) == before
    small_log(tmp_path / "a.swf", 0, 11)
    assert Preparer(tmp_path, [tmp_path, tmp_path / "other"]).prepare(merge_spec(), 0)[0].digest != before[0].digest


def test_errors_of_merged_logs_name_workload_log_and_file(tmp_path: Path) -> None:
    small_log(tmp_path / "a.swf", 0)
    preparer = Preparer(tmp_path, [tmp_path])
    with pytest.raises(InputError, match=r"^workload file b\.swf: not found in "):
        preparer.prepare(merge_spec(), 0)
    assert preparer.prepare(merge_spec(optional=True), 0) == []
    (tmp_path / "b.swf").write_text("; MaxProcs: 4\n1 0 x\n")
    with pytest.raises(InputError, match=r"^workload grid: b: .*b\.swf: line 2: expected at least 18 fields, found 3"):
        preparer.prepare(merge_spec(), 0)


def numbered_log(path: Path, n_jobs: int) -> Path:
    """Write a log in which each job depends on the one before, and is submitted 10 s after it."""
    rows = [f"{k} {10 * k} 0 5 1 -1 -1 1 9 -1 1 1 1 1 1 1 {k - 1 or -1} 0" for k in range(1, n_jobs + 1)]
    path.write_text("\n".join(["; MaxProcs: 4", *rows]) + "\n")
    return path


FUNCTIONS = """
from dataclasses import replace
from pybatsched.workload import Workload

def parts(workload, seed, n):
    jobs = list(workload.jobs)
    return (replace(workload, jobs=jobs[seed + k : seed + k + 5]) for k in range(n))

def first(workload, seed):
    return replace(workload, jobs=list(workload.jobs)[:1])

def nothing(workload, seed):
    return [None]

def read(path):
    n = len(path.read_text().split())
    jobs = [{"id": k, "subtime": k, "res": 1, "profile": "d"} for k in range(n)]
    return Workload(jobs, {"d": {"type": "delay", "delay": 60}}, 4, str(path), {})
"""


def with_functions(folder: Path, **given: Any) -> WorkloadTable:
    (folder / "mine.py").write_text(FUNCTIONS)
    return WorkloadTable.model_validate({"name": "log", "file": "log.swf"} | given)


def ids(one: Prepared) -> list[int]:
    return [job["id"] for job in json.loads(Path(one.path).read_text())["jobs"]]


def test_a_function_of_the_user_makes_several_workloads(tmp_path: Path) -> None:
    """It gets the jobs that are left, the seed and its options. Injections come later."""
    numbered_log(tmp_path / "log.swf", 60)
    spec = with_functions(tmp_path, max_jobs=20, change={"by": "mine.py:parts", "n": 2}, deadlines={"every": 2})
    found = Preparer(tmp_path, [tmp_path]).prepare(spec, seed=7)
    assert [(one.name, one.family) for one in found] == [("log-part01", "log"), ("log-part02", "log")]
    assert [ids(one) for one in found] == [[*range(8, 13)], [*range(9, 14)]]
    jobs = json.loads(Path(found[0].path).read_text())["jobs"]
    assert sum("max_stay" in job for job in jobs) == 3
    assert ids(Preparer(tmp_path, [tmp_path]).prepare(spec, seed=8)[0]) == [*range(9, 14)]
    (one,) = Preparer(tmp_path, [tmp_path]).prepare(with_functions(tmp_path, change={"by": "mine.py:first"}), 1)
    assert (one.name, ids(one)) == ("log", [1])


def test_a_function_of_the_user_reads_another_format(tmp_path: Path) -> None:
    (tmp_path / "jobs.txt").write_text("a b c")
    spec = with_functions(tmp_path, file="jobs.txt", reader="mine.py:read", walltimes="factor:2", max_jobs=2)
    (one,) = Preparer(tmp_path, [tmp_path]).prepare(spec, 0)
    content = json.loads(Path(one.path).read_text())
    assert [job["walltime"] for job in content["jobs"]] == [120, 120]
    (tmp_path / "mine.py").write_text(FUNCTIONS.replace("60}", "30}"))  # other code is another workload
    (other,) = Preparer(tmp_path, [tmp_path]).prepare(spec, 0)
    assert other.path != one.path


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"change": {"by": "mine.py:none"}}, "change '.*mine.py:none': the file or module has no object none"),
        ({"change": {"by": "mine.py:Workload"}}, "change 'mine.py:Workload' is a type; expected a function"),
        ({"change": {"by": "json:loads"}}, "change 'json:loads' failed: TypeError"),
        ({"change": {"by": "mine.py:parts"}}, "change 'mine.py:parts' failed: TypeError"),
        ({"change": {"by": "mine.py:nothing"}}, "expected a pybatsched.workload.Workload, found a NoneType"),
        ({"reader": "no.such:thing"}, "reader 'no.such:thing' cannot be loaded"),
    ],
)
def test_errors_of_functions_of_the_user(given: dict[str, Any], message: str, tmp_path: Path) -> None:
    numbered_log(tmp_path / "log.swf", 20)
    with pytest.raises(InputError, match=message):
        Preparer(tmp_path, [tmp_path]).prepare(with_functions(tmp_path, **given), seed=1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"weeks": {}}, "reader: works only with file, and without weeks"),
        ({"size": "larger"}, "size: cannot be used with reader"),
    ],
)
def test_a_reader_gives_a_whole_workload(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        WorkloadTable.model_validate({"name": "log", "file": "log.swf", "reader": "a:b"} | given)


def test_random_workloads_have_no_requested_walltimes(tmp_path: Path) -> None:
    given = {"name": "w", "generate": {"procs": 8, "jobs": 5}}
    made = [
        Preparer(tmp_path, [tmp_path]).prepare(WorkloadTable.model_validate(given | more), 1)
        for more in ({}, {"walltimes": "exact"}, {"walltimes": "round"})
    ]
    assert made[0] == made[1] != made[2]
    with pytest.raises(InputError, match="^workload w: walltimes: expected exact, factor:F, round or none, found requ"):
        Preparer(tmp_path, [tmp_path]).prepare(WorkloadTable.model_validate(given | {"walltimes": "requested"}), 1)
