"""How large the hosts of a platform are, in cores: what sizes of jobs in cores are divided by."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from pybatsched.errors import InputError
from pybatsched.platform.groups import property_of
from pybatsched.platform.model import Host, Platform


class HostSize(NamedTuple):
    """Cores of the usual host (of equals in number, the first), compute hosts, and the cores of them all."""

    n_cores: int
    n_hosts: int
    n_cores_in_all: int


def host_size(platform: Platform) -> HostSize:
    """Count cores by the property `cores` of hosts or zones, else by the attribute `core` of hosts. O(hosts)."""
    cores = [_cores(platform, host) for host in platform.compute]
    return HostSize(Counter(cores).most_common(1)[0][0], len(cores), sum(cores))


class UsualHost(NamedTuple):
    """The host that most are like: the speed of a core in flop/s, its cores, and how many hosts have another speed."""

    speed: float
    n_cores: int
    n_others: int


def usual_host(platform: Platform) -> UsualHost:
    """Tell how fast most hosts are, as they begin; of equals in number, the first. O(hosts)."""
    kinds = Counter((host.speed, host.n_cores) for host in platform.compute)
    speed, n_cores = kinds.most_common(1)[0][0]
    return UsualHost(speed, n_cores, sum(host.speed != speed for host in platform.compute))


def _cores(platform: Platform, host: Host) -> int:
    text = property_of(host, "cores")
    if text is None:
        return host.n_cores
    if not text.isascii() or not text.isdigit() or len(text) > 20 or not 0 < int(text) < 1 << 31:
        where = f" (line {host.line})" if host.line else ""
        raise InputError(
            f"{platform.source}: host {host.name[:60]!r}{where}, property cores: expected a whole number from 1, "
            f"found {text[:40]!r}"
        )
    return int(text)
