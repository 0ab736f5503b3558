"""Complete workloads in Batsim 5's format: random ones are unchanged after reading, and the command converts them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import given, strategies as st
from support.batsim5_files import DELAY, job, workload
from support.process import run_cli

from pybatsched.protocol.v5_events import read_job
from pybatsched.protocol.v5_members import Members
from pybatsched.workload.formats import batsim4, batsim5
from pybatsched.workload.model import Workload

SPREAD = "DefinedAmountsSpreadUniformly"


# --------------------------------------------------------------------------------------------------------- in general

TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
    | st.sampled_from(["{}", '{"res": 1}', "[]", '{"com": 3}', '{"walltime": -1}']),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
NAMES = st.sampled_from(["user", "extra_data", "generation_strategy", "filename", "trace_type", "estimate"]) | TEXTS
AMOUNTS = st.integers(0, 2**59) | st.floats(0, 1e300)  # as many times as a job has processors
BYTES = st.fixed_dictionaries(
    {"type": st.just("parallel_homogeneous_pfs"), "bytes_to_read": AMOUNTS},
    optional={"bytes_to_write": AMOUNTS, "storage": TEXTS, "host": TEXTS},
)
PROFILES = st.one_of(
    st.fixed_dictionaries({"type": st.just("delay"), "delay": st.floats(1e-9, 1e9)}),
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["parallel_homogeneous", "parallel_homogeneous_total"]),
            "cpu": AMOUNTS,
            "com": AMOUNTS,
        }
    ),
    BYTES,
    st.fixed_dictionaries({"type": st.sampled_from(["smpi", "usage_trace"]), "trace": TEXTS}),
    st.fixed_dictionaries({"type": st.just("data_staging"), "nb_bytes": st.just(0), "from": TEXTS, "to": TEXTS}),
)
RETURNS: st.SearchStrategy[dict[str, int]] = st.sampled_from([{}, {"ret": 3}])
WALLTIMES: st.SearchStrategy[dict[str, float]] = st.sampled_from([{}, {"walltime": -1}, {"walltime": 60.5}])
OWN = {"type", "ret", "delay", "cpu", "com", "seq", "repeat", "bytes_to_read", "bytes_to_write", "storage", "host"}
OWN |= {"nb_bytes", "from", "to", "trace", "batsim5"}
OWN_OF_JOBS = {"id", "subtime", "res", "profile", "walltime", "smpi_ranks_to_hosts_mapping"}


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Draw a workload that Batsim 5 can have: profiles whose amounts depend on sizes have jobs of one size."""
    profiles: dict[str, Any] = {}
    jobs: list[dict[str, Any]] = []
    for name in draw(st.lists(TEXTS, min_size=1, max_size=4, unique=True)):
        extra = draw(st.dictionaries(NAMES.filter(lambda name: name not in OWN), VALUES, max_size=2))
        profiles[name] = {**draw(PROFILES), **extra, **draw(RETURNS)}
        n_procs = draw(st.integers(1, 9))
        for _ in range(draw(st.integers(0, 2))):
            fields = draw(st.dictionaries(NAMES.filter(lambda name: name not in OWN_OF_JOBS), VALUES, max_size=2))
            walltime = draw(WALLTIMES)
            own = {"id": len(jobs), "subtime": 0.5, "res": n_procs, "profile": name}
            jobs.append({**own, **walltime, **fields})
    return Workload(jobs, profiles, 9, "w.json", {"note": "kept"})


@given(workloads())
def test_a_workload_is_unchanged_after_conversion_and_back(before: Workload) -> None:
    made = batsim5.to_batsim5(before)
    text = batsim4.text_of(made)
    content = json.loads(text)
    jobs, profiles = batsim5.from_batsim5(content["jobs"], content["profiles"], "w5.json")
    assert (jobs, profiles) == (before.jobs, before.profiles)
    assert repr([sorted(one.items()) for one in jobs]) == repr([sorted(one.items()) for one in before.jobs])  # 1 or 1.0
    own = {"id", "subtime", "res", "profile", "walltime", "extra_data"}
    assert all(one.keys() <= own and one.get("walltime", 1) > 0 for one in content["jobs"])
    assert all(isinstance(one.get("extra_data", ""), (str, list, dict)) for one in content["jobs"])
    assert batsim5.to_batsim5(Workload(jobs, profiles, 9)).profiles == made.profiles


@given(workloads())
def test_a_scheduler_gets_the_fields_of_the_file(before: Workload) -> None:
    """Batsim 5 passes on its own members and `extra_data`, of which the protocol makes fields again."""
    content = json.loads(batsim4.text_of(batsim5.to_batsim5(before)))
    for one, ours in zip(content["jobs"], before.jobs, strict=True):
        fields = {"resource_request": one["res"], "walltime": one.get("walltime"), "profile_id": f"w0!{one['profile']}"}
        fields["extra_data"] = one.get("extra_data", "")
        if "extra_data" not in ours:  # one of the user's own may come as another text
            assert read_job(f"w0!{one['id']}", Members(fields, "job"), one["subtime"]) == {
                **ours,
                "id": f"w0!{ours['id']}",
            }


def test_convert_writes_batsim_5s_format_and_simulate_runs_it_the_same(tmp_path: Path) -> None:
    profiles = {
        "d": {"type": "delay", "delay": 7.5},
        "p": {"type": "parallel_homogeneous_total", "cpu": 8e9, "com": 0},
        "c": {"type": "composed", "seq": ["d", "p"], "repeat": 2},
    }
    jobs = [
        job(id=i, subtime=i, res=1 + i % 3, profile="dpc"[i % 3], walltime=60, estimate=50 - i, user=f"u{i}")
        for i in range(12)
    ]
    batsim4.write(Workload(jobs, profiles, 4), tmp_path / "w.json")
    done = run_cli("workload", "convert", "w.json", "w5.json", "--for", "batsim5", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    content = json.loads((tmp_path / "w5.json").read_text())
    assert {one["type"] for one in content["profiles"].values()} == {
        "DelayProfile",
        "ParallelTaskHomogeneousProfile",
        "SequentialCompositionProfile",
    }
    assert content["jobs"][1]["extra_data"] == '{"estimate": 49, "user": "u1"}'
    for name in ("w", "w5"):
        done = run_cli("simulate", "--procs", "4", "-w", f"{name}.json", "--policy", "easy", "-e", name, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "w_jobs.csv").read_text() == (tmp_path / "w5_jobs.csv").read_text()
    for command in ("lint", "stats"):
        done = run_cli("workload", command, "w5.json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr


def test_convert_reports_what_it_changed_and_what_it_cannot_convert(tmp_path: Path) -> None:
    total = {"type": "parallel_homogeneous_total", "cpu": 8e9, "com": 4}
    batsim4.write(workload({"t": total}, sizes=(4,)), tmp_path / "w.json")
    done = run_cli("workload", "convert", "w.json", "w5.json", "--for", "batsim5", cwd=tmp_path)
    assert "1  amounts of a profile are written as Batsim 5 spreads them" in done.stdout
    batsim4.write(workload({"s": {"type": "send", "msg": {}}}, sizes=(4,)), tmp_path / "w.json")
    done = run_cli("workload", "convert", "w.json", "w6.json", "--for", "batsim5", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(
        'pybatsched: w.json: profile "s", field type: expected a profile that Batsim 5 supports'
    )
    assert not (tmp_path / "w6.json").exists()


def test_convert_leaves_unused_profiles_out(tmp_path: Path) -> None:
    batsim4.write(workload(DELAY | {"unused": {"type": "delay", "delay": 3}}, sizes=(4,)), tmp_path / "w.json")
    content = json.loads((tmp_path / "w.json").read_text())
    content["jobs"] = [one for one in content["jobs"] if one["profile"] == "d"]
    (tmp_path / "w.json").write_text(json.dumps(content))
    run_cli("workload", "convert", "w.json", "w5.json", "--for", "batsim5", cwd=tmp_path)
    assert json.loads((tmp_path / "w5.json").read_text())["profiles"].keys() == {"d"}
