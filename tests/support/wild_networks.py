"""Random platforms of many zones, workloads with uneven amounts, and a scheduler that uses everything at once."""

from __future__ import annotations

import random
from typing import Any

from support.networks import HEAD, MASTER, STORAGE, NetworkFuzzer, communicating_workload

STORING = ("parallel_homogeneous_pfs", "data_staging")
SEARCHED = ("Floyd", "Dijkstra", "DijkstraCache")
TOPOLOGIES = {
    2: ('topology="TORUS" topo_parameters="2"',),
    4: ('topology="TORUS" topo_parameters="2,2"', 'topology="FAT_TREE" topo_parameters="2;2,2;1,2;1,1"',
     'topology="FAT_TREE" topo_parameters="2;2,2;1,1;1,3"', 'topology="DRAGONFLY" topo_parameters="2,1;1,2;2,1;1"'),
    6: ('topology="TORUS" topo_parameters="3,2"', 'topology="TORUS" topo_parameters="6"',
     'topology="FAT_TREE" topo_parameters="1;6;1;1"', 'topology="FAT_TREE" topo_parameters="2;3,2;1,3;1,2"',
     'topology="DRAGONFLY" topo_parameters="2,1;1,1;3,2;1"'),
    8: ('topology="TORUS" topo_parameters="2,2,2"', 'topology="FAT_TREE" topo_parameters="3;2,2,2;1,2,1;1,1,2"',
     'topology="DRAGONFLY" topo_parameters="2,2;2,1;2,2;1"', 'topology="DRAGONFLY" topo_parameters="2,3;2,1;2,2;1"'),
}  # fmt: skip
FLAT = (
    "",
    'bb_bw="{bw}" bb_lat="{lat}"',
    'bb_bw="{bw}" bb_lat="{lat}" bb_sharing_policy="FATPIPE"',
    'sharing_policy="SHARED"',
    'sharing_policy="FATPIPE"',
    'limiter_link="{bw}"',
    'limiter_link="{bw}" bb_bw="{bw2}" bb_lat="{lat}" loopback_bw="{bw}" loopback_lat="{lat}"',
    'loopback_bw="{bw}" loopback_lat="0"',
)


class WildPlatform:
    """A platform of one to four zones of hosts; `text` is its file, `n_procs` its number of compute hosts.

    The outer zone has any routing with gateways. Inner zones are clusters of all topologies, zones of all routings,
    and zones in zones. Master and storage hosts are in zones of their own.
    """

    def __init__(self, dice: random.Random, *, energy: bool = False) -> None:
        self.dice = dice
        self.energy = energy
        self.n_procs = 0
        self.n_zones = 0
        self.n_links = 0
        self.has_fatpipes = dice.random() < 0.2
        self.inner: dict[str, list[list[str]]] = {}
        n_compute = dice.randint(1, 4)
        sizes = [2, 2, 4, 4, 6, 8] if n_compute < 3 else [2, 4]
        parts = [self._compute_zone(dice.choice(sizes)) for _ in range(n_compute)]
        parts.append(self._hosts_zone(["boss"], dice.choice(["Full", *SEARCHED]), MASTER))
        parts.append(self._hosts_zone(["zdisk0", "zdisk1"], dice.choice(["Full", *SEARCHED]), STORAGE))
        self.text = f"{HEAD}{self._joined(parts)}</platform>\n"

    # --- numbers ---

    def bandwidth(self) -> str:
        if self.dice.random() < 0.5:
            return self.dice.choice(["125MBps", "1GBps", "10MBps", "1Gbps", "12.5MBps"])
        return f"{self.dice.uniform(1, 300):.{self.dice.choice([1, 3, 9])}f}MBps"

    def latency(self) -> str:
        if self.dice.random() < 0.5:
            return self.dice.choice(["0", "0", "1us", "50us", "1ms", "20ns"])
        return f"{self.dice.uniform(0.5, 900):.{self.dice.choice([1, 3, 9])}f}us"

    @property
    def least(self) -> float:
        """The least number of bytes to send, other than 0, which SimGrid's solver can handle in time."""
        return 1e6 if self.has_fatpipes else 1.0

    def link(self, policy: str = "") -> str:
        """Return the text of a new link, after which its name is `l<n_links>`."""
        self.n_links += 1
        policy = policy or self.dice.choice(["SHARED"] * 3 + ["FATPIPE"] * self.has_fatpipes)
        return (
            f'<link id="l{self.n_links}" bandwidth="{self.bandwidth()}" latency="{self.latency()}" '
            f'sharing_policy="{policy}"/>\n'
        )

    def speeds(self) -> str:
        first = self.dice.choice(["1Gf", "1Gf", "2Gf", f"{self.dice.uniform(0.3, 3):.7f}Gf"])
        return f"{first},0.5Gf,{self.dice.uniform(0.1, 1):.4f}Gf" if self.energy else first

    def more_of_host(self, content: str) -> str:
        if self.energy:
            content += '<prop id="wattage_per_state" value="100:120:200,80:90:150,70.3:81.7:133.1"/>'
        return content

    # --- zones ---

    def name(self) -> str:
        self.n_zones += 1
        return f"z{self.n_zones}"

    def _compute_zone(self, n: int) -> tuple[str, list[str]]:
        """Return the text of a zone with n hosts, its name and its possible gateways."""
        kind = self.dice.choice(["flat", "topology", "hosts", "hosts", "star", "nested"])
        if kind == "nested" and n > 2:
            first = self._compute_zone(2)
            return self._nested([first, self._compute_zone(n - 2)])
        if kind in {"flat", "topology", "nested"}:
            return self._cluster(n, "topology" if kind == "topology" else "flat")
        names = [f"n{self.n_procs + i:03}" for i in range(n)]
        self.n_procs += n
        if kind == "star":
            return self._star(names)
        return self._hosts_zone(names, self.dice.choice(["Full", "Full", *SEARCHED]))

    def _cluster(self, n: int, kind: str) -> tuple[str, list[str]]:
        zone, first = self.name(), 100 + self.n_procs
        self.n_procs += n
        bw, bw2, lat = self.bandwidth(), self.bandwidth(), self.latency()
        if kind == "topology":
            more = self.dice.choice(TOPOLOGIES[n])
            more += self.dice.choice(["", ' sharing_policy="SHARED"', f' loopback_bw="{bw}" loopback_lat="{lat}"'])
            more += self.dice.choice(["", "", f' limiter_link="{bw2}"'])
            gateways = [f"n{first + i}" for i in range(n)]
        else:
            choices = [flat for flat in FLAT if self.has_fatpipes or "FATPIPE" not in flat]
            more = self.dice.choice(choices).format(bw=bw, bw2=bw2, lat=lat)
            gateways = [f"n{zone}_router"]
        core = self.dice.choice([1, 1, 1, 4])
        text = (
            f'<cluster id="{zone}" prefix="n" suffix="" radical="{first}-{first + n - 1}" speed="{self.speeds()}" '
            f'bw="{self.bandwidth()}" lat="{self.latency()}" core="{core}" {more}>{self.more_of_host("")}</cluster>\n'
        )
        return text, [zone, *gateways]

    def _star(self, names: list[str]) -> tuple[str, list[str]]:
        zone = self.name()
        text = "".join(self._host(name) for name in names)
        for name in names:
            if self.dice.random() < 0.5:
                text += self.link("SPLITDUPLEX")
                up, down = f"l{self.n_links}_UP", f"l{self.n_links}_DOWN"
            else:
                text += self.link()
                up = down = f"l{self.n_links}"
            text += f'<host_link id="{name}" up="{up}" down="{down}"/>\n'
        text += f'<router id="r{zone}"/>\n'
        if self.dice.random() < 0.5:
            text += f'<backbone id="b{zone}" bandwidth="{self.bandwidth()}" latency="{self.latency()}"/>\n'
        return f'<zone id="{zone}" routing="Cluster">\n{text}</zone>\n', [zone, f"r{zone}"]

    def _host(self, name: str, content: str = "") -> str:
        core = f' core="{self.dice.choice([2, 4])}"' if self.dice.random() < 0.2 else ""
        return f'<host id="{name}" speed="{self.speeds()}"{core}>{self.more_of_host(content)}</host>\n'

    def _hosts_zone(self, names: list[str], routing: str, content: str = "") -> tuple[str, list[str]]:
        """Make a zone of single hosts, with routes that may differ by direction."""
        zone = self.name()
        text = "".join(self._host(name, content) for name in names)
        points = list(names)
        if routing != "Full" or self.dice.random() < 0.5:
            points.append(f"r{zone}")
            text += f'<router id="r{zone}"/>\n'
        pairs = [(a, b) for i, a in enumerate(points) for b in points[i + 1 :]]
        if routing != "Full":
            spine = [(points[self.dice.randrange(i)], points[i]) for i in range(1, len(points))]
            pairs = sorted({*spine, *self.dice.sample(pairs, min(len(pairs), self.dice.randint(0, 4)))})
        usable: list[str] = []
        routes = ""
        for src, dst in pairs:
            ways = [(src, dst, "")]
            if self.dice.random() < 0.25:
                ways = [(src, dst, ' symmetrical="NO"'), (dst, src, ' symmetrical="NO"')]
            for a, b, more in ways:
                links, made = self._links_of_route(usable)
                text += made
                routes += f'<route src="{a}" dst="{b}"{more}>{links}</route>\n'
        if len(names) > 1 and self.dice.random() < 0.2:
            links, made = self._links_of_route(usable)
            text += made
            routes += f'<bypassRoute src="{names[0]}" dst="{names[-1]}">{links}</bypassRoute>\n'
        return f'<zone id="{zone}" routing="{routing}">\n{text}{routes}</zone>\n', [zone, *points]

    def _links_of_route(self, usable: list[str]) -> tuple[str, str]:
        """Return the links of a route and the text of those that are new. Routes share links."""
        made, links = "", ""
        for _ in range(self.dice.choice([1, 1, 2, 3])):
            if not usable or self.dice.random() < 0.5:
                split = self.dice.random() < 0.3
                made += self.link("SPLITDUPLEX" if split else "")
                usable.append(f"l{self.n_links}" + (" " if split else ""))
            name = self.dice.choice(usable)
            direction = f' direction="{self.dice.choice(["UP", "DOWN"])}"' if name.endswith(" ") else ""
            links += f'<link_ctn id="{name.strip()}"{direction}/>'
        return links, made

    def _nested(self, parts: list[tuple[str, list[str]]]) -> tuple[str, list[str]]:
        text, gateways = self._joined_as(self.name(), parts)
        return text, gateways

    def _joined(self, parts: list[tuple[str, list[str]]]) -> str:
        return self._joined_as(self.name(), parts)[0]

    def _zone_inside(self, names: list[str]) -> tuple[str, str]:
        """Return a zone, or one inside it, and a gateway of it."""
        while self.inner.get(names[0]) and self.dice.random() < 0.5:
            names = self.dice.choice(self.inner[names[0]])
        return names[0], self.dice.choice(names[1:])

    def _joined_as(self, zone: str, parts: list[tuple[str, list[str]]]) -> tuple[str, list[str]]:
        """Make a zone of zones, with routes between gateways."""
        routing = self.dice.choice(["Full", *SEARCHED])
        text = "".join(part for part, _ in parts)
        pairs = [(a, b) for i, (_, a) in enumerate(parts) for _, b in parts[i + 1 :]]
        if routing != "Full":
            known = [names for _, names in parts]
            spine = [(known[self.dice.randrange(i)], known[i]) for i in range(1, len(known))]
            pairs = spine + [pair for pair in pairs if pair not in spine and self.dice.random() < 0.3]
        gateway = {names[0]: self.dice.choice(names[1:]) for _, names in parts}
        usable: list[str] = []
        routes = ""
        for a, b in pairs:
            ends = [gateway[names[0]] for names in (a, b)]
            if routing in {"Full", "Floyd"}:
                ends = [self.dice.choice(names[1:]) for names in (a, b)]
            links, made = self._links_of_route(usable)
            text += made
            given = f'src="{a[0]}" dst="{b[0]}" gw_src="{ends[0]}" gw_dst="{ends[1]}"'
            routes += f"<zoneRoute {given}>{links}</zoneRoute>\n"
        for a, b in self.dice.sample(pairs, 1 if self.dice.random() < 0.3 else 0):
            links, made = self._links_of_route(usable)
            text += made
            src, dst = (self._zone_inside(names) for names in (a, b))
            given = f'src="{src[0]}" dst="{dst[0]}" gw_src="{src[1]}" gw_dst="{dst[1]}"'
            routes += f"<bypassZoneRoute {given}>{links}</bypassZoneRoute>\n"
        gateways = [name for _, names in parts for name in names[1:]]
        self.inner[zone] = [names for _, names in parts]
        return f'<zone id="{zone}" routing="{routing}">\n{text}{routes}</zone>\n', [zone, *gateways]


def wild_profile(dice: random.Random, n: int, least: float) -> dict[str, Any]:
    """Make a profile of a job with n executors, with uneven amounts of bytes, at least `least` or none.

    With fat pipes and very different amounts, SimGrid's solver takes minutes.
    """
    cpu = dice.choice([0, 1e9, dice.uniform(1, 5e9), round(dice.uniform(1e8, 3e9), 3)])
    com = dice.choice([0, least, 1e6, dice.uniform(least, 3e7), float(dice.randint(int(least), 10**8))])
    kind = dice.choice(["h", "t", "m", "m", "f", "s"])
    if kind == "h":
        return {"type": "parallel_homogeneous", "cpu": cpu, "com": com}
    if kind == "t":
        return {"type": "parallel_homogeneous_total", "cpu": n * cpu, "com": n * com}
    if kind == "f":
        fields = {"bytes_to_read": com, "bytes_to_write": dice.choice([0, 1e7, dice.uniform(least, 2e7)])}
        return {"type": "parallel_homogeneous_pfs", "storage": dice.choice(["pfs", "hpst"]), **fields}
    if kind == "s":
        ends = {"from": dice.choice(["pfs", "hpst"]), "to": dice.choice(["pfs", "hpst"])}
        return {"type": "data_staging", "nb_bytes": com, **ends}
    cpus = [dice.choice([0, cpu, dice.uniform(0, 2e9)]) for _ in range(n)]
    coms = [dice.choice([0, 0, com, dice.uniform(least, 1e7)]) for _ in range(n * n)]
    return {"type": "parallel", "cpu": cpus, "com": coms}


def wild_workload(seed: int, n_jobs: int, n_procs: int, least: float) -> dict[str, Any]:
    """Make a workload with uneven amounts and instants: all profiles, matrices in (nested) composed ones, messages."""
    dice = random.Random(seed)
    content = communicating_workload(seed, n_jobs)
    profiles = content["profiles"]
    profiles["tell"] = {"type": "send", "msg": {"x": 1}, "sleeptime": 0.125}
    at = 0.0
    for job in content["jobs"]:
        at += dice.choice([0, 0, 0.5, dice.uniform(0, 3), 1e-6])
        job["subtime"] = at
        if dice.random() < 0.7:
            n = job["res"] = dice.randint(1, n_procs)
            own = f"own{job['id']}"
            profiles[own] = wild_profile(dice, n, least)
            job["profile"] = own
            if dice.random() < 0.35:
                profiles[f"{own}b"] = wild_profile(dice, n, least)
                parts = [own, dice.choice(["d1", "tell", "nothing", own]), f"{own}b"]
                profiles[f"{own}c"] = {"type": "composed", "repeat": dice.choice([1, 2, 3]), "seq": parts}
                job["profile"] = f"{own}c"
                if dice.random() < 0.3:
                    profiles[f"{own}d"] = {"type": "composed", "repeat": 2, "seq": ["h1", f"{own}c", "f1"]}
                    job["profile"] = f"{own}d"
        if "walltime" in job and dice.random() < 0.5:
            job["walltime"] = dice.choice([dice.uniform(0.01, 20), 1e5])
    return content


class WildFuzzer(NetworkFuzzer):
    """Also maps executors to processors, registers jobs that communicate, and changes pstates."""

    def __init__(
        self, seed: int, profiles: dict[str, Any], least: float, *, dynamic: bool, sharing: bool, energy: bool
    ) -> None:
        super().__init__(seed, sharing=sharing)
        self.without_storage = {
            name for name, profile in profiles.items() if profile["type"] not in {*STORING, "composed"}
        }
        self.least = least
        self.dynamic = dynamic
        self.energy = energy

    def _more(self, data: dict[str, Any]) -> dict[str, Any]:
        """Batsim accepts one of: a mapping, a storage mapping, an additional I/O job."""
        n = len(data["alloc"].split())
        if self.dice.random() < 0.3 and self.profiles[data["job_id"]] in self.without_storage:
            return {"mapping": {str(i): str(self.dice.randrange(n)) for i in range(n)}}
        return super()._more(data)

    def _act(self, decide: Any, stamp: float) -> None:
        super()._act(decide, stamp)
        if self.energy and self.dice.random() < 0.2:
            hosts = sorted(self.dice.sample(range(self.n_procs), self.dice.randint(1, 2)))
            state = self.dice.choice(["0", "1", "2"])
            decide("SET_RESOURCE_STATE", {"resources": " ".join(map(str, hosts)), "state": state})
        if self.energy and self.dice.random() < 0.1:
            decide("QUERY", {"requests": {"consumed_energy": {}}})

    def _register(self, decide: Any, stamp: float) -> None:
        self.n_registered += 1
        name, n = str(self.n_registered), self.dice.randint(1, min(self.n_procs, 4))
        profile = wild_profile(self.dice, n, self.least)
        decide("REGISTER_PROFILE", {"workload_name": "dyn", "profile_name": f"q{name}", "profile": profile})
        job = {"id": name, "subtime": stamp, "res": n, "profile": f"q{name}", "walltime": self.dice.choice([3, 10, 99])}
        decide("REGISTER_JOB", {"job_id": f"dyn!{name}", "job": job})
        self.profiles[f"dyn!{name}"] = f"q{name}"
        if profile["type"] not in STORING:
            self.without_storage.add(f"q{name}")
        if not self.acknowledged:
            self.waiting[f"dyn!{name}"] = n
