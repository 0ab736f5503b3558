"""Workloads in Batsim 5's format: written as 5.0.0-rc2 reads them, and read back unchanged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.batsim5_files import DELAY, job, workload
from support.places import GOLDEN

from pybatsched.errors import InputError
from pybatsched.workload.formats import batsim4, batsim5
from pybatsched.workload.model import Workload

SPREAD = "DefinedAmountsSpreadUniformly"


def profile5(profile: dict[str, Any], *sizes: int) -> dict[str, Any]:
    """Convert one profile to Batsim 5's format, with its extra data as an object."""
    content = workload({"inner": DELAY["d"], "p": profile}, sizes=sizes)
    made = batsim5.to_batsim5(content).profiles["p"]
    return made | ({"extra_data": json.loads(made["extra_data"])} if "extra_data" in made else {})


def job5(**fields: Any) -> dict[str, Any]:
    return batsim5.to_batsim5(workload(DELAY, job(**fields))).jobs[0]


def read(tmp_path: Path, content: Any) -> Workload:
    file = tmp_path / "w5.json"
    file.write_text(json.dumps(content))
    return batsim4.read(file)


def content5(*jobs: dict[str, Any], **profiles: Any) -> dict[str, Any]:
    return {"nb_res": 8, "jobs": list(jobs), "profiles": profiles}


@pytest.mark.parametrize(
    ("kind", "fields", "kind5", "fields5"),
    [
        ("delay", {"delay": 5, "ret": 3}, "DelayProfile", {}),
        ("parallel", {"cpu": [1, 2], "com": [0, 1, 2, 0]}, "ParallelTaskProfile", {}),
        ("parallel_homogeneous", {"cpu": 1e9, "com": 7}, "ParallelTaskHomogeneousProfile", {}),
        (
            "parallel_homogeneous_total",
            {"cpu": 1e9, "com": 0},
            "ParallelTaskHomogeneousProfile",
            {"generation_strategy": SPREAD},
        ),
        ("composed", {"seq": ["inner", "inner"], "repeat": 4}, "SequentialCompositionProfile", {}),
        (
            "parallel_homogeneous_pfs",
            {"bytes_to_read": 5, "bytes_to_write": 5, "storage": "nfs"},
            "ParallelTaskOnStorageHomogeneousProfile",
            {},
        ),
        (
            "data_staging",
            {"nb_bytes": 0, "from": "pfs", "to": "nfs"},
            "ParallelTaskDataStagingBetweenStoragesProfile",
            {},
        ),
    ],
)
def test_profiles_are_converted_to_batsim_5(
    kind: str, fields: dict[str, Any], kind5: str, fields5: dict[str, Any]
) -> None:
    assert profile5({"type": kind, **fields}, 2) == {"type": kind5, **fields, **fields5}


@pytest.mark.parametrize(("kind", "kind5"), [("smpi", "SMPI"), ("usage_trace", "FractionalComputation")])
def test_traces_are_converted_to_batsim_5(kind: str, kind5: str) -> None:
    expected = {"type": "TraceReplayProfile", "trace_type": kind5, "filename": "t/u.txt"}
    assert profile5({"type": kind, "trace": "t/u.txt"}, 2) == expected


def test_other_fields_of_profiles_are_extra_data() -> None:
    extra = {"command": "sleep 5", "np": 2}
    assert profile5({**DELAY["d"], **extra}, 2) == {"type": "DelayProfile", "delay": 5, "extra_data": extra}


def test_jobs_have_batsims_fields_and_one_text_for_the_others() -> None:
    assert job5(walltime=60) == job(walltime=60)
    made = job5(walltime=60, estimate=50.5, deadline=9, urgent=True, user="é\0", moldable={"limit": 2})
    text = made.pop("extra_data")
    assert made == job(walltime=60)
    assert text == (
        r'{"estimate": 50.5, "deadline": 9, "urgent": true, "user": "\u00e9\u0000", "moldable": {"limit": 2}}'
    )


def test_a_job_without_walltime_has_no_walltime_field() -> None:
    assert job5(walltime=-1) == job(extra_data='{"walltime": -1}')


def test_a_number_too_large_for_batsims_ids_becomes_a_text() -> None:
    assert [job5(id=given)["id"] for given in (7, -7, 2**31 - 1, 2**31)] == [7, -7, 2**31 - 1, str(2**31)]


def test_total_communication_is_converted_per_pair_of_hosts() -> None:
    """Batsim 4 sends com / n from each to each, Batsim 5 com / (n * (n - 1))."""
    total = {"type": "parallel_homogeneous_total", "cpu": 1e9, "com": 12}
    made = profile5(total, 4)
    assert made["com"] / (4 * 3) == 12 / 4
    assert made["extra_data"] == {"com": 12}
    assert profile5(total, 1, 4) == made  # a single host sends nothing
    assert profile5(total, 2) == {
        "type": "ParallelTaskHomogeneousProfile",
        "cpu": 1e9,
        "com": 12,
        "generation_strategy": SPREAD,
    }
    assert profile5(total)["com"] == profile5(total, 1)["com"] == 12


def test_storage_profiles_keep_different_amounts_read_and_written() -> None:
    """Its 5.0.0-rc2 writes as much as it reads unless amounts are spread over the processors."""
    pfs = {"type": "parallel_homogeneous_pfs", "bytes_to_read": 5, "host": "nfs"}
    assert profile5(pfs, 3) == {
        "type": "ParallelTaskOnStorageHomogeneousProfile",
        "bytes_to_read": 15,
        "host": "nfs",
        "generation_strategy": SPREAD,
        "extra_data": {"bytes_to_read": 5},
    }


def test_sizes_are_those_of_all_jobs_also_through_sequences() -> None:
    profiles = {
        "t": {"type": "parallel_homogeneous_total", "cpu": 0, "com": 1},
        "inner": {"type": "composed", "seq": ["t"]},
        "outer": {"type": "composed", "seq": ["inner"]},
    }
    made = batsim5.to_batsim5(workload(profiles, job(profile="outer", res=5)))
    assert made.profiles["t"]["com"] == 4
    with pytest.raises(InputError, match="found jobs of 3, 5 processors"):
        batsim5.to_batsim5(workload(profiles, job(profile="outer", res=5), job(id="b", profile="inner", res=3)))


BYTES = "expected a number of bytes, 0 or more"


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        ("send", {"msg": {}}, "type: expected a profile that Batsim 5 supports (it sends a message"),
        ("recv", {}, "type: expected a profile that Batsim 5 supports (it waits for a message"),
        (
            "parallel_homogeneous_total",
            {"cpu": 1, "com": 1},
            "com: expected jobs of one size for Batsim 5, which divides it by n*(n-1) transfers, not by n; write a",
        ),
        ("parallel_homogeneous_total", {"cpu": 1, "com": 1.7e308}, "com: expected jobs of one size for Batsim 5"),
        (
            "parallel_homogeneous_pfs",
            {"bytes_to_read": 1},
            "bytes_to_write: expected jobs of one size, or the same as bytes_to_read, because Batsim 5",
        ),
        (
            "data_staging",
            {"nb_bytes": 4, "from": "a", "to": "b"},
            "nb_bytes: expected 0 for Batsim 5 (5.0.0-rc2 crashes when it starts such a transfer), found 4",
        ),
        ("data_staging", {"nb_bytes": 0, "from": "a"}, "to: expected a text, found nothing"),
        ("data_staging", {}, f"nb_bytes: {BYTES}, found nothing"),
        ("data_staging", {"nb_bytes": "x"}, f'nb_bytes: {BYTES}, found "x"'),
        ("parallel_homogeneous_pfs", {}, "bytes_to_read or bytes_to_write: expected a number of bytes"),
        ("parallel_homogeneous_pfs", {"bytes_to_write": -1}, f"bytes_to_write: {BYTES}, found -1"),
        ("parallel_homogeneous_pfs", {"bytes_to_write": 0, "storage": 3}, "storage: expected a text, found 3"),
        ("smpi", {}, "trace: expected a text, found nothing"),
        ("usage_trace", {"trace": ["x"]}, 'trace: expected a text, found ["x"]'),
    ],
)
def test_profiles_that_batsim_5_lacks_are_named(kind: str, fields: dict[str, Any], expected: str) -> None:
    with pytest.raises(InputError) as caught:
        profile5({"type": kind, **fields}, 2, 3)
    assert str(caught.value).startswith(f'w.json: profile "p", field {expected}')


def test_an_amount_that_is_too_large_is_an_error() -> None:
    with pytest.raises(
        InputError, match=r"field com: expected an amount that is finite after multiplication by 2, found"
    ):
        profile5({"type": "parallel_homogeneous_total", "cpu": 1, "com": 1.7e308}, 3)


@pytest.mark.parametrize("kind", ["smpi", "usage_trace"])
def test_rank_mappings_are_accepted_only_in_round_robin_order(kind: str) -> None:
    profiles = {"d": {"type": kind, "trace": "t"}, "c": {"type": "composed", "seq": ["d"]}}
    for ranks in ([0, 1, 0, 1], []):
        kept = job(smpi_ranks_to_hosts_mapping=ranks)
        assert "extra_data" in batsim5.to_batsim5(workload(profiles, kept)).jobs[0]
    for name in profiles:
        with pytest.raises(InputError) as caught:
            batsim5.to_batsim5(workload(profiles, job(profile=name, smpi_ranks_to_hosts_mapping=[1, 0])))
        assert str(caught.value).startswith('w.json: job "a", field smpi_ranks_to_hosts_mapping: expected none')
    assert job5(smpi_ranks_to_hosts_mapping=[1, 0])["extra_data"] == '{"smpi_ranks_to_hosts_mapping": [1, 0]}'


def test_the_recorded_workloads_are_read_and_written(tmp_path: Path) -> None:
    recorded = sorted((GOLDEN / "v5").glob("*/workload.json"))
    if not recorded:
        pytest.skip("no recordings of Batsim 5")
    for file in recorded:
        result = json.loads(file.read_text())
        found = batsim4.read(file)
        delays = {name: one["delay"] for name, one in result["profiles"].items() if one["type"] == "DelayProfile"}
        assert delays == {name: one["delay"] for name, one in found.profiles.items() if one["type"] == "delay"}
        assert found.jobs == result["jobs"]
        made = batsim5.to_batsim5(found)
        if file.parent.name != "features-reject":  # with fields beside Batsim's own, which it does not forward
            assert made.jobs == result["jobs"]
            assert made.profiles == result["profiles"]
        batsim4.write(made, tmp_path / "again.json")
        again = batsim4.read(tmp_path / "again.json")
        assert (again.jobs, again.profiles, again.n_procs) == (found.jobs, found.profiles, found.n_procs)


def test_the_version_of_a_file_is_detected(tmp_path: Path) -> None:
    found = read(tmp_path, content5(job(), d={"type": "DelayProfile", "delay": 5}))
    assert found.batsim == 5
    batsim4.write(found, tmp_path / "w4.json")
    assert batsim4.read(tmp_path / "w4.json").batsim == 4
    assert (batsim5.to_batsim5(found).batsim, workload(DELAY).batsim) == (0, 0)


def test_a_recorded_workload_with_fields_gets_extra_data() -> None:
    file = GOLDEN / "v5" / "features-reject" / "workload.json"
    if not file.exists():
        pytest.skip("no recordings of Batsim 5")
    made = batsim5.to_batsim5(batsim4.read(file))
    assert made.jobs[0] == job(res=1, profile="d5", walltime=60, extra_data='{"user": "pat", "n": 3}')
    assert made.profiles == {"d5": {"type": "DelayProfile", "delay": 5, "extra_data": '{"app": "x"}'}}


def test_extra_data_is_expanded(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        content5(
            job(id="text", extra_data='{"user": "u", "deadline": 5}'),
            job(id="object", extra_data={"user": "v"}),
            job(id="none"),
            d={"type": "DelayProfile", "delay": 5, "extra_data": {"app": [1]}},
        ),
    )
    assert found.jobs == [job(id="text", user="u", deadline=5), job(id="object", user="v"), job(id="none")]
    assert found.profiles == {"d": {"type": "delay", "delay": 5, "app": [1]}}


@pytest.mark.parametrize(
    "extra",
    [
        *("hello", "", "[1]", [1, {"a": 2}], '{"res": 7}', {"walltime": 5}),
        *('{"a": NaN}', '{"a": 1e999}', r'{"a": "\ud83d"}'),
    ],
)
def test_extra_data_that_is_not_an_object_is_kept_unchanged(extra: Any, tmp_path: Path) -> None:
    content = content5(job(extra_data=extra), d={"type": "DelayProfile", "delay": 5})
    found = read(tmp_path, content)
    assert found.jobs == [job(extra_data=extra)]
    assert batsim5.to_batsim5(found).jobs == content["jobs"]


def test_extra_data_does_not_repeat_fields_of_batsim(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        content5(
            job(walltime=9, extra_data='{"walltime": -1}'),
            d={"type": "DelayProfile", "delay": 5, "extra_data": '{"ret": 1}'},
        ),
    )
    assert found.jobs == [job(walltime=9, extra_data='{"walltime": -1}')]
    assert found.profiles == {"d": {"type": "delay", "delay": 5, "extra_data": '{"ret": 1}'}}


def test_a_parallel_task_may_leave_out_one_kind_of_amounts(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        content5(
            job(profile="a"),
            a={"type": "ParallelTaskProfile", "cpu": [1, 2]},
            b={"type": "ParallelTaskProfile", "com": [0, 1, 2, 0]},
        ),
    )
    assert found.profiles == {
        "a": {"type": "parallel", "cpu": [1, 2], "com": [0, 0, 0, 0]},
        "b": {"type": "parallel", "cpu": [0, 0], "com": [0, 1, 2, 0]},
    }


def test_amounts_of_another_writer_are_divided(tmp_path: Path) -> None:
    spread = {"generation_strategy": SPREAD}
    found = read(
        tmp_path,
        content5(
            job(profile="t", res=4),
            job(id="b", profile="s", res=4),
            t={"type": "ParallelTaskHomogeneousProfile", "cpu": 8, "com": 12, "extra_data": '{"com": 5}', **spread},
            s={"type": "ParallelTaskOnStorageHomogeneousProfile", "bytes_to_read": 10, **spread},
        ),
    )
    assert found.profiles == {
        "t": {"type": "parallel_homogeneous_total", "cpu": 8, "com": 4, "extra_data": '{"com": 5}'},
        "s": {"type": "parallel_homogeneous_pfs", "bytes_to_read": 2.5},
    }


def test_amounts_spread_over_jobs_of_several_sizes_stay_batsim_5s(tmp_path: Path) -> None:
    """Batsim 4 has no profile that does this; only commands that write a file for Batsim 4 fail."""
    spread = {"type": "ParallelTaskHomogeneousProfile", "cpu": 8, "com": 12, "generation_strategy": SPREAD}
    content = content5(job(profile="t", res=4), job(id="b", profile="t", res=3), t=spread)
    found = read(tmp_path, content)
    assert found.profiles["t"]["type"] == "parallel_homogeneous_total"
    assert batsim5.to_batsim5(found).profiles == content["profiles"]
    with pytest.raises(InputError) as caught:
        batsim4.text_of(found)
    assert str(caught.value).endswith(
        'profile "t", field generation_strategy: expected jobs of one size, because Batsim 4 divides amounts '
        "differently; found jobs of 3, 4 processors"
    )
    found.jobs = found.jobs[:-1]
    assert json.loads(batsim4.text_of(found))["profiles"]["t"]["com"] == 4


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ({"type": "delay", "delay": 3}, "field type: expected a type of Batsim 5, as in other profiles of this file"),
        ({"type": "ForkJoinCompositionProfile"},
         "field type: expected a type of Batsim 5, as in other profiles of this file"),
        ({"type": 3}, "field type: expected one of delay"),
        ({}, "field type: expected one of delay"),
        ([], ": expected an object"),
        ({"type": "TraceReplayProfile"}, "field trace_type: expected one of FractionalComputation, SMPI"),
        ({"type": "TraceReplayProfile", "trace_type": "SMPI", "trace": "t"},
         "field filename: expected the name of a trace file"),
        ({"type": "ParallelTaskHomogeneousProfile", "generation_strategy": 1},
         f"field generation_strategy: expected DefinedAmountsUsedForEachValue or {SPREAD}, found 1"),
        ({"type": "ParallelTaskHomogeneousProfile", "cpu": 1}, "field com: expected a number, 0 or more"),
        ({"type": "ParallelTaskProfile"}, "field cpu: expected an array"),
        ({"type": "ParallelTaskProfile", "cpu": [0] * 4000}, "field com: expected amounts, for more than 3,162"),
        ({"type": "DelayProfile", "delay": 5, "extra_data": 5}, "field extra_data: expected a text, an object or an"),
        ({"type": "SequentialCompositionProfile", "seq": ["p"]}, "field seq: expected no cycle"),
    ],
)  # fmt: skip
def test_bad_profiles_are_named(profile: Any, expected: str, tmp_path: Path) -> None:
    content = content5(job(), d={"type": "DelayProfile", "delay": 5}, p=profile)
    with pytest.raises(InputError) as caught:
        read(tmp_path, content)
    assert f'profile "p", {expected}'.replace(", :", ":") in str(caught.value)


@pytest.mark.parametrize("bad", [[], {"id": "a"}, job(extra_data=5), job(profile="x", extra_data="{}")])
def test_bad_jobs_are_errors(bad: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"w5.json: (jobs\[0\]|job \"a\")"):
        read(tmp_path, content5(bad, d={"type": "DelayProfile", "delay": 5}))
