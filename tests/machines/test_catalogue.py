"""Each machine: its numbers of hosts and cores, classes and ids, and a simulation on it."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest
from support.places import ROOT
from support.process import run_cli

from pybatsched.machines import names
from pybatsched.machines.catalogue import MACHINES
from pybatsched.machines.model import Machine
from pybatsched.machines.write import platform_xml
from pybatsched.platform.check import check
from pybatsched.platform.model import Platform

PLATFORMS = ROOT / "platforms"
ALL = list(names.all_names())


@cache
def platform_of(name: str) -> Platform:
    return names.find(name).read()


@pytest.mark.parametrize(
    ("name", "n_hosts", "n_cores"),
    [
        ("curie", 93_312, 93_312),
        ("curie-core", 93_312, 93_312),
        ("curie-node", 5_274, 93_312),
        ("intrepid", 163_840, 163_840),
        ("intrepid-pset", 640, 163_840),
        ("intrepid-node", 40_960, 163_840),
        ("ricc", 8_192, 8_192),
        ("ricc-node", 1_024, 8_192),
        ("rackham", 9_720, 9_720),
        ("rackham-node", 486, 9_720),
        ("rackham-128gb", 9_720, 9_720),
        ("sx-aurora", 576, 576 * 8),
        ("sx-ace", 1_280, 5_120),
        ("grid5000", 1_344, 1_344),
        ("grid5000-pwa", 1_198, 1_198),
        ("grid-pwa", 798, 798),
    ],
)
def test_hosts_and_cores(name: str, n_hosts: int, n_cores: int) -> None:
    platform = platform_of(name)
    assert platform.n_procs == n_hosts
    assert sum(host.n_cores for host in platform.compute) == n_cores
    assert sum(int(host.properties["cores"]) for host in platform.compute) == n_cores


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("curie-core", [("thin", "4", 21.6, 80_640), ("fat", "4", 9.08, 11_520), ("hybrid", "3", 10.68, 1_152)]),
        ("curie-node", [("thin", "64", 21.6, 5_040), ("fat", "512", 9.08, 90), ("hybrid", "24", 10.68, 144)]),
        ("intrepid-core", [("intrepid", "0.5", 3.4, 163_840)]),
        ("intrepid-pset", [("intrepid", "128", 3.4, 640)]),
        ("rackham-core", [("rackham", m, 35.2, n) for m, n in (("128", 9_000), ("256", 640), ("1024", 80))]),
        ("rackham-128gb-core", [("rackham", "128", 35.2, 9_720)]),
        ("sx-aurora-ve", [("sx-aurora", "48", 307.2, 576)]),
        ("sx-ace-node", [("sx-ace", "64", 64.0, 1_280)]),
        ("grid5000", [("bordeaux", "-", 1.0, 640), ("lyon", "-", 1.2, 270), ("toulouse", "-", 1.4, 434)]),
        ("grid-pwa", [("hpc2n", "-", 1.0, 240), ("ctc", "-", 1.2, 430), ("sdsc", "-", 1.4, 128)]),
        ("grid5000-pwa", [("bordeaux", "-", 1.0, 640), ("ctc", "-", 1.2, 430), ("sdsc", "-", 1.4, 128)]),
    ],
)
def test_classes_are_in_a_row_in_the_order_of_ids(name: str, rows: list[tuple[str, str, float, int]]) -> None:
    def kind(host_id: int) -> tuple[str, str, float]:
        host = hosts[host_id]
        return host.properties["cluster"], host.properties.get("memory_gb", "-"), round(host.speed / 1e9, 9)

    hosts = platform_of(name).compute
    found = [(*key, len(list(group))) for key, group in groupby(range(len(hosts)), key=kind)]
    assert rows == found


@pytest.mark.parametrize(
    ("name", "key", "size"),
    [("ricc", "node", 8), ("rackham", "node", 20), ("rackham-node", "node", 1), ("sx-aurora", "vh", 8)],
)
def test_hosts_of_one_node_have_the_same_node_number(name: str, key: str, size: int) -> None:
    platform = platform_of(name)
    assert [int(host.properties[key]) for host in platform.compute] == [i // size for i in range(platform.n_procs)]


@pytest.mark.parametrize("name", ["curie-core", "intrepid-core", "intrepid-node", "ricc", "rackham", "sx-aurora"])
def test_ids_follow_the_numbers_in_the_names(name: str) -> None:
    """Batsim sorts names as text; they must be unique and in the order of the file."""
    hosts = platform_of(name).compute
    assert len({host.name for host in hosts}) == len(hosts)
    numbers = [[int(digits) for digits in re.findall(r"\d+", host.name)] for host in hosts]
    for _, group in groupby(range(len(hosts)), key=lambda i: hosts[i].properties["cluster"]):
        row = [numbers[i] for i in group]
        assert row == sorted(row)


@pytest.mark.parametrize("name", ALL)
def test_each_machine_is_valid_for_batsim_and_its_messages_take_no_time(name: str) -> None:
    source = names.find(name)
    assert not [finding.text for finding in check(source.data(), name, energy="energy" in name) if finding.is_refused]
    platform = source.read()
    assert platform.hop_s == 0
    assert platform.remarks == ()
    assert Counter(host.role for host in platform.hosts) == Counter(
        {"": platform.n_procs, "storage": len(platform.storage)}
    )


def test_rackham_has_its_file_system_as_a_storage_host() -> None:
    platform = platform_of("rackham")
    assert [(host.name, host.speed) for host in platform.storage] == [("crex", 0.0)]
    assert {host.properties["fs_bw_gbps"] for host in platform.compute} == {"0.1"}
    text = names.find("rackham").text
    assert text.count('bandwidth="100000000Bps"') == 486  # a link of 0.1 GB/s for each node


def test_sx_aurora_has_its_swap_bandwidth() -> None:
    assert {host.properties["swap_bw_gbps"] for host in platform_of("sx-aurora").compute} == {"6.0"}


def test_intrepid_is_a_torus_with_a_host_as_its_gateway() -> None:
    text = names.find("intrepid-node").text
    assert 'topology="TORUS" topo_parameters="40,32,32"' in text
    assert 'gw_src="intrepid-10000"' in text


@pytest.mark.parametrize("name", list(names.shipped()))
def test_the_files_in_platforms_equal_the_generated_ones(name: str) -> None:
    assert (PLATFORMS / f"{name}.xml").read_text() == names.find(name).text, "run: make platforms"


def test_platforms_has_no_other_files() -> None:
    assert {path.stem for path in PLATFORMS.iterdir()} == {*names.shipped(), "cluster32"}


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_every_number_has_a_source(machine: Machine) -> None:
    real = replace(names.machine_of(f"{machine.name}-{machine.units[-1].name}")[1], energy=machine.has_power)
    text = platform_xml(machine, replace(real, real_network=True))
    sources = [
        source for part in machine.classes for source in (*part.sources, *(part.power.sources if part.power else ()))
    ]
    sources += machine.network.sources
    sources += machine.storage.sources if machine.storage else ()
    assert all(part.sources for part in machine.classes)
    assert all(source in text for source in sources)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_a_simulated_run_on_each(machine: Machine, tmp_path: Path) -> None:
    workload = ROOT / "examples" / "workload.json"
    done = run_cli("simulate", "-p", machine.name, "-w", str(workload), "--policy", "easy", "-e", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    assert "jobs completed" in done.stdout
    assert (tmp_path / "out_jobs.csv").read_text().count("COMPLETED_SUCCESSFULLY") == 30
