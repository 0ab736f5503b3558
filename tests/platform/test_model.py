"""Platforms without a file, limits, and energy properties."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest

from pybatsched.errors import InputError
from pybatsched.machines import names
from pybatsched.platform import xml
from pybatsched.platform.energy import SleepPstate, Wattage
from pybatsched.platform.groups import host_size
from pybatsched.platform.model import MAX_HOSTS, Host, Platform, check_energy, limit, uniform


def host(speeds: tuple[float, ...] = (1e9,), **properties: str) -> Host:
    return Host("n7", speeds, properties={"role": "", **properties}, line=12)


@pytest.mark.parametrize("n_procs", [1, 9, 10, 11, 1000, 1001])
def test_ids_of_equal_processors_are_their_numbers(n_procs: int) -> None:
    platform = uniform(n_procs, 2e9)
    names = [host.name for host in platform.compute]
    assert platform.n_procs == len(names) == n_procs
    assert names == sorted(names)
    assert [int(name.removeprefix("node")) for name in names] == list(range(n_procs))
    assert {host.speed for host in platform.hosts} == {2e9}
    assert {host.role for host in platform.hosts} == {""}
    assert platform.master.role == "master"
    assert (platform.network_note, platform.storage) == ("", ())


@pytest.mark.parametrize(
    ("make", "wrong", "message"),
    [
        (uniform, (0, -1, MAX_HOSTS + 1, 10**18), "expected 1 to"),
        (lambda speed: uniform(4, speed), (0.0, -1.0, math.inf, math.nan), "expected a processor speed above 0 flop/s"),
        (lambda n: limit(uniform(8), n), (-1, 9), "8 equal processors: cannot keep {} compute hosts; expected 1 to 8"),
    ],
)
def test_impossible_machines_are_rejected(make: Any, wrong: tuple[float, ...], message: str) -> None:
    for value in wrong:
        with pytest.raises(InputError, match=message.format(value)):
            make(value)


def test_hosts_are_immutable() -> None:
    one = uniform(2).compute[0]
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.name = "x"  # type: ignore[misc]
    with pytest.raises(TypeError):
        one.properties["role"] = "storage"  # type: ignore[index]
    assert not hasattr(one, "__dict__")


def test_the_first_hosts_are_kept() -> None:
    platform = dataclasses.replace(uniform(8), storage=(Host("disk", (0.0,)),))
    kept = limit(platform, 3)
    assert [host.name for host in kept.hosts] == ["node0", "node1", "node2", "disk"]
    assert limit(platform, 0) is platform
    assert limit(platform, 8) == platform


def test_wattages() -> None:
    both = host((2.0, 1.0), wattage_per_state="50:60:150,40:45.5:9e1")
    assert both.wattages() == (Wattage(50, 60, 150), Wattage(40, 45.5, 90))
    # SimGrid takes idle for epsilon where there are two values.
    assert host(wattage_per_state="50:150").wattages() == (Wattage(50, 50, 150),)
    assert host(watt_per_state="1:2:3").wattages() == (Wattage(1, 2, 3),)
    assert host(watt_per_state="1:2:3", wattage_per_state="4:5:6").wattages() == (Wattage(4, 5, 6),)
    assert host().wattages() == ()
    assert (host(wattage_off="4.5").wattage_off(), host(watt_off="3").wattage_off(), host().wattage_off()) == (
        4.5,
        3,
        0,
    )


def test_sleep_pstates() -> None:
    speeds = (4.0, 3.0, 1.0, 0.2, 0.05, 1.0)
    one = host(speeds, sleep_pstates="2:3:4")
    assert one.sleep_pstates() == (SleepPstate(sleep=2, switch_off=3, switch_on=4),)
    assert one.computing_pstates() == (0, 1, 5)
    two = host(speeds, sleep_pstates=" 2:3:4 , 5 : 3:3")
    assert two.sleep_pstates() == (SleepPstate(2, 3, 4), SleepPstate(5, 3, 3))
    assert two.computing_pstates() == (0, 1)
    assert host(speeds).sleep_pstates() == ()
    assert host(speeds).computing_pstates() == tuple(range(6))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        *(("wattage_per_state", text, message) for text, message in (
            ("1:2:3,1:2:3", "one idle:epsilon:full for each of 1 pstates, found 2: '1:2:3,1:2:3'"),
            ("1", "idle:epsilon:full in watts for pstate 0, found '1'"),
            *((text, f"found '{text}'") for text in (
                "1:2:3:4", "1:x:3", "1::3", "1:nan:3", "1:inf", "-1:2", "1_0:2", ""
            )),
        )),
        *(("wattage_off", text, "expected a power in watts, found") for text in ("", "x", "-1", "inf", "1:2")),
        *(("sleep_pstates", text, message) for text, message in (
            ("2:3", "the three pstates sleep:switch_off:switch_on, found '2:3'"),
            ("2:3:4,", "the three pstates sleep:switch_off:switch_on, found ''"),
            ("2:-3:4", "found '2:-3:4'"),
            ("2:3:²", "found '2:3:²'"),
            ("2:3:6", "pstates below 6, the number of speeds, found '2:3:6'"),
            ("2:3:99999999999999999999", "pstates below 6"),
            ("2:3:4,2:3:4", "found pstate 2 twice"),
            ("2:2:4", "found pstate 2 twice"),
            ("2:3:4,3:0:4", "found pstate 3 twice"),
        )),
    ],
)  # fmt: skip
def test_wrong_power_and_pstates(name: str, text: str, message: str) -> None:
    one = host((1.0,) * (6 if name == "sleep_pstates" else 1), **{name: text})
    read = {"wattage_per_state": "wattages"}.get(name, name)
    with pytest.raises(InputError) as error:
        getattr(one, read)()
    assert str(error.value).startswith(f"host 'n7' (line 12), property {name}: expected ")
    assert message in str(error.value)


def energetic(**changes: Any) -> Platform:
    properties = {"role": "", "wattage_per_state": "1:2,1:1", "sleep_pstates": "1:1:1"} | changes.pop("properties", {})
    one = Host("n7", changes.pop("speeds", (1e9, 0.0)), properties=properties, line=12)
    return Platform((one,), changes.pop("storage", ()), Host("boss", (1.0,)), "p.xml")


def test_energy_needs_power_and_pstates_of_all_hosts() -> None:
    check_energy(energetic(properties={"sleep_pstates": "1:0:0"}, speeds=(1e9, 0.0)))
    with pytest.raises(
        InputError, match=r"^p.xml: host 'n7' \(line 12\), property sleep_pstates: expected each pstate"
    ):
        check_energy(energetic())
    with pytest.raises(InputError, match=r"^p.xml: host 'n7' \(line 12\) has no property wattage_per_state"):
        check_energy(Platform((Host("n7", (1.0,), line=12),), (), Host("b", (1.0,)), "p.xml"))
    awake = {"role": "", "wattage_per_state": "1:2,1:1"}
    with pytest.raises(InputError, match=r"pstate 1 has speed 0; expected a speed above 0"):
        check_energy(Platform((Host("n7", (1e9, 0.0), properties=awake),), (), Host("b", (1.0,)), "p.xml"))
    bare = Host("disk", (0.0,), properties={"role": "storage"}, line=3)
    with pytest.raises(InputError, match="host 'disk'"):
        check_energy(energetic(properties={"sleep_pstates": "1:0:0"}, storage=(bare,)))


def test_energy_of_a_file() -> None:
    text = """<!DOCTYPE platform SYSTEM "simgrid.dtd"><platform version="4.1"><zone id="s" routing="Full">
      <host id="a" speed="1Gf,2f"><prop id="wattage_per_state" value="1:2:3"/></host>
      <host id="master_host" speed="1Gf"/></zone></platform>"""
    platform = xml.parse(text.encode(), "p.xml")  # wrong, but energy is off
    with pytest.raises(InputError, match=r"^p.xml: host 'a' \(line 2\), property wattage_per_state: expected one"):
        check_energy(platform)


PLATFORM = """<?xml version="1.0"?><!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd"><platform version="4.1">
<zone id="z" routing="Full"><host id="master_host" speed="1Gf"/>
<host id="x" speed="1Gf"><prop id="cores" value="{}"/></host></zone></platform>
"""


@pytest.mark.parametrize("text", ["0", "-1", "x", "2147483648", "9" * 6000])
def test_invalid_numbers_of_cores_are_rejected(text: str, tmp_path: Path) -> None:
    path = tmp_path / "p.xml"
    path.write_text(PLATFORM.format(text))
    with pytest.raises(InputError, match="property cores: expected a whole number from 1, found"):
        host_size(names.find(str(path), energy=False).read())
