"""Power states and energy: the power of each host, and the time to switch it off and on.

The pstate of a host has three wattages: idle, epsilon and full. The power is the first without load; otherwise it
rises with the load from the second to the third. A switch to or from sleep uses a virtual pstate in which the host
computes one flop: its speed gives the time, and it counts as full load.

Meters are read as in Batsim: all of them at each start and end of a job; those of its hosts at the end of a task, and
at the start of a task on a single core. There are no other readings, so a new load is counted from the last reading
of its host's meter. This is visible in composed jobs that continue from a delay to a parallel part, on their hosts
and on the hosts of tasks that they slow down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from pybatsched.core.intervals import IntervalSet

if TYPE_CHECKING:
    from pybatsched.platform.energy import SleepPstate, Wattage
    from pybatsched.platform.model import Host

WAY_UP: Final = -1
WAY_DOWN: Final = -2


class _Account:
    """The pstate, the present power and the joules so far of one host."""

    __slots__ = ("computing", "joules", "load", "pstate", "since", "sleeps", "speeds", "wattages", "watts")

    def __init__(self, host: Host) -> None:
        self.speeds: Sequence[float] = host.speeds
        self.wattages: Sequence[Wattage] = host.wattages()
        self.sleeps: dict[int, SleepPstate] = {sleep.sleep: sleep for sleep in host.sleep_pstates()}
        self.computing = frozenset(host.computing_pstates())
        self.pstate = host.pstate
        self.load = 0.0
        self.watts = self.wattages[self.pstate].idle
        self.since = 0.0
        self.joules = 0.0

    def draw(self) -> float:
        wattage = self.wattages[self.pstate]
        return wattage.idle if self.load <= 0 else wattage.epsilon + self.load * (wattage.full - wattage.epsilon)


class Switch(NamedTuple):
    """One SET_RESOURCE_STATE in progress: all its hosts, and those that have not reached the pstate yet."""

    hosts: IntervalSet
    missing: set[int]
    pstate: int


class Power:
    """The pstates and energy of all hosts. Totals are O(1); the energy of a set of hosts is O(its size)."""

    def __init__(self, hosts: Sequence[Host], load_of: Callable[[int], float]) -> None:
        self._hosts = [_Account(host) for host in hosts]
        self._load_of = load_of
        self._total_j = 0.0
        self._total_watts = sum(host.watts for host in self._hosts)
        self._since = 0.0
        self.watts_min = sum(host.wattages[host.pstate].epsilon for host in self._hosts)
        self._fresh_at = 0.0  # when a meter was last updated, and how many meters were updated at that instant
        self._n_fresh = len(self._hosts)
        self._read_at = 0.0
        self.switches: list[Switch] = []
        self.n_grouped = 0
        self.n_machines = 0

    def pstate(self, host: int) -> int:
        """Return the present pstate of a host."""
        return self._hosts[host].pstate

    def speed(self, host: int) -> float:
        """Return the present speed of a host in flop/s."""
        account = self._hosts[host]
        return account.speeds[account.pstate]

    def is_sleep(self, host: int, pstate: int) -> bool:
        """Return whether a pstate of a host is a sleep pstate."""
        return pstate in self._hosts[host].sleeps

    def is_computation(self, host: int, pstate: int) -> bool:
        """Return whether a host can compute jobs in a pstate."""
        return pstate in self._hosts[host].computing

    def exists(self, host: int, pstate: int) -> bool:
        """Return whether a host has a pstate."""
        return 0 <= pstate < len(self._hosts[host].speeds)

    def switch_pstate(self, host: int, pstate: int) -> int:
        """Return the virtual pstate that a host has during a switch to or from sleep."""
        account = self._hosts[host]
        return (
            account.sleeps[pstate].switch_off if pstate in account.sleeps else account.sleeps[account.pstate].switch_on
        )

    def set_pstate(self, host: int, pstate: int, now: float) -> None:
        """Set the pstate of a host."""
        account = self._hosts[host]
        self.watts_min += account.wattages[pstate].epsilon - account.wattages[account.pstate].epsilon
        account.pstate = pstate
        self._update_meter(account, now)

    def set_load(self, host: int, load: float, now: float) -> None:
        """Set the load of a host, from 0 to 1; it counts from the last reading of the meter."""
        account = self._hosts[host]
        account.load = load
        self._apply_load(account, now)

    def loads_changed(self, hosts: Iterable[int], now: float) -> None:
        """Update the loads of these hosts."""
        for host in hosts:
            self.set_load(host, self._load_of(host), now)

    def read(self, hosts: Iterable[int], now: float) -> None:
        """Read the meters of these hosts and update their loads, after a task has ended on them."""
        for host in hosts:
            account = self._hosts[host]
            account.load = self._load_of(host)
            self._update_meter(account, now)

    def total_j(self, now: float) -> float:
        """Return the energy that all hosts have consumed since the start of the run."""
        return self._total_j + self._total_watts * (now - self._since)

    def is_stale(self, now: float, ending: Iterable[int] = ()) -> bool:
        """Return whether a meter has not been updated at this instant. A change of load or pstate updates a meter.

        Meters of hosts with a task that ends at this instant (`ending`) count as updated. In Batsim, reading other
        meters takes one scheduling round, in which other processes of the same instant run first.
        """
        if self._fresh_at != now:
            self._fresh_at, self._n_fresh = now, 0
        n_ending = sum(self._hosts[host].since != now for host in ending)
        return self._n_fresh + n_ending < len(self._hosts)

    def note_reading(self, now: float) -> None:
        """Record that all meters are read at this instant: later loads count from now."""
        self._read_at = now

    def read_all(self, now: float) -> None:
        """Update all meters, as Batsim does at each start and end."""
        self._fresh_at, self._n_fresh = now, len(self._hosts)
        self._read_at = now

    def joules_of(self, hosts: Iterable[int], now: float) -> float:
        """Return the energy that these hosts have consumed since the start of the run."""
        total = 0.0
        for host in hosts:
            account = self._hosts[host]
            total += account.joules + account.watts * (now - account.since)
        return total

    def _apply_load(self, account: _Account, now: float) -> None:
        """Set the power of a host from its present load, starting at the last reading."""
        read_at = max(account.since, self._read_at)
        account.joules += account.watts * (read_at - account.since)
        account.since = read_at
        watts = account.draw()
        self._total_j = self.total_j(now) + (watts - account.watts) * (now - read_at)
        self._since = now
        self._total_watts += watts - account.watts
        account.watts = watts

    def _update_meter(self, account: _Account, now: float) -> None:
        self._total_j = self.total_j(now)
        self._since = now
        account.joules += account.watts * (now - account.since)
        if self._fresh_at != now:
            self._fresh_at, self._n_fresh = now, 0
        self._n_fresh += account.since != now
        account.since = now
        watts = account.draw()
        self._total_watts += watts - account.watts
        account.watts = watts

    # --- switches ---

    def begin_switch(self, hosts: IntervalSet, pstate: int) -> None:
        """Record a request for a pstate."""
        self.switches.append(Switch(hosts, set(hosts), pstate))
        self.n_grouped += 1
        self.n_machines += len(hosts)

    def arrived(self, host: int, pstate: int) -> IntervalSet | None:
        """Record that a host has reached its pstate. Return all hosts of the request if it was the last of them."""
        for i, switch in enumerate(self.switches):
            if switch.pstate == pstate and host in switch.missing:
                switch.missing.remove(host)
                if switch.missing:
                    return None
                del self.switches[i]
                return switch.hosts
        return None
