"""Parallel tasks whose rate changes while they run: processors shared with others, or switched to another speed.

A task is a set of executors, each with an amount of work on one host, that advance together: its rate is the share of
the whole task done per second. Rates follow the fair sharing of the engine under Batsim: what a host can do is split
evenly among the executors on it, of which none uses more than one core; a task advances as fast as its slowest
executor; and what is left is split again among those who can still go faster.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from pybatsched.simulator.loop import SAME_INSTANT_S, Loop, Process

#: Executors: (host, flops) each.
Executors: TypeAlias = Sequence[tuple[int, float]]

_NOTHING_LEFT: Final = 1e-9  # of what a host can do


class Capacity(NamedTuple):
    """What a host can do now: flop/s of one core, and how many cores."""

    speed: float
    n_cores: int = 1

    @property
    def flops(self) -> float:
        """Flop/s of all cores together."""
        return self.speed * self.n_cores


class Task:
    """A running task. `seq` is its place in the order of waits; `due_at` is when it ends if nothing changes."""

    __slots__ = (
        "_armed",
        "_is_running",
        "_left",
        "_since",
        "deadline_at",
        "due_at",
        "executors",
        "process",
        "rate",
        "seq",
    )

    def __init__(self, executors: Executors, process: Process, seq: int, now: float) -> None:
        self.executors = executors
        self.process = process
        self.seq = seq
        self.rate = 0.0
        self.due_at = math.inf
        self.deadline_at = math.inf
        self._left = 1.0
        self._since = now
        self._armed: set[float] = set()
        self._is_running = True

    def done_at(self, now: float) -> float:
        """Give the share of the task that is done."""
        return 1.0 - self._left_at(now)

    def is_over(self, now: float) -> bool:
        """Tell whether nothing is left to do."""
        return now >= self.due_at - SAME_INSTANT_S

    def is_late(self, now: float) -> bool:
        """Tell whether no time is left to do it."""
        return now >= self.deadline_at - SAME_INSTANT_S

    def go_on(self, rate: float, now: float, loop: Loop) -> None:
        """Advance at another rate from now on, and be woken when that has done the rest."""
        self._left = self._left_at(now)
        self._since = now
        self.rate = rate
        self.due_at = now + self._left / rate if rate > 0 else math.inf
        self.arm(self.due_at, loop, self.seq)

    def arm(self, at: float, loop: Loop, seq: int) -> None:
        """Be woken at an instant, in the place `seq` among those who wake then."""
        if at not in self._armed and at < math.inf:
            self._armed.add(at)
            loop.wake_at(self._alarm(loop), at, seq)

    def stop(self) -> None:
        """Hear no alarm any more: the process may be waiting for something else by then."""
        self._is_running = False

    def _left_at(self, now: float) -> float:
        return max(self._left - self.rate * (now - self._since), 0.0)

    def _alarm(self, loop: Loop) -> Process:
        if self._is_running:
            loop.resume(self.process)
        yield from ()


class Tasks:
    """All running parallel tasks.

    When one begins or ends, or a speed changes, the tasks that share hosts with it, directly or through others, get new
    rates: O(executors of these tasks) per round of sharing. `on_loads` hears which hosts are used to another degree,
    `on_read` those whose meters are read: where a task has ended, or one begins that has a single executor.
    """

    def __init__(
        self,
        loop: Loop,
        capacity_of: Callable[[int], Capacity],
        on_loads: Callable[[Iterable[int], float], None],
        on_read: Callable[[Iterable[int], float], None],
    ) -> None:
        self._loop = loop
        self._capacity_of = capacity_of
        self._on_loads = on_loads
        self._on_read = on_read
        self._running: dict[Task, None] = {}
        self._on_host: dict[int, dict[Task, None]] = {}

    def begin(self, executors: Executors, process: Process) -> Task:
        """Start a task."""
        task = Task(executors, process, self._loop.begin_wait(), self._loop.now)
        self._running[task] = None
        for host, _ in executors:
            self._on_host.setdefault(host, {})[task] = None
        if len(executors) == 1:
            self.read_meter(executors[0][0])
        self._tell_later(self._share(host for host, _ in executors))
        return task

    def end(self, task: Task) -> None:
        """Take a task away, done or not."""
        task.stop()
        del self._running[task]
        hosts = dict.fromkeys(host for host, _ in task.executors)
        for host in hosts:
            del self._on_host[host][task]
            if not self._on_host[host]:
                del self._on_host[host]
        touched = self._share(hosts)
        self._on_read(hosts, self._loop.now)
        self._tell_later([host for host in touched if host not in hosts])

    def read_meter(self, host: int) -> None:
        """Read the meter of a host on which something ended, or begins, that is no task here."""
        self._on_read((host,), self._loop.now)

    def _tell_later(self, hosts: list[int]) -> None:
        """Tell of loads when all have gone on who woke with this: the engine under Batsim does not know them before.

        So whoever reads meters at this instant reads what was drawn up to now.
        """
        if hosts:
            self._loop.spawn(self._told(hosts))

    def _told(self, hosts: list[int]) -> Process:
        self._on_loads(hosts, self._loop.now)
        yield from ()

    def ending_hosts(self) -> set[int]:
        """Give the hosts with a task that has nothing left to do or no time left to do it. O(running tasks)."""
        now = self._loop.now
        ending = (task for task in self._running if task.is_over(now) or task.is_late(now))
        return {host for task in ending for host, _ in task.executors}

    def load_of(self, host: int) -> float:
        """Give the share of a host that is in use, from 0 to 1."""
        used = sum(
            task.rate * amount
            for task in self._on_host.get(host, ())
            for place, amount in task.executors
            if place == host and amount > 0
        )
        return min(used / self._capacity_of(host).flops, 1.0)

    def share_anew(self, hosts: Iterable[int]) -> None:
        """Compute the rates of all tasks that these hosts concern. A task whose rate stays keeps its waking time."""
        self._on_loads(self._share(hosts), self._loop.now)

    def _share(self, hosts: Iterable[int]) -> list[int]:
        """Compute the rates, and give all hosts whose load may have changed by it."""
        now = self._loop.now
        tasks, touched = self._concerned(hosts)
        rates = fair_rates([task.executors for task in tasks], self._capacity_of)
        for task, rate in zip(tasks, rates, strict=True):
            if rate != task.rate:
                task.go_on(rate, now, self._loop)
        return touched

    def _concerned(self, hosts: Iterable[int]) -> tuple[list[Task], list[int]]:
        seen: dict[Task, None] = {}
        touched = dict.fromkeys(hosts)
        open_hosts = list(touched)
        while open_hosts:
            for task in self._on_host.get(open_hosts.pop(), ()):
                if task not in seen:
                    seen[task] = None
                    for host, _ in task.executors:
                        if host not in touched:
                            touched[host] = None
                            open_hosts.append(host)
        return sorted(seen, key=lambda task: task.seq), list(touched)


def fair_rates(tasks: Sequence[Executors], capacity_of: Callable[[int], Capacity]) -> list[float]:
    """Give each task's rate: hosts split evenly, tasks as fast as their slowest executor, leftovers split again.

    >>> fair_rates([[(0, 10.0)], [(0, 10.0), (1, 10.0)], [(1, 5.0)]], lambda host: Capacity(1.0))
    [0.05, 0.05, 0.1]

    As in the engine under Batsim, who can go no faster is charged his last gain again in each later round, so a little
    may stay unused. A task without work has an infinite rate. O(executors) per round; each round ends with a host
    that is used up or a task at full speed.
    """
    works = [[(host, amount) for host, amount in executors if amount > 0] for executors in tasks]
    rates = [0.0 if work else math.inf for work in works]
    gains = [0.0] * len(tasks)
    on_host: dict[int, list[tuple[int, float]]] = {}
    for i, work in enumerate(works):
        for host, amount in work:
            on_host.setdefault(host, []).append((i, amount))
    capacities = {host: capacity_of(host) for host in on_host}
    fastest = [min((capacities[host].speed / amount for host, amount in work), default=0.0) for work in works]
    free = {host: capacity.flops for host, capacity in capacities.items()}
    growing = {i for i, work in enumerate(works) if work}
    while growing:
        shares = {host: free[host] / n for host in free if (n := sum(i in growing for i, _ in on_host[host]))}
        free = {host: free[host] for host in shares}
        at_full_speed = set()
        for i in growing:
            gains[i] = min(shares[host] / amount for host, amount in works[i])
            if gains[i] >= fastest[i] - rates[i]:
                gains[i] = fastest[i] - rates[i]
                at_full_speed.add(i)
            rates[i] += gains[i]
        growing -= at_full_speed
        for host in list(free):
            free[host] -= sum(amount * gains[i] for i, amount in on_host[host])
            if free[host] <= _NOTHING_LEFT * capacities[host].flops:
                del free[host]
                growing.difference_update(i for i, _ in on_host[host])
    return rates
