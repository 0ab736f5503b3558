"""Which elements a platform file may have, where, and with which attributes: SimGrid's DTD 4.1 as a table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shape:
    """An element: the attributes it must have, all that it may have, and the elements it may hold."""

    required: frozenset[str]
    attributes: frozenset[str]
    children: frozenset[str]


def _shape(required: str = "", optional: str = "", children: str = "") -> Shape:
    must = frozenset(required.split())
    return Shape(must, must | frozenset(optional.split()), frozenset(children.split()))


_TRACES = "trace trace_connect"
_ROUTES = "route bypassRoute zoneRoute ASroute bypassZoneRoute bypassASroute"
_HOSTS = "host cabinet router host_link storage storage_type"
_ZONES = "zone AS cluster peer"
_FILES = "speed_file availability_file state_file"
_GATEWAYS = "src dst gw_src gw_dst"
_ZONE = _shape("id routing", children=f"prop link backbone include {_ZONES} {_HOSTS} {_ROUTES} {_TRACES}")
_ROUTE = _shape("src dst", "symmetrical", "link_ctn")
_ZONE_ROUTE = _shape(_GATEWAYS, "symmetrical", "link_ctn")
_ACTOR = _shape("host function", "start_time kill_time on_failure", "argument prop")
_PROP = _shape("id value")

SHAPES: dict[str, Shape] = {
    "platform": _shape("version", children=f"config random include {_ZONES} cabinet {_TRACES} process actor"),
    "zone": _ZONE,
    "AS": _ZONE,
    "host": _shape("id speed", f"core coordinates pstate {_FILES}", "prop disk mount"),
    "cluster": _shape(
        "id prefix suffix radical speed bw lat",
        "core sharing_policy topology topo_parameters bb_bw bb_lat bb_sharing_policy router_id limiter_link loopback_bw"
        " loopback_lat",
        "prop",
    ),
    "cabinet": _shape("id prefix suffix radical speed bw lat"),
    "peer": _shape("id speed bw_in bw_out", f"lat coordinates {_FILES}"),
    "prop": _PROP,
    "link": _shape("id bandwidth", "latency bandwidth_file latency_file state_file sharing_policy", "prop"),
    "backbone": _shape("id bandwidth latency"),
    "host_link": _shape("id up down"),
    "router": _shape("id", "coordinates"),
    "route": _ROUTE,
    "bypassRoute": _ROUTE,
    "zoneRoute": _ZONE_ROUTE,
    "ASroute": _ZONE_ROUTE,
    "bypassZoneRoute": _ZONE_ROUTE,
    "bypassASroute": _ZONE_ROUTE,
    "link_ctn": _shape("id", "direction"),
    "disk": _shape("read_bw write_bw", "id", "prop"),
    "storage": _shape("id typeId attach", "content", "prop"),
    "storage_type": _shape("id size", "model content", "model_prop prop"),
    "mount": _shape("storageId name"),
    "model_prop": _PROP,
    "config": _shape("", "id", "prop"),
    "trace": _shape("id periodicity", "file"),
    "trace_connect": _shape("trace element", "kind"),
    "random": _shape("id min max mean std_deviation", "seed radical generator"),
    "include": _shape("file"),
    "actor": _ACTOR,
    "process": _ACTOR,
    "argument": _shape("value"),
}

#: What the embedded simulator has no use for, and what that means.
REMARKS: dict[str, str] = {
    "trace": "traces are not followed",
    "trace_connect": "traces are not followed",
    "config": "SimGrid's settings mean nothing here",
    "random": "ignored",
    "storage": "ignored; SimGrid 3.27 and later refuse it",
    "storage_type": "ignored; SimGrid 3.27 and later refuse it",
    "mount": "ignored; SimGrid 3.27 and later refuse it",
    "actor": "ignored here; Batsim refuses actors, having its own",
    "process": "ignored here; Batsim refuses actors, having its own",
}

#: Attributes that SimGrid's DTD lists the values of.
VALUES: dict[tuple[str, str], frozenset[str]] = {
    (tag, name): frozenset(values.split())
    for tags, name, values in (
        ("cluster", "sharing_policy", "SHARED SPLITDUPLEX FULLDUPLEX FATPIPE"),
        ("cluster", "bb_sharing_policy", "SHARED FATPIPE"),
        ("link", "sharing_policy", "SHARED SPLITDUPLEX FULLDUPLEX FATPIPE WIFI"),
        ("route ASroute zoneRoute", "symmetrical", "YES NO yes no"),
        ("link_ctn", "direction", "UP DOWN NONE"),
    )
    for tag in tags.split()
}
#: Where SimGrid's DTD may be, so that SimGrid itself takes the file.
DTDS = frozenset(("https://simgrid.org/simgrid.dtd", "http://simgrid.gforge.inria.fr/simgrid/simgrid.dtd"))
#: Elements that we read and Batsim refuses.
REFUSED = frozenset(("storage", "storage_type", "mount", "actor", "process"))
