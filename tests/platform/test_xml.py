"""SimGrid platform files, read without SimGrid: valid ones, and faulty or hostile ones."""

from __future__ import annotations

import builtins
import io
import socket
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from support.examples import examples
from support.platforms import read_platform

from pybatsched.errors import InputError
from pybatsched.platform import xml
from pybatsched.platform.model import Platform
from pybatsched.platform.roles import read_roles

HEAD = '<?xml version="1.0"?>\n<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n'
MASTER = '<host id="master_host" speed="1Gf"/>'
CLUSTER = '<cluster id="nodes" prefix="n" suffix=".x" radical="{}" speed="1Gf" bw="1e300Bps" lat="0" {}>{}</cluster>'
FRONT = """<cluster id="front" prefix="boss" suffix="" radical="0" speed="1Gf" bw="1e300Bps" lat="0"><prop id="role"
  value="master"/></cluster>"""


def parse(
    body: str, *, around: str = "zone", master: str = "master_host", roles: dict[str, str] | None = None
) -> Platform:
    """Read a platform; its content begins in line 4."""
    if around == "zone":
        body = f'<zone id="site" routing="Full">\n{body}\n</zone>'
    text = f'{HEAD}<platform version="4.1">{body}</platform>'
    return xml.parse(text.encode(), "p.xml", master=master, roles=roles)


def hosts(*names: str, role: str = "", speed: str = "1Gf") -> str:
    prop = f'<prop id="role" value="{role}"/>' if role else ""
    return "\n".join(f'<host id="{name}" speed="{speed}">{prop}</host>' for name in names)


def names(platform: Platform) -> list[str]:
    return [host.name for host in platform.hosts]


def complaint(body: str, **options: str) -> str:
    with pytest.raises(InputError) as error:
        parse(body, **options)  # type: ignore[arg-type]
    return str(error.value)


@pytest.mark.parametrize(
    ("radical", "numbers"),
    [
        ("0-3,7,10-12", [0, 1, 10, 11, 12, 2, 3, 7]),  # ids follow names as text
        ("000-003", [0, 1, 2, 3]),  # SimGrid drops leading zeros
        ("5", [5]),
        (" 0 - 1 , 9", [0, 1, 9]),
        ("98-101", [100, 101, 98, 99]),
    ],
)
def test_radicals(radical: str, numbers: list[int]) -> None:
    assert names(parse(CLUSTER.format(radical, "", "") + FRONT)) == [f"n{number}.x" for number in numbers]


def test_ids_follow_names_as_text_and_storage_comes_last() -> None:
    platform = parse(hosts("b", "a10", "a9", "Z", "é") + hosts("s2", "S1", role="storage", speed="0f") + MASTER)
    assert names(platform) == ["Z", "a10", "a9", "b", "é", "S1", "s2"]
    assert [host.name for host in platform.storage] == ["S1", "s2"]
    assert platform.master.name == "master_host"
    assert platform.n_procs == 5


@pytest.mark.parametrize(
    ("topology", "parameters"), [("TORUS", "2,2,2"), ("FAT_TREE", "2;4,2;1,2;1,1"), ("DRAGONFLY", "2,1;2,1;2,1;1")]
)
def test_topologies_have_the_number_of_hosts_of_their_parameters(topology: str, parameters: str) -> None:
    attributes = f'topology="{topology}" topo_parameters="{parameters}"'
    prop = '<prop id="colour" value="red"/>'
    platform = parse(CLUSTER.format("0-9", attributes, prop) + FRONT)
    assert names(platform) == [f"n{number}.x" for number in range(8)]
    assert dict(platform.compute[0].properties) == {"role": "", "colour": "red"}
    assert dict(platform.compute[0].zone_properties) == {}  # only flat clusters hand them on
    assert platform.remarks == ("p.xml: line 4: <cluster id=nodes>: its topology omits 2 hosts of its radical",)
    errors = complaint(CLUSTER.format("0-6", attributes, "") + FRONT)
    assert errors.startswith(
        "p.xml: line 4: <cluster id=nodes> attribute topo_parameters: expected sizes for the 7 hosts"
    )


def test_properties_come_from_hosts_clusters_and_zones() -> None:
    platform = parse(
        """<zone id="out" routing="Full">
             <prop id="a" value="1"/><prop id="b" value="1"/><prop id="c" value="1"/>
             <zone id="in" routing="Full">
               <prop id="b" value="2"/><prop id="b" value="late"/>
               <host id="h" speed="1Gf"><prop id="own" value="&lt;&amp;&#65;&quot;"/>
                 <disk id="d" read_bw="1MBps" write_bw="1MBps"><prop id="disk" value="no"/></disk>
                 <prop id="own" value="second"/></host>
             </zone>
             <cluster id="k" prefix="k" suffix="" radical="1" speed="1Gf" bw="1Bps" lat="0">
               <prop id="c" value="3"/></cluster>
             <AS id="old" routing="full"><host id="p" speed="1Gf"/></AS>
           </zone>"""
        + FRONT
    )
    h, k, p = platform.compute
    assert dict(h.properties) == {"role": "", "own": '<&A"'}
    assert dict(h.zone_properties) == {"a": "1", "b": "2", "c": "1"}
    assert dict(k.properties) == {"role": "", "c": "3"}
    assert dict(k.zone_properties) == {"a": "1", "b": "1", "c": "3"}
    assert dict(p.properties) == {"role": ""}
    assert dict(p.zone_properties) == {"a": "1", "b": "1", "c": "1"}
    assert (h.line, k.line) == (8, 12)


def test_speeds_cores_and_pstates() -> None:
    platform = parse(
        '<host id="a" speed="100.0Mf, 50Mf,1e-9Mf" core="4" pstate="1"/><host id="b" speed="3" pstate="0.0"/>' + MASTER
    )
    a, b = platform.compute
    assert a.speeds == pytest.approx((100e6, 50e6, 1e-3), rel=1e-12)
    assert (a.n_cores, a.pstate, a.speed) == (4, 1, 50e6)
    assert (b.n_cores, b.pstate, b.speed) == (1, 0, 3.0)


@pytest.mark.parametrize(
    ("text", "speeds", "simgrid_too"),
    [
        ("1f", (1.0,), True),
        ("2kf", (2e3,), True),
        ("1.5Mf", (1.5e6,), True),
        ("1e9f", (1e9,), True),
        ("1E2Gf", (1e11,), True),
        ("1Ef", (1e18,), True),  # exa, no exponent
        (".5Tf", (0.5e12,), True),
        ("3.Pf", (3e15,), True),
        ("1flops", (1.0,), True),
        ("2gigaflops", (2e9,), True),
        ("+7", (7.0,), True),
        ("1Gf,2f", (1e9, 2.0), True),
        ("1Gf 2f", (1e9, 2.0), False),
        ("1Kif", (1024.0,), False),
        ("1Gif", (1024.0**3,), False),
        ("1kflops", (1e3,), False),
        ("1Gflops", (1e9,), False),
    ],
)
def test_speed_units(text: str, speeds: tuple[float, ...], simgrid_too: bool) -> None:
    platform = parse(f'<host id="a" speed="{text}"/>' + MASTER)
    assert platform.compute[0].speeds == pytest.approx(speeds, rel=1e-15)
    remark = "p.xml: line 4: <host id=a>: SimGrid cannot read this speed"
    assert platform.remarks == (() if simgrid_too else (remark,))


def test_cabinets_and_peers() -> None:
    cabinets = """<zone id="row" routing="Cluster"><prop id="q" value="z"/>
      <cabinet id="c" prefix="c" suffix="s" radical="0-1" speed="1Gf" bw="1e300Bps" lat="0"/></zone>"""
    peers = """<zone id="net" routing="Vivaldi"><peer id="p" speed="2Gf" bw_in="1e300Bps" bw_out="1e300Bps"
      coordinates="0 0 0"/></zone>"""
    platform = parse(cabinets + peers + FRONT)
    assert names(platform) == ["c0s", "c1s", "p"]
    assert dict(platform.compute[1].zone_properties) == {"q": "z"}
    assert platform.compute[2].speed == 2e9
    assert platform.network_note == ""


def test_several_clusters_at_the_top() -> None:
    assert names(parse(CLUSTER.format("0-1", "", "") + FRONT, around="")) == ["n0.x", "n1.x"]


def test_known_elements_without_effect_are_ignored() -> None:
    text = """<config id="General"><prop id="network/model" value="CM02"/></config>
      <trace id="t" periodicity="1.0">0 1.0\n2 0.5</trace>
      <zone id="site" routing="Full"><host id="a" speed="1Gf" speed_file="/etc/passwd"><mount storageId="s" name="/"/>
      </host><host id="master_host" speed="1Gf"/></zone>
      <trace_connect kind="SPEED" trace="t" element="a"/>"""
    remarks = parse(text, around="").remarks
    assert [remark.split(": ", 2)[2] for remark in remarks] == [
        "<config>: settings of SimGrid are ignored",
        "<trace>: traces are ignored",
        "<mount>: ignored; SimGrid 3.27 and later reject it",
        "<trace_connect>: traces are ignored",
    ]


def test_a_missing_doctype_is_remarked() -> None:
    text = f'<platform version="4"><zone id="s" routing="Full">{hosts("a")}{MASTER}</zone></platform>'
    assert xml.parse(text.encode(), "p").remarks == ("p: line 1: the file has no DOCTYPE; SimGrid rejects it",)


def test_the_master_by_name_by_property_and_by_role() -> None:
    assert parse(hosts("a", "b"), master="a").master.name == "a"
    assert names(parse(hosts("a", "b") + MASTER, master="a")) == ["b", "master_host"]
    assert parse(hosts("a") + hosts("b", role="master")).master.name == "b"
    by_role = parse(hosts("a", "b") + MASTER, roles={"master_host": "storage", "a": "master"})
    assert (by_role.master.name, names(by_role)) == ("a", ["b", "master_host"])
    assert by_role.storage[0].properties["role"] == "storage"


def test_roles_given_and_roles_in_the_file_do_not_mix() -> None:
    errors = complaint(hosts("a") + '\n<host id="b" speed="1Gf"><prop id="role" value="master"/></host>', master="b")
    assert errors.startswith(
        "p.xml: line 5: host 'b' has the role 'master,master'; expected one of compute_node, storage,"
    )


def test_other_wrong_roles() -> None:
    assert "'foo'; expected one of" in complaint(hosts("a", role="foo") + MASTER)
    assert "2 master hosts, 'a' (line 4), 'master_host' (line 4); expected one" in complaint(
        hosts("a", role="master") + MASTER
    )
    assert complaint(hosts("a")).startswith("p.xml: no master host; expected one with")
    assert complaint(MASTER).startswith("p.xml: no compute host; expected at least one")
    assert complaint(hosts("s", role="storage") + MASTER).startswith("p.xml: no compute host")


def test_roles_of_unknown_hosts_give_a_remark() -> None:
    platform = parse(hosts("a") + MASTER, roles={"zoe": "storage"})
    assert platform.remarks == ("p.xml: no host is named 'zoe', so its role is ignored",)
    assert parse(hosts("a") + hosts("b", role="master"), master="eve").remarks == (
        "p.xml: no host is named 'eve', so its role is ignored",
    )


def test_roles_as_batsim_takes_them() -> None:
    assert read_roles(["a,b:storage", "c:master", "b:compute_node"]) == {
        "a": "storage",
        "b": "compute_node",
        "c": "master",
    }
    for wrong in ["a", "a:b:c", "a:cook", "a:", ",a:storage", ":master", ""]:
        with pytest.raises(InputError, match="expected HOST,HOST…:ROLE"):
            read_roles([wrong])


# --- the network ---

TRUNK = """<link id="t" bandwidth="1e300Bps" latency="{}"/>
  <zoneRoute src="nodes" dst="front" gw_src="nnodes_router.x" gw_dst="bossfront_router"><link_ctn id="t"/>
  </zoneRoute>"""
STAR = """<host id="a" speed="1Gf"/><host id="b" speed="1Gf"/><host id="master_host" speed="1Gf"/>
  <link id="slow" bandwidth="1GBps" latency="10us"/><link id="free" bandwidth="1e300Bps" latency="0"/>
  <link id="unused" bandwidth="1Bps" latency="1s"/>
  <route src="a" dst="b"><link_ctn id="{}"/></route>
  <route src="a" dst="master_host"><link_ctn id="{}"/></route>"""


def test_only_links_on_routes_to_the_master_count() -> None:
    assert parse(STAR.format("slow", "free")).hop_s == 0.0
    note = parse(STAR.format("free", "slow")).network_note
    assert "up to 1e-05 s on <link id=slow>, line 5" in note
    # Where routes are put together from parts, any part may lie on the way.
    elsewhere = f'<zone id="z" routing="Floyd">{STAR.format("slow", "free")}</zone>'
    assert parse(elsewhere, around="").hop_s == pytest.approx(1e-5 + 1e-9)


@pytest.mark.parametrize(
    ("bw", "lat", "hop"),
    [
        ("1e300Bps", "0", 0.0),
        ("1e15Bps", "0", 0.0),
        ("1e9Bps", "1us", 1.001e-6),
        ("8Mbps", "0", 1e-6),
        ("0", "0", float("inf")),
    ],
)
def test_links_of_clusters_count(bw: str, lat: str, hop: float) -> None:
    cluster = CLUSTER.format("0-1", "", "").replace('bw="1e300Bps" lat="0"', f'bw="{bw}" lat="{lat}"')
    platform = parse(cluster + FRONT + TRUNK.format("0"))
    assert platform.refused == ()
    assert platform.hop_s == pytest.approx(hop, rel=1e-9)
    assert bool(platform.network_note) == (hop > 0)


def test_backbones_gateways_and_distances_count() -> None:
    backbone = CLUSTER.format("0-1", 'bb_bw="1e300Bps" bb_lat="2ms"', "")
    assert parse(backbone + FRONT + TRUNK.format("0")).hop_at == "the backbone of <cluster id=nodes>, line 4"
    assert parse(CLUSTER.format("0-1", "", "") + FRONT + TRUNK.format("0")).hop_s == 0.0
    assert parse(CLUSTER.format("0-1", "", "") + FRONT + TRUNK.format("3us")).hop_s == pytest.approx(3e-6)
    points = '<zone id="v" routing="Vivaldi"><host id="a" speed="1Gf" coordinates="0 0 {}"/>' + MASTER + "</zone>"
    assert parse(points.format("0"), around="").hop_s == 0.0
    assert parse(points.format("-7"), around="").hop_s == pytest.approx(7e-3)
    gateway = (
        f'<zone id="in" routing="Full">{STAR.format("slow", "slow").replace("master_host", "g")}</zone>{FRONT}'
        '<zoneRoute src="in" dst="front" gw_src="g" gw_dst="boss0"><link_ctn id="free"/></zoneRoute>'
    )
    assert parse(gateway).hop_at == "<link id=slow>, line 5"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("<foo/>", "line 4: unknown element <foo>"),
        ("<hots id='a' speed='1'/>", "line 4: unknown element <hots>; did you mean 'host'?"),
        ("<prop id='a'/>", "line 4: <prop id=a> has no attribute value; expected one"),
        ("<host id='a'/>", "<host id=a> has no attribute speed"),
        ("<host id='a' sped='1'/>", "<host id=a> has an unknown attribute sped; expected availability_file,"),
        ("<host id='a' speed='1' sped='1'/>",
         "<host id=a> has an unknown attribute sped; expected availability_file, coordinates,"),
        ("<link_ctn id='l'/>", "<link_ctn> inside <zone id=site>; expected AS, ASroute,"),
        ("<platform version='4.1'/>", "<platform> inside <zone id=site>"),
        ("hello", "text inside <zone id=site>: 'hello'"),
        ("<host id='a' speed='fast'/>", "<host id=a> attribute speed: expected speeds in flop/s such as 1Gf"),
        ("<host id='a' speed='fast'/>", "(f, kf, Mf, Gf, Tf, Pf, Ef), found 'fast'"),
        ("<host id='a' speed=''/>", "attribute speed: expected speeds"),
        ("<host id='a' speed='1Gf,'/>", "attribute speed: expected speeds"),
        ("<host id='a' speed='1Xf'/>", "found '1Xf'"),
        ("<host id='a' speed='-1Gf'/>", "found '-1Gf'"),
        ("<host id='a' speed='inf'/>", "found 'inf'"),
        ("<host id='a' speed='nan'/>", "found 'nan'"),
        ("<host id='a' speed='1e999f'/>", "found '1e999f'"),
        ("<host id='a' speed='1 Gf'/>", "found '1 Gf'"),
        ("<host id='a' speed='1_0f'/>", "found '1_0f'"),
        ("<host id='a' speed='٣f'/>", "found '٣f'"),
        ("<host id='a' speed='1' core='0'/>", "attribute core: expected 1 or more, found 0"),
        ("<host id='a' speed='1' core='many'/>", "attribute core: expected a whole number, found 'many'"),
        ("<host id='a' speed='1' core='2.5'/>", "attribute core: expected a whole number, found '2.5'"),
        ("<host id='a' speed='1' pstate='1'/>", "attribute pstate: expected less than 1, found 1"),
        ("<host id='a' speed='1' pstate='-1'/>", "attribute pstate: expected a whole number, found '-1'"),
        ("<host id='a' speed='1'/>\n<host id='a' speed='1'/>", "line 5: <host id=a>: host 'a' already exists (line 4)"),
        ("<link id='l' bandwidth='1GB'/>", "<link id=l> attribute bandwidth: expected a bandwidth such as 125MBps"),
        ("<link id='l' bandwidth='infBps'/>", "found 'infBps'"),
        ("<link id='l' bandwidth='1Bps' latency='soon'/>",
         "attribute latency: expected a time such as 50us, found 'soon'"),
        ("<cabinet id='c' prefix='' suffix='' radical='0' speed='1' bw='1' lat='0'/>", "a zone with routing Cluster"),
        ("<peer id='c' speed='1' bw_in='1' bw_out='1'/>", "expected in a zone with routing Vivaldi"),
        ("<include file='/etc/passwd'/>", "expected no included files"),
        ("<zone id='z' routing='Empty'/>", "<zone id=z> attribute routing: expected one of Cluster, Dijkstra,"),
        ("<zone id='z' routing='Full'/><host id='a' speed='1'/>",
         "<host id=a> in a zone of zones; expected a zone of hosts"),
        ("<host id='a' speed='1'/><zone id='z' routing='Full'/>",
         "<zone id=z> in a zone of hosts; expected a zone of zones"),
        ("<host id='a' speed='1'/><prop id='x' value='y'/>", "<prop id=x>: expected all properties of a zone before"),
        (hosts("a", speed="0f") + MASTER, "line 4: compute host 'a' has speed 0; expected a speed above 0"),
        ("<host id='a' speed='1f,0f' pstate='1'/>" + MASTER, "compute host 'a' has speed 0"),
    ],
)  # fmt: skip
def test_errors_name_line_element_and_attribute(body: str, message: str) -> None:
    errors = complaint(body)
    assert errors.startswith(("p.xml: line 4: ", "p.xml: line 5: "))
    assert message in errors


@pytest.mark.parametrize(
    ("radical", "message"),
    [
        ("", "expected numbers and ranges such as 0-3,7,10-12, found ''"),
        ("3-", "found '3-'"),
        ("-3", "found '-3'"),
        ("1-2-3", "found '1-2-3'"),
        ("1,,2", "found ''"),
        ("1x", "found '1x'"),
        ("٣", "found '٣'"),
        ("5-3", "expected ascending ranges, found '5-3'"),
        ("3000000000", "expected numbers up to 2147483647"),
        ("0-2,1", "host 'n1.x' already exists (line 4); expected another name"),
    ],
)
def test_wrong_radicals(radical: str, message: str) -> None:
    errors = complaint(CLUSTER.format(radical, "", "") + FRONT)
    assert errors.startswith("p.xml: line 4: <cluster id=nodes>")
    assert message in errors


@pytest.mark.parametrize(
    "attributes", ['topology="CUBE"', 'topology="TORUS"', 'topology="TORUS" topo_parameters="2,x"']
)
def test_wrong_topologies(attributes: str) -> None:
    assert "<cluster id=nodes> attribute topo" in complaint(CLUSTER.format("0-9", attributes, "") + FRONT)


@pytest.mark.parametrize(
    ("topology", "parameters"),
    [
        ("TORUS", "2,0"),
        ("TORUS", ""),
        ("FAT_TREE", "2;4,2;1,2"),
        ("FAT_TREE", "3;4,2;1,2;1,1"),
        ("FAT_TREE", "2,2;4,2;1,2;1,1"),
        ("DRAGONFLY", "2,1;2,1;2,1"),
        ("DRAGONFLY", "2;2,1;2,1;1"),
        ("TORUS", ",".join(["999999999"] * 1000)),
    ],
)
def test_wrong_topology_parameters(topology: str, parameters: str) -> None:
    attributes = f'topology="{topology}" topo_parameters="{parameters}"'
    errors = complaint(CLUSTER.format("0-99", attributes, "") + FRONT)
    assert "attribute topo_parameters: expected sizes such as" in errors
    assert f"for {topology}, found" in errors


@pytest.mark.parametrize("version", ["3", "4.2", "5", "", "four", "4.1.1"])
def test_wrong_versions(version: str) -> None:
    with pytest.raises(InputError, match="p: line 2: <platform> attribute version: expected 4 or 4.1, found"):
        xml.parse(f'<!DOCTYPE platform SYSTEM "x">\n<platform version="{version}"/>'.encode(), "p")


@pytest.mark.parametrize("version", ["4", "4.0", "4.1", "4.10"])
def test_right_versions(version: str) -> None:
    text = f'{HEAD}<platform version="{version}"><zone id="s" routing="Full">{hosts("a")}{MASTER}</zone></platform>'
    assert names(xml.parse(text.encode(), "p")) == ["a"]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no.xml: cannot be read: No such file or directory"):
        read_platform(tmp_path / "no.xml")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read_platform(tmp_path)
    with pytest.raises(InputError, match="cannot be read: embedded null byte"):
        read_platform("a\0b")
    (tmp_path / "p.xml").write_text("<zone id='z' routing='Full'/>")
    with pytest.raises(InputError, match=r"p.xml: line 1: <zone> is the outermost element; expected <platform>"):
        read_platform(str(tmp_path / "p.xml"))


GOOD = """<?xml version="1.0"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<!-- bread & butter, and <host> -->
<platform version="4.1">
 <zone id="site" routing="Full">
  <prop id="site" value="R&amp;D"/>
  <cluster id="nodes" prefix="n" suffix="" radical="0-3,7" speed="1Gf,2f" core="2" bw="1GBps" lat="1us">
   <prop id="cores" value="2"/>
  </cluster>
  <zone id="front" routing="Full"><host id="master_host" speed="1Gf" coordinates="0 0 0"/></zone>
  <link id="l" bandwidth="1e300Bps" latency="0"/>
  <zoneRoute src="nodes" dst="front" gw_src="nnodes_router" gw_dst="master_host"><link_ctn id="l"/></zoneRoute>
 </zone>
</platform>
"""
BODY = GOOD.split('simgrid.dtd">\n', 1)[1]

LAUGHS = '<!DOCTYPE platform [<!ENTITY a "ha">' + "".join(
    f'<!ENTITY {name} "{f"&{before};" * 10}">' for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)


def complaint_about(data: str | bytes) -> str:
    with pytest.raises(InputError) as error:
        xml.parse(data.encode() if isinstance(data, str) else data, "p.xml")
    return str(error.value)


def cluster(radical: str) -> str:
    return GOOD.replace("0-3,7", radical)


def test_the_unchanged_file_is_accepted() -> None:
    platform = xml.parse(GOOD.encode(), "p.xml")
    assert [host.name for host in platform.compute] == ["n0", "n1", "n2", "n3", "n7"]
    assert platform.compute[0].zone_properties["site"] == "R&D"


@pytest.fixture
def no_other_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where anything is opened or looked up while a text is parsed."""

    def refuse(*args: Any, **_: Any) -> Any:
        raise AssertionError(f"somebody opens {args}")

    monkeypatch.setattr(builtins, "open", refuse)
    monkeypatch.setattr(io, "open", refuse)
    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.usefixtures("no_other_file")
@pytest.mark.parametrize(
    "doctype",
    [
        LAUGHS + "]>",
        '<!DOCTYPE platform SYSTEM "simgrid.dtd" [<!ENTITY x SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE platform [<!ENTITY x SYSTEM "http://127.0.0.1:9/x">]>',
        '<!DOCTYPE platform [<!ENTITY % x SYSTEM "file:///etc/passwd"> %x;]>',
        '<!DOCTYPE platform [<!ENTITY x "harmless">]>',
        '<!DOCTYPE platform [<!ATTLIST host core CDATA "64">]>',
        '<!DOCTYPE platform [<!NOTATION n SYSTEM "x"><!ENTITY x SYSTEM "f" NDATA n>]>',
        "<!DOCTYPE platform []>",
    ],
)
@pytest.mark.parametrize("use", ["", "&x;", "&j;"])
def test_no_entities_are_declared(doctype: str, use: str) -> None:
    errors = complaint_about(doctype + BODY.replace("R&amp;D", use))
    assert errors.startswith("p.xml: line ")
    assert "expected none" in errors or "write &amp; for a plain" in errors


def test_an_entity_bomb_is_rejected_without_expansion() -> None:
    tracemalloc.start()
    try:
        errors = complaint_about(LAUGHS + "]>" + BODY.replace("R&amp;D", "&amp;"))
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
    assert errors == "p.xml: line 1: the DOCTYPE has internal declarations; expected none (SimGrid also rejects them)"


@pytest.mark.usefixtures("no_other_file")
@pytest.mark.parametrize(
    "address", ["https://simgrid.org/simgrid.dtd", "simgrid.dtd", "file:///etc/passwd", "/dev/zero"]
)
def test_the_dtd_is_never_loaded(address: str) -> None:
    text = GOOD.replace("https://simgrid.org/simgrid.dtd", address)
    assert xml.parse(text.encode(), "p.xml").n_procs == 5


@pytest.mark.parametrize(
    "value", ["&x;", "a&x;b", "&", "&;", "& ;", "&nbsp;", "&#x;", "&#xZZ;", "&amp", "<!-- &x; -->", "&#0;", "&#xFFFE;"]
)
def test_unknown_entities_are_not_dropped(value: str) -> None:
    """Expat alone would read them as nothing, because of the DTD that is not loaded."""
    errors = complaint_about(GOOD.replace("R&amp;D", value))
    assert errors.startswith("p.xml: line 6: ")


def test_ampersands_in_comments_and_sections_are_text() -> None:
    text = GOOD.replace(
        ' <zone id="site"',
        ' <!-- &x; --><?pi &y; ?><trace id="t" periodicity="1"><![CDATA[&z;]]></trace><zone id="site"',
    )
    assert xml.parse(text.encode(), "p.xml").n_procs == 5
    hidden = GOOD.replace("https://simgrid.org/simgrid.dtd", "<!--").replace("R&amp;D", "&x;")
    assert "expected an address without <" in complaint_about(hidden)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" \n ",
        b"\0",
        b"\x7fELF\x02\x01\x01" + bytes(range(256)),
        b"PK\x03\x04" + b"\0" * 100,
        b"\x1f\x8b\x08" + b"x" * 100,
        GOOD.encode("utf-16"),
        GOOD.encode("utf-32"),
        GOOD.replace("R&amp;D", "\N{LATIN SMALL LETTER E WITH ACUTE}").encode("latin-1"),
        GOOD.replace("R&amp;D", "\0").encode(),
        GOOD.encode() + GOOD.encode(),
        b"<a>" * 1_000_000,
        b'{"platform": 1}',
    ],
    ids=lambda data: repr(data[:12]),
)
def test_files_that_are_not_xml_are_rejected(data: bytes) -> None:
    errors = complaint_about(data)
    assert errors.startswith("p.xml: line ")
    assert "expected well-formed XML in UTF-8, found: " in errors or "unknown element <a>" in errors


def test_a_byte_order_mark_is_accepted() -> None:
    assert xml.parse(GOOD.encode("utf-8-sig"), "p.xml").n_procs == 5


@pytest.mark.parametrize("n_lines", range(1, 13))
def test_truncated_files(n_lines: int) -> None:
    errors = complaint_about("\n".join(GOOD.splitlines()[:n_lines]))
    is_inside = n_lines > 3  # before, no element is open
    expected = "the file ends inside <" if is_inside else "expected well-formed XML in UTF-8, found: no element found"
    assert expected in errors


def test_deep_nesting() -> None:
    opened = "".join(f'<zone id="z{n}" routing="Full">\n' for n in range(100_000))
    errors = complaint_about(f'<!DOCTYPE platform SYSTEM "x"><platform version="4.1">{opened}')
    assert errors == "p.xml: line 64: elements are nested too deeply; expected at most 64 levels"


@pytest.mark.parametrize(
    "radical",
    [
        "0-1000000000",
        "0-999999999,2000000000",
        ",".join(["0-9999999"] * 1000),
        "0-" + "9" * 5000,
        "9" * 5000,
        "0-9999999,5",
    ],
)
def test_huge_radicals_are_rejected_before_they_are_made(radical: str) -> None:
    tracemalloc.start()
    try:
        errors = complaint_about(cluster(radical))
        assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
    finally:
        tracemalloc.stop()
    assert errors.startswith("p.xml: line 7: <cluster id=nodes> attribute radical: expected ")
    assert len(errors) < 300


def test_the_limit_counts_all_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pybatsched.platform.elements.MAX_HOSTS", 6)
    assert xml.parse(GOOD.encode(), "p.xml").n_procs == 5
    assert "attribute radical: expected" in complaint_about(cluster("0-6"))
    assert "<host id=master_host>: too many hosts; expected at most 6" in complaint_about(cluster("0-5"))
    more = '<cluster id="more" prefix="m" suffix="" radical="0-1" speed="1Gf" bw="1GBps" lat="0"/>'
    errors = complaint_about(GOOD.replace('  <zone id="front"', f'{more}<zone id="front"'))
    assert errors.startswith("p.xml: line 10: <cluster id=more> attribute radical: expected ")


def test_files_that_are_too_large(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "p.xml"
    path.write_text(GOOD)
    monkeypatch.setattr(xml, "MAX_BYTES", len(GOOD))
    assert read_platform(path).n_procs == 5
    monkeypatch.setattr(xml, "MAX_BYTES", len(GOOD) - 1)
    with pytest.raises(InputError, match="the file is too large"):
        read_platform(path)
    with pytest.raises(InputError, match="the file is too large"):
        read_platform("/dev/zero")


@pytest.mark.parametrize("piece", ["<!--", "<![CDATA[", "<?", "&amp;", "<", "-->", "&"])
def test_long_inputs_are_rejected_in_linear_time(piece: str) -> None:
    started = time.process_time()
    complaint_about(GOOD.replace("R&amp;D", "&amp;" + piece * 400_000 + '<"'))
    assert time.process_time() - started < 20  # a quadratic search takes hours


def test_long_texts_are_cut_in_errors() -> None:
    for old, new in [("1Gf,2f", "x" * 10**6), ('"nodes"', f'"{"y" * 10**6}" z="1"'), ("<link ", f"<{'q' * 10**6} ")]:
        assert len(complaint_about(GOOD.replace(old, new))) < 500
    assert "\n" not in complaint_about(GOOD.replace('"nodes"', '"a&#10;b" z="1"'))


@examples(150)
@given(st.data())
def test_damaged_files_give_input_errors_only(data: st.DataObject) -> None:
    raw = bytearray(GOOD.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        match data.draw(st.sampled_from(["change", "cut", "swap", "repeat"])):
            case "change":
                raw[at] = data.draw(st.sampled_from(b"\"'<>&;-,0123456789 =/!\x00\xff") | st.integers(0, 255))
            case "cut":
                del raw[at : at + data.draw(st.integers(1, 40))]
            case "swap":
                other = data.draw(st.integers(0, len(raw) - 1))
                raw[at], raw[other] = raw[other], raw[at]
            case _:
                raw[at:at] = raw[at : at + data.draw(st.integers(1, 200))]
        if not raw:
            break
    try:
        platform = xml.parse(bytes(raw), "p.xml")
    except InputError as error:
        assert str(error).startswith("p.xml")
    else:
        assert len(platform.compute) >= 1
        assert platform.master.role == "master"


@examples(60)
@given(
    st.text(max_size=30),
    st.sampled_from(["1Gf,2f", "0-3,7", "1GBps", "1us", "4.1", '2" bw', "Full", "0 0 0", "R&amp;D"]),
)
def test_any_attribute_value_is_read_or_an_input_error(value: str, instead_of: str) -> None:
    escaped = value.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    try:
        data = GOOD.replace(instead_of, escaped + instead_of[instead_of.find('"') :] if '"' in instead_of else escaped)
        xml.parse(data.encode("utf-8", "surrogatepass"), "p.xml")
    except InputError as error:
        assert str(error).startswith("p.xml")
