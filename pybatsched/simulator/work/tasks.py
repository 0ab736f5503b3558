"""Parallel tasks whose rate changes while they run: processors shared with others, or switched to another speed.

A task is a set of executors, each with an amount of work on one host, that advance together. Its rate is the share of
the whole task done per second. Rates follow the fair sharing of SimGrid: the capacity of a host is split evenly among
its executors, and no executor uses more than one core. A task advances as fast as its slowest executor. The remaining
capacity is split again among the tasks that can still be faster.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from pybatsched.simulator.loop import SAME_INSTANT_S, Loop, Process
from pybatsched.simulator.work.sharing import Resource, Sharing, User

#: Executors: (host, flops) each.
Executors: TypeAlias = Sequence[tuple[int, float]]


class Capacity(NamedTuple):
    """The present capacity of a host: flop/s of one core, and the number of cores."""

    speed: float
    n_cores: int = 1

    @property
    def flops(self) -> float:
        """Flop/s of all cores together."""
        return self.speed * self.n_cores


class Task:
    """A running task. `seq` is its position in the order of waits; `due_at` is its end if no rate changes."""

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
        """Return the completed share of the task, from 0 to 1."""
        return 1.0 - self._left_at(now)

    def is_over(self, now: float) -> bool:
        """Return whether all work is done."""
        return now >= self.due_at - SAME_INSTANT_S

    def is_late(self, now: float) -> bool:
        """Return whether the deadline has passed."""
        return now >= self.deadline_at - SAME_INSTANT_S

    def set_rate(self, rate: float, now: float, loop: Loop) -> None:
        """Advance at a new rate from now, and set an alarm for the new end."""
        self._left = self._left_at(now)
        self._since = now
        self.rate = rate
        self.due_at = now + self._left / rate if rate > 0 else math.inf
        self.arm(self.due_at, loop, self.seq)

    def arm(self, at: float, loop: Loop, seq: int) -> None:
        """Set an alarm at an instant, in the position `seq` among the processes that wake then."""
        if at not in self._armed and at < math.inf:
            self._armed.add(at)
            loop.wake_at(self._alarm(loop), at, seq)

    def stop(self) -> None:
        """Ignore later alarms: the process may then wait for something else."""
        self._is_running = False

    def _left_at(self, now: float) -> float:
        return max(self._left - self.rate * (now - self._since), 0.0)

    def _alarm(self, loop: Loop) -> Process:
        if self._is_running:
            loop.resume(self.process)
        yield from ()


class Tasks:
    """All running parallel tasks.

    When a task starts or ends, or a speed changes, the tasks that share hosts with it, directly or through others, get
    new rates: O(executors of these tasks) per round of sharing. `on_loads` is called with the hosts whose load changed.
    `on_read` is called with the hosts whose meters are read: those of an ended task, and that of a new task with a
    single executor.
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
        task = Task(executors, process, self._loop.next_wait(), self._loop.now)
        self._running[task] = None
        for host, _ in executors:
            self._on_host.setdefault(host, {})[task] = None
        if len(executors) == 1:
            self.read_meter(executors[0][0])
        self._report_later(self._share(host for host, _ in executors))
        return task

    def end(self, task: Task) -> None:
        """Remove a task, complete or not."""
        task.stop()
        del self._running[task]
        hosts = dict.fromkeys(host for host, _ in task.executors)
        for host in hosts:
            del self._on_host[host][task]
            if not self._on_host[host]:
                del self._on_host[host]
        touched = self._share(hosts)
        self._on_read(hosts, self._loop.now)
        self._report_later([host for host in touched if host not in hosts])

    def read_meter(self, host: int) -> None:
        """Read the meter of a host on which work without a task starts or ends."""
        self._on_read((host,), self._loop.now)

    def _report_later(self, hosts: list[int]) -> None:
        """Report loads after all processes of this instant have resumed: SimGrid does not know them earlier."""
        if hosts:
            self._loop.spawn(self._report(hosts))

    def _report(self, hosts: list[int]) -> Process:
        self._on_loads(hosts, self._loop.now)
        yield from ()

    def ending_hosts(self) -> set[int]:
        """Return the hosts with a task that is complete or past its deadline. O(running tasks)."""
        now = self._loop.now
        ending = (task for task in self._running if task.is_over(now) or task.is_late(now))
        return {host for task in ending for host, _ in task.executors}

    def load_of(self, host: int) -> float:
        """Return the load of a host, from 0 to 1."""
        used = sum(
            task.rate * amount
            for task in self._on_host.get(host, ())
            for place, amount in task.executors
            if place == host and amount > 0
        )
        return min(used / self._capacity_of(host).flops, 1.0)

    def update_rates(self, hosts: Iterable[int]) -> None:
        """Compute the rates of all tasks that these hosts affect. A task with an unchanged rate keeps its alarm."""
        self._on_loads(self._share(hosts), self._loop.now)

    def _share(self, hosts: Iterable[int]) -> list[int]:
        """Compute the rates, and return all hosts whose load may have changed."""
        now = self._loop.now
        tasks, touched = self._affected(hosts)
        rates = fair_rates([task.executors for task in tasks], self._capacity_of)
        for task, rate in zip(tasks, rates, strict=True):
            if rate != task.rate:
                task.set_rate(rate, now, self._loop)
        return touched

    def _affected(self, hosts: Iterable[int]) -> tuple[list[Task], list[int]]:
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
    """Return the rate of each task: hosts split evenly, tasks as fast as their slowest executor, the rest split again.

    >>> fair_rates([[(0, 10.0)], [(0, 10.0), (1, 10.0)], [(1, 5.0)]], lambda host: Capacity(1.0))
    [0.05, 0.05, 0.1]

    A task without work has an infinite rate. `pybatsched.simulator.work.sharing` has the rules and the cost.
    """
    hosts: dict[int, Resource] = {}
    sharing = Sharing()
    users = []
    for executors in tasks:
        needs = []
        bound = math.inf
        for host, amount in executors:
            if amount > 0:
                capacity = capacity_of(host)
                if host not in hosts:
                    hosts[host] = Resource(capacity.flops)
                needs.append((hosts[host], amount))
                bound = min(bound, capacity.speed / amount)
        user = User(needs, bound)
        users.append(user)
        sharing.add(user)
    sharing.solve()
    return [user.rate if user.needs else math.inf for user in users]
