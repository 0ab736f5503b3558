"""Pstates and energy meters of hosts: a meter is updated when SimGrid updates it.

The pstate of a host has three wattages: idle, epsilon and full. The power is the first without load; otherwise it
rises with the load from the second to the third. A switch to or from sleep uses a virtual pstate in which the host
computes one flop: its speed gives the time, and it counts as full load.

An update counts the present load for the whole time since the last one. Meters are updated when an action ends on
their host, when a task on a single core starts, when the pstate changes, and when they are read: all of them at each
start and end of a job. Reading a meter that is not up to date takes one round of the kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Final, NamedTuple

from pybatsched.core.intervals import IntervalSet
from pybatsched.platform.model import Host
from pybatsched.simulator.simgrid.actions import Actions

WAY_UP: Final = -1
WAY_DOWN: Final = -2


class Switch(NamedTuple):
    """One SET_RESOURCE_STATE in progress: all its hosts, and those that have not reached the pstate yet."""

    hosts: IntervalSet
    missing: set[int]
    pstate: int


class Meters:
    """The pstates and meters of all hosts. An update of all is one pass over lists, without a call for each host.

    `load_of` gives the used flop/s of a host, `on_speed` gets a new speed, `actions` has the clock. `refresh` is called
    when a load changes.
    """

    def __init__(
        self,
        hosts: Sequence[Host],
        load_of: Callable[[int], float],
        on_speed: Callable[[int, float], None],
        actions: Actions,
    ) -> None:
        self._speeds = [host.speeds for host in hosts]
        self._n_cores = [host.n_cores for host in hosts]
        self._wattages = [host.wattages() for host in hosts]
        self._sleeps = [{sleep.sleep: sleep for sleep in host.sleep_pstates()} for host in hosts]
        self._computing = [frozenset(host.computing_pstates()) for host in hosts]
        self._pstates = [host.pstate for host in hosts]
        self._load_of = load_of
        self._on_speed = on_speed
        self._actions = actions
        self._joules = [0.0] * len(hosts)
        self._all_since = 0.0  # the last update of all, and later ones of some hosts
        self._since: dict[int, float] = {}
        self._watts = [0.0] * len(hosts)
        self.refresh(range(len(hosts)))
        self.watts_min = sum(self._wattages[host][pstate].epsilon for host, pstate in enumerate(self._pstates))
        self.first_j: list[float] | None = None  # of all hosts, at the first submission and at the last end
        self.last_j: list[float] | None = None
        self.switches: list[Switch] = []
        self.n_grouped = 0
        self.n_machines = 0

    # --- pstates ---

    def pstate(self, host: int) -> int:
        """Return the present pstate of a host."""
        return self._pstates[host]

    def is_sleep(self, host: int, pstate: int) -> bool:
        """Return whether a pstate of a host is a sleep pstate."""
        return pstate in self._sleeps[host]

    def is_computation(self, host: int, pstate: int) -> bool:
        """Return whether a host can compute jobs in a pstate."""
        return pstate in self._computing[host]

    def exists(self, host: int, pstate: int) -> bool:
        """Return whether a host has a pstate."""
        return 0 <= pstate < len(self._speeds[host])

    def switch_pstate(self, host: int, pstate: int) -> int:
        """Return the virtual pstate that a host has during a switch to or from sleep."""
        sleeps = self._sleeps[host]
        return sleeps[pstate].switch_off if pstate in sleeps else sleeps[self._pstates[host]].switch_on

    def set_pstate(self, host: int, pstate: int) -> None:
        """Set the pstate of a host, and with it the speed of its tasks. The time before is counted in the old one."""
        wattages, old = self._wattages[host], self._pstates[host]
        self.watts_min += wattages[pstate].epsilon - wattages[old].epsilon
        self._on_speed(host, self._speeds[host][pstate])
        self.update((host,))
        self._pstates[host] = pstate
        self.refresh((host,))

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

    # --- energy ---

    def refresh(self, hosts: Iterable[int]) -> None:
        """Compute the power of hosts whose load, or pstate, is another one."""
        for host in hosts:
            pstate = self._pstates[host]
            speed, wattage = self._speeds[host][pstate], self._wattages[host][pstate]
            load = 1.0 if speed <= 0 else min(self._load_of(host) / speed / self._n_cores[host], 1.0)
            self._watts[host] = wattage.idle if load <= 0 else wattage.epsilon + load * (wattage.full - wattage.epsilon)

    def is_behind(self, host: int) -> bool:
        """Return whether a meter has not been updated at this instant."""
        return self._since.get(host, self._all_since) < self._actions.now

    def next_behind(self, hosts: Iterator[int]) -> int | None:
        """Return the next of these hosts whose meter has not been updated at this instant; None if there is none."""
        if self._all_since == self._actions.now:
            return None
        return next(filter(self.is_behind, hosts), None)

    def update(self, hosts: Iterable[int]) -> None:
        """Update the meters of these hosts; those below 0 have none."""
        now = self._actions.now
        for host in hosts:
            since = self._since.get(host, self._all_since)
            if host >= 0 and since < now:
                self._joules[host] += self._watts[host] * (now - since)
                self._since[host] = now

    def update_all(self) -> None:
        """Update all meters. O(hosts), but O(1) if that was done at this instant."""
        now = self._actions.now
        if self._all_since == now:
            return
        self.update(list(self._since))
        span_s, apart = now - self._all_since, {host: self._joules[host] for host in self._since}
        self._joules = [joules + watts * span_s for joules, watts in zip(self._joules, self._watts, strict=True)]
        for host, joules in apart.items():
            self._joules[host] = joules
        self._since.clear()
        self._all_since = now

    def total_j(self) -> float:
        """Return the energy that all hosts have consumed since the start of the run, rounded once. O(hosts)."""
        self.update_all()
        return math.fsum(self._joules)

    @property
    def consumed_j(self) -> float:
        """The energy from the first submission to the last end. As in Batsim, it is -1 before such a time."""
        first, last = (-1 if joules is None else exact_sum(joules) for joules in (self.first_j, self.last_j))
        return float(last - first)

    def joules_of(self, hosts: Iterable[int]) -> list[float]:
        """Return the energy that each of these hosts has consumed since the start of the run."""
        hosts = list(hosts)
        self.update(hosts)
        return [self._joules[host] for host in hosts]

    def all_joules(self) -> list[float]:
        """Return the energy that each host has consumed since the start of the run. O(hosts)."""
        self.update_all()
        return self._joules[:]


def exact_sum(joules: Sequence[float]) -> Fraction:
    """Return a sum with more digits than a double: Batsim adds and subtracts long doubles."""
    total = math.fsum(joules)
    return Fraction(total) + Fraction(math.fsum((*joules, -total)))
