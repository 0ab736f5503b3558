"""The choice of the kernel of a run: that of the exact clock, or that of SimGrid's clock."""

from __future__ import annotations

from collections.abc import Callable

from pybatsched.errors import InputError, NotSimulatedError, setting
from pybatsched.platform.model import Platform
from pybatsched.simulator.exact import ExactExecution
from pybatsched.simulator.execution import Execution
from pybatsched.simulator.loop import Loop
from pybatsched.simulator.options import BATSIM, EXACT, SIMGRID, SimulationOptions
from pybatsched.simulator.world import World


def has_network(options: SimulationOptions, platform: Platform, *, varies: bool) -> bool:
    """Return whether a run has SimGrid's clock and network. `varies` says whether a profile has no fixed speed."""
    if options.clock == EXACT:
        return False
    is_late = options.clock == BATSIM and platform.hop_s > 0
    return options.clock == SIMGRID or options.energy or options.compute_sharing or varies or is_late


def kernel_of(world: World, look: Callable[[], None], is_ready: Callable[[], bool]) -> Execution:
    """Return the kernel of a run, and give its clock to `world`. Raises an error if the clock lacks an input.

    `look` is called when the mailbox is empty; SimGrid's clock calls it only if `is_ready`.
    """
    scenario, options = world.scenario, world.options
    if options.clock == EXACT and options.energy:
        raise NotSimulatedError(
            f"energy is not simulated with {setting('clock', 'exact')}; expected {setting('clock', 'simgrid')}"
        )
    if not has_network(options, scenario.platform, varies=world.varies):
        _check_platform(world, has_network=False)
        world.loop = Loop(look, scenario.ends_at)
        kernel: Execution = ExactExecution(world, world.loop)
        world.check_works(kernel.why_refused)
        return kernel
    from pybatsched.simulator.simgrid.kernel import SimgridLoop  # noqa: PLC0415  most runs have the exact clock
    from pybatsched.simulator.simgrid.processes import SimgridExecution  # noqa: PLC0415

    _check_platform(world, has_network=True)
    world.loop = loop = SimgridLoop(look, scenario.ends_at, scenario.platform, is_ready)
    kernel = SimgridExecution(world, loop)
    world.check_works(kernel.why_refused)
    return kernel


def _check_platform(world: World, *, has_network: bool) -> None:
    """Raise an error that names what the file of the platform has and this run does not simulate."""
    platform, network = world.scenario.platform, world.scenario.platform.network
    if network is None:
        return
    if network.not_simulated and (has_network or world.options.clock == BATSIM):
        line, what = network.not_simulated[0]
        raise NotSimulatedError(f"{platform.source}: line {line}: {what}, which is not simulated; run it with Batsim")
    if has_network:
        from pybatsched.platform.network.routes import unusable_link  # noqa: PLC0415  most runs have no network

        if fault := unusable_link(network, {host.name for host in (*platform.hosts, platform.master)}):
            raise InputError(f"{platform.source}: {fault}")
        if network.refused:
            line, what = min(network.refused)
            raise InputError(f"{platform.source}: line {line}: {what} (Batsim rejects this)")
