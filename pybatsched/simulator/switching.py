"""Changes of pstates: at once between two speeds, through a virtual pstate to sleep and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybatsched.core import events as e
from pybatsched.simulator.loop import SOON
from pybatsched.simulator.machines import HostState
from pybatsched.simulator.power import WAY_DOWN, WAY_UP, Power
from pybatsched.simulator.refusal import Refusal

if TYPE_CHECKING:
    from pybatsched.core.intervals import IntervalSet
    from pybatsched.simulator.loop import Process
    from pybatsched.simulator.simulation import Simulation


def switch(simulation: Simulation, power: Power, hosts: IntervalSet, pstate: int) -> None:
    """Carry out SET_RESOURCE_STATE. O(hosts)."""
    book, now = simulation.hosts, simulation.now
    assert book is not None
    _check(simulation, power, hosts, pstate)
    power.begin_switch(hosts, pstate)
    simulation.execution.note_energy("p")
    falls_asleep = power.is_sleep(hosts.lowest, pstate)
    simulation.outputs.pstate(now, hosts, WAY_DOWN if falls_asleep else WAY_UP)
    for host in hosts:
        if power.is_sleep(host, pstate) or power.is_sleep(host, power.pstate(host)):
            down = power.is_sleep(host, pstate)
            book.change(host, HostState.SWITCHING_OFF if down else HostState.SWITCHING_ON, now)
            simulation.n_switching += 1
            simulation.loop.spawn(_on_the_way(simulation, power, host, pstate))
        else:
            power.set_pstate(host, pstate, now)
            tasks = simulation.execution.tasks
            if tasks is not None:
                tasks.share_anew((host,))
            _arrived(simulation, power, host, pstate)
    simulation.outputs.machine_states(now, book.counts())


def _check(simulation: Simulation, power: Power, hosts: IntervalSet, pstate: int) -> None:
    book = simulation.hosts
    assert book is not None
    if not hosts:
        raise Refusal("a change of pstate names no machine")
    for host in hosts:
        if host >= len(book.states):
            raise Refusal(f"cannot change the pstate of machine {host}: it does not exist")
        if not power.exists(host, pstate):
            raise Refusal(f"machine {host} has no pstate {pstate}")
        present = power.pstate(host)
        if book.states[host] in {HostState.SWITCHING_ON, HostState.SWITCHING_OFF}:
            raise Refusal(f"machine {host} is switching already")
        if power.is_sleep(host, present) and not power.is_computation(host, pstate):
            raise Refusal(f"machine {host} sleeps and can only be switched to a computation pstate, not to {pstate}")
        if power.is_sleep(host, pstate) and book.jobs[host]:
            raise Refusal(f"machine {host} cannot go to sleep: it computes {', '.join(book.jobs[host])}")
        if not power.is_sleep(host, pstate) and not power.is_computation(host, pstate):
            raise Refusal(f"machine {host}: pstate {pstate} is on the way to or from sleep and cannot be asked for")


def _on_the_way(simulation: Simulation, power: Power, host: int, pstate: int) -> Process:
    """Compute one flop in the virtual pstate, at full load."""
    book = simulation.hosts
    assert book is not None
    down = power.is_sleep(host, pstate)
    power.set_pstate(host, power.way(host, pstate), simulation.now)
    power.set_load(host, 1.0, simulation.now)
    yield simulation.now + 1.0 / power.speed(host)
    power.set_pstate(host, pstate, simulation.now)
    power.set_load(host, 0.0, simulation.now)
    book.change(host, HostState.SLEEPING if down else HostState.IDLE, simulation.now)
    yield SOON  # as for jobs with energy
    yield _on_switched, (simulation, power, host, pstate)


def _on_switched(what: tuple[Simulation, Power, int, int]) -> None:
    simulation, power, host, pstate = what
    simulation.n_switching -= 1
    if _arrived(simulation, power, host, pstate):
        simulation.outputs.machine_states(simulation.now, simulation.book.counts())


def _arrived(simulation: Simulation, power: Power, host: int, pstate: int) -> bool:
    """Note that a host has its pstate, and tell the scheduler if it was the last of its request."""
    hosts = power.arrived(host, pstate)
    if hosts is None:
        return False
    simulation.outputs.pstate(simulation.now, hosts, pstate)
    simulation.execution.note_energy("p")
    simulation.say(e.ResourceStateChanged(hosts, str(pstate), timestamp=simulation.stamp()))
    return True
