"""The energy meters of hosts with SimGrid's clock: a meter is updated when SimGrid updates it.

An update counts the present load for the whole time since the last one. Meters are updated when an action ends on
their host, when a task on a single core starts, when the pstate changes, and when they are read. Reading a meter that
is not up to date takes one round of the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

from pybatsched.platform.model import Host
from pybatsched.simulator.machine.power import Power


class Meters(Power):
    """The pstates and meters of all hosts. `load_of` gives the used flop/s of a host, `on_speed` gets a new speed."""

    def __init__(
        self,
        hosts: Sequence[Host],
        load_of: Callable[[int], float],
        on_speed: Callable[[int, float], None],
        clock: Callable[[], float],
    ) -> None:
        super().__init__(hosts, load_of)
        self._n_cores = [host.n_cores for host in hosts]
        self._on_speed = on_speed
        self._clock = clock
        self._counted = [host.pstate for host in hosts]  # the pstates since the last updates

    def is_behind(self, host: int) -> bool:
        """Return whether a meter has not been updated at this instant: reading it then takes a round."""
        return self._hosts[host].since < self._clock()

    def update(self, hosts: Iterable[int]) -> None:
        """Update the meters of these hosts; those below 0 have none."""
        now = self._clock()
        for host in hosts:
            if host >= 0 and self._hosts[host].since < now:
                self._update(host, now)

    def _update(self, host: int, now: float) -> None:
        account = self._hosts[host]
        if account.since < now:
            pstate = self._counted[host]
            speed = account.speeds[pstate]
            load = 1.0 if speed <= 0 else min(self._load_of(host) / speed / self._n_cores[host], 1.0)
            wattage = account.wattages[pstate]
            watts = wattage.idle if load <= 0 else wattage.epsilon + load * (wattage.full - wattage.epsilon)
            account.joules += watts * (now - account.since)
            account.since = now
        self._counted[host] = account.pstate

    def _read_meter(self, host: int, now: float) -> float:
        self._update(host, now)
        return self._hosts[host].joules

    def set_pstate(self, host: int, pstate: int, now: float) -> None:
        """Set the pstate of a host, and with it the speed of its tasks."""
        account = self._hosts[host]
        self.watts_min += account.wattages[pstate].epsilon - account.wattages[account.pstate].epsilon
        account.pstate = pstate
        self._on_speed(host, account.speeds[pstate])
        self._update(host, now)

    def total_j(self, now: float) -> float:
        """Return the energy that all hosts have consumed since the start of the run. O(hosts)."""
        return self.joules_of(range(len(self._hosts)), now)

    def joules_of(self, hosts: Iterable[int], now: float) -> float:
        """Return the energy that these hosts have consumed since the start of the run, rounded once."""
        return math.fsum(self._read_meter(host, now) for host in hosts)

    def exact_joules_of(self, hosts: Iterable[int], now: float) -> Fraction:
        """Return the energy of these hosts with more digits than a double: Batsim adds and subtracts long doubles."""
        values = [self._read_meter(host, now) for host in hosts]
        total = math.fsum(values)
        return Fraction(total) + Fraction(math.fsum((*values, -total)))

    def is_stale(self, now: float, ending: Iterable[int] = ()) -> bool:
        """Return False: the rounds that readings take are counted."""
        del now, ending
        return False

    def set_load(self, host: int, load: float, now: float) -> None:
        """Do nothing: the load of a host is that of its tasks."""

    def loads_changed(self, hosts: Iterable[int], now: float) -> None:
        """Do nothing: the load of a host is that of its tasks."""

    def read(self, hosts: Iterable[int], now: float) -> None:
        """Do nothing: ends of actions update the meters."""

    def read_all(self, now: float) -> None:
        """Do nothing: the energy of all hosts has been read."""

    def note_reading(self, now: float) -> None:
        """Do nothing: each meter knows when it was updated."""
