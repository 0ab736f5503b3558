"""Platform files with a real Batsim 5: it accepts what we accept, rejects what we reject, and loads every machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.batsim5 import run_batsim5
from support.places import ROOT
from support.platforms import DEFECTS, HARMLESS, MASTER, ONLY_BATSIM_4

pytestmark = pytest.mark.batsim5

PLATFORMS = ROOT / "platforms"
#: The largest machines take Batsim minutes to load, so they are not tried.
TOO_LARGE = {"curie-core", "intrepid-core"}


def survives(directory: Path, text: str, *args: str) -> bool:
    """Let Batsim 5 run five jobs on a platform, without our looking at the file."""
    profiles = {
        "d": {"type": "DelayProfile", "delay": 8},
        "p": {"type": "ParallelTaskHomogeneousProfile", "cpu": 4e9, "com": 0},
    }
    jobs = [
        {"id": str(i), "subtime": i * 0.5, "res": n, "walltime": 100, "profile": "p" if i % 2 else "d"}
        for i, n in enumerate([1, 1, 2, 4, 4])
    ]
    (directory / "w.json").write_text(json.dumps({"nb_res": 4, "jobs": jobs, "profiles": profiles}))
    (directory / "p.xml").write_text(text)
    done = run_batsim5(directory, "-p", "p.xml", "-w", "w.json", "-m", MASTER, *args)
    return done.exit_code == 0 and len(done.jobs) == 5


@pytest.mark.parametrize("name", HARMLESS)
def test_batsim_5_accepts_the_platforms_that_we_accept(name: str, tmp_path: Path) -> None:
    assert survives(tmp_path, HARMLESS[name])


@pytest.mark.parametrize("name", [*DEFECTS, *ONLY_BATSIM_4])
def test_batsim_5_fails_on_the_platforms_that_we_reject(name: str, tmp_path: Path) -> None:
    assert not survives(tmp_path, {**DEFECTS, **ONLY_BATSIM_4}[name].text)


@pytest.mark.parametrize("name", sorted({file.stem for file in PLATFORMS.glob("*.xml")} - TOO_LARGE))
def test_every_machine_is_loaded(name: str, tmp_path: Path) -> None:
    energy = ("--energy-host",) if name.endswith("-energy") else ()
    assert survives(tmp_path, (PLATFORMS / f"{name}.xml").read_text(), *energy)


def test_properties_of_a_cluster_are_those_of_its_hosts_alone(tmp_path: Path) -> None:
    text = HARMLESS["two clusters"].replace('lat="0"/>', 'lat="0"><prop id="memory" value="64"/></cluster>', 1)
    (tmp_path / "p.xml").write_text(text)
    (tmp_path / "w.json").write_text(
        '{"nb_res": 1, "jobs": [{"id": "a", "subtime": 0, "res": 1, "profile": "d"}],'
        ' "profiles": {"d": {"type": "DelayProfile", "delay": 1}}}'
    )
    done = run_batsim5(tmp_path, "-p", "p.xml", "-w", "w.json")
    hosts = {host["name"]: host for host in done.of("SimulationBeginsEvent")[0]["computation_hosts"]}
    assert hosts["node100"]["properties"] == [{"key": "memory", "value": "64"}]
    assert hosts["node100"]["zone_properties"] == []
