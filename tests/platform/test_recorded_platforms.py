"""Platforms of all recordings: hosts equal those that the real Batsim reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.places import GOLDEN, ROOT
from support.platforms import read_platform
from support.recordings import Recording, recordings

from pybatsched.platform import model
from pybatsched.platform.roles import read_roles

SCHEDULES = sorted((GOLDEN / "schedules").glob("*/platform.xml"))


def options(args: list[str], name: str) -> list[str]:
    return [args[index + 1] for index, arg in enumerate(args) if arg == name]


def described(hosts: tuple[model.Host, ...], first_id: int) -> list[dict[str, object]]:
    """Describe hosts as in SIMULATION_BEGINS."""
    return [
        {
            "id": first_id + index,
            "name": host.name,
            "state": "idle",
            "properties": dict(host.properties),
            "zone_properties": dict(host.zone_properties),
        }
        for index, host in enumerate(hosts)
    ]


@pytest.mark.parametrize("recording", recordings(), ids=lambda r: r.name)
def test_hosts_equal_those_of_simulation_begins(recording: Recording) -> None:
    args = recording.args
    platform = read_platform(
        recording.directory / options(args, "-p")[0],
        master=(options(args, "-m") or [model.DEFAULT_MASTER])[0],
        roles=read_roles(options(args, "-r")),
    )
    if "--mmax-workload" in args:
        files = [json.loads((recording.directory / name).read_text()) for name in options(args, "-w")]
        platform = model.limit(platform, max(content["nb_res"] for content in files))
    data = json.loads(recording.requests[0])["events"][0]["data"]
    assert described(platform.compute, 0) == data["compute_resources"]
    assert described(platform.storage, platform.n_procs) == data["storage_resources"]
    assert (platform.n_procs, len(platform.hosts)) == (data["nb_compute_resources"], data["nb_resources"])
    # All others were recorded on networks that cost Batsim's messages no time (platform-facts.md).
    assert platform.network_note == "" or recording.name.startswith("wired-")
    assert platform.remarks == ()
    if "-E" in args:
        model.check_energy(platform)


@pytest.mark.parametrize("path", [*SCHEDULES, *sorted((ROOT / "platforms").glob("*.xml"))], ids=lambda p: p.parent.name)
def test_our_own_and_other_platforms_are_read(path: Path) -> None:
    platform = read_platform(path)
    assert platform.n_procs > 1
    assert platform.network_note == ""


def test_there_are_recorded_platforms() -> None:
    names = {recording.name for recording in recordings()}
    assert {"plain", "energy", "machine-events"} <= names
