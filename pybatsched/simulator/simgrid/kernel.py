"""The event loop with SimGrid's clock: processes on hosts, which send messages over the network to one server.

Rules
-----
A process is written as for `pybatsched.simulator.loop`: a generator that yields what it waits for. It may also yield
from `SimgridLoop.sleep`, whose length is not rounded, or yield a call of SimGrid (see below). A notice is a message of
one byte from the host of the process to the master, and takes the time of its route.

How it works (as in SimGrid and Batsim; this decides which events share a message)
-----------------------------------------------------------------------------------
Processes run in rounds. In a round, each process that is ready runs until its next call of the kernel. Then the kernel
handles the calls of this round in the same order, and processes whose call is answered are ready for the next round.
When no process is ready, the clock moves. A message starts when the server has asked for one, in the order in which
they were sent. Sending takes three calls: look up the mailbox, post, wait. The server looks up the mailbox, asks for a
message, and waits; after it has handled one it looks up the mailbox again, and calls `look` if no other is waiting.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from itertools import chain, permutations
from operator import itemgetter
from typing import Any, Final, TypeAlias

from pybatsched.errors import InputError
from pybatsched.platform.model import Platform
from pybatsched.platform.network.routes import NetworkLink, Path, Routes
from pybatsched.platform.network.routing import NoPathError
from pybatsched.simulator.loop import END_OF_TIME_S, HALT, SAME_INSTANT_S, SOON, Loop, Notice, Process
from pybatsched.simulator.simgrid.actions import WINDOW_BYTES, Action, Actions, Needs
from pybatsched.simulator.simgrid.meters import Meters
from pybatsched.simulator.work.profiles import AllPairs, Transfers
from pybatsched.simulator.work.sharing import SharedResource

#: A call of the kernel: it gets the process, and returns whether the process is ready again.
Call: TypeAlias = "Callable[[Actor], bool]"
Steps: TypeAlias = Generator[Call, None, None]

#: Decisions whose handlers read all energy meters.
_READING: Final = frozenset({"effect_query", "effect_set_resource_state", "_on_switched"})
#: The host number of the master, which has none in Batsim.
MASTER: Final = -1
#: Flops of an executor on a host.
Flops: TypeAlias = Sequence[tuple[int, float]]
#: The resources of the links from a host to a host, and their latency.
Way: TypeAlias = tuple[tuple[SharedResource, ...], float]
#: So many paths between hosts are kept: about a gigabyte of them.
_MAX_WAYS: Final = 2_000_000

WAITING: Final = "waiting"
RUNNING: Final = "running"
DONE: Final = "done"
CANCELLED: Final = "cancelled"


class Actor:
    """A process and its host. `execs` are the tasks that it has started."""

    __slots__ = ("call", "execs", "host", "is_dead", "last", "process", "steps", "waits_for")

    def __init__(self, process: Process | None, host: int) -> None:
        self.process = process
        self.host = host
        self.steps: Steps | None = None
        self.call: Call | None = None
        self.last: Notice | None = None
        self.execs: list[Exec] = []
        self.waits_for: Action | None = None
        self.is_dead = False


class Exec:
    """A parallel task of a process. `is_late` is True if its process has stopped waiting for it."""

    __slots__ = ("action", "flops", "hosts", "is_late", "n_left", "state", "timeout", "transfers", "waiter")

    def __init__(self, flops: Flops, transfers: Transfers) -> None:
        self.flops = flops
        self.transfers = transfers
        self.hosts = [host for host, _ in flops]
        self.state = WAITING
        self.action: Action | None = None
        self.timeout: Action | None = None
        self.waiter: Actor | None = None
        self.is_late = False
        self.n_left = 0  # of a latch

    def done_at(self, _now: float) -> float:
        """Return the completed share of the task, from 0 to 1."""
        if self.state == WAITING:
            return 0.0
        return 1.0 if self.action is None else 1.0 - self.action.remains


class _Reading:
    """A call that updates the next of these meters that is not up to date."""

    __slots__ = ("_hosts", "_next", "meters")

    def __init__(self, meters: Meters, hosts: Iterable[int]) -> None:
        self.meters = meters
        self._hosts = iter(hosts)
        self._next: int | None = None

    def is_behind(self) -> bool:
        """Return whether a meter is left that is not up to date; it is the next one."""
        if self._next is None or not self.meters.is_behind(self._next):
            self._next = self.meters.next_behind(self._hosts)
        return self._next is not None

    def __call__(self, _actor: Actor) -> bool:
        assert self._next is not None
        self.meters.update((self._next,))
        return True


class _Message:
    """A message of one byte. `waiters` are the processes that wait for its end."""

    __slots__ = ("notice", "sender", "waiters")

    def __init__(self, notice: Notice | None, sender: Actor | None) -> None:
        self.notice = notice
        self.sender = sender
        self.waiters: list[Actor] = []


def _answered(_actor: Actor) -> bool:
    return True


def _halted(_actor: Actor) -> bool:
    return True


def doing(what: Callable[[], object]) -> Call:
    """Return a call that does something."""
    return partial(_done, what)


def _done(what: Callable[[], object], _actor: Actor) -> bool:
    what()
    return True


#: A call that only takes a round.
ROUND: Final[Call] = _answered


class SimgridLoop(Loop):
    """Runs processes until none is ready and nothing takes time. O(running actions) per step of the clock."""

    def __init__(
        self, look: Callable[[], None], ends_at: float, platform: Platform, is_ready: Callable[[], bool]
    ) -> None:
        super().__init__(look, ends_at)
        self.actions = Actions([host.speed for host in platform.hosts])
        self.meters: Meters | None = None
        self._is_ready = is_ready
        self._platform = platform
        self._routes = None if platform.network is None else Routes(platform.network)
        self._names = [host.name for host in platform.hosts]
        self._n_cores = [host.n_cores for host in platform.hosts]
        self._cpus = [SharedResource(host.speed * host.n_cores) for host in platform.hosts]
        self._links: dict[NetworkLink, SharedResource] = {}
        self._ways: dict[tuple[int, int], Way] = {}
        self._needs_of_byte: dict[tuple[int, int], Needs] = {}  # by the hosts that it goes from and to
        self._spawned: list[Process] = []
        self._changes: list[tuple[Callable[[], object] | None, Callable[[], object]]] = []
        self._ready: list[Actor] = []
        self._round: list[Actor] = []
        self._index = 0
        self._current: Actor | None = None
        self._queue: deque[_Message] = deque()
        self._receiver: _Message | None = None
        self._actors: dict[int, Actor] = {}  # by the id of the process
        self._is_serving = False

    def watch(self, meters: Meters) -> None:
        """Keep energy meters up to date."""
        self.meters = meters
        self.actions.on_meter, self.actions.on_load = meters.update, meters.refresh

    # --- processes ---

    def spawn(self, process: Process) -> None:
        """Create a process: at once before the run, else by the server after it has handled its message."""
        if self._is_serving:
            self._spawned.append(process)
        else:
            self._begin_actor(process)

    def change_then(self, change: Callable[[], object] | None, then: Callable[[], object]) -> None:
        """Let the server change the machine by a call, and then do something else, after the present handler."""
        self._changes.append((change, then))

    def serve(self, first: Iterable[Process]) -> None:
        """Create the server, which creates the first processes and then handles messages."""
        actor = Actor(None, MASTER)
        actor.steps = self._serve(first)
        self._ready.append(actor)
        self._is_serving = True

    def creation_of(self, process: Process) -> Call:
        """Return the call with which a process creates another one."""
        return doing(partial(self._begin_actor, process))

    def sleep(self, span_s: float) -> Steps:
        """Sleep for a time; do nothing if it is not above 0."""
        if span_s > 0.0:
            yield partial(self._sleep, span_s)

    def post(self, handle: Callable[[Any], None], what: Any) -> None:
        """Send the last notice of the running process, after it has ended."""
        assert self._current is not None
        self._current.last = (handle, what)

    def place(self, host: int) -> None:
        """Set the host of the running process."""
        assert self._current is not None
        self._current.host = host

    def _begin_actor(self, process: Process) -> None:
        actor = Actor(process, MASTER)
        actor.steps = self._steps(actor, process)
        self._actors[id(process)] = actor
        self._ready.append(actor)

    def _steps(self, actor: Actor, process: Process) -> Steps:
        """Translate what a process yields into calls."""
        for wanted in process:
            kind = type(wanted)
            if kind is float:
                if wanted == HALT:
                    yield _halted
                elif wanted > self.now:
                    yield partial(self._sleep, wanted - self.now)
            elif wanted is SOON:
                yield ROUND
            elif kind is tuple:
                yield from self._send(actor, wanted)
            else:
                yield wanted
        if actor.last is not None:
            yield from self._send(actor, actor.last)

    def _send(self, actor: Actor, notice: Notice) -> Steps:
        yield ROUND
        message = _Message(notice, actor)
        yield partial(self._post, message)
        yield partial(self._await, message)

    def _serve(self, first: Iterable[Process]) -> Steps:
        for process in first:
            yield self.creation_of(process)
        while True:
            yield ROUND
            wish = _Message(None, None)
            yield partial(self._ask, wish)
            yield partial(self._await, wish)
            assert wish.notice is not None
            handle, what = wish.notice
            if self.meters is not None and getattr(handle, "__name__", "") in _READING:
                yield from self.read_all()
            handle(what)
            yield from self._create_spawned()
            changes, self._changes = self._changes, []
            for change, then in changes:
                if change is not None:
                    yield doing(change)
                then()
            if self._is_ready():
                yield ROUND
                if not self._queue:
                    self._look()
                    yield from self._create_spawned()

    def read_all(self) -> Steps:
        """Update the energy meters of all hosts."""
        return self.read(range(len(self._names)))

    def read(self, hosts: Iterable[int]) -> Steps:
        """Update energy meters one after the other: each that is not up to date takes a round.

        A process that reads some meters then reads all. So if all processes that are ready read meters, nothing else
        can happen before all meters are up to date, and one call updates them.
        """
        if self.meters is not None:
            reading = _Reading(self.meters, hosts)
            while reading.is_behind():
                yield reading

    def _create_spawned(self) -> Steps:
        spawned, self._spawned = self._spawned, []
        for process in spawned:
            yield self.creation_of(process)

    # --- the loop ---

    def run(self) -> None:
        """Run until no event is left, `ends_at` is reached, or a process halts the loop; the next call continues."""
        while self._run_ready():
            step_s = self.actions.next_step_s()
            if step_s < 0.0:
                return
            at = self.now + step_s
            if at > self.ends_at + SAME_INSTANT_S:
                self.now = self.ends_at
                self.is_cut = True
                return
            if at > END_OF_TIME_S:
                raise InputError(f"event time {at:g} s exceeds the maximum simulated time {END_OF_TIME_S:g} s")
            self.actions.advance(step_s)
            self.now = self.actions.now
            self._handle_ended()

    def _run_ready(self) -> bool:
        """Run rounds until no process is ready; return False if one has halted the loop."""
        actions = self.actions
        while self._round or self._ready:
            if not self._round:
                self._round, self._ready, self._index = self._ready, [], 0
            while self._index < len(self._round):
                actor = self._round[self._index]
                self._resume(actor)
                if actor.call is _halted:
                    actor.call = None
                    return False
                self._index += 1
            ran, self._round = self._round, []
            if type(ran[0].call) is _Reading and not self._ready and all(type(actor.call) is _Reading for actor in ran):
                ran[0].call.meters.update_all()
            for actor in ran:
                call, actor.call = actor.call, None
                if call is not None and call(actor) and not actor.is_dead:
                    self._ready.append(actor)
            if actions.failed or actions.ended:
                self._handle_ended()
        return True

    def _resume(self, actor: Actor) -> None:
        """Run a process until its next call."""
        if actor.is_dead:
            return
        assert actor.steps is not None
        self._current = actor
        for call in actor.steps:
            actor.call = call
            return
        self._end_actor(actor)

    def _end_actor(self, actor: Actor) -> None:
        """Stop the tasks that a process leaves behind, as SimGrid does when a process ends or is killed."""
        actor.is_dead = True
        if actor.process is not None:
            self._actors.pop(id(actor.process), None)
        for task in actor.execs:
            if task.state == RUNNING and task.action is not None:
                self.actions.cancel(task.action)
        actor.execs.clear()

    def _handle_ended(self) -> None:
        actions = self.actions
        while actions.failed or actions.ended:  # those that failed first, then those of the last step, in order
            action = actions.failed.pop(0) if actions.failed else actions.ended.pop(0)
            action.on_end(action)

    # --- calls ---

    def _sleep(self, span_s: float, actor: Actor) -> bool:
        actor.waits_for = self.actions.sleep(span_s, partial(self._woke, actor), actor.host)
        return False

    def _woke(self, actor: Actor, _action: Action) -> None:
        actor.waits_for = None
        self._ready.append(actor)

    def _post(self, message: _Message, _actor: Actor) -> bool:
        if self._receiver is None:
            self._queue.append(message)
        else:
            wish, self._receiver = self._receiver, None
            self._transfer(message, wish)
        return True

    def _ask(self, wish: _Message, _actor: Actor) -> bool:
        if self._queue:
            self._transfer(self._queue.popleft(), wish)
        else:
            self._receiver = wish
        return True

    def _transfer(self, message: _Message, wish: _Message) -> None:
        """Start the transfer of a message to the server. Both sides then wait for the same end."""
        wish.notice = message.notice
        message.waiters += wish.waiters
        wish.waiters = message.waiters
        assert message.sender is not None
        self._send_byte(message.sender.host, MASTER, partial(self._delivered, message.waiters))

    def _send_byte(self, src: int, dst: int, on_end: Callable[[Action], None]) -> None:
        needs = self._needs_of_byte.get((src, dst))
        if needs is None:
            needs = self._needs_of_byte[src, dst] = self._needs_of([], [(src, dst, 1.0)])
        self.actions.start(needs, on_end, (src, dst))

    def _await(self, message: _Message, actor: Actor) -> bool:
        message.waiters.append(actor)
        return False

    def _delivered(self, waiters: list[Actor], action: Action) -> None:
        self.actions.release(action)
        self._ready += [waiter for waiter in waiters if not waiter.is_dead]

    # --- tasks ---

    def start_exec(self, task: Exec, actor: Actor) -> bool:
        """Start a parallel task. On a single host it does not communicate, as in SimGrid."""
        actor.execs.append(task)
        transfers = task.transfers if len(task.hosts) > 1 else ()
        task.state = RUNNING
        needs = self._needs_of(task.flops, transfers)
        task.action = self.actions.start(needs, partial(self._exec_ended, task), task.hosts, task.flops)
        if len(task.hosts) == 1 and self.meters is not None:
            self.meters.update(task.hosts)
        return True

    def wait_exec(self, task: Exec, timeout_s: float, actor: Actor) -> bool:
        """Wait for a task, at most for a time unless that is below 0."""
        if task.state != RUNNING:
            return True
        task.waiter = actor
        if timeout_s >= 0.0:
            task.timeout = self.actions.sleep(timeout_s, partial(self._exec_late, task), actor.host)
        return False

    def cancel_exec(self, task: Exec) -> None:
        """Cancel a task: its process continues."""
        if task.action is not None:
            self.actions.cancel(task.action)
        if task.state == RUNNING or task.action is not None:
            task.state = CANCELLED

    def _exec_ended(self, task: Exec, action: Action) -> None:
        self.actions.release(action)
        task.action = None
        if task.state == RUNNING:
            task.state = DONE
        if task.waiter is not None and not task.waiter.is_dead:
            task.waiter.execs.remove(task)
        self._wake_waiter(task)

    def _wake_waiter(self, task: Exec) -> None:
        if task.timeout is not None:
            self.actions.drop(task.timeout)
            task.timeout = None
        if task.waiter is not None:
            waiter, task.waiter = task.waiter, None
            if not waiter.is_dead:
                self._ready.append(waiter)

    def latch(self, n: int) -> Exec:
        """Return what a process can wait for like a task: it ends when it has been counted down n times."""
        task = Exec([], ())
        task.state, task.n_left = RUNNING, n
        return task

    def count_down(self, latch: Exec, src: int, dst: int) -> None:
        """Count a latch down by a message from one host to another."""
        self._send_byte(src, dst, partial(self._counted, latch))

    def _counted(self, latch: Exec, action: Action) -> None:
        self.actions.release(action)
        latch.n_left -= 1
        if not latch.n_left:
            latch.state = DONE
            self._wake_waiter(latch)

    def drop_latch(self, latch: Exec) -> None:
        """Forget a latch for which nothing waits any more."""
        latch.waiter = None
        if latch.timeout is not None:
            self.actions.drop(latch.timeout)
            latch.timeout = None

    def _exec_late(self, task: Exec, _action: Action) -> None:
        task.timeout = None
        task.is_late = True
        assert task.waiter is not None
        waiter, task.waiter = task.waiter, None
        self._ready.append(waiter)

    def kill(self, process: Process) -> None:
        """Kill a process that waits."""
        actor = self._actors.get(id(process))
        if actor is None:
            return
        if actor.waits_for is not None:
            self.actions.cancel(actor.waits_for)
            actor.waits_for.on_end = _ignored
            actor.waits_for = None
        self._queue = deque(message for message in self._queue if message.sender is not actor)
        self._end_actor(actor)
        process.close()

    def _needs_of(self, flops: Flops, transfers: Transfers) -> Needs:
        """Return what a task needs."""
        needs = [(self._cpus[host], amount) for host, amount in flops if amount > 0.0]
        if isinstance(transfers, AllPairs):
            return self._with_all_pairs(needs, transfers)
        amounts: dict[SharedResource, float] = {}
        latency_s = weighted_s = 0.0
        for src, dst, amount in transfers:
            if amount <= 0.0:
                continue
            resources, way_s = self._way(src, dst)
            latency_s = max(latency_s, way_s)
            weighted_s = max(weighted_s, way_s * amount)
            for resource in resources:
                known = amounts.get(resource)
                if known is None:
                    amounts[resource] = amount
                else:
                    amounts[resource] = max(known, amount) if resource.is_fatpipe else known + amount
        needs += amounts.items()
        return Needs(needs, _bound_by(weighted_s), latency_s)

    def _with_all_pairs(self, needs: list[tuple[SharedResource, float]], transfers: AllPairs) -> Needs:
        """Add equal transfers between all hosts of a task at once: equal counts give equal sums. O(pairs)."""
        amount, known = transfers.amount, self._ways
        try:
            ways = [known[pair] for pair in permutations(transfers.places, 2)]
        except KeyError:  # a path that was not used before
            ways = [self._way(src, dst) for src, dst in permutations(transfers.places, 2)]
        latency_s = max(map(_LATENCY, ways))
        counts = Counter(chain.from_iterable(map(_RESOURCES, ways)))
        sums: dict[int, float] = {}
        for resource, n in counts.items():
            if resource.is_fatpipe:
                needs.append((resource, amount))
                continue
            if n not in sums:
                sums[n] = _sum_of_equal(amount, n)
            needs.append((resource, sums[n]))
        return Needs(needs, _bound_by(latency_s * amount), latency_s)

    def _way(self, src: int, dst: int) -> Way:
        """Return the resources and the latency of the path between two hosts. O(1) but for the first time."""
        way = self._ways.get((src, dst))
        if way is None:
            path = self.path(src, dst)
            resources = []
            for link in path.links:
                resource = self._links.get(link)
                if resource is None:
                    resource = self._links[link] = SharedResource(link.bandwidth, is_fatpipe=link.is_fatpipe)
                resources.append(resource)
            if len(self._ways) >= _MAX_WAYS:
                self._ways.clear()
            way = self._ways[src, dst] = (tuple(resources), path.latency_s)
        return way

    def load_of(self, host: int) -> float:
        """Return the used flop/s of a host."""
        return self._cpus[host].load()

    def change_speed(self, host: int, speed: float) -> None:
        """Change the speed of the cores of a host."""
        self._cpus[host].capacity = self._n_cores[host] * speed
        self.actions.sharing.change(self._cpus[host])
        self.actions.change_speed(host, speed)

    def path(self, src: int, dst: int) -> Path:
        """Return the path between two hosts. Raises InputError that names both."""
        if self._routes is None:
            return _FREE
        names = [self._platform.master.name if host == MASTER else self._names[host] for host in (src, dst)]
        try:
            return self._routes.between(*names)
        except NoPathError as error:
            raise InputError(f"{self._platform.source}: {error}") from None


_FREE: Final = Path((), 0.0)
_RESOURCES, _LATENCY = itemgetter(0), itemgetter(1)
#: Below this, sums of whole numbers are exact.
_EXACT: Final = 2.0**53


def _bound_by(weighted_s: float) -> float:
    """Return the bound of the rate by the latency of the transfers, the largest times the bytes."""
    return WINDOW_BYTES / (2.0 * weighted_s) if weighted_s > 0.0 else math.inf


def _sum_of_equal(amount: float, n: int) -> float:
    """Return the sum of n equal numbers, added one by one as SimGrid does. O(n), or O(1) if no addition is rounded."""
    if amount * n < _EXACT and amount.is_integer():
        return amount * n
    total = amount
    for _ in range(n - 1):
        total += amount
    return total


def _ignored(_action: Action) -> None:
    """Do nothing when the sleep of a killed process ends."""
