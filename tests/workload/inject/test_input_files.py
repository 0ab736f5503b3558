"""Input files for jobs: which jobs share one, their sizes, and seeded random numbers."""

from __future__ import annotations

import copy
import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.process import run_cli

from pybatsched.campaign.prepare import Preparer
from pybatsched.campaign.workloads import WorkloadTable
from pybatsched.errors import InputError
from pybatsched.workload.checks.lint import lint_workload
from pybatsched.workload.formats import batsim4
from pybatsched.workload.inject.steps import Files, step_of
from pybatsched.workload.model import Workload

HOUR = 3600
CLASSES = ((128.0, 0.9), (256.0, 0.08), (1024.0, 0.02))


def workload(*jobs: tuple[float, int, Any]) -> Workload:
    """A workload of jobs of 60 s, submitted at some time, of some cores, by some user."""
    rows = [
        {"id": k, "subtime": at, "res": n, "profile": "60", "walltime": 600, "user": user}
        for k, (at, n, user) in enumerate(jobs, 1)
    ]
    return Workload(rows, {"60": {"type": "delay", "delay": 60}}, 20, "here", {"note": "kept"})


def many(n: int) -> Workload:
    """Jobs of so many users, none of which share a file."""
    return workload(*((k, 1 + k % 20, k) for k in range(n)))


def names(made: Workload) -> list[str]:
    return [job["input_file"] for job in made.jobs]


USERS = st.sampled_from(["ann", "bob", 7, "7"])
JOBS = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 3), USERS), min_size=1, max_size=40)


def shared_by_the_rule(jobs: list[dict[str, Any]], gap_s: float) -> list[int]:
    """A simple twin: for each job, the index of the job whose file it shares, by a search of all jobs before."""
    owners: list[int] = []
    for place, job in enumerate(jobs):
        own = [k for k in range(place) if str(jobs[k]["user"]) == str(job["user"])]
        owner = place
        if own:
            last = jobs[own[-1]]
            if last["res"] == job["res"] and job["subtime"] <= last["subtime"] + gap_s:
                owner = owners[own[-1]]
        owners.append(owner)
    return owners


@given(jobs=JOBS, gap_s=st.integers(0, 8))
def test_which_jobs_share_a_file(jobs: list[tuple[float, int, Any]], gap_s: int) -> None:
    made = Files(gap_s=gap_s).applied(workload(*jobs), 0)
    owners = shared_by_the_rule(list(made.jobs), gap_s)
    number = {owner: str(k) for k, owner in enumerate(sorted(set(owners)), 1)}
    assert names(made) == [number[owner] for owner in owners]
    n = len(number)
    assert (made.about["files"]["n"], made.about["files"]["shared"]) == (n, len(jobs) - n)


def test_which_jobs_share_a_file_in_a_worked_example() -> None:
    made = Files().applied(
        workload(
            (0, 2, "ann"),
            (HOUR, 2, "ann"),  # just within the hour
            (HOUR, 2, "bob"),
            (2 * HOUR, 2, "ann"),  # an hour after the last one, two after the first
            (2 * HOUR, 3, "ann"),  # other cores
            (2 * HOUR, 2, "ann"),  # as the last but one, not as the last
            (3 * HOUR + 1, 2, "ann"),  # too late
        ),
        0,
    )
    assert names(made) == ["1", "1", "2", "1", "3", "4", "5"]
    assert [job["input_size_gb"] for job in made.jobs] == [12.8, 12.8, 12.8, 12.8, 19.2, 12.8, 12.8]
    assert made.jobs[4] == {
        "id": 5, "subtime": 7200, "res": 3, "profile": "60", "walltime": 600, "user": "ann", "input_file": "3",
        "input_size_gb": 19.2, "alone_s": 252,
    }  # fmt: skip
    assert made.about == {
        "note": "kept",
        "files": {"n": 5, "shared": 2, "gap_s": 3600, "per_core_gb": 6.4, "bandwidth_gbps": 0.1},
    }


@pytest.mark.parametrize(
    "step", [Files(), Files(sizes_gb=(0.5, 300)), Files(classes=CLASSES), Files(sizes_gb=(1, 2), classes=CLASSES[:2])]
)
@given(jobs=JOBS, seed=st.integers(0, 2**31 - 1))
def test_other_fields_stay_and_the_seed_determines_the_workload(
    step: Files, jobs: list[tuple[float, int, Any]], seed: int
) -> None:
    before = workload(*jobs)
    untouched = copy.deepcopy(before)
    made = step.applied(before, seed)
    assert before == untouched
    assert batsim4.text_of(step.applied(before, seed)) == batsim4.text_of(made)
    new = {"input_file", "input_size_gb", "node_memory_gb", "alone_s"}
    bare = [{key: value for key, value in job.items() if key not in new} for job in made.jobs]
    assert bare == sorted(before.jobs, key=lambda job: job["subtime"])
    assert (made.profiles, made.n_procs, made.source) == (before.profiles, 20, "here")
    assert not [what for what in lint_workload(made).findings if "input" in what or "alone" in what]
    by_file = itertools.groupby(sorted(made.jobs, key=lambda job: job["input_file"]), lambda job: job["input_file"])
    for _, users in by_file:
        kinds = {(job["res"], str(job["user"]), job["input_size_gb"], job.get("node_memory_gb")) for job in users}
        assert len(kinds) == 1
    for job in made.jobs:
        assert job["alone_s"] == pytest.approx(60 + job["input_size_gb"] / 0.1, abs=1e-5)
        if "node_memory_gb" in job:
            assert job["node_memory_gb"] >= job["input_size_gb"]


def test_drawn_sizes_are_uniform_by_their_logarithm() -> None:
    before = many(4000)
    sizes = [job["input_size_gb"] for job in Files(sizes_gb=(1, 100)).applied(before, 1).jobs]
    assert 1 <= min(sizes) <= max(sizes) <= 100
    assert sum(size < 10 for size in sizes) == pytest.approx(2000, abs=100)
    assert sum(math.log(size) for size in sizes) / 4000 == pytest.approx(math.log(10), abs=0.1)
    assert sizes != [job["input_size_gb"] for job in Files(sizes_gb=(1, 100)).applied(before, 2).jobs]
    both = Files(sizes_gb=(1, 100), classes=CLASSES).applied(before, 1).jobs
    assert sizes == [job["input_size_gb"] for job in both]  # classes have their own random numbers
    assert {job["input_size_gb"] for job in Files(sizes_gb=(3, 3)).applied(before, 1).jobs} == {3}


def test_classes_have_their_shares() -> None:
    before = many(5000)
    made = Files(classes=CLASSES).applied(before, 1)
    found = [job["node_memory_gb"] for job in made.jobs]
    shares = {memory: found.count(memory) / 5000 for memory in (128, 256, 1024)}
    assert shares == pytest.approx({128: 0.9, 256: 0.08, 1024: 0.02}, abs=0.01)
    classes = made.about["files"]["classes"]
    assert [(kind["memory_gb"], kind["n"]) for kind in classes] == [(memory, found.count(memory)) for memory in shares]
    assert made.about["files"]["seed"] == 1
    half = Files(classes=((128, 0.5),)).applied(before, 1)
    assert 2300 < sum("node_memory_gb" in job for job in half.jobs) < 2700


def test_a_class_holds_the_file() -> None:
    before = many(300)
    found = {job["node_memory_gb"] for job in Files(sizes_gb=(200, 200), classes=CLASSES).applied(before, 1).jobs}
    assert found == {256, 1024}
    made = Files(sizes_gb=(2000, 2000), classes=CLASSES).applied(before, 1)
    assert {job["node_memory_gb"] for job in made.jobs} == {2000}  # no class holds it: schedulers reject it
    assert [kind["n"] for kind in made.about["files"]["classes"]] == [0, 0, 0]


def test_old_files_are_replaced() -> None:
    before = workload((0, 2, "ann"))
    before.jobs[0] |= {"input_file": "old", "input_size_gb": 1, "alone_s": 1, "node_memory_gb": 5}
    (job,) = Files().applied(before, 0).jobs
    assert (job["input_file"], job["input_size_gb"], job["alone_s"], job["node_memory_gb"]) == ("1", 12.8, 188, 5)
    (job,) = Files(classes=((256, 1.0),), per_core_gb=1).applied(before, 0).jobs
    assert (job["input_size_gb"], job["node_memory_gb"]) == (2, 256)
    (job,) = Files(bandwidth_gbps=2).applied(before, 0).jobs
    assert job["alone_s"] == 66.4


def test_alone_s_is_set_only_for_delays() -> None:
    before = workload((0, 2, "ann"), (0, 2, "ann"))
    before.profiles["twice"] = {"type": "composed", "seq": ["60", "60"]}
    before.profiles["task"] = {"type": "parallel_homogeneous", "cpu": 1, "com": 0}
    before.jobs[0]["profile"], before.jobs[1]["profile"] = "twice", "task"
    before.jobs[1]["alone_s"] = 5
    first, second = Files().applied(before, 0).jobs
    assert (first["alone_s"], "alone_s" in second) == (248, False)


@pytest.mark.parametrize(("user", "found"), [(None, "null"), ("", '""'), (1.5, "1.5"), (True, "true"), ([], r"\[\]")])
def test_jobs_without_a_user(user: Any, found: str) -> None:
    before = workload((0, 2, "ann"), (1, 2, user))
    with pytest.raises(InputError, match=f"^here: job 2, field user: expected a user name or number .* found {found}$"):
        Files().applied(before, 0)
    del before.jobs[1]["user"]
    with pytest.raises(InputError, match=r"^here: job 2, field user: expected a user name or number .* found nothing$"):
        Files().applied(before, 0)


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"per_core_gb": 1, "sizes_gb": [1, 2]}, "expected either per_core_gb or sizes_gb"),
        ({"sizes_gb": [2, 1]}, "sizes_gb: expected the smallest size first"),
        ({"sizes_gb": [0, 1]}, "sizes_gb 1: expected 1e-06 or more, found 0"),
        ({"sizes_gb": [1, 1e300]}, "sizes_gb 2: expected at most 1,000,000,000, found 1e+300"),
        ({"classes": [[128, 0.5], [128.0, 0.5]]}, "classes: expected each memory once"),
        ({"classes": [[128, 0.9], [256, 0.2]]}, "classes: expected a sum of shares of at most 1"),
        ({"classes": [[128, 0]]}, "classes 1.2: expected more than 0"),
        ({"gap_s": -1}, "gap_s: expected 0 or more"),
        ({"gap_s": math.inf}, "gap_s: expected a finite number"),
        ({"bandwidth_gbps": 0}, "bandwidth_gbps: expected 1e-06 or more, found 0"),
        ({"bandwidth": 1}, "unknown key 'bandwidth'; did you mean 'bandwidth_gbps'?"),
    ],
)
def test_invalid_parameters_are_rejected(given_: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        step_of(Files, given_)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("args", "step", "seed"),
    [
        ((), Files(), 0),
        (("--gap", "0"), Files(gap_s=0), 0),
        (("--gap", "2h", "--per-core", "3.2", "--bandwidth", "1"), Files(gap_s=7200, per_core_gb=3.2, bandwidth_gbps=1),
         0),
        (("--sizes", "0.5:100", "--classes", "128:0.9,256:0.08,1024:0.02", "--seed", "5"),
         Files(sizes_gb=(0.5, 100), classes=CLASSES), 5),
    ],
)  # fmt: skip
def test_the_command_and_the_step_of_a_campaign_are_the_same(
    args: tuple[str, ...], step: Files, seed: int, tmp_path: Path
) -> None:
    before = workload(*((300 * k, 1 + k // 7 % 3, f"u{k % 4}") for k in range(200)))
    batsim4.write(before, tmp_path / "w.json")
    out = tmp_path / "f.json"
    done = run_cli("workload", "inject", str(tmp_path / "w.json"), "files", *args, "--output", str(out))
    assert done.returncode == 0, done.stderr
    made = step.applied(before, seed)
    n_files = len(set(names(made)))
    dice = f", seed {seed}" if step.is_random else ""
    assert done.stdout.startswith(f"files: 200 jobs with {n_files} input files{dice}\nwrote {out}: 200 jobs")
    assert out.read_text() == batsim4.text_of(made)
    given_ = {"name": "w", "file": "w.json", "files": json.loads(step.model_dump_json(exclude_unset=True))}
    preparer = Preparer(tmp_path / "ready", [tmp_path])
    (tmp_path / "ready").mkdir()
    (one,) = preparer.prepare(WorkloadTable.model_validate(given_), seed)
    assert json.loads(Path(one.path).read_text())["jobs"] == made.jobs
    (other,) = preparer.prepare(WorkloadTable.model_validate(given_), seed + 1)
    assert (other.digest == one.digest) == (not step.is_random)


def test_injected_urgent_jobs_of_a_campaign_have_no_files(tmp_path: Path) -> None:
    batsim4.write(workload((0, 2, "ann")), tmp_path / "w.json")
    given_ = {"name": "w", "file": "w.json", "files": {}, "urgent": {"jobs": [[1, 5, 9]]}}
    (one,) = Preparer(tmp_path, [tmp_path]).prepare(WorkloadTable.model_validate(given_), 0)
    jobs = json.loads(Path(one.path).read_text())["jobs"]
    assert [(job["id"], "input_file" in job) for job in jobs] == [(1, True), ("urgent1", False)]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--sizes", "5"), "files: --sizes 5: expected LO:HI, such as 1:100"),
        (("--sizes", "5:x"), "files: sizes_gb 2: expected a number"),
        (("--sizes", "5:4"), "files: sizes_gb: expected the smallest size first"),
        (("--sizes", "1:5", "--per-core", "1"), "not allowed with argument"),
        (("--classes", "128"), "files: --classes 128: expected GB:SHARE,…, such as 128:0.9,256:0.1"),
        (("--classes", "128:0.9,"), "files: --classes : expected GB:SHARE"),
        (("--classes", "128:0.9,256:0.2"), "files: classes: expected a sum of shares of at most 1"),
        (("--gap", "soon"), "files: --gap: expected seconds"),
        (("--per-core", "0"), "files: per_core_gb: expected 1e-06 or more"),
        (("--bandwidth", "nan"), "files: bandwidth_gbps: expected at most 1,000,000,000, found nan"),
    ],
)
def test_invalid_arguments_are_rejected(args: tuple[str, ...], message: str, tmp_path: Path) -> None:
    batsim4.write(many(3), tmp_path / "w.json")
    out = tmp_path / "f.json"
    done = run_cli("workload", "inject", str(tmp_path / "w.json"), "files", *args, "--output", str(out))
    assert (done.returncode, message in done.stderr, out.exists()) == (2, True, False), done.stderr
