"""The elements of a platform file, with their attributes and children: SimGrid's DTD 4.1 as a table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ElementSchema:
    """An element: its required attributes, all its attributes, and its allowed children."""

    required: frozenset[str]
    attributes: frozenset[str]
    children: frozenset[str]


def _schema(required: str = "", optional: str = "", children: str = "") -> ElementSchema:
    must = frozenset(required.split())
    return ElementSchema(must, must | frozenset(optional.split()), frozenset(children.split()))


_TRACES = "trace trace_connect"
_ROUTES = "route bypassRoute zoneRoute ASroute bypassZoneRoute bypassASroute"
_HOSTS = "host cabinet router host_link storage storage_type"
_ZONES = "zone AS cluster peer"
_FILES = "speed_file availability_file state_file"
_GATEWAYS = "src dst gw_src gw_dst"
_ZONE = _schema("id routing", children=f"prop link backbone include {_ZONES} {_HOSTS} {_ROUTES} {_TRACES}")
_ROUTE = _schema("src dst", "symmetrical", "link_ctn")
_ZONE_ROUTE = _schema(_GATEWAYS, "symmetrical", "link_ctn")
_ACTOR = _schema("host function", "start_time kill_time on_failure", "argument prop")
_PROP = _schema("id value")

SCHEMAS: dict[str, ElementSchema] = {
    "platform": _schema("version", children=f"config random include {_ZONES} cabinet {_TRACES} process actor"),
    "zone": _ZONE,
    "AS": _ZONE,
    "host": _schema("id speed", f"core coordinates pstate {_FILES}", "prop disk mount"),
    "cluster": _schema(
        "id prefix suffix radical speed bw lat",
        "core sharing_policy topology topo_parameters bb_bw bb_lat bb_sharing_policy router_id limiter_link loopback_bw"
        " loopback_lat",
        "prop",
    ),
    "cabinet": _schema("id prefix suffix radical speed bw lat"),
    "peer": _schema("id speed bw_in bw_out", f"lat coordinates {_FILES}"),
    "prop": _PROP,
    "link": _schema("id bandwidth", "latency bandwidth_file latency_file state_file sharing_policy", "prop"),
    "backbone": _schema("id bandwidth latency"),
    "host_link": _schema("id up down"),
    "router": _schema("id", "coordinates"),
    "route": _ROUTE,
    "bypassRoute": _ROUTE,
    "zoneRoute": _ZONE_ROUTE,
    "ASroute": _ZONE_ROUTE,
    "bypassZoneRoute": _ZONE_ROUTE,
    "bypassASroute": _ZONE_ROUTE,
    "link_ctn": _schema("id", "direction"),
    "disk": _schema("read_bw write_bw", "id", "prop"),
    "storage": _schema("id typeId attach", "content", "prop"),
    "storage_type": _schema("id size", "model content", "model_prop prop"),
    "mount": _schema("storageId name"),
    "model_prop": _PROP,
    "config": _schema("", "id", "prop"),
    "trace": _schema("id periodicity", "file"),
    "trace_connect": _schema("trace element", "kind"),
    "random": _schema("id min max mean std_deviation", "seed radical generator"),
    "include": _schema("file"),
    "actor": _ACTOR,
    "process": _ACTOR,
    "argument": _schema("value"),
}

#: Elements that the embedded simulator ignores, and what this means.
REMARKS: dict[str, str] = {
    "trace": "traces are ignored",
    "trace_connect": "traces are ignored",
    "config": "settings of SimGrid are ignored",
    "random": "ignored",
    "storage": "ignored; SimGrid 3.27 and later reject it",
    "storage_type": "ignored; SimGrid 3.27 and later reject it",
    "mount": "ignored; SimGrid 3.27 and later reject it",
    "actor": "ignored by this simulator; Batsim rejects actors",
    "process": "ignored by this simulator; Batsim rejects actors",
}

#: The settings of SimGrid that change the times of jobs in Batsim, and their defaults.
SETTINGS: dict[str, float | str] = {
    "host/solver": "fairbottleneck",
    "maxmin/concurrency-limit": -1,
    "maxmin/precision": 1e-5,  # an older name of precision/work-amount
    "network/TCP-gamma": 4194304,
    "network/loopback-bw": 1e10,
    "network/loopback-lat": 0,
    "precision/timing": 1e-9,
    "precision/work-amount": 1e-5,
    "surf/precision": 1e-9,  # an older name of precision/timing
}

#: The allowed values of attributes, where SimGrid's DTD lists them.
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
#: The addresses of the DTD that SimGrid accepts.
DTDS = frozenset(("https://simgrid.org/simgrid.dtd", "http://simgrid.gforge.inria.fr/simgrid/simgrid.dtd"))
#: Elements that can be read and that Batsim rejects.
REFUSED = frozenset(("storage", "storage_type", "mount", "actor", "process"))
