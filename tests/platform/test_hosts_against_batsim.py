"""Compared with the real Batsim: the same hosts, ids and properties, and the same rejected files."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
from hypothesis import HealthCheck, given, settings, strategies as st
from support.examples import examples
from support.patience import PATIENCE_S, wait_until

from pybatsched.errors import InputError
from pybatsched.platform import model, xml
from pybatsched.platform.roles import read_roles

pytestmark = pytest.mark.batsim

LOOK_MS = 20
Begins = Callable[..., dict[str, Any] | None]


@pytest.fixture(scope="session")
def begins() -> Iterator[Callable[..., dict[str, Any] | None]]:
    """Run Batsim on a platform until its first message. Return SIMULATION_BEGINS' data; None if it fails."""
    context = zmq.Context()
    directory = Path(tempfile.mkdtemp())

    def run(text: str, *args: str) -> dict[str, Any] | None:
        (directory / "platform.xml").write_text(text, encoding="utf-8")
        with context.socket(zmq.REP) as socket:
            socket.setsockopt(zmq.LINGER, 0)
            endpoint = f"tcp://127.0.0.1:{socket.bind_to_random_port('tcp://127.0.0.1')}"
            # Dynamic jobs, because Batsim ends at once where there are neither jobs nor a chance of any.
            command = [
                "batsim", "-p", "platform.xml", "--enable-dynamic-jobs", "-s", endpoint, "-e", "out", "-q", *args,
            ]  # fmt: skip
            process = subprocess.Popen(command, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                wait_until(lambda: socket.poll(LOOK_MS) or process.poll() is not None)
                if not socket.poll(0):
                    return None
                data: dict[str, Any] = json.loads(socket.recv())["events"][0]["data"]
                return data
            finally:
                process.kill()
                process.wait(PATIENCE_S)

    yield run
    context.term()
    shutil.rmtree(directory)


HEAD = '<?xml version="1.0"?>\n<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n'
FRONT = """<cluster id="front" prefix="boss" suffix="" radical="0" speed="1Gf" bw="1e300Bps" lat="0"><prop id="role"
  value="master"/></cluster>"""


def cluster(radical: str = "0-2", speed: str = "1Gf", attributes: str = "", inside: str = "") -> str:
    attributes = f'speed="{speed}" bw="1e300Bps" lat="0" {attributes}'
    return f'<cluster id="n" prefix="n" suffix="" radical="{radical}" {attributes}>{inside}</cluster>'


def site(body: str) -> str:
    return f'<platform version="4.1"><zone id="site" routing="Full">{body}{FRONT}</zone></platform>'


def host(name: str, speed: str = "1Gf", attributes: str = "", inside: str = "") -> str:
    return f'<host id="{name}" speed="{speed}" coordinates="0 0 0" {attributes}>{inside}</host>'


def prop(key: str, value: str) -> str:
    return f'<prop id="{key}" value="{value}"/>'


def flat(*hosts: str) -> str:
    inside = "".join(hosts) + host("master_host")
    return f'<platform version="4.1"><zone id="s" routing="Vivaldi">{inside}</zone></platform>'


def option(args: list[str], name: str) -> list[str]:
    return [args[index + 1] for index, arg in enumerate(args) if arg == name]


def read(text: str, args: list[str]) -> model.Platform:
    master = (option(args, "-m") or [model.DEFAULT_MASTER])[0]
    platform = xml.parse(text.encode(), "p.xml", master=master, roles=read_roles(option(args, "-r")))
    if "-E" in args:
        model.check_energy(platform)
    return model.limit(platform, int((option(args, "--mmax") or ["0"])[0]))


def hosts_of(platform: model.Platform) -> list[tuple[Any, ...]]:
    return [(h.name, dict(h.properties), dict(h.zone_properties)) for h in platform.hosts]


def hosts_in(data: dict[str, Any]) -> list[tuple[Any, ...]]:
    resources = data["compute_resources"] + data["storage_resources"]
    assert [resource["id"] for resource in resources] == list(range(data["nb_resources"]))
    return [(r["name"], r["properties"], r["zone_properties"]) for r in resources]


TORUS = 'topology="TORUS" topo_parameters="2,2,2"'
WATTS = prop("wattage_per_state", "1:2:3,1:2:3,1:2:3,1:2:3")

READ: dict[str, tuple[str, list[str]]] = {
    "odd radical": (site(cluster("0-2,7,10-12,007")).replace(",007", ",107"), []),
    "zero padding": (site(cluster("0000-0011")), []),
    "spaces in a radical": (site(cluster(" 0 - 2 , 5")), []),
    "speeds": (site(cluster("0", " 1Gf , 2gigaflops,1e-9Mf,3")), []),
    "first pstate counts": (site(cluster("0", "1Gf,0f")), []),
    "two properties of one name": (site(cluster("0", inside=prop("x", "1") + prop("x", "2"))), []),
    "torus": (site(cluster("0-9", attributes=TORUS, inside=prop("x", "1"))), []),
    "version 4": (site(cluster()).replace('"4.1"', '"4"'), []),
    "entities": (flat(host("a", inside=prop("x", "&lt;&amp;&#65;&#x42;&quot;&apos;&gt;"))), []),
    "names as text": (flat(*(host(name) for name in ("b", "a10", "a9", "Z", "é", "a", "-", "\U0001f980", "￮"))), []),
    "storage": (flat(host("a"), *(host(n, "0f", "", prop("role", "storage")) for n in ("s2", "S1"))), []),
    "role compute_node": (flat(host("a", inside=prop("role", "compute_node"))), []),
    "empty role": (flat(host("a", inside=prop("role", ""))), []),
    "disk": (
        flat(host("a", inside=prop("x", "1") + '<disk id="d" read_bw="1Bps" write_bw="1Bps"/>' + prop("z", "3"))),
        [],
    ),
    "-m": (flat(host("a"), host("b")), ["-m", "a"]),
    "-r": (flat(host("a"), host("b"), host("c")), ["-r", "a,b:storage"]),
    "-r over the default master": (flat(host("a"), host("b")), ["-r", "master_host:storage", "-r", "a:master"]),
    "-r for nobody": (flat(host("a")), ["-r", "nobody:storage"]),
    "--mmax": (flat(host("a"), host("b"), host("c"), host("s", inside=prop("role", "storage"))), ["--mmax", "2"]),
    "peers": (
        '<platform version="4.1"><zone id="s" routing="Vivaldi">'
        + "".join(
            f'<peer id="{n}" speed="1Gf" bw_in="1e300Bps" bw_out="1e300Bps" coordinates="0 0 0"/>'
            for n in ("p", "master_host")
        )
        + "</zone></platform>",
        [],
    ),
    "cabinet": (
        site(
            '<zone id="t" routing="Cluster"><prop id="q" value="z"/><cabinet id="c" prefix="c" suffix="s" radical="0-1"'
            ' speed="1Gf" bw="1e300Bps" lat="0"/></zone>'
        ),
        [],
    ),
    "clusters at the top": (f'<platform version="4.1">{cluster("0-1")}</platform>', ["-m", "n0"]),
    "sleep": (flat(host("a", "1Gf,1f,1f,1f", "", WATTS + prop("sleep_pstates", " 1 :2:3"))), ["-E"]),
}

REFUSED: dict[str, tuple[str, list[str]]] = {
    "radical without end": (site(cluster("3-")), []),
    "empty radical": (site(cluster("")), []),
    "negative radical": (site(cluster("-1")), []),
    "radical beyond 32 bits": (site(cluster("3000000000")), []),
    "number twice": (site(cluster("0-2,1")), []),
    "name twice": (site(cluster("0") + cluster("0").replace('id="n"', 'id="m"')), []),
    "torus without enough hosts": (site(cluster("0-3", attributes=TORUS)), []),
    "unknown unit": (site(cluster("0", "1Xf")), []),
    "comma at the end": (site(cluster("0", "1Gf,")), []),
    "speed 0": (site(cluster("0", "0f")), []),
    "negative speed": (site(cluster("0", "-1Gf")), []),
    "no core": (site(cluster(attributes='core="0"')), []),
    "unknown attribute": (site(cluster(attributes='foo="0"')), []),
    "unknown element": (site("<foo/>" + cluster()), []),
    "hosts and clusters in one zone": (site(cluster() + '<host id="h" speed="1Gf"/>'), []),
    "clusters and hosts in one zone": (site('<host id="h" speed="1Gf"/>' + cluster()), []),
    "property after content": (site(cluster() + prop("x", "1")), []),
    "text": (flat("hello", host("a")), []),
    "unknown entity": (flat(host("a", inside=prop("x", "&foo;"))), []),
    "include": ('<platform version="4.1"><include file="x"/></platform>', []),
    "version 3": (site(cluster()).replace('"4.1"', '"3"'), []),
    "version 4.2": (site(cluster()).replace('"4.1"', '"4.2"'), []),
    "no version": (site(cluster()).replace(' version="4.1"', ""), []),
    "unknown routing": (site(cluster()).replace('"Full"', '"Empty"'), []),
    "pstate that is not there": (flat(host("a", "1Gf,1f", 'pstate="2"')), []),
    "first pstate without speed": (flat(host("a", "1Gf,0f", 'pstate="1"')), []),
    "unknown role": (flat(host("a", inside=prop("role", "cook"))), []),
    "two masters": (flat(host("a", inside=prop("role", "master"))), []),
    "role twice": (flat(host("a", inside=prop("role", "master"))), ["-m", "a"]),
    "no master": (flat(host("a")), ["-m", "nobody"]),
    "two roles": (flat(host("a"), host("b")), ["-r", "a:master,storage"]),
    "--mmax beyond": (flat(host("a")), ["--mmax", "2"]),
    "too many wattages": (flat(host("a", inside=WATTS)), ["-E"]),
    "wattages that are none": (flat(host("a", inside=prop("wattage_per_state", "1:two"))), ["-E"]),
    "no such sleep pstate": (flat(host("a", "1Gf,1f,1f,1f", "", WATTS + prop("sleep_pstates", "1:2:9"))), ["-E"]),
    "half a sleep pstate": (flat(host("a", "1Gf,1f,1f,1f", "", WATTS + prop("sleep_pstates", "1:2"))), ["-E"]),
    "pstate that computes without speed": (flat(host("a", "1Gf,0f", "", prop("wattage_per_state", "1:2,1:2"))), ["-E"]),
}


@pytest.mark.parametrize(("text", "args"), READ.values(), ids=READ)
def test_platforms_are_read_as_by_batsim(text: str, args: list[str], begins: Begins) -> None:
    data = begins(HEAD + text, *args)
    assert data is not None
    platform = read(HEAD + text, args)
    assert hosts_of(platform) == hosts_in(data)
    assert platform.n_procs == data["nb_compute_resources"]


@pytest.mark.parametrize(("text", "args"), REFUSED.values(), ids=REFUSED)
def test_platforms_are_rejected_as_by_batsim(text: str, args: list[str], begins: Begins) -> None:
    assert begins(HEAD + text, *args) is None
    with pytest.raises(InputError):
        read(HEAD + text, args)


@pytest.mark.parametrize("speed", ["1Gf 2Gf", "1kflops", "1Gif"])
def test_a_remark_warns_of_what_only_batsim_rejects(speed: str, begins: Begins) -> None:
    text = HEAD + site(cluster("0", speed))
    assert begins(text) is None
    assert "SimGrid cannot read this speed" in read(text, []).remarks[0]
    text = site(cluster("0"))
    assert begins(text) is None
    assert "the file has no DOCTYPE" in read(text, []).remarks[0]


WORDS = st.sampled_from(["a", "b", "x1", "x02", "Zed", "n-", "node.", "é"])
PROPS = st.dictionaries(
    st.sampled_from(["colour", "cores", "memory_gb", "node"]), st.sampled_from(["1", "2", "", "a b", "&lt;"])
)
RADICALS = st.lists(st.tuples(st.integers(0, 120), st.integers(0, 4)), min_size=1, max_size=3)


@st.composite
def zones(draw: st.DrawFn, depth: int = 0) -> str:
    """A zone of zones, clusters of all kinds and hosts; names are made unique by a counter put in later."""
    inside = "".join(prop(key, value) for key, value in draw(PROPS).items())
    kind = draw(st.sampled_from(["hosts", "zones"] if depth < 3 else ["hosts"]))
    if kind == "hosts":
        for name in draw(st.lists(WORDS, max_size=4)):
            props = "".join(prop(key, value) for key, value in draw(PROPS).items())
            role = draw(st.sampled_from(["", "", prop("role", "storage"), prop("role", "compute_node")]))
            inside += f'<host id="{name}#" speed="1Gf,2Mf" core="{draw(st.integers(1, 64))}">{props}{role}</host>'
        return f'<zone id="zone#" routing="Full">{inside}</zone>'
    for _ in range(draw(st.integers(0, 3))):
        if draw(st.booleans()):
            inside += draw(zones(depth=depth + 1))
            continue
        props = "".join(prop(key, value) for key, value in draw(PROPS).items())
        ranges = ",".join(f"{first}-{first + more}" if more else f"{first}" for first, more in draw(RADICALS))
        topology = draw(st.sampled_from(["", "", 'topology="TORUS" topo_parameters="1"', 'bb_bw="1GBps" bb_lat="1us"']))
        inside += (
            f'<cluster id="cluster#" prefix="{draw(WORDS)}#-" suffix="{draw(WORDS)}" radical="{ranges}" speed="1Gf"'
            f' bw="1GBps" lat="1us" {topology}>{props}</cluster>'
        )
    return f'<zone id="zone#" routing="Full">{inside}</zone>'


@settings(examples(40), suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(st.lists(zones(), min_size=1, max_size=3))
def test_random_platforms_are_read_as_by_batsim(begins: Begins, drawn: list[str]) -> None:
    pieces = "".join(drawn).split("#")
    body = "".join(f"{piece}{index}" for index, piece in enumerate(pieces[:-1])) + pieces[-1]
    text = HEAD + site(cluster("0-1", inside=prop("node", "own")) + body)
    data = begins(text)
    try:
        platform = read(text, [])
    except InputError as error:
        assert "already exists" in str(error)  # a number twice in a radical
        assert data is None
    else:
        assert data is not None
        assert hosts_of(platform) == hosts_in(data)
