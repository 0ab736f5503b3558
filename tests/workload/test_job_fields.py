"""Fields of jobs are checked when workloads are read: by file, job and field, before a run begins."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from support.process import run_cli

from pybatsched.errors import InputError
from pybatsched.policies import registry
from pybatsched.workload import jobs as ids
from pybatsched.workload.model import Workload


def workload(path: Path, **fields: Any) -> Path:
    """Write two jobs, the second of which, submitted after a day, has these fields."""
    jobs = [{"id": "a", "subtime": 0, "res": 1, "profile": "p", "walltime": 9}]
    jobs.append({"id": "b", "subtime": 86400, "res": 1, "profile": "p", "walltime": 9, **fields})
    file = path / "w.json"
    file.write_text(json.dumps({"nb_res": 2, "jobs": jobs, "profiles": {"p": {"type": "delay", "delay": 5}}}))
    return file


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("easy", {"estimate": -1}, "field estimate: expected more than 0 seconds, found -1"),
    ("easy", {"deadline": "soon"}, 'field deadline: expected seconds from 0, found "soon"'),
    ("easy", {"urgent": "yes"}, 'field urgent: expected true or false, found "yes"'),
    ("easy", {"alone_s": 0}, "field alone_s: expected more than 0 seconds, found 0"),
    ("dbf", {"max_stay": None}, "field max_stay: expected seconds from 0, found null"),
    ("easy", {"estimate": None}, "field estimate: expected more than 0 seconds, found null"),
    ("easy", {"urgent": None}, "field urgent: expected true or false, found null"),
    ("fcfs", {"evaluated": None}, "field evaluated: expected true or false, found null"),
    ("fcfs", {"alone_s": None}, "field alone_s: expected more than 0 seconds, found null"),
    ("ujfb", {"memory_gb": None}, "field memory_gb: expected gigabytes per processor from 0, found null"),
    ("locality", {"input_file": None}, "field input_file: expected a name, found null"),
    ("reallocation", {"moldable": None}, 'field moldable: expected {"fraction": F, "limit": N}, found null'),
    ("locality", {"urgent": "yes"}, 'field urgent: expected true or false, found "yes"'),
    ("ujfb", {"memory_gb": "4"}, 'field memory_gb: expected gigabytes per processor from 0, found "4"'),
    ("locality", {"input_file": "f"}, "field input_size_gb: expected the size of the input_file in GB, found nothing"),
    (
        "reallocation",
        {"moldable": {"fraction": 1}},
        "field moldable.limit: expected a whole number from 1, found nothing",
    ),
]


@pytest.mark.parametrize(("policy", "fields", "message"), REFUSED)
def test_a_bad_field_is_reported_before_the_run(
    policy: str, fields: dict[str, Any], message: str, tmp_path: Path
) -> None:
    file = workload(tmp_path, **fields)
    done = run_cli("simulate", "--procs", "2", "-w", "w.json", "--policy", policy, "-e", "out/run", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert f'pybatsched: {file.name}: job "b", {message}\n' in done.stderr
    assert not (tmp_path / "out").exists()


def test_fields_that_exclude_each_other_are_reported(tmp_path: Path) -> None:
    file = workload(tmp_path, deadline=5, max_stay=5)
    done = run_cli("simulate", "--procs", "2", "-w", "w.json", "--policy", "fcfs", cwd=tmp_path)
    assert done.returncode == 2
    assert f'{file.name}: job "b": both deadline and max_stay; expected one of them\n' in done.stderr


@pytest.mark.parametrize(
    ("policy", "fields"),
    [
        ("easy", {"memory_gb": "much", "moldable": 7, "input_size_gb": -1, "project": [None]}),
        ("dbf", {"cluster": 3, "deadline": 86_500}),
        ("ujfb", {"urgent": True, "memory_gb": 4}),
    ],
)
def test_unread_fields_are_not_checked(policy: str, fields: dict[str, Any], tmp_path: Path) -> None:
    workload(tmp_path, **fields)
    done = run_cli("simulate", "--procs", "2", "-w", "w.json", "--policy", policy, "-q", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


READS_PROJECT = """
from pydantic import Field
from pybatsched import LocalPolicy, LocalScheduler, QueueFields

class Fields(QueueFields):
    project: str = Field(description="the name of a project")

class First(LocalScheduler):
    def plan(self, now):
        for entry in list(self.queue):
            yield self.start(entry, "fits")

class Projects(LocalPolicy):
    JobFields = Fields
    scheduler = First
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a policy of another package, and one that cannot be loaded."""
    (tmp_path / "somebodys_projects.py").write_text(READS_PROJECT)
    monkeypatch.syspath_prepend(str(tmp_path))
    own = {
        name: EntryPoint(name, value, registry.GROUP)
        for name, value in (("projects", "somebodys_projects:Projects"), ("broken", "no_such_module:Policy"))
    }
    everything = {**registry.available(), **own}
    monkeypatch.setattr(registry, "available", lambda: everything)


@pytest.mark.usefixtures("installed")
def test_lint_knows_what_installed_policies_read(tmp_path: Path) -> None:
    workload(tmp_path, project=7, deadline=-1)
    done = run_cli("workload", "lint", "w.json", "--json", cwd=tmp_path)
    assert done.returncode == 0
    assert [
        (found["what"], found["count"], found["first_jobs"], found["remedy"])
        for found in json.loads(done.stdout)["findings"]
    ] == [
        ("field project: expected the name of a project", 2, ["a", "b"], "kept; rejected by projects"),
        ("field deadline: expected seconds from 0", 1, ["b"], "kept; rejected by metrics, dbf"),
    ]
    assert "policy 'broken' (no_such_module:Policy) cannot be loaded" in done.stderr
    assert "the job fields of this policy are not checked" in done.stderr


@pytest.mark.usefixtures("installed")
def test_fields_named_by_policy_options_are_checked(tmp_path: Path) -> None:
    file = workload(tmp_path)
    options = ("-o", "redirected=projects", "-o", "alpha=0.5")
    done = run_cli("simulate", "--procs", "2", "-w", "w.json", "--policy", "redirection", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert f'{file.name}: job "a", field project: expected the name of a project, found nothing' in done.stderr


@pytest.mark.usefixtures("installed")
def test_policies_are_shown_with_what_they_read() -> None:
    shown = run_cli("policies", "projects").stdout
    read = ["estimate: more than 0 seconds", "urgent: true or false", "project: the name of a project"]
    assert "reads these fields of jobs:\n" + "".join(f"  {one}\n" for one in read) in shown
    assert "reads these fields of jobs:\n  estimate: more than 0 seconds\n" in run_cli("policies", "locality").stdout


def test_metrics_reject_invalid_class_fields(tmp_path: Path) -> None:
    """A real Batsim may have run it: what is urgent is true or false for metrics and the page, too."""
    file = workload(tmp_path)
    args = ("simulate", "--procs", "2", "-w", "w.json", "--policy", "fcfs", "-e", "run", "-q")
    assert run_cli(*args, cwd=tmp_path).returncode == 0
    workload(tmp_path, urgent="yes")
    for command in (("metrics", "run", "-w", "w.json"), ("report", "run", "-w", "w.json")):
        done = run_cli(*command, cwd=tmp_path)
        assert done.returncode == 2
        assert f'{file.name}: job "b", field urgent: expected true or false, found "yes"' in done.stderr


NONE = "expected an id without '!', commas, quotes, backslashes, line ends or NUL characters, which Batsim rejects"
INSIDE = "contains the workload's name, so Batsim reads it as WORKLOAD!JOB"


def named(*names: int | str) -> Workload:
    jobs = [{"id": name, "subtime": 0, "res": 1, "walltime": 9, "profile": "d"} for name in names]
    return Workload(jobs, {"d": {"type": "delay", "delay": 5}}, 2, "w.json")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("a", "b!c"), f"""job "b!c", field id: as the workload w0 of a run, job id 'b!c': {NONE}"""),
        (("a,b",), f"""job "a,b", field id: as the workload w0 of a run, job id 'a,b': {NONE}"""),
        (("a\0b",), f"""job "a\\u0000b", field id: as the workload w0 of a run, job id 'a\\x00b': {NONE}"""),
        ((1, "w0"), f"""job "w0", field id: as the workload w0 of a run, job id 'w0' {INSIDE}"""),
        (("a", "w0!a"), 'job "w0!a", field id: it means the same as "a" in the workload w0'),
        (("w0!a", "a"), 'job "a", field id: it means the same as "w0!a" in the workload w0'),
    ],
)
@pytest.mark.parametrize("command", [["simulate", "--procs", "2"], ["run", "-p", "curie", "--batsim", "true"]], ids=str)
def test_an_id_that_batsim_rejects_is_an_error(
    command: list[str], names: tuple[int | str, ...], message: str, tmp_path: Path
) -> None:
    one = named(*names)
    content = {"nb_res": 2, "jobs": one.jobs, "profiles": one.profiles}
    (tmp_path / "w.json").write_text(json.dumps(content))
    args = ("-w", "w.json", "--policy", "fcfs", "-e", "out", "--journal", "run.pbj")
    done = run_cli(*command, *args, cwd=tmp_path)
    assert done.returncode == 2
    assert f"pybatsched: w.json: {message}" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["w.json"]


def test_valid_ids_are_accepted() -> None:
    ids.check_ids({"w0": named(1, "a", "w0!b", "x w1"), "w1": named(1, "w1!a", "w0")})


def test_an_id_is_checked_against_the_name_of_its_own_workload() -> None:
    with pytest.raises(InputError, match='^w.json: job "x w1", field id: as the workload w1'):
        ids.check_ids({"w0": named("x w1"), "w1": named("x w1")})
