"""Power states and energy: what each host draws, and how long it takes to fall asleep and to wake.

A host draws what its present pstate says: the first of three numbers while it does nothing, else from the second one up
to the third one with its load. Going to sleep and waking up pass through a virtual pstate in which one flop is
computed: its speed gives the time, and it counts as full load.

Meters are read as under Batsim: at each start and end of a job all of them, at the end of work those of its hosts, and
at its beginning if that is on a single core. Else nobody reads, so a load, higher or lower than before, is billed as if
it had begun when its host's meter was last read. It shows in composed jobs that go from a delay to a parallel part, on
their hosts and on those of the tasks that are slowed down by them.
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
    """One host's pstate, present draw, and joules so far."""

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
    """One SET_RESOURCE_STATE under way: all its hosts, and those that are not there yet."""

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
        self._fresh_at = 0.0  # when a meter was last brought up to date, and how many were at that instant
        self._n_fresh = len(self._hosts)
        self._read_at = 0.0
        self.switches: list[Switch] = []
        self.n_grouped = 0
        self.n_machines = 0

    def pstate(self, host: int) -> int:
        """Give a host's present pstate."""
        return self._hosts[host].pstate

    def speed(self, host: int) -> float:
        """Give a host's present speed in flop/s."""
        account = self._hosts[host]
        return account.speeds[account.pstate]

    def is_sleep(self, host: int, pstate: int) -> bool:
        """Tell whether a host sleeps in a pstate."""
        return pstate in self._hosts[host].sleeps

    def is_computation(self, host: int, pstate: int) -> bool:
        """Tell whether a host can compute jobs in a pstate."""
        return pstate in self._hosts[host].computing

    def exists(self, host: int, pstate: int) -> bool:
        """Tell whether a host has a pstate."""
        return 0 <= pstate < len(self._hosts[host].speeds)

    def way(self, host: int, pstate: int) -> int:
        """Give the virtual pstate on the way of a host to or from sleep."""
        account = self._hosts[host]
        return (
            account.sleeps[pstate].switch_off if pstate in account.sleeps else account.sleeps[account.pstate].switch_on
        )

    def set_pstate(self, host: int, pstate: int, now: float) -> None:
        """Let a host have another pstate."""
        account = self._hosts[host]
        self.watts_min += account.wattages[pstate].epsilon - account.wattages[account.pstate].epsilon
        account.pstate = pstate
        self._draw_anew(account, now)

    def set_load(self, host: int, load: float, now: float) -> None:
        """Let a host be used to another degree, from 0 to 1; it counts from the last reading on."""
        account = self._hosts[host]
        account.load = load
        self._bill_back(account, now)

    def loads_changed(self, hosts: Iterable[int], now: float) -> None:
        """Look at the loads of these hosts again."""
        for host in hosts:
            self.set_load(host, self._load_of(host), now)

    def read(self, hosts: Iterable[int], now: float) -> None:
        """Read the meters of these hosts, and look at their loads again: something has ended there."""
        for host in hosts:
            account = self._hosts[host]
            account.load = self._load_of(host)
            self._draw_anew(account, now)

    def total_j(self, now: float) -> float:
        """Give the energy all hosts have consumed since the beginning."""
        return self._total_j + self._total_watts * (now - self._since)

    def is_stale(self, now: float, ending: Iterable[int] = ()) -> bool:
        """Tell whether some meter is not up to date: all are whose host has just changed its load or pstate.

        So are, as good as, those of hosts with a task that is ending just now. Reading a stale one takes Batsim a
        moment, in which others of the same instant go first.
        """
        if self._fresh_at != now:
            self._fresh_at, self._n_fresh = now, 0
        n_ending = sum(self._hosts[host].since != now for host in ending)
        return self._n_fresh + n_ending < len(self._hosts)

    def note_reading(self, now: float) -> None:
        """Bill from now on: all meters are being read at this instant."""
        self._read_at = now

    def read_all(self, now: float) -> None:
        """Bring all meters up to date, as Batsim does at each start and end."""
        self._fresh_at, self._n_fresh = now, len(self._hosts)
        self._read_at = now

    def joules_of(self, hosts: Iterable[int], now: float) -> float:
        """Give the energy these hosts have consumed since the beginning."""
        total = 0.0
        for host in hosts:
            account = self._hosts[host]
            total += account.joules + account.watts * (now - account.since)
        return total

    def _bill_back(self, account: _Account, now: float) -> None:
        """Draw as much as the present load says, from the last reading on."""
        read_at = max(account.since, self._read_at)
        account.joules += account.watts * (read_at - account.since)
        account.since = read_at
        watts = account.draw()
        self._total_j = self.total_j(now) + (watts - account.watts) * (now - read_at)
        self._since = now
        self._total_watts += watts - account.watts
        account.watts = watts

    def _draw_anew(self, account: _Account, now: float) -> None:
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
        """Note a request for another pstate."""
        self.switches.append(Switch(hosts, set(hosts), pstate))
        self.n_grouped += 1
        self.n_machines += len(hosts)

    def arrived(self, host: int, pstate: int) -> IntervalSet | None:
        """Note that a host has its pstate. Gives all hosts of the request if it was the last one of them."""
        for i, switch in enumerate(self.switches):
            if switch.pstate == pstate and host in switch.missing:
                switch.missing.remove(host)
                if switch.missing:
                    return None
                del self.switches[i]
                return switch.hosts
        return None
