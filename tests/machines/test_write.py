"""Variants of a machine: enlarged, scaled, with power, for older versions, with a real network."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from pybatsched.errors import InputError
from pybatsched.machines import names
from pybatsched.machines.catalogue import CURIE, GRID5000, INTREPID, MACHINES, RACKHAM, RICC, SX_AURORA
from pybatsched.machines.model import Machine
from pybatsched.machines.write import Variant, equal_width, n_extra, platform_xml
from pybatsched.platform import xml
from pybatsched.platform.check import check
from pybatsched.platform.model import Host, Platform, check_energy


def made(machine: Machine, variant: Variant) -> Platform:
    text = platform_xml(machine, variant).encode()
    assert not [finding for finding in check(text, "p.xml") if finding.is_refused]
    return xml.parse(text, "p.xml")


@given(st.integers(1, 10**7))
def test_host_numbers_have_equal_width(n: int) -> None:
    numbers = equal_width(n)
    assert len(numbers) == n
    assert len(str(numbers[0])) == len(str(numbers[-1]))
    assert numbers[0] > 0


def test_host_numbers_of_curie() -> None:
    assert equal_width(93_312) == range(100_000, 193_312)


@given(st.integers(1, 10**6), st.floats(0, 0.9))
def test_extra_hosts_are_the_least_that_make_the_share(n: int, alpha: float) -> None:
    """Redirection gives its principal group floor((1 - alpha) m) processors: just those that the log was made for."""
    extra = n_extra(n, alpha)
    assert math.floor((1 - alpha) * (n + extra) + 1e-9) == n
    if extra:
        assert math.floor((1 - alpha) * (n + extra - 1) + 1e-9) < n


@pytest.mark.parametrize(("alpha", "extra"), [(0.10, 72), (0.15, 113), (0.20, 160), (0.25, 214)])
def test_alpha_adds_hosts_behind_all_others(alpha: float, extra: int) -> None:
    platform = made(INTREPID, Variant("pset", alpha=alpha))
    assert platform.n_procs == 640 + extra
    clusters = [host.properties["cluster"] for host in platform.compute]
    assert clusters == ["intrepid"] * 640 + ["extra"] * extra
    assert {host.n_cores for host in platform.compute} == {256}


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.name)
def test_alpha_and_scale_on_every_machine_and_unit(machine: Machine) -> None:
    for unit in machine.units:
        if unit.torus:
            continue
        platform = made(machine, Variant(unit.name, alpha=0.15, scale=0.1))
        extra = sum(host.properties["cluster"] == "extra" for host in platform.compute)
        assert extra == n_extra(platform.n_procs - extra, 0.15)
        assert all(host.properties["cluster"] == "extra" for host in platform.compute[-extra:])


def test_scale_keeps_every_class() -> None:
    def sizes(variant: Variant) -> list[int]:
        hosts = made(CURIE, variant).compute
        return [sum(host.properties["cluster"] == name for host in hosts) for name in ("thin", "fat", "hybrid")]

    assert sizes(Variant("node", scale=0.01)) == [50, 1, 1]
    assert sizes(Variant("node", scale=2)) == [10_080, 180, 288]


def test_a_torus_is_scaled_by_planes() -> None:
    assert made(INTREPID, Variant("node", scale=0.05)).n_procs == 2 * 1024
    assert 'topo_parameters="2,32,32"' in platform_xml(INTREPID, Variant("node", scale=0.05))
    with pytest.raises(InputError, match=r"whole planes of 1024, such as 0\.1"):
        platform_xml(INTREPID, Variant("node", scale=0.11))
    platform = made(INTREPID, Variant("node", alpha=0.15))
    assert platform.n_procs == math.ceil(40_960 / 0.85)


def props(host: Host) -> dict[str, str]:
    return {key: value for key, value in host.properties.items() if key.startswith("watt")}


OLD = {"watt_per_state": "117:132.0625:358", "watt_off": "14"}
NEW = {"wattage_per_state": "117:117:358", "wattage_off": "14"}


@pytest.mark.parametrize(
    ("version", "spelled"), [("", NEW | OLD), ("3.1", OLD), ("4.0", OLD), ("4.1", NEW), ("4.2", NEW)]
)
def test_energy_in_both_spellings(version: str, spelled: dict[str, str]) -> None:
    platform = made(CURIE, Variant("node", energy=True, batsim=version))
    assert props(platform.compute[0]) == spelled
    # Batsim asks for those of storage hosts too, and warns of a master without.
    assert props(platform.master).keys() == spelled.keys()
    check_energy(platform)
    storage = made(RACKHAM, Variant("node", energy=True, batsim=version)).storage[0]
    assert props(storage).keys() == spelled.keys()


def test_a_core_draws_its_share_of_a_node_and_a_pset_that_of_its_nodes() -> None:
    core = made(CURIE, Variant("core", energy=True)).compute[0]
    assert (core.wattages()[0].idle, core.wattages()[0].full) == (117 / 16, 358 / 16)
    pset = made(INTREPID, Variant("pset", energy=True)).compute[0]
    assert (pset.wattages()[0].idle, pset.wattages()[0].full) == (640, 1920)


def test_a_real_network_costs_time_and_says_so() -> None:
    platform = made(SX_AURORA, Variant(real_network=True))
    assert platform.hop_s == pytest.approx(1e-6 + 1 / 12e9)
    rackham = platform_xml(RACKHAM, Variant(real_network=True))
    assert rackham.count('bandwidth="6800000000Bps" latency="1e-06s"') == 486  # a link a node, not a core
    assert xml.parse(rackham.encode(), "p.xml").hop_s == pytest.approx(1e-6 + 1 / 6.8e9)
    text = platform_xml(GRID5000, Variant(real_network=True))
    assert '<link id="wan" bandwidth="1250000000Bps" latency="0.005s"/>' in text
    assert xml.parse(text.encode(), "p.xml").hop_s < 1e-3  # the way to the master does not lead over it


@pytest.mark.parametrize(
    ("machine", "variant", "message"),
    [
        (CURIE, Variant("pset"), "curie: unknown unit 'pset'; expected one of core, node"),
        (CURIE, Variant(alpha=1.0), "alpha is 1; expected a share from 0 to below 1"),
        (CURIE, Variant(alpha=-0.1), "alpha is -0.1; expected"),
        (CURIE, Variant(alpha=math.nan), "alpha is nan; expected"),
        (CURIE, Variant(scale=0), "scale is 0; expected a number above 0"),
        (CURIE, Variant(scale=math.inf), "scale is inf; expected"),
        (CURIE, Variant(scale=1e6), "gives too many hosts"),
        (CURIE, Variant(scale=1e300), "gives too many hosts"),
        (RICC, Variant(energy=True), "ricc: the power of its nodes is unknown"),
        (CURIE, Variant("core", real_network=True), "known per node, not per core; expected the unit node"),
        (INTREPID, Variant("pset", real_network=True), "known per node, not per pset; expected the unit node"),
        (CURIE, Variant(batsim="6.0"), "unknown Batsim version 6.0; expected one of 3.1, 4.0, 4.1, 4.2, 5.0"),
    ],
)
def test_invalid_variants_are_rejected(machine: Machine, variant: Variant, message: str) -> None:
    with pytest.raises(InputError, match=message):
        platform_xml(machine, variant)


def test_texts_are_escaped_in_xml() -> None:
    """Titles and sources go into comments, where two dashes end one; names go into attributes."""
    part = replace(CURIE.classes[0], sources=("a -- b --> c",), properties={"x": '"<&>'})
    odd = replace(CURIE, title="--><evil/>", classes=(part,))
    platform = made(odd, Variant("node"))
    assert platform.compute[0].properties["x"] == '"<&>'


def test_names_of_machines_and_variants() -> None:
    assert names.variant_of("curie") == (CURIE, Variant())
    assert names.variant_of("curie-node-energy") == (CURIE, Variant("node", energy=True))
    assert names.variant_of("grid5000-pwa") is not None
    assert names.variant_of("grid5000-core") == (GRID5000, Variant("core"))
    for wrong in ("", "Curie", "curie-", "curie-pset", "energy", "-energy", "curie-energy-node", "../curie"):
        assert names.variant_of(wrong) is None


def test_a_name_with_a_scale() -> None:
    assert names.variant_of("curie-node-energy@0.5") == (CURIE, Variant("node", scale=0.5, energy=True))
    small = names.find("rackham@0.1").read()
    assert small.n_procs == 20 * (45 + 3 + 1)  # a tenth of 450, 32 and 4 nodes, one of each at least
    for wrong in ("rackham@", "rackham@x", "rackham@0", "rackham@-1", "rackham@inf", "rackham@nan", "rackham@1@2"):
        with pytest.raises(InputError, match="expected a number above 0 after the @"):
            names.variant_of(wrong)
    assert names.variant_of("atlantis@2") is None


def test_a_file_is_preferred_to_a_machine_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert names.find("curie").path is None
    (tmp_path / "curie").write_text(platform_xml(RICC, Variant()))
    assert names.find("curie").read().n_procs == 8192
