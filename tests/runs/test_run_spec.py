"""The records that describe a run: what is checked, and what takes precedence."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from support import logs
from support.places import ROOT

import pybatsched as pb
from pybatsched.campaign.all_cells import points_of
from pybatsched.campaign.spec import spec_of
from pybatsched.campaign.store import Store
from pybatsched.errors import InputError
from pybatsched.runs.build import size_of
from pybatsched.runs.policies import PolicySpec
from pybatsched.runs.spec import MachineSpec, RunSpec, WorkloadSpec

WORKLOAD = str(ROOT / "examples" / "workload.json")
PREDICTOR = (
    "from pybatsched import Predictor\n\n\nclass P(Predictor):\n    def predict(self, job, now):\n        return {}\n"
)


@pytest.mark.parametrize(
    ("record", "values", "text"),
    [
        (MachineSpec, {"procs": 4, "n_procs": 5}, "n_procs: expected one value, found both procs and n_procs"),
        (
            MachineSpec,
            {"n_procs": 4, "platform": "curie"},
            "platform and n_procs: expected only one of them, found both",
        ),
        (WorkloadSpec, {"load": 0.5, "scale_load": 2}, "load and scale_load: expected only one of them, found both"),
        (WorkloadSpec, {"begin": "2h", "end": "1h"}, "end 3600: expected a time after begin 7200"),
        (RunSpec, {"stop": 4}, "unknown setting 'stop'; did you mean 'stop_at'?"),
    ],
)
def test_settings_that_exclude_each_other(record: Any, values: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError) as caught:
        record.by_name(values)
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize("value", [3, 3.0, "3", "3.0", "0.3e1"])
def test_numbers_may_be_written_in_several_ways(value: Any) -> None:
    made = MachineSpec(n_procs=value, mmax=value), WorkloadSpec(max_jobs=value, scale_load=value), RunSpec(seed=value)
    assert made == (MachineSpec(n_procs=3, mmax=3), WorkloadSpec(max_jobs=3, scale_load=3), RunSpec(seed=3))
    assert {type(one) for one in (made[0].n_procs, made[0].mmax, made[1].max_jobs, made[2].seed)} == {int}


@pytest.mark.parametrize("value", [3.5, "3.5", "", "many", True, "nan", "1e999", float("inf")])
def test_whole_numbers_are_whole(value: Any) -> None:
    with pytest.raises(InputError, match="max_jobs: expected a whole number, 1 or more"):
        WorkloadSpec(max_jobs=value)


def test_records_are_immutable_and_equal_by_value() -> None:
    spec = WorkloadSpec("a.swf", load=0.5)
    assert (spec, hash(spec)) == (WorkloadSpec(file="a.swf", load=0.5), hash(WorkloadSpec("a.swf", load=0.5)))
    assert spec != dataclasses.replace(spec, load=0.6)
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.load = 1.0  # type: ignore[misc]
    with pytest.raises(TypeError, match="once at most"):
        WorkloadSpec("a.swf", file="b.swf")  # type: ignore[misc]


def test_reservations_come_from_one_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="found both"):
        PolicySpec("easy", {"host_reservations": "a.toml"}, host_reservations="b.toml")
    chosen = pb.policy("easy", host_reservations=[])
    assert PolicySpec("easy", {"host_reservations": "a.toml"}).host_reservations == "a.toml"
    assert (chosen.host_reservations, chosen.options) == (None, {"host_reservations": []})


def test_the_seed_of_a_run_is_used_over_that_of_the_configuration_file(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[policy.ujfb]\nseed = 7\n")
    spec = PolicySpec("ujfb", config=str(tmp_path / "c.toml"))
    assert [spec.plan(seed).options_for(None).seed for seed in (None, 3)] == [7, 3]
    assert PolicySpec("ujfb", {"seed": 5}).plan(3).options_for(None).seed == 5


def test_the_machine_of_a_run_is_not_that_of_its_log(tmp_path: Path) -> None:
    logs.log(tmp_path, logs.line(1, run=600, allocated=5), logs.line(2, 60, run=600, allocated=5))
    log = pb.read_workload(tmp_path / "log.swf", n_procs=200)
    with pytest.warns(UserWarning, match="made for 200 processors, the platform has 10"):
        run = pb.simulate(log, "easy", n_procs=10, progress=False)
    assert (log.n_procs, run.about["n_procs"], run.about["n_procs_of_workload"]) == (200, 10, 200)
    assert run.figures["utilisation"] == pytest.approx(600 * 10 / (660 * 10))


def addresses(folder: Path, **policy: Any) -> list[tuple[str, Any]]:
    """The addresses and options of the cells of a campaign with one policy."""
    content = {
        "name": "c",
        "workload": [{"name": "w", "file": WORKLOAD}],
        "platform": [{"name": "own", "of_workload": True}],
        "policy": [policy],
    }
    with Store(folder / "out") as store:
        return [
            (cell.address, cell.policy["options"])
            for _, cell in points_of(spec_of(content, "c.toml"), store, [folder], folder)
        ]


def test_a_cell_has_the_seed_of_the_campaign_if_it_uses_one(tmp_path: Path) -> None:
    failures: dict[str, dict[str, Any]] = {"none": {}, "some": {"mtbf": "1h"}, "own": {"mtbf": "1h", "seed": 7}}
    content = {
        "name": "c",
        "seeds": [3, 4],
        "workload": [{"name": "w", "file": WORKLOAD}],
        "platform": [
            {"name": name, "of_workload": True} | ({"failures": one} if one else {}) for name, one in failures.items()
        ],
        "policy": [
            {"name": "easy"},
            {"name": "ujfb"},
            {"name": "ujfb", "label": "own", "options": {"seed": 5}},
        ],
    }
    with Store(tmp_path / "out") as store:
        found = points_of(spec_of(content, "c.toml"), store, [tmp_path], tmp_path)
    seeds = {(point["platform"], point["policy"], point["seed"]): cell.run.get("seed") for point, cell in found}
    used = {(platform, policy): seeds[platform, policy, 3] for platform, policy, seed in seeds if seed == 3}
    assert used == {
        (p, q): 3 if p == "some" or q == "ujfb" else None for p in failures for q in ("easy", "ujfb", "own")
    }
    assert len({cell.address for _, cell in found}) == sum(2 if seed else 1 for seed in used.values())


def test_a_cell_depends_on_the_code_of_its_predictor_and_on_its_configuration(tmp_path: Path) -> None:
    code, config = tmp_path / "own.py", tmp_path / "conf.toml"
    code.write_text(PREDICTOR)
    config.write_text("[policy.ujfb]\nseed = 7\n")
    before = addresses(tmp_path, name="easy", options={"predict": "own.py:P"})
    code.write_text(PREDICTOR + "\n# another version\n")
    assert addresses(tmp_path, name="easy", options={"predict": "own.py:P"}) != before
    config.write_text('[policy.easy]\npredict = "own.py:P"\n')
    ((before_change, options),) = addresses(tmp_path, name="easy", config="conf.toml")
    assert options == {"predict": f"{code}:P"}  # found beside the campaign file
    code.write_text(PREDICTOR)
    assert addresses(tmp_path, name="easy", config="conf.toml")[0][0] != before_change
    config.write_text("[policy.ujfb]\nseed = 7\n")
    ((first, options),) = addresses(tmp_path, name="ujfb", config="conf.toml")
    assert options == {"seed": 7}  # the campaign has no seeds
    config.write_text("[policy.ujfb]\nseed = 8\n")
    assert addresses(tmp_path, name="ujfb", config="conf.toml")[0][0] != first
    config.write_text("[policy.ujfb]\nsed = 8\n")
    with pytest.raises(InputError, match="policy 1: policy ujfb: unknown option 'sed'"):
        addresses(tmp_path, name="ujfb", config="conf.toml")


def test_a_platform_file_that_changes_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "p.xml"
    for n_hosts in (2, 3):
        hosts = "".join(f'<host id="{name}" speed="1Gf"/>' for name in ("master_host", *range(n_hosts)))
        file.write_text(f'<platform version="4.1"><zone id="z" routing="None">{hosts}</zone></platform>')
        assert size_of(MachineSpec(platform=str(file)), 0) == n_hosts
