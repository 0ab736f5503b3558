"""A platform in memory: hosts with the ids, names and properties that Batsim sends to the scheduler."""

from __future__ import annotations

import copyreg
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pybatsched.errors import InputError, setting
from pybatsched.platform import energy
from pybatsched.platform.energy import SleepPstate, Wattage

if TYPE_CHECKING:
    from pybatsched.platform.network.zones import Network

T = TypeVar("T")

#: More hosts than any machine has. A larger file is a mistake or an attack.
MAX_HOSTS = 10_000_000
#: Batsim's default name of the master host.
DEFAULT_MASTER = "master_host"


def frozen(properties: Mapping[str, str]) -> MappingProxyType[str, str]:
    """Return a read-only copy of properties."""
    return MappingProxyType(dict(properties))


# Python cannot pickle a MappingProxyType, and platforms are sent to other processes, for example by gym environments.
copyreg.pickle(MappingProxyType, lambda properties: (frozen, (dict(properties),)))

NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})
NO_ROLE: Mapping[str, str] = MappingProxyType({"role": ""})


@dataclass(frozen=True, slots=True)
class Host:
    """One host of the file.

    `speeds` are in flop/s, one for each pstate; `pstate` is the initial one. `properties` are those that Batsim
    forwards: of the host or its cluster, and always `role`. `zone_properties` are those of the enclosing zones; inner
    zones override outer ones. `line` is the line in the file. Hosts of one cluster share their read-only mappings.
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
        """The role of the host: ``""`` or ``compute_node``, ``storage``, ``master``."""
        return self.properties["role"]

    @property
    def speed(self) -> float:
        """The speed of one core at the start, in flop/s."""
        return self.speeds[self.pstate]

    def wattages(self) -> tuple[Wattage, ...]:
        """Return the power of each pstate, from `wattage_per_state` (older: `watt_per_state`); empty without it."""
        name = "wattage_per_state" if "wattage_per_state" in self.properties else "watt_per_state"
        text = self.properties.get(name)
        return () if text is None else self._read(name, lambda: energy.wattages(text, len(self.speeds)))

    def wattage_off(self) -> float:
        """Return the power of the host when it is off, from `wattage_off` (older: `watt_off`); 0 without it."""
        name = "wattage_off" if "wattage_off" in self.properties else "watt_off"
        text = self.properties.get(name)
        return 0.0 if text is None else self._read(name, lambda: energy.wattage_off(text))

    def sleep_pstates(self) -> tuple[SleepPstate, ...]:
        """Return the sleep pstates of the host, from the property `sleep_pstates`."""
        text = self.properties.get("sleep_pstates")
        if text is None:
            return ()
        return self._read("sleep_pstates", lambda: energy.sleep_pstates(text, len(self.speeds)))

    def computing_pstates(self) -> tuple[int, ...]:
        """Return the pstates in which the host computes: all that are not for sleeping or switching."""
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
    """All hosts. The id of a host is its index in `hosts`: compute hosts first, then storage; the master has none.

    `hop_s` is the longest time in seconds of a message between the master and a host on one link, in Batsim; `hop_at`
    names that link. With the exact clock, messages take no time in the embedded simulator. `remarks` list content
    that the simulator ignores or that Batsim interprets differently; `refused` lists parts of the network on which
    Batsim would abort. `network` has the zones, links and routes of the file, for
    `pybatsched.platform.network.routes`; None without a file.
    """

    compute: tuple[Host, ...]
    storage: tuple[Host, ...]
    master: Host
    source: str
    hop_s: float = 0.0
    hop_at: str = ""
    remarks: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    network: Network | None = field(default=None, compare=False, repr=False)

    def __deepcopy__(self, _memo: Any) -> Self:
        return self  # it is immutable

    @property
    def n_procs(self) -> int:
        """The number of compute hosts."""
        return len(self.compute)

    @property
    def hosts(self) -> tuple[Host, ...]:
        """All hosts with an id, by id. O(hosts)."""
        return self.compute + self.storage

    @property
    def network_note(self) -> str:
        """A note for the user about the time of messages in Batsim; empty if they take none there either."""
        if not self.hop_s:
            return ""
        return (
            f"{self.source}: in Batsim, messages take time on this platform's network (up to {self.hop_s:.3g} s on"
            f" {self.hop_at}), so times differ a little and events of one instant are sent separately; in this "
            f"simulator messages take no time with the exact clock ({setting('clock', 'simgrid')} is as Batsim)"
        )


def limit(platform: Platform, n_procs: int) -> Platform:
    """Return the platform with only its first compute hosts, as Batsim's ``--mmax``; 0 keeps all. O(hosts)."""
    if n_procs == 0:
        return platform
    if not 0 < n_procs <= platform.n_procs:
        raise InputError(
            f"{platform.source}: cannot keep {n_procs} compute hosts; expected 1 to {platform.n_procs}, or 0 for all"
        )
    return dataclasses.replace(platform, compute=platform.compute[:n_procs])


def uniform(n_procs: int, speed: float = 1e9, properties: Sequence[Mapping[str, str]] = ()) -> Platform:
    """Return a platform of equal hosts without a file, with `properties` of each host, or none. O(n)."""
    if not 0 < n_procs <= MAX_HOSTS:
        raise InputError(f"expected 1 to {MAX_HOSTS:,} processors, found {n_procs:,}")
    if not 0 < speed < math.inf:
        raise InputError(f"expected a processor speed above 0 flop/s, found {speed}")
    n_digits = len(str(n_procs - 1))
    speeds = (float(speed),)
    if properties and len(properties) != n_procs:
        raise InputError(f"expected properties of {n_procs} hosts, or none, found those of {len(properties)}")
    own: list[Mapping[str, str]] = [MappingProxyType({**NO_ROLE, **given}) for given in properties]
    own = own or [NO_ROLE] * n_procs
    compute = tuple(Host(f"node{number:0{n_digits}}", speeds, properties=own[number]) for number in range(n_procs))
    master = Host(DEFAULT_MASTER, speeds, properties=MappingProxyType({"role": "master"}))
    return Platform(compute, (), master, f"{n_procs} equal processors")


def check_energy(platform: Platform) -> None:
    """Raise InputError unless every host has the properties that Batsim's ``-E`` needs. O(hosts)."""
    for host in platform.hosts:
        try:
            if not host.wattages():
                raise InputError(
                    f"host {host.name!r} (line {host.line}) has no property wattage_per_state; expected one"
                )
            host.wattage_off()
            if host.role == "storage":
                continue
            for pstate in host.computing_pstates():
                if host.speeds[pstate] <= 0:
                    raise InputError(
                        f"host {host.name!r} (line {host.line}): pstate {pstate} has speed 0; expected a speed above 0"
                    )
        except InputError as error:
            raise InputError(f"{platform.source}: {error}") from None
