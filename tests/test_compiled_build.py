"""One source, two builds: the compiled modules equal the plain ones, message by message."""

from __future__ import annotations

import ast
import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.examples import examples
from support.patience import PATIENCE_OF_WORK_S, PATIENCE_S
from support.places import ROOT

from pybatsched.policies import registry

N_WORKLOADS = examples(200).max_examples  # for each policy


@pytest.fixture(scope="module")
def build() -> Path:
    """Return the compiled build that is tested now."""
    place = os.environ.get("PYBATSCHED_COMPILED")
    if place is None:
        pytest.skip("no compiled build is being tested: make test-compiled makes one")
    return ROOT / place


def fingerprints(*path: Path) -> list[str]:
    """Let the policies run in a process that finds modules on this path first."""
    places = os.pathsep.join(map(str, (*path, ROOT / "tests")))
    done = subprocess.run(
        [sys.executable, "-m", "support.fingerprints", str(N_WORKLOADS)],
        cwd=ROOT / "tests",
        env=os.environ | {"PYTHONPATH": places},
        check=True,
        capture_output=True,
        text=True,
        timeout=PATIENCE_OF_WORK_S,
    )
    return done.stdout.splitlines()


def test_the_tests_of_this_run_are_of_the_compiled_build(build: Path) -> None:
    from pybatsched.core import engine

    assert Path(engine.__file__).parent == build / "pybatsched" / "core"
    assert not engine.__file__.endswith(".py")


def test_every_policy_gives_the_same_messages_and_schedules(build: Path) -> None:
    said_plain, *plain = fingerprints(ROOT)
    said_compiled, *compiled = fingerprints(build)
    assert (said_plain, said_compiled) == ("# plain", "# compiled")
    assert len(plain) == 10 * N_WORKLOADS
    assert compiled == plain


def test_every_compiled_module_can_be_the_first_to_be_imported(build: Path) -> None:
    """A module that is annotated with a class that does not exist yet would end the process."""
    folders = [build / "pybatsched", build / "pybatsched_schedulers"]
    files = [path.relative_to(build) for folder in folders for path in sorted(folder.rglob("*.so"))]
    assert len(files) > 40
    for file in files:
        module = ".".join((*file.parent.parts, file.name.partition(".")[0]))
        done = subprocess.run(
            [sys.executable, "-c", f"import {module}"],
            cwd=build,  # which comes first
            env=os.environ | {"PYTHONPATH": str(build)},
            capture_output=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, (module, done.stderr)


def compiled_classes() -> list[ast.ClassDef]:
    """Return the classes of the hot modules that authors may subclass."""
    tree = ast.parse((ROOT / "setup.py").read_text())
    set_ = {ast.unparse(node.targets[0]): node.value for node in tree.body if isinstance(node, ast.Assign)}
    hot: dict[str, str] = ast.literal_eval(set_["HOT"])
    places = ((ROOT / folder, names.split()) for folder, names in hot.items())
    modules = [ast.parse((place / f"{name}.py").read_text()) for place, names in places for name in names]
    classes = [node for module in modules for node in module.body if isinstance(node, ast.ClassDef)]
    return [one for one in classes if any("allow_interpreted_subclasses" in ast.unparse(d) for d in one.decorator_list)]


def test_methods_that_may_be_overridden_have_no_numeric_defaults() -> None:
    """Where a subclass is plain Python, mypyc passes 0 for a float or a native integer that the caller left out."""
    classes = compiled_classes()
    assert {"LocalScheduler", "Easy", "DbfScheduler", "Reallocation"} <= {one.name for one in classes}
    for one in classes:
        for method in (node for node in one.body if isinstance(node, ast.FunctionDef)):
            given = [*method.args.defaults, *(default for default in method.args.kw_defaults if default)]
            assert {ast.unparse(default) for default in given} <= {"None", "True", "False"}, f"{one.name}.{method.name}"


#: A scheduler of an author's own that picks the highest processors, and counts how often it is asked.
HIGHEST = """
class Highest({scheduler}):
    def __init__(self, *given):
        super().__init__(*given)
        self.n_asked = 0
    def pick(self, job, now):
        self.n_asked += 1
        return self.partition.free - self.partition.free.first(self.partition.n_free - job.n_procs)
"""
#: The policy that uses it, for each shipped one: by its name alone, or with a method that makes the scheduler.
LOCAL = """
class Mine({policy}):
    scheduler = Highest
    def figures(self):
        return {{"n_asked": self.local.n_asked}}
"""
ON_BEGIN = """
class Mine({policy}):
    def on_begin(self, cluster):
        super().on_begin(cluster)
        self.local = Highest(self.local.partition, self.options, cluster)
        self.locals = [self.local]
    def figures(self):
        return {{"n_asked": self.local.n_asked}}
"""
MADE = """
class Mine({policy}):
    def _made(self, *given):
        return Highest(given[-1])
    def figures(self):
        return {{"n_asked": sum(local.n_asked for local in self.locals)}}
"""
MINE = {
    "fcfs": ("fcfs.FcfsScheduler", LOCAL),
    "easy": ("easy.EasyScheduler", LOCAL),
    "conservative": ("conservative.ConservativeScheduler", LOCAL),
    "dbf": ("dbf.policy.DbfScheduler", LOCAL),
    "ujfb": ("ujfb.policy.UjfbScheduler", ON_BEGIN),
    "redirection": ("easy.EasyScheduler", MADE),
    "reallocation": ("conservative.ConservativeScheduler", MADE),
}


@pytest.mark.parametrize("policy", MINE)
def test_an_author_may_subclass_what_is_compiled(build: Path, tmp_path: Path, policy: str) -> None:
    scheduler, mine = MINE[policy]
    source = registry.find(policy).cls
    imports = f"import {source.__module__}, pybatsched_schedulers.{scheduler.rpartition('.')[0]}\n"
    made = HIGHEST.format(scheduler=f"pybatsched_schedulers.{scheduler}")
    made += mine.format(policy=f"{source.__module__}.{source.__name__}")
    (tmp_path / "mine.py").write_text(imports + made)
    (tmp_path / "jobs.json").write_text(
        '{"nb_res": 4, "jobs": [{"id": "a", "subtime": 0, "res": 1, "profile": "p", "walltime": 9},'
        ' {"id": "b", "subtime": 1, "res": 1, "profile": "p", "walltime": 9, "max_stay": 20}],'
        ' "profiles": {"p": {"type": "delay", "delay": 5}}}'
    )
    command = [sys.executable, "-m", "pybatsched", "simulate", "--workload", "jobs.json", "--procs", "4"]
    options = ["-o", "group_size=0"] if policy == "redirection" else []
    done = subprocess.run(
        [*command, "--policy", "mine.py:Mine", *options, "-e", "run"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(build)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = csv.DictReader((tmp_path / "run_jobs.csv").read_text().splitlines())
    assert {row["job_id"]: row["allocated_resources"] for row in rows} == {"a": "3", "b": "2"}
    assert "n_asked" in done.stdout + done.stderr
