"""Parallel tasks whose rate changes while they run: processors shared with others, or switched to another speed.

A task has an amount of work on each of its hosts and advances on all of them together: its rate is the share of the
whole task done per second. Rates follow the fair sharing of the engine under Batsim: a host's speed is split evenly
among the tasks on it, a task advances as fast as its slowest host lets it, and what it does not use is split again
among the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from pybatsched.simulator.loop import Loop, Process

_NOTHING_LEFT: Final = 1e-9  # of a host's speed, or of a task


class Task:
    """A running task. `seq` is its place in the order of waits."""

    __slots__ = ("_armed", "_is_running", "_left", "_since", "deadline_at", "flops", "process", "rate", "seq")

    def __init__(self, flops: Mapping[int, float], process: Process, seq: int, now: float) -> None:
        self.flops = flops
        self.process = process
        self.seq = seq
        self.rate = 0.0
        self.deadline_at = math.inf
        self._left = 1.0
        self._since = now
        self._armed: set[float] = set()
        self._is_running = True

    def left_at(self, now: float) -> float:
        """Give the share of the task that is not done yet."""
        return max(self._left - self.rate * (now - self._since), 0.0)

    def done_at(self, now: float) -> float:
        """Give the share of the task that is done."""
        return 1.0 - self.left_at(now)

    def is_over(self, now: float) -> bool:
        """Tell whether nothing is left, up to rounding."""
        return self.left_at(now) <= _NOTHING_LEFT

    def go_on(self, rate: float, now: float, loop: Loop) -> None:
        """Advance at another rate from now on, and be woken when that has done the rest."""
        self._left = self.left_at(now)
        self._since = now
        self.rate = rate
        if rate > 0:
            self.arm(now + self._left / rate, loop)

    def arm(self, at: float, loop: Loop) -> None:
        """Be woken at an instant."""
        if at not in self._armed and at < math.inf:
            self._armed.add(at)
            loop.wake_at(self._alarm(loop), at, self.seq)

    def stop(self) -> None:
        """Hear no alarm any more: the process may be waiting for something else by then."""
        self._is_running = False

    def _alarm(self, loop: Loop) -> Process:
        if self._is_running:
            loop.resume(self.process)
        yield from ()


class Tasks:
    """All running parallel tasks.

    When one begins or ends, or a speed changes, the tasks that share hosts with it, directly or through others, get new
    rates: O(hosts of these tasks) per round of sharing. `on_loads` hears which hosts are used to another degree.
    """

    def __init__(
        self, loop: Loop, speed_of: Callable[[int], float], on_loads: Callable[[Iterable[int], float], None]
    ) -> None:
        self._loop = loop
        self._speed_of = speed_of
        self._on_loads = on_loads
        self._on_host: dict[int, dict[Task, None]] = {}

    def begin(self, flops: Mapping[int, float], process: Process) -> Task:
        """Start a task."""
        task = Task(flops, process, self._loop.begin_wait(), self._loop.now)
        for host in flops:
            self._on_host.setdefault(host, {})[task] = None
        self.share_anew(flops)
        return task

    def end(self, task: Task) -> None:
        """Take a task away, done or not."""
        task.stop()
        for host in task.flops:
            del self._on_host[host][task]
        self.share_anew(task.flops)

    def ending_hosts(self) -> set[int]:
        """Give the hosts with a task that has nothing left to do or no time left to do it. O(running tasks)."""
        now = self._loop.now
        tasks = {task: None for on_host in self._on_host.values() for task in on_host}
        return {host for task in tasks if task.is_over(now) or now >= task.deadline_at for host in task.flops}

    def load_of(self, host: int) -> float:
        """Give the share of a host's speed that is in use, from 0 to 1."""
        used = sum(task.rate * task.flops[host] for task in self._on_host.get(host, ()) if task.flops[host] > 0)
        return min(used / self._speed_of(host), 1.0)

    def share_anew(self, hosts: Iterable[int]) -> None:
        """Compute the rates of all tasks that these hosts concern. A task whose rate stays keeps its waking time."""
        now = self._loop.now
        tasks, touched = self._concerned(hosts)
        for task, rate in zip(tasks, fair_rates([task.flops for task in tasks], self._speed_of), strict=True):
            if rate != task.rate:
                task.go_on(rate, now, self._loop)
        self._on_loads(touched, now)

    def _concerned(self, hosts: Iterable[int]) -> tuple[list[Task], list[int]]:
        seen: dict[Task, None] = {}
        touched = dict.fromkeys(hosts)
        open_hosts = list(touched)
        while open_hosts:
            for task in self._on_host.get(open_hosts.pop(), ()):
                if task not in seen:
                    seen[task] = None
                    for host in task.flops:
                        if host not in touched:
                            touched[host] = None
                            open_hosts.append(host)
        return sorted(seen, key=lambda task: task.seq), list(touched)


def fair_rates(tasks: Sequence[Mapping[int, float]], speed_of: Callable[[int], float]) -> list[float]:
    """Give each task's rate: hosts split evenly, tasks as fast as their slowest host, leftovers split again.

    >>> fair_rates([{0: 10.0}, {0: 10.0, 1: 10.0}, {1: 5.0}], lambda host: 1.0)
    [0.05, 0.05, 0.1]

    A task without work has an infinite rate. O(rounds * tasks * hosts of a task), with at most one round per host.
    """
    rates = [0.0] * len(tasks)
    works = [{host: amount for host, amount in task.items() if amount > 0} for task in tasks]
    open_tasks = {i for i, work in enumerate(works) if work}
    free: dict[int, float] = {}
    for i, work in enumerate(works):
        if not work:
            rates[i] = math.inf
        for host in work:
            free.setdefault(host, speed_of(host))
    speeds = dict(free)
    while open_tasks:
        n_on: dict[int, int] = {}
        for i in open_tasks:
            for host in works[i]:
                n_on[host] = n_on.get(host, 0) + 1
        more = {i: min(free[host] / n_on[host] / amount for host, amount in works[i].items()) for i in open_tasks}
        for i, gain in more.items():
            rates[i] += gain
            for host, amount in works[i].items():
                free[host] -= amount * gain
        full = {host for host in n_on if free[host] <= _NOTHING_LEFT * speeds[host]}
        open_tasks = {i for i in open_tasks if full.isdisjoint(works[i])}
    return rates
