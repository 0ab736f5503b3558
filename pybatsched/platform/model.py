"""A platform in memory: its hosts with the ids, names and properties that Batsim would tell the scheduler."""

from __future__ import annotations

import copyreg
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Self, TypeVar

from pybatsched.errors import InputError
from pybatsched.platform import energy
from pybatsched.platform.energy import SleepPstate, Wattage

T = TypeVar("T")

#: More hosts than any machine has; beyond it a file is a mistake or an attack.
MAX_HOSTS = 10_000_000
#: What Batsim takes for the master where nobody says otherwise.
DEFAULT_MASTER = "master_host"


def frozen(properties: Mapping[str, str]) -> MappingProxyType[str, str]:
    """Give properties that nobody can change."""
    return MappingProxyType(dict(properties))


# Python pickles no such mapping by itself, and platforms go to other processes: with an environment, say.
copyreg.pickle(MappingProxyType, lambda properties: (frozen, (dict(properties),)))

NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})
NO_ROLE: Mapping[str, str] = MappingProxyType({"role": ""})


@dataclass(frozen=True, slots=True)
class Host:
    """One host of the file.

    `speeds` are in flop/s, one for each pstate, and `pstate` is the one it starts in. `properties` are what Batsim
    forwards: the host's own, for hosts of a cluster the cluster's, and always `role`. `zone_properties` come from the
    zones around it, the innermost wins. `line` is where the file describes it. Hosts of one cluster share their
    mappings, which nobody can change.
    """

    name: str
    speeds: tuple[float, ...]
    n_cores: int = 1
    properties: Mapping[str, str] = field(default_factory=lambda: NO_ROLE)
    zone_properties: Mapping[str, str] = field(default_factory=lambda: NO_PROPERTIES)
    pstate: int = 0
    line: int = 0

    @property
    def role(self) -> str:
        """What the host is for: ``""`` or ``compute_node``, ``storage``, ``master``."""
        return self.properties["role"]

    @property
    def speed(self) -> float:
        """The speed of one core at the start, in flop/s."""
        return self.speeds[self.pstate]

    def wattages(self) -> tuple[Wattage, ...]:
        """Give what each pstate draws, by `wattage_per_state` (older: `watt_per_state`); nothing if it is not said."""
        name = "wattage_per_state" if "wattage_per_state" in self.properties else "watt_per_state"
        text = self.properties.get(name)
        return () if text is None else self._read(name, lambda: energy.wattages(text, len(self.speeds)))

    def wattage_off(self) -> float:
        """Give what the host draws when it is off, by `wattage_off` (older: `watt_off`); 0 if it is not said."""
        name = "wattage_off" if "wattage_off" in self.properties else "watt_off"
        text = self.properties.get(name)
        return 0.0 if text is None else self._read(name, lambda: energy.wattage_off(text))

    def sleep_pstates(self) -> tuple[SleepPstate, ...]:
        """Give the pstates in which the host can sleep, by `sleep_pstates`."""
        text = self.properties.get("sleep_pstates")
        if text is None:
            return ()
        return self._read("sleep_pstates", lambda: energy.sleep_pstates(text, len(self.speeds)))

    def computing_pstates(self) -> tuple[int, ...]:
        """Give the pstates in which the host computes: all that neither sleep nor stand for a way there and back."""
        others = {n for s in self.sleep_pstates() for n in (s.sleep, s.switch_off, s.switch_on)}
        return tuple(pstate for pstate in range(len(self.speeds)) if pstate not in others)

    def _read(self, name: str, read: Callable[[], T]) -> T:
        try:
            return read()
        except ValueError as error:
            where = f" (line {self.line})" if self.line else ""
            raise InputError(f"host {self.name!r}{where}, property {name}: expected {error}") from None


@dataclass(frozen=True, slots=True)
class Platform:
    """All hosts. The id of a host is its place in `hosts`: compute hosts first, then storage; the master has none.

    `hop_s` is the longest time that a message between the master and a host can spend on one link, in seconds; 0 if
    messages take no time, as the embedded simulator has it. `hop_at` names that link. `remarks` say what was
    read but means nothing here, or something else to Batsim; `refused` what of its network Batsim does not survive.
    """

    compute: tuple[Host, ...]
    storage: tuple[Host, ...]
    master: Host
    source: str
    hop_s: float = 0.0
    hop_at: str = ""
    remarks: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()

    def __deepcopy__(self, _memo: Any) -> Self:
        return self  # nobody can change it

    @property
    def n_procs(self) -> int:
        """How many compute hosts there are."""
        return len(self.compute)

    @property
    def hosts(self) -> tuple[Host, ...]:
        """All hosts with an id, by id. O(hosts)."""
        return self.compute + self.storage

    @property
    def network_note(self) -> str:
        """What to tell the user about the time messages take in Batsim; empty if they take none there either."""
        if not self.hop_s:
            return ""
        return (
            f"{self.source}: in Batsim, messages take time on this platform's network (up to {self.hop_s:.3g} s on"
            f" {self.hop_at}), so that times differ a little and events of one instant come apart; here they take none"
        )


def limit(platform: Platform, n_procs: int) -> Platform:
    """Keep the first hosts only, as Batsim's ``--mmax`` does; 0 keeps all. O(hosts)."""
    if n_procs == 0:
        return platform
    if not 0 < n_procs <= platform.n_procs:
        raise InputError(
            f"{platform.source}: cannot keep {n_procs} compute hosts; expected 1 to {platform.n_procs}, or 0 for all"
        )
    return dataclasses.replace(platform, compute=platform.compute[:n_procs])


def uniform(n_procs: int, speed: float = 1e9, properties: Sequence[Mapping[str, str]] = ()) -> Platform:
    """Make a platform of equal hosts without a file; names are of equal length, so ids follow their numbers. O(n).

    `properties` are those of the hosts, one mapping for each, or none.
    """
    if not 0 < n_procs <= MAX_HOSTS:
        raise InputError(f"a platform of {n_procs} processors; expected 1 to {MAX_HOSTS}")
    if not 0 < speed < math.inf:
        raise InputError(f"processors of speed {speed}; expected flop/s above 0")
    n_digits = len(str(n_procs - 1))
    speeds = (float(speed),)
    if properties and len(properties) != n_procs:
        raise InputError(f"properties of {len(properties)} hosts; expected those of {n_procs}, or none")
    own: list[Mapping[str, str]] = [MappingProxyType({**NO_ROLE, **said}) for said in properties]
    own = own or [NO_ROLE] * n_procs
    compute = tuple(Host(f"node{number:0{n_digits}}", speeds, properties=own[number]) for number in range(n_procs))
    master = Host(DEFAULT_MASTER, speeds, properties=MappingProxyType({"role": "master"}))
    return Platform(compute, (), master, f"{n_procs} equal processors")


def check_energy(platform: Platform) -> None:
    """Raise InputError unless every host can be simulated with energy, as Batsim checks it with ``-E``. O(hosts)."""
    for host in platform.hosts:
        try:
            if not host.wattages():
                raise InputError(f"host {host.name!r} (line {host.line}) has no property wattage_per_state")
            host.wattage_off()
            if host.role == "storage":
                continue
            for pstate in host.computing_pstates():
                if host.speeds[pstate] <= 0:
                    raise InputError(
                        f"host {host.name!r} (line {host.line}) computes in pstate {pstate}; expected a speed above 0"
                    )
        except InputError as error:
            raise InputError(f"{platform.source}: {error}") from None
