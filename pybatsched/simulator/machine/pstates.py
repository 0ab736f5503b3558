"""Changes of pstates: immediate between two speeds, through a virtual pstate to and from sleep."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pybatsched.core import events as e
from pybatsched.simulator.loop import SOON
from pybatsched.simulator.machine.hosts import HostState
from pybatsched.simulator.machine.power import WAY_DOWN, WAY_UP, Power
from pybatsched.simulator.world import Refusal

if TYPE_CHECKING:
    from pybatsched.core.intervals import IntervalSet
    from pybatsched.simulator.execution import Execution
    from pybatsched.simulator.loop import Process
    from pybatsched.simulator.world import World


class Switching:
    """Changes pstates of hosts in a simulation with energy."""

    def __init__(self, world: World, execution: Execution, power: Power) -> None:
        assert world.hosts is not None
        self._world = world
        self._book = world.hosts
        self._execution = execution
        self._power = power

    def switch(self, hosts: IntervalSet, pstate: int) -> None:
        """Execute SET_RESOURCE_STATE. O(hosts)."""
        world, power, now = self._world, self._power, self._world.now
        self._check(hosts, pstate)
        power.begin_switch(hosts, pstate)
        self._execution.note_energy("p")
        falls_asleep = power.is_sleep(hosts.lowest, pstate)
        self._show_pstate(hosts, WAY_DOWN if falls_asleep else WAY_UP)
        for host in hosts:
            if power.is_sleep(host, pstate) or power.is_sleep(host, power.pstate(host)):
                down = power.is_sleep(host, pstate)
                self._book.change(host, HostState.SWITCHING_OFF if down else HostState.SWITCHING_ON, now)
                world.n_switching += 1
                world.loop.spawn(self._switch_host(host, pstate))
            else:
                world.loop.change_then(partial(self._set_pstate, host, pstate), partial(self._arrived, host, pstate))
        world.loop.change_then(None, self._show_states)

    def _set_pstate(self, host: int, pstate: int) -> None:
        self._power.set_pstate(host, pstate, self._world.now)
        tasks = self._execution.tasks
        if tasks is not None:
            tasks.update_rates((host,))

    def _show_states(self) -> None:
        for machines_changed in self._world.observers.machines_changed:
            machines_changed(self._world.now)

    def _show_pstate(self, hosts: IntervalSet, pstate: int) -> None:
        for pstate_changed in self._world.observers.pstate_changed:
            pstate_changed(self._world.now, hosts, pstate)

    def _check(self, hosts: IntervalSet, pstate: int) -> None:
        book, power = self._book, self._power
        if not hosts:
            raise Refusal("SET_RESOURCE_STATE has no machines")
        for host in hosts:
            if host >= len(book.states):
                raise Refusal(f"cannot change the pstate of machine {host}: it does not exist")
            if not power.exists(host, pstate):
                raise Refusal(f"machine {host} has no pstate {pstate}")
            present = power.pstate(host)
            if book.states[host] in {HostState.SWITCHING_ON, HostState.SWITCHING_OFF}:
                raise Refusal(f"machine {host} is already switching")
            if power.is_sleep(host, present) and not power.is_computation(host, pstate):
                raise Refusal(f"machine {host} is asleep: expected a computation pstate, found {pstate}")
            if power.is_sleep(host, pstate) and book.jobs[host]:
                raise Refusal(f"machine {host} cannot sleep: it computes {', '.join(book.jobs[host])}")
            if not power.is_sleep(host, pstate) and not power.is_computation(host, pstate):
                raise Refusal(
                    f"machine {host}: expected a computation or sleep pstate, found the switching pstate {pstate}"
                )

    def _switch_host(self, host: int, pstate: int) -> Process:
        """Compute one flop in the virtual pstate, at full load."""
        world, power = self._world, self._power
        down = power.is_sleep(host, pstate)
        power.set_pstate(host, power.switch_pstate(host, pstate), world.now)
        power.set_load(host, 1.0, world.now)
        yield from self._execution.one_flop(host)
        power.set_pstate(host, pstate, world.now)
        power.set_load(host, 0.0, world.now)
        self._book.change(host, HostState.SLEEPING if down else HostState.IDLE, world.now)
        if not world.has_network:
            yield SOON  # as for jobs with energy
        yield self._on_switched, (host, pstate)

    def _on_switched(self, what: tuple[int, int]) -> None:
        world = self._world
        world.n_switching -= 1
        if self._arrived(*what):
            self._show_states()

    def _arrived(self, host: int, pstate: int) -> bool:
        """Record that a host has reached its pstate, and notify the scheduler if it was the last of its request."""
        hosts = self._power.arrived(host, pstate)
        if hosts is None:
            return False
        world = self._world
        self._show_pstate(hosts, pstate)
        self._execution.note_energy("p")
        world.add_event(e.ResourceStateChanged(hosts, str(pstate), timestamp=world.stamp()))
        return True
