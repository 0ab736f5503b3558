"""Several logs as one workload: its jobs, their times and names, and external jobs."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.logs import line, log, real
from support.process import run_cli

from pybatsched.errors import InputError
from pybatsched.workload import prepare
from pybatsched.workload.formats import batsim4
from pybatsched.workload.inject.steps import Moldable
from pybatsched.workload.merge import ClusterLog, merged
from pybatsched.workload.model import Workload
from pybatsched.workload.selection import Selection
from pybatsched.workload.walltimes import OVERRAN

DAY = 24 * 3600


def made(path: Path, name: str, *lines: str, header: str = "; MaxProcs: 8\n") -> Path:
    """Write a log into a folder of its own."""
    (path / name).mkdir()
    return log(path / name, *lines, header=header)


def workload(*jobs: Mapping[str, Any], procs: int = 8, **profiles: dict[str, Any]) -> Workload:
    """A workload of jobs that differ from a usual one as they are given."""
    usual = {"subtime": 0, "res": 1, "profile": "60", "walltime": 61}
    rows = [{"id": place, **usual, **job} for place, job in enumerate(jobs, 1)]
    return Workload(rows, {"60": {"type": "delay", "delay": 60}, **profiles}, procs, "here.json", {"note": "kept"})


def rows_of(whole: Workload, *fields: str) -> list[tuple[Any, ...]]:
    return [tuple(job.get(field) for field in fields) for job in whole.jobs]


def test_three_logs_by_hand(tmp_path: Path) -> None:
    """Each counts from its own first submission; the window is [100 s, 200 s), and begins at 0."""
    a = made(tmp_path, "a", line(1, 1000), line(2, 1100, requested_s=90), line(3, 1200), line(4, 1199.5))
    b = made(
        tmp_path, "b", line(1, 0, run=0), line(2, 50), line(3, 170, run=7, requested_s=7), header="; MaxProcs: 16\n"
    )
    c = tmp_path / "c.json"
    batsim4.write(workload({"subtime": 9, "id": "x"}, {"subtime": 129, "id": "y", "res": 4, "walltime": 70}), c)
    out = tmp_path / "m.json"
    window = ("--from", "100", "--submitted-before", "200s", "--output", str(out))
    done = run_cli("workload", "merge", f"a={a}", f"b={b}", f"c={c}", *window, "--procs", "c=32")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "a:", "4 jobs read, 2 kept, 2 dropped", "dropped:",
        "        2  submitted outside of the window: dropped (lines 2, 4)", "changed:",
        "        1  no requested time: estimate is the run time, walltime the run time + 1 (line 5)", "b:",
        "3 jobs read, 1 kept, 2 dropped", "dropped:", "        1  run time of 0 or unknown: dropped (line 2)",
        "        1  submitted outside of the window: dropped (line 3)", "changed:", f"        1  {OVERRAN} (line 4)",
        "c:", "2 jobs read, 1 kept, 1 dropped", "dropped:",
        "        1  submitted outside of the window: dropped (job x)",
        "a: 2 jobs, 0 of them external, for 8 processors", "b: 1 job, 0 of them external, for 16 processors",
        "c: 1 job, 0 of them external, for 32 processors",
        f"wrote {out}: 4 jobs for 56 processors, submitted from 0 s to 99.5 s",
    ]  # fmt: skip
    whole = batsim4.read(out)
    assert rows_of(whole, "id", "subtime", "res", "profile", "walltime", "estimate", "cluster", "external") == [
        ("a-2", 0, 2, "60", 90, None, "a", None),
        ("b-3", 20, 2, "7", 8, 7, "b", None),  # the first job of b that can run is at 50
        ("c-y", 20, 4, "60", 70, None, "c", None),
        ("a-4", 99.5, 2, "60", 61, 60, "a", None),
    ]
    assert whole.n_procs == 56
    of_a = whole.about["merged"][0]
    assert {key: of_a[key] for key in ("name", "nb_res", "jobs", "external", "source", "shifted_by", "selection")} == {
        "name": "a",
        "nb_res": 8,
        "jobs": 2,
        "external": 0,
        "source": "log.swf",
        "shifted_by": 1100,
        "selection": {"from": 100, "to": 200, "clock": "first"},
    }
    assert of_a["swf_header"] == {"MaxProcs": "8"}  # a log's notice stays with every copy
    assert "external" not in whole.about


def test_the_same_options_give_the_same_file(tmp_path: Path) -> None:
    a = made(tmp_path, "a", *(line(k, 10 * k) for k in range(1, 60)))
    for name, seed in (("m", "4"), ("n", "4"), ("o", "5")):
        options = ("--external", "0.5", "--seed", seed, "--output", str(tmp_path / f"{name}.json"))
        assert run_cli("workload", "merge", f"a={a}", *options).returncode == 0
    files = [(tmp_path / f"{name}.json").read_bytes() for name in "mno"]
    assert files[0] == files[1] != files[2]
    assert str(tmp_path).encode() not in files[0]
    assert json.loads(files[0])["external"] == {"share": 0.5, "seed": 4}
    b = made(tmp_path, "b", line(1, 100))
    for clock, at in (("first", [0]), ("log", [100])):
        words = ("--window-clock", clock, "--output", str(tmp_path / "t.json"))
        assert run_cli("workload", "merge", f"a={a}", f"b={b}", *words).returncode == 0
        jobs = json.loads((tmp_path / "t.json").read_text())["jobs"]
        assert [job["subtime"] for job in jobs if job["cluster"] == "b"] == at


def test_every_format_and_all_the_options_of_logs(tmp_path: Path) -> None:
    a = made(tmp_path, "a", line(1, 5, run=0, requested=4, requested_kb=500, requested_s=9), "bad", line(1, 6))
    r = made(tmp_path, "r", line(7, 100), line(8, 100), line(9, 105))
    out = tmp_path / "m.json"
    options = ("--min-runtime", "2", "--lenient", "--profile", "parallel", "--speed", "1e6", "--output", str(out))
    done = run_cli("workload", "merge", f"a={a}", f"r={r}", *options, "--walltimes", "exact")
    assert done.returncode == 0, done.stderr
    whole = batsim4.read(out)
    assert rows_of(whole, "id", "subtime", "res", "walltime", "cluster") == [
        ("a-1", 0, 2, 3, "a"),
        ("r-7", 0, 2, 61, "r"),
        ("r-8", 0, 2, 61, "r"),
        ("a-2", 1, 2, 61, "a"),
        ("r-9", 5, 2, 61, "r"),
    ]
    assert whole.profiles["2"] == {"type": "parallel_homogeneous", "cpu": 2_000_000, "com": 0}
    assert whole.n_procs == 8 + 8
    alone = ("--size", "requested", "--memory-unit", "GB", "--min-runtime", "2", "--lenient", "--output", str(out))
    assert run_cli("workload", "merge", f"a={a}", *alone).returncode == 0
    assert rows_of(batsim4.read(out), "id", "res", "memory_gb") == [("a-1", 4, 500), ("a-2", 2, None)]
    done = run_cli(
        "workload", "merge", f"a={a}", f"r={out}", "--lenient", *alone[:2], "--output", str(tmp_path / "n.json")
    )
    assert done.returncode == 2
    assert "expected a log, found a Batsim file" in done.stderr


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["log.swf"], "log.swf: expected NAME=FILE, such as ctc=CTC-SP2.swf.gz"),
        (["=log.swf"], "=log.swf: expected NAME=FILE"),
        (["a=log.swf", "a=log.swf"], "a=log.swf: expected different names, found a twice"),
        (["a!=log.swf"], 'name "a!": expected letters, digits and . _ + -'),
        (["w0=log.swf"], 'name "w0": expected a name without w0, which is a workload\'s name in Batsim'),
        (["raw12=log.swf"], 'name "raw12": expected a name without w1'),
        (["a=none.swf"], "a: none.swf: cannot be read: No such file"),
        (["a=bad.swf", "--lenient"], "a: bad.swf: no job is left (1 job: bad line, field 4 (run time): "),
        (["a=bad.swf"], "a: bad.swf: line 2: field 4 (run time): expected a number, found x"),
        (
            ["a=log.swf", "--submitted-before", "soon"],
            "--submitted-before: expected seconds, or a number with m, h, d or w",
        ),
        (
            ["a=log.swf", "--from", "3d", "--submitted-before", "2d"],
            "--submitted-before 172800: expected a time after --from 259200",
        ),
        (["a=log.swf", "--from", "3d"], "a: log.swf: no job is left: 1 job submitted from 5 s to 5 s"),
        (["a=log.swf", "--external", "1.5"], "external: expected a share from 0 to 1, found 1.5"),
        (["a=log.swf", "--external", "nan"], "external: expected a share from 0 to 1, found nan"),
        (["a=log.swf", "--procs", "b=3"], "--procs b: expected one of a"),
        (["a=log.swf", "--procs", "3"], "3: expected --procs NAME=N"),
        (["a=log.swf", "--procs", "a=0"], "--procs a=0: expected a whole number, 1 or more, found '0'"),
        (["a=log.swf", "--speed", "3"], "a: --speed: works only with --profile parallel"),
        (["a=log.swf", "--output", "m.txt"], "m.txt: expected a file name that ends in .json or .json.gz"),
        (["a=w.json", "--output", "w.json"], "w.json is an input of this command; expected another output file"),
    ],
)
def test_invalid_arguments_of_merge_are_rejected(tmp_path: Path, given: list[str], message: str) -> None:
    log(tmp_path, line(1, 5), header="; MaxProcs: 8\n")
    (tmp_path / "bad.swf").write_text(f"; MaxProcs: 8\n{line(1, 5, run='x')}\n")
    done = run_cli("workload", "merge", "--output", "m.json", *given, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "m.json").exists()


def test_profiles_of_one_name_stay_apart_if_they_differ() -> None:
    twice = {"type": "composed", "seq": ["60", "part"], "repeat": 2}
    talk = {"type": "recv", "success": "part", "failure": "60"}
    a = workload({"profile": "twice"}, {"profile": "60"}, part={"type": "delay", "delay": 5}, twice=twice)
    b = workload(
        {"profile": "twice"},
        {"profile": "60"},
        {"profile": "talk"},
        part={"type": "delay", "delay": 6},
        twice=twice,
        talk=talk,
    )
    b.profiles["b-part"] = {"type": "delay", "delay": 1}
    whole = merged([ClusterLog("a", a), ClusterLog("b", b)])
    assert rows_of(whole, "id", "profile") == [
        ("a-1", "twice"),
        ("a-2", "60"),
        ("b-1", "b-twice"),  # it is made of another part
        ("b-2", "60"),
        ("b-3", "talk"),
    ]
    assert whole.profiles == {
        "60": {"type": "delay", "delay": 60},
        "part": {"type": "delay", "delay": 5},
        "twice": twice,
        "b-part": {"type": "delay", "delay": 1},
        "b-part-2": {"type": "delay", "delay": 6},
        "b-twice": {"type": "composed", "seq": ["60", "b-part-2"], "repeat": 2},
        "talk": {"type": "recv", "success": "b-part-2", "failure": "60"},
    }


def test_dependencies_are_those_of_the_same_log() -> None:
    a = workload({}, {"depends_on": 1, "think_time": 5}, {"depends_on": [1, "2"]})
    whole = merged([ClusterLog("a", a), ClusterLog("b", a)])
    assert rows_of(whole, "id", "depends_on") == [
        ("a-1", None),
        ("a-2", "a-1"),
        ("a-3", ["a-1", "a-2"]),
        ("b-1", None),
        ("b-2", "b-1"),
        ("b-3", ["b-1", "b-2"]),
    ]


def test_ambiguous_names_are_rejected() -> None:
    a, b = workload({"id": "b-1"}), workload({"id": 1})
    with pytest.raises(InputError, match=r'^job "a-b-1": expected a unique id, found one of a and one of a-b$'):
        merged([ClusterLog("a", a), ClusterLog("a-b", b)])
    with pytest.raises(InputError, match=r'^job "a-1": expected a unique id, found one of a and one of a$'):
        merged([ClusterLog("a", workload({"id": "v!1"}, {"id": 1}))])
    with pytest.raises(InputError, match=r'^name "a": expected a different name for each log, found it twice$'):
        merged([ClusterLog("a", a), ClusterLog("a", b)])


def test_each_log_has_its_own_random_numbers() -> None:
    jobs = workload(*({"subtime": at} for at in range(40)))
    whole = merged([ClusterLog("a", jobs), ClusterLog("b", jobs)], 0.5, seed=1)
    drawn = {name: [job.get("external") for job in whole.jobs if job["cluster"] == name] for name in "ab"}
    assert drawn["a"] != drawn["b"]


def test_external_jobs_stay_external_without_a_share() -> None:
    a = workload({"external": True, "cluster": "old"}, {"external": False})
    assert rows_of(merged([ClusterLog("a", a)]), "external", "cluster") == [(True, "a"), (False, "a")]
    assert rows_of(merged([ClusterLog("a", a)], 0.0), "external") == [(None,), (None,)]
    whole = merged([ClusterLog("a", a)], 1.0)
    assert rows_of(whole, "external") == [(True,), (True,)]
    assert whole.about == {"merged": [{"name": "a", "nb_res": 8, "jobs": 2, "external": 2, "note": "kept"}]}


# --- properties ---

_DELAYS = st.sampled_from((30, 60))
_JOBS = st.lists(st.tuples(st.integers(0, 400), st.integers(1, 8), _DELAYS), min_size=1, max_size=12)


def _part(name: str, jobs: list[tuple[int, int, int]]) -> ClusterLog:
    """Jobs at some time, of some size, for so long; the profile b is not the same in all logs."""
    names = ["a" if s < 60 else "b" for _, _, s in jobs]
    rows: list[dict[str, Any]] = [
        {"id": k, "subtime": at, "res": n, "profile": names[k]} for k, (at, n, _) in enumerate(jobs)
    ]
    times = {"a": 30, "b": 60 if name < "m" else 61}
    profiles: dict[str, dict[str, Any]] = {key: {"type": "delay", "delay": times[key]} for key in sorted(set(names))}
    return ClusterLog(name, Workload(rows, profiles, 8, f"{name}.json"))


@given(
    logs=st.lists(_JOBS, min_size=1, max_size=3),
    window=st.tuples(st.integers(0, 300), st.integers(1, 300)),
    share=st.sampled_from((None, 0.0, 0.4, 1.0)),
    seed=st.integers(0, 99),
)
def test_every_job_of_the_window_once(
    logs: list[list[tuple[int, int, int]]], window: tuple[int, int], share: float | None, seed: int
) -> None:
    begin, end = window[0], sum(window)
    parts: list[ClusterLog] = []
    expected: list[tuple[int, int, int, str, int, str]] = []
    for name, jobs in zip(("hpc2n", "sdsc", "ctc"), logs, strict=False):
        part, first = _part(name, jobs), min(job[0] for job in jobs)
        own = [
            (at - first - begin, len(parts), k, f"{name}-{k}", n, name)
            for k, (at, n, _) in enumerate(jobs)
            if begin <= at - first < end
        ]
        selection = Selection(from_at=begin, to_at=end, clock="first")
        if not own:
            with pytest.raises(InputError, match="no job is left"):
                prepare.select(part.workload, selection)
            continue
        parts.append(ClusterLog(name, prepare.select(part.workload, selection)[0]))
        expected += own
    before = copy.deepcopy(parts)
    whole = merged(parts, share, seed)
    assert parts == before
    assert merged(parts, share, seed) == whole
    # In order of submission; at one instant in the order of the logs, and of each log as it has them.
    assert rows_of(whole, "subtime", "id", "res", "cluster") == [
        (at, job_id, n, name) for at, _, _, job_id, n, name in sorted(expected, key=lambda job: job[:3])
    ]
    works = {part.name: part.workload for part in parts}
    for job in whole.jobs:
        (own_job,) = [one for one in works[job["cluster"]].jobs if f"{job['cluster']}-{one['id']}" == job["id"]]
        assert whole.profiles[job["profile"]] == works[job["cluster"]].profiles[own_job["profile"]]
    assert {job["profile"] for job in whole.jobs} == set(whole.profiles)
    assert whole.n_procs == 8 * len(parts)
    # The random numbers of one log do not depend on the others.
    for part in parts:
        alone = {job["id"]: job.get("external") for job in merged([part], share, seed).jobs}
        assert alone == {job["id"]: job.get("external") for job in whole.jobs if job["cluster"] == part.name}
    n_external = sum(job.get("external", False) for job in whole.jobs)
    assert (0 if share != 1 else len(whole.jobs)) <= n_external <= (len(whole.jobs) if share else 0)


@given(jobs=_JOBS, seed=st.integers(0, 99))
def test_moldable_types_of_grid_jobs_do_not_depend_on_external_jobs(
    jobs: list[tuple[int, int, int]], seed: int
) -> None:
    dedicated, shared = (Moldable().applied(merged([_part("ctc", jobs)], share, 5), seed) for share in (0.0, 0.5))
    types = {job["id"]: job.get("moldable") for job in dedicated.jobs}
    for job in shared.jobs:
        assert job.get("moldable") == (None if job.get("external") else types[job["id"]])
    assert all((types[job["id"]] is not None) == (job["res"] > 1) for job in dedicated.jobs)


@pytest.mark.long
def test_the_first_half_year_of_three_real_logs(tmp_path: Path) -> None:
    """26 weeks from each log's own first submission: what the reproduction of the reallocation study runs on."""
    logs = {
        "hpc2n": real("HPC2N-2002-2.2-cln.swf.gz"),
        "ctc": real("CTC-SP2-1996-3.1-cln.swf.gz"),
        "sdsc": real("SDSC-SP2-1998-4.2-cln.swf.gz"),
    }
    out = tmp_path / "grid.json"
    named = [f"{name}={path}" for name, path in logs.items()]
    options = ("--submitted-before", "182d", "--external", "0.667", "--seed", "1", "--output", str(out))
    done = run_cli("workload", "merge", *named, *options, "--procs", "ctc=430")
    assert done.returncode == 0, done.stderr
    whole = batsim4.read(out)
    counts = {part["name"]: (part["jobs"], part["nb_res"]) for part in whole.about["merged"]}
    assert counts == {"hpc2n": (15_086, 240), "ctc": (42_826, 430), "sdsc": (16_162, 128)}
    assert (len(whole.jobs), whole.n_procs) == (15_086 + 42_826 + 16_162, 798)
    assert [(whole.jobs[place]["subtime"] < 182 * DAY) for place in (0, -1)] == [True, True]
    assert [job["id"] for job in whole.jobs if job["subtime"] == 0] == ["hpc2n-11", "ctc-1", "sdsc-11"]
    for part in whole.about["merged"]:
        assert part["external"] / part["jobs"] == pytest.approx(0.667, abs=0.01)
