"""Routes on platforms worked out by hand: links in order, direction, latency, and missing routes."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pybatsched.platform import xml
from pybatsched.platform.network.routes import LOOPBACK_BANDWIDTH, Routes
from pybatsched.platform.network.routing import NoPathError

HEAD = '<?xml version="1.0"?>\n<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n<platform version="4.1">\n'
HOST = '<host id="{}" speed="1Gf"/>'


def routes_of(text: str) -> Routes:
    network = xml.content_of(f"{HEAD}{text}</platform>".encode(), "p.xml").network
    return Routes(network)


def names(routes: Routes, src: str, dst: str) -> list[str]:
    return [link.name for link in routes.between(src, dst).links]


def zone(routing: str, content: str, links: str = "abc") -> str:
    made = "".join(f'<link id="{name}" bandwidth="{100 + i}Bps" latency="{i + 1}ms"/>' for i, name in enumerate(links))
    return f'<zone id="z" routing="{routing}">{"".join(map(HOST.format, "pqrs"))}{made}{content}</zone>'


def route(src: str, dst: str, *links: str, more: str = "") -> str:
    return f'<route src="{src}" dst="{dst}"{more}>' + "".join(f'<link_ctn id="{link}"/>' for link in links) + "</route>"


def test_full_routes_go_both_ways() -> None:
    routes = routes_of(zone("Full", route("p", "q", "a", "b") + route("q", "r", "c", more=' symmetrical="NO"')))
    assert names(routes, "p", "q") == ["a", "b"]
    assert names(routes, "q", "p") == ["b", "a"]
    assert routes.between("p", "q").latency_s == pytest.approx(0.003)
    assert routes.between("p", "q").links[1].bandwidth == 101
    assert names(routes, "q", "r") == ["c"]
    assert names(routes, "r", "q") == []  # in SimGrid a missing route between hosts of a Full zone has no links
    assert routes.between("p", "q").links[0] is routes.between("q", "p").links[1]


def test_a_host_reaches_itself_over_the_loopback() -> None:
    routes = routes_of(zone("Full", route("p", "p", "a")))
    assert names(routes, "p", "p") == ["a"]
    (loopback,) = routes.between("q", "q").links
    assert (loopback.bandwidth, loopback.is_fatpipe) == (LOOPBACK_BANDWIDTH, True)


def test_the_reverse_route_uses_the_other_direction_of_a_split_link() -> None:
    split = '<link id="d" bandwidth="1kBps" latency="0" sharing_policy="SPLITDUPLEX"/>'
    fat = '<link id="f" bandwidth="1kBps" latency="0" sharing_policy="FATPIPE"/>'
    way = '<route src="p" dst="q"><link_ctn id="d" direction="UP"/><link_ctn id="f"/></route>'
    routes = routes_of(zone("Full", split + fat + way))
    assert names(routes, "p", "q") == ["d_UP", "f"]
    assert names(routes, "q", "p") == ["f", "d_DOWN"]
    assert [link.is_fatpipe for link in routes.between("p", "q").links] == [False, True]


@pytest.mark.parametrize("routing", ["Full", "Floyd", "Dijkstra"])
def test_a_bypass_route_goes_one_way(routing: str) -> None:
    bypass = '<bypassRoute src="p" dst="q"><link_ctn id="c"/></bypassRoute>'
    for ways in (route("p", "q", "a") + bypass, bypass + route("p", "q", "a")):
        content = xml.content_of(f"{HEAD}{zone(routing, ways)}</platform>".encode(), "p.xml")
        assert not content.network.refused
        routes = Routes(content.network)
        assert names(routes, "p", "q") == ["c"]
        assert names(routes, "q", "p") == ["a"]


@pytest.mark.parametrize("routing", ["Floyd", "Dijkstra", "DijkstraCache"])
def test_searched_routes_have_the_fewest_links(routing: str) -> None:
    ways = route("p", "q", "a") + route("q", "r", "b") + route("p", "r", "a", "b", "c") + route("r", "s", "c")
    routes = routes_of(zone(routing, ways))
    assert names(routes, "p", "s") == ["a", "b", "c"]
    assert names(routes, "s", "p") == ["c", "b", "a"]
    assert routes.between("q", "q").links[0].name == "__loopback__"


CLUSTER = '<cluster id="c" prefix="n" suffix="" radical="0-3" speed="1Gf" bw="125MBps" lat="50us" {}/>'


@pytest.mark.parametrize(
    ("attributes", "expected", "latency_s"),
    [
        ("", ["c n1 UP", "c n2 DOWN"], 100e-6),
        ('sharing_policy="SHARED"', ["c n1", "c n2"], 100e-6),
        ('bb_bw="2GBps" bb_lat="500us"', ["c n1 UP", "c backbone", "c n2 DOWN"], 600e-6),
        ('limiter_link="1MBps"', ["c n1 limiter", "c n1 UP", "c n2 DOWN", "c n2 limiter"], 100e-6),
    ],
)
def test_cluster(attributes: str, expected: list[str], latency_s: float) -> None:
    routes = routes_of(CLUSTER.format(attributes))
    assert names(routes, "n1", "n2") == expected
    assert routes.between("n1", "n2").latency_s == pytest.approx(latency_s)


def test_cluster_to_itself_and_to_its_router() -> None:
    routes = routes_of(CLUSTER.format('loopback_bw="1MBps" loopback_lat="1us"'))
    assert names(routes, "n1", "n1") == ["c n1 loopback"]
    routes = routes_of(CLUSTER.format('sharing_policy="SHARED" bb_bw="2GBps"'))
    assert names(routes, "n1", "n1") == ["c n1", "c backbone"]  # each link once
    assert names(routes, "n1", "nc_router") == ["c n1", "c backbone"]
    assert names(routes, "nc_router", "n1") == ["c backbone", "c n1"]


TWO = (
    '<zone id="site" routing="{}">'
    + CLUSTER.format("")
    + '<cluster id="d" prefix="m" suffix="" radical="0-1" speed="1Gf" bw="10MBps" lat="1ms"/>'
    '<link id="trunk" bandwidth="1GBps" latency="3ms"/>'
    '<zoneRoute src="c" dst="d" gw_src="nc_router" gw_dst="md_router"><link_ctn id="trunk"/></zoneRoute></zone>'
)


@pytest.mark.parametrize("routing", ["Full", "Floyd", "Dijkstra"])
def test_between_zones(routing: str) -> None:
    routes = routes_of(TWO.format(routing))
    assert names(routes, "n1", "m0") == ["c n1 UP", "trunk", "d m0 DOWN"]
    assert names(routes, "m0", "n1") == ["d m0 UP", "trunk", "c n1 DOWN"]
    assert routes.between("n1", "m0").latency_s == pytest.approx(0.003 + 50e-6 + 0.001)


@pytest.mark.parametrize(
    ("src", "dst", "expected"),
    [
        ("inner", "d", ["c n1 UP", "c n0 DOWN", "short", "d m0 DOWN"]),  # the innermost pair, by its own gateways
        ("outer", "d", ["c n1 UP", "short", "d m0 DOWN"]),
        ("d", "outer", ["c n1 UP", "trunk", "d m0 DOWN"]),  # one way only
    ],
)
def test_bypass_routes_between_zones(src: str, dst: str, expected: list[str]) -> None:
    gateways = {"inner": "n0", "outer": "nc_router", "d": "md_router"}
    text = (
        '<zone id="site" routing="Full"><zone id="outer" routing="Full"><zone id="inner" routing="Full">'
        + CLUSTER.format("")
        + '</zone></zone><cluster id="d" prefix="m" suffix="" radical="0-1" speed="1Gf" bw="10MBps" lat="1ms"/>'
        '<link id="trunk" bandwidth="1GBps" latency="3ms"/><link id="short" bandwidth="1GBps" latency="1ms"/>'
        '<zoneRoute src="outer" dst="d" gw_src="nc_router" gw_dst="md_router"><link_ctn id="trunk"/></zoneRoute>'
        f'<bypassZoneRoute src="{src}" dst="{dst}" gw_src="{gateways[src]}" gw_dst="{gateways[dst]}">'
        '<link_ctn id="short"/></bypassZoneRoute></zone>'
    )
    routes = routes_of(text)
    assert names(routes, "n1", "m0") == expected
    assert names(routes, "m0", "n1") == (
        ["d m0 UP", "short", "c n1 DOWN"] if src == "d" else ["d m0 UP", "trunk", "c n1 DOWN"]
    )


def test_zone_with_routing_cluster() -> None:
    text = (
        '<zone id="z" routing="Cluster"><host id="p" speed="1f"/><host id="q" speed="1f"/>'
        '<link id="pu" bandwidth="1Bps" latency="0"/><link id="pd" bandwidth="1Bps" latency="0"/>'
        '<host_link id="p" up="pu" down="pd"/><host_link id="q" up="pd" down="pd"/>'
        '<backbone id="b" bandwidth="9Bps" latency="1s"/>'
        '<cabinet id="k" prefix="k" suffix="" radical="0-1" speed="1f" bw="5Bps" lat="2s"/></zone>'
    )
    routes = routes_of(text)
    assert names(routes, "p", "q") == ["pu", "z backbone", "pd"]
    assert names(routes, "q", "p") == ["pd", "z backbone"]  # pd is used once
    assert names(routes, "p", "k1") == ["pu", "z backbone", "link_k1_DOWN"]
    assert routes.between("k0", "k1").latency_s == 5.0


def test_torus() -> None:
    """3 x 2: host i is at (i % 3, i // 3). From 0 to 5: back round the first dimension, then along the second."""
    routes = routes_of(CLUSTER.replace("0-3", "0-5").format('topology="TORUS" topo_parameters="3,2"'))
    assert names(routes, "n0", "n1") == ["c 0 dimension 0 UP"]
    assert names(routes, "n1", "n0") == ["c 0 dimension 0 DOWN"]
    assert names(routes, "n0", "n5") == ["c 2 dimension 0 DOWN", "c 2 dimension 1 UP"]
    assert names(routes, "n2", "n2") == []


def test_fat_tree() -> None:
    """Two levels: 4 hosts under each of 2 switches, which have 2 parents each. A route takes the parent d modulo 2."""
    fat = 'topology="FAT_TREE" topo_parameters="2;4,2;1,2;1,1"'
    routes = routes_of(CLUSTER.replace("0-3", "0-7").format(fat))
    up, down = "c level 0 from [1, 0] to [0, 0] cable 0 UP", "c level 0 from [2, 0] to [0, 0] cable 0 DOWN"
    assert names(routes, "n1", "n2") == [up, down]
    assert names(routes, "n1", "n6") == [
        up,
        "c level 1 from [0, 0] to [0, 0] cable 0 UP",
        "c level 1 from [0, 1] to [0, 0] cable 0 DOWN",
        "c level 0 from [2, 1] to [0, 1] cable 0 DOWN",
    ]
    assert names(routes, "n1", "n7")[1] == "c level 1 from [0, 0] to [0, 1] cable 0 UP"


def test_dragonfly() -> None:
    """Two groups of one chassis with two blades of one host each: host 1 leads from group 0 to group 1."""
    fly = 'topology="DRAGONFLY" topo_parameters="2,3;1,1;2,1;1"'
    routes = routes_of(CLUSTER.format(fly))
    assert names(routes, "n1", "n2") == ["c host 0 0 1 0 UP", "c blue 0 1 UP", "c host 1 0 0 0 DOWN"]
    assert names(routes, "n0", "n3") == [
        "c host 0 0 0 0 UP",
        "c green 0 0 0 1 UP",
        "c blue 0 1 UP",
        "c green 1 0 0 1 UP",
        "c host 1 0 1 0 DOWN",
    ]
    assert routes.between("n1", "n2").links[1].bandwidth == 3 * 125e6


@pytest.mark.parametrize(
    ("routing", "ways", "message"),
    [
        ("Floyd", route("p", "q", "a") + route("r", "s", "b"),
         r"no route from 'p' to 's': zone 'z' \(line 4\) has no route from 'p' to 's'"),
        ("Dijkstra", route("p", "q", "a") + route("r", "s", "b"),
         r"no route from 'p' to 's': zone 'z' \(line 4\) has no route from 'p' to 's'"),
        ("Full", '<link id="n" bandwidth="0Bps" latency="0"/>' + route("p", "q", "a") + route("p", "s", "n"),
         r"line 4: link 'n' has no bandwidth; expected more than 0 Bps"),
        ("Full", route("p", "q", "a") + route("p", "s", "typo"),
         r"^link 'typo' does not exist or is created by a cluster"),
    ],
)  # fmt: skip
def test_a_missing_route_or_link_is_an_error_only_on_its_own_routes(routing: str, ways: str, message: str) -> None:
    routes = routes_of(zone(routing, ways))
    assert names(routes, "p", "q") == ["a"]
    with pytest.raises(NoPathError, match=message):
        routes.between("p", "s")


@given(st.data())
def test_both_searches_find_paths_of_the_same_length(data: st.DataObject) -> None:
    """And each is a shortest one: no path over one more member is shorter."""
    pairs = data.draw(
        st.sets(st.sampled_from([("p", "q"), ("p", "r"), ("p", "s"), ("q", "r"), ("q", "s"), ("r", "s")]))
    )
    ways = "".join(route(a, b, *"abc"[: data.draw(st.integers(1, 3))]) for a, b in sorted(pairs))
    lengths: dict[str, dict[tuple[str, str], int | None]] = {}
    for routing in ("Floyd", "Dijkstra"):
        routes = routes_of(zone(routing, ways))
        found = lengths[routing] = {}
        for a in "pqrs":
            for b in "pqrs":
                if a != b:
                    try:
                        found[a, b] = len(routes.between(a, b).links)
                    except NoPathError:
                        found[a, b] = None
    assert lengths["Floyd"] == lengths["Dijkstra"]
    for (a, b), length in lengths["Floyd"].items():
        for c in set("pqrs") - {a, b}:
            first, second = lengths["Floyd"][a, c], lengths["Floyd"][c, b]
            if first is not None and second is not None:
                assert length is not None
                assert length <= first + second


def test_a_large_cluster_creates_only_the_links_of_its_routes() -> None:
    routes = routes_of(CLUSTER.replace("0-3", "0-9999").format(""))
    assert names(routes, "n0", "n9999") == ["c n0 UP", "c n9999 DOWN"]
    assert len(routes._links) == 2
