"""Random platforms with slow links, workloads whose jobs communicate, and a scheduler that decides at random."""

from __future__ import annotations

import random
import re
from typing import Any

from support.fuzzer import Fuzzer, random_workload

N_PROCS = 8
HEAD = '<?xml version="1.0"?>\n<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n<platform version="4.1">\n'
CLUSTERS = {
    "cluster": "",
    "backbone": 'bb_bw="{}" bb_lat="20us" bb_sharing_policy="{}"',
    "shared": 'sharing_policy="SHARED" loopback_bw="1GBps" loopback_lat="0"',
    "limiter": 'limiter_link="60MBps"',
    "torus": 'topology="TORUS" topo_parameters="4,2"',
    "fat tree": 'topology="FAT_TREE" topo_parameters="2;4,2;1,2;1,2"',
    "dragonfly": 'topology="DRAGONFLY" topo_parameters="2,2;1,1;2,1;2"',
}
KINDS = [*CLUSTERS, "Full", "Floyd", "Dijkstra"]
MASTER = '<prop id="role" value="master"/>'
STORAGE = '<prop id="role" value="storage"/>'


def random_platform(dice: random.Random, kind: str) -> str:
    """Make a platform with 8 hosts, a master and two storage hosts."""
    latency, bandwidth = dice.choice(["0", "1us", "50us", "1ms"]), dice.choice(["125MBps", "1GBps", "10MBps"])
    to_master = dice.choice([("1e300Bps", "0"), ("125MBps", "50us")])
    if kind in CLUSTERS:
        return _clusters(dice, kind, (bandwidth, latency), to_master)
    return _one_zone(dice, kind, (bandwidth, latency), to_master)


def _clusters(dice: random.Random, kind: str, link: tuple[str, str], to_master: tuple[str, str]) -> str:
    more = CLUSTERS[kind].format(dice.choice(["300MBps", "1GBps"]), dice.choice(["SHARED", "FATPIPE"]))
    gateway = "node100" if "topology" in more else "nodenodes_router"
    text = _cluster("nodes", "node", "100-107", link, more=f'core="{dice.choice([1, 1, 4])}" {more}')
    text += _cluster("front", "boss", "0-0", to_master, MASTER)
    text += _cluster("store", "zdisk", "0-1", ("200MBps", "10us"), STORAGE)
    text += _link("trunk", *to_master) + _link("disk", "100MBps", "20us")
    for src, dst, way in (("nodes", "front", "trunk"), ("nodes", "store", "disk"), ("front", "store", "disk")):
        gateways = {"nodes": gateway, "front": "bossfront_router", "store": "zdiskstore_router"}
        ends = f'src="{src}" dst="{dst}" gw_src="{gateways[src]}" gw_dst="{gateways[dst]}"'
        text += f'<zoneRoute {ends}><link_ctn id="{way}"/></zoneRoute>\n'
    return f'{HEAD}<zone id="site" routing="Full">{text}</zone></platform>'


def _cluster(name: str, prefix: str, radical: str, link: tuple[str, str], prop: str = "", more: str = "") -> str:
    names = f'id="{name}" prefix="{prefix}" suffix="" radical="{radical}" speed="1Gf" bw="{link[0]}" lat="{link[1]}"'
    return f"<cluster {names} {more}>{prop}</cluster>\n"


def _one_zone(dice: random.Random, kind: str, link: tuple[str, str], to_master: tuple[str, str]) -> str:
    names = [*(f"node{100 + i}" for i in range(N_PROCS)), "boss", "zdisk0", "zdisk1"]
    roles = {"boss": MASTER, "zdisk0": STORAGE, "zdisk1": STORAGE}
    text = "".join(
        f'<host id="{name}" speed="{dice.choice(["1Gf", "1Gf", "2Gf"])}">{roles.get(name, "")}</host>\n'
        for name in names
    )
    text += "" if kind == "Full" else '<router id="hub"/>\n'
    own = {"boss": to_master, "zdisk0": ("50MBps", link[1]), "zdisk1": ("80MBps", link[1])}
    for name in names:
        text += _link(f"l{name}", *own.get(name, link), dice.choice(["SHARED", "SHARED", "FATPIPE"]))
    text += _link("split", *link, "SPLITDUPLEX")
    middle = '<link_ctn id="split" direction="UP"/>'
    if kind == "Full":
        for i, src in enumerate(names):
            for dst in names[i + 1 :]:
                way = f'<link_ctn id="l{src}"/>{middle if dice.random() < 0.3 else ""}<link_ctn id="l{dst}"/>'
                text += f'<route src="{src}" dst="{dst}">{way}</route>\n'
    else:
        text += "".join(f'<route src="{name}" dst="hub"><link_ctn id="l{name}"/></route>\n' for name in names)
        for src, dst in sorted({tuple(sorted(dice.sample(names[:N_PROCS], 2))) for _ in range(3)}):
            text += f'<route src="{src}" dst="{dst}">{middle}</route>\n'
    return f'{HEAD}<zone id="z" routing="{kind}">{text}</zone></platform>'


def _link(name: str, bandwidth: str, latency: str, policy: str = "SHARED") -> str:
    return f'<link id="{name}" bandwidth="{bandwidth}" latency="{latency}" sharing_policy="{policy}"/>\n'


def with_pstates(platform: str) -> str:
    """Give all hosts two speeds and their power."""
    power = '<prop id="wattage_per_state" value="100:120:200,80:90:150"/>'
    platform = re.sub(r'speed="(\d)Gf"', r'speed="\1Gf,0.5Gf"', platform)
    return re.sub(r"</(host|cluster)>", rf"{power}</\1>", platform)


def communicating_workload(seed: int, n_jobs: int) -> dict[str, Any]:
    """Make a workload of all kinds of profiles, most of which communicate."""
    dice = random.Random(seed)
    content = random_workload(seed, n_jobs, N_PROCS)
    profiles: dict[str, Any] = {}
    for i in range(4):
        cpu, com = dice.choice([0, 1e9, 2e9, 5e8]), dice.choice([1e6, 1e7, 5e7, 123456])
        profiles[f"h{i}"] = {"type": "parallel_homogeneous", "cpu": cpu, "com": com}
        profiles[f"t{i}"] = {"type": "parallel_homogeneous_total", "cpu": 4 * cpu, "com": 10 * com}
        reads, writes = dice.choice([0, 1e7, 3e7]), dice.choice([1e7, 2e7])
        storage = {"bytes_to_read": reads, "bytes_to_write": writes, "storage": "pfs"}
        profiles[f"f{i}"] = {"type": "parallel_homogeneous_pfs", **storage}
        n = dice.randint(1, 4)
        cpus, coms = [dice.choice([0, 1e9, 2e9]) for _ in range(n)], [dice.choice([0, 1e6, 2e7]) for _ in range(n * n)]
        profiles[f"m{n}_{i}"] = {"type": "parallel", "cpu": cpus, "com": coms}
        profiles[f"s{i}"] = {"type": "data_staging", "nb_bytes": dice.choice([1e7, 1e8]), "from": "pfs", "to": "hpst"}
    profiles["parts"] = {"type": "composed", "repeat": 2, "seq": ["h0", "d1", "f0", "h1"]}
    for job in content["jobs"]:
        if dice.random() < 0.6:
            name = job["profile"] = dice.choice(sorted(profiles))
            job["res"] = int(name[1]) if name[0] == "m" else dice.choice([1, 2, 4]) if name[0] == "t" else job["res"]
    content["profiles"] |= profiles
    return content


class NetworkFuzzer(Fuzzer):
    """Also gives jobs storage hosts, or an additional I/O job."""

    def __init__(self, seed: int, *, sharing: bool = False) -> None:
        super().__init__(seed, sharing=sharing)
        self.profiles: dict[str, str] = {}
        self.n_io = 0

    def _receive(self, kind: str, data: dict[str, Any]) -> None:
        super()._receive(kind, data)
        if kind == "JOB_SUBMITTED":
            self.profiles[data["job_id"]] = data["job"]["profile"]

    def _start(self, decide: Any) -> None:
        super()._start(lambda kind, data: decide(kind, data | self._more(data)))

    def _more(self, data: dict[str, Any]) -> dict[str, Any]:
        storage = [self.n_procs, self.n_procs + 1]
        if self.profiles[data["job_id"]][0] not in "ht" or self.dice.random() < 0.5:
            return {"storage_mapping": dict(zip(("pfs", "hpst"), storage, strict=True))}
        procs = [int(proc) for proc in data["alloc"].split()]
        some = self.dice.sample(procs, self.dice.randint(0, len(procs))) + self.dice.sample(storage, 1)
        n = len(some)
        self.n_io += 1
        com = [self.dice.choice([0, 1e6, 3e6]) if i != k else 0 for i in range(n) for k in range(n)]
        io = {"alloc": " ".join(map(str, sorted(some))), "profile_name": f"io{self.n_io}"}
        return {"additional_io_job": io | {"profile": {"type": "parallel", "cpu": [0] * n, "com": com}}}


class EnergyFuzzer(NetworkFuzzer):
    """Also changes pstates, of busy hosts as well, and asks for the consumed energy."""

    def _act(self, decide: Any, stamp: float) -> None:
        super()._act(decide, stamp)
        if self.dice.random() < 0.2:
            hosts = sorted(self.dice.sample(range(self.n_procs), self.dice.randint(1, 3)))
            decide(
                "SET_RESOURCE_STATE", {"resources": " ".join(map(str, hosts)), "state": self.dice.choice(["0", "1"])}
            )
        if self.dice.random() < 0.1:
            decide("QUERY", {"requests": {"consumed_energy": {}}})
