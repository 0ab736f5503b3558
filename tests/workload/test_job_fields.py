"""Fields of jobs are checked when workloads are read: by file, job and field, before a run begins."""

from __future__ import annotations

import json
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from support.process import run_cli

from pybatsched.campaign.execute import run_cell
from pybatsched.errors import InputError
from pybatsched.policies import registry


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


def test_campaigns_check_before_they_run(tmp_path: Path) -> None:
    file = workload(tmp_path, memory_gb=-1)
    cell = {"workload_file": str(file), "procs": 2, "policy": "ujfb", "options": {}}
    with pytest.raises(InputError, match=f'^{file}: job "b", field memory_gb: expected gigabytes'):
        run_cell(cell)
