"""Platform files with one defect each, which Batsim 4.2.1 rejects, and unusual ones that it accepts."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from pybatsched.platform import xml
from pybatsched.platform.model import Platform

HEAD = '<?xml version="1.0"?>\n<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n<platform version="4.1">\n'

NODES = '<cluster id="nodes" prefix="node" suffix="" radical="100-103" speed="1Gf" bw="1e300Bps" lat="0"/>'
FRONT = (
    '<cluster id="front" prefix="boss" suffix="" radical="0-0" speed="1Gf" bw="1e300Bps" lat="0">'
    '<prop id="role" value="master"/></cluster>'
)
TRUNK = '<link id="trunk" bandwidth="1e300Bps" latency="0"/>'
ROUTE = (
    '<zoneRoute src="nodes" dst="front" gw_src="nodenodes_router" gw_dst="bossfront_router">\n'
    '<link_ctn id="trunk"/></zoneRoute>'
)
GOOD = (NODES, FRONT, "", "", TRUNK, ROUTE)


def read_platform(path: str | Path, **given: Any) -> Platform:
    """Read a platform file; the other arguments are those of `xml.parse`."""
    return xml.parse(xml.load(path), str(path), **given)


def text_of(lines: tuple[str, ...], routing: str = "Full") -> str:
    """Write a file; the first of the lines is its line 5."""
    return f'{HEAD}<zone id="site" routing="{routing}">\n' + "\n".join(lines) + "\n</zone>\n</platform>\n"


class Defect(NamedTuple):
    text: str
    line: int
    message: str
    n_found: int = 1


def _with(**lines: str) -> str:
    """Write the good file with some lines changed: l5 is the first."""
    changed = list(GOOD)
    for key, line in lines.items():
        changed[int(key[1:]) - 5] = line
    return text_of(tuple(changed))


SECOND = NODES.replace('"nodes"', '"more"').replace('"node"', '"extra"')
SECOND_ROUTE = ROUTE.replace('"nodes"', '"more"').replace("nodenodes_router", "extramore_router")

#: Four hosts and a master in a row; its next line is 11.
_LINE = (
    *(f'<host id="n{i}" speed="1Gf"/>' for i in range(4)),
    f'<host id="boss" speed="1Gf"><prop id="role" value="master"/></host>{TRUNK}',
    "".join(
        f'<route src="{src}" dst="{dst}"><link_ctn id="trunk"/></route>'
        for src, dst in pairwise(("n0", "n1", "n2", "n3", "boss"))
    ),
)

DEFECTS = {
    "no master": Defect(_with(l6=FRONT.replace('"master"', '"compute_node"')), 0, "no master host"),
    "two masters": Defect(_with(l7=FRONT.replace('"front"', '"chief"').replace("boss", "chief")), 6, "2 master hosts"),
    "a role that does not exist": Defect(_with(l6=FRONT.replace('"master"', '"boss"')), 6, "has the role 'boss'"),
    "a host twice in a cluster": Defect(
        _with(l5=NODES.replace("100-103", "100-103,102-104")), 5, "host 'node102' already exists"
    ),
    "a host twice in two clusters": Defect(
        _with(l7=NODES.replace('"nodes"', '"more"')), 7, "host 'node100' already exists"
    ),
    "a zone twice": Defect(_with(l7=SECOND.replace('"more"', '"nodes"')), 7, "zone 'nodes' already exists"),
    "a link twice": Defect(_with(l8=TRUNK), 9, "link 'trunk' already exists (line 8)"),
    "a route twice": Defect(_with(l10=ROUTE + "\n" + ROUTE), 12, "a route from 'nodes' to 'front' already exists"),
    "a cluster without a route": Defect(_with(l7=SECOND), 7, "no path between the master 'boss0' and 'extra100'"),
    "no route at all": Defect(_with(l10=""), 5, "zone 'site' (line 4) has no route from 'front' to 'nodes'"),
    "an unknown gateway": Defect(
        _with(l10=ROUTE.replace("nodenodes_router", "nope")),
        10,
        "attribute gw_src: no host or router 'nope' is defined above",
    ),
    "an unknown zone": Defect(
        _with(l10=ROUTE + "\n" + ROUTE.replace('src="nodes"', 'src="nope"')),
        12,
        "attribute src: no zone 'nope' is defined above",
    ),
    "an unknown link": Defect(_with(l9=""), 10, "no link 'trunk' is defined above"),
    "a link behind its route": Defect(
        _with(l9="", l10=ROUTE + "\n" + TRUNK), 10, "no link 'trunk' is defined above", 2
    ),
    "a cluster behind a route": Defect(
        _with(l10=ROUTE + "\n" + SECOND + "\n" + SECOND_ROUTE), 12, "expected before the routes of its zone"
    ),
    "a route without links": Defect(_with(l10=ROUTE.replace('<link_ctn id="trunk"/>', "")), 10, "has no <link_ctn>"),
    "a speed that is no number": Defect(_with(l5=NODES.replace("1Gf", "abc")), 5, "attribute speed: expected speeds"),
    "a speed with an odd unit": Defect(_with(l5=NODES.replace("1Gf", "1Gif")), 5, "cannot read this speed"),
    "a speed of 0": Defect(_with(l5=NODES.replace("1Gf", "0f")), 5, "compute host 'node100' has speed 0"),
    "a negative speed": Defect(_with(l5=NODES.replace("1Gf", "-1f")), 5, "attribute speed: expected speeds"),
    "no bandwidth": Defect(_with(l5=NODES.replace('bw="1e300Bps" ', "")), 5, "has no attribute bw"),
    "a backbone without bandwidth": Defect(
        _with(l5=NODES.replace("<cluster", '<cluster bb_lat="1us"')), 0, "the backbone of <cluster id=nodes>"
    ),
    "a bandwidth of 0": Defect(_with(l5=NODES.replace("1e300Bps", "0Bps")), 0, "its bandwidth is 0"),
    "a radical of letters": Defect(_with(l5=NODES.replace("100-103", "a-b")), 5, "attribute radical: expected numbers"),
    "a radical that goes down": Defect(_with(l5=NODES.replace("100-103", "103-100")), 5, "ascending ranges"),
    "no cores": Defect(
        _with(l5=NODES.replace("<cluster", '<cluster core="0"')), 5, "attribute core: expected 1 or more"
    ),
    "a torus that is too large": Defect(
        _with(l5=NODES.replace("<cluster", '<cluster topology="TORUS" topo_parameters="2,2,2"')), 5, "which needs 8"
    ),
    "a torus with a router as its gateway": Defect(
        _with(l5=NODES.replace("<cluster", '<cluster topology="TORUS" topo_parameters="2,2,1"')),
        10,
        "no host or router 'nodenodes_router' is defined above",
    ),
    "no DOCTYPE": Defect(
        _with().replace('<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">', ""), 1, "DOCTYPE"
    ),
    "an unknown routing": Defect(text_of(GOOD, "Foo"), 4, "attribute routing: expected one of"),
    "an unknown element": Defect(_with(l7="<foo/>"), 7, "unknown element <foo>"),
    "an unknown attribute": Defect(
        _with(l5=NODES.replace("<cluster", '<cluster colour="red"')), 5, "an unknown attribute colour"
    ),
    "a property too late": Defect(_with(l7='<prop id="a" value="b"/>'), 7, "all properties of a zone before"),
    "an old version": Defect(_with().replace('version="4.1"', 'version="3"'), 3, "attribute version"),
    "a link without latency": Defect(_with(l9=TRUNK.replace(' latency="0"', "")), 9, "has no attribute latency"),
    "two bandwidths": Defect(_with(l9=TRUNK.replace("1e300Bps", "1MBps,2MBps")), 9, "expected one bandwidth"),
    "a split link by its bare name": Defect(
        _with(l9=TRUNK.replace("<link", '<link sharing_policy="SPLITDUPLEX"')), 10, "no link 'trunk' is defined above;"
    ),
    "half of a link that is not split": Defect(
        _with(l10=ROUTE.replace('id="trunk"/', 'id="trunk" direction="UP"/')), 10, "no link 'trunk_UP' is defined above"
    ),
    "a sharing policy that does not exist": Defect(
        _with(l9=TRUNK.replace("<link", '<link sharing_policy="shared"')), 9, "sharing_policy: expected one of"
    ),
    "neither yes nor no": Defect(
        _with(l10=ROUTE.replace("<zoneRoute", '<zoneRoute symmetrical="false"')), 10, "symmetrical: expected one of"
    ),
    "another DTD": Defect(
        _with().replace("https://simgrid.org/", "http://simgrid.org/"), 2, "DOCTYPE with the address"
    ),
    "settings behind a zone": Defect(
        _with().replace("</zone>", '</zone><config><prop id="contexts/stack-size" value="16"/></config>'),
        12,
        "expected before all zones",
    ),
    "a master where no message finds a way": Defect(
        _with(
            l6='<zone id="front" routing="None"><host id="boss" speed="1Gf">'
            '<prop id="role" value="master"/></host></zone>',
            l10=ROUTE.replace("bossfront_router", "boss"),
        ),
        6,
        "has routing None",
    ),
    "a place without coordinates": Defect(
        text_of(
            (
                '<host id="n0" speed="1Gf" coordinates="0 0 0"/>',
                '<host id="boss" speed="1Gf"><prop id="role" value="master"/></host>',
            ),
            "Vivaldi",
        ),
        6,
        "has no attribute coordinates",
    ),
    "a route to itself in both directions": Defect(
        text_of((*_LINE, '<route src="n0" dst="n0"><link_ctn id="trunk"/></route>'), "Floyd"),
        11,
        "a route from 'n0' to itself; expected symmetrical",
    ),
    "a route to itself in both directions, Dijkstra": Defect(
        text_of((*_LINE, '<route src="n0" dst="n0"><link_ctn id="trunk"/></route>'), "Dijkstra"),
        11,
        "a route from 'n0' to itself; expected symmetrical",
    ),
    "a Wifi link": Defect(
        text_of(
            (
                '<prop id="access_point" value="ap"/>',
                '<link id="ap" bandwidth="50MBps,20MBps" latency="0" sharing_policy="WIFI"/>',
                '<host id="n0" speed="1Gf"/><router id="r"/>',
                '<host id="boss" speed="1Gf"><prop id="role" value="master"/></host>',
            ),
            "Wifi",
        ),
        6,
        "Wifi links cannot be used with parallel tasks",
    ),
    "a Wifi link with two bandwidths in another zone": Defect(
        _with(l9=TRUNK.replace('"1e300Bps"', '"1e300Bps,1e300Bps"').replace("<link", '<link sharing_policy="WIFI"')),
        9,
        "expected one bandwidth",
    ),
    "an actor": Defect(
        _with().replace("</platform>", '<actor host="node100" function="f"/></platform>'), 13, "Batsim rejects actors"
    ),
    "a byte order mark": Defect("\ufeff" + _with(), 1, "byte order mark"),
    "cut off": Defect(_with()[:-40], 11, "the file ends inside <"),
}

HARMLESS = {
    "two clusters": _with(l7=SECOND, l10=ROUTE + "\n" + SECOND_ROUTE),
    "no declaration": _with().replace('<?xml version="1.0"?>\n', ""),
    "blanks before the declaration": "\n  " + _with(),
    "halves of a split link": _with(
        l9=TRUNK.replace("<link", '<link sharing_policy="SPLITDUPLEX"'),
        l10=ROUTE.replace('id="trunk"/', 'id="trunk" direction="UP"/'),
    ),
    "version 4": _with().replace('version="4.1"', 'version="4"'),
    "AS for zone": _with().replace("<zone ", "<AS ").replace("</zone>", "</AS>"),
    "Floyd": text_of(GOOD, "Floyd"),
    "Dijkstra": text_of(GOOD, "Dijkstra"),
    "DijkstraCache": text_of(GOOD, "DijkstraCache"),
    "a master of its own": _with(
        l6='<zone id="front" routing="Full"><host id="boss" speed="1Gf"><prop id="role" value="master"/></host></zone>',
        l10=ROUTE.replace("bossfront_router", "boss"),
    ),
    "a torus with a host as its gateway": _with(
        l5=NODES.replace("<cluster", '<cluster topology="TORUS" topo_parameters="2,2,1"'),
        l10=ROUTE.replace("nodenodes_router", "node100"),
    ),
    "hosts on one switch": text_of(
        (
            *(f'<host id="n{i}" speed="1Gf"><prop id="node" value="{i}"/></host>' for i in range(4)),
            '<host id="boss" speed="1Gf"><prop id="role" value="master"/></host>',
            TRUNK,
            *(f'<host_link id="{name}" up="trunk" down="trunk"/>' for name in ("n0", "n1", "n2", "n3", "boss")),
            '<router id="switch"/>',
        ),
        "Cluster",
    ),
    "hosts of a Full zone without routes": text_of(
        (
            *(f'<host id="n{i}" speed="1Gf"/>' for i in range(4)),
            '<host id="boss" speed="1Gf"><prop id="role" value="master"/></host>',
        )
    ),
    "a route to itself": text_of(
        (*_LINE, '<route src="n0" dst="n0" symmetrical="NO"><link_ctn id="trunk"/></route>'), "Floyd"
    ),
    "no backbone and no loopback": _with(
        l5=NODES.replace("<cluster", '<cluster bb_bw="0" bb_lat="0" loopback_bw="0" loopback_lat="0"')
    ),
    "coordinates": text_of(
        (
            *(f'<host id="n{i}" speed="1Gf" coordinates="0 0 0"/>' for i in range(4)),
            '<host id="boss" speed="1Gf" coordinates="0 0 0"><prop id="role" value="master"/></host>',
        ),
        "Vivaldi",
    ),
    "storage without a way": _with(
        l7='<zone id="disks" routing="Full"><host id="disk" speed="0f"><prop id="role" value="storage"/></host></zone>'
    ),
}

_PSTATES = NODES.replace("1Gf", "1Gf,1f,1f,1f")
_PROP = '><prop id="sleep_pstates" value="{}"/></cluster>'

#: The master's name where a file does not give the role.
MASTER = "node0"
#: What Batsim 4.2.1 takes without -E, and Batsim 5.0.0-rc2 on SimGrid 4.0 does not.
ONLY_BATSIM_4 = {
    "a torus in no zone": Defect(
        f'{HEAD}<cluster id="t" prefix="node" suffix="" radical="0-7" speed="1Gf" bw="1e300Bps" lat="0"'
        ' topology="TORUS" topo_parameters="2,2,2"/>\n</platform>\n',
        4,
        "<cluster id=t> of topology TORUS is not in a <zone>; expected one, as SimGrid 4 aborts without",
    ),
    "a network model": Defect(
        _with().replace("<zone ", '<config>\n<prop id="network/model" value="CM02"/></config>\n<zone ', 1),
        5,
        "<config> changes network/model; expected its default",
    ),
    "a zone with the id of SimGrid's own": Defect(
        _with().replace('id="site"', 'id="_world_"'), 4, "SimGrid 4 uses this id itself"
    ),
    "a pstate of speed 0": Defect(
        _with(l5=NODES.replace("1Gf", "1Gf,0f")), 5, "host 'node100': pstate 1 has speed 0; expected more"
    ),
    "sleep pstates that are no three": Defect(
        _with(l5=_PSTATES.replace("/>", _PROP.format("1:2"))), 5, "property sleep_pstates: expected the three pstates"
    ),
    "sleep pstates that do not exist": Defect(
        _with(l5=_PSTATES.replace("/>", _PROP.format("1:2:4"))), 5, "property sleep_pstates: expected pstates below 4"
    ),
}
